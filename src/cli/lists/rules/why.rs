//! Why functions return a result: the rules that it tells of, and the causes that no rule decides.

use cupeer_rules::{RULES, RuleSpec, causes};
use cupeer_spec::function::{FUNCTIONS, FnId, FnSpec};
use cupeer_spec::results::{RESULTS, Result, ResultSpec};
use cupeer_views::table::{Table, wrap};

/// Reasons why some functions return a result; all of these functions have the same reasons.
pub struct ResultReasons {
    pub functions: Vec<&'static str>,
    pub is_documented: bool,
    /// Causes of the result, the likelier ones first, each with the rule that detects it, if any.
    pub causes: Vec<(Option<&'static RuleSpec>, &'static str)>,
}

pub fn reasons_for_result(result: &ResultSpec) -> Vec<ResultReasons> {
    let mut all: Vec<ResultReasons> = Vec::new();
    for id in FnId::all().filter(|id| id.spec().library == result.library) {
        let function = id.spec();
        let causes = causes_of(id, result.number);
        if causes.is_empty() {
            continue;
        }
        let is_documented = function.results().contains(&result.number);
        let same = |known: &&mut ResultReasons| {
            let names = |causes: &[(Option<&RuleSpec>, &'static str)]| {
                causes.iter().map(|(rule, text)| (rule.map(|rule| rule.name()), *text)).collect::<Vec<_>>()
            };
            known.is_documented == is_documented && names(&known.causes) == names(&causes)
        };
        match all.iter_mut().find(same) {
            Some(known) => known.functions.push(function.name()),
            None => all.push(ResultReasons { functions: vec![function.name()], is_documented, causes }),
        }
    }
    all
}

fn causes_of(function: FnId, result: i32) -> Vec<(Option<&'static RuleSpec>, &'static str)> {
    if !is_returned(function, result) {
        return Vec::new();
    }
    let broken = RULES.iter().filter(|rule| rule.explains(function, result));
    let broken = broken.map(|rule| (Some(rule), rule.cause()));
    broken.chain(causes(function, result).map(|cause| (None, cause.text))).collect()
}

/// Returns the table of a function's results that no broken rule explains, with their causes.
pub fn causes_without_rule(function: &FnSpec) -> Table {
    let mut table = Table::new(&["RESULT", "CAUSE THAT NO RULE DECIDES"], 2, 30).with_last_below();
    for id in FnId::all().filter(|id| id.spec().name() == function.name()) {
        for result in RESULTS.iter().filter(|result| result.library == function.library) {
            for cause in causes(id, result.number) {
                table.push_row([result.short_name().into(), cause.text.into()]);
            }
        }
    }
    table
}

/// Returns true if a function is known to return a result: a rule with several functions lists the results of all of them, so
/// the function's own documentation must list the result, or a real driver must have returned it.
fn is_returned(function: FnId, result: i32) -> bool {
    let listed = |known: &Result| function.spec().results().contains(&(*known as i32));
    let is_listed = function.spec().failures().any(|known| known == result);
    let tells = |rule: &RuleSpec| rule.explains(function, result) && !rule.results().iter().any(listed);
    is_listed || causes(function, result).next().is_some() || RULES.iter().any(tells)
}

pub fn documenting_functions(result: &ResultSpec) -> impl Iterator<Item = &'static FnSpec> {
    let lists = |function: &&FnSpec| function.library == result.library && function.results().contains(&result.number);
    FUNCTIONS.iter().filter(lists)
}

/// Returns the functions for which real drivers were seen to return a result that the documentation of the function does not
/// list.
pub fn functions_observed_with(result: &ResultSpec) -> impl Iterator<Item = &'static FnSpec> {
    let is_seen =
        |function: &&FnSpec| function.library == result.library && function.is_undocumented_result(result.number);
    FUNCTIONS.iter().filter(is_seen)
}

impl ResultReasons {
    /// Returns the functions as the start of a sentence that ends with the causes.
    pub fn sentence_start(&self) -> String {
        let (last, others) = self.functions.split_last().unwrap_or((&"", &[]));
        let (names, verb) = match others {
            [] => ((*last).to_owned(), "returns"),
            _ => (format!("{} and {last}", others.join(", ")), "return"),
        };
        let undocumented = if self.is_documented { "" } else { ", though the documentation does not list it," };
        format!("{names} {verb} it{undocumented} if")
    }

    pub fn render(&self, width: usize) -> String {
        let mut table = Table::new(&["RULE", "CAUSE"], 2, 20).with_last_below();
        for (rule, text) in &self.causes {
            table.push_row([rule.map_or("-", |rule| rule.name()).into(), (*text).into()]);
        }
        format!("{}\n{}", wrap(&self.sentence_start(), width).join("\n"), table.render(width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::results::parse_result_code;

    #[test]
    fn versions_of_a_function_have_one_explanation() {
        let all = reasons_for_result(parse_result_code("INVALID_VALUE").unwrap());
        let open = all.iter().find(|why| why.functions.contains(&"cuIpcOpenMemHandle_v2")).unwrap();
        assert!(open.functions.contains(&"cuIpcOpenMemHandle"), "{}", open.sentence_start());
        let rules: Vec<&str> = open.causes.iter().filter_map(|(rule, _)| Some(rule.as_ref()?.name())).collect();
        assert!(rules.contains(&"ipc-flags") && rules.len() < open.causes.len(), "{rules:?}");
    }

    #[test]
    fn a_rule_of_many_functions_claims_no_result_for_those_that_document_another() {
        let functions = |code| {
            reasons_for_result(parse_result_code(code).unwrap())
                .into_iter()
                .flat_map(|why| why.functions)
                .collect::<Vec<_>>()
        };
        let apart = functions("PEER_ACCESS_UNSUPPORTED");
        // Real drivers return it, although the documentation does not list it.
        assert!(apart.contains(&"cuIpcOpenMemHandle_v2") && !apart.contains(&"cuDeviceGetP2PAttribute"), "{apart:?}");
        assert!(functions("NOT_INITIALIZED").contains(&"cuIpcGetMemHandle"));
    }

    #[test]
    fn a_result_that_the_documentation_does_not_list_is_said_to_be_so() {
        let why = |functions: &[&'static str], is_documented| {
            ResultReasons { functions: functions.into(), is_documented, causes: Vec::new() }.sentence_start()
        };
        assert_eq!(why(&["a"], true), "a returns it if");
        assert_eq!(why(&["a", "b", "c"], false), "a, b and c return it, though the documentation does not list it, if");
    }
}
