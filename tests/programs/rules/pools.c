/* pools RULE bad|good: rules about memory pools. */
#include "descriptors.h"

enum { NONE = 0, DESCRIPTOR = 1, DEVICE = 1, PINNED = 1, READ_WRITE = 3 };

static Pool create(int types) {
    Pool pool;
    PoolProperties wanted = {.type = PINNED, .handle_types = types, .location = {DEVICE, 0}};
    OK(cuMemPoolCreate(&pool, &wanted));
    return pool;
}

static CUdeviceptr allocate_from(Pool pool) {
    CUdeviceptr p;
    OK(cuMemAllocFromPoolAsync(&p, SIZE, pool, NULL));
    OK(cuCtxSynchronize());
    return p;
}

static int exported(Pool pool) {
    int fd;
    OK(cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0));
    return fd;
}

static Pool imported(int fd) {
    Pool pool;
    OK(cuMemPoolImportFromShareableHandle(&pool, as_pointer(fd), DESCRIPTOR, 0));
    close(fd);
    return pool;
}

static PoolPointer pointer_to(CUdeviceptr p) {
    PoolPointer pointer;
    OK(cuMemPoolExportPointer(&pointer, p));
    return pointer;
}

static CUdeviceptr import_pointer(Pool pool, PoolPointer pointer) {
    CUdeviceptr p;
    OK(cuMemPoolImportPointer(&p, pool, &pointer));
    return p;
}

static void free_now(CUdeviceptr p) {
    OK(cuMemFreeAsync(p, NULL));
    OK(cuCtxSynchronize());
}

static void handle_type(void) {
    int fd = -1;
    start(0);
    Pool pool = create(bad ? NONE : DESCRIPTOR);
    if (CALL(cuMemPoolExportToShareableHandle, (&fd, pool, DESCRIPTOR, 0)) == 0) close(fd);
    OK(cuMemPoolDestroy(pool));
}

static void default_pool(void) {
    int fd = -1;
    start(0);
    Pool pool, own = create(DESCRIPTOR);
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    if (CALL(cuMemPoolExportToShareableHandle, (&fd, bad ? pool : own, DESCRIPTOR, 0)) == 0) close(fd);
    OK(cuMemPoolDestroy(own));
}

/* Exports a pool, which is destroyed already in the wrong program, but lives on with what is allocated of it. */
static void destroyed(void) {
    int fd = -1;
    start(0);
    Pool pool = create(DESCRIPTOR);
    CUdeviceptr p = allocate_from(pool);
    if (bad) OK(cuMemPoolDestroy(pool));
    if (CALL(cuMemPoolExportToShareableHandle, (&fd, pool, DESCRIPTOR, 0)) == 0) close(fd);
    free_now(p);
    if (!bad) OK(cuMemPoolDestroy(pool));
}

/* Exports again what it has imported; in the right program, a pool of its own. */
static void export_again(struct link parent) {
    start(0);
    int fd = -1;
    Pool pool = imported(receive_descriptor()), own = create(DESCRIPTOR);
    if (CALL(cuMemPoolExportToShareableHandle, (&fd, bad ? pool : own, DESCRIPTOR, 0)) == 0) close(fd);
    OK(cuMemPoolDestroy(own));
    OK(cuMemPoolDestroy(pool));
    tell(parent);
}
static void reexport(void) {
    struct link link;
    employ_with_socket(&link, export_again);
    start(0);
    Pool pool = create(DESCRIPTOR);
    int fd = exported(pool);
    send_descriptor(fd);
    close(fd);
    wait_for(link);
    ended(link);
    OK(cuMemPoolDestroy(pool));
}

static void not_exported(void) {
    PoolPointer pointer;
    start(0);
    Pool pool = create(DESCRIPTOR);
    CUdeviceptr p = allocate_from(pool);
    if (!bad) close(exported(pool));
    CALL(cuMemPoolExportPointer, (&pointer, p));
    free_now(p);
    OK(cuMemPoolDestroy(pool));
}

static void no_pool(void) {
    PoolPointer pointer;
    start(0);
    Pool pool = create(DESCRIPTOR);
    close(exported(pool));
    CUdeviceptr p = allocate_from(pool), legacy = allocate();
    CALL(cuMemPoolExportPointer, (&pointer, bad ? legacy : p));
    OK(cuMemFree_v2(legacy));
    free_now(p);
    OK(cuMemPoolDestroy(pool));
}

/* In some scenes, each process shares in a context of its own, which ends before anything else does. Pools belong to no
 * context. */
static int is_in_context;
static CUcontext own_context;
static void enter_context(void) {
    if (is_in_context) OK(cuCtxCreate_v2(&own_context, 0, 0));
}
static void leave_context(void) {
    if (!is_in_context) return;
    OK(cuCtxDestroy_v2(own_context));
    OK(cuCtxSetCurrent(c0));
}

/* Gets a pool and a pointer of it, and frees both in order, if the wrong program does not do otherwise. */
static void use_pool(struct link parent) {
    PoolPointer pointer;
    start(0);
    enter_context();
    Pool pool = imported(receive_descriptor());
    get(parent, &pointer, sizeof pointer);
    CUdeviceptr p = import_pointer(pool, pointer);
    leave_context();
    OK(cuMemsetD32_v2(p, 7, SIZE / 4));
    OK(cuCtxSynchronize());
    tell(parent);
    wait_for(parent);
    free_now(p);
    OK(cuMemPoolDestroy(pool));
    tell(parent);
}

/* Imports its pointer into a pool of its own. */
static void use_own_pool(struct link parent) {
    PoolPointer pointer;
    CUdeviceptr p;
    start(0);
    Pool pool = imported(receive_descriptor()), own = create(DESCRIPTOR);
    get(parent, &pointer, sizeof pointer);
    if (CALL(cuMemPoolImportPointer, (&p, bad ? own : pool, &pointer)) == 0) free_now(p);
    OK(cuMemPoolDestroy(own));
    OK(cuMemPoolDestroy(pool));
    tell(parent);
}

/* Destroys the imported pool before the pointer is freed. */
static void destroy_first(struct link parent) {
    PoolPointer pointer;
    start(0);
    Pool pool = imported(receive_descriptor());
    get(parent, &pointer, sizeof pointer);
    CUdeviceptr p = import_pointer(pool, pointer);
    if (!bad) free_now(p);
    if (CALL(cuMemPoolDestroy, (pool)) != 0) {
        free_now(p);
        OK(cuMemPoolDestroy(pool));
    }
    tell(parent);
}

/* Imports a pointer for each of two users, who free it in turn; in the right program, when the first has freed it. */
static void import_twice(struct link parent) {
    PoolPointer pointer;
    CUdeviceptr p;
    start(0);
    Pool pool = imported(receive_descriptor());
    get(parent, &pointer, sizeof pointer);
    CUdeviceptr first = import_pointer(pool, pointer);
    if (!bad) free_now(first);
    CALL(cuMemPoolImportPointer, (&p, pool, &pointer));
    CHECK(!bad || p == first);
    free_now(p);
    OK(cuMemPoolDestroy(pool));
    tell(parent);
}

/* What is shared with an importer. */
static Pool shared;
static CUdeviceptr memory;
static struct link share_with(void (*work)(struct link)) {
    struct link link;
    employ_with_socket(&link, work);
    start(0);
    enter_context();
    shared = create(DESCRIPTOR);
    memory = allocate_from(shared);
    int fd = exported(shared);
    send_descriptor(fd);
    close(fd);
    PoolPointer pointer = pointer_to(memory);
    put(link, &pointer, sizeof pointer);
    return link;
}

static void share_alone_with(void (*work)(struct link)) {
    struct link link = share_with(work);
    wait_for(link);
    ended(link);
    free_now(memory);
    OK(cuMemPoolDestroy(shared));
}
static void own_pool(void) { share_alone_with(use_own_pool); }
static void imported_twice(void) { share_alone_with(import_twice); }
static void import_in_use(void) { share_alone_with(destroy_first); }

/* Gets two pools of two processes, and their pointers. */
static void use_two(struct link parent) {
    PoolPointer pointers[2];
    CUdeviceptr p;
    start(0);
    Pool pools[2] = {imported(receive_descriptor())};
    get(parent, &pointers[0], sizeof pointers[0]);
    tell(parent);
    pools[1] = imported(receive_descriptor());
    get(parent, &pointers[1], sizeof pointers[1]);
    if (CALL(cuMemPoolImportPointer, (&p, pools[bad ? 0 : 1], &pointers[1])) == 0) free_now(p);
    for (int i = 0; i < 2; i++) OK(cuMemPoolDestroy(pools[i]));
    tell(parent);
}

/* The second owner: what it shares goes over the same socket. */
static void own_another(struct link parent) {
    start(0);
    Pool pool = create(DESCRIPTOR);
    CUdeviceptr p = allocate_from(pool);
    int fd = exported(pool);
    send_descriptor(fd);
    close(fd);
    PoolPointer pointer = pointer_to(p);
    put(parent, &pointer, sizeof pointer);
    wait_for(parent);
    free_now(p);
    OK(cuMemPoolDestroy(pool));
}
static void wrong_pool(void) {
    PoolPointer pointer;
    struct link importer;
    employ_with_socket(&importer, use_two);
    struct link other = employ(own_another);
    get(other, &pointer, sizeof pointer);
    put(importer, &pointer, sizeof pointer);
    wait_for(importer);
    start(0);
    Pool pool = create(DESCRIPTOR);
    CUdeviceptr p = allocate_from(pool);
    int fd = exported(pool);
    send_descriptor(fd);
    close(fd);
    pointer = pointer_to(p);
    put(importer, &pointer, sizeof pointer);
    wait_for(importer);
    ended(importer);
    tell(other);
    ended(other);
    free_now(p);
    OK(cuMemPoolDestroy(pool));
}

/* The owner frees, or destroys the pool, while the importer has what it has imported. */
static void freed_by(CUresult (*free_it)(void)) {
    struct link link = share_with(use_pool);
    wait_for(link);
    leave_context();
    if (!bad) {
        tell(link);
        wait_for(link);
    }
    OK(free_it());
    OK(cuCtxSynchronize());
    if (bad) {
        tell(link);
        wait_for(link);
    }
    ended(link);
    OK(cuMemPoolDestroy(shared));
}
static CUresult in_order(void) { return CALL(cuMemFreeAsync, (memory, NULL)); }
static CUresult at_once(void) { return CALL(cuMemFree_v2, (memory)); }
static void freed(void) { freed_by(in_order); }
static void freed_at_once(void) { freed_by(at_once); }
static void freed_after_context(void) {
    is_in_context = 1;
    freed_by(in_order);
}

static void destroyed_while_open(void) {
    struct link link = share_with(use_pool);
    wait_for(link);
    leave_context();
    if (!bad) {
        tell(link);
        wait_for(link);
        free_now(memory);
    }
    CALL(cuMemPoolDestroy, (shared));
    if (bad) {
        tell(link);
        wait_for(link);
        free_now(memory);
    }
    ended(link);
}
static void destroyed_after_context(void) {
    is_in_context = 1;
    destroyed_while_open();
}

/* Has legacy memory open, and a pool with a pointer. Closes the memory before the exporter's context ends, or too late. */
static void use_pool_and_memory(struct link parent) {
    PoolPointer pointer;
    start(0);
    Pool pool = imported(receive_descriptor());
    get(parent, &pointer, sizeof pointer);
    CUdeviceptr p = import_pointer(pool, pointer), legacy = open_memory(get_handle(parent));
    if (!bad) OK(cuIpcCloseMemHandle(legacy));
    tell(parent);
    wait_for(parent);
    if (bad) OK(cuIpcCloseMemHandle(legacy));
    free_now(p);
    OK(cuMemPoolDestroy(pool));
    tell(parent);
}
/* The context that was current when all of it was made ends. In the right program, only a pool and its memory are open. */
static void context_ended(void) {
    CUcontext context;
    is_in_context = 1;
    struct link link = share_with(use_pool_and_memory);
    context = own_context;
    put_handle(link, export(allocate()));
    wait_for(link);
    CALL(cuCtxDestroy_v2, (context));
    OK(cuCtxSetCurrent(c0));
    OK(cuMemsetD32_v2(memory, 7, SIZE / 4));
    tell(link);
    wait_for(link);
    ended(link);
    free_now(memory);
    OK(cuMemPoolDestroy(shared));
}

/* Closes by an address that is none of legacy IPC: in the wrong program, it had memory of a pool there. */
static void close_pointer(struct link parent) {
    PoolPointer pointer;
    start(0);
    Pool pool = imported(receive_descriptor());
    get(parent, &pointer, sizeof pointer);
    Handle handle = get_handle(parent);
    CUdeviceptr p = import_pointer(pool, pointer), legacy = open_memory(handle);
    free_now(p);
    if (CALL(cuIpcCloseMemHandle, (bad ? p : legacy)) != 0) OK(cuIpcCloseMemHandle(legacy));
    OK(cuMemPoolDestroy(pool));
    tell(parent);
}
static void pointer_closed(void) {
    struct link link = share_with(close_pointer);
    CUdeviceptr legacy = allocate();
    put_handle(link, export(legacy));
    wait_for(link);
    ended(link);
    OK(cuMemFree_v2(legacy));
    free_now(memory);
    OK(cuMemPoolDestroy(shared));
}

/* Imports a pool by what it was sent: in the wrong program only a number. */
static void import_number(struct link parent) {
    Pool pool;
    start(0);
    int number, fd = receive_descriptor();
    get(parent, &number, sizeof number);
    if (CALL(cuMemPoolImportFromShareableHandle, (&pool, as_pointer(bad ? number : fd), DESCRIPTOR, 0)) == 0)
        OK(cuMemPoolDestroy(pool));
    close(fd);
}
/* Descriptors up to 63 are taken in the exporter, so that its export has a number that the importer has not. */
static void pool_by_number(void) {
    struct link link;
    int taken[64], count = 0;
    employ_with_socket(&link, import_number);
    start(0);
    do CHECK((taken[count] = dup(ours)) >= 0);
    while (taken[count++] < 63);
    Pool pool = create(DESCRIPTOR);
    int fd = exported(pool);
    send_descriptor(fd);
    put(link, &fd, sizeof fd);
    ended(link);
    close(fd);
    while (count > 0) close(taken[--count]);
    OK(cuMemPoolDestroy(pool));
}

/* Imports a pool and memory by what it was sent: in the wrong program one as the other. */
static int pool_comes_first;
static void import_kinds(struct link parent) {
    (void)parent;
    Allocation allocation;
    Pool pool;
    start(0);
    int of_pool = receive_descriptor(), of_memory = receive_descriptor();
    if (pool_comes_first) {
        int fd = bad ? of_memory : of_pool;
        if (CALL(cuMemPoolImportFromShareableHandle, (&pool, as_pointer(fd), DESCRIPTOR, 0)) == 0)
            OK(cuMemPoolDestroy(pool));
    } else {
        int fd = bad ? of_pool : of_memory;
        if (CALL(cuMemImportFromShareableHandle, (&allocation, as_pointer(fd), DESCRIPTOR)) == 0)
            OK(cuMemRelease(allocation));
    }
    close(of_pool);
    close(of_memory);
}
static void kinds(int pool_first) {
    struct link link;
    pool_comes_first = pool_first;
    employ_with_socket(&link, import_kinds);
    start(0);
    Pool pool = create(DESCRIPTOR);
    Properties wanted = {.type = 1, .handle_types = DESCRIPTOR, .location = {1, 0}};
    Allocation allocation;
    OK(cuMemCreate(&allocation, 2 << 20, &wanted, 0));
    int of_pool = exported(pool), of_memory;
    OK(cuMemExportToShareableHandle(&of_memory, allocation, DESCRIPTOR, 0));
    send_descriptor(of_pool);
    send_descriptor(of_memory);
    ended(link);
    close(of_pool);
    close(of_memory);
    OK(cuMemRelease(allocation));
    OK(cuMemPoolDestroy(pool));
}
static void pool_as_memory(void) { kinds(0); }
static void memory_as_pool(void) { kinds(1); }

SCENES({"vmm-descriptor/pool", pool_by_number}, {"vmm-descriptor/kind", pool_as_memory},
       {"vmm-descriptor/other-kind", memory_as_pool},
       {"pool-handle-type", handle_type}, {"pool-handle-type/default", default_pool},
       {"pool-handle-type/destroyed", destroyed}, {"pool-handle-type/imported", reexport},
       {"pool-pointer", not_exported}, {"pool-pointer/legacy", no_pool}, {"pool-wrong-pool", wrong_pool},
       {"pool-wrong-pool/own", own_pool}, {"pool-pointer-imported-twice", imported_twice}, {"pool-import-in-use", import_in_use}, {"pool-freed-while-open", freed},
       {"pool-freed-while-open/at-once", freed_at_once}, {"pool-freed-while-open/context", freed_after_context},
       {"pool-destroyed-while-open", destroyed_while_open}, {"pool-destroyed-while-open/context", destroyed_after_context},
       {"ipc-context-ended-while-open/pool", context_ended}, {"ipc-close-address/pool", pointer_closed})
