//! This process, as the others of its job know it.

use crate::sys::{environment, life};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use cupeer_spec::record::Header;

/// What names it: see the fields of [`Header`].
#[derive(Clone, Copy, Default)]
pub struct Identity {
    pub pid: u32,
    pub image: u32,
    pub pid_ns: u64,
    pub started: u64,
}

static PID: AtomicU32 = AtomicU32::new(0);
static IMAGE: AtomicU32 = AtomicU32::new(0);
pub(super) static PID_NS: AtomicU64 = AtomicU64::new(0);
static STARTED: AtomicU64 = AtomicU64::new(0);

/// It; all zero before it has a record.
pub fn identity() -> Identity {
    Identity {
        pid: PID.load(Relaxed),
        image: IMAGE.load(Relaxed),
        pid_ns: pid_namespace(),
        started: STARTED.load(Relaxed),
    }
}

/// Its pid namespace; 0 where that is not known.
pub fn pid_namespace() -> u64 {
    PID_NS.load(Relaxed)
}

/// What tells this program of this process from later ones, for the live table.
static STACK: AtomicU32 = AtomicU32::new(0);

/// Where the stack of this program began, as [`life::look`] sees it of others.
pub fn stack() -> u32 {
    STACK.load(Relaxed)
}

/// Looks at what others shall know of this process, whose record begins with `header`.
pub fn introduce(header: &Header) {
    PID.store(header.pid, Relaxed);
    IMAGE.store(header.image, Relaxed);
    PID_NS.store(header.pid_ns, Relaxed);
    STARTED.store(header.started, Relaxed);
    environment::find_ranks();
    STACK.store(life::look(header.pid).map_or(0, |seen| seen.stack), Relaxed);
}
