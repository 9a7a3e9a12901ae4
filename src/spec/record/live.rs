//! The live table: what the processes of a job have open on one host, now.
//!
//! A file `live-BOOT` in the job's directory, mapped shared by all of its processes on that host. It is a hash
//! table without locks that any process may die in the middle of. It grows by segments, each twice as large as
//! the one before: segment `k` has `FIRST << k` entries, in buckets of [`BUCKET`]; first the keys of all its
//! entries, 8 bytes each, then the entries. An entry lies in the [`bucket`] of its key in any segment.
//!
//! # The life of an entry
//!
//! An entry begins with its word: its [`state`] in the two lowest bits, how often its place was taken before in the 14
//! bits above ([`LAPS`]), and who has it in the rest ([`owner`]).
//!
//! 1. [`state::FREE`]: nobody's; only the lap counts.
//! 2. A process claims it: it replaces the word by its own [`claimant`] with [`state::CLAIMED`] and the next lap. From
//!    here on the word names who is to blame where it stays so.
//! 3. It fills the entry, then sets its key, then the word: its own [`who`], [`state::LIVE`].
//! 4. To give an entry up, a process replaces the word by its own claimant with CLAIMED, then its [`Uses`] by none with the
//!    next lap, so that nobody counts there any more, then the key by 0, then the word by the lap alone.
//!
//! A reader takes the word, the entry, and the word again: where both are equal and LIVE, what it read is whole, because
//! the lap tells one entry of a place from the next. What changes in a live entry is a single number; `count` and
//! `ended`, which share one, carry the lap as well ([`Entry::ended`]), so that nobody counts in another entry than the
//! one that he found.
//!
//! What a process leaves behind stays until its room is needed: anybody may give it up who knows that the process
//! has ended, what it had open first, then what it had exported and nobody has open any more. The same holds for what
//! stays CLAIMED because its process died in that moment: the claimant says which one that was.

use super::slot::finding::LIBRARY;

/// What the file begins with.
pub const MAGIC: [u8; 8] = *b"cupeer\0L";
/// The version of the format.
pub const VERSION: u32 = 5;
/// The oldest version that is read: before 3 the entries were in other buckets, before 4 their words had no lap,
/// before 5 they had no line of Python. All of that matters only to writers.
pub const OLDEST: u32 = 2;
/// The name of the file begins with this, the first eight digits of the boot id follow.
pub const PREFIX: &str = "live-";
/// Where the first segment begins.
pub const START: usize = 4096;
/// The entries of the first segment.
pub const FIRST: usize = 256;
/// The entries of a bucket: their keys share a cache line.
pub const BUCKET: usize = 8;
/// The most segments: a million entries.
pub const MOST_SEGMENTS: usize = 12;

/// The start of the file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// The bytes of an [`Entry`].
    pub entry: u32,
    /// The boot id of the host.
    pub boot_id: [u8; 16],
    /// How many segments there are. Each is allocated before it counts here.
    pub segments: u32,
    /// How often memory was freed that others had open.
    pub freed: u32,
    /// Entries for which there was no room.
    pub refused: u64,
}

/// What an entry's word says in its lowest bits.
pub mod state {
    /// Nobody's.
    pub const FREE: u64 = 0;
    /// Being filled or given up.
    pub const CLAIMED: u64 = 1;
    /// Valid.
    pub const LIVE: u64 = 2;

    /// The state in a word.
    pub const fn of(word: u64) -> u64 {
        word & 3
    }
}

/// The bits of a word that count how often its place was taken.
pub const LAPS: u64 = 0xfffc;

/// The same word after its place was taken once more, with neither owner nor state.
pub const fn next_lap(word: u64) -> u64 {
    (word & LAPS).wrapping_add(4) & LAPS
}

/// Who has an entry: [`who`] of one that is live, [`claimant`] of one that is claimed.
pub const fn owner(word: u64) -> u64 {
    word & !0xffff
}

/// A process in the words of its entries: its pid in bits 16 to 39, a hash of its pid namespace, pid, start and
/// [`super::Header::image`] above.
pub fn who(pid_ns: u64, pid: u32, started: u64, image: u32) -> u64 {
    let hash = mix(pid_ns ^ mix(u64::from(pid) ^ mix(started ^ mix(u64::from(image)))));
    (hash & !0xff_ffff_ffff) | u64::from(pid & 0xff_ffff) << 16
}

/// A process in the words of what it claims: its pid in bits 16 to 39, the low bits of its pid namespace's inode above.
/// Whoever finds it there knows whom to ask the system for.
pub const fn claimant(pid_ns: u64, pid: u32) -> u64 {
    pid_ns << 40 | ((pid & 0xff_ffff) as u64) << 16
}

/// The pid in a word.
pub const fn pid_in(word: u64) -> u32 {
    (word >> 16) as u32 & 0xff_ffff
}

/// Scatters the bits of a number.
pub fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ number >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// What an entry is.
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
    /// The way from an address or event of a process to the fingerprint under which it was exported. Key: process
    /// and address.
    pub const OWNED: u32 = 6;

    /// An allocation of virtual memory that a process exported. Key: its fingerprint.
    pub const EXPORTED_ALLOCATION: u32 = 7;
    /// One that a process imported. Key: process and handle.
    pub const OPENED_ALLOCATION: u32 = 8;

    /// A pool that a process exported. Key: its fingerprint.
    pub const EXPORTED_POOL: u32 = 9;
    /// One that a process imported. Key: process and pool.
    pub const OPENED_POOL: u32 = 10;
    /// Memory of a pool that a process exported. Key: its fingerprint.
    pub const EXPORTED_POINTER: u32 = 11;
    /// Such memory that a process imported. Key: process and address.
    pub const OPENED_POINTER: u32 = 12;

    /// The kinds of entries about an object of the table: of those who exported it, and of those who opened it or switched
    /// it on; 0 where there is none.
    pub(crate) const OBJECTS: [(Object, u32, u32); 6] = [
        (Object::Memory, EXPORTED_MEMORY, OPENED_MEMORY),
        (Object::Event, EXPORTED_EVENT, OPENED_EVENT),
        (Object::Peer, 0, PEER),
        (Object::Allocation, EXPORTED_ALLOCATION, OPENED_ALLOCATION),
        (Object::Pool, EXPORTED_POOL, OPENED_POOL),
        (Object::Pointer, EXPORTED_POINTER, OPENED_POINTER),
    ];

    pub(crate) const fn kinds(object: Object) -> (u32, u32) {
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

    /// The kind of an entry for an object that was exported; 0 where none can be.
    pub const fn exported(object: Object) -> u32 {
        kinds(object).0
    }

    /// The kind of an entry for an object that was opened, or access that was switched on; 0 where none can be.
    pub const fn opened(object: Object) -> u32 {
        kinds(object).1
    }

    /// What an entry of a kind says was exported.
    pub fn exported_object(kind: u32) -> Option<Object> {
        OBJECTS.iter().find(|(_, exported, _)| kind != 0 && *exported == kind).map(|(object, ..)| *object)
    }

    /// What an entry of a kind says was opened or switched on.
    pub fn opened_object(kind: u32) -> Option<Object> {
        OBJECTS.iter().find(|(.., opened)| kind != 0 && *opened == kind).map(|(object, ..)| *object)
    }

    /// The kind of the export that an entry of a kind has opened; `None` where it has opened none.
    pub fn export_of(kind: u32) -> Option<u32> {
        opened_object(kind).map(exported).filter(|exported| *exported != 0)
    }

    /// Returns true if an entry of a kind is about something that belongs to a context, and ends with it.
    pub fn belongs_to_context(kind: u32) -> bool {
        exported_object(kind).or(opened_object(kind)).is_some_and(Object::belongs_to_context)
    }

    /// Whether an entry of a kind is access that was switched on.
    pub fn is_access(kind: u32) -> bool {
        opened_object(kind).is_some() && export_of(kind).is_none()
    }
}

/// The bucket of a key among so many.
pub fn bucket(key: u64, buckets: usize) -> usize {
    // Keys are odd.
    (key >> 1) as usize % buckets
}

/// The key of something that belongs to a process; never 0.
pub fn own_key(who: u64, kind: u32, a: u64, b: u64) -> u64 {
    mix(who >> 16 ^ mix(a ^ mix(b ^ mix(u64::from(kind))))) | 1
}

/// The key of what a fingerprint names; never 0.
pub fn handle_key(kind: u32, fingerprint: u64) -> u64 {
    mix(fingerprint ^ mix(u64::from(kind))) | 1
}

/// One thing that is open.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// [`who`] with its [`lap`](LAPS) and its [`state`].
    pub word: u64,
    /// The key, once more.
    pub key: u64,
    /// [`kind`].
    pub kind: u32,
    /// The device of the context, as an ordinal in the process; -1 where unknown.
    pub device: i32,
    /// The process.
    pub pid: u32,
    /// Its [`super::Header::image`].
    pub image: u32,
    /// Its pid namespace.
    pub pid_ns: u64,
    /// Its start.
    pub started: u64,
    /// The fingerprint of the handle.
    pub fingerprint: u64,
    /// The fingerprint of the bytes that the driver checks.
    pub checked: u64,
    /// The address, event, or context.
    pub address: u64,
    /// The peer context; of what was exported or opened, the context that it belongs to, or that
    /// was current if it belongs to none: [`kind::belongs_to_context`].
    pub peer: u64,
    /// The size of the memory.
    pub bytes: u64,
    /// When, on the clock of the process's record.
    pub since: u64,
    /// The same in nanoseconds of CLOCK_MONOTONIC.
    pub monotonic: u64,
    /// How often it was opened and not closed.
    pub count: u32,
    /// Of what was exported: [`ended`]; of what was opened: [`opened`]. An export that has ended and that nobody has open
    /// is a tombstone. In
    /// the file, the lap stands in bits 16 to 29; who has read an entry finds 0 there.
    pub ended: u32,
    /// The thread.
    pub tid: u32,
    /// How many frames there are, in the lowest byte. Above is the line of Python that made the call, where it is known: the name
    /// of its file is in the last words of `frames` then. See [`Entry::python`].
    pub frame_count: u32,
    /// The UUID of the device, zero where unknown.
    pub uuid: [u8; 16],
    /// The UUID of the peer device, zero where unknown.
    pub peer_uuid: [u8; 16],
    /// The rank of the process; `u32::MAX` where it has none.
    pub rank: u32,
    /// Tells one program of the process from those that it executes later: where its stack began; 0 where unknown.
    pub stack: u32,
    /// The return addresses of the call.
    pub frames: [u64; super::slot::detail::MOST_FRAMES],
    /// When what was exported ended, in nanoseconds of CLOCK_MONOTONIC; 0 where it has not.
    pub ended_at: u64,
    /// The offset in `library` of who made the call.
    pub offset: u64,
    /// The file name of that library, as much of it as there is room for; zeros behind.
    pub library: [u8; LIBRARY],
    /// Of memory that was exported by a pointer inside of it: how far inside, the last time. Of what was opened: how often
    /// since it was open last; 0 where that was not counted.
    pub inside: u64,
    /// Of what was exported: the fingerprint of the bytes that the driver does not check; of a descriptor,
    /// [`descriptor_head`].
    pub head: u64,
}

/// What tells a descriptor by the number that it has in the exporting process: never 0.
pub const fn descriptor_head(fd: i32) -> u64 {
    fd as u32 as u64 + 1
}

/// The file name of a library, in the bytes that are kept of it.
pub fn library_name(bytes: &[u8; LIBRARY]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(&[])
}

/// The same as a text; `?` where it is none.
pub fn library_text(bytes: &[u8; LIBRARY]) -> &str {
    library_name(bytes).utf8_chunks().next().map_or("?", |chunk| chunk.valid())
}

/// How what was exported ended.
pub mod ended {
    /// It was freed or destroyed.
    pub const ENDED: u32 = 1;
    /// Others had it open then.
    pub const WHILE_OPEN: u32 = 2;
    /// It went with its context.
    pub const WITH_CONTEXT: u32 = 4;
}

/// How what was opened is open.
pub mod opened {
    /// A library opened it that is not the one in [`super::Entry::library`].
    pub const BY_OTHERS: u32 = 8;
}

/// The bytes that are kept of the file name of a line of Python.
pub const FILE: usize = 32;

/// The words of 8 bytes of an [`Entry`].
pub const WORDS: usize = size_of::<Entry>() / 8;
/// Which of them is the key.
pub const KEY: usize = 1;
/// Which of them `count` and `ended` share.
pub const USES: usize = core::mem::offset_of!(Entry, count) / 8;

const _: () = {
    assert!(size_of::<Entry>() == 320 && size_of::<Header>() <= START);
    assert!(core::mem::offset_of!(Entry, key) == 8 * KEY);
    assert!(core::mem::offset_of!(Entry, count) == 8 * USES);
    assert!(core::mem::offset_of!(Entry, ended) == 8 * USES + 4);
};

/// How often an entry is open, and how it ended, as both stand in the file with its lap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uses {
    /// [`Entry::count`].
    pub count: u32,
    /// [`Entry::ended`].
    pub ended: u16,
}

impl Uses {
    /// Takes the two from their common number.
    pub const fn of(number: u64) -> Uses {
        Uses { count: number as u32, ended: (number >> 32) as u16 }
    }

    /// Their common number in an entry with this word.
    pub const fn number(self, word: u64) -> u64 {
        self.count as u64 | (self.ended as u64) << 32 | (word & LAPS) << 46
    }

    /// Whether a number is that of an entry with this word.
    pub const fn is_of(number: u64, word: u64) -> bool {
        number >> 48 == (word & LAPS) >> 2
    }
}

impl Entry {
    /// The entry that words in a file are.
    pub const fn from_words(words: [u64; WORDS]) -> Entry {
        // SAFETY: as large, less aligned at most, and any words are an entry.
        let entry: Entry = unsafe { core::mem::transmute(words) };
        Entry { ended: entry.ended & 0xffff, ..entry }
    }

    /// The return addresses of the call.
    pub fn return_addresses(&self) -> &[u64] {
        let most = self.frames.len() - if self.python().is_some() { FILE / 8 } else { 0 };
        &self.frames[..(self.frame_count as usize & 0xff).min(most)]
    }

    /// The line of Python that made the call, where it is known: the name of its file, with zeros behind, and its number.
    pub fn python(&self) -> Option<([u8; FILE], u32)> {
        let line = self.frame_count >> 8;
        let words: [u64; FILE / 8] = *self.frames.last_chunk()?;
        let mut file = [0; FILE];
        file.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_ne_bytes());
        (line != 0).then_some((file, line))
    }

    /// Notes the line of Python that made the call, in place of the outermost return addresses.
    pub fn set_python(&mut self, file: &[u8], line: u32) {
        let line = line & 0xff_ffff;
        let count = self.frame_count.min((self.frames.len() - FILE / 8) as u32);
        if let Some(words) = self.frames.last_chunk_mut::<{ FILE / 8 }>().filter(|_| line != 0) {
            let mut name = [0; FILE];
            name.iter_mut().zip(file).for_each(|(byte, given)| *byte = *given);
            words
                .iter_mut()
                .zip(name.as_chunks().0)
                .for_each(|(word, bytes)| *word = u64::from_ne_bytes(*bytes));
            self.frame_count = line << 8 | count;
        }
    }

    /// Its words, as they stand in a file but for the lap.
    pub fn words(&self) -> [u64; WORDS] {
        // SAFETY: as large, without padding, and any bytes are words.
        unsafe { core::mem::transmute(*self) }
    }
}

/// Where segment `k` begins.
pub fn segment_start(k: usize) -> usize {
    START + FIRST * ((1 << k) - 1) * (8 + size_of::<Entry>())
}

/// How many entries segment `k` has.
pub fn segment_entries(k: usize) -> usize {
    FIRST << k
}

/// Where the key of entry `i` of segment `k` lies.
pub fn key_place(k: usize, i: usize) -> usize {
    segment_start(k) + i * 8
}

/// Where entry `i` of segment `k` lies.
pub fn entry_place(k: usize, i: usize) -> usize {
    segment_start(k) + segment_entries(k) * 8 + i * size_of::<Entry>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_its_words_and_its_uses_carry_the_lap() {
        let mut words: [u64; WORDS] = core::array::from_fn(|i| i as u64);
        let live = who(1, 1000, 2, 0) | next_lap(next_lap(0)) | state::LIVE;
        let uses = Uses { count: 3, ended: 5 };
        words[USES] = uses.number(live);
        let entry = Entry::from_words(words);
        assert_eq!((entry.key, entry.count, entry.ended), (KEY as u64, 3, 5));
        words[USES] = uses.number(0);
        assert_eq!(entry.words(), words);
        assert_eq!(super::super::read::<Entry>(super::super::bytes(&entry)), Some(entry));
        // The lap, and nothing else of a word.
        assert!(Uses::is_of(uses.number(live), live) && !Uses::is_of(uses.number(live), next_lap(live)));
        assert!(Uses::is_of(uses.number(live), live & LAPS) && Uses::of(uses.number(live)) == uses);
        assert_eq!((state::of(live), pid_in(live), owner(live)), (state::LIVE, 1000, who(1, 1000, 2, 0)));
        assert_eq!((pid_in(claimant(0xf000_0001, 1000)), next_lap(LAPS)), (1000, 0));
    }

    #[test]
    fn a_line_of_python_takes_the_place_of_the_outermost_addresses() {
        let mut entry = Entry::from_words([0; WORDS]);
        entry.frames = core::array::from_fn(|i| 100 + i as u64);
        entry.frame_count = entry.frames.len() as u32;
        assert_eq!((entry.return_addresses().len(), entry.python()), (12, None));
        entry.set_python(b"train.py", 0);
        assert_eq!(entry.python(), None, "no line");
        entry.set_python(b"train.py", 31);
        let (file, line) = entry.python().expect("a line");
        assert_eq!((library_name(&file), line), (&b"train.py"[..], 31));
        assert_eq!(entry.return_addresses(), [100, 101, 102, 103, 104, 105, 106, 107]);
        entry.set_python(&[b'x'; 40], 0xffff_ffff);
        assert_eq!(entry.python(), Some(([b'x'; FILE], 0xff_ffff)));
        entry.frame_count = u32::MAX;
        assert_eq!(entry.return_addresses().len(), 8, "what is broken is read, too");
    }
}
