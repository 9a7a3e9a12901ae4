/* uses SEED STEPS right|planted TIMES THREADS: random lives of shared memory in one process, which copies, sets, and launches all the
 * time, also by graphs. It
 * opens what another one exported, maps and imports it, exports memory of its own, ends all of that and begins it anew, and
 * allocates in every way in between, so that addresses come back. A `right` program uses only what is there. A `planted` one
 * also uses what is gone, and prints `planted RULE FUNCTION` for each of these calls. */
#include "rules/memory.h"
#include <pthread.h>

typedef struct {
    size_t x, y;
    int type;
    void *host;
    CUdeviceptr device;
    void *array;
    size_t pitch;
} Side2D;
typedef struct {
    Side2D from, to;
    size_t width, height;
} Rows2D;
typedef struct {
    size_t x, y, z, level;
    int type;
    void *host;
    CUdeviceptr device;
    void *array, *context;
    size_t pitch, height;
} Side3D;
typedef struct {
    Side3D from, to;
    size_t width, height, depth;
} Rows3D;
typedef struct {
    CUdeviceptr at;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
} Fill;
enum { HOST = 1, ON_DEVICE = 2 };

#define MORE(F)                                                                                                        \
    F(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, void *))                                               \
    F(cuMemcpyHtoD_v2_ptds, (CUdeviceptr, const void *, size_t))                                                       \
    F(cuMemcpyDtoHAsync_v2_ptsz, (void *, CUdeviceptr, size_t, void *))                                                \
    F(cuMemcpy, (CUdeviceptr, CUdeviceptr, size_t))                                                                    \
    F(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, void *))                                                       \
    F(cuMemcpyDtoD_v2, (CUdeviceptr, CUdeviceptr, size_t))                                                             \
    F(cuMemcpyPeer, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t))                                          \
    F(cuMemcpy3D_v2, (const Rows3D *))                                                                                 \
    F(cuMemcpy3DPeerAsync, (const Rows3D *, void *))                                                                   \
    F(cuMemcpyBatchAsync, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, size_t *, void *))  \
    F(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))                                                             \
    F(cuMemsetD16Async, (CUdeviceptr, unsigned short, size_t, void *))                                                 \
    F(cuMemsetD2D32_v2, (CUdeviceptr, size_t, unsigned, size_t, size_t))                                               \
    F(cuMemsetD2D8Async_ptsz, (CUdeviceptr, size_t, unsigned char, size_t, size_t, void *))                            \
    F(cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned))                                         \
    F(cuModuleLoadData, (void **, const void *))                                                                       \
    F(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    F(cuModuleEnumerateFunctions, (void **, unsigned, void *))                                                         \
    F(cuModuleUnload, (void *))                                                                                        \
    F(cuLibraryLoadData, (void **, const void *, int *, void **, unsigned, int *, void **, unsigned))                  \
    F(cuLibraryGetKernel, (void **, void *, const char *))                                                             \
    F(cuLibraryEnumerateKernels, (void **, unsigned, void *))                                                          \
    F(cuLibraryGetModule, (void **, void *))                                                                           \
    F(cuLibraryUnload, (void *))                                                                                       \
    F(cuKernelGetFunction, (void **, void *))                                                                          \
    F(cuStreamCreate, (void **, unsigned))                                                                             \
    F(cuStreamBeginCapture_v2, (void *, int))                                                                          \
    F(cuStreamEndCapture, (void *, void **))                                                                           \
    F(cuGraphCreate, (void **, unsigned))                                                                              \
    F(cuGraphDestroy, (void *))                                                                                        \
    F(cuGraphAddMemsetNode, (void **, void *, void *, size_t, const Fill *, CUcontext))                                \
    F(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                              \
    F(cuGraphExecDestroy, (void *))                                                                                    \
    F(cuStreamSynchronize, (void *))                                                                                   \
    F(cuGraphLaunch, (void *, void *))                                                                                 \
    F(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))
#define DECLARE(name, args) static CUresult(*name) args;
MORE(DECLARE)
#undef DECLARE

enum { SHARED = 8, THREADS = 4, LIVE = 24, GONE = 24, INVALID_VALUE = 1 };
enum kind { OPENED, MAPPED, IMPORTED, EXPORTED, ALLOCATED, POOLED, MANAGED, PITCHED, KINDS };
static const char *const rules[KINDS] = {"use-after-close", "use-after-unmap", "use-after-free", "use-after-free"};

/* What the other process shares. */
static Handle handles[SHARED];
static PoolPointer pointers[SHARED];
static int descriptors[SHARED];
static Pool pool;

static __thread struct range {
    CUdeviceptr at;
    size_t size; /* 0 where there is none */
    enum kind kind;
    int shared;
    Allocation allocation;
    void *graph, *exec; /* which set it; null where there is none */
} live[LIVE], gone[GONE];
static char host[SIZE];
static CUdeviceptr own;
static __thread int planted, self;
static __thread unsigned state;
static __thread void *kernel, *module, *library, *stream;
static const char kernel_text[] = ".version 6.0\n.target sm_60\n.address_size 64\n"
                                  ".visible .entry add(.param .u32 n, .param .align 8 .b8 b[24], .param .u64 a)\n{\nret;\n}\n";

static int below(int limit) { return (int)((unsigned)rand_r(&state) % (unsigned)limit); }
static int touch(const struct range *a, const struct range *b) {
    return a->size && b->size && a->at < b->at + b->size && b->at < a->at + a->size;
}

/* Some place of an array: with something, or without. */
static struct range *some(struct range *all, int count, int is_there) {
    int first = below(count);
    for (int i = 0; i < count; i++)
        if (!all[(first + i) % count].size == !is_there) return &all[(first + i) % count];
    return NULL;
}

static int is_shared(enum kind kind, int shared) {
    for (int i = 0; i < LIVE; i++)
        if (live[i].size && live[i].kind == kind && live[i].shared == shared) return 1;
    return 0;
}

/* Finds the kernel in another way, of what is loaded or is loaded anew. The driver gives each kind of a handle its own functions. */
static void find_kernel(void) {
    /* Of these, the driver writes the first one: there is one kernel. */
    void *all[3] = {kernel, kernel, kernel}, *other;
    if (below(4) == 0) {
        if (module) OK(cuModuleUnload(module));
        if (library) OK(cuLibraryUnload(library));
        module = library = NULL;
    }
    if (!module) {
        OK(cuModuleLoadData(&module, kernel_text));
        OK(cuLibraryLoadData(&library, kernel_text, NULL, NULL, 0, NULL, NULL, 0));
    }
    switch (below(6)) {
    case 0: OK(cuModuleGetFunction(&kernel, module, "add")); break;
    case 1: OK(cuModuleEnumerateFunctions(all, 3, module)), kernel = all[0]; break;
    case 2: OK(cuLibraryGetKernel(&kernel, library, "add")); break;
    case 3: OK(cuLibraryEnumerateKernels(all, 3, library)), kernel = all[0]; break;
    case 4: OK(cuLibraryGetModule(&other, library)), OK(cuModuleGetFunction(&kernel, other, "add")); break;
    default: OK(cuLibraryGetKernel(&other, library, "add")), OK(cuKernelGetFunction(&kernel, other));
    }
}

static int threads;

/* A graph that sets the memory: captured, or made of a node. */
static void make_graph(struct range *it) {
    void *node;
    Fill fill = {.at = it->at + 64, .value = 9, .element = 1, .width = 1024, .height = 1};
    /* While a stream captures, other threads may not wait for its context. */
    if (threads == 1 && below(2)) {
        OK(cuStreamBeginCapture_v2(stream, 2));
        OK(cuMemsetD16Async(it->at, 2, 512, stream));
        OK(cuStreamEndCapture(stream, &it->graph));
    } else {
        OK(cuGraphCreate(&it->graph, 0));
        OK(cuGraphAddMemsetNode(&node, it->graph, NULL, 0, &fill, c0));
    }
    OK(cuGraphInstantiateWithFlags(&it->exec, it->graph, 0));
}
static void drop_graph(struct range *it) {
    if (!it->exec) return;
    OK(cuGraphExecDestroy(it->exec));
    OK(cuGraphDestroy(it->graph));
    it->graph = it->exec = NULL;
}

static void begin(void) {
    struct range *new = some(live, LIVE, 0);
    if (!new) return;
    struct range it = {.size = SIZE, .kind = below(KINDS), .shared = below(SHARED)};
    Access access = access_of(0);
    size_t pitch;
    if ((it.kind == OPENED || it.kind == IMPORTED) && is_shared(it.kind, it.shared)) return;
    /* One free ends all imports of a pointer. */
    if (it.kind == IMPORTED && it.shared % THREADS != self) return;
    switch (it.kind) {
    case OPENED: it.at = open_memory(handles[it.shared]); break;
    case MAPPED:
        it.allocation = imported(descriptors[it.shared]);
        OK(cuMemAddressReserve(&it.at, SIZE, 0, 0, 0));
        OK(cuMemMap(it.at, SIZE, 0, it.allocation, 0));
        OK(cuMemSetAccess(it.at, SIZE, &access, 1));
        break;
    case IMPORTED: OK(cuMemPoolImportPointer(&it.at, pool, &pointers[it.shared])); break;
    case EXPORTED: it.at = allocate(), export(it.at); break;
    case ALLOCATED: it.at = allocate(); break;
    case POOLED: OK(cuMemAllocAsync(&it.at, SIZE, NULL)); break;
    case MANAGED: OK(cuMemAllocManaged(&it.at, SIZE, ATTACH_GLOBAL)); break;
    default: OK(cuMemAllocPitch_v2(&it.at, &pitch, SIZE / 1024, 1024, 4));
    }
    if (below(2)) make_graph(&it);
    *new = it;
    for (int i = 0; i < GONE; i++)
        if (touch(&gone[i], new)) drop_graph(&gone[i]), gone[i].size = 0;
}

static void end(struct range *it) {
    switch (it->kind) {
    case OPENED: OK(cuIpcCloseMemHandle(it->at)); break;
    case MAPPED:
        OK(cuMemUnmap(it->at, SIZE));
        if (below(2)) OK(cuMemAddressFree(it->at, SIZE));
        OK(cuMemRelease(it->allocation));
        break;
    case IMPORTED:
    case POOLED:
        OK(cuMemFreeAsync(it->at, NULL));
        OK(cuCtxSynchronize());
        break;
    default: OK(cuMemFree_v2(it->at));
    }
    struct range *place = some(gone, GONE, 0);
    if (!place) drop_graph(place = &gone[below(GONE)]);
    *place = *it;
    it->size = 0;
    it->graph = it->exec = NULL;
}

/* A call that uses bytes of some memory, in one of all ways. Gives the function. */
#define USE(name, args)                                                                                                \
    {                                                                                                                  \
        result = name args;                                                                                            \
        function = #name;                                                                                              \
        break;                                                                                                         \
    }
static int is_launch(const char *function) { return !strncmp(function, "cuLaunch", 8); }
static const char *use(const struct range *it, CUresult wanted) {
    CUdeviceptr p = it->at + 16 * (CUdeviceptr)below(SIZE / 32);
    size_t n = 1024 + (size_t)below(4096), most = SIZE / 2;
    Rows2D to_2d = {{.type = HOST, .host = host, .pitch = 64}, {.type = ON_DEVICE, .device = it->at, .x = 8, .y = 3, .pitch = 128}, 48, 16};
    Rows3D from_3d = {{.type = ON_DEVICE, .device = it->at, .z = 1, .pitch = 256, .height = 16}, {.type = HOST, .host = host, .pitch = 64, .height = 8}, 64, 8, 4};
    Rows3D peer_3d = {{.type = ON_DEVICE, .device = own, .context = c0, .pitch = 64, .height = 8}, {.type = ON_DEVICE, .device = it->at, .context = c0, .pitch = 256, .height = 16}, 64, 8, 4};
    const char *function = NULL;
    CUresult result = 0;
    int number = below(100), is_inside = below(2);
    CUdeviceptr inside[3] = {own, is_inside ? p : own, (CUdeviceptr)number}, last = is_inside ? own : p;
    void *parameters[] = {&number, inside, &last};
    struct { int order; Location hints[2]; unsigned flags; } attributes = {.order = 1};
    CUdeviceptr batch_to[] = {own, p, own}, batch_from[] = {own + SIZE / 2, (CUdeviceptr)(uintptr_t)host, is_inside ? p : own + SIZE / 2};
    size_t sizes[] = {n, n, n}, first = 0, failed;
    void *exec = NULL;
    /* What is unmapped can be there again when the graph is launched. */
    int is_new_graph = it->graph && (!wanted || it->kind != MAPPED);
    switch (below(27)) {
    case 0: USE(cuMemcpyHtoD_v2, (p, host, n))
    case 1: USE(cuMemcpyDtoH_v2, (host, p, most))
    case 2: USE(cuMemcpyHtoDAsync_v2, (p, host, n, NULL))
    case 3: USE(cuMemcpyDtoHAsync_v2, (host, p, n, NULL))
    case 4: USE(cuMemcpyHtoD_v2_ptds, (p, host, n))
    case 5: USE(cuMemcpyDtoHAsync_v2_ptsz, (host, p, n, NULL))
    case 6: USE(cuMemcpyDtoD_v2, (own, p, n))
    case 7: USE(cuMemcpyDtoDAsync_v2, (p, own, n, NULL))
    case 8: USE(cuMemcpyPeer, (p, c0, own, c0, n))
    case 9: USE(cuMemcpy2D_v2, (&to_2d))
    case 10: USE(cuMemcpy2DAsync_v2, (&to_2d, NULL))
    case 11: USE(cuMemcpy3D_v2, (&from_3d))
    case 12: USE(cuMemcpy3DPeerAsync, (&peer_3d, NULL))
    case 13: USE(cuMemsetD8_v2, (p, 1, n))
    case 14: USE(cuMemsetD16Async, (p, 2, n, NULL))
    case 15: USE(cuMemsetD32_v2, (p, 3, n / 4))
    case 16: USE(cuMemsetD2D32_v2, (it->at, 256, 4, 16, 16))
    case 17: USE(cuMemsetD2D8Async_ptsz, (it->at, 256, 5, 16, 16, NULL))
    case 18: USE(cuMemcpyAsync, (own, p, n, NULL))
    case 21: USE(cuMemcpyBatchAsync, (batch_to, batch_from, sizes, 3, &attributes, &first, 1, &failed, (void *)2))
    case 19:
    case 20: USE(cuLaunchKernel, (kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL))
    case 22:
    /* A launch with what is gone ends the context. */
    case 23:
        if (it->exec && !wanted) {
            /* Its stream does not wait for the others. */
            OK(cuCtxSynchronize());
            USE(cuGraphLaunch, (it->exec, stream))
        } /* fallthrough */
    case 24: if (is_new_graph) USE(cuGraphInstantiateWithFlags, (&exec, it->graph, 0)) /* fallthrough */
    default: USE(cuMemcpy, (p, own, n))
    }
    if (exec) OK(cuGraphExecDestroy(exec));
    /* What a graph sets may end next. */
    if (!strcmp(function, "cuGraphLaunch")) OK(cuStreamSynchronize(stream));
    if (exec || is_launch(function)) wanted = 0;
    if (result != wanted) fprintf(stderr, "%s of kind %d returned %d\n", function, it->kind, result), exit(1);
    return function;
}

static void plant(void) {
    struct range *it = some(gone, GONE, 1);
    if (!it || !rules[it->kind]) return;
    /* What ended there since is what is gone. */
    for (int i = 0; i < GONE; i++)
        if (&gone[i] != it && touch(&gone[i], it)) return;
    const char *function = use(it, INVALID_VALUE);
    int is_new_graph = !strcmp(function, "cuGraphInstantiateWithFlags");
    printf("planted %s %s\n", is_launch(function) ? "use-in-kernel" : is_new_graph ? "use-in-graph" : rules[it->kind], function);
    planted++;
}

/* A call that begins in memory of the other process and ends beyond it. */
static void plant_beyond(void) {
    const struct range *it = some(live, LIVE, 1);
    if (!it || (it->kind != OPENED && it->kind != IMPORTED)) return;
    CUdeviceptr p = it->at + SIZE - 512, to[] = {own, own + 1024}, from[] = {it->at, p};
    struct { int order; Location hints[2]; unsigned flags; } attributes = {.order = 1};
    size_t sizes[] = {1024, 1024}, first = 0, failed;
    Rows2D rows = {{.type = ON_DEVICE, .device = p, .pitch = 64}, {.type = HOST, .host = host, .pitch = 64}, 64, 16};
    const char *function = NULL;
    CUresult result = 0;
    switch (below(7)) {
    case 0: USE(cuMemcpyHtoD_v2, (p, host, 1024))
    case 1: USE(cuMemcpyDtoHAsync_v2, (host, p, 1024, NULL))
    case 2: USE(cuMemcpyDtoD_v2, (own, p, 1024))
    case 3: USE(cuMemsetD32_v2, (p, 3, 256))
    case 4: USE(cuMemcpy2D_v2, (&rows))
    case 5: USE(cuMemcpyBatchAsync, (to, from, sizes, 2, &attributes, &first, 1, &failed, (void *)2))
    default: USE(cuMemcpy, (p, own, 1024))
    }
    if (result != INVALID_VALUE) fprintf(stderr, "%s beyond the end returned %d\n", function, result), exit(1);
    printf("planted use-beyond-end %s\n", function);
    planted++;
}

static int seed, steps, is_planted, times;

static void *play_all(void *number) {
    self = (int)(intptr_t)number;
    OK(cuCtxSetCurrent(c0));
    OK(cuStreamCreate(&stream, 1));
    for (int time = 0; time < times; time++) {
        state = (unsigned)(seed + time + 100000 * self);
        for (int i = 0; i < steps; i++) {
            int dice = below(100);
            struct range *there = some(live, LIVE, 1);
            if (i % 8 == 0) find_kernel();
            if (dice < 30) begin();
            else if (dice < 50 && there) end(there);
            else if (is_planted && dice < 60) plant();
            else if (is_planted && dice < 65) plant_beyond();
            else if (there) use(there, 0);
        }
        for (int i = 0; i < LIVE; i++)
            if (live[i].size) end(&live[i]);
    }
    return NULL;
}

static void work(struct link parent) {
    start(0);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(name, args) *(void **)&name = dlsym(driver, #name);
    MORE(FIND)
    int fd = receive_descriptor();
    OK(cuMemPoolImportFromShareableHandle(&pool, as_pointer(fd), DESCRIPTOR, 0));
    close(fd);
    for (int i = 0; i < SHARED; i++) descriptors[i] = receive_descriptor();
    get(parent, handles, sizeof handles);
    get(parent, pointers, sizeof pointers);
    own = allocate();
    pthread_t all[THREADS];
    for (int i = 1; i < threads; i++) CHECK(pthread_create(&all[i], NULL, play_all, (void *)(intptr_t)i) == 0);
    play_all(NULL);
    for (int i = 1; i < threads; i++) CHECK(pthread_join(all[i], NULL) == 0);
    for (int i = 0; i < SHARED; i++) close(descriptors[i]);
    OK(cuMemPoolDestroy(pool));
    OK(cuMemFree_v2(own));
    printf("%d steps, %d planted\n", steps * times * threads, planted);
    tell(parent);
}

int main(int argc, char **argv) {
    CHECK(argc == 6 && (threads = atoi(argv[5])) <= THREADS);
    seed = atoi(argv[1]), steps = atoi(argv[2]), is_planted = !strcmp(argv[3], "planted"), times = atoi(argv[4]);
    struct link link;
    Allocation allocations[SHARED];
    CUdeviceptr memory[SHARED], pooled[SHARED];
    PoolProperties wanted = {.type = PINNED, .handle_types = DESCRIPTOR, .location = {DEVICE, 0}};
    int fd;
    alarm(300);
    employ_with_socket(&link, work);
    start(0);
    OK(cuMemPoolCreate(&pool, &wanted));
    OK(cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0));
    send_descriptor(fd);
    close(fd);
    for (int i = 0; i < SHARED; i++) {
        allocations[i] = create(DESCRIPTOR);
        send_descriptor(fd = exported(allocations[i]));
        close(fd);
        handles[i] = export(memory[i] = allocate());
        OK(cuMemAllocFromPoolAsync(&pooled[i], SIZE, pool, NULL));
        OK(cuCtxSynchronize());
        OK(cuMemPoolExportPointer(&pointers[i], pooled[i]));
    }
    put(link, handles, sizeof handles);
    put(link, pointers, sizeof pointers);
    wait_for(link);
    ended(link);
    for (int i = 0; i < SHARED; i++) {
        OK(cuMemRelease(allocations[i]));
        OK(cuMemFree_v2(memory[i]));
        OK(cuMemFreeAsync(pooled[i], NULL));
    }
    OK(cuCtxSynchronize());
    OK(cuMemPoolDestroy(pool));
    return 0;
}
