/* peer RULE bad|good: rules about any call, and about peer access. One process, but for two of them. */
#include "rules.h"
#include <pthread.h>

/* Both devices, the first one's context current. */
static void start_both(void) {
    start(0);
    c1 = retain(1);
}

static void ask(struct link parent) {
    int can;
    if (!bad) initialize();
    CALL(cuDeviceCanAccessPeer, (&can, 0, bad ? 0 : another()));
    tell(parent);
}

static void used_after_fork(void) {
    struct link child;
    int can;
    if (bad) {
        start(0);
        OK(cuDeviceCanAccessPeer(&can, 0, another()));
    }
    child = employ(ask);
    wait_for(child);
    ended(child);
}

static void not_initialized(void) {
    int can;
    load();
    if (!bad) OK(cuInit(0));
    CALL(cuDeviceCanAccessPeer, (&can, 0, bad ? 0 : another()));
    if (bad) OK(cuInit(0));
}

/* As a destructor that runs after the driver's own; the simulated driver is told to answer so. */
static void close_late(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    if (bad) answer("cuIpcCloseMemHandle", "4");
    CALL(cuIpcCloseMemHandle, (p));
    answer("cuIpcCloseMemHandle", NULL);
    if (bad) OK(cuIpcCloseMemHandle(p));
}

static void driver_shutting_down(void) {
    struct link child = employ(close_late);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(child, export(p));
    ended(child);
    OK(cuMemFree_v2(p));
}

static void context_destroyed(void) {
    start(0);
    CUdeviceptr p = allocate();
    Handle handle;
    if (bad) OK(cuDevicePrimaryCtxRelease_v2(0));
    CALL(cuIpcGetMemHandle, (&handle, p));
    if (!bad) OK(cuDevicePrimaryCtxRelease_v2(0));
}

/* Here the peer's context lives, and the current one does not. */
static void context_destroyed_enable(void) {
    start_both();
    if (bad) OK(cuDevicePrimaryCtxRelease_v2(0));
    CALL(cuCtxEnablePeerAccess, (c1, 0));
}

static CUdeviceptr of_main;

static void *export_in_thread(void *unused) {
    Handle handle;
    if (!bad) OK(cuCtxSetCurrent(c0));
    CALL(cuIpcGetMemHandle, (&handle, of_main));
    return unused;
}

static void no_current_context(void) {
    pthread_t thread;
    start(0);
    of_main = allocate();
    CHECK(pthread_create(&thread, NULL, export_in_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cuMemFree_v2(of_main));
}

static void null_argument(void) {
    start(0);
    CUdeviceptr p = allocate();
    Handle handle;
    CALL(cuIpcGetMemHandle, (bad ? NULL : &handle, p));
    OK(cuMemFree_v2(p));
}

static void device_out_of_range(void) {
    int can, count;
    start(0);
    OK(cuDeviceGetCount(&count));
    CALL(cuDeviceCanAccessPeer, (&can, 0, bad ? count : count - 1));
}

static void peer_same_device(void) {
    start_both();
    CALL(cuCtxEnablePeerAccess, (bad ? c0 : c1, 0));
}

static void peer_attribute_unknown(void) {
    int value;
    start(0);
    need(1);
    CALL(cuDeviceGetP2PAttribute, (&value, bad ? 77 : ACCESS_SUPPORTED, 0, 1));
}

static void atomic_operations_invalid(void) {
    unsigned capability;
    int operation = bad ? 99 : 0;
    start(0);
    need(1);
    CHECK(cuDeviceGetP2PAtomicCapabilities);
    CALL(cuDeviceGetP2PAtomicCapabilities, (&capability, &operation, 1, 0, 1));
}

static void peer_flags(void) {
    start_both();
    CALL(cuCtxEnablePeerAccess, (c1, bad ? LAZY : 0));
}

static void peer_context_invalid(void) {
    start_both();
    if (bad) OK(cuDevicePrimaryCtxRelease_v2(1));
    CALL(cuCtxEnablePeerAccess, (c1, 0));
}

static void peer_already_enabled(void) {
    start_both();
    OK(cuCtxEnablePeerAccess(c1, 0));
    if (!bad) OK(cuCtxDisablePeerAccess(c1));
    CALL(cuCtxEnablePeerAccess, (c1, 0));
}

/* Access is one-way: what was enabled from the first device's context is not disabled from the second's. */
static void peer_not_enabled(void) {
    start_both();
    OK(cuCtxEnablePeerAccess(c1, 0));
    if (bad) OK(cuCtxSetCurrent(c1));
    CALL(cuCtxDisablePeerAccess, (bad ? c0 : c1));
}

/* On a machine whose devices cannot reach each other. */
static void peer_unreachable(void) {
    int can;
    start_both();
    if (!bad) CALL(cuDeviceCanAccessPeer, (&can, 0, 1));
    if (bad || can) CALL(cuCtxEnablePeerAccess, (c1, 0));
}

static void peer_limit(void) {
    start_both();
    if (bad) answer("cuCtxEnablePeerAccess", "711");
    CALL(cuCtxEnablePeerAccess, (c1, 0));
    answer("cuCtxEnablePeerAccess", NULL);
}

/* A driver that says CUDA_SUCCESS to what is enabled already. */
static void driver_contradicts_state(void) {
    start_both();
    OK(cuCtxEnablePeerAccess(c1, 0));
    if (bad) answer("cuCtxEnablePeerAccess", "0");
    if (!bad) OK(cuCtxDisablePeerAccess(c1));
    CALL(cuCtxEnablePeerAccess, (c1, 0));
    answer("cuCtxEnablePeerAccess", NULL);
}

SCENES({"used-after-fork", used_after_fork}, {"not-initialized", not_initialized},
       {"driver-shutting-down", driver_shutting_down}, {"context-destroyed", context_destroyed},
       {"context-destroyed/enable", context_destroyed_enable},
       {"no-current-context", no_current_context}, {"null-argument", null_argument},
       {"device-out-of-range", device_out_of_range}, {"peer-same-device", peer_same_device},
       {"peer-attribute-unknown", peer_attribute_unknown}, {"atomic-operations-invalid", atomic_operations_invalid},
       {"peer-flags", peer_flags}, {"peer-context-invalid", peer_context_invalid},
       {"peer-already-enabled", peer_already_enabled}, {"peer-not-enabled", peer_not_enabled},
       {"peer-unreachable", peer_unreachable}, {"peer-limit", peer_limit},
       {"driver-contradicts-state", driver_contradicts_state})
