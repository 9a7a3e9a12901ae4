//! The details of a call that do not fit into its slot: frames, arrays, texts, answers of the driver.

use super::{clock, libraries, stream};
use crate::sys::program_memory;
use crate::sys::unwind::each_frame;
use core::ffi::c_char;
use cupeer_spec::record::slot::{self, Slot, detail};
use cupeer_spec::value::{MOST_ELEMENTS, Value};

/// The most slots of a detail.
const SLOTS: usize = 8;
/// The bytes for items.
const ROOM: usize = SLOTS * size_of::<Slot>() - detail::START;

/// Items under construction.
pub struct Detail {
    bytes: [u8; ROOM],
    length: usize,
}

impl Detail {
    /// Makes a detail of the call whose slot has this number, and puts it into the thread's stream where it is
    /// not empty.
    pub fn about(number: u64, make: impl FnOnce(&mut Detail)) {
        let mut detail = Detail { bytes: [0; ROOM], length: 0 };
        make(&mut detail);
        detail.append(slot::DETAIL, number);
    }

    fn append(&self, state: u8, start: u64) -> bool {
        if self.length == 0 {
            return true;
        }
        let slots = (detail::START + self.length + 1).div_ceil(size_of::<Slot>()).min(SLOTS);
        stream::append_slots(state, u16::MAX, slots, |place| {
            // SAFETY: that many slots lie there, and are this thread's. Unused bytes of the last one are zero: the
            // end of the items.
            unsafe {
                (*place).start = start;
                let items = place.cast::<u8>().add(detail::START);
                let room = slots * size_of::<Slot>() - detail::START;
                core::ptr::copy_nonoverlapping(self.bytes.as_ptr(), items, room.min(ROOM));
            }
        })
    }

    /// Adds an item, as much of it as there is room for.
    pub fn item(&mut self, tag: u8, argument: usize, bytes: &[u8]) {
        let Some(room) = (ROOM - self.length).checked_sub(4) else { return };
        let bytes = &bytes[..bytes.len().min(room)];
        let place = &mut self.bytes[self.length..];
        place[0] = tag;
        place[1] = argument as u8;
        place[2..4].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
        place[4..4 + bytes.len()].copy_from_slice(bytes);
        self.length = (self.length + 4 + bytes.len()).next_multiple_of(4).min(ROOM);
    }

    /// Adds the frames of a call, from the one that it returns to.
    pub fn frames(&mut self, caller: usize) {
        let mut bytes = [0; 8 * detail::MOST_FRAMES];
        let mut count = 0;
        each_frame(caller, detail::MOST_FRAMES, |address| {
            libraries::know(address);
            bytes[8 * count..8 * count + 8].copy_from_slice(&(address as u64).to_le_bytes());
            count += 1;
            true
        });
        if count > 0 {
            self.item(detail::FRAMES, 0, &bytes[..8 * count]);
        }
    }

    /// Adds a text argument of the program, as much of it as is printed.
    pub fn text(&mut self, argument: usize, text: *const c_char) {
        if let Some(copy) = program_memory::copy_text(text) {
            let bytes = copy.map(|byte| byte as u8);
            self.item(detail::TEXT, argument, bytes.split(|byte| *byte == 0).next().unwrap_or(&[]));
        }
    }

    /// Adds the first elements of an array of the program; of structures their first four bytes.
    pub fn elements<T: Value>(&mut self, argument: usize, elements: *const T, count: usize) {
        const { assert!(T::STORED == 4 && size_of::<T>() >= 4) };
        let mut bytes = [0; 4 * MOST_ELEMENTS];
        let wanted = 4 * count.min(MOST_ELEMENTS);
        let read = match size_of::<T>() {
            _ if elements.is_null() => 0,
            4 => program_memory::copy(elements as usize, &mut bytes[..wanted]),
            _ => {
                let places = bytes[..wanted].chunks_exact_mut(4).enumerate();
                places.map(|(i, place)| program_memory::copy(elements.wrapping_add(i) as usize, place)).sum()
            }
        };
        if read == wanted {
            self.item(detail::ELEMENTS, argument, &bytes[..wanted]);
        }
    }

    /// The first element, of the first array that was added, of which something is true.
    pub fn find_element(&self, is_it: impl Fn(i32) -> bool) -> Option<i32> {
        let array = detail::items(&self.bytes[..self.length]).find(|item| item.tag == detail::ELEMENTS)?;
        let mut numbers =
            array.bytes.chunks_exact(4).filter_map(|word| Some(i32::from_le_bytes(word.try_into().ok()?)));
        numbers.find(|number| is_it(*number))
    }
}

/// Adds one item to a call, of any length that is told from bytes elsewhere.
pub fn item_of(number: u64, tag: u8, bytes: &[u8]) {
    /// As many as a slot's word can count, and more than any item has.
    const MOST: usize = 64;
    let room = MOST * size_of::<Slot>() - detail::START - 5;
    let bytes = &bytes[..bytes.len().min(room)];
    let slots = (detail::START + 4 + bytes.len() + 1).div_ceil(size_of::<Slot>());
    stream::append_slots(slot::DETAIL, u16::MAX, slots, |place| {
        let length = (bytes.len() as u16).to_le_bytes();
        // SAFETY: that many slots lie there, and are this thread's; what the item does not fill of them ends the items.
        unsafe {
            (*place).start = number;
            let item = place.cast::<u8>().add(detail::START);
            core::ptr::write_bytes(item, 0, slots * size_of::<Slot>() - detail::START);
            core::ptr::copy_nonoverlapping([tag, 0, length[0], length[1]].as_ptr(), item, 4);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), item.add(4), bytes.len());
        }
    });
}

/// Puts a mark into the thread's stream.
pub fn mark(text: &[u8]) -> bool {
    let mut detail = Detail { bytes: [0; ROOM], length: 0 };
    detail.item(detail::TEXT, 0, text);
    detail.append(slot::MARK, clock::now())
}
