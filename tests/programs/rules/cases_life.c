/* cases_life CASE bad: what users met, rebuilt, of lifetimes that cross processes. What each is stands at its head; the
 * names are those of tests/check/cases.rs. */
#include "rules.h"
#include <signal.h>

/* An importer with a cache of mappings, which closes when its peer says good-bye. */
static void cache(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    tell(parent);
    wait_for(parent);
    OK(cuIpcCloseMemHandle(p));
}

/* C1: the buffers are destroyed before the other ranks let go of them. */
static void destroyed_first(void) {
    struct link first = employ(cache), second = employ(cache);
    start(0);
    CUdeviceptr p = allocate();
    Handle handle = export(p);
    put_handle(first, handle);
    put_handle(second, handle);
    wait_for(first);
    wait_for(second);
    CALL(cuMemFree_v2, (p));
    tell(first);
    tell(second);
    ended(first);
    ended(second);
}

/* C6: the address comes back with another allocation, and the importer's cache knows addresses. */
static void address_comes_back(void) {
    struct link link = employ(cache);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    wait_for(link);
    CALL(cuMemFree_v2, (p));
    CUdeviceptr next = allocate();
    tell(link);
    ended(link);
    OK(cuMemFree_v2(next));
}

/* C2: a server that opens what each request brings and closes nothing. */
enum { REQUESTS = 8 };
static void never_close(struct link parent) {
    start(0);
    for (int i = 0; i < REQUESTS; i++) {
        open_memory(get_handle(parent));
        tell(parent);
    }
}
static void growing(void) {
    struct link link = employ(never_close);
    CUdeviceptr sent[REQUESTS];
    start(0);
    for (int i = 0; i < REQUESTS; i++) {
        sent[i] = allocate();
        put_handle(link, export(sent[i]));
        wait_for(link);
    }
    ended(link);
    for (int i = 0; i < REQUESTS; i++) OK(cuMemFree_v2(sent[i]));
}

/* C3: a transfer is cut into pieces, and each closes the handle when it is done. */
static void in_pieces(struct link parent) {
    char piece[64];
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    OK(cuMemcpyDtoH_v2(piece, p, sizeof piece));
    OK(cuIpcCloseMemHandle(p));
    CALL(cuIpcCloseMemHandle, (p));
}
static void pieces(void) { export_for(in_pieces); }

/* C5: a library closes in a handler of exit, when the driver has shut down. */
static CUdeviceptr left;
static void close_at_exit(void) {
    answer("cuIpcCloseMemHandle", "4");
    CALL(cuIpcCloseMemHandle, (left));
}
static void late(struct link parent) {
    start(0);
    left = open_memory(get_handle(parent));
    CHECK(atexit(close_at_exit) == 0);
}
static void at_exit(void) { export_for(late); }

/* C7: the producer puts its handle into a queue and ends. */
static void produce(struct link parent) {
    start(0);
    put_handle(parent, export(allocate()));
}
static void producer_first(void) {
    struct link producer = employ(produce);
    CUdeviceptr p;
    Handle queued = get_handle(producer);
    ended(producer);
    start(0);
    CALL(cuIpcOpenMemHandle_v2, (&p, queued, LAZY));
}

/* C9: a peer is killed and started anew, and what the old one sent is still in use. */
static void serve(struct link parent) {
    start(0);
    CUdeviceptr p = allocate();
    put_handle(parent, export(p));
    wait_for(parent);
    OK(cuMemFree_v2(p));
}
static void restarted(void) {
    struct link old = employ(serve), new = employ(serve);
    CUdeviceptr p;
    Handle cached = get_handle(old), fresh = get_handle(new);
    CHECK(kill(old.pid, SIGKILL) == 0 && waitpid(old.pid, NULL, 0) == old.pid);
    start(0);
    OK(cuIpcCloseMemHandle(open_memory(fresh)));
    CALL(cuIpcOpenMemHandle_v2, (&p, cached, LAZY));
    tell(new);
    ended(new);
}

/* C10: the CUDA runtime releases primary contexts in a handler of exit, by the old form, when the driver has shut down.
 * The wrong program opens memory that late, too. */
static struct link user;
static Handle shared;
static void release_at_exit(void) {
    CUdeviceptr p;
    answer("cuDevicePrimaryCtxRelease", "4");
    CALL(cuDevicePrimaryCtxRelease, (0));
    if (bad) {
        answer("cuIpcOpenMemHandle_v2", "4");
        CALL(cuIpcOpenMemHandle_v2, (&p, shared, LAZY));
    }
    tell(user);
    ended(user);
}
static void runtime_exits(void) {
    user = employ(cache);
    CHECK(atexit(release_at_exit) == 0);
    start(0);
    put_handle(user, shared = export(allocate()));
    wait_for(user);
}

SCENES({"C1", destroyed_first}, {"C2", growing}, {"C3", pieces}, {"C5", at_exit}, {"C6", address_comes_back},
       {"C7", producer_first}, {"C9", restarted}, {"C10", runtime_exits})
