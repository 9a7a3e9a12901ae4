//! Reads the Python frames of a thread: file, function, and line of each, without running any Python.
//!
//! Invariants: nothing of the interpreter is called, and its lock is neither held nor requested. A thread's own frames
//! do not change during a call that one of them made, unless the interpreter ends; then, as after any wrong guess, the
//! data is missing or has the wrong type, and the walk ends. Every byte is copied ([`MemoryPieces`]), so no read can
//! fault, and each list is followed for a limited number of steps.
//!
//! This file contains the walk. `layout` describes the structures, and `lines` finds lines.

mod layout;
mod lines;

use crate::memory::Memory;
use core::ffi::CStr;
use core::fmt;
use core::ops::Range;
pub use layout::Layout;
use layout::{InnermostPath, InstructionForm, RunEndSign};
pub use lines::{LineTableForm, line_of};

/// Number of threads and interpreters after which a walk through their lists ends.
const MOST_THREADS: usize = 2048;
/// Largest number of frames that are visited per requested frame, because some are not Python frames.
const MOST_BETWEEN: usize = 4;
/// Largest number of characters of a file's path; the end of a longer path is kept.
const MOST_FILE: usize = 512;
const MOST_NAME: usize = 128;

/// A Python frame of a thread.
pub struct PythonFrame<'a> {
    /// File and name of the function; `None` if they were not requested.
    pub texts: Option<FunctionTexts<'a>>,
    /// First line of the function.
    pub first_line: u32,
    /// Line that the frame executes; 0 if unknown.
    pub line: u32,
    /// Key of the function: a hash of its file, its name, and its first line.
    pub key: u64,
    /// Number of calls of the interpreter's loop that are further in on the native stack.
    pub run: usize,
}

/// The file and the name of a Python function.
pub struct FunctionTexts<'a> {
    /// Path of the file, as it was compiled.
    pub file: PythonText<'a>,
    /// The name of the function.
    pub function: PythonText<'a>,
}

/// A text in the interpreter's memory, in one of its three forms.
#[derive(Clone, Copy)]
pub struct PythonText<'a> {
    bytes: &'a [u8],
    /// Number of bytes per character.
    size: usize,
}

impl<'a> PythonText<'a> {
    /// Creates a text of characters with this many bytes each: 1, 2, or 4.
    pub fn new(bytes: &'a [u8], size: usize) -> Self {
        PythonText { bytes, size: size.max(1) }
    }
}

impl fmt::Display for PythonText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        self.bytes.chunks_exact(self.size).try_for_each(|bytes| {
            let character = bytes.iter().rev().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
            // A zero character would end the text.
            let known = char::from_u32(character).filter(|known| *known != '\0');
            fmt::Write::write_char(out, known.unwrap_or(char::REPLACEMENT_CHARACTER))
        })
    }
}

/// The Python interpreter of a process.
#[derive(Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// Address of the interpreter's runtime.
    pub runtime: usize,
    /// Layout of the interpreter's structures.
    pub layout: Layout,
    /// Address of the type of code objects.
    pub code: usize,
    /// Address of the type of str objects.
    pub text: usize,
    /// Address of the type of bytes objects.
    pub bytes: usize,
    /// Address of the type of frame objects.
    pub frame: usize,
    /// Address range of the function that runs Python code, the interpreter's loop.
    pub eval: Range<usize>,
    /// Address range of the object that contains the interpreter.
    pub object: Range<usize>,
}

/// Address and size of a symbol.
pub type Symbol = (usize, usize);

impl Interpreter {
    /// Returns the interpreter in an object, by the symbols of that object (`own`), and by those that the
    /// whole process uses (`of`). If a program has its own copy of a library's variable, the whole process
    /// uses that copy. `None` if the object is not an interpreter.
    pub fn read_interpreter<M: Memory>(
        memory: M,
        object: Range<usize>,
        own: impl Fn(&CStr) -> Option<Symbol>,
        of: impl Fn(&CStr) -> Option<Symbol>,
    ) -> Option<Interpreter> {
        let (runtime, _) = own(c"_PyRuntime")?;
        let address = |name| of(name).map(|(address, _)| address);
        let eval = own(c"_PyEval_EvalFrameDefault");
        Some(Interpreter {
            runtime,
            layout: Layout::for_version(memory, find_version(memory, &own)?, runtime)?,
            code: address(c"PyCode_Type")?,
            text: address(c"PyUnicode_Type")?,
            bytes: address(c"PyBytes_Type")?,
            frame: address(c"PyFrame_Type")?,
            eval: eval.map_or(0..0, |(address, size)| address..address + size),
            object,
        })
    }

    /// Returns the index, among the return addresses of a call, of the frame that executes a run of Python
    /// frames. If it is beyond these addresses, returns their number.
    pub fn find_run_frame(&self, frames: &[u64], run: usize) -> usize {
        let within = |range: &Range<usize>| {
            let range = range.clone();
            let mut all = frames.iter().enumerate().filter(move |(_, frame)| range.contains(&(**frame as usize)));
            all.nth(run).map(|(index, _)| index)
        };
        let is_loop_there = frames.iter().any(|frame| self.eval.contains(&(*frame as usize)));
        // For an interpreter whose loop has another form, use the place of its first frame.
        let found = if is_loop_there {
            within(&self.eval)
        } else {
            frames.iter().position(|frame| self.object.contains(&(*frame as usize)))
        };
        found.unwrap_or(frames.len())
    }

    /// Calls `found` with the `pthread_self()` of each thread that has run Python, until it returns false.
    pub fn for_each_thread<P: MemoryPieces>(&self, pieces: &mut P, found: &mut dyn FnMut(usize) -> bool) -> Option<()> {
        self.for_each_thread_state(pieces, &mut |_, _, thread| Some(found(thread)))
    }

    /// Calls `found` with the state of each thread and its `pthread_self()`, until it returns false. Returns
    /// `None` if the list leads to unreadable memory, or `found` does.
    fn for_each_thread_state<P: MemoryPieces>(
        &self,
        pieces: &mut P,
        found: &mut dyn FnMut(&mut P, usize, usize) -> Option<bool>,
    ) -> Option<()> {
        let Layout { interpreters, next_interpreter, threads, next_thread, thread_id, .. } = self.layout;
        let mut left = MOST_THREADS;
        let mut interpreter = pieces.word_at(self.runtime.wrapping_add(interpreters))?;
        while interpreter != 0 && left > 0 {
            let mut state = pieces.word_at(interpreter.wrapping_add(threads))?;
            while state != 0 && left > 0 {
                left -= 1;
                // Do not use pieces here: the thread's own frames need most of them.
                let thread = copy_word(pieces, state.wrapping_add(thread_id))?;
                if !found(pieces, state, thread)? {
                    return Some(());
                }
                state = copy_word(pieces, state.wrapping_add(next_thread))?;
            }
            left = left.saturating_sub(1);
            interpreter = pieces.word_at(interpreter.wrapping_add(next_interpreter))?;
        }
        Some(())
    }

    /// Calls `found` with the Python frames of the thread with this `pthread_self()`, innermost first, at
    /// most `most`, until `found` returns false. It skips no frame. It may leave out the texts of a function
    /// if `is_known` returns true for its key.
    pub fn for_each_frame<P: MemoryPieces>(
        &self,
        pieces: &mut P,
        thread: usize,
        most: usize,
        is_known: fn(u64) -> bool,
        found: &mut dyn FnMut(&PythonFrame) -> bool,
    ) -> Option<()> {
        FrameWalk { interpreter: self, layout: &self.layout, thread, pieces, is_known }.visit_frames(most, found)
    }
}

/// Returns `major << 24 | minor << 16` and so on. Python 3.9 and 3.10 do not publish their version, so it is
/// inferred from features that each introduced.
fn find_version<M: Memory>(memory: M, own: impl Fn(&CStr) -> Option<Symbol>) -> Option<u32> {
    if let Some((address, _)) = own(c"Py_Version") {
        let mut bytes = [0; 4];
        let is_read = memory.copy(address, &mut bytes) == 4;
        return is_read.then(|| u32::from_le_bytes(bytes));
    }
    let has = |name| own(name).is_some();
    match (has(c"PyIter_Send"), has(c"PyThreadState_GetFrame")) {
        (true, _) => Some(0x030a_0000),
        (_, true) => Some(0x0309_0000),
        _ => None,
    }
}

/// Memory of an interpreter, copied in pieces, and a cache between two walks.
pub trait MemoryPieces {
    /// Returns the bytes of a piece, as a range of [`MemoryPieces::piece_bytes`].
    fn piece_at(&mut self, address: usize, length: usize) -> Option<Range<usize>>;

    /// Returns the bytes of a range.
    fn piece_bytes(&self, place: Range<usize>) -> &[u8];

    /// Copies memory that is not a piece. Returns the number of bytes that could be read.
    fn copy(&self, address: usize, buffer: &mut [u8]) -> usize;

    /// Returns the bytes at an address.
    fn bytes_at(&mut self, address: usize, length: usize) -> Option<&[u8]> {
        let place = self.piece_at(address, length)?;
        Some(self.piece_bytes(place))
    }

    /// Returns the word at an address.
    fn word_at(&mut self, address: usize) -> Option<usize> {
        self.bytes_at(address, 8).map(|bytes| word_in(bytes, 0))
    }

    /// Forgets all copied pieces, because the memory may have changed since.
    fn drop_guesses(&mut self) {}

    /// Returns true if there is room for tables among the pieces.
    fn has_room_for_tables(&self) -> bool {
        true
    }

    /// Returns the cached address of this thread's state, or of another thread's; 0 if there is none.
    fn cached_thread_state(&self) -> usize {
        0
    }

    /// Caches the address of this thread's state.
    fn cache_thread_state(&self, _thread: usize) {}

    /// Returns the number that is cached under a hash of everything that it depends on; `None` if there is none.
    fn cached_number(&self, _hash: u64) -> Option<u64> {
        None
    }

    /// Caches a number under a hash of everything that it depends on. The number must not be 0.
    fn cache_number(&self, _hash: u64, _number: u64) {}
}

struct FrameWalk<'a, P> {
    interpreter: &'a Interpreter,
    layout: &'a Layout,
    /// `pthread_self()` of the thread.
    thread: usize,
    pieces: &'a mut P,
    is_known: fn(u64) -> bool,
}

impl<P: MemoryPieces> FrameWalk<'_, P> {
    fn visit_frames(&mut self, most: usize, found: &mut dyn FnMut(&PythonFrame) -> bool) -> Option<()> {
        let mut frame = self.innermost_frame()?;
        let (mut left, mut run) = (most, 0);
        let mut last_file = None;
        for _ in 0..most * MOST_BETWEEN {
            if frame == 0 || left == 0 {
                break;
            }
            let layout = self.layout;
            let head = self.pieces.piece_at(frame, frame_size(layout))?;
            let bytes = self.pieces.piece_bytes(head);
            let (previous, code) = (word_in(bytes, layout.previous), word_in(bytes, layout.code));
            let at = match layout.standing {
                InstructionForm::Index(at, size) => (half_word_in(bytes, at) as usize).saturating_mul(size),
                InstructionForm::Address(at, _) => word_in(bytes, at),
            };
            let (is_none, is_last) = match layout.runs {
                RunEndSign::Single => (false, true),
                RunEndSign::Entry(at) => (false, bytes.get(at) != Some(&0)),
                RunEndSign::Behind(at, owner) => (bytes.get(at).is_none_or(|byte| *byte >= owner), false),
            };
            if layout.is_object && word_in(bytes, layout.kind) != self.interpreter.frame {
                break;
            }
            // The lowest bits of the pointer mark a borrowed reference.
            if !is_none && self.report_frame(code & !7, at, run, &mut last_file, found)? {
                left -= 1;
            }
            run += usize::from(is_none && left < most || is_last);
            frame = previous;
        }
        Some(())
    }

    /// Returns the innermost frame of this thread. If a thread is in several interpreters, the newest one
    /// made the call, which is the first with a frame.
    fn innermost_frame(&mut self) -> Option<usize> {
        // Other threads may remove states from the list while this thread follows it.
        const ATTEMPTS: usize = 3;
        for _ in 0..ATTEMPTS {
            if let Some(found) = self.search_innermost_frame() {
                return found;
            }
            self.pieces.drop_guesses();
        }
        None
    }

    /// Searches the list of states. Returns `None` if the list leads to unreadable memory.
    fn search_innermost_frame(&mut self) -> Option<Option<usize>> {
        let Layout { interpreters, next_interpreter, .. } = *self.layout;
        let interpreter = self.pieces.word_at(self.interpreter.runtime.wrapping_add(interpreters))?;
        if interpreter == 0 {
            return Some(None);
        }
        // In the only interpreter, the cached state still belongs to the thread if it says so, and leads to a
        // frame. The state of an earlier thread with the same `pthread_self()` may be half overwritten.
        let known = self.pieces.cached_thread_state();
        if known != 0
            && self.pieces.word_at(interpreter.wrapping_add(next_interpreter))? == 0
            && let Some(frame) = innermost_frame_of(self.layout, self.pieces, self.thread, known).flatten()
            && self.is_frame(frame)
        {
            return Some(Some(frame));
        }
        let (own, layout, mut innermost) = (self.thread, self.layout, None);
        self.interpreter.for_each_thread_state(self.pieces, &mut |pieces, state, thread| {
            if thread == own {
                innermost = innermost_frame_of(layout, pieces, own, state)?;
            }
            if innermost.is_some() {
                pieces.cache_thread_state(state);
            }
            Some(innermost.is_none())
        })?;
        Some(innermost)
    }

    /// Returns true if an address holds a frame, judged by its type or by the type of its code.
    fn is_frame(&mut self, frame: usize) -> bool {
        let Layout { is_object, kind, code, .. } = *self.layout;
        let Some(bytes) = self.pieces.bytes_at(frame, frame_size(self.layout)) else { return false };
        if is_object {
            return word_in(bytes, kind) == self.interpreter.frame;
        }
        let (code, kind) = (word_in(bytes, code) & !7, self.interpreter.code);
        self.code_fields(code).is_some_and(|bytes| word_in(bytes, 0) == kind)
    }

    /// Returns the fields of a code object, beginning with its type.
    fn code_fields(&mut self, code: usize) -> Option<&[u8]> {
        let layout = self.layout;
        let fields = [layout.file, layout.name, layout.table, layout.first_line].map(|at| at + 8);
        let high = fields.into_iter().fold(layout.number.map_or(0, |at| at + 4), usize::max);
        self.pieces.bytes_at(code.wrapping_add(layout.kind), high.checked_sub(layout.kind)?)
    }

    /// Passes the frame of a code object to `found`. Returns true if it is a frame of the program: the
    /// interpreter has some of its own, without a file. `None` if it is not a code object or cannot be read,
    /// or if `found` wants no more.
    fn report_frame(
        &mut self,
        code: usize,
        at: usize,
        run: usize,
        last_file: &mut Option<(usize, Range<usize>, usize, u64)>,
        found: &mut dyn FnMut(&PythonFrame) -> bool,
    ) -> Option<bool> {
        let layout = self.layout;
        let low = layout.kind;
        let bytes = self.code_fields(code)?;
        let field = |at: usize| word_in(bytes, at - low);
        let [kind, file, name, table] = [layout.kind, layout.file, layout.name, layout.table].map(field);
        let first_line = half_word_in(bytes, layout.first_line - low);
        let number = layout.number.map_or(0, |at| half_word_in(bytes, at - low));
        let told = (number != 0).then(|| continue_hash(u64::from(number), &code.to_le_bytes()));
        if kind != self.interpreter.code {
            return None;
        }
        if file == name && self.interpreter.object.contains(&code) {
            return Some(false);
        }
        let words = [file, name, first_line as usize].map(usize::to_le_bytes);
        let which = told.map(|told| continue_hash(told, words.as_flattened()));
        let known = which.and_then(|which| self.pieces.cached_number(which)).filter(|key| (self.is_known)(*key));
        let (key, texts) = match known {
            Some(key) => (key, None),
            None => {
                // Most frames have the same file as the frame before.
                let file = match last_file {
                    Some(last) if last.0 == file => last.clone(),
                    _ => {
                        let (place, size) = self.find_text(file, MOST_FILE, true)?;
                        let key = continue_hash(size as u64, self.pieces.piece_bytes(place.clone()));
                        last_file.insert((file, place, size, key)).clone()
                    }
                };
                let (name, name_size) = self.find_text(name, MOST_NAME, false)?;
                let seed = file.3 ^ u64::from(first_line) ^ (name_size as u64) << 32;
                let key = continue_hash(seed, self.pieces.piece_bytes(name.clone()));
                which.inspect(|which| self.pieces.cache_number(*which, key));
                (key, Some(((file.1, file.2), (name, name_size))))
            }
        };
        let at = match layout.standing {
            InstructionForm::Index(..) => at,
            InstructionForm::Address(_, start) => at.wrapping_sub(code.wrapping_add(start)),
        };
        let line = self.find_line(table, (key, told), first_line as i32, at).unwrap_or(0);
        let text = |(place, size)| PythonText::new(self.pieces.piece_bytes(place), size);
        let is_wanted = found(&PythonFrame {
            texts: texts.map(|(file, name)| FunctionTexts { file: text(file), function: text(name) }),
            first_line,
            line,
            key,
            run,
        });
        is_wanted.then_some(true)
    }

    /// Returns the range of a str object's characters, and the bytes per character. For a long text, the
    /// range covers its start or its end.
    fn find_text(&mut self, text: usize, most: usize, is_end: bool) -> Option<(Range<usize>, usize)> {
        const KIND: u32 = 7;
        const COMPACT: u32 = 8;
        const ASCII: u32 = 16;
        let Layout { kind, length, state, state_shift, ascii, wide, .. } = *self.layout;
        let bytes = self.pieces.bytes_at(text.wrapping_add(kind), state + 4 - kind)?;
        let is_text = word_in(bytes, 0) == self.interpreter.text;
        let (length, state) = (word_in(bytes, length - kind), half_word_in(bytes, state - kind) >> state_shift);
        let size = (state & KIND) as usize;
        if !is_text || state & COMPACT == 0 || !matches!(size, 1 | 2 | 4) {
            return None;
        }
        let kept = length.min(most / size);
        let from = if is_end { (length - kept).checked_mul(size)? } else { 0 };
        let start = text.wrapping_add(if state & ASCII != 0 { ascii } else { wide }).wrapping_add(from);
        let place = if kept == 0 { 0..0 } else { self.pieces.piece_at(start, kept * size)? };
        Some((place, size))
    }

    /// Returns the line of an instruction. The result is cached per code object if it has a unique number. Otherwise,
    /// it is cached per function and line table, because another code object can reuse the address.
    fn find_line(&mut self, table: usize, (key, told): (u64, Option<u64>), first_line: i32, at: usize) -> Option<u32> {
        /// Tables up to this many bytes are copied as pieces. Longer ones would leave no space for other pieces.
        const SHORT: usize = 1024;
        /// The largest table that is read.
        const MOST: usize = 1 << 18;
        let mut which = continue_hash(continue_hash(key, &at.to_le_bytes()), &table.to_le_bytes());
        if let Some(told) = told {
            which = continue_hash(which, &told.to_le_bytes());
            if let Some(line) = self.cached_line(which) {
                return line;
            }
        }
        let Layout { kind, byte_count, bytes: start, form, .. } = *self.layout;
        let head = self.pieces.bytes_at(table.wrapping_add(kind), byte_count + 8 - kind)?;
        let size = word_in(head, byte_count - kind);
        if word_in(head, 0) != self.interpreter.bytes || size > MOST {
            return None;
        }
        if size == 0 {
            return line_of(form, first_line, at, || None);
        }
        let start = table.wrapping_add(start);
        if told.is_none() {
            let is_short = size <= SHORT && self.pieces.has_room_for_tables();
            let bytes = if is_short { self.pieces.bytes_at(start, size) } else { None };
            which = match bytes {
                Some(bytes) => continue_hash(which, bytes),
                None => hash_line_table(self.pieces, which, start, size)?,
            };
            if let Some(line) = self.cached_line(which) {
                return line;
            }
        }
        let line = find_line_in_table(self.pieces, start, size, |next| line_of(form, first_line, at, next));
        self.pieces.cache_number(which, 1 + u64::from(line.unwrap_or(0)));
        line
    }

    /// Returns a cached line, which is 1 less than the cached number; 0 if the instruction has none.
    fn cached_line(&self, hash: u64) -> Option<Option<u32>> {
        let number = self.pieces.cached_number(hash)?;
        Some(Some((number as u32).wrapping_sub(1)).filter(|line| *line != 0))
    }
}

/// Returns the innermost frame of a thread's state, if it is this thread's state and has a frame.
fn innermost_frame_of(
    layout: &Layout,
    pieces: &mut impl MemoryPieces,
    thread: usize,
    state: usize,
) -> Option<Option<usize>> {
    if pieces.word_at(state.wrapping_add(layout.thread_id))? != thread {
        return Some(None);
    }
    let frame = match layout.innermost {
        InnermostPath::Of(at) => pieces.word_at(state.wrapping_add(at))?,
        InnermostPath::Through(at, further) => {
            let place = pieces.word_at(state.wrapping_add(at))?;
            pieces.word_at(place.wrapping_add(further))?
        }
    };
    Some((frame != 0).then_some(frame))
}

/// Returns the word at an address without making it a piece.
fn copy_word(pieces: &impl MemoryPieces, address: usize) -> Option<usize> {
    let mut bytes = [0; 8];
    (pieces.copy(address, &mut bytes) == bytes.len()).then(|| usize::from_le_bytes(bytes))
}

/// Returns the number of bytes of a frame that must be read.
fn frame_size(layout: &Layout) -> usize {
    let standing = match layout.standing {
        InstructionForm::Index(at, _) => at + 4,
        InstructionForm::Address(at, _) => at + 8,
    };
    let runs = match layout.runs {
        RunEndSign::Single => 0,
        RunEndSign::Entry(at) | RunEndSign::Behind(at, _) => at + 1,
    };
    standing.max(runs).max(layout.previous + 8).max(layout.code + 8)
}

/// Number of bytes of a table that are copied at once.
const PIECE: usize = 4096;

/// Returns a hash of `before` and a whole table; `None` if the table cannot be read.
fn hash_line_table(pieces: &impl MemoryPieces, before: u64, start: usize, size: usize) -> Option<u64> {
    let mut copy = [0; PIECE];
    (0..size).step_by(PIECE).try_fold(before, |hashed, from| {
        let piece = &mut copy[..PIECE.min(size - from)];
        let is_whole = pieces.copy(start.wrapping_add(from), piece) == piece.len();
        is_whole.then(|| continue_hash(hashed, piece))
    })
}

/// Finds a line in a table, of which any part may be unreadable.
#[cold]
#[inline(never)]
fn find_line_in_table(
    pieces: &impl MemoryPieces,
    start: usize,
    size: usize,
    find: impl FnOnce(&mut dyn FnMut() -> Option<u8>) -> Option<u32>,
) -> Option<u32> {
    let (mut copy, mut had, mut at) = ([0; PIECE], 0, 0);
    find(&mut || {
        if at % PIECE == 0 {
            let piece = &mut copy[..PIECE.min(size.saturating_sub(at))];
            had = pieces.copy(start.wrapping_add(at), piece);
        }
        let byte = *copy[..had].get(at % PIECE)?;
        at += 1;
        Some(byte)
    })
}

/// Continues a hash with more bytes.
fn continue_hash(before: u64, bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(ODD);
        (product as u64 ^ (product >> 64) as u64).rotate_left(23)
    };
    // Four words at a time are hashed independently, which is faster.
    let (blocks, bytes_left) = bytes.as_chunks::<32>();
    let begin = mix(before, ODD ^ bytes.len() as u64);
    let mut lanes = [begin, begin.rotate_left(16), begin.rotate_left(32), begin.rotate_left(48)];
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let joined = if blocks.is_empty() { begin } else { lanes.into_iter().fold(begin, mix) };
    let (words, rest) = bytes_left.as_chunks();
    let hash = words.iter().fold(joined, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let last = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    mix(mix(hash, last), ODD)
}

/// Returns a word of a copy; 0 if the copy is too short.
fn word_in(bytes: &[u8], at: usize) -> usize {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    word.map_or(0, |word| usize::from_le_bytes(*word))
}

fn half_word_in(bytes: &[u8], at: usize) -> u32 {
    let half = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    half.map_or(0, |half| u32::from_le_bytes(*half))
}
