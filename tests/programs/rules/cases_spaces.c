/* cases_spaces CASE bad: what users met, rebuilt, of virtual memory. What each is stands at its head; the names are those of
 * tests/check/cases/spaces.rs. */
#include "memory.h"
#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* A1 (vllm#42609): a tensor of an expandable segment, which custom all-reduce exports as if it were of cudaMalloc. */
static void expandable_segment(void) {
    Handle handle;
    CHECK(setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", 1) == 0);
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    CUdeviceptr at = map(allocation);
    OK(cuMemRelease(allocation));
    CALL(cuIpcGetMemHandle, (&handle, at));
    unmap(at);
}

/* A6 (UCX#11548): the transport exports virtual memory only as fabric handles, and takes TCP without a word where that
 * fails. */
static void silent_fallback(void) {
    char fabric[64];
    Allocation again;
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    CUdeviceptr at = map(allocation);
    OK(cuMemRetainAllocationHandle(&again, at));
    if (cuMemExportToShareableHandle(fabric, again, FABRIC, 0) != 0) dprintf(1, "software emulation | tcp\n");
    OK(cuMemRelease(again));
    unmap(at);
    OK(cuMemRelease(allocation));
}

/* What pidfd_getfd takes out of another process: nothing where this one may not trace it. */
static int take_descriptor(pid_t pid, int fd) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    CHECK(syscall(SYS_capget, &header, sets) == 0);
    sets[0].effective &= ~(1u << CAP_SYS_PTRACE);
    CHECK(syscall(SYS_capset, &header, sets) == 0);
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), taken = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
    CHECK(taken >= 0 || errno == EPERM || errno == ENOSYS || errno == EBADF);
    if (pidfd >= 0) close(pidfd);
    return taken;
}

/* D3 (pytorch#165685): an importer that may not take the descriptor, and gives up before any call of the driver. */
static void give_up_import(struct link parent) {
    int fd;
    start(0);
    get(parent, &fd, sizeof fd);
    if (take_descriptor(parent.pid, fd) < 0) dprintf(1, "pidfd_getfd: Operation not permitted\n");
    tell(parent);
}
/* flashinfer#4089: an importer that goes on with what it got. */
static void import_nothing(struct link parent) {
    int fd;
    Allocation allocation;
    start(0);
    get(parent, &fd, sizeof fd);
    CALL(cuMemImportFromShareableHandle, (&allocation, as_pointer(take_descriptor(parent.pid, fd)), DESCRIPTOR));
    tell(parent);
}
static void offer(void (*work)(struct link)) {
    struct link link = employ(work);
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    int fd = exported(allocation);
    /* Nobody may trace this process without leave, as under ptrace_scope 1. */
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    put(link, &fd, sizeof fd);
    wait_for(link);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    ended(link);
    close(fd);
    OK(cuMemRelease(allocation));
}
static void refused(void) { offer(give_up_import); }
static void refused_and_imported(void) { offer(import_nothing); }

/* D4 (mscclpp#467): the device's attribute says that there are fabric handles. */
static CUresult create_fabric(int types, int device) {
    Allocation allocation;
    Properties wanted = properties(types);
    wanted.location.id = device;
    CUresult result = CALL(cuMemCreate, (&allocation, SIZE, &wanted, 0));
    if (result == 0) OK(cuMemRelease(allocation));
    return result;
}
static void advertised(void) {
    enum { FABRIC_SUPPORTED = 128 };
    int is_supported = 0;
    start(0);
    OK(cuDeviceGetAttribute(&is_supported, FABRIC_SUPPORTED, 0));
    create_fabric(is_supported ? FABRIC : DESCRIPTOR | FABRIC, 0);
}
/* DeepEP#487: both kinds at once, and the first failure ends it. */
static void both_kinds(void) {
    start(0);
    create_fabric(DESCRIPTOR | FABRIC, 0);
}
/* Mooncake#1297: each device in turn, before it goes another way. */
static void each_device(void) {
    start(0);
    for (int device = 0; device < 2; device++)
        if (create_fabric(FABRIC, device) == 0) return;
}

/* E6 (xla#41075): one process with all devices, which enables access among them; memory is accessible to its own device
 * alone, and a collective of another one hangs. */
static void own_device_only(void) {
    start(0);
    c1 = retain(1);
    OK(cuCtxEnablePeerAccess(c1, 0));
    OK(cuCtxSetCurrent(c1));
    OK(cuCtxEnablePeerAccess(c0, 0));
    for (int device = 0; device < 2; device++) {
        Allocation allocation;
        Properties wanted = properties(NONE);
        Access own = access_of(wanted.location.id = device);
        OK(cuMemCreate(&allocation, SIZE, &wanted, 0));
        CUdeviceptr at = reserve(SIZE);
        OK(cuMemMap(at, SIZE, 0, allocation, 0));
        OK(cuMemSetAccess(at, SIZE, &own, 1));
        OK(cuMemRelease(allocation));
    }
}

/* E7 (tensorflow#47480): a pool of one device, whose memory the other one is to use, with peer access enabled and no access
 * to the pool. */
static void closed_pool(void) {
    enum { PINNED = 1, DEVICE = 1 };
    PoolProperties wanted = {.type = PINNED, .location = {DEVICE, 0}};
    Pool pool;
    CUdeviceptr p;
    start(0);
    c1 = retain(1);
    OK(cuCtxSetCurrent(c1));
    OK(cuCtxEnablePeerAccess(c0, 0));
    OK(cuCtxSetCurrent(c0));
    OK(cuMemPoolCreate(&pool, &wanted));
    OK(cuMemAllocFromPoolAsync(&p, SIZE, pool, NULL));
    OK(cuMemFreeAsync(p, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemPoolDestroy(pool));
}

/* E8 (pytorch#174030): at the rendezvous each rank gives its own device access to the memory of all others. */
static void rendezvous(struct link parent) {
    start(1);
    Access own = access_of(1);
    Allocation allocation = imported(receive_descriptor());
    CUdeviceptr at = reserve(SIZE);
    OK(cuMemMap(at, SIZE, 0, allocation, 0));
    CALL(cuMemSetAccess, (at, SIZE, &own, 1));
    unmap(at);
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void ranks_apart(void) { share_with(rendezvous); }

/* vLLM's allocator that sleeps and wakes: addresses stay, memory goes and comes. */
static struct piece {
    CUdeviceptr at;
    Allocation allocation;
} piece;
static CUresult wake(void) {
    Access access = access_of(0);
    Allocation fresh = create(NONE);
    CUresult result = CALL(cuMemMap, (piece.at, SIZE, 0, fresh, 0));
    if (result != 0) {
        OK(cuMemRelease(fresh));
        return result;
    }
    OK(cuMemSetAccess(piece.at, SIZE, &access, 1));
    piece.allocation = fresh;
    return 0;
}
static void fall_asleep(void) {
    OK(cuMemUnmap(piece.at, SIZE));
    CALL(cuMemRelease, (piece.allocation));
}
static void allocator(void) {
    start(0);
    piece.at = reserve(SIZE);
    OK(wake());
}

/* vllm#36651: what sleeps already is put to sleep once more. */
static void sleeps_twice(void) {
    allocator();
    fall_asleep();
    CALL(cuMemRelease, (piece.allocation));
    OK(cuMemAddressFree(piece.at, SIZE));
}
/* vllm#36651: what is awake is woken. */
static void wakes_twice(void) {
    allocator();
    CHECK(wake() != 0);
    fall_asleep();
    OK(cuMemAddressFree(piece.at, SIZE));
}
/* vllm#45565: unmapping fails, nobody looks, and the next waking finds the old mapping. */
static void failed_unmapping(void) {
    allocator();
    cuMemUnmap(piece.at, HALF);
    OK(cuMemRelease(piece.allocation));
    CHECK(wake() != 0);
    unmap(piece.at);
}

/* pytorch#186213: each import reserves more than the device has, and maps little of it. */
static void reserve_all(struct link parent) {
    enum { MOST = 4096 };
    const size_t room = (size_t)160 << 30;
    static CUdeviceptr all[MOST];
    int count = 0;
    start(0);
    Access access = access_of(0);
    Allocation allocation = imported(receive_descriptor());
    while (count < MOST && cuMemAddressReserve(&all[count], room, 0, 0, 0) == 0) {
        OK(cuMemMap(all[count], SIZE, 0, allocation, 0));
        OK(cuMemSetAccess(all[count], SIZE, &access, 1));
        count++;
    }
    CHECK(count > 100 && count < MOST);
    while (count-- > 0) {
        OK(cuMemUnmap(all[count], SIZE));
        OK(cuMemAddressFree(all[count], room));
    }
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void no_addresses(void) { share_with(reserve_all); }

SCENES({"A1", expandable_segment}, {"A6", silent_fallback}, {"D3", refused}, {"flashinfer#4089", refused_and_imported},
       {"D4", advertised}, {"DeepEP#487", both_kinds}, {"Mooncake#1297", each_device}, {"E6", own_device_only},
       {"E7", closed_pool}, {"E8", ranks_apart},
       {"vllm#36651-sleep", sleeps_twice}, {"vllm#36651-wake", wakes_twice}, {"vllm#45565", failed_unmapping},
       {"pytorch#186213", no_addresses})
