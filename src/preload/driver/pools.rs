//! What this process has of memory pools, as its own calls tell: as much as there is room for. The driver does not say on
//! which device a pool is.

use super::questions;
use crate::sys::lock::Lock;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use cupeer_rules::decide::{Call, Imported, Origin, Pool};

/// So many pools, and imported pointers of them, are known at once.
const MOST: (usize, usize) = (256, 4096);

type Pools = cupeer_rules::decide::Pools<[Pool; MOST.0], [Imported; MOST.1]>;

struct Shared(UnsafeCell<Pools>);
// SAFETY: what is in it is used only with LOCK.
unsafe impl Sync for Shared {}

const NO_POOL: Pool = Pool {
    handle: 0,
    origin: Origin::Made,
    types: None,
    device: None,
    imports: 0,
    is_exported: false,
    is_destroyed: false,
};
const NO_POINTER: Imported = Imported { address: 0, pool: 0 };

static POOLS: Shared = Shared(UnsafeCell::new(Pools::new([NO_POOL; MOST.0], [NO_POINTER; MOST.1])));
static LOCK: Lock = Lock::new();
/// Whether something was not noted.
static HAS_MISSED: AtomicBool = AtomicBool::new(false);

/// Does something with what the process has; `None` where another thread has it for too long.
fn with<T>(work: impl FnOnce(&mut Pools) -> T) -> Option<T> {
    let mut done = None;
    LOCK.with(|| {
        // SAFETY: nobody else uses it, because the lock is held.
        done = Some(work(unsafe { &mut *POOLS.0.get() }));
    });
    done
}

/// Notes a call that has returned, as the driver answered it. `is_own` says that the program got just that.
pub fn note(call: &Call, is_own: bool) {
    let noted = with(|pools| if is_own { pools.note(call) } else { pools.lose() });
    if noted.is_none() {
        HAS_MISSED.store(true, Relaxed);
    }
}

/// Notes that a pool was made, and on which device it is.
pub fn made(handle: u64, device: Option<i32>) {
    with(|pools| pools.made(Pool { handle, device, ..NO_POOL }));
}

/// Whether all is known.
pub fn is_whole() -> bool {
    !HAS_MISSED.load(Relaxed) && with(|pools| !pools.has_lost()) == Some(true)
}

pub fn pool(handle: u64) -> Option<Pool> {
    let known = with(|pools| pools.pool(handle)).flatten();
    known.or_else(|| {
        let device = default_of(handle)?;
        Some(Pool { handle, origin: Origin::Default, device: Some(device), ..NO_POOL })
    })
}

/// How many pointers of an imported pool are imported now.
pub fn open(pool: u64) -> u64 {
    with(|pools| pools.open(pool)).unwrap_or(0)
}

/// The device of which this is the default pool.
fn default_of(handle: u64) -> Option<i32> {
    (0..questions::device_count()?.min(questions::MOST_DEVICES))
        .find(|device| questions::default_pool(*device) == Some(handle))
}
