// Prints what calls take that UCX makes for each message, and NCCL for each launch: NAME LEAST MEDIAN, in nanoseconds, of batches of calls. It links the driver.
// frequent BATCHES
#include "clock.h"
typedef unsigned long long pointer;
typedef void *context;
enum { BATCH = 200 };
int cuInit(unsigned), cuDevicePrimaryCtxRetain(context *, int), cuCtxSetCurrent(context), cuMemAlloc_v2(pointer *, size_t);
int cuCtxEnablePeerAccess(context, unsigned), cuMemcpyDtoDAsync_v2(pointer, pointer, size_t, void *);
int cuDevicePrimaryCtxRelease_v2(int), cuKernelGetFunction(void **, void *);
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if (call) fprintf(stderr, "frequent: %s\n", #call), exit(1);                                                   \
    } while (0)

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
#define MEASURE(name, call)                                                                                            \
    do {                                                                                                               \
        for (int b = 0; b < batches; b++) {                                                                            \
            double begun = now();                                                                                      \
            for (int i = 0; i < BATCH; i++) OK(call);                                                                  \
            taken[b] = (now() - begun) / BATCH;                                                                        \
        }                                                                                                              \
        qsort(taken, batches, sizeof *taken, ascending);                                                               \
        printf("%s %.2f %.2f\n", name, taken[0], taken[batches / 2]);                                                  \
    } while (0)

int main(int count, char **arguments) {
    int batches = count > 1 ? atoi(arguments[1]) : 2000;
    double *taken = calloc(batches, sizeof *taken);
    context here, there;
    pointer own;
    void *kernel;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuDevicePrimaryCtxRetain(&here, 0));
    OK(cuCtxSetCurrent(here));
    OK(cuMemAlloc_v2(&own, 4096));
    OK(cuCtxEnablePeerAccess(there, 0));
    // job_driver.c says that it lies on the other device.
    MEASURE("copy_between", cuMemcpyDtoDAsync_v2(own, 0x600000000000, 8, NULL));
    MEASURE("copy_within", cuMemcpyDtoDAsync_v2(own, own, 8, NULL));
    MEASURE("find", cuKernelGetFunction(&kernel, (void *)0x1000));
    MEASURE("release", cuDevicePrimaryCtxRelease_v2(0));
}
