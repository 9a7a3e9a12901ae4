// Values in memory that streams write and wait for: between streams, from the host, and between two processes. A stream that waits
// holds up no other one.
#include "common.h"

typedef union { struct { int operation; CUdeviceptr address; unsigned long long value; unsigned flags; } value; struct { int operation; unsigned flags; } other; unsigned long long pad[6]; } Params;
int cuStreamWaitValue32_v2(void *, CUdeviceptr, unsigned, unsigned), cuStreamWriteValue32_v2(void *, CUdeviceptr, unsigned, unsigned);
int cuStreamWaitValue64_v2(void *, CUdeviceptr, unsigned long long, unsigned), cuStreamWriteValue64_v2(void *, CUdeviceptr, unsigned long long, unsigned);
int cuStreamWriteValue32(void *, CUdeviceptr, unsigned, unsigned), cuStreamBatchMemOp_v2(void *, unsigned, Params *, unsigned);
int cuStreamSynchronize(void *), cuEventSynchronize(void *), cuStreamWaitEvent(void *, void *, unsigned), cuDeviceGetAttribute(int *, int, int);
int cuMemHostAlloc(void **, size_t, unsigned), cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, void *), cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
int cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, void *), cuLaunchHostFunc(void *, void (*)(void *), void *);
int cuStreamBeginCapture_v2(void *, int);
enum { GEQ, EQ, AND, NOR, FLUSH = 1 << 30, INVALID = 1, NOT_READY = 600, NOT_SUPPORTED = 801, UNSUPPORTED = 900 };

static void begin(int device) {
    void *context;
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, device), 0);
    IS(cuCtxSetCurrent(context), 0);
}

static void sets(void *word) { __atomic_store_n((int *)word, 7, __ATOMIC_SEQ_CST); }

// A stream is held by the host's value, and what follows its event; others go on, also with functions of the program.
static void held(int ignored) {
    (void)ignored;
    void *a, *b, *c, *event;
    CUdeviceptr device;
    volatile int *word;
    unsigned char *out;
    begin(0);
    IS(cuStreamCreate(&a, 1), 0);
    IS(cuStreamCreate(&b, 1), 0);
    IS(cuStreamCreate(&c, 1), 0);
    IS(cuEventCreate(&event, 2), 0);
    IS(cuMemAlloc_v2(&device, 64), 0);
    IS(cuMemsetD8_v2(device, 0, 64), 0);
    IS(cuStreamSynchronize(NULL), 0);
    IS(cuMemHostAlloc((void **)&word, 64, 0), 0);
    IS(cuMemHostAlloc((void **)&out, 64, 0), 0);
    *word = 0, out[0] = 9;
    CUdeviceptr at = (CUdeviceptr)word;
    IS(cuStreamWaitValue32_v2(a, at, 0, GEQ), 0);
    IS(cuStreamSynchronize(a), 0);
    IS(cuStreamWaitValue32_v2(a, at, 7, EQ), 0);
    IS(cuMemsetD8Async(device, 5, 64, a), 0);
    IS(cuEventRecord(event, a), 0);
    IS(cuStreamWaitEvent(b, event, 0), 0);
    IS(cuMemcpyDtoHAsync_v2(out, device, 64, b), 0);
    IS(cuStreamQuery(a), NOT_READY);
    IS(cuStreamQuery(b), NOT_READY);
    IS(cuEventQuery(event), NOT_READY);
    IS(cuMemcpyDtoH_v2(out + 32, device, 1), 0);
    IS(out[32], 0);
    IS(cuLaunchHostFunc(c, sets, (void *)word), 0);
    IS(cuStreamSynchronize(c), 0);
    IS(cuStreamSynchronize(b), 0);
    IS(out[0], 5);
    IS(cuStreamQuery(a), 0);
    // Each stream waits for the other one in turn; the host's value is a mask.
    IS(cuMemsetD8_v2(device, 0, 64), 0);
    IS(cuStreamSynchronize(NULL), 0);
    IS(cuStreamWaitValue64_v2(a, device + 8, 1ull << 40, AND), 0);
    IS(cuStreamWriteValue32_v2(a, device + 16, 3, 0), 0);
    IS(cuStreamWaitValue32_v2(b, device + 16, 3, EQ), 0);
    IS(cuStreamWriteValue64_v2(b, device + 24, ~0ull, 0), 0);
    IS(cuStreamQuery(b), NOT_READY);
    IS(cuStreamWriteValue64_v2(c, device + 8, 1ull << 40, 0), 0);
    IS(cuStreamSynchronize(b), 0);
    IS(cuStreamSynchronize(a), 0);
    IS(cuStreamWaitValue64_v2(a, device + 24, 5, NOR), 0);
    IS(cuStreamQuery(a), NOT_READY);
    IS(cuStreamWriteValue32_v2(b, device + 28, 0xfffffffe, 0), 0);
    IS(cuStreamSynchronize(a), 0);
    // A batch: its parts follow each other.
    Params batch[4] = {{.value = {1, at, 8, EQ}}, {.value = {5, device + 32, 1ull << 33, 0}}, {.other = {6, 0}}, {.value = {4, device + 32, 1ull << 33, GEQ}}};
    IS(cuStreamBatchMemOp_v2(a, 4, batch, 0), 0);
    IS(cuStreamQuery(a), NOT_READY);
    *word = 8;
    IS(cuStreamSynchronize(a), 0);
    unsigned long long got;
    IS(cuMemcpyDtoH_v2(&got, device + 32, 8), 0);
    IS(got == 1ull << 33, 1);
}

static void wrong(int ignored) {
    (void)ignored;
    void *stream;
    CUdeviceptr device, managed;
    int value;
    begin(0);
    for (int which = 92; which <= 123; which = which == 94 ? 122 : which + 1) {
        IS(cuDeviceGetAttribute(&value, which, 0), 0);
        IS(value, 1);
    }
    IS(cuDeviceGetAttribute(&value, 98, 0), 0);
    IS(value, 0);
    IS(cuStreamCreate(&stream, 1), 0);
    IS(cuMemAlloc_v2(&device, 64), 0);
    IS(cuMemAllocManaged(&managed, 64, 1), 0);
    IS(cuStreamWriteValue32_v2(stream, 0, 1, 0), INVALID);
    IS(cuStreamWriteValue32_v2(stream, device + 2, 1, 0), INVALID);
    IS(cuStreamWriteValue64_v2(stream, device + 4, 1, 0), INVALID);
    IS(cuStreamWriteValue32_v2(stream, managed, 1, 0), INVALID);
    IS(cuStreamWriteValue32_v2(stream, device, 1, 1), INVALID);
    IS(cuStreamWriteValue32(stream, device, 1, 1), 0);
    IS(cuStreamWaitValue32_v2(stream, device, 1, 4), INVALID);
    IS(cuStreamWaitValue32_v2(stream, device, 1, EQ | FLUSH), NOT_SUPPORTED);
    Params batch[2] = {{.value = {2, device, 9, 0}}, {.value = {7, device, 9, 0}}};
    IS(cuStreamBatchMemOp_v2(stream, 0, batch, 0), INVALID);
    IS(cuStreamBatchMemOp_v2(stream, 256, batch, 0), INVALID);
    IS(cuStreamBatchMemOp_v2(stream, 1, NULL, 0), INVALID);
    IS(cuStreamBatchMemOp_v2(stream, 1, batch, 1), INVALID);
    IS(cuStreamBatchMemOp_v2(stream, 2, batch, 0), INVALID);
    IS(cuStreamSynchronize(stream), 0);
    IS(cuMemcpyDtoH_v2(&value, device, 4), 0);
    IS(value, 1);
    IS(cuStreamBeginCapture_v2(stream, 0), 0);
    IS(cuStreamWriteValue32_v2(stream, device, 1, 0), UNSUPPORTED);
}

static int to[2], from[2];

// Another process holds our stream, and goes on when we write.
static void opens(int ignored) {
    (void)ignored;
    Handle shared;
    CUdeviceptr there;
    void *stream;
    unsigned char *out, byte = 0;
    IS(read(to[0], &shared, sizeof shared), sizeof shared);
    begin(1);
    IS(cuStreamCreate(&stream, 1), 0);
    IS(cuMemHostAlloc((void **)&out, 4096, 0), 0);
    IS(cuIpcOpenMemHandle_v2(&there, shared, 1), 0);
    for (unsigned round = 1; round <= 50; round++) {
        IS(cuStreamWaitValue32_v2(stream, there, round, GEQ), 0);
        IS(cuMemcpyDtoHAsync_v2(out, there + 4096, 4096, stream), 0);
        IS(cuStreamWriteValue32_v2(stream, there + 64, round, 0), 0);
        if (round == 1) {
            IS(cuStreamQuery(stream), NOT_READY);
            IS(write(from[1], &byte, 1), 1);
        }
        IS(cuStreamSynchronize(stream), 0);
        IS(out[0], round);
        IS(out[4095], round);
    }
    IS(cuIpcCloseMemHandle(there), 0);
}

static void shares(int ignored) {
    (void)ignored;
    Handle shared;
    CUdeviceptr memory;
    void *stream;
    char byte;
    begin(0);
    IS(cuStreamCreate(&stream, 1), 0);
    IS(cuMemAlloc_v2(&memory, 8192), 0);
    IS(cuMemsetD8_v2(memory, 0, 8192), 0);
    IS(cuStreamSynchronize(NULL), 0);
    IS(cuIpcGetMemHandle(&shared, memory), 0);
    IS(write(to[1], &shared, sizeof shared), sizeof shared);
    IS(read(from[0], &byte, 1), 1);
    // All rounds at once: the other process's values let them go on.
    for (unsigned round = 1; round <= 50; round++) {
        IS(cuMemsetD8Async(memory + 4096, (unsigned char)round, 4096, stream), 0);
        IS(cuStreamWriteValue32_v2(stream, memory, round, 0), 0);
        IS(cuStreamWaitValue32_v2(stream, memory + 64, round, GEQ), 0);
    }
    IS(cuStreamSynchronize(stream), 0);
    int status = 0;
    wait(&status);
    IS(status, 0);
}

static void both(int ignored) {
    IS(pipe(to), 0);
    IS(pipe(from), 0);
    if (!fork()) {
        alarm(60);
        opens(ignored);
        fflush(stdout);
        _exit(0);
    }
    shares(ignored);
}

int main(void) {
    in_child(held, 0);
    in_child(wrong, 0);
    in_child(both, 0);
    return 0;
}
