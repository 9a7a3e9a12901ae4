// Prints what a call takes in nanoseconds that the driver answers in the same way each time: the first one, and the least and
// the median of the last batches of CALLS calls. failing DRIVER CALL CALLS [listen], where CALL is retain, enable, open or opened.
// A real driver gets a context of device 0. With `listen`, it explains each failure to a function that does nothing.
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
static void hear(void *data, int level, char *message, size_t length) { (void)data, (void)level, (void)message, (void)length; }
// Fails if a driver that has contexts gives none.
static int initialize(void *driver) {
    int (*initialize)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*retain_context)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*set_context)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    void *context;
    if (!retain_context || !set_context) return 1;
    return initialize && !initialize(0) && !retain_context(&context, 0) && !set_context(context);
}
// Fails if the driver has no log.
static int listen_to(const char *library) {
    typedef int (*add)(void (*)(void *, int, char *, size_t), void *, void **);
    add register_callback = (add)dlsym(dlopen(library, RTLD_NOW), "cuLogsRegisterCallback");
    void *handle;
    return register_callback && !register_callback(hear, NULL, &handle);
}
int prepare(const char *library, const char *name) {
    void *driver = dlopen(library, RTLD_NOW);
    if (!driver || !initialize(driver)) return 0;
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
    int listens = argc == 5 && !strcmp(argv[4], "listen");
    if (argc != 4 + listens || !prepare(argv[1], argv[2]) || (listens && !listen_to(argv[1])) || !measure(atol(argv[3]))) return 2;
}
