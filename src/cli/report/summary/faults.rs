//! What fault plans did in a run: a line a rule, those first that did nothing.
//!
//! What belongs here: the sentences. Where counts come from is [`super::super::faults`]' and the launcher's.

use super::super::faults::DENY;
use super::super::model::Fault;
use super::super::moments::number;
use super::super::text::names::{clean, counted};

/// The most lines about rules.
const MOST: usize = 8;
/// The clauses that say which of the calls that match a rule fires at.
const WHEN: [&str; 3] = ["when", "p", "times"];

/// The lines: rules that were never reached, those that never fired, then all others.
pub fn lines(faults: &[Fault]) -> Vec<String> {
    let mut sorted: Vec<&Fault> = faults.iter().collect();
    // Stable: rules that did alike stay in the order of their plans.
    sorted.sort_by_key(|fault| (fault.fired > 0, fault.matched.unwrap_or(0) > 0));
    let mut lines: Vec<String> = sorted.iter().take(MOST).map(|fault| line(fault)).collect();
    if sorted.len() > MOST {
        let more = &sorted[MOST..];
        let silent = more.iter().filter(|fault| fault.fired == 0).count() as u64;
        let silent =
            if silent > 0 { format!(", {} of them never fired", number(silent)) } else { String::new() };
        lines.push(format!("and {}{silent}", counted(more.len() as u64, "more rule")));
    }
    lines
}

fn line(fault: &Fault) -> String {
    let (name, rule) = (clean(&fault.name), clean(fault.rule.as_deref().unwrap_or("armed by the program")));
    let (matched, fired) = (fault.matched.unwrap_or(fault.fired), fault.fired);
    let would = if fault.dry_run { "would have " } else { "" };
    match (&*fault.plan, matched, fired) {
        (DENY, _, 0) => format!("nothing was denied: no call asked about or tried {rule}"),
        (DENY, ..) => format!("{name} ({rule}): {would}denied {}", counted(fired, "call")),
        (_, 0, 0) => format!("fault {name} was never reached: no call matched {rule}"),
        (_, _, 0) => {
            let when = when(&rule);
            let when = if when.is_empty() { String::new() } else { format!(" ({when})") };
            format!("fault {name} ({rule}): matched {}, {would}never fired{when}", number(matched))
        }
        _ => format!("fault {name} ({rule}): matched {}, {would}fired {}", number(matched), number(fired)),
    }
}

/// The clauses of a rule that say when it fires.
fn when(rule: &str) -> String {
    let is_one = |clause: &&str| clause.split_once('=').is_some_and(|(key, _)| WHEN.contains(&key));
    rule.split(':').skip(1).filter(is_one).collect::<Vec<_>>().join(":")
}

/// Whether something that was asked for did not happen: a rule that never fired, or pairs of devices of which none was
/// denied.
pub fn is_unused(faults: &[Fault]) -> bool {
    let (denied, rules): (Vec<&Fault>, Vec<&Fault>) = faults.iter().partition(|fault| fault.plan == DENY);
    rules.iter().any(|fault| fault.fired == 0)
        || !denied.is_empty() && denied.iter().all(|fault| fault.fired == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(name: &str, rule: &str, matched: u64, fired: u64) -> Fault {
        Fault {
            plan: name.split('/').next().unwrap().into(),
            name: name.into(),
            rule: Some(rule.into()),
            matched: Some(matched),
            fired,
            processes: 1,
            dry_run: false,
        }
    }

    #[test]
    fn what_did_nothing_comes_first() {
        let faults = [
            fault("inject/1", "cuIpcOpenMemHandle*:error=MAP_FAILED", 3, 3),
            fault("inject/2", "cuMemFree*:error=999", 0, 0),
            fault("mine/x", "@ipc:when=10:p=5%:delay=1ms:seed=4", 5, 0),
            fault("mine/y", "@ipc:prev=999:delay=1ms", 5, 0),
            fault("deny-peer/1", "all", 12, 12),
            fault("deny-peer/2", "GPU-1/GPU-2", 0, 0),
        ];
        let expected = [
            "fault inject/2 was never reached: no call matched cuMemFree*:error=999",
            "nothing was denied: no call asked about or tried GPU-1/GPU-2",
            "fault mine/x (@ipc:when=10:p=5%:delay=1ms:seed=4): matched 5, never fired (when=10:p=5%)",
            "fault mine/y (@ipc:prev=999:delay=1ms): matched 5, never fired",
            "fault inject/1 (cuIpcOpenMemHandle*:error=MAP_FAILED): matched 3, fired 3",
            "deny-peer/1 (all): denied 12 calls",
        ];
        assert_eq!(lines(&faults), expected);
    }

    #[test]
    fn a_dry_run_says_what_would_have_been() {
        let fault = Fault { dry_run: true, ..fault("inject/1", "cuInit:exit=3", 1, 1) };
        assert_eq!(lines(&[fault]), ["fault inject/1 (cuInit:exit=3): matched 1, would have fired 1"]);
    }

    #[test]
    fn there_are_eight_lines_at_most_and_one_for_the_rest() {
        let mut faults: Vec<Fault> =
            (0..9).map(|i| fault(&format!("a/{i}"), "cuInit:exit=3", 1, 1)).collect();
        assert_eq!(lines(&faults).last().unwrap(), "and 1 more rule");
        faults.extend((10..13).map(|i| fault(&format!("a/{i}"), "cuMemFree:exit=3", 0, 0)));
        let all = lines(&faults);
        assert_eq!((all.len(), all.last().unwrap().as_str()), (9, "and 4 more rules"));
        assert!(all[..3].iter().all(|line| line.contains("was never reached")), "{all:?}");
        faults.extend((20..30).map(|i| fault(&format!("a/{i}"), "cuMemFree:exit=3", 0, 0)));
        assert_eq!(lines(&faults).last().unwrap(), "and 14 more rules, 5 of them never fired");
    }

    #[test]
    fn one_denied_pair_is_enough() {
        let rule = |fired| fault("inject/1", "cuInit:exit=3", 1, fired);
        let pair = |fired| fault("deny-peer/1", "all", fired, fired);
        assert!(is_unused(&[rule(0)]) && is_unused(&[rule(1), rule(0)]) && !is_unused(&[rule(1)]));
        assert!(
            is_unused(&[pair(0)])
                && is_unused(&[rule(1), pair(0), pair(0)])
                && !is_unused(&[pair(0), pair(2)])
        );
        assert!(!is_unused(&[]));
    }
}
