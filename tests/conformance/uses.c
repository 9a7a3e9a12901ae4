// Uses of memory that is gone, or that was never there: copies, memsets, queries, frees, kernels and graphs. What may end the
// process or its context is asked in a process of its own.
#include "pools.h"
#include <errno.h>
#include <signal.h>

// CUDA_MEMCPY3D, one side of it, and what belongs to several copies (CUmemcpyAttributes).
typedef struct {
    size_t x, y, z, level;
    int type;
    void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
} Side3D;
typedef struct {
    Side3D from, to;
    size_t width, height, depth;
} Copy3D;
typedef struct { int order; Location from, to; unsigned flags; } CopyAttributes;
typedef struct { size_t width, height; int format; unsigned channels; } ArrayShape;
// CUDA_MEMSET_NODE_PARAMS.
typedef struct { CUdeviceptr to; size_t pitch; unsigned value, element; size_t width, height; } Fill;
// CUmemcpy3DOperand of a pointer, and CUDA_MEMCPY3D_BATCH_OP.
typedef struct { int type; CUdeviceptr at; size_t row, rows; Location hint; } Operand;
typedef struct { Operand from, to; size_t width, height, depth; int order; unsigned flags; } Copy3DOfMany;
enum { ON_HOST = 1, ON_DEVICE = 2 }; // CUmemorytype

enum { USED = 4096, HALF = USED / 2, SIZE = 4 * MIB, LITTLE = 1000 };
static char host[USED];
static CUdeviceptr own; // memory of this process
static CUstream stream;
static void *array;
static Allocation given;
static CUmemoryPool pool;
static CUcontext other_context;
static CUdeviceptr neighbour; // keeps the block of a small allocation

// What the other process has lent: it comes with two descriptors.
static struct {
    pid_t pid;
    Handle memory;
    PoolPointer pointer;
} lent;
static int allocation_fd, pool_fd;

static void ready(void) {
    alarm(20);
    cuInit(0);
    cuDeviceGetCount(&devices);
    cuDevicePrimaryCtxRetain(&c0, 0);
    cuCtxSetCurrent(c0);
}

static void lender(void) {
    ready();
    CUdeviceptr p = 0, q;
    Properties wanted = {.type = 1, .handleTypes = DESCRIPTOR, .location = {DEVICE, 0}};
    int fd = -1;
    lent.pid = getpid();
    cuMemAlloc_v2(&p, SIZE);
    cuMemcpyHtoD_v2(p, "lent-out", 9);
    cuIpcGetMemHandle(&lent.memory, p);
    pool = create(DESCRIPTOR);
    int pool_descriptor = descriptor(pool);
    q = allocate(pool, "of-a-pool!");
    cuMemPoolExportPointer(&lent.pointer, q);
    cuMemCreate(&given, 2 * MIB, &wanted, 0);
    cuMemExportToShareableHandle(&fd, given, DESCRIPTOR, 0);
    cuCtxSynchronize();
    send_descriptor(fd);
    send_descriptor(pool_descriptor);
    send_to(sockets[0], &lent, sizeof lent);
    char step;
    while (read(sockets[0], &step, 1) == 1 && step != 'q') {
        if (step == 'f') cuMemFree_v2(p);
        if (step == 'p') cuMemFree_v2(q);
        cuCtxSynchronize();
        send_to(sockets[0], &step, 1);
    }
    _exit(0);
}

// Has the other process take a step, or end.
static void ask_lender(char step) {
    answer(step);
    if (step != 'q') {
        await(sockets[1]);
        return;
    }
    for (int i = 0; i < 500 && !(kill(lent.pid, 0) && errno == ESRCH); i++) usleep(10000);
}

static CUdeviceptr opened(void) {
    CUdeviceptr p = 0;
    cuIpcOpenMemHandle_v2(&p, lent.memory, 1);
    return p;
}
static void close_it(CUdeviceptr p) { cuIpcCloseMemHandle(p); }

static CUdeviceptr allocated(void) {
    CUdeviceptr p = 0;
    cuMemAlloc_v2(&p, SIZE);
    cuMemcpyHtoD_v2(p, "allocate", 9);
    return p;
}
static CUdeviceptr small(void) {
    CUdeviceptr p = 0;
    cuMemAlloc_v2(&p, LITTLE + USED);
    cuMemAlloc_v2(&neighbour, LITTLE);
    cuMemcpyHtoD_v2(p, "a-little", 9);
    return p;
}
static void free_it(CUdeviceptr p) { cuMemFree_v2(p); }

static CUresult grant(CUdeviceptr at, size_t size, int device, int flags) {
    Access access = for_device(device, flags);
    return cuMemSetAccess(at, size, &access, 1);
}
// Maps the allocation of the other process where there is room for two.
static CUdeviceptr placed(void) {
    CUdeviceptr at = 0;
    cuMemImportFromShareableHandle(&given, number(allocation_fd), DESCRIPTOR);
    cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0);
    cuMemMap(at, 2 * MIB, 0, given, 0);
    return at;
}
static CUdeviceptr mapped(void) {
    CUdeviceptr at = placed();
    grant(at, 2 * MIB, 0, READ_WRITE);
    cuMemcpyHtoD_v2(at, "mapped-in", 10);
    return at;
}
static void unmap(CUdeviceptr p) { cuMemUnmap(p, 2 * MIB); }
static void unreserve(CUdeviceptr p) {
    unmap(p);
    cuMemAddressFree(p, 4 * MIB);
}
static CUdeviceptr granted_elsewhere(void) {
    if (devices < 2) return 0;
    CUdeviceptr at = placed();
    grant(at, 2 * MIB, 1, READ_WRITE);
    return at;
}
static CUdeviceptr readable(void) {
    CUdeviceptr at = placed();
    grant(at, 2 * MIB, 0, READ);
    return at;
}
static CUdeviceptr beyond_import(void) { return opened() + SIZE - HALF; }
static CUdeviceptr torn(void) { return mapped() + 2 * MIB - HALF; }
static CUdeviceptr two_mapped(int are_granted) {
    Properties wanted = {.type = 1, .handleTypes = DESCRIPTOR, .location = {DEVICE, 0}};
    Allocation second = 0;
    CUdeviceptr at = placed();
    cuMemCreate(&second, 2 * MIB, &wanted, 0);
    cuMemMap(at + 2 * MIB, 2 * MIB, 0, second, 0);
    grant(at, are_granted ? 4 * MIB : 2 * MIB, 0, READ_WRITE);
    return at + 2 * MIB - HALF;
}
static CUdeviceptr crossed(void) { return two_mapped(0); }
static CUdeviceptr across(void) { return two_mapped(1); }

static void owner_frees(CUdeviceptr p) {
    (void)p;
    ask_lender('f');
}
static void owner_exits(CUdeviceptr p) {
    (void)p;
    ask_lender('q');
}
static CUdeviceptr pointer_of_pool(void) {
    CUdeviceptr p = 0;
    cuMemPoolImportFromShareableHandle(&pool, number(pool_fd), DESCRIPTOR, 0);
    cuMemPoolImportPointer(&p, pool, &lent.pointer);
    return p;
}
static CUdeviceptr twice_imported(void) {
    CUdeviceptr p = pointer_of_pool(), again = 0;
    cuMemPoolImportPointer(&again, pool, &lent.pointer);
    return again == p ? p : 0;
}
static void owner_frees_pointer(CUdeviceptr p) {
    (void)p;
    ask_lender('p');
}
static CUdeviceptr of_stream(void) {
    CUdeviceptr p = 0;
    cuMemAllocAsync(&p, SIZE, stream);
    cuStreamSynchronize(stream);
    return p;
}
static void free_in_stream(CUdeviceptr p) { cuMemFreeAsync(p, stream); }
static CUdeviceptr opened_in_context(void) {
    other_context = new_context(0);
    return opened();
}
static void destroy_context(CUdeviceptr p) {
    (void)p;
    cuCtxDestroy_v2(other_context);
    cuCtxSetCurrent(c0);
}

// Memory, how it comes to be there, and what becomes of it.
struct place {
    const char *name;
    CUdeviceptr (*begin)(void);
    void (*end)(CUdeviceptr);
};
static const struct place closed = {"closed", opened, close_it}, freed = {"freed", allocated, free_it};
static const struct place unmapped = {"unmapped", mapped, unmap}, torn_apart = {"torn", torn, NULL};
static const struct place no_access = {"noaccess", placed, NULL}, owner_freed = {"ownerfreed", opened, owner_frees};
static const struct place freed_small = {"small", small, free_it}, exited = {"exited", opened, owner_exits};
static const struct place beyond = {"beyond", beyond_import, NULL}, read_only = {"readonly", readable, NULL};
static const struct place pool_freed = {"poolfreed", twice_imported, free_it};
static const struct place pool_owner_freed = {"poolowner", pointer_of_pool, owner_frees_pointer};
static const struct place freed_in_stream = {"streamfreed", of_stream, free_in_stream};
static const struct place of_context = {"context", opened_in_context, destroy_context};
static const struct place unreserved = {"unreserved", mapped, unreserve}, elsewhere = {"elsewhere", granted_elsewhere, NULL};
static const struct place half_granted = {"crossed", crossed, NULL}, both_granted = {"across", across, NULL};

static const struct place *place;
static void (*ask)(CUdeviceptr);
static const char *kind;

static void borrower(void) {
    allocation_fd = receive_descriptor();
    pool_fd = receive_descriptor();
    receive(sockets[1], &lent, sizeof lent);
    ready();
    cuMemAlloc_v2(&own, SIZE);
    cuStreamCreate(&stream, 1);
    ArrayShape bytes = {USED, 0, 1, 1};
    cuArrayCreate_v2(&array, &bytes);
    CUdeviceptr p = place->begin();
    cuCtxSynchronize();
    hush();
    if (p) ask(p);
    fflush(stdout);
    _exit(0); // by which the other one ends as well
}
static void both(void) { hand_in_hand(lender, borrower); }

static void look(const char *of, const struct place *at, void (*questions)(CUdeviceptr)) {
    char id[64];
    place = at;
    ask = questions;
    kind = of;
    snprintf(id, sizeof id, "use.%s%s%s", of, *of ? "." : "", at->name);
    in_child(id, both);
}

static void end(CUdeviceptr p) {
    if (place->end) place->end(p);
    hush();
}

#define ASK(what, call)                                                                                      \
    do {                                                                                                     \
        char id_[64];                                                                                        \
        snprintf(id_, sizeof id_, "use.%s%s%s.%s", kind, *kind ? "." : "", place->name, what);                \
        CASE(id_, call, 0);                                                                                  \
    } while (0)

// The same without what the driver says: a checker in between may have asked it about the kernel.
#define ASK_QUIETLY(what, call)                                                                              \
    do {                                                                                                     \
        CUresult answer_ = (call);                                                                           \
        hush();                                                                                              \
        ASK(what, answer_);                                                                                  \
    } while (0)

// Host memory, or what lies in memory of this process.
static void tell(const char *name, const void *bytes) {
    char id[64], text[9] = "";
    memcpy(text, bytes, 8);
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') *c = '?';
    snprintf(id, sizeof id, "use.%s%s%s.%s", kind, *kind ? "." : "", place->name, name);
    report(id, 0, "\"v\":\"%s\"", text);
}

// Who may use it: of the current device, as the pointer says and as the place is asked for.
static void tell_flags(CUdeviceptr p) {
    char id[64];
    unsigned long long flags = 9;
    Location here = {DEVICE, 0};
    CUresult result = cuPointerGetAttribute(&flags, 16, p);
    snprintf(id, sizeof id, "use.%s.flags", place->name);
    report(id, result, result ? NULL : "\"v\":%llu", flags);
    result = cuMemGetAccess(&flags, &here, p);
    snprintf(id, sizeof id, "use.%s.access", place->name);
    report(id, result, result ? NULL : "\"v\":%llu", flags);
}

static void each_way(CUdeviceptr p) {
    end(p);
    Copy2D rows = {.srcType = ON_DEVICE, .srcDevice = p, .srcPitch = 64, .dstType = ON_HOST, .dstHost = host, .dstPitch = 64,
                   .width = 64, .height = USED / 64};
    Copy3D slices = {{.type = ON_HOST, .host = host, .pitch = 64, .height = 8},
                     {.type = ON_DEVICE, .device = p, .pitch = 64, .height = 8}, 64, 8, USED / 512};
    int types[3] = {2, 11, 12}, type = 0;
    CUdeviceptr begin = 0;
    size_t size = 0;
    void *out[3] = {&type, &begin, &size};
    Handle handle;
    ASK("down", cuMemcpyDtoH_v2(host, p, USED));
    ASK("up", cuMemcpyHtoD_v2(p, host, USED));
    ASK("from", cuMemcpyDtoD_v2(own, p, USED));
    ASK("to", cuMemcpyDtoD_v2(p, own, USED));
    ASK("peer", cuMemcpyPeer(own, c0, p, c0, USED));
    ASK("later", cuMemcpyDtoHAsync_v2(host, p, USED, stream));
    ASK("later.sync", cuStreamSynchronize(stream));
    ASK("from.later", cuMemcpyDtoDAsync_v2(own, p, USED, stream));
    ASK("from.later.sync", cuStreamSynchronize(stream));
    ASK("set8", cuMemsetD8_v2(p, 7, USED));
    ASK("set32", cuMemsetD32_v2(p, 7, USED / 4));
    ASK("setrows", cuMemsetD2D8_v2(p, 64, 7, 64, USED / 64));
    ASK("set.later", cuMemsetD8Async(p, 7, USED, stream));
    ASK("set.later.sync", cuStreamSynchronize(stream));
    ASK("rows", cuMemcpy2D_v2(&rows));
    ASK("slices", cuMemcpy3D_v2(&slices));
    ASK("toarray", cuMemcpyDtoA_v2(array, 0, p, USED));
    ASK("fromarray", cuMemcpyAtoD_v2(p, array, 0, USED));
    ASK("prefetch", cuMemPrefetchAsync(p, USED, 0, stream));
    ASK("advise", cuMemAdvise(p, USED, 3, 0));
    ASK("type", cuPointerGetAttribute(&type, 2, p));
    begin = 0, type = 0;
    ASK("attributes", cuPointerGetAttributes(3, types, out, p));
    tell("isknown", type ? "yes     " : "no      ");
    tell_flags(p);
    ASK("range", cuMemGetAddressRange_v2(&begin, &size, p));
    ASK("handle", cuIpcGetMemHandle(&handle, p));
    ASK("synchronize", cuCtxSynchronize());
    ASK("free.later", cuMemFreeAsync(p, stream));
    ASK("free.later.sync", cuStreamSynchronize(stream));
    ASK("free", cuMemFree_v2(p));
    ASK("afterwards", cuCtxSynchronize());
}

// What is there to read, as long as something is.
static void contents(CUdeviceptr p) {
    end(p);
    memset(host, 0, 16);
    ASK("read", cuMemcpyDtoH_v2(host, p, 8));
    tell("found", host);
    ASK("write", cuMemcpyHtoD_v2(p, "written", 8));
    cuCtxSynchronize();
    cuMemcpyDtoH_v2(host, p, 8);
    tell("written", host);
    ASK("close", cuIpcCloseMemHandle(p));
}

// A unified address that the driver does not know may be the program's own.
static void unified(CUdeviceptr p) {
    end(p);
    ASK("copy", cuMemcpy(own, p, USED));
    ASK("copy.to", cuMemcpy(p, own, USED));
    ASK("later", cuMemcpyAsync(own, p, USED, stream));
    ASK("sync", cuStreamSynchronize(stream));
}
static void batch(CUdeviceptr p) {
    end(p);
    CUdeviceptr to[] = {own, own + MIB}, from[] = {own + 2 * MIB, p};
    size_t sizes[] = {64, USED}, first = 0, failed = 77;
    CopyAttributes attributes = {.order = 1};
    CUresult result = cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, &failed, stream);
    char id[64];
    snprintf(id, sizeof id, "use.batch.%s.copies", place->name);
    report(id, result, "\"failed\":%lld", (long long)failed);
    ASK("sync", cuStreamSynchronize(stream));
}
static void batch_of_slices(CUdeviceptr p) {
    end(p);
    Copy3DOfMany one = {{1, p, 0, 0, {0, 0}}, {1, own, 0, 0, {0, 0}}, USED, 1, 1, 1, 0};
    size_t failed = 77;
    CUresult result = cuMemcpy3DBatchAsync(1, &one, &failed, 0, stream);
    char id[64];
    snprintf(id, sizeof id, "use.slices.%s.copies", place->name);
    report(id, result, "\"failed\":%lld", (long long)failed);
    ASK("sync", cuStreamSynchronize(stream));
}

// The kernels of `cupeer doctor --p2p`, which the simulated driver carries out. Where their text is not at hand, the same by hand.
static const char by_hand[] =
    ".version 6.0\n.target sm_60\n.address_size 64\n"
    ".visible .entry cupeer_p2p_read(.param .u64 p_from, .param .u64 p_to, .param .u64 p_count)\n{\n"
    ".reg .pred %end;\n.reg .u64 %from, %to, %count, %x;\n"
    "ld.param.u64 %from, [p_from];\nld.param.u64 %to, [p_to];\nld.param.u64 %count, [p_count];\n"
    "NEXT:\nsetp.eq.u64 %end, %count, 0;\n@%end bra END;\nld.global.u64 %x, [%from];\nst.global.u64 [%to], %x;\n"
    "add.u64 %from, %from, 8;\nadd.u64 %to, %to, 8;\nsub.u64 %count, %count, 1;\nbra NEXT;\nEND:\nret;\n}\n"
    ".visible .entry cupeer_p2p_write(.param .u64 p_to, .param .u64 p_count, .param .u64 p_seed)\n{\n"
    ".reg .u64 %to, %seed;\nld.param.u64 %to, [p_to];\nld.param.u64 %seed, [p_seed];\n"
    "st.global.u64 [%to], %seed;\nret;\n}\n";
static void *kernel(const char *name) {
    static char text[1 << 16];
    const char *folder = strrchr(__FILE__, '/');
    char path[4096];
    void *module = NULL, *function = NULL;
    int length = folder ? (int)(folder - __FILE__) : 0;
    snprintf(path, sizeof path, "%.*s/../../src/spec/p2p/kernels.ptx", length, __FILE__);
    FILE *file = fopen(path, "r");
    if (!file || fread(text, 1, sizeof text - 1, file) < sizeof by_hand) strcpy(text, by_hand);
    if (file) fclose(file);
    if (cuModuleLoadData(&module, text)) _exit(6);
    cuModuleGetFunction(&function, module, name);
    return function;
}
static CUresult launch(void *function, CUdeviceptr from, CUdeviceptr to) {
    unsigned long long words = 4;
    void *parameters[] = {&from, &to, &words};
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

// A kernel that reads what is gone, and what the context is good for afterwards.
static void in_kernel(CUdeviceptr p) {
    void *reads = kernel("cupeer_p2p_read");
    CUevent event = NULL;
    CUdeviceptr more = 0;
    char text[16] = "";
    unsigned flags;
    int active;
    cuEventCreate(&event, 0);
    launch(reads, own + MIB, own);
    cuCtxSynchronize();
    end(p);
    if (!strcmp(place->name, "torn")) p += HALF;
    cuMemcpyHtoD_v2(own, "untouched", 10);
    cuCtxSynchronize();
    ASK_QUIETLY("launch", launch(reads, p, own));
    ASK("sync", cuStreamSynchronize(stream));
    ASK("synchronize", cuCtxSynchronize());
    ASK("copy", cuMemcpyDtoH_v2(text, own, 8));
    tell("read", text);
    ASK("allocate", cuMemAlloc_v2(&more, 4096));
    if (place != &closed) return;
    hush();
    ASK("again", launch(reads, own + MIB, own));
    ASK("query", cuStreamQuery(stream));
    ASK("record", cuEventRecord(event, stream));
    ASK("event", cuEventQuery(event));
    ASK("open", cuIpcOpenMemHandle_v2(&more, lent.memory, 1));
    ASK("attribute", cuPointerGetAttribute(&active, 2, own));
    ASK("free", cuMemFree_v2(own));
    ASK("device", cuCtxGetDevice(&active));
    ASK("state", cuDevicePrimaryCtxGetState(0, &flags, &active));
    ASK("context", cuCtxCreate_v4(&other_context, NULL, 0, 0));
    ASK("reset", cuDevicePrimaryCtxReset_v2(0));
    ASK("retain", cuDevicePrimaryCtxRetain(&c0, 0));
    cuCtxSetCurrent(c0);
    ASK("reset.allocate", cuMemAlloc_v2(&more, 4096));
}
static void writing_kernel(CUdeviceptr p) {
    void *writes = kernel("cupeer_p2p_write");
    unsigned long long words = 4, seed = 1;
    void *parameters[] = {&p, &words, &seed};
    end(p);
    ASK_QUIETLY("launch", cuLaunchKernel(writes, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
    ASK("sync", cuStreamSynchronize(stream));
    ASK("copy", cuMemcpyDtoH_v2(host, own, 8));
}

// Graphs: a copy, or a kernel, from memory that goes at some time: 0 before it is in the graph, 1 before the graph is
// instantiated, 2 before it is launched.
static int when;
static void end_at(int time, CUdeviceptr p) {
    if (when == time) end(p);
}
static void run_graph(CUdeviceptr p, void *graph) {
    void *executable = NULL;
    char text[16] = "";
    end_at(1, p);
    ASK_QUIETLY("instantiate", cuGraphInstantiateWithFlags(&executable, graph, 0));
    end_at(2, p);
    if (!executable) return;
    ASK("launch", cuGraphLaunch(executable, stream));
    ASK("sync", cuStreamSynchronize(stream));
    ASK("copy", cuMemcpyDtoH_v2(text, own + MIB, 8));
}
static void captured(CUdeviceptr p) {
    void *graph = NULL;
    end_at(0, p);
    cuStreamBeginCapture_v2(stream, 2);
    ASK("capture", cuMemcpyDtoDAsync_v2(own, p, USED, stream));
    ASK("end", cuStreamEndCapture(stream, &graph));
    if (graph) run_graph(p, graph);
}
static void captured_fill(CUdeviceptr p) {
    void *graph = NULL;
    end_at(0, p);
    cuStreamBeginCapture_v2(stream, 2);
    ASK("capture", cuMemsetD8Async(p, 7, USED, stream));
    ASK("end", cuStreamEndCapture(stream, &graph));
    if (graph) run_graph(p, graph);
}
static void captured_kernel(CUdeviceptr p) {
    void *graph = NULL, *reads = kernel("cupeer_p2p_read");
    end_at(0, p);
    cuStreamBeginCapture_v2(stream, 2);
    ASK_QUIETLY("capture", launch(reads, p, own));
    ASK("end", cuStreamEndCapture(stream, &graph));
    if (graph) run_graph(p, graph);
}
static Copy3D of_row(CUdeviceptr p) {
    return (Copy3D){{.type = ON_DEVICE, .device = p, .pitch = USED, .height = 1},
                    {.type = ON_DEVICE, .device = own, .pitch = USED, .height = 1}, USED, 1, 1};
}
static void made_of_nodes(CUdeviceptr p) {
    void *graph = NULL, *node;
    Copy3D copy = of_row(p);
    cuGraphCreate(&graph, 0);
    end_at(0, p);
    ASK("add", cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, c0));
    run_graph(p, graph);
}
static void filled_by_node(CUdeviceptr p) {
    void *graph = NULL, *node;
    Fill fill = {p, 0, 7, 1, USED, 1};
    cuGraphCreate(&graph, 0);
    end_at(0, p);
    ASK("add", cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, c0));
    run_graph(p, graph);
}
static void changed_node(CUdeviceptr p) {
    void *graph = NULL, *node, *executable = NULL;
    Copy3D copy = of_row(own + 2 * MIB), gone = of_row(p);
    cuGraphCreate(&graph, 0);
    cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, c0);
    cuGraphInstantiateWithFlags(&executable, graph, 0);
    end(p);
    ASK("set", cuGraphExecMemcpyNodeSetParams(executable, node, &gone, c0));
    ASK("launch", cuGraphLaunch(executable, stream));
    ASK("sync", cuStreamSynchronize(stream));
}

void use_groups(void) {
    static const struct place *const all[] = {
        &closed, &freed, &freed_small, &unmapped, &unreserved, &no_access, &elsewhere, &beyond, &torn_apart, &half_granted,
        &both_granted, &owner_freed, &exited, &pool_freed, &pool_owner_freed, &freed_in_stream, &of_context};
    static const struct place *const read_by_kernel[] = {
        &closed, &freed, &freed_small, &unmapped, &no_access, &elsewhere, &torn_apart, &owner_freed, &exited, &pool_freed};
    static const struct place *const as_unified[] = {&closed, &freed, &unmapped, &torn_apart, &no_access};
    static const struct place *const in_graphs[] = {&closed, &freed, &unmapped};
    static const char *const times[] = {"captured", "instantiated", "launched"};
#define EACH(places) for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
    EACH(all) look("", all[i], each_way);
    look("held", &owner_freed, contents);
    look("held", &exited, contents);
    EACH(as_unified) look("unified", as_unified[i], unified);
    EACH(as_unified) look("batch", as_unified[i], batch);
    look("slices", &closed, batch_of_slices);
    EACH(read_by_kernel) look("kernel", read_by_kernel[i], in_kernel);
    look("writer", &read_only, writing_kernel);
    for (when = 0; when < 3; when++) {
        char name[32];
        EACH(in_graphs) look((snprintf(name, sizeof name, "graph.%s", times[when]), name), in_graphs[i], captured);
        look((snprintf(name, sizeof name, "nodes.%s", times[when]), name), &closed, made_of_nodes);
    }
    when = 2;
    look("graph.fill", &closed, captured_fill);
    look("graph.kernel", &closed, captured_kernel);
    look("graph.ownerfreed", &owner_freed, captured);
    look("graph.exited", &exited, captured);
    look("nodes.unmapped", &unmapped, made_of_nodes);
    look("nodes.changed", &closed, changed_node);
    when = 0;
    look("nodes.fill", &closed, filled_by_node);
}
