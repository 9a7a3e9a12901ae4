//! The live table: handles and exports that the processes of a job have open on one host at the moment.
//!
//! The table is a file `live-BOOT` in the job's directory, which all processes of the job on that host map
//! shared. It is a hash table without locks, and any process may die during a change. It grows by segments,
//! each twice as large as the one before. Segment `k` has `FIRST << k` entries, in buckets of [`BUCKET`]:
//! first the keys of all its entries, 8 bytes each, then the entries. In every segment, an entry is in the
//! [`bucket_of_key`] of its key.
//!
//! # The life of an entry
//!
//! The first word of an entry has its [`state`] in the two lowest bits, the number of times that its place
//! was reused in the 14 bits above ([`LAPS`]), and its owner in the rest ([`owner_in`]).
//!
//! 1. [`state::FREE`]: the entry has no owner. Only the lap has a meaning.
//! 2. A process claims the place: it replaces the word by its own [`claimant_word`] with [`state::CLAIMED`] and
//!    the next lap. If the process dies, the word still names it.
//! 3. The process fills the entry, then sets its key, then the word: its own [`process_word`], and [`state::LIVE`].
//! 4. To give up an entry, a process replaces the word by its own claimant with CLAIMED. Then it clears
//!    [`Uses`], with the next lap, so that no process counts there any more. Then it sets the key to 0, and
//!    the word to the lap alone.
//!
//! A reader reads the word, the entry, and the word again. If both words are equal and LIVE, the entry was
//! read consistently, because the lap tells it from later entries in the same place. Each change of a live
//! entry is a change of a single word. `count` and `ended` share a word, which has the lap as well
//! ([`Entry::ended`]), so that a process cannot count in a later entry by mistake.
//!
//! Entries of a process that has ended stay until their space is needed. Any process that knows of its end
//! may then give them up: first those of its open handles, then those of its exports that no process has
//! open. The same is true for CLAIMED entries whose claimant died.

use super::slot::finding::LIBRARY;

/// First bytes of the file.
pub const MAGIC: [u8; 8] = *b"cupeer\0L";
/// The version of the format.
pub const VERSION: u32 = 5;
/// The oldest version that is read. Before version 3, the entries were in other buckets; before 4, their
/// words had no lap; before 5, they had no line of Python. All of this matters only to writers.
pub const OLDEST: u32 = 2;
/// Prefix of the file's name. The first eight digits of the boot id follow.
pub const PREFIX: &str = "live-";
/// Offset of the first segment.
pub const START: usize = 4096;
/// Number of entries in the first segment.
pub const FIRST: usize = 256;
/// Number of entries in a bucket, whose keys share a cache line.
pub const BUCKET: usize = 8;
/// Largest number of segments, for a million entries.
pub const MOST_SEGMENTS: usize = 12;

/// The start of the file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Bytes [`MAGIC`].
    pub magic: [u8; 8],
    /// Version of the format: [`VERSION`].
    pub version: u32,
    /// Size of an [`Entry`] in bytes.
    pub entry: u32,
    /// Boot id of the host.
    pub boot_id: [u8; 16],
    /// Number of segments. A segment is allocated before it is counted.
    pub segments: u32,
    /// Number of times that memory was freed that others had open.
    pub freed: u32,
    /// Number of entries that did not fit.
    pub refused: u64,
}

/// State in the lowest bits of an entry's word.
pub mod state {
    /// The entry is not in use.
    pub const FREE: u64 = 0;
    /// A process is filling the entry or giving it up.
    pub const CLAIMED: u64 = 1;
    /// The entry is valid.
    pub const LIVE: u64 = 2;

    /// Returns the state in an entry's word.
    pub const fn in_word(word: u64) -> u64 {
        word & 3
    }
}

/// Bits of a word that count the reuses of its place.
pub const LAPS: u64 = 0xfffc;

/// Returns the word after its place was taken once more, with neither owner nor state.
pub const fn next_lap(word: u64) -> u64 {
    (word & LAPS).wrapping_add(4) & LAPS
}

/// Returns the owner in an entry's word: [`process_word`] for a live entry, [`claimant_word`] for a claimed one.
pub const fn owner_in(word: u64) -> u64 {
    word & !0xffff
}

/// A process in the words of its entries: its pid in bits 16 to 39, a hash of its pid namespace, pid, start and
/// [`super::Header::image`] above.
pub fn process_word(pid_ns: u64, pid: u32, started: u64, image: u32) -> u64 {
    let hash = mix_bits(pid_ns ^ mix_bits(u64::from(pid) ^ mix_bits(started ^ mix_bits(u64::from(image)))));
    (hash & !0xff_ffff_ffff) | u64::from(pid & 0xff_ffff) << 16
}

/// Returns the identity of a process in the words of entries that it claims: its pid in bits 16 to 39, the
/// low bits of its pid namespace's inode above. Other processes use it to find out if the claimant is still
/// running.
pub const fn claimant_word(pid_ns: u64, pid: u32) -> u64 {
    pid_ns << 40 | ((pid & 0xff_ffff) as u64) << 16
}

/// Returns the pid in a word.
pub const fn pid_in(word: u64) -> u32 {
    (word >> 16) as u32 & 0xff_ffff
}

/// Returns a number with its bits scattered, as a hash.
pub fn mix_bits(number: u64) -> u64 {
    let number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ number >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// Kind of an entry.
pub mod kind {
    use crate::effect::Object;

    /// Memory that a process exported. Key: its fingerprint.
    pub const EXPORTED_MEMORY: u32 = 1;
    /// An event that a process exported. Key: its fingerprint.
    pub const EXPORTED_EVENT: u32 = 2;
    /// Memory of another process that a process has mapped. Key: process and address.
    pub const OPENED_MEMORY: u32 = 3;
    /// An event of another process that a process has opened. Key: process and event.
    pub const OPENED_EVENT: u32 = 4;
    /// Access from one context to a peer context that was switched on. Key: process and both contexts.
    pub const PEER: u32 = 5;
    /// Reference from an address or event of a process to the fingerprint under which it was exported. Key:
    /// process and address.
    pub const OWNED: u32 = 6;

    /// An allocation of virtual memory that a process exported. Key: its fingerprint.
    pub const EXPORTED_ALLOCATION: u32 = 7;
    /// Imported allocation. Key: process and handle.
    pub const OPENED_ALLOCATION: u32 = 8;

    /// A pool that a process exported. Key: its fingerprint.
    pub const EXPORTED_POOL: u32 = 9;
    /// Imported pool. Key: process and pool.
    pub const OPENED_POOL: u32 = 10;
    /// Memory of a pool that a process exported. Key: its fingerprint.
    pub const EXPORTED_POINTER: u32 = 11;
    /// Imported memory of a pool. Key: process and address.
    pub const OPENED_POINTER: u32 = 12;

    /// Objects of the table, with the kind of their exports' entries, and the kind of the entries of
    /// processes that opened or enabled them; 0 for none.
    pub(crate) const OBJECTS: [(Object, u32, u32); 6] = [
        (Object::Memory, EXPORTED_MEMORY, OPENED_MEMORY),
        (Object::Event, EXPORTED_EVENT, OPENED_EVENT),
        (Object::Peer, 0, PEER),
        (Object::Allocation, EXPORTED_ALLOCATION, OPENED_ALLOCATION),
        (Object::Pool, EXPORTED_POOL, OPENED_POOL),
        (Object::Pointer, EXPORTED_POINTER, OPENED_POINTER),
    ];

    pub(crate) const fn kinds_of(object: Object) -> (u32, u32) {
        let mut index = 0;
        while index < OBJECTS.len() {
            let (of, exported, opened) = OBJECTS[index];
            if of as u8 == object as u8 {
                return (exported, opened);
            }
            index += 1;
        }
        (0, 0)
    }

    /// Returns the kind of an entry for an exported object; 0 if such objects cannot be exported.
    pub const fn exported_kind(object: Object) -> u32 {
        kinds_of(object).0
    }

    /// Returns the kind of an entry for an opened object, or for enabled access; 0 if there is none.
    pub const fn opened_kind(object: Object) -> u32 {
        kinds_of(object).1
    }

    /// Returns the kind of object that was exported, for an entry of this kind.
    pub fn exported_object(kind: u32) -> Option<Object> {
        OBJECTS.iter().find(|(_, exported, _)| kind != 0 && *exported == kind).map(|(object, ..)| *object)
    }

    /// Returns the kind of object that was opened or enabled, for an entry of this kind.
    pub fn opened_object(kind: u32) -> Option<Object> {
        OBJECTS.iter().find(|(.., opened)| kind != 0 && *opened == kind).map(|(object, ..)| *object)
    }

    /// Returns the kind of the export that an entry of this kind opened; `None` if it opened none.
    pub fn export_kind_of(kind: u32) -> Option<u32> {
        opened_object(kind).map(exported_kind).filter(|exported| *exported != 0)
    }

    /// Returns true if an entry of this kind is about an object that belongs to a context, and ends with it.
    pub fn belongs_to_context(kind: u32) -> bool {
        exported_object(kind).or(opened_object(kind)).is_some_and(Object::belongs_to_context)
    }

    /// Returns true if an entry of this kind is about enabled access.
    pub fn is_enabled_access(kind: u32) -> bool {
        opened_object(kind).is_some() && export_kind_of(kind).is_none()
    }
}

/// Returns the bucket of a key.
pub fn bucket_of_key(key: u64, buckets: usize) -> usize {
    // Keys are odd, so their lowest bit says nothing.
    (key >> 1) as usize % buckets
}

/// Returns the key of an entry for an object that belongs to a process; never 0.
pub fn process_object_key(who: u64, kind: u32, a: u64, b: u64) -> u64 {
    mix_bits(who >> 16 ^ mix_bits(a ^ mix_bits(b ^ mix_bits(u64::from(kind))))) | 1
}

/// Returns the key of an entry with a fingerprint; never 0.
pub fn fingerprint_key(kind: u32, fingerprint: u64) -> u64 {
    mix_bits(fingerprint ^ mix_bits(u64::from(kind))) | 1
}

/// Entry of the table: an open or exported object.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Owner ([`process_word`]), with the [`lap`](LAPS) and the [`state`].
    pub word: u64,
    /// Key of the entry, which is also stored among the segment's keys.
    pub key: u64,
    /// Kind of the entry: [`kind`].
    pub kind: u32,
    /// Ordinal of the context's device in the process; -1 if unknown.
    pub device: i32,
    /// Pid of the process.
    pub pid: u32,
    /// Number of the process's program: [`super::Header::image`].
    pub image: u32,
    /// Pid namespace of the process.
    pub pid_ns: u64,
    /// Start time of the process.
    pub started: u64,
    /// Fingerprint of the handle.
    pub fingerprint: u64,
    /// Fingerprint of the bytes of the handle that the driver checks.
    pub checked: u64,
    /// Address, event, or context.
    pub address: u64,
    /// The peer context. For an exported or opened object: the context that it belongs to, or that was
    /// current if it belongs to none: [`kind::belongs_to_context`].
    pub peer: u64,
    /// Size of the memory in bytes.
    pub bytes: u64,
    /// Time of the call, on the clock of the process's recording.
    pub since: u64,
    /// Time of the call in nanoseconds of CLOCK_MONOTONIC.
    pub monotonic: u64,
    /// Number of opens without a close.
    pub count: u32,
    /// For an export: [`ended`]. For an open handle: [`kind::opened_kind`]. An export that ended and that no process has
    /// open is a tombstone. In the file, the lap is in bits 16 to 29; in an entry that was read, they are 0.
    pub ended: u32,
    /// Thread id of the caller.
    pub tid: u32,
    /// Number of frames, in the lowest byte. The line of Python that made the call, if known, is above, and
    /// the name of its file is in the last words of `frames`. See [`Entry::python_line`].
    pub frame_count: u32,
    /// The UUID of the device, zero if unknown.
    pub uuid: [u8; 16],
    /// The UUID of the peer device, zero if unknown.
    pub peer_uuid: [u8; 16],
    /// The rank of the process; `u32::MAX` if it has none.
    pub rank: u32,
    /// Start address of the stack, which tells a program of the process from those that it executes later; 0
    /// if unknown.
    pub stack: u32,
    /// Return addresses of the call.
    pub frames: [u64; super::slot::detail::MOST_FRAMES],
    /// Time at which the exported object ended, in nanoseconds of CLOCK_MONOTONIC; 0 if it exists.
    pub ended_at: u64,
    /// Offset of the call in `library`.
    pub offset: u64,
    /// File name of that library, truncated to fit; zeros behind.
    pub library: [u8; LIBRARY],
    /// Number with two meanings. For memory that was exported by a pointer into its middle: the offset of the last
    /// such pointer in bytes. For an open handle: the number of opens since it was last not open; 0 if they were not
    /// counted.
    pub inside: u64,
    /// For an export: the fingerprint of the bytes that the driver does not check. For a descriptor:
    /// [`descriptor_head`].
    pub head: u64,
}

/// Returns the head of a descriptor, by its number in the exporting process: never 0.
pub const fn descriptor_head(fd: i32) -> u64 {
    fd as u32 as u64 + 1
}

/// Returns the file name of a library, from its stored bytes.
pub fn library_name(bytes: &[u8; LIBRARY]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(&[])
}

/// Returns the library as a text; `?` if it is not valid text.
pub fn library_text(bytes: &[u8; LIBRARY]) -> &str {
    library_name(bytes).utf8_chunks().next().map_or("?", |chunk| chunk.valid())
}

/// End of an exported object.
pub mod ended {
    /// The object was freed or destroyed.
    pub const ENDED: u32 = 1;
    /// Other processes had the object open when it ended.
    pub const WHILE_OPEN: u32 = 2;
    /// The object ended with its context.
    pub const WITH_CONTEXT: u32 = 4;
}

/// State of an opened object.
pub mod opened {
    /// A library other than the one in [`super::Entry::library`] opened the object, too.
    pub const BY_OTHERS: u32 = 8;
}

/// Number of bytes that are stored of the file name of a line of Python.
pub const FILE: usize = 32;

/// Number of words of 8 bytes in an [`Entry`].
pub const WORDS: usize = size_of::<Entry>() / 8;
/// Index of the word with the key in an [`Entry`].
pub const KEY: usize = 1;
/// Index of the word in an [`Entry`] that `count` and `ended` share.
pub const USES: usize = core::mem::offset_of!(Entry, count) / 8;

const _: () = {
    assert!(size_of::<Entry>() == 320 && size_of::<Header>() <= START);
    assert!(core::mem::offset_of!(Entry, key) == 8 * KEY);
    assert!(core::mem::offset_of!(Entry, count) == 8 * USES);
    assert!(core::mem::offset_of!(Entry, ended) == 8 * USES + 4);
};

/// Number of opens of an entry, and its end, as the file has them with the lap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uses {
    /// Number of opens without a close: [`Entry::count`].
    pub count: u32,
    /// End of the exported object, or state of the opened object: [`Entry::ended`].
    pub ended: u16,
}

impl Uses {
    /// Splits the number that `count` and `ended` share in the file.
    pub const fn from_number(number: u64) -> Uses {
        Uses { count: number as u32, ended: (number >> 32) as u16 }
    }

    /// Returns the number that `count` and `ended` share in the file, for an entry with this word.
    pub const fn to_number(self, word: u64) -> u64 {
        self.count as u64 | (self.ended as u64) << 32 | (word & LAPS) << 46
    }

    /// Returns true if a number belongs to an entry with this word.
    pub const fn belongs_to(number: u64, word: u64) -> bool {
        number >> 48 == (word & LAPS) >> 2
    }
}

impl Entry {
    /// Returns the entry that consists of these words of a file.
    pub const fn from_words(words: [u64; WORDS]) -> Entry {
        // SAFETY: as large, less aligned at most, and any words are an entry.
        let entry: Entry = unsafe { core::mem::transmute(words) };
        Entry { ended: entry.ended & 0xffff, ..entry }
    }

    /// Returns the return addresses of the call.
    pub fn return_addresses(&self) -> &[u64] {
        let most = self.frames.len() - if self.python_line().is_some() { FILE / 8 } else { 0 };
        &self.frames[..(self.frame_count as usize & 0xff).min(most)]
    }

    /// Returns the line of Python that made the call, if known: the name of its file, with zeros behind, and
    /// its number.
    pub fn python_line(&self) -> Option<([u8; FILE], u32)> {
        let line = self.frame_count >> 8;
        let words: [u64; FILE / 8] = *self.frames.last_chunk()?;
        let mut file = [0; FILE];
        file.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_ne_bytes());
        (line != 0).then_some((file, line))
    }

    /// Stores the line of Python that made the call, in place of the outermost return addresses.
    pub fn set_python_line(&mut self, file: &[u8], line: u32) {
        let line = line & 0xff_ffff;
        let count = self.frame_count.min((self.frames.len() - FILE / 8) as u32);
        if let Some(words) = self.frames.last_chunk_mut::<{ FILE / 8 }>().filter(|_| line != 0) {
            let mut name = [0; FILE];
            name.iter_mut().zip(file).for_each(|(byte, given)| *byte = *given);
            words.iter_mut().zip(name.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_ne_bytes(*bytes));
            self.frame_count = line << 8 | count;
        }
    }

    /// Returns the words of the entry as in a file, but without the lap.
    pub fn to_words(&self) -> [u64; WORDS] {
        // SAFETY: as large, without padding, and any bytes are words.
        unsafe { core::mem::transmute(*self) }
    }
}

/// Returns the offset of segment `k`.
pub fn segment_start(k: usize) -> usize {
    START + FIRST * ((1 << k) - 1) * (8 + size_of::<Entry>())
}

/// Returns the number of entries in segment `k`.
pub fn segment_entries(k: usize) -> usize {
    FIRST << k
}

/// Returns the offset of the key of entry `i` in segment `k`.
pub fn key_offset(k: usize, i: usize) -> usize {
    segment_start(k) + i * 8
}

/// Returns the offset of entry `i` in segment `k`.
pub fn entry_offset(k: usize, i: usize) -> usize {
    segment_start(k) + segment_entries(k) * 8 + i * size_of::<Entry>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_its_words_and_its_uses_carry_the_lap() {
        let mut words: [u64; WORDS] = core::array::from_fn(|i| i as u64);
        let live = process_word(1, 1000, 2, 0) | next_lap(next_lap(0)) | state::LIVE;
        let uses = Uses { count: 3, ended: 5 };
        words[USES] = uses.to_number(live);
        let entry = Entry::from_words(words);
        assert_eq!((entry.key, entry.count, entry.ended), (KEY as u64, 3, 5));
        words[USES] = uses.to_number(0);
        assert_eq!(entry.to_words(), words);
        assert_eq!(super::super::read_plain::<Entry>(super::super::plain_bytes(&entry)), Some(entry));
        // Only the lap of the word matters.
        assert!(
            Uses::belongs_to(uses.to_number(live), live) && !Uses::belongs_to(uses.to_number(live), next_lap(live))
        );
        assert!(Uses::belongs_to(uses.to_number(live), live & LAPS) && Uses::from_number(uses.to_number(live)) == uses);
        assert_eq!(
            (state::in_word(live), pid_in(live), owner_in(live)),
            (state::LIVE, 1000, process_word(1, 1000, 2, 0))
        );
        assert_eq!((pid_in(claimant_word(0xf000_0001, 1000)), next_lap(LAPS)), (1000, 0));
    }

    #[test]
    fn a_line_of_python_takes_the_place_of_the_outermost_addresses() {
        let mut entry = Entry::from_words([0; WORDS]);
        entry.frames = core::array::from_fn(|i| 100 + i as u64);
        entry.frame_count = entry.frames.len() as u32;
        assert_eq!((entry.return_addresses().len(), entry.python_line()), (12, None));
        entry.set_python_line(b"train.py", 0);
        assert_eq!(entry.python_line(), None, "no line");
        entry.set_python_line(b"train.py", 31);
        let (file, line) = entry.python_line().expect("a line");
        assert_eq!((library_name(&file), line), (&b"train.py"[..], 31));
        assert_eq!(entry.return_addresses(), [100, 101, 102, 103, 104, 105, 106, 107]);
        entry.set_python_line(&[b'x'; 40], 0xffff_ffff);
        assert_eq!(entry.python_line(), Some(([b'x'; FILE], 0xff_ffff)));
        entry.frame_count = u32::MAX;
        assert_eq!(entry.return_addresses().len(), 8, "what is broken is read, too");
    }
}
