// Prints what a call of cuCtxEnablePeerAccess that fails takes in nanoseconds, called DEPTH functions deep: the least and
// the median of BATCHES batches. Each call has its own stack in the record: see apart.h. frames LIBRARY DEPTH BATCHES
#include "clock.h"
#include "apart.h"
#include <dlfcn.h>
enum { BATCH = 2000 };
static int (*call)(void *, unsigned);
static double *taken;
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
__attribute__((noinline)) static int measure(int depth, int batches) {
    if (depth > 2) return measure(depth - 1, batches) + 1;
    for (int b = 0; b < batches; b++) {
        double start = now();
        for (int i = 0; i < BATCH; i++)
            if (apart(call) == 0) return -1;
        taken[b] = (now() - start) / BATCH;
    }
    return 0;
}
int main(int argc, char **argv) {
    if (argc != 4) return 2;
    void *library = dlopen(argv[1], RTLD_NOW);
    int batches = atoi(argv[3]);
    call = library ? (int (*)(void *, unsigned))dlsym(library, "cuCtxEnablePeerAccess") : 0;
    taken = calloc(batches, sizeof *taken);
    if (!call || !taken || measure(atoi(argv[2]), batches) < 0) return 2;
    qsort(taken, batches, sizeof *taken, ascending);
    printf("%.1f %.1f\n", taken[0], taken[batches / 2]);
}
