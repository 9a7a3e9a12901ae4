/* vmm RULE bad|good: rules about virtual memory. */
#include "memory.h"
#include <signal.h>

static void handle_type(void) {
    int fd = -1;
    start(0);
    Allocation allocation = create(bad ? NONE : DESCRIPTOR);
    CALL(cuMemExportToShareableHandle, (&fd, allocation, DESCRIPTOR, 0));
    if (!bad) close(fd);
    OK(cuMemRelease(allocation));
}

/* Exports again what it has imported; in the right program, something of its own. */
static void export_again(struct link parent) {
    start(0);
    int fd = receive_descriptor(), again = -1;
    Allocation allocation = imported(fd), own = create(DESCRIPTOR);
    CALL(cuMemExportToShareableHandle, (&again, bad ? allocation : own, DESCRIPTOR, 0));
    OK(cuMemRelease(allocation));
    OK(cuMemRelease(own));
    tell(parent);
}

static void reexport(void) { share_with(export_again); }

static void unreachable(void) {
    start(0);
    Allocation allocation = create(NONE);
    CUdeviceptr at = map(allocation);
    Access access = access_of(bad);
    CALL(cuMemSetAccess, (at, SIZE, &access, 1));
    unmap(at);
    OK(cuMemRelease(allocation));
}

static void unreachable_import(struct link parent) {
    start(1);
    Allocation allocation = imported(receive_descriptor());
    CUdeviceptr at = reserve(SIZE);
    OK(cuMemMap(at, SIZE, 0, allocation, 0));
    Access access = access_of(bad);
    CALL(cuMemSetAccess, (at, SIZE, &access, 1));
    unmap(at);
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void unreachable_imported(void) { share_with(unreachable_import); }

/* Gives access to both devices at once, and only one of them is the memory's. */
static void unreachable_of_several(struct link parent) {
    start(1);
    Allocation allocation = imported(receive_descriptor());
    CUdeviceptr at = reserve(SIZE);
    OK(cuMemMap(at, SIZE, 0, allocation, 0));
    Access both[] = {access_of(0), access_of(1)};
    CALL(cuMemSetAccess, (at, SIZE, both, bad ? 2 : 1));
    unmap(at);
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void unreachable_several(void) { share_with(unreachable_of_several); }

/* Maps what it has imported with a size of its own. */
static void map_half(struct link parent) {
    start(0);
    Access access = access_of(0);
    Allocation allocation = imported(receive_descriptor());
    CUdeviceptr at = reserve(SIZE);
    if (CALL(cuMemMap, (at, bad ? HALF : SIZE, 0, allocation, 0)) == 0) {
        OK(cuMemSetAccess(at, SIZE, &access, 1));
        OK(cuMemUnmap(at, SIZE));
    }
    OK(cuMemAddressFree(at, SIZE));
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void part_imported(void) { share_with(map_half); }

static void no_such_device(void) {
    start(0);
    Allocation allocation = create(NONE);
    CUdeviceptr at = map(allocation);
    Access both[] = {access_of(0), access_of(bad ? 99 : 0)};
    CALL(cuMemSetAccess, (at, SIZE, both, 2));
    unmap(at);
    OK(cuMemRelease(allocation));
}

static void fabric(void) {
    Allocation allocation;
    Properties wanted = properties(bad ? FABRIC : DESCRIPTOR);
    start(0);
    if (CALL(cuMemCreate, (&allocation, SIZE, &wanted, 0)) == 0) OK(cuMemRelease(allocation));
}

/* Whether the importer has a file of its own under the number that it was sent. */
static int is_taken;

/* Imports what it was sent: in the wrong program only a number. In the right one the owner has released the memory by
 * then, and it is imported twice, with two contexts. */
static void import_number(struct link parent) {
    Allocation allocation;
    start(0);
    int number, fd = receive_descriptor();
    get(parent, &number, sizeof number);
    wait_for(parent);
    if (is_taken) CHECK(dup2(STDERR_FILENO, number) == number);
    CALL(cuMemImportFromShareableHandle, (&allocation, as_pointer(bad ? number : fd), DESCRIPTOR));
    if (is_taken) close(number);
    if (!bad) {
        CUdeviceptr at = map(allocation);
        OK(cuCtxSetCurrent(retain(another())));
        Allocation again = imported(fd);
        CUdeviceptr other = map(again);
        OK(cuMemRelease(again));
        unmap(other);
        unmap(at);
        OK(cuMemRelease(allocation));
    }
    close(fd);
}

/* Descriptors up to 63 are taken in the exporter, so that its export has a number that the importer has not. */
static void descriptor(void) {
    struct link link;
    int taken[64], count = 0;
    employ_with_socket(&link, import_number);
    start(0);
    do CHECK((taken[count] = dup(ours)) >= 0);
    while (taken[count++] < 63);
    Allocation allocation = create(DESCRIPTOR);
    int fd = exported(allocation);
    /* Its own process may import it, too. */
    OK(cuMemRelease(imported(fd)));
    send_descriptor(fd);
    put(link, &fd, sizeof fd);
    close(fd);
    OK(cuMemRelease(allocation));
    tell(link);
    ended(link);
    while (count > 0) close(taken[--count]);
}

static void taken_by_a_file(void) {
    is_taken = 1;
    descriptor();
}

static void closed(void) {
    Allocation allocation;
    start(0);
    Allocation own = create(DESCRIPTOR);
    int fd = exported(own);
    if (bad) close(fd);
    if (CALL(cuMemImportFromShareableHandle, (&allocation, as_pointer(fd), DESCRIPTOR)) == 0) OK(cuMemRelease(allocation));
    if (!bad) close(fd);
    OK(cuMemRelease(own));
}

static void refused(void) {
    Allocation allocation;
    start(0);
    Allocation own = create(DESCRIPTOR);
    int fd = exported(own);
    if (CALL(cuMemImportFromShareableHandle, (&allocation, as_pointer(bad ? -1 : fd), DESCRIPTOR)) == 0)
        OK(cuMemRelease(allocation));
    close(fd);
    OK(cuMemRelease(own));
}

static void granularity(void) {
    Allocation allocation;
    Properties wanted = properties(NONE);
    start(0);
    if (CALL(cuMemCreate, (&allocation, bad ? SIZE + 512 : SIZE, &wanted, 0)) == 0) OK(cuMemRelease(allocation));
}

static void granularity_reserve(void) {
    CUdeviceptr at;
    start(0);
    if (CALL(cuMemAddressReserve, (&at, bad ? 65536 : SIZE, 0, 0, 0)) == 0) OK(cuMemAddressFree(at, SIZE));
}

/* Maps where the wrong program must not, and takes it away again. */
static void map_at(size_t inside, size_t size, size_t offset) {
    Access access = access_of(0);
    start(0);
    Allocation allocation = create(NONE);
    CUdeviceptr at = reserve(2 * SIZE);
    if (CALL(cuMemMap, (at + (bad ? inside : 0), bad ? size : SIZE, bad ? offset : 0, allocation, 0)) == 0) {
        OK(cuMemSetAccess(at, SIZE, &access, 1));
        OK(cuMemUnmap(at, SIZE));
    }
    OK(cuMemAddressFree(at, 2 * SIZE));
    OK(cuMemRelease(allocation));
}
static void granularity_map(void) { map_at(OFFSET, SIZE, 0); }
static void part(void) { map_at(0, HALF, 0); }
static void part_offset(void) { map_at(0, SIZE, HALF); }

static void mapped_twice(void) {
    Access access = access_of(0);
    start(0);
    Allocation first = create(NONE), second = create(NONE);
    CUdeviceptr at = reserve(2 * SIZE);
    OK(cuMemMap(at, SIZE, 0, first, 0));
    OK(cuMemSetAccess(at, SIZE, &access, 1));
    if (CALL(cuMemMap, (bad ? at + HALF : at + SIZE, SIZE, 0, second, 0)) == 0)
        OK(cuMemSetAccess(at, 2 * SIZE, &access, 1));
    OK(cuMemUnmap(at, 2 * SIZE));
    OK(cuMemAddressFree(at, 2 * SIZE));
    OK(cuMemRelease(first));
    OK(cuMemRelease(second));
}

static void in_use(void) {
    start(0);
    Allocation allocation = create(NONE);
    CUdeviceptr at = map(allocation);
    if (!bad) OK(cuMemUnmap(at, SIZE));
    CALL(cuMemAddressFree, (at, SIZE));
    if (bad) unmap(at);
    OK(cuMemRelease(allocation));
}

static void part_unmapped(void) {
    start(0);
    Allocation allocation = create(NONE);
    CUdeviceptr at = map(allocation);
    CALL(cuMemUnmap, (at, bad ? HALF : SIZE));
    if (bad) OK(cuMemUnmap(at, SIZE));
    OK(cuMemAddressFree(at, SIZE));
    OK(cuMemRelease(allocation));
}

static void part_accessible(void) {
    Access access = access_of(0);
    start(0);
    Allocation allocation = create(NONE);
    CUdeviceptr at = map(allocation);
    CALL(cuMemSetAccess, (at, bad ? HALF : SIZE, &access, 1));
    unmap(at);
    OK(cuMemRelease(allocation));
}

/* A handle is released before it is mapped. Its number may have been that of another allocation, which is released. */
static void handle_released(void) {
    start(0);
    Allocation first = create(NONE);
    OK(cuMemRelease(first));
    Allocation second = create(NONE);
    if (bad) OK(cuMemRelease(second));
    Access access = access_of(0);
    CUdeviceptr at = reserve(SIZE);
    CALL(cuMemMap, (at, SIZE, 0, second, 0));
    if (!bad) {
        OK(cuMemSetAccess(at, SIZE, &access, 1));
        OK(cuMemRelease(second));
        OK(cuMemUnmap(at, SIZE));
    }
    OK(cuMemAddressFree(at, SIZE));
}
static void handle_released_export(void) {
    int fd = -1;
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    if (bad) OK(cuMemRelease(allocation));
    CALL(cuMemExportToShareableHandle, (&fd, allocation, DESCRIPTOR, 0));
    if (!bad) {
        CHECK(close(fd) == 0);
        OK(cuMemRelease(allocation));
    }
}

/* The handle is the driver's as long as it is mapped. */
static void released_twice(void) {
    Allocation again;
    start(0);
    Allocation allocation = create(NONE);
    CUdeviceptr at = map(allocation);
    OK(cuMemRelease(allocation));
    if (!bad) {
        OK(cuMemRetainAllocationHandle(&again, at));
        CHECK(again == allocation);
    }
    CALL(cuMemRelease, (allocation));
    unmap(at);
}

static void no_access(void) {
    Access access = access_of(0);
    start(0);
    Allocation allocation = create(NONE);
    CUdeviceptr at = reserve(SIZE);
    CALL(cuMemMap, (at, SIZE, 0, allocation, 0));
    if (!bad) OK(cuMemSetAccess(at, SIZE, &access, 1));
    unmap(at);
    OK(cuMemRelease(allocation));
}

/* The second device has access to the first one, as far as cuMemAlloc is concerned. */
static void access_of_peer(void) {
    Access both[] = {access_of(0), access_of(1)};
    start(0);
    c1 = retain(1);
    OK(cuCtxSetCurrent(c1));
    OK(cuCtxEnablePeerAccess(c0, 0));
    Allocation allocation = create(NONE);
    CUdeviceptr at = reserve(SIZE);
    CALL(cuMemMap, (at, SIZE, 0, allocation, 0));
    OK(cuMemSetAccess(at, SIZE, both, bad ? 1 : 2));
    unmap(at);
    OK(cuMemRelease(allocation));
}

/* The process ends with what it has mapped. */
static void no_access_left(void) {
    Access access = access_of(0);
    start(0);
    Allocation allocation = create(NONE);
    CUdeviceptr at = reserve(SIZE);
    CALL(cuMemMap, (at, SIZE, 0, allocation, 0));
    if (!bad) OK(cuMemSetAccess(at, SIZE, &access, 1));
}

/* Exports as a program does that sends each descriptor, and keeps it. */
static void leak(void) {
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    for (int i = 0; i < 64; i++) {
        int fd = -1;
        if (i == 0) CALL(cuMemExportToShareableHandle, (&fd, allocation, DESCRIPTOR, 0));
        else OK(cuMemExportToShareableHandle(&fd, allocation, DESCRIPTOR, 0));
        if (!bad) close(fd);
    }
    OK(cuMemRelease(allocation));
}

/* Imports what it gets when all was sent, and keeps the descriptors. */
static void collect(struct link parent) {
    start(0);
    wait_for(parent);
    for (int i = 0; i < 64; i++) {
        int fd = receive_descriptor();
        Allocation allocation;
        if (i == 0) CALL(cuMemImportFromShareableHandle, (&allocation, as_pointer(fd), DESCRIPTOR));
        else allocation = imported(fd);
        OK(cuMemRelease(allocation));
        if (!bad) close(fd);
    }
    tell(parent);
}
static void leak_imported(void) {
    struct link link;
    employ_with_socket(&link, collect);
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    for (int i = 0; i < 64; i++) {
        int fd = exported(allocation);
        send_descriptor(fd);
        close(fd);
    }
    tell(link);
    wait_for(link);
    ended(link);
    OK(cuMemRelease(allocation));
}

/* Imports memory for each message, and gives it up. */
enum { FRAMES = 64 };
static void import_each(struct link parent) {
    start(0);
    for (int i = 0; i < (bad ? FRAMES : 1); i++) {
        int fd = receive_descriptor();
        OK(cuMemRelease(imported(fd)));
        close(fd);
        tell(parent);
    }
}
static void exported_again(void) {
    struct link link;
    employ_with_socket(&link, import_each);
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    for (int i = 0; i < (bad ? FRAMES : 1); i++) {
        int fd = -1;
        CUresult result = cuMemExportToShareableHandle(&fd, allocation, DESCRIPTOR, 0);
        if (i == 0) printed("cuMemExportToShareableHandle", result);
        OK(result);
        send_descriptor(fd);
        close(fd);
        wait_for(link);
    }
    ended(link);
    OK(cuMemRelease(allocation));
}

/* Maps and unmaps memory for each message, and forgets the handle, or the addresses. */
enum { MESSAGES = 8 };
static void handles_pile_up(void) {
    start(0);
    for (int i = 0; i < MESSAGES; i++) {
        Allocation allocation = create(NONE);
        unmap(map(allocation));
        if (!bad) OK(cuMemRelease(allocation));
    }
    printed("cuMemCreate", 0);
}
static void addresses_pile_up(void) {
    Access access = access_of(0);
    start(0);
    Allocation allocation = create(NONE);
    for (int i = 0; i < 3 * MESSAGES; i++) { /* fewer can be spare ones */
        CUdeviceptr at = reserve(SIZE);
        OK(cuMemMap(at, SIZE, 0, allocation, 0));
        OK(cuMemSetAccess(at, SIZE, &access, 1));
        OK(cuMemUnmap(at, SIZE));
        if (!bad) OK(cuMemAddressFree(at, SIZE));
    }
    printed("cuMemAddressReserve", 0);
    OK(cuMemRelease(allocation));
}

/* Three ranks that send each other descriptors, and import them when they have got all; in the wrong job, the last one
 * sends none, and the others wait. */
enum { RANKS = 3 };
static int rank, inbox[RANKS][2];
static void exchange(struct link parent) {
    char text[2] = {(char)('0' + rank), 0};
    CHECK(setenv("RANK", text, 1) == 0);
    start(0);
    Allocation allocation = create(DESCRIPTOR);
    if (bad && rank == RANKS - 1) return;
    int fd = -1, got[RANKS - 1];
    CUresult result = cuMemExportToShareableHandle(&fd, allocation, DESCRIPTOR, 0);
    OK(rank == 0 ? printed("cuMemExportToShareableHandle", result) : result);
    for (int i = 1; i < RANKS; i++) {
        ours = inbox[(rank + i) % RANKS][1];
        send_descriptor(fd);
    }
    close(fd);
    tell(parent);
    theirs = inbox[rank][0];
    for (int i = 0; i < RANKS - 1; i++) got[i] = receive_descriptor();
    for (int i = 0; i < RANKS - 1; i++) {
        OK(cuMemRelease(imported(got[i])));
        close(got[i]);
    }
    OK(cuMemRelease(allocation));
}

static void ranks_wait(void) {
    struct link ranks[RANKS];
    for (int i = 0; i < RANKS; i++) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, inbox[i]) == 0);
    for (rank = 0; rank < RANKS; rank++) ranks[rank] = employ(exchange);
    for (int i = 0; i < RANKS; i++) {
        int waits = bad && i < RANKS - 1;
        if (waits) wait_for(ranks[i]);
        if (waits) CHECK(kill(ranks[i].pid, SIGKILL) == 0 && waitpid(ranks[i].pid, NULL, 0) == ranks[i].pid);
        else ended(ranks[i]);
    }
}

enum { IMPORTED = 16 };

static void import_some(struct link parent) {
    CUresult result = 0;
    start(0);
    for (int i = 0; i < IMPORTED; i++) {
        Allocation allocation;
        int fd = receive_descriptor();
        OK(result = cuMemImportFromShareableHandle(&allocation, as_pointer(fd), DESCRIPTOR));
        close(fd);
        CUdeviceptr at = map(allocation);
        if (bad) if (i % 4 == 1) continue;
        unmap(at);
        OK(cuMemRelease(allocation));
    }
    printed("cuMemImportFromShareableHandle", result);
    tell(parent);
}
/* Releases its own memory at once: the descriptors keep it. */
static void imports_leak(void) {
    struct link link;
    employ_with_socket(&link, import_some);
    start(0);
    for (int i = 0; i < IMPORTED; i++) {
        Allocation allocation = create(DESCRIPTOR);
        int fd = exported(allocation);
        send_descriptor(fd);
        close(fd);
        OK(cuMemRelease(allocation));
    }
    wait_for(link);
    ended(link);
}

/* Imports memory and maps it, in a context of its own that ends first; and has legacy memory open, which it closes before
 * the exporter's context ends, or too late. */
static void use_both(struct link parent) {
    CUcontext context;
    start(0);
    OK(cuCtxCreate_v2(&context, 0, 0));
    Allocation allocation = imported(receive_descriptor());
    CUdeviceptr at = map(allocation);
    OK(cuCtxDestroy_v2(context));
    OK(cuCtxSetCurrent(c0));
    OK(cuMemsetD32_v2(at, 7, SIZE / 4));
    OK(cuCtxSynchronize());
    CUdeviceptr legacy = open_memory(get_handle(parent));
    if (!bad) OK(cuIpcCloseMemHandle(legacy));
    tell(parent);
    wait_for(parent);
    OK(cuMemsetD32_v2(at, 8, SIZE / 4));
    if (bad) OK(cuIpcCloseMemHandle(legacy));
    unmap(at);
    OK(cuMemRelease(allocation));
    tell(parent);
}
/* The context ends that was current when all of it was made. In the right program, only virtual memory is open: that goes on. */
enum end { DESTROYED, RELEASED, RESET };
static void context_ended(enum end how) {
    struct link link;
    CUcontext context;
    employ_with_socket(&link, use_both);
    start(0);
    if (how == DESTROYED) OK(cuCtxCreate_v2(&context, 0, 0));
    Allocation allocation = create(DESCRIPTOR), other = create(DESCRIPTOR);
    CUdeviceptr at = map(allocation);
    int fd = exported(allocation);
    close(exported(other));
    OK(cuMemRelease(other));
    send_descriptor(fd);
    close(fd);
    put_handle(link, export(allocate()));
    wait_for(link);
    if (how == DESTROYED) CALL(cuCtxDestroy_v2, (context));
    if (how == RELEASED) CALL(cuDevicePrimaryCtxRelease_v2, (0));
    if (how == RESET) CALL(cuDevicePrimaryCtxReset_v2, (0));
    OK(cuCtxSetCurrent(retain(0)));
    OK(cuMemsetD32_v2(at, 9, SIZE / 4));
    OK(cuCtxSynchronize());
    tell(link);
    wait_for(link);
    ended(link);
    unmap(at);
    OK(cuMemRelease(allocation));
}
static void context_destroyed(void) { context_ended(DESTROYED); }
static void context_released(void) { context_ended(RELEASED); }
static void context_reset(void) { context_ended(RESET); }

SCENES({"ipc-context-ended-while-open/virtual", context_destroyed},
       {"ipc-context-ended-while-open/virtual-release", context_released},
       {"ipc-context-ended-while-open/virtual-reset", context_reset}, {"ranks-wait-for-descriptor", ranks_wait}, {"vmm-leak", imports_leak}, {"piles-up/handles", handles_pile_up}, {"piles-up/addresses", addresses_pile_up}, {"exported-again/descriptors", exported_again}, {"fd-leak", leak}, {"fd-leak/imported", leak_imported}, {"vmm-handle-type", handle_type}, {"vmm-handle-type/imported", reexport},
       {"vmm-unreachable-device", unreachable}, {"vmm-unreachable-device/imported", unreachable_imported},
       {"vmm-unreachable-device/several", unreachable_several},
       {"vmm-unreachable-device/none", no_such_device}, {"vmm-fabric-without-channel", fabric},
       {"vmm-descriptor", descriptor}, {"vmm-descriptor/taken", taken_by_a_file}, {"vmm-descriptor/closed", closed}, {"vmm-descriptor/refused", refused},
       {"vmm-granularity", granularity}, {"vmm-granularity/reserve", granularity_reserve},
       {"vmm-granularity/map", granularity_map}, {"vmm-partial-mapping", part},
       {"vmm-partial-mapping/offset", part_offset}, {"vmm-partial-mapping/imported", part_imported},
       {"vmm-mapped-twice", mapped_twice},
       {"vmm-reservation-in-use", in_use}, {"vmm-part-of-mapping", part_unmapped},
       {"vmm-part-of-mapping/access", part_accessible}, {"vmm-released-twice", released_twice}, {"vmm-handle-released", handle_released},
       {"vmm-handle-released/export", handle_released_export},
       {"vmm-access", access_of_peer}, {"vmm-no-access", no_access}, {"vmm-no-access/left", no_access_left})
