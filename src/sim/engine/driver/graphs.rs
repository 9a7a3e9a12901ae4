//! Captures of streams, and graphs, which a capture or calls for single nodes create. Nodes are copies, memsets, kernels,
//! functions of the program, and child graphs, in the order of their calls. Graphs that allocate can be instantiated, but not
//! launched.

use super::super::answer::{Answer, fail, fail_if};
use super::super::transfers::AddressRole;
use super::calls::ProgramCall;
use super::streams::{LEGACY, Stream};
use cupeer_spec::abi::{CUDA_MEMCPY3D_v2, CUDA_MEMSET_NODE_PARAMS, CUgraphNodeType};
use cupeer_spec::results::Result as Code;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// CU_STREAM_CAPTURE_STATUS_ACTIVE.
const ACTIVE: i32 = 1;
/// CU_STREAM_CAPTURE_STATUS_INVALIDATED.
const INVALIDATED: i32 = 2;

/// The source or the destination of a copy of one row.
#[derive(Clone, Copy)]
pub(crate) enum RowEnd {
    At(u64, AddressRole),
    /// Memory for the access of a context: the address, and the context.
    In(u64, u64),
    /// Memory of an array: the handle, and the offset in bytes.
    Array(u64, u64),
}

/// Parameters of a copy or a memset, as the program passed them. Each launch looks up the memory again,
/// because the program may free it before the launch.
#[derive(Clone, Copy)]
pub(crate) enum TransferParameters {
    /// A copy of one row: the destination, the source, and the number of bytes.
    Row(RowEnd, RowEnd, u64),
    Copy(CUDA_MEMCPY3D_v2),
    Fill(CUDA_MEMSET_NODE_PARAMS),
}

/// A node for the launch of a kernel, with a copy of the parameters of the kernel.
#[derive(Clone)]
pub(crate) struct KernelNode {
    pub function: u64,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// The 64-bit words of each parameter.
    values: Arc<Vec<Box<[u64]>>>,
    /// The addresses of the words of each parameter.
    places: Arc<Vec<usize>>,
}

impl KernelNode {
    pub(crate) fn new(function: u64, grid: [u32; 3], block: [u32; 3], values: Vec<Box<[u64]>>) -> KernelNode {
        let places = values.iter().map(|words| words.as_ptr() as usize).collect();
        KernelNode { function, grid, block, values: Arc::new(values), places: Arc::new(places) }
    }

    /// Returns the first word of each parameter.
    pub(crate) fn arguments(&self) -> Vec<u64> {
        self.values.iter().map(|words| words.first().copied().unwrap_or(0)).collect()
    }

    /// Returns the address of the array of pointers to the parameters. The address is valid as long as the
    /// node exists.
    pub(crate) fn parameters_address(&self) -> usize {
        self.places.as_ptr() as usize
    }
}

/// A node of a graph.
#[derive(Clone)]
pub(crate) enum Node {
    Transfer(TransferParameters),
    Kernel(KernelNode),
    Call(ProgramCall),
    /// A child graph, by its handle.
    Graph(u64),
    /// An allocation while the graph runs: the address, and the number of bytes.
    Allocation(u64, u64),
}

impl Node {
    /// Returns the type of the node in cuda.h.
    pub(crate) fn kind(&self) -> CUgraphNodeType {
        match self {
            Node::Transfer(TransferParameters::Row(..) | TransferParameters::Copy(_)) => CUgraphNodeType::MEMCPY,
            Node::Transfer(TransferParameters::Fill(_)) => CUgraphNodeType::MEMSET,
            Node::Kernel(_) => CUgraphNodeType::KERNEL,
            Node::Call(_) => CUgraphNodeType::HOST,
            Node::Graph(_) => CUgraphNodeType::GRAPH,
            Node::Allocation(..) => CUgraphNodeType::MEM_ALLOC,
        }
    }
}

/// A capture that has not ended.
pub(crate) struct Capture {
    /// The context and the number of the stream that began the capture, and that must end it.
    origin: (u64, u64),
    status: i32,
    nodes: Vec<Node>,
}

/// All captures and graphs of a process.
#[derive(Default)]
pub(crate) struct Graphs {
    captures: HashMap<u64, Capture>,
    /// The number of the capture of each stream, by the context and the number of the stream.
    streams: HashMap<(u64, u64), u64>,
    /// The number of the capture in which each event was recorded, by the handle of the event.
    events: HashMap<u64, u64>,
    /// The handles of the nodes of each graph, in their order.
    pub(in crate::engine) graphs: HashMap<u64, Vec<u64>>,
    /// All nodes, by their handles.
    pub(in crate::engine) nodes: HashMap<u64, Node>,
    /// The nodes of each executable graph, each with the handle of the node from which it was copied.
    pub(in crate::engine) executables: HashMap<u64, Vec<(u64, Node)>>,
    /// Disabled nodes: the handles of the executable graph and of the original node.
    disabled: HashSet<(u64, u64)>,
    last: u64,
}

/// Returns the context and the number of a stream.
fn stream_key(stream: &Stream) -> (u64, u64) {
    (stream.context, stream.id)
}

impl Graphs {
    /// Returns the status and the number of the capture of a stream; `None` if the stream is not being
    /// captured.
    pub(crate) fn capture_of(&self, stream: &Stream) -> Option<(i32, u64)> {
        let id = *self.streams.get(&stream_key(stream))?;
        Some((self.captures.get(&id)?.status, id))
    }

    /// Adds a node to the capture of a stream. Returns false if the stream is not being captured. Fails if
    /// the capture is invalid.
    pub(crate) fn add_to_capture(&mut self, stream: &Stream, node: impl FnOnce() -> Node) -> Answer<bool> {
        let Some(capture) = self.streams.get(&stream_key(stream)).and_then(|id| self.captures.get_mut(id)) else {
            return Ok(false);
        };
        fail_if(capture.status == INVALIDATED, Code::STREAM_CAPTURE_INVALIDATED)?;
        capture.nodes.push(node());
        Ok(true)
    }

    /// Fails if a stream is being captured, and invalidates the capture. Calls that query a stream, or wait
    /// for it, use this check.
    pub(crate) fn check_stream_not_captured(&mut self, stream: &Stream) -> Answer {
        let id = self.streams.get(&stream_key(stream)).copied();
        self.invalidate_capture(id, Code::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Fails if an event was recorded in a capture, and invalidates the capture.
    pub(crate) fn check_event_not_captured(&mut self, event: u64) -> Answer {
        let id = self.events.get(&event).copied();
        self.invalidate_capture(id, Code::CAPTURED_EVENT)
    }

    /// Fails with a code if there is a capture, and invalidates the capture.
    fn invalidate_capture(&mut self, id: Option<u64>, code: Code) -> Answer {
        let Some(capture) = id.and_then(|id| self.captures.get_mut(&id)) else { return Ok(()) };
        capture.status = INVALIDATED;
        fail(code)
    }

    /// Notes that an event was recorded in the capture of a stream. Returns false if the stream is not being
    /// captured.
    pub(crate) fn note_event_in_capture(&mut self, event: u64, stream: &Stream) -> bool {
        self.events.remove(&event);
        let Some((_, id)) = self.capture_of(stream) else { return false };
        self.events.insert(event, id);
        true
    }

    /// Removes a destroyed event from the captures in which it was recorded.
    pub(crate) fn forget_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// Adds a stream to the capture in which an event was recorded. Returns false if the event was recorded
    /// in no capture.
    pub(crate) fn join_capture(&mut self, stream: &Stream, event: u64) -> bool {
        let Some(id) = self.events.get(&event).copied().filter(|id| self.captures.contains_key(id)) else {
            return false;
        };
        self.streams.insert(stream_key(stream), id);
        true
    }

    /// `cuStreamBeginCapture`.
    pub(crate) fn begin_capture(&mut self, stream: &Stream, mode: i32) -> Answer {
        fail_if(!(0..=2).contains(&mode), Code::INVALID_VALUE)?;
        fail_if(stream.id == LEGACY, Code::STREAM_CAPTURE_UNSUPPORTED)?;
        fail_if(self.capture_of(stream).is_some(), Code::ILLEGAL_STATE)?;
        self.last += 1;
        let capture = Capture { origin: stream_key(stream), status: ACTIVE, nodes: Vec::new() };
        self.captures.insert(self.last, capture);
        self.streams.insert(stream_key(stream), self.last);
        Ok(())
    }

    /// `cuStreamEndCapture`: returns the nodes that were captured.
    pub(crate) fn end_capture(&mut self, stream: &Stream) -> Answer<Vec<Node>> {
        let (status, id) = self.capture_of(stream).ok_or(Code::ILLEGAL_STATE)?;
        fail_if(
            self.captures.get(&id).is_some_and(|capture| capture.origin != stream_key(stream)),
            Code::STREAM_CAPTURE_UNMATCHED,
        )?;
        self.streams.retain(|_, of| *of != id);
        self.events.retain(|_, of| *of != id);
        match self.captures.remove(&id) {
            Some(capture) if status == ACTIVE => Ok(capture.nodes),
            _ => fail(Code::STREAM_CAPTURE_INVALIDATED),
        }
    }

    /// Ends the captures of the streams of a context.
    pub(crate) fn remove_captures_of(&mut self, context: u64) {
        self.streams.retain(|(of, _), _| *of != context);
        self.captures.retain(|_, capture| capture.origin.0 != context);
    }

    /// Returns the handles of the nodes of a graph.
    pub(crate) fn nodes_of(&self, graph: u64) -> Answer<&[u64]> {
        self.graphs.get(&graph).map(Vec::as_slice).ok_or_else(|| Code::INVALID_VALUE.into())
    }

    /// Returns the node of a handle.
    pub(crate) fn node(&self, node: u64) -> Answer<&Node> {
        self.nodes.get(&node).ok_or_else(|| Code::INVALID_VALUE.into())
    }

    /// Returns true if an address is in memory that a node of any graph allocates when the graph runs.
    pub(crate) fn is_allocated_by_graph(&self, address: u64) -> bool {
        let is_in = |node: &Node| matches!(node, Node::Allocation(at, bytes) if (*at..*at + *bytes).contains(&address));
        self.nodes.values().any(is_in)
    }

    /// Returns the nodes of a graph with their handles. A child graph is replaced by its nodes.
    pub(crate) fn flatten_nodes(&self, graph: u64) -> Answer<Vec<(u64, Node)>> {
        let mut all = Vec::new();
        for handle in self.nodes_of(graph)? {
            match self.node(*handle)? {
                Node::Graph(child) => all.extend(self.flatten_nodes(*child)?),
                node => all.push((*handle, node.clone())),
            }
        }
        Ok(all)
    }

    /// Returns the nodes of an executable graph that are not disabled.
    pub(crate) fn enabled_nodes(&self, exec: u64) -> Answer<Vec<Node>> {
        let nodes = self.executables.get(&exec).ok_or(Code::INVALID_VALUE)?;
        let is_enabled = |(handle, _): &&(u64, Node)| !self.disabled.contains(&(exec, *handle));
        Ok(nodes.iter().filter(is_enabled).map(|(_, node)| node.clone()).collect())
    }

    /// `cuGraphDestroy`.
    pub(crate) fn destroy(&mut self, graph: u64) -> Answer {
        for handle in self.graphs.remove(&graph).ok_or(Code::INVALID_VALUE)? {
            if let Some(Node::Graph(child)) = self.nodes.remove(&handle) {
                self.destroy(child)?;
            }
        }
        Ok(())
    }

    /// `cuGraphExecDestroy`.
    pub(crate) fn destroy_executable(&mut self, exec: u64) -> Answer {
        self.disabled.retain(|(of, _)| *of != exec);
        self.executables.remove(&exec).map(drop).ok_or_else(|| Code::INVALID_VALUE.into())
    }

    /// `cuGraphNodeSetEnabled`. It fails for nodes that cannot be disabled.
    pub(crate) fn set_node_enabled(&mut self, exec: u64, handle: u64, enabled: bool) -> Answer {
        let nodes = self.executables.get(&exec).ok_or(Code::INVALID_VALUE)?;
        let is_it =
            |(known, node): &&(u64, Node)| *known == handle && matches!(node, Node::Transfer(..) | Node::Kernel(_));
        nodes.iter().find(is_it).ok_or(Code::INVALID_VALUE)?;
        if enabled {
            self.disabled.remove(&(exec, handle));
        } else {
            self.disabled.insert((exec, handle));
        }
        Ok(())
    }

    /// `cuGraphExecChildGraphNodeSetParams`, for a graph with nodes of the same types.
    pub(crate) fn replace_child(&mut self, exec: u64, node: u64, graph: u64) -> Answer {
        let Node::Graph(child) = *self.node(node)? else { return fail(Code::INVALID_VALUE) };
        let (old, new) = (self.flatten_nodes(child)?, self.flatten_nodes(graph)?);
        fail_if(old.len() != new.len(), Code::INVALID_VALUE)?;
        old.into_iter().zip(new).try_for_each(|((handle, _), (_, new))| self.replace_node(exec, handle, new))
    }

    /// `cuGraphExecUpdate`. Returns false if the nodes have other types than those of the executable graph.
    pub(crate) fn update_executable(&mut self, exec: u64, graph: u64) -> Answer<bool> {
        let new = self.flatten_nodes(graph)?;
        let old = self.executables.get_mut(&exec).ok_or(Code::INVALID_VALUE)?;
        let kinds = |nodes: &[(u64, Node)]| nodes.iter().map(|(_, node)| node.kind()).collect::<Vec<_>>();
        let fits = kinds(old) == kinds(&new);
        if fits {
            // The changed nodes keep the handles of the original nodes.
            old.iter_mut().zip(new).for_each(|(old, new)| old.1 = new.1);
        }
        Ok(fits)
    }

    /// Replaces a node of an executable graph, for `cuGraphExecMemcpyNodeSetParams` and similar functions.
    pub(crate) fn replace_node(&mut self, exec: u64, node: u64, new: Node) -> Answer {
        let nodes = self.executables.get_mut(&exec).ok_or(Code::INVALID_VALUE)?;
        let kind = new.kind();
        let is_it = |(handle, old): &&mut (u64, Node)| *handle == node && old.kind() == kind;
        nodes.iter_mut().find(is_it).ok_or(Code::INVALID_VALUE)?.1 = new;
        Ok(())
    }
}
