//! Hints for values of a reason that the rule's own hint does not fit.

use super::{Device, HadContext, HandleFlaw, POINTERS, Reason};
use crate::rule::Rule;

impl Reason<'_> {
    /// Returns the advice for this reason: the rule's own, or one that fits these values better.
    pub fn hint(&self) -> &'static str {
        let own = self.hint_about_handles().or_else(|| self.hint_about_memory());
        own.or_else(|| self.hint_about_processes()).unwrap_or_else(|| self.rule().spec().hint())
    }

    /// Returns the advice for special values of reasons about handles, processes, and devices; `None` for the
    /// rule's own.
    fn hint_about_handles(&self) -> Option<&'static str> {
        Some(match self {
            Reason::IpcOpenInExportingProcess { is_event: true, .. } => {
                "In the process that exported it, use the event itself."
            }
            Reason::IpcUnknownHandle { flaw: HandleFlaw::Zero, .. } => {
                "Check the exporter: its export failed or was skipped, and nobody checked the result; or the bytes never arrived."
            }
            Reason::IpcUnknownHandle { flaw: HandleFlaw::Truncated(_) | HandleFlaw::Shifted { .. }, .. }
            | Reason::IpcDamagedHandle { cut: Some(_), .. } => Rule::IpcDamagedHandle.spec().hint(),
            Reason::IpcUnknownHandle { flaw: HandleFlaw::RecordedElsewhere(_), .. } => {
                "Start all processes that share memory with the same --out directory."
            }
            Reason::IpcDevicesApart { is_asked: false, to: Device { ordinal: ..0, .. }, .. } => {
                "Let each process see both devices (CUDA_VISIBLE_DEVICES), and call cuDeviceCanAccessPeer before you exchange handles. If it returns 0, use host memory (for NCCL: NCCL_P2P_DISABLE=1)."
            }
            Reason::IpcFlags { is_taken: true, .. } => {
                "Pass only 1 (CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS): a later driver may reject other bits."
            }
            Reason::IpcFlags { flags: POINTERS.., is_taken: false } => {
                "Pass the 64 bytes of the handle themselves. In ctypes, pass a Structure of 64 bytes without byref, and set argtypes of the function."
            }
            Reason::IpcDamagedHandle { is_opened: true, .. } => {
                "Send all 64 bytes unchanged. This driver did not check the bytes that differ, but another version may."
            }
            _ => return None,
        })
    }

    /// Returns the advice for special values of reasons about memory and the objects that hold it; `None` for
    /// the rule's own.
    fn hint_about_memory(&self) -> Option<&'static str> {
        Some(match self {
            Reason::IpcMemoryKind { because: Some(because), .. } if because.contains("expandable_segments") => {
                "Remove expandable_segments:True from that variable (or from torch.cuda.memory._set_allocator_settings), or turn off the feature that shares by legacy handles (vLLM: --disable-custom-all-reduce)."
            }
            Reason::IpcMemoryKind { because: Some(because), .. } if because.contains("cudaMallocAsync") => {
                "Remove backend:cudaMallocAsync from that variable: tensors are then memory of cudaMalloc, which legacy handles can export."
            }
            Reason::IpcMemoryKind { kind, .. } => kind.hint(),
            Reason::IpcCloseAddress { inside: Some(_), .. } => {
                "Close the pointer that cuIpcOpenMemHandle returned, without an offset."
            }
            Reason::IpcCloseAddress { is_own: true, .. } => {
                "Free this process's own memory with cuMemFree. cuIpcCloseMemHandle takes only pointers that cuIpcOpenMemHandle returned."
            }
            Reason::IpcCloseAddress { elsewhere: Some(_), .. } => {
                "Close the pointer that cuIpcOpenMemHandle returned in this process. Each process gets its own."
            }
            Reason::PilesUp { what, .. } => what.hint(),
            Reason::IpcNeverClosed { bytes: 0, .. } => {
                "If the process exits soon after the last use, ignore this, because exiting closes the handle. Otherwise, destroy the event or close the memory after the last use. `cupeer report --leaks` shows where it was opened."
            }
            Reason::VmmHandleType { types: None, .. } => {
                "Pass on the descriptor or the fabric handle that this process received. Any number of processes can import it."
            }
            Reason::VmmNoSuchDevice { .. } => {
                "Device numbers belong to a process: CUDA_VISIBLE_DEVICES changes them. Send the UUID (cuDeviceGetUuid) in place of the number, and find the device with that UUID here. A process that does not see the device cannot give it access."
            }
            Reason::VmmDescriptor { fd: ..0, .. } => {
                "Check the result of the call that should have returned the descriptor (recvmsg, pidfd_getfd). pidfd_getfd needs the right to trace the exporter (CAP_SYS_PTRACE in containers, prctl(PR_SET_PTRACER) under ptrace_scope 1). Unix sockets (sendmsg with SCM_RIGHTS) need no right."
            }
            Reason::MemoryTooLarge { .. } => {
                "Ask for less: no process has to free memory, because the call can never succeed on this device. Compute the size from cuMemGetInfo."
            }
            Reason::MemoryLimited { .. } => {
                "Raise maxSize, or leave it 0 for no limit. Or free memory of this pool before the call. Other memory of the device does not matter."
            }
            Reason::MulticastOtherMemory { .. } => {
                "Pass the device where the memory is, or bind memory of the device that you pass."
            }
            Reason::PoolNotImported { is_destroyed: false, .. } => {
                "In the process that created the pool, use the pointer itself."
            }
            Reason::PoolNotImported { is_destroyed: true, .. } => {
                "Import the pointers of a pool before you destroy the imported pool, or import the pool again."
            }
            Reason::IpcFreedWhileOpen { uses: (_, 1..), .. } => {
                "Close as often as you open. Each successful cuIpcOpenMemHandle counts, even if it returns the same pointer again."
            }
            _ => return None,
        })
    }

    /// Returns the advice for special values of reasons about processes, contexts, and ranks; `None` for the
    /// rule's own.
    fn hint_about_processes(&self) -> Option<&'static str> {
        Some(match self {
            Reason::NoCurrentContext { had: HadContext::Here { is_ended: true, .. }, .. } => {
                "Keep the context until the last call that needs it: destroy, reset, or release it after this call, or leave that to the end of the process. Retaining it anew does not bring back what went with it."
            }
            Reason::ForkedAndKept { .. } => {
                "Start workers before the first CUDA call, or with spawn or forkserver, and end them with their parent (PR_SET_PDEATHSIG)."
            }
            Reason::ForkedAndFailed { .. } => {
                "If it needed CUDA, start it before the first CUDA call, or with spawn (multiprocessing.set_start_method(\"spawn\")) or exec. Otherwise, read what it printed last."
            }
            Reason::PeerSameDevice { context: None, .. } => "Skip the pair of a device with itself; it needs no link.",
            Reason::PeerNotEnabled { reverse: true, .. } => {
                "Access is one-way, and only the context that enabled it can disable it. Make that context current, and pass the context of the other device."
            }
            Reason::RanksWaitForFailed { .. } => {
                "Fix the export that failed: the report lists it. Let each process tell the others if it has nothing to send, and set a timeout on the exchange (SO_RCVTIMEO)."
            }
            _ => return None,
        })
    }
}
