/* order HOW: `both`: two processes share memory and an event, use them in streams, and wait. The number behind a line says which one it
 * is of those that the record is to have of its process. `alone`: the first process does the same, and shares nothing. `often`: it
 * sets its exported memory and waits for that, 4,000 times. `graphs`: it launches graphs that use its exported memory. */
#include "../conformance/programs/common.h"
#include <sys/socket.h>

typedef struct {
    Handle memory, event;
} Sent;

#define BYTES ((size_t)4 << 20)
int cuIpcGetEventHandle(Handle *, void *), cuIpcOpenEventHandle(void **, Handle), cuEventSynchronize(void *);
int cuStreamSynchronize(void *), cuStreamWaitEvent(void *, void *, unsigned), cuCtxSynchronize(void);
int cuLaunchHostFunc(void *, void (*)(void *), void *), cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, void *);
int cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, void *), cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, void *);
int cuMemsetD2D8Async(CUdeviceptr, size_t, unsigned char, size_t, size_t, void *), cuMemcpy2DAsync_v2(const void *, void *);
int cuMemcpyBatchAsync_v2(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, void *);

int cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **), cuGraphInstantiateWithFlags(void **, void *, unsigned long long);
int cuGraphLaunch(void *, void *), cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, void *);

static void nothing(void *unused) { (void)unused; }

static void *stream(void) {
    void *made;
    IS(cuStreamCreate(&made, 1), 0);
    return made;
}

static void owner(int socket, int is_alone) {
    CUdeviceptr shared, own;
    void *event, *local, *a = stream(), *b = stream();
    char bytes[64] = {0};
    Sent sent;
    IS(cuMemAlloc_v2(&shared, BYTES), 0);
    IS(cuMemAlloc_v2(&own, BYTES), 0);
    IS(cuEventCreate(&event, 2 | 4), 0);
    IS(cuEventCreate(&local, 2), 0);
    IS(cuStreamSynchronize(a), 0);
    IS(cuMemsetD8Async(own, 1, 64, a), 0);
    IS(cuStreamSynchronize(a), 0);
    if (!is_alone) {
        IS(cuIpcGetMemHandle(&sent.memory, shared), 0);
        IS(cuIpcGetEventHandle(&sent.event, event), 0);
    }
    /* Other memory, and a wait for nothing. */
    IS(cuMemsetD8Async(own, 1, 64, a), 0);
    IS(cuStreamSynchronize(a), 0);
    IS(cuCtxSynchronize(), 0);
    /* Uses, and what a stream does behind them. */
    IS(cuMemcpyHtoDAsync_v2(shared, bytes, 64, a), 0);           /* 1 */
    IS(cuMemsetD2D8Async(shared + 4096, 64, 1, 8, 4, a), 0);     /* 2 */
    IS(cuLaunchHostFunc(a, nothing, 0), 0);                      /* 3 */
    IS(cuLaunchHostFunc(b, nothing, 0), 0);
    IS(cuEventRecord(local, a), 0);                              /* 4 */
    IS(cuStreamWaitEvent(b, local, 0), 0);                       /* 5 */
    IS(cuStreamSynchronize(b), 0);                               /* 6 */
    IS(cuEventSynchronize(local), 0);                            /* 7 */
    IS(cuEventSynchronize(local), 0);
    IS(cuStreamSynchronize(a), 0);
    IS(cuMemcpyDtoDAsync_v2(own, shared, 64, 0), 0);             /* 8 */
    IS(cuStreamQuery(a), 0);
    while (cuStreamQuery(0)) continue;                           /* 9 */
    IS(cuMemsetD8Async(shared, 1, 64, b), 0);                    /* 10 */
    IS(cuCtxSynchronize(), 0);                                   /* 11 */
    IS(cuStreamSynchronize(b), 0);
    IS(cuMemsetD8Async(shared, 1, 64, b), 0);                    /* 12 */
    IS(cuEventRecord(event, b), 0);                              /* 13 */
    IS(cuStreamDestroy_v2(b), 0);                                /* 14 */
    if (is_alone) return;
    IS(write(socket, &sent, sizeof sent), sizeof sent);
    IS(read(socket, bytes, 1), 1);
    IS(cuEventDestroy_v2(local), 0);
}

static void often(void) {
    CUdeviceptr shared;
    Handle handle;
    void *a = stream();
    IS(cuMemAlloc_v2(&shared, BYTES), 0);
    IS(cuIpcGetMemHandle(&handle, shared), 0);
    for (int i = 0; i < 4000; i++) {
        IS(cuMemsetD8Async(shared, 1, 64, a), 0);
        IS(cuStreamSynchronize(a), 0);
    }
}

static CUdeviceptr exported;
static char host[64];

static void fills(void *a) { IS(cuMemsetD8Async(exported + 4096, 7, 64, a), 0); }
static void takes(void *a) { IS(cuMemcpyDtoHAsync_v2(host, exported, 64, a), 0); }
static void calls(void *a) {
    fills(a);
    IS(cuLaunchHostFunc(a, nothing, 0), 0);
}

static void *captured(void *a, void (*work)(void *)) {
    void *graph, *exec;
    IS(cuStreamBeginCapture_v2(a, 2), 0);
    work(a);
    IS(cuStreamEndCapture(a, &graph), 0);
    IS(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    return exec;
}

static void graphs(void) {
    Handle handle;
    void *graph, *a = stream();
    IS(cuMemAlloc_v2(&exported, BYTES), 0);
    IS(cuIpcGetMemHandle(&handle, exported), 0);
    void *fill = captured(a, fills);
    IS(cuGraphLaunch(fill, a), 0);
    IS(cuGraphLaunch(captured(a, takes), a), 0);
    IS(cuGraphLaunch(captured(a, calls), a), 0);
    IS(cuStreamBeginCapture_v2(a, 2), 0);
    IS(cuGraphLaunch(fill, a), 0);
    IS(cuStreamEndCapture(a, &graph), 0);
}

static void importer(int socket) {
    CUdeviceptr shared, own;
    void *event, *a = stream();
    Sent sent;
    IS(read(socket, &sent, sizeof sent), sizeof sent);
    IS(cuMemAlloc_v2(&own, BYTES), 0);
    IS(cuIpcOpenMemHandle_v2(&shared, sent.memory, 1), 0);
    IS(cuIpcOpenEventHandle(&event, sent.event), 0);
    IS(cuStreamSynchronize(a), 0);
    IS(cuStreamWaitEvent(a, event, 0), 0);                       /* 1 */
    IS(cuStreamSynchronize(a), 0);                               /* 2 */
    IS(cuStreamSynchronize(a), 0);
    while (cuEventQuery(event)) continue;                        /* 3 */
    IS(cuMemsetD8Async(own, 1, 64, a), 0);
    /* CUDA_MEMCPY2D: each side's x, y, kind, addresses, and pitch; and the order in which a batch uses its sources. */
    struct { struct { size_t x, y; int kind; void *host; CUdeviceptr device; void *array; size_t pitch; } from, to; size_t width, height; } rows =
        {{.kind = 2, .device = own, .pitch = 64}, {.kind = 2, .device = own + 4096, .pitch = 64}, 16, 4};
    struct { int order, rest[5]; } attributes = {.order = 1};
    CUdeviceptr to[] = {own, own + 128, shared + 256}, from[] = {shared, shared + 64, own};
    size_t sizes[] = {64, 64, 32}, first = 0;
    IS(cuMemcpy2DAsync_v2(&rows, a), 0);
    IS(cuMemcpyBatchAsync_v2(from + 2, to + 1, sizes, 1, &attributes, &first, 1, a), 0);
    rows.from.device = shared;
    IS(cuMemcpy2DAsync_v2(&rows, a), 0);                         /* 4 */
    IS(cuMemcpyBatchAsync_v2(to, from, sizes, 3, &attributes, &first, 1, a), 0); /* 5 */
    IS(cuMemsetD8Async(shared, 1, 64, a), 0);                    /* 6 */
    IS(cuStreamSynchronize(a), 0);                               /* 7 */
    IS(cuIpcCloseMemHandle(shared), 0);
    IS(cuMemsetD8Async(own, 1, 64, a), 0);
    IS(cuStreamSynchronize(a), 0);
    IS(write(socket, "", 1), 1);
}

int main(int argc, char **argv) {
    alarm(60);
    IS(argc, 2);
    int sockets[2], status = 0, is_alone = strcmp(argv[1], "alone") == 0, is_often = strcmp(argv[1], "often") == 0;
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    int has_graphs = strcmp(argv[1], "graphs") == 0;
    pid_t pid = is_alone || is_often || has_graphs ? -1 : fork();
    void *context;
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
    if (pid == 0) {
        importer(sockets[1]);
        return 0;
    }
    if (is_often || has_graphs) {
        is_often ? often() : graphs();
        return 0;
    }
    owner(sockets[0], is_alone);
    if (pid > 0) IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    return 0;
}
