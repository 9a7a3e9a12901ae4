/* A driver that does nothing but keep account: each call of a function of the table appends a line
 * `TAG function mark result pid tid` to $FAKE_DRIVER_LOG with one write. That file is the oracle of the
 * tests: what the driver saw is what cupeer must have logged.
 *
 * A call answers CUDA_SUCCESS, or n where its mark is FAILS + n. -DTAG=x names another driver; -DOLD leaves
 * out what a driver of CUDA 11.8 lacks. */
#define _GNU_SOURCE
#include "table.h"
#include <string.h>

#ifndef TAG
#define TAG first
#endif
#include "account.h"

#ifdef OLD
enum { DRIVER_VERSION = 11080 };
#define NEWER __attribute__((visibility("hidden")))
#else
enum { DRIVER_VERSION = 13010 };
#define NEWER
#endif

NEWER CUresult cuDeviceGetP2PAtomicCapabilities(unsigned *, const int *, unsigned, CUdevice, CUdevice);
CUresult cuGetProcAddress(const char *, void **, int, uint64_t);
NEWER CUresult cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);

#define DEFINE(name, parameters, forwarded, marked, mark)                                                     \
    CUresult name parameters {                                                                                \
        CUresult r = answer(#name, (unsigned)(mark));                                                         \
        if (r == 0) {                                                                                         \
            OUTPUT_##name                                                                                     \
        }                                                                                                     \
        return r;                                                                                 \
    }
PLAIN_TABLE(DEFINE)

/* Some functions that are not in the table, They keep no account:
 * cupeer must not come between. */
CUresult cuDriverGetVersion(int *version) { return *version = DRIVER_VERSION, 0; }
CUresult cuCtxGetCurrent(CUcontext *c) { return *c = (CUcontext)1, 0; }
CUresult cuMemBatchDecompressAsync(void) { return 1; }
CUresult cuMemAllocHost_v2(void **p, size_t size) { return *p = NULL, size == 0; }

static const struct entry {
    const char *lookup;
    int since;
    void *address;
    int per_thread; /* found where the default stream shall be the thread's own */
} entries[] = {
    /* a later version of a name stands before an earlier one */
    {"cuDeviceCanAccessPeer", 4000, cuDeviceCanAccessPeer},
    {"cuDeviceGetP2PAttribute", 8000, cuDeviceGetP2PAttribute},
    {"cuDeviceGetP2PAtomicCapabilities", 13000, cuDeviceGetP2PAtomicCapabilities},
    {"cuCtxEnablePeerAccess", 4000, cuCtxEnablePeerAccess},
    {"cuCtxDisablePeerAccess", 4000, cuCtxDisablePeerAccess},
    {"cuIpcGetMemHandle", 4010, cuIpcGetMemHandle},
    {"cuIpcOpenMemHandle", 11000, cuIpcOpenMemHandle_v2},
    {"cuIpcOpenMemHandle", 4010, cuIpcOpenMemHandle},
    {"cuIpcCloseMemHandle", 4010, cuIpcCloseMemHandle},
    {"cuIpcGetEventHandle", 4010, cuIpcGetEventHandle},
    {"cuIpcOpenEventHandle", 4010, cuIpcOpenEventHandle},
    {"cuMemFree", 3020, cuMemFree_v2},
    {"cuMemFree", 2000, cuMemFree},
    {"cuMemFreeAsync", 11020, cuMemFreeAsync_ptsz, 1},
    {"cuMemFreeAsync", 11020, cuMemFreeAsync},
    {"cuMemcpy", 7000, cuMemcpy_ptds, 1},
    {"cuMemcpy", 4000, cuMemcpy},
    {"cuMemcpyAsync", 7000, cuMemcpyAsync_ptsz, 1},
    {"cuMemcpyAsync", 4000, cuMemcpyAsync},
    {"cuMemcpyDtoD", 7000, cuMemcpyDtoD_v2_ptds, 1},
    {"cuMemcpyDtoD", 3020, cuMemcpyDtoD_v2},
    {"cuMemcpyDtoDAsync", 7000, cuMemcpyDtoDAsync_v2_ptsz, 1},
    {"cuMemcpyDtoDAsync", 3020, cuMemcpyDtoDAsync_v2},
    {"cuMemcpyPeer", 7000, cuMemcpyPeer_ptds, 1},
    {"cuMemcpyPeer", 4000, cuMemcpyPeer},
    {"cuMemcpyPeerAsync", 7000, cuMemcpyPeerAsync_ptsz, 1},
    {"cuMemcpyPeerAsync", 4000, cuMemcpyPeerAsync},
    {"cuEventDestroy", 4000, cuEventDestroy_v2},
    {"cuEventDestroy", 2000, cuEventDestroy},
    {"cuCtxCreate", 12050, cuCtxCreate_v4},
    {"cuCtxCreate", 11040, cuCtxCreate_v3},
    {"cuCtxCreate", 3020, cuCtxCreate_v2},
    {"cuCtxDestroy", 4000, cuCtxDestroy_v2},
    {"cuCtxDestroy", 2000, cuCtxDestroy},
    {"cuCtxDetach", 2000, cuCtxDetach},
    {"cuDevicePrimaryCtxRelease", 11000, cuDevicePrimaryCtxRelease_v2},
    {"cuDevicePrimaryCtxRelease", 7000, cuDevicePrimaryCtxRelease},
    {"cuDevicePrimaryCtxReset", 11000, cuDevicePrimaryCtxReset_v2},
    {"cuDevicePrimaryCtxReset", 7000, cuDevicePrimaryCtxReset},
    {"cuInit", 2000, cuInit},
    {"cuDeviceGetAttribute", 2000, cuDeviceGetAttribute},
    {"cuModuleGetFunction", 2000, cuModuleGetFunction},
    {"cuModuleEnumerateFunctions", 12040, cuModuleEnumerateFunctions},
    {"cuLibraryGetKernel", 12000, cuLibraryGetKernel},
    {"cuLibraryEnumerateKernels", 12040, cuLibraryEnumerateKernels},
    {"cuKernelGetFunction", 12000, cuKernelGetFunction},
    {"cuModuleUnload", 2000, cuModuleUnload},
    {"cuLibraryUnload", 12000, cuLibraryUnload},
    {"cuMemAddressReserve", 10020, cuMemAddressReserve},
    {"cuMemAddressFree", 10020, cuMemAddressFree},
    {"cuMemCreate", 10020, cuMemCreate},
    {"cuMemRelease", 10020, cuMemRelease},
    {"cuMemMap", 10020, cuMemMap},
    {"cuMemUnmap", 10020, cuMemUnmap},
    {"cuMemSetAccess", 10020, cuMemSetAccess},
    {"cuMemGetAccess", 10020, cuMemGetAccess},
    {"cuMemExportToShareableHandle", 10020, cuMemExportToShareableHandle},
    {"cuMemImportFromShareableHandle", 10020, cuMemImportFromShareableHandle},
    {"cuMemRetainAllocationHandle", 11000, cuMemRetainAllocationHandle},
    {"cuMemGetAllocationPropertiesFromHandle", 10020, cuMemGetAllocationPropertiesFromHandle},
    {"cuMemGetAllocationGranularity", 10020, cuMemGetAllocationGranularity},
    {"cuMemGetHandleForAddressRange", 11070, cuMemGetHandleForAddressRange},
    {"cuDeviceGetDefaultMemPool", 11020, cuDeviceGetDefaultMemPool},
    {"cuMemPoolCreate", 11020, cuMemPoolCreate},
    {"cuMemPoolDestroy", 11020, cuMemPoolDestroy},
    {"cuMemPoolSetAccess", 11020, cuMemPoolSetAccess},
    {"cuMemPoolGetAccess", 11020, cuMemPoolGetAccess},
    {"cuMemPoolExportToShareableHandle", 11020, cuMemPoolExportToShareableHandle},
    {"cuMemPoolImportFromShareableHandle", 11020, cuMemPoolImportFromShareableHandle},
    {"cuMemPoolExportPointer", 11020, cuMemPoolExportPointer},
    {"cuMemPoolImportPointer", 11020, cuMemPoolImportPointer},
    {"cuMemAllocFromPoolAsync", 11020, cuMemAllocFromPoolAsync_ptsz, 1},
    {"cuMemAllocFromPoolAsync", 11020, cuMemAllocFromPoolAsync},
    {"cuMulticastCreate", 12010, cuMulticastCreate},
    {"cuMulticastAddDevice", 12010, cuMulticastAddDevice},
    {"cuMulticastBindMem", 13010, cuMulticastBindMem_v2},
    {"cuMulticastBindMem", 12010, cuMulticastBindMem},
    {"cuMulticastBindAddr", 13010, cuMulticastBindAddr_v2},
    {"cuMulticastBindAddr", 12010, cuMulticastBindAddr},
    {"cuMulticastUnbind", 12010, cuMulticastUnbind},
    {"cuMulticastGetGranularity", 12010, cuMulticastGetGranularity},
    {"cuGetProcAddress", 12000, cuGetProcAddress_v2},
    {"cuGetProcAddress", 11030, cuGetProcAddress},
    {"cuDriverGetVersion", 2020, cuDriverGetVersion},
    {"cuMemAllocHost", 3020, cuMemAllocHost_v2},
    {"cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain},
    {"cuMemAlloc", 3020, cuMemAlloc_v2},
    {"cuMemAlloc", 2000, cuMemAlloc},
    {"cuMemAllocPitch", 3020, cuMemAllocPitch_v2},
    {"cuMemAllocPitch", 2000, cuMemAllocPitch},
    {"cuMemAllocManaged", 6000, cuMemAllocManaged},
    {"cuMemAllocAsync", 11020, cuMemAllocAsync_ptsz, 1},
    {"cuMemAllocAsync", 11020, cuMemAllocAsync},
#define ENTRIES(name, since, plain, own) {#name, since > 7000 ? since : 7000, own, 1}, {#name, since, plain},
    USES_ENTRIES(ENTRIES) GRAPHS_ENTRIES(ENTRIES) ORDER_ENTRIES(ENTRIES)
#define ENTRY(name, since, function) {#name, since, function},
    GRAPHS_PLAIN_ENTRIES(ENTRY) ORDER_PLAIN_ENTRIES(ENTRY)
    {"cuCtxGetCurrent", 4000, cuCtxGetCurrent},
};

/* The rules are those of the recorded driver: a version above its own, or flags that it does not know, are
 * CUDA_ERROR_INVALID_VALUE and leave everything alone; a missing name is a success with a null pointer. */
static CUresult lookup(const char *form, const char *symbol, void **pfn, int version, uint64_t flags, int *status) {
    char mark[128];
    snprintf(mark, sizeof mark, "%s/%d/%d", symbol ? symbol : "NULL", version, (int)flags);
    for (char *c = mark; *c; c++)
        if (*c <= ' ') *c = '_';
    if (!symbol || !pfn || version > DRIVER_VERSION || flags > 2) {
        account(form, mark, 1);
        return 1;
    }
    account(form, mark, 0);
    if (fake_driver_callback) fake_driver_callback(form, 0);
    int found = 1;
    *pfn = NULL;
    for (size_t i = 0; i < sizeof entries / sizeof *entries && !*pfn; i++) {
        if (strcmp(symbol, entries[i].lookup) != 0 || entries[i].since > DRIVER_VERSION) continue;
        if (entries[i].per_thread && flags != 2) continue;
        found = 2;
        if (version >= entries[i].since) *pfn = entries[i].address;
    }
    if (status) *status = *pfn ? 0 : found;
    return 0;
}
CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags) {
    return lookup("cuGetProcAddress", symbol, pfn, version, flags, NULL);
}
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status) {
    return lookup("cuGetProcAddress_v2", symbol, pfn, version, flags, status);
}
