/* Makes the calls that its arguments spell, in as many processes as they say, and prints what each returned.
 *
 *   faults HOW PROCESSES THREADS WORD...
 *
 * HOW is "turns" (one process after the other, one thread after the other) or "crowd" (all at once). A word is made
 * letter by letter:
 *   c  cuDeviceCanAccessPeer(0, 1)       r  cuDeviceCanAccessPeer(1, 0)     a  cuDeviceGetP2PAttribute(ACCESS_SUPPORTED, 0, 1)
 *   e  cuCtxEnablePeerAccess(context 1)  d  cuCtxDisablePeerAccess
 *   g  cuIpcGetMemHandle of memory of this process      o  cuIpcOpenMemHandle_v2 of the parent's   x  cuIpcCloseMemHandle
 *   v  cuIpcGetEventHandle               w  cuIpcOpenEventHandle of the parent's                   y  cuEventDestroy
 *   f  cuMemFree and cuMemAlloc          1  makes the context of device 1 current                  0  that of device 0
 *   n  cuMemCreate of 2 MiB on device 0, for descriptors       k  cuMemAddressReserve         j  cuMemMap
 *   s  cuMemSetAccess for device 0       q  cuMemUnmap                       z  cuMemAddressFree
 *   t  cuMemExportToShareableHandle, whose descriptor becomes 57             i  cuMemImportFromShareableHandle of that
 *   u  cuMemRelease of the import        b  prints the outputs of these
 *   m  cupeer_mark("mark")               p  prints the last outputs      h  of the last handle     l  prints the ledger
 * For each process and thread a line "PROCESS.THREAD: RESULT RESULT ...". The parent exports and opens nothing itself. */
#include "maps.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long CUdeviceptr;
typedef void *CUcontext;
typedef struct { unsigned char bytes[64]; } Handle;
typedef unsigned long long Allocation;
typedef struct { int type, id; } Location;
typedef struct { Location location; int flags; } Access;
typedef struct { int type, handleTypes; Location location; void *security; unsigned char flags[8]; } Properties;
enum { GRANULE = 2 << 20, DESCRIPTOR = 57 };

#define FUNCTIONS(F)                                                                                                   \
    F(cuInit, (unsigned))                                                                                              \
    F(cuDevicePrimaryCtxRetain, (CUcontext *, int))                                                                    \
    F(cuCtxSetCurrent, (CUcontext))                                                                                    \
    F(cuDeviceCanAccessPeer, (int *, int, int))                                                                        \
    F(cuDeviceGetP2PAttribute, (int *, int, int, int))                                                                 \
    F(cuCtxEnablePeerAccess, (CUcontext, unsigned))                                                                    \
    F(cuCtxDisablePeerAccess, (CUcontext))                                                                             \
    F(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                                          \
    F(cuMemFree_v2, (CUdeviceptr))                                                                                     \
    F(cuEventCreate, (void **, unsigned))                                                                              \
    F(cuEventDestroy_v2, (void *))                                                                                     \
    F(cuIpcGetMemHandle, (Handle *, CUdeviceptr))                                                                      \
    F(cuIpcOpenMemHandle_v2, (CUdeviceptr *, Handle, unsigned))                                                        \
    F(cuIpcCloseMemHandle, (CUdeviceptr))                                                                              \
    F(cuIpcGetEventHandle, (Handle *, void *))                                                                         \
    F(cuIpcOpenEventHandle, (void **, Handle))                                                                         \
    F(cuMemCreate, (Allocation *, size_t, const Properties *, unsigned long long))                                     \
    F(cuMemRelease, (Allocation))                                                                                      \
    F(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))                           \
    F(cuMemAddressFree, (CUdeviceptr, size_t))                                                                         \
    F(cuMemMap, (CUdeviceptr, size_t, size_t, Allocation, unsigned long long))                                         \
    F(cuMemUnmap, (CUdeviceptr, size_t))                                                                               \
    F(cuMemSetAccess, (CUdeviceptr, size_t, const Access *, size_t))                                                   \
    F(cuMemExportToShareableHandle, (void *, Allocation, int, unsigned long long))                                     \
    F(cuMemImportFromShareableHandle, (Allocation *, void *, int))
#define DECLARE(name, args) static int(*name) args;
FUNCTIONS(DECLARE)

static int (*ledger)(const char *);
static int (*mark)(const char *);
static int threads, is_crowd;
static char **words;
static struct shared {
    Handle memory, event;
    pthread_mutex_t lock;
} *shared;

static int held(const char *what) { return ledger ? ledger(what) : -1; }

static const char *named(unsigned long long output) { return output == 77 ? "untouched" : output ? "set" : "null"; }

struct thread {
    int process, number;
    pthread_t id;
};

static void *run(void *argument) {
    struct thread *thread = argument;
    CUcontext contexts[2];
    CUdeviceptr own = 0, opened = 0;
    void *event = NULL, *opened_event = NULL;
    Handle handle;
    int value = -1, fd = -7;
    Allocation made = 0, imported = 0;
    CUdeviceptr reserved = 0;
    const Properties properties = {.type = 1, .handleTypes = 1, .location = {1, 0}};
    const Access access = {{1, 0}, 3};
    size_t size = 1 << 16, length = 0;
    char *line = malloc(size);
    cuInit(0);
    for (int i = 0; i < 2; i++) cuDevicePrimaryCtxRetain(&contexts[i], i);
    cuCtxSetCurrent(contexts[0]);
    cuMemAlloc_v2(&own, 4096);
    cuEventCreate(&event, 6);
    memset(&handle, 0, sizeof handle);
#define SAY(...) (length += (size_t)snprintf(line + length, size - length, __VA_ARGS__))
    for (char **word = words; *word; word++) {
        for (const char *letter = *word; *letter; letter++) {
            int result = 0;
            switch (*letter) {
            case 'c': result = cuDeviceCanAccessPeer(&value, 0, 1); break;
            case 'r': result = cuDeviceCanAccessPeer(&value, 1, 0); break;
            case 'a': result = cuDeviceGetP2PAttribute(&value, 2, 0, 1); break;
            case 'e': result = cuCtxEnablePeerAccess(contexts[1], 0); break;
            case 'd': result = cuCtxDisablePeerAccess(contexts[1]); break;
            case 'g': result = cuIpcGetMemHandle(&handle, own); break;
            case 'o': opened = 77, result = cuIpcOpenMemHandle_v2(&opened, shared->memory, 1); break;
            case 'x': result = cuIpcCloseMemHandle(opened); break;
            case 'v': result = cuIpcGetEventHandle(&handle, event); break;
            case 'w': opened_event = (void *)77, result = cuIpcOpenEventHandle(&opened_event, shared->event); break;
            case 'y': result = cuEventDestroy_v2(opened_event); break;
            case 'f': result = cuMemFree_v2(own); if (!result) cuMemAlloc_v2(&own, 4096); break;
            case 'n': made = 77, result = cuMemCreate(&made, GRANULE, &properties, 0); break;
            case 'k': reserved = 77, result = cuMemAddressReserve(&reserved, GRANULE, 0, 0, 0); break;
            case 'j': result = cuMemMap(reserved, GRANULE, 0, made, 0); break;
            case 's': result = cuMemSetAccess(reserved, GRANULE, &access, 1); break;
            case 'q': result = cuMemUnmap(reserved, GRANULE); break;
            case 'z': result = cuMemAddressFree(reserved, GRANULE); break;
            case 't':
                fd = -7, result = cuMemExportToShareableHandle(&fd, made, 1, 0);
                if (fd >= 0) dup2(fd, DESCRIPTOR), close(fd), fd = DESCRIPTOR;
                break;
            case 'i': imported = 77, result = cuMemImportFromShareableHandle(&imported, (void *)DESCRIPTOR, 1); break;
            case 'u': result = cuMemRelease(imported); break;
            case '0': cuCtxSetCurrent(contexts[0]); continue;
            case '1': cuCtxSetCurrent(contexts[1]); continue;
            case 'm': if (mark) mark("mark"); continue;
            case 'p':
                SAY(" value=%d opened=%s event=%s", value, opened == 77 ? "untouched" : opened ? "set" : "null",
                    opened_event == (void *)77 ? "untouched" : opened_event ? "set" : "null");
                continue;
            case 'b':
                SAY(" made=%s reserved=%s fd=%d imported=%s", named(made), named(reserved), fd, named(imported));
                continue;
            case 'h':
                SAY(" handle=%02x%02x%02x", handle.bytes[0], handle.bytes[31], handle.bytes[63]);
                continue;
            case 'l':
                SAY(" calls=%d memory=%d events=%d peers=%d allocations=%d mappings=%d", held("calls"), held("memory"), held("events"),
                    held("peers"), held("allocations"), held("mappings"));
                continue;
            default: fprintf(stderr, "faults: no letter %c\n", *letter), exit(2);
            }
            SAY(" %d", result);
        }
    }
    pthread_mutex_lock(&shared->lock);
    printf("%d.%d:%s\n", thread->process, thread->number, line);
    fflush(stdout);
    pthread_mutex_unlock(&shared->lock);
    free(line);
    return NULL;
}

static void process(int number) {
    struct thread *all = calloc((size_t)threads, sizeof *all);
    for (int i = 0; i < threads; i++) {
        all[i] = (struct thread){number, i, 0};
        if (threads == 1) {
            run(&all[i]);
            continue;
        }
        pthread_create(&all[i].id, NULL, run, &all[i]);
        if (!is_crowd) pthread_join(all[i].id, NULL);
    }
    for (int i = 0; is_crowd && threads > 1 && i < threads; i++) pthread_join(all[i].id, NULL);
    exit(0);
}

int main(int count, char **arguments) {
    if (count < 5) return 2;
    int to_exporter[2], from_exporter[2], bad = 0;
    is_crowd = !strcmp(arguments[1], "crowd"), threads = atoi(arguments[3]), words = arguments + 4;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->lock, &attributes);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return fprintf(stderr, "faults: %s\n", dlerror()), 2;
    show_maps();
#define FIND(name, args) *(void **)&name = dlsym(driver, #name);
    FUNCTIONS(FIND)
    *(void **)&ledger = dlsym(driver, "cupeer_sim_ledger");
    *(void **)&mark = dlsym(RTLD_DEFAULT, "cupeer_mark");
    /* What the others open is exported by a process of its own, before them and without us: past the functions above. */
    if (pipe(to_exporter) || pipe(from_exporter)) return 2;
    pid_t exporter = fork();
    if (!exporter) {
        CUcontext context;
        CUdeviceptr memory = 0;
        void *event = NULL;
        char turn = 0;
        close(to_exporter[1]);
        cuInit(0), cuDevicePrimaryCtxRetain(&context, 0), cuCtxSetCurrent(context);
        cuMemAlloc_v2(&memory, 1 << 20), cuEventCreate(&event, 6);
        bad = cuIpcGetMemHandle(&shared->memory, memory) || cuIpcGetEventHandle(&shared->event, event);
        if (write(from_exporter[1], &turn, 1) != 1 || read(to_exporter[0], &turn, 1) < 0) bad = 1;
        _exit(bad);
    }
    char turn;
    if (read(from_exporter[0], &turn, 1) != 1) return 2;
    pid_t all[64];
    int processes = atoi(arguments[2]), status;
    for (int i = 0; i < processes; i++) {
        all[i] = fork();
        if (!all[i]) close(to_exporter[1]), process(i);
        if (!is_crowd) waitpid(all[i], &status, 0), bad |= status;
    }
    for (int i = 0; is_crowd && i < processes; i++) waitpid(all[i], &status, 0), bad |= status;
    close(to_exporter[1]);
    waitpid(exporter, &status, 0);
    if (bad) fprintf(stderr, "faults: a process ended with %#x\n", bad);
    return bad != 0;
}
