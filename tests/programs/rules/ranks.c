/* ranks RULE bad|good: ranks that wait for descriptors, open another export, or hold a context on another device. */
#include "memory.h"
#include <signal.h>

enum { RANKS = 4 };
static int rank, inbox[RANKS][2];

/* Sends a descriptor to each other rank of a group of `size`, and imports theirs; with these flags for the export. */
static void swap(struct link parent, int first, int size, int flags, int says) {
    Allocation allocation = create(DESCRIPTOR);
    int fd = -1;
    CUresult result = cuMemExportToShareableHandle(&fd, allocation, DESCRIPTOR, flags);
    if (says) printed("cuMemExportToShareableHandle", result);
    if (result) exit(0);
    for (int i = 0; i < size; i++) {
        ours = inbox[first + i][1];
        if (first + i != rank) send_descriptor(fd);
    }
    close(fd);
    tell(parent);
    theirs = inbox[rank][0];
    for (int i = 1; i < size; i++) {
        int got = receive_descriptor();
        OK(cuMemRelease(imported(got)));
        close(got);
    }
    OK(cuMemRelease(allocation));
}

static void begin_on(CUdevice device) {
    char text[2] = {(char)('0' + rank), 0};
    CHECK(setenv("RANK", text, 1) == 0);
    start(device);
}

static void begin(void) { begin_on(0); }

/* All of a few ranks; in the wrong job, the export of the last one fails. */
static void exchange(struct link parent) {
    begin();
    swap(parent, 0, 2, bad && rank == 1 ? 7 : 0, rank == 0);
}

/* All ranks, and then the first two and the last two; in the wrong job, rank 1 leaves before that. */
static void exchange_twice(struct link parent) {
    begin();
    swap(parent, 0, RANKS, 0, 0);
    wait_for(parent);
    if (bad && rank == 1) return;
    swap(parent, rank / 2 * 2, 2, 0, rank == 0);
}

static void launch(void (*work)(struct link), int count, int rounds, int waits) {
    struct link ranks[RANKS];
    for (int i = 0; i < count; i++) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, inbox[i]) == 0);
    for (rank = 0; rank < count; rank++) ranks[rank] = employ(work);
    for (int round = 1; round < rounds; round++) {
        for (int i = 0; i < count; i++) wait_for(ranks[i]);
        for (int i = 0; i < count; i++) tell(ranks[i]);
    }
    for (int i = 0; i < count; i++) {
        if (!bad || i != waits) {
            ended(ranks[i]);
            continue;
        }
        wait_for(ranks[i]);
        CHECK(kill(ranks[i].pid, SIGKILL) == 0 && waitpid(ranks[i].pid, NULL, 0) == ranks[i].pid);
    }
}

static void failed(void) { launch(exchange, 2, 1, 0); }
static void of_a_group(void) { launch(exchange_twice, RANKS, 2, 0); }

/* Opens what it is given, on its own device. */
static void open_one(struct link parent) {
    CUdeviceptr p;
    begin_on(rank);
    Handle handle = get_handle(parent);
    CUresult result = cuIpcOpenMemHandle_v2(&p, handle, LAZY);
    OK(rank == 1 ? printed("cuIpcOpenMemHandle_v2", result) : result);
    OK(cuIpcCloseMemHandle(p));
}

/* Exports a buffer on each of three devices, for a process on each; in the wrong job, the second gets the first one's. */
static void of_devices(void) {
    enum { COUNT = 3 };
    struct link workers[COUNT];
    Handle handles[COUNT];
    CUdeviceptr memory[COUNT];
    for (rank = 0; rank < COUNT; rank++) workers[rank] = employ(open_one);
    start(0);
    need(COUNT - 1);
    for (int i = 0; i < COUNT; i++) {
        OK(cuCtxSetCurrent(retain(i)));
        handles[i] = export(memory[i] = allocate());
    }
    for (int i = 0; i < COUNT; i++) put_handle(workers[i], handles[bad && i == 1 ? 0 : i]);
    for (int i = 0; i < COUNT; i++) ended(workers[i]);
    for (int i = 0; i < COUNT; i++) OK(cuMemFree_v2(memory[i]));
}

/* The context in which a rank opens, if not in its own. */
static CUcontext opens_in;

/* Exports, and opens what it is given for that; prints one of the two calls. */
static void swap_here(struct link parent, int prints_export) {
    CUdeviceptr p, own = allocate();
    Handle handle;
    CUresult exported = cuIpcGetMemHandle(&handle, own);
    OK(prints_export && rank == 1 ? printed("cuIpcGetMemHandle", exported) : exported);
    put_handle(parent, handle);
    handle = get_handle(parent);
    if (opens_in) OK(cuCtxSetCurrent(opens_in));
    CUresult result = cuIpcOpenMemHandle_v2(&p, handle, LAZY);
    OK(!prints_export && rank == 1 ? printed("cuIpcOpenMemHandle_v2", result) : result);
    OK(cuIpcCloseMemHandle(p));
    tell(parent);
    wait_for(parent);
    OK(cuMemFree_v2(own));
}

static void swap_one(struct link parent) {
    begin();
    swap_here(parent, 0);
}

/* Each rank opens the export of the next one, or the second one another. */
static void ring(void (*work)(struct link), int count, int is_crossed) {
    struct link ranks[RANKS];
    Handle handles[RANKS];
    for (rank = 0; rank < count; rank++) ranks[rank] = employ(work);
    for (int i = 0; i < count; i++) handles[i] = get_handle(ranks[i]);
    for (int i = 0; i < count; i++) put_handle(ranks[i], handles[is_crossed && i == 1 ? 3 : (i + 1) % count]);
    for (int i = 0; i < count; i++) wait_for(ranks[i]);
    for (int i = 0; i < count; i++) tell(ranks[i]);
    for (int i = 0; i < count; i++) ended(ranks[i]);
}

/* Each rank opens the export of the next one; in the wrong job, the second one that of the third next. */
static void of_a_ring(void) { ring(swap_one, RANKS, bad); }

/* Shares memory on the device of its rank. In the wrong job, all ranks create a context on device 0 first. */
static void on_its_device(struct link parent) {
    begin_on(bad ? 0 : rank);
    OK(cuCtxSetCurrent(retain(rank)));
    swap_here(parent, 1);
}

static void of_contexts(void) { ring(on_its_device, RANKS, 0); }

/* In the wrong job, the second rank has a context on device 0 beside its own, without need. */
static void beside_its_own(struct link parent, int all) {
    begin_on(rank);
    for (int i = 0; i < RANKS; i++) {
        int is_one = i == 0 && rank == 1;
        if (i == rank || (!is_one && (bad || !all))) continue;
        CUcontext other = retain(i);
        if (!bad && !all) OK(cuCtxEnablePeerAccess(other, 0));
    }
    swap_here(parent, 1);
}

/* In the right job, the context is for peer access. */
static void for_access(struct link parent) { beside_its_own(parent, 0); }
static void of_access(void) { ring(for_access, RANKS, 0); }

/* In the right job, each rank has a context on each device. */
static void on_every_device(struct link parent) { beside_its_own(parent, 1); }
static void of_every_device(void) { ring(on_every_device, RANKS, 0); }

/* The second rank has a context on device 0: in the wrong job, to export memory there; in the right one, to open memory there. */
static void in_another_context(struct link parent) {
    begin_on(rank);
    if (rank == 1) {
        CUcontext other = retain(0);
        OK(cuCtxSetCurrent(other));
        if (bad) export(allocate());
        else opens_in = other;
        OK(cuCtxSetCurrent(c0));
    }
    swap_here(parent, 1);
}

static void of_memory(void) { ring(in_another_context, RANKS, 0); }

/* The second rank creates a context of its own on device 0: in the wrong job, to allocate memory there; in the right one, it destroys
 * the context. */
static void with_a_new_context(struct link parent) {
    begin_on(rank);
    if (rank == 1) {
        CUcontext other;
        OK(cuCtxCreate_v2(&other, 0, 0));
        if (bad) OK(cuMemRelease(create(NONE)));
        else OK(cuCtxDestroy_v2(other));
        OK(cuCtxSetCurrent(c0));
    }
    swap_here(parent, 1);
}

static void of_new_contexts(void) { ring(with_a_new_context, RANKS, 0); }

/* Two ranks that work on two devices each; in the wrong job, the second one has device 0 as its other one. */
static void on_two_devices(struct link parent) {
    begin_on(2 * rank);
    if (!bad) retain(2 * rank + 1);
    else if (rank == 1) retain(0);
    swap_here(parent, 1);
}

static void of_two(void) { ring(on_two_devices, 2, 0); }

/* Opens what all other ranks exported; in the wrong job, the second one leaves out that of the last. */
static int members = RANKS;
static void gather(struct link parent) {
    CUdeviceptr all[RANKS];
    Handle handles[RANKS];
    CUresult result = 0;
    begin();
    CUdeviceptr own = allocate();
    put_handle(parent, export(own));
    get(parent, handles, sizeof handles);
    for (int i = 0; i < members; i++) {
        all[i] = 0;
        if (i == rank || (bad && rank == 1 && i == members - 1)) continue;
        OK(result = cuIpcOpenMemHandle_v2(&all[i], handles[i], LAZY));
    }
    if (rank == 1) printed("cuIpcOpenMemHandle_v2", result);
    for (int i = 0; i < members; i++)
        if (all[i]) OK(cuIpcCloseMemHandle(all[i]));
    tell(parent);
    wait_for(parent);
    OK(cuMemFree_v2(own));
}

static void gathered(void) {
    struct link ranks[RANKS];
    Handle handles[RANKS];
    for (rank = 0; rank < members; rank++) ranks[rank] = employ(gather);
    for (int i = 0; i < members; i++) handles[i] = get_handle(ranks[i]);
    for (int i = 0; i < members; i++) put(ranks[i], handles, sizeof handles);
    for (int i = 0; i < members; i++) wait_for(ranks[i]);
    for (int i = 0; i < members; i++) tell(ranks[i]);
    for (int i = 0; i < members; i++) ended(ranks[i]);
}

static void gathered_by_three(void) {
    members = 3;
    gathered();
}

SCENES({"exchange-differs", gathered}, {"exchange-differs/three", gathered_by_three},
       {"ranks-open-another-export", of_devices}, {"ranks-open-another-export/ring", of_a_ring},
       {"ranks-hold-another-device", of_contexts}, {"ranks-hold-another-device/access", of_access},
       {"ranks-hold-another-device/every", of_every_device}, {"ranks-hold-another-device/memory", of_memory},
       {"ranks-hold-another-device/created", of_new_contexts}, {"ranks-hold-another-device/pair", of_two},
       {"ranks-wait-for-descriptor/failed", failed}, {"ranks-wait-for-descriptor/group", of_a_group})
