//! The stack of a thread of another process: frames of C and of Python, as they called each other.

use super::memory::Outside;
use super::objects::Object;
use cupeer_stacks::python::{Interpreter, Pieces};
use cupeer_stacks::unwind::processor::{FRAME, PLACE, address_of, call_target, is_behind_call};
use cupeer_stacks::unwind::{Registers, Row, Tables, Walk};
use cupeer_stacks::{Memory, Window};
use std::ffi::CStr;
use std::ops::Range;

/// Maximum number of C frames, and of Python frames, of a thread.
const MOST: usize = 128;

/// A frame without the name of its function.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Raw {
    /// A C frame: the return address or, for an interrupted function, the address after the interrupted instruction.
    Native(u64),
    /// A Python function: file, name, and line.
    Python(String, String, u32),
}

/// Reader of stacks, from the memory and the mapped files of a process.
pub struct Reader<'a> {
    pub memory: &'a Outside,
    pub objects: &'a [Object],
    pub interpreter: Option<Interpreter>,
}

impl<'a> Reader<'a> {
    pub fn new(memory: &'a Outside, objects: &'a [Object]) -> Reader<'a> {
        let of = |name: &CStr| objects.iter().find_map(|object| object.python(name));
        let interpreter = objects.iter().find_map(|object| {
            let range = object.range.start as usize..object.range.end as usize;
            Interpreter::read(memory, range, |name| object.python(name), of)
        });
        Reader { memory, objects, interpreter }
    }

    /// Returns the frames of a thread, starting from these registers, and true if all frames were found. `description` is the
    /// thread's value of `pthread_self()`, if known.
    pub fn stack(
        &self,
        registers: Registers,
        is_interrupted: bool,
        description: Option<usize>,
    ) -> (Vec<Raw>, bool) {
        let (addresses, is_whole) = self.native(registers, is_interrupted);
        let python = description.map_or_else(Vec::new, |description| self.python(description));
        (self.merge_frames(&addresses, python), is_whole)
    }

    /// Returns only the Python frames of a thread.
    pub fn python_only(&self, description: usize) -> Vec<Raw> {
        self.python(description).into_iter().map(|(_, raw)| raw).collect()
    }

    fn native(&self, registers: Registers, is_interrupted: bool) -> (Vec<u64>, bool) {
        let mut walk = Walk { registers, is_interrupted, stack: Window::new(self.memory) };
        let mut addresses = Vec::new();
        while addresses.len() < MOST {
            addresses.push(walk.address() as u64 + u64::from(walk.is_interrupted));
            let (address, height) = (walk.address(), walk.height());
            let Some(asked) = walk.lookup_address() else { return (addresses, true) };
            let table = Object::at(self.objects, asked as u64).and_then(Object::unwind_table);
            let tables = table.map(|table| Tables::at(table, self.memory));
            let row = tables.as_ref().and_then(|tables| tables.row(asked));
            let range = tables.as_ref().and_then(|tables| tables.range(asked));
            if walk.registers.get(FRAME).is_none() && needs_frame_pointer(row.as_ref()) {
                let found = self.frame_pointer(&mut walk, asked, range);
                walk.registers.set(FRAME, found);
            }
            let found = match (&row, &tables) {
                (Some(row), _) if row.is_outermost() => return (addresses, true),
                (Some(_), Some(tables)) => walk.by_tables(tables, asked),
                _ => {
                    walk.is_interrupted = false;
                    walk.by_frame_pointer()
                }
            };
            if found.is_none() || (walk.address(), walk.height()) == (address, height) {
                return (addresses, false);
            }
            if walk.address() == 0 || walk.registers.get(PLACE).is_none() {
                return (addresses, true);
            }
        }
        (addresses, true)
    }

    /// Finds the frame pointer of a function that waits in the kernel, which does not report it. The frame pointer is the address
    /// at which the function stored its caller's frame pointer, just below its return address. So this searches the stack for the
    /// first return address after a call of this function or, if there is none, after an indirect call that may be one of this
    /// function.
    fn frame_pointer(
        &self,
        walk: &mut Walk<&Outside>,
        asked: usize,
        range: Option<Range<usize>>,
    ) -> Option<usize> {
        /// Number of bytes of the stack that are searched.
        const FARTHEST: usize = 1 << 14;
        /// Largest size of a function whose start is unknown.
        const LARGEST: usize = 1 << 14;
        let own = Object::at(self.objects, asked as u64)?;
        let is_start = |target: usize| match &range {
            Some(range) => target == range.start,
            None => target <= asked && asked - target < LARGEST,
        };
        let height = walk.height() & !7;
        let mut likely = None;
        for place in (height..height.checked_add(FARTHEST)?).step_by(8) {
            let Some([before, address]) = walk.stack.words(place) else { break };
            let address = address_of(address);
            let Some(caller) = Object::at(self.objects, address as u64) else { continue };
            if !is_behind_call(self.memory, address) {
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
    fn python(&self, description: usize) -> Vec<(usize, Raw)> {
        let mut found = Vec::new();
        if let Some(interpreter) = &self.interpreter {
            let mut pieces = Copied::new(self.memory);
            interpreter.each_frame(&mut pieces, description, MOST, |_| false, &mut |frame| {
                let Some(texts) = &frame.texts else { return true };
                let raw = Raw::Python(texts.file.to_string(), texts.function.to_string(), frame.line);
                found.push((frame.run, raw));
                true
            });
        }
        found
    }

    /// Merges both kinds of frames: Python frames replace the interpreter's loop, and all other frames of the interpreter are
    /// left out.
    fn merge_frames(&self, addresses: &[u64], python: Vec<(usize, Raw)>) -> Vec<Raw> {
        let Some(interpreter) = self.interpreter.as_ref().filter(|_| !python.is_empty()) else {
            return addresses.iter().map(|address| Raw::Native(*address)).collect();
        };
        let mut python =
            python.into_iter().map(|(run, raw)| (interpreter.place(addresses, run), raw)).peekable();
        let mut joined = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            while let Some((_, raw)) = python.next_if(|(place, _)| *place <= index) {
                joined.push(raw);
            }
            if !interpreter.object.contains(&(*address as usize - 1)) {
                joined.push(Raw::Native(*address));
            }
        }
        joined.extend(python.map(|(_, raw)| raw));
        joined
    }

    /// Returns the values of `pthread_self()` of the threads that have run Python, each with the thread's tid, which the C
    /// library stores in the process's own numbering.
    pub fn descriptions(&self, is_tid: impl Fn(u32) -> bool) -> Vec<(u32, usize)> {
        /// Offsets of the tid in the thread structures of glibc and musl, on all architectures.
        const PLACES: [u64; 4] = [720, 208, 48, 56];
        let mut found = Vec::new();
        if let Some(interpreter) = &self.interpreter {
            interpreter.each_thread(&mut Copied::new(self.memory), &mut |description| {
                let at =
                    |place: &u64| self.memory.u32_at(description as u64 + place).filter(|tid| is_tid(*tid));
                found.extend(PLACES.iter().find_map(at).map(|tid| (tid, description)));
                true
            });
        }
        found
    }
}

/// Returns true if the unwind table finds the next frame by the frame pointer.
fn needs_frame_pointer(row: Option<&Row>) -> bool {
    row.is_none_or(|row| row.base().is_some_and(|(register, _)| register == FRAME))
}

/// Copies of the process's memory, used during one walk along a stack.
struct Copied<'a> {
    memory: &'a Outside,
    bytes: Vec<u8>,
}

impl<'a> Copied<'a> {
    fn new(memory: &'a Outside) -> Copied<'a> {
        Copied { memory, bytes: Vec::new() }
    }
}

impl Pieces for Copied<'_> {
    fn place(&mut self, address: usize, length: usize) -> Option<Range<usize>> {
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

    fn bytes(&self, place: Range<usize>) -> &[u8] {
        self.bytes.get(place).unwrap_or_default()
    }

    fn copy(&self, address: usize, place: &mut [u8]) -> usize {
        self.memory.copy(address, place)
    }
}
