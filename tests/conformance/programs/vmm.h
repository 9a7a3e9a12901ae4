// Allocations that can leave the process, and what becomes of them.
#include "common.h"
#include "../../programs/descriptor.h"
#include <sys/socket.h>
#include <sys/stat.h>

#define GRANULE ((size_t)2 << 20)

static inline int create(Allocation *h, int device, size_t size) {
    Properties wanted = {.type = 1, .handleTypes = 1, .location = {1, device}};
    return cuMemCreate(h, size, &wanted, 0);
}

static inline int allow(CUdeviceptr at, size_t size, int device, int flags) {
    Access access = {{1, device}, flags};
    return cuMemSetAccess(at, size, &access, 1);
}

static inline int import(Allocation *h, int fd) { return cuMemImportFromShareableHandle(h, (void *)(intptr_t)fd, 1); }

// Reserves, maps and grants at once.
static inline CUdeviceptr map(Allocation h, size_t size, int device) {
    CUdeviceptr at = 0;
    IS(cuMemAddressReserve(&at, size, 0, 0, 0), 0);
    IS(cuMemMap(at, size, 0, h, 0), 0);
    IS(allow(at, size, device, 3), 0);
    return at;
}

static inline void send_descriptor(int to, int fd) { IS(descriptor_to(to, fd), 1); }

static inline int receive_descriptor(int from) {
    int fd = descriptor_from(from);
    IS(fd >= 0, 1);
    return fd;
}

static inline void start(int device) {
    void *context;
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, device), 0);
    IS(cuCtxSetCurrent(context), 0);
}

static inline size_t used(void) {
    size_t free, total;
    IS(cuMemGetInfo_v2(&free, &total), 0);
    return total - free;
}
