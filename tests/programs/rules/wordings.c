/* wordings NAME bad: findings whose sentence says more than their rule, so that it does not mislead. What the sentence must
   name, each prints as `name=value`. */
#include "rules.h"
#include <fcntl.h>
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

/* Memory that is allocated shows that its thread had a context: there is none here. */
static void context_never_set(void) {
    Handle handle;
    initialize();
    retain(0);
    say("thread", thread_id());
    CALL(cuIpcGetMemHandle, (&handle, 0x10000000));
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

/* Handles that lose bytes on their way, from the front or from the end. */
static size_t kept;
static void cut(struct link parent) {
    start(0);
    Handle handle = get_handle(parent);
    CUdeviceptr p;
    size_t left = kept;
    memset((char *)&handle + kept, 0, sizeof handle - kept);
    while (!((char *)&handle)[left - 1]) left--;
    say("left", (long)left);
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
}
static void cut_to(size_t length) {
    kept = length;
    say("exporter", getpid());
    export_for(cut);
}
static void cut_8(void) { cut_to(8); }
static void cut_11(void) { cut_to(11); }
static void cut_16(void) { cut_to(16); }
static void cut_24(void) { cut_to(24); }

static int shift;
static void shifted(struct link parent) {
    start(0);
    Handle handle = get_handle(parent), other;
    CUdeviceptr p;
    size_t rest = sizeof handle - (size_t)abs(shift);
    memset(&other, 0, sizeof other);
    if (shift < 0) memcpy(&other, (char *)&handle - shift, rest);
    else memcpy((char *)&other + shift, &handle, rest);
    CALL(cuIpcOpenMemHandle_v2, (&p, other, LAZY));
}
static void shift_by(int bytes) {
    shift = bytes;
    say("exporter", getpid());
    export_for(shifted);
}
static void shift_back_4(void) { shift_by(-4); }
static void shift_back_8(void) { shift_by(-8); }
static void shift_on_4(void) { shift_by(4); }
static void shift_on_8(void) { shift_by(8); }

/* Opened twice, closed once. */
static void close_too_few(struct link parent) {
    start(0);
    Handle handle = get_handle(parent);
    CUdeviceptr p = open_memory(handle);
    CHECK(open_memory(handle) == p);
    OK(cuIpcCloseMemHandle(p));
    tell(parent);
    wait_for(parent);
    OK(cuIpcCloseMemHandle(p));
}
static void freed_opened_twice(void) {
    struct link importer = employ(close_too_few);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(importer, export(p));
    wait_for(importer);
    say("importer", importer.pid);
    CALL(cuMemFree_v2, (p));
    tell(importer);
    ended(importer);
}

/* An address that another process has opened something at. */
static void open_and_tell(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    put(parent, &p, sizeof p);
    wait_for(parent);
    OK(cuIpcCloseMemHandle(p));
}
static void close_others(struct link parent) {
    CUdeviceptr p;
    start(0);
    get(parent, &p, sizeof p);
    CALL(cuIpcCloseMemHandle, (p));
}
static void close_elsewhere(void) {
    struct link importer = employ(open_and_tell), other = employ(close_others);
    CUdeviceptr p;
    start(0);
    CUdeviceptr own = allocate();
    put_handle(importer, export(own));
    get(importer, &p, sizeof p);
    say("importer", importer.pid);
    put(other, &p, sizeof p);
    ended(other);
    tell(importer);
    ended(importer);
    OK(cuMemFree_v2(own));
}

/* A context that ends with one thing that another process has open. */
static void hold_memory(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    tell(parent);
    wait_for(parent);
    OK(cuIpcCloseMemHandle(p));
}
static void reset_with_one(void) {
    struct link importer = employ(hold_memory);
    start(0);
    put_handle(importer, export(allocate()));
    wait_for(importer);
    say("importer", importer.pid);
    CALL(cuDevicePrimaryCtxReset_v2, (0));
    tell(importer);
    ended(importer);
}
static void hold_event(struct link parent) {
    CUevent event;
    start(0);
    OK(cuIpcOpenEventHandle(&event, get_handle(parent)));
    tell(parent);
    wait_for(parent);
    OK(cuEventDestroy_v2(event));
}
static void destroy_with_event(void) {
    struct link importer = employ(hold_event);
    CUevent event;
    Handle handle;
    create_context();
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    put_handle(importer, handle);
    wait_for(importer);
    say("importer", importer.pid);
    CALL(cuCtxDestroy_v2, (c0));
    tell(importer);
    ended(importer);
}

/* A pointer inside of its allocation. */
static void open_start(struct link parent) {
    start(0);
    CUdeviceptr p;
    Handle handle = get_handle(parent);
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    OK(cuIpcCloseMemHandle(p));
}
static void interior(void) {
    struct link importer = employ(open_start);
    Handle handle;
    start(0);
    say("exporter", getpid());
    CUdeviceptr p = allocate();
    CALL(cuIpcGetMemHandle, (&handle, p + OFFSET));
    put_handle(importer, handle);
    ended(importer);
    OK(cuMemFree_v2(p));
}

/* Failures that no rule decides; the driver is told to answer so. */
static const char *told;
static void open_as_told(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    answer("cuIpcOpenMemHandle_v2", told);
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    answer("cuIpcOpenMemHandle_v2", NULL);
}
static void fails_as(const char *result) {
    told = result;
    export_for(open_as_told);
}
static void fails_with_map_failed(void) { fails_as("205"); }
static void fails_with_unknown(void) { fails_as("999"); }

/* A device that this process may not use, where the system does not list who may; with one of its own, and with three. */
static const char *visible;
static void open_hidden(struct link parent) {
    CHECK(setenv("CUDA_VISIBLE_DEVICES", visible, 1) == 0);
    open_as_told(parent);
}
static void hidden_from(const char *devices) {
    told = "1";
    visible = devices;
    struct link importer = employ(open_hidden);
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "0", 1) == 0);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(importer, export(p));
    ended(importer);
    OK(cuMemFree_v2(p));
}
static void hidden_from_one(void) { hidden_from("1"); }
static void hidden_from_two(void) { hidden_from("1,2"); }
static void hidden_from_three(void) { hidden_from("1,2,3"); }

/* What is exported from an address again. */
static void export_again(void) {
    struct link importer = employ(hold_memory);
    Handle handle;
    start(0);
    CUdeviceptr p = allocate();
    put_handle(importer, export(p));
    wait_for(importer);
    say("importer", importer.pid);
    OK(cuMemFree_v2(p));
    CHECK(allocate() == p);
    CALL(cuIpcGetMemHandle, (&handle, p));
    /* Once more what is exported is no news. */
    CALL(cuIpcGetMemHandle, (&handle, p));
    tell(importer);
    ended(importer);
    OK(cuMemFree_v2(p));
}

/* An exporter and an importer that know each other by two pipes with names only. */
static struct link pipes(int is_exporter) {
    const char *to = getenv(is_exporter ? "THERE" : "BACK"), *from = getenv(is_exporter ? "BACK" : "THERE");
    struct link link = {0, -1, -1};
    CHECK(to && from);
    /* Each waits for the other one to open the same. */
    if (is_exporter) link.out = open(to, O_WRONLY | O_CLOEXEC);
    link.in = open(from, O_RDONLY | O_CLOEXEC);
    if (!is_exporter) link.out = open(to, O_WRONLY | O_CLOEXEC);
    CHECK(link.in >= 0 && link.out >= 0);
    return link;
}
static void give(void) {
    struct link importer = pipes(1);
    start(0);
    CUdeviceptr p = allocate();
    pid_t own = getpid();
    put_handle(importer, export(p));
    put(importer, &own, sizeof own);
    wait_for(importer);
    OK(cuMemFree_v2(p));
}
static void take_as(int is_damaged, int closes) {
    struct link exporter = pipes(0);
    pid_t pid;
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(exporter);
    get(exporter, &pid, sizeof pid);
    say("exporter", pid);
    if (is_damaged) handle.bytes[25] ^= 0xff;
    if (CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY)) == 0)
        while (closes--) CALL(cuIpcCloseMemHandle, (p));
    tell(exporter);
}
static void take(void) { take_as(0, 1); }
static void take_other(void) { take_as(1, 1); }
static void take_and_close_twice(void) { take_as(0, 2); }

SCENES({"fork-initialised", fork_initialised}, {"fork-twice", fork_twice}, {"fork-uninitialised", fork_uninitialised},
       {"context-with-openings", context_with_openings}, {"context-without-openings", context_without_openings},
       {"context-popped", context_popped}, {"context-of-other-thread", context_of_other_thread},
       {"context-never-set", context_never_set}, {"closed-by-thread", closed_by_thread},
       {"closed-with-context", closed_with_context}, {"cut-8", cut_8}, {"cut-11", cut_11}, {"cut-16", cut_16},
       {"cut-24", cut_24}, {"shift-back-4", shift_back_4}, {"shift-back-8", shift_back_8}, {"shift-on-4", shift_on_4},
       {"shift-on-8", shift_on_8}, {"freed-opened-twice", freed_opened_twice}, {"close-elsewhere", close_elsewhere},
       {"reset-with-one", reset_with_one}, {"destroy-with-event", destroy_with_event}, {"interior", interior},
       {"fails-with-map-failed", fails_with_map_failed}, {"fails-with-unknown", fails_with_unknown},
       {"hidden-from-one", hidden_from_one}, {"hidden-from-two", hidden_from_two},
       {"hidden-from-three", hidden_from_three}, {"address-reused", export_again}, {"give", give}, {"take", take}, {"take-other", take_other},
       {"take-and-close-twice", take_and_close_twice})
