//! Pending work that calls of the driver wait for before they return.
//!
//! Right programs rely on the least that a call waits for. Nobody can rely on more, but more can happen: a finding must allow for it.
//!
//! Sources: measurements with driver 580.159.04 (`tests/data/waits-580.159.04.tsv`), and "API synchronization behavior" and
//! "Implicit synchronization" of the CUDA documentation.

/// Pending work that is done when a call returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitScope {
    /// The call waits for nothing.
    Nothing,
    /// Earlier work of the stream that the call names. For the legacy default stream, this includes the work
    /// of all blocking streams of its context.
    Stream,
    /// Work before the last record of the event.
    Event,
    /// Work of the legacy default stream of the current context and of the blocking streams there.
    Default,
    /// Work of the default stream of the calling thread (`_ptds`), and of the legacy default stream.
    Thread,
    /// Work of all streams of a context: of the one that the call names, or the current one.
    Context,
    /// Work of all contexts of the process.
    Process,
}

/// Condition under which a call waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitCondition {
    /// The call always waits.
    Always,
    /// The source or the destination is host memory.
    HostMemory,
    /// The destination is host memory that is not pinned.
    ToPageable,
    /// The destination is pinned host memory or managed memory.
    FillsHost,
    /// The memory is not from a pool.
    NotPooled,
    /// The call releases the last reference to the memory or context.
    Last,
}

/// Basis of what is known about a call's waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitSource {
    /// Measurement with a real driver.
    Measured,
    /// Documentation of CUDA.
    Documented,
}

/// Pending work that a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// Work that is certainly done, if `when` holds.
    pub scope: WaitScope,
    /// Condition of `scope`.
    pub when: WaitCondition,
    /// Work that the call may wait for, whatever its arguments, because other drivers do or the documentation allows
    /// it.
    pub perhaps: WaitScope,
    /// Source of `scope`.
    pub source: WaitSource,
}

/// Returns the pending work that a function waits for, by any of its symbols. `None` if the table
/// does not list the function, so that its waits are unknown.
pub fn waits_of(symbol: &str) -> Option<Waits> {
    let (name, is_thread) = match symbol.strip_suffix("_ptds") {
        Some(name) => (name, true),
        None => (symbol.strip_suffix("_ptsz").unwrap_or(symbol), false),
    };
    let name = match name.rsplit_once("_v") {
        Some((base, version)) if version.parse::<u8>().is_ok() => base,
        _ => name,
    };
    let (_, found) = TABLE.iter().find(|(names, _)| names.split_whitespace().any(|known| known == name))?;
    let own = |scope| if is_thread && scope == WaitScope::Default { WaitScope::Thread } else { scope };
    Some(Waits { scope: own(found.scope), perhaps: own(found.perhaps), ..*found })
}

const fn waits(scope: WaitScope, when: WaitCondition, perhaps: WaitScope, source: WaitSource) -> Waits {
    Waits { scope, when, perhaps, source }
}

use WaitCondition::{Always, FillsHost, HostMemory, Last, NotPooled, ToPageable};
use WaitScope::{Context, Default, Event, Nothing, Process, Stream};
use WaitSource::{Documented, Measured};

/// The functions, by their names without a version, separated by spaces.
pub static TABLE: &[(&str, Waits)] = &[
    ("cuStreamSynchronize", waits(Stream, Always, Stream, Measured)),
    ("cuEventSynchronize", waits(Event, Always, Event, Measured)),
    ("cuCtxSynchronize", waits(Context, Always, Context, Measured)),
    ("cuMemcpyHtoD cuMemcpyDtoH", waits(Default, Always, Default, Measured)),
    ("cuMemcpyHtoA cuMemcpyAtoH", waits(Default, Always, Default, Documented)),
    ("cuMemcpy cuMemcpy2D cuMemcpy2DUnaligned cuMemcpy3D", waits(Default, HostMemory, Default, Documented)),
    ("cuMemcpyDtoD", waits(Nothing, Always, Default, Measured)),
    ("cuMemcpyDtoA cuMemcpyAtoD cuMemcpyAtoA", waits(Nothing, Always, Default, Documented)),
    ("cuMemcpyPeer cuMemcpy3DPeer", waits(Nothing, Always, Process, Documented)),
    ("cuMemsetD8", waits(Default, FillsHost, Default, Documented)),
    (
        "cuMemsetD16 cuMemsetD32 cuMemsetD2D8 cuMemsetD2D16 cuMemsetD2D32",
        waits(Default, FillsHost, Default, Documented),
    ),
    ("cuMemcpyDtoHAsync", waits(Stream, ToPageable, Stream, Measured)),
    (
        "cuMemcpyAtoHAsync cuMemcpyAsync cuMemcpy2DAsync cuMemcpy3DAsync cuMemcpyBatchAsync \
         cuMemcpy3DBatchAsync",
        waits(Stream, ToPageable, Stream, Documented),
    ),
    ("cuMemcpyHtoDAsync", waits(Nothing, Always, Stream, Measured)),
    ("cuMemcpyHtoAAsync", waits(Nothing, Always, Stream, Documented)),
    ("cuMemcpyDtoDAsync", waits(Nothing, Always, Nothing, Measured)),
    (
        "cuMemcpyPeerAsync cuMemcpy3DPeerAsync cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async \
         cuMemsetD2D8Async cuMemsetD2D16Async cuMemsetD2D32Async cuMemPrefetchAsync \
         cuMemPrefetchBatchAsync",
        waits(Nothing, Always, Nothing, Documented),
    ),
    ("cuMemFree", waits(Context, NotPooled, Process, Measured)),
    ("cuMemFreeHost cuMemHostUnregister", waits(Context, Always, Process, Measured)),
    ("cuIpcCloseMemHandle", waits(Context, Last, Process, Measured)),
    ("cuModuleLoadData cuModuleUnload", waits(Context, Always, Context, Measured)),
    (
        "cuModuleLoad cuModuleLoadDataEx cuModuleLoadFatBinary cuModuleGetFunction cuModuleGetGlobal \
         cuLibraryLoadData cuLibraryLoadFromFile cuLibraryUnload cuLibraryGetModule cuLibraryGetGlobal \
         cuKernelGetFunction cuFuncLoad cuArrayDestroy cuMipmappedArrayDestroy cuCtxDestroy \
         cuDevicePrimaryCtxRelease cuDevicePrimaryCtxReset",
        waits(Nothing, Always, Process, Documented),
    ),
    ("cuMemAlloc cuMemHostAlloc cuMemHostRegister", waits(Nothing, Always, Context, Measured)),
    (
        "cuMemAllocHost cuMemAllocPitch cuMemAllocManaged cuArrayCreate cuArray3DCreate \
         cuMipmappedArrayCreate",
        waits(Nothing, Always, Context, Documented),
    ),
    (
        "cuMemUnmap cuMemRelease cuMemPoolTrimTo cuMemSetAccess cuMemMap cuMemCreate cuMemAddressReserve \
         cuIpcOpenMemHandle",
        waits(Nothing, Always, Context, Measured),
    ),
    (
        "cuStreamQuery cuEventQuery cuEventRecord cuEventDestroy cuStreamWaitEvent cuStreamCreate \
         cuStreamDestroy cuLaunchKernel cuMemAllocAsync cuMemFreeAsync cuMemExportToShareableHandle \
         cuIpcGetMemHandle cuPointerGetAttribute cuMemGetInfo cuDeviceCanAccessPeer",
        waits(Nothing, Always, Nothing, Measured),
    ),
    (
        "cuEventCreate cuEventRecordWithFlags cuEventElapsedTime cuStreamCreateWithPriority \
         cuLaunchKernelEx cuLaunchCooperativeKernel cuLaunchHostFunc cuStreamAddCallback cuGraphLaunch \
         cuGraphUpload cuGraphExecDestroy cuStreamWaitValue32 cuStreamWaitValue64 cuStreamWriteValue32 \
         cuStreamWriteValue64 cuStreamBatchMemOp cuMemAllocFromPoolAsync cuMemPoolDestroy \
         cuSignalExternalSemaphoresAsync cuWaitExternalSemaphoresAsync",
        waits(Nothing, Always, Nothing, Documented),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if a call of a measured case waits for pending work in a stream of a kind: non-blocking,
    /// blocking, legacy.
    fn is_waiting(waits: Waits, case: &str, pending: usize) -> bool {
        let holds = match waits.when {
            Always | Last => true,
            HostMemory => !case.contains("device"),
            ToPageable => !case.contains("pinned"),
            FillsHost => case.contains("host"),
            NotPooled => !case.contains("pool"),
        };
        holds
            && match waits.scope {
                Nothing => false,
                Stream | Event if case.contains("other stream") => false,
                Default => pending > 0,
                Stream if case.contains("legacy") => pending > 0,
                Stream | Event | WaitScope::Thread | Context | Process => true,
            }
    }

    #[test]
    fn calls_wait_as_was_measured() {
        let rows = include_str!("../../tests/data/waits-580.159.04.tsv");
        let rows = rows.lines().filter(|row| !row.starts_with('#'));
        let mut names = Vec::new();
        for row in rows {
            let cells: Vec<&str> = row.split('\t').collect();
            let [call, case, waits] = cells[..] else { panic!("{row}") };
            let known = waits_of(call).unwrap_or_else(|| panic!("{call}"));
            for (pending, measured) in waits.split(' ').enumerate() {
                assert_eq!(is_waiting(known, case, pending), measured == "waits", "{row}");
            }
            assert!(known.source == Measured || !is_waiting(known, case, 2), "{row}");
            names.push(call);
        }
        for (symbols, _) in TABLE.iter().filter(|(_, waits)| waits.source == Measured) {
            symbols.split_whitespace().for_each(|name| assert!(names.contains(&name), "{name}"));
        }
    }

    #[test]
    fn all_symbols_of_a_function_are_found() {
        for symbol in ["cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz"] {
            assert_eq!(waits_of(symbol).map(|waits| waits.when), Some(ToPageable));
        }
        assert_eq!(waits_of("cuMemcpyHtoD_v2_ptds").map(|waits| waits.scope), Some(WaitScope::Thread));
        assert_eq!(waits_of("cuInit"), None);
    }

    /// A scope as the page has it.
    fn scope(scope: WaitScope) -> &'static str {
        match scope {
            Nothing => "nothing",
            Stream => "earlier work in the stream",
            Event => "the work before the event's last record",
            Default => "work in the legacy default stream, and in all blocking streams of the context",
            WaitScope::Thread => "work in the default stream of the thread",
            Context => "work in all streams of the context",
            Process => "work in all contexts of the process",
        }
    }

    fn condition(when: WaitCondition) -> &'static str {
        match when {
            Always => "",
            HostMemory => ", if the source or destination is host memory",
            ToPageable => ", if the destination is pageable host memory",
            FillsHost => ", if the memory is pinned host memory or managed memory",
            NotPooled => ", if the memory is not from a pool",
            Last => ", if no other reference remains",
        }
    }

    fn page() -> String {
        let mut page = String::from(PAGE);
        for (names, waits) in TABLE {
            let names: Vec<String> = names.split_whitespace().map(|name| format!("`{name}`")).collect();
            let least = format!("{}{}", scope(waits.scope), condition(waits.when));
            let most = if waits.perhaps == waits.scope { "the same" } else { scope(waits.perhaps) };
            let source = if waits.source == Measured { "measured" } else { "documented" };
            page += &format!("| {} | {least} | {most} | {source} |\n", names.join(", "));
        }
        page
    }

    const PAGE: &str = "<!-- Generated by scripts/docs from src/spec/waits.rs. Do not edit. -->
# Calls that wait for pending work

Work in a stream runs after its call returns. Some calls wait for pending work before they return; after them, the host can rely on its \
results. The table lists the work that each call waits for.

- **waits for**: the least. A correct program relies on nothing more. \
[Late devices](../guides/simulator.md#find-missing-waits-with-late-devices) show the programs that do.
- **may wait for**: the most that the documentation allows, or that other drivers may do. Findings about order allow for it.
- **source**: *measured* on one NVIDIA H200 with driver 580.159.04, or *documented*: \"API synchronization behavior\" in the CUDA driver \
API, and \"Implicit synchronization\" in the CUDA programming guide.

Names include their versions: `cuMemFree` is also `cuMemFree_v2`. With a per-thread default stream (`_ptds`), the default stream of the \
thread replaces the legacy default stream. The default stream of a context runs after all earlier work in its blocking streams. A call \
that waits for the default stream therefore waits for them. It does not wait for streams created with `CU_STREAM_NON_BLOCKING`.

Two calls report finished work without waiting: after `cuStreamQuery` or `cuEventQuery` returns `CUDA_SUCCESS`, the work is complete.

A blocking copy from pageable host memory returns when the bytes are staged; earlier work in the default stream is then complete, but the \
last part of the copy itself may be pending. With `CUDA_LAUNCH_BLOCKING=1`, every launch waits, too. The first use of a kernel may wait \
for its context while the driver loads the kernel.

| call | waits for | may wait for | source |
| --- | --- | --- | --- |
";

    #[test]
    fn page_of_waits_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/waits.md");
        let made = page();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &made).expect("the page is writable");
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == made, "docs/reference/waits.md is stale: run scripts/docs");
    }
}
