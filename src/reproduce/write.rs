//! The text of the C file.

use crate::fold::{Statement, fold_into_loops, split_words};
use crate::order::StepWaits;
use crate::plan::objects::{VariableId, Variables};
use crate::plan::step::{ExpectedOutcome, Step};
use crate::plan::{Constant, Plan};
use cupeer_record::Process;
use cupeer_spec::record::end::RecordedEnd;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Functions and macros that a file may need, each after a blank line.
const HELPERS: &str = include_str!("helpers.c");
/// Begin of each file, without its head.
const FILE_BEGIN: &str = include_str!("begin.c");
/// The function `main` of each file.
const MAIN_FUNCTION: &str = include_str!("main.c");
/// Largest number of columns of comments and declarations.
const MOST_COLUMNS: usize = 100;

/// Writes the file. `head` has the paragraphs of the comment at its head.
pub fn format_file(head: &[String], processes: &[&Process], plan: &Plan, around: &[StepWaits]) -> String {
    let mut functions = String::new();
    for (number, process) in processes.iter().enumerate() {
        let own = plan.steps.iter().zip(around).filter(|(step, _)| step.process == number);
        let body = format_body(process, own);
        let declared = format_declarations(&plan.variables_by_process[number], &plan.variables, &body);
        let _ = write!(functions, "\nstatic void process{number}(void) {{\n{declared}{body}}}\n");
    }
    functions = format!("{}{functions}", declare_constants(&plan.constants, &functions));
    let names: Vec<String> = (0..processes.len()).map(|number| format!("process{number}")).collect();
    let signals: Vec<String> = processes.iter().map(|process| ending_signal(process).to_string()).collect();
    let main = MAIN_FUNCTION.replace("FUNCTIONS", &names.join(", "));
    let helpers = select_helpers(&format!("{functions}{main}"));
    let begin = FILE_BEGIN.replace("NUMBER", &processes.len().to_string()).replace("SIGNALS", &signals.join(", "));
    format!("{}{begin}{helpers}\n{}\n{main}", format_comment(head), functions.trim_start())
}

fn format_body<'a>(process: &Process, steps: impl Iterator<Item = (&'a Step, &'a StepWaits)>) -> String {
    let line = |text: &String| Statement { text: text.clone(), call_site: 0 };
    let mut lines: Vec<Statement> = first_statements(process).iter().map(line).collect();
    for (step, around) in steps {
        lines.extend(step.setup.iter().chain(&around.before).chain(&step.before).map(line));
        let call = &step.call;
        let text = match &step.expected {
            ExpectedOutcome::Result(result) if step.times > 1 => {
                format!("for (int i = 0; i < {}; i++) expect({call}, {result});", step.times)
            }
            ExpectedOutcome::Result(result) => format!("expect({call}, {result});"),
            ExpectedOutcome::NoReturn => format!("expect_hang({call});"),
            ExpectedOutcome::ProcessEnd => call.clone(),
        };
        lines.extend(Some(Statement { text, call_site: step.call_site }).filter(|line| !line.text.is_empty()));
        lines.extend(around.after.iter().chain(&step.after).map(line));
    }
    fold_into_loops(lines).iter().fold(String::new(), |body, line| body + "    " + line + "\n")
}

/// Returns the statements before the first step of a process.
fn first_statements(process: &Process) -> Vec<String> {
    let is_plain = |value: &&str| value.bytes().all(|byte| byte.is_ascii_digit() || byte == b',');
    let visible = process.variable("CUDA_VISIBLE_DEVICES").filter(is_plain);
    let visible = visible.map(|value| format!("setenv(\"CUDA_VISIBLE_DEVICES\", \"{value}\", 1);"));
    let forked = process.forked.as_ref().map(|_| "fork_after_init();".to_owned());
    let rank = process.rank().map(|rank| format!("setenv(\"RANK\", \"{rank}\", 1);"));
    visible.into_iter().chain(rank).chain(forked).collect()
}

/// Returns the signal that ended a process; 0 if none did.
fn ending_signal(process: &Process) -> u8 {
    if let RecordedEnd::Signal(signal) = process.end() { signal } else { 0 }
}

/// Returns the declarations of the variables that a text names.
fn format_declarations(of: &BTreeSet<VariableId>, variables: &Variables, body: &str) -> String {
    let words: BTreeSet<&str> = split_words(body).collect();
    let mut by_type: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for variable in of.iter().map(|id| variables.get(*id)).filter(|variable| words.contains(&*variable.name)) {
        let name = &variable.name;
        by_type.entry(&variable.c_type).or_default().push(match (variable.elements, &*variable.c_type) {
            (Some(elements), _) => format!("{name}[{elements}] = {{0}},"),
            (None, c_type) if is_structure_type(c_type) => format!("{name} = {{0}},"),
            (None, "int") => format!("{name} = -1,"),
            (None, _) => format!("{name} = 0,"),
        });
    }
    let declare = |(c_type, names): (&str, Vec<String>)| {
        let lines = wrap_words(&format!("    {c_type}"), "        ", names.iter().map(String::as_str)).join("\n");
        format!("{};\n", lines.trim_end_matches(','))
    };
    by_type.into_iter().map(declare).collect()
}

/// Returns the declarations of the structures that a text names.
fn declare_constants(constants: &[Constant], text: &str) -> String {
    let words: BTreeSet<&str> = split_words(text).collect();
    let used = constants.iter().filter(|constant| words.contains(&*constant.name));
    let declare = |Constant { name, c_type, brackets, initializer }: &Constant| {
        format!("static {c_type} {name}{brackets} = {initializer};\n")
    };
    used.map(declare).collect()
}

/// Returns true for the types of handles that are bytes, and for properties.
fn is_structure_type(c_type: &str) -> bool {
    ["Handle", "Data", "Prop", "Props", "Location"].iter().any(|end| c_type.ends_with(end))
        && c_type != "CUmemGenericAllocationHandle"
}

/// Returns the helpers that a text needs, directly or through other helpers, which come before them.
fn select_helpers(text: &str) -> String {
    let mut needed: BTreeSet<&str> = split_words(text).collect();
    let mut kept = Vec::new();
    for helper in HELPERS.split("\n\n").collect::<Vec<_>>().into_iter().rev() {
        if needed.contains(defined_name(helper)) {
            needed.extend(split_words(helper));
            kept.push(helper.trim_end());
        }
    }
    kept.iter().rev().fold(String::new(), |text, helper| text + "\n" + helper + "\n")
}

/// Returns the name that a helper defines.
fn defined_name(helper: &str) -> &str {
    let line = helper.lines().find(|line| !line.starts_with("/*")).unwrap_or_default();
    let line = line.strip_prefix("#define ").unwrap_or(line);
    let end = line.find(['(', '{']).unwrap_or(line.len());
    split_words(&line[..end]).last().unwrap_or_default()
}

/// Wraps paragraphs as a comment.
fn format_comment(paragraphs: &[String]) -> String {
    let wrap = |paragraph: &String| wrap_words("", "  ", paragraph.replace("*/", "* /").split(' '));
    let lines: Vec<String> = paragraphs.iter().flat_map(wrap).collect();
    format!("/* {}\n */\n", lines.join("\n * ").replace(" \n", "\n"))
}

/// Breaks words into lines of at most [`MOST_COLUMNS`] columns: the first one begins with `begin`, the others with `indent`.
fn wrap_words<'a>(begin: &str, indent: &str, words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lines = vec![begin.to_owned()];
    for word in words {
        match lines.last_mut().filter(|line| line.len() + word.len() < MOST_COLUMNS) {
            Some(line) if line.is_empty() => *line = word.to_owned(),
            Some(line) => _ = write!(line, " {word}"),
            None => lines.push(format!("{indent}{word}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_helper_is_known_by_its_name() {
        let names: Vec<&str> = HELPERS.split("\n\n").map(defined_name).collect();
        for name in
            ["MiB", "check", "expect", "must", "message", "prepare_message", "tell", "wait_for_end", "create_context"]
        {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        assert!(!names.contains(&""), "{names:?}");
    }

    #[test]
    fn only_needed_helpers_are_written() {
        let text = select_helpers("tell(1);");
        assert!(text.contains("send_bytes") && text.contains("give_up") && !text.contains("receive"), "{text}");
    }

    #[test]
    fn comments_are_wrapped_and_cannot_be_ended() {
        let text = format_comment(&["a */ b".to_owned(), "word ".repeat(40).trim_end().to_owned()]);
        assert!(text.starts_with("/* a * / b\n * word") && text.ends_with("word\n */\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= MOST_COLUMNS + 4), "{text}");
    }
}
