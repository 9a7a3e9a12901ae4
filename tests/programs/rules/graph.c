/* graph RULE bad|good: rules about graphs whose nodes use shared memory that is gone. */
#include "graphs.h"

static CUdeviceptr own, p; /* memory of this process, and of the other one */
static Handle handle;
static Stream stream;
static Exec exec;
static int is_launched; /* with memory that is gone */

/* Opens what the other process exports. */
static void begin(struct link parent) {
    start(0);
    find_more();
    own = allocate();
    handle = get_handle(parent);
    p = open_memory(handle);
    OK(cuStreamCreate(&stream, NON_BLOCKING));
}

/* Closes it; the right program opens it again, at the same address. */
static void lose(void) {
    OK(cuIpcCloseMemHandle(p));
    if (!bad) CHECK(open_memory(handle) == p);
}

static void finish(void) {
    /* The device found out what was gone. */
    if (bad && is_launched) {
        CHECK(cuCtxSynchronize() != 0);
        return;
    }
    OK(cuCtxSynchronize());
    if (exec) OK(cuGraphExecDestroy(exec));
    if (!bad) OK(cuIpcCloseMemHandle(p));
    OK(cuMemFree_v2(own));
}

/* Captures a copy between two addresses of this process. */
static Graph captured(CUdeviceptr to, CUdeviceptr from) {
    Graph graph;
    OK(cuStreamBeginCapture_v2(stream, RELAXED));
    OK(cuMemcpyDtoDAsync_v2(to, from, SIZE / 2, stream));
    OK(cuStreamEndCapture(stream, &graph));
    return graph;
}

static Node fill_node; /* of the last graph of one memset */
static Graph with_fill(CUdeviceptr at) {
    Graph graph;
    Fill fill = fill_of(at);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&fill_node, graph, NULL, 0, &fill, c0));
    return graph;
}

/* The memory is closed between the instantiation and the second launch. */
static void launch_it(struct link parent) {
    begin(parent);
    Graph graph = captured(own, p + OFFSET);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    OK(cuGraphLaunch(exec, stream));
    OK(cuCtxSynchronize());
    lose();
    is_launched = 1;
    CALL(cuGraphLaunch, (exec, stream));
    finish();
}
static void launched(void) { export_for(launch_it); }

static void instantiate_it(struct link parent) {
    begin(parent);
    Graph graph = captured(p + OFFSET, own);
    lose();
    CALL(cuGraphInstantiateWithFlags, (&exec, graph, 0));
    finish();
}
static void instantiated(void) { export_for(instantiate_it); }

static void fill_it(struct link parent) {
    begin(parent);
    Graph graph = with_fill(p);
    lose();
    CALL(cuGraphInstantiate_v2, (&exec, graph, NULL, NULL, 0));
    finish();
}
static void filled(void) { export_for(fill_it); }

/* The node is in the graph of a node of another graph. */
static void nest_it(struct link parent) {
    begin(parent);
    Graph outer = with_fill(own), middle = with_fill(own), inner = with_fill(p);
    Node node;
    OK(cuGraphAddChildGraphNode(&node, middle, NULL, 0, inner));
    OK(cuGraphAddChildGraphNode(&node, outer, NULL, 0, middle));
    lose();
    CALL(cuGraphInstantiateWithFlags, (&exec, outer, 0));
    finish();
}
static void nested(void) { export_for(nest_it); }

/* Another graph's nodes come into one that is launched already. */
static void update_it(struct link parent) {
    struct { int result; Node node, from; } info;
    begin(parent);
    Graph before = captured(own, own + SIZE / 2), after = captured(own, p);
    OK(cuGraphInstantiateWithFlags(&exec, before, 0));
    OK(cuGraphLaunch(exec, stream));
    lose();
    CALL(cuGraphExecUpdate_v2, (exec, after, &info));
    finish();
}
static void updated(void) { export_for(update_it); }

/* A node is changed after an update: calls name it as in the graph that was instantiated. */
static void change_updated(struct link parent) {
    struct { int result; Node node, from; } info;
    Node node;
    size_t count = 1;
    begin(parent);
    Graph before = captured(own, own + SIZE / 2), after = captured(own, p);
    Copy copy = copy_of(own, bad ? p : own + SIZE / 2);
    OK(cuGraphGetNodes(before, &node, &count));
    OK(cuGraphInstantiateWithFlags(&exec, before, 0));
    OK(cuGraphExecUpdate_v2(exec, after, &info));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, c0));
    OK(cuCtxSynchronize());
    OK(cuIpcCloseMemHandle(p));
    CALL(cuGraphLaunch, (exec, stream));
    is_launched = 1;
    if (bad) return finish();
    OK(cuCtxSynchronize());
    CHECK(open_memory(handle) == p);
    finish();
}
static void changed_after_update(void) { export_for(change_updated); }

/* A node is given the memory, and in the right program takes it no more. */
static void alter_it(struct link parent) {
    begin(parent);
    Graph graph;
    Node node;
    Copy inside = copy_of(own, own + SIZE / 2), from = copy_of(own, p);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &inside, c0));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphExecMemcpyNodeSetParams(exec, node, &from, c0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuCtxSynchronize());
    if (!bad) OK(cuGraphExecMemcpyNodeSetParams(exec, node, &inside, c0));
    OK(cuIpcCloseMemHandle(p));
    is_launched = 1;
    CALL(cuGraphLaunch, (exec, stream));
    if (!bad) p = open_memory(handle);
    finish();
}
static void altered(void) { export_for(alter_it); }

/* Nodes of a graph that is launched already are given the memory. The driver refuses that if it is gone. */
static void set_fill(struct link parent) {
    begin(parent);
    Fill fill = fill_of(p);
    OK(cuGraphInstantiateWithFlags(&exec, with_fill(own), 0));
    OK(cuGraphLaunch(exec, stream));
    lose();
    CALL(cuGraphExecMemsetNodeSetParams, (exec, fill_node, &fill, c0));
    finish();
}
static void fill_set(void) { export_for(set_fill); }

static Node copy_node;
static Graph with_copy(CUdeviceptr to, CUdeviceptr from) {
    Graph graph;
    Copy copy = copy_of(to, from);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemcpyNode(&copy_node, graph, NULL, 0, &copy, c0));
    return graph;
}

static void set_copy(struct link parent) {
    begin(parent);
    Copy copy = copy_of(p, own);
    OK(cuGraphInstantiateWithFlags(&exec, with_copy(own, own + SIZE / 2), 0));
    lose();
    CALL(cuGraphExecMemcpyNodeSetParams, (exec, copy_node, &copy, c0));
    finish();
}
static void copy_set(void) { export_for(set_copy); }

static void set_any_fill(struct link parent) {
    begin(parent);
    Parameters set = {.type = OF_FILL, .fill = fill_of(p)};
    OK(cuGraphInstantiateWithFlags(&exec, with_fill(own), 0));
    lose();
    CALL(cuGraphExecNodeSetParams, (exec, fill_node, &set));
    finish();
}
static void any_fill_set(void) { export_for(set_any_fill); }

static void set_any_copy(struct link parent) {
    begin(parent);
    Parameters set = {.type = OF_COPY, .copy = {.context = c0, .copy = copy_of(own, p)}};
    OK(cuGraphInstantiateWithFlags(&exec, with_copy(own, own + SIZE / 2), 0));
    lose();
    CALL(cuGraphExecNodeSetParams, (exec, copy_node, &set));
    finish();
}
static void any_copy_set(void) { export_for(set_any_copy); }

/* A child graph is given another graph, whose memory is gone, or will be. */
static void set_child(struct link parent) {
    begin(parent);
    Graph outer, inner = with_fill(p);
    Node node;
    OK(cuGraphCreate(&outer, 0));
    OK(cuGraphAddChildGraphNode(&node, outer, NULL, 0, with_fill(own)));
    OK(cuGraphInstantiateWithFlags(&exec, outer, 0));
    lose();
    CALL(cuGraphExecChildGraphNodeSetParams, (exec, node, inner));
    finish();
}
static void child_set(void) { export_for(set_child); }

/* Its first child used the memory; the right program has set one that does not. */
static void launch_set_child(struct link parent) {
    begin(parent);
    Graph outer, before = with_fill(bad ? own : p), after = with_fill(bad ? p : own);
    Node node;
    OK(cuGraphCreate(&outer, 0));
    OK(cuGraphAddChildGraphNode(&node, outer, NULL, 0, before));
    OK(cuGraphInstantiateWithFlags(&exec, outer, 0));
    OK(cuGraphExecChildGraphNodeSetParams(exec, node, after));
    OK(cuIpcCloseMemHandle(p));
    is_launched = 1;
    CALL(cuGraphLaunch, (exec, stream));
    if (!bad) p = open_memory(handle);
    finish();
}
static void child_launched(void) { export_for(launch_set_child); }

/* The same with the parameters of a node that can be any. */
static void launch_set_any(struct link parent) {
    begin(parent);
    Parameters set = {.type = OF_FILL, .fill = fill_of(bad ? p : own)};
    OK(cuGraphInstantiateWithFlags(&exec, with_fill(bad ? own : p), 0));
    OK(cuGraphExecNodeSetParams(exec, fill_node, &set));
    OK(cuIpcCloseMemHandle(p));
    is_launched = 1;
    CALL(cuGraphLaunch, (exec, stream));
    if (!bad) p = open_memory(handle);
    finish();
}
static void any_launched(void) { export_for(launch_set_any); }

/* The right program disables the node. */
static void disable_it(struct link parent) {
    begin(parent);
    Graph graph = captured(own, p);
    Node node;
    size_t number = 1;
    OK(cuGraphGetNodes(graph, &node, &number));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuCtxSynchronize());
    if (!bad) OK(cuGraphNodeSetEnabled(exec, node, 0));
    OK(cuIpcCloseMemHandle(p));
    is_launched = 1;
    CALL(cuGraphLaunch, (exec, stream));
    if (!bad) p = open_memory(handle);
    finish();
}
static void disabled(void) { export_for(disable_it); }

/* The graph has memory of its own where the other memory was, as far as the driver gives it the address. */
static void allocate_it(struct link parent) {
    enum { MOST = 64 };
    Graph graph;
    Node node;
    Allocate wanted = {.properties = {.type = PINNED, .location = {DEVICE, 0}}, .size = SIZE};
    begin(parent);
    if (bad) graph = with_fill(p);
    OK(cuIpcCloseMemHandle(p));
    if (!bad) {
        OK(cuGraphCreate(&graph, 0));
        for (int i = 0; i < MOST && wanted.at != p; i++) OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted));
        Fill fill = fill_of(wanted.at);
        OK(cuGraphAddMemsetNode(&node, graph, &node, 1, &fill, c0));
    }
    CALL(cuGraphInstantiateWithFlags, (&exec, graph, 0));
    if (exec) OK(cuGraphExecDestroy(exec));
    OK(cuMemFree_v2(own));
}
static void allocates(void) { export_for(allocate_it); }

/* A kernel that does nothing with its parameters. */
static const char kernel_text[] = ".version 6.0\n.target sm_60\n.address_size 64\n"
                                  ".visible .entry add(.param .u64 a, .param .align 8 .b8 b[24], .param .u32 n)\n{\nret;\n}\n";
static struct {
    CUdeviceptr first, inside, last;
} middle;
static CUdeviceptr first;
static int count;
static void *parameters[] = {&first, &middle, &count};
static Function kernel(void) {
    Module module;
    Function function;
    OK(cuModuleLoadData(&module, kernel_text));
    OK(cuModuleGetFunction(&function, module, "add"));
    first = own, middle.inside = p + OFFSET, count = 7;
    return function;
}

static void launch_kernel(struct link parent) {
    begin(parent);
    Graph graph;
    Function add = kernel();
    OK(cuStreamBeginCapture_v2(stream, RELAXED));
    OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    lose();
    CALL(cuGraphLaunch, (exec, stream));
    finish();
}
static void in_kernel(void) { export_for(launch_kernel); }

static void add_kernel(struct link parent) {
    begin(parent);
    Graph graph;
    Node node;
    Launch launch = {.function = kernel(), .grid = {1, 1, 1}, .block = {1, 1, 1}, .parameters = parameters};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &launch));
    lose();
    CALL(cuGraphInstantiateWithFlags, (&exec, graph, 0));
    finish();
}
static void in_node(void) { export_for(add_kernel); }

/* Its owner frees the memory; the right program has destroyed the graph, and launches another. */
static void replay_after_owner(struct link parent) {
    begin(parent);
    Exec another;
    OK(cuGraphInstantiateWithFlags(&another, captured(own, own + SIZE / 2), 0));
    OK(cuGraphInstantiateWithFlags(&exec, captured(own, p), 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuCtxSynchronize());
    if (!bad) {
        OK(cuGraphExecDestroy(exec));
        exec = another;
        OK(cuIpcCloseMemHandle(p));
    }
    tell(parent);
    wait_for(parent);
    CALL(cuGraphLaunch, (exec, stream));
    OK(cuCtxSynchronize());
    if (bad) OK(cuIpcCloseMemHandle(p));
}
static void after_owner(void) {
    struct link link = employ(replay_after_owner);
    start(0);
    CUdeviceptr shared = allocate();
    put_handle(link, export(shared));
    wait_for(link);
    OK(cuMemFree_v2(shared));
    tell(link);
    ended(link);
}

/* A range is unmapped that a graph sets; the right program maps other memory there. */
static void unmap_it(struct link parent) {
    start(0);
    find_more();
    Allocation allocation = imported(receive_descriptor()), another = create(NONE);
    CUdeviceptr at = map(allocation);
    Access access = access_of(0);
    OK(cuStreamCreate(&stream, NON_BLOCKING));
    OK(cuGraphInstantiateWithFlags(&exec, with_fill(at), 0));
    OK(cuMemUnmap(at, SIZE));
    if (!bad) {
        OK(cuMemMap(at, SIZE, 0, another, 0));
        OK(cuMemSetAccess(at, SIZE, &access, 1));
    }
    CALL(cuGraphLaunch, (exec, stream));
    if (bad) {
        CHECK(cuCtxSynchronize() != 0);
        tell(parent);
        return;
    }
    OK(cuCtxSynchronize());
    OK(cuGraphExecDestroy(exec));
    OK(cuMemUnmap(at, SIZE));
    OK(cuMemAddressFree(at, SIZE));
    OK(cuMemRelease(another));
    OK(cuMemRelease(allocation));
    tell(parent);
}
static void after_unmap(void) { share_with(unmap_it); }

/* A node is given a range that is unmapped. */
static void set_unmapped(struct link parent) {
    start(0);
    find_more();
    Allocation allocation = imported(receive_descriptor());
    CUdeviceptr at = map(allocation);
    Fill fill = fill_of(at);
    own = allocate();
    OK(cuGraphInstantiateWithFlags(&exec, with_fill(own), 0));
    if (bad) OK(cuMemUnmap(at, SIZE));
    CALL(cuGraphExecMemsetNodeSetParams, (exec, fill_node, &fill, c0));
    OK(cuGraphExecDestroy(exec));
    if (!bad) OK(cuMemUnmap(at, SIZE));
    OK(cuMemAddressFree(at, SIZE));
    OK(cuMemRelease(allocation));
    OK(cuMemFree_v2(own));
    tell(parent);
}
static void unmapped_set(void) { share_with(set_unmapped); }

/* A graph of imported memory of a pool, which is freed before the graph is made, or after. */
static void instantiate_freed(struct link parent) {
    start(0);
    find_more();
    PoolPointer pointer;
    Pool pool;
    CUdeviceptr at;
    int fd = receive_descriptor();
    OK(cuMemPoolImportFromShareableHandle(&pool, as_pointer(fd), DESCRIPTOR, 0));
    close(fd);
    get(parent, &pointer, sizeof pointer);
    OK(cuMemPoolImportPointer(&at, pool, &pointer));
    Graph graph = with_fill(at);
    if (bad) OK(cuMemFree_v2(at));
    CALL(cuGraphInstantiateWithFlags, (&exec, graph, 0));
    if (exec) OK(cuGraphExecDestroy(exec));
    if (!bad) OK(cuMemFree_v2(at));
    OK(cuMemPoolDestroy(pool));
    tell(parent);
}
static void freed(void) {
    struct link link;
    Pool pool;
    PoolProperties wanted = {.type = PINNED, .handle_types = DESCRIPTOR, .location = {DEVICE, 0}};
    PoolPointer pointer;
    CUdeviceptr at;
    int fd;
    employ_with_socket(&link, instantiate_freed);
    start(0);
    OK(cuMemPoolCreate(&pool, &wanted));
    OK(cuMemAllocFromPoolAsync(&at, SIZE, pool, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemPoolExportToShareableHandle(&fd, pool, DESCRIPTOR, 0));
    OK(cuMemPoolExportPointer(&pointer, at));
    send_descriptor(fd);
    close(fd);
    put(link, &pointer, sizeof pointer);
    wait_for(link);
    ended(link);
    OK(cuMemFreeAsync(at, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemPoolDestroy(pool));
}

SCENES({"use-in-graph/launch", launched}, {"use-in-graph/node", altered}, {"use-in-graph/disabled", disabled}, {"use-in-graph/unmapped", after_unmap},
       {"use-after-owner-freed/graph", after_owner}, {"use-in-graph", instantiated}, {"use-in-graph/memset", filled},
       {"use-in-graph/child", nested}, {"use-in-graph/update", updated}, {"use-in-graph/changed", changed_after_update}, {"use-in-graph/allocates", allocates},
       {"use-in-graph/set", fill_set}, {"use-in-graph/set-copy", copy_set}, {"use-in-graph/set-any", any_fill_set},
       {"use-in-graph/set-any-copy", any_copy_set}, {"use-in-graph/set-child", child_set}, {"use-in-graph/child-launch", child_launched},
       {"use-in-graph/any-launch", any_launched}, {"use-in-graph/set-unmapped", unmapped_set}, {"use-in-graph/freed", freed},
       {"use-in-kernel/graph", in_kernel}, {"use-in-kernel/graph-node", in_node})
