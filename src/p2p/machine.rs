//! Writes the machine as a topology file, from the answers of the driver and the findings.
//!
//! `src/topology/file.rs` describes the format, and reads it.

use super::findings::Findings;
use super::plan::{Direction, MethodResult};
use super::verdict::{Check, Verdict};
use anyhow::{Context, Result};
use cupeer_spec::uuid::Uuid;
use cupeer_topology::{MOST_DEVICES, Topology};
use std::fmt::Write;
use std::path::Path;

/// Fails if no file can be written at a path, so that the failure comes before a long test. Writes nothing.
pub fn check_writable(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_there = parent.is_dir() && !path.is_dir() && path.file_name().is_some();
    anyhow::ensure!(is_there, "-o '{}': no file can be written there", path.display());
    Ok(())
}

/// Returns the text of the file at `path`, after reading it as `--sim` would.
///
/// # Errors
///
/// It cannot be read.
pub fn topology_text(findings: &Findings, path: &Path) -> Result<String> {
    let shown = path.display();
    let text = format_topology(findings);
    let count = findings.devices.len();
    anyhow::ensure!((1..=MOST_DEVICES).contains(&count), "{shown}: there is no topology of {count} devices");
    Topology::parse_file(&shown.to_string(), text.as_bytes())
        .map_err(anyhow::Error::msg)
        .context("the topology that would be written cannot be read")?;
    Ok(text)
}

fn format_topology(findings: &Findings) -> String {
    let mut text = format!(
        "# Written by 'cupeer doctor --p2p' {}: what the driver says of this machine, and what was found.\n\
         # cupeer run --sim=FILE simulates it, --deny-peer FILE denies what is bad, cupeer env --p2p FILE prints settings.\n",
        env!("CARGO_PKG_VERSION")
    );
    let has_multicast = findings.devices.iter().any(|device| device.multicast);
    let _ = write!(text, "links = \"none\"\nmulticast = {has_multicast}\n");
    for device in &findings.devices {
        let _ = write!(
            text,
            "\n[[device]]\nname = {}\nuuid = \"{}\"\npci = {}\nmemory = {}\ncompute_capability = \"{}.{}\"\n",
            toml_quoted(&device.name),
            Uuid(device.uuid),
            toml_quoted(&device.pci),
            device.memory,
            device.capability.0,
            device.capability.1
        );
    }
    findings.pairs.iter().for_each(|pair| write_link(&mut text, pair));
    text
}

/// Returns a text in the form of a TOML string.
fn toml_quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => _ = write!(quoted, "\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn write_link(text: &mut String, pair: &Direction) {
    let about = &pair.about;
    let kind = match about.can_access {
        false => "none",
        true if pair.is_nvlink() => "nvlink",
        true => "pcie",
    };
    let _ = write!(text, "\n[[link]]\nfrom = {}\nto = {}\nkind = \"{kind}\"\n", pair.from, pair.to);
    let _ = writeln!(text, "can_access = {}", about.can_access);
    let [rank, _, native, array, partial] = about.attributes;
    if let Some(rank) = rank {
        let _ = writeln!(text, "performance_rank = {}", rank.clamp(0, 1000));
    }
    for (name, value) in [("native_atomics", native), ("array_access", array), ("partial_atomics", partial)] {
        if let Some(value) = value {
            let _ = writeln!(text, "{name} = {}", value != 0);
        }
    }
    if about.atomics.iter().any(|capability| *capability != 0) {
        let _ = writeln!(text, "atomic_capabilities = {:?}", about.atomics);
    }
    if let Some((data, by)) = simulated_damage(pair) {
        let _ = writeln!(text, "data = \"{data}\"");
        if let Some(by) = by {
            let _ = writeln!(text, "data_by = \"{by}\"");
        }
    }
    for tested in &pair.ways {
        let _ = writeln!(text, "{} = \"{}\"", tested.way.name(), tested.verdict.topology_verdict().name());
    }
    if let Some(measured) = pair.ways.iter().find_map(|tested| tested.measured) {
        let _ = write!(text, "copy_mb_s = {}\nkernel_mb_s = {}\n", measured.copy_mb_s, measured.kernel_mb_s);
        if let Some(trip) = measured.round_trip_ns {
            let _ = writeln!(text, "round_trip_ns = {trip}");
        }
    }
}

/// Returns the damage that the simulated driver must do to data on the link, and the engine whose data it
/// damages. Only damage that all open methods show counts.
fn simulated_damage(pair: &Direction) -> Option<(&'static str, Option<&'static str>)> {
    let of = |verdict: &Verdict| match verdict {
        Verdict::Wrong { .. } => Some("lost"),
        Verdict::Stale { .. } => Some("stale"),
        Verdict::Stalls { .. } => Some("stall"),
        Verdict::Good | Verdict::Refused { .. } | Verdict::NotTested { .. } => None,
    };
    let open = pair
        .ways
        .iter()
        .filter(|tested| !matches!(tested.verdict, Verdict::Refused { .. } | Verdict::NotTested { .. }));
    let open: Vec<_> = open.collect();
    let word = of(&open.first()?.verdict)?;
    if !open.iter().all(|tested| of(&tested.verdict) == Some(word)) {
        return None;
    }
    let is_bad = |check: Check| {
        open.iter().flat_map(|tested| &tested.checks).any(|(known, verdict)| *known == check && verdict.is_bad())
    };
    let copies = is_bad(Check::CopyWrite) || is_bad(Check::CopyRead);
    // A check that was not run because an earlier check stalls does not count as good.
    let untested = |tested: &&MethodResult| {
        tested
            .checks
            .iter()
            .any(|(check, verdict)| *check == Check::KernelWrite && matches!(verdict, Verdict::NotTested { .. }))
    };
    let kernels = [Check::KernelWrite, Check::KernelRead, Check::Resident].into_iter().any(is_bad)
        || open.iter().copied().all(|tested| untested(&tested));
    Some((
        word,
        match (copies, kernels) {
            (true, false) => Some("copies"),
            (false, true) => Some("kernels"),
            _ => None,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_quoted_as_toml_reads_it() {
        let name = "NVIDIA \"H\\200\"\n\u{7f}";
        let text = format!("[[device]]\nname = {}\n", toml_quoted(name));
        let read = Topology::parse_file("x", text.as_bytes()).unwrap();
        assert_eq!(read.devices[0].name, name);
    }
}
