//! `cupeer reproduce --shrink`: removes processes, calls, repetitions, and sizes while the program still shows the same thing.
//!
//! Delta debugging: parts of the plan are left out, first large ones, then single statements, and the program runs without them. A
//! part whose absence keeps the goal, adds no finding, and adds no difference to the recording is gone for good.

use crate::fold::split_words;
use crate::head::ShrunkFrom;
use crate::plan::step::{ExpectedOutcome, Step};
use crate::program::Reproduction;
use crate::trial::{Observed, TrialRunner, finding_key};
use anyhow::{Result, bail};
use cupeer_console::output;
use cupeer_console::progress::StepAnnouncer;
use cupeer_report::names::counted;
use std::collections::BTreeSet;

/// The thing that must stay.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Goal {
    /// A finding: the rule, and the function of its call.
    Finding(String, String),
    /// A call with this text and recorded end.
    Call(String, ExpectedOutcome),
    /// A line about a difference to the recording.
    Difference(String),
}

/// A statement that can be left out, with its process.
#[derive(Clone)]
struct Part {
    process: usize,
    statement: Statement,
}

#[derive(Clone)]
enum Statement {
    Setup(String),
    Before(String),
    /// A step without the statements around it.
    Call(Step),
    After(String),
}

impl Part {
    fn text(&self) -> &str {
        match &self.statement {
            Statement::Setup(text) | Statement::Before(text) | Statement::After(text) => text,
            Statement::Call(step) => &step.call,
        }
    }

    fn is_end(&self) -> bool {
        matches!(&self.statement, Statement::Call(step) if step.expected == ExpectedOutcome::ProcessEnd)
    }

    /// Returns the variables that the statement gives a value.
    fn defined(&self) -> impl Iterator<Item = &str> {
        let text = self.text();
        let addresses = text.split('&').skip(1).filter_map(|rest| split_words(rest).next());
        addresses.chain(text.split_once(" = ").and_then(|(name, _)| split_words(name).last()))
    }
}

/// Shrinks the program. `observed` is what a run of the whole one shows. Returns without an error if the command was interrupted.
pub fn shrink(reproduction: &mut Reproduction, mut runner: TrialRunner, observed: Observed) -> Result<()> {
    let Some(goal) = choose_goal(reproduction, &observed) else {
        bail!(
            "the C program shows no finding, failure, hang, or other difference that could be kept; without --shrink, it is written"
        );
    };
    let before = reproduction.plan.call_count();
    let parts = split_steps(&reproduction.plan.steps);
    let mut shrinker = Shrinker {
        reproduction,
        runner: &mut runner,
        goal,
        observed,
        announcer: StepAnnouncer::new(),
        parts,
        is_stopped: false,
    };
    shrinker.run()?;
    let (goal, is_stopped) = (shrinker.goal.describe(), shrinker.is_stopped);
    let stopped = if is_stopped { "; it was interrupted, and could become smaller" } else { "" };
    let after = reproduction.plan.call_count();
    output::print_note(&format!(
        "kept {goal} with {after} of {before} calls after {}{stopped}",
        counted(runner.count as u64, "run")
    ));
    reproduction.shrunk_from = Some(ShrunkFrom { goal, calls: before });
    Ok(())
}

/// Chooses the first of these that the program shows: an error or warning, a hang, a failure, a note, a difference.
fn choose_goal(reproduction: &Reproduction, observed: &Observed) -> Option<Goal> {
    let steps = &reproduction.plan.steps;
    let finding = |is_note: bool| {
        let mut findings = reproduction.report.findings.iter();
        let shown = findings.find(|finding| {
            (finding.severity == "note") == is_note && observed.findings.contains(&finding_key(finding))
        });
        shown.map(finding_key).map(|(rule, function)| Goal::Finding(rule, function))
    };
    // A process that ended too early may not have made the call.
    let is_shown = |call: &str| {
        let mut differences = observed.differences.iter();
        !differences.any(|difference| difference.starts_with(call) || difference.starts_with("process "))
    };
    let call = |matches: &dyn Fn(&ExpectedOutcome) -> bool| {
        let step = steps.iter().find(|step| matches(&step.expected) && is_shown(&step.call));
        step.map(|step| Goal::Call(step.call.clone(), step.expected.clone()))
    };
    let is_failure = |end: &ExpectedOutcome| matches!(end, ExpectedOutcome::Result(result) if result != "CUDA_SUCCESS");
    finding(false)
        .or_else(|| call(&|end| *end == ExpectedOutcome::NoReturn))
        .or_else(|| call(&is_failure))
        .or_else(|| finding(true))
        .or_else(|| observed.differences.first().cloned().map(Goal::Difference))
}

impl Goal {
    fn describe(&self) -> String {
        match self {
            Goal::Finding(rule, function) => format!("the finding {rule} of {function}"),
            Goal::Call(call, ExpectedOutcome::Result(result)) => format!("{result} of {call}"),
            Goal::Call(call, _) => format!("the hang of {call}"),
            Goal::Difference(line) => format!("the difference: {line}"),
        }
    }
}

struct Shrinker<'a, 'b> {
    reproduction: &'a mut Reproduction<'b>,
    runner: &'a mut TrialRunner,
    goal: Goal,
    /// The observations of the whole program.
    observed: Observed,
    announcer: StepAnnouncer,
    /// The statements of the smallest program so far.
    parts: Vec<Part>,
    is_stopped: bool,
}

impl Shrinker<'_, '_> {
    fn run(&mut self) -> Result<()> {
        loop {
            let size = self.parts.len();
            self.remove_processes()?;
            self.remove_statements()?;
            if self.is_stopped || self.parts.len() == size {
                break;
            }
        }
        self.lower_repetitions()?;
        self.lower_sizes()?;
        let parts = std::mem::take(&mut self.parts);
        self.reproduction.plan.steps = join_parts(parts);
        Ok(())
    }

    fn remove_processes(&mut self) -> Result<()> {
        let processes: BTreeSet<usize> = self.parts.iter().map(|part| part.process).collect();
        for process in processes.into_iter().rev() {
            let removed = self.parts.iter().map(|part| part.process == process).collect();
            self.try_without(removed)?;
        }
        Ok(())
    }

    /// Removes halves, quarters, and so on down to single statements, from the end to the begin.
    fn remove_statements(&mut self) -> Result<()> {
        let mut length = self.parts.len() / 2;
        while length > 0 {
            let mut end = self.parts.len();
            while end > 0 && !self.is_stopped {
                let start = end.saturating_sub(length);
                let removed =
                    (0..self.parts.len()).map(|index| (start..end).contains(&index) && !self.parts[index].is_end());
                self.try_without(removed.collect())?;
                end = start.min(self.parts.len());
            }
            length /= 2;
        }
        Ok(())
    }

    fn lower_repetitions(&mut self) -> Result<()> {
        for index in 0..self.parts.len() {
            let mut parts = self.parts.clone();
            if let Statement::Call(step) = &mut parts[index].statement
                && step.times > 1
            {
                step.times = 1;
                self.try_parts(parts)?;
            }
        }
        Ok(())
    }

    /// Replaces each size of several MiB by the smallest one of virtual memory.
    fn lower_sizes(&mut self) -> Result<()> {
        let sizes: BTreeSet<String> = self.parts.iter().flat_map(|part| sizes_in(part.text())).collect();
        for size in sizes {
            let mut parts = self.parts.clone();
            for part in &mut parts {
                part.replace(&size, "2 * MiB");
            }
            self.try_parts(parts)?;
        }
        Ok(())
    }

    /// Tries the program without these parts, and without those that need a variable of theirs.
    fn try_without(&mut self, mut removed: Vec<bool>) -> Result<()> {
        add_dependents(&self.parts, &mut removed);
        if !removed.contains(&true) {
            return Ok(());
        }
        let kept = self.parts.iter().zip(&removed).filter(|(_, removed)| !**removed).map(|(part, _)| part.clone());
        self.try_parts(kept.collect())
    }

    /// Keeps these parts if the program still shows the goal with them.
    fn try_parts(&mut self, parts: Vec<Part>) -> Result<()> {
        if self.is_stopped {
            return Ok(());
        }
        let steps = join_parts(parts.clone());
        if let Goal::Call(call, expected) = &self.goal
            && !steps.iter().any(|step| step.call == *call && step.expected == *expected)
        {
            return Ok(());
        }
        let whole = std::mem::replace(&mut self.reproduction.plan.steps, steps);
        let calls = counted(self.reproduction.plan.call_count() as u64, "call");
        self.announcer.announce_step(&format!("run {} with {calls}", self.runner.count + 1));
        let text = self.reproduction.format();
        self.reproduction.plan.steps = whole;
        match self.runner.run(&text)? {
            None => self.is_stopped = true,
            Some(observed) if self.is_as_good(&observed) => self.parts = parts,
            Some(_) => {}
        }
        Ok(())
    }

    fn is_as_good(&self, observed: &Observed) -> bool {
        let shows_goal = match &self.goal {
            Goal::Finding(rule, function) => observed.findings.contains(&(rule.clone(), function.clone())),
            Goal::Call(..) => true,
            Goal::Difference(line) => observed.differences.contains(line),
        };
        let adds_nothing = observed.findings.is_subset(&self.observed.findings)
            && observed.differences.iter().all(|difference| self.observed.differences.contains(difference));
        shows_goal && adds_nothing
    }
}

impl Part {
    fn replace(&mut self, size: &str, by: &str) {
        let text = match &mut self.statement {
            Statement::Setup(text) | Statement::Before(text) | Statement::After(text) => text,
            Statement::Call(step) => &mut step.call,
        };
        for before in ["(", " "] {
            for after in [",", ")", " "] {
                *text = text.replace(&format!("{before}{size}{after}"), &format!("{before}{by}{after}"));
            }
        }
    }
}

/// Returns the sizes of more than 2 MiB in a statement.
fn sizes_in(text: &str) -> impl Iterator<Item = String> {
    let number = |before: &str| before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok();
    let ends = text.match_indices(" * MiB").filter_map(move |(at, _)| number(&text[..at]));
    ends.filter(|number| *number > 2).map(|number| format!("{number} * MiB"))
}

/// Splits steps into the parts that can be left out one by one.
fn split_steps(steps: &[Step]) -> Vec<Part> {
    let mut parts = Vec::new();
    for step in steps {
        let mut add = |statement| parts.push(Part { process: step.process, statement });
        step.setup.iter().cloned().for_each(|text| add(Statement::Setup(text)));
        step.before.iter().cloned().for_each(|text| add(Statement::Before(text)));
        let call = Step { setup: Vec::new(), before: Vec::new(), after: Vec::new(), ..step.clone() };
        add(Statement::Call(call));
        step.after.iter().cloned().for_each(|text| add(Statement::After(text)));
    }
    parts
}

/// Joins parts to steps. Statements whose call is gone move to the next call of their process.
fn join_parts(parts: Vec<Part>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut pending: Vec<Part> = Vec::new();
    for part in parts {
        match part.statement {
            Statement::Call(mut step) => {
                for waiting in pending.extract_if(.., |waiting| waiting.process == step.process) {
                    match waiting.statement {
                        Statement::Setup(text) => step.setup.push(text),
                        Statement::Before(text) | Statement::After(text) => step.before.push(text),
                        Statement::Call(_) => {}
                    }
                }
                steps.push(step);
            }
            Statement::After(text) => match steps.iter_mut().rev().find(|step| step.process == part.process) {
                Some(step) => step.after.push(text),
                None => pending.push(Part { process: part.process, statement: Statement::After(text) }),
            },
            _ => pending.push(part),
        }
    }
    steps
}

/// Adds the statements that use a variable that no kept statement gives a value.
fn add_dependents(parts: &[Part], removed: &mut [bool]) {
    loop {
        let names = |is_removed: bool| -> BTreeSet<&str> {
            let chosen = parts.iter().zip(&*removed).filter(|(_, removed)| **removed == is_removed);
            chosen.flat_map(|(part, _)| part.defined()).collect()
        };
        let lost: BTreeSet<&str> = names(true).difference(&names(false)).copied().collect();
        let needs = |part: &Part| !part.is_end() && split_words(part.text()).any(|word| lost.contains(word));
        let more: Vec<usize> = (0..parts.len()).filter(|index| !removed[*index] && needs(&parts[*index])).collect();
        if more.is_empty() {
            return;
        }
        more.into_iter().for_each(|index| removed[index] = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(process: usize, call: &str, setup: &[&str]) -> Step {
        let setup = setup.iter().map(|text| (*text).to_owned()).collect();
        let expected = ExpectedOutcome::Result("CUDA_SUCCESS".to_owned());
        Step { process, call: call.to_owned(), setup, times: 1, expected, ..Step::default() }
    }

    #[test]
    fn statements_that_need_a_lost_variable_go_too() {
        let steps = [
            call(0, "cuMemAlloc(&memory1, 4 * MiB)", &["must(cuInit(0));"]),
            call(0, "cuIpcGetMemHandle(&handle1, memory1)", &[]),
            call(1, "cuIpcOpenMemHandle(&memory2, handle1, 1)", &[]),
            call(0, "cuCtxSynchronize()", &[]),
        ];
        let parts = split_steps(&steps);
        let mut removed = vec![false, true, false, false, false];
        add_dependents(&parts, &mut removed);
        assert_eq!(removed, [false, true, true, true, false]);
        let kept: Vec<Part> =
            parts.iter().zip(removed).filter(|(_, removed)| !removed).map(|(part, _)| part.clone()).collect();
        let joined = join_parts(kept);
        assert_eq!(
            (joined.len(), &*joined[0].setup[0], &*joined[0].call),
            (1, "must(cuInit(0));", "cuCtxSynchronize()")
        );
    }

    #[test]
    fn only_whole_sizes_are_replaced() {
        let mut part = split_steps(&[call(0, "cuMemAlloc(&memory14, 14 * MiB)", &[])]).remove(0);
        assert_eq!(sizes_in(part.text()).collect::<Vec<_>>(), ["14 * MiB"]);
        part.replace("4 * MiB", "2 * MiB");
        assert_eq!(part.text(), "cuMemAlloc(&memory14, 14 * MiB)");
        part.replace("14 * MiB", "2 * MiB");
        assert_eq!(part.text(), "cuMemAlloc(&memory14, 2 * MiB)");
    }
}
