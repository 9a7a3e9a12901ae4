// Prints nanoseconds an allocation and a free of device memory: of 4,096 at a time, so that their table is as large as a program's; and
// of large ones by turns. Each is the least and the median of many loops.
#include "clock.h"
#include <stdlib.h>
typedef unsigned long long pointer;
int cuInit(unsigned), cuMemAlloc_v2(pointer *, unsigned long), cuMemFree_v2(pointer);
int cuMemAllocAsync(pointer *, unsigned long, void *), cuMemFreeAsync(pointer, void *);
enum { COUNT = 4096, LOOPS = 1000, FEW = 64 };
static pointer made[COUNT];
static double times[2][LOOPS];
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static void print(const char *name, double *times) {
    qsort(times, LOOPS, sizeof *times, ascending);
    printf("%s %.3f %.3f\n", name, times[0], times[LOOPS / 2]);
}
#define MEASURE(count, allocate, release, alloc_name, free_name)                                                       \
    do {                                                                                                               \
        for (int loop = 0; loop < LOOPS; loop++) {                                                                     \
            double start = now();                                                                                      \
            for (int i = 0; i < count; i++) allocate;                                                                  \
            double between = now();                                                                                    \
            for (int i = 0; i < count; i++) release;                                                                   \
            times[0][loop] = (between - start) / count, times[1][loop] = (now() - between) / count;                    \
        }                                                                                                              \
        print(alloc_name, times[0]), print(free_name, times[1]);                                                       \
    } while (0)
int main(void) {
    if (cuInit(0)) return 1;
    MEASURE(COUNT, cuMemAlloc_v2(&made[i], 1000), cuMemFree_v2(made[i]), "cuMemAlloc", "cuMemFree");
    MEASURE(COUNT, cuMemAllocAsync(&made[i], 1000, 0), cuMemFreeAsync(made[i], 0), "cuMemAllocAsync", "cuMemFreeAsync");
    MEASURE(FEW, cuMemAlloc_v2(&made[i], 2 << 20), cuMemFree_v2(made[i]), "cuMemAlloc_2MiB", "cuMemFree_2MiB");
    return 0;
}
