//! Fault plans that are armed while a job is running: by `cupeer fault` for all processes that allow it, and by a process
//! for itself and its descendants.
//!
//! A file `armed-BOOT-USER` in the job's directory, mapped shared by the processes of one user on one host. BOOT are the first
//! eight digits of the boot id. Each plan is a file of its own, [`PlanFile`](super::faults::PlanFile), complete before its number
//! appears here. Whoever arms or disarms a plan adds 1 to [`Board::generation`] afterwards. A process compares that number at
//! its calls with the one that it has seen.
//!
//! Only the owner can write to the file and to the plans, also in a directory that a group shares: a process uses neither
//! unless they belong to its own user and nobody else may write to them.
//!
//! Nothing is locked. A process may be killed at any instruction: each number is changed by itself.

use super::faults::Boot;
use core::fmt;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};

/// The beginning of the file.
pub const MAGIC: [u8; 8] = *b"cupeer\0A";
/// The version of the format.
pub const VERSION: u32 = 1;
/// The beginning of the file's name.
pub const PREFIX: &str = "armed-";
/// The most plans that are armed at a time.
pub const PLANS: usize = 256;
/// The most processes that say what they have seen.
pub const PROCESSES: usize = 1024;

/// The name of the file.
pub struct BoardFile {
    /// The boot id of the host.
    pub boot_id: [u8; 16],
    /// The user id of its owner.
    pub user: u32,
}

impl fmt::Display for BoardFile {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}", Boot(self.boot_id), self.user)
    }
}

/// The file. All zeros after its first three fields is one without plans.
#[repr(C)]
pub struct Board {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// 1 if a run or a process of the job allows plans from outside.
    pub is_open: AtomicU32,
    /// The boot id of the host.
    pub boot_id: [u8; 16],
    /// How often plans were armed or disarmed.
    pub generation: AtomicU64,
    /// How many numbers of plans were given.
    pub numbers: AtomicU64,
    /// The numbers of armed plans; 0 for a place without one.
    pub plans: [AtomicU64; PLANS],
    /// The processes that look here.
    pub processes: [Seen; PROCESSES],
}

/// A process that looks here at its calls.
#[repr(C)]
pub struct Seen {
    /// Its pid; 0 for a place without one.
    pub pid: AtomicU32,
    /// 1 if it allows plans from outside.
    pub is_open: AtomicU32,
    /// Its pid namespace.
    pub pid_ns: AtomicU64,
    /// Its start, in ticks since boot.
    pub started: AtomicU64,
    /// The generation whose plans it has, and one; 0 before it has looked.
    pub seen: AtomicU64,
}

impl Board {
    /// Returns true if the fixed fields are those of a file of this host.
    pub fn is_valid(&self, boot_id: &[u8; 16]) -> bool {
        self.magic == MAGIC && self.version == VERSION && self.boot_id == *boot_id
    }

    /// Adds the number of a plan whose file is complete. Returns false if too many are armed.
    pub fn add(&self, number: u64) -> bool {
        let take = |place: &AtomicU64| place.compare_exchange(0, number, AcqRel, Acquire).is_ok();
        let is_added = number != 0 && self.plans.iter().any(take);
        self.change();
        is_added
    }

    /// Takes the number of a plan away, if it is there.
    pub fn remove(&self, number: u64) {
        for place in self.plans.iter().filter(|_| number != 0) {
            let _ = place.compare_exchange(number, 0, AcqRel, Acquire);
        }
        self.change();
    }

    /// Makes all processes look again.
    pub fn change(&self) {
        self.generation.fetch_add(1, AcqRel);
    }

    /// A number for a plan, which no other has.
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, AcqRel) + 1
    }

    /// The numbers of armed plans.
    pub fn armed(&self) -> impl Iterator<Item = u64> + '_ {
        self.plans.iter().map(|place| place.load(Acquire)).filter(|number| *number != 0)
    }
}

impl Seen {
    /// Says that a process looks here. Returns false if the place is another one's meanwhile.
    pub fn take(&self, before: u32, pid: u32, pid_ns: u64, started: u64, is_open: bool) -> bool {
        if self.pid.compare_exchange(before, pid, AcqRel, Acquire).is_err() {
            return false;
        }
        self.seen.store(0, Release);
        self.pid_ns.store(pid_ns, Release);
        self.started.store(started, Release);
        self.is_open.store(is_open.into(), Release);
        true
    }
}

const _: () = assert!(size_of::<Board>() < 1 << 16 && align_of::<Board>() <= 8);

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Box<Board> {
        // SAFETY: all of its fields are numbers, for which zeros are valid.
        unsafe { Box::<Board>::new_zeroed().assume_init() }
    }

    #[test]
    fn plans_come_and_go_and_each_change_is_counted() {
        let board = board();
        for _ in 0..PLANS {
            assert!(board.add(board.next_number()));
        }
        assert!(!board.add(board.next_number()) && !board.add(0));
        board.remove(7);
        board.remove(7);
        assert_eq!((board.armed().count(), board.generation.load(Acquire)), (PLANS - 1, PLANS as u64 + 4));
        assert!(board.add(1000) && board.armed().any(|number| number == 1000));
    }

    #[test]
    fn names_tell_hosts_users_and_plans_apart() {
        let boot_id = core::array::from_fn(|i| i as u8 + 0xa0);
        assert_eq!(BoardFile { boot_id, user: 1000 }.to_string(), "armed-a0a1a2a3-1000");
        assert_eq!(
            super::super::faults::PlanFile { boot_id, number: 12 }.to_string(),
            "faults-a0a1a2a3-plan12"
        );
    }
}
