// Prints nanoseconds of calls that use memory, and of those that order such uses: `alone` without shared memory, `other` beside shared
// memory that they do not touch, `shared` on it, each behind a use so that it is recorded. Each is the least and the median of many loops.
#include "clock.h"
#include <stdlib.h>
#include <string.h>
typedef unsigned long long pointer;
typedef struct { char bytes[64]; } handle;
int cuInit(unsigned), cuMemAlloc_v2(pointer *, unsigned long), cuIpcGetMemHandle(handle *, pointer);
int cuMemcpyDtoDAsync_v2(pointer, pointer, unsigned long, void *), cuMemsetD8Async(pointer, unsigned char, unsigned long, void *);
int cuMemcpy2DAsync_v2(const void *, void *);
int cuMemcpyBatchAsync_v2(pointer *, pointer *, unsigned long *, unsigned long, void *, unsigned long *, unsigned long, void *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuStreamSynchronize(void *), cuStreamQuery(void *), cuEventRecord(void *, void *);
// So many calls are recorded before a pause.
enum { LOOPS = 40, COUNT = 12, MANY = 1000 };
// So many calls are looked at after an export, because more may be shared.
enum { EARLY = 4096 };
static double times[MANY];
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static int loops, count;
static void print(const char *name) {
    qsort(times, loops, sizeof *times, ascending);
    printf("%s %.3f %.3f\n", name, times[0], times[loops / 2]);
}
#define MEASURE(name, before, call)                                                                                    \
    do {                                                                                                               \
        for (int loop = 0; loop < loops; loop++) {                                                                     \
            double spent = 0, start = now();                                                                           \
            for (int i = 0; i < count; i++) {                                                                          \
                if (before) spent -= now(), use(), spent += now() + clock;                                             \
                call;                                                                                                  \
            }                                                                                                          \
            times[loop] = (now() - start - (before ? spent : 0)) / count;                                              \
        }                                                                                                              \
        print(name);                                                                                                   \
    } while (0)
static pointer memory, source;
static void *const stream = (void *)0x7000, *const event = (void *)0x8000;
static void use(void) { cuMemsetD8Async(memory, 1, 64, stream); }
int main(int argc, char **argv) {
    handle exported;
    pointer shared;
    int is_shared = argc > 1 && !strcmp(argv[1], "shared"), is_alone = argc > 1 && !strcmp(argv[1], "alone");
    if (cuInit(0) || cuMemAlloc_v2(&shared, 4 << 20) || cuMemAlloc_v2(&memory, 4 << 20) || cuMemAlloc_v2(&source, 4 << 20)) return 1;
    if (!is_alone && cuIpcGetMemHandle(&exported, shared)) return 1;
    if (is_shared) memory = shared;
    loops = is_shared ? LOOPS : MANY, count = is_shared ? COUNT : MANY;
    for (int i = 0; i < EARLY; i++) cuMemsetD8Async(source, 1, 64, stream);
    double clock = now();
    for (int i = 0; i < MANY; i++) now();
    clock = (now() - clock) / MANY;
    // CUDA_MEMCPY2D, with each side's x, y, kind, addresses, and pitch.
    struct { unsigned long x, y; int kind; void *host; pointer device; void *array; unsigned long pitch; } sides[2] = {
        {.kind = 2, .device = source, .pitch = 64}, {.kind = 2, .device = memory, .pitch = 64}};
    struct { char sides[sizeof sides]; unsigned long width, height; } rows = {.width = 16, .height = 4};
    memcpy(rows.sides, sides, sizeof sides);
    pointer to[2] = {memory, memory + 64}, from[2] = {source, source + 64};
    unsigned long sizes[2] = {64, 64}, first = 0;
    char attributes[24] = {1};
    // The first calls learn where everything is.
    for (int i = 0; i < 8; i++) {
        cuMemcpy2DAsync_v2(&rows, stream), cuMemcpyBatchAsync_v2(to, from, sizes, 2, attributes, &first, 1, stream);
        cuMemcpyDtoDAsync_v2(memory, source, 64, stream), use(), cuEventRecord(event, stream);
        cuStreamQuery(stream), cuStreamSynchronize(stream), cuLaunchKernel(event, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0);
    }
    MEASURE("copy", 0, cuMemcpyDtoDAsync_v2(memory, source, 64, stream));
    MEASURE("memset", 0, cuMemsetD8Async(memory, 1, 64, stream));
    MEASURE("rows", 0, cuMemcpy2DAsync_v2(&rows, stream));
    MEASURE("batch", 0, cuMemcpyBatchAsync_v2(to, from, sizes, 2, attributes, &first, 1, stream));
    MEASURE("launch", 0, cuLaunchKernel(event, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0));
    MEASURE("synchronize", is_shared, cuStreamSynchronize(stream));
    MEASURE("query", is_shared, cuStreamQuery(stream));
    MEASURE("event", is_shared, cuEventRecord(event, stream));
    return 0;
}
