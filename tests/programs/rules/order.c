/* order RULE bad|good: work in shared memory that nothing orders. The exporter is one process, and the importer another. */
#include "graphs.h"

enum { BYTES = 1 << 16 };
static unsigned buffer[BYTES / sizeof(unsigned)];

static void *stream(void) {
    void *made;
    OK(cuStreamCreate(&made, NON_BLOCKING));
    return made;
}

/* The part of the importer: with memory of the exporter, memory of its own, a stream, and an event of the exporter. */
static void (*part)(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event);

static void import(struct link parent) {
    CUevent event;
    start(0);
    CUdeviceptr opened = open_memory(get_handle(parent)), own = allocate();
    OK(cuIpcOpenEventHandle(&event, get_handle(parent)));
    part(parent, opened, own, stream(), event);
    OK(cuEventDestroy_v2(event));
    OK(cuMemFree_v2(own));
}

static void play_with(void (*of_importer)(struct link, CUdeviceptr, CUdeviceptr, void *, CUevent),
                      void (*of_exporter)(struct link, CUdeviceptr, void *, CUevent)) {
    Handle handle;
    CUevent event;
    part = of_importer;
    struct link importer = employ(import);
    start(0);
    CUdeviceptr p = allocate();
    put_handle(importer, export(p));
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    put_handle(importer, handle);
    of_exporter(importer, p, stream(), event);
    ended(importer);
    OK(cuEventDestroy_v2(event));
}

static void reads(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    (void)own, (void)stream, (void)event;
    wait_for(parent);
    CALL(cuMemcpyDtoH_v2, (buffer, opened, BYTES));
    tell(parent);
    OK(cuIpcCloseMemHandle(opened));
}

/* Ends the part of an exporter. */
static void finish(struct link importer, CUdeviceptr p, void *stream) {
    wait_for(importer);
    OK(cuStreamSynchronize(stream));
    wait_for(importer);
    OK(cuMemFree_v2(p));
}

static void reads_and_tells(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    reads(parent, opened, own, stream, event);
    tell(parent);
}

/* In the wrong job, the exporter does not wait for its memset. */
static void writes(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    (void)event;
    OK(cuMemsetD32Async(p, 1, BYTES / 4, stream));
    if (!bad) OK(cuStreamSynchronize(stream));
    tell(importer);
    finish(importer, p, stream);
}
static void read_early(void) { play_with(reads_and_tells, writes); }

/* The memset comes before the export; in the wrong job, the exporter does not wait for it. */
static void reads_at_once(struct link parent) {
    start(0);
    CUdeviceptr opened = open_memory(get_handle(parent));
    CALL(cuMemcpyDtoH_v2, (buffer, opened, BYTES));
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void written_before(void) {
    struct link importer = employ(reads_at_once);
    start(0);
    CUdeviceptr p = allocate();
    void *work = stream();
    OK(cuMemsetD32Async(p, 1, BYTES / 4, work));
    if (!bad) OK(cuStreamSynchronize(work));
    put_handle(importer, export(p));
    wait_for(importer);
    OK(cuStreamSynchronize(work));
    OK(cuMemFree_v2(p));
    ended(importer);
}

/* In the wrong job, the exporter asks once whether another stream is done. */
static void writes_and_asks(struct link importer, CUdeviceptr p, void *work, CUevent event) {
    (void)event;
    void *other = stream();
    OK(cuMemsetD32Async(p, 1, BYTES / 4, work));
    while (cuStreamQuery(bad ? other : work)) usleep(100);
    tell(importer);
    finish(importer, p, work);
}
static void asked(void) { play_with(reads_and_tells, writes_and_asks); }

/* In the right job, the copy waits for itself. */
static void writes_by_copy(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    (void)event;
    if (bad) OK(cuMemcpyHtoDAsync_v2(p, buffer, BYTES, stream));
    else OK(cuMemcpyHtoD_v2(p, buffer, BYTES));
    tell(importer);
    finish(importer, p, stream);
}
static void copied(void) { play_with(reads_and_tells, writes_by_copy); }

/* In the wrong job, the event is recorded before the memset. */
static void writes_and_records(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    if (bad) OK(cuEventRecord(event, stream));
    OK(cuMemsetD32Async(p, 1, BYTES / 4, stream));
    if (!bad) OK(cuEventRecord(event, stream));
    tell(importer);
    finish(importer, p, stream);
}
static void follows(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    wait_for(parent);
    OK(cuStreamWaitEvent(stream, event, 0));
    CALL(cuMemcpyDtoDAsync_v2, (own, opened, BYTES, stream));
    tell(parent);
    OK(cuStreamSynchronize(stream));
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void recorded(void) { play_with(follows, writes_and_records); }

/* In the wrong job, the importer gives the memory back before its copy is done. */
static void takes(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    (void)event;
    OK(cuMemcpyDtoDAsync_v2(own, opened, BYTES, stream));
    if (!bad) OK(cuCtxSynchronize());
    tell(parent);
    wait_for(parent);
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void overwrites(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    (void)event;
    wait_for(importer);
    CALL(cuMemsetD32Async, (p, 2, BYTES / 4, stream));
    OK(cuStreamSynchronize(stream));
    tell(importer);
    wait_for(importer);
    OK(cuMemFree_v2(p));
}
static void overwritten(void) { play_with(takes, overwrites); }

/* Rows of 64 bytes. In the wrong job, the importer gives them back before its copy is done. */
static void takes_rows(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    Rows rows = {{.type = ON_DEVICE, .device = opened, .pitch = 256}, {.type = ON_DEVICE, .device = own, .pitch = 64}, 64, 16};
    (void)event;
    OK(cuMemcpy2DAsync_v2(&rows, stream));
    if (!bad) OK(cuStreamSynchronize(stream));
    tell(parent);
    wait_for(parent);
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void overwrites_rows(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    (void)event;
    wait_for(importer);
    CALL(cuMemsetD2D32Async, (p, 256, 2, 16, 16, stream));
    OK(cuStreamSynchronize(stream));
    tell(importer);
    wait_for(importer);
    OK(cuMemFree_v2(p));
}
static void rows(void) { play_with(takes_rows, overwrites_rows); }

/* Nobody waits; in the right job, one takes the first 64 bytes of each row, and the other writes those behind them. */
static void takes_columns(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    Rows rows = {{.type = ON_DEVICE, .device = opened, .pitch = 256}, {.type = ON_DEVICE, .device = own, .pitch = 64}, 64, 16};
    (void)event;
    OK(cuMemcpy2DAsync_v2(&rows, stream));
    tell(parent);
    wait_for(parent);
    OK(cuStreamSynchronize(stream));
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void overwrites_columns(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    (void)event;
    wait_for(importer);
    CALL(cuMemsetD2D32Async, (bad ? p : p + 64, 256, 2, 16, 15, stream));
    OK(cuStreamSynchronize(stream));
    tell(importer);
    wait_for(importer);
    OK(cuMemFree_v2(p));
}
static void columns(void) { play_with(takes_columns, overwrites_columns); }

/* Two copies at once, of which the second one is of bytes that the other process writes. */
static void takes_batch(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    static CUresult (*cuMemcpyBatchAsync_v2)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, void *);
    *(void **)&cuMemcpyBatchAsync_v2 = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyBatchAsync_v2");
    /* CUmemcpyAttributes: the order of the stream. */
    struct { int order; Location hints[2]; unsigned flags; } attributes = {.order = 1};
    CUdeviceptr to[] = {own, own + 4096}, from[] = {own + 8192, opened + 4096};
    size_t sizes[] = {64, 128}, first = 0;
    (void)event;
    wait_for(parent);
    CALL(cuMemcpyBatchAsync_v2, (to, from, sizes, 2, &attributes, &first, 1, stream));
    tell(parent);
    OK(cuStreamSynchronize(stream));
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void batch(void) { play_with(takes_batch, writes); }

static void takes_slices(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    static CUresult (*cuMemcpy3DBatchAsync_v2)(size_t, Slices *, unsigned long long, void *);
    *(void **)&cuMemcpy3DBatchAsync_v2 = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpy3DBatchAsync_v2");
    Slices slices = {{1, opened, 0, 0, {0, 0}}, {1, own, 0, 0, {0, 0}}, 64, 4, 2, 1, 0};
    (void)event;
    wait_for(parent);
    CALL(cuMemcpy3DBatchAsync_v2, (1, &slices, 0, stream));
    tell(parent);
    OK(cuStreamSynchronize(stream));
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void slices(void) { play_with(takes_slices, writes); }

/* Both write; in the wrong job, the exporter does not wait. */
static void writes_too(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    (void)own, (void)event;
    wait_for(parent);
    CALL(cuMemsetD32Async, (opened, 2, BYTES / 4, stream));
    tell(parent);
    OK(cuStreamSynchronize(stream));
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void twice(void) { play_with(writes_too, writes); }

/* In the wrong job, the exporter frees while a copy of the importer is queued. */
static void takes_last(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    (void)event;
    OK(cuMemcpyDtoDAsync_v2(own, opened, BYTES, stream));
    if (bad) tell(parent);
    if (bad) wait_for(parent);
    OK(cuIpcCloseMemHandle(opened));
    if (!bad) tell(parent);
}
static void frees(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    (void)stream, (void)event;
    wait_for(importer);
    CALL(cuMemFree_v2, (p));
    if (bad) tell(importer);
}
static void freed(void) { play_with(takes_last, frees); }

/* In the wrong job, the importer unmaps while its own memset is queued. */
static void unmaps(struct link parent) {
    start(0);
    Allocation allocation = imported(receive_descriptor());
    CUdeviceptr at = map(allocation);
    void *work = stream();
    OK(cuMemsetD32Async(at, 1, SIZE / 4, work));
    if (!bad) OK(cuStreamSynchronize(work));
    CALL(cuMemUnmap, (at, SIZE));
    OK(cuMemAddressFree(at, SIZE));
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void unmapped(void) { share_with(unmaps); }

/* The exporter has a flag. In the wrong job, it clears the flag when the importer has set it already. */
static void sets(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    unsigned one = 1;
    (void)own, (void)stream, (void)event;
    wait_for(parent);
    OK(cuMemcpyHtoD_v2(opened, &one, sizeof one));
    /* A copy from pageable memory may return before it has arrived. */
    OK(cuCtxSynchronize());
    tell(parent);
    wait_for(parent);
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void clears(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    unsigned flag = 0;
    (void)stream, (void)event;
    if (bad) tell(importer);
    if (bad) wait_for(importer);
    CALL(cuMemsetD32_v2, (p, 0, 1));
    OK(cuCtxSynchronize());
    if (!bad) tell(importer);
    if (!bad) wait_for(importer);
    OK(cuMemcpyDtoH_v2(&flag, p, sizeof flag));
    CHECK(flag == !bad);
    tell(importer);
    wait_for(importer);
    OK(cuMemFree_v2(p));
}
static void erased(void) { play_with(sets, clears); }

/* Two importers read two messages in the same memory. In the wrong job, the second one reads both when the other one has. */
static void takes_messages(struct link parent) {
    start(0);
    CUdeviceptr opened = open_memory(get_handle(parent));
    for (int i = 0; i < 2; i++) {
        wait_for(parent);
        OK(cuMemcpyDtoH_v2(buffer, opened, BYTES));
        tell(parent);
    }
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void missed(void) {
    struct link links[2];
    for (int i = 0; i < 2; i++) links[i] = employ(takes_messages);
    start(0);
    CUdeviceptr p = allocate();
    Handle handle = export(p);
    for (int i = 0; i < 2; i++) put_handle(links[i], handle);
    for (int i = 0; i < 4; i++) {
        int is_first = bad ? i < 2 : i % 2 == 0;
        if (i == (bad ? 1 : 2)) CALL(cuMemsetD32_v2, (p, 2, BYTES / 4));
        else if (i == 0) OK(cuMemsetD32_v2(p, 1, BYTES / 4));
        OK(cuCtxSynchronize());
        tell(links[!is_first]);
        wait_for(links[!is_first]);
    }
    for (int i = 0; i < 2; i++) wait_for(links[i]);
    OK(cuMemFree_v2(p));
    for (int i = 0; i < 2; i++) ended(links[i]);
}

/* Makes a graph executable, once. */
static Exec made_of(Graph graph) {
    Exec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

static Graph with_copy(CUdeviceptr to, CUdeviceptr from, Node *node) {
    Graph graph;
    Copy copy = copy_of(to, from);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemcpyNode(node, graph, NULL, 0, &copy, c0));
    return graph;
}

/* As in `overwrites`, by a graph that copies. */
static void replays(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    (void)event;
    find_more();
    CUdeviceptr own = allocate();
    Node node;
    Exec exec = made_of(with_copy(p, own, &node));
    wait_for(importer);
    CALL(cuGraphLaunch, (exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    tell(importer);
    wait_for(importer);
    OK(cuMemFree_v2(own));
    OK(cuMemFree_v2(p));
}
static void replayed(void) { play_with(takes, replays); }

/* The importer captures the copy. What the exporter captures and does not launch uses nothing. */
static void takes_by_graph(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    (void)event;
    find_more();
    Graph graph;
    OK(cuStreamBeginCapture_v2(stream, RELAXED));
    OK(cuMemcpyDtoDAsync_v2(own, opened, BYTES, stream));
    OK(cuStreamEndCapture(stream, &graph));
    Exec exec = made_of(graph);
    OK(cuGraphLaunch(exec, stream));
    tell(parent);
    wait_for(parent);
    OK(cuCtxSynchronize());
    OK(cuGraphExecDestroy(exec));
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void captures(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    (void)event;
    find_more();
    Graph graph;
    wait_for(importer);
    if (!bad) OK(cuStreamBeginCapture_v2(stream, RELAXED));
    CALL(cuMemsetD32Async, (p, 2, BYTES / 4, stream));
    if (!bad) OK(cuStreamEndCapture(stream, &graph));
    if (!bad) OK(cuGraphDestroy(graph));
    OK(cuStreamSynchronize(stream));
    tell(importer);
    wait_for(importer);
    OK(cuMemFree_v2(p));
}
static void captured(void) { play_with(takes_by_graph, captures); }

/* The node of the graph gets another place: in the right job, one that the importer does not have. */
static void replays_elsewhere(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    (void)event;
    find_more();
    CUdeviceptr own = allocate(), other = allocate();
    Node node;
    Exec exec;
    Graph graph = with_copy(bad ? other : p, own, &node);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    Copy copy = copy_of(bad ? p : other, own);
    wait_for(importer);
    OK(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, c0));
    CALL(cuGraphLaunch, (exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    tell(importer);
    wait_for(importer);
    OK(cuMemFree_v2(own));
    OK(cuMemFree_v2(other));
    OK(cuMemFree_v2(p));
}
static void takes_and_tells(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    (void)event;
    OK(cuMemcpyDtoDAsync_v2(own, opened, BYTES, stream));
    tell(parent);
    wait_for(parent);
    OK(cuCtxSynchronize());
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void altered(void) { play_with(takes_and_tells, replays_elsewhere); }

/* Two copies to the same place, in two streams of the exporter. In the right job, they are two launches of one graph, of which the
 * second one waits for the first one. */
static void replays_twice(struct link importer, CUdeviceptr p, void *stream, CUevent event) {
    (void)event;
    find_more();
    CUdeviceptr own = allocate();
    void *streams[] = {stream, NULL};
    Node node;
    Exec execs[2];
    OK(cuStreamCreate(&streams[1], NON_BLOCKING));
    for (int i = 0; i < 2; i++) execs[i] = made_of(with_copy(p, own, &node));
    OK(cuGraphLaunch(execs[0], streams[0]));
    CALL(cuGraphLaunch, (execs[bad], streams[1]));
    OK(cuCtxSynchronize());
    for (int i = 0; i < 2; i++) OK(cuGraphExecDestroy(execs[i]));
    tell(importer);
    finish(importer, p, stream);
    OK(cuMemFree_v2(own));
}
static void looks_on(struct link parent, CUdeviceptr opened, CUdeviceptr own, void *stream, CUevent event) {
    (void)own, (void)stream, (void)event;
    wait_for(parent);
    tell(parent);
    OK(cuIpcCloseMemHandle(opened));
    tell(parent);
}
static void apart(void) { play_with(looks_on, replays_twice); }

SCENES({"overwritten-unread", erased}, {"overwritten-unread/missed", missed}, {"access-not-ordered", read_early}, {"access-not-ordered/query", asked}, {"access-not-ordered/copy", copied}, {"access-not-ordered/before-export", written_before},
       {"access-not-ordered/event", recorded}, {"access-not-ordered/overwritten", overwritten},
       {"access-not-ordered/twice", twice}, {"access-not-ordered/freed", freed},
        {"access-not-ordered/unmapped", unmapped}, {"access-not-ordered/rows", rows}, {"access-not-ordered/columns", columns},
       {"access-not-ordered/batch", batch}, {"access-not-ordered/slices", slices}, {"access-not-ordered/graph", replayed},
        {"access-not-ordered/captured", captured}, {"access-not-ordered/altered", altered},
        {"access-not-ordered/apart", apart})
