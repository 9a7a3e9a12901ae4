// waits SCENE: what a missing wait reads on a late device. Each scene prints `new` where it sees what it wrote, and `old` where
// it sees what was there before; those whose name begins with `right-` wait for what they read.
#include "vmm.h"

int cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, void *), cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, void *);
int cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, void *), cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, void *);
int cuMemcpyBatchAsync_v2(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, void *);
int cuStreamSynchronize(void *), cuCtxSynchronize(void), cuEventSynchronize(void *), cuStreamWaitEvent(void *, void *, unsigned);
int cuMemHostAlloc(void **, size_t, unsigned), cuMemAllocAsync(CUdeviceptr *, size_t, void *), cuMemFreeAsync(CUdeviceptr, void *);
int cuLaunchHostFunc(void *, void (*)(void *), void *), cuEventElapsedTime(float *, void *, void *);
int cuIpcGetEventHandle(Handle *, void *), cuIpcOpenEventHandle(void **, Handle);
int cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **), cuGraphLaunch(void *, void *);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long);

enum { SIZE = 4096, NOT_READY = 600, ILLEGAL_ADDRESS = 700, INTERPROCESS = 6 };
static const char *scene;
static int right;
static void *stream, *other, *blocking, *event;
static CUdeviceptr a, b;
static unsigned char *pinned;

static int is(const char *name) { return strcmp(scene + 6 * right, name) == 0; }
static void say(unsigned char seen) { printf("%s\n", seen == 2 ? "new" : seen == 1 ? "old" : "neither"); }

// What is in memory, once all is done that a blocking copy waits for.
static unsigned char first(CUdeviceptr at) {
    unsigned char bytes[SIZE];
    IS(cuMemcpyDtoH_v2(bytes, at, SIZE), 0);
    return bytes[SIZE - 1];
}

static void setup(int device) {
    start(device);
    IS(cuStreamCreate(&stream, 1), 0);
    IS(cuStreamCreate(&other, 1), 0);
    IS(cuStreamCreate(&blocking, 0), 0);
    IS(cuEventCreate(&event, 0), 0);
    IS(cuMemAlloc_v2(&a, SIZE), 0);
    IS(cuMemAlloc_v2(&b, SIZE), 0);
    IS(cuMemHostAlloc((void **)&pinned, SIZE, 0), 0);
    memset(pinned, 1, SIZE);
    IS(cuMemsetD8_v2(a, 1, SIZE), 0);
    IS(cuMemsetD8_v2(b, 1, SIZE), 0);
    IS(cuCtxSynchronize(), 0);
}

static void within(void) {
    unsigned char bytes[SIZE];
    setup(0);
    if (is("blocking-copy")) {
        IS(cuMemsetD8Async(a, 2, SIZE, stream), 0);
        if (right) IS(cuStreamSynchronize(stream), 0);
        say(first(a));
    } else if (is("other-stream")) {
        IS(cuMemsetD8Async(a, 2, SIZE, stream), 0);
        IS(cuEventRecord(event, stream), 0);
        if (right) IS(cuStreamWaitEvent(other, event, 0), 0);
        IS(cuMemcpyDtoDAsync_v2(b, a, SIZE, other), 0);
        IS(cuStreamSynchronize(other), 0);
        say(first(b));
    } else if (is("host")) {
        IS(cuMemsetD8Async(a, 2, SIZE, stream), 0);
        IS(cuMemcpyDtoHAsync_v2(pinned, a, SIZE, stream), 0);
        IS(cuEventRecord(event, stream), 0);
        if (right) IS(cuEventSynchronize(event), 0);
        say(pinned[0]);
    } else if (is("reused-host")) {
        memset(pinned, 2, SIZE);
        IS(cuMemcpyHtoDAsync_v2(a, pinned, SIZE, stream), 0);
        if (right) IS(cuStreamSynchronize(stream), 0);
        memset(pinned, 1, SIZE);
        IS(cuStreamSynchronize(stream), 0);
        say(first(a));
    } else if (is("any-order")) {
        // CU_MEMCPY_SRC_ACCESS_ORDER_STREAM or _ANY, the first of the six words of CUmemcpyAttributes.
        int attributes[6] = {right ? 1 : 3};
        size_t size = SIZE, group = 0;
        IS(cuMemsetD8Async(a, 2, SIZE, stream), 0);
        IS(cuMemcpyBatchAsync_v2(&b, &a, &size, 1, attributes, &group, 1, stream), 0);
        IS(cuStreamSynchronize(stream), 0);
        say(first(b));
    } else if (is("pageable")) {
        // It is taken before the call returns.
        memset(bytes, 2, SIZE);
        IS(cuMemcpyHtoDAsync_v2(a, bytes, SIZE, stream), 0);
        memset(bytes, 1, SIZE);
        IS(cuMemcpyDtoHAsync_v2(bytes, a, SIZE, stream), 0);
        say(bytes[0]);
    } else if (is("legacy")) {
        // The default stream waits for those that block, and these for it.
        IS(cuMemsetD8Async(a, 2, SIZE, blocking), 0);
        IS(cuMemcpyDtoD_v2(b, a, SIZE), 0);
        IS(cuMemcpyDtoHAsync_v2(pinned, b, SIZE, blocking), 0);
        IS(cuStreamSynchronize(blocking), 0);
        say(pinned[0]);
    } else if (is("allocated")) {
        // An allocation in the order of the default stream stands between the streams that wait for it.
        void *second;
        CUdeviceptr pooled;
        IS(cuStreamCreate(&second, 0), 0);
        IS(cuMemsetD8Async(a, 2, SIZE, blocking), 0);
        IS(cuMemAllocAsync(&pooled, SIZE, 0), 0);
        IS(cuMemcpyDtoDAsync_v2(b, a, SIZE, second), 0);
        IS(cuMemcpyDtoHAsync_v2(pinned, b, SIZE, second), 0);
        IS(cuStreamSynchronize(second), 0);
        say(pinned[0]);
    } else if (is("freed")) {
        // Its bytes are those of another one, before the copy reads them.
        CUdeviceptr pooled, next;
        IS(cuMemAllocAsync(&pooled, SIZE, other), 0);
        IS(cuMemsetD8Async(pooled, 2, SIZE, other), 0);
        IS(cuStreamSynchronize(other), 0);
        IS(cuMemcpyDtoDAsync_v2(a, pooled, SIZE, stream), 0);
        IS(cuEventRecord(event, stream), 0);
        if (right) IS(cuStreamWaitEvent(other, event, 0), 0);
        IS(cuMemFreeAsync(pooled, other), 0);
        IS(cuMemFreeAsync(pooled, other), 1);
        if (right) IS(cuStreamSynchronize(other), 0);
        IS(cuMemAllocAsync(&next, SIZE, other), 0);
        IS(cuMemsetD8Async(next, 1, SIZE, other), 0);
        IS(cuStreamSynchronize(other), 0);
        IS(cuStreamSynchronize(stream), 0);
        say(first(a));
    } else if (is("graph")) {
        void *graph, *exec;
        IS(cuStreamBeginCapture_v2(stream, 0), 0);
        IS(cuMemsetD8Async(a, 2, SIZE, stream), 0);
        IS(cuMemcpyDtoDAsync_v2(b, a, SIZE, stream), 0);
        IS(cuStreamEndCapture(stream, &graph), 0);
        IS(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
        IS(cuGraphLaunch(exec, stream), 0);
        if (right) IS(cuStreamSynchronize(stream), 0);
        say(first(b));
    } else if (is("queries")) {
        int asked = 0;
        float ms;
        void *end;
        IS(cuEventCreate(&end, 0), 0);
        IS(cuMemsetD8Async(a, 2, SIZE, stream), 0);
        IS(cuEventRecord(event, stream), 0);
        IS(cuMemsetD8Async(b, 2, SIZE, other), 0);
        IS(cuEventRecord(end, other), 0);
        IS(cuEventElapsedTime(&ms, event, end), NOT_READY);
        while (cuEventQuery(event) == NOT_READY) asked++;
        while (cuStreamQuery(other) == NOT_READY) asked++;
        IS(asked >= 2 && asked <= 6, 1);
        IS(cuEventElapsedTime(&ms, event, end), 0);
        say(first(a));
    } else if (is("many")) {
        // A queue is not longer than it is.
        for (int i = 0; i < 3000; i++) IS(cuMemsetD8Async(a, i == 0 ? 2 : 3, 1, stream), 0);
        say(first(a) == 1 && (cuMemcpyDtoH_v2(bytes, a, 1), bytes[0] == 3) ? 2 : 1);
    } else if (is("seen")) {
        // A host that looks at memory instead of asking gets what comes, in time.
        IS(cuMemsetD8Async(a, 2, SIZE, stream), 0);
        IS(cuMemcpyDtoHAsync_v2(pinned, a, SIZE, stream), 0);
        while (*(volatile unsigned char *)pinned != 2) usleep(100);
        say(2);
    } else if (is("unmapped")) {
        Allocation allocation;
        IS(create(&allocation, 0, GRANULE), 0);
        CUdeviceptr at = map(allocation, GRANULE, 0);
        IS(cuMemsetD8_v2(at, 2, GRANULE), 0);
        IS(cuCtxSynchronize(), 0);
        IS(cuMemcpyDtoDAsync_v2(a, at, SIZE, stream), 0);
        if (right) IS(cuStreamSynchronize(stream), 0);
        IS(cuMemUnmap(at, GRANULE), 0);
        int result = cuStreamSynchronize(stream);
        IS(result, right ? 0 : ILLEGAL_ADDRESS);
        say(result == 0 ? first(a) : 1);
    } else
        abort();
}

typedef struct { Handle memory, event; } Shared;

static void swap(int socket) {
    char byte = 0;
    IS(write(socket, &byte, 1), 1);
    IS(read(socket, &byte, 1), 1);
}

static volatile int released;
static void waits_for_release(void *unused) {
    (void)unused;
    while (!released) usleep(100);
}

// The one writes its memory, and tells the other one; in half of the scenes, it is the other one that writes.
static void owner(int socket) {
    Shared shared;
    void *ready;
    setup(0);
    IS(cuEventCreate(&ready, INTERPROCESS), 0);
    IS(cuIpcGetMemHandle(&shared.memory, a), 0);
    IS(cuIpcGetEventHandle(&shared.event, ready), 0);
    if (is("ended")) IS(cuLaunchHostFunc(stream, waits_for_release, NULL), 0);
    if (!is("back")) {
        IS(cuMemsetD8Async(a, is("overtaken") ? 1 : 2, SIZE, stream), 0);
        IS(cuEventRecord(ready, stream), 0);
    }
    IS(write(socket, &shared, sizeof shared), sizeof shared);
    swap(socket);
    if (is("ended")) _exit(0);
    if (is("overtaken")) IS(cuStreamSynchronize(stream), 0);
    if (is("back")) {
        if (right) IS(cuStreamWaitEvent(stream, ready, 0), 0);
        IS(cuMemcpyDtoDAsync_v2(b, a, SIZE, stream), 0);
        IS(cuStreamSynchronize(stream), 0);
        say(first(b));
        fflush(stdout);
    }
    swap(socket);
}

static void peer(int socket) {
    Shared shared;
    void *ready;
    CUdeviceptr theirs;
    setup(0);
    IS(read(socket, &shared, sizeof shared), sizeof shared);
    IS(cuIpcOpenMemHandle_v2(&theirs, shared.memory, 1), 0);
    IS(cuIpcOpenEventHandle(&ready, shared.event), 0);
    if (is("back")) {
        IS(cuMemsetD8Async(theirs, 2, SIZE, stream), 0);
        IS(cuEventRecord(ready, stream), 0);
        swap(socket);
    } else if (is("ended")) {
        IS(cuEventQuery(ready), NOT_READY);
        swap(socket);
        IS(cuEventSynchronize(ready), 0);
        say(right + 1);
        return;
    } else if (is("overtaken")) {
        // What nothing orders comes first, whoever waits for it first.
        if (right) IS(cuStreamWaitEvent(other, ready, 0), 0);
        IS(cuMemsetD8Async(theirs, 2, SIZE, other), 0);
        swap(socket);
        swap(socket);
        IS(cuStreamSynchronize(other), 0);
        say(first(theirs));
        return;
    } else {
        if (right && is("asked")) while (cuEventQuery(ready) == NOT_READY) usleep(100);
        if (right && is("synchronized")) IS(cuEventSynchronize(ready), 0);
        if (right && is("waited")) IS(cuStreamWaitEvent(other, ready, 0), 0);
        // A record of one's own comes after, and does not stand for the other one's.
        if (is("waited")) IS(cuEventRecord(ready, stream), 0);
        IS(cuMemcpyDtoDAsync_v2(b, theirs, SIZE, other), 0);
        IS(cuStreamSynchronize(other), 0);
        say(first(b));
        fflush(stdout);
        swap(socket);
    }
    swap(socket);
    IS(cuIpcCloseMemHandle(theirs), 0);
}

int main(int count, char **arguments) {
    int sockets[2];
    IS(count, 2);
    scene = arguments[1];
    right = strncmp(scene, "right-", 6) == 0;
    alarm(60);
    if (!is("back") && !is("asked") && !is("synchronized") && !is("waited") && !is("ended") && !is("overtaken")) {
        within();
        return 0;
    }
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid_t child = fork();
    if (!child) {
        close(sockets[0]);
        peer(sockets[1]);
        fflush(stdout);
        _exit(0);
    }
    close(sockets[1]);
    int ended = is("ended") ? fork() : 0;
    if (!ended) {
        owner(sockets[0]);
        if (is("ended")) _exit(0);
    }
    close(sockets[0]);
    int status = 0;
    waitpid(child, &status, 0);
    IS(status, 0);
    return 0;
}
