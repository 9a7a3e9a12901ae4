// Functions of the program in the order of streams: they run on a thread of the driver's, what comes later waits
// for them, what does not follow them does not, and no lock of the program's is in the way.
#include "common.h"

int cuLaunchHostFunc(void *, void (*)(void *), void *), cuLaunchHostFunc_ptsz(void *, void (*)(void *), void *);
int cuStreamAddCallback(void *, void (*)(void *, int, void *), void *, unsigned);
int cuStreamSynchronize(void *), cuCtxSynchronize(void), cuEventSynchronize(void *), cuStreamWaitEvent(void *, void *, unsigned);
int cuEventElapsedTime(float *, void *, void *), cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, void *);
int cuMemHostAlloc(void **, size_t, unsigned), cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, void *);
int cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, void *), cuStreamDestroy_v2(void *);
int cuMemAllocAsync(CUdeviceptr *, size_t, void *), cuMemFreeAsync(CUdeviceptr, void *);
enum { NOT_PERMITTED = 800, NOT_READY = 600 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_t caller, runner;
static int ran, answered;
static sigset_t blocked;
static void *stream, *other;

static void passes(void *data) {
    pthread_mutex_lock(&gate);
    runner = pthread_self();
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    answered = cuStreamQuery(stream);
    ran = ran * 10 + (int)(intptr_t)data;
    pthread_mutex_unlock(&gate);
}
static void called_back(void *of, int status, void *data) {
    IS(of == stream, 1);
    IS(status, 0);
    passes(data);
}
static void counts(void *data) { __atomic_add_fetch((int *)data, 1, __ATOMIC_SEQ_CST); }
static void forever(void *data) {
    (void)data;
    for (;;) pause();
}
static void ends_its_thread(void *data) {
    (void)data;
    pthread_exit(NULL);
}

// A program that holds what its function takes: later work of the stream waits, and no call is in the way.
static void ordered(int ignored) {
    (void)ignored;
    caller = pthread_self();
    void *start, *end;
    CUdeviceptr device;
    unsigned char *pinned, pageable[64];
    float ms;
    IS(cuEventCreate(&start, 0), 0);
    IS(cuEventCreate(&end, 0), 0);
    IS(cuMemAlloc_v2(&device, 64), 0);
    IS(cuMemHostAlloc((void **)&pinned, 64, 0), 0);
    IS(cuMemsetD8_v2(device, 1, 64), 0);
    IS(cuCtxSynchronize(), 0);
    memset(pinned, 0, 64);
    IS(cuEventRecord(start, stream), 0);
    pthread_mutex_lock(&gate);
    IS(cuLaunchHostFunc(stream, passes, (void *)1), 0);
    IS(cuMemsetD8Async(device, 2, 64, stream), 0);
    IS(cuMemcpyDtoHAsync_v2(pinned, device, 64, stream), 0);
    IS(cuStreamAddCallback(stream, called_back, (void *)2, 0), 0);
    IS(cuEventRecord(end, stream), 0);
    IS(cuEventQuery(start), 0);
    IS(cuEventQuery(end), NOT_READY);
    IS(cuStreamQuery(stream), NOT_READY);
    IS(cuEventElapsedTime(&ms, start, end), NOT_READY);
    IS(pinned[0], 0);
    // A stream that does not follow it is not held up, not even by a wait; one that waits for the event is.
    IS(cuStreamQuery(other), 0);
    IS(cuStreamSynchronize(other), 0);
    IS(cuStreamWaitEvent(other, start, 0), 0);
    IS(cuStreamQuery(other), 0);
    IS(cuStreamWaitEvent(other, end, 0), 0);
    IS(cuStreamQuery(other), NOT_READY);
    pthread_mutex_unlock(&gate);
    IS(cuEventSynchronize(end), 0);
    IS(ran, 12);
    IS(pinned[0], 2);
    IS(pthread_equal(runner, caller), 0);
    IS(answered, NOT_PERMITTED);
    IS(sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGALRM), 1);
    IS(cuStreamSynchronize(other), 0);
    IS(cuStreamQuery(stream), 0);
    IS(cuEventElapsedTime(&ms, start, end), 0);
    IS(ms >= 0, 1);
    // Memory that is not pinned has the bytes when the call returns.
    ran = 0;
    IS(cuLaunchHostFunc_ptsz(stream, passes, (void *)3), 0);
    IS(cuMemsetD8Async(device, 4, 64, stream), 0);
    IS(cuMemcpyDtoHAsync_v2(pageable, device, 64, stream), 0);
    IS(pageable[63], 4);
    IS(ran, 3);
    memset(pageable, 5, 64);
    IS(cuLaunchHostFunc(stream, passes, (void *)6), 0);
    IS(cuMemcpyHtoDAsync_v2(device, pageable, 64, stream), 0);
    memset(pageable, 0, 64);
    IS(cuStreamSynchronize(stream), 0);
    IS(cuMemcpyDtoH_v2(pageable, device, 64), 0);
    IS(pageable[0], 5);
    // What ends things waits for what uses them.
    CUdeviceptr pooled;
    ran = 0;
    IS(cuMemAllocAsync(&pooled, 64, stream), 0);
    IS(cuLaunchHostFunc(stream, passes, (void *)7), 0);
    IS(cuMemsetD8Async(pooled, 1, 64, stream), 0);
    IS(cuMemFreeAsync(pooled, stream), 0);
    IS(cuMemFree_v2(device), 0);
    IS(ran, 7);
    IS(cuCtxSynchronize(), 0);
    IS(cuMemFree_v2(pooled), 1);
}

// The default stream is one with those that do not say otherwise.
static void legacy(int ignored) {
    (void)ignored;
    void *blocking;
    IS(cuStreamCreate(&blocking, 0), 0);
    pthread_mutex_lock(&gate);
    IS(cuLaunchHostFunc(blocking, passes, (void *)1), 0);
    IS(cuStreamQuery(NULL), NOT_READY);
    IS(cuStreamQuery(stream), 0);
    pthread_mutex_unlock(&gate);
    CUdeviceptr device;
    IS(cuMemAlloc_v2(&device, 64), 0);
    IS(cuMemsetD8_v2(device, 1, 64), 0);
    IS(cuStreamSynchronize(NULL), 0);
    IS(ran, 1);
    pthread_mutex_lock(&gate);
    IS(cuLaunchHostFunc(NULL, passes, (void *)2), 0);
    IS(cuStreamQuery(blocking), NOT_READY);
    IS(cuStreamQuery(stream), 0);
    pthread_mutex_unlock(&gate);
    IS(cuStreamDestroy_v2(blocking), 0);
    IS(cuCtxSynchronize(), 0);
    IS(ran, 12);
}

static int count;
static void *floods(void *ignored) {
    void *context, *mine;
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
    IS(cuStreamCreate(&mine, 1), 0);
    for (int i = 0; i < 500; i++) {
        IS(cuLaunchHostFunc(mine, counts, &count), 0);
        if (i % 50 == 0) IS(cuStreamSynchronize(mine), 0);
    }
    IS(cuStreamSynchronize(mine), 0);
    IS(cuStreamDestroy_v2(mine), 0);
    return ignored;
}
static void many(int ignored) {
    (void)ignored;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, floods, NULL);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    IS(count, 4000);
}

// A child of fork has no thread of the driver's, and is told that it has no driver.
static void forked(int ignored) {
    (void)ignored;
    pthread_mutex_lock(&gate);
    IS(cuLaunchHostFunc(stream, passes, (void *)1), 0);
    pid_t child = fork();
    if (!child) {
        alarm(20);
        _exit(cuStreamSynchronize(stream) != 3 || cuCtxSynchronize() != 3 || cuLaunchHostFunc(stream, passes, NULL) != 3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    IS(status, 0);
    pthread_mutex_unlock(&gate);
    IS(cuStreamSynchronize(stream), 0);
    IS(ran, 1);
}

// What is still to come does not keep a process from its end.
static void left(int way) {
    IS(cuLaunchHostFunc(stream, way ? ends_its_thread : forever, NULL), 0);
    IS(cuLaunchHostFunc(stream, passes, (void *)1), 0);
    exit(0);
}

static void with_driver(int which) {
    static void (*const parts[])(int) = {ordered, legacy, many, forked};
    void *context;
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
    IS(cuStreamCreate(&stream, 1), 0);
    IS(cuStreamCreate(&other, 1), 0);
    if (which < 4)
        parts[which](0);
    else
        left(which - 4);
}

int main(void) {
    for (int which = 0; which < 6; which++) in_child(with_driver, which);
    return 0;
}
