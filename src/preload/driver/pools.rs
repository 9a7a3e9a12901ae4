//! Tracks the memory pools of this process from its own calls, up to a fixed number, because the driver does not
//! return the device of a pool.

use super::questions;
use crate::sys::book::Book;
use cupeer_books::{Call, Imported, Origin, Pool};

/// So many pools, and imported pointers of them, are known at once.
const MOST: (usize, usize) = (256, 4096);

type Pools = cupeer_books::Pools<[Pool; MOST.0], [Imported; MOST.1]>;

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

static POOLS: Book<Pools> = Book::new(Pools::new([NO_POOL; MOST.0], [NO_POINTER; MOST.1]));

/// Notes a call that has returned, as the driver answered it. `is_own` says that the program got just that.
pub fn note(call: &Call, is_own: bool) {
    if is_own { POOLS.note(|pools| pools.note(call)) } else { POOLS.miss() }
}

/// Notes that a pool was made, and on which device it is.
pub fn made(handle: u64, device: Option<i32>) {
    POOLS.with(|pools| pools.made(Pool { handle, device, ..NO_POOL }));
}

/// Whether all is known.
pub fn is_whole() -> bool {
    POOLS.is_whole(|pools| !pools.has_lost())
}

pub fn pool(handle: u64) -> Option<Pool> {
    let known = POOLS.with(|pools| pools.pool(handle)).flatten();
    known.or_else(|| {
        let device = default_of(handle)?;
        Some(Pool { handle, origin: Origin::Default, device: Some(device), ..NO_POOL })
    })
}

/// How many pointers of an imported pool are imported now.
pub fn open(pool: u64) -> u64 {
    POOLS.with(|pools| pools.open(pool)).unwrap_or(0)
}

/// The device of which this is the default pool.
fn default_of(handle: u64) -> Option<i32> {
    (0..questions::device_count()?.min(questions::MOST_DEVICES))
        .find(|device| questions::default_pool(*device) == Some(handle))
}
