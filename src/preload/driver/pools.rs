//! Tracks the memory pools of this process from its own calls, up to a fixed number, because the driver does not
//! return the device of a pool.

use super::questions;
use crate::sys::book::Book;
use cupeer_books::{Call, Imported, Origin, Pool};

/// So many pools, and imported pointers of them, are known at once.
const MOST: (usize, usize) = (256, 4096);

pub type Pools = cupeer_books::Pools<[Pool; MOST.0], [Imported; MOST.1]>;

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

pub static POOLS: Book<Pools> = Book::new(Pools::new([NO_POOL; MOST.0], [NO_POINTER; MOST.1]));

/// Notes a call that has returned, as the driver answered it. `is_own` says that the program got just that.
pub fn note(call: &Call, is_own: bool) {
    if is_own { POOLS.note(|pools| pools.note(call)) } else { POOLS.miss() }
}

/// Notes that a pool was made, and on which device it is.
pub fn made(handle: u64, device: Option<i32>) {
    POOLS.with(|pools| pools.made(Pool { handle, device, ..NO_POOL }));
}

pub fn pool(handle: u64) -> Option<Pool> {
    let known = POOLS.with(|pools| pools.pool(handle)).flatten();
    known.or_else(|| {
        let device = default_of(handle)?;
        Some(Pool { handle, origin: Origin::Default, device: Some(device), ..NO_POOL })
    })
}

/// The device of which this is the default pool.
fn default_of(handle: u64) -> Option<i32> {
    (0..questions::device_count()?.min(questions::MOST_DEVICES))
        .find(|device| questions::default_pool(*device) == Some(handle))
}
