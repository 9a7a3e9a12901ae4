//! The slots of a record under construction.

use super::Writer;
use super::blocks::SLOT;
use super::items::{detail_items, item_bytes};
use crate::event::{Call, Details, Outcome};
use cupeer_spec::record::slot::{self, ARGS, Slot, detail};
use cupeer_spec::record::{self, BLOCK, SLOTS};
use std::io;

/// Slot with all bytes zero.
const EMPTY: Slot = Slot { word: 0, start: 0, end: 0, caller: 0, args: [0; ARGS], result: 0 };

impl Writer {
    /// Adds a call unchanged, with its details. Returns the number of the call's slot.
    pub fn call(&mut self, stream: u32, call: &Call) -> io::Result<u64> {
        let number = self.slot(stream, of(call, slot_state(call)))?;
        self.details(stream, number, &call.details)?;
        Ok(number)
    }

    /// Adds a call that has not returned. Returns the number of its slot.
    pub fn begin(&mut self, stream: u32, call: &Call) -> io::Result<u64> {
        self.slot(stream, Slot { end: 0, result: 0, ..of(call, slot::PENDING) })
    }

    /// Ends a call: in its own slot or, if that slot is no longer in the window, in a new one. Adds the
    /// details.
    pub fn end(&mut self, stream: u32, number: u64, call: &Call) -> io::Result<()> {
        let window = &self.windows[stream as usize];
        match number.checked_sub(window.header.base) {
            Some(at) => self.write_slots(stream, at as usize, 1, of(call, slot_state(call)), &[])?,
            None => {
                let state = slot::LATE_END | slot_state(call) & slot::INJECTED;
                self.slot(stream, Slot { start: number, ..of(call, state) })?;
            }
        }
        self.details(stream, number, &call.details)
    }

    /// Adds details of a call.
    pub fn details(&mut self, stream: u32, number: u64, details: &Details) -> io::Result<()> {
        if *details == Details::default() {
            return Ok(());
        }
        self.items(stream, slot::DETAIL, number, &detail_items(details)).map(drop)
    }

    /// Records that another thread continues the stream.
    pub fn add_thread_change(&mut self, stream: u32, time: u64, tid: u32) -> io::Result<()> {
        self.windows[stream as usize].tid = tid;
        let word = slot::slot_word(slot::THREAD, 1, u16::MAX, 0);
        self.slot(stream, Slot { word, start: time, end: tid.into(), ..EMPTY }).map(drop)
    }

    /// Adds a mark.
    pub fn mark(&mut self, stream: u32, time: u64, text: &[u8]) -> io::Result<()> {
        self.items(stream, slot::MARK, time, &item_bytes(detail::TEXT, 0, text)).map(drop)
    }

    /// Leaves a slot unwritten, like a thread that is interrupted after it reserved the slot.
    pub fn skip(&mut self, stream: u32) -> io::Result<()> {
        let at = self.make_room(stream, 1)?;
        self.windows[stream as usize].used = at + 1;
        Ok(())
    }

    /// Adds a slot, and sets the number in its first word. Returns this number.
    pub fn slot(&mut self, stream: u32, slot: Slot) -> io::Result<u64> {
        let at = self.make_room(stream, slot.slot_count())?;
        let window = &mut self.windows[stream as usize];
        window.used = at + slot.slot_count().max(1);
        let number = window.header.base + at as u64;
        self.write_slots(stream, at, 1, slot, &[])?;
        Ok(number)
    }

    /// Adds a slot with items, and as many further slots as the items need. Returns the number of the first
    /// slot.
    pub fn items(&mut self, stream: u32, state: u8, start: u64, items: &[u8]) -> io::Result<u64> {
        let slots = (detail::START + items.len() + 1).div_ceil(SLOT);
        let at = self.make_room(stream, slots)?;
        let window = &mut self.windows[stream as usize];
        window.used = at + slots;
        let number = window.header.base + at as u64;
        let word = slot::slot_word(state, slots as u8, u16::MAX, 0);
        self.write_slots(stream, at, slots, Slot { word, start, ..EMPTY }, items)?;
        Ok(number)
    }

    /// Makes space for slots in the window. Returns the index of the first one.
    fn make_room(&mut self, stream: u32, slots: usize) -> io::Result<usize> {
        assert!(slots <= SLOTS, "more slots than a block has");
        if self.windows[stream as usize].used + slots > SLOTS {
            self.flush_window(stream)?;
        }
        Ok(self.windows[stream as usize].used)
    }

    /// Writes slots to a window, the first word of the first slot last.
    fn write_slots(&mut self, stream: u32, at: usize, slots: usize, slot: Slot, items: &[u8]) -> io::Result<()> {
        let window = &mut self.windows[stream as usize];
        let word = slot.word & 0xffff_ffff | (window.header.base + at as u64) << 32;
        let range = at * SLOT..(at + slots) * SLOT;
        let place = &mut window.slots[range.clone()];
        place[..SLOT].copy_from_slice(record::plain_bytes(&Slot { word, ..slot }));
        if !items.is_empty() {
            place[detail::START..].fill(0);
            place[detail::START..detail::START + items.len()].copy_from_slice(items);
        }
        if matches!(slot.state(), slot::PENDING..=slot::UNWOUND | slot::MARK) {
            window.time = window.time.max(slot.start).max(slot.end);
        }
        if self.about.at_once {
            let bytes = &window.slots[range];
            let place = window.number as usize * BLOCK + (1 + at) * SLOT;
            self.file.write(&bytes[8..], place + 8)?;
            self.file.write(&bytes[..8], place)?;
        }
        Ok(())
    }
}

fn slot_state(call: &Call) -> u8 {
    let state = match call.outcome {
        Outcome::Pending => slot::PENDING,
        Outcome::Returned(_) => slot::RETURNED,
        Outcome::Unwound => slot::UNWOUND,
    };
    state | if call.injected { slot::INJECTED } else { 0 }
}

fn of(call: &Call, state: u8) -> Slot {
    let result = if let Outcome::Returned(result) = call.outcome { result } else { 0 };
    let end = if call.outcome == Outcome::Pending { 0 } else { call.end };
    let word = slot::slot_word(state, 1, call.number, 0);
    let caller = call.caller | call.slot.caller & !((1 << 48) - 1);
    Slot { word, start: call.start, end, caller, args: call.slot.args, result }
}
