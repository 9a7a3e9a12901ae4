//! Memory pools: the processes that created, exported, and imported them, and the devices that may access their
//! memory.

use super::{
    Access, Fingerprint, Proc, Uuid, Where,
    word::{self, Word},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Memory pool, as one process has it: a pool that it created, exported, gave devices access to, or imported.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// Process that has the pool.
    pub proc: Proc,
    /// Handle of the pool in the process.
    pub handle: String,
    /// Location of the pool's memory.
    pub location: Where,
    /// Device of the pool's memory; null if it is not on a known device.
    pub device: Option<Uuid>,
    /// Origin of the pool: created or imported by the process, or the default pool of a device.
    #[schemars(extend("enum" = ["made", "imported", "default"]))]
    #[serde(deserialize_with = "word::read")]
    pub origin: Word,
    /// Process that created the pool.
    pub owner: Option<Proc>,
    /// Handle types that the pool was created with; empty for an import.
    #[serde(deserialize_with = "word::read")]
    pub handle_types: Vec<Word>,
    /// Time when this process first had the pool.
    pub since_ns: u64,
    /// Time when this process destroyed the pool; null if it did not.
    pub destroyed_ns: Option<u64>,
    /// True if the process still had the pool when it exited.
    pub left: bool,
    /// Handles that the pool was exported as: the last few.
    pub exports: Vec<Fingerprint>,
    /// Handle that the pool was imported as; null if unknown.
    pub imported_as: Option<Fingerprint>,
    /// Processes that imported the pool from this one.
    pub importers: Vec<Proc>,
    /// Number of pointers into an imported pool that the process imported and has not freed.
    pub pointers: u64,
    /// Number of times that the process imported a pointer.
    pub pointers_imported: u64,
    /// Devices to which this process gave access.
    pub access: Vec<Access>,
}
