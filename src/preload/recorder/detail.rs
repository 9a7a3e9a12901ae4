//! Stores the details of a call that do not fit in its slot: frames, arrays, texts, and results of driver queries.

use super::{clock, functions_of_python, libraries, stream};
use crate::settings::{self, key::fingerprint};
use crate::sys::caller::each_frame;
use crate::sys::program_memory;
use crate::sys::python;
use core::ffi::c_char;
use cupeer_spec::record::slot::{self, MOST_ARGS, PythonLine, Slot, detail};
use cupeer_spec::value::{MOST_ELEMENTS, Value};

const SLOTS: usize = 12;
const ROOM: usize = SLOTS * size_of::<Slot>() - detail::START;

/// Size in bytes of the largest element of an array that is stored.
const MOST_ELEMENT: usize = 12;

/// A list of items about a call, before it is written into slots.
pub struct Detail {
    bytes: [u8; ROOM],
    length: usize,
}

/// Adds items about the call whose slot has this number, as many as fit in two slots. For functions that are called often.
pub fn append_short(number: u64, items: &[(u8, &[u8])]) {
    /// Size of the tag, the argument, and the length before each item, in bytes.
    const HEAD: usize = 4;
    let mut bytes = [0; 2 * size_of::<Slot>() - detail::START];
    let mut length = 0;
    for (tag, item) in items {
        let Some(place) = bytes.get_mut(length..length + HEAD + item.len()) else { break };
        (place[0], place[2]) = (*tag, item.len() as u8);
        place[HEAD..].copy_from_slice(item);
        length = (length + HEAD + item.len()).next_multiple_of(4);
    }
    append(slot::DETAIL, number, length, &[&bytes[..length]]);
}

/// Puts items into this thread's stream, in slots with `start` in their first word after the state, and `room` bytes for the
/// items. Returns false if the stream has no room.
fn append(state: u8, start: u64, room: usize, items: &[&[u8]]) -> bool {
    let slots = (detail::START + room).div_ceil(size_of::<Slot>());
    let taken = stream::append_slots(state, u16::MAX, slots, |place| {
        // SAFETY: that many slots are there, and are this thread's. They have room for all items, and zeros after them end the items.
        unsafe {
            (*place).start = start;
            let end = place.add(slots).cast::<u8>();
            let mut next = place.cast::<u8>().add(detail::START);
            for item in items {
                core::ptr::copy_nonoverlapping(item.as_ptr(), next, item.len());
                next = next.add(item.len());
            }
            core::ptr::write_bytes(next, 0, end.offset_from_unsigned(next));
        }
    });
    taken.is_some()
}

/// Returns the number of slots that [`write_current_context`] fills. `stored` is the number of bytes of arguments that
/// it also writes.
pub fn slots_for_context(stored: usize) -> usize {
    if stored <= NARROW { 1 } else { 2 }
}

/// Number of bytes of arguments that fit in one slot behind the current context and device.
const NARROW: usize = size_of::<Slot>() - detail::START - 16;
const _: () = assert!(2 * NARROW == MOST_ARGS);

/// Writes the context and the device that were current when the call with this number used shared memory. Also writes the first
/// `stored` bytes of the call's arguments; `stored` is 0 if they fit in the call's own slot.
///
/// # Safety
///
/// As many slots as [`slots_for_context`] returns are there, and are this thread's.
pub unsafe fn write_current_context(
    place: *mut Slot,
    number: u64,
    current: u64,
    args: &[u8; MOST_ARGS],
    stored: usize,
) {
    let head = |tag: u8, length: usize| u64::from(tag) | (length as u64) << 16;
    let has_room = slots_for_context(stored) == 1;
    let wide = if stored > 0 { head(detail::ARGUMENTS, stored) } else { 0 };
    // SAFETY: as promised; what the items do not fill is zero, also behind the arguments.
    unsafe {
        (*place).start = number;
        let items = place.cast::<u8>().add(detail::START);
        items.cast::<[u64; 2]>().write([head(detail::CURRENT, 8) | current << 32, current >> 32 | wide << 32]);
        let (from, to) = (args.as_ptr().cast::<[u8; NARROW]>(), items.add(16).cast::<[u8; NARROW]>());
        if stored > 0 {
            core::ptr::copy_nonoverlapping(from, to, 1);
        } else {
            core::ptr::write_bytes(to, 0, 1);
        }
        if !has_room {
            core::ptr::copy_nonoverlapping(from.add(1), to.add(1), 1);
            core::ptr::write_bytes(to.add(2), 0, 1);
        }
    }
}

impl Detail {
    pub const EMPTY: Detail = Detail { bytes: [0; ROOM], length: 0 };

    /// Adds the items that `fill` makes to the call whose slot has this number. Returns the items, which may be none.
    pub fn add_to_call(number: u64, fill: impl FnOnce(&mut Detail)) -> Detail {
        let mut detail = Detail::EMPTY;
        fill(&mut detail);
        detail.append(slot::DETAIL, number);
        detail
    }

    /// Returns an item with the text of a mark.
    pub fn of_text(text: &[u8]) -> Detail {
        let mut detail = Detail::EMPTY;
        detail.add_item(detail::TEXT, 0, text);
        detail
    }

    /// Puts the items into this thread's stream if there are any. Returns false if the stream has no room.
    pub fn append(&self, state: u8, start: u64) -> bool {
        if self.length == 0 {
            return true;
        }
        // A zero byte after the last item marks the end of the items, unless they fill the slots.
        append(state, start, (self.length + 1).min(ROOM), &[&self.bytes[..self.length]])
    }

    /// Adds an item with a tag for an argument. The bytes are cut if there is too little room.
    pub fn add_item(&mut self, tag: u8, argument: usize, bytes: &[u8]) {
        let Some(room) = (ROOM - self.length).checked_sub(4) else { return };
        let bytes = &bytes[..bytes.len().min(room)];
        let place = &mut self.bytes[self.length..];
        place[0] = tag;
        place[1] = argument as u8;
        place[2..4].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
        place[4..4 + bytes.len()].copy_from_slice(bytes);
        self.length = (self.length + 4 + bytes.len()).next_multiple_of(4).min(ROOM);
    }

    /// Adds the frames of a call, beginning with its return address `caller`, and the Python frames among them.
    pub fn add_frames(&mut self, caller: usize) {
        let mut frames = [0; detail::MOST_FRAMES];
        let mut count = 0;
        each_frame(caller, detail::MOST_FRAMES, |address| {
            libraries::describe_library_of(address);
            frames[count] = address as u64;
            count += 1;
            true
        });
        if count > 0 {
            self.add_item(detail::FRAMES, 0, frames.map(u64::to_le_bytes)[..count].as_flattened());
            self.add_python_frames(&frames[..count]);
        }
    }

    /// Adds the Python frames that belong to these native frames of a call.
    fn add_python_frames(&mut self, frames: &[u64]) {
        let Some(interpreter) = settings::get().python.then(python::find_native_interpreter).flatten() else {
            return;
        };
        let mut lines = [0; PythonLine::SIZE * detail::MOST_PYTHON];
        let mut count = 0;
        python::each_frame(detail::MOST_PYTHON, functions_of_python::is_known, |frame| {
            let Some(function) = functions_of_python::number_of_function(frame) else { return false };
            let line =
                PythonLine { function, line: frame.line, frame: interpreter.native_frame_index(frames, frame.run) };
            lines[PythonLine::SIZE * count..PythonLine::SIZE * (count + 1)].copy_from_slice(&line.to_bytes());
            count += 1;
            true
        });
        if count > 0 {
            self.add_item(detail::PYTHON, 0, &lines[..PythonLine::SIZE * count]);
        }
    }

    /// Adds a text to which an argument points, cut to the length that is printed.
    pub fn text(&mut self, argument: usize, text: *const c_char) {
        if let Some(copy) = program_memory::copy_text(text) {
            let bytes = copy.map(|byte| byte as u8);
            self.add_item(detail::TEXT, argument, bytes.split(|byte| *byte == 0).next().unwrap_or(&[]));
        }
    }

    /// Adds the first elements of an array to which an argument points, if all elements can be read.
    pub fn elements<T: Value>(&mut self, argument: usize, elements: *const T, count: usize) {
        let mut bytes = [0; MOST_ELEMENT * MOST_ELEMENTS];
        let count = if elements.is_null() { 0 } else { count.min(MOST_ELEMENTS) };
        for (i, place) in bytes.chunks_exact_mut(T::STORED).take(count).enumerate() {
            let Some(element) = program_memory::copy_value(elements.wrapping_add(i)) else { return };
            element.store(place, fingerprint);
        }
        if count > 0 {
            self.add_item(detail::ELEMENTS, argument, &bytes[..T::STORED * count]);
        }
    }

    /// Returns the stored elements of the first array that was added; empty without an array.
    pub fn array(&self) -> &[u8] {
        let array = detail::items(&self.bytes[..self.length]).find(|item| item.tag == detail::ELEMENTS);
        array.map_or(&[], |array| array.bytes)
    }
}

/// Adds one item about the call with this number. The item can be longer than those of a [`Detail`], because its bytes are not
/// copied first.
pub fn append_item_to_call(number: u64, tag: u8, bytes: &[u8]) {
    /// Largest number of slots of an item, which is more than any item needs.
    const MOST: usize = 64;
    let room = MOST * size_of::<Slot>() - detail::START - 5;
    let bytes = &bytes[..bytes.len().min(room)];
    let length = (bytes.len() as u16).to_le_bytes();
    append(slot::DETAIL, number, 4 + bytes.len() + 1, &[&[tag, 0, length[0], length[1]], bytes]);
}

/// Puts a mark of the program into this thread's stream. Returns false if the stream has no room.
pub fn append_mark(text: &[u8]) -> bool {
    Detail::of_text(text).append(slot::MARK, clock::now())
}
