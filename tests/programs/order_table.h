/* The functions that put the work of streams in order, in rows as table.h has them; but for one that has no argument to carry a mark. */
#ifndef ORDER_TABLE_H
#define ORDER_TABLE_H

#define ORDER_TABLE(X) \
    X(cuStreamSynchronize, (CUstream s), (s), ((void *)(uintptr_t)m), (uintptr_t)s) \
    X(cuStreamSynchronize_ptsz, (CUstream s), (s), ((void *)(uintptr_t)m), (uintptr_t)s) \
    X(cuStreamQuery, (CUstream s), (s), ((void *)(uintptr_t)m), (uintptr_t)s) \
    X(cuStreamQuery_ptsz, (CUstream s), (s), ((void *)(uintptr_t)m), (uintptr_t)s) \
    X(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned f), (s, e, f), (NULL, (void *)(uintptr_t)m, m), (uintptr_t)e) \
    X(cuStreamWaitEvent_ptsz, (CUstream s, CUevent e, unsigned f), (s, e, f), (NULL, (void *)(uintptr_t)m, m), (uintptr_t)e) \
    X(cuStreamDestroy, (CUstream s), (s), ((void *)(uintptr_t)m), (uintptr_t)s) \
    X(cuStreamDestroy_v2, (CUstream s), (s), ((void *)(uintptr_t)m), (uintptr_t)s) \
    X(cuEventSynchronize, (CUevent e), (e), ((void *)(uintptr_t)m), (uintptr_t)e) \
    X(cuEventQuery, (CUevent e), (e), ((void *)(uintptr_t)m), (uintptr_t)e) \
    X(cuCtxSynchronize_v2, (CUcontext c), (c), ((void *)(uintptr_t)m), (uintptr_t)c) \
    X(cuStreamWaitValue32_v2, (CUstream s, CUdeviceptr at, unsigned value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWaitValue32_v2_ptsz, (CUstream s, CUdeviceptr at, unsigned value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWriteValue32_v2, (CUstream s, CUdeviceptr at, unsigned value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWriteValue32_v2_ptsz, (CUstream s, CUdeviceptr at, unsigned value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWaitValue64_v2, (CUstream s, CUdeviceptr at, uint64_t value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWaitValue64_v2_ptsz, (CUstream s, CUdeviceptr at, uint64_t value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWriteValue64_v2, (CUstream s, CUdeviceptr at, uint64_t value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWriteValue64_v2_ptsz, (CUstream s, CUdeviceptr at, uint64_t value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamBatchMemOp_v2, (CUstream s, unsigned n, void *ops, unsigned f), (s, n, ops, f), ((void *)(uintptr_t)m, 0, NULL, 0), (uintptr_t)s) \
    X(cuStreamBatchMemOp_v2_ptsz, (CUstream s, unsigned n, void *ops, unsigned f), (s, n, ops, f), ((void *)(uintptr_t)m, 0, NULL, 0), (uintptr_t)s) \
    X(cuStreamWaitValue32, (CUstream s, CUdeviceptr at, unsigned value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWaitValue32_ptsz, (CUstream s, CUdeviceptr at, unsigned value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWriteValue32, (CUstream s, CUdeviceptr at, unsigned value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWriteValue32_ptsz, (CUstream s, CUdeviceptr at, unsigned value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWaitValue64, (CUstream s, CUdeviceptr at, uint64_t value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWaitValue64_ptsz, (CUstream s, CUdeviceptr at, uint64_t value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWriteValue64, (CUstream s, CUdeviceptr at, uint64_t value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamWriteValue64_ptsz, (CUstream s, CUdeviceptr at, uint64_t value, unsigned f), (s, at, value, f), (NULL, m, 1, 0), at) \
    X(cuStreamBatchMemOp, (CUstream s, unsigned n, void *ops, unsigned f), (s, n, ops, f), ((void *)(uintptr_t)m, 0, NULL, 0), (uintptr_t)s) \
    X(cuStreamBatchMemOp_ptsz, (CUstream s, unsigned n, void *ops, unsigned f), (s, n, ops, f), ((void *)(uintptr_t)m, 0, NULL, 0), (uintptr_t)s) \
    X(cuLaunchHostFunc, (CUstream s, void *host, void *data), (s, host, data), (NULL, (void *)(uintptr_t)m, NULL), (uintptr_t)host) \
    X(cuLaunchHostFunc_ptsz, (CUstream s, void *host, void *data), (s, host, data), (NULL, (void *)(uintptr_t)m, NULL), (uintptr_t)host) \
    X(cuStreamAddCallback, (CUstream s, void *host, void *data, unsigned f), (s, host, data, f), (NULL, (void *)(uintptr_t)m, NULL, 0), (uintptr_t)host) \
    X(cuStreamAddCallback_ptsz, (CUstream s, void *host, void *data, unsigned f), (s, host, data, f), (NULL, (void *)(uintptr_t)m, NULL, 0), (uintptr_t)host)

/* As in graphs_table.h. */
#define ORDER_ENTRIES(E) \
    E(cuStreamSynchronize, 2000, cuStreamSynchronize, cuStreamSynchronize_ptsz) \
    E(cuStreamQuery, 2000, cuStreamQuery, cuStreamQuery_ptsz) \
    E(cuStreamWaitEvent, 3020, cuStreamWaitEvent, cuStreamWaitEvent_ptsz) \
    E(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz) \
    E(cuStreamWriteValue32, 11070, cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz) \
    E(cuStreamWaitValue64, 11070, cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz) \
    E(cuStreamWriteValue64, 11070, cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz) \
    E(cuStreamBatchMemOp, 11070, cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz) \
    E(cuStreamWaitValue32, 8000, cuStreamWaitValue32, cuStreamWaitValue32_ptsz) \
    E(cuStreamWriteValue32, 8000, cuStreamWriteValue32, cuStreamWriteValue32_ptsz) \
    E(cuStreamWaitValue64, 9000, cuStreamWaitValue64, cuStreamWaitValue64_ptsz) \
    E(cuStreamWriteValue64, 9000, cuStreamWriteValue64, cuStreamWriteValue64_ptsz) \
    E(cuStreamBatchMemOp, 8000, cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz) \
    E(cuLaunchHostFunc, 10000, cuLaunchHostFunc, cuLaunchHostFunc_ptsz) \
    E(cuStreamAddCallback, 5000, cuStreamAddCallback, cuStreamAddCallback_ptsz)
#define ORDER_PLAIN_ENTRIES(E) \
    E(cuStreamDestroy, 4000, cuStreamDestroy_v2) \
    E(cuStreamDestroy, 2000, cuStreamDestroy) \
    E(cuEventSynchronize, 2000, cuEventSynchronize) \
    E(cuEventQuery, 2000, cuEventQuery) \
    E(cuCtxSynchronize, 13000, cuCtxSynchronize_v2)

#define OUTPUT_cuStreamSynchronize
#define OUTPUT_cuStreamSynchronize_ptsz
#define OUTPUT_cuStreamQuery
#define OUTPUT_cuStreamQuery_ptsz
#define OUTPUT_cuStreamWaitEvent
#define OUTPUT_cuStreamWaitEvent_ptsz
#define OUTPUT_cuStreamDestroy
#define OUTPUT_cuStreamDestroy_v2
#define OUTPUT_cuEventSynchronize
#define OUTPUT_cuEventQuery
#define OUTPUT_cuCtxSynchronize_v2
#define OUTPUT_cuStreamWaitValue32_v2
#define OUTPUT_cuStreamWaitValue32_v2_ptsz
#define OUTPUT_cuStreamWriteValue32_v2
#define OUTPUT_cuStreamWriteValue32_v2_ptsz
#define OUTPUT_cuStreamWaitValue64_v2
#define OUTPUT_cuStreamWaitValue64_v2_ptsz
#define OUTPUT_cuStreamWriteValue64_v2
#define OUTPUT_cuStreamWriteValue64_v2_ptsz
#define OUTPUT_cuStreamBatchMemOp_v2
#define OUTPUT_cuStreamBatchMemOp_v2_ptsz
#define OUTPUT_cuStreamWaitValue32
#define OUTPUT_cuStreamWaitValue32_ptsz
#define OUTPUT_cuStreamWriteValue32
#define OUTPUT_cuStreamWriteValue32_ptsz
#define OUTPUT_cuStreamWaitValue64
#define OUTPUT_cuStreamWaitValue64_ptsz
#define OUTPUT_cuStreamWriteValue64
#define OUTPUT_cuStreamWriteValue64_ptsz
#define OUTPUT_cuStreamBatchMemOp
#define OUTPUT_cuStreamBatchMemOp_ptsz
#define OUTPUT_cuLaunchHostFunc
#define OUTPUT_cuLaunchHostFunc_ptsz
#define OUTPUT_cuStreamAddCallback
#define OUTPUT_cuStreamAddCallback_ptsz
#endif
