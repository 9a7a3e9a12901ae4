// Prints nanoseconds a call of what programs copy, free, and launch all the time, the least of many loops, in a process that shares
// nothing.
#include "measure.h"
int cuInit(unsigned), cuMemcpyDtoDAsync_v2(unsigned long long, unsigned long long, unsigned long, void *);
int cuMemFree_v2(unsigned long long), cuMemFreeAsync(unsigned long long, void *), cuGraphLaunch(void *, void *);
int main(void) {
    if (cuInit(0)) return 1;
    MEASURE("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2(i, 64, 8, 0));
    MEASURE("cuMemFree", cuMemFree_v2(i));
    MEASURE("cuMemFreeAsync", cuMemFreeAsync(i, 0));
    MEASURE("cuGraphLaunch", cuGraphLaunch((void *)64, 0));
    return 0;
}
