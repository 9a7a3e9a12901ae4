//! The slots of a stream: 64 bytes that say what a thread did.

pub mod hit;

/// Nothing was written yet.
pub const EMPTY: u8 = 0;
/// A call that was forwarded and has not returned.
pub const PENDING: u8 = 1;
/// A call that has returned.
pub const RETURNED: u8 = 2;
/// A call that an exception, a cancellation, or a jump of the thread left.
pub const UNWOUND: u8 = 3;
/// The end of a call whose own slot, number `start` in the stream, had left the window. All but the return address is the call's.
pub const LATE_END: u8 = 4;
/// More about a call: [`Slot::start`] is the number of its slot. From byte 16 on, over all `slots`, lie
/// [`detail`] items.
pub const DETAIL: u8 = 5;
/// Another thread goes on with the stream: `start` is when, `end` its tid.
pub const THREAD: u8 = 6;
/// A mark that the program has set: `start` is when. From byte 16 on lies a [`detail::TEXT`].
pub const MARK: u8 = 7;
/// Calls that did the same as the call before them: see [`Run`].
pub const RUN: u8 = 8;
/// A call that has succeeded and counts nowhere: a copy, memset, or launch that used shared memory, or what puts such work in order
/// with other work. `result` has bits of [`used`].
pub const USED: u8 = 9;
/// Added to the state: the result was not the driver's but a fault of our making.
pub const INJECTED: u8 = 0x80;

/// The bytes that the arguments of a call have in its slot.
pub const ARGS: usize = 28;
/// The bytes that they have at the most. What does not fit into the slot is a [`detail::ARGUMENTS`].
pub const MOST_ARGS: usize = 64;

/// Says between which of its notes a process did not note such calls.
pub mod used {
    /// None of the process is noted from the end of this one on, up to the next one with [`RESUMED`].
    pub const LAST: i32 = 1;
    /// None was noted since the last one, up to the start of this one.
    pub const RESUMED: i32 = 2;
}

/// A slot, as the calls have it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// State, number of slots, function, `seq`: see [`word`]. Written last.
    pub word: u64,
    /// When the call was forwarded, on the clock of the record.
    pub start: u64,
    /// When it returned.
    pub end: u64,
    /// The return address in the low 48 bits; above, two bits an argument: [`shape`].
    pub caller: u64,
    /// The arguments, one after the other in the order of the table, each with the size that the table's types
    /// have in a record: [`crate::value::Value::STORED`].
    pub args: [u8; ARGS],
    /// What the call returned.
    pub result: i32,
}

/// What is known of an argument.
pub mod shape {
    /// Its value is there.
    pub const VALUE: u64 = 0;
    /// The program passed NULL.
    pub const NULL: u64 = 1;
    /// Its value is not known: the call has not succeeded (yet).
    pub const UNREAD: u64 = 2;
    /// The first bit of an argument's two. The eighth argument and those behind it have the same two: of more than eight,
    /// these are values.
    pub const fn shift(index: usize) -> u32 {
        48 + 2 * if index < 7 { index as u32 } else { 7 }
    }
}

/// The first word of a slot.
pub const fn word(state: u8, slots: u8, function: u16, seq: u32) -> u64 {
    state as u64 | (slots as u64) << 8 | (function as u64) << 16 | (seq as u64) << 32
}

/// The first word of a slot that was read twice: a slot that was complete at the first reading is complete now, so that
/// it is that of the first. 0 where either is not of the slot with this number.
pub const fn settled(first: u64, now: u64, seq: u32) -> u64 {
    if (first >> 32) as u32 == seq && (now >> 32) as u32 == seq { first } else { 0 }
}

/// Whether a slot that was read twice was written between the readings. Those behind it may have been written earlier than the
/// first reading came to them, although their thread wrote them later: they are to be read again, with it.
pub const fn has_appeared(first: u64, now: u64, seq: u32) -> bool {
    const fn is_there(word: u64, seq: u32) -> bool {
        (word >> 32) as u32 == seq && word as u8 != EMPTY
    }
    is_there(now, seq) && !is_there(first, seq)
}

impl Slot {
    /// The state, without [`INJECTED`].
    pub fn state(&self) -> u8 {
        self.word as u8 & !INJECTED
    }

    /// Whether the result was of our making.
    pub fn is_injected(&self) -> bool {
        self.word as u8 & INJECTED != 0
    }

    /// How many slots it takes.
    pub fn slots(&self) -> usize {
        usize::from((self.word >> 8) as u8)
    }

    /// The function, as the record numbers it.
    pub fn function(&self) -> u16 {
        (self.word >> 16) as u16
    }

    /// The low half of its number in the stream.
    pub fn seq(&self) -> u32 {
        (self.word >> 32) as u32
    }

    /// The return address of the call.
    pub fn caller(&self) -> u64 {
        self.caller & ((1 << 48) - 1)
    }

    /// What is known of an argument: [`shape`].
    pub fn shape(&self, argument: usize) -> u64 {
        self.caller >> shape::shift(argument) & 3
    }
}

/// Calls of one thread that failed exactly as the call whose slot precedes this one: the same function, result, return address,
/// current context where that matters, and arguments; addresses may differ where no rule looks at them. The thread
/// updates the slot in place with each further call.
///
/// The one that is in flight has the number of this slot, where a [`LATE_END`] or a [`DETAIL`] is about it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// [`RUN`], 1 slot, the function, `seq`. Written after all else when the run begins.
    pub word: u64,
    /// The number of the slot of the call that they are like.
    pub call: u64,
    /// When the last of them returned.
    pub end: u64,
    /// The return address.
    pub caller: u64,
    /// Twice their number, and 1 more where another one is in flight. Written after all else when one returns.
    pub calls: u64,
    /// The sum of their durations, in ticks.
    pub total: u64,
    /// When the one in flight was forwarded.
    pub since: u64,
    /// The longest duration, in ticks.
    pub longest: u32,
    /// What they returned.
    pub result: i32,
}

impl Run {
    /// The most calls of a run: the thread begins another one long before.
    pub const MOST: u64 = 1 << 32;

    /// The slot as a run. Any bytes are one.
    pub fn of(slot: &Slot) -> Run {
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| slot.args[at + i]));
        Run {
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

    /// How many calls have returned, at most [`Run::MOST`].
    pub fn count(&self) -> u64 {
        (self.calls >> 1).min(Run::MOST)
    }

    /// When the call in flight was forwarded.
    pub fn in_flight(&self) -> Option<u64> {
        (self.calls & 1 != 0).then_some(self.since)
    }
}

const _: () = assert!(size_of::<Run>() == size_of::<Slot>() && core::mem::offset_of!(Run, calls) == 32);

/// The items of a [`DETAIL`]: a byte that says what it is, a byte with the number of the argument that it is
/// about, two bytes with its length, and so many bytes; the next item begins at the next multiple of 4. A zero
/// byte ends them.
pub mod detail {
    /// Where the items begin in the slot.
    pub const START: usize = 16;
    /// The end.
    pub const END: u8 = 0;
    /// Return addresses, 8 bytes each, the caller's first.
    pub const FRAMES: u8 = 1;
    /// The elements of an array, as the table's types store them; at most [`crate::value::MOST_ELEMENTS`].
    pub const ELEMENTS: u8 = 2;
    /// The bytes of a text.
    pub const TEXT: u8 = 3;
    /// The allocation that the call is about: its first address and its size, 8 bytes each.
    pub const MEMORY: u8 = 4;
    /// Devices, 4 bytes each, -1 where unknown: that of the current context, and that of the peer context.
    pub const DEVICES: u8 = 5;
    /// What the driver itself said about the failure.
    pub const MESSAGE: u8 = 6;
    /// The current context, 8 bytes; of a call that ends one, that one, where it has ended.
    pub const CONTEXT: u8 = 7;
    /// What a rule has found in the call: [`super::finding`].
    pub const FINDING: u8 = 8;
    /// What the last [`FINDING`] is about: an [`super::finding::Object`] and, behind it, return addresses of whoever
    /// made it, 8 bytes each.
    pub const OBJECT: u8 = 9;
    /// What a rule of a fault plan did to the call: [`super::hit`].
    pub const HIT: u8 = 10;
    /// The context that exported memory belongs to, 8 bytes, and the ordinal of its device, 8 bytes. An allocation that was
    /// imported has no context: 0.
    pub const OWNER: u8 = 11;
    /// Where the slot has no room for all arguments: all of them, as they were before the call.
    pub const ARGUMENTS: u8 = 12;

    /// The frames of Python among the frames of the call, each as a [`super::Line`], the innermost first.
    pub const PYTHON: u8 = 13;

    /// The devices on which the process holds contexts, if these are several: a bit for each ordinal, 8 bytes.
    pub const CONTEXTS: u8 = 14;

    /// Of a copy between device memory and the host: a hash of pieces of what was copied, 8 bytes; the ordinal of the device, 4
    /// bytes; 1 if all these pieces repeat one word, 4 bytes.
    pub const CONTENT: u8 = 15;

    /// Of a call without memory: the current device, its free and total bytes, and bytes and number of what is [`super::super::counted`].
    pub const LEFT: u8 = 16;
    /// The context that was current at a [`super::USED`], or at another call that used shared memory: its address, and above these 48
    /// bits the ordinal of its device and one, 8 bytes. The highest bits are [`NON_BLOCKING`] and [`CAPTURED`].
    pub const CURRENT: u8 = 17;
    /// In [`CURRENT`]: the call names a stream that does not wait for the legacy default stream.
    pub const NON_BLOCKING: u64 = 1 << 63;
    /// In [`CURRENT`]: the stream is captured, so that the call did nothing yet.
    pub const CAPTURED: u64 = 1 << 62;
    /// The most frames of Python.
    pub const MOST_PYTHON: usize = 24;
    /// The most return addresses.
    pub const MOST_FRAMES: usize = 12;

    /// One item.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Item<'a> {
        /// What it is.
        pub tag: u8,
        /// The argument that it is about.
        pub argument: u8,
        /// Its bytes.
        pub bytes: &'a [u8],
    }

    /// The items in the bytes of a detail, from [`START`] on. Ends where they are malformed.
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

/// A frame of Python in 8 bytes: the number of its function ([`super::meta::PYTHON`]), 4 bytes; its line, 3 bytes; and
/// behind how many of the call's frames it stands, 1 byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Line {
    /// The number of the function.
    pub function: u32,
    /// The line in its file; 0 where it is unknown.
    pub line: u32,
    /// The frame of the interpreter that executed it is the one with this index among the call's frames; where that is
    /// their number, it lies beyond them.
    pub frame: u8,
}

impl Line {
    /// The bytes that it has.
    pub const SIZE: usize = 8;
    /// Lines from this one on are unknown.
    const END: u32 = 1 << 24;

    /// As it stands in a record.
    pub fn bytes(self) -> [u8; Line::SIZE] {
        let line = if self.line < Line::END { self.line } else { 0 };
        let place = u64::from(line) | u64::from(self.frame) << 24;
        (u64::from(self.function) | place << 32).to_le_bytes()
    }

    /// The frames in the bytes of a [`detail::PYTHON`].
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Line> {
        bytes.as_chunks().0.iter().map(|bytes: &[u8; Line::SIZE]| {
            let word = u64::from_le_bytes(*bytes);
            Line {
                function: word as u32,
                line: (word >> 32) as u32 & (Line::END - 1),
                frame: (word >> 56) as u8,
            }
        })
    }
}

/// The bytes of a [`detail::FINDING`]: confidence, severity, the number of the argument that it is about ([`finding::NO_ARGUMENT`]
/// for none), 0, the rule's name, NUL, the message, NUL, the hint. Of a finding that is only counted, because there
/// were many like it, the message is empty. Its argument byte in the item is 0.
pub mod finding {
    /// It is about no argument.
    pub const NO_ARGUMENT: u8 = 0xff;
    /// The bytes that are kept of a library's file name.
    pub const LIBRARY: usize = 32;

    /// How sure a finding is.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
    pub enum Confidence {
        /// It follows from what was seen, or from what the driver said.
        Certain = 0,
        /// It follows from what a process left behind that has died.
        Stale = 1,
        /// It is the likeliest explanation.
        Inferred = 2,
    }

    impl Confidence {
        /// All, the surest first.
        pub const ALL: [Confidence; 3] = [Confidence::Certain, Confidence::Stale, Confidence::Inferred];

        /// The word for it.
        pub const fn word(self) -> &'static str {
            match self {
                Confidence::Certain => "certain",
                Confidence::Stale => "stale",
                Confidence::Inferred => "inferred",
            }
        }
    }

    /// What a stale finding says of itself.
    pub const STALE: &str = "the process that recorded this has exited";

    /// How bad it is that a rule is broken.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
    pub enum Severity {
        /// Worth knowing. Programs that are right do this, too.
        Note,
        /// The program may work today, but the call has no effect, costs speed or memory, or can cause wrong data, a hang, or
        /// a later failure.
        Warning,
        /// The call fails for it, or what it does is undefined.
        Error,
    }

    impl Severity {
        /// All, the least first.
        pub const ALL: [Severity; 3] = [Severity::Note, Severity::Warning, Severity::Error];

        /// The word for it.
        pub const fn word(self) -> &'static str {
            match self {
                Severity::Note => "note",
                Severity::Warning => "warning",
                Severity::Error => "error",
            }
        }

        /// The severity of a word.
        pub fn of(word: &str) -> Option<Severity> {
            Severity::ALL.into_iter().find(|severity| severity.word() == word)
        }
    }

    /// A finding as it stands in a record.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Finding<'a> {
        /// How sure it is.
        pub confidence: Confidence,
        /// How bad it is here: less than the rule's own severity where the caller's library may do it.
        pub severity: Severity,
        /// The number of the argument that it is about.
        pub argument: Option<u8>,
        /// The rule's name.
        pub rule: &'a str,
        /// What was found, with its values; empty where it is only counted.
        pub message: &'a str,
        /// What to do.
        pub hint: &'a str,
    }

    impl<'a> Finding<'a> {
        /// Reads the bytes of the item. `None` where they are none.
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

    /// What an object is.
    pub mod role {
        /// Where the memory or the event was exported.
        pub const EXPORT: u32 = 1;
        /// Where it was opened.
        pub const OPENING: u32 = 2;
        /// Where it was closed.
        pub const CLOSING: u32 = 3;
        /// Where it was freed or destroyed.
        pub const FREEING: u32 = 4;
        /// An allocation of this process.
        pub const ALLOCATION: u32 = 5;
        /// Where access was enabled.
        pub const ENABLING: u32 = 6;
        /// Where its context was ended, or the device reset.
        pub const ENDING: u32 = 7;
        /// Where what lies at its addresses was mapped.
        pub const MAPPING: u32 = 8;
        /// Where its handle was released.
        pub const RELEASING: u32 = 9;
        /// Where it was unmapped.
        pub const UNMAPPING: u32 = 10;
        /// Where the same was copied from the host.
        pub const COPYING: u32 = 11;
        /// Where the process was forked.
        pub const FORKING: u32 = 12;
        /// Where shared memory was read, written, or freed.
        pub const USING: u32 = 13;

        /// The words for them, by their number less one.
        pub const WORDS: [&str; 13] = [
            "export",
            "opening",
            "closing",
            "freeing",
            "allocation",
            "enabling",
            "ending",
            "mapping",
            "releasing",
            "unmapping",
            "copying",
            "forking",
            "using",
        ];

        crate::texts!(static NAMES = &WORDS);

        crate::texts!(
            /// The words for people, in the same order. The place of the call follows them.
            static PAST = &[
                "exported", "opened", "closed", "freed", "allocated", "access enabled", "context ended", "mapped",
                "released", "unmapped", "copied from the host", "forked", "used",
            ]
        );

        /// The word for one of them.
        pub fn word(role: u32) -> Option<&'static str> {
            NAMES.all().nth((role as usize).wrapping_sub(1))
        }

        /// The word for people, such as `opened`, for one of [`WORDS`].
        pub fn past(word: &str) -> &str {
            NAMES.position(word.as_bytes()).map_or(word, |index| PAST.get(index))
        }
    }

    /// Something that a finding is about.
    #[repr(C)]
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct Object {
        /// [`role`].
        pub role: u32,
        /// The device, as an ordinal in its process; -1 where unknown.
        pub device: i32,
        /// The process, as it knows itself; 0 where unknown.
        pub pid: u32,
        /// The thread; 0 where unknown.
        pub tid: u32,
        /// Its [`crate::record::Header::image`].
        pub image: u32,
        /// Its rank; `u32::MAX` where it has none.
        pub rank: u32,
        /// Its pid namespace.
        pub pid_ns: u64,
        /// Its start.
        pub started: u64,
        /// The address, event or context.
        pub address: u64,
        /// The size; 0 where unknown.
        pub bytes: u64,
        /// The fingerprint of the handle; 0 where it has none.
        pub fingerprint: u64,
        /// When, in nanoseconds of CLOCK_MONOTONIC; 0 where unknown.
        pub monotonic: u64,
        /// The UUID of the device; zero where unknown.
        pub uuid: [u8; 16],
        /// The offset in `library` of who made it.
        pub offset: u64,
        /// The file name of that library, as much of it as there is room for; zeros behind.
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
