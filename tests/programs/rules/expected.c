/* expected SCENE bad|good: calls whose failure is an answer, and libraries that close late by design. Where LIBRARY names a
 * library, that makes the call on which the scene turns; else this program does. What each is stands at its head. */
#include "memory.h"
#include <pthread.h>

static int (*make_call)(void *, unsigned long, unsigned long, unsigned long, unsigned long);
static CUresult (*open_handle)(void *, CUdeviceptr *, Handle);

static int own_call(void *function, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    int result = ((int (*)(unsigned long, unsigned long, unsigned long, unsigned long))function)(a, b, c, d);
    __asm__ volatile("" ::: "memory");
    return result;
}

static CUresult own_open(void *function, CUdeviceptr *p, Handle handle) {
    CUresult result = ((CUresult (*)(CUdeviceptr *, Handle, unsigned))function)(p, handle, LAZY);
    __asm__ volatile("" ::: "memory");
    return result;
}

static void choose_caller(void) {
    const char *path = getenv("LIBRARY");
    make_call = own_call;
    open_handle = own_open;
    if (!path) return;
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library);
    *(void **)&make_call = dlsym(library, "make_call");
    *(void **)&open_handle = dlsym(library, "open_handle");
    CHECK(make_call && open_handle);
}
#define MADE(name, a, b, c, d)                                                                                         \
    printed(#name, (CUresult)make_call((void *)name, (unsigned long)(a), (unsigned long)(b), (unsigned long)(c), d))

/* Asks whether memory is virtual; the wrong one takes an answer of another function with the same code for one. */
static void retain_handle(void) {
    Allocation allocation;
    int on_the_stack = 0;
    start(0);
    choose_caller();
    CUdeviceptr p = allocate();
    for (int i = 0; i < 3; i++) MADE(cuMemRetainAllocationHandle, &allocation, i ? p : (CUdeviceptr)&on_the_stack, 0, 0);
    if (bad) MADE(cuMemAddressFree, p, SIZE, 0, 0);
    OK(cuMemFree_v2(p));
}

/* Tries fabric handles, and does without; the wrong one gives up, and allocates memory that it cannot share. */
static void *create_other(void *types) {
    OK(cuCtxSetCurrent(c0));
    OK(cuMemRelease(create((int)(long)types)));
    return NULL;
}
static CUresult create_fabric(void) {
    Allocation allocation;
    Properties wanted = properties(FABRIC | DESCRIPTOR);
    return MADE(cuMemCreate, &allocation, SIZE, &wanted, 0);
}
static void fabric(void) {
    start(0);
    choose_caller();
    CHECK(create_fabric() != 0);
    create_other((void *)(long)(bad ? NONE : DESCRIPTOR));
}
/* Tries it twice before it does without; in the wrong one, only another thread has another handle type. */
static void fabric_twice(void) {
    pthread_t other;
    start(0);
    choose_caller();
    CHECK(create_fabric() != 0 && create_fabric() != 0);
    if (bad) {
        CHECK(pthread_create(&other, NULL, create_other, (void *)(long)DESCRIPTOR) == 0);
        CHECK(pthread_join(other, NULL) == 0);
    } else {
        create_other((void *)(long)DESCRIPTOR);
    }
}
/* Tries it, and is killed or leaves without a word. */
static void fabric_and_leave(void) {
    start(0);
    choose_caller();
    CHECK(create_fabric() != 0);
    dprintf(1, "done\n");
    _exit(0);
}

/* Imports what is of each pool by trying all pointers, as streamOrderedAllocationIPC does; the wrong one tries only one. */
static void try_pointers(struct link parent) {
    PoolPointer pointers[2];
    CUdeviceptr p[2] = {0, 0};
    Pool pools[2];
    start(0);
    choose_caller();
    for (int i = 0; i < 2; i++) {
        int fd = receive_descriptor();
        OK(cuMemPoolImportFromShareableHandle(&pools[i], as_pointer(fd), DESCRIPTOR, 0));
        close(fd);
        get(parent, &pointers[i], sizeof pointers[i]);
        tell(parent);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 1; j >= 0 && !p[i]; j--) {
            if (bad && i == j) continue;
            if (MADE(cuMemPoolImportPointer, &p[i], pools[i], &pointers[j], 0) != 0) p[i] = 0;
        }
    for (int i = 0; i < 2; i++) {
        if (p[i]) OK(cuMemFreeAsync(p[i], NULL));
        OK(cuCtxSynchronize());
        OK(cuMemPoolDestroy(pools[i]));
    }
    tell(parent);
}
static Pool create_pool(CUdeviceptr *p) {
    Pool pool;
    PoolProperties wanted = {.type = PINNED, .handle_types = DESCRIPTOR, .location = {DEVICE, 0}};
    OK(cuMemPoolCreate(&pool, &wanted));
    OK(cuMemAllocFromPoolAsync(p, SIZE, pool, NULL));
    OK(cuCtxSynchronize());
    return pool;
}
static void send_pool(struct link link, Pool pool, CUdeviceptr p) {
    PoolPointer pointer;
    int fd;
    OK(cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0));
    send_descriptor(fd);
    close(fd);
    OK(cuMemPoolExportPointer(&pointer, p));
    put(link, &pointer, sizeof pointer);
    wait_for(link);
}
static void pointers(void) {
    struct link link;
    CUdeviceptr p[2];
    Pool pools[2];
    employ_with_socket(&link, try_pointers);
    start(0);
    for (int i = 0; i < 2; i++) pools[i] = create_pool(&p[i]);
    for (int i = 0; i < 2; i++) send_pool(link, pools[i], p[i]);
    wait_for(link);
    ended(link);
    for (int i = 0; i < 2; i++) {
        OK(cuMemFreeAsync(p[i], NULL));
        OK(cuCtxSynchronize());
        OK(cuMemPoolDestroy(pools[i]));
    }
}

/* Enables what is enabled. */
static void enable(void) {
    start(0);
    choose_caller();
    c1 = retain(1);
    OK(cuCtxEnablePeerAccess(c1, 0));
    MADE(cuCtxEnablePeerAccess, c1, 0, 0, 0);
}

/* Keeps open what it has opened until it is told to close; in the wrong program until it ends. */
enum { ONCE, AGAIN };
static int times;
static void keep(struct link parent) {
    CUdeviceptr p, again;
    start(0);
    choose_caller();
    Handle handle = get_handle(parent);
    OK(open_handle((void *)cuIpcOpenMemHandle_v2, &p, handle));
    if (times == AGAIN) OK(own_open((void *)cuIpcOpenMemHandle_v2, &again, handle));
    tell(parent);
    wait_for(parent);
    if (!bad) {
        OK(cuIpcCloseMemHandle(p));
        if (times == AGAIN) OK(cuIpcCloseMemHandle(again));
    }
}
static void keep_without_library(struct link parent) {
    unsetenv("LIBRARY");
    keep(parent);
}
static void late(void (*work)(struct link), void (*other)(struct link), int is_reset) {
    struct link links[2];
    links[0] = employ(work);
    if (other) links[1] = employ(other);
    start(0);
    CUdeviceptr p = allocate();
    Handle handle = export(p);
    for (int i = 0; i < (other ? 2 : 1); i++) {
        put_handle(links[i], handle);
        wait_for(links[i]);
    }
    if (is_reset) CALL(cuDevicePrimaryCtxReset_v2, (0));
    else CALL(cuMemFree_v2, (p));
    for (int i = 0; i < (other ? 2 : 1); i++) {
        tell(links[i]);
        ended(links[i]);
    }
}
static void late_freed(void) { late(keep, NULL, 0); }
static void late_reset(void) { late(keep, NULL, 1); }
/* Somebody else has it open as well: the same process, or another one. */
static void late_again(void) {
    times = AGAIN;
    late(keep, NULL, 0);
}
static void late_both(void) { late(keep, keep_without_library, 0); }

/* The address is exported anew while the old memory is open. */
static void late_reused(void) {
    struct link link = employ(keep);
    Handle handle;
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    wait_for(link);
    OK(cuMemFree_v2(p));
    CHECK(allocate() == p);
    CALL(cuIpcGetMemHandle, (&handle, p));
    tell(link);
    ended(link);
    OK(cuMemFree_v2(p));
}

/* Memory of a pool, which its owner frees, and the pool, which it destroys. */
static void keep_pointer(struct link parent) {
    PoolPointer pointer;
    CUdeviceptr p;
    Pool pool;
    start(0);
    choose_caller();
    int fd = receive_descriptor();
    CHECK(make_call((void *)cuMemPoolImportFromShareableHandle, (unsigned long)&pool, (unsigned long)as_pointer(fd), DESCRIPTOR, 0) == 0);
    close(fd);
    get(parent, &pointer, sizeof pointer);
    CHECK(make_call((void *)cuMemPoolImportPointer, (unsigned long)&p, (unsigned long)pool, (unsigned long)&pointer, 0) == 0);
    tell(parent);
    wait_for(parent);
    OK(cuMemFreeAsync(p, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemPoolDestroy(pool));
}
static void late_pool(void) {
    struct link link;
    CUdeviceptr p;
    employ_with_socket(&link, keep_pointer);
    start(0);
    Pool pool = create_pool(&p);
    send_pool(link, pool, p);
    CALL(cuMemFreeAsync, (p, NULL));
    OK(cuCtxSynchronize());
    CALL(cuMemPoolDestroy, (pool));
    tell(link);
    ended(link);
}

SCENES({"retain", retain_handle}, {"fabric", fabric}, {"fabric/twice", fabric_twice}, {"fabric/leave", fabric_and_leave},
       {"pointers", pointers}, {"enable", enable}, {"late/freed", late_freed}, {"late/reset", late_reset},
       {"late/again", late_again}, {"late/both", late_both}, {"late/reused", late_reused}, {"late/pool", late_pool})
