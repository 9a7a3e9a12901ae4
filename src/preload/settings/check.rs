//! The settings of the checks: the rules, the findings that are reported, and those that stop the program.

use super::{read, read_text, usable_value};
use cupeer_rules::{ErrorChoice, RuleSet, Severity};
use cupeer_spec::env::{self, CheckLevel};

#[derive(Debug)]
pub struct Check {
    /// Least severity of the findings that are printed, and the form in which they are printed. All findings are recorded.
    pub level: CheckLevel,
    /// The rules that are not checked, even if `only` has them.
    pub ignore: RuleSet,
    /// The only rules that are checked; `None` for all.
    pub only: Option<RuleSet>,
    /// Findings that are printed as errors; `None` to use the severity of each rule.
    pub error_on: Option<ErrorChoice>,
    /// Rules whose findings end the program with SIGABRT.
    pub abort_on: RuleSet,
    /// Rules whose findings stop the program for a debugger.
    pub stop_on: RuleSet,
}

impl Check {
    /// Reads the settings from environment variables. Returns `None` without a record: nothing is checked then, because findings
    /// and the live table are in the directory of the record.
    pub(super) fn from_environment(has_record: bool, complaints: &mut Vec<String>) -> Option<Check> {
        usable_value(env::CHECK)?;
        let level = read(complaints, env::CHECK, "using warnings", |level| {
            let level = level.to_str().ok().and_then(CheckLevel::parse);
            level.ok_or("must be brief, errors, warnings, notes, full or off")
        });
        let level = level.unwrap_or(Some(CheckLevel { severity: Severity::Warning, is_brief: false }))?;
        if !has_record {
            complaints.push(without_record(usable_value(env::OUT).is_some()));
            return None;
        }
        let otherwise = "each finding has the severity of its rule";
        let error_on = read_text(complaints, env::ERROR_ON, otherwise, ErrorChoice::parse);
        let mut set = |name, otherwise| read_text(complaints, name, otherwise, RuleSet::parse);
        Some(Check {
            level,
            ignore: set(env::IGNORE, "nothing is ignored").unwrap_or_default(),
            only: set(env::ONLY, "all rules are checked"),
            error_on,
            abort_on: set(env::ABORT_ON, "nothing aborts the program").unwrap_or_default(),
            stop_on: set(env::STOP_ON, "nothing stops the program").unwrap_or_default(),
        })
    }
}

fn without_record(has_directory: bool) -> String {
    let (check, out, record) = (env::CHECK, env::OUT, env::RECORD);
    let why = if has_directory {
        format!("{record}=off leaves no recording")
    } else {
        "it names the recording that findings go into".to_owned()
    };
    format!("{check} needs {out}: {why}; nothing is checked")
}
