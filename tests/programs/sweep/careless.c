// One process that handles a failure in a way of its own: careless HOW [FILE]. Without a failure all do the same: they ask
// about peer access, switch it on and off, print "done", and end with 0.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult, CUdevice;
typedef struct CUctx *CUcontext;

static void *driver;
#define FIND(name, types) CUresult(*name) types = (CUresult(*) types)dlsym(driver, #name)

int main(int count, char **words) {
    const char *how = words[1], *file = count > 2 ? words[2] : "";
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return 2;
    FIND(cuInit, (unsigned));
    FIND(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice));
    FIND(cuCtxSetCurrent, (CUcontext));
    FIND(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice));
    FIND(cuDeviceGetP2PAttribute, (int *, int, CUdevice, CUdevice));
    FIND(cuCtxEnablePeerAccess, (CUcontext, unsigned));
    FIND(cuCtxDisablePeerAccess, (CUcontext));
    CUcontext own, peer;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&own, 0) || cuDevicePrimaryCtxRetain(&peer, 1) || cuCtxSetCurrent(own))
        return 2;
    if (!strcmp(how, "many")) {
        int can;
        for (int left = atoi(file); left > 0; left--) cuDeviceCanAccessPeer(&can, 0, 1);
    }
    if (!strcmp(how, "each")) {
        int can;
        for (int left = atoi(file); left > 0; left--)
            if (cuDeviceCanAccessPeer(&can, 0, 1)) abort();
    }
    if (!strcmp(how, "always")) *(volatile int *)0 = 0;
    CUresult enabled = cuCtxEnablePeerAccess(peer, 0);
    /* That it is enabled already is as good. */
    if (enabled && (enabled != 704 || strcmp(how, "tolerant"))) return 2;
    /* The system takes back what it has. */
    if (!strcmp(how, "ends")) return puts("done") < 0;
    int can = 0, is_off = 0;
    if (cuDeviceCanAccessPeer(&can, 0, 1)) {
        if (!strcmp(how, "crash")) *(volatile int *)0 = 0;
        if (!strcmp(how, "hang")) pause();
        if (!strcmp(how, "wrong")) puts("another result");
        if (!strcmp(how, "leak")) is_off = 1;
        if (!strcmp(how, "twice")) is_off = cuCtxDisablePeerAccess(peer) == 0 && cuCtxDisablePeerAccess(peer) < 0;
        if (!strcmp(how, "clean")) fprintf(stderr, "careless: cannot know\n");
        if (!strcmp(how, "child") && fork() == 0) pause();
        if (!strcmp(how, "behind") && cuDeviceGetP2PAttribute(&can, 1, 0, 1)) abort();
        // Every second time.
        if (!strcmp(how, "flaky") && unlink(file)) close(open(file, O_CREAT, 0600)), abort();
    }
    if (!is_off) cuCtxDisablePeerAccess(peer);
    puts("done");
    return strcmp(how, "clean") || can ? 0 : 3;
}
