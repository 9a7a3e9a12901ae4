// Memory pools: what they are made of, access to them, and pools and pointers that go from one process to another.
#include "driver.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICE = 1, HOST, NUMA }; // places
enum { DESCRIPTOR = 1, WINDOWS, WINDOWS_KMT = 4, FABRIC = 8 }; // types of handles
enum { NONE, READ, READ_WRITE = 3 }; // access
enum { MIB = 1 << 20 };

static char text[32];
static const char *down(CUdeviceptr p) {
    memset(text, 0, sizeof text);
    CUresult result = cuMemcpyDtoH_v2(text, p, 11);
    if (result) snprintf(text, sizeof text, "error %d", result);
    return text;
}

static void *number(int fd) { return (void *)(uintptr_t)fd; }

static Access for_device(int device, int flags) { return (Access){{DEVICE, device}, flags}; }

static CUresult allow(CUmemoryPool pool, int device, int flags) {
    Access a = for_device(device, flags);
    return cuMemPoolSetAccess(pool, &a, 1);
}

static void begin(void) {
    start();
    cuCtxSetCurrent(c0);
    hush();
}

static PoolProperties on(int device, int types) {
    PoolProperties p;
    memset(&p, 0, sizeof p);
    p.type = 1;
    p.handleTypes = types;
    p.location.type = DEVICE;
    p.location.id = device;
    return p;
}

static CUmemoryPool create(int types) {
    PoolProperties p = on(0, types);
    CUmemoryPool pool = NULL;
    cuMemPoolCreate(&pool, &p);
    return pool;
}

static CUdeviceptr allocate(CUmemoryPool pool, const char *bytes) {
    CUdeviceptr p = 0;
    cuMemAllocFromPoolAsync(&p, MIB, pool, 0);
    cuStreamSynchronize(0);
    if (p) cuMemcpyHtoD_v2(p, bytes, 11);
    return p;
}

static int descriptor(CUmemoryPool pool) {
    int fd = -1;
    cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0);
    return fd;
}

// What the probe of two processes asks, in its order.
static void exporter(void) {
    begin();
    PoolProperties p = on(0, DESCRIPTOR), q = on(0, 0);
    CUmemoryPool pool = NULL, plain = NULL, standard = NULL;
    int fd = -1, other = -1;
    CASE("mempool.create.fd", cuMemPoolCreate(&pool, &p), 0);
    CASE("mempool.create.none", cuMemPoolCreate(&plain, &q), 0);
    CASE("mempool.export.ok", cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0), "\"fd_ok\":%d", fd >= 0);
    CASE("mempool.export.none", cuMemPoolExportToShareableHandle(&other, plain, DESCRIPTOR, 0), 0);
    cuDeviceGetDefaultMemPool(&standard, 0);
    CASE("mempool.export.default", cuMemPoolExportToShareableHandle(&other, standard, DESCRIPTOR, 0), 0);
    CASE("mempool.export.flags1", cuMemPoolExportToShareableHandle(&other, pool, DESCRIPTOR, 1), 0);
    CASE("mempool.export.wrongtype", cuMemPoolExportToShareableHandle(&other, pool, FABRIC, 0), 0);
    CUdeviceptr d = 0, of_plain = 0, legacy = 0;
    CASE("mempool.alloc", cuMemAllocFromPoolAsync(&d, MIB, pool, 0), 0);
    cuStreamSynchronize(0);
    of_plain = allocate(plain, "");
    cuMemcpyHtoD_v2(d, "pool-hello", 11);
    PoolPointer e, unused;
    memset(&e, 0, sizeof e);
    CASE("mempool.exportptr.ok", cuMemPoolExportPointer(&e, d), 0);
    CASE("mempool.exportptr.nonshareable", cuMemPoolExportPointer(&unused, of_plain), 0);
    CASE("mempool.exportptr.interior", cuMemPoolExportPointer(&unused, d + 512), 0);
    cuMemAlloc_v2(&legacy, 4096);
    CASE("mempool.exportptr.legacy", cuMemPoolExportPointer(&unused, legacy), 0);
    CASE("mempool.exportptr.null", cuMemPoolExportPointer(NULL, d), 0);
    CASE("mempool.setaccess.ownnone", allow(pool, 0, NONE), 0);
    CASE("mempool.setaccess.dev99", allow(pool, 99, READ_WRITE), 0);
    Access b = for_device(1, READ_WRITE);
    if (devices > 1) {
        int flags = 9;
        CASE("mempool.setaccess.peer", cuMemPoolSetAccess(pool, &b, 1), 0);
        CASE("mempool.getaccess.peer", cuMemPoolGetAccess(&flags, pool, &b.location), "\"v\":%d", flags);
    }
    CASE("mempool.setaccess.count0", cuMemPoolSetAccess(pool, &b, 0), 0);
    CASE("mempool.setaccess.null", cuMemPoolSetAccess(pool, NULL, 1), 0);
    // An allocation that is no pool's.
    Properties wanted = {.type = 1, .handleTypes = DESCRIPTOR, .location = {DEVICE, 0}};
    Allocation h = 0;
    cuMemCreate(&h, 2 * MIB, &wanted, 0);
    cuMemExportToShareableHandle(&other, h, DESCRIPTOR, 0);
    send_descriptor(fd);
    send_descriptor(other);
    send_to(sockets[0], &e, sizeof e);
    await(sockets[0]);
    CASE("mempool.x.exporter_free_while_open", cuMemFreeAsync(d, 0), 0);
    cuStreamSynchronize(0);
    send_to(sockets[0], "f", 1);
    await(sockets[0]);
}
static void importer(void) {
    int fd = receive_descriptor(), other = receive_descriptor();
    PoolPointer e, zero;
    memset(&zero, 0, sizeof zero);
    receive(sockets[1], &e, sizeof e);
    begin();
    CUmemoryPool pool = NULL, again = NULL;
    CUdeviceptr d = 0, second = 0;
    int back = -1;
    CASE("mempool.x.import", cuMemPoolImportFromShareableHandle(&pool, number(fd), DESCRIPTOR, 0), 0);
    CASE("mempool.x.import.twice", cuMemPoolImportFromShareableHandle(&again, number(fd), DESCRIPTOR, 0), "\"same\":%d",
         again == pool);
    CASE("mempool.x.import.badfd", cuMemPoolImportFromShareableHandle(&again, number(987), DESCRIPTOR, 0), 0);
    CASE("mempool.x.import.vmmfd", cuMemPoolImportFromShareableHandle(&again, number(other), DESCRIPTOR, 0), 0);
    CASE("mempool.x.importptr", cuMemPoolImportPointer(&d, pool, &e), 0);
    CASE("mempool.x.importptr.twice", cuMemPoolImportPointer(&second, pool, &e), "\"same\":%d", d == second);
    CASE("mempool.x.read", cuMemcpyDtoH_v2(text, d, 11), "\"v\":\"%s\"", text);
    CASE("mempool.x.importptr.zero", cuMemPoolImportPointer(&second, pool, &zero), 0);
    CASE("mempool.x.alloc_from_imported", cuMemAllocFromPoolAsync(&second, MIB, pool, 0), 0);
    CASE("mempool.x.reexport", cuMemPoolExportToShareableHandle(&back, pool, DESCRIPTOR, 0), 0);
    CASE("mempool.x.setaccess", allow(pool, 0, READ_WRITE), 0);
    answer('o');
    await(sockets[1]);
    memset(text, 0, sizeof text);
    CASE("mempool.x.read.after_exporter_free", cuMemcpyDtoH_v2(text, d, 11), "\"v\":\"%s\"", text);
    CASE("mempool.x.free", cuMemFreeAsync(d, 0), 0);
    cuStreamSynchronize(0);
    CASE("mempool.x.free.twice", cuMemFreeAsync(d, 0), 0);
    CASE("mempool.x.destroy", cuMemPoolDestroy(pool), 0);
    answer('d');
}
static void two_processes(void) { hand_in_hand(exporter, importer); }

// What can be asked for.
static void ask(const char *name, PoolProperties p) {
    char id[64];
    CUmemoryPool pool = NULL;
    snprintf(id, sizeof id, "mempool.create.%s", name);
    CUresult result = cuMemPoolCreate(&pool, &p);
    report(id, result, 0);
    if (!result) cuMemPoolDestroy(pool);
}
static void creation(void) {
    begin();
    PoolProperties p = on(0, DESCRIPTOR);
    CUmemoryPool pool = NULL;
    CASE("mempool.create.nullout", cuMemPoolCreate(NULL, &p), 0);
    CASE("mempool.create.nullprops", cuMemPoolCreate(&pool, NULL), 0);
    ask("dev99", on(99, DESCRIPTOR));
    ask("dev-1", on(-1, DESCRIPTOR));
    if (devices > 1) ask("dev1", on(1, DESCRIPTOR));
    ask("types2", on(0, WINDOWS));
    ask("types4", on(0, WINDOWS_KMT));
    ask("types16", on(0, 16));
    ask("fabric", on(0, FABRIC));
    ask("types9", on(0, DESCRIPTOR | FABRIC));
    p.type = 0;
    ask("type0", p);
    p = on(0, DESCRIPTOR);
    p.location.type = 0;
    ask("location0", p);
    p.location.type = HOST;
    ask("host.fd", p);
    p.location.type = 9;
    ask("location9", p);
    p = on(0, DESCRIPTOR);
    p.reserved[5] = 1;
    ask("reserved", p);
    p = on(0, DESCRIPTOR);
    p.most = 64 * MIB;
    CUdeviceptr d = 0;
    CASE("mempool.create.most", cuMemPoolCreate(&pool, &p), 0);
    CASE("mempool.most.alloc", cuMemAllocFromPoolAsync(&d, 32 * MIB, pool, 0), 0);
    CASE("mempool.most.more", cuMemAllocFromPoolAsync(&d, 128 * MIB, pool, 0), 0);
}
// There is no channel for FABRIC.
static void fabric(void) {
    begin();
    CUmemoryPool pool = create(FABRIC);
    unsigned char bytes[64];
    CUdeviceptr d = 0;
    CASE("mempool.fabric.alloc", cuMemAllocFromPoolAsync(&d, MIB, pool, 0), 0);
    CASE("mempool.fabric.export", cuMemPoolExportToShareableHandle(bytes, pool, FABRIC, 0), 0);
    CASE("mempool.fabric.export.fd", cuMemPoolExportToShareableHandle(bytes, pool, DESCRIPTOR, 0), 0);
    CASE("mempool.fabric.destroy", cuMemPoolDestroy(pool), 0);
}

// Before cuInit.
static void uninitialized(void) {
    PoolProperties p = on(0, DESCRIPTOR);
    PoolPointer e;
    CUmemoryPool pool = NULL;
    CUdeviceptr d = 0;
    Access a = for_device(0, READ_WRITE);
    int fd;
    memset(&e, 0, sizeof e);
    CASE("mempool.noinit.create", cuMemPoolCreate(&pool, &p), 0);
    CASE("mempool.noinit.create.null", cuMemPoolCreate(NULL, &p), 0);
    CASE("mempool.noinit.destroy", cuMemPoolDestroy(NULL), 0);
    CASE("mempool.noinit.export", cuMemPoolExportToShareableHandle(&fd, NULL, DESCRIPTOR, 0), 0);
    CASE("mempool.noinit.import", cuMemPoolImportFromShareableHandle(&pool, number(0), DESCRIPTOR, 0), 0);
    CASE("mempool.noinit.exportptr", cuMemPoolExportPointer(&e, 0), 0);
    CASE("mempool.noinit.importptr", cuMemPoolImportPointer(&d, NULL, &e), 0);
    CASE("mempool.noinit.setaccess", cuMemPoolSetAccess(NULL, &a, 1), 0);
    CASE("mempool.noinit.alloc", cuMemAllocFromPoolAsync(&d, MIB, NULL, 0), 0);
}

// No context is current.
static void contextless(void) {
    begin();
    CUmemoryPool other = create(DESCRIPTOR), pool = NULL, again = NULL;
    CUdeviceptr d = allocate(other, ""), got = 0;
    PoolProperties p = on(0, DESCRIPTOR);
    PoolPointer e;
    int fd = -1, flags = 9;
    Location l = {DEVICE, 0};
    cuCtxSetCurrent(NULL);
    CASE("mempool.nocurrent.create", cuMemPoolCreate(&pool, &p), 0);
    CASE("mempool.nocurrent.export", cuMemPoolExportToShareableHandle(&fd, other, DESCRIPTOR, 0), 0);
    CASE("mempool.nocurrent.exportptr", cuMemPoolExportPointer(&e, d), 0);
    CASE("mempool.nocurrent.import", cuMemPoolImportFromShareableHandle(&again, number(fd), DESCRIPTOR, 0), 0);
    CASE("mempool.nocurrent.setaccess", allow(other, 0, READ_WRITE), 0);
    CASE("mempool.nocurrent.getaccess", cuMemPoolGetAccess(&flags, other, &l), "\"v\":%d", flags);
    CASE("mempool.nocurrent.alloc", cuMemAllocFromPoolAsync(&got, MIB, other, 0), 0);
    CASE("mempool.nocurrent.free", cuMemFree_v2(d), 0);
    CASE("mempool.nocurrent.destroy", cuMemPoolDestroy(other), 0);
}

// What leaves the process, and comes back to it.
static void one_process(void) {
    begin();
    CUmemoryPool pool = create(DESCRIPTOR), own = NULL, standard = NULL;
    CUdeviceptr d = allocate(pool, "early"), got = 0, wild = 0x7000000000;
    PoolPointer e, again;
    Allocation h = 0;
    int fd = -1, other = -1;
    memset(&e, 0, sizeof e);
    CASE("mempool.exportptr.before_pool", cuMemPoolExportPointer(&e, d), 0);
    CASE("mempool.export.null", cuMemPoolExportToShareableHandle(NULL, pool, DESCRIPTOR, 0), 0);
    CASE("mempool.export.type0", cuMemPoolExportToShareableHandle(&fd, pool, 0, 0), 0);
    CASE("mempool.export.type3", cuMemPoolExportToShareableHandle(&fd, pool, 3, 0), 0);
    CASE("mempool.export.type16", cuMemPoolExportToShareableHandle(&fd, pool, 16, 0), 0);
    CASE("mempool.export", cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0), "\"flags\":%d", fcntl(fd, F_GETFD));
    CASE("mempool.export.again", cuMemPoolExportToShareableHandle(&other, pool, DESCRIPTOR, 0), "\"same\":%d", fd == other);
    CASE("mempool.exportptr", cuMemPoolExportPointer(&e, d), 0);
    CASE("mempool.exportptr.again", cuMemPoolExportPointer(&again, d), "\"same\":%d", !memcmp(&e, &again, sizeof e));
    int pid;
    memcpy(&pid, &e, sizeof pid);
    CASE("mempool.exportptr.pid", 0, "\"is_mine\":%d", pid == getpid());
    CASE("mempool.exportptr.wild", cuMemPoolExportPointer(&again, wild), 0);
    CASE("mempool.exportptr.address0", cuMemPoolExportPointer(&again, 0), 0);
    CASE("mempool.importasmemory", cuMemImportFromShareableHandle(&h, number(fd), DESCRIPTOR), 0);
    CASE("mempool.own.import", cuMemPoolImportFromShareableHandle(&own, number(fd), DESCRIPTOR, 0), "\"same\":%d", own == pool);
    CASE("mempool.own.importptr", cuMemPoolImportPointer(&got, own, &e), 0);
    CASE("mempool.own.importptr.original", cuMemPoolImportPointer(&got, pool, &e), 0);
    CASE("mempool.own.alloc", cuMemAllocFromPoolAsync(&got, MIB, own, 0), 0);
    CASE("mempool.own.destroy", cuMemPoolDestroy(own), 0);
    int pipes[2], null = open("/dev/null", O_RDONLY);
    CASE("mempool.import.devnull", cuMemPoolImportFromShareableHandle(&own, number(null), DESCRIPTOR, 0), 0);
    CASE("mempool.import.pipe", pipe(pipes) ? 1 : cuMemPoolImportFromShareableHandle(&own, number(pipes[0]), DESCRIPTOR, 0), 0);
    CASE("mempool.import.minus1", cuMemPoolImportFromShareableHandle(&own, number(-1), DESCRIPTOR, 0), 0);
    CASE("mempool.import.nullout", cuMemPoolImportFromShareableHandle(NULL, number(fd), DESCRIPTOR, 0), 0);
    CASE("mempool.import.type0", cuMemPoolImportFromShareableHandle(&own, number(fd), 0, 0), 0);
    CASE("mempool.import.type2", cuMemPoolImportFromShareableHandle(&own, number(fd), WINDOWS, 0), 0);
    CASE("mempool.import.type3", cuMemPoolImportFromShareableHandle(&own, number(fd), 3, 0), 0);
    CASE("mempool.import.fabric.null", cuMemPoolImportFromShareableHandle(&own, NULL, FABRIC, 0), 0);
    CASE("mempool.import.flags1", cuMemPoolImportFromShareableHandle(&own, number(fd), DESCRIPTOR, 1), 0);
    // The pool that a device allocates from.
    CUmemoryPool now = NULL;
    CASE("mempool.device.set", cuDeviceSetMemPool(0, pool), 0);
    CASE("mempool.device.get", cuDeviceGetMemPool(&now, 0), "\"same\":%d", now == pool);
    cuDeviceGetDefaultMemPool(&standard, 0);
    CASE("mempool.device.default", 0, "\"same\":%d", standard == pool);
    if (devices > 1) CASE("mempool.device.other", cuDeviceSetMemPool(1, pool), 0);
    CASE("mempool.device.set99", cuDeviceSetMemPool(99, pool), 0);
    CASE("mempool.device.alloc", cuMemAllocAsync(&got, MIB, 0), 0);
    cuStreamSynchronize(0);
    CASE("mempool.device.exportptr", cuMemPoolExportPointer(&again, got), 0);
    // A pool in use is destroyed.
    CASE("mempool.destroy.inuse", cuMemPoolDestroy(pool), 0);
    CASE("mempool.device.destroyed", cuDeviceGetMemPool(&now, 0), "\"default\":%d", now == standard);
    CASE("mempool.destroyed.read", cuMemcpyDtoH_v2(text, d, 6), "\"v\":\"%s\"", text);
    CASE("mempool.destroyed.free", cuMemFreeAsync(d, 0), 0);
    CASE("mempool.destroy.default", cuMemPoolDestroy(standard), 0);
}
// What a driver does with the handle of a pool that is gone is its own affair.
static void destroyed_alloc(void) {
    begin();
    CUmemoryPool pool = create(DESCRIPTOR);
    CUdeviceptr d = allocate(pool, "");
    close(descriptor(pool));
    cuMemPoolDestroy(pool);
    CASE("mempool.destroyed.alloc", cuMemAllocFromPoolAsync(&d, MIB, pool, 0), 0);
}
static void destroyed_export(void) {
    begin();
    CUmemoryPool pool = create(DESCRIPTOR);
    int fd = -1;
    allocate(pool, "");
    close(descriptor(pool));
    cuMemPoolDestroy(pool);
    CASE("mempool.destroyed.export", cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0), 0);
}
static void destroyed_pointer(void) {
    begin();
    CUmemoryPool pool = create(DESCRIPTOR);
    CUdeviceptr d = allocate(pool, "");
    PoolPointer e;
    close(descriptor(pool));
    cuMemPoolDestroy(pool);
    CASE("mempool.destroyed.exportptr", cuMemPoolExportPointer(&e, d), 0);
}
static void destroyed_twice(void) {
    begin();
    CUmemoryPool pool = create(DESCRIPTOR);
    cuMemPoolDestroy(pool);
    CASE("mempool.destroyed.destroy", cuMemPoolDestroy(pool), 0);
}
static void null_pool(void) {
    begin();
    PoolPointer e;
    CUdeviceptr d = 0;
    int fd = -1, flags = 9;
    Location l = {DEVICE, 0};
    memset(&e, 0, sizeof e);
    CASE("mempool.null.destroy", cuMemPoolDestroy(NULL), 0);
    CASE("mempool.null.export", cuMemPoolExportToShareableHandle(&fd, NULL, DESCRIPTOR, 0), 0);
    CASE("mempool.null.importptr", cuMemPoolImportPointer(&d, NULL, &e), 0);
    CASE("mempool.null.setaccess", allow(NULL, 0, READ_WRITE), 0);
    CASE("mempool.null.getaccess", cuMemPoolGetAccess(&flags, NULL, &l), 0);
    CASE("mempool.null.alloc", cuMemAllocFromPoolAsync(&d, MIB, NULL, 0), 0);
    CASE("mempool.null.device", cuDeviceSetMemPool(0, NULL), 0);
}

// Who may do what.
static CUresult accessible(CUmemoryPool pool, int device, int *flags) {
    Location l = {DEVICE, device};
    *flags = 9;
    return cuMemPoolGetAccess(flags, pool, &l);
}
static void rights(void) {
    begin();
    CUmemoryPool pool = create(DESCRIPTOR);
    CUdeviceptr d = allocate(pool, "for-one"), there = 0;
    int flags;
    Location l = {HOST, 0};
    CASE("mempool.getaccess.own", accessible(pool, 0, &flags), "\"v\":%d", flags);
    CASE("mempool.getaccess.dev99", accessible(pool, 99, &flags), 0);
    CASE("mempool.getaccess.host", cuMemPoolGetAccess(&flags, pool, &l), 0);
    l.type = 0;
    CASE("mempool.getaccess.location0", cuMemPoolGetAccess(&flags, pool, &l), 0);
    CASE("mempool.getaccess.nulllocation", cuMemPoolGetAccess(&flags, pool, NULL), 0);
    l.type = DEVICE;
    CASE("mempool.getaccess.null", cuMemPoolGetAccess(NULL, pool, &l), 0);
    CASE("mempool.setaccess.own", allow(pool, 0, READ_WRITE), 0);
    CASE("mempool.setaccess.ownread", allow(pool, 0, READ), 0);
    CASE("mempool.setaccess.flags2", allow(pool, 0, 2), 0);
    Access a = {{HOST, 0}, READ_WRITE};
    CASE("mempool.setaccess.host", cuMemPoolSetAccess(pool, &a, 1), 0);
    a.location.type = 0;
    CASE("mempool.setaccess.location0", cuMemPoolSetAccess(pool, &a, 1), 0);
    CASE("mempool.setaccess.null.count0", cuMemPoolSetAccess(pool, NULL, 0), 0);
    if (devices < 2) return;
    CASE("mempool.getaccess.peerbefore", accessible(pool, 1, &flags), "\"v\":%d", flags);
    CASE("mempool.setaccess.peerread", allow(pool, 1, READ), 0);
    CASE("mempool.getaccess.peerread", accessible(pool, 1, &flags), "\"v\":%d", flags);
    Access two[2] = {for_device(1, READ_WRITE), for_device(99, READ_WRITE)};
    CASE("mempool.setaccess.secondbad", cuMemPoolSetAccess(pool, two, 2), 0);
    CASE("mempool.getaccess.secondbad", accessible(pool, 1, &flags), "\"v\":%d", flags);
    allow(pool, 1, NONE);
    hush();
    cuCtxSetCurrent(c1);
    cuMemAlloc_v2(&there, MIB);
    CASE("mempool.peer.read.noaccess", cuMemcpyDtoH_v2(text, d, 8), 0);
    CASE("mempool.peer.write.noaccess", cuMemcpyHtoD_v2(d, "x", 2), 0);
    CASE("mempool.peer.fill.noaccess", cuMemsetD8_v2(d, 7, 64), 0);
    CASE("mempool.peer.copy.noaccess", cuMemcpyDtoD_v2(there, d, 8), 0);
    CASE("mempool.peer.copypeer.noaccess", cuMemcpyPeer(there, c1, d, c0, 8), 0);
    unsigned v = 9;
    CASE("mempool.peer.flags.noaccess", cuPointerGetAttribute(&v, 16, d), "\"v\":%u", v);
    CUdeviceptr p = 0;
    CASE("mempool.peer.pointer.noaccess", cuPointerGetAttribute(&p, 3, d), 0);
    CASE("mempool.peer.enabled", cuCtxEnablePeerAccess(c0, 0), 0);
    CASE("mempool.peer.read.enabled", cuMemcpyDtoH_v2(text, d, 8), 0);
    two[1] = for_device(0, READ_WRITE);
    CASE("mempool.setaccess.both", cuMemPoolSetAccess(pool, two, 2), 0);
    CASE("mempool.getaccess.both", accessible(pool, 1, &flags), "\"v\":%d", flags);
    CASE("mempool.peer.read", cuMemcpyDtoH_v2(text, d, 8), "\"v\":\"%s\"", text);
    CASE("mempool.peer.fill", cuMemsetD8_v2(d, 'z', 3), 0);
    CASE("mempool.setaccess.taken", allow(pool, 1, NONE), 0);
    CASE("mempool.getaccess.taken", accessible(pool, 1, &flags), "\"v\":%d", flags);
    CASE("mempool.peer.read.taken", cuMemcpyDtoH_v2(text, d, 8), 0);
}

// What a pointer says of itself.
static void attributes_of(const char *name, CUdeviceptr p, CUmemoryPool pool) {
    for (int attribute = 1; attribute <= 21; attribute++) {
        if (attribute == 5 || attribute == 7 || attribute == 20) continue; // numbers of no meaning
        if (attribute == 18 || attribute == 19) continue; // of the block from which the driver takes it
        char id[64];
        unsigned long long v = 0;
        CUresult result = cuPointerGetAttribute(&v, attribute, p);
        snprintf(id, sizeof id, "mempool.%s.attribute.%d", name, attribute);
        const char *form = "\"v\":%llu";
        if (attribute == 3 || attribute == 11) v -= p, form = "\"from\":%llu";
        if (attribute == 17) v = v == (uintptr_t)pool, form = "\"is_its\":%llu";
        report(id, result, result ? 0 : form, v);
    }
}

// A process that exports two pools and what the other asks it to do: its steps are the bytes that it is sent.
static void owner(void) {
    begin();
    CUmemoryPool pool = create(DESCRIPTOR), other = create(DESCRIPTOR);
    int fd = descriptor(pool), second = descriptor(other);
    CUdeviceptr d = allocate(pool, "pool-first"), q = allocate(pool, "pool-later");
    PoolPointer e, later;
    cuMemPoolExportPointer(&e, d);
    cuMemPoolExportPointer(&later, q);
    attributes_of("owner", d, pool);
    send_descriptor(fd);
    send_descriptor(second);
    send_to(sockets[0], &e, sizeof e);
    send_to(sockets[0], &later, sizeof later);
    char step;
    while (read(sockets[0], &step, 1) == 1 && step != 'q') {
        hush();
        if (step == 's') CASE("mempool.y.owner.sees", 0, "\"v\":\"%s\"", down(d));
        if (step == 'f') cuMemFree_v2(d);
        if (step == 'd') CASE("mempool.y.owner.destroys", cuMemPoolDestroy(pool), 0);
        send_to(sockets[0], &step, 1);
    }
    fflush(stdout);
    _exit(0);
}
static void let(char step) {
    answer(step);
    if (step != 'q') await(sockets[1]);
}
static void borrower(void) {
    int fd = receive_descriptor(), second = receive_descriptor();
    PoolPointer e, later;
    receive(sockets[1], &e, sizeof e);
    receive(sockets[1], &later, sizeof later);
    begin();
    CUmemoryPool pool = NULL, other = NULL, again = NULL;
    CUdeviceptr d = 0, q = 0, got = 0;
    cuMemPoolImportFromShareableHandle(&pool, number(fd), DESCRIPTOR, 0);
    cuMemPoolImportFromShareableHandle(&other, number(second), DESCRIPTOR, 0);
    hush();
    CASE("mempool.y.import.dup", cuMemPoolImportFromShareableHandle(&again, number(dup(fd)), DESCRIPTOR, 0), "\"same\":%d",
         again == pool);
    close(fd);
    CASE("mempool.y.importptr.wrongpool", cuMemPoolImportPointer(&got, other, &e), 0);
    CASE("mempool.y.importptr.nullout", cuMemPoolImportPointer(NULL, pool, &e), 0);
    CASE("mempool.y.importptr.nulldata", cuMemPoolImportPointer(&got, pool, NULL), 0);
    CASE("mempool.y.importptr", cuMemPoolImportPointer(&d, pool, &e), 0);
    CASE("mempool.y.importptr.later", cuMemPoolImportPointer(&q, pool, &later), "\"v\":\"%s\"", down(q));
    attributes_of("imported", d, pool);
    CUdeviceptr base = 0;
    size_t size = 0;
    CASE("mempool.y.range", cuMemGetAddressRange_v2(&base, &size, d + 5), "\"base\":%d,\"size\":%zu", base == d, size);
    CASE("mempool.y.pastend", cuMemcpyDtoH_v2(text, d + MIB - 4, 8), 0);
    PoolPointer back;
    Handle legacy;
    CASE("mempool.y.exportptr", cuMemPoolExportPointer(&back, d), 0);
    CASE("mempool.y.ipcget", cuIpcGetMemHandle(&legacy, d), 0);
    CASE("mempool.y.ipcclose", cuIpcCloseMemHandle(d), 0);
    CASE("mempool.y.device.set", cuDeviceSetMemPool(0, pool), 0);
    CASE("mempool.y.free.interior", cuMemFree_v2(d + 512), 0);
    int flags;
    CASE("mempool.y.getaccess.own", accessible(pool, 0, &flags), "\"v\":%d", flags);
    if (devices > 1) {
        CASE("mempool.y.getaccess.peer", accessible(pool, 1, &flags), "\"v\":%d", flags);
        cuCtxSetCurrent(c1);
        CASE("mempool.y.peer.read.noaccess", cuMemcpyDtoH_v2(text, d, 11), 0);
        CASE("mempool.y.setaccess.read", allow(pool, 1, READ), 0);
        CASE("mempool.y.setaccess.peer", allow(pool, 1, READ_WRITE), 0);
        CASE("mempool.y.peer.read", cuMemcpyDtoH_v2(text, d, 11), "\"v\":\"%s\"", text);
        cuCtxSetCurrent(c0);
    }
    CASE("mempool.y.setaccess.ownnone", allow(pool, 0, NONE), 0);
    cuMemcpyHtoD_v2(d, "pool-there", 11);
    cuCtxSynchronize();
    hush();
    let('s');
    CASE("mempool.y.destroy.open", cuMemPoolDestroy(pool), 0);
    CASE("mempool.y.free", cuMemFree_v2(q), 0);
    CASE("mempool.y.free.twice", cuMemFree_v2(q), 0);
    q = 0;
    CASE("mempool.y.importptr.again", cuMemPoolImportPointer(&q, pool, &later), "\"v\":\"%s\"", down(q));
    let('f');
    CASE("mempool.y.read.after_exporter_free", 0, "\"v\":\"%s\"", down(d));
    CASE("mempool.y.importptr.open.after_exporter_free", cuMemPoolImportPointer(&got, pool, &e), "\"same\":%d", got == d);
    CASE("mempool.y.free.after_exporter_free", cuMemFree_v2(d), 0);
    CASE("mempool.y.importptr.after_exporter_free", cuMemPoolImportPointer(&d, pool, &e), 0);
    let('d');
    CASE("mempool.y.read.after_exporter_destroy", 0, "\"v\":\"%s\"", down(q));
    CASE("mempool.y.import.after_exporter_destroy", cuMemPoolImportFromShareableHandle(&again, number(second), DESCRIPTOR, 0),
         "\"same\":%d", again == other);
    let('q');
    char end;
    if (read(sockets[1], &end, 1)) _exit(5); // until the exporter is gone
    CASE("mempool.y.read.after_exporter_exit", 0, "\"v\":\"%s\"", down(q));
    CASE("mempool.y.free.after_exporter_exit", cuMemFreeAsync(q, 0), 0);
    CASE("mempool.y.importptr.after_exporter_exit", cuMemPoolImportPointer(&q, pool, &later), 0);
    CASE("mempool.y.destroy.other", cuMemPoolDestroy(other), 0);
    CASE("mempool.y.import.after_exporter_exit", cuMemPoolImportFromShareableHandle(&again, number(second), DESCRIPTOR, 0), 0);
}
static void life(void) { hand_in_hand(owner, borrower); }

// An import that is destroyed as often as it was imported.
static void twice(void) {
    int fd = receive_descriptor();
    receive_descriptor();
    PoolPointer e;
    receive(sockets[1], &e, sizeof e);
    receive(sockets[1], &e, sizeof e);
    begin();
    CUmemoryPool pool = NULL, again = NULL;
    cuMemPoolImportFromShareableHandle(&pool, number(fd), DESCRIPTOR, 0);
    cuMemPoolImportFromShareableHandle(&again, number(fd), DESCRIPTOR, 0);
    CASE("mempool.twice.destroy", cuMemPoolDestroy(pool), 0);
    CASE("mempool.twice.destroy.again", cuMemPoolDestroy(again), 0);
    CASE("mempool.twice.import", cuMemPoolImportFromShareableHandle(&pool, number(fd), DESCRIPTOR, 0), 0);
    let('q');
}
static void quiet_owner(void) {
    begin();
    CUmemoryPool pool = create(DESCRIPTOR);
    PoolPointer e;
    int fd = descriptor(pool);
    CUdeviceptr d = allocate(pool, "pool-first");
    cuMemPoolExportPointer(&e, d);
    send_descriptor(fd);
    send_descriptor(fd);
    send_to(sockets[0], &e, sizeof e);
    send_to(sockets[0], &e, sizeof e);
    await(sockets[0]);
}
static void destroyed_often(void) { hand_in_hand(quiet_owner, twice); }

// The importer does not see the exporter's device.
static void blinkered(void) {
    int fd = receive_descriptor();
    receive_descriptor();
    PoolPointer e;
    receive(sockets[1], &e, sizeof e);
    receive(sockets[1], &e, sizeof e);
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    begin();
    CUmemoryPool pool = NULL;
    CUdeviceptr d = 0;
    int flags;
    CASE("mempool.hidden.import", cuMemPoolImportFromShareableHandle(&pool, number(fd), DESCRIPTOR, 0), 0);
    if (pool) {
        CASE("mempool.hidden.importptr", cuMemPoolImportPointer(&d, pool, &e), 0);
        CASE("mempool.hidden.getaccess", accessible(pool, 0, &flags), "\"v\":%d", flags);
        CASE("mempool.hidden.setaccess", allow(pool, 0, READ_WRITE), 0);
        CASE("mempool.hidden.read", 0, "\"v\":\"%s\"", down(d));
    }
    let('q');
}
static void hidden_device(void) { hand_in_hand(quiet_owner, blinkered); }

void pool_groups(void) {
    in_child("mempool.x", two_processes);
    in_child("mempool.creation", creation);
    in_child("mempool.fabric", fabric);
    in_child("mempool.noinit", uninitialized);
    in_child("mempool.nocurrent", contextless);
    in_child("mempool.single", one_process);
    in_child("mempool.destroyed.alloc", destroyed_alloc);
    in_child("mempool.destroyed.export", destroyed_export);
    in_child("mempool.destroyed.exportptr", destroyed_pointer);
    in_child("mempool.destroyed.destroy", destroyed_twice);
    in_child("mempool.null", null_pool);
    in_child("mempool.rights", rights);
    in_child("mempool.y", life);
    in_child("mempool.twice", destroyed_often);
    in_child("mempool.hidden", hidden_device);
}
