// Prints what a call takes in nanoseconds that the driver answers in the same way each time: the first one, and the least and
// the median of the last batches of CALLS calls. failing DRIVER CALL CALLS, where CALL is retain, enable, open or opened.
#include "clock.h"
#include <dlfcn.h>
enum { BATCH = 1000, BATCHES = 100 };
typedef struct { char bytes[64]; } handle;
static int (*retain)(unsigned long long *, unsigned long long);
static int (*enable)(void *, unsigned);
static int (*open_handle)(unsigned long long *, handle, unsigned);
static unsigned long long result;
static int kind;
// Each from one place. Addresses differ from one call to the next.
static inline int once(unsigned long long i) {
    handle given = {{0}};
    switch (kind) {
    case 'r': return retain(&result, 0x700000000000 + i * 512);
    case 'e': return enable(&result, 1);
    case 'f': given.bytes[0] = 1; // fall through
    default: return open_handle(&result, given, 1);
    }
}
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
__attribute__((noinline)) static double batch(unsigned long long from, int count, int *failed) {
    double start = now();
    for (int i = 0; i < count; i++) *failed += once(from + i) != 0;
    return (now() - start) / count;
}
int prepare(const char *library, const char *name) {
    void *driver = dlopen(library, RTLD_NOW);
    if (!driver) return 0;
    retain = (int (*)(unsigned long long *, unsigned long long))dlsym(driver, "cuMemRetainAllocationHandle");
    enable = (int (*)(void *, unsigned))dlsym(driver, "cuCtxEnablePeerAccess");
    open_handle = (int (*)(unsigned long long *, handle, unsigned))dlsym(driver, "cuIpcOpenMemHandle_v2");
    kind = strcmp(name, "opened") ? strcmp(name, "open") ? name[0] : 'f' : 'o';
    return retain && enable && open_handle;
}
// The function that Python calls, too.
int call(unsigned long long i) { return once(i); }
int measure(long calls) {
    double taken[BATCHES], first;
    int failed = 0;
    first = batch(0, 1, &failed);
    long done = 1;
    for (; done < calls - BATCH * BATCHES; done += BATCH) batch(done, BATCH, &failed);
    for (int b = 0; b < BATCHES; b++, done += BATCH) taken[b] = batch(done, BATCH, &failed);
    if (failed != (kind == 'o' ? 0 : done)) return 0;
    qsort(taken, BATCHES, sizeof *taken, ascending);
    printf("%.1f %.1f %.1f\n", first, taken[0], taken[BATCHES / 2]);
    fflush(stdout);
    return 1;
}
int main(int argc, char **argv) {
    if (argc != 4 || !prepare(argv[1], argv[2]) || !measure(atol(argv[3]))) return 2;
}
