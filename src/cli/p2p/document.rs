//! What `cupeer doctor --p2p --format json` prints.

use super::checks::Measured;
use super::hints;
use super::nvml::Promise;
use super::plan::{Direction, Tested};
use super::verdict::{Check, Verdict};
use super::{Findings, plan};
use crate::doctor::system::Fact;
use cupeer_spec::uuid::Uuid;
use serde::Serialize;

const SCHEMA: &str = "cupeer-doctor-p2p/1";

/// What was found when data was sent over each link between devices. Names stay; more may be added. A device is its place
/// in `devices`.
#[derive(Serialize, Debug)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(
        title = "cupeer doctor --p2p --format json",
        extend("$id" = "https://github.com/cupeer/cupeer/blob/main/docs/doctor-p2p.schema.json")
    )
)]
pub struct Document {
    /// `cupeer-doctor-p2p/1`.
    pub schema: &'static str,
    /// The version of cupeer.
    pub cupeer: &'static str,
    /// How many directions, from a device to another one, are bad in some way.
    pub bad: usize,
    /// How many are good in all ways.
    pub good: usize,
    /// How many are neither: something of them was not tested.
    pub untested: usize,
    /// The devices that the driver shows, by their ordinals.
    pub devices: Vec<Device>,
    /// Each direction between two of them.
    pub pairs: Vec<Pair>,
}

/// A device.
#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Device {
    /// What `cuDeviceGetName` says.
    pub name: String,
    /// As nvidia-smi prints it.
    pub uuid: String,
    /// Domain, bus, device and function.
    pub pci: String,
    /// Bytes.
    pub memory: u64,
    /// Major and minor.
    pub compute_capability: String,
}

/// From a device to the memory of another one.
#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pair {
    /// The device that writes and reads.
    pub from: usize,
    /// The device that owns the memory.
    pub to: usize,
    /// What `cuDeviceCanAccessPeer` says. Where it says no, nothing is tested.
    pub can_access: bool,
    /// What `cuDeviceGetP2PAttribute` says: CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, ACCESS_SUPPORTED,
    /// NATIVE_ATOMIC_SUPPORTED, CUDA_ARRAY_ACCESS_SUPPORTED and ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED; null where the
    /// driver does not know one.
    pub attributes: [Option<i32>; 5],
    /// What `cuDeviceGetP2PAtomicCapabilities` says of each `CUatomicOperation`; empty where the driver lacks it.
    pub atomic_capabilities: Vec<u32>,
    /// What NVML says that the link carries; null where it does not say.
    pub promise: Option<Promise>,
    /// What was tested.
    pub ways: Vec<Way>,
    /// Where something is bad: what the system says that may explain it, or would but is withheld.
    pub system: Vec<Fact>,
}

/// A way in which programs reach memory of another device.
#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Way {
    /// `peer` (within a process), `ipc` (legacy handles), or `vmm` (virtual memory shared as a descriptor).
    pub way: &'static str,
    /// What comes of all checks together.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What was done over the link.
    pub checks: Vec<Checked>,
    /// What it carried; null where something is bad.
    pub measured: Option<Measured>,
    /// What helps, in sentences.
    pub hints: Vec<String>,
}

/// Something that was done over the link.
#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Checked {
    /// What.
    pub check: Check,
    /// What came of it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Document {
    pub fn of(findings: &Findings) -> Document {
        let plan::Count { bad, good, untested } = plan::Count::of(&findings.pairs);
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
            devices: devices.collect(),
            pairs: findings.pairs.iter().map(|direction| pair(findings, direction)).collect(),
        }
    }
}

fn pair(findings: &Findings, pair: &Direction) -> Pair {
    Pair {
        from: pair.from,
        to: pair.to,
        can_access: pair.about.can_access,
        attributes: pair.about.attributes,
        atomic_capabilities: pair.about.atomics.clone(),
        promise: pair.promise,
        ways: pair.ways.iter().map(way).collect(),
        system: findings.explains(pair).into_iter().cloned().collect(),
    }
}

fn way(tested: &Tested) -> Way {
    let checked = |(check, verdict): &(Check, Verdict)| Checked { check: *check, verdict: verdict.clone() };
    Way {
        way: tested.way.name(),
        verdict: tested.verdict.clone(),
        checks: tested.checks.iter().map(checked).collect(),
        measured: tested.measured,
        hints: hints::of(tested),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_the_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/doctor-p2p.schema.json");
        let made = format!("{:#}\n", cupeer_report::schema::of::<Document>().to_value());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &made).expect("the schema is writable");
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == made, "docs/doctor-p2p.schema.json is stale: run scripts/docs");
    }
}
