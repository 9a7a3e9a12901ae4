/* The functions of graphs, for the programs of this folder. */
#ifndef GRAPHS_H
#define GRAPHS_H
#include "rows.h"

typedef struct graph *Graph;
typedef struct exec *Exec;
typedef struct node *Node;
typedef void *Stream;
typedef void *Function, *Module;
/* CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS. */
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
    Function function;
    unsigned grid[3], block[3], shared;
    void **parameters, **extra, *kernel, *context;
} Launch;
typedef struct {
    PoolProperties properties;
    const void *access;
    size_t count, size;
    CUdeviceptr at;
} Allocate;
typedef struct {
    int type, reserved[3];
    union {
        struct {
            int flags, reserved;
            CUcontext context;
            Copy copy;
        } copy;
        Fill fill;
        long long words[29];
    };
    long long last;
} Parameters;
enum { OF_COPY = 1, OF_FILL = 2 };
enum { NON_BLOCKING = 1, RELAXED = 2 };

#define MORE(F)                                                                                                        \
    F(cuStreamBeginCapture_v2, (Stream, int))                                                                          \
    F(cuStreamEndCapture, (Stream, Graph *))                                                                           \
    F(cuGraphCreate, (Graph *, unsigned))                                                                              \
    F(cuGraphDestroy, (Graph))                                                                                         \
    F(cuGraphGetNodes, (Graph, Node *, size_t *))                                                                      \
    F(cuGraphAddMemcpyNode, (Node *, Graph, const Node *, size_t, const Copy *, CUcontext))                            \
    F(cuGraphAddMemsetNode, (Node *, Graph, const Node *, size_t, const Fill *, CUcontext))                            \
    F(cuGraphAddKernelNode_v2, (Node *, Graph, const Node *, size_t, const Launch *))                                  \
    F(cuGraphAddChildGraphNode, (Node *, Graph, const Node *, size_t, Graph))                                          \
    F(cuGraphAddMemAllocNode, (Node *, Graph, const Node *, size_t, Allocate *))                                       \
    F(cuGraphInstantiate_v2, (Exec *, Graph, Node *, char *, size_t))                                                  \
    F(cuGraphInstantiateWithFlags, (Exec *, Graph, unsigned long long))                                                \
    F(cuGraphExecUpdate_v2, (Exec, Graph, void *))                                                                     \
    F(cuGraphExecMemcpyNodeSetParams, (Exec, Node, const Copy *, CUcontext))                                           \
    F(cuGraphExecMemsetNodeSetParams, (Exec, Node, const Fill *, CUcontext))                                           \
    F(cuGraphExecChildGraphNodeSetParams, (Exec, Node, Graph))                                                         \
    F(cuGraphExecNodeSetParams, (Exec, Node, void *))                                                                  \
    F(cuGraphNodeSetEnabled, (Exec, Node, unsigned))                                                                   \
    F(cuGraphLaunch, (Exec, Stream))                                                                                   \
    F(cuGraphExecDestroy, (Exec))                                                                                      \
    F(cuModuleLoadData, (Module *, const void *))                                                                      \
    F(cuModuleGetFunction, (Function *, Module, const char *))                                                         \
    F(cuLaunchKernel, (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **, void **))
#define DECLARE(name, args) static CUresult(*name) args;
MORE(DECLARE)
#undef DECLARE

static inline void find_more(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(name, args) *(void **)&name = dlsym(driver, #name);
    MORE(FIND)
#undef FIND
}

static inline Fill fill_of(CUdeviceptr at) { return (Fill){.at = at, .value = 7, .element = 4, .width = SIZE / 4, .height = 1}; }

static inline Copy copy_of(CUdeviceptr to, CUdeviceptr from) {
    return (Copy){.from = {.type = ON_DEVICE, .device = from}, .to = {.type = ON_DEVICE, .device = to}, .width = SIZE / 2, .height = 1, .depth = 1};
}
#endif
