/* open RULE bad|good: rules about what is opened. The first process exports, the second one opens, unless a scene says
 * otherwise. */
#include "rules.h"
#include <signal.h>

/* Opens what is right. */
static void open_and_close(Handle handle) {
    CUdeviceptr p;
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    OK(cuIpcCloseMemHandle(p));
}

static void with_flags(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    if (bad) CALL(cuIpcOpenMemHandle_v2, (&p, handle, 0));
    else open_and_close(handle);
}
static void flags(void) { export_for(with_flags); }

/* Odd, but not 1. */
static void with_flags_taken(struct link parent) {
    CUdeviceptr p;
    start(0);
    CALL(cuIpcOpenMemHandle_v2, (&p, get_handle(parent), bad ? LAZY | 2 : LAZY));
    OK(cuIpcCloseMemHandle(p));
}
static void flags_taken(void) { export_for(with_flags_taken); }

static void right(struct link parent) {
    start(0);
    open_and_close(get_handle(parent));
}

static void in_exporting_process(void) {
    if (!bad) {
        export_for(right);
        return;
    }
    start(0);
    CUdeviceptr p = allocate(), q;
    Handle handle = export(p);
    CALL(cuIpcOpenMemHandle_v2, (&q, handle, LAZY));
    OK(cuMemFree_v2(p));
}

static void as_kind(struct link parent) {
    CUevent event;
    start(0);
    Handle handle = get_handle(parent);
    if (bad) CALL(cuIpcOpenEventHandle, (&event, handle));
    else open_and_close(handle);
}
static void handle_kind(void) { export_for(as_kind); }

static void event_as_kind(struct link parent) {
    CUdeviceptr p;
    CUevent event;
    start(0);
    Handle handle = get_handle(parent);
    if (bad) {
        CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    } else {
        CALL(cuIpcOpenEventHandle, (&event, handle));
        OK(cuEventDestroy_v2(event));
    }
}

/* Exports an event for another process. */
static void event_for(void (*work)(struct link)) {
    struct link link = employ(work);
    CUevent event;
    Handle handle;
    start(0);
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    put_handle(link, handle);
    ended(link);
    OK(cuEventDestroy_v2(event));
}

static void handle_kind_event(void) { event_for(event_as_kind); }

/* Opens an event on device 0; in the wrong program, device 1 is current when it is recorded. */
static void record_there(struct link parent) {
    CUevent event;
    start(0);
    CUcontext other = retain(1);
    Handle handle = get_handle(parent);
    OK(cuIpcOpenEventHandle(&event, handle));
    if (bad) OK(cuCtxSetCurrent(other));
    CALL(cuEventRecord, (event, NULL));
    OK(cuEventDestroy_v2(event));
}

static void event_context(void) { event_for(record_there); }

/* Opens an event on device 0; in the wrong program, it is recorded in a stream of device 1. */
static void record_in_stream(struct link parent) {
    CUevent event;
    void *stream;
    start(0);
    Handle handle = get_handle(parent);
    OK(cuIpcOpenEventHandle(&event, handle));
    OK(cuCtxSetCurrent(retain(bad)));
    OK(cuStreamCreate(&stream, 1));
    OK(cuCtxSetCurrent(c0));
    CALL(cuEventRecord, (event, stream));
    OK(cuEventDestroy_v2(event));
}

static void event_stream(void) { event_for(record_in_stream); }

/* Creates an event on device 0; in the wrong program, device 1 is current when it is recorded in the default stream. */
static void other_context(void) {
    CUevent event;
    start(0);
    CUcontext other = retain(1);
    OK(cuEventCreate(&event, DISABLE_TIMING));
    if (bad) OK(cuCtxSetCurrent(other));
    CALL(cuEventRecord, (event, NULL));
    OK(cuEventDestroy_v2(event));
}

/* The same with a stream of device 1, while device 0 is current. */
static void other_stream(void) {
    CUevent event;
    void *stream;
    start(0);
    OK(cuEventCreate(&event, DISABLE_TIMING));
    OK(cuCtxSetCurrent(retain(bad)));
    OK(cuStreamCreate(&stream, 1));
    OK(cuCtxSetCurrent(c0));
    CALL(cuEventRecord, (event, stream));
    OK(cuEventDestroy_v2(event));
}

static void after_free_in(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    if (bad) CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    else open_and_close(handle);
}

static void after_free(void) {
    struct link link = employ(after_free_in);
    start(0);
    CUdeviceptr p = allocate();
    Handle handle = export(p);
    if (bad) OK(cuMemFree_v2(p));
    put_handle(link, handle);
    ended(link);
    if (!bad) OK(cuMemFree_v2(p));
}

/* Here the second process exports, and ends. */
static void short_lived(struct link parent) {
    start(0);
    CUdeviceptr p = allocate();
    put_handle(parent, export(p));
    if (bad) return;
    wait_for(parent);
    OK(cuMemFree_v2(p));
}

static void exporter_gone(void) {
    struct link exporter = employ(short_lived);
    CUdeviceptr p;
    Handle handle = get_handle(exporter);
    if (bad) ended(exporter);
    start(0);
    if (bad) {
        CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
        return;
    }
    open_and_close(handle);
    tell(exporter);
    ended(exporter);
}

/* An exporter that is killed, and one that returns, while an importer has its memory open. */
static void waits(struct link parent) {
    start(0);
    put_handle(parent, export(allocate()));
    wait_for(parent);
}
static void exporter_killed(void) {
    struct link exporter = employ(waits);
    Handle handle = get_handle(exporter);
    start(0);
    CUdeviceptr p = open_memory(handle);
    if (bad) {
        CHECK(kill(exporter.pid, SIGKILL) == 0);
        CHECK(waitpid(exporter.pid, NULL, 0) == exporter.pid);
    } else {
        tell(exporter);
        ended(exporter);
    }
    CALL(cuIpcCloseMemHandle, (p));
}

static void second_context_in(struct link parent) {
    CUcontext other;
    CUdeviceptr p, q;
    start(0);
    Handle handle = get_handle(parent);
    p = open_memory(handle);
    OK(cuCtxCreate_v2(&other, 0, 0));
    if (!bad) OK(cuCtxSetCurrent(c0));
    CALL(cuIpcOpenMemHandle_v2, (&q, handle, LAZY));
    OK(cuCtxSetCurrent(c0));
    if (!bad) OK(cuIpcCloseMemHandle(q));
    OK(cuIpcCloseMemHandle(p));
    OK(cuCtxDestroy_v2(other));
}
static void second_context(void) { export_for(second_context_in); }

static void already_mapped_in(struct link parent) {
    CUdeviceptr q;
    start(0);
    Handle handle = get_handle(parent);
    CUdeviceptr p = open_memory(handle);
    if (bad) answer("cuIpcOpenMemHandle_v2", "208");
    CALL(cuIpcOpenMemHandle_v2, (&q, handle, LAZY));
    answer("cuIpcOpenMemHandle_v2", NULL);
    if (!bad) OK(cuIpcCloseMemHandle(q));
    OK(cuIpcCloseMemHandle(p));
}
static void already_mapped(void) { export_for(already_mapped_in); }

/* Two libraries that each open what they are given; one of them, twice, in the right program. */
static void second_library_in(struct link parent) {
    void *first = dlopen(FIRST_LIBRARY, RTLD_NOW), *second = dlopen(SECOND_LIBRARY, RTLD_NOW);
    CHECK(first && second);
    typedef CUresult (*opens)(void *, CUdeviceptr *, Handle);
    opens open_first = (opens)dlsym(first, "open_handle");
    opens open_again = bad ? (opens)dlsym(second, "open_handle") : open_first;
    CUdeviceptr p, q;
    start(0);
    Handle handle = get_handle(parent);
    OK(open_first((void *)cuIpcOpenMemHandle_v2, &p, handle));
    printed("cuIpcOpenMemHandle_v2", open_again((void *)cuIpcOpenMemHandle_v2, &q, handle));
    CHECK(p == q);
    OK(cuIpcCloseMemHandle(q));
    OK(cuIpcCloseMemHandle(p));
}
static void second_library(void) { export_for(second_library_in); }

/* On a machine whose devices cannot reach each other. */
static void devices_apart_in(struct link parent) {
    CUdeviceptr p;
    start(bad ? 1 : 0);
    Handle handle = get_handle(parent);
    if (bad) CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    else open_and_close(handle);
}
static void devices_apart(void) { export_for(devices_apart_in); }

/* The driver looks at byte 24 and not at byte 3. */
static void damaged_in(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    if (bad) handle.bytes[24] ^= 0xff;
    if (bad) CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    else open_and_close(handle);
}
static void damaged_handle(void) { export_for(damaged_in); }

static void damaged_unseen_in(struct link parent) {
    start(0);
    Handle handle = get_handle(parent);
    if (bad) handle.bytes[3] ^= 0xff;
    open_and_close(handle);
}
static void damaged_unseen(void) { export_for(damaged_unseen_in); }

/* A damaged copy of what is open is the same mapping by another name, whichever was opened first. */
static void damaged_again_in(struct link parent) {
    CUdeviceptr p, q;
    start(0);
    Handle handle = get_handle(parent), copy = handle;
    if (bad) copy.bytes[3] ^= 0xff;
    OK(cuIpcOpenMemHandle_v2(&p, handle, LAZY));
    CALL(cuIpcOpenMemHandle_v2, (&q, copy, LAZY));
    CHECK(p == q);
    for (int i = 0; i < 2; i++) OK(cuIpcCloseMemHandle(p));
    OK(cuIpcOpenMemHandle_v2(&p, copy, LAZY));
    OK(cuIpcOpenMemHandle_v2(&q, handle, LAZY));
    for (int i = 0; i < 2; i++) OK(cuIpcCloseMemHandle(i ? p : q));
}
static void damaged_again(void) { export_for(damaged_again_in); }

/* The export failed or was left out, and what is opened are zeros. */
static void unknown_in(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    if (bad) memset(&handle, 0, sizeof handle);
    if (bad) CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    else open_and_close(handle);
}
static void unknown_handle(void) { export_for(unknown_in); }

/* The right one exports the begin, and tells the offset by a way of its own. */
static void offset_in(struct link parent) {
    char text[9] = "";
    size_t offset;
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    get(parent, &offset, sizeof offset);
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    OK(cuMemcpyDtoH_v2(text, p + (bad ? 0 : offset), 8));
    CHECK(strcmp(text, bad ? "the rest" : "the part") == 0);
    OK(cuIpcCloseMemHandle(p));
}

static void offset_not_added(void) {
    size_t offset = OFFSET;
    struct link link = employ(offset_in);
    start(0);
    CUdeviceptr p = allocate();
    OK(cuMemcpyHtoD_v2(p, "the rest", 8));
    OK(cuMemcpyHtoD_v2(p + offset, "the part", 8));
    put_handle(link, export(bad ? p + offset : p));
    put(link, &offset, sizeof offset);
    ended(link);
    OK(cuMemFree_v2(p));
}

/* Reads from a pointer after its close, when another handle is open at the address; the right program reads before. */
static void old_pointer_in(struct link parent) {
    CUdeviceptr p;
    char read[8] = "";
    start(0);
    Handle first = get_handle(parent), second = get_handle(parent);
    CUdeviceptr old = open_memory(first);
    if (!bad) OK(cuMemcpyDtoH_v2(read, old, sizeof read));
    OK(cuIpcCloseMemHandle(old));
    CALL(cuIpcOpenMemHandle_v2, (&p, second, LAZY));
    if (p != old) give_up(CANNOT, __FILE__, __LINE__, "the address is not given again");
    if (bad) OK(cuMemcpyDtoH_v2(read, old, sizeof read));
    OK(cuIpcCloseMemHandle(p));
    exit(memcmp(read, "message1", sizeof read) == 0 ? 0 : 3);
}

static void old_pointer(void) {
    struct link link = employ(old_pointer_in);
    start(0);
    CUdeviceptr first = allocate(), second = allocate();
    OK(cuMemcpyHtoD_v2(first, "message1", 8));
    OK(cuMemcpyHtoD_v2(second, "message2", 8));
    put_handle(link, export(first));
    put_handle(link, export(second));
    ended_with(link, bad ? 3 : 0);
    OK(cuMemFree_v2(first));
    OK(cuMemFree_v2(second));
}

/* Whoever takes the exporter's number for its own gets the other device. */
static void device_order_in(struct link parent) {
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "1,0", 1) == 0);
    start(bad ? 0 : 1);
    open_and_close(get_handle(parent));
}

static void device_order(void) {
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "0,1", 1) == 0);
    struct link link = employ(device_order_in);
    start(0);
    need(1);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    ended(link);
    OK(cuMemFree_v2(p));
}

/* A driver with a result that its documentation does not list. */
static void undocumented_in(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    if (!bad) {
        open_and_close(handle);
        return;
    }
    answer("cuIpcOpenMemHandle_v2", "999");
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    answer("cuIpcOpenMemHandle_v2", NULL);
}
static void undocumented(void) { export_for(undocumented_in); }

/* One of its documented results, for no reason that anybody sees. */
static void failed_in(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    if (!bad) {
        open_and_close(handle);
        return;
    }
    answer("cuIpcOpenMemHandle_v2", "205");
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    answer("cuIpcOpenMemHandle_v2", NULL);
}
static void failed(void) { export_for(failed_in); }

SCENES({"ipc-event-context", event_context}, {"ipc-event-context/stream", event_stream},
       {"event-context", other_context}, {"event-context/stream", other_stream}, {"ipc-flags", flags}, {"ipc-flags/taken", flags_taken}, {"ipc-open-in-exporting-process", in_exporting_process}, {"ipc-handle-kind", handle_kind},
       {"ipc-handle-kind/event", handle_kind_event}, {"ipc-open-after-free", after_free},
       {"ipc-exporter-gone", exporter_gone}, {"ipc-exporter-died", exporter_killed},
       {"ipc-second-context", second_context},
       {"ipc-already-mapped", already_mapped}, {"ipc-second-library", second_library},
       {"ipc-devices-apart", devices_apart}, {"ipc-damaged-handle", damaged_handle},
       {"ipc-damaged-handle/unseen", damaged_unseen}, {"ipc-damaged-handle/again", damaged_again},
       {"ipc-unknown-handle", unknown_handle}, {"ipc-offset-not-added", offset_not_added},
       {"ipc-opened-at-closed-address", old_pointer}, {"ipc-device-order", device_order},
       {"driver-undocumented-result", undocumented}, {"call-failed", failed})
