// Virtual memory: allocations, reservations, mappings and access, within a process and between two.
#include "driver.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICE = 1, HOST, NUMA, NUMA_CURRENT }; // places
enum { DESCRIPTOR = 1, WINDOWS, WINDOWS_KMT = 4, FABRIC = 8 }; // types of handles
enum { NONE, READ, READ_WRITE = 3 }; // access

static size_t g; // the granularity

static Properties on(int device, int types) {
    Properties p;
    memset(&p, 0, sizeof p);
    p.type = 1;
    p.handleTypes = types;
    p.location.type = DEVICE;
    p.location.id = device;
    return p;
}

static Access for_device(int device, int flags) { return (Access){{DEVICE, device}, flags}; }

static void *number(int fd) { return (void *)(uintptr_t)fd; }

static void begin(void) {
    Properties p = on(0, DESCRIPTOR);
    start();
    cuCtxSetCurrent(c0);
    cuMemGetAllocationGranularity(&g, &p, 0);
    hush();
}

static Allocation create(int device, size_t size) {
    Properties p = on(device, DESCRIPTOR);
    Allocation h = 0;
    cuMemCreate(&h, size, &p, 0);
    return h;
}

static CUdeviceptr reserve(size_t size) {
    CUdeviceptr at = 0;
    cuMemAddressReserve(&at, size, 0, 0, 0);
    return at;
}

static CUresult allow(CUdeviceptr at, size_t size, int device, int flags) {
    Access a = for_device(device, flags);
    return cuMemSetAccess(at, size, &a, 1);
}

// What the probe of one process asks, in its order.
static void one_process(void) {
    begin();
    Properties p = on(0, DESCRIPTOR), other;
    Allocation h = 0, plain = 0, got = 0;
    CUdeviceptr at = 0;
    int fd = -1;
    char any[64]; // a handle of any type: that of FABRIC has 64 bytes
    CASE("vmm.granularity", cuMemGetAllocationGranularity(&g, &p, 0), "\"v\":%zu", g);
    CASE("vmm.create.fd", cuMemCreate(&h, g, &p, 0), 0);
    other = on(0, 0);
    CASE("vmm.create.none", cuMemCreate(&plain, g, &other, 0), 0);
    CASE("vmm.create.badsize", cuMemCreate(&got, g / 2 + 1, &p, 0), 0);
    other = on(0, FABRIC);
    CASE("vmm.create.fabric", cuMemCreate(&got, g, &other, 0), 0);
    other = on(99, DESCRIPTOR);
    CASE("vmm.create.dev99", cuMemCreate(&got, g, &other, 0), 0);
    CASE("vmm.export.ok", cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 0), "\"fd_ok\":%d,\"flags\":%d", fd >= 0,
         fcntl(fd, F_GETFD));
    CASE("vmm.export.nohandletype", cuMemExportToShareableHandle(&fd, plain, DESCRIPTOR, 0), 0);
    CASE("vmm.export.wrongtype", cuMemExportToShareableHandle(any, h, FABRIC, 0), 0);
    CASE("vmm.export.type0", cuMemExportToShareableHandle(any, h, 0, 0), 0);
    CASE("vmm.export.type3", cuMemExportToShareableHandle(any, h, 3, 0), 0);
    CASE("vmm.export.type16", cuMemExportToShareableHandle(any, h, 16, 0), 0);
    CASE("vmm.export.flags1", cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 1), 0);
    CASE("vmm.export.null", cuMemExportToShareableHandle(NULL, h, DESCRIPTOR, 0), 0);
    CASE("vmm.import.sameprocess", cuMemImportFromShareableHandle(&got, number(fd), DESCRIPTOR), "\"same\":%d", got == h);
    CASE("vmm.import.badfd", cuMemImportFromShareableHandle(&got, number(-1), DESCRIPTOR), 0);
    int null = open("/dev/null", O_RDONLY), pipes[2];
    CASE("vmm.import.devnull", cuMemImportFromShareableHandle(&got, number(null), DESCRIPTOR), 0);
    CASE("vmm.import.pipe", pipe(pipes) ? 1 : cuMemImportFromShareableHandle(&got, number(pipes[0]), DESCRIPTOR), 0);
    CASE("vmm.import.closedfd", cuMemImportFromShareableHandle(&got, number(987), DESCRIPTOR), 0);
    CASE("vmm.import.nullout", cuMemImportFromShareableHandle(NULL, number(fd), DESCRIPTOR), 0);
    CASE("vmm.import.type0", cuMemImportFromShareableHandle(&got, number(fd), 0), 0);
    CASE("vmm.import.type2", cuMemImportFromShareableHandle(&got, number(fd), WINDOWS), 0);
    CASE("vmm.import.type3", cuMemImportFromShareableHandle(&got, number(fd), 3), 0);
    CASE("vmm.import.fabric.null", cuMemImportFromShareableHandle(&got, NULL, FABRIC), 0);
    at = reserve(2 * g);
    Access a = for_device(0, READ_WRITE), b;
    CASE("vmm.setaccess.unmapped", cuMemSetAccess(at, g, &a, 1), 0);
    CASE("vmm.map", cuMemMap(at, g, 0, h, 0), 0);
    CASE("vmm.setaccess.ok", cuMemSetAccess(at, g, &a, 1), 0);
    CASE("vmm.setaccess.twice", cuMemSetAccess(at, g, &a, 1), 0);
    CASE("vmm.setaccess.partialunmapped", cuMemSetAccess(at, 2 * g, &a, 1), 0);
    CASE("vmm.setaccess.count0", cuMemSetAccess(at, g, &a, 0), 0);
    CASE("vmm.setaccess.null", cuMemSetAccess(at, g, NULL, 1), 0);
    CASE("vmm.setaccess.size0", cuMemSetAccess(at, 0, &a, 1), 0);
    CASE("vmm.setaccess.address0", cuMemSetAccess(0, g, &a, 1), 0);
    CASE("vmm.setaccess.wild", cuMemSetAccess(0x7000000000, g, &a, 1), 0);
    b = for_device(99, READ_WRITE);
    CASE("vmm.setaccess.dev99", cuMemSetAccess(at, g, &b, 1), 0);
    b = for_device(0, 2);
    CASE("vmm.setaccess.flags2", cuMemSetAccess(at, g, &b, 1), 0);
    b = (Access){{0, 0}, READ_WRITE};
    CASE("vmm.setaccess.location0", cuMemSetAccess(at, g, &b, 1), 0);
    b = (Access){{HOST, 0}, READ_WRITE};
    CASE("vmm.setaccess.host", cuMemSetAccess(at, g, &b, 1), 0);
    b = (Access){{NUMA, 0}, READ_WRITE};
    CASE("vmm.setaccess.numa", cuMemSetAccess(at, g, &b, 1), 0);
    b = (Access){{7, 0}, READ_WRITE};
    CASE("vmm.setaccess.location7", cuMemSetAccess(at, g, &b, 1), 0);
    b = for_device(0, NONE);
    CASE("vmm.setaccess.none", cuMemSetAccess(at, g, &b, 1), 0);
    b = for_device(0, READ);
    CASE("vmm.setaccess.read", cuMemSetAccess(at, g, &b, 1), 0);
    if (devices > 1) {
        unsigned long long flags = 9;
        b = for_device(1, READ_WRITE);
        CASE("vmm.setaccess.peer", cuMemSetAccess(at, g, &b, 1), 0);
        CASE("vmm.getaccess.peer", cuMemGetAccess(&flags, &b.location, at), "\"v\":%llu", flags);
    }
    CASE("vmm.setaccess.unaligned", cuMemSetAccess(at + 512, g, &a, 1), 0);
    CASE("vmm.setaccess.unalignedsize", cuMemSetAccess(at, 512, &a, 1), 0);
    CASE("vmm.release", cuMemRelease(h), 0);
    CASE("vmm.export.afterrelease", cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 0), 0);
    Properties of = on(7, 7);
    CASE("vmm.properties.afterrelease", cuMemGetAllocationPropertiesFromHandle(&of, h), "\"types\":%d", of.handleTypes);
    CASE("vmm.release.twice", cuMemRelease(h), 0);
    CASE("vmm.retain", cuMemRetainAllocationHandle(&got, (void *)at), "\"same\":%d", got == h);
    CASE("vmm.unmap", cuMemUnmap(at, g), 0);
}

// Bogus handles: what a real driver does with them is its own affair.
static void bogus_export(void) {
    int fd;
    begin();
    CASE("vmm.bogus.export", cuMemExportToShareableHandle(&fd, 0x1234, DESCRIPTOR, 0), 0);
}
static void retain_legacy(void) {
    CUdeviceptr p;
    Allocation h = 0;
    begin();
    cuMemAlloc_v2(&p, 1 << 20);
    CASE("vmm.legacy.retain", cuMemRetainAllocationHandle(&h, (void *)p), 0);
}
static void bogus_release(void) {
    begin();
    CASE("vmm.bogus.release", cuMemRelease(0x1234), 0);
}
static void released(void) {
    int fd;
    begin();
    Allocation h = create(0, g);
    cuMemRelease(h);
    CASE("vmm.bogus.released", cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 0), 0);
}
static void bogus_map(void) {
    begin();
    CASE("vmm.bogus.map", cuMemMap(reserve(g), g, 0, 0x1234, 0), 0);
}
static void zero_handle(void) {
    int fd;
    Properties p;
    begin();
    CASE("vmm.zero.release", cuMemRelease(0), 0);
    CASE("vmm.zero.export", cuMemExportToShareableHandle(&fd, 0, DESCRIPTOR, 0), 0);
    CASE("vmm.zero.map", cuMemMap(reserve(g), g, 0, 0, 0), 0);
    CASE("vmm.zero.properties", cuMemGetAllocationPropertiesFromHandle(&p, 0), 0);
}
static void retain_wild(void) {
    Allocation h = 0;
    begin();
    CASE("vmm.retain.reserved", cuMemRetainAllocationHandle(&h, (void *)reserve(g)), 0);
    CASE("vmm.retain.wild", cuMemRetainAllocationHandle(&h, (void *)0x7000000000), 0);
    CASE("vmm.retain.address0", cuMemRetainAllocationHandle(&h, NULL), 0);
}
static void legacy_access(void) {
    CUdeviceptr p;
    unsigned long long flags = 9;
    Location l = {DEVICE, 0};
    begin();
    cuMemAlloc_v2(&p, 4 << 20);
    CASE("vmm.legacy.setaccess", allow(p, 4 << 20, 0, READ_WRITE), 0);
    CASE("vmm.legacy.getaccess", cuMemGetAccess(&flags, &l, p), "\"v\":%llu", flags);
    CASE("vmm.legacy.unmap", cuMemUnmap(p, 4 << 20), 0);
    CASE("vmm.legacy.addressfree", cuMemAddressFree(p, 4 << 20), 0);
    CASE("vmm.legacy.map", cuMemMap(p, g, 0, create(0, g), 0), 0);
}

// What can be asked for.
static void ask(const char *name, Properties p, size_t size, unsigned long long flags) {
    char id[64];
    Allocation h = 0;
    snprintf(id, sizeof id, "vmm.create.%s", name);
    CUresult result = cuMemCreate(&h, size, &p, flags);
    report(id, result, 0);
    if (!result) cuMemRelease(h);
}
static void creation(void) {
    begin();
    Properties p = on(0, DESCRIPTOR), of;
    Allocation h = 0;
    size_t v = 77;
    CASE("vmm.create.nullout", cuMemCreate(NULL, g, &p, 0), 0);
    CASE("vmm.create.nullprop", cuMemCreate(&h, g, NULL, 0), 0);
    CASE("vmm.create.nullboth", cuMemCreate(NULL, g, NULL, 0), 0);
    ask("size0", p, 0, 0);
    ask("flags1", p, g, 1);
    ask("flags1.size0", p, 0, 1);
    ask("huge", p, (size_t)1 << 50, 0);
    ask("dev1", on(1, DESCRIPTOR), g, 0);
    ask("dev-1", on(-1, DESCRIPTOR), g, 0);
    ask("types2", on(0, WINDOWS), g, 0);
    ask("types4", on(0, WINDOWS_KMT), g, 0);
    ask("types9", on(0, DESCRIPTOR | FABRIC), g, 0);
    ask("types16", on(0, 16), g, 0);
    p.type = 0;
    ask("type0", p, g, 0);
    CASE("vmm.granularity.type0", cuMemGetAllocationGranularity(&v, &p, 0), 0);
    p.type = 2;
    ask("managed", p, g, 0);
    p.type = 7;
    ask("type7", p, g, 0);
    p = on(0, DESCRIPTOR);
    p.location.type = 0;
    ask("location0", p, g, 0);
    CASE("vmm.granularity.location0", cuMemGetAllocationGranularity(&v, &p, 0), 0);
    p.location.type = 9;
    ask("location9", p, g, 0);
    p = on(0, DESCRIPTOR);
    p.security = &p;
    ask("security", p, g, 0);
    p = on(0, DESCRIPTOR);
    p.reserved[1] = 5;
    ask("reserved", p, g, 0);
    p = on(0, DESCRIPTOR);
    p.usage = 0x80;
    ask("usage80", p, g, 0);
    p = on(0, DESCRIPTOR);
    p.compression = 7;
    ask("compression7", p, g, 0);
    p = on(0, DESCRIPTOR);
    p.rdma = 1;
    CASE("vmm.create.rdma", cuMemCreate(&h, g, &p, 0), 0);
    memset(&of, 0x55, sizeof of);
    CASE("vmm.properties", cuMemGetAllocationPropertiesFromHandle(&of, h),
         "\"type\":%d,\"types\":%d,\"location\":[%d,%d],\"security\":%d,\"flags\":[%d,%d,%d,%d]", of.type, of.handleTypes,
         of.location.type, of.location.id, of.security != NULL, of.compression, of.rdma, of.usage, of.reserved[0]);
    CASE("vmm.properties.null", cuMemGetAllocationPropertiesFromHandle(NULL, h), 0);
    CASE("vmm.release.unmapped", cuMemRelease(h), 0);
    p = on(0, DESCRIPTOR);
    CASE("vmm.granularity.recommended", cuMemGetAllocationGranularity(&v, &p, 1), "\"v\":%zu", v);
    CASE("vmm.granularity.option2", cuMemGetAllocationGranularity(&v, &p, 2), 0);
    CASE("vmm.granularity.null", cuMemGetAllocationGranularity(NULL, &p, 0), 0);
    CASE("vmm.granularity.nullprop", cuMemGetAllocationGranularity(&v, NULL, 0), 0);
    p = on(99, DESCRIPTOR);
    CASE("vmm.granularity.dev99", cuMemGetAllocationGranularity(&v, &p, 0), 0);
    p = on(0, FABRIC);
    CASE("vmm.granularity.fabric", cuMemGetAllocationGranularity(&v, &p, 0), "\"v\":%zu", v);
    p = on(0, 16);
    CASE("vmm.granularity.types16", cuMemGetAllocationGranularity(&v, &p, 0), 0);
    // What is used of the device, in units of 64 MiB.
    size_t before, free, total;
    cuMemGetInfo_v2(&before, &total);
    h = create(0, 64 << 20);
    cuMemGetInfo_v2(&free, &total);
    CASE("vmm.used.created", 0, "\"v\":%ld", (long)(before - free) >> 26);
    CUdeviceptr at = reserve(64 << 20);
    cuMemMap(at, 64 << 20, 0, h, 0);
    cuMemRelease(h);
    cuMemGetInfo_v2(&free, &total);
    CASE("vmm.used.released", 0, "\"v\":%ld", (long)(before - free) >> 26);
    cuMemUnmap(at, 64 << 20);
    cuMemGetInfo_v2(&free, &total);
    CASE("vmm.used.unmapped", 0, "\"v\":%ld", (long)(before - free) >> 26);
    cuCtxSetCurrent(NULL);
    p = on(0, DESCRIPTOR);
    CASE("vmm.nocurrent.granularity", cuMemGetAllocationGranularity(&v, &p, 0), 0);
    CASE("vmm.nocurrent.create", cuMemCreate(&h, g, &p, 0), 0);
    int fd = -1;
    Allocation again = 0;
    CASE("vmm.nocurrent.export", cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 0), 0);
    CASE("vmm.nocurrent.import", cuMemImportFromShareableHandle(&again, number(fd), DESCRIPTOR), 0);
    CASE("vmm.nocurrent.reserve", cuMemAddressReserve(&at, g, 0, 0, 0), 0);
    CASE("vmm.nocurrent.map", cuMemMap(at, g, 0, h, 0), 0);
    CASE("vmm.nocurrent.setaccess", allow(at, g, 0, READ_WRITE), 0);
    unsigned long long flags = 9;
    Location l = {DEVICE, 0};
    CASE("vmm.nocurrent.getaccess", cuMemGetAccess(&flags, &l, at), "\"v\":%llu", flags);
    CASE("vmm.nocurrent.unmap", cuMemUnmap(at, g), 0);
    CASE("vmm.nocurrent.addressfree", cuMemAddressFree(at, g), 0);
    CASE("vmm.nocurrent.release", cuMemRelease(h), 0);
}
static void host_creation(void) {
    begin();
    Properties p = on(0, DESCRIPTOR);
    p.location.type = HOST;
    ask("host.fd", p, g, 0);
    p.location.type = NUMA_CURRENT;
    ask("numacurrent", p, g, 0);
}

// Before cuInit.
static void uninitialized(void) {
    Properties p = on(0, DESCRIPTOR);
    Access a = for_device(0, READ_WRITE);
    size_t v;
    Allocation h = 0;
    CUdeviceptr at = 0;
    unsigned long long flags;
    int fd;
    CASE("vmm.noinit.granularity", cuMemGetAllocationGranularity(&v, &p, 0), 0);
    CASE("vmm.noinit.create", cuMemCreate(&h, 2 << 20, &p, 0), 0);
    CASE("vmm.noinit.create.null", cuMemCreate(NULL, 2 << 20, &p, 0), 0);
    CASE("vmm.noinit.release", cuMemRelease(0), 0);
    CASE("vmm.noinit.reserve", cuMemAddressReserve(&at, 2 << 20, 0, 0, 0), 0);
    CASE("vmm.noinit.addressfree", cuMemAddressFree(at, 2 << 20), 0);
    CASE("vmm.noinit.map", cuMemMap(at, 2 << 20, 0, h, 0), 0);
    CASE("vmm.noinit.unmap", cuMemUnmap(at, 2 << 20), 0);
    CASE("vmm.noinit.setaccess", cuMemSetAccess(at, 2 << 20, &a, 1), 0);
    CASE("vmm.noinit.getaccess", cuMemGetAccess(&flags, &a.location, at), 0);
    CASE("vmm.noinit.export", cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 0), 0);
    CASE("vmm.noinit.import", cuMemImportFromShareableHandle(&h, number(0), DESCRIPTOR), 0);
    CASE("vmm.noinit.retain", cuMemRetainAllocationHandle(&h, NULL), 0);
    CASE("vmm.noinit.properties", cuMemGetAllocationPropertiesFromHandle(&p, h), 0);
}

static void reservations(void) {
    begin();
    CUdeviceptr at = 0, other = 0, hint;
    CASE("vmm.reserve.null", cuMemAddressReserve(NULL, g, 0, 0, 0), 0);
    CASE("vmm.reserve.size0", cuMemAddressReserve(&at, 0, 0, 0, 0), 0);
    CASE("vmm.reserve.odd", cuMemAddressReserve(&at, 1000, 0, 0, 0), 0);
    CASE("vmm.reserve.page", cuMemAddressReserve(&at, 4096, 0, 0, 0), 0);
    CASE("vmm.reserve.half", cuMemAddressReserve(&at, g / 2, 0, 0, 0), 0);
    CASE("vmm.reserve.morethan", cuMemAddressReserve(&at, g + 4096, 0, 0, 0), 0);
    CASE("vmm.reserve.flags1", cuMemAddressReserve(&at, g, 0, 0, 1), 0);
    CASE("vmm.reserve.align3", cuMemAddressReserve(&at, g, 3, 0, 0), 0);
    CASE("vmm.reserve.align512", cuMemAddressReserve(&at, g, 512, 0, 0), 0);
    CASE("vmm.reserve.align4096", cuMemAddressReserve(&at, g, 4096, 0, 0), "\"aligned\":%d", at % g == 0);
    CASE("vmm.reserve.align1g", cuMemAddressReserve(&at, g, 1 << 30, 0, 0), "\"aligned\":%d", at % (1 << 30) == 0);
    CASE("vmm.reserve.huge", cuMemAddressReserve(&at, (size_t)1 << 60, 0, 0, 0), 0);
    CASE("vmm.reserve.tebibyte", cuMemAddressReserve(&at, (size_t)1 << 40, 0, 0, 0), 0);
    CASE("vmm.addressfree.tebibyte", cuMemAddressFree(at, (size_t)1 << 40), 0);
    CASE("vmm.reserve", cuMemAddressReserve(&at, 4 * g, 0, 0, 0), "\"aligned\":%d", at % g == 0);
    CASE("vmm.reserve.taken", cuMemAddressReserve(&other, g, 0, at, 0), "\"same\":%d", other == at);
    cuMemAddressFree(other, g);
    CASE("vmm.reserve.oddhint", cuMemAddressReserve(&other, g, 0, at + 1000, 0), 0);
    CASE("vmm.addressfree.size", cuMemAddressFree(at, g), 0);
    CASE("vmm.addressfree.more", cuMemAddressFree(at, 8 * g), 0);
    CASE("vmm.addressfree.size0", cuMemAddressFree(at, 0), 0);
    CASE("vmm.addressfree.interior", cuMemAddressFree(at + g, g), 0);
    CASE("vmm.addressfree.address0", cuMemAddressFree(0, g), 0);
    CASE("vmm.addressfree.wild", cuMemAddressFree(0x7000000000, g), 0);
    Allocation h = create(0, g);
    cuMemMap(at + g, g, 0, h, 0);
    CASE("vmm.addressfree.mapped", cuMemAddressFree(at, 4 * g), 0);
    CASE("vmm.unmap.afterwards", cuMemUnmap(at + g, g), 0);
    CASE("vmm.addressfree", cuMemAddressFree(at, 4 * g), 0);
    CASE("vmm.addressfree.twice", cuMemAddressFree(at, 4 * g), 0);
    hint = at;
    CASE("vmm.reserve.hint", cuMemAddressReserve(&at, 4 * g, 0, hint, 0), "\"same\":%d", at == hint);
}

static void mappings(void) {
    begin();
    Allocation one = create(0, g), two = create(0, 2 * g);
    CUdeviceptr at = reserve(8 * g), base = 0;
    size_t size = 0;
    CASE("vmm.map.wild", cuMemMap(0x7000000000, g, 0, one, 0), 0);
    CASE("vmm.map.address0", cuMemMap(0, g, 0, one, 0), 0);
    CASE("vmm.map.size0", cuMemMap(at, 0, 0, one, 0), 0);
    CASE("vmm.map.flags1", cuMemMap(at, g, 0, one, 1), 0);
    CASE("vmm.map.unaligned", cuMemMap(at + 4096, g, 0, one, 0), 0);
    CASE("vmm.map.unalignedsize", cuMemMap(at, 4096, 0, one, 0), 0);
    CASE("vmm.map.toolong", cuMemMap(at, 2 * g, 0, one, 0), 0);
    CASE("vmm.map.offset.unaligned", cuMemMap(at, g, 4096, two, 0), 0);
    CASE("vmm.map.offset.toolong", cuMemMap(at, 2 * g, g, two, 0), 0);
    CASE("vmm.map.part", cuMemMap(at, g, 0, two, 0), 0);
    CASE("vmm.map.offset", cuMemMap(at, g, g, two, 0), 0);
    CASE("vmm.map.one", cuMemMap(at, g, 0, one, 0), 0);
    CASE("vmm.map.two", cuMemMap(at + g, 2 * g, 0, two, 0), 0);
    CASE("vmm.map.taken", cuMemMap(at, g, 0, one, 0), 0);
    CASE("vmm.map.overlap", cuMemMap(at + 2 * g, 2 * g, 0, two, 0), 0);
    CASE("vmm.map.again", cuMemMap(at + 5 * g, g, 0, one, 0), 0);
    // There are: one, two, two free granules, one again, two free granules.
    CASE("vmm.setaccess.several", allow(at, 3 * g, 0, READ_WRITE), 0);
    CASE("vmm.setaccess.intohole", allow(at, 4 * g, 0, READ_WRITE), 0);
    CASE("vmm.setaccess.fromhole", allow(at + 4 * g, 2 * g, 0, READ_WRITE), 0);
    CASE("vmm.setaccess.overhole", allow(at, 6 * g, 0, READ_WRITE), 0);
    CASE("vmm.setaccess.holealone", allow(at + 3 * g, g, 0, READ_WRITE), 0);
    CASE("vmm.setaccess.beyond", allow(at + 5 * g, 8 * g, 0, READ_WRITE), 0);
    CASE("vmm.setaccess.firsthalf", allow(at + g, g, 0, READ), 0);
    CASE("vmm.setaccess.secondhalf", allow(at + 2 * g, g, 0, READ), 0);
    CASE("vmm.setaccess.endsinside", allow(at, 2 * g, 0, READ), 0);
    unsigned long long flags = 9;
    Location l = {DEVICE, 0};
    CASE("vmm.getaccess.whole", cuMemGetAccess(&flags, &l, at + 2 * g), "\"v\":%llu", flags);
    char text[16] = "";
    cuMemcpyHtoD_v2(at + g - 4, "12345678", 9);
    hush();
    CASE("vmm.alias", cuMemcpyDtoH_v2(text, at + 6 * g - 4, 4), "\"v\":\"%s\"", text);
    memset(text, 0, sizeof text);
    CASE("vmm.copy.across", cuMemcpyDtoH_v2(text, at + g - 4, 9), "\"v\":\"%s\"", text);
    CASE("vmm.fill.across", cuMemsetD8_v2(at + g - 2, 'f', 4), 0);
    CASE("vmm.fill.across.read", cuMemcpyDtoH_v2(text, at + g - 4, 9), "\"v\":\"%s\"", text);
    CASE("vmm.fill.intohole", cuMemsetD8_v2(at, 7, 4 * g), 0);
    CASE("vmm.copy.intohole", cuMemcpyDtoH_v2(text, at + 3 * g - 4, 9), 0);
    CASE("vmm.copy.hole", cuMemcpyDtoH_v2(text, at + 4 * g, 9), 0);
    CASE("vmm.copy.overhole", cuMemcpyDtoD_v2(at + 5 * g, at + 4 * g, 2 * g), 0);
    CASE("vmm.copy.afterhole", cuMemcpyDtoD_v2(at + 5 * g, at + g, g), 0);
    CASE("vmm.fill.hole", cuMemsetD8_v2(at + 4 * g, 1, 16), 0);
    CASE("vmm.range", cuMemGetAddressRange_v2(&base, &size, at + 2 * g + 5), "\"base\":%lld,\"size\":%lld",
         (long long)(base - at) / (long long)g, (long long)size / (long long)g);
    CASE("vmm.range.hole", cuMemGetAddressRange_v2(&base, &size, at + 4 * g), 0);
    CASE("vmm.setaccess.firsttaken", allow(at, g, 0, NONE), 0);
    CASE("vmm.copy.firsttaken", cuMemcpyDtoH_v2(text, at + g - 4, 9), 0);
    CASE("vmm.setaccess.secondtaken", allow(at, g, 0, READ_WRITE) || allow(at + g, 2 * g, 0, NONE), 0);
    CASE("vmm.copy.secondtaken", cuMemcpyDtoH_v2(text, at + g - 4, 9), 0);
    CASE("vmm.copy.secondtaken.torn", cuMemcpyDtoH_v2(text, at + g - 4, 4 * g), 0);
    CASE("vmm.fill.secondtaken", cuMemsetD8_v2(at + g - 4, 1, 9), 0);
    CASE("vmm.setaccess.secondread", allow(at + g, 2 * g, 0, READ), 0);
    CASE("vmm.copy.secondread", cuMemcpyHtoD_v2(at + g - 4, text, 9), 0);
    CASE("vmm.fill.secondread", cuMemsetD8_v2(at + g - 4, 1, 9), 0);
    CASE("vmm.free", cuMemFree_v2(at), 0);
    CASE("vmm.freeasync", cuMemFreeAsync(at, 0), 0);
    CASE("vmm.ipcclose", cuIpcCloseMemHandle(at), 0);
    Handle handle;
    CASE("vmm.ipcget", cuIpcGetMemHandle(&handle, at), 0);
    CASE("vmm.ipcget.hole", cuIpcGetMemHandle(&handle, at + 4 * g), 0);
    Allocation got = 0;
    CASE("vmm.retain.interior", cuMemRetainAllocationHandle(&got, (void *)(at + 2 * g + 5)), "\"same\":%d", got == two);
    CASE("vmm.retain.null", cuMemRetainAllocationHandle(NULL, (void *)at), 0);
    CASE("vmm.release.first", cuMemRelease(two), 0);
    CASE("vmm.release.retained", cuMemRelease(two), 0);
    CASE("vmm.release.third", cuMemRelease(two), 0);
    CASE("vmm.retain.again", cuMemRetainAllocationHandle(&got, (void *)(at + g)), "\"same\":%d", got == two);
    cuMemRelease(got);
    CASE("vmm.map.released", cuMemMap(at + 6 * g, 2 * g, 0, two, 0), 0);
    CASE("vmm.unmap.released", cuMemUnmap(at + 6 * g, 2 * g), 0);
    CASE("vmm.unmap.firsthalf", cuMemUnmap(at + g, g), 0);
    CASE("vmm.unmap.secondhalf", cuMemUnmap(at + 2 * g, g), 0);
    CASE("vmm.unmap.endsinside", cuMemUnmap(at, 2 * g), 0);
    CASE("vmm.unmap.size0", cuMemUnmap(at, 0), 0);
    CASE("vmm.unmap.address0", cuMemUnmap(0, g), 0);
    CASE("vmm.unmap.unaligned", cuMemUnmap(at + 4096, g), 0);
    CASE("vmm.unmap.hole", cuMemUnmap(at + 4 * g, g), 0);
    CASE("vmm.unmap.hole.unaligned", cuMemUnmap(at + 3 * g + 4096, 4096), 0);
    CASE("vmm.unmap.wild", cuMemUnmap(0x7000000000, g), 0);
    CASE("vmm.unmap.overhole", cuMemUnmap(at, 6 * g), 0);
    CASE("vmm.unmap.twice", cuMemUnmap(at, g), 0);
    CASE("vmm.copy.unmapped", cuMemcpyDtoH_v2(text, at, 9), 0);
    CASE("vmm.map.anew", cuMemMap(at, g, 0, one, 0), 0);
    CASE("vmm.copy.anew", cuMemcpyDtoH_v2(text, at, 9), 0);
    CASE("vmm.getaccess.anew", cuMemGetAccess(&flags, &l, at), "\"v\":%llu", flags);
}

// Beyond the end of a reservation.
static void beyond(void) {
    begin();
    CUdeviceptr at = reserve(4 * g);
    CASE("vmm.beyond.map", cuMemMap(at + 3 * g, 2 * g, 0, create(0, 2 * g), 0), 0);
}
static void unmap_beyond(void) {
    begin();
    CUdeviceptr at = reserve(4 * g);
    cuMemMap(at + 3 * g, g, 0, create(0, g), 0);
    CASE("vmm.beyond.unmap", cuMemUnmap(at + 3 * g, 2 * g), 0);
}

// What a descriptor keeps.
static void descriptors(void) {
    begin();
    size_t before, free, total;
    cuMemGetInfo_v2(&before, &total);
    Allocation h = create(0, 64 << 20);
    CUdeviceptr at = reserve(64 << 20);
    int fd = -1, other = -1;
    char text[16] = "";
    cuMemMap(at, 64 << 20, 0, h, 0);
    allow(at, 64 << 20, 0, READ_WRITE);
    cuMemcpyHtoD_v2(at, "kept", 5);
    cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 0);
    cuMemExportToShareableHandle(&other, h, DESCRIPTOR, 0);
    cuMemUnmap(at, 64 << 20);
    cuMemRelease(h);
    hush();
    close(other);
    cuMemGetInfo_v2(&free, &total);
    CASE("vmm.descriptor.used", 0, "\"v\":%ld", (long)(before - free) >> 26);
    CASE("vmm.descriptor.import", cuMemImportFromShareableHandle(&h, number(fd), DESCRIPTOR), 0);
    close(fd);
    cuMemMap(at, 64 << 20, 0, h, 0);
    allow(at, 64 << 20, 0, READ_WRITE);
    hush();
    CASE("vmm.descriptor.read", cuMemcpyDtoH_v2(text, at, 5), "\"v\":\"%s\"", text);
    CASE("vmm.descriptor.reexport", cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 0), 0);
    cuMemUnmap(at, 64 << 20);
    cuMemRelease(h);
    cuMemGetInfo_v2(&free, &total);
    CASE("vmm.descriptor.freed", 0, "\"v\":%ld", (long)(before - free) >> 26);
    h = create(0, 64 << 20);
    cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 0);
    cuMemRelease(h);
    close(fd);
    cuMemGetInfo_v2(&free, &total);
    CASE("vmm.descriptor.closed", 0, "\"v\":%ld", (long)(before - free) >> 26);
    CASE("vmm.dmabuf.null", cuMemGetHandleForAddressRange(NULL, at, g, 1, 0), 0);
    CASE("vmm.dmabuf.type0", cuMemGetHandleForAddressRange(&fd, at, g, 0, 0), 0);
    CASE("vmm.dmabuf.size0", cuMemGetHandleForAddressRange(&fd, at, 0, 1, 0), 0);
    CASE("vmm.dmabuf.unaligned", cuMemGetHandleForAddressRange(&fd, at + 512, g, 1, 0), 0);
    CASE("vmm.dmabuf.reserved", cuMemGetHandleForAddressRange(&fd, at, g, 1, 0), 0);
    CASE("vmm.dmabuf.wild", cuMemGetHandleForAddressRange(&fd, 0x7000000000, g, 1, 0), 0);
}

// Who may do what.
static void rights(void) {
    begin();
    Allocation h = create(0, 2 * g);
    CUdeviceptr at = reserve(4 * g), legacy = 0;
    char text[16] = "";
    unsigned long long flags = 9;
    Location l = {DEVICE, 0};
    cuMemAlloc_v2(&legacy, g);
    CASE("vmm.getaccess.reserved", cuMemGetAccess(&flags, &l, at), "\"v\":%llu", flags);
    cuMemMap(at, 2 * g, 0, h, 0);
    flags = 9;
    CASE("vmm.getaccess.mapped", cuMemGetAccess(&flags, &l, at + 5), "\"v\":%llu", flags);
    CASE("vmm.getaccess.null", cuMemGetAccess(NULL, &l, at), 0);
    CASE("vmm.getaccess.nulllocation", cuMemGetAccess(&flags, NULL, at), 0);
    CASE("vmm.getaccess.wild", cuMemGetAccess(&flags, &l, 0x7000000000), 0);
    CASE("vmm.getaccess.address0", cuMemGetAccess(&flags, &l, 0), 0);
    l.id = 99;
    CASE("vmm.getaccess.dev99", cuMemGetAccess(&flags, &l, at), 0);
    l.id = 0;
    l.type = 0;
    CASE("vmm.getaccess.location0", cuMemGetAccess(&flags, &l, at), 0);
    l.type = HOST;
    flags = 9;
    CASE("vmm.getaccess.host", cuMemGetAccess(&flags, &l, at), "\"v\":%llu", flags);
    l.type = DEVICE;
    CASE("vmm.write.noaccess", cuMemcpyHtoD_v2(at, "x", 2), 0);
    CASE("vmm.fill.noaccess", cuMemsetD8_v2(at, 7, 64), 0);
    CASE("vmm.copy.noaccess", cuMemcpyDtoD_v2(legacy, at, 64), 0);
    CASE("vmm.copy.noaccess.to", cuMemcpyDtoD_v2(at, legacy, 64), 0);
    CASE("vmm.copy.noaccess.any", cuMemcpy((CUdeviceptr)(uintptr_t)text, at, 8), 0);
    Access both[2] = {for_device(0, READ_WRITE), for_device(99, READ_WRITE)};
    CASE("vmm.setaccess.secondbad", cuMemSetAccess(at, 2 * g, both, 2), 0);
    flags = 9;
    CASE("vmm.getaccess.secondbad", cuMemGetAccess(&flags, &l, at), "\"v\":%llu", flags);
    both[1] = for_device(0, READ);
    CASE("vmm.setaccess.twoforone", cuMemSetAccess(at, 2 * g, both, 2), 0);
    flags = 9;
    CASE("vmm.getaccess.twoforone", cuMemGetAccess(&flags, &l, at), "\"v\":%llu", flags);
    allow(at, 2 * g, 0, READ_WRITE);
    CASE("vmm.write", cuMemcpyHtoD_v2(at, "written", 8), 0);
    CASE("vmm.pastend", cuMemcpyDtoH_v2(text, at + 2 * g - 4, 8), 0);
    unsigned on = 1;
    CASE("vmm.syncmemops", cuPointerSetAttribute(&on, 6, at), 0);
    CASE("vmm.setaccess.taken", allow(at, 2 * g, 0, NONE), 0);
    CASE("vmm.read.taken", cuMemcpyDtoH_v2(text, at, 8), 0);
    if (devices < 2) return;
    CASE("vmm.peer.allow", allow(at, 2 * g, 1, READ_WRITE), 0);
    CASE("vmm.peer.read.owner", cuMemcpyDtoH_v2(text, at, 8), 0);
    cuCtxSetCurrent(c1);
    memset(text, 0, sizeof text);
    CASE("vmm.peer.read", cuMemcpyDtoH_v2(text, at, 8), "\"v\":\"%s\"", text);
    CASE("vmm.peer.fill", cuMemsetD8_v2(at, 'z', 4), 0);
    allow(at, 2 * g, 1, NONE);
    allow(at, 2 * g, 0, READ_WRITE);
    CASE("vmm.peer.read.none", cuMemcpyDtoH_v2(text, at, 8), 0);
    CUdeviceptr there = 0;
    cuMemAlloc_v2(&there, g);
    CASE("vmm.peer.copy", cuMemcpyPeer(there, c1, at, c0, 8), 0);
    CASE("vmm.peer.copy.read", cuMemcpyDtoH_v2(text, there, 8), "\"v\":\"%s\"", text);
    CASE("vmm.peer.copy.none", cuMemcpyPeer(there, c1, at, c1, 8), 0);
    CASE("vmm.peer.copy.plain", cuMemcpyDtoD_v2(there, at, 8), 0);
}
// Memory of device 1, seen from device 0.
static void elsewhere(void) {
    begin();
    if (devices < 2) return;
    Allocation h = create(1, g);
    CUdeviceptr at = reserve(g);
    char text[16] = "";
    cuMemMap(at, g, 0, h, 0);
    CASE("vmm.elsewhere.allow", allow(at, g, 0, READ_WRITE), 0);
    CASE("vmm.elsewhere.write", cuMemcpyHtoD_v2(at, "far", 4), 0);
    CASE("vmm.elsewhere.read", cuMemcpyDtoH_v2(text, at, 4), "\"v\":\"%s\"", text);
    int ordinal = 7;
    CASE("vmm.elsewhere.ordinal", cuPointerGetAttribute(&ordinal, 9, at), "\"v\":%d", ordinal);
    CUcontext context = c1;
    CASE("vmm.elsewhere.context", cuPointerGetAttribute(&context, 1, at), "\"v\":%d", context == c0 ? 0 : context == c1 ? 1 : -1);
    CUdeviceptr p = 0;
    CASE("vmm.elsewhere.pointer", cuPointerGetAttribute(&p, 3, at), "\"same\":%d", p == at);
    allow(at, g, 0, NONE);
    CASE("vmm.elsewhere.pointer.none", cuPointerGetAttribute(&p, 3, at), 0);
}
static void read_only(void) {
    begin();
    CUdeviceptr at = reserve(g);
    char text[16] = "";
    cuMemMap(at, g, 0, create(0, g), 0);
    allow(at, g, 0, READ_WRITE);
    cuMemcpyHtoD_v2(at, "before", 7);
    allow(at, g, 0, READ);
    hush();
    CASE("vmm.readonly.read", cuMemcpyDtoH_v2(text, at, 7), "\"v\":\"%s\"", text);
    unsigned flags = 9;
    CASE("vmm.readonly.flags", cuPointerGetAttribute(&flags, 16, at), "\"v\":%u", flags);
    CASE("vmm.readonly.write", cuMemcpyHtoD_v2(at, "after", 6), 0);
    CASE("vmm.readonly.afterwards", cuCtxSynchronize(), 0);
    CASE("vmm.readonly.readagain", cuMemcpyDtoH_v2(text, at, 7), "\"v\":\"%s\"", text);
}
static void read_only_fill(void) {
    begin();
    CUdeviceptr at = reserve(g);
    cuMemMap(at, g, 0, create(0, g), 0);
    allow(at, g, 0, READ);
    CASE("vmm.readonly.fill", cuMemsetD8_v2(at, 1, 16), 0);
    CASE("vmm.readonly.fill.afterwards", cuCtxSynchronize(), 0);
}
static void read_only_copy(void) {
    begin();
    CUdeviceptr at = reserve(g), p;
    cuMemMap(at, g, 0, create(0, g), 0);
    allow(at, g, 0, READ);
    cuMemAlloc_v2(&p, g);
    CASE("vmm.readonly.copy", cuMemcpyDtoD_v2(at, p, 16), 0);
    CASE("vmm.readonly.copy.afterwards", cuCtxSynchronize(), 0);
}

// What a pointer says of itself: `base` is the start of its reservation.
static void attributes_of(const char *name, CUdeviceptr p, CUdeviceptr base) {
    for (int attribute = 1; attribute <= 21; attribute++) {
        if (attribute == 5 || attribute == 7 || attribute == 20) continue; // numbers of no meaning
        char id[64];
        unsigned long long v = 0;
        CUresult result = cuPointerGetAttribute(&v, attribute, p);
        snprintf(id, sizeof id, "vmm.%s.attribute.%d", name, attribute);
        const char *form = "\"v\":%llu";
        if (attribute == 1) v = !v ? 0 : v == (unsigned long long)(uintptr_t)c0 ? 1 : 2;
        if (attribute == 3 && !result) v -= p, form = "\"from\":%llu";
        if ((attribute == 11 || attribute == 19) && !result) v = (v - base) / g, form = "\"from\":%llu";
        report(id, result, result ? 0 : form, v);
    }
}
static void attributes(void) {
    begin();
    CUdeviceptr at = reserve(8 * g);
    cuMemMap(at + 2 * g, 2 * g, 0, create(0, 2 * g), 0);
    cuMemMap(at + 4 * g, g, 0, create(0, g), 0);
    attributes_of("noaccess", at + 3 * g, at);
    allow(at + 2 * g, 3 * g, 0, READ_WRITE);
    attributes_of("mapped", at + 3 * g + 5, at);
    attributes_of("reserved", at + g, at);
    int types[3] = {13, 2, 14}, mapped = 7, type = 7;
    unsigned long long handles = 7;
    void *out[3] = {&mapped, &type, &handles};
    CASE("vmm.reserved.attributes", cuPointerGetAttributes(3, types, out, at + g), "\"v\":[%d,%d,%llu]", mapped, type, handles);
    CASE("vmm.mapped.attributes", cuPointerGetAttributes(3, types, out, at + 2 * g), "\"v\":[%d,%d,%llu]", mapped, type, handles);
    cuCtxSetCurrent(NULL);
    type = 7;
    CASE("vmm.nocurrent.attribute", cuPointerGetAttribute(&type, 2, at + 2 * g), "\"v\":%d", type);
    cuCtxSetCurrent(c0);
    // Nothing of it belongs to a context.
    CUcontext context = new_context(0);
    CUdeviceptr other = reserve(g);
    char text[16] = "";
    cuMemMap(other, g, 0, create(0, g), 0);
    allow(other, g, 0, READ_WRITE);
    cuMemcpyHtoD_v2(other, "stays", 6);
    cuCtxDestroy_v2(context);
    cuCtxSetCurrent(c0);
    hush();
    CASE("vmm.context.gone", cuMemcpyDtoH_v2(text, other, 6), "\"v\":\"%s\"", text);
    cuDevicePrimaryCtxReset_v2(0);
    CUcontext again = NULL;
    cuDevicePrimaryCtxRetain(&again, 0);
    cuCtxSetCurrent(again);
    memset(text, 0, sizeof text);
    CASE("vmm.context.reset", cuMemcpyDtoH_v2(text, other, 6), "\"v\":\"%s\"", text);
    CASE("vmm.context.reset.unmap", cuMemUnmap(other, g), 0);
}

// Between processes.
static CUdeviceptr hello(Allocation h, int device) {
    CUdeviceptr at = reserve(g);
    cuMemMap(at, g, 0, h, 0);
    allow(at, g, device, READ_WRITE);
    cuMemcpyHtoD_v2(at, "vmm-hello", 10);
    cuCtxSynchronize();
    return at;
}

static void exporter(void) {
    begin();
    Allocation h = create(0, g);
    CUdeviceptr at = hello(h, 0);
    char text[16] = "";
    int fd = -1;
    cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 0);
    send_descriptor(fd);
    close(fd);
    await(sockets[0]);
    CASE("vmm.x.seen", cuMemcpyDtoH_v2(text, at, 10), "\"v\":\"%s\"", text);
    CASE("vmm.x.exporter_release_while_open", cuMemUnmap(at, g) || cuMemRelease(h), 0);
    send_to(sockets[0], "r", 1);
    await(sockets[0]);
    size_t before, free, total;
    cuMemGetInfo_v2(&before, &total);
    h = create(0, 64 << 20);
    int other = -1;
    cuMemExportToShareableHandle(&other, h, DESCRIPTOR, 0);
    cuMemRelease(h);
    cuMemGetInfo_v2(&free, &total);
    CASE("vmm.x.used.descriptor", 0, "\"v\":%ld", (long)(before - free) >> 26);
    send_descriptor(other);
    close(other);
    await(sockets[0]);
    cuMemGetInfo_v2(&free, &total);
    CASE("vmm.x.used.import", 0, "\"v\":%ld", (long)(before - free) >> 26);
    send_to(sockets[0], "u", 1);
    await(sockets[0]);
    cuMemGetInfo_v2(&free, &total);
    CASE("vmm.x.used.released", 0, "\"v\":%ld", (long)(before - free) >> 26);
    h = create(0, g);
    hello(h, 0);
    cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 0);
    send_descriptor(fd);
    fflush(stdout);
    _exit(0);
}
static void importer(void) {
    int fd = receive_descriptor();
    begin();
    Allocation h = 0, again = 0, third = 0;
    char text[16] = "";
    Properties of = on(7, 7);
    CASE("vmm.x.import", cuMemImportFromShareableHandle(&h, number(fd), DESCRIPTOR), 0);
    CASE("vmm.x.import.twice", cuMemImportFromShareableHandle(&again, number(fd), DESCRIPTOR), "\"same\":%d", h == again);
    CASE("vmm.x.import.dup", cuMemImportFromShareableHandle(&third, number(dup(fd)), DESCRIPTOR), "\"same\":%d", h == third);
    CASE("vmm.x.properties", cuMemGetAllocationPropertiesFromHandle(&of, h),
         "\"type\":%d,\"types\":%d,\"location\":[%d,%d],\"flags\":[%d,%d,%d]", of.type, of.handleTypes, of.location.type,
         of.location.id, of.compression, of.rdma, of.usage);
    close(fd);
    CUdeviceptr at = reserve(4 * g);
    CASE("vmm.x.map.toolong", cuMemMap(at, 2 * g, 0, h, 0), 0);
    CASE("vmm.x.map", cuMemMap(at, g, 0, h, 0), 0);
    CASE("vmm.x.map.other", cuMemMap(at + g, g, 0, again, 0), 0);
    CASE("vmm.x.read.noaccess", cuMemcpyDtoH_v2(text, at, 10), 0);
    CASE("vmm.x.setaccess", allow(at, g, 0, READ_WRITE), 0);
    CASE("vmm.x.read", cuMemcpyDtoH_v2(text, at, 10), "\"v\":\"%s\"", text);
    if (devices > 1) CASE("vmm.x.setaccess.dev1", allow(at, g, 1, READ_WRITE), 0);
    int back = -1;
    CASE("vmm.x.reexport", cuMemExportToShareableHandle(&back, h, DESCRIPTOR, 0), 0);
    Handle handle;
    CASE("vmm.x.legacy_ipcget", cuIpcGetMemHandle(&handle, at), 0);
    attributes_of("imported", at + 5, at);
    cuMemcpyHtoD_v2(at, "from-there", 11);
    cuCtxSynchronize();
    hush();
    answer('o');
    await(sockets[1]);
    CASE("vmm.x.read.after_exporter_release", cuMemcpyDtoH_v2(text, at, 11), "\"v\":\"%s\"", text);
    Allocation got = 0;
    CASE("vmm.x.retain", cuMemRetainAllocationHandle(&got, (void *)at), "\"same\":%d", got == h);
    CASE("vmm.x.release", cuMemRelease(h), 0);
    CASE("vmm.x.release.retained", cuMemRelease(h), 0);
    CASE("vmm.x.release.third", cuMemRelease(h), 0);
    CASE("vmm.x.read.released", cuMemcpyDtoH_v2(text, at, 11), "\"v\":\"%s\"", text);
    CASE("vmm.x.unmap", cuMemUnmap(at, g), 0);
    CASE("vmm.x.unmap.other", cuMemUnmap(at + g, g), 0);
    answer('u');
    fd = receive_descriptor();
    CASE("vmm.x.import.released", cuMemImportFromShareableHandle(&h, number(fd), DESCRIPTOR), 0);
    close(fd);
    answer('i');
    await(sockets[1]);
    cuMemRelease(h);
    answer('d');
    fd = receive_descriptor();
    char end;
    if (read(sockets[1], &end, 1)) _exit(5); // until the exporter is gone
    CASE("vmm.x.import.after_exporter_exit", cuMemImportFromShareableHandle(&h, number(fd), DESCRIPTOR), 0);
    memset(text, 0, sizeof text);
    cuMemMap(at, g, 0, h, 0);
    allow(at, g, 0, READ_WRITE);
    hush();
    CASE("vmm.x.read.after_exporter_exit", cuMemcpyDtoH_v2(text, at, 10), "\"v\":\"%s\"", text);
}
static void two_processes(void) { hand_in_hand(exporter, importer); }

// The importer does not see the exporter's device.
static void plain_exporter(void) {
    begin();
    Allocation h = create(0, g);
    hello(h, 0);
    int fd = -1;
    cuMemExportToShareableHandle(&fd, h, DESCRIPTOR, 0);
    send_descriptor(fd);
    await(sockets[0]);
}
static void blinkered(void) {
    int fd = receive_descriptor();
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    begin();
    Allocation h = 0;
    char text[16] = "";
    Properties of = on(7, 7);
    CASE("vmm.hidden.import", cuMemImportFromShareableHandle(&h, number(fd), DESCRIPTOR), 0);
    if (h) {
        CASE("vmm.hidden.properties", cuMemGetAllocationPropertiesFromHandle(&of, h), "\"location\":[%d,%d]", of.location.type,
             of.location.id);
        CUdeviceptr at = reserve(g);
        CASE("vmm.hidden.map", cuMemMap(at, g, 0, h, 0), 0);
        CASE("vmm.hidden.setaccess", allow(at, g, 0, READ_WRITE), 0);
        CASE("vmm.hidden.read", cuMemcpyDtoH_v2(text, at, 10), "\"v\":\"%s\"", text);
        int ordinal = 7;
        CASE("vmm.hidden.ordinal", cuPointerGetAttribute(&ordinal, 9, at), "\"v\":%d", ordinal);
    }
    answer('x');
}
static void hidden_device(void) { hand_in_hand(plain_exporter, blinkered); }

void virtual_groups(void) {
    in_child("vmm.single", one_process);
    in_child("bogus.vmm.export", bogus_export);
    in_child("vmm.retain.legacy", retain_legacy);
    in_child("bogus.vmm.release", bogus_release);
    in_child("bogus.vmm.released", released);
    in_child("bogus.vmm.map", bogus_map);
    in_child("vmm.zero", zero_handle);
    in_child("vmm.retain.wild", retain_wild);
    in_child("vmm.legacy", legacy_access);
    in_child("vmm.creation", creation);
    in_child("vmm.host", host_creation);
    in_child("vmm.noinit", uninitialized);
    in_child("vmm.reservations", reservations);
    in_child("vmm.mappings", mappings);
    in_child("vmm.beyond.map", beyond);
    in_child("vmm.beyond.unmap", unmap_beyond);
    in_child("vmm.descriptors", descriptors);
    in_child("vmm.rights", rights);
    in_child("vmm.elsewhere", elsewhere);
    in_child("vmm.readonly", read_only);
    in_child("vmm.readonly.fill", read_only_fill);
    in_child("vmm.readonly.copy", read_only_copy);
    in_child("vmm.attributes", attributes);
    in_child("vmm.x", two_processes);
    in_child("vmm.hidden", hidden_device);
}
