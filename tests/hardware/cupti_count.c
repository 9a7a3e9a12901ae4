// An injected library that counts the driver's calls with CUPTI, by function and process, from cuInit on: an
// account of what happened that owes nothing to cupeer. CUDA_INJECTION64_PATH loads it, CUPTI_LIBRARY names
// libcupti, CUPTI_COUNTS the folder for its files. The counts live in a mapped file, because children of
// Python's multiprocessing leave without running exit handlers.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

// The parts of cupti_callbacks.h that are used.
typedef struct {
    int site;
    const char *function;
    const void *parameters;
    void *result;
} callback_data;
typedef void (*callback)(void *, int domain, uint32_t id, const callback_data *);
enum { SITE_ENTER = 0, DOMAIN_DRIVER_API = 1 };

struct row {
    char name[56];
    uint64_t count;
};
enum { ROWS = 1000 };
static struct {
    uint64_t started_ns;
    struct row rows[ROWS];
} *counts;

static void count(void *unused, int domain, uint32_t id, const callback_data *data) {
    (void)unused;
    if (domain != DOMAIN_DRIVER_API || data->site != SITE_ENTER || id >= ROWS) return;
    struct row *row = &counts->rows[id];
    if (!row->name[0]) strncpy(row->name, data->function, sizeof row->name - 1);
    __atomic_fetch_add(&row->count, 1, __ATOMIC_RELAXED);
}

int InitializeInjection(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", getenv("CUPTI_COUNTS"), getpid());
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *counts)) return 0;
    counts = mmap(0, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    void *cupti = dlopen(getenv("CUPTI_LIBRARY"), RTLD_NOW);
    int (*subscribe)(void **, callback, void *) = 0;
    int (*enable)(uint32_t, void *, int) = 0;
    if (cupti) {
        subscribe = (int (*)(void **, callback, void *))dlsym(cupti, "cuptiSubscribe");
        enable = (int (*)(uint32_t, void *, int))dlsym(cupti, "cuptiEnableDomain");
    }
    void *subscriber;
    if (counts == MAP_FAILED || !subscribe || !enable || subscribe(&subscriber, count, 0)) {
        fprintf(stderr, "cupti_count: no CUPTI: %s\n", dlerror());
        return 0;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    counts->started_ns = (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
    enable(1, subscriber, DOMAIN_DRIVER_API);
    return 1;
}
