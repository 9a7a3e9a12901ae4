// What a device's attributes say it can do, its functions do; and what they say it cannot, is refused.
#include "common.h"
#include <dlfcn.h>

enum { INVALID_DEVICE_ID = -2, OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801 };
int cuDeviceGetAttribute(int *, int, int), cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
int cuMemAdvise(CUdeviceptr, size_t, int, int), cuMemPrefetchAsync(CUdeviceptr, size_t, int, void *);
int cuMemRangeGetAttribute(void *, size_t, int, CUdeviceptr, size_t);
int cuMemRangeGetAttributes(void **, size_t *, int *, size_t, CUdeviceptr, size_t);
typedef struct { int type, handles, place, device; void *security; size_t most; unsigned char rest[56]; } Props;
int cuMemPoolCreate(void **, const Props *), cuMemPoolDestroy(void *), cuDeviceGetDefaultMemPool(void **, int);
int cuDeviceSetMemPool(int, void *), cuDeviceGetMemPool(void **, int), cuMemPoolGetAttribute(void *, int, void *);
int cuMemAllocAsync(CUdeviceptr *, size_t, void *), cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, void *, void *);
int cuStreamSetAttribute(void *, int, const void *), cuStreamGetAttribute(void *, int, void *);
int cuIpcOpenEventHandle(void **, Handle);
int cuStreamCopyAttributes(void *, void *), cuMemHostAlloc(void **, size_t, unsigned), cuMemFreeHost(void *);

static int attribute(int which) {
    int value = -77;
    IS(cuDeviceGetAttribute(&value, which, 0), 0);
    return value;
}

// A function that is there answers something else to no arguments at all: an error about them.
static int is_there(const char *name) {
    // As many as any function has: processors differ in how many are in registers.
    typedef int function(long, long, long, long, long, long, long, long, long, long, long, long);
    function *named = (function *)dlsym(RTLD_DEFAULT, name);
    IS(named != NULL, 1);
    // Some pass a structure by its address.
    if (strcmp(name, "cuIpcOpenEventHandle") == 0) return cuIpcOpenEventHandle(NULL, (Handle){{0}}) != NOT_SUPPORTED;
    return named(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) != NOT_SUPPORTED;
}

static const struct {
    int attribute;
    const char *names[8];
} promises[] = {
    {78, {"cuStreamCreateWithPriority", "cuCtxGetStreamPriorityRange"}},
    {83, {"cuMemAllocManaged", "cuStreamAttachMemAsync"}},
    {89, {"cuMemAdvise", "cuMemPrefetchAsync", "cuMemRangeGetAttribute", "cuMemRangeGetAttributes"}},
    {92, {"cuStreamWriteValue32", "cuStreamWaitValue32", "cuStreamBatchMemOp"}},
    {93, {"cuStreamWriteValue64", "cuStreamWaitValue64"}},
    {95, {"cuLaunchCooperativeKernel"}},
    {99, {"cuMemHostRegister_v2", "cuMemHostUnregister"}},
    {102, {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}},
    {107, {"cuMemCreate"}},
    {109, {"cuStreamSetAttribute", "cuStreamGetAttribute", "cuStreamCopyAttributes", "cuCtxResetPersistingL2Cache"}},
    {112, {"cuMemMapArrayAsync", "cuArrayGetSparseProperties"}},
    {115, {"cuMemPoolCreate", "cuMemPoolDestroy", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemPoolSetAccess"}},
    {119, {"cuMemPoolExportToShareableHandle", "cuMemPoolImportFromShareableHandle"}},
    {120, {"cuLaunchKernelEx", "cuOccupancyMaxActiveClusters"}},
    {122, {"cuStreamWriteValue64_v2"}},
    {124, {"cuMemGetHandleForAddressRange"}},
    {125, {"cuIpcGetEventHandle", "cuIpcOpenEventHandle"}},
    {127, {"cuTensorMapEncodeTiled"}},
    {129, {"cuLibraryGetUnifiedFunction"}},
    {132, {"cuMulticastCreate"}},
};

static void pools(void) {
    Props props = {.type = 1, .place = 1, .device = 0};
    void *pool, *standard, *now;
    CUdeviceptr a, b;
    unsigned long long used;
    IS(cuDeviceGetDefaultMemPool(&standard, 0), 0);
    IS(cuMemPoolDestroy(standard), 1);
    IS(cuMemPoolCreate(&pool, &props), 0);
    IS(pool != standard, 1);
    IS(cuMemAllocFromPoolAsync(&a, 1024, pool, NULL), 0);
    IS(cuMemPoolGetAttribute(pool, 7, &used), 0);
    IS(used, 1024);
    IS(cuMemPoolGetAttribute(standard, 7, &used), 0);
    IS(used, 0);
    IS(cuDeviceSetMemPool(0, pool), 0);
    IS(cuMemAllocAsync(&b, 1024, NULL), 0);
    IS(cuPointerGetAttribute(&now, 17, b), 0);
    IS(now == pool, 1);
    IS(cuMemFree_v2(b), 0);
    IS(cuMemPoolDestroy(pool), 0);
    IS(cuMemPoolDestroy(pool), 1);
    IS(cuDeviceGetMemPool(&now, 0), 0);
    IS(now == standard, 1);
    // What is allocated stays until it is freed.
    IS(cuMemsetD8_v2(a, 1, 1024), 0);
    IS(cuMemFree_v2(a), 0);
    props.most = 1 << 20;
    IS(cuMemPoolCreate(&pool, &props), 0);
    IS(cuMemAllocFromPoolAsync(&a, 2 << 20, pool, NULL), OUT_OF_MEMORY);
    IS(cuMemPoolDestroy(pool), 0);
    props.handles = 1;
    IS(cuMemPoolCreate(&pool, &props), attribute(119) & 1 ? 0 : NOT_SUPPORTED);
}

static void managed(void) {
    CUdeviceptr range;
    int value = 7, by[3] = {7, 7, 7}, which[2] = {1, 2};
    void *both[2] = {&value, by};
    size_t sizes[2] = {4, 4};
    IS(cuMemAllocManaged(&range, 8192, 1), 0);
    IS(cuMemRangeGetAttribute(&value, 4, 1, range, 8192), 0);
    IS(value, 0);
    IS(cuMemRangeGetAttribute(&value, 4, 2, range, 8192), 0);
    IS(value, INVALID_DEVICE_ID);
    IS(cuMemAdvise(range, 8192, 1, 0), 0);
    IS(cuMemAdvise(range, 8192, 3, -1), 0);
    IS(cuMemAdvise(range, 8192, 5, 1), 0);
    IS(cuMemAdvise(range, 8192, 5, 77), 101);
    IS(cuMemPrefetchAsync(range, 8192, 1, NULL), 0);
    IS(cuMemRangeGetAttributes(both, sizes, which, 2, range, 8192), 0);
    IS(value, 1);
    IS(by[0], -1);
    IS(cuMemRangeGetAttribute(by, sizeof by, 3, range, 8192), 0);
    IS(by[0] == 1 && by[1] == INVALID_DEVICE_ID && by[2] == INVALID_DEVICE_ID, 1);
    IS(cuMemRangeGetAttribute(&value, 4, 4, range, 8192), 0);
    IS(value, 1);
    IS(cuMemAdvise(range, 8192, 6, 1), 0);
    IS(cuMemRangeGetAttribute(by, 4, 3, range, 8192), 0);
    IS(by[0], INVALID_DEVICE_ID);
    IS(cuMemRangeGetAttribute(&value, 4, 99, range, 8192), 1);
    IS(cuMemRangeGetAttribute(&value, 4, 1, range, 8193), 1);
    IS(cuMemRangeGetAttribute(&value, 8, 1, range, 8192), 1);
    IS(cuMemFree_v2(range), 0);
}

static void streams(void) {
    void *a, *b;
    int value[16] = {2}, got[16];
    IS(cuStreamCreate(&a, 1), 0);
    IS(cuStreamCreate(&b, 1), 0);
    IS(cuStreamSetAttribute(a, 3, value), 0);
    IS(cuStreamCopyAttributes(b, a), 0);
    IS(cuStreamGetAttribute(b, 3, got), 0);
    IS(got[0], 2);
    IS(cuStreamGetAttribute(b, 99, got), 1);
}

// More than the host has is refused, and nobody's memory is filled to find that out.
static void bounded(void) {
    CUdeviceptr range;
    void *host;
    size_t free, total, all = (size_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    IS(cuMemAllocManaged(&range, all + (1 << 20), 1), OUT_OF_MEMORY);
    IS(cuMemHostAlloc(&host, all + (1 << 20), 0), OUT_OF_MEMORY);
    // Small ones do not add up to more either.
    int count = 0;
    while (count < 64 && cuMemAllocManaged(&range, all / 8, 1) == 0) count++;
    IS(count <= 8, 1);
    // All of a device's memory can be had and zeroed, and takes none of the host's.
    IS(cuMemGetInfo_v2(&free, &total), 0);
    IS(cuMemAlloc_v2(&range, free), 0);
    IS(cuMemsetD8_v2(range, 0, free), 0);
    char byte = 7;
    IS(cuMemcpyDtoH_v2(&byte, range + free - 1, 1), 0);
    IS(byte, 0);
    IS(cuMemFree_v2(range), 0);
}

int main(int argc, char **argv) {
    void *context;
    (void)argc, (void)argv;
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
    int wrong = 0;
    for (unsigned i = 0; i < sizeof promises / sizeof *promises; i++) {
        int promised = attribute(promises[i].attribute) > 0;
        for (int n = 0; n < 8 && promises[i].names[n]; n++)
            // A function may do more than is promised, as others ask for it.
            if (promised && !is_there(promises[i].names[n])) {
                printf("attribute %d is %d, and %s is not supported\n", promises[i].attribute,
                       attribute(promises[i].attribute), promises[i].names[n]);
                wrong++;
            }
    }
    IS(wrong, 0);
    pools();
    managed();
    streams();
    bounded();
    return 0;
}
