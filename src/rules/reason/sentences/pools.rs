//! Sentences about memory pools.

use super::{freed, others};
use crate::reason::values::{Handle, HandleTypes, PointerFault, PoolFault, Process};
use core::fmt::{self, Formatter};

/// [`Reason::PoolFreedWhileOpen`](crate::reason::Reason::PoolFreedWhileOpen).
pub fn freed_while_open(
    address: u64,
    bytes: u64,
    handle: Handle,
    importers: u64,
    first: Process,
    f: &mut Formatter,
) -> fmt::Result {
    freed(address, bytes, handle, (importers, first), f)?;
    f.write_str("; using it is now undefined")
}

/// [`Reason::PoolHandleType`](crate::reason::Reason::PoolHandleType).
pub fn handle_type(wanted: u64, fault: PoolFault, f: &mut Formatter) -> fmt::Result {
    write!(f, "handleType is {}, but the pool ", HandleTypes(wanted))?;
    match fault {
        PoolFault::Types(types) => write!(f, "has handle types {}", HandleTypes(types)),
        PoolFault::Imported => f.write_str("was imported; an import cannot be exported again"),
        PoolFault::Default => f.write_str("is the default one of a device; default pools cannot be exported"),
        PoolFault::Destroyed => f.write_str("is destroyed"),
    }
}

/// [`Reason::PoolPointer`](crate::reason::Reason::PoolPointer).
pub fn pointer(address: u64, fault: PointerFault, f: &mut Formatter) -> fmt::Result {
    match fault {
        PointerFault::NoPool => write!(f, "{address:#x} is not memory of a pool"),
        PointerFault::Imported => write!(f, "{address:#x} was imported; an import cannot be exported again"),
        PointerFault::NotExported { pool } => {
            write!(f, "{address:#x} is memory of pool {pool:#x}, which this process has not exported")
        }
        PointerFault::Inside => write!(f, "{address:#x} is inside an allocation, not at its start"),
    }
}

/// [`Reason::PoolNotImported`](crate::reason::Reason::PoolNotImported).
pub fn not_imported(pool: u64, is_destroyed: bool, f: &mut Formatter) -> fmt::Result {
    match is_destroyed {
        true => write!(f, "pool {pool:#x} is destroyed"),
        false => {
            write!(
                f,
                "pool {pool:#x} belongs to this process; pointers can only be imported into an imported pool"
            )
        }
    }
}

/// [`Reason::PoolDestroyedWhileOpen`](crate::reason::Reason::PoolDestroyedWhileOpen).
pub fn destroyed_while_open(
    pool: u64,
    handle: Handle,
    importers: u64,
    first: Process,
    f: &mut Formatter,
) -> fmt::Result {
    write!(f, "pool {pool:#x} was destroyed while open in ")?;
    others(importers, first, f)?;
    write!(
        f,
        "; memory from it stays valid there, but no process can get new memory from it; its handle is {handle}"
    )
}
