// Which calls wait for work that is pending in a non-blocking stream, in a blocking one, and in the default one, as a real driver
// was recorded to (probe_order.c). The work is a function of the program. Where a call is to wait, the function has returned when
// the call does; where it is not to wait, the function returns only after the call has.
#include "vmm.h"

int cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, void *), cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, void *);
int cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, void *), cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, void *);
int cuStreamSynchronize(void *), cuEventSynchronize(void *), cuStreamWaitEvent(void *, void *, unsigned), cuMemFreeHost(void *);
int cuMemHostAlloc(void **, size_t, unsigned), cuMemAllocAsync(CUdeviceptr *, size_t, void *), cuMemFreeAsync(CUdeviceptr, void *);
int cuLaunchHostFunc(void *, void (*)(void *), void *), cuMemHostUnregister(void *), cuMemPoolTrimTo(void *, size_t);
int cuDeviceGetDefaultMemPool(void **, int), cuModuleLoadData(void **, const void *), cuModuleUnload(void *);

enum { SIZE = 1 << 16, NOT_READY = 600 };
static volatile int waits, opened, done;
static void pending(void *unused) {
    (void)unused;
    if (waits) usleep(2000);
    while (!waits && !opened) usleep(100);
    done = 1;
}

// W says for each kind of stream whether the call waits.
#define CASE(w, before, call, expected)                                                                      \
    for (int kind = 0; kind < 3; kind++) {                                                                   \
        void *s = kind == 0 ? stream : kind == 1 ? blocking : NULL;                                          \
        before;                                                                                              \
        IS(cuCtxSynchronize(), 0);                                                                           \
        waits = #w[kind] == 'W';                                                                             \
        opened = done = 0;                                                                                   \
        IS(cuLaunchHostFunc(s, pending, NULL), 0);                                                           \
        IS(call, expected);                                                                                  \
        IS(done, waits);                                                                                     \
        opened = 1;                                                                                          \
        IS(cuCtxSynchronize(), 0);                                                                           \
    }

int main(void) {
    void *stream, *blocking, *other, *event, *pinned, *host, *pool, *module;
    static char pageable[SIZE], registered[SIZE];
    CUdeviceptr a, b, x;
    Allocation h;
    Handle handle;
    size_t free, total;
    const char *ptx = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n";
    alarm(60);
    start(0);
    IS(cuStreamCreate(&stream, 1), 0);
    IS(cuStreamCreate(&blocking, 0), 0);
    IS(cuStreamCreate(&other, 1), 0);
    IS(cuEventCreate(&event, 2), 0);
    IS(cuMemAlloc_v2(&a, SIZE), 0);
    IS(cuMemAlloc_v2(&b, SIZE), 0);
    IS(cuMemHostAlloc(&pinned, SIZE, 0), 0);
    IS(cuDeviceGetDefaultMemPool(&pool, 0), 0);
    CASE(---, , cuStreamQuery(s), NOT_READY)
    CASE(WWW, , cuStreamSynchronize(s), 0)
    CASE(---, , cuStreamSynchronize(other), 0)
    CASE(-WW, , cuStreamSynchronize(NULL), 0)
    CASE(WWW, , cuCtxSynchronize(), 0)
    CASE(WWW, , cuEventRecord(event, s) || cuEventSynchronize(event), 0)
    CASE(---, IS(cuEventQuery(event), 0), cuEventRecord(event, s) || cuEventQuery(event) != NOT_READY, 0)
    CASE(---, , cuEventRecord(event, s) || cuStreamWaitEvent(other, event, 0), 0)
    CASE(-WW, , cuMemcpyHtoD_v2(a, pageable, SIZE), 0)
    CASE(-WW, , cuMemcpyHtoD_v2(a, pinned, 64), 0)
    CASE(-WW, , cuMemcpyDtoH_v2(pageable, a, 64), 0)
    CASE(-WW, , cuMemcpyDtoH_v2(pinned, a, SIZE), 0)
    CASE(---, , cuMemcpyDtoD_v2(a, b, SIZE), 0)
    CASE(---, , cuMemsetD8_v2(a, 1, SIZE), 0)
    CASE(---, , cuMemcpyHtoDAsync_v2(a, pageable, SIZE, s), 0)
    CASE(---, , cuMemcpyHtoDAsync_v2(a, pinned, SIZE, s), 0)
    CASE(WWW, , cuMemcpyDtoHAsync_v2(pageable, a, SIZE, s), 0)
    CASE(---, , cuMemcpyDtoHAsync_v2(pinned, a, SIZE, s), 0)
    CASE(---, , cuMemcpyDtoDAsync_v2(a, b, SIZE, s), 0)
    CASE(---, , cuMemcpyHtoDAsync_v2(a, pageable, SIZE, other), 0)
    CASE(---, , cuMemAlloc_v2(&x, SIZE), 0)
    CASE(WWW, IS(cuMemAlloc_v2(&x, SIZE), 0), cuMemFree_v2(x), 0)
    CASE(WWW, IS(cuMemHostAlloc(&host, SIZE, 0), 0), cuMemFreeHost(host), 0)
    CASE(WWW, IS(cuMemHostRegister_v2(registered, SIZE, 0), 0), cuMemHostUnregister(registered), 0)
    CASE(---, , cuMemAllocAsync(&x, SIZE, other), 0)
    CASE(---, IS(cuMemAllocAsync(&x, SIZE, other), 0), cuMemFreeAsync(x, s), 0)
    CASE(---, IS(cuMemAllocAsync(&x, SIZE, other), 0), cuMemFree_v2(x), 0)
    CASE(---, , cuMemPoolTrimTo(pool, 0), 0)
    CASE(---, , (create(&h, 0, GRANULE), x = map(h, GRANULE, 0), cuMemUnmap(x, GRANULE)), 0)
    CASE(---, , cuMemGetInfo_v2(&free, &total), 0)
    CASE(---, , cuIpcGetMemHandle(&handle, a), 0)
    CASE(WWW, , cuModuleLoadData(&module, ptx), 0)
    CASE(WWW, IS(cuModuleLoadData(&module, ptx), 0), cuModuleUnload(module), 0)
    CASE(---, IS(cuStreamCreate(&host, 1), 0), cuStreamDestroy_v2(host), 0)
    return 0;
}
