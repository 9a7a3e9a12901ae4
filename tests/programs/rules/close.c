/* close RULE bad|good: rules about closing and freeing what others own. */
#include "rules.h"

/* The right one has opened it as often. */
static void twice(struct link parent) {
    start(0);
    Handle handle = get_handle(parent);
    CUdeviceptr p = open_memory(handle);
    if (!bad) OK(cuIpcOpenMemHandle_v2(&p, handle, LAZY));
    OK(cuIpcCloseMemHandle(p));
    CALL(cuIpcCloseMemHandle, (p));
}
static void closed_twice(void) { export_for(twice); }

static void inside(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent));
    CALL(cuIpcCloseMemHandle, (bad ? p + OFFSET : p));
    if (bad) OK(cuIpcCloseMemHandle(p));
}
static void close_address(void) { export_for(inside); }

static void own_memory(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent)), own = allocate();
    CALL(cuIpcCloseMemHandle, (bad ? own : p));
    if (bad) OK(cuIpcCloseMemHandle(p));
    OK(cuMemFree_v2(own));
}
static void close_own(void) { export_for(own_memory); }

static void freed(struct link parent) {
    start(0);
    CUdeviceptr p = open_memory(get_handle(parent)), own = allocate();
    CALL(cuMemFree_v2, (bad ? p : own));
    if (bad) OK(cuMemFree_v2(own));
    OK(cuIpcCloseMemHandle(p));
}
static void free_import(void) { export_for(freed); }

SCENES({"ipc-closed-twice", closed_twice}, {"ipc-close-address", close_address}, {"ipc-close-address/own", close_own},
       {"ipc-free-import", free_import})
