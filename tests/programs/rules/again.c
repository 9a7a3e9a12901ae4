/* again SCENE good: right programs in which a handle that ended comes back as that of another object. Each checks that it does, if the
 * simulated driver gives it out again; `early` before a scene's name is of what only a machine with reuse=early does,
 * and `usual` of what it does not. */
#include "memory.h"
#include <pthread.h>

/* Whether a handle came back, which the scene is about. */
static void same(unsigned long long one, unsigned long long other) { CHECK(one == other); }
#define SAME(one, other) same((unsigned long long)(one), (unsigned long long)(other))

static CUevent event_of(unsigned flags) {
    CUevent event;
    OK(cuEventCreate(&event, flags));
    return event;
}

/* An opened event is destroyed, and an event of this process gets its number: it is exported, and recorded in another context. */
static void open_event(struct link parent) {
    CUevent opened, again;
    CUcontext other;
    Handle unused;
    start(0);
    OK(cuIpcOpenEventHandle(&opened, get_handle(parent)));
    OK(cuEventRecord(opened, NULL));
    OK(cuEventDestroy_v2(opened));
    OK(cuCtxCreate_v2(&other, 0, 0));
    CUevent own = event_of(INTERPROCESS | DISABLE_TIMING);
    SAME(own, opened);
    CALL(cuIpcGetEventHandle, (&unused, own));
    CALL(cuEventRecord, (own, NULL));
    OK(cuEventDestroy_v2(own));
    OK(cuCtxDestroy_v2(other));
    OK(cuCtxSetCurrent(c0));
    tell(parent);
    OK(cuIpcOpenEventHandle(&again, get_handle(parent)));
    SAME(again, opened);
    OK(cuEventDestroy_v2(again));
}
/* The exporter's event gets the number of one that was exported before. */
static void event(void) {
    struct link link = employ(open_event);
    Handle first, second;
    start(0);
    CUevent exported = event_of(INTERPROCESS | DISABLE_TIMING);
    OK(cuIpcGetEventHandle(&first, exported));
    put_handle(link, first);
    wait_for(link);
    OK(cuEventDestroy_v2(exported));
    CUevent again = event_of(INTERPROCESS | DISABLE_TIMING);
    SAME(again, exported);
    CALL(cuIpcGetEventHandle, (&second, again));
    put_handle(link, second);
    ended(link);
    OK(cuEventDestroy_v2(again));
}

/* Memory is opened in a context; another context gets the handle of that one, and the memory is opened there. */
static void open_in_contexts(struct link parent) {
    CUcontext first, second;
    start(0);
    Handle handle = get_handle(parent);
    char text[64];
    OK(cuCtxCreate_v2(&first, 0, 0));
    CUdeviceptr p = open_memory(handle);
    OK(cuIpcCloseMemHandle(p));
    OK(cuCtxDestroy_v2(first));
    OK(cuCtxCreate_v2(&second, 0, 0));
    SAME(second, first);
    p = open_memory(handle);
    CALL(cuMemcpyDtoH_v2, (text, p, sizeof text));
    CALL(cuIpcCloseMemHandle, (p));
    OK(cuCtxDestroy_v2(second));
}
static void context(void) { export_for(open_in_contexts); }

/* What a context had open goes with it. The next context has its handle, and opens the memory itself. */
static void reopen_in_context(struct link parent) {
    CUcontext first, second;
    start(0);
    Handle handle = get_handle(parent);
    char text[64];
    OK(cuCtxCreate_v2(&first, 0, 0));
    open_memory(handle);
    OK(cuCtxDestroy_v2(first));
    OK(cuCtxCreate_v2(&second, 0, 0));
    SAME(second, first);
    CUdeviceptr p = open_memory(handle);
    CALL(cuMemcpyDtoH_v2, (text, p, sizeof text));
    CALL(cuIpcCloseMemHandle, (p));
    OK(cuCtxDestroy_v2(second));
}
static void context_with_memory(void) { export_for(reopen_in_context); }

/* Peer access goes with a context, and the next one with its handle enables it again. */
static void peer(void) {
    CUcontext first, second;
    start(0);
    c1 = retain(1);
    OK(cuCtxCreate_v2(&first, 0, 0));
    OK(cuCtxEnablePeerAccess(c1, 0));
    OK(cuCtxDestroy_v2(first));
    OK(cuCtxCreate_v2(&second, 0, 0));
    SAME(second, first);
    CALL(cuCtxEnablePeerAccess, (c1, 0));
    CALL(cuCtxDisablePeerAccess, (c1));
    OK(cuCtxDestroy_v2(second));
}

/* A thread made a context current that is destroyed; another one gets its handle, and exports. */
static CUcontext of_thread;
static void *use_current(void *p) {
    Handle handle;
    OK(cuCtxSetCurrent(of_thread));
    CALL(cuIpcGetMemHandle, (&handle, *(CUdeviceptr *)p));
    return NULL;
}
static void current(void) {
    CUcontext first, second;
    pthread_t thread;
    start(0);
    OK(cuCtxCreate_v2(&first, 0, 0));
    OK(cuCtxDestroy_v2(first));
    OK(cuCtxCreate_v2(&second, 0, 0));
    SAME(second, first);
    CUdeviceptr p = allocate();
    of_thread = second;
    CHECK(pthread_create(&thread, NULL, use_current, &p) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cuMemFree_v2(p));
    OK(cuCtxDestroy_v2(second));
}

/* An allocation is mapped and released, which is the recommended order, and another one gets its handle: each can be used as what it
 * is. The mapping gives a handle of its own allocation. */
static void mapped(void) {
    int fd = -1;
    start(0);
    Allocation first = create(0), second, third;
    CUdeviceptr at = map(first), other;
    OK(cuMemRelease(first));
    second = create(DESCRIPTOR);
    SAME(second, first);
    other = map(second);
    CALL(cuMemExportToShareableHandle, (&fd, second, DESCRIPTOR, 0));
    CHECK(close(fd) == 0);
    unmap(at);
    OK(cuMemRetainAllocationHandle(&third, other));
    CALL(cuMemExportToShareableHandle, (&fd, third, DESCRIPTOR, 0));
    CHECK(close(fd) == 0);
    OK(cuMemRelease(third));
    CALL(cuMemRelease, (second));
    unmap(other);
}

/* An imported allocation is released, and one of this process gets its handle: it can be exported. */
static void import_allocation(struct link parent) {
    start(0);
    int fd = receive_descriptor(), again = -1;
    Allocation first = imported(fd);
    CUdeviceptr at = map(first);
    unmap(at);
    OK(cuMemRelease(first));
    Allocation own = create(DESCRIPTOR);
    SAME(own, first);
    at = map(own);
    CALL(cuMemExportToShareableHandle, (&again, own, DESCRIPTOR, 0));
    CHECK(close(again) == 0);
    unmap(at);
    OK(cuMemRelease(own));
    for (int i = 0; i < 3; i++) {
        Allocation next = imported(fd);
        SAME(next, first);
        at = map(next);
        unmap(at);
        CALL(cuMemRelease, (next));
    }
    close(fd);
    tell(parent);
}
static void allocation(void) { share_with(import_allocation); }

/* A handle is released while its memory is mapped: the next allocation gets another one. */
static void import_mapped(struct link parent) {
    start(0);
    int fd = receive_descriptor();
    Allocation first = imported(fd);
    CUdeviceptr at = map(first);
    OK(cuMemRelease(first));
    Allocation own = create(DESCRIPTOR);
    CHECK(own != first);
    unmap(at);
    Allocation next = create(NONE);
    SAME(next, first);
    CALL(cuMemRelease, (next));
    CALL(cuMemRelease, (own));
    close(fd);
    tell(parent);
}
static void allocation_mapped(void) { share_with(import_mapped); }

/* An address that was closed comes back as memory of this process. */
static void close_and_allocate(struct link parent) {
    start(0);
    Handle handle = get_handle(parent), unused;
    char text[64];
    CUdeviceptr p = open_memory(handle), kept[8];
    OK(cuIpcCloseMemHandle(p));
    int count = 0;
    do kept[count] = allocate();
    while (kept[count++] != p && count < 8);
    CALL(cuMemcpyDtoH_v2, (text, kept[count - 1], sizeof text));
    CALL(cuIpcGetMemHandle, (&unused, kept[count - 1]));
    while (count) OK(cuMemFree_v2(kept[--count]));
}
static void address(void) { export_for(close_and_allocate); }

/* An imported pool is destroyed, and one that this process made gets its handle. */
static void import_pool(struct link parent) {
    PoolProperties wanted = {.type = PINNED, .handle_types = DESCRIPTOR, .location = {DEVICE, 0}};
    PoolPointer pointer;
    Pool imported_pool, own;
    CUdeviceptr p;
    start(0);
    int fd = receive_descriptor(), again = -1;
    OK(cuMemPoolImportFromShareableHandle(&imported_pool, as_pointer(fd), DESCRIPTOR, 0));
    close(fd);
    OK(cuMemPoolDestroy(imported_pool));
    OK(cuMemPoolCreate(&own, &wanted));
    SAME(own, imported_pool);
    CALL(cuMemAllocFromPoolAsync, (&p, SIZE, own, NULL));
    OK(cuCtxSynchronize());
    CALL(cuMemPoolExportToShareableHandle, (&again, own, DESCRIPTOR, 0));
    CHECK(close(again) == 0);
    CALL(cuMemPoolExportPointer, (&pointer, p));
    OK(cuMemFreeAsync(p, NULL));
    OK(cuCtxSynchronize());
    CALL(cuMemPoolDestroy, (own));
    tell(parent);
}
static void pool(void) {
    struct link link;
    Pool made;
    PoolProperties wanted = {.type = PINNED, .handle_types = DESCRIPTOR, .location = {DEVICE, 0}};
    int fd;
    employ_with_socket(&link, import_pool);
    start(0);
    OK(cuMemPoolCreate(&made, &wanted));
    OK(cuMemPoolExportToShareableHandle(&fd, made, DESCRIPTOR, 0));
    send_descriptor(fd);
    close(fd);
    wait_for(link);
    ended(link);
    OK(cuMemPoolDestroy(made));
}

/* An executable graph of memory that is closed is destroyed, and one of other memory gets its handle. */
typedef struct {
    CUdeviceptr at;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
} Fill;
static void launch_graph(struct link parent) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *graph, *node, *first, *second, *stream;
    start(0);
#define FIND(name, args) CUresult (*name) args = (CUresult(*) args)dlsym(driver, #name);
    FIND(cuGraphCreate, (void **, unsigned))
    FIND(cuGraphDestroy, (void *))
    FIND(cuGraphAddMemsetNode, (void **, void *, const void *, size_t, const Fill *, CUcontext))
    FIND(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))
    FIND(cuGraphExecDestroy, (void *))
    FIND(cuGraphLaunch, (void *, void *))
    CUdeviceptr p = open_memory(get_handle(parent)), own = allocate();
    OK(cuStreamCreate(&stream, 1));
    for (int i = 0; i < 2; i++) {
        Fill fill = {.at = i ? own : p, .value = 7, .element = 4, .width = SIZE / 4, .height = 1};
        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, c0));
        OK(cuGraphInstantiateWithFlags(i ? &second : &first, graph, 0));
        OK(cuGraphLaunch(i ? second : first, stream));
        OK(cuCtxSynchronize());
        OK(cuGraphDestroy(graph));
        if (!i) OK(cuGraphExecDestroy(first));
    }
    SAME(second, first);
    OK(cuIpcCloseMemHandle(p));
    CALL(cuGraphLaunch, (second, stream));
    OK(cuCtxSynchronize());
    OK(cuGraphExecDestroy(second));
    OK(cuMemFree_v2(own));
}
static void graph(void) { export_for(launch_graph); }

SCENES({"event", event}, {"context", context}, {"context/memory", context_with_memory}, {"peer", peer}, {"current", current},
       {"allocation", allocation}, {"usual allocation/mapped", allocation_mapped}, {"address", address}, {"early allocation/released", mapped}, {"early pool", pool}, {"early graph", graph})
