//! The layout of CPython's structures: the offsets of the fields that lead from the runtime to the frames of a thread.
//!
//! From 3.13 on, an interpreter publishes the offsets at the start of its runtime. Earlier versions have the same
//! offsets in all releases of a version, and this file lists them. They are verified by use: every object must have
//! the expected type, or it is not read.

use super::lines::LineTableForm;
use super::word_in;
use crate::memory::Memory;

/// The path from the state of a thread to the thread's innermost frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InnermostPath {
    /// A field of the thread's state, at this offset, points to the frame.
    Of(usize),
    /// A field of the thread's state points to a structure with a field that points to the frame: the two offsets.
    Through(usize, usize),
}

/// The sign that a frame is the last one of a run. A run consists of the frames that one call of the interpreter's
/// loop executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEndSign {
    /// Each run has a single frame.
    Single,
    /// A byte at this offset is nonzero in the last frame of a run.
    Entry(usize),
    /// A sentinel frame follows the run: the offset of its owner byte, and the value of that byte.
    Behind(usize, u8),
}

/// The form in which a frame stores its current instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstructionForm {
    /// The index of the instruction (4 bytes): its offset, and the size of an instruction.
    Index(usize, usize),
    /// The address of the instruction: its offset, and the distance of the first instruction from the start
    /// of the code object.
    Address(usize, usize),
}

/// The offsets of fields in one version of CPython, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Offset in the runtime: the pointer to the first interpreter.
    pub interpreters: usize,
    /// Offset in an interpreter: the pointer to the next interpreter.
    pub next_interpreter: usize,
    /// Offset in an interpreter: the pointer to the state of its first thread.
    pub threads: usize,
    /// Offset in the state of a thread: the pointer to the state of the next thread.
    pub next_thread: usize,
    /// Offset in the state of a thread: the thread's `pthread_self()`.
    pub thread_id: usize,
    /// Path from the state of a thread to its innermost frame.
    pub innermost: InnermostPath,
    /// Offset in a frame: the pointer to the frame of its caller.
    pub previous: usize,
    /// Offset in a frame: the pointer to its code object.
    pub code: usize,
    /// True if a frame is an object itself, as in Python 3.10 and before.
    pub is_object: bool,
    /// Form in which a frame stores its current instruction.
    pub standing: InstructionForm,
    /// Sign of the end of a run of frames.
    pub runs: RunEndSign,
    /// Offset in a code object: the pointer to the path of its file.
    pub file: usize,
    /// Offset in a code object: the pointer to its name.
    pub name: usize,
    /// Offset in a code object: the pointer to its line table.
    pub table: usize,
    /// Offset in a code object: its first line (4 bytes).
    pub first_line: usize,
    /// Offset in a code object: its unique number (4 bytes), which is 0 once the interpreter ran out of numbers. `None` if code
    /// objects have no number.
    pub number: Option<usize>,
    /// Format of the line table of code objects.
    pub form: LineTableForm,
    /// Offset in any object: the pointer to its type.
    pub kind: usize,
    /// Offset in a bytes object: its length.
    pub byte_count: usize,
    /// Offset in a bytes object: its first byte.
    pub bytes: usize,
    /// Offset in a str object: its length.
    pub length: usize,
    /// Offset in a str object: its state, a set of bit fields.
    pub state: usize,
    /// Number of the lowest bit in the state of a str object that is read.
    pub state_shift: u32,
    /// Offset in a str object: its characters, if all of them are ASCII.
    pub ascii: usize,
    /// Offset in a str object: its characters, if some of them are not ASCII.
    pub wide: usize,
}

/// Layout of Python 3.9, on which the layouts of later versions are based.
const V3_9: Layout = Layout {
    interpreters: 32,
    next_interpreter: 0,
    threads: 8,
    next_thread: 8,
    thread_id: 176,
    innermost: InnermostPath::Of(24),
    previous: 24,
    code: 32,
    is_object: true,
    standing: InstructionForm::Index(104, 1),
    runs: RunEndSign::Single,
    file: 104,
    name: 112,
    table: 120,
    first_line: 40,
    number: None,
    form: LineTableForm::Later,
    kind: 8,
    byte_count: 16,
    bytes: 32,
    length: 16,
    state: 32,
    state_shift: 2,
    ascii: 48,
    wide: 72,
};

const V3_10: Layout = Layout { standing: InstructionForm::Index(96, 2), form: LineTableForm::Ranges, ..V3_9 };

const V3_11: Layout = Layout {
    interpreters: 40,
    threads: 16,
    thread_id: 152,
    innermost: InnermostPath::Through(56, 8),
    previous: 48,
    is_object: false,
    standing: InstructionForm::Address(56, 184),
    runs: RunEndSign::Entry(68),
    file: 112,
    name: 120,
    table: 136,
    first_line: 72,
    form: LineTableForm::Positions,
    ..V3_9
};

const V3_12: Layout = Layout {
    threads: 72,
    thread_id: 136,
    innermost: InnermostPath::Through(56, 0),
    previous: 8,
    code: 0,
    standing: InstructionForm::Address(56, 192),
    runs: RunEndSign::Behind(70, OWNED_OUTSIDE),
    first_line: 68,
    number: Some(68 + NUMBER_BEHIND_LINE),
    ascii: 40,
    wide: 56,
    ..V3_11
};

/// Smallest value of the owner byte of frames that are not Python frames, but stand for a call from C.
const OWNED_OUTSIDE: u8 = 3;

/// Distance in a code object from its first line to its number (`co_version`), in bytes, from Python 3.12 on. The interpreter
/// does not publish this offset.
const NUMBER_BEHIND_LINE: usize = 24;

/// First bytes of the table of offsets that an interpreter publishes.
const COOKIE: [u8; 8] = *b"xdebugpy";
/// Number of published bytes that are read, which contain all needed offsets.
const PUBLISHED: usize = 81 * 8;

impl Layout {
    /// Returns the layout for a version of Python (`major << 24 | minor << 16` and so on). `runtime` is the address of the
    /// interpreter's runtime.
    pub fn for_version<M: Memory>(memory: M, version: u32, runtime: usize) -> Option<Layout> {
        match version >> 16 {
            0x0309 => Some(V3_9),
            0x030a => Some(V3_10),
            0x030b => Some(V3_11),
            0x030c => Some(V3_12),
            0x030d | 0x030e => {
                let mut published = [0; PUBLISHED];
                let length = memory.copy(runtime, &mut published);
                Layout::parse_published(&published[..length])
            }
            _ => None,
        }
    }

    /// Parses the layout that an interpreter publishes.
    fn parse_published(bytes: &[u8]) -> Option<Layout> {
        /// Offset from which on the published layout is not believed, in bytes.
        const FARTHEST: usize = 1 << 20;
        if !bytes.starts_with(&COOKIE) {
            return None;
        }
        let mut are_near = true;
        let mut field = |index: usize| {
            let offset = word_in(bytes, 8 * index);
            are_near &= offset < FARTHEST && bytes.len() >= 8 * index + 8;
            offset
        };
        // Version 3.14 has three more fields of interpreters than 3.13, two more of frames, and so on.
        let (version, is_free_threaded) = (word_in(bytes, 8) >> 16, word_in(bytes, 16) != 0);
        let [thread, frame, code, object, byte, text] = match version {
            0x030d => [21, 29, 35, 45, 65, 68],
            0x030e => [24, 32, 40, 51, 75, 78],
            _ => return None,
        };
        let ascii = field(text + 2);
        let first_line = field(code + 4);
        let layout = Layout {
            interpreters: field(5),
            next_interpreter: field(8),
            threads: field(9),
            next_thread: field(thread),
            innermost: InnermostPath::Of(field(thread + 2)),
            thread_id: field(thread + 3),
            previous: field(frame),
            code: field(frame + 1),
            is_object: false,
            standing: InstructionForm::Address(field(frame + 2), field(code + 8)),
            runs: RunEndSign::Behind(field(frame + 4), OWNED_OUTSIDE),
            file: field(code),
            name: field(code + 1),
            table: field(code + 3),
            first_line,
            number: Some(first_line + NUMBER_BEHIND_LINE),
            form: LineTableForm::Positions,
            kind: field(object),
            byte_count: field(byte),
            bytes: field(byte + 1),
            state: field(text),
            length: field(text + 1),
            // In free-threaded Python, the flag for interned texts has a byte of its own.
            state_shift: if is_free_threaded && version >= 0x030e { 8 } else { 2 },
            ascii,
            wide: ascii + 16,
        };
        are_near.then_some(layout)
    }
}
