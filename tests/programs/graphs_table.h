/* The functions that make, change, and launch executable graphs, in rows as table.h has them. */
#ifndef GRAPHS_TABLE_H
#define GRAPHS_TABLE_H

#define GRAPHS_TABLE(X)                                                                                    \
    X(cuGraphInstantiate, (void **exec, void *graph, void *node, void *log, size_t size),                  \
      (exec, graph, node, log, size), ((void **)&o->handle, (void *)(uintptr_t)m, NULL, NULL, 0), (uintptr_t)graph) \
    X(cuGraphInstantiate_v2, (void **exec, void *graph, void *node, void *log, size_t size),               \
      (exec, graph, node, log, size), ((void **)&o->handle, (void *)(uintptr_t)m, NULL, NULL, 0), (uintptr_t)graph) \
    X(cuGraphInstantiateWithFlags, (void **exec, void *graph, uint64_t flags), (exec, graph, flags),       \
      ((void **)&o->handle, (void *)(uintptr_t)m, 0), (uintptr_t)graph)                                    \
    X(cuGraphInstantiateWithParams, (void **exec, void *graph, void *params), (exec, graph, params),       \
      ((void **)&o->handle, (void *)(uintptr_t)m, NULL), (uintptr_t)graph)                                 \
    X(cuGraphInstantiateWithParams_ptsz, (void **exec, void *graph, void *params), (exec, graph, params),  \
      ((void **)&o->handle, (void *)(uintptr_t)m, NULL), (uintptr_t)graph)                                 \
    X(cuGraphExecUpdate, (void *exec, void *graph, void *node, void *result_of), (exec, graph, node, result_of), \
      ((void *)(uintptr_t)m, o, NULL, NULL), (uintptr_t)exec)                                              \
    X(cuGraphExecUpdate_v2, (void *exec, void *graph, void *result_of), (exec, graph, result_of),                \
      ((void *)(uintptr_t)m, o, NULL), (uintptr_t)exec)                                                    \
    X(cuGraphLaunch, (void *exec, CUstream s), (exec, s), ((void *)(uintptr_t)m, NULL), (uintptr_t)exec)   \
    X(cuGraphLaunch_ptsz, (void *exec, CUstream s), (exec, s), ((void *)(uintptr_t)m, NULL), (uintptr_t)exec) \
    X(cuGraphExecKernelNodeSetParams, (void *exec, void *node, void *params), (exec, node, params),        \
      ((void *)(uintptr_t)m, o, NULL), (uintptr_t)exec)                                                    \
    X(cuGraphExecKernelNodeSetParams_v2, (void *exec, void *node, void *params), (exec, node, params),     \
      ((void *)(uintptr_t)m, o, NULL), (uintptr_t)exec)                                                    \
    X(cuGraphExecMemcpyNodeSetParams, (void *exec, void *node, void *params, CUcontext c), (exec, node, params, c), \
      ((void *)(uintptr_t)m, o, NULL, NULL), (uintptr_t)exec)                                              \
    X(cuGraphExecMemsetNodeSetParams, (void *exec, void *node, void *params, CUcontext c), (exec, node, params, c), \
      ((void *)(uintptr_t)m, o, NULL, NULL), (uintptr_t)exec)                                              \
    X(cuGraphExecChildGraphNodeSetParams, (void *exec, void *node, void *graph), (exec, node, graph),      \
      ((void *)(uintptr_t)m, o, NULL), (uintptr_t)exec)                                                    \
    X(cuGraphExecNodeSetParams, (void *exec, void *node, void *params), (exec, node, params),              \
      ((void *)(uintptr_t)m, o, NULL), (uintptr_t)exec)                                                    \
    X(cuGraphNodeSetEnabled, (void *exec, void *node, unsigned enabled), (exec, node, enabled),            \
      ((void *)(uintptr_t)m, o, 1), (uintptr_t)exec)                                                       \
    X(cuGraphExecDestroy, (void *exec), (exec), ((void *)(uintptr_t)m), (uintptr_t)exec)

/* What look-ups find: each name, the first version, and both forms; and those that have one form, the newest first. */
#define GRAPHS_ENTRIES(E)                                                                                  \
    E(cuGraphLaunch, 10000, cuGraphLaunch, cuGraphLaunch_ptsz)                                             \
    E(cuGraphInstantiateWithParams, 12000, cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz)
#define GRAPHS_PLAIN_ENTRIES(E)                                                                            \
    E(cuGraphInstantiate, 11000, cuGraphInstantiate_v2)                                                    \
    E(cuGraphInstantiate, 10000, cuGraphInstantiate)                                                       \
    E(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags)                                     \
    E(cuGraphExecUpdate, 12000, cuGraphExecUpdate_v2)                                                      \
    E(cuGraphExecUpdate, 10020, cuGraphExecUpdate)                                                         \
    E(cuGraphExecKernelNodeSetParams, 12000, cuGraphExecKernelNodeSetParams_v2)                            \
    E(cuGraphExecKernelNodeSetParams, 10010, cuGraphExecKernelNodeSetParams)                               \
    E(cuGraphExecMemcpyNodeSetParams, 10020, cuGraphExecMemcpyNodeSetParams)                               \
    E(cuGraphExecMemsetNodeSetParams, 10020, cuGraphExecMemsetNodeSetParams)                               \
    E(cuGraphExecChildGraphNodeSetParams, 11010, cuGraphExecChildGraphNodeSetParams)                       \
    E(cuGraphExecNodeSetParams, 12020, cuGraphExecNodeSetParams)                                           \
    E(cuGraphNodeSetEnabled, 11060, cuGraphNodeSetEnabled)                                                 \
    E(cuGraphExecDestroy, 10000, cuGraphExecDestroy)

#define OUTPUT_cuGraphInstantiate OUT(exec, graph);
#define OUTPUT_cuGraphInstantiate_v2 OUT(exec, graph);
#define OUTPUT_cuGraphInstantiateWithFlags OUT(exec, graph);
#define OUTPUT_cuGraphInstantiateWithParams OUT(exec, graph);
#define OUTPUT_cuGraphInstantiateWithParams_ptsz OUT(exec, graph);
#define OUTPUT_cuGraphExecUpdate
#define OUTPUT_cuGraphExecUpdate_v2
#define OUTPUT_cuGraphLaunch
#define OUTPUT_cuGraphLaunch_ptsz
#define OUTPUT_cuGraphExecKernelNodeSetParams
#define OUTPUT_cuGraphExecKernelNodeSetParams_v2
#define OUTPUT_cuGraphExecMemcpyNodeSetParams
#define OUTPUT_cuGraphExecMemsetNodeSetParams
#define OUTPUT_cuGraphExecChildGraphNodeSetParams
#define OUTPUT_cuGraphExecNodeSetParams
#define OUTPUT_cuGraphNodeSetEnabled
#define OUTPUT_cuGraphExecDestroy
#endif
