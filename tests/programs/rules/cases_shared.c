/* cases_shared CASE bad: what users met, rebuilt, where it takes two processes. What each is stands at its head;
 * the names are those of tests/check/cases.rs. */
#include "rules.h"
#include <pthread.h>
#include <signal.h>

/* A4: nobody looks at the export, and what it should have filled is sent on. */
static void open_what_came(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
}
static void unchecked_export(void) {
    struct link link = employ(open_what_came);
    Handle handle;
    CUdeviceptr p;
    memset(&handle, 0, sizeof handle);
    start(0);
    OK(cuMemAllocAsync(&p, SIZE, NULL));
    cuIpcGetMemHandle(&handle, p);
    put_handle(link, handle);
    ended(link);
    OK(cuMemFreeAsync(p, NULL));
}

/* A7: a small tensor lies in the middle of a block; the handle goes without its offset. */
static void read_tensor(struct link parent) {
    char text[9] = "";
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    OK(cuMemcpyDtoH_v2(text, p, 8));
    CHECK(strcmp(text, "neighbor") == 0);
    OK(cuIpcCloseMemHandle(p));
}
static void lost_offset(void) {
    struct link link = employ(read_tensor);
    start(0);
    CUdeviceptr block = allocate(), tensor = block + 3 * 512;
    OK(cuMemcpyHtoD_v2(block, "neighbor", 8));
    OK(cuMemcpyHtoD_v2(tensor, "my data!", 8));
    put_handle(link, export(tensor));
    ended(link);
    OK(cuMemFree_v2(block));
}

/* B3: two users of one handle in one process; the driver counts nothing and says so. */
static void open_again(struct link parent) {
    CUdeviceptr q;
    start(0);
    Handle handle = get_handle(parent);
    CUdeviceptr p = open_memory(handle);
    answer("cuIpcOpenMemHandle_v2", "208");
    CALL(cuIpcOpenMemHandle_v2, (&q, handle, LAZY));
    answer("cuIpcOpenMemHandle_v2", NULL);
    OK(cuIpcCloseMemHandle(p));
}
static void mapped_already(void) { export_for(open_again); }

/* B4: a helper thread, which no context is current in. */
static Handle for_thread;
static CUdeviceptr of_thread;
static void *open_there(void *unused) {
    CALL(cuIpcOpenMemHandle_v2, (&of_thread, for_thread, LAZY));
    return unused;
}
static void *close_there(void *unused) {
    CALL(cuIpcCloseMemHandle, (of_thread));
    return unused;
}
static void in_thread(void *(*what)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, what, NULL) == 0 && pthread_join(thread, NULL) == 0);
}
static void prefetch(struct link parent) {
    start(0);
    for_thread = get_handle(parent);
    in_thread(open_there);
}
static void helper_opens(void) { export_for(prefetch); }
static void progress(struct link parent) {
    start(0);
    of_thread = open_memory(get_handle(parent));
    in_thread(close_there);
    OK(cuIpcCloseMemHandle(of_thread));
}
static void helper_closes(void) { export_for(progress); }

/* B5: both take device 0, and it is not the same one. */
static void take_zero(struct link parent) {
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "1,0", 1) == 0);
    start(0);
    OK(cuIpcCloseMemHandle(open_memory(get_handle(parent))));
}
static void other_gpu(void) {
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "0,1", 1) == 0);
    export_for(take_zero);
}

/* B7: the exporter takes the other for itself and skips the export; the other opens what it received. */
static void skipped_export(void) {
    struct link link = employ(open_what_came);
    static Handle handle;
    int is_same_process = 1;
    start(0);
    CUdeviceptr p = allocate();
    if (!is_same_process) handle = export(p);
    put_handle(link, handle);
    ended(link);
    OK(cuMemFree_v2(p));
}

/* B9: a client with CUDA_VISIBLE_DEVICES=1 tells a server its device 0, which is another one there. */
static void serve(struct link parent) {
    CUdeviceptr p;
    CUdevice device;
    CHECK(unsetenv("CUDA_VISIBLE_DEVICES") == 0);
    get(parent, &device, sizeof device);
    start(device);
    Handle handle = get_handle(parent);
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
}
static void client_and_server(void) {
    struct link server = employ(serve);
    CUdevice device = 0;
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "1", 1) == 0);
    start(device);
    CUdeviceptr p = allocate();
    put(server, &device, sizeof device);
    put_handle(server, export(p));
    ended(server);
    OK(cuMemFree_v2(p));
}

/* E1: each rank sees one device, so that nobody can ask whether they reach each other. */
static void second_rank(struct link parent) {
    CUdeviceptr p;
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "1", 1) == 0);
    start(0);
    Handle handle = get_handle(parent);
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
}
static void one_gpu_each(void) {
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "0", 1) == 0);
    export_for(second_rank);
}

SCENES({"A4", unchecked_export}, {"A7", lost_offset}, {"B3", mapped_already}, {"B4-open", helper_opens},
       {"B4-close", helper_closes}, {"B5-order", other_gpu}, {"B7", skipped_export}, {"B9", client_and_server},
       {"E1", one_gpu_each})
