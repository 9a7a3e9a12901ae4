//! The contents of a record after it was read.

use crate::finding::Finding;
use crate::hit::FiredFault;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::{self, ARGS, MOST_ARGS, PythonLine, Slot, hit::did};
use std::sync::LazyLock;

/// End of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The call has not returned, as far as the recording shows.
    Pending,
    /// The call returned this result.
    Returned(i32),
    /// An exception, a cancellation, or a jump left the call.
    Unwound,
}

/// Call of a function of the driver. Times are in ticks of the recording's clock: see [`crate::process::Clock`].
#[derive(Clone, Debug)]
pub struct Call {
    /// Stream that has the call: one per thread at a time.
    pub stream: u32,
    /// Number of the call's slot in the stream, unique there.
    pub seq: u64,
    /// Thread id of the caller.
    pub tid: u32,
    /// Function; `None` if this version of cupeer does not know it, so that only its name is known.
    pub function: Option<FnId>,
    /// Number of the function in its record, for [`crate::process::Process::function_name`].
    pub number: u16,
    /// Time when the call was forwarded.
    pub start: u64,
    /// Time when the call returned; equal to `start` if it has not.
    pub end: u64,
    /// End of the call.
    pub outcome: Outcome,
    /// True if cupeer, not the driver, supplied the result.
    pub injected: bool,
    /// Return address of the call.
    pub caller: u64,
    /// Slot of the call, with its arguments.
    pub slot: Slot,
    /// Further data about the call.
    pub details: CallDetails,
}

impl Call {
    /// Returns the bytes of an argument by its index; `None` if its value is unknown.
    pub fn argument(&self, index: usize) -> Option<&[u8]> {
        let place = self.function?.spec().argument_byte_range(index);
        // The slot has the values after the call. Values from before the call are in the details.
        let bytes = self.slot.args.get(place.clone()).or_else(|| self.details.arguments.get(place))?;
        (!bytes.is_empty() && self.slot.shape(index) == slot::shape::VALUE).then_some(bytes)
    }

    /// Returns the value of an argument by its index; `None` if it is not a number, or unknown.
    pub fn argument_number(&self, index: usize) -> Option<u64> {
        let bytes = self.argument(index).filter(|bytes| bytes.len() <= 8)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Returns the bytes of all arguments.
    pub fn arguments(&self) -> [u8; MOST_ARGS] {
        let mut bytes = [0; MOST_ARGS];
        bytes.iter_mut().zip(&self.details.arguments).for_each(|(place, byte)| *place = *byte);
        // An argument that does not fit in the slot is left out as a whole.
        let spec = self.function.map(|function| function.spec());
        let ends = (0..spec.map_or(0, |spec| spec.args().len()))
            .filter_map(|index| Some(spec?.argument_byte_range(index).end));
        let kept = ends.filter(|end| *end <= ARGS).max().unwrap_or(0);
        bytes[..kept].copy_from_slice(&self.slot.args[..kept]);
        bytes
    }

    /// Returns the bytes of an argument by its name; `None` if its value is unknown.
    pub fn argument_by_name(&self, name: &str) -> Option<&[u8]> {
        self.argument(self.function?.spec().args().iter().position(|arg| arg.name() == name)?)
    }

    /// Returns the name of the fault that changed the result or an output that the program received; `None`
    /// if no fault did, or if the recording lacks the name.
    pub fn injecting_fault(&self) -> Option<&str> {
        let mut hits = self.details.hits.iter().filter(|_| self.injected);
        hits.find(|hit| hit.has_effect(did::ERROR | did::OUT | did::DENIED)).map(|hit| hit.fault_name.as_str())
    }

    /// Returns the fault that keeps the call from returning, because it holds the call or ended the process
    /// or thread; `None` if there is none.
    pub fn stopping_fault(&self) -> Option<&FiredFault> {
        let mut hits = self.details.hits.iter().filter(|hit| !hit.has_effect(did::DRY));
        hits.find(|hit| self.outcome == Outcome::Pending && hit.has_effect(did::HANG | did::SIGNAL | did::EXIT))
    }

    /// Returns the number of calls that this event represents: this call, and later calls of the thread that
    /// failed in the same way.
    pub fn call_count(&self) -> u64 {
        1 + self.details.repeats.map_or(0, |run| run.calls)
    }

    /// Returns the time at which the last call that this event represents returned, in ticks.
    pub fn last_end(&self) -> u64 {
        self.details.repeats.map_or(self.end, |run| run.end.max(self.end))
    }

    /// Returns true if the return addresses were recorded for this call; false if they are those of an
    /// earlier call of the same kind.
    pub fn has_own_stack(&self) -> bool {
        !self.details.frames.is_empty() && self.details.stack_of.is_none()
    }

    /// Returns true if the call returned CUDA_SUCCESS.
    pub fn succeeded(&self) -> bool {
        self.outcome == Outcome::Returned(0)
    }
}

/// Content of a copy between device memory and the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyContent {
    /// Keyed hash of sampled pieces of the content.
    pub hash: u64,
    /// Ordinal of the device in the process.
    pub device: i32,
    /// True if the sampled pieces repeat one word.
    pub is_constant: bool,
}

/// Memory of a device when a call failed for lack of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceMemoryState {
    /// Ordinal, in the process, of the device of the current context.
    pub device: i32,
    /// Free bytes of the device.
    pub free: u64,
    /// Total bytes of the device.
    pub total: u64,
    /// Bytes of the process's own allocations on the device that are only counted: see
    /// [`crate::Process::counted_memory`].
    pub counted_bytes: u64,
    /// Number of the allocations that `counted_bytes` has.
    pub counted: u64,
}

/// Details of a call, boxed because most calls have none and calls are moved by the million.
#[derive(Clone, Default, Debug)]
pub struct CallDetails(Option<Box<Details>>);

static NONE: LazyLock<Details> = LazyLock::new(Details::default);

impl From<Details> for CallDetails {
    fn from(details: Details) -> Self {
        CallDetails((details != *NONE).then(|| Box::new(details)))
    }
}

impl std::ops::Deref for CallDetails {
    type Target = Details;
    fn deref(&self) -> &Details {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl std::ops::DerefMut for CallDetails {
    fn deref_mut(&mut self) -> &mut Details {
        self.0.get_or_insert_default()
    }
}

impl PartialEq<Details> for CallDetails {
    fn eq(&self, other: &Details) -> bool {
        **self == *other
    }
}

/// Contents of the details of a call.
///
/// Empty details own no memory.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Details {
    /// Return addresses, the caller's first.
    pub frames: Vec<u64>,
    /// Python frames of the call, the innermost first.
    pub python: Vec<PythonLine>,
    /// Elements of array arguments: the index of the argument, and the bytes of its elements.
    pub elements: Vec<(u8, Vec<u8>)>,
    /// Text arguments: the index of the argument, and the bytes of the text.
    pub texts: Vec<(u8, Vec<u8>)>,
    /// Bytes of all arguments before the call, if the slot has no room for them; otherwise empty.
    pub arguments: Vec<u8>,
    /// Allocation: its first address and its size in bytes.
    pub memory: Option<(u64, u64)>,
    /// Ordinals of the current context's device and of the peer context's device.
    pub devices: (Option<i32>, Option<i32>),
    /// Current context; for a call that destroyed a context, that context.
    pub context: Option<u64>,
    /// Context of exported memory, and the ordinal of its device.
    pub owner: Option<(u64, i32)>,
    /// Devices on which the process held contexts, if these were several: a bit for each ordinal.
    pub contexts: Option<u64>,
    /// Context that was current, in the lowest 48 bits; above them, the ordinal of its device plus one.
    pub current: Option<u64>,
    /// Shared memory that a batch of copies used: for each range, the first address, and the bytes with [`slot::detail::WRITTEN`] and
    /// [`slot::detail::GAPS`].
    pub ranges: Vec<(u64, u64)>,
    /// Shared memory that an executable graph uses: [`slot::nodes`].
    pub nodes: Vec<u8>,
    /// Content of a copy between device memory and the host.
    pub content: Option<CopyContent>,
    /// Memory of a device when the call failed for lack of memory.
    pub device_memory: Option<DeviceMemoryState>,
    /// Explanation of the failure from the driver's own log.
    pub message: Option<Vec<u8>>,
    /// Findings of rules, in the order in which the rules were checked.
    pub findings: Vec<Finding>,
    /// Faults that fired, in the order in which they did.
    pub hits: Vec<FiredFault>,
    /// Later calls that failed in the same way and have no event of their own.
    pub repeats: Option<RepeatedCalls>,
    /// Number of the slot whose stack `frames` and `python` repeat: an earlier call of the same kind. `None` if the
    /// stack is the call's own.
    pub stack_of: Option<u64>,
}

/// Calls that failed in the same way as the call before them. Times are in ticks of the record's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepeatedCalls {
    /// Number of calls, at most [`slot::RepeatedCalls::MOST`].
    pub calls: u64,
    /// Time when the last of the calls returned.
    pub end: u64,
    /// Total duration of the calls in ticks.
    pub total: u64,
    /// Longest duration of one of the calls in ticks.
    pub longest: u64,
}

/// Event of a stream.
#[derive(Clone, Debug)]
// Nearly all events are calls. Boxing them would need an allocation for each.
#[allow(clippy::large_enum_variant)]
pub enum Event {
    /// Call of a function of the driver.
    Call(Call),
    /// Copy or memset that succeeded and was recorded only because it used shared memory. It counts as no call. Its result is 1 if
    /// later uses of that memory are not recorded.
    Use(Call),
    /// Mark that the program set.
    Mark {
        /// Thread id of the thread that set the mark.
        tid: u32,
        /// Time when the mark was set, in ticks.
        time: u64,
        /// Text of the mark, in bytes.
        text: Vec<u8>,
    },
    /// End of a call that was returned earlier as pending, because it ended much later:
    /// [`Call::apply_late_end`] applies it.
    LateEnd {
        /// Stream that has the call.
        stream: u32,
        /// [`Call::seq`] of the call.
        seq: u64,
        /// Thread id of the caller.
        tid: u32,
        /// Time when the call returned, in ticks.
        end: u64,
        /// End of the call.
        outcome: Outcome,
        /// True if cupeer, not the driver, supplied the result.
        injected: bool,
        /// Slot that replaces the call's slot, except for its start and its caller.
        slot: Slot,
        /// Further data about the call, known since it returned.
        details: CallDetails,
    },
}

impl Event {
    /// Returns the time when the event began, in ticks; for a late end, the time of the end.
    pub fn start(&self) -> u64 {
        match self {
            Event::Call(call) | Event::Use(call) => call.start,
            Event::Mark { time, .. } => *time,
            Event::LateEnd { end, .. } => *end,
        }
    }
}

impl Call {
    /// Completes this call with an event that is its late end. Returns false if the event belongs to another
    /// call.
    pub fn apply_late_end(&mut self, late: &Event) -> bool {
        let Event::LateEnd { stream, seq, end, outcome, injected, slot, details, .. } = late else {
            return false;
        };
        if (*stream, *seq) != (self.stream, self.seq) {
            return false;
        }
        self.end = (*end).max(self.start);
        (self.outcome, self.injected) = (*outcome, *injected);
        self.slot = with_late_end(&self.slot, slot);
        if details.0.is_some() {
            self.details.merge((**details).clone());
        }
        true
    }
}

/// Returns the slot of a call that is completed with its late end. The start and the caller come from the
/// call's own slot.
pub(crate) fn with_late_end(call: &Slot, late: &Slot) -> Slot {
    let state = slot::RETURNED | late.word as u8 & slot::INJECTED;
    let caller = call.caller() | late.caller & !((1 << 48) - 1);
    Slot { word: call.word & !0xff | u64::from(state), start: call.start, caller, ..*late }
}
