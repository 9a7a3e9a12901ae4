// rights SEED: two processes do random work on memory of both in streams of both, each piece behind what it conflicts with: by
// events of a process and of both, by waits of streams and of the host, by queries, and by the order of a stream. In the end, all
// memory holds what it would if everything had been done at once.
#include "vmm.h"
#include <poll.h>

int cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, void *), cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, void *);
int cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, void *), cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, void *);
int cuStreamSynchronize(void *), cuEventSynchronize(void *), cuStreamWaitEvent(void *, void *, unsigned);
int cuMemHostAlloc(void **, size_t, unsigned), cuMemAllocAsync(CUdeviceptr *, size_t, void *), cuMemFreeAsync(CUdeviceptr, void *);
int cuLaunchHostFunc(void *, void (*)(void *), void *), cuIpcGetEventHandle(Handle *, void *), cuIpcOpenEventHandle(void **, Handle);
int cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **), cuGraphLaunch(void *, void *);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long);

enum { SIZE = 256, BUFFERS = 6, STREAMS = 4, STEPS = 120, NOT_READY = 600 };
typedef struct { int process, stream; } Place;
static unsigned state;
static unsigned pick(unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

static int self, sockets[2], handed;
static void *streams[STREAMS], *event, *shared[2];
static CUdeviceptr buffers[BUFFERS];
static unsigned char meant[BUFFERS], *pinned;

static void tell(void) { IS(write(sockets[self], "x", 1), 1); }
static void hear(void) {
    char byte;
    IS(read(sockets[self], &byte, 1), 1);
}

// Who wrote each buffer last, and who has read it since.
static Place writers[BUFFERS], readers[BUFFERS][2 * STREAMS];
static int counts[BUFFERS];

// Has one place follow another one. Both processes come here for the same pair.
static void follow(Place later, Place earlier) {
    if (earlier.process < 0 || (later.process == earlier.process && later.stream == earlier.stream)) return;
    // Streams 2 and 3 are the default one and one that blocks.
    if (later.process == earlier.process && later.stream >= 2 && earlier.stream >= 2 && pick(2)) return;
    int way = pick(4), is_far = later.process != earlier.process, all = pick(2);
    void *of = is_far ? shared[earlier.process] : event;
    if (earlier.process == self) {
        if (way > 0)
            IS(cuEventRecord(of, streams[earlier.stream]), 0);
        else
            IS(all ? cuCtxSynchronize() : cuStreamSynchronize(streams[earlier.stream]), 0);
        if (is_far) tell();
    } else if (later.process == self)
        hear();
    if (later.process == self) {
        if (way == 1) IS(cuEventSynchronize(of), 0);
        if (way == 2)
            while (cuEventQuery(of) == NOT_READY) poll(NULL, 0, 1);
        if (way == 3) IS(cuStreamWaitEvent(streams[later.stream], of, 0), 0);
        // The event is not recorded again before that.
        if (is_far) tell();
    } else if (is_far)
        hear();
}

static void before_reading(Place place, int buffer) {
    follow(place, writers[buffer]);
    readers[buffer][counts[buffer]++] = place;
}
static void before_writing(Place place, int buffer) {
    follow(place, writers[buffer]);
    for (int i = 0; i < counts[buffer]; i++) follow(place, readers[buffer][i]);
    counts[buffer] = 0;
    writers[buffer] = place;
}

static void adds(void *data) { __atomic_add_fetch((int *)data, 1, __ATOMIC_SEQ_CST); }

static void step(int number) {
    Place place = {pick(2), pick(STREAMS)};
    int to = pick(BUFFERS), from = pick(BUFFERS), what = pick(7), own = place.process == self;
    void *stream = streams[place.stream];
    unsigned char *host = pinned + SIZE * number, bytes[SIZE];
    // A buffer is read by few, so that there is room.
    if (what >= 5 && (to == from || counts[from] == 2 * STREAMS - 1)) what = 0;
    if (what >= 5) before_reading(place, from);
    before_writing(place, to);
    meant[to] = what >= 5 ? meant[from] : number + 1;
    if (!own) return;
    switch (what) {
    case 0: IS(cuMemsetD8Async(buffers[to], number + 1, SIZE, stream), 0); break;
    case 1:
        memset(host, number + 1, SIZE);
        IS(cuMemcpyHtoDAsync_v2(buffers[to], host, SIZE, stream), 0);
        break;
    case 2:
        memset(bytes, number + 1, SIZE);
        IS(cuMemcpyHtoDAsync_v2(buffers[to], bytes, SIZE, stream), 0);
        memset(bytes, 0, SIZE);
        break;
    case 3: {
        CUdeviceptr pooled;
        IS(cuMemAllocAsync(&pooled, SIZE, stream), 0);
        IS(cuMemsetD8Async(pooled, number + 1, SIZE, stream), 0);
        IS(cuMemcpyDtoDAsync_v2(buffers[to], pooled, SIZE, stream), 0);
        IS(cuMemFreeAsync(pooled, stream), 0);
        break;
    }
    case 4: {
        // A memset and a function of the program, as a graph.
        void *graph, *launched, *captured = streams[0];
        IS(cuStreamBeginCapture_v2(captured, 0), 0);
        IS(cuMemsetD8Async(buffers[to], number + 1, SIZE, captured), 0);
        IS(cuLaunchHostFunc(captured, adds, &handed), 0);
        IS(cuStreamEndCapture(captured, &graph), 0);
        IS(cuGraphInstantiateWithFlags(&launched, graph, 0), 0);
        IS(cuGraphLaunch(launched, stream), 0);
        break;
    }
    case 5: IS(cuMemcpyDtoDAsync_v2(buffers[to], buffers[from], SIZE, stream), 0); break;
    case 6:
        IS(cuMemcpyDtoHAsync_v2(host, buffers[from], SIZE, stream), 0);
        IS(cuMemcpyHtoDAsync_v2(buffers[to], host, SIZE, stream), 0);
        break;
    }
}

int main(int count, char **arguments) {
    Handle memory[BUFFERS / 2], theirs[BUFFERS / 2], own, other;
    unsigned char bytes[SIZE];
    IS(count, 2);
    state = atoi(arguments[1]) * 7919;
    alarm(100);
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid_t child = fork();
    self = child == 0;
    start(self);
    for (int i = 0; i < STREAMS; i++)
        if (i != 2) IS(cuStreamCreate(&streams[i], i < 2), 0);
    IS(cuEventCreate(&event, 2), 0);
    IS(cuEventCreate(&shared[self], 6), 0);
    IS(cuMemHostAlloc((void **)&pinned, SIZE * STEPS, 0), 0);
    for (int i = 0; i < BUFFERS / 2; i++) {
        CUdeviceptr *mine = &buffers[self * BUFFERS / 2 + i];
        IS(cuMemAlloc_v2(mine, SIZE), 0);
        IS(cuMemsetD8_v2(*mine, 0, SIZE), 0);
        IS(cuIpcGetMemHandle(&memory[i], *mine), 0);
    }
    IS(cuCtxSynchronize(), 0);
    IS(cuIpcGetEventHandle(&own, shared[self]), 0);
    IS(write(sockets[self], memory, sizeof memory) + write(sockets[self], &own, sizeof own), sizeof memory + sizeof own);
    IS(recv(sockets[self], theirs, sizeof theirs, MSG_WAITALL), sizeof theirs);
    IS(recv(sockets[self], &other, sizeof other, MSG_WAITALL), sizeof other);
    for (int i = 0; i < BUFFERS / 2; i++)
        IS(cuIpcOpenMemHandle_v2(&buffers[(1 - self) * BUFFERS / 2 + i], theirs[i], 1), 0);
    IS(cuIpcOpenEventHandle(&shared[1 - self], other), 0);
    for (int i = 0; i < BUFFERS; i++) writers[i].process = -1;
    for (int i = 0; i < STEPS; i++) step(i);
    IS(cuCtxSynchronize(), 0);
    tell();
    hear();
    for (int i = 0; i < BUFFERS; i++) {
        IS(cuMemcpyDtoH_v2(bytes, buffers[i], SIZE), 0);
        IS(bytes[0], meant[i]);
        IS(bytes[SIZE - 1], meant[i]);
    }
    tell();
    hear();
    if (!child) _exit(0);
    int status;
    waitpid(child, &status, 0);
    IS(status, 0);
    return 0;
}
