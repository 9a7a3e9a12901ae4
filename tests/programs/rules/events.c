/* events RULE bad|good: what processes do with interprocess events. */
#include "rules.h"

static char text[64];

/* Opens an event, and waits for it; the wrong program does not. */
static void use_event(struct link parent, int uses_memory) {
    CUevent event;
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    CALL(cuIpcOpenEventHandle, (&event, get_handle(parent)));
    tell(parent);
    wait_for(parent);
    if (!bad) OK(cuStreamWaitEvent(NULL, event, 0));
    if (uses_memory) OK(cuMemcpyDtoH_v2(text, p, sizeof text));
    OK(cuEventDestroy_v2(event));
    OK(cuIpcCloseMemHandle(p));
    tell(parent);
}
static void wait_only(struct link parent) { use_event(parent, 0); }
static void wait_and_read(struct link parent) { use_event(parent, 1); }

/* Opens an event, and waits for each of its records; in the wrong program, when there are two of them. */
static void wait_twice(struct link parent) {
    CUevent event;
    start(0);
    OK(cuIpcOpenEventHandle(&event, get_handle(parent)));
    for (int i = 0; i < 2; i++) {
        if (!bad || !i) tell(parent), wait_for(parent);
        OK(cuStreamWaitEvent(NULL, event, 0));
    }
    tell(parent);
    wait_for(parent);
    OK(cuEventDestroy_v2(event));
    tell(parent);
}

static CUevent event_for(struct link link) {
    CUevent event;
    Handle handle;
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    put_handle(link, handle);
    return event;
}

/* Records an event behind a memset of memory that is shared. */
static void unwaited_by(void (*work)(struct link)) {
    struct link link = employ(work);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    CUevent event = event_for(link);
    wait_for(link);
    OK(cuMemsetD32Async(p, 7, sizeof text / 4, NULL));
    OK(cuEventRecord(event, NULL));
    tell(link);
    wait_for(link);
    ended(link);
    OK(cuEventDestroy_v2(event));
    OK(cuMemFree_v2(p));
}
static void unwaited(void) { unwaited_by(wait_only); }
static void unwaited_and_read(void) { unwaited_by(wait_and_read); }

static void recorded_again(void) {
    struct link link = employ(wait_twice);
    start(0);
    CUevent event = event_for(link);
    for (int i = 0; i < 2; i++) {
        if (!bad || !i) wait_for(link);
        if (i) CALL(cuEventRecord, (event, NULL));
        else OK(cuEventRecord(event, NULL));
        if (!bad || i) tell(link);
    }
    wait_for(link);
    tell(link);
    wait_for(link);
    ended(link);
    OK(cuEventDestroy_v2(event));
}

SCENES({"ipc-event-unwaited", unwaited}, {"ipc-event-unwaited/used", unwaited_and_read}, {"ipc-event-recorded-again", recorded_again})
