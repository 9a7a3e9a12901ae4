// What the questions about memory pools have in common.
#ifndef POOLS_H
#define POOLS_H
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

static inline const char *down(CUdeviceptr p) {
    static char text[32];
    memset(text, 0, sizeof text);
    CUresult result = cuMemcpyDtoH_v2(text, p, 11);
    if (result) snprintf(text, sizeof text, "error %d", result);
    return text;
}

static inline void *number(int fd) { return (void *)(uintptr_t)fd; }

static inline Access for_device(int device, int flags) { return (Access){{DEVICE, device}, flags}; }

static inline CUresult allow(CUmemoryPool pool, int device, int flags) {
    Access a = for_device(device, flags);
    return cuMemPoolSetAccess(pool, &a, 1);
}

static inline void begin(void) {
    start();
    cuCtxSetCurrent(c0);
    hush();
}

static inline PoolProperties on(int device, int types) {
    PoolProperties p;
    memset(&p, 0, sizeof p);
    p.type = 1;
    p.handleTypes = types;
    p.location.type = DEVICE;
    p.location.id = device;
    return p;
}

static inline CUmemoryPool create(int types) {
    PoolProperties p = on(0, types);
    CUmemoryPool pool = NULL;
    cuMemPoolCreate(&pool, &p);
    return pool;
}

static inline CUdeviceptr allocate(CUmemoryPool pool, const char *bytes) {
    CUdeviceptr p = 0;
    cuMemAllocFromPoolAsync(&p, MIB, pool, 0);
    cuStreamSynchronize(0);
    if (p) cuMemcpyHtoD_v2(p, bytes, 11);
    return p;
}

static inline int descriptor(CUmemoryPool pool) {
    int fd = -1;
    cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0);
    return fd;
}

static inline CUresult accessible(CUmemoryPool pool, int device, int *flags) {
    Location l = {DEVICE, device};
    *flags = 9;
    return cuMemPoolGetAccess(flags, pool, &l);
}
#endif
