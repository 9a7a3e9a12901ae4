//! The runs of a sweep: which call fails in each, and with what.
//!
//! What belongs here: from calls to runs in an order that depends on nothing but the calls.

use super::count::{CallSite, RunObservations};
use super::plan::SweepPlan;
use crate::args::{Codes, SweepStage};
use cupeer_spec::function::{FUNCTIONS, FnSpec};
use cupeer_spec::results::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of planned runs, which already take days; further ones are only counted.
const MOST_PLANNED: usize = 100_000;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TargetCall {
    pub site: CallSite,
    /// Position of the process in the order in which processes reached the driver; `None` if only one process makes calls
    /// from this place.
    pub process: Option<u16>,
    /// Number of the call among those from its place, from 1.
    pub n: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PlannedFault {
    pub call: TargetCall,
    /// Result with which the call fails, as rules name it.
    pub code: String,
    /// True if this call and all later calls from its place fail.
    pub is_lasting: bool,
}

/// One run: the calls that fail in it. The last fault is the subject of the run; the program reaches its call because of
/// the earlier ones.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Trial {
    pub faults: Vec<PlannedFault>,
}

/// A place, and the calls from it in all processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteCounts {
    pub site: CallSite,
    /// Library, offset, and (if known) function that makes the calls.
    pub caller: String,
    /// Number of calls of each process, by the process's position in the order in which processes reached the driver.
    pub calls: Vec<(u16, u64)>,
    /// Offset in the library, used for sorting.
    offset: u64,
}

/// Returns the places of a run in an order that is the same in every run.
pub fn sorted_sites(counted: &RunObservations) -> Vec<SiteCounts> {
    let mut places: BTreeMap<&CallSite, SiteCounts> = BTreeMap::new();
    for ((process, site), calls) in &counted.calls {
        let (caller, offset) = calls.caller.clone().unwrap_or_default();
        let fresh = SiteCounts { site: site.clone(), caller, calls: Vec::new(), offset };
        places.entry(site).or_insert(fresh).calls.push((*process, calls.count));
    }
    let mut places: Vec<SiteCounts> = places.into_values().collect();
    let library = |place: &SiteCounts| place.caller.split('+').next().unwrap_or_default().to_owned();
    // The offset gives the order of the source code, which is compiled from top to bottom.
    places.sort_by_key(|place| {
        (place.site.program.clone(), place.site.rank, library(place), place.offset, place.site.clone())
    });
    for place in &mut places {
        place.calls.sort_unstable();
    }
    places
}

/// Returns true if two runs made the same calls: the same numbers at each place, whatever the order of the processes.
pub fn made_same_calls(a: &[SiteCounts], b: &[SiteCounts]) -> bool {
    let calls = |places: &[SiteCounts]| {
        let sorted = |place: &SiteCounts| {
            let mut calls: Vec<u64> = place.calls.iter().map(|(_, count)| *count).collect();
            calls.sort_unstable();
            (place.site.clone(), calls)
        };
        places.iter().map(sorted).collect::<BTreeSet<_>>()
    };
    calls(a) == calls(b)
}

impl SiteCounts {
    pub fn total_calls(&self) -> u64 {
        self.calls.iter().map(|(_, count)| count).sum()
    }

    /// Returns the first call, and an iterator over all other calls.
    fn first_and_other_calls(&self) -> (Option<TargetCall>, impl Iterator<Item = TargetCall>) {
        let several = self.calls.len() > 1;
        let mut all = self.calls.iter().flat_map(move |(process, count)| {
            let process = several.then_some(*process);
            (1..=*count).map(move |n| TargetCall { site: self.site.clone(), process, n })
        });
        (all.next(), all)
    }
}

/// Returns the runs about the first call from each place. The runs with the first result code of each place come before
/// those with its second code.
pub fn first_call_trials(places: &[SiteCounts], before: &[PlannedFault], plan: &SweepPlan) -> Vec<Trial> {
    interleave(
        places
            .iter()
            .filter_map(|place| place.first_and_other_calls().0)
            .map(|call| trials_for_call(call, before, plan)),
    )
}

/// Returns the runs about all further calls, those with smaller numbers first, and the number beyond [`MOST_PLANNED`].
pub fn further_call_trials(places: &[SiteCounts], plan: &SweepPlan) -> (Vec<Trial>, u64) {
    let of_each = |place: &SiteCounts| 2 * codes_to_try(&place.site.function, plan).len() as u64;
    let all: u64 = places.iter().map(|place| place.total_calls().saturating_sub(1) * of_each(place)).sum();
    let most = MOST_PLANNED / places.iter().map(of_each).max().unwrap_or(1).max(1) as usize;
    // At most `most` calls of each place are taken, because there may be millions.
    let mut calls: Vec<TargetCall> =
        places.iter().flat_map(|place| place.first_and_other_calls().1.take(most)).collect();
    calls.sort_by_key(|call| call.n);
    calls.truncate(most);
    let trials = interleave(calls.into_iter().map(|call| trials_for_call(call, &[], plan)));
    let more = all.saturating_sub(trials.len() as u64);
    (trials, more)
}

fn trials_for_call(call: TargetCall, before: &[PlannedFault], plan: &SweepPlan) -> Vec<Trial> {
    let codes = codes_to_try(&call.site.function, plan).into_iter();
    let faults = codes.flat_map(|code| [(code.clone(), false), (code, true)]);
    let faults = faults.map(|(code, is_lasting)| PlannedFault { call: call.clone(), code, is_lasting });
    faults.map(|fault| Trial { faults: [before, &[fault]].concat() }).collect()
}

/// Returns the first runs of all lists, then the second ones, and so on.
fn interleave(lists: impl Iterator<Item = Vec<Trial>>) -> Vec<Trial> {
    let lists: Vec<Vec<Trial>> = lists.collect();
    let most = lists.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|i| lists.iter().filter_map(move |list| list.get(i).cloned())).collect()
}

fn find_function_spec(function: &str) -> Option<&'static FnSpec> {
    FUNCTIONS.iter().find(|spec| spec.name() == function)
}

fn codes_to_try(function: &str, plan: &SweepPlan) -> Vec<String> {
    let Some(spec) = find_function_spec(function) else { return Vec::new() };
    // A name without a version means all versions of the function.
    let versions = || FUNCTIONS.iter().filter(|other| other.name() == function || other.lookup() == function);
    let is_tried = |code: &i32| {
        (plan.codes != Codes::Documented || !spec.is_undocumented_result(*code))
            && versions().all(|version| version.failures().any(|known| known == *code))
    };
    let mut codes: Vec<i32> = spec.failures().filter(is_tried).collect();
    // A program that continues after this result is right, so a run with it is the least informative and comes last.
    codes.sort_by_key(|code| *code == Result::PEER_ACCESS_ALREADY_ENABLED as i32);
    let names = codes.into_iter();
    let names =
        names.map(|code| spec.result(code).map_or_else(|| code.to_string(), |spec| spec.short_name().to_owned()));
    // A program that makes this call has initialized its libraries.
    let names = names.filter(|name| plan.codes == Codes::All || !name.ends_with("INITIALIZED"));
    names.take(if plan.codes == Codes::One { 1 } else { usize::MAX }).collect()
}

impl Trial {
    /// Returns the fault that the run is about: the last one.
    pub fn subject_fault(&self) -> Option<&PlannedFault> {
        self.faults.last()
    }

    pub fn fault_rules(&self, plan: &SweepPlan) -> Vec<String> {
        self.faults.iter().map(|fault| fault.inject_rule(plan)).collect()
    }
}

impl PlannedFault {
    /// Returns true if the result of the fault is undocumented, but real drivers were seen to return it.
    pub fn is_only_seen(&self) -> bool {
        let result =
            |spec: &FnSpec| spec.parse_result(&self.code).is_some_and(|code| spec.is_undocumented_result(code));
        find_function_spec(&self.call.site.function).is_some_and(result)
    }

    /// Returns the rule of the fault, in the syntax of `--inject`.
    pub fn inject_rule(&self, plan: &SweepPlan) -> String {
        let TargetCall { site, process, n } = &self.call;
        let mut rule = site.function.clone();
        if plan.names_programs {
            rule += &format!(":program={}", name_pattern(&site.program));
        }
        if let Some(rank) = site.rank {
            rule += &format!(":rank={rank}");
        }
        if let Some(process) = process {
            rule += &format!(":process={process}");
        }
        if site.stack != 0 {
            rule += &format!(":stack={:016x}", site.stack);
        }
        rule += &format!(":when={n}{}:error={}", if self.is_lasting { "+" } else { "" }, self.code);
        let known = find_function_spec(&site.function);
        if plan.stage == SweepStage::Undo && known.is_some_and(|spec| spec.undone_by().is_some()) {
            rule += ":stage=undo";
        }
        if known.is_some_and(FnSpec::is_release) {
            rule += ":force";
        }
        rule
    }
}

/// Returns a name as a pattern: characters with a meaning in a rule or a shell become `?`.
fn name_pattern(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    name.chars().map(|c| if plain(c) { String::from(c) } else { "?".repeat(c.len_utf8()) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::count::SiteCalls;
    use super::*;
    use cupeer_spec::function::{FnId, Group};

    fn counted(calls: &[(u16, &str, u64, u64)]) -> RunObservations {
        let mut counted = RunObservations::default();
        for (process, function, stack, count) in calls {
            let site = CallSite { program: "app".into(), rank: None, function: (*function).to_owned(), stack: *stack };
            let caller = Some((format!("app+{stack:#x}"), *stack));
            counted.calls.insert((*process, site), SiteCalls { count: *count, caller });
        }
        counted
    }

    fn rules(trials: &[Trial], plan: &SweepPlan) -> Vec<String> {
        trials.iter().map(|trial| trial.fault_rules(plan).join(";")).collect()
    }

    /// Returns the number of results that a function is made to fail with.
    fn sensible(function: &str) -> usize {
        codes_to_try(function, &SweepPlan::default()).len()
    }

    const OPEN: &str = "cuIpcOpenMemHandle_v2";
    const ENABLE: &str = "cuCtxEnablePeerAccess";

    #[test]
    fn distinct_places_come_first_each_with_its_first_code() {
        let plan = SweepPlan::default();
        let places = sorted_sites(&counted(&[(1, OPEN, 0x20, 2), (2, ENABLE, 0x10, 1)]));
        let first = rules(&first_call_trials(&places, &[], &plan), &plan);
        assert_eq!(
            &first[..4],
            [
                "cuCtxEnablePeerAccess:stack=0000000000000010:when=1:error=TOO_MANY_PEERS",
                "cuIpcOpenMemHandle_v2:stack=0000000000000020:when=1:error=INVALID_CONTEXT",
                "cuCtxEnablePeerAccess:stack=0000000000000010:when=1+:error=TOO_MANY_PEERS",
                "cuIpcOpenMemHandle_v2:stack=0000000000000020:when=1+:error=INVALID_CONTEXT",
            ]
        );
        // Each code that makes sense of each function, once and lasting: of those seen from real drivers as well.
        assert_eq!(first.len(), 2 * (sensible(OPEN) + sensible(ENABLE)));
        assert!(first.contains(&"cuIpcOpenMemHandle_v2:stack=0000000000000020:when=1:error=NOT_PERMITTED".into()));
        let more = rules(&further_call_trials(&places, &plan).0, &plan);
        assert!(more.len() == 2 * sensible(OPEN) && more.iter().all(|rule| rule.contains(":when=2")), "{more:#?}");
    }

    #[test]
    fn only_the_first_of_millions_of_calls_are_planned() {
        let places = sorted_sites(&counted(&[(1, OPEN, 1, 3_000_000), (1, ENABLE, 2, 5)]));
        let (trials, more) = further_call_trials(&places, &SweepPlan::default());
        let of_each = |function| 2 * sensible(function) as u64;
        assert_eq!(trials.len() as u64 + more, of_each(OPEN) * (3_000_000 - 1) + of_each(ENABLE) * 4);
        let most = trials.iter().filter_map(|trial| trial.subject_fault()).map(|fault| fault.call.n).max();
        assert!(
            (MOST_PLANNED * 99 / 100..=MOST_PLANNED).contains(&trials.len()) && most < Some(MOST_PLANNED as u64),
            "{} runs, up to call {most:?}",
            trials.len()
        );
    }

    #[test]
    fn processes_are_told_apart_where_they_call_from_one_place() {
        let plan = SweepPlan { names_programs: true, ..SweepPlan::default() };
        let places = sorted_sites(&counted(&[(2, OPEN, 0x20, 1), (1, OPEN, 0x20, 1)]));
        let first = rules(&first_call_trials(&places, &[], &plan), &plan);
        assert_eq!(
            first[0],
            "cuIpcOpenMemHandle_v2:program=app:process=1:stack=0000000000000020:when=1:error=INVALID_CONTEXT"
        );
        let more = rules(&further_call_trials(&places, &plan).0, &plan);
        assert!(more.iter().all(|rule| rule.contains(":process=2:")), "{more:#?}");
    }

    #[test]
    fn two_runs_are_the_same_whichever_process_was_first() {
        let places = |calls: &[_]| sorted_sites(&counted(calls));
        let a = places(&[(1, OPEN, 1, 2), (2, OPEN, 1, 1)]);
        assert!(made_same_calls(&a, &places(&[(1, OPEN, 1, 1), (2, OPEN, 1, 2)])));
        assert!(!made_same_calls(&a, &places(&[(1, OPEN, 1, 1), (2, OPEN, 1, 1)])));
        assert!(!made_same_calls(&a, &places(&[(1, OPEN, 1, 2)])));
    }

    #[test]
    fn names_have_no_character_that_the_grammar_takes() {
        assert_eq!(name_pattern("python3.11"), "python3.11");
        assert_eq!(name_pattern("a b:c;d,é*"), "a?b?c?d????");
    }

    #[test]
    fn every_rule_can_be_read() {
        let plan =
            SweepPlan { names_programs: true, stage: SweepStage::Undo, codes: Codes::All, ..SweepPlan::default() };
        let is_varied = |function: &FnId| function.spec().is_alterable() && !function.spec().is_in(Group::Lookup);
        for function in FnId::all().filter(is_varied) {
            let name = function.spec().name();
            let places = sorted_sites(&counted(&[(1, name, 7, 1), (2, name, 7, 1)]));
            for rule in rules(&first_call_trials(&places, &[], &plan), &plan) {
                let read = cupeer_spec::fault::FaultPlan::parse("sweep", &rule);
                assert!(read.is_ok(), "{rule}: {}", read.unwrap_err());
            }
        }
    }

    #[test]
    fn codes_are_those_that_make_sense() {
        let codes = |codes| super::codes_to_try(ENABLE, &SweepPlan { codes, ..SweepPlan::default() });
        let known = FnId::cuCtxEnablePeerAccess.spec().failures().count();
        assert_eq!(codes(Codes::All).len(), known);
        assert_eq!(codes(Codes::Sensible).len(), known - 2);
        assert_eq!(codes(Codes::Documented).len(), FnId::cuCtxEnablePeerAccess.spec().documented_results().count() - 3);
        assert_eq!(codes(Codes::One), ["TOO_MANY_PEERS"]);
        // The one that is as good as success comes last.
        assert_eq!(codes(Codes::Sensible).last().map(String::as_str), Some("PEER_ACCESS_ALREADY_ENABLED"));
    }
}
