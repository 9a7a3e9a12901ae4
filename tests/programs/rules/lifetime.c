/* lifetime RULE bad|good: rules about what processes do to each other over time. The exporter ends what it shares
 * while the importer has it open, or after the importer has closed it. */
#include "rules.h"

static void hold_memory(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    tell(parent);
    wait_for(parent);
    OK(cuIpcCloseMemHandle(p));
    tell(parent);
    wait_for(parent);
}

static void hold_event(struct link parent) {
    CUevent event;
    start(0);
    Handle handle = get_handle(parent);
    OK(cuIpcOpenEventHandle(&event, handle));
    tell(parent);
    wait_for(parent);
    OK(cuEventDestroy_v2(event));
    tell(parent);
    wait_for(parent);
}

/* Ends it now, or after the other one has closed, which is alive in both cases. */
#define END(link, name, args)                                                                                          \
    do {                                                                                                               \
        wait_for(link);                                                                                                \
        if (bad) CALL(name, args);                                                                                     \
        tell(link);                                                                                                    \
        wait_for(link);                                                                                                \
        if (!bad) CALL(name, args);                                                                                    \
        tell(link);                                                                                                    \
        ended(link);                                                                                                   \
    } while (0)

static void freed(void) {
    struct link link = employ(hold_memory);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    END(link, cuMemFree_v2, (p));
}

static void reset(void) {
    struct link link = employ(hold_memory);
    start(0);
    put_handle(link, export(allocate()));
    END(link, cuDevicePrimaryCtxReset_v2, (0));
}

static void released(void) {
    struct link link = employ(hold_memory);
    start(0);
    put_handle(link, export(allocate()));
    END(link, cuDevicePrimaryCtxRelease_v2, (0));
}

static void destroyed(void) {
    CUcontext context;
    struct link link = employ(hold_memory);
    start(0);
    OK(cuCtxCreate_v2(&context, 0, 0));
    put_handle(link, export(allocate()));
    END(link, cuCtxDestroy_v2, (context));
}

static void event_destroyed(void) {
    CUevent event;
    Handle handle;
    struct link link = employ(hold_event);
    start(0);
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    put_handle(link, handle);
    END(link, cuEventDestroy_v2, (event));
}

static void leave_open(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    if (!bad) OK(cuIpcCloseMemHandle(p));
}

static void never_closed(void) { export_for(leave_open); }

static void leave_event(struct link parent) {
    CUevent event;
    start(0);
    Handle handle = get_handle(parent);
    CALL(cuIpcOpenEventHandle, (&event, handle));
    if (!bad) OK(cuEventDestroy_v2(event));
}

static void event_never_closed(void) {
    CUevent event;
    Handle handle;
    struct link link = employ(leave_event);
    start(0);
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    put_handle(link, handle);
    ended(link);
    OK(cuEventDestroy_v2(event));
}

SCENES({"ipc-freed-while-open", freed}, {"ipc-context-ended-while-open", reset},
       {"ipc-context-ended-while-open/release", released}, {"ipc-context-ended-while-open/created", destroyed},
       {"ipc-event-destroyed-while-open", event_destroyed}, {"ipc-never-closed", never_closed},
       {"ipc-never-closed/event", event_never_closed})
