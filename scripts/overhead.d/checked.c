// Prints what calls take while a job has many objects: NAME LEAST MEDIAN, in nanoseconds, of batches of calls.
// checked OBJECTS BATCHES
//
// One process exports OBJECTS allocations. Another one opens them all, and opens and closes them again, in an order in
// which neighbours are far from each other, so that each call finds its object outside of the nearest caches. A third
// one has neither exported nor opened anything. They take turns, and none runs while another is measured.
#include "clock.h"
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct { char bytes[64]; } handle;
typedef unsigned long long pointer;
typedef void *context;
enum { BATCH = 200, SIZE = 4096, STRIDE = 7919, LAZY = 1, GONE = 1000 };

#define FUNCTIONS(F)                                                                                                   \
    F(cuInit, (unsigned))                                                                                              \
    F(cuDevicePrimaryCtxRetain, (context *, int))                                                                      \
    F(cuCtxSetCurrent, (context))                                                                                      \
    F(cuDeviceCanAccessPeer, (int *, int, int))                                                                        \
    F(cuMemAlloc_v2, (pointer *, size_t))                                                                              \
    F(cuMemFree_v2, (pointer))                                                                                         \
    F(cuIpcGetMemHandle, (handle *, pointer))                                                                          \
    F(cuIpcOpenMemHandle_v2, (pointer *, handle, unsigned))                                                            \
    F(cuIpcCloseMemHandle, (pointer))                                                                                  \
    F(cuMemcpyHtoD_v2, (pointer, const void *, size_t))                                                                \
    F(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    F(cuLaunchKernel,                                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))
#define DECLARE(name, args) static int(*name) args;
FUNCTIONS(DECLARE)
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        int result_ = (call);                                                                                          \
        if (result_) fprintf(stderr, "checked: %s: %d\n", #call, result_), exit(1);                                    \
    } while (0)

static int objects, batches, launches_anything;
static handle *handles;
static pointer *pointers;
static double *taken, *closing;

// A process, and the pipes to and from it.
struct link {
    pid_t pid;
    int in, out;
};

static void start(void) {
    context c;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) fprintf(stderr, "checked: %s\n", dlerror()), exit(1);
#define FIND(name, args) *(void **)&name = dlsym(driver, #name);
    FUNCTIONS(FIND)
    launches_anything = dlsym(driver, "launches_anything") != NULL;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&c, 0));
    OK(cuCtxSetCurrent(c));
}

static void put(struct link link, const void *bytes, size_t size) {
    if (write(link.out, bytes, size) != (ssize_t)size) exit(1);
}
static void get(struct link link, void *bytes, size_t size) {
    for (size_t had = 0; had < size;) {
        ssize_t n = read(link.in, (char *)bytes + had, size - had);
        if (n <= 0) exit(1);
        had += (size_t)n;
    }
}

// Starts a process, which does some work, says so, and lives until it is told to end.
static struct link begin(void (*work)(struct link)) {
    int to[2], from[2];
    if (pipe(to) || pipe(from)) exit(1);
    struct link link = {fork(), from[0], to[1]};
    if (link.pid) return close(to[0]), close(from[1]), link;
    close(to[1]), close(from[0]);
    struct link parent = {0, to[0], from[1]};
    char turn = 0;
    alarm(300);
    start();
    work(parent);
    fflush(stdout);
    put(parent, &turn, 1);
    get(parent, &turn, 1);
    exit(0);
}
static void wait_for(struct link link) {
    char turn;
    get(link, &turn, 1);
}
static void end(struct link link) {
    int status = -1;
    put(link, "", 1);
    if (waitpid(link.pid, &status, 0) != link.pid || status)
        fprintf(stderr, "checked: a process ended with %d\n", status), exit(1);
}

// A pipe holds less than all handles, and the other one reads.
static void put_all(struct link link) {
    for (int i = 0; i < objects; i++) put(link, &handles[i], sizeof handles[i]);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
// The least and the median of what each call of the batches took; the first batch is left out.
static void print(const char *name, double *each) {
    qsort(each + 1, batches - 1, sizeof *each, ascending);
    printf("%s %.2f %.2f\n", name, each[1], each[batches / 2]);
}

static void export_all(struct link parent) {
    for (int i = 0; i < objects; i++) {
        pointer p;
        OK(cuMemAlloc_v2(&p, SIZE));
        OK(cuIpcGetMemHandle(&handles[i], p));
    }
    put_all(parent);
}

// Copies to what is open, or to memory that nobody shares.
static void copy(const char *name, const pointer *all, int count) {
    static char from[SIZE];
    int at = 0;
    for (int b = 0; b < batches; b++) {
        double begun = now();
        for (int i = 0; i < BATCH; i++, at = (at + STRIDE) % count) OK(cuMemcpyHtoD_v2(all[at], from, SIZE));
        taken[b] = (now() - begun) / BATCH;
    }
    print(name, taken);
}

// Launches a kernel with as many parameters as the driver says it has, each of which is the address of such memory.
static void launch(const char *name, const pointer *all, int count) {
    enum { PARAMETERS = 16 };
    void *parameters[PARAMETERS], *kernel;
    int at = 0;
    if (launches_anything) OK(cuModuleGetFunction(&kernel, (void *)1, "kernel"));
    for (int b = 0; b < batches && launches_anything; b++) {
        double begun = now();
        for (int i = 0; i < BATCH; i++) {
            for (int p = 0; p < PARAMETERS; p++, at = (at + STRIDE) % count) parameters[p] = (void *)&all[at];
            OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
        }
        taken[b] = (now() - begun) / BATCH;
    }
    if (launches_anything) print(name, taken);
}

static void import_all(struct link parent) {
    int can, at = 0;
    get(parent, handles, objects * sizeof *handles);
    for (int i = 0; i < objects; i++) OK(cuIpcOpenMemHandle_v2(&pointers[i], handles[i], LAZY));
    for (int b = 0; b < batches; b++) {
        double begun = now();
        for (int i = 0; i < BATCH; i++) OK(cuDeviceCanAccessPeer(&can, 0, 1));
        taken[b] = (now() - begun) / BATCH;
    }
    print("can_access", taken);
    for (int b = 0; b < batches; b++) {
        pointer p;
        int first = at;
        double begun = now();
        for (int i = 0; i < BATCH; i++, at = (at + STRIDE) % objects) OK(cuIpcOpenMemHandle_v2(&p, handles[at], LAZY));
        taken[b] = (now() - begun) / BATCH;
        at = first;
        begun = now();
        for (int i = 0; i < BATCH; i++, at = (at + STRIDE) % objects) OK(cuIpcCloseMemHandle(pointers[at]));
        closing[b] = (now() - begun) / BATCH;
    }
    print("open_again", taken);
    print("close_one_of_two", closing);
    copy("copy_open", pointers, objects);
    launch("launch_open", pointers, objects);
    // Every tenth one, so that each copy goes to a neighbour of what is gone.
    int open = 0, gone = 0;
    for (int i = 0; i < objects; i++)
        if (i % (objects / GONE) || gone == GONE) pointers[open++] = pointers[i];
        else {
            OK(cuIpcCloseMemHandle(pointers[i]));
            gone++;
        }
    copy("copy_gone", pointers, open);
    launch("launch_gone", pointers, open);
}

static void allocate(struct link parent) {
    pointer mine[BATCH];
    (void)parent;
    for (int i = 0; i < BATCH; i++) OK(cuMemAlloc_v2(&mine[i], SIZE));
    for (int b = 0; b < batches; b++) {
        double begun = now();
        for (int i = 0; i < BATCH; i++) {
            OK(cuMemFree_v2(mine[i]));
            OK(cuMemAlloc_v2(&mine[i], SIZE));
        }
        taken[b] = (now() - begun) / BATCH;
    }
    print("free_and_allocate", taken);
    copy("copy_alone", mine, BATCH);
    launch("launch_alone", mine, BATCH);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    objects = atoi(argv[1]), batches = atoi(argv[2]);
    handles = calloc(objects, sizeof *handles), pointers = calloc(objects, sizeof *pointers);
    taken = calloc(batches, sizeof *taken), closing = calloc(batches, sizeof *closing);
    if (objects < GONE || objects % STRIDE == 0 || batches < 3 || !handles || !pointers || !taken || !closing) return 2;
    struct link exporter = begin(export_all);
    get(exporter, handles, objects * sizeof *handles);
    wait_for(exporter);
    struct link importer = begin(import_all);
    put_all(importer);
    wait_for(importer);
    struct link third = begin(allocate);
    wait_for(third);
    end(third), end(importer), end(exporter);
    return 0;
}
