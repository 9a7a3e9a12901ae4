//! What a stream captures instead of doing it, and the graphs that come of it: copies, memsets and functions of the
//! program, in the order of their calls. Graphs that are put together node by node are not simulated.

use super::answer::{Answer, fail};
use super::copies::Transfer;
use super::process::Driver;
use super::queue::Call;
use super::streams::{LEGACY, Stream};
use cupeer_spec::results::Result as Code;
use std::collections::HashMap;
use std::sync::Arc;

/// `CU_STREAM_CAPTURE_STATUS_*`.
const ACTIVE: i32 = 1;
const INVALIDATED: i32 = 2;
/// All of `CU_GRAPH_INSTANTIATE_FLAG_*`.
const FLAGS: u64 = 0xf;
/// CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH and CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.
const FREED_OR_ON_DEVICE: u64 = 5;

/// Looks up what is to be moved or set: again at each launch, because memory may be gone by then.
pub(crate) type Lookup = Arc<dyn Fn(&Driver) -> Answer<Transfer> + Send + Sync>;

/// One thing that a graph does.
#[derive(Clone)]
pub(crate) enum Node {
    Transfer(Lookup),
    Call(Call),
}

/// A capture that is going on.
struct Capture {
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
    /// Graphs and executable graphs.
    graphs: HashMap<u64, Vec<Node>>,
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

    /// What a graph does.
    pub(crate) fn nodes(&self, graph: u64) -> Answer<Vec<Node>> {
        self.graphs.get(&graph).cloned().ok_or_else(|| Code::INVALID_VALUE.into())
    }

    /// `cuGraphDestroy` and `cuGraphExecDestroy`.
    pub(crate) fn destroy(&mut self, graph: u64) -> Answer {
        self.graphs.remove(&graph).map(drop).ok_or_else(|| Code::INVALID_VALUE.into())
    }
}

impl Driver {
    /// A graph that does this.
    pub(crate) fn add_graph(&mut self, nodes: Vec<Node>) -> Answer<u64> {
        let handle = self.space.handle()?;
        self.graphs.graphs.insert(handle, nodes);
        Ok(handle)
    }

    /// `cuGraphInstantiate`: a graph of its own, which later changes do not reach.
    pub(crate) fn instantiate(&mut self, graph: u64, flags: u64) -> Answer<u64> {
        // What a device launches is not freed by the launch.
        if flags & !FLAGS != 0 || flags & FREED_OR_ON_DEVICE == FREED_OR_ON_DEVICE {
            return fail(Code::INVALID_VALUE);
        }
        let nodes = self.graphs.nodes(graph)?;
        self.add_graph(nodes)
    }
}
