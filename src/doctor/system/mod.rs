//! The machine and this process, as far as they decide who can share device memory with whom: facts, each with its verdict.
//!
//! What belongs here: reading, and rules that documentation or measurements bear out; the file of each has its sources. What is
//! withheld is unknown, with the reason, and never guessed. Everything is read below the root of a `Tree`, and NVIDIA's
//! libraries have been asked before (`asked`), so that tests make machines of their own.

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

use super::asked::Asked;
use anyhow::Result;
use cupeer_launch::driver::Chosen;
use pci::Gpu;
use tree::Tree;

pub use cupeer_p2p::fact::{Fact, Verdict, alike};
pub use process::Process;

/// All that the facts are made of.
pub struct System {
    tree: Tree,
    pub asked: Asked,
    environment: Vec<(String, String)>,
    gpus: Vec<Gpu>,
}

impl System {
    /// This machine and this process.
    pub fn here(chosen: Option<&Chosen>) -> Result<System> {
        let environment = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
        Ok(System::new(Tree::new("/"), Asked::ask(chosen)?, environment.collect()))
    }

    /// This process, without the devices of the machine.
    pub fn without_devices() -> System {
        System::new(Tree::new("/"), Asked::nothing("the driver is simulated"), Vec::new())
    }

    fn new(tree: Tree, asked: Asked, environment: Vec<(String, String)>) -> System {
        let mut gpus = pci::gpus(&tree);
        // A sandbox may hide the bus and show the devices: what it hides of them is then unknown, and not left out.
        for device in asked.nvml.iter().flat_map(|nvml| &nvml.devices) {
            if gpus.iter().all(|gpu| gpu.address != device.pci) {
                gpus.push(Gpu { address: device.pci.clone(), bridges: Vec::new() });
            }
        }
        System { tree, asked, environment, gpus }
    }

    /// All facts: of the machine, its devices, their pairs, and this process.
    pub fn facts(&self) -> Vec<Fact> {
        let parts: [fn(&System) -> Vec<Fact>; 10] = [
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

    /// What decides whether this process and another one can share.
    pub fn process(&self) -> Process {
        Process::of(self)
    }

    /// Whether devices reach each other over PCIe: not where there is one, or where NVML says that each pair has NVLink.
    /// `None` where that is not known.
    fn uses_pcie(&self) -> Option<bool> {
        let Ok(nvml) = &self.asked.nvml else { return (self.gpus.len() < 2).then_some(false) };
        if nvml.devices.len() < 2 {
            return Some(false);
        }
        Some(nvml.pairs.iter().any(|pair| pair.nvlink != Some(0)))
    }

    /// A fact about peer access over PCIe, which is nobody's where no device uses that.
    fn over_pcie(&self, fact: Fact) -> Fact {
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
