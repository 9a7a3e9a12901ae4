/* schedules SEED STEPS wrong|right|planted [TIMES]: random schedules of processes that share memory and events, with two contexts a
 * device, old forms of what ends something, forks, execs and kills. This process never reaches the driver: it has the
 * others take turns, one call at a time, so that it knows who has what open. Where the library checks, it tells of each
 * finding at once, and what is certain has to be so: a wrong step yields its rule, and no other step any. A `right`
 * schedule takes no wrong steps. A `planted` one takes steps of all kinds that break a rule in one call, too: each process
 * has a rank of its own, so that whoever compares what was said of two runs knows of which call it was said.
 *
 * Plays schedules of that many steps with TIMES seeds from SEED on. Prints how many steps it took and how many were
 * wrong; exits with 1 where the library said otherwise. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cupeer.h"

/* Whether the rules are checked. */
static int is_checked(void) {
    const char *level = getenv("CUPEER_CHECK");
    return level && strcmp(level, "off");
}

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct event *CUevent;
typedef struct { unsigned char bytes[64]; } Handle;

#define FUNCTIONS(F)                                                                                                   \
    F(cuInit, (unsigned))                                                                                              \
    F(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                                               \
    F(cuDevicePrimaryCtxRelease, (CUdevice))                                                                           \
    F(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                                        \
    F(cuDevicePrimaryCtxReset, (CUdevice))                                                                             \
    F(cuDevicePrimaryCtxReset_v2, (CUdevice))                                                                          \
    F(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice))                                                               \
    F(cuCtxDestroy, (CUcontext))                                                                                       \
    F(cuCtxDestroy_v2, (CUcontext))                                                                                    \
    F(cuCtxAttach, (CUcontext *, unsigned))                                                                            \
    F(cuCtxDetach, (CUcontext))                                                                                        \
    F(cuCtxSetCurrent, (CUcontext))                                                                                    \
    F(cuCtxEnablePeerAccess, (CUcontext, unsigned))                                                                    \
    F(cuCtxDisablePeerAccess, (CUcontext))                                                                             \
    F(cuDeviceGetP2PAttribute, (int *, int, CUdevice, CUdevice))                                                       \
    F(cuDeviceGetP2PAtomicCapabilities, (unsigned *, const int *, unsigned, CUdevice, CUdevice))                       \
    F(cuMemAllocHost_v2, (void **, size_t))                                                                            \
    F(cuMemFreeHost, (void *))                                                                                         \
    F(cuMemAllocAsync, (CUdeviceptr *, size_t, void *))                                                                \
    F(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice))                                                              \
    F(cuIpcGetMemHandle, (Handle *, CUdeviceptr))                                                                      \
    F(cuIpcOpenMemHandle_v2, (CUdeviceptr *, Handle, unsigned))                                                        \
    F(cuIpcCloseMemHandle, (CUdeviceptr))                                                                              \
    F(cuIpcGetEventHandle, (Handle *, CUevent))                                                                        \
    F(cuIpcOpenEventHandle, (CUevent *, Handle))                                                                       \
    F(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                                          \
    F(cuMemFree_v2, (CUdeviceptr))                                                                                     \
    F(cuMemFreeAsync, (CUdeviceptr, void *))                                                                           \
    F(cuEventCreate, (CUevent *, unsigned))                                                                            \
    F(cuEventDestroy, (CUevent))                                                                                       \
    F(cuEventDestroy_v2, (CUevent))
#define DECLARE(name, args) static CUresult(*name) args;
FUNCTIONS(DECLARE)

/* Contexts: the primary one and two more of device 0, and the primary one of device 1. */
enum { ACTORS = 4, CONTEXTS = 4, THINGS = 6, OPENINGS = 6 };
static const int device_of[CONTEXTS] = {0, 0, 0, 1};
#define IS_PRIMARY(context) ((context) == 0 || (context) == 3)

enum op { MAKE, END_CONTEXT, ATTACH, DETACH, ALLOCATE, CREATE, EXPORT, END, OPEN, CLOSE, FORK, EXECUTE, LEAVE, PLANT };
/* What is planted: with a handle, with something that the process has opened, with something that it owns, with nothing. */
enum plant {
    OPEN_AS_IT_IS, OPEN_FLAGS, OPEN_DAMAGED, OPEN_UNKNOWN, OPEN_OTHER_KIND, OPEN_NULL, OPEN_NOWHERE, PLANTS_OF_HANDLES,
    CLOSE_TWICE = PLANTS_OF_HANDLES, CLOSE_INSIDE, FREE_OPENED, EXPORT_OPENED, PLANTS_OF_OPENINGS,
    EXPORT_INSIDE = PLANTS_OF_OPENINGS, EXPORT_NOWHERE, CLOSE_OWN, PLANTS_OF_THINGS,
    EXPORT_FREED = PLANTS_OF_THINGS, EXPORT_HOST, EXPORT_POOL, EXPORT_PLAIN_EVENT, EXPORT_NULL, ASK_OUTSIDE, ASK_SAME,
    ASK_ATTRIBUTE, ASK_OPERATION, ENABLE_FLAGS, ENABLE_SAME, ENABLE_TWICE, DISABLE_NONE, ENABLE_NULL, PLANTS
};
struct order {
    enum op op;
    int context, current, slot, is_event, form;
    Handle handle;
};
struct answer {
    int result;
    int certain[4]; /* findings of the rules below, and others that are certain */
    Handle handle;
};
static const char *const rules[] = {"ipc-freed-while-open", "ipc-context-ended-while-open",
                                    "ipc-event-destroyed-while-open"};

static void fail(const char *what, int line) {
    fprintf(stderr, "schedules.c:%d: %s\n", line, what);
    _exit(2);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(#condition, __LINE__))

/* The side of an actor. */

static struct answer given;

static void found(const cupeer_finding *finding, void *data) {
    (void)data;
    for (int rule = 0; rule < 3; rule++)
        if (strcmp(finding->rule, rules[rule]) == 0) {
            given.certain[rule] += strcmp(finding->confidence, "certain") == 0;
            return;
        }
    /* Of what drivers refuse here nothing is certain but that its exporter has ended, or had ended it. */
    if (strcmp(finding->rule, "driver-contradicts-state") == 0) given.certain[3]++;
}

static CUcontext contexts[CONTEXTS];
static CUdeviceptr memory[THINGS], mapped[OPENINGS];
static CUevent events[THINGS], opened[OPENINGS];

static CUresult end_context(int context, int form) {
    if (!IS_PRIMARY(context)) {
        cuCtxSetCurrent(contexts[form == 2 ? context : 0]);
        return form == 0   ? cuCtxDestroy_v2(contexts[context])
               : form == 1 ? cuCtxDestroy(contexts[context])
                           : cuCtxDetach(contexts[context]);
    }
    int device = device_of[context];
    if (form == 0) return cuDevicePrimaryCtxRelease_v2(device);
    if (form == 1) return cuDevicePrimaryCtxRelease(device);
    CUresult result = form == 2 ? cuDevicePrimaryCtxReset_v2(device) : cuDevicePrimaryCtxReset(device);
    cuDevicePrimaryCtxRelease_v2(device);
    return result;
}

static CUresult plant(const struct order *order, Handle *handle) {
    int slot = order->slot, is_event = order->is_event, can;
    unsigned capability;
    CUcontext current = contexts[order->current];
    CUdeviceptr p;
    CUevent event;
    void *host;
    Handle given_handle = order->handle;
    switch ((enum plant)order->form) {
    case OPEN_DAMAGED: given_handle.bytes[10] ^= 0x5a; break;
    case OPEN_UNKNOWN: memset(&given_handle, order->slot & 1 ? 0 : 0x77, sizeof given_handle); break;
    default: break;
    }
    switch ((enum plant)order->form) {
    case OPEN_NOWHERE: cuCtxSetCurrent(NULL); /* fall through */
    case OPEN_AS_IT_IS:
    case OPEN_UNKNOWN:
    case OPEN_DAMAGED: {
        CUresult result =
            is_event ? cuIpcOpenEventHandle(&event, given_handle) : cuIpcOpenMemHandle_v2(&p, given_handle, 1);
        if (result == 0) is_event ? cuEventDestroy_v2(event) : cuIpcCloseMemHandle(p);
        return result;
    }
    case OPEN_FLAGS: {
        CUresult result = cuIpcOpenMemHandle_v2(&p, given_handle, order->slot & 1 ? 0 : 3);
        if (result == 0) cuIpcCloseMemHandle(p);
        return result;
    }
    case OPEN_OTHER_KIND:
        return is_event ? cuIpcOpenMemHandle_v2(&p, given_handle, 1) : cuIpcOpenEventHandle(&event, given_handle);
    case OPEN_NULL: return is_event ? cuIpcOpenEventHandle(NULL, given_handle) : cuIpcOpenMemHandle_v2(NULL, given_handle, 1);
    case CLOSE_TWICE: return cuIpcCloseMemHandle(mapped[slot]), cuIpcCloseMemHandle(mapped[slot]);
    case CLOSE_INSIDE: return cuIpcCloseMemHandle(mapped[slot] + 4096);
    case FREE_OPENED: return cuMemFree_v2(mapped[slot]);
    case EXPORT_OPENED:
        return is_event ? cuIpcGetEventHandle(handle, opened[slot]) : cuIpcGetMemHandle(handle, mapped[slot]);
    case EXPORT_INSIDE: return cuIpcGetMemHandle(handle, memory[slot] + 4096);
    case EXPORT_NOWHERE:
        cuCtxSetCurrent(NULL);
        return is_event ? cuIpcGetEventHandle(handle, events[slot]) : cuIpcGetMemHandle(handle, memory[slot]);
    case CLOSE_OWN: return cuIpcCloseMemHandle(memory[slot]);
    case EXPORT_FREED:
        CHECK(cuMemAlloc_v2(&p, 4 << 20) == 0 && cuMemFree_v2(p) == 0);
        return cuIpcGetMemHandle(handle, p);
    case EXPORT_HOST: {
        CHECK(cuMemAllocHost_v2(&host, 4096) == 0);
        CUresult result = cuIpcGetMemHandle(handle, (CUdeviceptr)host);
        cuMemFreeHost(host);
        return result;
    }
    case EXPORT_POOL: {
        CHECK(cuMemAllocAsync(&p, 4096, NULL) == 0);
        CUresult result = cuIpcGetMemHandle(handle, p);
        cuMemFree_v2(p);
        return result;
    }
    case EXPORT_PLAIN_EVENT: {
        CHECK(cuEventCreate(&event, 0) == 0);
        CUresult result = cuIpcGetEventHandle(handle, event);
        cuEventDestroy_v2(event);
        return result;
    }
    case EXPORT_NULL: return cuIpcGetMemHandle(handle, 0);
    case ASK_OUTSIDE: return cuDeviceCanAccessPeer(&can, 0, 7);
    case ASK_SAME: return cuDeviceGetP2PAttribute(&can, 1, 0, 0);
    case ASK_ATTRIBUTE: return cuDeviceGetP2PAttribute(&can, 99, 0, 1);
    case ASK_OPERATION: return cuDeviceGetP2PAtomicCapabilities(&capability, (int[]){77}, 1, 0, 1);
    case ENABLE_FLAGS: return cuCtxEnablePeerAccess(contexts[order->context], 5);
    case ENABLE_SAME: return cuCtxEnablePeerAccess(current, 0);
    case ENABLE_TWICE: {
        CHECK(cuCtxEnablePeerAccess(contexts[order->context], 0) == 0);
        CUresult result = cuCtxEnablePeerAccess(contexts[order->context], 0);
        CHECK(cuCtxDisablePeerAccess(contexts[order->context]) == 0);
        return result;
    }
    case DISABLE_NONE: return cuCtxDisablePeerAccess(contexts[order->context]);
    case ENABLE_NULL: return cuCtxEnablePeerAccess(NULL, 0);
    default: return -1;
    }
}

static CUresult carry_out(const struct order *order, Handle *handle) {
    int slot = order->slot, context = order->context;
    if (order->current >= 0) cuCtxSetCurrent(contexts[order->current]);
    switch (order->op) {
    case MAKE:
        return IS_PRIMARY(context) ? cuDevicePrimaryCtxRetain(&contexts[context], device_of[context])
                                   : cuCtxCreate_v2(&contexts[context], 0, device_of[context]);
    case END_CONTEXT: return end_context(context, order->form);
    case ATTACH: return cuCtxAttach(&contexts[context], 0);
    case DETACH: return cuCtxDetach(contexts[context]);
    case ALLOCATE: return cuMemAlloc_v2(&memory[slot], 2 << 20);
    case CREATE: return cuEventCreate(&events[slot], 6);
    case EXPORT:
        return order->is_event ? cuIpcGetEventHandle(handle, events[slot]) : cuIpcGetMemHandle(handle, memory[slot]);
    case END:
        if (order->is_event) return order->form ? cuEventDestroy(events[slot]) : cuEventDestroy_v2(events[slot]);
        return order->form ? cuMemFreeAsync(memory[slot], NULL) : cuMemFree_v2(memory[slot]);
    case OPEN:
        return order->is_event ? cuIpcOpenEventHandle(&opened[slot], order->handle)
                               : cuIpcOpenMemHandle_v2(&mapped[slot], order->handle, 1);
    case CLOSE:
        if (order->is_event) return order->form ? cuEventDestroy(opened[slot]) : cuEventDestroy_v2(opened[slot]);
        return cuIpcCloseMemHandle(mapped[slot]);
    case FORK: {
        int can;
        pid_t child = fork();
        if (child == 0) _exit(cuDeviceCanAccessPeer(&can, 0, 1) == 0);
        waitpid(child, NULL, 0);
        return 0;
    }
    case PLANT: return plant(order, handle);
    default: return -1;
    }
}

static void act(int in, int out) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(driver);
#define FIND(name, args) CHECK(*(void **)&name = dlsym(driver, #name));
    FUNCTIONS(FIND)
    int (*on_finding)(cupeer_finding_callback, void *) = dlsym(RTLD_DEFAULT, "cupeer_on_finding");
    if (on_finding) on_finding(found, NULL);
    CHECK(cuInit(0) == 0);
    for (struct order order; read(in, &order, sizeof order) == sizeof order;) {
        if (order.op == LEAVE) exit(0);
        if (order.op == EXECUTE) {
            char from[16], to[16];
            snprintf(from, sizeof from, "%d", in);
            snprintf(to, sizeof to, "%d", out);
            execl("/proc/self/exe", "schedules", "act", from, to, NULL);
            CHECK(0);
        }
        memset(&given, 0, sizeof given);
        given.result = carry_out(&order, &given.handle);
        CHECK(write(out, &given, sizeof given) == sizeof given);
    }
    exit(0);
}

/* The side of who knows. */

static struct actor {
    pid_t pid;
    int in, out, image;
    int has[CONTEXTS], attached[CONTEXTS];
} actors[ACTORS];
static struct thing {
    int is_there, is_exported, is_event, context, image;
    Handle handle;
} things[ACTORS][THINGS];
static struct opening {
    int is_there, context, of, thing, is_event;
} openings[ACTORS][OPENINGS];
static int may_be_wrong, plants, wrong, images, ranks;
/* The last handles, of which some are of what is gone. */
static struct {
    Handle handle;
    int is_event;
} handles[16];
static int made;

/* One that dies leaves its pipes behind. */
static int order(int actor, struct order order, struct answer *answer) {
    struct actor *who = &actors[actor];
    CHECK(write(who->out, &order, sizeof order) == sizeof order);
    size_t had = 0;
    for (ssize_t n; had < sizeof *answer; had += (size_t)n) {
        n = read(who->in, (char *)answer + had, sizeof *answer - had);
        CHECK(n > 0);
    }
    return answer->result;
}

static void forget(int actor) {
    memset(things[actor], 0, sizeof things[actor]);
    memset(openings[actor], 0, sizeof openings[actor]);
    memset(actors[actor].has, 0, sizeof actors[actor].has);
    memset(actors[actor].attached, 0, sizeof actors[actor].attached);
    for (int other = 0; other < ACTORS; other++)
        for (int i = 0; i < OPENINGS; i++)
            if (openings[other][i].of == actor) openings[other][i].thing = -1;
    actors[actor].image = ++images;
}

static void begin(int actor) {
    int to[2], from[2];
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    forget(actor);
    if (plants) {
        char rank[16];
        snprintf(rank, sizeof rank, "%d", ranks++);
        CHECK(setenv("RANK", rank, 1) == 0);
    }
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (int other = 0; other < ACTORS; other++)
            if (other != actor && actors[other].pid) close(actors[other].in), close(actors[other].out);
        close(to[1]);
        close(from[0]);
        alarm(300);
        act(to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    actors[actor].pid = pid;
    actors[actor].in = from[0];
    actors[actor].out = to[1];
}

static void finish(int actor, int signal) {
    struct order leave = {.op = LEAVE, .current = -1};
    if (signal) CHECK(kill(actors[actor].pid, signal) == 0);
    else CHECK(write(actors[actor].out, &leave, sizeof leave) == sizeof leave);
    CHECK(waitpid(actors[actor].pid, NULL, 0) == actors[actor].pid);
    actors[actor].pid = 0;
    close(actors[actor].in);
    close(actors[actor].out);
}

/* Who of the others has it open. */
static int is_open(int actor, int thing) {
    for (int other = 0; other < ACTORS; other++)
        for (int i = 0; i < OPENINGS; i++) {
            struct opening *opening = &openings[other][i];
            if (other != actor && opening->is_there && opening->of == actor && opening->thing == thing) return 1;
        }
    return 0;
}

static int is_context_open(int actor, int context) {
    for (int i = 0; i < THINGS; i++) {
        struct thing *thing = &things[actor][i];
        if (thing->is_there && thing->is_exported && thing->context == context && is_open(actor, i)) return 1;
    }
    return 0;
}

static int below(int limit) { return rand() % limit; }

/* One that is there, or -1. */
static int some_context(int actor) {
    int first = below(CONTEXTS);
    for (int i = 0; i < CONTEXTS; i++)
        if (actors[actor].has[(first + i) % CONTEXTS]) return (first + i) % CONTEXTS;
    return -1;
}

static void expect(const char *what, int rule, int is_wrong, const struct answer *answer) {
    wrong += is_wrong;
    for (int i = 0; i < 4; i++) {
        int expected = is_wrong && i == rule;
        /* Of one rule and caller the first ten are told. */
        int may_be_missed = !is_checked() || wrong > 10;
        if (answer->certain[i] ? !expected : expected && !may_be_missed) {
            fprintf(stderr, "%s: %s is %s\n", what, i < 3 ? rules[i] : "driver-contradicts-state",
                    expected ? "missed" : "said, and is not so");
            exit(1);
        }
    }
}

static void end_all_of(int actor, int context) {
    for (int i = 0; i < THINGS; i++)
        if (things[actor][i].is_there && things[actor][i].context == context) things[actor][i].is_there = 0;
    for (int other = 0; other < ACTORS; other++)
        for (int i = 0; i < OPENINGS; i++) {
            struct opening *opening = &openings[other][i];
            if (opening->is_there && opening->of == actor && opening->thing >= 0 &&
                !things[actor][opening->thing].is_there)
                opening->thing = -1;
            if (other == actor && opening->is_there && opening->context == context) opening->is_there = 0;
        }
    actors[actor].has[context] = actors[actor].attached[context] = 0;
}

/* One step that breaks a rule, mostly: what is chosen at random may be right. */
static void plant_one(int actor, int context) {
    struct answer answer;
    int form = below(PLANTS), slot = below(THINGS), place = below(OPENINGS), some = below(16), other = below(CONTEXTS);
    struct thing *thing = &things[actor][slot];
    struct opening *mine = &openings[actor][place];
    struct order what = {PLANT, other, context, slot, 0, form, {{0}}};
    if (form < PLANTS_OF_HANDLES) {
        if (some >= made) return;
        what.handle = handles[some].handle;
        what.is_event = handles[some].is_event;
        if (form == OPEN_FLAGS && what.is_event) return;
    } else if (form < PLANTS_OF_OPENINGS) {
        if (!mine->is_there || (mine->is_event && form != EXPORT_OPENED)) return;
        for (int i = 0; i < OPENINGS; i++)
            if (i != place && openings[actor][i].is_there && !openings[actor][i].is_event && form == CLOSE_TWICE) return;
        what.slot = place;
        what.current = mine->context;
        what.is_event = mine->is_event;
        if (form == CLOSE_TWICE) mine->is_there = 0;
    } else if (form < PLANTS_OF_THINGS) {
        if (!thing->is_there || (thing->is_event && form != EXPORT_NOWHERE)) return;
        what.is_event = thing->is_event;
    } else if (form >= ENABLE_FLAGS && form != ENABLE_SAME && form != ENABLE_NULL) {
        if (!actors[actor].has[other] || device_of[other] == device_of[context]) return;
    }
    int result = order(actor, what, &answer);
    if (form == EXPORT_INSIDE && result == 0) {
        thing->is_exported = 1;
        thing->handle = answer.handle;
    }
    wrong += result != 0;
}

static void step(void) {
    struct answer answer;
    int actor = below(ACTORS), context = some_context(actor), slot = below(THINGS), dice = below(100);
    struct actor *who = &actors[actor];
    struct thing *thing = &things[actor][slot];
    struct order what = {.context = context, .current = context, .slot = slot, .is_event = thing->is_event};
    if (plants && context >= 0 && below(4) == 0) return plant_one(actor, context);
    if (context < 0 || dice < 8) {
        what.op = MAKE;
        what.context = below(CONTEXTS);
        what.current = -1;
        if (who->has[what.context]) return;
        if (order(actor, what, &answer) == 0) who->has[what.context] = 1;
        expect("make", -1, 0, &answer);
    } else if (dice < 12) {
        int is_wrong = is_context_open(actor, context);
        if (who->attached[context] || (is_wrong && !may_be_wrong)) return;
        what.op = END_CONTEXT;
        what.current = -1;
        what.form = below(IS_PRIMARY(context) ? 4 : 3);
        /* Created ones are ended while the primary one is current. */
        if (!IS_PRIMARY(context) && what.form != 2 && !who->has[0]) return;
        CHECK(order(actor, what, &answer) == 0);
        end_all_of(actor, context);
        expect("end of a context", 1, is_wrong, &answer);
    } else if (dice < 15 && !IS_PRIMARY(context)) {
        what.op = who->attached[context] ? DETACH : ATTACH;
        CHECK(order(actor, what, &answer) == 0);
        who->attached[context] = what.op == ATTACH;
        expect("attach or detach", -1, 0, &answer);
    } else if (dice < 35 && !thing->is_there) {
        what.op = below(3) ? ALLOCATE : CREATE;
        CHECK(order(actor, what, &answer) == 0);
        *thing = (struct thing){1, 0, what.op == CREATE, context, who->image, {{0}}};
        expect("make", -1, 0, &answer);
    } else if (dice < 50 && thing->is_there) {
        what.op = EXPORT;
        /* Memory may be exported whatever context is current. */
        if (thing->is_event) what.current = thing->context;
        CHECK(order(actor, what, &answer) == 0);
        thing->is_exported = 1;
        thing->handle = answer.handle;
        handles[made % 16].handle = answer.handle;
        handles[made++ % 16].is_event = thing->is_event;
        expect("export", -1, 0, &answer);
    } else if (dice < 58 && thing->is_there) {
        int is_wrong = thing->is_exported && is_open(actor, slot);
        if (is_wrong && !may_be_wrong) return;
        what.op = END;
        what.form = below(2);
        CHECK(order(actor, what, &answer) == 0);
        thing->is_there = 0;
        for (int other = 0; other < ACTORS; other++)
            for (int i = 0; i < OPENINGS; i++)
                if (openings[other][i].of == actor && openings[other][i].thing == slot) openings[other][i].thing = -1;
        expect("free or destroy", thing->is_event ? 2 : 0, is_wrong, &answer);
    } else if (dice < 78) {
        int of = below(ACTORS), which = below(THINGS), place = below(OPENINGS);
        struct thing *theirs = &things[of][which];
        if (of == actor || !theirs->is_there || !theirs->is_exported || openings[actor][place].is_there) return;
        for (int i = 0; i < OPENINGS; i++) {
            struct opening *mine = &openings[actor][i];
            if (!mine->is_there || mine->of != of || mine->is_event || theirs->is_event) continue;
            /* One context of a device for the memory of one process. */
            if (!plants && mine->context != context && device_of[mine->context] == device_of[context]) return;
        }
        what = (struct order){OPEN, context, context, place, theirs->is_event, 0, theirs->handle};
        int result = order(actor, what, &answer);
        if (result == 0) openings[actor][place] = (struct opening){1, context, of, which, theirs->is_event};
        expect("open", -1, 0, &answer);
    } else if (dice < 95) {
        int place = below(OPENINGS);
        struct opening *mine = &openings[actor][place];
        if (!mine->is_there) return;
        what = (struct order){CLOSE, context, mine->context, place, mine->is_event, below(2), {{0}}};
        CHECK(order(actor, what, &answer) == 0);
        mine->is_there = 0;
        expect("close", -1, 0, &answer);
    } else if (dice < 96) {
        what.op = FORK;
        order(actor, what, &answer);
        expect("fork", -1, 0, &answer);
    } else if (dice < 98) {
        what.op = EXECUTE;
        CHECK(write(who->out, &what, sizeof what) == sizeof what);
        forget(actor);
        /* It is there again when it has done something. */
        what = (struct order){.op = MAKE, .context = 0, .current = -1};
        CHECK(order(actor, what, &answer) == 0);
        who->has[0] = 1;
        expect("exec", -1, 0, &answer);
    } else {
        finish(actor, dice == 98 ? SIGKILL : 0);
        begin(actor);
    }
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "act") == 0) act(atoi(argv[2]), atoi(argv[3]));
    CHECK(argc == 4 || argc == 5);
    int steps = atoi(argv[2]), times = argc == 5 ? atoi(argv[4]) : 1;
    plants = strcmp(argv[3], "planted") == 0;
    may_be_wrong = plants || strcmp(argv[3], "wrong") == 0;
    alarm(300);
    signal(SIGPIPE, SIG_IGN);
    for (int time = 0; time < times; time++) {
        srand((unsigned)atoi(argv[1]) + (unsigned)time);
        made = 0;
        for (int actor = 0; actor < ACTORS; actor++) begin(actor);
        for (int i = 0; i < steps; i++) step();
        for (int actor = 0; actor < ACTORS; actor++) finish(actor, 0);
    }
    printf("%d steps, %d wrong\n", steps * times, wrong);
    return 0;
}
