// Prints nanoseconds a call of cuDeviceCanAccessPeer on a real driver, the least and the median of many loops, and
// the result and the answer. With CUPTI_LIBRARY set, an empty callback of CUPTI on this function alone is called
// before and after each call; that it was is checked. With the argument `clocks` each call stands between two reads
// of the clock that the record would use.
#include "../../scripts/overhead.d/clock.h"
#include <dlfcn.h>

// The parts of cupti_callbacks.h that are used.
typedef void (*callback)(void *, int domain, uint32_t id, const void *data);
enum { DOMAIN_DRIVER_API = 1, IDS = 2000 };

enum { CALLS = 20000, LOOPS = 100 };
static long seen;
static void empty(void *unused, int domain, uint32_t id, const void *data) {
    (void)unused, (void)domain, (void)id, (void)data;
}
static void counting(void *unused, int domain, uint32_t id, const void *data) {
    (void)unused, (void)domain, (void)id, (void)data;
    seen++;
}
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static int (*can_access)(int *, int, int);
static int peer, can;

static int subscribe(callback called, void **subscriber) {
    static void *cupti;
    if (!cupti) cupti = dlopen(getenv("CUPTI_LIBRARY"), RTLD_NOW);
    if (!cupti) return fprintf(stderr, "cupti_cost: %s\n", dlerror()), 1;
    int (*make)(void **, callback, void *) = (int (*)(void **, callback, void *))dlsym(cupti, "cuptiSubscribe");
    int (*drop)(void *) = (int (*)(void *))dlsym(cupti, "cuptiUnsubscribe");
    int (*enable)(uint32_t, void *, int, uint32_t) =
        (int (*)(uint32_t, void *, int, uint32_t))dlsym(cupti, "cuptiEnableCallback");
    int (*name_of)(int, uint32_t, const char **) =
        (int (*)(int, uint32_t, const char **))dlsym(cupti, "cuptiGetCallbackName");
    if (!make || !drop || !enable || !name_of) return 1;
    if (*subscriber) drop(*subscriber);
    if (make(subscriber, called, 0)) return fprintf(stderr, "cupti_cost: cuptiSubscribe fails\n"), 1;
    for (uint32_t id = 1; id < IDS; id++) {
        const char *name = 0;
        if (name_of(DOMAIN_DRIVER_API, id, &name) || !name || strcmp(name, "cuDeviceCanAccessPeer")) continue;
        return enable(1, *subscriber, DOMAIN_DRIVER_API, id);
    }
    return fprintf(stderr, "cupti_cost: CUPTI has no callback for cuDeviceCanAccessPeer\n"), 1;
}

int main(int argc, char **argv) {
    (void)argv;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return fprintf(stderr, "cupti_cost: %s\n", dlerror()), 2;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*count)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
    can_access = (int (*)(int *, int, int))dlsym(driver, "cuDeviceCanAccessPeer");
    int devices = 0;
    if (!init || !count || !can_access || init(0) || count(&devices) || !devices) return 2;
    peer = devices > 1;
    void *subscriber = 0;
    if (getenv("CUPTI_LIBRARY")) {
        if (subscribe(counting, &subscriber)) return 3;
        for (int i = 0; i < 10; i++) can_access(&can, 0, peer);
        if (seen != 20) return fprintf(stderr, "cupti_cost: %ld callbacks for 10 calls\n", seen), 3;
        if (subscribe(empty, &subscriber)) return 3;
    }
    int result = can_access(&can, 0, peer);
    static double each[LOOPS];
    uint64_t read = 0;
    int counter = by_counter();
    for (int loop = 0; loop < LOOPS; loop++) {
        double start = now();
        if (argc < 2)
            for (int i = 0; i < CALLS; i++) can_access(&can, 0, peer);
        else if (counter)
            for (int i = 0; i < CALLS; i++) read += ticks(), can_access(&can, 0, peer), read += ticks();
        else
            for (int i = 0; i < CALLS; i++) read += (uint64_t)now(), can_access(&can, 0, peer), read += (uint64_t)now();
        each[loop] = (now() - start) / CALLS;
    }
    qsort(each, LOOPS, sizeof *each, ascending);
    if (read == 1) return 4;
    printf("%.2f %.2f device 0 to %d: result %d, can %d\n", each[0], each[LOOPS / 2], peer, result, can);
    return 0;
}
