//! Devices, and the access of processes from one to another.

use super::{Codes, Proc, Unknown, word};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What one process did from one device to another.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// The process.
    pub proc: Proc,
    /// The device that accesses.
    pub from: Option<Uuid>,
    /// The device whose memory is accessed.
    pub to: Option<Uuid>,
    /// How often it asked about the two.
    pub asked: u64,
    /// The last answer it got; null where it did not ask.
    pub can_access: Option<bool>,
    /// Whether it ever enabled access, between contexts or by granting it to mappings or pools.
    pub enabled: bool,
    /// When it last did.
    pub enabled_ns: Option<u64>,
    /// When access was disabled again: its context ended, or the last mapping that had it is gone.
    pub disabled_ns: Option<u64>,
    /// How often a mapping of the other device's memory was given access for this device (cuMemSetAccess); a pool counts as
    /// one (cuMemPoolSetAccess).
    pub mappings: u64,
    /// To how many of them it has access at the end.
    pub mappings_now: u64,
    /// The results of asking, enabling and disabling that failed. CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED counts here,
    /// and as enabled.
    pub failed: Codes,
    /// How many of its calls about the two a fault plan answered, including failures to open memory.
    pub injected: u64,
    /// How often it opened IPC memory over the two.
    pub opened: u64,
    /// The results of openings that failed.
    pub open_failed: Codes,
    /// Whether opening failed (not because of a fault plan), and nothing has been open over the two since.
    pub unmapped_since_failure: bool,
    /// How many copies went from the memory of `from` to that of `to` (cuMemcpy, cuMemcpyDtoD, cuMemcpyPeer and their
    /// asynchronous forms). Those of captured graphs count once, and what kernels copy is not seen.
    pub copies: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Why fields are unknown.
    #[serde(skip_serializing_if = "Unknown::is_empty")]
    #[serde(default, deserialize_with = "word::read")]
    pub unknown: Unknown,
}

/// A device, as nvidia-smi prints it.
#[derive(JsonSchema, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[schemars(extend("pattern" = "^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))]
pub struct Uuid(#[schemars(with = "String")] pub [u8; 16]);

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        cupeer_spec::uuid::Uuid(self.0).fmt(f)
    }
}

impl Serialize for Uuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        cupeer_spec::uuid::parse(&text).map(Uuid).ok_or_else(|| D::Error::custom("a UUID is not one"))
    }
}
