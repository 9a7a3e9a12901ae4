// Memory pools between processes: a pool goes by its descriptor, and a pointer by 64 bytes.
#include "pools.h"

static char text[32];

// What the probe of two processes asks, in its order.
static void exporter(void) {
    begin();
    PoolProperties p = on(0, DESCRIPTOR), q = on(0, 0);
    CUmemoryPool pool = NULL, plain = NULL, standard = NULL;
    int fd = -1, other = -1;
    char any[64];
    CASE("mempool.create.fd", cuMemPoolCreate(&pool, &p), 0);
    CASE("mempool.create.none", cuMemPoolCreate(&plain, &q), 0);
    CASE("mempool.export.ok", cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0), "\"fd_ok\":%d", fd >= 0);
    CASE("mempool.export.none", cuMemPoolExportToShareableHandle(&other, plain, DESCRIPTOR, 0), 0);
    cuDeviceGetDefaultMemPool(&standard, 0);
    CASE("mempool.export.default", cuMemPoolExportToShareableHandle(&other, standard, DESCRIPTOR, 0), 0);
    CASE("mempool.export.flags1", cuMemPoolExportToShareableHandle(&other, pool, DESCRIPTOR, 1), 0);
    CASE("mempool.export.wrongtype", cuMemPoolExportToShareableHandle(any, pool, FABRIC, 0), 0);
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

void pool_sharing_groups(void) {
    in_child("mempool.x", two_processes);
    in_child("mempool.y", life);
    in_child("mempool.twice", destroyed_often);
    in_child("mempool.hidden", hidden_device);
}
