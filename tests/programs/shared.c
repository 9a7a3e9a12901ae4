/* shared COMMAND...: does what its arguments say, one after the other; `m` is a number that a handle is made of.
 *   export:m  export-event:m   free:m   destroy:m      what this process owns
 *   open:m    close:m          open-event:m   destroy:m   what others own
 *   peer:m    unpeer:m         access to a context
 *   destroy-context:m          reset
 *   ask:N     as many calls about devices
 *   fork      a child goes on as its parent does, who waits for it at the end
 *   wait      prints a line, and waits for one on stdin
 *   kill      SIGKILL
 *   random:SEED  opens and closes handles from 70000 on at random until it is killed; prints a line first */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

static void random_calls(unsigned seed) {
    char held[64] = {0};
    CUdeviceptr pointer;
    CUipcMemHandle handle;
    alarm(60);
    for (unsigned i = 0;; i++) {
        seed = seed * 1103515245 + 12345;
        unsigned k = seed >> 16 & 63, m = 70000 + k;
        if (k < 4) {
            CHECK(cuIpcGetMemHandle(&handle, 80000 + 1000 * (unsigned)(getpid() % 1000) + i % 50) == 0);
            CHECK(cuMemFree_v2(80000 + 1000 * (unsigned)(getpid() % 1000) + i % 50) == 0);
        } else if (held[k]) {
            CHECK(cuIpcCloseMemHandle(m) == 0);
            held[k] = 0;
        } else {
            CHECK(cuIpcOpenMemHandle_v2(&pointer, marked_handle(m), m) == 0);
            held[k] = 1;
        }
    }
}

int main(int argc, char **argv) {
    struct outputs o;
    pid_t child = 0;
    for (int i = 1; i < argc; i++) {
        char *colon = strchr(argv[i], ':');
        unsigned m = colon ? (unsigned)atoi(colon + 1) : 0;
        size_t length = colon ? (size_t)(colon - argv[i]) : strlen(argv[i]);
#define IS(name) (length == strlen(name) && strncmp(argv[i], name, length) == 0)
        CUresult r = 0;
        char line[8];
        if (IS("export")) r = cuIpcGetMemHandle(&o.handle, m);
        else if (IS("export-event")) r = cuIpcGetEventHandle(&o.event_handle, (CUevent)(uintptr_t)m);
        else if (IS("free")) r = cuMemFree_v2(m);
        else if (IS("destroy")) r = cuEventDestroy_v2((CUevent)(uintptr_t)m);
        else if (IS("open")) r = cuIpcOpenMemHandle_v2(&o.pointer, marked_handle(m), m);
        else if (IS("close")) r = cuIpcCloseMemHandle(m);
        else if (IS("open-event")) r = cuIpcOpenEventHandle(&o.event, marked_event_handle(m));
        else if (IS("peer")) r = cuCtxEnablePeerAccess((CUcontext)(uintptr_t)m, 0);
        else if (IS("unpeer")) r = cuCtxDisablePeerAccess((CUcontext)(uintptr_t)m);
        else if (IS("destroy-context")) r = cuCtxDestroy_v2((CUcontext)(uintptr_t)m);
        else if (IS("reset")) r = cuDevicePrimaryCtxReset_v2(0);
        else if (IS("ask"))
            for (unsigned n = 0; n < m && r == 0; n++) r = cuDeviceCanAccessPeer(&o.number, 1, 1);
        else if (IS("fork")) CHECK((child = fork()) >= 0);
        else if (IS("kill")) raise(SIGKILL);
        else if (IS("wait")) {
            puts("waiting");
            fflush(stdout);
            CHECK(fgets(line, sizeof line, stdin));
        } else if (IS("random")) {
            puts("waiting");
            fflush(stdout);
            random_calls(m);
        }
        else CHECK(!"a command");
        CHECK(r == 0);
    }
    CHECK(child == 0 || waitpid(child, NULL, 0) == child);
    return 0;
}
