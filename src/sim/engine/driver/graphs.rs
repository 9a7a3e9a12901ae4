//! What a stream captures instead of doing it, and graphs, which come of that or are put together node by node: copies, memsets,
//! kernels, functions of the program, and child graphs, in the order of their calls. Graphs that allocate can be instantiated, and
//! not launched.

use super::super::answer::{Answer, fail};
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
    /// Memory as a context sees it.
    In(u64, u64),
    Array(u64, u64),
}

/// What a node copies or sets, as the program says it: it is looked up again at each launch, because memory may be gone by then.
#[derive(Clone, Copy)]
pub(crate) enum Parameters {
    /// Bytes in one row: to where, from where, and how many.
    Row(End, End, u64),
    Copy(CUDA_MEMCPY3D_v2),
    Fill(CUDA_MEMSET_NODE_PARAMS),
}

/// A launch in a graph, which has parameters of its own.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub function: u64,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// The words of each parameter, and where each is.
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

    /// Where the pointers to the parameters are, for as long as the node is there.
    pub(crate) fn parameters(&self) -> usize {
        self.places.as_ptr() as usize
    }
}

/// One thing that a graph does.
#[derive(Clone)]
pub(crate) enum Node {
    Transfer(Parameters),
    Kernel(Kernel),
    Call(Call),
    /// A graph of its own.
    Graph(u64),
    /// Bytes at an address that are there while the graph runs.
    Allocation(u64, u64),
}

impl Node {
    /// What cuda.h calls it.
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

/// A capture that is going on.
pub(crate) struct Capture {
    /// The stream that ends it.
    origin: (u64, u64),
    status: i32,
    nodes: Vec<Node>,
}

/// All captures and graphs of a process.
#[derive(Default)]
pub(crate) struct Graphs {
    captures: HashMap<u64, Capture>,
    /// What each stream that takes part captures, by its context and number; and where events were recorded.
    streams: HashMap<(u64, u64), u64>,
    events: HashMap<u64, u64>,
    /// The nodes of each graph, in their order, and what each does.
    pub(in crate::engine) graphs: HashMap<u64, Vec<u64>>,
    pub(in crate::engine) nodes: HashMap<u64, Node>,
    /// Executable graphs: each node with the handle of the one that it was made of.
    pub(in crate::engine) executables: HashMap<u64, Vec<(u64, Node)>>,
    /// Which nodes of these are skipped.
    disabled: HashSet<(u64, u64)>,
    last: u64,
}

fn key(stream: &Stream) -> (u64, u64) {
    (stream.context, stream.id)
}

impl Graphs {
    /// The status and number of what a stream captures.
    pub(crate) fn of(&self, stream: &Stream) -> Option<(i32, u64)> {
        let id = *self.streams.get(&key(stream))?;
        Some((self.captures.get(&id)?.status, id))
    }

    /// Captures something, where the stream does. Nothing is taken where the capture has become invalid.
    pub(crate) fn take(&mut self, stream: &Stream, node: impl FnOnce() -> Node) -> Answer<bool> {
        let Some(capture) = self.streams.get(&key(stream)).and_then(|id| self.captures.get_mut(id)) else {
            return Ok(false);
        };
        if capture.status == INVALIDATED {
            return fail(Code::STREAM_CAPTURE_INVALIDATED);
        }
        capture.nodes.push(node());
        Ok(true)
    }

    /// Fails, and ends the capture's validity, where a stream that captures is asked or waited for.
    pub(crate) fn check_stream(&mut self, stream: &Stream) -> Answer {
        match self.streams.get(&key(stream)).and_then(|id| self.captures.get_mut(id)) {
            Some(capture) => {
                capture.status = INVALIDATED;
                fail(Code::STREAM_CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// The same for an event that was recorded in one.
    pub(crate) fn check_event(&mut self, event: u64) -> Answer {
        match self.events.get(&event).and_then(|id| self.captures.get_mut(id)) {
            Some(capture) => {
                capture.status = INVALIDATED;
                fail(Code::CAPTURED_EVENT)
            }
            None => Ok(()),
        }
    }

    /// Records an event in what a stream captures; `false` where it captures nothing.
    pub(crate) fn record(&mut self, event: u64, stream: &Stream) -> bool {
        self.events.remove(&event);
        let Some((_, id)) = self.of(stream) else { return false };
        self.events.insert(event, id);
        true
    }

    /// Forgets where an event was recorded that is destroyed.
    pub(crate) fn forget_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// Has a stream take part in the capture in which an event was recorded; `false` where there is none.
    pub(crate) fn join(&mut self, stream: &Stream, event: u64) -> bool {
        let Some(id) = self.events.get(&event).copied().filter(|id| self.captures.contains_key(id)) else {
            return false;
        };
        self.streams.insert(key(stream), id);
        true
    }

    /// `cuStreamBeginCapture`.
    pub(crate) fn begin(&mut self, stream: &Stream, mode: i32) -> Answer {
        if !(0..=2).contains(&mode) {
            return fail(Code::INVALID_VALUE);
        }
        if stream.id == LEGACY {
            return fail(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.of(stream).is_some() {
            return fail(Code::ILLEGAL_STATE);
        }
        self.last += 1;
        let capture = Capture { origin: key(stream), status: ACTIVE, nodes: Vec::new() };
        self.captures.insert(self.last, capture);
        self.streams.insert(key(stream), self.last);
        Ok(())
    }

    /// `cuStreamEndCapture`: what was captured.
    pub(crate) fn end(&mut self, stream: &Stream) -> Answer<Vec<Node>> {
        let (status, id) = self.of(stream).ok_or(Code::ILLEGAL_STATE)?;
        if self.captures.get(&id).is_some_and(|capture| capture.origin != key(stream)) {
            return fail(Code::STREAM_CAPTURE_UNMATCHED);
        }
        self.streams.retain(|_, of| *of != id);
        self.events.retain(|_, of| *of != id);
        match self.captures.remove(&id) {
            Some(capture) if status == ACTIVE => Ok(capture.nodes),
            _ => fail(Code::STREAM_CAPTURE_INVALIDATED),
        }
    }

    /// Forgets what the streams of a context capture.
    pub(crate) fn remove_of(&mut self, context: u64) {
        self.streams.retain(|(of, _), _| *of != context);
        self.captures.retain(|_, capture| capture.origin.0 != context);
    }

    /// The nodes of a graph.
    pub(crate) fn nodes_of(&self, graph: u64) -> Answer<&[u64]> {
        self.graphs.get(&graph).map(Vec::as_slice).ok_or_else(|| Code::INVALID_VALUE.into())
    }

    /// What a node does.
    pub(crate) fn node(&self, node: u64) -> Answer<&Node> {
        self.nodes.get(&node).ok_or_else(|| Code::INVALID_VALUE.into())
    }

    /// Whether an address is in memory that a graph allocates when it runs.
    pub(crate) fn allocates(&self, address: u64) -> bool {
        let is_in = |node: &Node| matches!(node, Node::Allocation(at, bytes) if (*at..*at + *bytes).contains(&address));
        self.nodes.values().any(is_in)
    }

    /// What a graph does, with what its child graphs do in their place.
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

    /// What an executable graph does.
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

    /// `cuGraphNodeSetEnabled`, of what can be disabled.
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
        if old.len() != new.len() {
            return fail(Code::INVALID_VALUE);
        }
        old.into_iter().zip(new).try_for_each(|((handle, _), (_, new))| self.alter(exec, handle, new))
    }

    /// `cuGraphExecUpdate`: false where the nodes are others.
    pub(crate) fn update(&mut self, exec: u64, graph: u64) -> Answer<bool> {
        let new = self.all_of(graph)?;
        let old = self.executables.get_mut(&exec).ok_or(Code::INVALID_VALUE)?;
        let kinds = |nodes: &[(u64, Node)]| nodes.iter().map(|(_, node)| node.kind()).collect::<Vec<_>>();
        let fits = kinds(old) == kinds(&new);
        if fits {
            // Their handles stay those of the graph that it was made of.
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
