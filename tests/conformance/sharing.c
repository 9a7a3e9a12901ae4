// Sharing between more than two processes, and in orders that a simple pair does not take.
#include "driver.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// A process that takes steps when it is told to: it prints the line of its step and says that it is done.
struct worker {
    pid_t pid;
    int to, from;
};

struct order {
    int step;
    Handle handle;
};

static struct worker employ(void (*work)(int in, int out)) {
    int to[2], from[2];
    if (pipe(to) || pipe(from)) _exit(7);
    struct worker worker = {fork(), to[1], from[0]};
    if (!worker.pid) {
        alarm(60);
        close(to[1]);
        close(from[0]);
        work(to[0], from[1]);
        fflush(stdout);
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    return worker;
}

static Handle tell(struct worker *worker, int step, Handle handle) {
    struct order order;
    memset(&order, 0, sizeof order);
    order.step = step;
    order.handle = handle;
    send_to(worker->to, &order, sizeof order);
    receive(worker->from, &handle, sizeof handle);
    return handle;
}

// Workers inherit each other's pipes, so that closing one would not end it.
enum { QUIT = -1 };

static int next_order(int in, struct order *order) {
    return read(in, order, sizeof *order) == sizeof *order && order->step != QUIT;
}

static void dismiss(struct worker *worker, int how) {
    struct order quit;
    memset(&quit, 0, sizeof quit);
    quit.step = QUIT;
    if (how)
        kill(worker->pid, how);
    else if (write(worker->to, &quit, sizeof quit) < 0)
        hush(); // it is gone already
    close(worker->to);
    close(worker->from);
    waitpid(worker->pid, NULL, 0);
}

static const Handle nothing;
static char text[64];
static const char *down(CUdeviceptr p) {
    memset(text, 0, sizeof text);
    CUresult result = cuMemcpyDtoH_v2(text, p, 8);
    if (result) snprintf(text, sizeof text, "error %d", result);
    return text;
}

enum { GIVE = 1, SEE, WRITE, FREE, ALLOCATE, GIVE_OTHER, OPEN, READ, CLOSE, RETAIN, EVENT, DESTROY, OPEN_EVENT, EXTRA };

// Has an allocation of 4 MiB and another, and does with them what it is told. (Smaller ones share a block on a
// real driver, and a handle of one that was freed opens what came after it.)
static void owner(int in, int out) {
    start();
    cuCtxSetCurrent(c0);
    CUdeviceptr p = 0, q = 0;
    CUevent event = NULL;
    cuMemAlloc_v2(&p, 4 << 20);
    cuMemAlloc_v2(&q, 4 << 20);
    cuMemcpyHtoD_v2(p, "original", 9);
    cuMemcpyHtoD_v2(q, "another!", 9);
    struct order order;
    int seen = 0;
    char id[64];
    while (next_order(in, &order)) {
        Handle h = order.handle;
        switch (order.step) {
        case GIVE: cuIpcGetMemHandle(&h, p); break;
        case GIVE_OTHER: cuIpcGetMemHandle(&h, q); break;
        case SEE:
            snprintf(id, sizeof id, "many.owner.sees.%d", seen++);
            report(id, 0, "\"v\":\"%s\"", down(p));
            break;
        case FREE: CASE("many.owner.frees", cuMemFree_v2(p), 0); break;
        case ALLOCATE:
            cuMemAlloc_v2(&p, 4 << 20);
            cuMemcpyHtoD_v2(p, "new-one.", 9);
            break;
        case EVENT:
            cuEventCreate(&event, 6);
            cuIpcGetEventHandle(&h, event);
            break;
        case DESTROY: cuEventDestroy_v2(event); break;
        case RETAIN:
            cuDevicePrimaryCtxReset_v2(0);
            break;
        }
        send_to(out, &h, sizeof h);
    }
}

static void borrow(const char *name, int in, int out) {
    start();
    cuCtxSetCurrent(c0);
    CUdeviceptr p = 0;
    CUevent event = NULL;
    char id[64];
    struct order order;
    int n = 0;
    while (next_order(in, &order)) {
        CUresult result = 0;
        snprintf(id, sizeof id, "many.%s.%d", name, n++);
        switch (order.step) {
        case OPEN:
            result = cuIpcOpenMemHandle_v2(&p, order.handle, 1);
            report(id, result, "\"step\":\"open\"");
            break;
        case READ: report(id, 0, "\"step\":\"read\",\"v\":\"%s\"", down(p)); break;
        case WRITE:
            result = cuMemcpyHtoD_v2(p, "borrowed", 9);
            cuCtxSynchronize(); // a small copy may return before its bytes have arrived
            report(id, result, "\"step\":\"write\"");
            break;
        case CLOSE:
            result = cuIpcCloseMemHandle(p);
            report(id, result, "\"step\":\"close\"");
            break;
        case OPEN_EVENT:
            result = cuIpcOpenEventHandle(&event, order.handle);
            report(id, result, "\"step\":\"open event\"");
            break;
        case EXTRA:
            result = cuEventRecord(event, 0);
            report(id, result, "\"step\":\"record\"");
            break;
        }
        send_to(out, &nothing, sizeof nothing);
    }
}
static void first(int in, int out) { borrow("first", in, out); }
static void second(int in, int out) { borrow("second", in, out); }
static void third(int in, int out) { borrow("third", in, out); }
static void of_reset(int in, int out) { borrow("ofreset", in, out); }
static void of_destroyed(int in, int out) { borrow("ofdestroyed", in, out); }

static void several_importers(void) {
    struct worker has = employ(owner), a = employ(first), b = employ(second);
    Handle h = tell(&has, GIVE, nothing);
    tell(&a, OPEN, h);
    tell(&b, OPEN, h);
    tell(&a, WRITE, nothing);
    tell(&b, READ, nothing);
    tell(&has, SEE, nothing);
    tell(&a, CLOSE, nothing);
    tell(&b, READ, nothing);
    tell(&has, FREE, nothing);
    tell(&b, READ, nothing);
    tell(&has, ALLOCATE, nothing);
    tell(&b, READ, nothing);
    tell(&a, OPEN, h); // what it named is gone
    Handle fresh = tell(&has, GIVE, nothing);
    tell(&a, OPEN, fresh);
    tell(&a, READ, nothing);
    tell(&b, READ, nothing);
    tell(&b, CLOSE, nothing);
    tell(&b, OPEN, fresh);
    tell(&b, READ, nothing);
    struct worker c = employ(third);
    tell(&c, OPEN, h); // never open there
    tell(&c, OPEN, tell(&has, GIVE_OTHER, nothing));
    tell(&c, READ, nothing);
    dismiss(&a, SIGKILL);
    tell(&b, WRITE, nothing);
    tell(&has, SEE, nothing);
    dismiss(&has, SIGKILL);
    tell(&b, READ, nothing);
    tell(&c, READ, nothing);
    tell(&c, CLOSE, nothing);
    tell(&c, OPEN, fresh);
    dismiss(&b, 0);
    dismiss(&c, 0);
}

static void reset_exporter(void) {
    struct worker has = employ(owner), a = employ(of_reset);
    Handle h = tell(&has, GIVE, nothing);
    Handle other = tell(&has, GIVE_OTHER, nothing);
    tell(&a, OPEN, h);
    tell(&has, RETAIN, nothing); // its primary context is reset
    tell(&a, READ, nothing);
    tell(&a, OPEN, other);
    dismiss(&a, 0);
    dismiss(&has, 0);
}

static void destroyed_event(void) {
    struct worker has = employ(owner), a = employ(of_destroyed);
    Handle h = tell(&has, EVENT, nothing);
    tell(&a, OPEN_EVENT, h);
    tell(&has, DESTROY, nothing);
    tell(&a, EXTRA, nothing);
    tell(&a, OPEN_EVENT, h);
    dismiss(&a, 0);
    dismiss(&has, 0);
}

// What an import is, on the exporter's device and on another.
static void inspector(int in, int out) {
    static const int flags[] = {2, 8, 9, 10, 13, 14, 15};
    start();
    struct order order;
    receive(in, &order, sizeof order);
    for (int device = 0; device < (devices > 1 ? 2 : 1); device++) {
        CUcontext context = device ? c1 : c0;
        cuCtxSetCurrent(context);
        CUdeviceptr p = 0, base = 0;
        size_t size = 0;
        char id[64];
        cuIpcOpenMemHandle_v2(&p, order.handle, 1);
        for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
            unsigned value = 0;
            CUresult result = cuPointerGetAttribute(&value, flags[i], p + 5);
            snprintf(id, sizeof id, "import.%d.attribute.%d", device, flags[i]);
            report(id, result, "\"v\":%u", value);
        }
        CUcontext of = NULL;
        snprintf(id, sizeof id, "import.%d.context", device);
        CUresult result = cuPointerGetAttribute(&of, 1, p + 5);
        report(id, result, "\"is_current\":%d", of == context);
        snprintf(id, sizeof id, "import.%d.range", device);
        result = cuMemGetAddressRange_v2(&base, &size, p + 5);
        report(id, result, "\"base\":%d,\"size\":%zu", base == p, size);
        snprintf(id, sizeof id, "import.%d.pastend", device);
        result = cuMemcpyDtoH_v2(text, p + size - 4, 8);
        report(id, result, 0);
        snprintf(id, sizeof id, "import.%d.set", device);
        result = cuMemsetD8_v2(p + 16, device, 16);
        report(id, result, 0);
        snprintf(id, sizeof id, "import.%d.nocurrent", device);
        cuCtxSetCurrent(NULL);
        result = cuIpcCloseMemHandle(p);
        report(id, result, 0);
        cuCtxSetCurrent(context);
        snprintf(id, sizeof id, "import.%d.close", device);
        result = cuIpcCloseMemHandle(p);
        report(id, result, 0);
    }
    send_to(out, &nothing, sizeof nothing);
}

static void inspection(void) {
    struct worker has = employ(owner), a = employ(inspector);
    tell(&a, 0, tell(&has, GIVE, nothing));
    dismiss(&a, 0);
    dismiss(&has, 0);
}

static Handle shared_handle;
static void *open_and_close(void *at) {
    CUdeviceptr p = 0;
    cuCtxSetCurrent(c0);
    for (int i = 0; i < 50; i++) {
        if (cuIpcOpenMemHandle_v2(&p, shared_handle, 1)) return "open";
        if (cuMemcpyDtoH_v2(&(char[8]){0}, p, 8)) return "read";
        if (cuIpcCloseMemHandle(p)) return "close";
    }
    (void)at;
    return NULL;
}

// Four threads of one importer open, read and close the same handle.
static void crowd(int in, int out) {
    start();
    struct order order;
    receive(in, &order, sizeof order);
    shared_handle = order.handle;
    pthread_t threads[4];
    const char *failed = NULL;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, open_and_close, NULL);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if (result) failed = result;
    }
    CASE("threads.open", 0, "\"failed\":\"%s\"", failed ? failed : "");
    cuCtxSetCurrent(c0);
    CUdeviceptr p;
    CASE("threads.afterwards", cuIpcOpenMemHandle_v2(&p, shared_handle, 1), "\"v\":\"%s\"", down(p));
    send_to(out, &nothing, sizeof nothing);
}

static void crowded(void) {
    struct worker has = employ(owner), a = employ(crowd);
    tell(&a, 0, tell(&has, GIVE, nothing));
    dismiss(&a, 0);
    dismiss(&has, 0);
}

// The importer does not see the exporter's device.
static void blinkered(int in, int out) {
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    borrow("hidden", in, out);
}
static void hidden_device(void) {
    struct worker has = employ(owner), a = employ(blinkered);
    tell(&a, OPEN, tell(&has, GIVE, nothing));
    tell(&a, READ, nothing);
    tell(&a, CLOSE, nothing);
    dismiss(&a, 0);
    dismiss(&has, 0);
}

// What is imported in a primary context ends with it.
static void returning(int in, int out) {
    start();
    cuCtxSetCurrent(c0);
    struct order order;
    receive(in, &order, sizeof order);
    CUdeviceptr p = 0, again = 0;
    CUcontext context;
    cuIpcOpenMemHandle_v2(&p, order.handle, 1);
    CASE("return.release", cuDevicePrimaryCtxRelease_v2(0), 0);
    CASE("return.read.released", cuMemcpyDtoH_v2(text, p, 8), 0);
    CASE("return.close.released", cuIpcCloseMemHandle(p), 0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    QUIET("return.read", cuMemcpyDtoH_v2(text, p, 8), 0);
    QUIET("return.close", cuIpcCloseMemHandle(p), 0);
    CASE("return.open", cuIpcOpenMemHandle_v2(&again, order.handle, 1), "\"v\":\"%s\"", down(again));
    send_to(out, &nothing, sizeof nothing);
}
static void context_returns(void) {
    struct worker has = employ(owner), a = employ(returning);
    tell(&a, 0, tell(&has, GIVE, nothing));
    dismiss(&a, 0);
    dismiss(&has, 0);
}

void sharing_groups(void) {
    in_child("many", several_importers);
    in_child("reset", reset_exporter);
    in_child("eventgone", destroyed_event);
    in_child("inspection", inspection);
    in_child("crowded", crowded);
    in_child("hidden", hidden_device);
    in_child("returning", context_returns);
}
