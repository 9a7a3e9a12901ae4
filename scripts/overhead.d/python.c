// Called from Python: prints what a call of cuCtxEnablePeerAccess that fails takes in nanoseconds, as the least and the median
// of batches. Each call has its own stack in the record: see apart.h.
#include "clock.h"
#include "apart.h"
#include <dlfcn.h>
enum { BATCH = 100 };
static int (*call)(void *, unsigned);
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
int prepare(const char *library) {
    void *driver = dlopen(library, RTLD_NOW);
    call = driver ? (int (*)(void *, unsigned))dlsym(driver, "cuCtxEnablePeerAccess") : 0;
    return call != 0;
}
int once(void) { return apart(call); }
int measure(int batches) {
    double *taken = calloc(batches, sizeof *taken);
    for (int b = 0; b < batches; b++) {
        double start = now();
        for (int i = 0; i < BATCH; i++)
            if (apart(call) == 0) return -1;
        taken[b] = (now() - start) / BATCH;
    }
    qsort(taken, batches, sizeof *taken, ascending);
    printf("%.1f %.1f", taken[0], taken[batches / 2]);
    fflush(stdout);
    free(taken);
    return 0;
}
