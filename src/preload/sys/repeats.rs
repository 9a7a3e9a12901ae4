//! What a thread remembers of the calls that it makes again and again. All zero is empty. `record::repeats` has what it means.
//!
//! Only the thread and its signal handlers use this. A handler comes in between any two instructions: counts may lose one
//! for it, and an entry is replaced only while signals wait.

/// Calls of one function and result from one place.
#[repr(C)]
pub struct Kind {
    /// A hash of what they have in common; 0 where there is none.
    pub key: u64,
    /// What tells the part of the record to which the last stack was written, and its height.
    pub part: u64,
    /// How many there were.
    pub count: u64,
    /// How often it was met, halved each time that another one needed room.
    pub heat: u64,
}

/// Calls that fail in the same way, which are one event of the record.
#[repr(C)]
pub struct Run {
    /// A hash of what they have in common; 0 where there is none.
    pub key: u64,
    /// Where their event lies, once they have one, and its number.
    pub place: usize,
    pub number: u64,
    /// The record that it lies in.
    pub epoch: u64,
    /// What was known of the world when one of them was last judged.
    pub world: u64,
    /// When one is to be judged again, on the clock of the record.
    pub due: u64,
    /// How many there were.
    pub count: u64,
    pub result: i32,
    /// How often it was met, as above.
    pub heat: u32,
}

/// Both, of a thread: in sets, in each of which anything with the same low bits of its hash may stand.
#[repr(C)]
pub struct Repeats {
    /// How often an entry was replaced.
    pub turn: u64,
    pub kinds: [[Kind; WAYS]; SETS],
    pub runs: [[Run; WAYS]; SETS],
}

pub const SETS: usize = 4;
pub const WAYS: usize = 4;

/// What has room where something else may stand.
pub trait Entry {
    fn key(&self) -> u64;

    /// Halves how often it was met, and gives that.
    fn cool(&mut self) -> u64;
}

impl Entry for Kind {
    fn key(&self) -> u64 {
        self.key
    }
    fn cool(&mut self) -> u64 {
        self.heat /= 2;
        self.heat
    }
}

impl Entry for Run {
    fn key(&self) -> u64 {
        self.key
    }
    fn cool(&mut self) -> u64 {
        self.heat /= 2;
        self.heat.into()
    }
}

/// The set of a hash.
#[inline(always)]
pub fn set<T>(sets: &mut [[T; WAYS]; SETS], key: u64) -> &mut [T; WAYS] {
    &mut sets[key as usize % SETS]
}

/// The entry of a hash.
#[inline(always)]
pub fn find<T: Entry>(sets: &mut [[T; WAYS]; SETS], key: u64) -> Option<&mut T> {
    set(sets, key).iter_mut().find(|entry| entry.key() == key)
}

/// The one in its set to give up for another: what stays hot is kept, and what was once hot is not for ever.
pub fn coldest<T: Entry>(sets: &mut [[T; WAYS]; SETS], key: u64) -> &mut T {
    let set = set(sets, key);
    let heats = set.each_mut().map(|entry| if entry.key() == 0 { 0 } else { 1 + entry.cool() });
    let place = heats.iter().enumerate().min_by_key(|(_, heat)| **heat).map_or(0, |(place, _)| place);
    &mut set[place]
}
