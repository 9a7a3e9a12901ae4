// Device 1 reaches device 0, and not the other way.
#include "common.h"

int main(void) {
    void *a, *b;
    int v;
    IS(cuInit(0), 0);
    IS(cuCtxCreate_v2(&a, 0, 0), 0);
    IS(cuCtxCreate_v2(&b, 0, 1), 0);
    IS(cuDeviceCanAccessPeer(&v, 0, 1), 0);
    IS(v, 0);
    IS(cuDeviceCanAccessPeer(&v, 1, 0), 0);
    IS(v, 1);
    IS(cuCtxEnablePeerAccess(a, 0), 0);
    IS(cuCtxSetCurrent(a), 0);
    IS(cuCtxEnablePeerAccess(b, 0), 217);
    return 0;
}
