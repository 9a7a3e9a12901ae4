// Copies in one stream what another one sets: late [HOW]. HOW is how it does: waits, which is good; races; fails, which is a race
// whose result it checks; or differs, which waits and prints something else each time.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;

static void *driver;
#define FIND(name, types) CUresult(*name) types = (CUresult(*) types)dlsym(driver, #name)

int main(int count, char **words) {
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    const char *how = count > 1 ? words[1] : "races";
    int races = !strcmp(how, "races") || !strcmp(how, "fails");
    FIND(cuInit, (unsigned));
    FIND(cuDevicePrimaryCtxRetain, (void **, int));
    FIND(cuCtxSetCurrent, (void *));
    FIND(cuStreamCreate, (void **, unsigned));
    FIND(cuEventCreate, (void **, unsigned));
    FIND(cuEventRecord, (void *, void *));
    FIND(cuStreamWaitEvent, (void *, void *, unsigned));
    FIND(cuStreamSynchronize, (void *));
    FIND(cuMemAlloc_v2, (CUdeviceptr *, size_t));
    FIND(cuMemHostAlloc, (void **, size_t, unsigned));
    FIND(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, void *));
    FIND(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, void *));
    void *context, *sets, *copies, *event;
    CUdeviceptr memory;
    unsigned char *seen;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 2;
    if (cuStreamCreate(&sets, 1) || cuStreamCreate(&copies, 1) || cuEventCreate(&event, 2)) return 2;
    if (cuMemAlloc_v2(&memory, 64) || cuMemHostAlloc((void **)&seen, 64, 0)) return 2;
    if (cuMemsetD8Async(memory, 7, 64, sets) || cuEventRecord(event, sets)) return 2;
    if (!races && cuStreamWaitEvent(copies, event, 0)) return 2;
    if (cuMemcpyDtoHAsync_v2(seen, memory, 64, copies) || cuStreamSynchronize(copies)) return 2;
    if (!strcmp(how, "fails")) return seen[0] != 7;
    if (!strcmp(how, "differs")) printf("%d\n", getpid());
    printf("%d\n", seen[0]);
    return 0;
}
