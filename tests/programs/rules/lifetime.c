/* lifetime RULE bad|good: rules about what processes do to each other over time. The exporter ends what it shares
 * while the importer has it open, or after the importer has closed it. */
#include "rules.h"
#include <signal.h>
#include <sys/personality.h>

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

/* Holds it in a context of its own, which then ends in one of the ways that do so: with it all that it had open ends. In
 * the wrong program somebody else still has that context. */
enum { DETACH, OLD_DESTROY, OLD_RELEASE, OLD_RESET, RELEASE_OF_ANOTHER };
static int how;

static void hold_in_context(struct link parent) {
    CUcontext context;
    start(0);
    if (how == OLD_RELEASE || how == OLD_RESET) context = c0;
    else OK(cuCtxCreate_v2(&context, 0, 0));
    CUdeviceptr p = open_memory(get_handle(parent));
    if (how == DETACH) {
        if (bad) OK(cuCtxAttach(&context, 0));
        OK(cuCtxDetach(context));
    }
    if (how == OLD_DESTROY && !bad) OK(cuCtxDestroy(context));
    if (how == OLD_RELEASE) {
        if (bad) retain(0);
        OK(cuDevicePrimaryCtxRelease(0));
    }
    if (how == OLD_RESET && !bad) OK(cuDevicePrimaryCtxReset(0));
    if (how == RELEASE_OF_ANOTHER) {
        OK(cuDevicePrimaryCtxRelease_v2(0));
        if (!bad) OK(cuIpcCloseMemHandle(p));
    }
    tell(parent);
    wait_for(parent);
}

/* Frees when the other one says that it is done with it. */
static void freed_after(int way) {
    how = way;
    struct link link = employ(hold_in_context);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    wait_for(link);
    CALL(cuMemFree_v2, (p));
    tell(link);
    ended(link);
}
static void freed_after_detach(void) { freed_after(DETACH); }
static void freed_after_old_destroy(void) { freed_after(OLD_DESTROY); }
static void freed_after_old_release(void) { freed_after(OLD_RELEASE); }
static void freed_after_old_reset(void) { freed_after(OLD_RESET); }
static void freed_after_release_of_another(void) { freed_after(RELEASE_OF_ANOTHER); }

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
    wait_for(link);
    if (bad) CALL(cuMemFree_v2, (p));
    tell(link);
    wait_for(link);
    if (!bad) CALL(cuMemFree_v2, (p));
    tell(link);
    ended(link);
}

static void reset(void) {
    struct link link = employ(hold_memory);
    start(0);
    put_handle(link, export(allocate()));
    wait_for(link);
    if (bad) CALL(cuDevicePrimaryCtxReset_v2, (0));
    tell(link);
    wait_for(link);
    if (!bad) CALL(cuDevicePrimaryCtxReset_v2, (0));
    tell(link);
    ended(link);
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

/* Opens an event that the exporter destroys before, or once this process is done with it. */
static void open_late(struct link parent) {
    CUevent event;
    start(0);
    Handle handle = get_handle(parent);
    CALL(cuIpcOpenEventHandle, (&event, handle));
    OK(cuEventDestroy_v2(event));
    tell(parent);
    wait_for(parent);
}
static void event_opened_late(void) {
    CUevent event;
    Handle handle;
    struct link link = employ(open_late);
    start(0);
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    if (bad) OK(cuEventDestroy_v2(event));
    put_handle(link, handle);
    wait_for(link);
    if (!bad) OK(cuEventDestroy_v2(event));
    tell(link);
    ended(link);
}

static void event_destroyed(void) {
    CUevent event;
    Handle handle;
    struct link link = employ(hold_event);
    start(0);
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    put_handle(link, handle);
    wait_for(link);
    if (bad) CALL(cuEventDestroy_v2, (event));
    tell(link);
    wait_for(link);
    if (!bad) CALL(cuEventDestroy_v2, (event));
    tell(link);
    ended(link);
}

static void freed_async(void) {
    struct link link = employ(hold_memory);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    END(link, cuMemFreeAsync, (p, NULL));
}

static void old_destroyed(void) {
    CUcontext context;
    struct link link = employ(hold_memory);
    start(0);
    OK(cuCtxCreate_v2(&context, 0, 0));
    put_handle(link, export(allocate()));
    END(link, cuCtxDestroy, (context));
}

static void detached(void) {
    CUcontext context;
    struct link link = employ(hold_memory);
    start(0);
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuCtxAttach(&context, 0));
    put_handle(link, export(allocate()));
    wait_for(link);
    OK(cuCtxDetach(context)); /* not the last one */
    if (bad) CALL(cuCtxDetach, (context));
    tell(link);
    wait_for(link);
    if (!bad) CALL(cuCtxDetach, (context));
    tell(link);
    ended(link);
}

static void old_released(void) {
    struct link link = employ(hold_memory);
    start(0);
    put_handle(link, export(allocate()));
    END(link, cuDevicePrimaryCtxRelease, (0));
}

static void old_reset(void) {
    struct link link = employ(hold_memory);
    start(0);
    put_handle(link, export(allocate()));
    END(link, cuDevicePrimaryCtxReset, (0));
}

/* Memory of one context is exported while another one is current. In the right program it is that other one which
 * ends, and the primary one of the device, which a library retains and releases, and resets. */
static void owned(void) {
    CUcontext owner, other;
    struct link link = employ(hold_memory);
    start(0);
    OK(cuCtxCreate_v2(&other, 0, 0));
    OK(cuCtxCreate_v2(&owner, 0, 0));
    CUdeviceptr p = allocate();
    OK(cuCtxSetCurrent(other));
    put_handle(link, export(p));
    wait_for(link);
    if (bad) {
        CALL(cuCtxDestroy_v2, (owner));
    } else {
        CALL(cuCtxDestroy_v2, (other));
        OK(cuDevicePrimaryCtxReset_v2(0));
        CALL(cuDevicePrimaryCtxRelease_v2, (0));
        OK(cuCtxSetCurrent(owner));
    }
    tell(link);
    wait_for(link);
    if (!bad) OK(cuMemFree_v2(p));
    tell(link);
    ended(link);
}

static void event_old_destroyed(void) {
    CUevent event;
    Handle handle;
    struct link link = employ(hold_event);
    start(0);
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    put_handle(link, handle);
    END(link, cuEventDestroy, (event));
}

/* Exports and destroys events, executes itself, and has another one's event open as one that has just begun: addresses
 * come again where they are not scattered. */
static void executing(struct link parent) {
    char *stage = getenv("STAGE"), text[64];
    CUevent event;
    Handle handle;
    if (!stage) {
        start(0);
        for (int i = 0; i < 300; i++) {
            OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
            OK(cuIpcGetEventHandle(&handle, event));
            OK(cuEventDestroy_v2(event));
        }
        snprintf(text, sizeof text, "%d,%d", parent.in, parent.out);
        CHECK(setenv("STAGE", text, 1) == 0);
        execl("/proc/self/exe", "lifetime", "ipc-event-destroyed-while-open/exec", bad ? "bad" : "good", NULL);
        CHECK(0);
    }
    start(0);
    handle = get_handle(parent);
    OK(cuIpcOpenEventHandle(&event, handle));
    if (!bad) OK(cuEventDestroy_v2(event));
    tell(parent);
    wait_for(parent);
    exit(0);
}

static void event_destroyed_after_exec(void) {
    struct link parent = {0, -1, -1};
    CUevent event;
    Handle handle;
    if (getenv("STAGE")) {
        CHECK(sscanf(getenv("STAGE"), "%d,%d", &parent.in, &parent.out) == 2);
        executing(parent);
    }
    personality(ADDR_NO_RANDOMIZE); /* of what is executed; where that is forbidden they come again by chance */
    struct link link = employ(executing);
    start(0);
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    put_handle(link, handle);
    wait_for(link);
    CALL(cuEventDestroy_v2, (event));
    tell(link);
    ended(link);
}

/* One process after the other exports much and ends with it; then somebody opens what the last one had. Between them one
 * exports that lives on, and has all of it open elsewhere. No scene of the table. */
enum { GENERATIONS = 120, OF_EACH = 16 };

static void export_much(struct link parent) {
    Handle handle;
    start(0);
    for (int i = 0; i < OF_EACH; i++) handle = export(allocate());
    put_handle(parent, handle);
}

/* Has no driver of its own, so that its children may have theirs. */
static void bring_forth(struct link parent) {
    Handle handle;
    wait_for(parent);
    for (int i = 0; i < GENERATIONS; i++) {
        struct link link = employ(export_much);
        handle = get_handle(link);
        ended(link);
    }
    put_handle(parent, handle);
}

static void generations(void) {
    struct link lives = employ(hold_memory), mother = employ(bring_forth);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(lives, export(p));
    wait_for(lives);
    tell(mother);
    Handle handle = get_handle(mother);
    ended(mother);
    if (bad) CHECK(cuIpcOpenMemHandle_v2(&(CUdeviceptr){0}, handle, LAZY) != 0);
    if (bad) OK(cuMemFree_v2(p));
    tell(lives);
    wait_for(lives);
    if (!bad) OK(cuMemFree_v2(p));
    tell(lives);
    ended(lives);
}

/* Is killed and has not closed; the right program waits for that. No scene of the table: the importer is never right. */
static void hold_until_killed(struct link parent) {
    start(0);
    open_memory(get_handle(parent));
    tell(parent);
    pause();
}

static void freed_after_kill(void) {
    int status;
    struct link link = employ(hold_until_killed);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    wait_for(link);
    if (bad) CALL(cuMemFree_v2, (p));
    CHECK(kill(link.pid, SIGKILL) == 0 && waitpid(link.pid, &status, 0) == link.pid);
    if (!bad) CALL(cuMemFree_v2, (p));
}

static void leave_open(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    if (!bad) OK(cuIpcCloseMemHandle(p));
}

static void never_closed(void) { export_for(leave_open); }

enum { OPENED = 16 };

static void export_many_for(void (*importer)(struct link)) {
    CUdeviceptr all[OPENED];
    struct link link = employ(importer);
    start(0);
    for (int i = 0; i < OPENED; i++) put_handle(link, export(all[i] = allocate()));
    ended(link);
    for (int i = 0; i < OPENED; i++) OK(cuMemFree_v2(all[i]));
}

static void forget_some(struct link parent) {
    CUdeviceptr p;
    CUresult result = 0;
    start(0);
    for (int i = 0; i < OPENED; i++) {
        Handle handle = get_handle(parent);
        OK(result = cuIpcOpenMemHandle_v2(&p, handle, LAZY));
        if (bad) if (i % 4 == 1) continue;
        OK(cuIpcCloseMemHandle(p));
    }
    printed("cuIpcOpenMemHandle_v2", result);
}

static void leaked(void) { export_many_for(forget_some); }

/* Sets a mark for each iteration, and opens one more handle in each. */
static void one_more_each_time(struct link parent) {
    void (*mark)(const char *) = NULL;
    CUdeviceptr all[OPENED];
    CUresult result = 0;
    start(0);
    *(void **)&mark = dlsym(RTLD_DEFAULT, "cupeer_mark");
    for (int i = 0; i < OPENED; i++) {
        Handle handle = get_handle(parent);
        if (mark) mark("iteration");
        OK(result = cuIpcOpenMemHandle_v2(&all[i], handle, LAZY));
    }
    printed("cuIpcOpenMemHandle_v2", result);
    for (int i = 0; i < OPENED; i++)
        if (!bad) OK(cuIpcCloseMemHandle(all[i]));
}
static void piled_up(void) { export_many_for(one_more_each_time); }

/* Has the first three open all the time, and the last three until it ends. */
static void keep_some(struct link parent) {
    CUdeviceptr all[OPENED];
    CUresult result = 0;
    start(0);
    for (int i = 0; i < OPENED; i++) {
        Handle handle = get_handle(parent);
        OK(result = cuIpcOpenMemHandle_v2(&all[i], handle, LAZY));
        if (i >= 6) OK(cuIpcCloseMemHandle(all[i - 3]));
    }
    printed("cuIpcOpenMemHandle_v2", result);
    for (int i = 0; i < 6; i++)
        if (!bad) OK(cuIpcCloseMemHandle(all[i < 3 ? i : OPENED - 6 + i]));
}

static void kept(void) { export_many_for(keep_some); }

enum { MESSAGES = 64 };

/* Opens a handle for each message, or once. */
static void open_again(struct link parent) {
    CUdeviceptr p;
    CUresult result = 0;
    start(0);
    Handle handle = get_handle(parent);
    for (int i = 0; i < MESSAGES; i++) {
        if (bad || i == 0) OK(result = cuIpcOpenMemHandle_v2(&p, handle, LAZY));
        if (bad || i == MESSAGES - 1) OK(cuIpcCloseMemHandle(p));
    }
    printed("cuIpcOpenMemHandle_v2", result);
}
static void opened_again(void) { export_for(open_again); }

/* Keeps the first one open, whatever comes after that. */
static void open_first(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    tell(parent);
    for (int i = 1; i < MESSAGES; i++) get_handle(parent);
    OK(cuIpcCloseMemHandle(p));
}

/* Exports its buffer for each message, or once. */
static void exported_again(void) {
    struct link link = employ(open_first);
    CUresult result = 0;
    Handle handle;
    start(0);
    CUdeviceptr p = allocate();
    for (int i = 0; i < MESSAGES; i++) {
        if (bad || i == 0) OK(result = cuIpcGetMemHandle(&handle, p));
        put_handle(link, handle);
        if (i == 0) wait_for(link);
    }
    printed("cuIpcGetMemHandle", result);
    ended(link);
    OK(cuMemFree_v2(p));
}

/* Opens and closes what comes with each message. */
static void read_each(struct link parent) {
    start(0);
    for (int i = 0; i < OPENED; i++) {
        OK(cuIpcCloseMemHandle(open_memory(get_handle(parent))));
        tell(parent);
    }
}
static void exports_pile_up(void) {
    Handle handle;
    CUresult result = 0;
    struct link link = employ(read_each);
    start(0);
    for (int i = 0; i < OPENED; i++) {
        CUdeviceptr p = allocate();
        OK(result = cuIpcGetMemHandle(&handle, p));
        put_handle(link, handle);
        wait_for(link);
        if (!bad) OK(cuMemFree_v2(p));
    }
    printed("cuIpcGetMemHandle", result);
    ended(link);
}

/* Waits for the event of each message. */
static void wait_for_each(struct link parent) {
    start(0);
    for (int i = 0; i < OPENED; i++) {
        CUevent event;
        OK(cuIpcOpenEventHandle(&event, get_handle(parent)));
        OK(cuEventDestroy_v2(event));
        tell(parent);
    }
}
static void events_pile_up(void) {
    Handle handle;
    CUresult result = 0;
    struct link link = employ(wait_for_each);
    start(0);
    for (int i = 0; i < OPENED; i++) {
        CUevent event;
        OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
        OK(cuEventRecord(event, NULL));
        OK(result = cuIpcGetEventHandle(&handle, event));
        put_handle(link, handle);
        wait_for(link);
        if (!bad) OK(cuEventDestroy_v2(event));
    }
    printed("cuIpcGetEventHandle", result);
    ended(link);
}

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

SCENES({"ipc-freed-while-open", freed}, {"ipc-freed-while-open/async", freed_async},
       {"ipc-freed-while-open/detach", freed_after_detach},
       {"ipc-freed-while-open/old-destroy", freed_after_old_destroy},
       {"ipc-freed-while-open/old-release", freed_after_old_release},
       {"ipc-freed-while-open/old-reset", freed_after_old_reset},
       {"ipc-freed-while-open/another", freed_after_release_of_another},
       {"ipc-context-ended-while-open/old", old_destroyed}, {"ipc-context-ended-while-open/detached", detached},
       {"ipc-context-ended-while-open/old-release", old_released},
       {"ipc-context-ended-while-open/old-reset", old_reset}, {"ipc-context-ended-while-open/owned", owned},
       {"ipc-event-destroyed-while-open/old", event_old_destroyed},
       {"ipc-event-destroyed-while-open/exec", event_destroyed_after_exec}, {"ipc-context-ended-while-open", reset},
       {"ipc-context-ended-while-open/release", released}, {"ipc-context-ended-while-open/created", destroyed},
       {"ipc-event-destroyed-while-open", event_destroyed}, {"ipc-event-opened-after-destroy", event_opened_late}, {"ipc-never-closed", never_closed},
       {"ipc-never-closed/event", event_never_closed}, {"ipc-never-closed/kept", kept}, {"ipc-leak", leaked},
       {"ipc-leak/marks", piled_up}, {"opened-again", opened_again}, {"exported-again", exported_again},
       {"piles-up", exports_pile_up},
       {"piles-up/events", events_pile_up},
       {"killed", freed_after_kill},
       {"generations", generations})
