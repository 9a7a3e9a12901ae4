//! Captures of streams, and graphs, which a capture or calls for single nodes create. Nodes are copies, memsets, kernels,
//! functions of the program, and child graphs, in the order of their calls. Graphs that allocate can be instantiated, but not
//! launched.

use super::super::answer::{Answer, fail, fail_if};
use super::super::transfers::Role;
use super::calls::Call;
use super::streams::{LEGACY, Stream};
use cupeer_spec::abi::{CUDA_MEMCPY3D_v2, CUDA_MEMSET_NODE_PARAMS, CUgraphNodeType};
use cupeer_spec::results::Result as Code;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// `CU_STREAM_CAPTURE_STATUS_*`.
const ACTIVE: i32 = 1;
const INVALIDATED: i32 = 2;

/// One end of a copy of one row.
#[derive(Clone, Copy)]
pub(crate) enum End {
    At(u64, Role),
    /// Memory as a context sees it: the address and the context.
    In(u64, u64),
    Array(u64, u64),
}

/// Parameters of a copy or a memset, as the program passed them. Each launch looks up the memory again, because it may be freed
/// by then.
#[derive(Clone, Copy)]
pub(crate) enum Parameters {
    /// Bytes in one row: to where, from where, and how many.
    Row(End, End, u64),
    Copy(CUDA_MEMCPY3D_v2),
    Fill(CUDA_MEMSET_NODE_PARAMS),
}

/// A launch of a kernel, with a copy of its parameters.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub function: u64,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// The words of each parameter, and their addresses.
    values: Arc<Vec<Box<[u64]>>>,
    places: Arc<Vec<usize>>,
}

impl Kernel {
    pub(crate) fn new(function: u64, grid: [u32; 3], block: [u32; 3], values: Vec<Box<[u64]>>) -> Kernel {
        let places = values.iter().map(|words| words.as_ptr() as usize).collect();
        Kernel { function, grid, block, values: Arc::new(values), places: Arc::new(places) }
    }

    /// The first word of each parameter.
    pub(crate) fn arguments(&self) -> Vec<u64> {
        self.values.iter().map(|words| words.first().copied().unwrap_or(0)).collect()
    }

    /// Returns the address of the pointers to the parameters, which is valid as long as the node.
    pub(crate) fn parameters(&self) -> usize {
        self.places.as_ptr() as usize
    }
}

/// A node of a graph.
#[derive(Clone)]
pub(crate) enum Node {
    Transfer(Parameters),
    Kernel(Kernel),
    Call(Call),
    /// A graph of its own.
    Graph(u64),
    /// An address and a number of bytes that are allocated while the graph runs.
    Allocation(u64, u64),
}

impl Node {
    /// Returns its type in cuda.h.
    pub(crate) fn kind(&self) -> CUgraphNodeType {
        match self {
            Node::Transfer(Parameters::Row(..) | Parameters::Copy(_)) => CUgraphNodeType::MEMCPY,
            Node::Transfer(Parameters::Fill(_)) => CUgraphNodeType::MEMSET,
            Node::Kernel(_) => CUgraphNodeType::KERNEL,
            Node::Call(_) => CUgraphNodeType::HOST,
            Node::Graph(_) => CUgraphNodeType::GRAPH,
            Node::Allocation(..) => CUgraphNodeType::MEM_ALLOC,
        }
    }
}

/// An unfinished capture.
pub(crate) struct Capture {
    /// The stream that began it, and must end it.
    origin: (u64, u64),
    status: i32,
    nodes: Vec<Node>,
}

/// All captures and graphs of a process.
#[derive(Default)]
pub(crate) struct Graphs {
    captures: HashMap<u64, Capture>,
    /// The capture of each stream, by its context and number; and the capture in which each event was recorded.
    streams: HashMap<(u64, u64), u64>,
    events: HashMap<u64, u64>,
    /// The nodes of each graph, in their order; and all nodes by their handles.
    pub(in crate::engine) graphs: HashMap<u64, Vec<u64>>,
    pub(in crate::engine) nodes: HashMap<u64, Node>,
    /// Executable graphs: each node with the handle of its original.
    pub(in crate::engine) executables: HashMap<u64, Vec<(u64, Node)>>,
    /// Nodes of executable graphs that are disabled.
    disabled: HashSet<(u64, u64)>,
    last: u64,
}

fn key(stream: &Stream) -> (u64, u64) {
    (stream.context, stream.id)
}

impl Graphs {
    /// Returns the status and number of a stream's capture.
    pub(crate) fn of(&self, stream: &Stream) -> Option<(i32, u64)> {
        let id = *self.streams.get(&key(stream))?;
        Some((self.captures.get(&id)?.status, id))
    }

    /// Adds a node to a stream's capture. Returns false if the stream does not capture; fails if its capture is invalid.
    pub(crate) fn take(&mut self, stream: &Stream, node: impl FnOnce() -> Node) -> Answer<bool> {
        let Some(capture) = self.streams.get(&key(stream)).and_then(|id| self.captures.get_mut(id)) else {
            return Ok(false);
        };
        fail_if(capture.status == INVALIDATED, Code::STREAM_CAPTURE_INVALIDATED)?;
        capture.nodes.push(node());
        Ok(true)
    }

    /// Fails if a stream captures, and invalidates the capture: calls must not query such a stream, nor wait for it.
    pub(crate) fn check_stream(&mut self, stream: &Stream) -> Answer {
        let id = self.streams.get(&key(stream)).copied();
        self.refuse_capture(id, Code::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Fails if an event was recorded in a capture, and invalidates the capture.
    pub(crate) fn check_event(&mut self, event: u64) -> Answer {
        let id = self.events.get(&event).copied();
        self.refuse_capture(id, Code::CAPTURED_EVENT)
    }

    fn refuse_capture(&mut self, id: Option<u64>, code: Code) -> Answer {
        let Some(capture) = id.and_then(|id| self.captures.get_mut(&id)) else { return Ok(()) };
        capture.status = INVALIDATED;
        fail(code)
    }

    /// Records an event in a stream's capture. Returns false if the stream does not capture.
    pub(crate) fn record(&mut self, event: u64, stream: &Stream) -> bool {
        self.events.remove(&event);
        let Some((_, id)) = self.of(stream) else { return false };
        self.events.insert(event, id);
        true
    }

    /// Forgets a destroyed event.
    pub(crate) fn forget_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// Adds a stream to the capture in which an event was recorded. Returns false if there is none.
    pub(crate) fn join(&mut self, stream: &Stream, event: u64) -> bool {
        let Some(id) = self.events.get(&event).copied().filter(|id| self.captures.contains_key(id)) else {
            return false;
        };
        self.streams.insert(key(stream), id);
        true
    }

    /// `cuStreamBeginCapture`.
    pub(crate) fn begin(&mut self, stream: &Stream, mode: i32) -> Answer {
        fail_if(!(0..=2).contains(&mode), Code::INVALID_VALUE)?;
        fail_if(stream.id == LEGACY, Code::STREAM_CAPTURE_UNSUPPORTED)?;
        fail_if(self.of(stream).is_some(), Code::ILLEGAL_STATE)?;
        self.last += 1;
        let capture = Capture { origin: key(stream), status: ACTIVE, nodes: Vec::new() };
        self.captures.insert(self.last, capture);
        self.streams.insert(key(stream), self.last);
        Ok(())
    }

    /// `cuStreamEndCapture`: returns the captured nodes.
    pub(crate) fn end(&mut self, stream: &Stream) -> Answer<Vec<Node>> {
        let (status, id) = self.of(stream).ok_or(Code::ILLEGAL_STATE)?;
        fail_if(
            self.captures.get(&id).is_some_and(|capture| capture.origin != key(stream)),
            Code::STREAM_CAPTURE_UNMATCHED,
        )?;
        self.streams.retain(|_, of| *of != id);
        self.events.retain(|_, of| *of != id);
        match self.captures.remove(&id) {
            Some(capture) if status == ACTIVE => Ok(capture.nodes),
            _ => fail(Code::STREAM_CAPTURE_INVALIDATED),
        }
    }

    /// Ends the captures of a context's streams.
    pub(crate) fn remove_of(&mut self, context: u64) {
        self.streams.retain(|(of, _), _| *of != context);
        self.captures.retain(|_, capture| capture.origin.0 != context);
    }

    /// The nodes of a graph.
    pub(crate) fn nodes_of(&self, graph: u64) -> Answer<&[u64]> {
        self.graphs.get(&graph).map(Vec::as_slice).ok_or_else(|| Code::INVALID_VALUE.into())
    }

    /// Returns the node of a handle.
    pub(crate) fn node(&self, node: u64) -> Answer<&Node> {
        self.nodes.get(&node).ok_or_else(|| Code::INVALID_VALUE.into())
    }

    /// Returns true for an address in memory that a graph allocates when it runs.
    pub(crate) fn allocates(&self, address: u64) -> bool {
        let is_in = |node: &Node| matches!(node, Node::Allocation(at, bytes) if (*at..*at + *bytes).contains(&address));
        self.nodes.values().any(is_in)
    }

    /// Returns the nodes of a graph, with those of its child graphs in their place.
    pub(crate) fn all_of(&self, graph: u64) -> Answer<Vec<(u64, Node)>> {
        let mut all = Vec::new();
        for handle in self.nodes_of(graph)? {
            match self.node(*handle)? {
                Node::Graph(child) => all.extend(self.all_of(*child)?),
                node => all.push((*handle, node.clone())),
            }
        }
        Ok(all)
    }

    /// Returns the enabled nodes of an executable graph.
    pub(crate) fn executable(&self, exec: u64) -> Answer<Vec<Node>> {
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

    /// `cuGraphNodeSetEnabled`, for nodes that can be disabled.
    pub(crate) fn enable(&mut self, exec: u64, handle: u64, enabled: bool) -> Answer {
        let nodes = self.executables.get(&exec).ok_or(Code::INVALID_VALUE)?;
        let is_it = |(known, node): &&(u64, Node)| {
            *known == handle && matches!(node, Node::Transfer(..) | Node::Kernel(_))
        };
        nodes.iter().find(is_it).ok_or(Code::INVALID_VALUE)?;
        if enabled {
            self.disabled.remove(&(exec, handle));
        } else {
            self.disabled.insert((exec, handle));
        }
        Ok(())
    }

    /// `cuGraphExecChildGraphNodeSetParams`: a graph of the same nodes.
    pub(crate) fn alter_child(&mut self, exec: u64, node: u64, graph: u64) -> Answer {
        let Node::Graph(child) = *self.node(node)? else { return fail(Code::INVALID_VALUE) };
        let (old, new) = (self.all_of(child)?, self.all_of(graph)?);
        fail_if(old.len() != new.len(), Code::INVALID_VALUE)?;
        old.into_iter().zip(new).try_for_each(|((handle, _), (_, new))| self.alter(exec, handle, new))
    }

    /// `cuGraphExecUpdate`: returns false if the nodes have other types.
    pub(crate) fn update(&mut self, exec: u64, graph: u64) -> Answer<bool> {
        let new = self.all_of(graph)?;
        let old = self.executables.get_mut(&exec).ok_or(Code::INVALID_VALUE)?;
        let kinds = |nodes: &[(u64, Node)]| nodes.iter().map(|(_, node)| node.kind()).collect::<Vec<_>>();
        let fits = kinds(old) == kinds(&new);
        if fits {
            // They keep the handles of the original nodes.
            old.iter_mut().zip(new).for_each(|(old, new)| old.1 = new.1);
        }
        Ok(fits)
    }

    /// `cuGraphExecMemcpyNodeSetParams` and the others.
    pub(crate) fn alter(&mut self, exec: u64, node: u64, new: Node) -> Answer {
        let nodes = self.executables.get_mut(&exec).ok_or(Code::INVALID_VALUE)?;
        let kind = new.kind();
        let is_it = |(handle, old): &&mut (u64, Node)| *handle == node && old.kind() == kind;
        nodes.iter_mut().find(is_it).ok_or(Code::INVALID_VALUE)?.1 = new;
        Ok(())
    }
}
