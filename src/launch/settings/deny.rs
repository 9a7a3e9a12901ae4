//! Denied pairs: which devices the words of `--deny-peer` mean, and what else a run must know.
//!
//! The library is told UUIDs, which are the same in all processes. What they are is known here: from the topology of the
//! simulated driver, or else from NVML.

mod machine;

use crate::args::{DenyArgs, Options};
use crate::job::Job;
use anyhow::{Context, Result, anyhow, bail, ensure};
use cupeer_console::variables::{Environment, nonempty_variable};
use cupeer_recordings::job::create_temporary_directory;
use cupeer_spec::deny::{self, DeniedPair, DeniedPairs, DeviceName, WrittenPair};
use cupeer_spec::env;
use cupeer_topology::Topology;
use machine::{Machine, MachineDevice};
use std::ffi::OsString;
use std::path::PathBuf;
use tempfile::TempDir;

/// Variable that names the directory of vLLM's cache.
const VLLM_CACHE_ROOT: &str = "VLLM_CACHE_ROOT";

/// Note about accesses that denied pairs do not block.
const UNMASKED: &str = "denied pairs: --deny-peer does not block copies between devices (cuMemcpyPeer; the driver \
stages them), imported memory pools when nothing is recorded, or what tools read from sysfs; links to a switch are hidden entirely";

pub fn unblocked_access_note(environment: &Environment) -> Option<&'static str> {
    environment.get(env::DENY_PEER).filter(|pairs| !pairs.is_empty()).map(|_| UNMASKED)
}

/// Returns the variables of the options about denied pairs. `is_here` is true if the program runs on this machine.
pub fn deny_variables(options: &Options, is_here: bool) -> Result<Vec<(&'static str, OsString)>> {
    let DenyArgs { deny_peer, peer_limit } = &options.deny;
    let mut variables = Vec::new();
    if let Some(text) = deny_peer {
        let denied = parse_denied(text, &Machine::from_options(&options.driver), is_here).map_err(|error| {
            match format!("{error:#}") {
                placed if placed.starts_with("column ") => anyhow!("--deny-peer '{text}', {placed}"),
                other => anyhow!("--deny-peer '{text}': {other}"),
            }
        })?;
        variables.push((env::DENY_PEER, denied.to_string().into()));
    }
    if let Some(limit) = peer_limit {
        variables.push((env::PEER_LIMIT, limit.to_string().into()));
    }
    Ok(variables)
}

/// File in which vLLM keeps its verdict on peer access. Each run with denied pairs needs its own file: later runs would read the
/// verdict of this run, and this run would read earlier verdicts.
pub enum VllmCache {
    InJob(PathBuf),
    Temporary(TempDir),
    Chosen(PathBuf),
}

impl VllmCache {
    /// Returns `None` if no pair is denied.
    pub fn for_denied_pairs(variables: &[(&'static str, OsString)], job: Option<&Job>) -> Result<Option<VllmCache>> {
        if variables.iter().all(|(name, _)| *name != env::DENY_PEER) {
            return Ok(None);
        }
        if let Some(place) = nonempty_variable(VLLM_CACHE_ROOT) {
            return Ok(Some(VllmCache::Chosen(place.into())));
        }
        // If the directory's path has placeholders, the processes create the directory.
        if let Some(job) = job.filter(|job| job.directory.is_dir()) {
            return Ok(Some(VllmCache::InJob(job.make_vllm_cache()?)));
        }
        let temporary =
            create_temporary_directory("cupeer-vllm-").context("failed to make a directory for vLLM's cache")?;
        Ok(Some(VllmCache::Temporary(temporary)))
    }

    /// Returns the variable, if cupeer has to set it.
    pub fn cache_variable(&self) -> Option<(&'static str, OsString)> {
        let place = match self {
            VllmCache::InJob(place) => place.as_path(),
            VllmCache::Temporary(place) => place.path(),
            VllmCache::Chosen(_) => return None,
        };
        Some((VLLM_CACHE_ROOT, place.into()))
    }

    pub fn chosen_cache_warning(&self) -> Option<String> {
        let VllmCache::Chosen(place) = self else { return None };
        Some(format!(
            "{VLLM_CACHE_ROOT} is set: vLLM caches what it finds out about peers in {} \
             (gpu_p2p_access_cache_for_*.json), and carries it from earlier runs into this one and from this one \
             into later ones",
            place.display()
        ))
    }

    /// Keeps the directory after this process ends, for processes that still run then.
    pub fn keep_directory(&mut self) {
        if let VllmCache::Temporary(directory) = self {
            directory.disable_cleanup(true);
        }
    }
}

fn parse_denied(text: &str, machine: &Machine, is_here: bool) -> Result<DeniedPairs> {
    if text == deny::ALL {
        return Ok(DeniedPairs::All);
    }
    if text.ends_with(".toml") {
        return read_denied_pairs(text, machine, is_here);
    }
    let mut pairs = Vec::new();
    for WrittenPair { from, to, oneway } in deny::split_pairs(text).map_err(anyhow::Error::msg)? {
        let named = |(column, word): (usize, &str)| {
            resolve_device(word, machine, is_here).with_context(|| format!("column {column}"))
        };
        let pair = DeniedPair { from: named(from)?, to: named(to)?, oneway };
        if pair.from == pair.to {
            bail!("column {}: a pair has two devices, but '{}' is the first one again", to.0, to.1);
        }
        pairs.push(pair);
    }
    Ok(DeniedPairs::Pairs(pairs))
}

/// Returns the device that a word on the command line means.
fn resolve_device(word: &str, machine: &Machine, is_here: bool) -> Result<DeviceName> {
    let whole = DeviceName::parse(word);
    let devices = match machine.devices() {
        Ok(devices) => devices,
        // A complete UUID or address needs no knowledge of the machine.
        Err(reason) => match whole {
            Some(name) => return Ok(name),
            None => bail!(
                "cannot find out which device '{word}' is ({reason}); name devices by UUID, as 'nvidia-smi -L' \
                 prints them"
            ),
        },
    };
    let is_it = |(index, device): &(usize, &MachineDevice)| match whole {
        Some(name) => name.matches(&device.identity()),
        None if word.bytes().all(|byte| byte.is_ascii_digit()) => word.parse() == Ok(*index),
        None => {
            let begin = word.to_ascii_lowercase();
            begin.len() > 4 && device.uuid_text().to_ascii_lowercase().starts_with(&begin)
        }
    };
    let found: Vec<_> = devices.iter().enumerate().filter(is_it).collect();
    match (&found[..], whole) {
        ([(_, device)], _) => Ok(DeviceName::Uuid(device.uuid)),
        // The word may mean a device of another machine.
        ([], Some(name)) if !is_here && !machine.is_simulated() => Ok(name),
        ([], _) => bail!("there is no device '{word}'; there {}", machine::list_existing(devices)),
        (several, _) => {
            let names: Vec<String> = several.iter().map(|(_, device)| device.uuid_text()).collect();
            bail!("'{word}' is the start of several: {}", names.join(", "))
        }
    }
}

/// Returns the pairs without access in a topology file, including pairs whose link was found to be bad. Devices are named by
/// their UUIDs if the file has them, and otherwise by their indices.
fn read_denied_pairs(path: &str, machine: &Machine, is_here: bool) -> Result<DeniedPairs> {
    let topology = Topology::parse(path).map_err(anyhow::Error::msg)?;
    let own = &topology.devices;
    let by_uuid =
        |devices: &[MachineDevice]| own.iter().all(|device| devices.iter().any(|known| known.uuid == device.uuid));
    let names: Vec<DeviceName> = match machine.devices() {
        Ok(devices) if is_here && !by_uuid(devices) => {
            let here = machine::list_existing(devices);
            ensure!(devices.len() >= own.len(), "it has {} devices, but here {here}", own.len());
            devices[..own.len()].iter().map(|device| DeviceName::Uuid(device.uuid)).collect()
        }
        _ => own.iter().map(|device| DeviceName::Uuid(device.uuid)).collect(),
    };
    let reaches = |from, to| topology.link(from, to).is_none_or(|link| link.can_access && !link.is_bad());
    let mut pairs = Vec::new();
    for from in 0..own.len() {
        for to in 0..own.len() {
            let oneway = reaches(to, from);
            // A pair that is denied in both directions is listed once.
            if !reaches(from, to) && (oneway || from < to) {
                pairs.push(DeniedPair { from: names[from], to: names[to], oneway });
            }
        }
    }
    ensure!(
        !pairs.is_empty(),
        "it denies nothing: all its devices reach each other, and 'cupeer doctor --p2p' has found no link bad; a [[link]] \
         of kind = \"none\" makes a pair that does not"
    );
    Ok(DeniedPairs::Pairs(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(text: &str) -> Machine {
        Machine::Simulated(Topology::parse(text).unwrap().devices.iter().map(MachineDevice::from_topology).collect())
    }

    fn uuid(index: u8) -> String {
        format!("GPU-c09ee200-5130-4d0e-b00d-0000000000{index:02x}")
    }

    #[test]
    fn devices_are_meant_by_index_uuid_and_address() {
        let four = machine("nvlink:4");
        let pair = |a, b, oneway: &str| format!("{}/{}{oneway}", uuid(a), uuid(b));
        for (text, wanted) in [
            ("0/1".to_owned(), pair(0, 1, "")),
            ("3/0:oneway,1/2".into(), format!("{},{}", pair(3, 0, ":oneway"), pair(1, 2, ""))),
            (format!("{}/1E:00.0", uuid(0)), pair(0, 1, "")),
            ("0000:1b:00.0/00000000:24:00.0".into(), pair(0, 3, "")),
            (format!("2/gpu-{}", &uuid(1)[4..]), pair(2, 1, "")),
            ("all".into(), "all".into()),
        ] {
            assert_eq!(parse_denied(&text, &four, true).map(|d| d.to_string()).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn errors_name_the_place_and_the_choices() {
        let two = machine("nvlink:2");
        for (text, error) in [
            (
                "0/2",
                "column 3: there is no device '2'; there are 0 (GPU-c09ee200-5130-4d0e-b00d-000000000000, 0000:1b:00.0) and 1 (",
            ),
            ("x/1", "column 1: there is no device 'x'; there are 0"),
            ("0/1,1/1", "column 7: a pair has two devices, but '1' is the first one again"),
            ("0/1b:00.0", "column 3: a pair has two devices, but '1b:00.0' is the first one again"),
            ("GPU-c09ee200/1", "column 1: 'GPU-c09ee200' is the start of several: GPU-"),
            ("0-1", "column 1: a pair is two devices with a '/' between them, such as 0/1"),
            ("", "column 1: a pair of devices is missing here"),
            ("0/GPU-c09ee200-5130-4d0e-b00d-0000000000ff", "column 3: there is no device 'GPU-c09ee200"),
        ] {
            let got = format!("{:#}", parse_denied(text, &two, true).unwrap_err());
            assert!(got.starts_with(error), "{text}: {got}");
        }
    }

    #[test]
    fn whole_names_need_no_machine() {
        let nowhere = Machine::Unknown("there is none".into());
        let text = format!("{}/{}", uuid(0), uuid(1));
        assert_eq!(parse_denied(&text, &nowhere, true).unwrap().to_string(), text);
        let error = format!("{:#}", parse_denied("0/1", &nowhere, true).unwrap_err());
        assert!(
            error.starts_with("column 1: cannot find out which device '0' is (there is none); name devices by UUID"),
            "{error}"
        );
    }
}
