//! The stack of a thread of another process: frames of C and of Python, as they called each other.

use super::memory::RemoteMemory;
use super::objects::MappedFile;
use cupeer_stacks::python::{Interpreter, MemoryPieces};
use cupeer_stacks::unwind::processor::{FRAME, PLACE, call_target, is_after_call, plain_code_address};
use cupeer_stacks::unwind::{Registers, StackWalk, UnwindRow, UnwindTables};
use cupeer_stacks::{Memory, MemoryWindow};
use std::ffi::CStr;
use std::ops::Range;

/// Number of C frames, and of Python frames, of a thread after which the rest is left out.
const MOST: usize = 128;

/// A frame without the name of its function.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum UnnamedFrame {
    /// A C frame: the return address or, for an interrupted function, the address after the interrupted instruction.
    Native(u64),
    /// A Python function: file, name, and line.
    Python(String, String, u32),
}

/// Reader of stacks, from the memory and the mapped files of a process.
pub struct StackReader<'a> {
    pub memory: &'a RemoteMemory,
    pub files: &'a [MappedFile],
    pub interpreter: Option<Interpreter>,
}

impl<'a> StackReader<'a> {
    pub fn new(memory: &'a RemoteMemory, objects: &'a [MappedFile]) -> StackReader<'a> {
        let of = |name: &CStr| objects.iter().find_map(|object| object.python_symbol(name));
        let interpreter = objects.iter().find_map(|object| {
            let range = object.range.start as usize..object.range.end as usize;
            Interpreter::read_interpreter(memory, range, |name| object.python_symbol(name), of)
        });
        StackReader { memory, files: objects, interpreter }
    }

    /// Returns the frames of a thread, starting from these registers, and true if all frames were found. `description` is the
    /// thread's value of `pthread_self()`, if known.
    pub fn read_stack(
        &self,
        registers: Registers,
        is_interrupted: bool,
        description: Option<usize>,
    ) -> (Vec<UnnamedFrame>, bool) {
        let (addresses, is_whole) = self.native_addresses(registers, is_interrupted);
        let python = description.map_or_else(Vec::new, |description| self.python_frames(description));
        (self.merge_frames(&addresses, python), is_whole)
    }

    /// Returns only the Python frames of a thread.
    pub fn read_python_stack(&self, description: usize) -> Vec<UnnamedFrame> {
        self.python_frames(description).into_iter().map(|(_, raw)| raw).collect()
    }

    fn native_addresses(&self, registers: Registers, is_interrupted: bool) -> (Vec<u64>, bool) {
        let mut walk = StackWalk { registers, is_interrupted, stack: MemoryWindow::new(self.memory) };
        let mut addresses = Vec::new();
        while addresses.len() < MOST {
            addresses.push(walk.code_address() as u64 + u64::from(walk.is_interrupted));
            let (address, height) = (walk.code_address(), walk.stack_height());
            let Some(asked) = walk.lookup_address() else { return (addresses, true) };
            let table = MappedFile::containing(self.files, asked as u64).and_then(MappedFile::unwind_table);
            let tables = table.map(|table| UnwindTables::at(table, self.memory));
            let row = tables.as_ref().and_then(|tables| tables.find_row(asked));
            let range = tables.as_ref().and_then(|tables| tables.function_range(asked));
            if walk.registers.get(FRAME).is_none() && needs_frame_pointer(row.as_ref()) {
                let found = self.find_frame_pointer(&mut walk, asked, range);
                walk.registers.set(FRAME, found);
            }
            let found = match (&row, &tables) {
                (Some(row), _) if row.is_outermost() => return (addresses, true),
                (Some(_), Some(tables)) => walk.step_by_tables(tables, asked),
                _ => {
                    walk.is_interrupted = false;
                    walk.step_by_frame_pointer()
                }
            };
            if found.is_none() || (walk.code_address(), walk.stack_height()) == (address, height) {
                return (addresses, false);
            }
            if walk.code_address() == 0 || walk.registers.get(PLACE).is_none() {
                return (addresses, true);
            }
        }
        (addresses, true)
    }

    /// Finds the frame pointer of a function that waits in the kernel, which does not report it. The frame pointer is the address
    /// at which the function stored its caller's frame pointer, just below its return address. So this searches the stack for the
    /// first return address after a call of this function or, if there is none, after an indirect call that may be one of this
    /// function.
    fn find_frame_pointer(
        &self,
        walk: &mut StackWalk<&RemoteMemory>,
        asked: usize,
        range: Option<Range<usize>>,
    ) -> Option<usize> {
        /// Number of bytes of the stack that are searched.
        const FARTHEST: usize = 1 << 14;
        /// Distance in bytes from the start of a function from which on it is not believed to be the one, if its range
        /// is unknown.
        const LARGEST: usize = 1 << 14;
        let own = MappedFile::containing(self.files, asked as u64)?;
        let is_start = |target: usize| match &range {
            Some(range) => target == range.start,
            None => target <= asked && asked - target < LARGEST,
        };
        let height = walk.stack_height() & !7;
        let mut likely = None;
        for place in (height..height.checked_add(FARTHEST)?).step_by(8) {
            let Some([before, address]) = walk.stack.read_words(place) else { break };
            let address = plain_code_address(address);
            let Some(caller) = MappedFile::containing(self.files, address as u64) else { continue };
            if !is_after_call(self.memory, address) {
                continue;
            }
            match call_target(self.memory, address) {
                Some(target) if is_start(target) => return Some(place),
                Some(_) if caller.range == own.range => continue,
                _ => {}
            }
            let is_chain = before > place && before - place < 1 << 20 && before.is_multiple_of(8);
            let is_within = range.as_ref().is_some_and(|range| range.contains(&address));
            likely = likely.or((is_chain && !is_within).then_some(place));
        }
        likely
    }

    /// Returns the Python frames of a thread, each with the run of the interpreter's loop that executes it.
    fn python_frames(&self, description: usize) -> Vec<(usize, UnnamedFrame)> {
        let mut found = Vec::new();
        if let Some(interpreter) = &self.interpreter {
            let mut pieces = CopiedMemory::new(self.memory);
            interpreter.for_each_frame(&mut pieces, description, MOST, |_| false, &mut |frame| {
                let Some(texts) = &frame.texts else { return true };
                let raw = UnnamedFrame::Python(texts.file.to_string(), texts.function.to_string(), frame.line);
                found.push((frame.run, raw));
                true
            });
        }
        found
    }

    /// Merges both kinds of frames: Python frames replace the interpreter's loop, and all other frames of the interpreter are
    /// left out.
    fn merge_frames(&self, addresses: &[u64], python: Vec<(usize, UnnamedFrame)>) -> Vec<UnnamedFrame> {
        let Some(interpreter) = self.interpreter.as_ref().filter(|_| !python.is_empty()) else {
            return addresses.iter().map(|address| UnnamedFrame::Native(*address)).collect();
        };
        let mut python =
            python.into_iter().map(|(run, raw)| (interpreter.find_run_frame(addresses, run), raw)).peekable();
        let mut joined = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            while let Some((_, raw)) = python.next_if(|(place, _)| *place <= index) {
                joined.push(raw);
            }
            if !interpreter.object.contains(&(*address as usize - 1)) {
                joined.push(UnnamedFrame::Native(*address));
            }
        }
        joined.extend(python.map(|(_, raw)| raw));
        joined
    }

    /// Returns the values of `pthread_self()` of the threads that have run Python, each with the thread's tid, which the C
    /// library stores in the process's own numbering.
    pub fn thread_descriptions(&self, is_tid: impl Fn(u32) -> bool) -> Vec<(u32, usize)> {
        /// Offsets of the tid in the thread structures of glibc and musl, on all architectures.
        const PLACES: [u64; 4] = [720, 208, 48, 56];
        let mut found = Vec::new();
        if let Some(interpreter) = &self.interpreter {
            interpreter.for_each_thread(&mut CopiedMemory::new(self.memory), &mut |description| {
                let at = |place: &u64| self.memory.u32_at(description as u64 + place).filter(|tid| is_tid(*tid));
                found.extend(PLACES.iter().find_map(at).map(|tid| (tid, description)));
                true
            });
        }
        found
    }
}

/// Returns true if the unwind table finds the next frame by the frame pointer.
fn needs_frame_pointer(row: Option<&UnwindRow>) -> bool {
    row.is_none_or(|row| row.frame_base().is_some_and(|(register, _)| register == FRAME))
}

/// Copies of the process's memory, used during one walk along a stack.
struct CopiedMemory<'a> {
    memory: &'a RemoteMemory,
    bytes: Vec<u8>,
}

impl<'a> CopiedMemory<'a> {
    fn new(memory: &'a RemoteMemory) -> CopiedMemory<'a> {
        CopiedMemory { memory, bytes: Vec::new() }
    }
}

impl MemoryPieces for CopiedMemory<'_> {
    fn piece_at(&mut self, address: usize, length: usize) -> Option<Range<usize>> {
        const MOST: usize = 1 << 24;
        let from = self.bytes.len();
        if length > MOST - from.min(MOST) {
            return None;
        }
        self.bytes.resize(from + length, 0);
        if address == 0 || self.memory.copy(address, &mut self.bytes[from..]) < length {
            self.bytes.truncate(from);
            return None;
        }
        Some(from..from + length)
    }

    fn piece_bytes(&self, place: Range<usize>) -> &[u8] {
        self.bytes.get(place).unwrap_or_default()
    }

    fn copy(&self, address: usize, place: &mut [u8]) -> usize {
        self.memory.copy(address, place)
    }
}
