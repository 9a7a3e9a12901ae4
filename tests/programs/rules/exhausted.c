/* exhausted RULE bad|good: what a process uses up: descriptors, device memory, and addresses. */
#include "memory.h"
#include <sys/resource.h>

enum { FILES = 128, TIMES = 8 };
#define RANGE ((size_t)16 << 40)

static void limit_files(rlim_t most) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = most;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* Exports more often than it may have files open, and closes no descriptor; in the right program, each. */
static void descriptors(void) {
    struct rlimit before;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    limit_files(FILES);
    CUresult result = 0;
    for (int i = 0; i < 2 * FILES && result == 0; i++) {
        int fd = -1;
        result = cuMemExportToShareableHandle(&fd, allocation, DESCRIPTOR, 0);
        if (!bad) close(fd);
    }
    printed("cuMemExportToShareableHandle", result);
    limit_files(before.rlim_cur);
    OK(cuMemRelease(allocation));
}

/* An importer that maps what it gets, and in the wrong job keeps it. */
static size_t size;
static void keep(struct link parent) {
    start(0);
    get(parent, &size, sizeof size);
    Access access = access_of(0);
    for (;;) {
        char more;
        get(parent, &more, 1);
        if (more != '!') return;
        int fd = receive_descriptor();
        Allocation allocation = imported(fd);
        close(fd);
        CUdeviceptr at = reserve(size);
        OK(cuMemMap(at, size, 0, allocation, 0));
        OK(cuMemSetAccess(at, size, &access, 1));
        OK(cuMemRelease(allocation));
        if (!bad) OK(cuMemUnmap(at, size));
        if (!bad) OK(cuMemAddressFree(at, size));
        tell(parent);
    }
}

/* Creates a quarter of the device's memory again and again, and releases each before the next. */
static void kept(void) {
    struct link link;
    Properties wanted = properties(DESCRIPTOR);
    Allocation allocation;
    CUresult result = 0;
    size_t unused, total;
    employ_with_socket(&link, keep);
    start(0);
    OK(cuMemGetInfo_v2(&unused, &total));
    size = total / 4 / SIZE * SIZE;
    put(link, &size, sizeof size);
    for (int i = 0; i < TIMES && (result = cuMemCreate(&allocation, size, &wanted, 0)) == 0; i++) {
        int fd = exported(allocation);
        tell(link);
        send_descriptor(fd);
        close(fd);
        wait_for(link);
        OK(cuMemRelease(allocation));
    }
    printed("cuMemCreate", result);
    put(link, ".", 1);
    ended(link);
}

/* Maps an eighth of the device's memory again and again. The mapping goes each time; in the wrong program, the handle stays. */
static void unreleased(void) {
    Properties wanted = properties(DESCRIPTOR);
    Access access = access_of(0);
    size_t unused, total;
    CUresult result = 0;
    start(0);
    OK(cuMemGetInfo_v2(&unused, &total));
    size_t part = total / 8 / SIZE * SIZE;
    for (int i = 0; i < 2 * TIMES && result == 0; i++) {
        Allocation allocation;
        result = cuMemCreate(&allocation, part, &wanted, 0);
        if (result) break;
        CUdeviceptr at = reserve(part);
        OK(cuMemMap(at, part, 0, allocation, 0));
        OK(cuMemSetAccess(at, part, &access, 1));
        if (!bad) OK(cuMemRelease(allocation));
        OK(cuMemUnmap(at, part));
        OK(cuMemAddressFree(at, part));
    }
    printed("cuMemCreate", result);
}

/* Asks for twice the device's memory, or for a part of it. */
static void large(void) {
    size_t unused, total;
    CUdeviceptr at;
    start(0);
    OK(cuMemGetInfo_v2(&unused, &total));
    printed("cuMemAlloc_v2", cuMemAlloc_v2(&at, bad ? 2 * total : SIZE));
}

/* Reserves addresses until none are left; in the right program, frees each range before it reserves the next. */
static void addresses(void) {
    start(0);
    CUresult result = 0;
    for (int i = 0; i < 64 && result == 0; i++) {
        CUdeviceptr at;
        result = cuMemAddressReserve(&at, RANGE, 0, 0, 0);
        if (result == 0 && !bad) OK(cuMemAddressFree(at, RANGE));
    }
    printed("cuMemAddressReserve", result);
}

SCENES({"descriptors-exhausted", descriptors}, {"memory-kept-by-importers", kept}, {"vmm-addresses-exhausted", addresses},
       {"memory-exhausted", unreleased}, {"memory-exhausted/large", large})
