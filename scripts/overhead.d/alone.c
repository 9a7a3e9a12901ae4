// Prints nanoseconds a call of what programs copy and free all the time, the least of many loops, in a process that shares
// nothing.
#include <stdio.h>
#include <time.h>
int cuInit(unsigned), cuMemcpyDtoDAsync_v2(unsigned long long, unsigned long long, unsigned long, void *);
int cuMemFree_v2(unsigned long long), cuMemFreeAsync(unsigned long long, void *);
enum { CALLS = 200000, LOOPS = 60 };
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
#define MEASURE(name, call)                                                                                            \
    do {                                                                                                               \
        double least = 1e9;                                                                                            \
        for (int loop = 0; loop < LOOPS; loop++) {                                                                     \
            double start = now();                                                                                      \
            for (unsigned i = 0; i < CALLS; i++) call;                                                                 \
            double each = (now() - start) / CALLS;                                                                     \
            if (each < least) least = each;                                                                            \
        }                                                                                                              \
        printf("%s %.3f\n", name, least);                                                                              \
    } while (0)
int main(void) {
    if (cuInit(0)) return 1;
    MEASURE("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2(i, 64, 8, 0));
    MEASURE("cuMemFree", cuMemFree_v2(i));
    MEASURE("cuMemFreeAsync", cuMemFreeAsync(i, 0));
    return 0;
}
