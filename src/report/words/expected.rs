//! Expected failures: the results of probes.
//!
//! A probe is known at the call, or from what its thread did next. Until then it is an open [`Question`], and its
//! failures and findings are kept apart. Without the expected follow-up, it is an ordinary failure.

use crate::words::judged::judged;
use cupeer_record::{Call, Library, Outcome, Process};
use cupeer_rules::probes::{FollowUp, Probe};
use cupeer_spec::function::FnId;
use cupeer_spec::runtime::is_library;

/// Query of a thread: the thread, the action that follows a mere query, and the object of the query.
pub type Question = (u32, FollowUp, u64);

/// Class of a failure, if known.
#[derive(Clone, Copy, Default)]
pub enum Standing {
    /// Not expected.
    #[default]
    Unexpected,
    /// A negative answer to a probe, if the thread follows it up.
    Open(&'static Probe, Question),
    /// A negative answer to a probe.
    Expected(&'static Probe),
}

impl Standing {
    /// Returns the standing of a call that returned.
    pub fn of(process: &Process, function: FnId, call: &Call) -> Standing {
        let Outcome::Returned(result) = call.outcome else { return Standing::Unexpected };
        // A fault plan's answers do not come from the driver.
        if result == 0 || call.injected {
            return Standing::Unexpected;
        }
        let args = call.arguments();
        let asked = judged(function, result, &args, call);
        match Probe::of(&asked, || caller(process, call).as_bytes()) {
            None => Standing::Unexpected,
            Some(probe) => match probe.follow_up {
                None => Standing::Expected(probe),
                Some(follow_up) => Standing::Open(probe, (call.tid, follow_up, follow_up.about(&asked))),
            },
        }
    }

    /// Returns the open question.
    pub fn question(self) -> Option<Question> {
        if let Standing::Open(_, question) = self { Some(question) } else { None }
    }
}

/// Returns why a failure with this result is expected, if the call alone shows it.
pub fn why(process: &Process, call: &Call) -> Option<&'static str> {
    match Standing::of(process, call.function?, call) {
        Standing::Expected(probe) => Some(probe.why),
        Standing::Open(..) | Standing::Unexpected => None,
    }
}

/// Returns the question that a call answers, whatever its result.
pub fn answered(function: FnId, call: &Call) -> Option<Question> {
    let Outcome::Returned(result) = call.outcome else { return None };
    let args = call.arguments();
    let asked = judged(function, result, &args, call);
    let follow_up = FollowUp::of(&asked)?;
    Some((call.tid, follow_up, follow_up.about(&asked)))
}

/// The library that made a call: the CUDA runtime calls for others.
fn caller<'a>(process: &'a Process, call: &Call) -> &'a str {
    let frames = call.details.frames.iter().copied().chain([call.caller]);
    let mut libraries = frames.filter_map(|frame| process.library_at(frame, call.start));
    let mut first = None;
    let outside = libraries.find(|library: &&Library| {
        first = first.or(Some(*library));
        !is_library(library.path.as_bytes())
    });
    outside.or(first).map_or("", |library| &library.path)
}
