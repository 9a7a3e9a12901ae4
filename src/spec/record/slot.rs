//! The slots of a stream: 64 bytes, each about an action of a thread.

pub mod hit;
pub mod nodes;

/// State of a slot that was not written yet.
pub const EMPTY: u8 = 0;
/// State of a call that was forwarded and has not returned.
pub const PENDING: u8 = 1;
/// State of a call that has returned.
pub const RETURNED: u8 = 2;
/// State of a call that was left by an exception, a cancellation, or a jump of the thread.
pub const UNWOUND: u8 = 3;
/// The end of a call whose own slot, number `start` in the stream, had left the window. The return address is
/// that of the end; all else belongs to the call.
pub const LATE_END: u8 = 4;
/// More about a call: [`Slot::start`] is the number of its slot. The bytes from 16 on, over all `slots`,
/// contain [`detail`] items.
pub const DETAIL: u8 = 5;
/// Another thread continues the stream: `start` is the time, `end` its tid.
pub const THREAD: u8 = 6;
/// A mark of the program: `start` is the time. A [`detail::TEXT`] starts at byte 16.
pub const MARK: u8 = 7;
/// Calls that did the same as the call before them: see [`RepeatedCalls`].
pub const RUN: u8 = 8;
/// A call that succeeded and is not counted: a copy, memset, or launch that used shared memory, or a call
/// that orders such work. `result` has bits of [`used`]. A call that only enqueues work has its start as its end.
pub const USED: u8 = 9;
/// Bit that is added to the state of a slot if the result is that of a fault plan, not the driver's.
pub const INJECTED: u8 = 0x80;

/// Number of bytes for the arguments of a call in its slot.
pub const ARGS: usize = 28;
/// Maximum number of argument bytes. Arguments that do not fit in the slot are in a [`detail::ARGUMENTS`].
pub const MOST_ARGS: usize = 64;

/// Bits in the result of a [`USED`] slot, which mark periods in which the process recorded no such calls.
pub mod used {
    /// Bit of the last recorded call: the process records none from its end on, until one with [`RESUMED`].
    pub const LAST: i32 = 1;
    /// The process noted no calls between the previous one and the start of this one.
    pub const RESUMED: i32 = 2;
}

/// Slot of a stream, for a call.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// State, number of slots, function, `seq`: see [`slot_word`]. Written last.
    pub word: u64,
    /// Time at which the call was forwarded, on the clock of the recording.
    pub start: u64,
    /// Time at which the call returned, on the clock of the recording.
    pub end: u64,
    /// The return address in the low 48 bits; above, two bits an argument: [`shape`].
    pub caller: u64,
    /// The arguments, one after the other in the order of the table, each with the size that the table's types
    /// have in a record: [`crate::value::Value::STORED`].
    pub args: [u8; ARGS],
    /// Result of the call.
    pub result: i32,
}

/// State of an argument in two bits.
pub mod shape {
    /// The value is present.
    pub const VALUE: u64 = 0;
    /// The program passed NULL.
    pub const NULL: u64 = 1;
    /// The value is unknown, because the call has not succeeded (yet).
    pub const UNREAD: u64 = 2;
    /// First of the two bits of an argument. The eighth argument and all later ones share two bits, because
    /// all of them are values.
    pub const fn shift(index: usize) -> u32 {
        48 + 2 * if index < 7 { index as u32 } else { 7 }
    }
}

/// Returns the first word of a slot.
pub const fn slot_word(state: u8, slots: u8, function: u16, seq: u32) -> u64 {
    state as u64 | (slots as u64) << 8 | (function as u64) << 16 | (seq as u64) << 32
}

/// Returns the first word of a slot that was read twice. A slot that was complete in the first reading has
/// not changed since, so its word is that of the first. 0 if a reading has no slot of this number.
pub const fn settled_word(first: u64, now: u64, seq: u32) -> u64 {
    if (first >> 32) as u32 == seq && (now >> 32) as u32 == seq { first } else { 0 }
}

/// Returns true if a slot that was read twice was written between the readings. Read the slots behind it
/// again, too: the first reading may have seen them before their thread wrote them.
pub const fn has_appeared(first: u64, now: u64, seq: u32) -> bool {
    const fn is_there(word: u64, seq: u32) -> bool {
        (word >> 32) as u32 == seq && word as u8 != EMPTY
    }
    is_there(now, seq) && !is_there(first, seq)
}

impl Slot {
    /// Returns the state without [`INJECTED`].
    pub fn state(&self) -> u8 {
        self.word as u8 & !INJECTED
    }

    /// Returns true if a fault plan produced the result.
    pub fn is_injected(&self) -> bool {
        self.word as u8 & INJECTED != 0
    }

    /// Returns the number of slots that the event takes.
    pub fn slot_count(&self) -> usize {
        usize::from((self.word >> 8) as u8)
    }

    /// Returns the function's number in the recording.
    pub fn function(&self) -> u16 {
        (self.word >> 16) as u16
    }

    /// Returns the low half of the slot's number in the stream.
    pub fn seq(&self) -> u32 {
        (self.word >> 32) as u32
    }

    /// Returns the return address of the call.
    pub fn caller(&self) -> u64 {
        self.caller & ((1 << 48) - 1)
    }

    /// Returns the state of an argument: [`shape`].
    pub fn shape(&self, argument: usize) -> u64 {
        self.caller >> shape::shift(argument) & 3
    }
}

/// Calls of one thread that failed exactly as the call whose slot precedes this one: with the same function,
/// result, return address, current context if it matters, and arguments. Addresses may differ if no rule uses
/// them. The thread updates the slot in place with each further call.
///
/// The call in flight has the number of this slot, for a [`LATE_END`] or a [`DETAIL`] about it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepeatedCalls {
    /// [`RUN`], 1 slot, the function, `seq`. Written last when the run begins.
    pub word: u64,
    /// Number of the slot of the first call, which the calls of the run repeat.
    pub call: u64,
    /// Time at which the last of these calls returned.
    pub end: u64,
    /// Return address of the calls.
    pub caller: u64,
    /// Twice the number of calls that returned, plus 1 if another one is in flight. Written last when a call returns.
    pub calls: u64,
    /// Sum of the durations of the calls, in ticks.
    pub total: u64,
    /// Time at which the call in flight was forwarded.
    pub since: u64,
    /// Longest duration of one of the calls, in ticks.
    pub longest: u32,
    /// Result of the calls.
    pub result: i32,
}

impl RepeatedCalls {
    /// Largest number of calls of a run. A thread begins a new run long before.
    pub const MOST: u64 = 1 << 32;

    /// Returns the run that is stored in a slot. Every sequence of bytes is a valid run.
    pub fn from_slot(slot: &Slot) -> RepeatedCalls {
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| slot.args[at + i]));
        RepeatedCalls {
            word: slot.word,
            call: slot.start,
            end: slot.end,
            caller: slot.caller(),
            calls: word(0),
            total: word(8),
            since: word(16),
            longest: u32::from_le_bytes(core::array::from_fn(|i| slot.args[24 + i])),
            result: slot.result,
        }
    }

    /// Returns the number of calls that returned, at most [`RepeatedCalls::MOST`].
    pub fn call_count(&self) -> u64 {
        (self.calls >> 1).min(RepeatedCalls::MOST)
    }

    /// Returns the time at which the call in flight was forwarded.
    pub fn in_flight_since(&self) -> Option<u64> {
        (self.calls & 1 != 0).then_some(self.since)
    }
}

const _: () =
    assert!(size_of::<RepeatedCalls>() == size_of::<Slot>() && core::mem::offset_of!(RepeatedCalls, calls) == 32);

/// The items of a [`DETAIL`]: a byte with the kind of item, a byte with the index of its argument, two bytes
/// with its length, and its contents. The next item starts at the next multiple of 4. A zero byte ends them.
pub mod detail {
    /// Offset of the items in the slot.
    pub const START: usize = 16;
    /// Kind of the byte that ends the items.
    pub const END: u8 = 0;
    /// Return addresses, 8 bytes each, the caller's first.
    pub const FRAMES: u8 = 1;
    /// The elements of an array, as the table's types store them; at most [`crate::value::MOST_ELEMENTS`].
    pub const ELEMENTS: u8 = 2;
    /// The bytes of a text.
    pub const TEXT: u8 = 3;
    /// The allocation that the call is about: its first address and its size, 8 bytes each.
    pub const MEMORY: u8 = 4;
    /// Devices of the current context and of the peer context, 4 bytes each; -1 if unknown.
    pub const DEVICES: u8 = 5;
    /// Message of the driver about the failure.
    pub const MESSAGE: u8 = 6;
    /// The current context, 8 bytes. For a call that ended a context: that context.
    pub const CONTEXT: u8 = 7;
    /// Finding of a rule in the call: [`super::finding`].
    pub const FINDING: u8 = 8;
    /// Object of the last [`FINDING`]: a [`super::finding::FindingObject`], followed by return addresses of the call
    /// that made it, 8 bytes each.
    pub const OBJECT: u8 = 9;
    /// Action of a fault plan's rule on the call: [`super::hit`].
    pub const HIT: u8 = 10;
    /// The context that exported memory belongs to, 8 bytes, and the ordinal of its device, 8 bytes. An allocation that was
    /// imported has no context: 0.
    pub const OWNER: u8 = 11;
    /// All arguments, as they were before the call, if the slot has no space for them.
    pub const ARGUMENTS: u8 = 12;

    /// The frames of Python among the frames of the call, each as a [`super::PythonLine`], the innermost first.
    pub const PYTHON: u8 = 13;

    /// The devices on which the process holds contexts, if these are several: a bit for each ordinal, 8 bytes.
    pub const CONTEXTS: u8 = 14;

    /// For a copy between device memory and the host: a hash of pieces of the data, 8 bytes; the ordinal of
    /// the device, 4 bytes; 1 if all these pieces repeat one word, 4 bytes.
    pub const CONTENT: u8 = 15;

    /// For a call that failed for lack of memory: the current device, its free and total bytes, and the bytes
    /// and number of allocations in [`super::super::counted`].
    pub const LEFT: u8 = 16;
    /// The context that was current at a [`super::USED`], or at another call that used shared memory: its address, and above these 48
    /// bits the ordinal of its device and one, 8 bytes. The highest bits are [`NON_BLOCKING`], [`CAPTURED`], and [`OF_DEVICES`].
    pub const CURRENT: u8 = 17;
    /// Bit in [`CURRENT`]: the call names a stream that does not wait for the legacy default stream.
    pub const NON_BLOCKING: u64 = 1 << 63;
    /// Bit in [`CURRENT`]: the stream is being captured, so the call has not done anything yet.
    pub const CAPTURED: u64 = 1 << 62;
    /// Bit in [`CURRENT`]: the call could use host memory, but does not. So it neither waits for its work, nor shows
    /// the host that the work is done.
    pub const OF_DEVICES: u64 = 1 << 61;
    /// The shared memory that a batch of copies used: of each range the first address, 8 bytes, and its bytes with [`WRITTEN`] and
    /// [`GAPS`], 8 bytes.
    pub const RANGES: u8 = 18;
    /// Bit in [`RANGES`]: the range is written; otherwise, it is read.
    pub const WRITTEN: u64 = 1 << 63;
    /// Bit in [`RANGES`]: the first and the last byte are used, but perhaps not all bytes between them.
    pub const GAPS: u64 = 1 << 62;
    /// Bits in [`RANGES`] with the number of bytes.
    pub const RANGE_BYTES: u64 = GAPS - 1;
    /// The shared memory that an executable graph uses: [`super::nodes`].
    pub const NODES: u8 = 19;
    /// Largest number of Python frames that are recorded per call.
    pub const MOST_PYTHON: usize = 24;
    /// Largest number of return addresses that are recorded per call.
    pub const MOST_FRAMES: usize = 12;

    /// Item of a detail.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Item<'a> {
        /// Kind of item.
        pub tag: u8,
        /// Index of the argument that the item is about.
        pub argument: u8,
        /// Contents of the item.
        pub bytes: &'a [u8],
    }

    /// Returns the items in the bytes of a detail, from [`START`] on. Stops at a malformed item.
    pub fn items(bytes: &[u8]) -> impl Iterator<Item = Item<'_>> {
        let mut rest = bytes;
        core::iter::from_fn(move || {
            let [tag, argument, low, high, after @ ..] = rest else { return None };
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            if *tag == END || after.len() < length {
                return None;
            }
            rest = after.get(length.next_multiple_of(4)..).unwrap_or(&[]);
            Some(Item { tag: *tag, argument: *argument, bytes: &after[..length] })
        })
    }
}

/// A frame of Python in 8 bytes: the number of its function ([`super::meta::PYTHON`]), 4 bytes; its line, 3
/// bytes; and the index of its interpreter frame, 1 byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PythonLine {
    /// Number of the function.
    pub function: u32,
    /// Line in the file; 0 if unknown.
    pub line: u32,
    /// Index, among the call's frames, of the interpreter's frame that executed it. If it is the number of
    /// frames, the interpreter's frame is beyond them.
    pub frame: u8,
}

impl PythonLine {
    /// Number of bytes of a line in a recording.
    pub const SIZE: usize = 8;
    /// First line number that is not stored. Larger numbers are stored as 0 (unknown), too.
    const END: u32 = 1 << 24;

    /// Returns the bytes of the line in a recording.
    pub fn to_bytes(self) -> [u8; PythonLine::SIZE] {
        let line = if self.line < PythonLine::END { self.line } else { 0 };
        let place = u64::from(line) | u64::from(self.frame) << 24;
        (u64::from(self.function) | place << 32).to_le_bytes()
    }

    /// Returns the Python frames in the bytes of a [`detail::PYTHON`].
    pub fn parse_all(bytes: &[u8]) -> impl Iterator<Item = PythonLine> {
        bytes.as_chunks().0.iter().map(|bytes: &[u8; PythonLine::SIZE]| {
            let word = u64::from_le_bytes(*bytes);
            PythonLine {
                function: word as u32,
                line: (word >> 32) as u32 & (PythonLine::END - 1),
                frame: (word >> 56) as u8,
            }
        })
    }
}

/// Bytes of a [`detail::FINDING`]: confidence, severity, the index of its argument ([`finding::NO_ARGUMENT`]
/// for none), 0, the rule's name, NUL, the message, NUL, the hint. A finding that is only counted, because
/// there were many similar ones, has an empty message. The argument byte of the item is 0.
pub mod finding {
    /// Index for a finding without an argument.
    pub const NO_ARGUMENT: u8 = 0xff;
    /// Number of bytes that are stored of a library's file name.
    pub const LIBRARY: usize = 32;

    named! {
        /// Confidence that a finding is right.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        pub enum Confidence {
            /// The finding follows from observations, or from results of the driver.
            Certain = "certain",
            /// The finding follows from traces of a process that died.
            Stale = "stale",
            /// The finding is the most likely explanation.
            Inferred = "inferred",
        }
        /// Returns the word for the confidence.
        pub fn word;
    }

    impl Confidence {
        /// Returns [`Confidence::Certain`] if the argument is true; otherwise [`Confidence::Inferred`].
        pub fn certain_if(is_certain: bool) -> Self {
            if is_certain { Confidence::Certain } else { Confidence::Inferred }
        }
    }

    /// Text that a stale finding adds.
    pub const STALE: &str = "the process that recorded this has exited";

    named! {
        /// Severity of a broken rule.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        pub enum Severity {
            /// The call is worth knowing about. Correct programs make such calls, too.
            Note = "note",
            /// The program may work today, but the call has no effect, costs speed or memory, or can cause wrong data, a hang, or
            /// a later failure.
            Warning = "warning",
            /// The call fails as a consequence, or its behavior is undefined.
            Error = "error",
        }
        /// Returns the word for the severity.
        pub fn word;
    }

    impl Severity {
        /// Returns the severity with this word.
        pub fn from_word(word: &str) -> Option<Severity> {
            Severity::ALL.into_iter().find(|severity| severity.word() == word)
        }
    }

    /// A finding, as a recording has it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Finding<'a> {
        /// Confidence that the finding is right.
        pub confidence: Confidence,
        /// Severity in this call: less than the rule's own severity if the caller's library may break the
        /// rule.
        pub severity: Severity,
        /// Index of the argument that the finding is about.
        pub argument: Option<u8>,
        /// Name of the rule.
        pub rule: &'a str,
        /// Message, with its values; empty if the finding is only counted.
        pub message: &'a str,
        /// Advice that fixes the mistake.
        pub hint: &'a str,
    }

    impl<'a> Finding<'a> {
        /// Parses the bytes of the item. `None` if they are malformed.
        pub fn read(bytes: &'a [u8]) -> Option<Self> {
            let [confidence, severity, argument, _, text @ ..] = bytes else { return None };
            let mut texts = core::str::from_utf8(text).ok()?.splitn(3, '\0');
            Some(Finding {
                confidence: match confidence {
                    0 => Confidence::Certain,
                    1 => Confidence::Stale,
                    _ => Confidence::Inferred,
                },
                severity: Severity::ALL.get(usize::from(*severity)).copied()?,
                argument: (*argument != NO_ARGUMENT).then_some(*argument),
                rule: texts.next().filter(|rule| !rule.is_empty())?,
                message: texts.next().unwrap_or(""),
                hint: texts.next().unwrap_or(""),
            })
        }
    }

    /// Role of an object in a finding.
    pub mod role {
        macro_rules! roles {
            ($($(#[$doc:meta])* $role:ident = $number:literal $word:literal $past:literal,)*) => {
                $($(#[$doc])* pub const $role: u32 = $number;)*

                /// Words for the roles, by the number of the role minus one.
                pub const WORDS: [&str; [$($number),*].len()] = [$($word),*];

                /// The words for people, in the same order. The place of the call follows them.
                const PAST: [&str; WORDS.len()] = [$($past),*];
            };
        }
        roles! {
            /// Call that exported the memory or the event.
            EXPORT = 1 "export" "exported",
            /// Call that opened the handle.
            OPENING = 2 "opening" "opened",
            /// Call that closed the handle.
            CLOSING = 3 "closing" "closed",
            /// Call that freed or destroyed the object.
            FREEING = 4 "freeing" "freed",
            /// Call of this process that made the allocation.
            ALLOCATION = 5 "allocation" "allocated",
            /// Call that enabled the access.
            ENABLING = 6 "enabling" "access enabled",
            /// Call that ended the context, or reset the device.
            ENDING = 7 "ending" "context ended",
            /// Call that mapped memory at the addresses.
            MAPPING = 8 "mapping" "mapped",
            /// Call that released the handle.
            RELEASING = 9 "releasing" "released",
            /// Call that unmapped the memory.
            UNMAPPING = 10 "unmapping" "unmapped",
            /// Call that copied the same data from the host.
            COPYING = 11 "copying" "copied from the host",
            /// The fork that created the process, after the driver was initialized.
            FORKING = 12 "forking" "forked",
            /// Call that read, wrote, or freed the shared memory.
            USING = 13 "using" "used",
        }

        /// Returns the word for a role.
        pub fn word(role: u32) -> Option<&'static str> {
            WORDS.get((role as usize).wrapping_sub(1)).copied()
        }

        /// Returns the past participle for people, such as `opened`, for one of [`WORDS`].
        pub fn past_participle(word: &str) -> &str {
            WORDS.iter().position(|known| *known == word).map_or(word, |index| PAST[index])
        }
    }

    /// Object or earlier call that a finding is about.
    #[repr(C)]
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct FindingObject {
        /// Role of the object: [`role`].
        pub role: u32,
        /// Ordinal of the device in the process; -1 if unknown.
        pub device: i32,
        /// Pid of the process in its own namespace; 0 if unknown.
        pub pid: u32,
        /// Thread id of the caller; 0 if unknown.
        pub tid: u32,
        /// Number of the process's program: [`crate::record::Header::image`].
        pub image: u32,
        /// Rank of the process; `u32::MAX` if it has none.
        pub rank: u32,
        /// Pid namespace.
        pub pid_ns: u64,
        /// Start time.
        pub started: u64,
        /// Address, event, or context.
        pub address: u64,
        /// Size of the object in bytes; 0 if unknown.
        pub bytes: u64,
        /// Fingerprint of the handle; 0 if the object has none.
        pub fingerprint: u64,
        /// Time of the call in nanoseconds of CLOCK_MONOTONIC; 0 if unknown.
        pub monotonic: u64,
        /// UUID of the device; zeros if unknown.
        pub uuid: [u8; 16],
        /// Offset of the call in `library`.
        pub offset: u64,
        /// File name of that library, truncated to fit; zeros behind.
        pub library: [u8; LIBRARY],
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_finding_reads_as_it_was_written() {
            let bytes = b"\x01\x02\xff\0ipc-flags\0Flags is 0\0Pass 1.";
            let finding = Finding::read(bytes).expect("a finding");
            assert_eq!((finding.confidence, finding.severity), (Confidence::Stale, Severity::Error));
            assert_eq!((finding.argument, finding.rule), (None, "ipc-flags"));
            assert_eq!((finding.message, finding.hint), ("Flags is 0", "Pass 1."));
            let counted = Finding::read(b"\0\0\x02\0ipc-flags").expect("one that is counted");
            assert_eq!((counted.argument, counted.message), (Some(2), ""));
        }

        proptest::proptest! {
            #[test]
            fn any_bytes_are_a_finding_or_none(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
                if let Some(finding) = Finding::read(&bytes) {
                    assert!(bytes.len() > 4 && !finding.rule.is_empty());
                }
            }
        }
    }
}
