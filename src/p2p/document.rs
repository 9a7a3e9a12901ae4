//! The JSON document of `cupeer doctor --p2p --format json`.

use super::checks::Measured;
use super::hints;
use super::nvml::Promise;
use super::plan::{Direction, MethodResult};
use super::verdict::{Check, Verdict};
use super::{Findings, plan};
use crate::fact::Fact;
use cupeer_spec::uuid::Uuid;
use schemars::JsonSchema;
use serde::Serialize;

const SCHEMA: &str = "cupeer-doctor-p2p/1";

/// Results of sending data over each link between devices. Names of fields are stable; fields may be added. A device
/// is its index in `devices`. Example: `cupeer doctor --p2p --format json | jq -r '.pairs[] | "\(.from) \(.to) \(.ways[].verdict)"'`
#[derive(Serialize, Debug, JsonSchema)]
#[schemars(
    title = "cupeer doctor --p2p --format json",
    extend("$id" = "https://github.com/cupeer/cupeer/blob/main/docs/doctor-p2p.schema.json")
)]
pub struct Document {
    /// Version of this format: `cupeer-doctor-p2p/1`.
    pub schema: &'static str,
    /// Version of cupeer.
    pub cupeer: &'static str,
    /// Number of directions, from one device to another, with a failed check.
    pub bad: usize,
    /// Number of directions in which all checks passed.
    pub good: usize,
    /// Number of directions with a check that was not run, and none that failed.
    pub untested: usize,
    /// Reason why no link was tested, for example that the machine has no driver; null if the driver started.
    pub error: Option<String>,
    /// Devices that the driver shows, by their ordinals.
    pub devices: Vec<Device>,
    /// Directions between two devices.
    pub pairs: Vec<Pair>,
}

/// Device.
#[derive(Serialize, Debug, JsonSchema)]
pub struct Device {
    /// Name from `cuDeviceGetName`.
    pub name: String,
    /// UUID, in the form of nvidia-smi.
    pub uuid: String,
    /// PCI address: domain, bus, device, and function.
    pub pci: String,
    /// Size of the memory in bytes.
    pub memory: u64,
    /// Major and minor compute capability.
    pub compute_capability: String,
}

/// Direction from one device to the memory of another.
#[derive(Serialize, Debug, JsonSchema)]
pub struct Pair {
    /// Device that writes and reads.
    pub from: usize,
    /// Device that owns the memory.
    pub to: usize,
    /// Result of `cuDeviceCanAccessPeer`. If it is false, nothing is tested.
    pub can_access: bool,
    /// Results of `cuDeviceGetP2PAttribute`: CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, ACCESS_SUPPORTED,
    /// NATIVE_ATOMIC_SUPPORTED, CUDA_ARRAY_ACCESS_SUPPORTED, and ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED; null for
    /// attributes that the driver does not know.
    pub attributes: [Option<i32>; 5],
    /// Results of `cuDeviceGetP2PAtomicCapabilities` for each `CUatomicOperation`; empty if the driver lacks the
    /// function.
    pub atomic_capabilities: Vec<u32>,
    /// Nominal rate of the link, from NVML; null if NVML does not tell.
    pub promise: Option<Promise>,
    /// Methods that were tested.
    pub ways: Vec<Method>,
    /// Facts about the system that may explain a failed check, or that would but are withheld.
    pub system: Vec<Fact>,
}

/// Method by which programs reach memory of another device.
#[derive(Serialize, Debug, JsonSchema)]
pub struct Method {
    /// Name of the method: `peer` (within a process), `ipc` (legacy handles), or `vmm` (virtual memory shared as a
    /// file descriptor).
    pub way: &'static str,
    /// Worst result of all checks.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Checks of the link.
    pub checks: Vec<Checked>,
    /// Measured rates of the link; null if a check failed.
    pub measured: Option<Measured>,
    /// Sentences about possible fixes.
    pub hints: Vec<String>,
}

/// Check of a link.
#[derive(Serialize, Debug, JsonSchema)]
pub struct Checked {
    /// Name of the check.
    pub check: Check,
    /// Result of the check.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Document {
    /// Returns the document of a test that failed before the first link.
    pub fn failed(error: &anyhow::Error) -> Document {
        Document {
            schema: SCHEMA,
            cupeer: env!("CARGO_PKG_VERSION"),
            bad: 0,
            good: 0,
            untested: 0,
            error: Some(format!("{error:#}")),
            devices: Vec::new(),
            pairs: Vec::new(),
        }
    }

    pub fn from_findings(findings: &Findings) -> Document {
        let plan::DirectionCounts { bad, good, untested } = plan::DirectionCounts::count(&findings.pairs);
        let devices = findings.devices.iter().map(|device| Device {
            name: device.name.clone(),
            uuid: Uuid(device.uuid).to_string(),
            pci: device.pci.clone(),
            memory: device.memory,
            compute_capability: format!("{}.{}", device.capability.0, device.capability.1),
        });
        Document {
            schema: SCHEMA,
            cupeer: env!("CARGO_PKG_VERSION"),
            bad,
            good,
            untested,
            error: None,
            devices: devices.collect(),
            pairs: findings.pairs.iter().map(|direction| describe_direction(findings, direction)).collect(),
        }
    }
}

fn describe_direction(findings: &Findings, pair: &Direction) -> Pair {
    Pair {
        from: pair.from,
        to: pair.to,
        can_access: pair.about.can_access,
        attributes: pair.about.attributes,
        atomic_capabilities: pair.about.atomics.clone(),
        promise: pair.promise,
        ways: pair.ways.iter().map(|tested| describe_method(tested, pair.is_nvlink())).collect(),
        system: findings.explaining_facts(pair).into_iter().cloned().collect(),
    }
}

fn describe_method(tested: &MethodResult, is_nvlink: bool) -> Method {
    let checked = |(check, verdict): &(Check, Verdict)| Checked { check: *check, verdict: verdict.clone() };
    Method {
        way: tested.way.name(),
        verdict: tested.verdict.clone(),
        checks: tested.checks.iter().map(checked).collect(),
        measured: tested.measured,
        hints: hints::hints_for(tested, is_nvlink),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_the_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor-p2p.schema.json");
        let made = format!("{:#}\n", cupeer_views::schema::of::<Document>().to_value());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &made).expect("the schema is writable");
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == made, "docs/doctor-p2p.schema.json is stale: run scripts/docs");
    }
}
