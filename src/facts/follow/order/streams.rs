//! The streams of one process, by what calls name them with.

use cupeer_record::Call;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::detail;

/// Handles that stand for the default stream of the function's variant, for the legacy one, and for that of the thread.
const DEFAULT: u64 = 0;
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// A stream. A handle that was given out again is the same here: then more is in order than really is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    Legacy,
    /// The default stream of a thread.
    Thread(u32),
    Handle(u64),
}

/// Returns true if the call was only captured into a graph.
pub fn is_captured(call: &Call) -> bool {
    call.details.current.is_some_and(|current| current & detail::CAPTURED != 0)
}

/// Returns true if a call that could use host memory did not: it neither waited for its work nor tells the host about it.
pub fn is_of_devices(call: &Call) -> bool {
    call.details.current.is_some_and(|current| current & detail::OF_DEVICES != 0)
}

/// Relation of a stream to the legacy default stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Legacy,
    /// It waits for that stream, or may do so.
    Blocking,
    NonBlocking,
}

/// All streams, numbered.
#[derive(Default)]
pub struct Streams {
    pub all: Vec<(Name, Kind)>,
}

impl Streams {
    /// The stream of a call: the one that it names, or the default one.
    pub fn of_call(&mut self, function: FnId, call: &Call) -> usize {
        let spec = function.spec();
        let handle = spec.stream().and_then(|by| call.number(by)).unwrap_or(DEFAULT);
        let is_apart = call.details.current.is_some_and(|current| current & detail::NON_BLOCKING != 0);
        let is_thread = spec.name().ends_with("_ptsz") || spec.name().ends_with("_ptds");
        let number = self.number(match handle {
            DEFAULT if is_thread => Name::Thread(call.tid),
            DEFAULT | LEGACY => Name::Legacy,
            PER_THREAD => Name::Thread(call.tid),
            handle => Name::Handle(handle),
        });
        if let (Name::Handle(_), true) = (self.all[number].0, is_apart) {
            self.all[number].1 = Kind::NonBlocking;
        }
        number
    }

    /// The legacy default stream.
    pub fn legacy(&mut self) -> usize {
        self.number(Name::Legacy)
    }

    fn number(&mut self, name: Name) -> usize {
        let known = self.all.iter().position(|(known, _)| *known == name);
        known.unwrap_or_else(|| {
            self.all.push((name, if name == Name::Legacy { Kind::Legacy } else { Kind::Blocking }));
            self.all.len() - 1
        })
    }
}
