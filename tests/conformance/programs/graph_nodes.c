// What the driver says of the nodes of a graph is what the program gave it, captured or put together; an executable graph takes the
// parameters of another one, and of its own nodes.
#include "common.h"

typedef void *Graph, *Exec, *Node, *Stream;
// CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS.
typedef struct {
    size_t x, y, z, level;
    int type;
    const void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
} Side;
typedef struct {
    Side from, to;
    size_t width, height, depth;
} Copy;
typedef struct {
    CUdeviceptr at;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
} Fill;
typedef struct {
    struct { int type, handle_types, location, id; void *windows; size_t most; unsigned char rest[56]; } properties;
    const void *access;
    size_t count, size;
    CUdeviceptr at;
} Allocate;
int cuStreamBeginCapture_v2(Stream, int), cuStreamEndCapture(Stream, Graph *), cuStreamSynchronize(Stream);
int cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, Stream), cuMemsetD16Async(CUdeviceptr, unsigned short, size_t, Stream);
int cuGraphCreate(Graph *, unsigned), cuGraphDestroy(Graph), cuGraphGetNodes(Graph, Node *, size_t *), cuGraphNodeGetType(Node, int *);
int cuGraphMemcpyNodeGetParams(Node, Copy *), cuGraphMemsetNodeGetParams(Node, Fill *), cuGraphChildGraphNodeGetGraph(Node, Graph *);
int cuGraphAddMemcpyNode(Node *, Graph, const Node *, size_t, const Copy *, void *);
int cuGraphAddMemsetNode(Node *, Graph, const Node *, size_t, const Fill *, void *);
int cuGraphAddChildGraphNode(Node *, Graph, const Node *, size_t, Graph);
int cuGraphAddMemAllocNode(Node *, Graph, const Node *, size_t, Allocate *), cuGraphMemAllocNodeGetParams(Node, Allocate *);
int cuGraphInstantiateWithFlags(Exec *, Graph, unsigned long long), cuGraphLaunch(Exec, Stream), cuGraphExecDestroy(Exec);
int cuGraphExecUpdate_v2(Exec, Graph, void *), cuGraphExecMemsetNodeSetParams(Exec, Node, const Fill *, void *);
int cuGraphExecNodeSetParams(Exec, Node, void *), cuGraphExecChildGraphNodeSetParams(Exec, Node, Graph);
int cuGraphNodeSetEnabled(Exec, Node, unsigned);
enum { COPY = 1, FILL = 2, GRAPH = 4, ALLOCATION = 10, ON_DEVICE = 2, SIZE = 1 << 20, PINNED = 1, DEVICE = 1, UPDATE_FAILURE = 910 };

static Stream stream;
static void *context;

static int type_of(Node node) {
    int type = -1;
    IS(cuGraphNodeGetType(node, &type), 0);
    return type;
}

static unsigned char byte_at(CUdeviceptr at) {
    unsigned char byte;
    IS(cuMemcpyDtoH_v2(&byte, at, 1), 0);
    return byte;
}

static void launch(Exec exec) {
    IS(cuGraphLaunch(exec, stream), 0);
    IS(cuStreamSynchronize(stream), 0);
}

int main(void) {
    Graph captured, outer, inner, other;
    Exec exec;
    Node nodes[4], node, first;
    CUdeviceptr a, b;
    size_t count = 0;
    struct { int result; Node node, from; } info;
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 0), 0);
    IS(cuCtxSetCurrent(context), 0);
    IS(cuStreamCreate(&stream, 1), 0);
    IS(cuMemAlloc_v2(&a, SIZE), 0);
    IS(cuMemAlloc_v2(&b, SIZE), 0);

    // Captured.
    IS(cuStreamBeginCapture_v2(stream, 0), 0);
    IS(cuMemsetD16Async(a + 32, 0x0304, 64, stream), 0);
    IS(cuMemcpyDtoDAsync_v2(b + 16, a + 32, 128, stream), 0);
    IS(cuStreamEndCapture(stream, &captured), 0);
    IS(cuGraphGetNodes(captured, NULL, &count), 0);
    IS((int)count, 2);
    count = 4;
    memset(nodes, 1, sizeof nodes);
    IS(cuGraphGetNodes(captured, nodes, &count), 0);
    IS(count == 2 && !nodes[2] && !nodes[3], 1);
    count = 1;
    IS(cuGraphGetNodes(captured, &first, &count), 0);
    IS(count == 1 && first == nodes[0], 1);
    int is_fill = type_of(nodes[0]) == FILL;
    Fill fill = {0};
    Copy copy = {0};
    IS(cuGraphMemsetNodeGetParams(nodes[!is_fill], &fill), 0);
    IS(fill.at == a + 32 && fill.value == 0x0304 && fill.element == 2 && fill.width == 64 && fill.height == 1, 1);
    IS(type_of(nodes[is_fill]), COPY);
    IS(cuGraphMemcpyNodeGetParams(nodes[is_fill], &copy), 0);
    IS(copy.from.type == ON_DEVICE && copy.from.device + copy.from.x == a + 32, 1);
    IS(copy.to.type == ON_DEVICE && copy.to.device + copy.to.x == b + 16, 1);
    IS(copy.width == 128 && copy.height == 1 && copy.depth == 1, 1);
    IS(cuGraphMemcpyNodeGetParams(nodes[!is_fill], &copy), 1);

    // Put together, with a graph in a node. What is added to that graph later is another's.
    Fill seven = {.at = a, .value = 7, .element = 1, .width = 16, .height = 1}, eight = {.at = a, .value = 8, .element = 1, .width = 16, .height = 1};
    Copy move = {.from = {.type = ON_DEVICE, .device = a}, .to = {.type = ON_DEVICE, .device = b}, .width = 16, .height = 1, .depth = 1};
    IS(cuGraphCreate(&inner, 0), 0);
    IS(cuGraphAddMemsetNode(&node, inner, NULL, 0, &seven, context), 0);
    IS(cuGraphCreate(&outer, 0), 0);
    IS(cuGraphAddChildGraphNode(&first, outer, NULL, 0, inner), 0);
    IS(cuGraphAddMemcpyNode(&node, outer, &first, 1, &move, context), 0);
    IS(cuGraphAddMemsetNode(&node, inner, NULL, 0, &eight, context), 0);
    IS(type_of(first), GRAPH);
    IS(cuGraphChildGraphNodeGetGraph(first, &other), 0);
    IS(other != inner, 1);
    IS(cuGraphGetNodes(other, NULL, &count), 0);
    IS((int)count, 1);
    IS(cuGraphInstantiateWithFlags(&exec, outer, 0), 0);
    launch(exec);
    IS(byte_at(b), 7);
    Graph nine;
    seven.value = 9;
    IS(cuGraphCreate(&nine, 0), 0);
    IS(cuGraphAddMemsetNode(&node, nine, NULL, 0, &seven, context), 0);
    seven.value = 7;
    IS(cuGraphExecChildGraphNodeSetParams(exec, first, nine), 0);
    launch(exec);
    IS(byte_at(b), 9);
    IS(cuGraphExecDestroy(exec), 0);

    // Updated by another graph, and by one of its own nodes.
    IS(cuGraphCreate(&inner, 0), 0);
    IS(cuGraphAddMemsetNode(&first, inner, NULL, 0, &seven, context), 0);
    IS(cuGraphCreate(&other, 0), 0);
    IS(cuGraphAddMemsetNode(&node, other, NULL, 0, &eight, context), 0);
    IS(cuGraphInstantiateWithFlags(&exec, inner, 0), 0);
    IS(cuGraphExecUpdate_v2(exec, other, &info), 0);
    launch(exec);
    IS(byte_at(a), 8);
    IS(cuGraphExecMemsetNodeSetParams(exec, first, &seven, context), 0);
    launch(exec);
    IS(byte_at(a), 7);
    // CUgraphNodeParams.
    struct { int type, reserved[3]; Fill fill; void *context; char rest[192]; } any = {.type = FILL, .fill = eight, .context = context};
    IS(cuGraphExecNodeSetParams(exec, first, &any), 0);
    launch(exec);
    IS(byte_at(a), 8);
    IS(cuGraphNodeSetEnabled(exec, first, 0), 0);
    IS(cuMemsetD8_v2(a, 1, 16), 0);
    launch(exec);
    IS(byte_at(a), 1);
    IS(cuGraphNodeSetEnabled(exec, first, 1), 0);
    IS(cuGraphExecMemsetNodeSetParams(exec, first, &seven, context), 0);
    IS(cuGraphExecUpdate_v2(exec, outer, &info), UPDATE_FAILURE);
    launch(exec);
    IS(byte_at(a), 7);
    IS(cuGraphExecDestroy(exec), 0);

    // A graph that allocates knows the address before.
    Allocate wanted = {.properties = {.type = PINNED, .location = DEVICE}, .size = SIZE}, told = {0};
    IS(cuGraphCreate(&other, 0), 0);
    IS(cuGraphAddMemAllocNode(&node, other, NULL, 0, &wanted), 0);
    IS(type_of(node), ALLOCATION);
    IS(cuGraphMemAllocNodeGetParams(node, &told), 0);
    IS(wanted.at && told.at == wanted.at && told.size >= SIZE, 1);
    eight.at = wanted.at;
    IS(cuGraphAddMemsetNode(&first, other, &node, 1, &eight, context), 0);
    IS(cuGraphInstantiateWithFlags(&exec, other, 0), 0);
    IS(cuGraphExecDestroy(exec), 0);
    IS(cuGraphDestroy(other), 0);
    IS(cuGraphDestroy(outer), 0);
    return 0;
}
