//! The runs of a sweep: which call fails in each, and with what.
//!
//! What belongs here: from calls to runs in an order that depends on nothing but the calls.

use super::count::{Counted, Site};
use super::plan::Plan;
use crate::args::{Codes, SweepStage};
use cupeer_spec::function::{FUNCTIONS, FnSpec};
use cupeer_spec::results::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of planned runs: more would take days.
const MOST: usize = 100_000;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Call {
    pub site: Site,
    /// Position of the process in the order in which processes reached the driver; `None` if only one process makes calls
    /// from this place.
    pub process: Option<u16>,
    /// Number of the call among those from its place, from 1.
    pub n: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Fault {
    pub call: Call,
    /// Result with which the call fails, as rules name it.
    pub code: String,
    /// True if this call and all later calls from its place fail.
    pub is_lasting: bool,
}

/// One run: the calls that fail in it. The last fault is the subject of the run; the program reaches its call because of
/// the earlier ones.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Trial {
    pub faults: Vec<Fault>,
}

/// A place, and the calls from it in all processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    pub site: Site,
    /// Library, offset, and (if known) function that makes the calls.
    pub caller: String,
    /// Number of calls of each process, by the process's position in the order in which processes reached the driver.
    pub calls: Vec<(u16, u64)>,
    /// Offset in the library, used for sorting.
    offset: u64,
}

/// Returns the places of a run in an order that is the same in every run.
pub fn places(counted: &Counted) -> Vec<Counts> {
    let mut places: BTreeMap<&Site, Counts> = BTreeMap::new();
    for ((process, site), calls) in &counted.calls {
        let (caller, offset) = calls.caller.clone().unwrap_or_default();
        let fresh = Counts { site: site.clone(), caller, calls: Vec::new(), offset };
        places.entry(site).or_insert(fresh).calls.push((*process, calls.count));
    }
    let mut places: Vec<Counts> = places.into_values().collect();
    let library = |place: &Counts| place.caller.split('+').next().unwrap_or_default().to_owned();
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
pub fn is_same(a: &[Counts], b: &[Counts]) -> bool {
    let calls = |places: &[Counts]| {
        let sorted = |place: &Counts| {
            let mut calls: Vec<u64> = place.calls.iter().map(|(_, count)| *count).collect();
            calls.sort_unstable();
            (place.site.clone(), calls)
        };
        places.iter().map(sorted).collect::<BTreeSet<_>>()
    };
    calls(a) == calls(b)
}

impl Counts {
    pub fn total(&self) -> u64 {
        self.calls.iter().map(|(_, count)| count).sum()
    }

    /// Returns the first call, and an iterator over all other calls.
    fn calls(&self) -> (Option<Call>, impl Iterator<Item = Call>) {
        let several = self.calls.len() > 1;
        let mut all = self.calls.iter().flat_map(move |(process, count)| {
            let process = several.then_some(*process);
            (1..=*count).map(move |n| Call { site: self.site.clone(), process, n })
        });
        (all.next(), all)
    }
}

/// Returns the runs about the first call from each place. The runs with the first result code of each place come before
/// those with its second code.
pub fn distinct(places: &[Counts], before: &[Fault], plan: &Plan) -> Vec<Trial> {
    in_turn(places.iter().filter_map(|place| place.calls().0).map(|call| of_call(call, before, plan)))
}

/// Returns the runs about all further calls, those with smaller numbers first, and the number of runs beyond [`MOST`].
pub fn further(places: &[Counts], plan: &Plan) -> (Vec<Trial>, u64) {
    let of_each = |place: &Counts| 2 * codes(&place.site.function, plan).len() as u64;
    let all: u64 = places.iter().map(|place| place.total().saturating_sub(1) * of_each(place)).sum();
    let most = MOST / places.iter().map(of_each).max().unwrap_or(1).max(1) as usize;
    // Only so many of each place are taken, because there may be millions.
    let mut calls: Vec<Call> = places.iter().flat_map(|place| place.calls().1.take(most)).collect();
    calls.sort_by_key(|call| call.n);
    calls.truncate(most);
    let trials = in_turn(calls.into_iter().map(|call| of_call(call, &[], plan)));
    let more = all.saturating_sub(trials.len() as u64);
    (trials, more)
}

fn of_call(call: Call, before: &[Fault], plan: &Plan) -> Vec<Trial> {
    let codes = codes(&call.site.function, plan).into_iter();
    let faults = codes.flat_map(|code| [(code.clone(), false), (code, true)]);
    let faults = faults.map(|(code, is_lasting)| Fault { call: call.clone(), code, is_lasting });
    faults.map(|fault| Trial { faults: [before, &[fault]].concat() }).collect()
}

/// Returns the first runs of all lists, then the second ones, and so on.
fn in_turn(lists: impl Iterator<Item = Vec<Trial>>) -> Vec<Trial> {
    let lists: Vec<Vec<Trial>> = lists.collect();
    let most = lists.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|i| lists.iter().filter_map(move |list| list.get(i).cloned())).collect()
}

fn spec(function: &str) -> Option<&'static FnSpec> {
    FUNCTIONS.iter().find(|spec| spec.name() == function)
}

fn codes(function: &str, plan: &Plan) -> Vec<String> {
    let Some(spec) = spec(function) else { return Vec::new() };
    // A name without a version means all versions of the function.
    let versions = || FUNCTIONS.iter().filter(|other| other.name() == function || other.lookup() == function);
    let is_tried = |code: &i32| {
        (plan.codes != Codes::Documented || !spec.is_only_seen(*code))
            && versions().all(|version| version.failures().any(|known| known == *code))
    };
    let mut codes: Vec<i32> = spec.failures().filter(is_tried).collect();
    // A program that continues after this result is right, so a run with it is the least informative and comes last.
    codes.sort_by_key(|code| *code == Result::PEER_ACCESS_ALREADY_ENABLED as i32);
    let names = codes.into_iter();
    let names =
        names.map(|code| spec.result(code).map_or_else(|| code.to_string(), |spec| spec.short().to_owned()));
    // A program that makes this call has initialized its libraries.
    let names = names.filter(|name| plan.codes == Codes::All || !name.ends_with("INITIALIZED"));
    names.take(if plan.codes == Codes::One { 1 } else { usize::MAX }).collect()
}

impl Trial {
    /// Returns the fault that the run is about: the last one.
    pub fn fault(&self) -> Option<&Fault> {
        self.faults.last()
    }

    pub fn rules(&self, plan: &Plan) -> Vec<String> {
        self.faults.iter().map(|fault| fault.rule(plan)).collect()
    }
}

impl Fault {
    /// Returns true if the result of the fault is undocumented, but real drivers were seen to return it.
    pub fn is_only_seen(&self) -> bool {
        let result =
            |spec: &FnSpec| spec.parse_result(&self.code).is_some_and(|code| spec.is_only_seen(code));
        spec(&self.call.site.function).is_some_and(result)
    }

    /// Returns the rule of the fault, in the syntax of `--inject`.
    pub fn rule(&self, plan: &Plan) -> String {
        let Call { site, process, n } = &self.call;
        let mut rule = site.function.clone();
        if plan.names_programs {
            rule += &format!(":program={}", pattern(&site.program));
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
        let known = spec(&site.function);
        if plan.stage == SweepStage::Undo && known.is_some_and(|spec| spec.undone_by().is_some()) {
            rule += ":stage=undo";
        }
        if known.is_some_and(FnSpec::gives_back) {
            rule += ":force";
        }
        rule
    }
}

/// Returns a name as a pattern: characters with a meaning in a rule or a shell become `?`.
fn pattern(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    name.chars().map(|c| if plain(c) { String::from(c) } else { "?".repeat(c.len_utf8()) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::count::Calls;
    use super::*;
    use cupeer_spec::function::{FnId, Group};

    fn counted(calls: &[(u16, &str, u64, u64)]) -> Counted {
        let mut counted = Counted::default();
        for (process, function, stack, count) in calls {
            let site =
                Site { program: "app".into(), rank: None, function: (*function).to_owned(), stack: *stack };
            let caller = Some((format!("app+{stack:#x}"), *stack));
            counted.calls.insert((*process, site), Calls { count: *count, caller });
        }
        counted
    }

    fn rules(trials: &[Trial], plan: &Plan) -> Vec<String> {
        trials.iter().map(|trial| trial.rules(plan).join(";")).collect()
    }

    /// Returns the number of results that a function is made to fail with.
    fn sensible(function: &str) -> usize {
        codes(function, &Plan::default()).len()
    }

    const OPEN: &str = "cuIpcOpenMemHandle_v2";
    const ENABLE: &str = "cuCtxEnablePeerAccess";

    #[test]
    fn distinct_places_come_first_each_with_its_first_code() {
        let plan = Plan::default();
        let places = places(&counted(&[(1, OPEN, 0x20, 2), (2, ENABLE, 0x10, 1)]));
        let first = rules(&distinct(&places, &[], &plan), &plan);
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
        assert!(
            first.contains(&"cuIpcOpenMemHandle_v2:stack=0000000000000020:when=1:error=NOT_PERMITTED".into())
        );
        let more = rules(&further(&places, &plan).0, &plan);
        assert!(
            more.len() == 2 * sensible(OPEN) && more.iter().all(|rule| rule.contains(":when=2")),
            "{more:#?}"
        );
    }

    #[test]
    fn only_the_first_of_millions_of_calls_are_planned() {
        let places = places(&counted(&[(1, OPEN, 1, 3_000_000), (1, ENABLE, 2, 5)]));
        let (trials, more) = further(&places, &Plan::default());
        let of_each = |function| 2 * sensible(function) as u64;
        assert_eq!(trials.len() as u64 + more, of_each(OPEN) * (3_000_000 - 1) + of_each(ENABLE) * 4);
        let most = trials.iter().filter_map(|trial| trial.fault()).map(|fault| fault.call.n).max();
        assert!(
            (MOST * 99 / 100..=MOST).contains(&trials.len()) && most < Some(MOST as u64),
            "{} runs, up to call {most:?}",
            trials.len()
        );
    }

    #[test]
    fn processes_are_told_apart_where_they_call_from_one_place() {
        let plan = Plan { names_programs: true, ..Plan::default() };
        let places = places(&counted(&[(2, OPEN, 0x20, 1), (1, OPEN, 0x20, 1)]));
        let first = rules(&distinct(&places, &[], &plan), &plan);
        assert_eq!(
            first[0],
            "cuIpcOpenMemHandle_v2:program=app:process=1:stack=0000000000000020:when=1:error=INVALID_CONTEXT"
        );
        let more = rules(&further(&places, &plan).0, &plan);
        assert!(more.iter().all(|rule| rule.contains(":process=2:")), "{more:#?}");
    }

    #[test]
    fn two_runs_are_the_same_whichever_process_was_first() {
        let places = |calls: &[_]| places(&counted(calls));
        let a = places(&[(1, OPEN, 1, 2), (2, OPEN, 1, 1)]);
        assert!(is_same(&a, &places(&[(1, OPEN, 1, 1), (2, OPEN, 1, 2)])));
        assert!(!is_same(&a, &places(&[(1, OPEN, 1, 1), (2, OPEN, 1, 1)])));
        assert!(!is_same(&a, &places(&[(1, OPEN, 1, 2)])));
    }

    #[test]
    fn names_have_no_character_that_the_grammar_takes() {
        assert_eq!(pattern("python3.11"), "python3.11");
        assert_eq!(pattern("a b:c;d,é*"), "a?b?c?d????");
    }

    #[test]
    fn every_rule_can_be_read() {
        let plan =
            Plan { names_programs: true, stage: SweepStage::Undo, codes: Codes::All, ..Plan::default() };
        let is_varied =
            |function: &FnId| function.spec().is_alterable() && !function.spec().is_in(Group::Lookup);
        for function in FnId::all().filter(is_varied) {
            let name = function.spec().name();
            let places = places(&counted(&[(1, name, 7, 1), (2, name, 7, 1)]));
            for rule in rules(&distinct(&places, &[], &plan), &plan) {
                let read = cupeer_spec::fault::Plan::parse("sweep", &rule);
                assert!(read.is_ok(), "{rule}: {}", read.unwrap_err());
            }
        }
    }

    #[test]
    fn codes_are_those_that_make_sense() {
        let codes = |codes| super::codes(ENABLE, &Plan { codes, ..Plan::default() });
        let known = FnId::cuCtxEnablePeerAccess.spec().failures().count();
        assert_eq!(codes(Codes::All).len(), known);
        assert_eq!(codes(Codes::Sensible).len(), known - 2);
        assert_eq!(
            codes(Codes::Documented).len(),
            FnId::cuCtxEnablePeerAccess.spec().documented().count() - 3
        );
        assert_eq!(codes(Codes::One), ["TOO_MANY_PEERS"]);
        // The one that is as good as success comes last.
        assert_eq!(codes(Codes::Sensible).last().map(String::as_str), Some("PEER_ACCESS_ALREADY_ENABLED"));
    }
}
