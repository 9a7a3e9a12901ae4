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
pub enum StreamKey {
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
pub fn uses_only_device_memory(call: &Call) -> bool {
    call.details.current.is_some_and(|current| current & detail::OF_DEVICES != 0)
}

/// Relation of a stream to the legacy default stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamKind {
    Legacy,
    /// The stream waits for the legacy default stream, or may do so.
    Blocking,
    NonBlocking,
}

/// All streams of a process: the index of each is its number.
#[derive(Default)]
pub struct Streams {
    pub all: Vec<(StreamKey, StreamKind)>,
}

impl Streams {
    /// Returns the number of a call's stream: the named stream, or the default stream.
    pub fn stream_of_call(&mut self, function: FnId, call: &Call) -> usize {
        let spec = function.spec();
        let handle = spec.stream_argument().and_then(|by| call.argument_number(by)).unwrap_or(DEFAULT);
        let is_apart = call.details.current.is_some_and(|current| current & detail::NON_BLOCKING != 0);
        let is_thread = spec.name().ends_with("_ptsz") || spec.name().ends_with("_ptds");
        let number = self.number_or_add(match handle {
            DEFAULT if is_thread => StreamKey::Thread(call.tid),
            DEFAULT | LEGACY => StreamKey::Legacy,
            PER_THREAD => StreamKey::Thread(call.tid),
            handle => StreamKey::Handle(handle),
        });
        if let (StreamKey::Handle(_), true) = (self.all[number].0, is_apart) {
            self.all[number].1 = StreamKind::NonBlocking;
        }
        number
    }

    /// Returns the number of the legacy default stream.
    pub fn legacy_stream(&mut self) -> usize {
        self.number_or_add(StreamKey::Legacy)
    }

    fn number_or_add(&mut self, name: StreamKey) -> usize {
        let known = self.all.iter().position(|(known, _)| *known == name);
        known.unwrap_or_else(|| {
            self.all.push((name, if name == StreamKey::Legacy { StreamKind::Legacy } else { StreamKind::Blocking }));
            self.all.len() - 1
        })
    }
}
