/* What the programs of this folder share. Each takes RULE bad|good: `bad` breaks that rule, once, and goes on; `good`
 * is the nearest program that is right. `table.txt` says what each is expected to meet.
 *
 * They open the driver as the CUDA runtime does, and use no call that a real driver or the simulated one lacks. Where
 * two processes work together they are forked before cuInit and take turns through pipes. Printed is each call on
 * which a scene turns, with its result, and nothing that differs from run to run. */
#ifndef RULES_H
#define RULES_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../maps.h"
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct event *CUevent;
typedef struct { unsigned char bytes[64]; } Handle; /* of memory or of an event */
typedef struct { unsigned char bytes[16]; } CUuuid;
/* Virtual memory: CUmemGenericAllocationHandle, CUmemLocation, CUmemAllocationProp, CUmemAccessDesc. */
typedef unsigned long long Allocation;
typedef struct { int type, id; } Location;
typedef struct { int type, handle_types; Location location; void *windows; unsigned char flags[8]; } Properties;
typedef struct { Location location; int flags; } Access;
/* CUmulticastObjectProp. */
typedef struct { unsigned devices; size_t size; unsigned long long handle_types, flags; } Team;
/* Pools: CUmemoryPool, CUmemPoolProps, CUmemPoolPtrExportData. */
typedef struct pool *Pool;
typedef struct { int type, handle_types; Location location; void *windows; size_t most; unsigned char rest[56]; } PoolProperties;
typedef struct { unsigned char bytes[64]; } PoolPointer;

enum { LAZY = 1, DISABLE_TIMING = 2, INTERPROCESS = 4, ACCESS_SUPPORTED = 2, ATTACH_GLOBAL = 1 };
/* Smaller allocations share a block on a real driver. */
enum { SIZE = 4 << 20, OFFSET = 4096 };

#define FUNCTIONS(F)                                                                                                   \
    F(cuInit, (unsigned))                                                                                              \
    F(cuGetErrorName, (CUresult, const char **))                                                                       \
    F(cuDeviceGetCount, (int *))                                                                                       \
    F(cuDeviceGetAttribute, (int *, int, CUdevice))                                                                    \
    F(cuDeviceGetUuid_v2, (CUuuid *, CUdevice))                                                                        \
    F(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                                               \
    F(cuDevicePrimaryCtxRelease, (CUdevice))                                                                           \
    F(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                                        \
    F(cuDevicePrimaryCtxReset, (CUdevice))                                                                             \
    F(cuDevicePrimaryCtxReset_v2, (CUdevice))                                                                          \
    F(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice))                                                               \
    F(cuCtxDestroy, (CUcontext))                                                                                       \
    F(cuCtxDestroy_v2, (CUcontext))                                                                                    \
    F(cuCtxAttach, (CUcontext *, unsigned))                                                                            \
    F(cuCtxDetach, (CUcontext))                                                                                        \
    F(cuCtxSetCurrent, (CUcontext))                                                                                    \
    F(cuCtxEnablePeerAccess, (CUcontext, unsigned))                                                                    \
    F(cuCtxDisablePeerAccess, (CUcontext))                                                                             \
    F(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice))                                                              \
    F(cuDeviceGetP2PAttribute, (int *, int, CUdevice, CUdevice))                                                       \
    F(cuDeviceGetP2PAtomicCapabilities, (unsigned *, const int *, unsigned, CUdevice, CUdevice))                       \
    F(cuIpcGetMemHandle, (Handle *, CUdeviceptr))                                                                      \
    F(cuIpcOpenMemHandle_v2, (CUdeviceptr *, Handle, unsigned))                                                        \
    F(cuIpcCloseMemHandle, (CUdeviceptr))                                                                              \
    F(cuIpcGetEventHandle, (Handle *, CUevent))                                                                        \
    F(cuIpcOpenEventHandle, (CUevent *, Handle))                                                                       \
    F(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                                          \
    F(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned))                                                            \
    F(cuMemAllocHost_v2, (void **, size_t))                                                                            \
    F(cuMemFreeHost, (void *))                                                                                         \
    F(cuMemAllocAsync, (CUdeviceptr *, size_t, void *))                                                                \
    F(cuMemFreeAsync, (CUdeviceptr, void *))                                                                           \
    F(cuMemGetInfo_v2, (size_t *, size_t *))                                                                           \
    F(cuMemGetAddressRange_v2, (CUdeviceptr *, size_t *, CUdeviceptr))                                                 \
    F(cuMemFree_v2, (CUdeviceptr))                                                                                     \
    F(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                                            \
    F(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, void *))                                               \
    F(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                                                  \
    F(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, void *))                                                     \
    F(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, void *))                                                \
    F(cuMemcpy2D_v2, (const void *))                                                                                   \
    F(cuMemcpy2DAsync_v2, (const void *, void *))                                                                      \
    F(cuMemsetD32_v2, (CUdeviceptr, unsigned, size_t))                                                                 \
    F(cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, void *))                                                       \
    F(cuMemsetD2D32_v2, (CUdeviceptr, size_t, unsigned, size_t, size_t))                                               \
    F(cuMemsetD2D32Async, (CUdeviceptr, size_t, unsigned, size_t, size_t, void *))                                     \
    F(cuMemCreate, (Allocation *, size_t, const Properties *, unsigned long long))                                     \
    F(cuMemRelease, (Allocation))                                                                                      \
    F(cuMemRetainAllocationHandle, (Allocation *, CUdeviceptr))                                                        \
    F(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))                           \
    F(cuMemAddressFree, (CUdeviceptr, size_t))                                                                         \
    F(cuMemMap, (CUdeviceptr, size_t, size_t, Allocation, unsigned long long))                                         \
    F(cuMemUnmap, (CUdeviceptr, size_t))                                                                               \
    F(cuMemSetAccess, (CUdeviceptr, size_t, const Access *, size_t))                                                   \
    F(cuMemExportToShareableHandle, (void *, Allocation, int, unsigned long long))                                     \
    F(cuMemImportFromShareableHandle, (Allocation *, void *, int))                                                     \
    F(cuDeviceGetAttribute, (int *, int, CUdevice))                                                                    \
    F(cuMulticastCreate, (Allocation *, const Team *))                                                                 \
    F(cuMulticastAddDevice, (Allocation, CUdevice))                                                                    \
    F(cuMulticastBindMem, (Allocation, size_t, Allocation, size_t, size_t, unsigned long long))                        \
    F(cuMulticastBindMem_v2, (Allocation, CUdevice, size_t, Allocation, size_t, size_t, unsigned long long))           \
    F(cuMulticastBindAddr, (Allocation, size_t, CUdeviceptr, size_t, unsigned long long))                              \
    F(cuMulticastGetGranularity, (size_t *, const Team *, int))                                                        \
    F(cuDeviceGetDefaultMemPool, (Pool *, CUdevice))                                                                   \
    F(cuMemPoolCreate, (Pool *, const PoolProperties *))                                                               \
    F(cuMemPoolDestroy, (Pool))                                                                                        \
    F(cuMemPoolSetAccess, (Pool, const Access *, size_t))                                                              \
    F(cuMemPoolExportToShareableHandle, (void *, Pool, int, unsigned long long))                                       \
    F(cuMemPoolImportFromShareableHandle, (Pool *, void *, int, unsigned long long))                                   \
    F(cuMemPoolExportPointer, (PoolPointer *, CUdeviceptr))                                                            \
    F(cuMemPoolImportPointer, (CUdeviceptr *, Pool, PoolPointer *))                                                    \
    F(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, Pool, void *))                                                  \
    F(cuCtxSynchronize, (void))                                                                                        \
    F(cuEventCreate, (CUevent *, unsigned))                                                                            \
    F(cuEventRecord, (CUevent, void *))                                                                                \
    F(cuStreamCreate, (void **, unsigned))                                                                             \
    F(cuStreamSynchronize, (void *))                                                                                   \
    F(cuStreamQuery, (void *))                                                                                         \
    F(cuStreamWaitEvent, (void *, CUevent, unsigned))                                                                  \
    F(cuEventDestroy, (CUevent))                                                                                       \
    F(cuEventDestroy_v2, (CUevent))

#define DECLARE(name, args) static CUresult(*name) args __attribute__((unused));
FUNCTIONS(DECLARE)
#undef DECLARE

/* Whether the rule is to be broken, and the contexts of the first two devices, where `start` and `second` got them. */
static int bad __attribute__((unused));
static CUcontext c0 __attribute__((unused)), c1 __attribute__((unused));

/* Where a scene cannot be played: no leave to make namespaces. */
enum { CANNOT = 77 };

__attribute__((noreturn, unused)) static void give_up(int status, const char *file, int line, const char *what) {
    dprintf(2, "%s:%d: %s\n", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line, what);
    _exit(status);
}
#define CHECK(condition) ((condition) ? (void)0 : give_up(4, __FILE__, __LINE__, #condition))
/* A call that has to succeed, and is not what the scene is about. */
#define OK(call) CHECK((call) == 0)
/* A call on which the scene turns. */
#define CALL(name, args) printed(#name, name args)

__attribute__((unused)) static CUresult printed(const char *function, CUresult result) {
    const char *text = "a result without a name";
    if (result == 3) text = "CUDA_ERROR_NOT_INITIALIZED"; /* a driver that is not there tells no names */
    else cuGetErrorName(result, &text);
    dprintf(1, "%s: %s\n", function, text);
    return result;
}

/* Opens the driver. */
__attribute__((unused)) static void load(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) give_up(4, __FILE__, __LINE__, dlerror());
#define FIND(name, args) *(void **)&name = dlsym(driver, #name);
    FUNCTIONS(FIND)
#undef FIND
    CHECK(cuInit && cuGetErrorName);
    show_maps();
}

/* Whether there is such a device, or the scene cannot be played on this machine. The driver has to be initialised. */
__attribute__((unused)) static void need(CUdevice device) {
    int count = 0;
    OK(cuDeviceGetCount(&count));
    if (device >= count) give_up(CANNOT, __FILE__, __LINE__, "there are too few devices");
}

/* Another device than the first one, if there is one. The driver has to be initialised. */
__attribute__((unused)) static CUdevice another(void) {
    int count = 0;
    OK(cuDeviceGetCount(&count));
    return count > 1;
}

/* The primary context of a device. */
__attribute__((unused)) static CUcontext retain(CUdevice device) {
    CUcontext context;
    need(device);
    OK(cuDevicePrimaryCtxRetain(&context, device));
    return context;
}

__attribute__((unused)) static void initialize(void) {
    load();
    CUresult result = cuInit(0);
    if (result == 100) give_up(CANNOT, __FILE__, __LINE__, "there is no device of that number");
    OK(result);
}

/* The primary context of the device becomes current. */
__attribute__((unused)) static void start(CUdevice device) {
    initialize();
    c0 = retain(device);
    OK(cuCtxSetCurrent(c0));
}

/* The same of another device than the first one, if there is one. */
__attribute__((unused)) static void start_on_another(void) {
    initialize();
    c0 = retain(another());
    OK(cuCtxSetCurrent(c0));
}

__attribute__((unused)) static CUdeviceptr allocate(void) {
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, SIZE));
    return p;
}

__attribute__((unused)) static Handle export(CUdeviceptr p) {
    Handle handle;
    OK(cuIpcGetMemHandle(&handle, p));
    return handle;
}

__attribute__((unused)) static CUdeviceptr open_memory(Handle handle) {
    CUdeviceptr p;
    OK(cuIpcOpenMemHandle_v2(&p, handle, LAZY));
    return p;
}

/* Another process, and the pipes to and from it. */
struct link {
    pid_t pid;
    int in, out;
};

/* Forks a process that does some work and exits as programs do. */
__attribute__((unused)) static struct link employ(void (*work)(struct link)) {
    int to[2], from[2];
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    struct link link = {fork(), from[0], to[1]};
    CHECK(link.pid >= 0);
    if (link.pid == 0) {
        close(to[1]);
        close(from[0]);
        alarm(300);
        struct link parent = {getppid(), to[0], from[1]};
        work(parent);
        exit(0);
    }
    close(to[0]);
    close(from[1]);
    return link;
}

__attribute__((unused)) static void put(struct link link, const void *bytes, size_t size) {
    CHECK(write(link.out, bytes, size) == (ssize_t)size);
}

__attribute__((unused)) static void get(struct link link, void *bytes, size_t size) {
    for (size_t had = 0; had < size;) {
        ssize_t n = read(link.in, (char *)bytes + had, size - had);
        int status = 0;
        /* The other one has said why it ended. */
        if (n <= 0) _exit(waitpid(link.pid, &status, 0) == link.pid && WIFEXITED(status) && WEXITSTATUS(status) == CANNOT ? CANNOT : 5);
        had += (size_t)n;
    }
}

__attribute__((unused)) static void put_handle(struct link link, Handle handle) { put(link, &handle, sizeof handle); }
__attribute__((unused)) static Handle get_handle(struct link link) {
    Handle handle;
    get(link, &handle, sizeof handle);
    return handle;
}

/* It is the other one's turn. */
__attribute__((unused)) static void tell(struct link link) { put(link, "!", 1); }
__attribute__((unused)) static void wait_for(struct link link) {
    char turn;
    get(link, &turn, 1);
}

/* Waits until the other one has ended, which has to be with an exit status. */
__attribute__((unused)) static void ended_with(struct link link, int expected) {
    int status = -1;
    CHECK(waitpid(link.pid, &status, 0) == link.pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT) _exit(CANNOT);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == expected);
    close(link.in);
    close(link.out);
}

/* The same, and well. */
__attribute__((unused)) static void ended(struct link link) { ended_with(link, 0); }

/* Exports for an importer, and frees when that has ended. */
__attribute__((unused)) static void export_for(void (*importer)(struct link)) {
    struct link link = employ(importer);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    ended(link);
    OK(cuMemFree_v2(p));
}

/* Has the simulated driver behind `answers.c` give this result for a function, until it is told NULL. */
__attribute__((unused)) static void answer(const char *function, const char *result) {
    char text[96];
    snprintf(text, sizeof text, "%s=%s", function, result ? result : "");
    CHECK(setenv("ANSWERS", result ? text : "", 1) == 0);
}

/* One rule. */
struct scene {
    const char *rule;
    void (*play)(void);
};

__attribute__((unused)) static int play(const struct scene *scenes, size_t count, int argc, char **argv) {
    CHECK(argc == 3 && (strcmp(argv[2], "bad") == 0 || strcmp(argv[2], "good") == 0));
    bad = argv[2][0] == 'b';
    alarm(300);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(scenes[i].rule, argv[1]) != 0) continue;
        scenes[i].play();
        dprintf(1, "done\n");
        return 0;
    }
    give_up(2, __FILE__, __LINE__, "no such rule in this program");
}
#define SCENES(...)                                                                                                    \
    int main(int argc, char **argv) {                                                                                  \
        static const struct scene scenes[] = {__VA_ARGS__};                                                            \
        return play(scenes, sizeof scenes / sizeof *scenes, argc, argv);                                               \
    }
#endif
