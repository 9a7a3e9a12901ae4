/* export RULE bad|good: rules about what is exported. */
#include "rules.h"

static void export_and_free(CUdeviceptr p, CUdeviceptr base) {
    Handle handle;
    CALL(cuIpcGetMemHandle, (&handle, p));
    OK(cuMemFree_v2(base));
}

static void memory_kind(void) {
    CUdeviceptr p;
    start(0);
    if (bad) OK(cuMemAllocManaged(&p, SIZE, ATTACH_GLOBAL));
    else p = allocate();
    export_and_free(p, p);
}

static void memory_kind_pool(void) {
    CUdeviceptr p;
    start(0);
    if (bad) OK(cuMemAllocAsync(&p, SIZE, NULL));
    else p = allocate();
    export_and_free(p, p);
}

static void memory_kind_host(void) {
    void *host;
    Handle handle;
    start(0);
    if (!bad) {
        CUdeviceptr p = allocate();
        export_and_free(p, p);
        return;
    }
    OK(cuMemAllocHost_v2(&host, SIZE));
    CALL(cuIpcGetMemHandle, (&handle, (CUdeviceptr)(size_t)host));
    OK(cuMemFreeHost(host));
}

static void pointer_unknown(void) {
    Handle handle;
    start(0);
    CUdeviceptr p = allocate();
    if (bad) OK(cuMemFree_v2(p));
    CALL(cuIpcGetMemHandle, (&handle, p));
    if (!bad) OK(cuMemFree_v2(p));
}

/* Passes on what it got: in the right program as it is, in the wrong one by an export of its own. */
static void pass_on(struct link parent) {
    start(0);
    Handle handle = get_handle(parent), again;
    CUdeviceptr p = open_memory(handle);
    if (bad) CALL(cuIpcGetMemHandle, (&again, p));
    put_handle(parent, handle);
    wait_for(parent);
    OK(cuIpcCloseMemHandle(p));
}

static void use(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    if (bad) p = open_memory(handle);
    else CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    OK(cuIpcCloseMemHandle(p));
}

static void reexport(void) {
    struct link first = employ(pass_on), second = employ(use);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(first, export(p));
    put_handle(second, get_handle(first));
    ended(second);
    tell(first);
    ended(first);
    OK(cuMemFree_v2(p));
}

static void reexport_in(struct link parent) {
    CUevent event;
    Handle again;
    start(0);
    Handle handle = get_handle(parent);
    if (!bad) CALL(cuIpcOpenEventHandle, (&event, handle));
    else OK(cuIpcOpenEventHandle(&event, handle));
    if (bad) CALL(cuIpcGetEventHandle, (&again, event));
    OK(cuEventDestroy_v2(event));
}

static void reexport_event(void) {
    struct link importer = employ(reexport_in);
    CUevent event;
    Handle handle;
    start(0);
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    put_handle(importer, handle);
    ended(importer);
    OK(cuEventDestroy_v2(event));
}

static void interior_pointer(void) {
    start(0);
    CUdeviceptr p = allocate();
    export_and_free(bad ? p + OFFSET : p, p);
}

static void event_flags(void) {
    CUevent event;
    Handle handle;
    start(0);
    OK(cuEventCreate(&event, bad ? DISABLE_TIMING : INTERPROCESS | DISABLE_TIMING));
    CALL(cuIpcGetEventHandle, (&handle, event));
    OK(cuEventDestroy_v2(event));
}

/* The importer has the first allocation open until the second one is exported, or closes it before the first is freed. */
static void keep_open(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    if (!bad) OK(cuIpcCloseMemHandle(p));
    tell(parent);
    wait_for(parent);
    if (bad) OK(cuIpcCloseMemHandle(p));
}
static void address_reused(void) {
    struct link link = employ(keep_open);
    Handle handle;
    start(0);
    CUdeviceptr p = allocate();
    put_handle(link, export(p));
    wait_for(link);
    OK(cuMemFree_v2(p));
    CHECK(allocate() == p);
    CALL(cuIpcGetMemHandle, (&handle, p));
    tell(link);
    ended(link);
    OK(cuMemFree_v2(p));
}

SCENES({"ipc-memory-kind", memory_kind}, {"ipc-memory-kind/pool", memory_kind_pool},
       {"ipc-memory-kind/host", memory_kind_host}, {"ipc-pointer-unknown", pointer_unknown},
       {"ipc-reexport", reexport}, {"ipc-reexport/event", reexport_event},
       {"ipc-interior-pointer", interior_pointer}, {"ipc-event-flags", event_flags},
       {"ipc-address-reused", address_reused})
