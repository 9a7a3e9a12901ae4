// The driver shuts down in a handler of exit that it has had since cuInit: what was there before comes too late.
#include "common.h"

int cuDeviceGetCount(int *), cuDevicePrimaryCtxRelease_v2(int);

static CUdeviceptr p;
static void *context;

static void too_late(void) {
    int count = 7;
    void *other;
    IS(cuInit(0), 4);
    IS(cuDeviceGetCount(&count), 4);
    IS(count, 7);
    IS(cuCtxGetCurrent(&other), 4);
    IS(cuMemFree_v2(p), 4);
    IS(cuDevicePrimaryCtxRelease_v2(0), 4);
}

static void in_time(void) {
    int count = 0;
    IS(cuInit(0), 0);
    IS(cuDeviceGetCount(&count), 0);
    IS(count, 2);
    IS(cuMemAlloc_v2(&p, 4096), 0);
}

int main(void) {
    IS(atexit(too_late), 0);
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
    IS(atexit(in_time), 0);
    // A child has no driver that it could shut down, and cannot come too late.
    pid_t child = fork();
    if (child == 0) _exit(cuInit(0));
    int status = 0;
    waitpid(child, &status, 0);
    IS(WEXITSTATUS(status), 3);
    return 0;
}
