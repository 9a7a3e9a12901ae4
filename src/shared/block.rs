//! The header of a block of a recording: the thread that owns the block, and the change of its contents.
//!
//! Only the owner writes to the header and the slots. Other threads of the process read only the two words
//! here until they own the block. Other processes read the block through the file, by the rules in
//! [`cupeer_spec::record`].

use crate::atomic::{
    AtomicU16, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence,
};

/// References to two words in the header of a block, which other threads read.
#[derive(Clone, Copy)]
pub struct BlockHeaderWords<'a> {
    /// Id of the thread that writes to the block; 0 if there is none.
    pub owner: &'a AtomicU32,
    /// Kind of the block: see [`cupeer_spec::record::block`]. 0 while its header is being written.
    pub kind: &'a AtomicU16,
}

impl BlockHeaderWords<'_> {
    /// Returns the id of the thread that writes to the block; 0 if there is none.
    pub fn owner(&self) -> u32 {
        self.owner.load(Acquire)
    }

    /// Returns the kind of the block; 0 while its header is being written.
    pub fn kind(&self) -> u16 {
        self.kind.load(Relaxed)
    }

    /// Takes the block for the thread `own` if its owner is still `seen`. Returns true if the block was
    /// taken.
    pub fn take_ownership(&self, seen: u32, own: u32) -> bool {
        self.owner.compare_exchange(seen, own, AcqRel, Relaxed).is_ok()
    }

    /// Sets the owner of the block, which the calling thread took or created, to that thread's id `own`.
    pub fn set_owner(&self, own: u32) {
        self.owner.store(own, Relaxed);
    }

    /// Gives the block to another owner or, with 0, leaves it without an owner. The next owner sees all
    /// writes of the calling thread.
    pub fn pass_to_owner(&self, owner: u32) {
        self.owner.store(owner, Release);
    }

    /// Rewrites the header. Until it is complete, readers see a block of kind 0.
    pub fn rewrite_header(&self, kind: u16, write: impl FnOnce()) {
        self.kind.store(0, Relaxed);
        rewrite_slot_numbers(write);
        self.publish_kind(kind);
    }

    /// Sets the kind of the block. A reader that sees the new kind also sees all earlier writes of the calling
    /// thread.
    pub fn publish_kind(&self, kind: u16) {
        fence(Release);
        self.kind.store(kind, Relaxed);
    }
}

/// Writes the fields of the header that number the slots. A reader that has read a slot written later sees
/// the new fields. A reader that sees the new fields also sees all slots written earlier.
pub fn rewrite_slot_numbers(write: impl FnOnce()) {
    fence(Release);
    write();
    fence(Release);
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::atomic::AtomicU64;
    use crate::model::try_all;
    use cupeer_spec::record::slot::{self, settled_word, slot_word};
    use cupeer_spec::record::{BlockHeader, block};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn a_block_has_one_owner_who_sees_what_the_one_before_has_written() {
        struct Ring {
            owner: AtomicU32,
            kind: AtomicU16,
            slots: UnsafeCell<u32>,
        }
        // SAFETY: the slots are the owner's; loom checks that.
        unsafe impl Sync for Ring {}
        // SAFETY: the slots are used by their owner alone, whichever thread that is; loom checks that.
        unsafe impl Send for Ring {}
        impl Ring {
            /// Writes to the block, if it can be taken.
            fn work(&self, own: u32, dead: u32) {
                let block = BlockHeaderWords { owner: &self.owner, kind: &self.kind };
                let seen = block.owner();
                if (seen == 0 || seen == dead) && block.take_ownership(seen, own) {
                    // SAFETY: this thread owns it.
                    self.slots.with_mut(|slots| unsafe { *slots += 1 });
                    block.pass_to_owner(0);
                }
            }
        }
        for dead in [0, 9] {
            try_all(move || {
                let (owner, kind) = (AtomicU32::new(dead), AtomicU16::new(block::RING));
                let ring = Arc::new(Ring { owner, kind, slots: UnsafeCell::new(0) });
                let others = [1, 2].map(|own| {
                    let ring = ring.clone();
                    thread::spawn(move || ring.work(own, dead))
                });
                ring.work(3, dead);
                others.into_iter().for_each(|other| other.join().unwrap());
                // SAFETY: nobody else is left.
                let written = ring.slots.with(|slots| unsafe { *slots });
                assert!((1..=3).contains(&written) && ring.owner.load(Relaxed) == 0);
            });
        }
    }

    /// A block of one slot, as in a file.
    #[derive(Default)]
    struct InFile {
        owner: AtomicU32,
        kind: AtomicU16,
        stream: AtomicU32,
        base: AtomicU64,
        word: AtomicU64,
        rest: AtomicU64,
    }

    impl InFile {
        /// Writes a slot as a call of a stream does.
        fn put(&self, stream: u32, number: u64) {
            self.rest.store(u64::from(stream) * 100 + number, Relaxed);
            self.word.store(slot_word(slot::RETURNED, 1, 0, number as u32), Release);
        }

        /// The kernel copies from the begin on.
        fn header(&self) -> BlockHeader {
            BlockHeader {
                kind: self.kind.load(Acquire),
                stream: self.stream.load(Relaxed),
                base: self.base.load(Relaxed),
                ..BlockHeader::default()
            }
        }

        /// Reads a block as `cupeer_record` does, with one system call after the other.
        fn read(&self) {
            let BlockHeader { kind, stream, base, .. } = self.header();
            fence(Acquire);
            let before = self.word.load(Relaxed);
            fence(Acquire);
            let (rest, now) = (self.rest.load(Relaxed), self.word.load(Relaxed));
            fence(Acquire);
            let word = settled_word(before, now, base as u32);
            if kind != 0 && self.header().still_is(kind, stream, base) && word != 0 {
                assert_eq!(rest, u64::from(stream) * 100 + base);
            }
        }
    }

    #[test]
    fn a_reader_takes_no_slot_of_another_lap() {
        for is_ring in [true, false] {
            try_all(move || {
                let (kind, stream) = (AtomicU16::new(block::RING), AtomicU32::new(1));
                let file = Arc::new(InFile { kind, stream, ..InFile::default() });
                let writer = file.clone();
                let thread = thread::spawn(move || {
                    writer.put(1, 0);
                    if is_ring {
                        let block = BlockHeaderWords { owner: &writer.owner, kind: &writer.kind };
                        block.rewrite_header(block::RING, || {
                            writer.stream.store(2, Relaxed);
                            writer.base.store(4, Relaxed);
                        });
                    } else {
                        rewrite_slot_numbers(|| writer.base.store(4, Relaxed));
                    }
                    writer.put(if is_ring { 2 } else { 1 }, 4);
                });
                file.read();
                thread.join().unwrap();
                file.read();
            });
        }
    }
}
