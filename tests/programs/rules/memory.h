/* Virtual memory, for the programs of this folder: memory that is created, mapped, and sent to another process. */
#ifndef MEMORY_H
#define MEMORY_H
#include "descriptors.h"

enum { NONE = 0, DESCRIPTOR = 1, FABRIC = 8, DEVICE = 1, PINNED = 1, READ_WRITE = 3, HALF = SIZE / 2 };

static inline Properties properties(int types) {
    return (Properties){.type = PINNED, .handle_types = types, .location = {DEVICE, 0}};
}

static inline Allocation create(int types) {
    Allocation allocation;
    Properties wanted = properties(types);
    OK(cuMemCreate(&allocation, SIZE, &wanted, 0));
    return allocation;
}

static inline CUdeviceptr reserve(size_t size) {
    CUdeviceptr at;
    OK(cuMemAddressReserve(&at, size, 0, 0, 0));
    return at;
}

static inline Access access_of(int device) { return (Access){{DEVICE, device}, READ_WRITE}; }

/* Maps and gives access, where the handle may go. */
static inline CUdeviceptr map(Allocation allocation) {
    Access access = access_of(0);
    CUdeviceptr at = reserve(SIZE);
    OK(cuMemMap(at, SIZE, 0, allocation, 0));
    OK(cuMemSetAccess(at, SIZE, &access, 1));
    return at;
}

static inline void unmap(CUdeviceptr at) {
    OK(cuMemUnmap(at, SIZE));
    OK(cuMemAddressFree(at, SIZE));
}

static inline int exported(Allocation allocation) {
    int fd;
    OK(cuMemExportToShareableHandle(&fd, allocation, DESCRIPTOR, 0));
    return fd;
}

static inline Allocation imported(int fd) {
    Allocation allocation;
    OK(cuMemImportFromShareableHandle(&allocation, as_pointer(fd), DESCRIPTOR));
    return allocation;
}

/* Sends a descriptor to another process, which says when it has done its work. */
static inline void share_with(void (*work)(struct link)) {
    struct link link;
    employ_with_socket(&link, work);
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    int fd = exported(allocation);
    send_descriptor(fd);
    close(fd);
    wait_for(link);
    ended(link);
    OK(cuMemRelease(allocation));
}
#endif
