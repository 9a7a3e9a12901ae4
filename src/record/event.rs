//! The contents of a record after it was read.

use crate::finding::Finding;
use crate::hit::Hit;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::{self, ARGS, Line, MOST_ARGS, Slot, hit::did};

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It has not returned, as far as the record goes.
    Pending,
    /// It returned this result.
    Returned(i32),
    /// An exception or a cancellation went through it.
    Unwound,
}

/// One call. Times are ticks of the record's clock: see [`crate::process::Clock`].
#[derive(Clone, Debug)]
pub struct Call {
    /// The stream.
    pub stream: u32,
    /// The number of its slot in the stream; unique there.
    pub seq: u64,
    /// The thread.
    pub tid: u32,
    /// The function; `None` where this version of cupeer does not know it: then only the name is known.
    pub function: Option<FnId>,
    /// The number of the function in its record: [`crate::process::Process::function_name`].
    pub number: u16,
    /// When it was forwarded.
    pub start: u64,
    /// When it returned; `start` where it has not.
    pub end: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the result was of our making.
    pub injected: bool,
    /// The return address.
    pub caller: u64,
    /// The slot itself, with the arguments.
    pub slot: Slot,
    /// What else is known of it.
    pub details: CallDetails,
}

impl Call {
    /// The bytes of an argument, by its index; `None` where its value is not known.
    pub fn argument(&self, index: usize) -> Option<&[u8]> {
        let place = self.function?.spec().place(index);
        // Outputs lie in the slot: elsewhere is what was known before the call.
        let bytes = self.slot.args.get(place.clone()).or_else(|| self.details.arguments.get(place))?;
        (!bytes.is_empty() && self.slot.shape(index) == slot::shape::VALUE).then_some(bytes)
    }

    /// An argument, where it is a number.
    pub fn number(&self, index: usize) -> Option<u64> {
        let bytes = self.argument(index).filter(|bytes| bytes.len() <= 8)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// The bytes of all arguments.
    pub fn arguments(&self) -> [u8; MOST_ARGS] {
        let mut bytes = [0; MOST_ARGS];
        bytes.iter_mut().zip(&self.details.arguments).for_each(|(place, byte)| *place = *byte);
        // One that has no room in the slot is not there, not even in part.
        let spec = self.function.map(|function| function.spec());
        let ends =
            (0..spec.map_or(0, |spec| spec.args.len())).filter_map(|index| Some(spec?.place(index).end));
        let kept = ends.filter(|end| *end <= ARGS).max().unwrap_or(0);
        bytes[..kept].copy_from_slice(&self.slot.args[..kept]);
        bytes
    }

    /// The same by its name.
    pub fn argument_called(&self, name: &str) -> Option<&[u8]> {
        self.argument(self.function?.spec().args.iter().position(|arg| arg.name == name)?)
    }

    /// The rule of a fault plan that the program owes what it got to: a result or an output that is not the driver's.
    /// `None` also where the record does not say which.
    pub fn injected_by(&self) -> Option<&str> {
        let mut hits = self.details.hits.iter().filter(|_| self.injected);
        hits.find(|hit| hit.has(did::ERROR | did::OUT | did::DENIED)).map(|hit| hit.rule.as_str())
    }

    /// The hit because of which it does not return: it waits, or ended its process or thread.
    pub fn stopped_by(&self) -> Option<&Hit> {
        let mut hits = self.details.hits.iter().filter(|hit| !hit.has(did::DRY));
        hits.find(|hit| self.outcome == Outcome::Pending && hit.has(did::HANG | did::SIGNAL | did::EXIT))
    }

    /// How many calls it stands for: itself, and those of the thread that failed in the same way after it.
    pub fn times(&self) -> u64 {
        1 + self.details.run.map_or(0, |run| run.calls)
    }

    /// When the last of them returned.
    pub fn last_end(&self) -> u64 {
        self.details.run.map_or(self.end, |run| run.end.max(self.end))
    }

    /// Whether its return addresses are its own, and not those of an earlier call of its kind.
    pub fn has_own_stack(&self) -> bool {
        !self.details.frames.is_empty() && self.details.stack_of.is_none()
    }

    /// Whether it returned CUDA_SUCCESS.
    pub fn succeeded(&self) -> bool {
        self.outcome == Outcome::Returned(0)
    }
}

/// The details of a call, where there are any: most calls have none, and are moved about by the million.
#[derive(Clone, Default, Debug)]
pub struct CallDetails(Option<Box<Details>>);

static NONE: Details = Details {
    frames: Vec::new(),
    python: Vec::new(),
    elements: Vec::new(),
    texts: Vec::new(),
    arguments: Vec::new(),
    memory: None,
    devices: (None, None),
    context: None,
    owner: None,
    message: None,
    findings: Vec::new(),
    hits: Vec::new(),
    run: None,
    stack_of: None,
};

impl From<Details> for CallDetails {
    fn from(details: Details) -> Self {
        CallDetails((details != NONE).then(|| Box::new(details)))
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

/// What stands in the details of a call.
///
/// Empty ones own no memory.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Details {
    /// Return addresses, the caller's first.
    pub frames: Vec<u64>,
    /// The frames of Python among them, the innermost first.
    pub python: Vec<Line>,
    /// The elements of arrays: the number of the argument, and their bytes.
    pub elements: Vec<(u8, Vec<u8>)>,
    /// Texts: the number of the argument, and the bytes.
    pub texts: Vec<(u8, Vec<u8>)>,
    /// All arguments as they were before the call, where the slot has no room for them.
    pub arguments: Vec<u8>,
    /// The allocation: its first address and size.
    pub memory: Option<(u64, u64)>,
    /// The ordinals of the current context's device and of the peer context's.
    pub devices: (Option<i32>, Option<i32>),
    /// The current context; of a call that ends one, that one, where it has ended.
    pub context: Option<u64>,
    /// Of memory that was exported: the context that it belongs to, and its device.
    pub owner: Option<(u64, i32)>,
    /// What the driver said.
    pub message: Option<Vec<u8>>,
    /// What rules have found, in the order in which they were asked.
    pub findings: Vec<Finding>,
    /// The rules of fault plans that fired, in the order in which they did.
    pub hits: Vec<Hit>,
    /// Calls that failed in the same way, which have no event of their own.
    pub run: Option<Run>,
    /// The number of the slot of the earlier call of its kind that `frames` and `python` are of; `None` where they are its own.
    pub stack_of: Option<u64>,
}

/// Calls that failed in the same way as the one before them. Times are ticks of the record's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// How many, at most [`slot::Run::MOST`].
    pub calls: u64,
    /// When the last of them returned.
    pub end: u64,
    /// How long they took together.
    pub total: u64,
    /// How long the longest of them took.
    pub longest: u64,
}

/// What a stream holds.
#[derive(Clone, Debug)]
// Calls are what nearly all events are, and boxing them would be an allocation for each.
#[allow(clippy::large_enum_variant)]
pub enum Event {
    /// A call.
    Call(Call),
    /// A mark that the program set.
    Mark {
        /// The thread.
        tid: u32,
        /// When.
        time: u64,
        /// Its text.
        text: Vec<u8>,
    },
    /// The end of a call that was handed out as pending: it returned much later. [`Call::finish`] puts it there.
    LateEnd {
        /// The stream.
        stream: u32,
        /// [`Call::seq`] of the call.
        seq: u64,
        /// The thread.
        tid: u32,
        /// When it returned.
        end: u64,
        /// How it ended.
        outcome: Outcome,
        /// Whether the result was of our making.
        injected: bool,
        /// What replaces the call's slot, but for its start and its caller.
        slot: Slot,
        /// What else is known of the call since.
        details: CallDetails,
    },
}

impl Event {
    /// When it began; of a late end, when that was.
    pub fn start(&self) -> u64 {
        match self {
            Event::Call(call) => call.start,
            Event::Mark { time, .. } => *time,
            Event::LateEnd { end, .. } => *end,
        }
    }
}

impl Call {
    /// Puts the late end of this call where it belongs. False where the event is not that.
    pub fn finish(&mut self, late: &Event) -> bool {
        let Event::LateEnd { stream, seq, end, outcome, injected, slot, details, .. } = late else {
            return false;
        };
        if (*stream, *seq) != (self.stream, self.seq) {
            return false;
        }
        self.end = (*end).max(self.start);
        (self.outcome, self.injected) = (*outcome, *injected);
        self.slot = finished(&self.slot, slot);
        if details.0.is_some() {
            self.details.add((**details).clone());
        }
        true
    }
}

/// The slot of a call as its late end says that it is. Where the call began is only known from the call.
pub(crate) fn finished(call: &Slot, late: &Slot) -> Slot {
    let state = slot::RETURNED | late.word as u8 & slot::INJECTED;
    let caller = call.caller() | late.caller & !((1 << 48) - 1);
    Slot { word: call.word & !0xff | u64::from(state), start: call.start, caller, ..*late }
}
