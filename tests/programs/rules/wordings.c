/* wordings NAME bad: findings whose sentence says more than their rule, so that it does not mislead. What the sentence must
   name, each prints as `name=value`. */
#include "rules.h"
#include <pthread.h>
#include <sys/syscall.h>

static void say(const char *name, long value) { dprintf(1, "%s=%ld\n", name, value); }
static long thread_id(void) { return syscall(SYS_gettid); }

static void in_thread(void *(*what)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, what, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

/* A child of a process that has initialised the driver, and that nobody has seen doing so. */
static void ask(struct link parent) {
    int can;
    say("child", getpid());
    CALL(cuDeviceCanAccessPeer, (&can, 0, 1));
    tell(parent);
}
static void fork_initialised(void) {
    start(0);
    say("parent", getpid());
    struct link child = employ(ask);
    wait_for(child);
    ended(child);
}

/* The child of such a child: which of the two has initialised it, it cannot know. */
static void ask_further(struct link parent) {
    struct link child = employ(ask);
    wait_for(child);
    ended(child);
    tell(parent);
}
static void fork_twice(void) {
    start(0);
    struct link child = employ(ask_further);
    wait_for(child);
    ended(child);
}

/* Here nobody has initialised it before the fork. */
static void ask_late(struct link parent) {
    wait_for(parent);
    load();
    ask(parent);
}
static void fork_uninitialised(void) {
    struct link child = employ(ask_late);
    start(0);
    tell(child);
    wait_for(child);
    ended(child);
}

/* A thread whose context is gone: ended by itself, with what was open in it and without, or set aside. */
static void create_context(void) {
    load();
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&c0, 0, 0));
}
static void open_after_destroy(struct link parent) {
    create_context();
    Handle handle = get_handle(parent);
    CUdeviceptr p = open_memory(handle);
    OK(cuCtxDestroy_v2(c0));
    say("thread", thread_id());
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
}
static void context_with_openings(void) { export_for(open_after_destroy); }

static void open_after_close(struct link parent) {
    create_context();
    Handle handle = get_handle(parent);
    CUdeviceptr p = open_memory(handle);
    OK(cuIpcCloseMemHandle(p));
    OK(cuCtxDestroy_v2(c0));
    say("thread", thread_id());
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
}
static void context_without_openings(void) { export_for(open_after_close); }

static void close_after_pop(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    OK(cuCtxSetCurrent(NULL));
    say("thread", thread_id());
    CALL(cuIpcCloseMemHandle, (p));
    OK(cuCtxSetCurrent(c0));
    OK(cuIpcCloseMemHandle(p));
}
static void context_popped(void) { export_for(close_after_pop); }

static CUdeviceptr opened;
static void *close_there(void *unused) {
    say("thread", thread_id());
    CALL(cuIpcCloseMemHandle, (opened));
    return unused;
}
static void close_in_thread(struct link parent) {
    start(0);
    opened = open_memory(get_handle(parent));
    in_thread(close_there);
    OK(cuIpcCloseMemHandle(opened));
}
static void context_of_other_thread(void) { export_for(close_in_thread); }

static void context_never_set(void) {
    Handle handle;
    start(0);
    CUdeviceptr p = allocate();
    OK(cuCtxSetCurrent(NULL));
    say("thread", thread_id());
    CALL(cuIpcGetMemHandle, (&handle, p));
    OK(cuCtxSetCurrent(c0));
    OK(cuMemFree_v2(p));
}

/* The first close is another thread's. */
static void *close_first(void *unused) {
    OK(cuCtxSetCurrent(c0));
    say("closer", thread_id());
    OK(cuIpcCloseMemHandle(opened));
    return unused;
}
static void close_second(struct link parent) {
    start(0);
    opened = open_memory(get_handle(parent));
    in_thread(close_first);
    CALL(cuIpcCloseMemHandle, (opened));
}
static void closed_by_thread(void) { export_for(close_second); }

static void close_with_context(struct link parent) {
    create_context();
    CUdeviceptr p = open_memory(get_handle(parent));
    OK(cuCtxDestroy_v2(c0));
    say("closer", thread_id());
    c1 = retain(0);
    OK(cuCtxSetCurrent(c1));
    CALL(cuIpcCloseMemHandle, (p));
}
static void closed_with_context(void) { export_for(close_with_context); }

SCENES({"fork-initialised", fork_initialised}, {"fork-twice", fork_twice}, {"fork-uninitialised", fork_uninitialised},
       {"context-with-openings", context_with_openings}, {"context-without-openings", context_without_openings},
       {"context-popped", context_popped}, {"context-of-other-thread", context_of_other_thread},
       {"context-never-set", context_never_set}, {"closed-by-thread", closed_by_thread},
       {"closed-with-context", closed_with_context})
