//! Fault plans: the options and files become one text, which every process of the job reads.
//!
//! What belongs here: what the text is made of, and what is refused before anything starts. What a rule means is
//! `cupeer_spec::fault`'s.

mod files;

use crate::args::InjectArgs;
use anyhow::{Context, Result, bail, ensure};
use cupeer_console::output::{self, CommandFailure};
use cupeer_console::status;
use cupeer_console::variables::nonempty_variable;
use cupeer_recordings::job::random_bytes;
use cupeer_report::terminal::clean;
use cupeer_spec::env;
use cupeer_spec::fault::{FaultPlan, LONGEST_NAME, PlanError, PlannedFault, is_fault_name};
use cupeer_spec::selector::explain_error;
use std::collections::HashMap;
use std::ffi::OsString;

/// Name of the plan that `--inject` makes.
const COMMAND_LINE: &str = "inject";
/// Maximum length of a plan's name in bytes. The names of its faults are longer, as they begin with it.
const LONGEST_PLAN: usize = 40;
/// Maximum length in bytes of the text for the processes: a variable can hold 128 KiB.
const LONGEST_TEXT: usize = 100 << 10;
/// Maximum number of characters of a plan that a message repeats; the rest is cut off.
const MOST_SHOWN: usize = 70;

#[derive(Default)]
pub struct FaultSettings {
    pub variables: Vec<(&'static str, OsString)>,
    /// Random seed of the plans, if no option gave a seed.
    pub drawn_seed: Option<u64>,
}

/// All rules that were read, and the number of rules of each plan.
#[derive(Default)]
struct CollectedRules {
    plan: FaultPlan,
    counts: HashMap<String, usize>,
}

impl CollectedRules {
    fn add_plan(&mut self, plan: &str, text: &str) -> Result<usize, PlanError> {
        let count = self.counts.entry(plan.to_owned()).or_default();
        let added = self.plan.add_parsed(plan, *count, text)?;
        *count += added;
        Ok(added)
    }
}

/// Returns the plan for a job that is running: its faults, which are named after the plan, and the seed for their random
/// choices.
pub fn read_plan(options: &InjectArgs, name: impl FnOnce() -> String) -> Result<(Vec<PlannedFault>, u64)> {
    let mut rules = read_rules(options)?.plan.rules;
    if rules.is_empty() {
        return Ok((rules, 0));
    }
    let (name, unnamed) = (name(), format!("{COMMAND_LINE}/"));
    for rule in &mut rules {
        if let Some(own) = rule.name.strip_prefix(&unnamed) {
            rule.name = format!("{name}/{own}");
        }
    }
    let seed = if rules.iter().any(PlannedFault::is_random) { options.seed.map_or_else(random_seed, Ok)? } else { 0 };
    Ok((rules, seed))
}

/// Reads the fault plans of the options, and of the files that the options name.
fn read_rules(options: &InjectArgs) -> Result<CollectedRules> {
    let mut rules = CollectedRules::default();
    for text in &options.inject {
        match rules.add_plan(COMMAND_LINE, text) {
            Ok(0) => bail!("--inject '{}': it contains no fault", shorten_for_message(text)),
            Ok(_) => output::explain_runtime_names(text),
            Err(error) => return Err(parse_failure(text, &error).into()),
        }
    }
    files::read_plan_files(&options.inject_file, &mut rules)?;
    Ok(rules)
}

pub fn read_faults(options: &InjectArgs) -> Result<FaultSettings> {
    let rules = read_rules(options)?;
    let mut faults = FaultSettings::default();
    if rules.plan.rules.is_empty() {
        check_without_plan(options)?;
    } else {
        let (text, drawn_seed) = text_with_seeds(&rules.plan, options.seed)?;
        faults = FaultSettings { variables: vec![(env::INJECT, text.into())], drawn_seed };
    }
    if options.allow_faults {
        faults.variables.push((env::ALLOW_FAULTS, "1".into()));
    }
    if options.dry_run {
        faults.variables.push((env::DRY_RUN, "1".into()));
    }
    Ok(faults)
}

fn check_without_plan(options: &InjectArgs) -> Result<()> {
    let add = "but there is none; add --inject or --inject-file";
    let has_plan = nonempty_variable(env::INJECT).is_some();
    ensure!(!options.dry_run || has_plan, "--dry-run tries fault plans, {add}");
    ensure!(options.seed.is_none(), "--seed is for fault plans, {add}");
    Ok(())
}

/// Returns the text for the library: each rule with its full name and, if the rule makes random choices, a seed. Also returns
/// the seed if it was drawn at random.
fn text_with_seeds(plan: &FaultPlan, seed: Option<u64>) -> Result<(String, Option<u64>)> {
    let needs_one = plan.rules.iter().any(|rule| rule.is_random() && !rule.has_clause("seed"));
    let drawn = if needs_one && seed.is_none() { Some(random_seed()?) } else { None };
    let seed = seed.or(drawn).unwrap_or_default();
    let rules: Vec<String> = plan.rules.iter().map(|rule| rule.self_contained_text(seed)).collect();
    let text = rules.join(";");
    if text.len() > LONGEST_TEXT {
        bail!(
            "the fault plans are {} KiB long with the names of their faults, but only {} KiB can be handed to a program; leave some out",
            text.len().div_ceil(1024),
            LONGEST_TEXT >> 10
        );
    }
    Ok((text, drawn))
}

/// Returns a random seed that is short enough to type.
fn random_seed() -> Result<u64> {
    let bytes = random_bytes().context("failed to make a random seed; give one with --seed N")?;
    Ok(u32::from_ne_bytes(bytes).into())
}

fn parse_failure(text: &str, error: &PlanError) -> CommandFailure {
    let line = text.split('\n').nth(error.line - 1).unwrap_or_default();
    let place = if text.contains('\n') { format!("line {}, ", error.line) } else { String::new() };
    CommandFailure {
        sentence: format!(
            "--inject '{}', {place}column {}: {}",
            shorten_for_message(text),
            error.column,
            explain_error(line, error.column, &error.message)
        ),
        excerpt: Some(column_excerpt(line, error.column)),
        status: status::CUPEER_FAILED,
    }
}

/// Returns a text as a message shows it: one line without control characters, shortened if necessary.
fn shorten_for_message(text: &str) -> String {
    let mut shown: String = clean(&text.chars().take(MOST_SHOWN).collect::<String>());
    if text.chars().nth(MOST_SHOWN).is_some() {
        shown += "...";
    }
    shown
}

/// Returns the part of a line around a column, with a mark below it. The column counts bytes, and the mark is below a character.
fn column_excerpt(line: &str, column: usize) -> String {
    let place = line.char_indices().take_while(|(at, _)| at + 1 < column).count();
    let from = (place + 20).saturating_sub(MOST_SHOWN);
    let dots = if from > 0 { "..." } else { "" };
    let part = clean(&line.chars().skip(from).take(MOST_SHOWN).collect::<String>());
    let indent = " ".repeat(dots.len() + place - from);
    format!("  {dots}{part}\n  {indent}^")
}

fn is_plan_name(text: &str) -> bool {
    const { assert!(LONGEST_PLAN < LONGEST_NAME) };
    is_fault_name(text) && !text.contains('/') && text.len() <= LONGEST_PLAN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str], seed: Option<u64>) -> Result<FaultSettings> {
        let inject = texts.iter().map(|text| (*text).to_owned()).collect();
        read_faults(&InjectArgs { inject, seed, ..InjectArgs::default() })
    }

    fn text(faults: &FaultSettings) -> &str {
        let (_, text) = faults.variables.iter().find(|(name, _)| *name == env::INJECT).unwrap();
        text.to_str().unwrap()
    }

    #[test]
    fn a_seed_is_given_or_drawn_where_chance_is_involved() {
        let given = of(&["@ipc:p=10%:delay=1ms;@ipc:hang;@ipc:p=5%:seed=3:hang"], Some(7)).unwrap();
        let wanted =
            "@ipc:p=10%:delay=1ms:seed=7:name=inject/1;@ipc:hang:name=inject/2;@ipc:p=5%:seed=3:hang:name=inject/3";
        assert_eq!((text(&given), given.drawn_seed), (wanted, None));
        let drawn = of(&["@ipc:p=10%:delay=1ms"], None).unwrap();
        let seed = drawn.drawn_seed.unwrap();
        assert!(text(&drawn).contains(&format!(":seed={seed}:")), "{}", text(&drawn));
        assert_eq!(of(&["@ipc:p=10%:seed=1:delay=1ms"], None).unwrap().drawn_seed, None);
    }

    #[test]
    fn plans_keep_their_meaning_when_they_are_passed_on() {
        let faults = of(&["@ipc:thread=a*:name=n;^@lookup:delay=1ms~1us"], Some(5));
        assert!(faults.is_err(), "a rule that does nothing");
        let faults = of(&["@ipc:thread=a*:name=n:hang;^@lookup:delay=1ms~1us"], Some(5)).unwrap();
        let read = FaultPlan::parse("env", text(&faults)).unwrap();
        let names: Vec<&str> = read.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!((names, read.rules[1].seed), (vec!["inject/n", "inject/2"], 5));
    }

    #[test]
    fn an_excerpt_marks_the_place() {
        assert_eq!(column_excerpt("@ipc:dealy=1ms", 6), "  @ipc:dealy=1ms\n       ^");
        assert_eq!(column_excerpt("@ipc", 5), "  @ipc\n      ^");
        assert_eq!(column_excerpt("ää:x", 6), "  ää:x\n     ^");
        assert_eq!(column_excerpt("a\u{1b}b", 2), "  a\u{fffd}b\n   ^");
        let long = "x".repeat(300);
        for column in [1, 69, 70, 71, 300, 301] {
            let excerpt = column_excerpt(&long, column);
            let (line, mark) = excerpt.split_once('\n').unwrap();
            assert!(line.len() <= MOST_SHOWN + 5 && mark.len() <= line.len() + 1, "{column}: {excerpt}");
        }
    }
}
