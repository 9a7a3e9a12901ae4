//! Devices, and the access of processes from one to another.

use super::{Codes, Proc, Unknown, word};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Access of one process from one device to another.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// Process that has the access.
    pub proc: Proc,
    /// Device that accesses.
    pub from: Option<Uuid>,
    /// Device whose memory is accessed.
    pub to: Option<Uuid>,
    /// Number of queries about the pair.
    pub asked: u64,
    /// Result of the last query; null if the process made none.
    pub can_access: Option<bool>,
    /// True if the process ever enabled access, between contexts or by granting it to mappings or pools.
    pub enabled: bool,
    /// Time when the process last enabled access.
    pub enabled_ns: Option<u64>,
    /// Time when access was disabled again, its context was destroyed, or the last mapping with access was unmapped.
    pub disabled_ns: Option<u64>,
    /// Number of times that the accessing device got access to a mapping (cuMemSetAccess) or a pool
    /// (cuMemPoolSetAccess) of the other device.
    pub mappings: u64,
    /// Number of these mappings to which it has access at the end.
    pub mappings_now: u64,
    /// Number of failed queries, enables, and disables per result. CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED counts here,
    /// and also as enabled.
    pub failed: Codes,
    /// Number of calls about the pair that a fault plan answered, including failed opens.
    pub injected: u64,
    /// Number of successful opens of IPC memory over the pair.
    pub opened: u64,
    /// Number of failed opens per result.
    pub open_failed: Codes,
    /// True if an open failed (not because of a fault plan) and the process has had nothing open over the pair since.
    pub unmapped_since_failure: bool,
    /// Number of copies from the memory of `from` to that of `to` (cuMemcpy, cuMemcpyDtoD, cuMemcpyPeer, and their
    /// asynchronous forms). Copies in captured graphs count once; copies by kernels are not seen.
    pub copies: u64,
    /// Size in bytes of these copies.
    pub copied_bytes: u64,
    /// Reasons for fields that are unknown.
    #[serde(skip_serializing_if = "Unknown::is_empty")]
    #[serde(default, deserialize_with = "word::read")]
    pub unknown: Unknown,
}

/// UUID of a device, in the form of nvidia-smi.
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
        cupeer_spec::uuid::parse_uuid(&text).map(Uuid).ok_or_else(|| D::Error::custom("a UUID is not one"))
    }
}
