//! Memory pools: the processes that created, exported, and imported them, and the devices that may access their
//! memory.

use super::{
    Access, Fingerprint, Proc, Uuid, Where,
    word::{self, Word},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A memory pool, as one process has it: one that it made, exported or gave devices access to, or one that it imported.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// The process.
    pub proc: Proc,
    /// Its handle there.
    pub handle: String,
    /// Where its memory lies.
    pub location: Where,
    /// The device.
    pub device: Option<Uuid>,
    /// Where the process has it from: it made or imported it, or it is the one that a device always has.
    #[schemars(extend("enum" = ["made", "imported", "default"]))]
    #[serde(deserialize_with = "word::read")]
    pub origin: Word,
    /// The process that made it.
    pub owner: Option<Proc>,
    /// The types of handles that were asked for when it was made; empty of an import.
    #[serde(deserialize_with = "word::read")]
    pub handle_types: Vec<Word>,
    /// When this process had it first.
    pub since_ns: u64,
    /// When it destroyed it.
    pub destroyed_ns: Option<u64>,
    /// Whether it still had it when it ended.
    pub left: bool,
    /// What it was exported as: the last few.
    pub exports: Vec<Fingerprint>,
    /// What it was imported as, where that is known.
    pub imported_as: Option<Fingerprint>,
    /// The processes that imported it from this one.
    pub importers: Vec<Proc>,
    /// The pointers of an imported pool that the process has imported, and not freed.
    pub pointers: u64,
    /// How often it imported one.
    pub pointers_imported: u64,
    /// The devices that this process has given access.
    pub access: Vec<Access>,
}
