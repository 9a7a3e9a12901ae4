//! Reads the nodes of a graph, and the memory that each node uses.

use super::super::kernels;
use super::super::parameters::each_word_of_parameters;
use super::super::shelf::{ExclusiveValue, TakenValue};
use super::node::{GraphNode, nodes_of, query_node_work};
use super::shared::DEVICE;
use super::{AddressRole, LEAST_ADDRESS, MOST_NODES, NodeLabel, NodeUse};
use cupeer_spec::abi::{CUDA_KERNEL_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS};

/// Buffer for the nodes of a graph that is being read.
pub(super) struct NodeBuffer {
    pub handles: [u64; MOST_NODES],
    /// For each node, the index of the outermost node whose child graph contains the node, plus one (0 for none), and the node's
    /// own index.
    labels: [(u16, u16); MOST_NODES],
}

/// Storage for the graphs that are read at the same time. While all of it is taken, nothing is known about further graphs.
static NODES: [ExclusiveValue<NodeBuffer>; 4] =
    [const { ExclusiveValue::new(NodeBuffer { handles: [0; MOST_NODES], labels: [(0, 0); MOST_NODES] }) }; 4];

pub(super) fn take_buffer() -> Option<TakenValue<NodeBuffer>> {
    NODES.iter().find_map(ExclusiveValue::take)
}

/// Reads the nodes of a graph, and those of its child graphs. Hands over the position of each node, its handle, its label, and
/// its work. Returns false if there are more nodes than can be read.
pub(super) fn walk(graph: u64, work: &mut dyn FnMut(usize, u64, NodeLabel, &GraphNode)) -> Option<bool> {
    let mut nodes = take_buffer()?;
    let NodeBuffer { handles, labels } = &mut *nodes;
    let (mut next, mut end, mut is_whole) = (0, 0, true);
    let mut add = |graph, within: u16, handles: &mut [u64], labels: &mut [(u16, u16)], end: &mut usize| {
        let read = nodes_of(graph, &mut handles[*end..]);
        is_whole &= read.is_some();
        let count = read.unwrap_or(0);
        for (index, label) in labels[*end..*end + count].iter_mut().enumerate() {
            *label = (within, index as u16);
        }
        *end += count;
    };
    add(graph, 0, handles, labels, &mut end);
    while next < end {
        let (node, (within, index)) = (handles[next], labels[next]);
        let label = NodeLabel { index: Some(index.into()), within: within.checked_sub(1).map(u32::from) };
        let it = query_node_work(node);
        // The label of a node in a child graph names the outermost node.
        if let GraphNode::Graph(child) = it {
            let within = if within == 0 { index + 1 } else { within };
            add(child, within, handles, labels, &mut end);
        }
        work(next, node, label, &it);
        next += 1;
    }
    Some(is_whole && end < MOST_NODES)
}

/// Calls `work` with each range of memory that a node uses.
pub(super) fn each_of_node(node: &GraphNode, label: NodeLabel, work: &mut dyn FnMut(&NodeUse)) {
    let mut hand_over = |it: NodeUse| {
        if it.address >= LEAST_ADDRESS && it.bytes != 0 {
            work(&it);
        }
    };
    let plain = |part, (address, bytes): (u64, u64), used: u64| NodeUse {
        label,
        part,
        address,
        bytes,
        kernel: 0,
        is_exact: used == bytes,
        may_be_host: false,
        value: None,
    };
    match node {
        GraphNode::Copy(copy) => {
            let ([to, from], used) = (copy.touched(), copy.WidthInBytes.wrapping_mul(copy.Height));
            let used = used.wrapping_mul(copy.Depth);
            let may_be_host = copy.dst.MemoryType != DEVICE;
            hand_over(NodeUse { may_be_host, ..plain(AddressRole::CopyTo, to, used) });
            hand_over(plain(AddressRole::CopyFrom, from, used));
        }
        GraphNode::Fill(CUDA_MEMSET_NODE_PARAMS { dst, pitch, elementSize, width, height, value }) => {
            let row = (*width as u64).wrapping_mul(u64::from(*elementSize));
            let rows = (*height as u64).saturating_sub(1).wrapping_mul(*pitch as u64);
            let bytes = if *height == 0 { 0 } else { rows.wrapping_add(row) };
            let used = row.wrapping_mul(*height as u64);
            hand_over(NodeUse { value: Some(*value), ..plain(AddressRole::Fill, (dst.0, bytes), used) });
        }
        GraphNode::Kernel(CUDA_KERNEL_NODE_PARAMS { func, kern, kernelParams, extra, .. }) => {
            let kernel = if func.0.is_null() { kern.0 as u64 } else { func.0 as u64 };
            let Some(known) = kernels::parameters(kernel) else { return };
            each_word_of_parameters(known, kernelParams.cast(), extra.cast(), &mut |index, word| {
                hand_over(NodeUse { kernel, ..plain(AddressRole::Parameter(index as u32), (word, 1), 0) });
            });
        }
        GraphNode::Graph(_) | GraphNode::Allocation(..) | GraphNode::Empty | GraphNode::Other => {}
    }
}
