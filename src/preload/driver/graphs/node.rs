//! Driver queries about the nodes of a graph.

use super::super::queries::{
    cuGraphChildGraphNodeGetGraph, cuGraphGetNodes, cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2,
    cuGraphMemAllocNodeGetParams, cuGraphMemcpyNodeGetParams, cuGraphMemsetNodeGetParams, cuGraphNodeGetType,
};
use core::ffi::c_int;
use core::mem::MaybeUninit;
use cupeer_spec::abi::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEMCPY3D_v2, CUDA_MEMSET_NODE_PARAMS, CUgraphNodeType,
};

/// Work of a node of a graph.
pub enum GraphNode {
    Copy(CUDA_MEMCPY3D_v2),
    Fill(CUDA_MEMSET_NODE_PARAMS),
    Kernel(CUDA_KERNEL_NODE_PARAMS),
    /// Runs a child graph, which has this handle.
    Graph(u64),
    /// Allocates memory: its address, which is known before the graph runs, and its size in bytes.
    Allocation(u64, u64),
    Empty,
    /// Other kind of work, or the driver returns an error.
    Other,
}

/// Writes the handles of the nodes of a graph into `nodes`, as many as there is room for. Returns the number of written handles;
/// `None` if the query fails.
pub fn nodes_of(graph: u64, nodes: &mut [u64]) -> Option<usize> {
    let mut count = nodes.len();
    let is_known = count != 0 && cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count) == Some(0);
    is_known.then(|| count.min(nodes.len()))
}

/// Returns the work of a node that the driver returned.
pub fn query_node_work(node: u64) -> GraphNode {
    /// Reads the parameters of a node with the query `ask`, and converts them with `node`.
    fn read<T>(ask: impl FnOnce(*mut T) -> Option<c_int>, node: impl FnOnce(T) -> GraphNode) -> GraphNode {
        let mut place = MaybeUninit::zeroed();
        match ask(place.as_mut_ptr()) {
            // SAFETY: these are plain structures, for which zeros are valid, and the driver wrote the members that it knows.
            Some(0) => node(unsafe { place.assume_init() }),
            _ => GraphNode::Other,
        }
    }
    let mut kind = CUgraphNodeType(-1);
    if cuGraphNodeGetType(node, &mut kind) != Some(0) {
        return GraphNode::Other;
    }
    match kind {
        CUgraphNodeType::MEMCPY => read(|place| cuGraphMemcpyNodeGetParams(node, place), GraphNode::Copy),
        CUgraphNodeType::MEMSET => read(|place| cuGraphMemsetNodeGetParams(node, place), GraphNode::Fill),
        CUgraphNodeType::KERNEL => {
            let older = |place| cuGraphKernelNodeGetParams(node, place);
            let ask = |place| cuGraphKernelNodeGetParams_v2(node, place).or_else(|| older(place));
            read(ask, GraphNode::Kernel)
        }
        CUgraphNodeType::GRAPH => read(|place| cuGraphChildGraphNodeGetGraph(node, place), GraphNode::Graph),
        CUgraphNodeType::MEM_ALLOC => read(
            |place| cuGraphMemAllocNodeGetParams(node, place),
            |it: CUDA_MEM_ALLOC_NODE_PARAMS| GraphNode::Allocation(it.dptr.0, it.bytesize as u64),
        ),
        CUgraphNodeType::EMPTY => GraphNode::Empty,
        _ => GraphNode::Other,
    }
}
