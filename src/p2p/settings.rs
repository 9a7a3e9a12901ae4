//! `cupeer env --p2p`: settings with which other programs avoid bad links.
//!
//! Each setting comes with the page that documents it.

use anyhow::{Context, Result, ensure};
use cupeer_topology::{Link, MethodVerdict, SharingMethod, Topology};
use std::path::Path;

/// Kind of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SettingKind {
    Variable(&'static str, &'static str),
    /// A variable that must not be set.
    Unset(&'static str),
    /// A command-line argument of the program.
    Argument(&'static str),
}

/// A setting of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramSetting {
    program: &'static str,
    what: SettingKind,
    why: &'static str,
    page: &'static str,
}

impl ProgramSetting {
    /// Returns the name and the value, if the setting is an environment variable to set.
    pub fn variable(&self) -> Option<(&'static str, String)> {
        match self.what {
            SettingKind::Variable(name, value) => Some((name, value.to_owned())),
            SettingKind::Unset(_) | SettingKind::Argument(_) => None,
        }
    }
}

const NCCL: &str = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html";
const VLLM: &str = "https://docs.vllm.ai/en/stable/configuration/env_vars/";
const VLLM_ARGUMENTS: &str = "https://docs.vllm.ai/en/latest/models/engine_args.html";
const LLAMA: &str = "https://github.com/ggml-org/llama.cpp/blob/master/docs/build.md";
const UCX: &str = "https://github.com/openucx/ucx/blob/master/docs/source/faq.md";
const OMPI: &str = "'ompi_info --param btl smcuda --level 9', https://github.com/open-mpi/ompi/pull/698";

/// Returns the settings for the machine in a file that `cupeer doctor --p2p -o` wrote.
pub fn read_settings(path: &Path) -> Result<Vec<ProgramSetting>> {
    let shown = path.display().to_string();
    let name = path.to_str().with_context(|| format!("--p2p '{shown}': the path is not UTF-8"))?;
    // Here, a short name such as `nvlink:2` means a file of that name.
    let name = if name.contains('/') { name.to_owned() } else { format!("./{name}") };
    let machine = Topology::parse(&name).map_err(anyhow::Error::msg).context("--p2p")?;
    let count = machine.devices.len();
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let links: Vec<&Link> = pairs.filter_map(|(from, to)| machine.link(from, to)).collect();
    let has_verdict = |link: &&Link| link.verdicts.iter().any(Option::is_some);
    ensure!(
        links.iter().any(has_verdict) || links.iter().all(|link| !link.can_access),
        "--p2p '{shown}': no link in it was tested; 'cupeer doctor --p2p -o {shown}' writes what it finds"
    );
    Ok(settings_for_links(&links))
}

fn settings_for_links(links: &[&Link]) -> Vec<ProgramSetting> {
    let has = |way: SharingMethod, is: &dyn Fn(MethodVerdict) -> bool| {
        links.iter().filter_map(|link| link.verdict(way)).any(is)
    };
    let strays = |verdict| matches!(verdict, MethodVerdict::Wrong | MethodVerdict::Stale | MethodVerdict::Stalls);
    let data = SharingMethod::ALL.into_iter().any(|way| has(way, &strays));
    let bad = |way| data || has(way, &MethodVerdict::is_bad);
    let (peer, ipc, vmm) = (bad(SharingMethod::Peer), bad(SharingMethod::Ipc), bad(SharingMethod::Vmm));
    let mut settings = Vec::new();
    let mut add = |program, what, why, page| settings.push(ProgramSetting { program, what, why, page });
    if data || peer || ipc && vmm {
        // Only NVLink has native atomics.
        let is_nvlink = |link: &&&Link| link.native_atomics;
        let only_pcie = links.iter().filter(|link| link.is_bad()).all(|link| !is_nvlink(&link))
            && links.iter().any(|link| is_nvlink(&link));
        match only_pcie {
            true => add(
                "NCCL",
                SettingKind::Variable("NCCL_P2P_LEVEL", "NVL"),
                "all that is bad is not NVLink: peer access over NVLink alone",
                NCCL,
            ),
            false => add(
                "NCCL",
                SettingKind::Variable("NCCL_P2P_DISABLE", "1"),
                "no peer access; data goes through shared memory of the host",
                NCCL,
            ),
        }
    } else if ipc {
        add("NCCL", SettingKind::Variable("NCCL_CUMEM_ENABLE", "1"), "descriptors rather than legacy handles", NCCL);
    } else if vmm {
        add("NCCL", SettingKind::Variable("NCCL_CUMEM_ENABLE", "0"), "legacy handles rather than descriptors", NCCL);
    }
    if ipc {
        let why = "its own all-reduce opens legacy handles, and writes to peers from kernels";
        add("vLLM", SettingKind::Argument("--disable-custom-all-reduce"), why, VLLM_ARGUMENTS);
        let why = "it tests peer access itself, rather than believe the driver; it only copies";
        add("vLLM", SettingKind::Variable("VLLM_SKIP_P2P_CHECK", "0"), why, VLLM);
    }
    if peer {
        let why = "it enables peer access where this is set, whatever to; without it, copies go through the host";
        add("llama.cpp", SettingKind::Unset("GGML_CUDA_P2P"), why, LLAMA);
    }
    if ipc || vmm {
        let why = "all transports but the one that opens memory of other processes' devices";
        add("UCX", SettingKind::Variable("UCX_TLS", "^cuda_ipc"), why, UCX);
    }
    if ipc {
        let why = "its own transport for shared memory opens legacy handles; with the UCX one, UCX_TLS counts";
        add("Open MPI", SettingKind::Variable("OMPI_MCA_btl_smcuda_use_cuda_ipc", "0"), why, OMPI);
    }
    settings
}

/// Returns lines of shell script for the settings, each with its reason.
pub fn format_shell(path: &Path, settings: &[ProgramSetting]) -> String {
    if settings.is_empty() {
        // A path may contain a line break, which would end the comment.
        let shown = path.display().to_string().replace(char::is_control, "?");
        return format!("# No link in {shown} is bad: no setting is needed.\n");
    }
    let line = |setting: &ProgramSetting| {
        let what = match setting.what {
            SettingKind::Variable(name, value) => format!("export {name}={value}"),
            SettingKind::Unset(name) => format!("unset {name}"),
            SettingKind::Argument(argument) => format!("# an argument: {argument}"),
        };
        format!("# {}: {} ({})\n{what}\n", setting.program, setting.why, setting.page)
    };
    settings.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        let machine = Topology::parse_file("x", format!("count = 2\n{text}").as_bytes()).unwrap();
        let links = [machine.link(0, 1).unwrap(), machine.link(1, 0).unwrap()];
        settings_for_links(&links)
            .iter()
            .map(|setting| match setting.what {
                SettingKind::Variable(name, _) | SettingKind::Unset(name) | SettingKind::Argument(name) => name,
            })
            .collect()
    }

    #[test]
    fn each_setting_is_for_what_is_bad() {
        let link = "[[link]]\nfrom = 0\nto = 1\n";
        assert!(names(&format!("{link}peer = 'good'\nipc = 'not-tested'\n")).is_empty());
        let all = names(&format!("{link}peer = 'stale'\n"));
        assert_eq!(
            all,
            [
                "NCCL_P2P_DISABLE",
                "--disable-custom-all-reduce",
                "VLLM_SKIP_P2P_CHECK",
                "GGML_CUDA_P2P",
                "UCX_TLS",
                "OMPI_MCA_btl_smcuda_use_cuda_ipc"
            ]
        );
        let refused = names(&format!("{link}peer = 'good'\nipc = 'good'\nvmm = 'refused'\n"));
        assert_eq!(refused, ["NCCL_CUMEM_ENABLE", "UCX_TLS"]);
        // One way over PCI Express is bad, the other one is NVLink.
        assert_eq!(names(&format!("{link}kind = 'pcie'\npeer = 'wrong'\n"))[0], "NCCL_P2P_LEVEL");
    }
}
