/* multicast RULE bad|good: rules about multicast objects. None is played on a real GPU: to make such objects can disturb
 * what others do on the same machine. */
#include "descriptors.h"
#include <signal.h>
#include <sys/time.h>

enum { NONE = 0, DESCRIPTOR = 1, DEVICE = 1, PINNED = 1, READ_WRITE = 3, MULTICAST_SUPPORTED = 132 };

static Team wanted(unsigned devices) { return (Team){.devices = devices, .size = SIZE, .handle_types = DESCRIPTOR}; }

/* An object for so many devices, of which the first is added. */
static Allocation gather(unsigned devices) {
    Allocation team;
    Team it = wanted(devices);
    size_t granularity;
    OK(cuMulticastGetGranularity(&granularity, &it, 0));
    CHECK(SIZE % granularity == 0);
    OK(cuMulticastCreate(&team, &it));
    OK(cuMulticastAddDevice(team, 0));
    return team;
}

static Allocation create(int device, int types) {
    Allocation allocation;
    Properties it = {.type = PINNED, .handle_types = types, .location = {DEVICE, device}};
    OK(cuMemCreate(&allocation, SIZE, &it, 0));
    return allocation;
}

static void release(Allocation team, Allocation memory) {
    OK(cuMemRelease(memory));
    OK(cuMemRelease(team));
}

/* The machine has no multicast; the right program asks. */
static void unsupported(void) {
    Allocation team;
    Team it = wanted(2);
    int has = 1;
    start(0);
    if (bad) {
        CALL(cuMulticastCreate, (&team, &it));
        return;
    }
    CALL(cuDeviceGetAttribute, (&has, MULTICAST_SUPPORTED, 0));
    CHECK(!has);
}

static void granularity(void) {
    Allocation team;
    Team it = wanted(2);
    size_t granularity;
    start(0);
    OK(cuMulticastGetGranularity(&granularity, &it, 0));
    it.size = bad ? SIZE + OFFSET : SIZE;
    if (CALL(cuMulticastCreate, (&team, &it)) == 0) OK(cuMemRelease(team));
}

static void granularity_bind(void) {
    start(0);
    Allocation team = gather(1), memory = create(0, DESCRIPTOR);
    CALL(cuMulticastBindMem, (team, bad ? OFFSET : 0, memory, 0, SIZE / 2, 0));
    release(team, memory);
}

static void added_twice(void) {
    start(0);
    Allocation team = gather(2);
    CALL(cuMulticastAddDevice, (team, bad ? 0 : 1));
    OK(cuMemRelease(team));
}

static void one_more(void) {
    start(0);
    Allocation team = gather(bad ? 1 : 2);
    CALL(cuMulticastAddDevice, (team, 1));
    OK(cuMemRelease(team));
}

static void foreign(void) {
    start(0);
    Allocation team = gather(1), memory = create(bad, DESCRIPTOR);
    CALL(cuMulticastBindMem, (team, 0, memory, 0, SIZE, 0));
    release(team, memory);
}

static void named(void) {
    start(0);
    Allocation team = gather(2), memory = create(0, DESCRIPTOR);
    OK(cuMulticastAddDevice(team, 1));
    CALL(cuMulticastBindMem_v2, (team, bad, 0, memory, 0, SIZE, 0));
    release(team, memory);
}

static void at_an_address(void) {
    Access access = {{DEVICE, 0}, READ_WRITE};
    CUdeviceptr at;
    start(0);
    Allocation team = gather(1), memory = create(bad, DESCRIPTOR);
    OK(cuMemAddressReserve(&at, SIZE, 0, 0, 0));
    OK(cuMemMap(at, SIZE, 0, memory, 0));
    OK(cuMemSetAccess(at, SIZE, &access, 1));
    CALL(cuMulticastBindAddr, (team, 0, at, SIZE, 0));
    OK(cuMemUnmap(at, SIZE));
    OK(cuMemAddressFree(at, SIZE));
    release(team, memory);
}

static void handle_type(void) {
    start(0);
    Allocation team = gather(1), memory = create(0, bad ? NONE : DESCRIPTOR);
    CALL(cuMulticastBindMem, (team, 0, memory, 0, SIZE, 0));
    release(team, memory);
}

static void no_more(int signal) {
    (void)signal;
    dprintf(1, "done\n");
    _exit(0);
}

/* The second object lacks a device: the call waits, until the process has had enough. */
static void incomplete(void) {
    struct itimerval patience = {.it_value = {0, 300000}};
    start(0);
    Allocation whole = gather(1), other = gather(2), memory = create(0, DESCRIPTOR);
    CALL(cuMulticastBindMem, (whole, 0, memory, 0, SIZE, 0));
    if (bad) {
        CHECK(signal(SIGALRM, no_more) != SIG_ERR && setitimer(ITIMER_REAL, &patience, NULL) == 0);
    } else {
        OK(cuMulticastAddDevice(other, 1));
    }
    OK(cuMulticastBindMem(other, 0, memory, 0, SIZE, 0));
    OK(cuMemRelease(whole));
    release(other, memory);
}

/* Imports a multicast object; has legacy memory open, which it closes before the exporter's context ends, or too late. */
static void import_team(struct link parent) {
    Allocation team;
    start(0);
    int fd = receive_descriptor();
    OK(cuMemImportFromShareableHandle(&team, as_pointer(fd), DESCRIPTOR));
    close(fd);
    CUdeviceptr legacy = open_memory(get_handle(parent));
    if (!bad) OK(cuIpcCloseMemHandle(legacy));
    tell(parent);
    wait_for(parent);
    if (bad) OK(cuIpcCloseMemHandle(legacy));
    OK(cuMemRelease(team));
    tell(parent);
}
/* The context ends that was current when all of it was made. In the right program, only the multicast object is open. */
static void context_ended(void) {
    struct link link;
    CUcontext context;
    int fd;
    employ_with_socket(&link, import_team);
    start(0);
    OK(cuCtxCreate_v2(&context, 0, 0));
    Allocation team = gather(1);
    OK(cuMemExportToShareableHandle(&fd, team, DESCRIPTOR, 0));
    send_descriptor(fd);
    close(fd);
    put_handle(link, export(allocate()));
    wait_for(link);
    CALL(cuCtxDestroy_v2, (context));
    tell(link);
    wait_for(link);
    ended(link);
    OK(cuMemRelease(team));
}

SCENES({"ipc-context-ended-while-open/multicast", context_ended}, {"multicast-incomplete", incomplete}, {"multicast-unsupported", unsupported}, {"multicast-granularity", granularity},
       {"multicast-granularity/bind", granularity_bind}, {"multicast-device", added_twice},
       {"multicast-device/more", one_more}, {"multicast-memory", foreign}, {"multicast-memory/named", named},
       {"multicast-memory/address", at_an_address}, {"multicast-handle-type", handle_type})
