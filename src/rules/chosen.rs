//! The findings that count as errors: `ipc-*,peer-flags@libnccl*,warning`, as `--error-on` has them.
//!
//! The library and the report decide with it how severe a finding is, so that messages, reports, and exit statuses agree.

use crate::rule::Rule;
use crate::set::RuleSet;
use cupeer_spec::names::TextError;
use cupeer_spec::record::slot::finding::Severity;

/// Choice of the findings that count as errors. All other findings are at most warnings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ErrorChoice {
    /// Least severity at which a finding counts as an error; `None` if severity does not matter.
    least_severity: Option<Severity>,
    /// Rules whose findings count as errors.
    rules: Vec<RuleSet>,
}

impl ErrorChoice {
    /// Reads a choice: rules as in a [`RuleSet`], a severity, which means that and above, or `all`; separated by commas.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let mut chosen = ErrorChoice::default();
        let mut column = 1;
        for item in text.split(',') {
            let severity = if item == "all" { Some(Severity::Note) } else { Severity::from_word(item) };
            match severity {
                Some(severity) => {
                    chosen.least_severity = Some(chosen.least_severity.map_or(severity, |least| least.min(severity)));
                }
                None => {
                    let rules = RuleSet::parse(item);
                    chosen.rules.push(
                        rules
                            .map_err(|error| TextError { column: column + error.column - 1, message: error.message })?,
                    );
                }
            }
            column += item.len() + 1;
        }
        Ok(chosen)
    }

    /// Returns the severity with which a finding counts. `rule` is `None` for a rule of another version of
    /// cupeer, `library` is the path of the calling library, and `severity` is the severity of the finding
    /// itself.
    pub fn counted_severity(&self, rule: Option<Rule>, library: &[u8], severity: Severity) -> Severity {
        let is_of_rules = || rule.is_some_and(|rule| self.rules.iter().any(|set| set.contains(rule, library)));
        match self.least_severity.is_some_and(|least| severity >= least) || is_of_rules() {
            true => Severity::Error,
            false => severity.min(Severity::Warning),
        }
    }

    /// Returns true if all warnings and errors count as errors.
    pub fn has_warnings_as_errors(&self) -> bool {
        self.least_severity.is_some_and(|least| least <= Severity::Warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chosen_rules_are_errors() {
        let severities = |text| {
            let chosen = ErrorChoice::parse(text).unwrap();
            Severity::ALL.map(|severity| chosen.counted_severity(Some(Rule::IpcFlags), b"/lib/a.so", severity).word())
        };
        assert_eq!(severities("ipc-flags"), ["error"; 3]);
        assert_eq!(severities("peer-*,ipc-f*"), ["error"; 3]);
        assert_eq!(severities("peer-flags"), ["note", "warning", "warning"]);
        assert_eq!(severities("ipc-flags@b*"), ["note", "warning", "warning"]);
        assert_eq!(severities("error"), ["note", "warning", "error"]);
        assert_eq!(severities("error,warning"), ["note", "error", "error"]);
        assert_eq!(severities("all"), ["error"; 3]);
        let of_tomorrow = ErrorChoice::parse("ipc-flags").unwrap().counted_severity(None, b"", Severity::Error);
        assert_eq!(of_tomorrow, Severity::Warning);
    }

    #[test]
    fn an_error_is_where_it_is_in_the_whole() {
        assert_eq!(ErrorChoice::parse("error,ipc-flagz").unwrap_err().column, 7);
        assert!(ErrorChoice::parse("").is_err());
    }

    #[test]
    fn all_warnings_are_those_of_a_severity() {
        let has = |text| ErrorChoice::parse(text).unwrap().has_warnings_as_errors();
        assert_eq!(["all", "error,note", "warning", "error", "*"].map(has), [true, true, true, false, false]);
    }
}
