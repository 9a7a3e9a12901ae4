//! Expected failures: the results of probes.
//!
//! A probe is known at the call, or from what its thread did next. Until then it is an open [`ProbeQuery`], and its
//! failures and findings are kept apart. Without the expected follow-up, it is an ordinary failure.

use crate::words::judged::as_judged_call;
use cupeer_record::{Call, Library, Outcome, Process};
use cupeer_rules::probes::{FollowUp, Probe};
use cupeer_spec::function::FnId;
use cupeer_spec::runtime::is_runtime_library;

/// Query that may turn out to be a probe: the thread, the call that would prove it, and the object of the
/// query.
pub type ProbeQuery = (u32, FollowUp, u64);

/// Answer to the question whether a failure is expected, as far as this is known yet.
#[derive(Clone, Copy, Default)]
pub enum Expectation {
    /// The failure is not expected.
    #[default]
    Unexpected,
    /// The failure is a negative answer to a probe if the thread makes the follow-up call.
    Undecided(&'static Probe, ProbeQuery),
    /// The failure is a negative answer to a probe.
    Expected(&'static Probe),
}

impl Expectation {
    /// Returns the standing of a call that returned.
    pub fn of(process: &Process, function: FnId, call: &Call) -> Expectation {
        let Outcome::Returned(result) = call.outcome else { return Expectation::Unexpected };
        // A failure from a fault plan is not the driver's answer.
        if result == 0 || call.injected {
            return Expectation::Unexpected;
        }
        let args = call.arguments();
        let asked = as_judged_call(function, result, &args, call);
        match Probe::of(&asked, || calling_library(process, call).as_bytes()) {
            None => Expectation::Unexpected,
            Some(probe) => match probe.follow_up {
                None => Expectation::Expected(probe),
                Some(follow_up) => Expectation::Undecided(probe, (call.tid, follow_up, follow_up.subject(&asked))),
            },
        }
    }

    /// Returns the query that still needs its follow-up call; `None` if there is none.
    pub fn open_query(self) -> Option<ProbeQuery> {
        if let Expectation::Undecided(_, question) = self { Some(question) } else { None }
    }
}

/// Returns why a failure with this result is expected, if the call alone shows it.
pub fn reason_expected(process: &Process, call: &Call) -> Option<&'static str> {
    match Expectation::of(process, call.function?, call) {
        Expectation::Expected(probe) => Some(probe.why),
        Expectation::Undecided(..) | Expectation::Unexpected => None,
    }
}

/// Returns the query for which a call is the follow-up, whatever the result of the call.
pub fn query_answered_by(function: FnId, call: &Call) -> Option<ProbeQuery> {
    let Outcome::Returned(result) = call.outcome else { return None };
    let args = call.arguments();
    let asked = as_judged_call(function, result, &args, call);
    let follow_up = FollowUp::of(&asked)?;
    Some((call.tid, follow_up, follow_up.subject(&asked)))
}

/// Returns the path of the library that made a call. If the CUDA runtime made it, this is the library that
/// called the runtime.
fn calling_library<'a>(process: &'a Process, call: &Call) -> &'a str {
    let frames = call.details.frames.iter().copied().chain([call.caller]);
    let mut libraries = frames.filter_map(|frame| process.library_at(frame, call.start));
    let mut first = None;
    let outside = libraries.find(|library: &&Library| {
        first = first.or(Some(*library));
        !is_runtime_library(library.path.as_bytes())
    });
    outside.or(first).map_or("", |library| &library.path)
}
