//! Fault plans that are armed while a job is running: by `cupeer fault` for all processes that allow it, and
//! by a process for itself and its descendants.
//!
//! The list is a file `armed-BOOT-USER` in the job's directory, which the processes of one user on one host
//! map shared. BOOT is the first eight digits of the boot id. Each plan is a file of its own, a
//! [`PlanFileName`](super::faults::PlanFileName), which is complete before its number appears here. A process that
//! arms or disarms a plan then adds 1 to [`ArmedPlansBoard::generation`]. In its calls, a process compares this number
//! with the one that it saw last.
//!
//! Only the owner can write to the file and to the plans, even in a directory that a group shares. A process
//! ignores them unless they belong to its own user and no other user may write to them.
//!
//! There are no locks. A process may be killed at any instruction, so each number is changed independently.

use super::faults::BootIdPrefix;
use core::fmt;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};

/// First bytes of the file.
pub const MAGIC: [u8; 8] = *b"cupeer\0A";
/// The version of the format.
pub const VERSION: u32 = 1;
/// Prefix of the file's name.
pub const PREFIX: &str = "armed-";
/// Largest number of plans that are armed at one time.
pub const PLANS: usize = 256;
/// Number of processes that can register.
pub const PROCESSES: usize = 1024;

/// Name of the file of a host and a user.
pub struct BoardFileName {
    /// Boot id of the host.
    pub boot_id: [u8; 16],
    /// User id of the file's owner.
    pub user: u32,
}

impl fmt::Display for BoardFileName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}", BootIdPrefix(self.boot_id), self.user)
    }
}

/// Contents of the file. A file whose bytes after the first three fields are zeros has no plans.
#[repr(C)]
pub struct ArmedPlansBoard {
    /// First bytes of the file: [`MAGIC`].
    pub magic: [u8; 8],
    /// Version of the format: [`VERSION`].
    pub version: u32,
    /// 1 if a run or a process of the job accepts plans from `cupeer fault`.
    pub is_open: AtomicU32,
    /// Boot id of the host.
    pub boot_id: [u8; 16],
    /// Number of times that plans were armed or disarmed.
    pub generation: AtomicU64,
    /// Number of plan numbers that were assigned.
    pub numbers: AtomicU64,
    /// Numbers of the armed plans; 0 in a free place.
    pub plans: [AtomicU64; PLANS],
    /// Processes that read the list.
    pub processes: [PlanReader; PROCESSES],
}

/// Entry of a process that reads the list at its calls.
#[repr(C)]
pub struct PlanReader {
    /// Pid of the process; 0 in a free entry.
    pub pid: AtomicU32,
    /// 1 if the process accepts plans from `cupeer fault`.
    pub is_open: AtomicU32,
    /// Pid namespace of the process.
    pub pid_ns: AtomicU64,
    /// Start time of the process in ticks since boot.
    pub started: AtomicU64,
    /// Generation of the plans that the process has, plus one; 0 before it has read the list.
    pub seen: AtomicU64,
}

impl ArmedPlansBoard {
    /// Returns true if the fixed fields belong to a file of this host.
    pub fn is_valid(&self, boot_id: &[u8; 16]) -> bool {
        self.magic == MAGIC && self.version == VERSION && self.boot_id == *boot_id
    }

    /// Adds the number of a plan whose file is complete. Returns false if too many are armed.
    pub fn add_plan(&self, number: u64) -> bool {
        let take = |place: &AtomicU64| place.compare_exchange(0, number, AcqRel, Acquire).is_ok();
        let is_added = number != 0 && self.plans.iter().any(take);
        self.announce_change();
        is_added
    }

    /// Removes the number of a plan if it is there.
    pub fn remove_plan(&self, number: u64) {
        for place in self.plans.iter().filter(|_| number != 0) {
            let _ = place.compare_exchange(number, 0, AcqRel, Acquire);
        }
        self.announce_change();
    }

    /// Makes all processes read the plans again.
    pub fn announce_change(&self) {
        self.generation.fetch_add(1, AcqRel);
    }

    /// Returns a new number for a plan.
    pub fn take_plan_number(&self) -> u64 {
        self.numbers.fetch_add(1, AcqRel) + 1
    }

    /// Returns the numbers of the armed plans.
    pub fn armed_plans(&self) -> impl Iterator<Item = u64> + '_ {
        self.plans.iter().map(|place| place.load(Acquire)).filter(|number| *number != 0)
    }
}

impl PlanReader {
    /// Registers a process in this entry, which held the pid `before`. Returns false if another process has
    /// taken the entry.
    pub fn register_process(&self, before: u32, pid: u32, pid_ns: u64, started: u64, is_open: bool) -> bool {
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

const _: () = assert!(size_of::<ArmedPlansBoard>() < 1 << 16 && align_of::<ArmedPlansBoard>() <= 8);

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Box<ArmedPlansBoard> {
        // SAFETY: all of its fields are numbers, for which zeros are valid.
        unsafe { Box::<ArmedPlansBoard>::new_zeroed().assume_init() }
    }

    #[test]
    fn plans_come_and_go_and_each_change_is_counted() {
        let board = board();
        for _ in 0..PLANS {
            assert!(board.add_plan(board.take_plan_number()));
        }
        assert!(!board.add_plan(board.take_plan_number()) && !board.add_plan(0));
        board.remove_plan(7);
        board.remove_plan(7);
        assert_eq!((board.armed_plans().count(), board.generation.load(Acquire)), (PLANS - 1, PLANS as u64 + 4));
        assert!(board.add_plan(1000) && board.armed_plans().any(|number| number == 1000));
    }

    #[test]
    fn names_tell_hosts_users_and_plans_apart() {
        let boot_id = core::array::from_fn(|i| i as u8 + 0xa0);
        assert_eq!(BoardFileName { boot_id, user: 1000 }.to_string(), "armed-a0a1a2a3-1000");
        assert_eq!(super::super::faults::PlanFileName { boot_id, number: 12 }.to_string(), "faults-a0a1a2a3-plan12");
    }
}
