//! Kind of machine, physical or virtual, and kind of container.

use super::tree::Readable;
use super::{ExaminedSystem, Fact, good_fact, plain_fact, unknown_fact, with_name};

pub fn facts(system: &ExaminedSystem) -> Vec<Fact> {
    vec![
        with_name("virtualisation", judge_virtualization(system)),
        with_name("container", Ok(plain_fact(detect_container(system).unwrap_or_else(|| "none seen".to_owned())))),
    ]
}

/// Judges the kind of machine. In a virtual machine, the settings that decide about peer access belong to its host and cannot
/// be seen: routing (ACS), the host's IOMMU, and the mapping of the devices' windows by the hypervisor (NCCL#2335: a private
/// mirror of the peer's window).
fn judge_virtualization(system: &ExaminedSystem) -> Readable<Fact> {
    let read = |path: &str| system.tree.read_text(path).ok().filter(|text| !text.is_empty());
    let flags = system.tree.read_text("/proc/cpuinfo")?;
    let mut processors = flags.lines().filter(|line| line.starts_with("flags")).peekable();
    let is_told = processors.peek().is_some();
    let has_flag = processors.any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    let product: Vec<String> =
        ["sys_vendor", "product_name"].iter().filter_map(|name| read(&format!("/sys/class/dmi/id/{name}"))).collect();
    let product = if product.is_empty() { String::new() } else { format!(" ({})", product.join(" ")) };
    let kind = read("/sys/hypervisor/type").map(|kind| format!(", {kind}")).unwrap_or_default();
    if !is_told && kind.is_empty() {
        return Ok(unknown_fact(format!("these processors do not say whether they are virtual{product}")));
    }
    if !has_flag && kind.is_empty() {
        return Ok(good_fact(format!("none seen{product}")));
    }
    let value = format!("a virtual machine{product}{kind}");
    if system.uses_pcie() == Some(false) {
        return Ok(plain_fact(value));
    }
    Ok(unknown_fact(format!("{value}: its host decides about peer access over PCIe")).with_effect(
        "peer access over PCIe: writes may go to a copy of the peer's window that only the writer sees",
        "Let the host put the GPUs behind switches with ACS Direct Translated P2P, and test each pair with data.",
    ))
}

/// Returns the kind of container that this process runs in, judged by the traces that container runtimes leave.
pub fn detect_container(system: &ExaminedSystem) -> Option<String> {
    let has = |name: &str| system.environment.iter().any(|(known, _)| known == name);
    let marks: [(&str, bool); 5] = [
        ("Docker (/.dockerenv)", system.tree.exists("/.dockerenv")),
        ("Podman (/run/.containerenv)", system.tree.exists("/run/.containerenv")),
        ("Kubernetes (KUBERNETES_SERVICE_HOST)", has("KUBERNETES_SERVICE_HOST")),
        ("Apptainer (/.singularity.d)", system.tree.exists("/.singularity.d")),
        ("another container (the variable container)", has("container")),
    ];
    let found: Vec<&str> = marks.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    (!found.is_empty()).then(|| found.join(", "))
}
