/* pairs KIND SEED TIMES: random lives of two processes that share memory and events in all ways, in rounds. An owner exports
 * legacy memory and events, virtual memory, and a pool with its pointers. Several threads of a user keep these in a cache
 * that counts references: one opens, others use, the last one closes. Addresses and handles come back all the time. Both
 * end contexts between and within rounds, by destroying, detaching, releasing, and resetting them.
 *
 * KIND `right` breaks no rule. Any other one is a line of `plants`: in the last round, one process breaks a rule in that way.
 * Plays TIMES seeds from SEED on, one after the other. Prints `of SEED PID` for each process that reaches the driver. */
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
enum { HOST = 1, ON_DEVICE = 2, RELAXED = 2, NON_BLOCKING = 1 };

#define MORE(F)                                                                                                        \
    F(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, void *))                                               \
    F(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, void *))                                                       \
    F(cuMemcpyDtoD_v2, (CUdeviceptr, CUdeviceptr, size_t))                                                             \
    F(cuMemcpyPeer, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t))                                          \
    F(cuMemcpy3D_v2, (const Rows3D *))                                                                                 \
    F(cuMemcpyBatchAsync, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, size_t *, void *))  \
    F(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))                                                             \
    F(cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, void *))                                                       \
    F(cuMemsetD2D32_v2, (CUdeviceptr, size_t, unsigned, size_t, size_t))                                               \
    F(cuModuleLoadData, (void **, const void *))                                                                       \
    F(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    F(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)) \
    F(cuStreamSynchronize, (void *))                                                                                   \
    F(cuStreamDestroy_v2, (void *))                                                                                    \
    F(cuStreamWaitEvent, (void *, CUevent, unsigned))                                                                  \
    F(cuStreamBeginCapture_v2, (void *, int))                                                                          \
    F(cuStreamEndCapture, (void *, void **))                                                                           \
    F(cuEventQuery, (CUevent))                                                                                         \
    F(cuEventSynchronize, (CUevent))                                                                                   \
    F(cuGraphCreate, (void **, unsigned))                                                                              \
    F(cuGraphDestroy, (void *))                                                                                        \
    F(cuGraphAddMemsetNode, (void **, void *, void *, size_t, const Fill *, CUcontext))                                \
    F(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                              \
    F(cuGraphExecUpdate_v2, (void *, void *, void *))                                                                  \
    F(cuGraphExecMemsetNodeSetParams, (void *, void *, const Fill *, CUcontext))                                       \
    F(cuGraphExecDestroy, (void *))                                                                                    \
    F(cuGraphLaunch, (void *, void *))
#define DECLARE(name, args) static CUresult(*name) args;
MORE(DECLARE)
#undef DECLARE

enum { LEGACY = 4, EVENTS = 2, VIRTUAL = 2, POOLED = 2, THREADS = 3, STEPS = 10 };

/* What the owner sends in each round. Descriptors follow: of two allocations for each place, and in the first round the pool's. */
struct offer {
    Handle memory[LEGACY], events[EVENTS];
    PoolPointer pointers[POOLED];
    int has_new_virtual, is_last;
};

static int seed, rounds;
static const char *kind;
#define IS(name) (strcmp(kind, name) == 0)
static struct offer offer;
static CUcontext context; /* the one of this round */
static void *kernel, *module;
static __thread unsigned state;
static __thread void *stream;
static __thread CUdeviceptr own;
static __thread char host[SIZE / 16];
static const char kernel_text[] = ".version 6.0\n.target sm_60\n.address_size 64\n"
                                  ".visible .entry add(.param .u64 a, .param .u64 b)\n{\nret;\n}\n";

static int below(int limit) { return (int)((unsigned)rand_r(&state) % (unsigned)limit); }

/* Both sides. */

static void load_more(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(name, args) CHECK(*(void **)&name = dlsym(driver, #name));
    MORE(FIND)
}

static int is_created;
static void begin_context(void) {
    is_created = below(2);
    if (is_created) OK(cuCtxCreate_v2(&context, 0, 0));
    else OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, kernel_text));
    OK(cuModuleGetFunction(&kernel, module, "add"));
}
static void end_context(void) {
    int how = below(3);
    if (is_created) {
        if (how == 0) OK(cuCtxDestroy_v2(context));
        else if (how == 1) OK(cuCtxDestroy(context));
        else OK(cuCtxDetach(context));
    } else {
        if (how) OK(how == 1 ? cuDevicePrimaryCtxReset_v2(0) : cuDevicePrimaryCtxReset(0));
        /* After a reset, a driver can have nothing to release: CUDA_ERROR_INVALID_CONTEXT. */
        CUresult result = cuDevicePrimaryCtxRelease_v2(0);
        CHECK(result == 0 || (how && result == 201));
    }
    OK(cuCtxSetCurrent(NULL));
}

static void begin_thread(int number) {
    state = (unsigned)(seed * 64 + number);
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, NON_BLOCKING));
    own = allocate();
}
static void end_thread(void) {
    OK(cuMemFree_v2(own));
    OK(cuStreamDestroy_v2(stream));
}

/* Uses 4 KiB from an address, in one of all ways. Returns when the device has done it. */
enum { BYTES = 4096, WAYS = 14 };
static CUresult use(CUdeviceptr p, int way) {
    Rows2D to_2d = {{.type = HOST, .host = host, .pitch = 64}, {.type = ON_DEVICE, .device = p, .pitch = 64}, 64, BYTES / 64};
    Rows3D from_3d = {{.type = ON_DEVICE, .device = p, .pitch = 256, .height = 8}, {.type = ON_DEVICE, .device = own, .pitch = 256, .height = 8}, 200, 8, 2};
    struct { int order; Location hints[2]; unsigned flags; } attributes = {.order = 1};
    CUdeviceptr to[] = {own, own + 2 * BYTES}, from[] = {own + BYTES, p};
    size_t sizes[] = {BYTES, BYTES}, first = 0, failed;
    CUresult result;
    switch (way) {
    case 0: result = cuMemsetD8_v2(p, 1, BYTES); break;
    case 1: result = cuMemcpyDtoH_v2(host, p, BYTES); break;
    case 2: result = cuMemcpyHtoD_v2(p, host, BYTES); break;
    case 3: result = cuMemcpyDtoD_v2(own, p, BYTES); break;
    case 4: result = cuMemcpyDtoD_v2(p, own, BYTES); break;
    case 5: result = cuMemcpyPeer(own, context, p, context, BYTES); break;
    case 6: result = cuMemcpy2D_v2(&to_2d); break;
    case 7: result = cuMemcpy3D_v2(&from_3d); break;
    case 8: result = cuMemsetD2D32_v2(p, 256, 1, 8, BYTES / 256); break;
    case 9: result = cuMemcpyDtoDAsync_v2(own, p, BYTES, stream); break;
    case 10: result = cuMemsetD32Async(p, 1, BYTES / 4, stream); break;
    case 11: result = cuMemcpyHtoDAsync_v2(p, host, BYTES, stream); break;
    case 12: result = cuMemcpyDtoHAsync_v2(host, p, BYTES, stream); break;
    default: result = cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, &failed, stream);
    }
    /* For the legacy default stream too. */
    cuCtxSynchronize();
    return result;
}
static CUresult launch(CUdeviceptr p) {
    void *parameters[] = {&own, &p};
    CUresult result = cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
    cuStreamSynchronize(stream);
    return result;
}
static CUdeviceptr inside(CUdeviceptr p) { return p + BYTES * (CUdeviceptr)below(SIZE / BYTES / 2); }
static void use_well(CUdeviceptr p) {
    for (int i = below(3); i >= 0; i--) OK(use(inside(p), below(WAYS)));
    if (below(3) == 0) OK(launch(inside(p)));
}

/* Memory, events, and a context that only this thread knows. The addresses and handles are given out again. */
static void use_own(void) {
    CUevent event;
    CUcontext other;
    Handle handle;
    int in_context = below(3) == 0, is_exported = below(2);
    if (in_context) OK(cuCtxCreate_v2(&other, 0, 0));
    CUdeviceptr p = allocate();
    if (is_exported) handle = export(p);
    OK(cuMemsetD8_v2(p, 1, BYTES));
    OK(cuEventCreate(&event, below(2) ? DISABLE_TIMING | INTERPROCESS : 0));
    OK(cuEventRecord(event, NULL));
    OK(cuEventSynchronize(event));
    if (in_context && below(2)) {
        OK(below(2) ? cuCtxDestroy_v2(other) : cuCtxDetach(other));
        OK(cuCtxSetCurrent(context));
        return;
    }
    OK(cuEventDestroy_v2(event));
    OK(cuMemFree_v2(p));
    if (in_context) OK(cuCtxDestroy_v2(other));
    OK(cuCtxSetCurrent(context));
    (void)handle;
}

/* A graph that sets what is at an address, and its one node. */
struct graph {
    CUdeviceptr at;
    void *graph, *node, *exec;
};
static Fill fill_at(CUdeviceptr at) { return (Fill){.at = at, .value = 9, .element = 1, .width = BYTES, .height = 1}; }
static void make_graph(struct graph *it, CUdeviceptr at) {
    Fill fill = fill_at(at);
    it->at = at;
    OK(cuGraphCreate(&it->graph, 0));
    OK(cuGraphAddMemsetNode(&it->node, it->graph, NULL, 0, &fill, context));
}
static void drop_graph(struct graph *it) {
    if (it->exec) OK(cuGraphExecDestroy(it->exec));
    if (it->graph) OK(cuGraphDestroy(it->graph));
    *it = (struct graph){0};
}
/* Has a graph set what is at an address. The graph may be from before, when something else was there, or the same. */
static void use_by_graph(struct graph *it, CUdeviceptr p) {
    struct { int result; void *from, *to; } info;
    struct graph other = {0};
    Fill fill = fill_at(p);
    if (it->exec && below(4) == 0) drop_graph(it);
    if (!it->exec) {
        make_graph(it, p);
        OK(cuGraphInstantiateWithFlags(&it->exec, it->graph, 0));
    } else if (below(2)) {
        make_graph(&other, p);
        OK(cuGraphExecUpdate_v2(it->exec, other.graph, &info));
        drop_graph(&other);
    } else {
        OK(cuGraphExecMemsetNodeSetParams(it->exec, it->node, &fill, context));
    }
    it->at = p;
    for (int i = below(2); i >= 0; i--) OK(cuGraphLaunch(it->exec, stream));
    OK(cuStreamSynchronize(stream));
}

/* The user. */

/* Legacy memory or memory of a pool, in the cache. */
static struct cached {
    pthread_mutex_t lock;
    int references, is_pooled;
    CUdeviceptr at;
} opened[LEGACY], imports[POOLED];
/* Two allocations, of which one is mapped. Who uses it has the lock for reading. */
static struct place {
    pthread_rwlock_t lock;
    CUdeviceptr at;
    Allocation allocations[2];
    int mapped;
} places[VIRTUAL];
static Pool pool;

static CUdeviceptr acquire(struct cached *it) {
    pthread_mutex_lock(&it->lock);
    if (it->references++ == 0) {
        if (it->is_pooled) OK(cuMemPoolImportPointer(&it->at, pool, &offer.pointers[it - imports]));
        else it->at = open_memory(offer.memory[it - opened]);
    }
    pthread_mutex_unlock(&it->lock);
    return it->at;
}
static void release(struct cached *it) {
    pthread_mutex_lock(&it->lock);
    if (--it->references == 0) {
        if (!it->is_pooled) OK(cuIpcCloseMemHandle(it->at));
        else if (below(2)) OK(cuMemFree_v2(it->at));
        else OK(cuMemFreeAsync(it->at, stream)), OK(cuStreamSynchronize(stream));
    }
    pthread_mutex_unlock(&it->lock);
}

static void map_place(struct place *it) {
    Access access = access_of(0);
    OK(cuMemMap(it->at, SIZE, 0, it->allocations[it->mapped], 0));
    OK(cuMemSetAccess(it->at, SIZE, &access, 1));
}
static void import_place(struct place *it) {
    for (int i = 0; i < 2; i++) {
        int fd = receive_descriptor();
        it->allocations[i] = imported(fd);
        close(fd);
    }
    it->at = reserve(SIZE);
    map_place(it);
}
static void drop_place(struct place *it) {
    unmap(it->at);
    for (int i = 0; i < 2; i++) OK(cuMemRelease(it->allocations[i]));
}
static void remap(struct place *it) {
    pthread_rwlock_wrlock(&it->lock);
    OK(cuMemUnmap(it->at, SIZE));
    if (below(3) == 0) {
        OK(cuMemAddressFree(it->at, SIZE));
        it->at = reserve(SIZE);
    }
    it->mapped ^= 1;
    map_place(it);
    pthread_rwlock_unlock(&it->lock);
}

static void use_event(void) {
    CUevent event;
    OK(cuIpcOpenEventHandle(&event, offer.events[below(EVENTS)]));
    if (below(2)) OK(cuEventRecord(event, stream));
    if (below(2)) OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuEventSynchronize(event));
    OK(cuEventDestroy_v2(event));
}

static void *take_part(void *number) {
    struct graph graph = {0};
    begin_thread((int)(intptr_t)number);
    for (int i = 0; i < STEPS; i++) {
        int dice = below(12);
        struct place *place = &places[below(VIRTUAL)];
        struct cached *cached = dice < 6 ? &opened[below(LEGACY)] : &imports[below(POOLED)];
        if (dice < 8) {
            CUdeviceptr p = acquire(cached);
            use_well(p);
            if (below(3) == 0) use_by_graph(&graph, inside(p));
            release(cached);
        } else if (dice == 8) {
            remap(place);
        } else if (dice == 9) {
            pthread_rwlock_rdlock(&place->lock);
            use_well(place->at);
            if (below(3) == 0) use_by_graph(&graph, inside(place->at));
            pthread_rwlock_unlock(&place->lock);
        } else if (dice == 10) {
            use_own();
        } else {
            use_event();
        }
    }
    drop_graph(&graph);
    end_thread();
    return NULL;
}

/* How a rule is broken, and by which process. `memory` has all of the legacy memory open, and `pooled` the pool's. */
struct hold {
    CUdeviceptr memory[LEGACY], pooled[POOLED], virtual;
    CUdeviceptr p, q; /* somewhere in the first one; its end */
    CUevent event;
    int way;
};
static void use_in_thread(struct hold *it);

static void in_user(struct hold *it) {
    struct graph graph = {0}, other = {0};
    struct { int result; void *from, *to; } info;
    CUdeviceptr first = it->memory[0], p = it->p;
    Fill fill = fill_at(p);
    void *exec = NULL;
    if (IS("close")) OK(cuIpcCloseMemHandle(first)), use(p, it->way);
    if (IS("close-3d")) OK(cuIpcCloseMemHandle(first)), use(p, 7);
    if (IS("close-2d")) OK(cuIpcCloseMemHandle(first)), use(p, 6);
    if (IS("close-batch")) OK(cuIpcCloseMemHandle(first)), use(p, 13);
    if (IS("close-kernel")) OK(cuIpcCloseMemHandle(first)), launch(p);
    if (IS("close-thread")) OK(cuIpcCloseMemHandle(first)), use_in_thread(it);
    if (IS("close-counted")) {
        CHECK(open_memory(offer.memory[0]) == first);
        OK(cuIpcCloseMemHandle(first)), OK(use(p, it->way)), OK(cuIpcCloseMemHandle(first)), use(p, it->way);
    }
    if (IS("close-other")) {
        OK(cuIpcCloseMemHandle(first)), OK(cuIpcCloseMemHandle(it->memory[1]));
        OK(use(it->memory[2], it->way)), use(it->memory[1], it->way);
    }
    if (IS("close-free")) OK(cuIpcCloseMemHandle(first)), cuMemFree_v2(first);
    if (IS("close-twice")) OK(cuIpcCloseMemHandle(first)), cuIpcCloseMemHandle(first);
    if (IS("close-inside")) cuIpcCloseMemHandle(first + OFFSET);
    if (IS("free-open")) cuMemFree_v2(first);
    if (IS("beyond")) use(it->q, it->way);
    if (IS("beyond-pool")) use(it->pooled[0] + SIZE - BYTES / 4, it->way);
    if (IS("unmap")) OK(cuMemUnmap(it->virtual, SIZE)), use(inside(it->virtual), it->way);
    if (IS("unmap-reservation")) unmap(it->virtual), use(inside(it->virtual), it->way);
    if (IS("unmap-access")) {
        OK(cuMemUnmap(it->virtual, SIZE)), OK(cuMemMap(it->virtual, SIZE, 0, places[0].allocations[0], 0));
        use(inside(it->virtual), it->way);
    }
    if (IS("unmap-graph")) {
        make_graph(&graph, inside(it->virtual));
        OK(cuGraphInstantiateWithFlags(&graph.exec, graph.graph, 0));
        OK(cuMemUnmap(it->virtual, SIZE)), cuGraphLaunch(graph.exec, stream);
    }
    if (IS("released-twice")) {
        unmap(it->virtual);
        OK(cuMemRelease(places[0].allocations[0])), cuMemRelease(places[0].allocations[0]);
    }
    if (IS("pool-free")) OK(cuMemFree_v2(it->pooled[0])), use(inside(it->pooled[0]), it->way);
    if (IS("pool-free-twice")) OK(cuMemFree_v2(it->pooled[0])), cuMemFree_v2(it->pooled[0]);
    if (IS("pool-import-twice")) OK(cuMemPoolImportPointer(&it->pooled[1], pool, &offer.pointers[0]));
    if (IS("close-graph") || IS("close-update") || IS("close-node")) {
        make_graph(&graph, IS("close-graph") ? p : it->memory[1]);
        OK(cuGraphInstantiateWithFlags(&graph.exec, graph.graph, 0));
        make_graph(&other, p);
        OK(cuIpcCloseMemHandle(first));
        if (IS("close-update")) cuGraphExecUpdate_v2(graph.exec, other.graph, &info);
        if (IS("close-node")) cuGraphExecMemsetNodeSetParams(graph.exec, graph.node, &fill, context);
        if (IS("close-graph")) cuGraphLaunch(graph.exec, stream);
    }
    if (IS("close-capture")) {
        /* In a new stream: what cupeer asks of it must leave the capture valid. */
        void *apart;
        OK(cuStreamCreate(&apart, NON_BLOCKING)), OK(cuStreamBeginCapture_v2(apart, RELAXED));
        OK(cuMemcpyAsync(own, p, BYTES, apart)), OK(cuMemcpyAsync(own, p, BYTES, apart));
        OK(cuStreamEndCapture(apart, &graph.graph)), OK(cuStreamDestroy_v2(apart));
        OK(cuIpcCloseMemHandle(first)), cuGraphInstantiateWithFlags(&exec, graph.graph, 0);
    }
    if (IS("owner-graph")) {
        make_graph(&graph, p);
        if (!cuGraphInstantiateWithFlags(&graph.exec, graph.graph, 0)) cuGraphLaunch(graph.exec, stream);
    }
    if (IS("context")) {
        end_context(), begin_context(), begin_thread(0);
        use(p, it->way);
    }
    if (IS("event-context")) {
        CUcontext another;
        void *of_another;
        OK(cuCtxCreate_v2(&another, 0, 0)), OK(cuStreamCreate(&of_another, NON_BLOCKING));
        cuEventRecord(it->event, below(2) ? of_another : NULL);
    }
    if (IS("fork")) {
        int can;
        pid_t child = fork();
        if (child == 0) dprintf(1, "of %d %d\n", seed, getpid()), cuDeviceCanAccessPeer(&can, 0, 1), _exit(0);
        waitpid(child, NULL, 0);
    }
    if (IS("owner-frees") || IS("owner-frees-async")) use(p, it->way);
    if (IS("owner-pool")) use(inside(it->pooled[0]), it->way);
    if (IS("open-freed")) cuIpcOpenMemHandle_v2(&it->q, offer.memory[0], LAZY);
    if (IS("open-destroyed")) cuIpcOpenEventHandle(&it->event, offer.events[0]);
    cuStreamSynchronize(stream);
}

static void *use_there(void *hold) {
    struct hold *it = hold;
    state = (unsigned)seed;
    OK(cuCtxSetCurrent(context));
    own = it->memory[2];
    use(it->p, it->way);
    return NULL;
}
static void use_in_thread(struct hold *it) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_there, it) == 0 && pthread_join(thread, NULL) == 0);
}

/* The last round: holds all, lets the owner do its part, and does its own. What it leaves open, the exit closes. */
static void break_a_rule(struct link parent) {
    struct hold it = {0};
    int waits_to_open = IS("open-freed") || IS("open-destroyed");
    begin_thread(0);
    /* cupeer forgets kernels when any context ends. */
    OK(cuModuleGetFunction(&kernel, module, "add"));
    it.way = below(WAYS);
    for (int i = 0; i < LEGACY; i++)
        if (!waits_to_open || i) it.memory[i] = acquire(&opened[i]);
    for (int i = 0; i < POOLED; i++)
        if (!IS("pool-import-twice") || !i) it.pooled[i] = acquire(&imports[i]);
    if (!waits_to_open) OK(cuIpcOpenEventHandle(&it.event, offer.events[0]));
    it.virtual = places[0].at;
    if (places[0].mapped) remap(&places[0]), it.virtual = places[0].at;
    it.p = inside(it.memory[0]);
    it.q = it.memory[0] + SIZE - BYTES / 4;
    for (int i = below(6); i >= 0; i--) use_well(it.memory[1 + below(LEGACY - 1)]);
    tell(parent);
    wait_for(parent);
    in_user(&it);
    tell(parent);
}

static void end_round(void) {
    /* What is left open in the cache ends with its context. */
    int is_left = below(3) == 0, keeps = below(LEGACY);
    if (is_left) acquire(&opened[keeps]);
    end_context();
    if (is_left) opened[keeps].references = 0;
}

static void use_all(struct link parent) {
    load();
    load_more();
    OK(cuInit(0));
    state = (unsigned)seed * 2 + 1;
    for (int i = 0; i < LEGACY; i++) pthread_mutex_init(&opened[i].lock, NULL);
    for (int i = 0; i < POOLED; i++) pthread_mutex_init(&imports[i].lock, NULL), imports[i].is_pooled = 1;
    for (int i = 0; i < VIRTUAL; i++) pthread_rwlock_init(&places[i].lock, NULL);
    for (int round = 0; round < rounds; round++) {
        unsigned kept = state;
        begin_context();
        get(parent, &offer, sizeof offer);
        for (int i = 0; i < VIRTUAL && offer.has_new_virtual; i++) {
            if (round) drop_place(&places[i]);
            import_place(&places[i]);
        }
        if (round == 0) {
            int fd = receive_descriptor();
            OK(cuMemPoolImportFromShareableHandle(&pool, as_pointer(fd), DESCRIPTOR, 0));
            close(fd);
        }
        pthread_t threads[THREADS];
        int count = 1 + below(THREADS);
        for (int i = 1; i < count; i++)
            CHECK(pthread_create(&threads[i], NULL, take_part, (void *)(intptr_t)(round * THREADS + i)) == 0);
        take_part((void *)(intptr_t)(round * THREADS));
        for (int i = 1; i < count; i++) CHECK(pthread_join(threads[i], NULL) == 0);
        state = kept + 7;
        if (offer.is_last && !IS("right")) return break_a_rule(parent);
        end_round();
        tell(parent);
        wait_for(parent);
    }
    /* Pools and virtual memory belong to no context. */
    begin_context();
    for (int i = 0; i < VIRTUAL; i++) drop_place(&places[i]);
    OK(cuMemPoolDestroy(pool));
    end_context();
    tell(parent);
}

/* The owner. */

static CUdeviceptr shared[LEGACY], pooled[POOLED];
static CUevent events[EVENTS];

static void in_owner(void) {
    if (IS("owner-frees") || IS("owner-graph") || IS("open-freed") || IS("freed")) OK(cuMemFree_v2(shared[0]));
    if (IS("owner-frees-async")) OK(cuMemFreeAsync(shared[0], NULL)), OK(cuCtxSynchronize());
    if (IS("owner-pool") || IS("pool-freed")) OK(cuMemFreeAsync(pooled[0], stream)), OK(cuStreamSynchronize(stream));
    if (IS("pool-destroyed")) OK(cuMemPoolDestroy(pool));
    if (IS("event-destroyed") || IS("open-destroyed")) OK(cuEventDestroy_v2(events[0]));
    if (IS("context-ended")) end_context();
    if (IS("own-free")) OK(cuMemFree_v2(shared[0])), use(inside(shared[0]), below(WAYS));
}

static void share_virtual(void) {
    for (int i = 0; i < 2 * VIRTUAL; i++) {
        Allocation allocation = create(DESCRIPTOR);
        int fd = exported(allocation);
        send_descriptor(fd);
        close(fd);
        /* The importer holds it itself. */
        OK(cuMemRelease(allocation));
    }
}

static void own_all(void) {
    struct link link;
    employ_with_socket(&link, use_all);
    dprintf(1, "of %d %d\nof %d %d\n", seed, getpid(), seed, link.pid);
    load();
    load_more();
    OK(cuInit(0));
    state = (unsigned)seed * 2;
    for (int round = 0; round < rounds; round++) {
        begin_context();
        OK(cuStreamCreate(&stream, NON_BLOCKING));
        own = allocate();
        PoolProperties wanted = {.type = PINNED, .handle_types = DESCRIPTOR, .location = {DEVICE, 0}};
        int fd = -1;
        if (round == 0) {
            OK(cuMemPoolCreate(&pool, &wanted));
            OK(cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0));
        }
        int has_new_pointers = round == 0 || below(2);
        for (int i = 0; i < POOLED && has_new_pointers; i++) {
            /* What was allocated in a context that has ended since is freed now. */
            if (round) OK(cuMemFreeAsync(pooled[i], stream)), OK(cuStreamSynchronize(stream));
            OK(cuMemAllocFromPoolAsync(&pooled[i], SIZE, pool, stream));
            OK(cuStreamSynchronize(stream));
            OK(cuMemPoolExportPointer(&offer.pointers[i], pooled[i]));
        }
        for (int i = 0; i < LEGACY; i++) offer.memory[i] = export(shared[i] = allocate());
        for (int i = 0; i < EVENTS; i++) {
            OK(cuEventCreate(&events[i], INTERPROCESS | DISABLE_TIMING));
            OK(cuIpcGetEventHandle(&offer.events[i], events[i]));
        }
        offer.has_new_virtual = round == 0 || below(2);
        offer.is_last = round + 1 == rounds;
        put(link, &offer, sizeof offer);
        if (offer.has_new_virtual) share_virtual();
        if (round == 0) send_descriptor(fd), close(fd);
        for (int i = 0; i < STEPS; i++) {
            int dice = below(4);
            if (dice == 0) use_own();
            if (dice == 1) use_well(shared[below(LEGACY)]);
            if (dice == 2) OK(cuEventRecord(events[below(EVENTS)], stream));
            if (dice == 3) export(shared[below(LEGACY)]);
        }
        wait_for(link);
        if (offer.is_last && !IS("right")) {
            in_owner();
            tell(link);
            wait_for(link);
            ended(link);
            exit(0);
        }
        /* Frees all, or leaves the rest to the end of the context. */
        int freed = below(LEGACY + 1), destroyed = below(EVENTS + 1);
        for (int i = 0; i < freed; i++) OK(below(2) ? cuMemFree_v2(shared[i]) : cuMemFreeAsync(shared[i], stream));
        for (int i = 0; i < destroyed; i++) OK(cuEventDestroy_v2(events[i]));
        end_context();
        tell(link);
    }
    begin_context();
    wait_for(link);
    ended(link);
    for (int i = 0; i < POOLED; i++) OK(cuMemFree_v2(pooled[i]));
    OK(cuMemPoolDestroy(pool));
    end_context();
    exit(0);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    kind = argv[1];
    seed = atoi(argv[2]);
    for (int last = seed + atoi(argv[3]); seed < last; seed++) {
        int status = -1;
        state = (unsigned)seed;
        rounds = 1 + below(3);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(60);
            own_all();
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        if (status != 0) fprintf(stderr, "seed %d of kind %s: the owner ended with 0x%x\n", seed, kind, status), exit(1);
    }
    return 0;
}
