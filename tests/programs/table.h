/* The functions that cupeer intercepts, for the C side of the tests: the fake driver, the fake NVML, the wrappers
 * and the programs all derive from these tables. tests/ways_in.rs compares the lists with cupeer's own table, so that
 * they cannot go stale. What is built with -DNVML calls NVML's functions instead of the driver's.
 *
 * A row is X(name, parameters, forwarded arguments, marked arguments, mark, type of result). The marked
 * arguments carry `m`, a number that is different in every call of a program, and `mark` finds it again
 * from the parameters: so that a way in that is caught twice cannot hide another that is missed. */
#ifndef TABLE_H
#define TABLE_H
#include "nvml_table.h"
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext;
typedef void *CUevent;
typedef void *CUstream;
typedef struct {
    unsigned char reserved[64];
} CUipcMemHandle;
typedef struct {
    unsigned char reserved[64];
} CUipcEventHandle;

/* A handle that carries a mark: the number in the first four bytes, the rest follows from it. */
static inline CUipcMemHandle marked_handle(unsigned m) {
    CUipcMemHandle h;
    for (int i = 0; i < 64; i++) h.reserved[i] = i < 4 ? (unsigned char)(m >> 8 * i) : (unsigned char)(m + 37 * i);
    return h;
}
static inline CUipcEventHandle marked_event_handle(unsigned m) {
    CUipcMemHandle h = marked_handle(m);
    return *(CUipcEventHandle *)&h;
}
/* The mark of a handle, or 99999 where a byte was lost on the way. */
static inline unsigned mark_of_handle(const unsigned char *b) {
    unsigned m = b[0] | b[1] << 8 | b[2] << 16 | (unsigned)b[3] << 24;
    for (int i = 4; i < 64; i++)
        if (b[i] != (unsigned char)(m + 37 * i)) return 99999;
    return m;
}

/* Properties of a pool that carry a mark, as the most bytes that it gives out. */
struct pool_properties {
    int type, handles, location, device;
    void *windows;
    size_t most;
    unsigned char rest[56];
};
static inline const void *marked_properties(unsigned m) {
    static __thread struct pool_properties properties;
    properties.most = m;
    return &properties;
}
static inline unsigned mark_of_properties(const void *properties) {
    return properties ? (unsigned)((const struct pool_properties *)properties)->most : 99999;
}

/* CUmulticastObjectProp, whose size is the mark. */
typedef struct {
    unsigned devices;
    size_t size;
    unsigned long long types, flags;
} CUmulticastObjectProp;
static inline const CUmulticastObjectProp *team(unsigned m) {
    static __thread CUmulticastObjectProp wanted;
    wanted = (CUmulticastObjectProp){2, m, 1, 0};
    return &wanted;
}
static inline size_t mark_of_team(const void *prop) { return prop ? ((const CUmulticastObjectProp *)prop)->size : 0; }

/* What the marked calls write to: static, because threads and destructors call. */
struct outputs {
    union {
        nvmlPciInfo_t pci;
        nvmlPciInfo_v2_t pci_v2;
        nvmlGpuFabricInfo_t fabric;
        nvmlGpuFabricInfoV_t fabric_v;
        nvmlFieldValue_t fields[2];
    };
    int number;
    unsigned capabilities[2];
    CUdeviceptr pointer;
    size_t size;
    CUevent event;
    CUipcMemHandle handle;
    CUipcEventHandle event_handle;
    void *pool;
};

#include "graphs_table.h"
#include "order_table.h"
#include "uses_table.h"

#define DRIVER_TABLE(X)                                                                                        \
    USES_TABLE(X)                                                                                             \
    GRAPHS_TABLE(X)                                                                                           \
    ORDER_TABLE(X)                                                                                            \
    X(cuDeviceCanAccessPeer, (int *canAccessPeer, CUdevice dev, CUdevice peerDev),                            \
      (canAccessPeer, dev, peerDev), (&o->number, (int)m, 1), dev)                                            \
    X(cuDeviceGetP2PAttribute, (int *value, int attrib, CUdevice srcDevice, CUdevice dstDevice),              \
      (value, attrib, srcDevice, dstDevice), (&o->number, 2, (int)m, 1), srcDevice)                           \
    X(cuDeviceGetP2PAtomicCapabilities,                                                                       \
      (unsigned *capabilities, const int *operations, unsigned count, CUdevice srcDevice, CUdevice dstDevice), \
      (capabilities, operations, count, srcDevice, dstDevice),                                                \
      (o->capabilities, two_operations, 2, (int)m, 1), srcDevice)                                             \
    X(cuCtxEnablePeerAccess, (CUcontext peerContext, unsigned Flags), (peerContext, Flags),                   \
      ((CUcontext)(uintptr_t)m, 0), (uintptr_t)peerContext)                                                   \
    X(cuCtxDisablePeerAccess, (CUcontext peerContext), (peerContext), ((CUcontext)(uintptr_t)m),              \
      (uintptr_t)peerContext)                                                                                 \
    X(cuIpcGetMemHandle, (CUipcMemHandle * pHandle, CUdeviceptr dptr), (pHandle, dptr), (&o->handle, m), dptr) \
    X(cuIpcOpenMemHandle, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned Flags),                       \
      (pdptr, handle, Flags), (&o->pointer, marked_handle(m), m),                                             \
      mark_of_handle(handle.reserved) == Flags ? Flags : 99998)                                               \
    X(cuIpcOpenMemHandle_v2, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned Flags),                    \
      (pdptr, handle, Flags), (&o->pointer, marked_handle(m), m),                                             \
      mark_of_handle(handle.reserved) == Flags ? Flags : 99998)                                               \
    X(cuIpcCloseMemHandle, (CUdeviceptr dptr), (dptr), (m), dptr)                                             \
    X(cuIpcGetEventHandle, (CUipcEventHandle * pHandle, CUevent event), (pHandle, event),                     \
      (&o->event_handle, (CUevent)(uintptr_t)m), (uintptr_t)event)                                            \
    X(cuIpcOpenEventHandle, (CUevent * phEvent, CUipcEventHandle handle), (phEvent, handle),                  \
      (&o->event, marked_event_handle(m)), mark_of_handle(handle.reserved))                                   \
    X(cuMemFree, (unsigned dptr), (dptr), (m), dptr)                                                          \
    X(cuMemFree_v2, (CUdeviceptr dptr), (dptr), (m), dptr)                                                    \
    X(cuMemFreeAsync, (CUdeviceptr dptr, CUstream hStream), (dptr, hStream), (m, NULL), dptr)                 \
    X(cuMemFreeAsync_ptsz, (CUdeviceptr dptr, CUstream hStream), (dptr, hStream), (m, NULL), dptr)            \
    X(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t n), (dst, src, n), (1, m, 1), src)                  \
    X(cuMemcpy_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t n), (dst, src, n), (1, m, 1), src)             \
    X(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s),                                \
      (dst, src, n, s), (1, m, 1, NULL), src)                                                                 \
    X(cuMemcpyAsync_ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s),                           \
      (dst, src, n, s), (1, m, 1, NULL), src)                                                                 \
    X(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n), (dst, src, n), (1, m, 1), src)           \
    X(cuMemcpyDtoD_v2_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t n), (dst, src, n), (1, m, 1), src)      \
    X(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s),                         \
      (dst, src, n, s), (1, m, 1, NULL), src)                                                                 \
    X(cuMemcpyDtoDAsync_v2_ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s),                    \
      (dst, src, n, s), (1, m, 1, NULL), src)                                                                 \
    X(cuMemcpyPeer, (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n),               \
      (dst, to, src, from, n), (1, NULL, m, NULL, 1), src)                                                    \
    X(cuMemcpyPeer_ptds, (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n),          \
      (dst, to, src, from, n), (1, NULL, m, NULL, 1), src)                                                    \
    X(cuMemcpyPeerAsync, (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n, CUstream s), \
      (dst, to, src, from, n, s), (1, NULL, m, NULL, 1, NULL), src)                                           \
    X(cuMemcpyPeerAsync_ptsz, (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n, CUstream s), \
      (dst, to, src, from, n, s), (1, NULL, m, NULL, 1, NULL), src)                                           \
    X(cuEventDestroy, (CUevent hEvent), (hEvent), ((CUevent)(uintptr_t)m), (uintptr_t)hEvent)                 \
    X(cuEventDestroy_v2, (CUevent hEvent), (hEvent), ((CUevent)(uintptr_t)m), (uintptr_t)hEvent)              \
    X(cuCtxDestroy, (CUcontext ctx), (ctx), ((CUcontext)(uintptr_t)m), (uintptr_t)ctx)                        \
    X(cuCtxDestroy_v2, (CUcontext ctx), (ctx), ((CUcontext)(uintptr_t)m), (uintptr_t)ctx)                     \
    X(cuCtxDetach, (CUcontext ctx), (ctx), ((CUcontext)(uintptr_t)m), (uintptr_t)ctx)                         \
    X(cuDevicePrimaryCtxRelease, (CUdevice dev), (dev), ((int)m), dev)                                        \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice dev), (dev), ((int)m), dev)                                     \
    X(cuDevicePrimaryCtxReset, (CUdevice dev), (dev), ((int)m), dev)                                          \
    X(cuDevicePrimaryCtxReset_v2, (CUdevice dev), (dev), ((int)m), dev)                                       \
    X(cuInit, (unsigned Flags), (Flags), (m), Flags)                                                          \
    X(cuDeviceGetAttribute, (int *pi, int attrib, CUdevice dev), (pi, attrib, dev), (&o->number, 132, (int)m), dev) \
    X(cuMemAddressReserve, (CUdeviceptr * ptr, size_t size, size_t alignment, CUdeviceptr addr, uint64_t flags), \
      (ptr, size, alignment, addr, flags), (&o->pointer, 1, 0, m, 0), addr)                                   \
    X(cuMemAddressFree, (CUdeviceptr ptr, size_t size), (ptr, size), (m, 1), ptr)                             \
    X(cuMemCreate, (CUdeviceptr * handle, size_t size, const void *prop, uint64_t flags),                     \
      (handle, size, prop, flags), (&o->pointer, m, NULL, 0), size)                                           \
    X(cuMemRelease, (CUdeviceptr handle), (handle), (m), handle)                                              \
    X(cuMemMap, (CUdeviceptr ptr, size_t size, size_t offset, CUdeviceptr handle, uint64_t flags),            \
      (ptr, size, offset, handle, flags), (m, 1, 0, 7, 0), ptr)                                               \
    X(cuMemUnmap, (CUdeviceptr ptr, size_t size), (ptr, size), (m, 1), ptr)                                   \
    X(cuMemSetAccess, (CUdeviceptr ptr, size_t size, const void *desc, size_t count),                         \
      (ptr, size, desc, count), (m, 1, NULL, 0), ptr)                                                         \
    X(cuMemGetAccess, (unsigned long long *flags, const void *location, CUdeviceptr ptr),                     \
      (flags, location, ptr), (&o->pointer, NULL, m), ptr)                                                    \
    X(cuMemExportToShareableHandle, (void *shareableHandle, CUdeviceptr handle, int handleType, uint64_t flags), \
      (shareableHandle, handle, handleType, flags), (&o->number, m, 1, 0), handle)                            \
    X(cuMemImportFromShareableHandle, (CUdeviceptr * handle, void *osHandle, int shHandleType),               \
      (handle, osHandle, shHandleType), (&o->pointer, (void *)(uintptr_t)m, 1), (uintptr_t)osHandle)          \
    X(cuMemRetainAllocationHandle, (CUdeviceptr * handle, CUdeviceptr addr), (handle, addr),                  \
      (&o->pointer, m), addr)                                                                                 \
    X(cuMemGetAllocationPropertiesFromHandle, (void *prop, CUdeviceptr handle), (prop, handle), (NULL, m), handle) \
    X(cuMemGetAllocationGranularity, (CUdeviceptr * granularity, const void *prop, int option),               \
      (granularity, prop, option), (&o->pointer, NULL, (int)m), option)                                       \
    X(cuMemGetHandleForAddressRange,                                                                          \
      (int *handle, CUdeviceptr dptr, size_t size, int handleType, uint64_t flags),                           \
      (handle, dptr, size, handleType, flags), (&o->number, m, 1, 1, 0), dptr)                                \
    X(cuDeviceGetDefaultMemPool, (void **pool_out, CUdevice dev), (pool_out, dev), (&o->pool, (int)m), dev)   \
    X(cuMemPoolCreate, (void **pool, const void *poolProps), (pool, poolProps),                               \
      (&o->pool, marked_properties(m)), mark_of_properties(poolProps))                                        \
    X(cuMemPoolDestroy, (void *pool), (pool), ((void *)(uintptr_t)m), (uintptr_t)pool)                        \
    X(cuMemPoolSetAccess, (void *pool, const void *map, size_t count), (pool, map, count),                    \
      ((void *)(uintptr_t)m, NULL, 0), (uintptr_t)pool)                                                       \
    X(cuMemPoolGetAccess, (int *flags, void *memPool, void *location), (flags, memPool, location),            \
      (&o->number, (void *)(uintptr_t)m, NULL), (uintptr_t)memPool)                                           \
    X(cuMemPoolExportToShareableHandle, (void *handle_out, void *pool, int handleType, uint64_t flags),       \
      (handle_out, pool, handleType, flags), (&o->number, (void *)(uintptr_t)m, 1, 0), (uintptr_t)pool)       \
    X(cuMemPoolImportFromShareableHandle, (void **pool_out, void *handle, int handleType, uint64_t flags),    \
      (pool_out, handle, handleType, flags), (&o->pool, (void *)(uintptr_t)m, 1, 0), (uintptr_t)handle)       \
    X(cuMemPoolExportPointer, (CUipcMemHandle * shareData_out, CUdeviceptr ptr), (shareData_out, ptr),        \
      (&o->handle, m), ptr)                                                                                   \
    X(cuMemPoolImportPointer, (CUdeviceptr * ptr_out, void *pool, CUipcMemHandle *shareData),                 \
      (ptr_out, pool, shareData), (&o->pointer, (void *)(uintptr_t)m, NULL), (uintptr_t)pool)                 \
    X(cuMemAllocFromPoolAsync, (CUdeviceptr * dptr, size_t bytesize, void *pool, CUstream hStream),           \
      (dptr, bytesize, pool, hStream), (&o->pointer, m, NULL, NULL), bytesize)                                \
    X(cuMemAllocFromPoolAsync_ptsz, (CUdeviceptr * dptr, size_t bytesize, void *pool, CUstream hStream),      \
      (dptr, bytesize, pool, hStream), (&o->pointer, m, NULL, NULL), bytesize) \
    X(cuMemAlloc, (unsigned *dptr, unsigned bytesize), (dptr, bytesize), (o->capabilities, m), bytesize)      \
    X(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize), (dptr, bytesize), (&o->pointer, m), bytesize)     \
    X(cuMemAllocPitch, (unsigned *dptr, unsigned *pPitch, unsigned WidthInBytes, unsigned Height, unsigned ElementSizeBytes), \
      (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes), (o->capabilities, o->capabilities + 1, m, 1, 4), WidthInBytes) \
    X(cuMemAllocPitch_v2, (CUdeviceptr * dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned ElementSizeBytes), \
      (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes), (&o->pointer, &o->size, m, 1, 4), WidthInBytes) \
    X(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned flags), (dptr, bytesize, flags),      \
      (&o->pointer, m, 1), bytesize)                                                                          \
    X(cuMemAllocAsync, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream), (dptr, bytesize, hStream),    \
      (&o->pointer, m, NULL), bytesize)                                                                       \
    X(cuMemAllocAsync_ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream), (dptr, bytesize, hStream), \
      (&o->pointer, m, NULL), bytesize)                                                                       \
    X(cuMulticastCreate, (CUdeviceptr * mcHandle, const void *prop), (mcHandle, prop), (&o->pointer, team(m)), mark_of_team(prop)) \
    X(cuMulticastAddDevice, (CUdeviceptr mcHandle, CUdevice dev), (mcHandle, dev), (1, (int)m), dev)          \
    X(cuMulticastBindMem,                                                                                     \
      (CUdeviceptr mcHandle, size_t mcOffset, CUdeviceptr memHandle, size_t memOffset, size_t size, uint64_t flags), \
      (mcHandle, mcOffset, memHandle, memOffset, size, flags), (1, 0, m, 0, m, 0), memHandle == size ? size : 99998) \
    X(cuMulticastBindMem_v2,                                                                                  \
      (CUdeviceptr mcHandle, CUdevice dev, size_t mcOffset, CUdeviceptr memHandle, size_t memOffset, size_t size, uint64_t flags), \
      (mcHandle, dev, mcOffset, memHandle, memOffset, size, flags), (1, (int)m, 0, m, 0, m, m),               \
      memHandle == size && size == flags ? flags : 99998)                                                     \
    X(cuMulticastBindAddr,                                                                                    \
      (CUdeviceptr mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size, uint64_t flags),               \
      (mcHandle, mcOffset, memptr, size, flags), (1, 0, m, m, 0), memptr == size ? size : 99998)              \
    X(cuMulticastBindAddr_v2,                                                                                 \
      (CUdeviceptr mcHandle, CUdevice dev, size_t mcOffset, CUdeviceptr memptr, size_t size, uint64_t flags), \
      (mcHandle, dev, mcOffset, memptr, size, flags), (1, (int)m, 0, m, m, m),                                \
      memptr == size && size == flags ? flags : 99998)                                                        \
    X(cuMulticastUnbind, (CUdeviceptr mcHandle, CUdevice dev, size_t mcOffset, size_t size),                  \
      (mcHandle, dev, mcOffset, size), (1, (int)m, 0, 1), dev)                                                \
    X(cuMulticastGetGranularity, (CUdeviceptr * granularity, const void *prop, int option),                   \
      (granularity, prop, option), (&o->pointer, NULL, (int)m), option)

/* What a program is about. */
#ifdef NVML
#define PLAIN_TABLE NVML_TABLE
#define LOOKUP_TABLE(X)
#define SONAME "libnvidia-ml.so.1"
#else
#define PLAIN_TABLE DRIVER_TABLE
#define LOOKUP_TABLE DRIVER_LOOKUP_TABLE
#define SONAME "libcuda.so.1"
#endif

/* The look-ups: their mark is the text that they ask for. */
#define DRIVER_LOOKUP_TABLE(X)                                                                                       \
    X(cuGetProcAddress, (const char *symbol, void **pfn, int cudaVersion, uint64_t flags),                    \
      (symbol, pfn, cudaVersion, flags))                                                                      \
    X(cuGetProcAddress_v2, (const char *symbol, void **pfn, int cudaVersion, uint64_t flags, int *symbolStatus), \
      (symbol, pfn, cudaVersion, flags, symbolStatus))

/* What a function that succeeds writes. Every output may be null here: the fake driver survives it. */
#define OUT(pointer, value)                                                                                   \
    if (pointer) *(pointer) = (value)
#define OUTPUT_cuDeviceCanAccessPeer OUT(canAccessPeer, 1);
#define OUTPUT_cuDeviceGetP2PAttribute OUT(value, 7);
#define OUTPUT_cuDeviceGetP2PAtomicCapabilities                                                               \
    for (unsigned i = 0; i < count; i++) OUT(capabilities ? capabilities + i : NULL, i + 1);
#define OUTPUT_cuCtxEnablePeerAccess
#define OUTPUT_cuCtxDisablePeerAccess
#define OUTPUT_cuIpcGetMemHandle OUT(pHandle, marked_handle((unsigned)dptr));
#define OUTPUT_cuIpcOpenMemHandle OUT(pdptr, Flags);
#define OUTPUT_cuIpcOpenMemHandle_v2 OUT(pdptr, Flags);
#define OUTPUT_cuIpcCloseMemHandle
#define OUTPUT_cuIpcGetEventHandle OUT(pHandle, marked_event_handle((unsigned)(uintptr_t)event));
#define OUTPUT_cuIpcOpenEventHandle OUT(phEvent, (CUevent)(uintptr_t)mark_of_handle(handle.reserved));
#define OUTPUT_cuMemFree
#define OUTPUT_cuMemFree_v2
#define OUTPUT_cuMemFreeAsync
#define OUTPUT_cuMemFreeAsync_ptsz
#define OUTPUT_cuMemcpy
#define OUTPUT_cuMemcpy_ptds
#define OUTPUT_cuMemcpyAsync
#define OUTPUT_cuMemcpyAsync_ptsz
#define OUTPUT_cuMemcpyDtoD_v2
#define OUTPUT_cuMemcpyDtoD_v2_ptds
#define OUTPUT_cuMemcpyDtoDAsync_v2
#define OUTPUT_cuMemcpyDtoDAsync_v2_ptsz
#define OUTPUT_cuMemcpyPeer
#define OUTPUT_cuMemcpyPeer_ptds
#define OUTPUT_cuMemcpyPeerAsync
#define OUTPUT_cuMemcpyPeerAsync_ptsz
#define OUTPUT_cuEventDestroy
#define OUTPUT_cuEventDestroy_v2
#define OUTPUT_cuCtxDestroy
#define OUTPUT_cuCtxDestroy_v2
#define OUTPUT_cuCtxDetach
#define OUTPUT_cuDevicePrimaryCtxRelease
#define OUTPUT_cuDevicePrimaryCtxRelease_v2
#define OUTPUT_cuDevicePrimaryCtxReset
#define OUTPUT_cuDevicePrimaryCtxReset_v2
#define OUTPUT_cuInit
#define OUTPUT_cuDeviceGetAttribute OUT(pi, 1);
#define OUTPUT_cuMemAddressReserve OUT(ptr, size);
#define OUTPUT_cuMemAddressFree
#define OUTPUT_cuMemCreate OUT(handle, size);
#define OUTPUT_cuMemRelease
#define OUTPUT_cuMemMap
#define OUTPUT_cuMemUnmap
#define OUTPUT_cuMemSetAccess
#define OUTPUT_cuMemGetAccess OUT(flags, 3);
#define OUTPUT_cuMemExportToShareableHandle OUT((int *)shareableHandle, -1);
#define OUTPUT_cuMemImportFromShareableHandle OUT(handle, (uintptr_t)osHandle);
#define OUTPUT_cuMemRetainAllocationHandle OUT(handle, addr);
#define OUTPUT_cuMemGetAllocationPropertiesFromHandle (void)prop;
#define OUTPUT_cuMemGetAllocationGranularity OUT(granularity, 1 << 21);
#define OUTPUT_cuMemGetHandleForAddressRange OUT(handle, -1);
#define OUTPUT_cuDeviceGetDefaultMemPool OUT(pool_out, (void *)(uintptr_t)dev);
#define OUTPUT_cuMemPoolCreate OUT(pool, (void *)(uintptr_t)mark_of_properties(poolProps));
#define OUTPUT_cuMemPoolDestroy
#define OUTPUT_cuMemPoolSetAccess
#define OUTPUT_cuMemPoolGetAccess OUT(flags, 3);
#define OUTPUT_cuMemPoolExportToShareableHandle OUT((int *)handle_out, -1);
#define OUTPUT_cuMemPoolImportFromShareableHandle OUT(pool_out, handle);
#define OUTPUT_cuMemPoolExportPointer OUT(shareData_out, marked_handle((unsigned)ptr));
#define OUTPUT_cuMemPoolImportPointer OUT(ptr_out, (uintptr_t)pool);
#define OUTPUT_cuMemAllocFromPoolAsync OUT(dptr, bytesize);
#define OUTPUT_cuMemAllocFromPoolAsync_ptsz OUT(dptr, bytesize);
#define OUTPUT_cuMemAlloc OUT(dptr, bytesize);
#define OUTPUT_cuMemAlloc_v2 OUT(dptr, bytesize);
#define OUTPUT_cuMemAllocPitch OUT(dptr, WidthInBytes); OUT(pPitch, WidthInBytes);
#define OUTPUT_cuMemAllocPitch_v2 OUT(dptr, WidthInBytes); OUT(pPitch, WidthInBytes);
#define OUTPUT_cuMemAllocManaged OUT(dptr, bytesize);
#define OUTPUT_cuMemAllocAsync OUT(dptr, bytesize);
#define OUTPUT_cuMemAllocAsync_ptsz OUT(dptr, bytesize);
#define OUTPUT_cuMulticastCreate OUT(mcHandle, mark_of_team(prop));
#define OUTPUT_cuMulticastAddDevice
#define OUTPUT_cuMulticastBindMem
#define OUTPUT_cuMulticastBindMem_v2
#define OUTPUT_cuMulticastBindAddr
#define OUTPUT_cuMulticastBindAddr_v2
#define OUTPUT_cuMulticastUnbind
#define OUTPUT_cuMulticastGetGranularity OUT(granularity, 1 << 21);
#define OUTPUT_nvmlDeviceGetP2PStatus OUT(p2pStatus, 0);
#define OUTPUT_nvmlDeviceGetTopologyCommonAncestor OUT(pathInfo, 10);
#define OUTPUT_nvmlDeviceGetNvLinkState OUT(isActive, 1);
#define OUTPUT_nvmlDeviceGetNvLinkCapability OUT(capResult, 1);
#define OUTPUT_nvmlDeviceGetNvLinkRemotePciInfo OUT(pci, ((nvmlPciInfo_v2_t){.bus = 7}));
#define OUTPUT_nvmlDeviceGetNvLinkRemotePciInfo_v2 OUT(pci, ((nvmlPciInfo_t){.bus = 7}));
#define OUTPUT_nvmlDeviceGetNvLinkRemoteDeviceType OUT(pNvLinkDeviceType, 2);
#define OUTPUT_nvmlDeviceGetGpuFabricInfo OUT(gpuFabricInfo, ((nvmlGpuFabricInfo_t){.state = 3}));
#define OUTPUT_nvmlDeviceGetGpuFabricInfoV OUT(gpuFabricInfo, ((nvmlGpuFabricInfoV_t){.state = 3}));
#define OUTPUT_nvmlDeviceGetFieldValues                                                                       \
    for (int i = 0; values && i < valuesCount; i++) values[i] = (nvmlFieldValue_t){165, i, 0, 0, 1, 0, {.ui = 1}};

static const int two_operations[2] __attribute__((unused)) = {0, 9};

/* Marks with a meaning; tests/programs/mod.rs has the same numbers. All others succeed and must be in the
 * log exactly once. */
enum {
    FAILS = 30000,   /* + n: the driver answers n, which is below 10000 */
    ESCAPES = 50000, /* takes a way that cannot be caught: must reach the driver, and its library be named */
    EITHER = 60000,  /* within another call, or never answered by a driver: may be in the log, once */
};
#endif
