//! Devices, and what processes did from one to another.

use super::{Codes, Proc, Unknown};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// What one process did from one device to another.
#[derive(Serialize, JsonSchema)]
pub struct Peer {
    /// The process.
    pub proc: Proc,
    /// The device that accesses.
    pub from: Option<Uuid>,
    /// The device whose memory is accessed.
    pub to: Option<Uuid>,
    /// How often it asked about the two.
    pub asked: u64,
    /// What it was told last; null where it did not ask.
    pub can_access: Option<bool>,
    /// Whether it switched access on at some time.
    pub enabled: bool,
    /// When last.
    pub enabled_ns: Option<u64>,
    /// When it was switched off again, or its context ended.
    pub disabled_ns: Option<u64>,
    /// What asking, switching on and switching off failed with. CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED counts here,
    /// and as enabled.
    pub failed: Codes,
    /// How many of its calls about the two, failures to open memory among them, a fault plan answered.
    pub injected: u64,
    /// IPC memory that it opened over the two.
    pub opened: u64,
    /// What opening failed with.
    pub open_failed: Codes,
    /// Whether opening failed, and not because of a fault plan, and nothing has been open over the two since.
    pub unmapped_since_failure: bool,
    /// Why fields are unknown.
    #[serde(skip_serializing_if = "Unknown::is_empty")]
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
