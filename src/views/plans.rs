//! The fault plans of a run: one line per fault, those that did nothing first.
//!
//! The crate `cupeer_facts` and the launcher supply the counts.

use cupeer_report::model::DENY;
use cupeer_report::model::Fault;
use cupeer_report::moments::number;
use cupeer_report::names::{clean, counted};
use cupeer_spec::deny::{ALL, DeniedPairs, DeviceName};

const MOST: usize = 8;
/// Largest number of pairs of devices in one line.
const MOST_PAIRS: usize = 4;
/// Keys of the clauses that select at which of the matching calls a rule fires.
const WHEN: [&str; 3] = ["when", "p", "times"];

/// Returns one line per fault: those that were never reached, those that never fired, then all others.
pub fn fault_lines(faults: &[Fault]) -> Vec<String> {
    let covered = find_covered(faults);
    let pairs = || faults.iter().filter(|fault| is_denied_pair(fault));
    // If no pair was ever denied, one line covers all pairs.
    let are_none_denied = pairs().next().is_some() && pairs().all(|fault| fault.fired == 0);
    let mut sorted: Vec<(usize, &Fault)> =
        faults.iter().enumerate().filter(|(_, fault)| !(are_none_denied && is_denied_pair(fault))).collect();
    // The sort is stable, so rules with the same effect stay in the order of their plans.
    sorted.sort_by_key(|(index, fault)| (fault.fired > 0 || covered[*index], fault.matched.unwrap_or(0) > 0));
    let most = MOST - usize::from(are_none_denied);
    let shown = sorted.iter().take(most);
    let mut lines: Vec<String> = shown.map(|(index, fault)| fault_line(fault, covered[*index])).collect();
    if are_none_denied {
        let pairs = faults.iter().zip(&covered).filter(|(fault, covered)| is_denied_pair(fault) && !**covered);
        let names: Vec<String> = pairs.map(|(fault, _)| fault_text(fault)).collect();
        let never = sorted.iter().take(most).filter(|(_, fault)| fault.matched.unwrap_or(0) == 0);
        let at = never.take_while(|(_, fault)| fault.fired == 0).count();
        lines.insert(at, format!("nothing was denied: no call asked about or tried {}", list_pairs(&names)));
    }
    if sorted.len() > most {
        let more = &sorted[most..];
        let silent = more.iter().filter(|(_, fault)| fault.fired == 0).count() as u64;
        let silent = if silent > 0 { format!(", {} of them never fired", number(silent)) } else { String::new() };
        lines.push(format!("and {}{silent}", counted(more.len() as u64, "more rule")));
    }
    lines
}

fn fault_line(fault: &Fault, is_covered: bool) -> String {
    let (name, rule) = (clean(&fault.name), fault_text(fault));
    let (matched, fired) = (fault.matched.unwrap_or(fault.fired), fault.fired);
    let would = if fault.dry_run { "would have " } else { "" };
    match (&*fault.plan, matched, fired) {
        (DENY, _, 0) if is_covered => format!("{name} ({rule}): an earlier pair denies it already"),
        (DENY, _, 0) => describe_no_effect(fault),
        (DENY, ..) => format!("{name} ({rule}): {would}denied {}", counted(fired, "call")),
        (_, 0, 0) => {
            format!("{}: no call matched {rule}{}", describe_no_effect(fault), undocumented_remark(fault))
        }
        (_, _, 0) => {
            let each = if is_counted_in_each_process(&rule) { ", counted in each process" } else { "" };
            let when = firing_clauses(&rule) + each;
            let when = if when.is_empty() { String::new() } else { format!(" ({when})") };
            let never = if fault.dry_run { "would never have fired" } else { "never fired" };
            format!("fault {name} ({rule}): matched {}, {never}{when}{}", number(matched), undocumented_remark(fault))
        }
        _ => {
            let (matched, fired) = (number(matched), number(fired));
            format!("fault {name} ({rule}): matched {matched}, {would}fired {fired}{}", undocumented_remark(fault))
        }
    }
}

/// Returns a remark if a rule's result is not documented but was seen with real drivers; otherwise, an empty
/// text.
fn undocumented_remark(fault: &Fault) -> &'static str {
    if fault.only_seen { "; its result was seen from real drivers, but is not documented" } else { "" }
}

/// Returns the sentence that a rule had no effect, with the reason if it is known.
fn describe_no_effect(fault: &Fault) -> String {
    let (name, rule) = (clean(&fault.name), fault_text(fault));
    match &*fault.plan {
        DENY if !is_denied_pair(fault) => format!("no context had {rule}"),
        DENY if rule == ALL => "no pair of devices was asked about or tried".to_owned(),
        DENY => format!("{name} ({rule}) was never asked about or tried"),
        _ if fault.matched.unwrap_or(0) == 0 => format!("fault {name} was never reached"),
        _ => format!("fault {name} never fired"),
    }
}

fn fault_text(fault: &Fault) -> String {
    clean(fault.rule.as_deref().unwrap_or("armed by the program"))
}

/// Returns the names of the first pairs, and how many more there are.
fn list_pairs(names: &[String]) -> String {
    if names.first().is_some_and(|name| name == ALL) {
        return "any pair of devices".to_owned();
    }
    let shown = names[..names.len().min(MOST_PAIRS)].join(", ");
    match names.len().saturating_sub(MOST_PAIRS) {
        0 => shown,
        more => format!("{shown}, and {}", counted(more as u64, "more pair")),
    }
}

/// Returns true if the fault denies a pair of devices, or all pairs; false if it denies a peer beyond a
/// limit.
fn is_denied_pair(fault: &Fault) -> bool {
    let rule = fault.rule.as_deref().unwrap_or_default();
    fault.plan == DENY && DeniedPairs::parse(rule).is_ok()
}

/// Returns true for each fault whose pair is covered by earlier pairs, so that the fault itself can never
/// deny anything.
fn find_covered(faults: &[Fault]) -> Vec<bool> {
    let mut known: Vec<(DeviceName, DeviceName)> = Vec::new();
    let is_covered = |fault: &Fault| {
        let denied = fault.rule.as_deref().filter(|_| fault.plan == DENY).map(DeniedPairs::parse);
        let Some(Ok(DeniedPairs::Pairs(pairs))) = denied else { return false };
        let ways = pairs.iter().flat_map(|pair| {
            let back = (!pair.oneway).then_some((pair.to, pair.from));
            [(pair.from, pair.to)].into_iter().chain(back)
        });
        let new: Vec<(DeviceName, DeviceName)> = ways.filter(|way| !known.contains(way)).collect();
        known.extend(&new);
        new.is_empty()
    };
    faults.iter().map(is_covered).collect()
}

/// Returns the clauses of a rule that select at which of the matching calls it fires.
fn firing_clauses(rule: &str) -> String {
    let is_one = |clause: &&str| WHEN.contains(&clause_key(clause));
    rule.split(':').skip(1).filter(is_one).collect::<Vec<_>>().join(":")
}

/// Returns true if a fault fires only at some of the matching calls and each process counts its calls
/// separately, so that a sum over all processes means little.
pub fn is_counted_in_each_process(rule: &str) -> bool {
    !firing_clauses(rule).is_empty() && !rule.split(':').any(|clause| clause_key(clause) == "per")
}

fn clause_key(clause: &str) -> &str {
    clause.split_once('=').map_or("", |(key, _)| key)
}

/// Returns the reason why a requested fault had no effect: a fault never fired, or a denied pair of devices was never
/// queried or tried. `None` if each had an effect.
pub fn reason_without_effect(faults: &[Fault]) -> Option<String> {
    let all = faults.iter().zip(find_covered(faults));
    let mut silent = all.filter(|(fault, covered)| fault.fired == 0 && !covered).map(|(fault, _)| fault);
    let why = describe_no_effect(silent.next()?);
    Some(match silent.count() as u64 {
        0 => why,
        more => format!("{why}, and {} did nothing", counted(more, "more rule")),
    })
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
            ..Fault::default()
        }
    }

    fn pair(from: u8, to: u8) -> String {
        format!("00000000:{from:02X}:00.0/00000000:{to:02X}:00.0")
    }

    #[test]
    fn plans_without_effect_come_first() {
        let faults = [
            fault("inject/1", "cuIpcOpenMemHandle*:error=MAP_FAILED", 3, 3),
            fault("inject/2", "cuMemFree*:error=999", 0, 0),
            fault("mine/x", "@ipc:when=10:p=5%:delay=1ms:seed=4", 5, 0),
            fault("mine/y", "@ipc:prev=999:delay=1ms", 5, 0),
            fault("mine/z", "@ipc:when=9:per=job:delay=1ms", 5, 0),
            fault("deny-peer/1", "all", 12, 12),
            fault("deny-peer/2", &pair(1, 2), 0, 0),
            fault("deny-peer/3", "more than 2 peers", 0, 0),
        ];
        let expected = [
            "fault inject/2 was never reached: no call matched cuMemFree*:error=999",
            &format!("deny-peer/2 ({}) was never asked about or tried", pair(1, 2)),
            "no context had more than 2 peers",
            "fault mine/x (@ipc:when=10:p=5%:delay=1ms:seed=4): matched 5, never fired (when=10:p=5%, counted in each process)",
            "fault mine/y (@ipc:prev=999:delay=1ms): matched 5, never fired",
            "fault mine/z (@ipc:when=9:per=job:delay=1ms): matched 5, never fired (when=9)",
            "fault inject/1 (cuIpcOpenMemHandle*:error=MAP_FAILED): matched 3, fired 3",
            "deny-peer/1 (all): denied 12 calls",
        ];
        assert_eq!(fault_lines(&faults), expected);
    }

    #[test]
    fn a_dry_run_says_what_would_have_been() {
        let line = |rule, fired| fault_lines(&[Fault { dry_run: true, ..fault("inject/1", rule, 1, fired) }]).concat();
        let fired = "fault inject/1 (cuInit:exit=3): matched 1, would have fired 1";
        assert_eq!(line("cuInit:exit=3", 1), fired);
        let never = "fault inject/1 (cuInit:when=2:exit=3): matched 1, would never have fired";
        assert!(line("cuInit:when=2:exit=3", 0).starts_with(never));
    }

    #[test]
    fn there_are_eight_lines_at_most_and_one_for_the_rest() {
        let mut faults: Vec<Fault> = (0..9).map(|i| fault(&format!("a/{i}"), "cuInit:exit=3", 1, 1)).collect();
        assert_eq!(fault_lines(&faults).last().unwrap(), "and 1 more rule");
        faults.extend((10..13).map(|i| fault(&format!("a/{i}"), "cuMemFree:exit=3", 0, 0)));
        let all = fault_lines(&faults);
        assert_eq!((all.len(), all.last().unwrap().as_str()), (9, "and 4 more rules"));
        assert!(all[..3].iter().all(|line| line.contains("was never reached")), "{all:?}");
        faults.extend((20..30).map(|i| fault(&format!("a/{i}"), "cuMemFree:exit=3", 0, 0)));
        assert_eq!(fault_lines(&faults).last().unwrap(), "and 14 more rules, 5 of them never fired");
    }

    #[test]
    fn one_line_says_that_nothing_was_denied() {
        let denied = |number: u8, rule: &str| fault(&format!("deny-peer/{number}"), rule, 0, 0);
        let (one, two) = (pair(1, 2), pair(3, 4));
        let faults = [
            fault("inject/1", "cuInit:exit=3", 0, 0),
            denied(1, &one),
            denied(2, &pair(2, 1)),
            denied(3, &two),
            denied(4, "more than 2 peers"),
        ];
        let expected = [
            "fault inject/1 was never reached: no call matched cuInit:exit=3",
            "no context had more than 2 peers",
            &format!("nothing was denied: no call asked about or tried {one}, {two}"),
        ];
        assert_eq!(fault_lines(&faults), expected);
        let all = "nothing was denied: no call asked about or tried any pair of devices";
        assert_eq!(fault_lines(&[denied(1, "all")]), [all]);
        let many: Vec<Fault> = (1..=20).map(|i| denied(i, &pair(i, 30))).collect();
        assert!(
            fault_lines(&many)[0].ends_with(&format!("{}, and 16 more pairs", pair(4, 30))),
            "{:?}",
            fault_lines(&many)
        );
        // A repeated pair is mentioned once.
        let mut faults = [denied(1, &one), denied(2, &pair(2, 1))];
        (faults[0].matched, faults[0].fired) = (Some(2), 2);
        let again = format!("deny-peer/2 ({}): an earlier pair denies it already", pair(2, 1));
        assert!(fault_lines(&faults).contains(&again), "{:?}", fault_lines(&faults));
    }

    #[test]
    fn each_rule_and_each_pair_counts() {
        let rule = |number: u8, matched| fault(&format!("inject/{number}"), "cuInit:exit=3", matched, 0);
        assert_eq!(reason_without_effect(&[rule(1, 0)]).unwrap(), "fault inject/1 was never reached");
        assert_eq!(reason_without_effect(&[rule(1, 3)]).unwrap(), "fault inject/1 never fired");
        let more = reason_without_effect(&[rule(1, 0), rule(2, 0), rule(3, 0)]).unwrap();
        assert_eq!(more, "fault inject/1 was never reached, and 2 more rules did nothing");
        assert_eq!(reason_without_effect(&[fault("inject/1", "cuInit:exit=3", 1, 1)]), None);
        assert_eq!(reason_without_effect(&[]), None);
        let limit = fault("deny-peer/1", "more than 2 peers", 0, 0);
        assert_eq!(reason_without_effect(&[limit]).unwrap(), "no context had more than 2 peers");
        let denied = |rules: &[(&str, u64)]| {
            let one = |(i, (rule, fired)): (usize, &(&str, u64))| {
                fault(&format!("deny-peer/{}", i + 1), rule, *fired, *fired)
            };
            reason_without_effect(&rules.iter().enumerate().map(one).collect::<Vec<_>>())
        };
        let (there, back, other) = (&*pair(1, 2), &*pair(2, 1), &*pair(1, 3));
        let way = &*format!("{there}:oneway");
        let never =
            |number: u8, rule: &str| Some(format!("deny-peer/{number} ({rule}) was never asked about or tried"));
        assert_eq!(denied(&[(there, 1), (other, 0)]), never(2, other), "one pair is not enough");
        for covered in [there, back, way] {
            assert_eq!(denied(&[(there, 1), (covered, 0)]), None, "{covered}");
            assert_eq!(denied(&[(there, 0), (covered, 0)]), never(1, there), "{covered}");
        }
        assert_eq!(denied(&[(way, 1), (there, 0)]), never(2, there), "the way back is news");
        assert_eq!(denied(&[("all", 3)]), None);
        assert_eq!(denied(&[("all", 0)]).unwrap(), "no pair of devices was asked about or tried");
    }
}
