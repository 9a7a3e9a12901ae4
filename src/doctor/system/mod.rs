//! Facts about the machine and this process that decide which processes can share device memory, each with its
//! verdict.
//!
//! A rule must be based on documentation or on a measurement; its file names the source. A fact that is withheld is
//! unknown, with the reason, and never guessed. All files are read below the root of a `Tree`, and the results of
//! NVIDIA's libraries are given (`queries`), so that tests build their own machines.

mod environment;
mod fabric;
mod gpus;
mod iommu;
mod limits;
mod module;
mod nodes;
mod pairs;
mod pci;
mod platform;
pub mod process;
#[cfg(test)]
mod tests;
mod tree;

use super::queries::QueryResults;
use anyhow::Result;
use cupeer_launch::driver::ChosenDriver;
use pci::Gpu;
use tree::{KernelFileTree, Readable};

pub use cupeer_p2p::fact::{Fact, Verdict, group_alike};
pub use process::Process;

/// Returns a fact with this name. If its data could not be read, the fact is unknown, with the reason.
fn with_name(name: &str, fact: Readable<Fact>) -> Fact {
    let fact = fact.unwrap_or_else(unknown_fact);
    Fact { name: name.to_owned(), ..fact }
}

fn good_fact(value: impl ToString) -> Fact {
    Fact::good("", value)
}

fn plain_fact(value: impl ToString) -> Fact {
    Fact::plain("", value)
}

fn unknown_fact(why: impl ToString) -> Fact {
    Fact::unknown("", why)
}

fn bad_fact(value: impl ToString, breaks: &str, hint: &str) -> Fact {
    Fact::bad("", value, breaks, hint)
}

/// Data about the machine and this process from which the facts derive.
pub struct ExaminedSystem {
    tree: KernelFileTree,
    pub queried: QueryResults,
    environment: Vec<(String, String)>,
    gpus: Vec<Gpu>,
}

impl ExaminedSystem {
    /// Reads this machine and this process.
    pub fn examine_machine(chosen: Option<&ChosenDriver>) -> Result<ExaminedSystem> {
        let environment = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
        Ok(ExaminedSystem::new(KernelFileTree::new("/"), QueryResults::run_queries(chosen)?, environment.collect()))
    }

    /// Reads this process, without the devices of the machine.
    pub fn without_devices() -> ExaminedSystem {
        ExaminedSystem::new(
            KernelFileTree::new("/"),
            QueryResults::without_results("the driver is simulated"),
            Vec::new(),
        )
    }

    fn new(tree: KernelFileTree, queried: QueryResults, environment: Vec<(String, String)>) -> ExaminedSystem {
        let mut gpus = pci::list_gpus(&tree);
        // A sandbox may hide the PCI bus and show the devices. Facts about them are then unknown, not missing.
        for device in queried.nvml.iter().flat_map(|nvml| &nvml.devices) {
            if gpus.iter().all(|gpu| gpu.address != device.pci) {
                gpus.push(Gpu { address: device.pci.clone(), bridges: Vec::new() });
            }
        }
        ExaminedSystem { tree, queried, environment, gpus }
    }

    /// Returns all facts: about the machine, its devices, their pairs, and this process.
    pub fn facts(&self) -> Vec<Fact> {
        let parts: [fn(&ExaminedSystem) -> Vec<Fact>; 10] = [
            module::facts,
            nodes::facts,
            gpus::facts,
            fabric::facts,
            iommu::facts,
            pci::facts,
            pairs::facts,
            platform::facts,
            limits::facts,
            environment::facts,
        ];
        parts.into_iter().flat_map(|part| part(self)).collect()
    }

    /// Returns the facts that decide whether this process can share with another one.
    pub fn process(&self) -> Process {
        Process::from_system(self)
    }

    /// Returns true if devices access each other over PCIe, false for a single device or if NVML reports NVLink for
    /// each pair; `None` if unknown.
    fn uses_pcie(&self) -> Option<bool> {
        let Ok(nvml) = &self.queried.nvml else { return (self.gpus.len() < 2).then_some(false) };
        if nvml.devices.len() < 2 {
            return Some(false);
        }
        Some(nvml.pairs.iter().any(|pair| pair.nvlink != Some(0)))
    }

    /// Makes a fact about peer access over PCIe neutral if no device uses PCIe for that.
    fn neutral_without_pcie(&self, fact: Fact) -> Fact {
        match (self.uses_pcie(), fact.verdict) {
            (Some(false), Verdict::Bad | Verdict::Unknown) => {
                let why = if self.gpus.len() < 2 { "there are no two GPUs" } else { "all pairs have NVLink" };
                let value = format!("{} ({why})", fact.value);
                Fact { verdict: Verdict::Plain, value, breaks: None, hint: None, ..fact }
            }
            _ => fact,
        }
    }
}
