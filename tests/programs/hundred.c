/* hundred WHAT: one mistake at one line, a hundred times, of a hundred things. */
#include "rules/memory.h"

enum { TIMES = 100 };
static const char *what;
static int is(const char *name) { return strcmp(what, name) == 0; }

static void import(struct link parent) {
    static CUdeviceptr open[TIMES];
    static CUevent events[TIMES];
    Handle handle;
    start(0);
    for (int i = 0; i < TIMES; i++) {
        handle = get_handle(parent);
        if (is("freed")) open[i] = open_memory(handle);
        if (is("destroyed") || is("late")) OK(cuIpcOpenEventHandle(&events[i], handle));
        if (is("after-free")) CHECK(cuIpcOpenMemHandle_v2(&open[i], handle, LAZY) != 0);
        tell(parent);
    }
    wait_for(parent);
    for (int i = 0; i < TIMES; i++) {
        if (is("freed")) OK(cuIpcCloseMemHandle(open[i]));
        if (is("destroyed") || is("late")) OK(cuEventDestroy_v2(events[i]));
    }
    tell(parent);
    wait_for(parent);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    static CUdeviceptr memory[TIMES];
    static CUevent events[TIMES];
    Handle handle;
    what = argv[1];
    struct link link = employ(import);
    start(0);
    for (int i = 0; i < TIMES; i++) {
        if (is("freed") || is("after-free")) {
            handle = export(memory[i] = allocate());
        } else {
            OK(cuEventCreate(&events[i], INTERPROCESS | DISABLE_TIMING));
            OK(cuIpcGetEventHandle(&handle, events[i]));
        }
        if (is("after-free")) OK(cuMemFree_v2(memory[i]));
        if (is("late")) OK(cuEventDestroy_v2(events[i]));
        put_handle(link, handle);
        wait_for(link);
    }
    for (int i = 0; i < TIMES; i++) {
        if (is("freed")) OK(cuMemFree_v2(memory[i]));
        if (is("destroyed")) OK(cuEventDestroy_v2(events[i]));
    }
    tell(link);
    wait_for(link);
    tell(link);
    ended(link);
    return 0;
}
