/* cases_alone CASE bad: what users met, rebuilt, where one process is enough for it. What each is
 * stands at its head; the names are those of tests/check/cases.rs. */
#include "rules.h"

/* What a communication library does with each buffer of its user: a handle, or the way through host memory. */
static void register_buffer(CUdeviceptr p) {
    Handle handle;
    char *host = malloc(SIZE);
    if (CALL(cuIpcGetMemHandle, (&handle, p)) != 0) OK(cuMemcpyDtoH_v2(host, p, SIZE));
    free(host);
}

/* A3: a buffer of cudaMallocAsync, handed to an MPI or UCX. */
static void async_buffer(void) {
    CUdeviceptr p;
    start(0);
    OK(cuMemAllocAsync(&p, SIZE, NULL));
    register_buffer(p);
    OK(cuMemFreeAsync(p, NULL));
}

/* A5: a buffer of cudaMallocManaged. */
static void managed_buffer(void) {
    CUdeviceptr p;
    start(0);
    OK(cuMemAllocManaged(&p, SIZE, ATTACH_GLOBAL));
    register_buffer(p);
    OK(cuMemFree_v2(p));
}

/* A8: two arrays of one block of a caching allocator have one handle. */
static void two_arrays(void) {
    Handle first, second;
    start(0);
    CUdeviceptr block = allocate();
    CALL(cuIpcGetMemHandle, (&first, block + 512));
    CALL(cuIpcGetMemHandle, (&second, block + 1024));
    CHECK(memcmp(&first, &second, sizeof first) == 0);
    OK(cuMemFree_v2(block));
}

/* A10: a library tries on purpose whether memory has legacy handles. */
static void probe_of_a_library(void) {
    void *library = dlopen(getenv("NCCL_LIBRARY"), RTLD_NOW);
    CHECK(library);
    int (*attempt)(void *, void *, CUdeviceptr) = (int (*)(void *, void *, CUdeviceptr))dlsym(library, "try_export");
    Handle handle;
    CUdeviceptr p;
    start(0);
    OK(cuMemAllocAsync(&p, SIZE, NULL));
    printed("cuIpcGetMemHandle", attempt((void *)cuIpcGetMemHandle, &handle, p));
    OK(cuMemFreeAsync(p, NULL));
}

/* B1: a rank that sends to itself treats itself as any other rank. */
static void own_rank(void) {
    CUdeviceptr q;
    start(0);
    CUdeviceptr p = allocate();
    Handle of_rank[1] = {export(p)};
    CALL(cuIpcOpenMemHandle_v2, (&q, of_rank[0], LAZY));
    OK(cuMemFree_v2(p));
}

/* B5: a rank that sees one device asks about the number that another rank has for its own. */
static void number_of_another(void) {
    int can, theirs = 1;
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "1", 1) == 0);
    start(0);
    CALL(cuDeviceCanAccessPeer, (&can, 0, theirs));
}

/* E2: every device with every other, on a machine with more of them than there is room for. */
static void all_pairs(void) {
    int count;
    start(0);
    OK(cuDeviceGetCount(&count));
    for (int device = 1; device < count; device++) {
        CUcontext peer = retain(device);
        if (CALL(cuCtxEnablePeerAccess, (peer, 0)) != 0) break;
    }
}

/* E3: two parts of a program that each enable what they need. */
static void enable_all(CUcontext peer) {
    CALL(cuCtxEnablePeerAccess, (peer, 0));
}
static void two_parts(void) {
    start(0);
    c1 = retain(1);
    enable_all(c1);
    enable_all(c1);
}

/* E4: the context that was made last is current, and not the one that shall get access. */
static void wrong_current(void) {
    CUcontext mine, theirs;
    load();
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&mine, 0, 0));
    OK(cuCtxCreate_v2(&theirs, 0, 1));
    CALL(cuCtxEnablePeerAccess, (theirs, 0));
    OK(cuCtxDestroy_v2(theirs));
    OK(cuCtxDestroy_v2(mine));
}

/* E12: a pool of workers that is forked when the parent has used the device already. */
static void work(struct link parent) {
    Handle handle = get_handle(parent);
    CUdeviceptr p;
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
}
static void late_fork(void) {
    start(0);
    CUdeviceptr p = allocate();
    Handle handle = export(p);
    struct link worker = employ(work);
    put_handle(worker, handle);
    ended(worker);
    OK(cuMemFree_v2(p));
}

SCENES({"A3", async_buffer}, {"A5", managed_buffer}, {"A8", two_arrays}, {"A10", probe_of_a_library}, {"B1", own_rank},
       {"B5", number_of_another}, {"E2", all_pairs}, {"E3", two_parts}, {"E4", wrong_current}, {"E12", late_fork})
