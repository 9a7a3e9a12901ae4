// Memory: allocation, copies, pointer attributes.
#include "driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void allocation(void) {
    start();
    cuCtxSetCurrent(c0);
    CUdeviceptr p = 0, q = 0, base = 0;
    size_t size = 0, free1 = 0, total = 0, pitch = 0;
    CASE("alloc.0", cuMemAlloc_v2(&p, 0), 0);
    CASE("alloc.null", cuMemAlloc_v2(NULL, 16), 0);
    CASE("alloc.toomuch", cuMemAlloc_v2(&p, 1ull << 50), 0);
    CASE("alloc.max", cuMemAlloc_v2(&p, SIZE_MAX), 0);
    CASE("alloc", cuMemAlloc_v2(&p, 1000), "\"aligned\":%d", !(p % 512));
    CASE("alloc.large", cuMemAlloc_v2(&q, 3 << 20), "\"aligned\":%d", !(q % (2 << 20)));
    CASE("addrange", cuMemGetAddressRange_v2(&base, &size, p + 10), "\"base\":%d,\"size\":%zu", base == p, size);
    CASE("addrange.last", cuMemGetAddressRange_v2(&base, &size, p + 999), 0);
    CASE("addrange.end", cuMemGetAddressRange_v2(&base, &size, p + 1000), 0);
    CASE("addrange.nulls", cuMemGetAddressRange_v2(NULL, NULL, p), 0);
    CASE("addrange.wild", cuMemGetAddressRange_v2(&base, &size, 0x123456789000ull), 0);
    CASE("addrange.zero", cuMemGetAddressRange_v2(&base, &size, 0), 0);
    CASE("addrange.host", cuMemGetAddressRange_v2(&base, &size, (CUdeviceptr)(uintptr_t)&p), 0);
    CASE("info", cuMemGetInfo_v2(&free1, &total), "\"less\":%d", free1 < total);
    CASE("info.null", cuMemGetInfo_v2(NULL, &total), 0);
    CASE("pitch", cuMemAllocPitch_v2(&base, &pitch, 1000, 3, 4), "\"pitch\":%zu", pitch);
    CASE("pitch.element", cuMemAllocPitch_v2(&base, &pitch, 1000, 3, 3), 0);
    CASE("pitch.width0", cuMemAllocPitch_v2(&base, &pitch, 0, 3, 4), 0);
    CASE("pitch.height0", cuMemAllocPitch_v2(&base, &pitch, 10, 0, 4), 0);
    CASE("managed.flags0", cuMemAllocManaged(&base, 10, 0), 0);
    CASE("managed.flags4", cuMemAllocManaged(&base, 10, 4), 0);
    CASE("managed.0", cuMemAllocManaged(&base, 0, 1), 0);
    CASE("free.zero", cuMemFree_v2(0), 0);
    CASE("free.wild", cuMemFree_v2(0x123456789000ull), 0);
    CASE("free.interior", cuMemFree_v2(q + 512), 0);
    if (devices > 1) cuCtxSetCurrent(c1);
    CASE("free.otherdevice", cuMemFree_v2(q), 0);
    cuCtxSetCurrent(NULL);
    CASE("free.nocurrent", cuMemFree_v2(p), 0);
    CASE("free.zero.nocurrent", cuMemFree_v2(0), 0);
    cuCtxSetCurrent(c0);
    CASE("free.again", cuMemFree_v2(p), 0);
    CASE("free.twice", cuMemFree_v2(p), 0);
    CASE("pool.alloc.0", cuMemAllocAsync(&p, 0, 0), "\"null\":%d", !p);
    CASE("pool.alloc", cuMemAllocAsync(&p, 1000, 0), 0);
    CASE("pool.addrange", cuMemGetAddressRange_v2(&base, &size, p), "\"base\":%d,\"size\":%zu", base == p, size);
    CASE("pool.free.interior", cuMemFreeAsync(p + 256, 0), 0);
    CASE("pool.free.sync", cuMemFree_v2(p), 0);
    CASE("pool.free.wild", cuMemFreeAsync(0x123456789000ull, 0), 0);
    CASE("pool.free.zero", cuMemFreeAsync(0, 0), 0);
    cuMemAlloc_v2(&p, 1000);
    CASE("pool.free.malloced", cuMemFreeAsync(p, 0), 0);
}

static void host_memory(void) {
    start();
    cuCtxSetCurrent(c0);
    void *p = NULL, *pages;
    CUdeviceptr d = 0, base;
    size_t size;
    unsigned flags = 77;
    CASE("host.alloc", cuMemHostAlloc(&p, 1000, 0), 0);
    CASE("host.flags", cuMemHostGetFlags(&flags, p), "\"v\":%u", flags);
    CASE("host.flags.interior", cuMemHostGetFlags(&flags, (char *)p + 5), "\"v\":%u", flags);
    CASE("host.pointer", cuMemHostGetDevicePointer_v2(&d, p, 0), "\"same\":%d", d == (CUdeviceptr)(uintptr_t)p);
    CASE("host.pointer.interior", cuMemHostGetDevicePointer_v2(&d, (char *)p + 5, 0), "\"delta\":%d",
         (int)(d - (CUdeviceptr)(uintptr_t)p));
    CASE("host.pointer.flags", cuMemHostGetDevicePointer_v2(&d, p, 1), 0);
    CASE("host.addrange", cuMemGetAddressRange_v2(&base, &size, (CUdeviceptr)(uintptr_t)p), "\"size\":%zu", size);
    CASE("host.alloc.flags8", cuMemHostAlloc(&pages, 1000, 8), 0);
    CASE("host.alloc.0", cuMemHostAlloc(&pages, 0, 0), "\"null\":%d", !pages);
    CASE("host.alloc.null", cuMemHostAlloc(NULL, 10, 0), 0);
    CASE("host.free.wrong", cuMemFree_v2((CUdeviceptr)(uintptr_t)p), 0);
    CASE("host.free.interior", cuMemFreeHost((char *)p + 5), 0);
    CASE("host.free", cuMemFreeHost(p), 0);
    CASE("host.free.null", cuMemFreeHost(NULL), 0);
    CASE("host.free.stack", cuMemFreeHost(&p), 0);
    pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CASE("host.register", cuMemHostRegister_v2(pages, 8192, 0), 0);
    CASE("host.register.twice", cuMemHostRegister_v2(pages, 8192, 0), 0);
    CASE("host.register.part", cuMemHostRegister_v2((char *)pages + 4096, 4096, 0), 0);
    CASE("host.register.flags", cuMemHostGetFlags(&flags, pages), "\"v\":%u", flags);
    CASE("host.register.free", cuMemFreeHost(pages), 0);
    CASE("host.unregister.interior", cuMemHostUnregister((char *)pages + 4096), 0);
    CASE("host.unregister", cuMemHostUnregister(pages), 0);
    CASE("host.unregister.twice", cuMemHostUnregister(pages), 0);
    CASE("host.register.null", cuMemHostRegister_v2(NULL, 8192, 0), 0);
    CASE("host.register.0", cuMemHostRegister_v2(pages, 0, 0), 0);
    CASE("host.register.badflags", cuMemHostRegister_v2(pages, 8192, 0x100), 0);
    munmap(pages, 8192);
    CASE("host.register.unmapped", cuMemHostRegister_v2(pages, 8192, 0), 0);
    CASE("host.flags.unknown", cuMemHostGetFlags(&flags, &p), 0);
    CASE("host.pointer.unknown", cuMemHostGetDevicePointer_v2(&d, &p, 0), 0);
}

static void copies(void) {
    start();
    cuCtxSetCurrent(c0);
    CUdeviceptr p, q, other = 0;
    char text[64] = "";
    cuMemAlloc_v2(&p, 1000);
    cuMemAlloc_v2(&q, 4 << 20);
    CASE("copy.up", cuMemcpyHtoD_v2(p, "0123456789abcdef", 17), 0);
    CASE("copy.across", cuMemcpyDtoD_v2(q + 100, p + 4, 8), 0);
    CASE("copy.down", cuMemcpyDtoH_v2(text, q + 100, 8), "\"v\":\"%.8s\"", text);
    CASE("copy.unified", cuMemcpy((CUdeviceptr)(uintptr_t)text, p, 17), "\"v\":\"%s\"", text);
    CASE("copy.0", cuMemcpyDtoH_v2(text, p, 0), 0);
    CASE("copy.0.wild", cuMemcpyDtoH_v2(text, 0x123456789000ull, 0), 0);
    CASE("copy.0.null", cuMemcpyDtoH_v2(NULL, 0, 0), 0);
    CASE("copy.down.wild", cuMemcpyDtoH_v2(text, 0x123456789000ull, 8), 0);
    CASE("copy.down.null", cuMemcpyDtoH_v2(NULL, p, 8), 0);
    CASE("copy.down.zero", cuMemcpyDtoH_v2(text, 0, 8), 0);
    CASE("copy.up.wild", cuMemcpyHtoD_v2(0x123456789000ull, text, 8), 0);
    CASE("copy.up.null", cuMemcpyHtoD_v2(p, NULL, 8), 0);
    CASE("copy.across.wild", cuMemcpyDtoD_v2(p, 0x123456789000ull, 8), 0);
    CASE("copy.down.pastend", cuMemcpyDtoH_v2(text, q + (4 << 20) - 4, 8), 0);
    CASE("copy.down.end", cuMemcpyDtoH_v2(text, q + (4 << 20) - 8, 8), 0);
    CASE("copy.down.host", cuMemcpyDtoH_v2(text, (CUdeviceptr)(uintptr_t) "hostmemory", 8), "\"v\":\"%.8s\"", text);
    CASE("copy.up.device", cuMemcpyHtoD_v2(q, (void *)(uintptr_t)p, 8), 0);
    CASE("set.8", cuMemsetD8_v2(p, 'x', 5), 0);
    CASE("set.16", cuMemsetD16_v2(p + 2, 0x4142, 1), 0);
    CASE("set.32", cuMemsetD32_v2(p + 8, 0x61626364, 1), 0);
    CASE("set.result", cuMemcpyDtoH_v2(text, p, 17), "\"v\":\"%s\"", text);
    CASE("set.16.misaligned", cuMemsetD16_v2(p + 1, 0, 1), 0);
    CASE("set.32.misaligned", cuMemsetD32_v2(p + 2, 0, 1), 0);
    CASE("set.0", cuMemsetD8_v2(p, 0, 0), 0);
    CASE("set.wild", cuMemsetD8_v2(0x123456789000ull, 0, 8), 0);
    CASE("set.pastend", cuMemsetD8_v2(q + (4 << 20) - 4, 0, 8), 0);
    CASE("set.rows", cuMemsetD2D8_v2(q, 16, 'r', 4, 3), 0);
    CASE("set.rows.pitch", cuMemsetD2D8_v2(q, 2, 'r', 4, 3), 0);
    Copy2D rows = {.srcType = 2, .srcDevice = q, .srcPitch = 16, .dstType = 1, .dstHost = text, .dstPitch = 4,
                   .width = 4, .height = 3};
    memset(text, 0, sizeof text);
    CASE("rows", cuMemcpy2D_v2(&rows), "\"v\":\"%s\"", text);
    rows.srcPitch = 2;
    CASE("rows.pitch", cuMemcpy2D_v2(&rows), 0);
    rows.srcPitch = 16;
    rows.srcType = 9;
    CASE("rows.type", cuMemcpy2D_v2(&rows), 0);
    CASE("rows.null", cuMemcpy2D_v2(NULL), 0);
    if (devices > 1) {
        cuCtxSetCurrent(c1);
        cuMemAlloc_v2(&other, 1000);
        CASE("peer.copy", cuMemcpyPeer(other, c1, p, c0, 8), 0);
        CASE("peer.down.otherdevice", cuMemcpyDtoH_v2(text, p, 5), "\"v\":\"%.5s\"", text);
        CASE("peer.across.notenabled", cuMemcpyDtoD_v2(other, p, 8), 0);
        CASE("peer.copy.nullcontext", cuMemcpyPeer(other, NULL, p, c0, 8), 0);
    }
    cuCtxSetCurrent(NULL);
    CASE("copy.nocurrent", cuMemcpyDtoH_v2(text, p, 8), 0);
    CASE("set.nocurrent", cuMemsetD8_v2(p, 0, 8), 0);
}

// Which contexts a copy between peers takes. Each in a process of its own, because a driver may crash.
static CUdeviceptr on0, on1;
static void begin_peers(void) {
    start();
    if (devices < 2) return;
    cuCtxSetCurrent(c1);
    cuMemAlloc_v2(&on1, 64);
    cuCtxSetCurrent(c0);
    cuMemAlloc_v2(&on0, 64);
    hush();
}
#define PEERS(name, to, from)                                                                                \
    static void peers_##name(void) {                                                                         \
        begin_peers();                                                                                       \
        if (devices < 2) return;                                                                             \
        CUcontext gone = new_context(1);                                                                     \
        cuCtxDestroy_v2(gone);                                                                               \
        cuCtxSetCurrent(c0);                                                                                 \
        hush();                                                                                              \
        CASE("peercontext." #name, cuMemcpyPeer(on1, to, on0, from, 8), 0);                                  \
        CASE("peercontext." #name ".after", cuCtxSynchronize(), 0);                                          \
    }
PEERS(swapped, c0, c1)
PEERS(first, c0, c0)
PEERS(second, c1, c1)
PEERS(none, NULL, NULL)
PEERS(destroyed, gone, c0)
PEERS(source_destroyed, c1, gone)

static void attributes_of(const char *what, CUdeviceptr p, CUcontext context) {
    static const char wide[] = {1, 3, 4, 7, 11, 12, 17, 19, 20};
    char id[64];
    for (int attribute = 0; attribute < 23; attribute++) {
        unsigned long long value[2] = {0, 0};
        CUresult result = cuPointerGetAttribute(value, attribute, p);
        snprintf(id, sizeof id, "pointer.%s.%d", what, attribute);
        // Of addresses and numbers, only what they have to do with the pointer is the same on every run.
        if (attribute == 1)
            report(id, result, "\"null\":%d,\"context\":%d", !value[0], *value == (uintptr_t)context);
        else if (attribute == 12)
            report(id, result, "\"v\":%llu", *value);
        else if (attribute == 5 || attribute == 18 || attribute == 19) // of the block in which it lies
            report(id, result, 0);
        else if (memchr(wide, attribute, sizeof wide))
            report(id, result, "\"null\":%d,\"same\":%d", !value[0], *value == p);
        else
            report(id, result, "\"v\":%u", (unsigned)*value);
    }
}

static void pointers(void) {
    start();
    cuCtxSetCurrent(c0);
    CUdeviceptr p, pool, managed, on1;
    void *host;
    cuMemAlloc_v2(&p, 1000);
    cuMemHostAlloc(&host, 1000, 0);
    cuMemAllocAsync(&pool, 1000, 0);
    cuMemAllocManaged(&managed, 1000, 1);
    void *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cuMemHostRegister_v2(pages, 8192, 0);
    attributes_of("device", p, c0);
    attributes_of("host", (CUdeviceptr)(uintptr_t)host, c0);
    attributes_of("registered", (CUdeviceptr)(uintptr_t)pages, c0);
    attributes_of("pool", pool, c0);
    attributes_of("managed", managed, c0);
    attributes_of("stack", (CUdeviceptr)(uintptr_t)&p, c0);
    attributes_of("wild", 0x123456789000ull, c0);
    attributes_of("zero", 0, c0);
    if (devices > 1) {
        cuCtxSetCurrent(c1);
        cuMemAlloc_v2(&on1, 1000);
        cuCtxSetCurrent(c0);
        attributes_of("otherdevice", on1, c1);
    }
    CASE("pointer.null", cuPointerGetAttribute(NULL, 2, p), 0);
    unsigned type = 7, on = 1;
    unsigned flag = 7;
    int ordinal = 7;
    void *outputs[] = {&type, &flag, &ordinal};
    int wanted[] = {2, 8, 9};
    CASE("pointers", cuPointerGetAttributes(3, wanted, outputs, p), "\"v\":[%u,%u,%d]", type, flag, ordinal);
    CASE("pointers.stack", cuPointerGetAttributes(3, wanted, outputs, (CUdeviceptr)(uintptr_t)&p), "\"v\":[%u,%u,%d]",
         type, flag, ordinal);
    CASE("pointers.none", cuPointerGetAttributes(0, wanted, outputs, p), 0);
    wanted[0] = 99;
    CASE("pointers.bad", cuPointerGetAttributes(3, wanted, outputs, p), 0);
    CASE("pointer.set", cuPointerSetAttribute(&on, 6, p), 0);
    unsigned got = 0x55555555;
    CASE("pointer.set.get", cuPointerGetAttribute(&got, 6, p), "\"v\":%x", got);
    on = 0;
    CASE("pointer.set.off", cuPointerSetAttribute(&on, 6, p), 0);
    got = 0x55555555;
    CASE("pointer.set.off.get", cuPointerGetAttribute(&got, 6, p), "\"v\":%x", got);
    got = 0x55555555;
    CASE("pointer.flag.width", cuPointerGetAttribute(&got, 8, p), "\"v\":%x", got);
    got = 0x55555555;
    CASE("pointer.legacy.width", cuPointerGetAttribute(&got, 10, p), "\"v\":%x", got);
    got = 0x55555555;
    CASE("pointer.mapped.width", cuPointerGetAttribute(&got, 13, p), "\"v\":%x", got);
    got = 0x55555555;
    CASE("pointer.rdma.width", cuPointerGetAttribute(&got, 15, p), "\"v\":%x", got);
    unsigned long long both = 0x5555555555555555ull;
    CASE("pointer.handletypes.width", cuPointerGetAttribute(&both, 14, p), "\"v\":%llx", both);
    both = 0x5555555555555555ull;
    CASE("pointer.access.width", cuPointerGetAttribute(&both, 16, p), "\"v\":%llx", both);
    CASE("pointer.set.other", cuPointerSetAttribute(&on, 2, p), 0);
    CASE("pointer.set.host", cuPointerSetAttribute(&on, 6, (CUdeviceptr)(uintptr_t)host), 0);
    CASE("pointer.set.null", cuPointerSetAttribute(NULL, 6, p), 0);
    cuCtxSetCurrent(NULL);
    CASE("pointer.nocurrent", cuPointerGetAttribute(&type, 2, p), "\"v\":%u", type);
    CASE("pointers.nocurrent", cuPointerGetAttributes(3, (int[]){2, 8, 9}, outputs, p), "\"v\":%u", type);
    CASE("host.flags.nocurrent", cuMemHostGetFlags(&type, host), 0);
}

void memory_groups(void) {
    in_child("allocation", allocation);
    in_child("host", host_memory);
    in_child("copies", copies);
    in_child("peercontext.swapped", peers_swapped);
    in_child("peercontext.first", peers_first);
    in_child("peercontext.second", peers_second);
    in_child("peercontext.none", peers_none);
    in_child("peercontext.destroyed", peers_destroyed);
    in_child("peercontext.source_destroyed", peers_source_destroyed);
    in_child("pointers", pointers);
}
