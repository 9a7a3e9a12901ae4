//! Rules about the order of work that different streams and processes do in shared memory.

macro_rules! order_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule AccessNotOrdered "access-not-ordered" {
    says: "Work in shared memory must be complete, or be waited for by an event, before work of another stream or process uses the same bytes.",
    functions: [cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds,
                cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, cuMemcpyDtoDAsync_v2,
                cuMemcpyDtoDAsync_v2_ptsz, cuMemcpy, cuMemcpy_ptds, cuMemcpyAsync, cuMemcpyAsync_ptsz, cuMemcpyPeer, cuMemcpyPeer_ptds,
                cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz, cuMemsetD8_v2, cuMemsetD8_v2_ptds, cuMemsetD8Async, cuMemsetD8Async_ptsz,
                cuMemsetD16_v2, cuMemsetD16_v2_ptds, cuMemsetD16Async, cuMemsetD16Async_ptsz, cuMemsetD32_v2, cuMemsetD32_v2_ptds,
                cuMemsetD32Async, cuMemsetD32Async_ptsz,
                cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DUnaligned_v2,
                cuMemcpy2DUnaligned_v2_ptds, cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz,
                cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, cuMemcpyBatchAsync,
                cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz, cuMemcpy3DBatchAsync,
                cuMemcpy3DBatchAsync_ptsz, cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz, cuMemsetD2D8_v2,
                cuMemsetD2D8_v2_ptds, cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds,
                cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz, cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, cuMemsetD2D32Async,
                cuMemsetD2D32Async_ptsz,
                cuMemFree, cuMemFree_v2, cuMemFreeAsync, cuMemFreeAsync_ptsz, cuMemUnmap,
                cuGraphLaunch, cuGraphLaunch_ptsz],
    reasons: [AccessNotOrdered { text: &'a str }: ("{text}")],
    severity: Warning, scope: Processes, found: InRecordings, tells: [],
    rests_on: Documented("cuStreamSynchronize", "Waits until the device has completed all operations in the stream specified by hStream."),
    costs: "No call fails. The later work reads old or partly written bytes, or its bytes are overwritten: rarely on one machine, often on another.",
    hint: "Before the first process tells the other one to go on, call cuStreamSynchronize. Or create an interprocess event, call cuEventRecord after the first call, and let the other process call cuStreamWaitEvent before the second one. If a kernel or a host function tells the other process, ignore this.",
    labels: [used: "first used"],
    seen: "ms-swift#10204, numba-cuda#859, LMCache#4640, mstar#66, vllm#39306",
}
rule OverwrittenUnread "overwritten-unread" {
    says: "A process should not overwrite what another process wrote before somebody has read it.",
    functions: [cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds,
                cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz, cuMemcpy, cuMemcpy_ptds, cuMemcpyAsync, cuMemcpyAsync_ptsz, cuMemcpyPeer,
                cuMemcpyPeer_ptds, cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz, cuMemsetD8_v2, cuMemsetD8_v2_ptds, cuMemsetD8Async,
                cuMemsetD8Async_ptsz, cuMemsetD16_v2, cuMemsetD16_v2_ptds, cuMemsetD16Async, cuMemsetD16Async_ptsz, cuMemsetD32_v2,
                cuMemsetD32_v2_ptds, cuMemsetD32Async, cuMemsetD32Async_ptsz,
                cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DUnaligned_v2,
                cuMemcpy2DUnaligned_v2_ptds, cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz,
                cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, cuMemcpyBatchAsync,
                cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz, cuMemcpy3DBatchAsync,
                cuMemcpy3DBatchAsync_ptsz, cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz, cuMemsetD2D8_v2,
                cuMemsetD2D8_v2_ptds, cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds,
                cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz, cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, cuMemsetD2D32Async,
                cuMemsetD2D32Async_ptsz, cuGraphLaunch, cuGraphLaunch_ptsz],
    reasons: [OverwrittenUnread { text: &'a str }: ("{text}")],
    severity: Note, scope: Processes, found: InRecordings, tells: [],
    rests_on: Practice("A process that clears its own flag erases a signal that came before. Both processes then wait for each other."),
    costs: "The bytes are lost. If they are a signal, its receiver waits forever.",
    hint: "Clear a flag before the other process can signal: put a barrier between. Or count up in place of clearing. If several processes read a message, wait for each of them before the next one. If a kernel reads the bytes, ignore this.",
    labels: [used: "first written"],
    seen: "nvshmem#98, pytorch#196546, ms-swift#10204",
}
    } };
}
