//! Hints for bad verdicts: sentences that name a setting.

use super::plan::MethodResult;
use super::verdict::{Check, SharingMethod, Verdict};

/// Returns the hints for a method that failed checks. `is_nvlink` is true if the link is NVLink, so no PCI
/// Express is involved.
pub fn hints_for(tested: &MethodResult, is_nvlink: bool) -> Vec<String> {
    let is_bad = |check: Check| tested.checks.iter().any(|(known, verdict)| *known == check && verdict.is_bad());
    let mut hints = Vec::new();
    match &tested.verdict {
        Verdict::Wrong { .. } | Verdict::Stale { .. } | Verdict::Stalls { .. } => {
            let copies = is_bad(Check::CopyWrite) || is_bad(Check::CopyRead);
            let kernels = [Check::KernelWrite, Check::KernelRead, Check::Resident].into_iter().any(is_bad);
            let is_good = |check| tested.checks.contains(&(check, Verdict::Good));
            // A check that was not run because an earlier check stalls might fail, too.
            let kernels_arrive = is_good(Check::KernelWrite);
            hints.push(match (copies, kernels) {
                (false, false) => "the link does not carry the atomics that the driver claims for it: use none over it",
                (true, false) if kernels_arrive => {
                    "what kernels write arrives and copies do not: without peer access (cuCtxEnablePeerAccess), the driver \
                     takes copies between these devices through the host"
                }
                (false, true) => {
                    "copies arrive and what kernels do does not: NCCL_P2P_DISABLE=1 for NCCL, disable_custom_all_reduce \
                     for vLLM; tests that only copy find nothing"
                }
                _ if is_nvlink => {
                    "it is an NVLink, which neither the IOMMU nor ACS concerns: look for an Xid in the kernel's log (dmesg) and for \
                     errors in 'nvidia-smi nvlink -e', and reset the devices (nvidia-smi --gpu-reset); until then \
                     NCCL_P2P_DISABLE=1"
                }
                _ => {
                    "an IOMMU or PCIe ACS between the devices redirects or drops peer traffic: boot with iommu=pt, or switch \
                     the IOMMU (VT-d, AMD-Vi) and ACS off in the firmware; until then NCCL_P2P_DISABLE=1; \
                     'cupeer doctor' shows what this machine is set to"
                }
            }
            .to_owned());
        }
        Verdict::Refused { call, result, .. } => hints.push(match tested.way {
            SharingMethod::Ipc if call.starts_with("cuIpc") => "where legacy handles cannot work (WSL, vGPU, other \
                 namespaces), memory of PyTorch's expandable segments and NCCL_CUMEM_ENABLE=1 take descriptors"
                .to_owned(),
            _ if call.starts_with("cu") => format!("'cupeer explain {result}' says what this result means"),
            _ => "the driver ended the process that used it: the kernel's log (dmesg) may have an Xid about it"
                .to_owned(),
        }),
        Verdict::Good | Verdict::NotTested { .. } => {}
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_were_not_tested_are_not_said_to_arrive() {
        let hint = |kernels: Verdict, is_nvlink| {
            let stalls = Verdict::Stalls { reason: "made".to_owned() };
            let checks = vec![(Check::CopyWrite, stalls.clone()), (Check::KernelWrite, kernels)];
            hints_for(&MethodResult { way: SharingMethod::Peer, checks, verdict: stalls, measured: None }, is_nvlink)
                .concat()
        };
        let untested = Verdict::NotTested { reason: "made".to_owned() };
        assert!(hint(Verdict::Good, true).contains("what kernels write arrives"));
        assert!(hint(untested.clone(), false).starts_with("an IOMMU or PCIe ACS"));
        let of_nvlink = hint(untested, true);
        assert!(of_nvlink.contains("nvidia-smi nvlink -e") && !of_nvlink.contains("iommu=pt"), "{of_nvlink}");
    }
}
