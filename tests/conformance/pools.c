// Memory pools: what they are made of, who may access them, and what leaves the process and comes back to it.
#include "pools.h"

static char text[32];

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
    char any[64];
    memset(&e, 0, sizeof e);
    CASE("mempool.exportptr.before_pool", cuMemPoolExportPointer(&e, d), 0);
    CASE("mempool.export.null", cuMemPoolExportToShareableHandle(NULL, pool, DESCRIPTOR, 0), 0);
    CASE("mempool.export.type0", cuMemPoolExportToShareableHandle(any, pool, 0, 0), 0);
    CASE("mempool.export.type3", cuMemPoolExportToShareableHandle(any, pool, 3, 0), 0);
    CASE("mempool.export.type16", cuMemPoolExportToShareableHandle(any, pool, 16, 0), 0);
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

void pool_groups(void) {
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
}
