//! Fault plans: the options and files become one text, which every process of the job reads.
//!
//! What belongs here: what the text is made of, and what is refused before anything starts. What a rule means is
//! `cupeer_spec::fault`'s.

mod files;

use crate::args::InjectArgs;
use anyhow::{Context, Result, bail};
use cupeer_report::terminal::clean;
use cupeer_spec::env;
use cupeer_spec::fault::{LONGEST_NAME, Plan, PlanError, is_name};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;

/// The name of the plan that `--inject` makes.
const COMMAND_LINE: &str = "inject";
/// The most bytes of a plan's name: its rules' names need some more.
const LONGEST_PLAN: usize = 40;
/// The most bytes that are handed on: a variable holds 128 KiB.
const LONGEST_TEXT: usize = 100 << 10;
/// The most characters of a plan that a message repeats.
const MOST_SHOWN: usize = 70;

/// What the options become.
#[derive(Default)]
pub struct Faults {
    /// The variables.
    pub variables: Vec<(&'static str, OsString)>,
    /// The seed of what the plans leave to chance, where it was drawn.
    pub drawn_seed: Option<u64>,
}

/// A plan that was refused, with the place where it is wrong.
#[derive(Debug)]
pub struct Refused {
    sentence: String,
    excerpt: String,
}

impl Refused {
    /// The line that is wrong and a mark under the place.
    pub fn excerpt(&self) -> &str {
        &self.excerpt
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
impl std::error::Error for Refused {}

/// All rules so far, and how many each plan has.
#[derive(Default)]
struct Rules {
    plan: Plan,
    counts: HashMap<String, usize>,
}

impl Rules {
    /// Adds the rules of a text to a plan.
    fn add(&mut self, plan: &str, text: &str) -> Result<usize, PlanError> {
        let count = self.counts.entry(plan.to_owned()).or_default();
        let added = self.plan.add(plan, *count, text)?;
        *count += added;
        Ok(added)
    }
}

/// Reads the plans.
pub fn faults(options: &InjectArgs) -> Result<Faults> {
    let mut rules = Rules::default();
    for text in &options.inject {
        match rules.add(COMMAND_LINE, text) {
            Ok(0) => bail!("--inject '{}': it contains no rule", shown(text)),
            Ok(_) => {}
            Err(error) => return Err(refusal(text, &error).into()),
        }
    }
    files::read(&options.inject_file, &mut rules)?;
    let mut faults = Faults::default();
    if rules.plan.rules.is_empty() {
        without_plan(options)?;
    } else {
        let (text, drawn_seed) = handed_on(&rules.plan, options.seed)?;
        faults = Faults { variables: vec![(env::INJECT, text.into())], drawn_seed };
    }
    if options.dry_run {
        faults.variables.push((env::DRY_RUN, "1".into()));
    }
    Ok(faults)
}

/// Refuses what does nothing without a plan.
fn without_plan(options: &InjectArgs) -> Result<()> {
    let is_inherited = std::env::var_os(env::INJECT).is_some_and(|plan| !plan.is_empty());
    if options.dry_run && !is_inherited {
        bail!("--dry-run tries fault plans, but there is none; add --inject or --inject-file");
    }
    if options.seed.is_some() {
        bail!("--seed is for fault plans, but there is none; add --inject or --inject-file");
    }
    Ok(())
}

/// The text for the library: each rule with its whole name, and with a seed where it needs one. Also gives the seed
/// where one had to be drawn.
fn handed_on(plan: &Plan, seed: Option<u64>) -> Result<(String, Option<u64>)> {
    let needs_one = plan.rules.iter().any(|rule| rule.is_random() && !rule.says("seed"));
    let drawn = if needs_one && seed.is_none() { Some(draw()?) } else { None };
    let seed = seed.or(drawn).unwrap_or_default();
    let rules: Vec<String> = plan.rules.iter().map(|rule| rule.whole_text(seed)).collect();
    let text = rules.join(";");
    if text.len() > LONGEST_TEXT {
        bail!(
            "the fault plans are {} KiB long with the names of their rules, but only {} KiB can be handed to a program; leave some out",
            text.len().div_ceil(1024),
            LONGEST_TEXT >> 10
        );
    }
    Ok((text, drawn))
}

/// A seed, short enough to be typed.
fn draw() -> Result<u64> {
    let mut bytes = [0u8; 4];
    // SAFETY: the buffer has the length that is given.
    let read = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if read != bytes.len() as isize {
        return Err(std::io::Error::last_os_error())
            .context("failed to make a random seed; give one with --seed N");
    }
    Ok(u32::from_ne_bytes(bytes).into())
}

/// What is wrong with a plan of the command line.
fn refusal(text: &str, error: &PlanError) -> Refused {
    let line = text.split('\n').nth(error.line - 1).unwrap_or_default();
    let place = if text.contains('\n') { format!("line {}, ", error.line) } else { String::new() };
    Refused {
        sentence: format!("--inject '{}', {place}column {}: {}", shown(text), error.column, error.message),
        excerpt: excerpt(line, error.column),
    }
}

/// A text as a message repeats it: one line, harmless on a terminal, not too long.
fn shown(text: &str) -> String {
    let mut shown: String = clean(&text.chars().take(MOST_SHOWN).collect::<String>());
    if text.chars().nth(MOST_SHOWN).is_some() {
        shown += "...";
    }
    shown
}

/// What of a line is around a column, and below it a mark. The column counts bytes, the mark stands under a character.
fn excerpt(line: &str, column: usize) -> String {
    let place = line.char_indices().take_while(|(at, _)| at + 1 < column).count();
    let from = (place + 20).saturating_sub(MOST_SHOWN);
    let dots = if from > 0 { "..." } else { "" };
    let part = clean(&line.chars().skip(from).take(MOST_SHOWN).collect::<String>());
    let indent = " ".repeat(dots.len() + place - from);
    format!("  {dots}{part}\n  {indent}^")
}

/// Whether a plan may have this name.
fn is_plan_name(text: &str) -> bool {
    const { assert!(LONGEST_PLAN < LONGEST_NAME) };
    is_name(text) && !text.contains('/') && text.len() <= LONGEST_PLAN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str], seed: Option<u64>) -> Result<Faults> {
        let inject = texts.iter().map(|text| (*text).to_owned()).collect();
        faults(&InjectArgs { inject, seed, ..InjectArgs::default() })
    }

    fn text(faults: &Faults) -> &str {
        let (_, text) = faults.variables.iter().find(|(name, _)| *name == env::INJECT).unwrap();
        text.to_str().unwrap()
    }

    #[test]
    fn several_plans_of_the_command_line_are_one() {
        let faults = of(&["@ipc:delay=1ms;@ipc:hang:name=x", "@peer:delay=2ms"], None).unwrap();
        let wanted = "@ipc:delay=1ms:name=inject/1;@ipc:hang:name=inject/x;@peer:delay=2ms:name=inject/3";
        assert_eq!(text(&faults), wanted);
        assert_eq!(faults.drawn_seed, None);
    }

    #[test]
    fn a_seed_is_given_or_drawn_where_chance_is_involved() {
        let given = of(&["@ipc:p=10%:delay=1ms;@ipc:hang;@ipc:p=5%:seed=3:hang"], Some(7)).unwrap();
        let wanted = "@ipc:p=10%:delay=1ms:seed=7:name=inject/1;@ipc:hang:name=inject/2;@ipc:p=5%:seed=3:hang:name=inject/3";
        assert_eq!((text(&given), given.drawn_seed), (wanted, None));
        let drawn = of(&["@ipc:p=10%:delay=1ms"], None).unwrap();
        let seed = drawn.drawn_seed.unwrap();
        assert!(text(&drawn).contains(&format!(":seed={seed}:")), "{}", text(&drawn));
        assert_eq!(of(&["@ipc:p=10%:seed=1:delay=1ms"], None).unwrap().drawn_seed, None);
    }

    #[test]
    fn what_is_handed_on_means_what_was_written() {
        let faults = of(&["@ipc:thread=a*:name=n;^@lookup:delay=1ms~1us"], Some(5));
        assert!(faults.is_err(), "a rule that does nothing");
        let faults = of(&["@ipc:thread=a*:name=n:hang;^@lookup:delay=1ms~1us"], Some(5)).unwrap();
        let read = Plan::parse("env", text(&faults)).unwrap();
        let names: Vec<&str> = read.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!((names, read.rules[1].seed), (vec!["inject/n", "inject/2"], 5));
    }

    #[test]
    fn an_excerpt_marks_the_place() {
        assert_eq!(excerpt("@ipc:dealy=1ms", 6), "  @ipc:dealy=1ms\n       ^");
        assert_eq!(excerpt("@ipc", 5), "  @ipc\n      ^");
        assert_eq!(excerpt("ää:x", 6), "  ää:x\n     ^");
        assert_eq!(excerpt("a\u{1b}b", 2), "  a\u{fffd}b\n   ^");
        let long = "x".repeat(300);
        for column in [1, 69, 70, 71, 300, 301] {
            let excerpt = excerpt(&long, column);
            let (line, mark) = excerpt.split_once('\n').unwrap();
            assert!(line.len() <= MOST_SHOWN + 5 && mark.len() <= line.len() + 1, "{column}: {excerpt}");
        }
    }

    #[test]
    fn too_long_plans_are_refused() {
        let many = vec!["cuIpcOpenMemHandle*:error=MAP_FAILED"; 3000];
        let sentence = of(&many, None).err().unwrap().to_string();
        assert!(
            sentence.starts_with("the fault plans are 1") && sentence.contains("only 100 KiB can be"),
            "{sentence}"
        );
        assert!(of(&many[..1500], None).is_ok());
    }
}
