/* close RULE bad|good: rules about closing and freeing what others own. */
#include "rules.h"
#include <pthread.h>

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

/* Threads that open and close one handle at once; in the wrong program the driver closes what is closed already. */
static Handle shared;

static void *open_and_close(void *unused) {
    OK(cuCtxSetCurrent(c0));
    for (int i = 0; i < 300; i++) OK(cuIpcCloseMemHandle(open_memory(shared)));
    return unused;
}

static void by_threads(struct link parent) {
    pthread_t threads[4];
    start(0);
    shared = get_handle(parent);
    if (bad) {
        CUdeviceptr p = open_memory(shared);
        OK(cuIpcCloseMemHandle(p));
        answer("cuIpcCloseMemHandle", "0");
        CALL(cuIpcCloseMemHandle, (p));
        answer("cuIpcCloseMemHandle", NULL);
        return;
    }
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, open_and_close, NULL) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CALL(cuIpcCloseMemHandle, (open_memory(shared)));
}
static void contradicted(void) { export_for(by_threads); }

SCENES({"driver-contradicts-state/close", contradicted}, {"ipc-closed-twice", closed_twice}, {"ipc-close-address", close_address}, {"ipc-close-address/own", close_own},
       {"ipc-free-import", free_import})
