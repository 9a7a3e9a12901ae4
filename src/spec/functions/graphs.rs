//! Functions that make, change, and launch executable graphs, whose nodes hold the addresses of memory. None of them is recorded
//! unless a node uses memory that is gone.

/// Hands the entries, behind those that it is given, to the macro `$callback`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_graph_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_event_functions! { $callback; $($entries)*

/// Makes a graph executable.
fn cuGraphInstantiate(
    out phGraphExec: *mut $crate::abi::CUgraphExec,
    in hGraph: $crate::abi::CUgraph,
    in phErrorNode: $crate::abi::HostAddress,
    in logBuffer: $crate::abi::HostAddress,
    in bufferSize: usize,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10000, simulated: Documented,
    effects: [Instantiates Graph(phGraphExec) of hGraph],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_VALUE],
    also: cuGraphInstantiate_v2, since: 11000, simulated: Documented,
}

/// Makes a graph executable.
fn cuGraphInstantiateWithFlags(
    out phGraphExec: *mut $crate::abi::CUgraphExec,
    in hGraph: $crate::abi::CUgraph,
    in flags: u64,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11040, simulated: Documented,
    effects: [Instantiates Graph(phGraphExec) of hGraph],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_VALUE],
}

/// Makes a graph executable, as a structure says.
fn cuGraphInstantiateWithParams(
    out phGraphExec: *mut $crate::abi::CUgraphExec,
    in hGraph: $crate::abi::CUgraph,
    in instantiateParams: $crate::abi::HostAddress,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12000, simulated: Documented,
    effects: [Instantiates Graph(phGraphExec) of hGraph],
    results: [SUCCESS, INVALID_VALUE],
    also: cuGraphInstantiateWithParams_ptsz, since: 12000, simulated: Documented,
}

/// Gives an executable graph the parameters of another graph's nodes.
fn cuGraphExecUpdate(
    in hGraphExec: $crate::abi::CUgraphExec,
    in hGraph: $crate::abi::CUgraph,
    in hErrorNode_out: $crate::abi::HostAddress,
    in updateResult_out: $crate::abi::HostAddress,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Documented,
    effects: [Instantiates Graph(hGraphExec) of hGraph],
    results: [SUCCESS, GRAPH_EXEC_UPDATE_FAILURE],
}

/// Gives an executable graph the parameters of another graph's nodes.
fn cuGraphExecUpdate_v2(
    in hGraphExec: $crate::abi::CUgraphExec,
    in hGraph: $crate::abi::CUgraph,
    in resultInfo: $crate::abi::HostAddress,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12000, simulated: Documented,
    effects: [Instantiates Graph(hGraphExec) of hGraph],
    results: [SUCCESS, GRAPH_EXEC_UPDATE_FAILURE],
}

/// Launches an executable graph, in stream order.
fn cuGraphLaunch(
    in hGraphExec: $crate::abi::CUgraphExec,
    in hStream: $crate::abi::CUstream,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10000, simulated: Documented,
    effects: [Replays Graph(hGraphExec)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_VALUE],
    also: cuGraphLaunch_ptsz, since: 10000, simulated: Documented,
}

/// Sets the parameters of a kernel in an executable graph.
fn cuGraphExecKernelNodeSetParams(
    in hGraphExec: $crate::abi::CUgraphExec,
    in hNode: $crate::abi::CUgraphNode,
    in nodeParams: $crate::abi::HostAddress,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10010, simulated: Documented,
    effects: [Alters Kernel(hGraphExec, hNode) from nodeParams],
    results: [SUCCESS, INVALID_VALUE],
    also: cuGraphExecKernelNodeSetParams_v2, since: 12000, simulated: Documented,
}

/// Sets the parameters of a copy in an executable graph.
fn cuGraphExecMemcpyNodeSetParams(
    in hGraphExec: $crate::abi::CUgraphExec,
    in hNode: $crate::abi::CUgraphNode,
    in copyParams: $crate::abi::HostAddress,
    in ctx: $crate::abi::CUcontext,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Documented,
    effects: [Alters Copy(hGraphExec, hNode) from copyParams],
    results: [SUCCESS, INVALID_VALUE],
}

/// Sets the parameters of a memset in an executable graph.
fn cuGraphExecMemsetNodeSetParams(
    in hGraphExec: $crate::abi::CUgraphExec,
    in hNode: $crate::abi::CUgraphNode,
    in memsetParams: $crate::abi::HostAddress,
    in ctx: $crate::abi::CUcontext,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10020, simulated: Documented,
    effects: [Alters Fill(hGraphExec, hNode) from memsetParams],
    results: [SUCCESS, INVALID_VALUE],
}

/// Sets the graph of a child graph node in an executable graph.
fn cuGraphExecChildGraphNodeSetParams(
    in hGraphExec: $crate::abi::CUgraphExec,
    in hNode: $crate::abi::CUgraphNode,
    in childGraph: $crate::abi::CUgraph,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11010, simulated: Documented,
    effects: [Alters Child(hGraphExec, hNode) from childGraph],
    results: [SUCCESS, INVALID_VALUE],
}

/// Sets the parameters of any node in an executable graph.
fn cuGraphExecNodeSetParams(
    in hGraphExec: $crate::abi::CUgraphExec,
    in hNode: $crate::abi::CUgraphNode,
    in nodeParams: $crate::abi::HostAddress,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12020, simulated: Documented,
    effects: [Alters Any(hGraphExec, hNode) from nodeParams],
    results: [SUCCESS, INVALID_VALUE, DEINITIALIZED, NOT_INITIALIZED, NOT_SUPPORTED],
}

/// Enables or disables a node of an executable graph.
fn cuGraphNodeSetEnabled(
    in hGraphExec: $crate::abi::CUgraphExec,
    in hNode: $crate::abi::CUgraphNode,
    in isEnabled: u32,
) -> $crate::abi::CUresult {
    library: Cuda, since: 11060, simulated: Documented,
    effects: [Discards Graph(hGraphExec)],
    results: [SUCCESS, INVALID_VALUE],
}

/// Destroys an executable graph.
fn cuGraphExecDestroy(
    in hGraphExec: $crate::abi::CUgraphExec,
) -> $crate::abi::CUresult {
    library: Cuda, since: 10000, simulated: Documented,
    effects: [Discards Graph(hGraphExec)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_VALUE],
}

    } };
}
