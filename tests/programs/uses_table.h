/* The functions that use memory and share nothing, in rows as table.h has them: copies to and from the host, copies of rows,
 * memsets, launches, records of events, and new contexts. */
#ifndef USES_TABLE_H
#define USES_TABLE_H

/* CUDA_MEMCPY2D and CUDA_MEMCPY3D: a copy of one byte from the mark to the host. */
struct rows_2d {
    size_t source[2];
    int source_type;
    uint64_t source_host, source_device, source_array, source_pitch;
    uint64_t target[7], width, height;
};
struct rows_3d {
    size_t source[4];
    int source_type;
    uint64_t source_host, source_device, source_rest[4];
    uint64_t target[11], width, height, depth;
};
enum { OF_DEVICE = 2 };
static inline const void *rows_2d(unsigned m) {
    static __thread struct rows_2d rows;
    rows = (struct rows_2d){.source_type = OF_DEVICE, .source_device = m, .width = 1, .height = 1};
    return &rows;
}
static inline const void *rows_3d(unsigned m) {
    static __thread struct rows_3d rows;
    rows = (struct rows_3d){.source_type = OF_DEVICE, .source_device = m, .width = 1, .height = 1, .depth = 1};
    return &rows;
}
#define mark_of_rows_2d(copy) ((copy) ? ((const struct rows_2d *)(copy))->source_device : 99999)
#define mark_of_rows_3d(copy) ((copy) ? ((const struct rows_3d *)(copy))->source_device : 99999)

/* CUmemLocation. */
struct place { int type, id; };
#define first_device ((struct place){1, 0})

#define USES_TABLE(X)                                                                                      \
    X(cuMemcpyHtoD_v2, (CUdeviceptr dst, void *src, size_t n), (dst, src, n), (m, o, 1), dst)              \
    X(cuMemcpyHtoD_v2_ptds, (CUdeviceptr dst, void *src, size_t n), (dst, src, n), (m, o, 1), dst)         \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, void *src, size_t n, CUstream s),                            \
      (dst, src, n, s), (m, o, 1, NULL), dst)                                                              \
    X(cuMemcpyHtoDAsync_v2_ptsz, (CUdeviceptr dst, void *src, size_t n, CUstream s),                       \
      (dst, src, n, s), (m, o, 1, NULL), dst)                                                              \
    X(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t n), (dst, src, n), (o, m, 1), src)              \
    X(cuMemcpyDtoH_v2_ptds, (void *dst, CUdeviceptr src, size_t n), (dst, src, n), (o, m, 1), src)         \
    X(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t n, CUstream s),                            \
      (dst, src, n, s), (o, m, 1, NULL), src)                                                              \
    X(cuMemcpyDtoHAsync_v2_ptsz, (void *dst, CUdeviceptr src, size_t n, CUstream s),                       \
      (dst, src, n, s), (o, m, 1, NULL), src)                                                              \
    X(cuMemsetD8_v2, (CUdeviceptr dst, unsigned char v, size_t n), (dst, v, n), (m, 1, 1), dst)            \
    X(cuMemsetD8_v2_ptds, (CUdeviceptr dst, unsigned char v, size_t n), (dst, v, n), (m, 1, 1), dst)       \
    X(cuMemsetD8Async, (CUdeviceptr dst, unsigned char v, size_t n, CUstream s),                           \
      (dst, v, n, s), (m, 1, 1, NULL), dst)                                                                \
    X(cuMemsetD8Async_ptsz, (CUdeviceptr dst, unsigned char v, size_t n, CUstream s),                      \
      (dst, v, n, s), (m, 1, 1, NULL), dst)                                                                \
    X(cuMemsetD2D8_v2, (CUdeviceptr dst, size_t pitch, unsigned char v, size_t width, size_t height),      \
      (dst, pitch, v, width, height), (m, 1, 1, 1, 1), dst)                                                \
    X(cuMemsetD2D8_v2_ptds, (CUdeviceptr dst, size_t pitch, unsigned char v, size_t width, size_t height), \
      (dst, pitch, v, width, height), (m, 1, 1, 1, 1), dst)                                                \
    X(cuMemsetD2D8Async, (CUdeviceptr dst, size_t pitch, unsigned char v, size_t width, size_t height, CUstream s), \
      (dst, pitch, v, width, height, s), (m, 1, 1, 1, 1, NULL), dst)                                       \
    X(cuMemsetD2D8Async_ptsz, (CUdeviceptr dst, size_t pitch, unsigned char v, size_t width, size_t height, CUstream s), \
      (dst, pitch, v, width, height, s), (m, 1, 1, 1, 1, NULL), dst)                                       \
    X(cuMemsetD16_v2, (CUdeviceptr dst, unsigned short v, size_t n), (dst, v, n), (m, 1, 1), dst)          \
    X(cuMemsetD16_v2_ptds, (CUdeviceptr dst, unsigned short v, size_t n), (dst, v, n), (m, 1, 1), dst)     \
    X(cuMemsetD16Async, (CUdeviceptr dst, unsigned short v, size_t n, CUstream s),                         \
      (dst, v, n, s), (m, 1, 1, NULL), dst)                                                                \
    X(cuMemsetD16Async_ptsz, (CUdeviceptr dst, unsigned short v, size_t n, CUstream s),                    \
      (dst, v, n, s), (m, 1, 1, NULL), dst)                                                                \
    X(cuMemsetD2D16_v2, (CUdeviceptr dst, size_t pitch, unsigned short v, size_t width, size_t height),    \
      (dst, pitch, v, width, height), (m, 1, 1, 1, 1), dst)                                                \
    X(cuMemsetD2D16_v2_ptds, (CUdeviceptr dst, size_t pitch, unsigned short v, size_t width, size_t height), \
      (dst, pitch, v, width, height), (m, 1, 1, 1, 1), dst)                                                \
    X(cuMemsetD2D16Async, (CUdeviceptr dst, size_t pitch, unsigned short v, size_t width, size_t height, CUstream s), \
      (dst, pitch, v, width, height, s), (m, 1, 1, 1, 1, NULL), dst)                                       \
    X(cuMemsetD2D16Async_ptsz, (CUdeviceptr dst, size_t pitch, unsigned short v, size_t width, size_t height, CUstream s), \
      (dst, pitch, v, width, height, s), (m, 1, 1, 1, 1, NULL), dst)                                       \
    X(cuMemsetD32_v2, (CUdeviceptr dst, unsigned v, size_t n), (dst, v, n), (m, 1, 1), dst)                \
    X(cuMemsetD32_v2_ptds, (CUdeviceptr dst, unsigned v, size_t n), (dst, v, n), (m, 1, 1), dst)           \
    X(cuMemsetD32Async, (CUdeviceptr dst, unsigned v, size_t n, CUstream s),                               \
      (dst, v, n, s), (m, 1, 1, NULL), dst)                                                                \
    X(cuMemsetD32Async_ptsz, (CUdeviceptr dst, unsigned v, size_t n, CUstream s),                          \
      (dst, v, n, s), (m, 1, 1, NULL), dst)                                                                \
    X(cuMemsetD2D32_v2, (CUdeviceptr dst, size_t pitch, unsigned v, size_t width, size_t height),          \
      (dst, pitch, v, width, height), (m, 1, 1, 1, 1), dst)                                                \
    X(cuMemsetD2D32_v2_ptds, (CUdeviceptr dst, size_t pitch, unsigned v, size_t width, size_t height),     \
      (dst, pitch, v, width, height), (m, 1, 1, 1, 1), dst)                                                \
    X(cuMemsetD2D32Async, (CUdeviceptr dst, size_t pitch, unsigned v, size_t width, size_t height, CUstream s), \
      (dst, pitch, v, width, height, s), (m, 1, 1, 1, 1, NULL), dst)                                       \
    X(cuMemsetD2D32Async_ptsz, (CUdeviceptr dst, size_t pitch, unsigned v, size_t width, size_t height, CUstream s), \
      (dst, pitch, v, width, height, s), (m, 1, 1, 1, 1, NULL), dst)                                       \
    X(cuMemcpy2D_v2, (const void *copy), (copy), (rows_2d(m)), mark_of_rows_2d(copy))                      \
    X(cuMemcpy2D_v2_ptds, (const void *copy), (copy), (rows_2d(m)), mark_of_rows_2d(copy))                 \
    X(cuMemcpy2DAsync_v2, (const void *copy, CUstream s),                                                  \
      (copy, s), (rows_2d(m), NULL), mark_of_rows_2d(copy))                                                \
    X(cuMemcpy2DAsync_v2_ptsz, (const void *copy, CUstream s),                                             \
      (copy, s), (rows_2d(m), NULL), mark_of_rows_2d(copy))                                                \
    X(cuMemcpy2DUnaligned_v2, (const void *copy), (copy), (rows_2d(m)), mark_of_rows_2d(copy))             \
    X(cuMemcpy2DUnaligned_v2_ptds, (const void *copy), (copy), (rows_2d(m)), mark_of_rows_2d(copy))        \
    X(cuMemcpy3D_v2, (const void *copy), (copy), (rows_3d(m)), mark_of_rows_3d(copy))                      \
    X(cuMemcpy3D_v2_ptds, (const void *copy), (copy), (rows_3d(m)), mark_of_rows_3d(copy))                 \
    X(cuMemcpy3DAsync_v2, (const void *copy, CUstream s),                                                  \
      (copy, s), (rows_3d(m), NULL), mark_of_rows_3d(copy))                                                \
    X(cuMemcpy3DAsync_v2_ptsz, (const void *copy, CUstream s),                                             \
      (copy, s), (rows_3d(m), NULL), mark_of_rows_3d(copy))                                                \
    X(cuMemcpy3DPeer, (const void *copy), (copy), (rows_3d(m)), mark_of_rows_3d(copy))                     \
    X(cuMemcpy3DPeer_ptds, (const void *copy), (copy), (rows_3d(m)), mark_of_rows_3d(copy))                \
    X(cuMemcpy3DPeerAsync, (const void *copy, CUstream s),                                                 \
      (copy, s), (rows_3d(m), NULL), mark_of_rows_3d(copy))                                                \
    X(cuMemcpy3DPeerAsync_ptsz, (const void *copy, CUstream s),                                            \
      (copy, s), (rows_3d(m), NULL), mark_of_rows_3d(copy))                                                \
    X(cuMemcpyBatchAsync,                                                                                  \
      (void *dsts, void *srcs, void *sizes, size_t n, void *attrs, const size_t *indexes, size_t of, size_t *failed, CUstream s), \
      (dsts, srcs, sizes, n, attrs, indexes, of, failed, s),                                               \
      ((void *)(uintptr_t)m, o, o, 1, o, NULL, 0, NULL, NULL), (uintptr_t)dsts)                            \
    X(cuMemcpyBatchAsync_ptsz,                                                                             \
      (void *dsts, void *srcs, void *sizes, size_t n, void *attrs, const size_t *indexes, size_t of, size_t *failed, CUstream s), \
      (dsts, srcs, sizes, n, attrs, indexes, of, failed, s),                                               \
      ((void *)(uintptr_t)m, o, o, 1, o, NULL, 0, NULL, NULL), (uintptr_t)dsts)                            \
    X(cuMemcpyBatchAsync_v2,                                                                               \
      (void *dsts, void *srcs, void *sizes, size_t n, void *attrs, const size_t *indexes, size_t of, CUstream s), \
      (dsts, srcs, sizes, n, attrs, indexes, of, s),                                                       \
      ((void *)(uintptr_t)m, o, o, 1, o, NULL, 0, NULL), (uintptr_t)dsts)                                  \
    X(cuMemcpyBatchAsync_v2_ptsz,                                                                          \
      (void *dsts, void *srcs, void *sizes, size_t n, void *attrs, const size_t *indexes, size_t of, CUstream s), \
      (dsts, srcs, sizes, n, attrs, indexes, of, s),                                                       \
      ((void *)(uintptr_t)m, o, o, 1, o, NULL, 0, NULL), (uintptr_t)dsts)                                  \
    X(cuMemcpy3DBatchAsync, (size_t n, void *copies, void *failed, unsigned long long flags, CUstream s),  \
      (n, copies, failed, flags, s), (1, (void *)(uintptr_t)m, o, 0, NULL), (unsigned)(uintptr_t)copies)   \
    X(cuMemcpy3DBatchAsync_v2, (size_t n, void *copies, unsigned long long flags, CUstream s),             \
      (n, copies, flags, s), (1, (void *)(uintptr_t)m, 0, NULL), (unsigned)(uintptr_t)copies)              \
    X(cuMemcpy3DBatchAsync_ptsz, (size_t n, void *copies, void *failed, unsigned long long flags, CUstream s),\
      (n, copies, failed, flags, s), (1, (void *)(uintptr_t)m, o, 0, NULL), (unsigned)(uintptr_t)copies)   \
    X(cuMemcpy3DBatchAsync_v2_ptsz, (size_t n, void *copies, unsigned long long flags, CUstream s),        \
      (n, copies, flags, s), (1, (void *)(uintptr_t)m, 0, NULL), (unsigned)(uintptr_t)copies)              \
    X(cuMemcpyDtoA_v2, (void *array, size_t at, CUdeviceptr src, size_t n),                                \
      (array, at, src, n), (o, 0, m, 1), src)                                                              \
    X(cuMemcpyAtoD_v2, (CUdeviceptr dst, void *array, size_t at, size_t n),                                \
      (dst, array, at, n), (m, o, 0, 1), dst)                                                              \
    X(cuMemcpyDtoA_v2_ptds, (void *array, size_t at, CUdeviceptr src, size_t n),                           \
      (array, at, src, n), (o, 0, m, 1), src)                                                              \
    X(cuMemcpyAtoD_v2_ptds, (CUdeviceptr dst, void *array, size_t at, size_t n),                           \
      (dst, array, at, n), (m, o, 0, 1), dst)                                                              \
    X(cuMemPrefetchAsync, (CUdeviceptr at, size_t n, int device, CUstream s),                              \
      (at, n, device, s), (m, 1, 0, NULL), at)                                                             \
    X(cuMemPrefetchAsync_v2, (CUdeviceptr at, size_t n, struct place place, unsigned flags, CUstream s),   \
      (at, n, place, flags, s), (m, 1, first_device, 0, NULL), at)                                         \
    X(cuMemPrefetchAsync_ptsz, (CUdeviceptr at, size_t n, int device, CUstream s),                         \
      (at, n, device, s), (m, 1, 0, NULL), at)                                                             \
    X(cuMemPrefetchAsync_v2_ptsz, (CUdeviceptr at, size_t n, struct place place, unsigned flags, CUstream s),\
      (at, n, place, flags, s), (m, 1, first_device, 0, NULL), at)                                         \
    X(cuLaunchKernel,                                                                                      \
      (void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void *params, void *extra), \
      (f, gx, gy, gz, bx, by, bz, shared, s, params, extra),                                               \
      ((void *)(uintptr_t)m, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), (uintptr_t)f)                         \
    X(cuLaunchKernel_ptsz,                                                                                 \
      (void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void *params, void *extra), \
      (f, gx, gy, gz, bx, by, bz, shared, s, params, extra),                                               \
      ((void *)(uintptr_t)m, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), (uintptr_t)f)                         \
    X(cuLaunchCooperativeKernel,                                                                           \
      (void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void *params), \
      (f, gx, gy, gz, bx, by, bz, shared, s, params),                                                      \
      ((void *)(uintptr_t)m, 1, 1, 1, 1, 1, 1, 0, NULL, NULL), (uintptr_t)f)                               \
    X(cuLaunchCooperativeKernel_ptsz,                                                                      \
      (void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void *params), \
      (f, gx, gy, gz, bx, by, bz, shared, s, params),                                                      \
      ((void *)(uintptr_t)m, 1, 1, 1, 1, 1, 1, 0, NULL, NULL), (uintptr_t)f)                               \
    X(cuLaunchKernelEx,                                                                                    \
      (const void *config, void *f, void *params, void *extra),                                            \
      (config, f, params, extra),                                                                          \
      (NULL, (void *)(uintptr_t)m, NULL, NULL), (uintptr_t)f)                                              \
    X(cuLaunchKernelEx_ptsz,                                                                               \
      (const void *config, void *f, void *params, void *extra),                                            \
      (config, f, params, extra),                                                                          \
      (NULL, (void *)(uintptr_t)m, NULL, NULL), (uintptr_t)f)                                              \
    X(cuEventRecord, (CUevent e, CUstream s), (e, s), ((CUevent)(uintptr_t)m, NULL), (uintptr_t)e)         \
    X(cuEventRecord_ptsz, (CUevent e, CUstream s), (e, s), ((CUevent)(uintptr_t)m, NULL), (uintptr_t)e)    \
    X(cuEventRecordWithFlags, (CUevent e, CUstream s, unsigned f), (e, s, f), ((CUevent)(uintptr_t)m, NULL, 0), (uintptr_t)e) \
    X(cuEventRecordWithFlags_ptsz, (CUevent e, CUstream s, unsigned f), (e, s, f), ((CUevent)(uintptr_t)m, NULL, 0), (uintptr_t)e) \
    X(cuDevicePrimaryCtxRetain, (CUcontext *pctx, CUdevice dev), (pctx, dev), ((CUcontext *)&o->handle, (CUdevice)m), dev) \
    X(cuCtxCreate_v2, (CUcontext *pctx, unsigned f, CUdevice dev), (pctx, f, dev), ((CUcontext *)&o->handle, 0, (CUdevice)m), dev) \
    X(cuCtxCreate_v3, (CUcontext *pctx, void *params, int n, unsigned f, CUdevice dev), (pctx, params, n, f, dev), \
      ((CUcontext *)&o->handle, NULL, 0, 0, (CUdevice)m), dev)                                              \
    X(cuCtxCreate_v4, (CUcontext *pctx, void *params, unsigned f, CUdevice dev), (pctx, params, f, dev),     \
      ((CUcontext *)&o->handle, NULL, 0, (CUdevice)m), dev)                                                 \
    X(cuModuleGetFunction, (void **hfunc, void *hmod, const char *name), (hfunc, hmod, name), ((void **)&o->handle, (void *)(uintptr_t)m, "k"), (uintptr_t)hmod) \
    X(cuModuleEnumerateFunctions, (void **functions, unsigned numFunctions, void *hmod), (functions, numFunctions, hmod), ((void **)&o->handle, 1, (void *)(uintptr_t)m), (uintptr_t)hmod) \
    X(cuLibraryGetKernel, (void **pKernel, void *library, const char *name), (pKernel, library, name), ((void **)&o->handle, (void *)(uintptr_t)m, "k"), (uintptr_t)library) \
    X(cuLibraryEnumerateKernels, (void **kernels, unsigned numKernels, void *lib), (kernels, numKernels, lib), ((void **)&o->handle, 1, (void *)(uintptr_t)m), (uintptr_t)lib) \
    X(cuKernelGetFunction, (void **pFunc, void *kernel), (pFunc, kernel), ((void **)&o->handle, (void *)(uintptr_t)m), (uintptr_t)kernel) \
    X(cuModuleUnload, (void *hmod), (hmod), ((void *)(uintptr_t)m), (uintptr_t)hmod) \
    X(cuLibraryUnload, (void *library), (library), ((void *)(uintptr_t)m), (uintptr_t)library)

/* What look-ups find: each name, the first version, and both forms. */
#define USES_ENTRIES(E)                                                                                    \
    E(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds)                                           \
    E(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz)                            \
    E(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds)                                           \
    E(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz)                            \
    E(cuMemsetD8, 3020, cuMemsetD8_v2, cuMemsetD8_v2_ptds)                                                 \
    E(cuMemsetD8Async, 3020, cuMemsetD8Async, cuMemsetD8Async_ptsz)                                        \
    E(cuMemsetD2D8, 3020, cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds)                                           \
    E(cuMemsetD2D8Async, 3020, cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz)                                  \
    E(cuMemsetD16, 3020, cuMemsetD16_v2, cuMemsetD16_v2_ptds)                                              \
    E(cuMemsetD16Async, 3020, cuMemsetD16Async, cuMemsetD16Async_ptsz)                                     \
    E(cuMemsetD2D16, 3020, cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds)                                        \
    E(cuMemsetD2D16Async, 3020, cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz)                               \
    E(cuMemsetD32, 3020, cuMemsetD32_v2, cuMemsetD32_v2_ptds)                                              \
    E(cuMemsetD32Async, 3020, cuMemsetD32Async, cuMemsetD32Async_ptsz)                                     \
    E(cuMemsetD2D32, 3020, cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds)                                        \
    E(cuMemsetD2D32Async, 3020, cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz)                               \
    E(cuMemcpy2D, 3020, cuMemcpy2D_v2, cuMemcpy2D_v2_ptds)                                                 \
    E(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz)                                  \
    E(cuMemcpy2DUnaligned, 3020, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds)                      \
    E(cuMemcpy3D, 3020, cuMemcpy3D_v2, cuMemcpy3D_v2_ptds)                                                 \
    E(cuMemcpy3DAsync, 3020, cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz)                                  \
    E(cuMemcpy3DPeer, 4000, cuMemcpy3DPeer, cuMemcpy3DPeer_ptds)                                           \
    E(cuMemcpy3DPeerAsync, 4000, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz)                            \
    E(cuMemcpyBatchAsync, 13000, cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz)                        \
    E(cuMemcpyBatchAsync, 12080, cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz)                              \
    E(cuMemcpy3DBatchAsync, 13000, cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz)                  \
    E(cuMemcpy3DBatchAsync, 12080, cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz)                        \
    E(cuMemcpyDtoA, 3020, cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds)                                           \
    E(cuMemcpyAtoD, 3020, cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds)                                           \
    E(cuMemPrefetchAsync, 12020, cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz)                        \
    E(cuMemPrefetchAsync, 8000, cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz)                               \
    E(cuLaunchKernel, 4000, cuLaunchKernel, cuLaunchKernel_ptsz)                                           \
    E(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz)          \
    E(cuLaunchKernelEx, 11060, cuLaunchKernelEx, cuLaunchKernelEx_ptsz)                                    \
    E(cuEventRecord, 2000, cuEventRecord, cuEventRecord_ptsz)                                              \
    E(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz)

#define OUTPUT_cuMemcpyHtoD_v2
#define OUTPUT_cuMemcpyHtoD_v2_ptds
#define OUTPUT_cuMemcpyHtoDAsync_v2
#define OUTPUT_cuMemcpyHtoDAsync_v2_ptsz
#define OUTPUT_cuMemcpyDtoH_v2
#define OUTPUT_cuMemcpyDtoH_v2_ptds
#define OUTPUT_cuMemcpyDtoHAsync_v2
#define OUTPUT_cuMemcpyDtoHAsync_v2_ptsz
#define OUTPUT_cuMemsetD8_v2
#define OUTPUT_cuMemsetD8_v2_ptds
#define OUTPUT_cuMemsetD8Async
#define OUTPUT_cuMemsetD8Async_ptsz
#define OUTPUT_cuMemsetD2D8_v2
#define OUTPUT_cuMemsetD2D8_v2_ptds
#define OUTPUT_cuMemsetD2D8Async
#define OUTPUT_cuMemsetD2D8Async_ptsz
#define OUTPUT_cuMemsetD16_v2
#define OUTPUT_cuMemsetD16_v2_ptds
#define OUTPUT_cuMemsetD16Async
#define OUTPUT_cuMemsetD16Async_ptsz
#define OUTPUT_cuMemsetD2D16_v2
#define OUTPUT_cuMemsetD2D16_v2_ptds
#define OUTPUT_cuMemsetD2D16Async
#define OUTPUT_cuMemsetD2D16Async_ptsz
#define OUTPUT_cuMemsetD32_v2
#define OUTPUT_cuMemsetD32_v2_ptds
#define OUTPUT_cuMemsetD32Async
#define OUTPUT_cuMemsetD32Async_ptsz
#define OUTPUT_cuMemsetD2D32_v2
#define OUTPUT_cuMemsetD2D32_v2_ptds
#define OUTPUT_cuMemsetD2D32Async
#define OUTPUT_cuMemsetD2D32Async_ptsz
#define OUTPUT_cuMemcpy2D_v2
#define OUTPUT_cuMemcpy2D_v2_ptds
#define OUTPUT_cuMemcpy2DAsync_v2
#define OUTPUT_cuMemcpy2DAsync_v2_ptsz
#define OUTPUT_cuMemcpy2DUnaligned_v2
#define OUTPUT_cuMemcpy2DUnaligned_v2_ptds
#define OUTPUT_cuMemcpy3D_v2
#define OUTPUT_cuMemcpy3D_v2_ptds
#define OUTPUT_cuMemcpy3DAsync_v2
#define OUTPUT_cuMemcpy3DAsync_v2_ptsz
#define OUTPUT_cuMemcpy3DPeer
#define OUTPUT_cuMemcpy3DPeer_ptds
#define OUTPUT_cuMemcpy3DPeerAsync
#define OUTPUT_cuMemcpy3DPeerAsync_ptsz
#define OUTPUT_cuMemcpyBatchAsync
#define OUTPUT_cuMemcpyBatchAsync_ptsz
#define OUTPUT_cuMemcpyBatchAsync_v2
#define OUTPUT_cuMemcpyBatchAsync_v2_ptsz
#define OUTPUT_cuMemcpy3DBatchAsync
#define OUTPUT_cuMemcpy3DBatchAsync_ptsz
#define OUTPUT_cuMemcpy3DBatchAsync_v2
#define OUTPUT_cuMemcpy3DBatchAsync_v2_ptsz
#define OUTPUT_cuMemcpyDtoA_v2
#define OUTPUT_cuMemcpyDtoA_v2_ptds
#define OUTPUT_cuMemcpyAtoD_v2
#define OUTPUT_cuMemcpyAtoD_v2_ptds
#define OUTPUT_cuMemPrefetchAsync
#define OUTPUT_cuMemPrefetchAsync_ptsz
#define OUTPUT_cuMemPrefetchAsync_v2
#define OUTPUT_cuMemPrefetchAsync_v2_ptsz
#define OUTPUT_cuLaunchKernel
#define OUTPUT_cuLaunchKernel_ptsz
#define OUTPUT_cuLaunchCooperativeKernel
#define OUTPUT_cuLaunchCooperativeKernel_ptsz
#define OUTPUT_cuLaunchKernelEx
#define OUTPUT_cuLaunchKernelEx_ptsz
#define OUTPUT_cuEventRecord
#define OUTPUT_cuEventRecord_ptsz
#define OUTPUT_cuEventRecordWithFlags
#define OUTPUT_cuEventRecordWithFlags_ptsz
#define OUTPUT_cuDevicePrimaryCtxRetain OUT(pctx, (CUcontext)(uintptr_t)dev);
#define OUTPUT_cuCtxCreate_v2 OUT(pctx, (CUcontext)(uintptr_t)dev);
#define OUTPUT_cuCtxCreate_v3 OUT(pctx, (CUcontext)(uintptr_t)dev);
#define OUTPUT_cuCtxCreate_v4 OUT(pctx, (CUcontext)(uintptr_t)dev);
#define OUTPUT_cuModuleGetFunction OUT(hfunc, (void *)(uintptr_t)hmod);
#define OUTPUT_cuModuleEnumerateFunctions OUT(functions, (void *)(uintptr_t)hmod);
#define OUTPUT_cuLibraryGetKernel OUT(pKernel, (void *)(uintptr_t)library);
#define OUTPUT_cuLibraryEnumerateKernels OUT(kernels, (void *)(uintptr_t)lib);
#define OUTPUT_cuKernelGetFunction OUT(pFunc, (void *)(uintptr_t)kernel);
#define OUTPUT_cuModuleUnload
#define OUTPUT_cuLibraryUnload
#endif
