//! Rules that the test damages: each is refused with a position and a reason, or has the meaning of a valid
//! rule.

use super::generated::{canonical, proven, same};
use crate::fault::parse::keys::KEYS;
use crate::fault::{FaultPlan, PlannedFault};
use crate::record::live::mix_bits;
use std::collections::HashSet;

/// Returns true if a text is refused. An accepted text must pass [`proven`].
pub fn refused_or_proven(text: &str) -> bool {
    let error = match FaultPlan::parse("plan", text) {
        Err(error) => error,
        Ok(plan) => {
            plan.rules.iter().for_each(|rule| _ = proven(&format!("{}:name={}", without_name(rule), rule.name)));
            return false;
        }
    };
    let message = &error.message;
    let line = text.split('\n').nth(error.line - 1).unwrap_or_else(|| panic!("{text:?}: no line {}", error.line));
    assert!((1..=line.len() + 1).contains(&error.column), "{text:?}: {error}");
    assert!(line.is_char_boundary(error.column - 1), "{text:?}: {error}");
    assert!(!message.chars().any(char::is_control), "{text:?}: {message:?}");
    assert!(message.len() > 15 && message.len() < 1000, "{text:?}: {message}");
    // The error says what is wrong and, behind a semicolon or a comma, or with an example, what would be
    // right.
    let says = ["; ", ", ", "missing here", "takes no value", "at least", "better", "more than"];
    assert!(says.iter().any(|word| message.contains(word)), "{text:?}: {message}");
    true
}

fn without_name(rule: &PlannedFault) -> String {
    let clauses = rule.text.split(':').filter(|clause| !clause.starts_with("name="));
    clauses.collect::<Vec<_>>().join(":")
}

/// Rules that are right.
fn right() -> Vec<String> {
    let mut rules: Vec<String> = [
        "cuIpcOpenMemHandle*:when=3..5:error=MAP_FAILED",
        "@ipc:dev=0:rank=2:p=10%:delay=5ms",
        "cuDeviceCanAccessPeer:dev=0:peer=^1..3:out=canAccessPeer=0",
        "cuDeviceGetP2PAttribute:attrib=ACCESS_SUPPORTED:out=value=0x1:per=thread/rule",
        "cuIpcGetMemHandle:size=1M..2G:out=pHandle=flip/24:name=damaged",
        "@open,^@ipc-event:error=any:stage=undo:times=3:seed=7",
        "cuIpcCloseMemHandle:error=INVALID_VALUE:force:prev=SUCCESS",
        "@lookup:symbol=cuIpc*,cuCtx*:error=NOT_SUPPORTED:until=1.5s",
        "cuCtxEnablePeerAccess:Flags=0:hang=here:delay-after=5ms~1ms",
        "@ipc-mem:thread=main:caller=libnccl*:signal=SIGSEGV:site=new",
        "@peer,@ipc:after=2s:mark=epoch?2:exit=3:when=1+2",
        "cuIpcOpenEventHandle:stack=3f2a5c6b7d8e9f01:program=python*:process=2:error=304:force",
    ]
    .map(Into::into)
    .to_vec();
    for key in KEYS {
        let rest = match key.name {
            "stage" => ":error=any",
            _ if key.acts => "",
            _ => ":hang",
        };
        rules.push(format!("cuIpcOpenMemHandle*:Flags=0:{}{rest}", key.example_clause()));
    }
    rules
}

/// Replacements for values, separated by spaces; the first is empty.
const WRONG: &str = " - x ^ , .. 0x -1 1..0 99999999999999999999 1.5 null % 5 5% 0 * ~ 5ms~9ms a/b ä SUCCESS any \
                     flip/64 = a=b 1e3 \u{1b}[0m + 1+ 3..";

/// Replacements for characters, and characters to insert.
const CHARACTERS: &[char] = &[
    'x', 'Z', '0', '9', ':', ';', '=', ',', '.', '^', '*', '?', '@', '%', '~', '+', '-', '/', '_', ' ', '\t', '\n',
    '\'', '"', '$', '\u{0}', '\u{7f}', '\u{9b}', 'é', '\u{202e}', '💥',
];

/// Returns all mutants of one rule, and as many random ones of two rules.
fn mutants(rule: &str, other: &str, chance: &mut impl FnMut(usize) -> usize) -> Vec<String> {
    let mut mutants = Vec::new();
    let places: Vec<usize> = rule.char_indices().map(|(at, _)| at).chain([rule.len()]).collect();
    for (at, next) in places.iter().zip(&places[1..]) {
        let (before, c, after) = (&rule[..*at], &rule[*at..*next], &rule[*next..]);
        mutants.push(format!("{before}{after}"));
        mutants.push(format!("{before}{c}{c}{after}"));
        mutants.push(before.into());
        mutants.push(format!("{c}{after}"));
        for _ in 0..2 {
            let new = CHARACTERS[chance(CHARACTERS.len())];
            mutants.push(format!("{before}{new}{after}"));
            mutants.push(format!("{before}{c}{new}{after}"));
        }
    }
    let clauses: Vec<&str> = rule.split(':').collect();
    for i in 0..clauses.len() {
        for wrong in WRONG.split(' ') {
            let key = clauses[i].split('=').next().unwrap_or_default();
            let mut changed: Vec<String> = clauses.iter().map(|clause| (*clause).into()).collect();
            changed[i] = format!("{key}={wrong}");
            mutants.push(changed.join(":"));
        }
        for j in 0..clauses.len() {
            let mut swapped = clauses.clone();
            swapped.swap(i, j);
            mutants.push(swapped.join(":"));
            let mut doubled = clauses.clone();
            doubled.insert(j, clauses[i]);
            mutants.push(doubled.join(":"));
        }
        let mut less = clauses.clone();
        less.remove(i);
        mutants.push(less.join(":"));
    }
    for clause in other.split(':').skip(1) {
        mutants.push(format!("{rule}:{clause}"));
    }
    mutants.push(format!("{rule};{other}:name=b;{rule}"));
    mutants
}

#[test]
fn thousands_of_broken_rules_are_refused_with_place_and_reason() {
    let mut state = 1u64;
    let mut chance = |below: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix_bits(state) % below as u64) as usize
    };
    let rules = right();
    let (mut refused, mut read) = (HashSet::new(), 0);
    // `scripts/test --all` mutates all rules. Other runs use a sample.
    let (step, least) = if std::env::var_os("FULL_SIZE").is_some() { (1, 10_000) } else { (4, 2_500) };
    for (i, rule) in rules.iter().enumerate().step_by(step) {
        assert!(!refused_or_proven(rule), "{rule}");
        for mutant in mutants(rule, &rules[(i + 1) % rules.len()], &mut chance) {
            if refused_or_proven(&mutant) {
                refused.insert(mutant);
            } else {
                read += 1;
            }
        }
    }
    assert!(refused.len() >= least, "{} refused, {read} read", refused.len());
}

#[test]
fn the_order_of_clauses_means_nothing() {
    for text in right() {
        let wanted = super::rule(&text);
        let (functions, clauses) = text.split_once(':').unwrap();
        let mut clauses: Vec<&str> = clauses.split(':').collect();
        for _ in 0..clauses.len() {
            clauses.rotate_left(1);
            let turned = super::rule(&format!("{functions}:{}", clauses.join(":")));
            assert!(same(&wanted, &turned), "{text}: {clauses:?}");
        }
        clauses.reverse();
        assert!(same(&wanted, &super::rule(&format!("{functions}:{}", clauses.join(":")))), "{text}");
        assert!(same(&wanted, &super::rule(&canonical(&wanted, text.contains(":force")))), "{text}");
    }
}
