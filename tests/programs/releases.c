/* releases: retains the primary context of a device four times, lets it use the memory of another device, and releases it four
 * times: the last release ends it. */
#include "../conformance/programs/vmm.h"

int cuDevicePrimaryCtxRelease_v2(int), cuCtxEnablePeerAccess(void *, unsigned);

enum { TIMES = 4 };

int main(void) {
    void *own, *other;
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&other, 1), 0);
    for (int i = 0; i < TIMES; i++) IS(cuDevicePrimaryCtxRetain(&own, 0), 0);
    IS(cuCtxSetCurrent(own), 0);
    IS(cuCtxEnablePeerAccess(other, 0), 0);
    for (int i = 0; i < TIMES; i++) IS(cuDevicePrimaryCtxRelease_v2(0), 0);
}
