// Legacy IPC: what is asked within one process, and an exporter and an importer that work hand in hand.
#include "driver.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int same(const Handle *a, const Handle *b) { return !memcmp(a, b, sizeof *a); }

// Mapped virtual memory on device 0, 0 where the driver has none.
static CUdeviceptr mapped(void) {
    struct {
        int type, handleTypes, locationType, locationId;
        void *security;
        unsigned char rest[8];
    } what = {1, 0, 1, 0, NULL, {0}};
    struct {
        int locationType, locationId, flags;
    } access = {1, 0, 3};
    size_t granule = 0;
    unsigned long long handle = 0;
    CUdeviceptr at = 0;
    if (cuMemGetAllocationGranularity(&granule, &what, 0) || cuMemCreate(&handle, granule, &what, 0)) return 0;
    if (cuMemAddressReserve(&at, granule, 0, 0, 0) || cuMemMap(at, granule, 0, handle, 0)) return 0;
    cuMemSetAccess(at, granule, &access, 1);
    return at;
}

static void exporting(void) {
    start();
    Handle h, h2;
    CUdeviceptr p = 0, small1 = 0, small2 = 0, pool = 0, pitched = 0, managed = 0, pinned = 0;
    cuCtxSetCurrent(NULL);
    CASE("ipcget.nocurrent", cuIpcGetMemHandle(&h, 0x1000), 0);
    cuCtxSetCurrent(c0);
    cuMemAlloc_v2(&p, 4 << 20);
    cuMemAlloc_v2(&small1, 256);
    cuMemAlloc_v2(&small2, 256);
    CASE("ipcget.nullhandle", cuIpcGetMemHandle(NULL, p), 0);
    CASE("ipcget.nullptr", cuIpcGetMemHandle(&h, 0), 0);
    CASE("ipcget.nullboth", cuIpcGetMemHandle(NULL, 0), 0);
    CASE("ipcget.hostptr", cuIpcGetMemHandle(&h, (CUdeviceptr)(uintptr_t)&h), 0);
    CASE("ipcget.wild", cuIpcGetMemHandle(&h, 0x123456789000ull), 0);
    CASE("ipcget.base", cuIpcGetMemHandle(&h, p), 0);
    CASE("ipcget.base.again", cuIpcGetMemHandle(&h2, p), "\"same\":%d", same(&h, &h2));
    CASE("ipcget.interior", cuIpcGetMemHandle(&h2, p + 4096), "\"same\":%d", same(&h, &h2));
    CASE("ipcget.pastend", cuIpcGetMemHandle(&h2, p + (4 << 20)), 0);
    CASE("ipcget.small1", cuIpcGetMemHandle(&h, small1), 0);
    CASE("ipcget.small2", cuIpcGetMemHandle(&h2, small2), "\"same\":%d,\"delta\":%ld", same(&h, &h2),
         (long)(small2 - small1));
    void *host;
    cuMemHostAlloc(&host, 4096, 3);
    cuMemHostGetDevicePointer_v2(&pinned, host, 0);
    CASE("ipcget.pinnedhost", cuIpcGetMemHandle(&h, pinned), 0);
    CASE("ipcclose.pinnedhost", cuIpcCloseMemHandle(pinned), 0);
    cuMemAllocAsync(&pool, 1 << 20, 0);
    cuStreamSynchronize(0);
    CASE("ipcget.pool", cuIpcGetMemHandle(&h, pool), 0);
    cuMemAllocManaged(&managed, 1 << 20, 1);
    CASE("ipcget.managed", cuIpcGetMemHandle(&h, managed), 0);
    size_t pitch;
    cuMemAllocPitch_v2(&pitched, &pitch, 100, 10, 4);
    CASE("ipcget.pitched", cuIpcGetMemHandle(&h, pitched), 0);
    QUIET("ipcget.vmm", cuIpcGetMemHandle(&h, mapped()), 0);
    cuMemFree_v2(p);
    CASE("ipcget.freed", cuIpcGetMemHandle(&h, p), 0);
    if (devices < 2) return;
    cuCtxSetCurrent(c1);
    CASE("ipcget.otherdevicecurrent", cuIpcGetMemHandle(&h, small1), 0);
}

static void same_process(void) {
    start();
    cuCtxSetCurrent(c0);
    CUdeviceptr p, out = 0x77;
    Handle h;
    cuMemAlloc_v2(&p, 4 << 20);
    cuIpcGetMemHandle(&h, p);
    CASE("ipcopen.sameprocess", cuIpcOpenMemHandle_v2(&out, h, 1), 0);
    CASE("ipcopen.sameprocess.flags0", cuIpcOpenMemHandle_v2(&out, h, 0), 0);
    CASE("ipcopen.sameprocess.oldform", cuIpcOpenMemHandle(&out, h, 1), 0);
    CASE("ipcopen.nullout.flags0", cuIpcOpenMemHandle_v2(NULL, h, 0), 0);
    CASE("ipcclose.own", cuIpcCloseMemHandle(p), 0);
    CASE("ipcclose.own.interior", cuIpcCloseMemHandle(p + 512), 0);
    CASE("ipcclose.zero", cuIpcCloseMemHandle(0), 0);
    CASE("ipcclose.wild", cuIpcCloseMemHandle(0x123456789000ull), 0);
    cuMemFree_v2(p);
    CASE("ipcopen.sameprocess.freed", cuIpcOpenMemHandle_v2(&out, h, 1), 0);
    cuCtxSetCurrent(NULL);
    CASE("ipcopen.nocurrent.nullout", cuIpcOpenMemHandle_v2(NULL, h, 0), 0);
    CASE("ipcclose.nocurrent", cuIpcCloseMemHandle(p), 0);
    CUevent event = NULL;
    CASE("ipcopenevent.nocurrent.nullout", cuIpcOpenEventHandle(NULL, h), 0);
    CASE("ipcgetevent.nocurrent", cuIpcGetEventHandle(&h, event), 0);
    if (devices < 2) return;
    cuCtxSetCurrent(c1);
    cuMemAlloc_v2(&p, 4 << 20);
    cuIpcGetMemHandle(&h, p);
    cuCtxSetCurrent(c0);
    CASE("ipcopen.sameprocess.otherdev", cuIpcOpenMemHandle_v2(&out, h, 1), 0);
}

static void context_gone(void) {
    start();
    Handle h;
    CUdeviceptr p;
    cuCtxSetCurrent(c0);
    cuMemAlloc_v2(&p, 4 << 20);
    cuIpcGetMemHandle(&h, p);
    CASE("primary.release.withexports", cuDevicePrimaryCtxRelease_v2(0), 0);
    CASE("ipcget.afterctxgone", cuIpcGetMemHandle(&h, p), 0);
    CASE("ipcopen.afterctxgone", cuIpcOpenMemHandle_v2(&p, h, 1), 0);
}

static void garbage_memory(void) {
    start();
    cuCtxSetCurrent(c0);
    Handle h;
    CUdeviceptr p;
    memset(&h, 0, sizeof h);
    CASE("ipcopen.zerohandle", cuIpcOpenMemHandle_v2(&p, h, 1), 0);
    memset(&h, 0xff, sizeof h);
    CASE("ipcopen.oneshandle", cuIpcOpenMemHandle_v2(&p, h, 1), 0);
}

static void garbage(void) {
    start();
    cuCtxSetCurrent(c0);
    Handle h;
    CUdeviceptr p;
    CUevent event;
    memset(&h, 0xa5, sizeof h);
    CASE("ipcopen.garbagehandle", cuIpcOpenMemHandle_v2(&p, h, 1), 0);
    CASE("ipcopenevent.garbage", cuIpcOpenEventHandle(&event, h), 0);
    memset(&h, 0, sizeof h);
    CASE("ipcopenevent.zero", cuIpcOpenEventHandle(&event, h), 0);
}

struct message {
    Handle memory, event, small;
    pid_t exporter;
};
static struct pair pipes;
static char text[16];

static CUresult read_text(CUdeviceptr p) {
    memset(text, 0, sizeof text);
    return cuMemcpyDtoH_v2(text, p, sizeof text);
}

static void close_if_open(CUdeviceptr *p) {
    if (*p) cuIpcCloseMemHandle(*p);
    *p = 0;
}

static void open_twice(const struct message *m) {
    CUdeviceptr a = 0, b = 0, base = 0;
    CASE("xopen.nullout", cuIpcOpenMemHandle_v2(NULL, m->memory, 1), 0);
    CASE("xopen.flags0", cuIpcOpenMemHandle_v2(&a, m->memory, 0), "\"opened\":%d", a != 0);
    CASE("xopen.flags2", cuIpcOpenMemHandle_v2(&a, m->memory, 2), "\"opened\":%d", a != 0);
    CASE("xopen.flags3", cuIpcOpenMemHandle_v2(&a, m->memory, 3), "\"opened\":%d", a != 0);
    close_if_open(&a);
    CASE("xopen.flagsmax", cuIpcOpenMemHandle_v2(&a, m->memory, 0xffffffffu), "\"opened\":%d", a != 0);
    close_if_open(&a);
    CASE("xopen.oldform", cuIpcOpenMemHandle(&a, m->memory, 1), "\"opened\":%d", a != 0);
    close_if_open(&a);
    CASE("xopen.first", cuIpcOpenMemHandle_v2(&a, m->memory, 1), 0);
    CASE("xopen.twice", cuIpcOpenMemHandle_v2(&b, m->memory, 1), "\"same\":%d", a == b);
    CASE("ximport.read", read_text(a), "\"v\":\"%.15s\"", text);
    size_t size = 0;
    CASE("ximport.addrange", cuMemGetAddressRange_v2(&base, &size, a), "\"size\":%zu,\"base_eq\":%d", size, base == a);
    CUcontext context = NULL;
    CASE("ximport.ptrctx", cuPointerGetAttribute(&context, 1, a), "\"is_c0\":%d", context == c0);
    unsigned type = 0;
    CASE("ximport.memtype", cuPointerGetAttribute(&type, 2, a), "\"v\":%u", type);
    int legacy = -1;
    CASE("ximport.legacycap", cuPointerGetAttribute(&legacy, 10, a), "\"v\":%d", legacy);
    Handle again;
    CASE("ximport.reexport", cuIpcGetMemHandle(&again, a), "\"same\":%d", same(&again, &m->memory));
    CASE("ximport.interiorclose", cuIpcCloseMemHandle(a + 4096), 0);
    CASE("ximport.memfree", cuMemFree_v2(a), 0);
    CASE("ximport.memfreeasync", cuMemFreeAsync(a, 0), 0);
    CASE("xclose.1", cuIpcCloseMemHandle(a), 0);
    CASE("ximport.read.after1close", read_text(a), 0);
    CASE("xclose.2", cuIpcCloseMemHandle(a), 0);
    CASE("ximport.read.after2close", read_text(a), 0);
    CASE("xclose.3", cuIpcCloseMemHandle(a), 0);
}

static void open_on_two_devices(const struct message *m) {
    CUdeviceptr a = 0, here = 0;
    cuCtxSetCurrent(c1);
    CASE("xopen.otherdev.flags0", cuIpcOpenMemHandle_v2(&a, m->memory, 0), 0);
    close_if_open(&a);
    CASE("xopen.otherdev", cuIpcOpenMemHandle_v2(&a, m->memory, 1), 0);
    CASE("ximport.otherdev.read", read_text(a), "\"v\":\"%.15s\"", text);
    CASE("xopen.otherdev.enable_after_lazy", cuCtxEnablePeerAccess(c0, 0), 0);
    cuCtxSetCurrent(c0);
    CASE("xopen.seconddevice_while_open", cuIpcOpenMemHandle_v2(&here, m->memory, 1), "\"same\":%d", here == a);
    CASE("xclose.seconddevice", cuIpcCloseMemHandle(here), 0);
    CASE("xclose.wrongctx", cuIpcCloseMemHandle(a), 0);
    cuCtxSetCurrent(c1);
    CASE("xclose.rightctx", cuIpcCloseMemHandle(a), 0);
    cuCtxSetCurrent(c0);
}

static void open_in_two_contexts(const struct message *m) {
    CUdeviceptr a = 0, b = 0;
    CUcontext other = new_context(0);
    cuCtxSetCurrent(c0);
    CASE("xopen.ctxA", cuIpcOpenMemHandle_v2(&a, m->memory, 1), 0);
    cuCtxSetCurrent(other);
    CASE("xopen.ctxB.samedevice", cuIpcOpenMemHandle_v2(&b, m->memory, 1), "\"same\":%d", a == b);
    CASE("ximport.ctxB.read", read_text(a), "\"v\":\"%.15s\"", text);
    cuCtxSetCurrent(c0);
    CASE("xclose.ctxA", cuIpcCloseMemHandle(a), 0);
    cuCtxSetCurrent(other);
    CASE("xopen.ctxB.afterwards", cuIpcOpenMemHandle_v2(&b, m->memory, 1), 0);
    CASE("xdestroy.ctxB.whileopen", cuCtxDestroy_v2(other), 0);
    cuCtxSetCurrent(c0);
    CASE("ximport.read.afterctxdestroy", read_text(b), 0);
    CASE("xclose.afterctxdestroy", cuIpcCloseMemHandle(b), 0);
    CASE("xopen.ctxA.again", cuIpcOpenMemHandle_v2(&a, m->memory, 1), 0);
    close_if_open(&a);
}

static void open_events(const struct message *m) {
    CUevent event = NULL, second = NULL;
    CASE("xopenevent.nullout", cuIpcOpenEventHandle(NULL, m->event), 0);
    CASE("xopenevent.first", cuIpcOpenEventHandle(&event, m->event), 0);
    CASE("xopenevent.twice", cuIpcOpenEventHandle(&second, m->event), "\"same\":%d", event == second);
    CASE("xevent.query", cuEventQuery(event), 0);
    CASE("xevent.record", cuEventRecord(event, 0), 0);
    CASE("xevent.sync", cuEventSynchronize(event), 0);
    CASE("xevent.wait", cuStreamWaitEvent(0, event, 0), 0);
    Handle again;
    CASE("xevent.reexport", cuIpcGetEventHandle(&again, event), "\"same\":%d", same(&again, &m->event));
    float ms;
    CASE("xevent.elapsed", cuEventElapsedTime(&ms, event, second), 0);
    CASE("xevent.destroy", cuEventDestroy_v2(event), 0);
    CASE("xevent.destroy2", cuEventDestroy_v2(second), 0);
    if (devices > 1) {
        cuCtxSetCurrent(c1);
        CASE("xopenevent.otherdev", cuIpcOpenEventHandle(&event, m->event), 0);
        CASE("xevent.otherdev.record", cuEventRecord(event, 0), 0);
        CASE("xevent.otherdev.destroy", cuEventDestroy_v2(event), 0);
        cuCtxSetCurrent(c0);
    }
    CUdeviceptr p = 0;
    CASE("xopenevent.memhandle", cuIpcOpenEventHandle(&event, m->memory), 0);
    CASE("xopen.eventhandle", cuIpcOpenMemHandle_v2(&p, m->event, 1), 0);
}

// A handle with another byte. Bytes 48 to 51 say whose it is: they come to name a process that does not exist, neither
// this one nor any beside it.
static Handle with_other_byte(Handle handle, int byte) {
    unsigned char before = handle.bytes[byte];
    for (int mask = 0xff; mask > 0; mask--) {
        int pid;
        handle.bytes[byte] = before ^ mask;
        memcpy(&pid, handle.bytes + 48, sizeof pid);
        if (byte < 48 || byte > 51 || pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH)) break;
    }
    return handle;
}

static void corrupt(const struct message *m) {
    char id[64];
    for (int byte = 0; byte < 64; byte++) {
        Handle h = with_other_byte(m->memory, byte);
        CUdeviceptr p = 0;
        CUresult result = cuIpcOpenMemHandle_v2(&p, h, 1);
        snprintf(id, sizeof id, "corrupt.%d", byte);
        hush();
        report(id, result, 0);
        close_if_open(&p);
    }
}

static void importer(void) {
    struct message m;
    receive(pipes.to[0], &m, sizeof m);
    start();
    CUdeviceptr a = 0, b = 0, base = 0;
    size_t size = 0;
    CUevent event = NULL;
    cuCtxSetCurrent(NULL);
    CASE("xopen.nocurrent", cuIpcOpenMemHandle_v2(&a, m.memory, 1), 0);
    CASE("xopenevent.nocurrent", cuIpcOpenEventHandle(&event, m.event), 0);
    cuCtxSetCurrent(c0);
    open_twice(&m);
    if (devices > 1) open_on_two_devices(&m);
    open_in_two_contexts(&m);
    open_events(&m);
    CASE("xopen.small", cuIpcOpenMemHandle_v2(&a, m.small, 1), 0);
    CASE("ximport.small.addrange", cuMemGetAddressRange_v2(&base, &size, a), "\"size\":%zu,\"off\":%ld", size,
         (long)(a - base));
    CASE("xclose.small", cuIpcCloseMemHandle(a), 0);
    corrupt(&m);
    char c = 0;
    CASE("xopen.hold", cuIpcOpenMemHandle_v2(&a, m.memory, 1), 0);
    send_to(pipes.from[1], &c, 1); // the exporter frees
    receive(pipes.to[0], &c, 1);
    CASE("ximport.read.after_exporter_free", read_text(a), "\"v\":\"%.15s\"", text);
    CASE("xopen.again.after_exporter_free", cuIpcOpenMemHandle_v2(&b, m.memory, 1), "\"same\":%d", a == b);
    close_if_open(&b);
    CASE("xclose.after_exporter_free", cuIpcCloseMemHandle(a), 0);
    a = 0;
    CASE("xopen.after_exporter_free", cuIpcOpenMemHandle_v2(&a, m.memory, 1), 0);
    close_if_open(&a);
    CASE("xopen.hold2", cuIpcOpenMemHandle_v2(&a, m.small, 1), 0);
    CASE("xopenevent.hold2", cuIpcOpenEventHandle(&event, m.event), 0);
    send_to(pipes.from[1], &c, 1); // the exporter exits
    // Its end of the pipe is closed before the driver takes back what it has, and its parent waits for all of that.
    while (read(pipes.to[0], &c, 1) > 0) {}
    while (!kill(m.exporter, 0)) usleep(1000);
    CASE("ximport.read.after_exporter_exit", read_text(a), "\"v\":\"%.5s\"", text);
    CASE("xopen.again.after_exporter_exit", cuIpcOpenMemHandle_v2(&b, m.small, 1), "\"same\":%d", a == b);
    close_if_open(&b);
    CASE("xevent.query.after_exporter_exit", cuEventQuery(event), 0);
    CASE("xevent.record.after_exporter_exit", cuEventRecord(event, 0), 0);
    CASE("xclose.after_exporter_exit", cuIpcCloseMemHandle(a), 0);
    CASE("xopen.after_exporter_exit", cuIpcOpenMemHandle_v2(&a, m.small, 1), 0);
    CASE("xopenevent.after_exporter_exit", cuIpcOpenEventHandle(&event, m.event), 0);
}

static void exporter(void) {
    start();
    cuCtxSetCurrent(c0);
    struct message m;
    memset(&m, 0, sizeof m);
    m.exporter = getpid();
    CUdeviceptr p, small, fresh;
    cuMemAlloc_v2(&p, 4 << 20);
    cuMemAlloc_v2(&small, 256);
    cuMemcpyHtoD_v2(p, "hello-from-peer", 16);
    cuMemcpyHtoD_v2(small, "small", 6);
    CASE("x.ipcget", cuIpcGetMemHandle(&m.memory, p), 0);
    CASE("x.ipcget.small", cuIpcGetMemHandle(&m.small, small), 0);
    CUevent event = NULL, plain = NULL, again = NULL;
    Handle h;
    CASE("event.create.interprocess_timing", cuEventCreate(&plain, 4), 0);
    cuEventCreate(&plain, 2);
    CASE("ipcgetevent.notinterprocess", cuIpcGetEventHandle(&h, plain), 0);
    CASE("event.create.interprocess", cuEventCreate(&event, 6), 0);
    CASE("ipcgetevent.nullhandle", cuIpcGetEventHandle(NULL, event), 0);
    CASE("ipcgetevent.nullevent", cuIpcGetEventHandle(&h, NULL), 0);
    CASE("ipcgetevent.ok", cuIpcGetEventHandle(&m.event, event), 0);
    CASE("ipcgetevent.again", cuIpcGetEventHandle(&h, event), "\"same\":%d", same(&h, &m.event));
    CASE("ipcopenevent.sameprocess", cuIpcOpenEventHandle(&again, m.event), 0);
    cuEventRecord(event, 0);
    send_to(pipes.to[1], &m, sizeof m);
    char c;
    receive(pipes.from[0], &c, 1);
    CASE("x.exporter.free_while_open", cuMemFree_v2(p), 0);
    cuMemAlloc_v2(&fresh, 4 << 20);
    cuMemsetD8_v2(fresh, 'x', 4 << 20);
    send_to(pipes.to[1], &c, 1);
    receive(pipes.from[0], &c, 1);
}

// The two run at once; whatever one closes, the other sees.
static void exporter_and_importer(void) {
    if (pipe(pipes.to) || pipe(pipes.from)) _exit(7);
    pid_t child = fork();
    if (!child) {
        alarm(60);
        close(pipes.to[1]);
        importer();
        fflush(stdout);
        _exit(0);
    }
    pid_t other = fork();
    if (!other) {
        alarm(60);
        exporter();
        fflush(stdout);
        _exit(0);
    }
    close(pipes.to[1]);
    int status;
    while (wait(&status) > 0)
        if (status) note("\"a process ended with status %d\"", status);
}

void ipc_groups(void) {
    in_child("ipcget", exporting);
    in_child("ipcself", same_process);
    in_child("ctxevents", context_gone);
    in_child("ipcgarbage", garbage_memory);
    in_child("ipcgarbage2", garbage);
    in_child("ipcpair", exporter_and_importer);
}
