//! The CUDA streams of one process, numbered by the handles in calls.

use cupeer_record::Call;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::detail;

/// Stream handle 0: the default stream, which depends on the variant of the function.
const DEFAULT: u64 = 0;
/// Stream handle CU_STREAM_LEGACY.
const LEGACY: u64 = 1;
/// Stream handle CU_STREAM_PER_THREAD.
const PER_THREAD: u64 = 2;

/// The key of a stream. Streams with the same handle, one after the other, count as one, so some work seems to be ordered that
/// is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    Legacy,
    /// The default stream of the thread with this id.
    Thread(u32),
    Handle(u64),
}

/// Returns true if the work of a call was not run, but captured into a graph.
pub fn is_captured(call: &Call) -> bool {
    call.details.current.is_some_and(|current| current & detail::CAPTURED != 0)
}

/// Returns true if a call that could use host memory used only device memory: then the host neither waits for its work nor learns
/// about it.
pub fn is_of_devices(call: &Call) -> bool {
    call.details.current.is_some_and(|current| current & detail::OF_DEVICES != 0)
}

/// Relation of a stream to the legacy default stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Legacy,
    /// The stream waits for the legacy default stream, or may do so.
    Blocking,
    NonBlocking,
}

/// All streams, numbered.
#[derive(Default)]
pub struct Streams {
    pub all: Vec<(Name, Kind)>,
}

impl Streams {
    /// Returns the number of a call's stream: the named stream, or the default stream.
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

    /// Returns the number of the legacy default stream.
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
