//! The roots of a job's waits, and the choice of the one that is the answer.
//!
//! An end is a node of the graph of waits that waits for no other, or several that wait for one another. Others may
//! have to do with it without a wait that the kernel knows: whoever has ended, or is not where the rest of its kind
//! waits for any client, gets an edge of its own ([`add_waits_for_failed`], [`add_waits_for_absent`]) before the
//! answer is chosen.

use super::apart::{self, Operation};
use super::collective::{are_alike, is_collective};
use super::document::{Process, State, Thread};
use super::graph::WaitingNodes;
use super::helpers;
use super::syscall::AwaitedEvent;
use super::waits::JobWaits;
use std::cmp::Reverse;

/// Kind of the end of a chain of waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RootKind {
    Ended,
    Call,
    Deadlock,
    Cycle,
    Apart,
    Stopped,
    Sleeps,
    Runs,
    Polls,
    Waits,
    Refused,
    Unknown,
}

/// The answer: nodes where the waits end, and those that wait for them.
pub struct AnswerRoot {
    pub kind: RootKind,
    /// The nodes of the end, in the order of their waits if they wait for one another.
    pub nodes: Vec<usize>,
    pub waiting: WaitingNodes,
    /// Operations of the processes, each with its nodes, if the processes are in different operations.
    pub operations: Vec<(Operation, Vec<usize>)>,
    /// Other ends of the same kind at the same place.
    pub alike: Vec<usize>,
}

/// Returns the answer for a job; `None` if the job has no process.
pub fn find_root(waits: &mut JobWaits) -> Option<AnswerRoot> {
    add_waits_for_failed(waits);
    add_waits_for_absent(waits);
    let sinks = waits.graph.sinks();
    let mut roots: Vec<AnswerRoot> = sinks.iter().map(|sink| build_root(waits, sink)).collect();
    if roots.iter().any(|root| !is_wrapper(waits, root)) {
        roots.retain(|root| !is_wrapper(waits, root));
    }
    let has_ranks = waits.processes.iter().any(|process| process.rank.is_some() && process.is_alive());
    roots.sort_by_cached_key(|root| {
        let first = waits.process(root.nodes[0]);
        let weak = has_ranks && first.rank.is_none() && root.waiting.direct.is_empty();
        let age = first.since_ns.or(first.ended.as_ref().and_then(|ended| ended.ago_ns));
        let owes = first.owes.is_empty();
        let waiting = count_processes(waits, &root.waiting.direct) + count_processes(waits, &root.waiting.indirect);
        (cause_weight(waits, root), weak, Reverse(waiting), owes, root.kind, Reverse(age), first.rank, first.pid)
    });
    let mut rest = roots.into_iter();
    let mut best = rest.next()?;
    step_back_to_rank(waits, &mut best, has_ranks);
    split_into_operations(waits, &mut best);
    follow_finished_rank(waits, &mut best);
    best.alike = ends_alike(waits, &best, &sinks);
    let is_alone = |root: &AnswerRoot| root.waiting.direct.is_empty() && cause_weight(waits, root) == LIKELY;
    if is_alone(&best) {
        // If nobody is known to wait for any of several ends, all of them may be the cause.
        let is_other = |root: &AnswerRoot| {
            is_alone(root) && !best.alike.contains(&root.nodes[0]) && waits.is_main_node(root.nodes[0])
        };
        let others: Vec<usize> = rest.filter(is_other).map(|root| root.nodes[0]).collect();
        if !others.is_empty() {
            best.kind = RootKind::Unknown;
            best.nodes.extend(others);
        }
    }
    Some(best)
}

/// Weight of an end that is neither known nor unlikely to be the cause.
const LIKELY: u32 = 3;

/// Returns the weight of an end: the smaller, the likelier is the end to be the cause.
fn cause_weight(waits: &JobWaits, root: &AnswerRoot) -> u32 {
    let is_waited_for = !root.waiting.direct.is_empty();
    let is_idle = || {
        let process = waits.process(root.nodes[0]);
        is_supervisor(waits, process) || !waits.is_main_node(root.nodes[0]) && !is_waited_for
    };
    match root.kind {
        RootKind::Ended if waits.process(root.nodes[0]).has_failed() => 0,
        // Library threads for which no main thread waits are not the cause.
        _ if !is_important(waits, root) => 8,
        RootKind::Call | RootKind::Deadlock => 1,
        RootKind::Cycle | RootKind::Apart => 2,
        RootKind::Ended if !is_waited_for => 9,
        RootKind::Refused => 6,
        _ if is_idle() => 7,
        _ => LIKELY,
    }
}

/// Returns true if the end is a driver call, or if the most informative thread of some process is part of the end or waits for
/// it.
fn is_important(waits: &JobWaits, root: &AnswerRoot) -> bool {
    let mut all = root.nodes.iter().chain(&root.waiting.direct).chain(&root.waiting.indirect);
    root.kind == RootKind::Call || all.any(|node| waits.is_main_node(*node))
}

/// Returns true if a process started others and only checks them from time to time.
fn is_supervisor(waits: &JobWaits, process: &Process) -> bool {
    let has_children = waits.processes.iter().any(|child| child.parent == process.pid && child.is_alive());
    has_children && process.threads.first().is_some_and(Thread::is_napping)
}

fn is_wrapper(waits: &JobWaits, root: &AnswerRoot) -> bool {
    root.nodes.len() == 1 && helpers::is_wrapper(waits.process(root.nodes[0]))
}

/// Returns the number of different processes among some nodes.
fn count_processes(waits: &JobWaits, nodes: &[usize]) -> usize {
    let mut all: Vec<usize> = nodes.iter().map(|node| waits.nodes[*node].process).collect();
    all.dedup();
    all.len()
}

fn build_root(waits: &JobWaits, sink: &[usize]) -> AnswerRoot {
    let waiting = waits.graph.nodes_waiting_for(sink);
    let is_cycle = waits.graph.is_cycle(sink);
    let nodes = if is_cycle { waits.graph.shortest_cycle(sink) } else { sink.to_vec() };
    let kind = if is_cycle {
        let next = |index: usize| nodes[(index + 1) % nodes.len()];
        let is_lock = |index: usize| waits.locks.contains_key(&(nodes[index], next(index)));
        if (0..nodes.len()).all(is_lock) { RootKind::Deadlock } else { RootKind::Cycle }
    } else {
        node_kind(waits, sink[0])
    };
    let waiting = WaitingNodes {
        // If the cycle is not the whole end, its other nodes wait for the cycle, too.
        direct: waiting.direct,
        indirect: sink.iter().copied().filter(|node| !nodes.contains(node)).chain(waiting.indirect).collect(),
    };
    AnswerRoot { kind, nodes, waiting, operations: Vec::new(), alike: Vec::new() }
}

fn node_kind(waits: &JobWaits, node: usize) -> RootKind {
    let process = waits.process(node);
    match (process.state, waits.thread(node)) {
        (State::Ended, _) => RootKind::Ended,
        (State::Refused, _) => RootKind::Refused,
        (_, None) => RootKind::Unknown,
        (_, Some(thread)) if thread.call.is_some() => RootKind::Call,
        (_, Some(thread)) if thread.polls.is_some() && thread.state != State::Stopped => RootKind::Polls,
        (_, Some(thread)) => match thread.state {
            State::Stopped => RootKind::Stopped,
            State::Runs => RootKind::Runs,
            _ if thread.is_sleeping() => RootKind::Sleeps,
            _ => RootKind::Waits,
        },
    }
}

/// Adds waits for the process that failed first, from ends that wait for no known process.
fn add_waits_for_failed(waits: &mut JobWaits) {
    let failed: Vec<usize> = (0..waits.nodes.len()).filter(|node| waits.process(*node).has_failed()).collect();
    // The earliest failure is the cause of the others.
    let Some(first) = failed.iter().copied().max_by_key(|node| {
        let ended = waits.process(*node).ended.as_ref();
        ended.and_then(|ended| ended.ago_ns)
    }) else {
        return;
    };
    // The parent waits for a result that the failed process did not deliver.
    let parent = waits.main_node_of(waits.process(first).parent);
    let waits_for_it = |node: &usize| {
        waits.thread(*node).is_some_and(|thread| {
            !thread.waits_for_children()
                && matches!(thread.awaited, Some(AwaitedEvent::Descriptors(_) | AwaitedEvent::Lock(_)))
        })
    };
    if let Some(parent) = parent.filter(waits_for_it) {
        waits.graph.add_wait(parent, first);
    }
    for sink in waits.graph.sinks() {
        let may_wait = |node: &usize| match (waits.thread(*node), node_kind(waits, *node)) {
            (Some(thread), RootKind::Sleeps) => thread.is_napping(),
            (Some(_), RootKind::Waits | RootKind::Polls) => true,
            (Some(thread), RootKind::Runs) => is_collective(thread),
            _ => false,
        };
        let is_lock = build_root(waits, &sink).kind == RootKind::Deadlock;
        let waiting: Vec<usize> = sink.iter().copied().filter(may_wait).collect();
        if !is_lock && waits.is_main_node(sink[0]) {
            waiting.iter().for_each(|node| waits.graph.add_wait(*node, first));
        }
    }
}

/// Adds waits from processes that wait for any client to processes of the same kind that do not wait for them.
fn add_waits_for_absent(waits: &mut JobWaits) {
    for sink in waits.graph.sinks() {
        if !sink.iter().any(|node| waits_for_any_client(waits, *node)) {
            continue;
        }
        let waiting = waits.graph.nodes_waiting_for(&sink);
        let there: Vec<usize> = [sink.clone(), waiting.direct, waiting.indirect].concat();
        let is_there = |node: usize| there.iter().any(|one| waits.nodes[*one].process == waits.nodes[node].process);
        let is_outside = |node: &usize| {
            let is_parent = waits.thread(*node).is_some_and(Thread::waits_for_children);
            let is_alike = there.iter().any(|one| are_alike(waits.process(*one), waits.process(*node)));
            waits.is_main_node(*node)
                && !is_there(*node)
                && !is_parent
                && is_alike
                && !helpers::is_wrapper(waits.process(*node))
        };
        let outside: Vec<usize> = (0..waits.nodes.len()).filter(is_outside).collect();
        let (alive, ended): (Vec<usize>, Vec<usize>) =
            outside.into_iter().partition(|node| waits.process(*node).is_alive());
        // Processes that also wait for any client cannot be that client.
        let opens = |node: usize| waits.thread(node).is_some_and(Thread::is_opening_pipe);
        let able: Vec<usize> = alive
            .into_iter()
            .filter(|node| !waits_for_any_client(waits, *node) || opens(*node) && !sink.iter().any(|one| opens(*one)))
            .collect();
        let chosen = if able.is_empty() { ended } else { able };
        let services: Vec<usize> = sink.iter().copied().filter(|node| waits_for_any_client(waits, *node)).collect();
        for to in chosen {
            services.iter().for_each(|node| waits.graph.add_wait(*node, to));
        }
    }
}

/// Returns true if a thread waits for an unknown process: for any of several, for a new connection, or for whoever opens the
/// other end.
fn waits_for_any_client(waits: &JobWaits, node: usize) -> bool {
    let Some(thread) = waits.thread(node) else { return false };
    if thread.state != State::Waits || thread.call.is_some() || thread.waits_for_children() {
        return false;
    }
    match &thread.awaited {
        Some(AwaitedEvent::Descriptors(_)) => thread.accepts_connections() || thread.on.len() > 1,
        Some(AwaitedEvent::Open(_)) => true,
        Some(AwaitedEvent::Lock(_)) => {
            let process = waits.process(node);
            let is_shared = matches!(&thread.awaited, Some(AwaitedEvent::Lock(futex))
                if futex.owner.is_none() && super::shared::SharedMapping::locate(&process.shared, futex.address).is_some());
            is_shared || is_collective(thread)
        }
        _ => false,
    }
}

/// Replaces the answer if its process started the ranks and waits for no process of the job: the rank that waits for it is the
/// answer then.
fn step_back_to_rank(waits: &JobWaits, root: &mut AnswerRoot, has_ranks: bool) {
    let process = waits.process(root.nodes[0]);
    if !has_ranks || process.rank.is_some() || root.kind != RootKind::Waits {
        return;
    }
    let started = |node: &&usize| {
        let child = waits.process(**node);
        child.rank.is_some() && child.parent == process.pid
    };
    let mut ranks: Vec<usize> = root.waiting.direct.iter().filter(started).copied().collect();
    ranks.sort_by_key(|node| {
        let waiting = waits.graph.nodes_waiting_for(&[*node]);
        let owes = waits.process(*node).owes.is_empty();
        (owes, Reverse(waiting.direct.len() + waiting.indirect.len()), waits.process(*node).rank)
    });
    if let Some(first) = ranks.first().copied() {
        let mut waiting = waits.graph.nodes_waiting_for(&[first]);
        waiting.direct.retain(|node| !ranks.contains(node));
        *root = AnswerRoot { nodes: vec![first], waiting, ..copy_without_waiting(root) };
    }
}

/// Replaces the answer if a rank finished too early: if all other ranks wait in one place and for no known process, the rank that
/// finished last is the missing one.
fn follow_finished_rank(waits: &JobWaits, root: &mut AnswerRoot) {
    let may_wait = |node: usize| match node_kind(waits, node) {
        RootKind::Sleeps => waits.thread(node).is_some_and(Thread::is_napping),
        kind => matches!(kind, RootKind::Waits | RootKind::Polls),
    };
    let first = root.nodes[0];
    if root.nodes.len() > 1 || waits.process(first).rank.is_none() || !may_wait(first) {
        return;
    }
    let ranks = (0..waits.nodes.len()).filter(|node| waits.process(*node).rank.is_some() && waits.is_main_node(*node));
    let (there, finished): (Vec<usize>, Vec<usize>) = ranks.partition(|node| waits.process(*node).is_alive());
    let threads: Vec<&Thread> = there.iter().filter_map(|node| waits.thread(*node)).collect();
    if !there.iter().all(|node| may_wait(*node)) || apart::find_operations(&threads).is_some() {
        return;
    }
    let ago = |node: &usize| waits.process(*node).ended.as_ref().and_then(|ended| ended.ago_ns);
    if let Some(missing) = finished.into_iter().max_by_key(ago) {
        let is_rank = |node: &usize| waits.process(*node).rank.is_some();
        let others = [&root.waiting.direct, &root.waiting.indirect].map(|nodes| nodes.iter().copied());
        let indirect = others.into_iter().flatten().filter(|node| !is_rank(node)).collect();
        root.kind = RootKind::Ended;
        root.nodes = vec![missing];
        root.waiting = WaitingNodes { direct: there, indirect };
    }
}

fn copy_without_waiting(root: &AnswerRoot) -> AnswerRoot {
    AnswerRoot {
        kind: root.kind,
        nodes: root.nodes.clone(),
        waiting: WaitingNodes::default(),
        operations: Vec::new(),
        alike: Vec::new(),
    }
}

/// Changes the answer if its processes, which wait for one another or for no known process, are in different operations of the
/// program.
fn split_into_operations(waits: &JobWaits, root: &mut AnswerRoot) {
    let is_collective = |node: usize| waits.thread(node).is_some_and(is_collective);
    // If a thread serves others, the operation of its process is the operation of the process's first thread.
    let nodes: Vec<usize> = match root.kind {
        RootKind::Cycle if count_processes(waits, &root.nodes) > 1 => {
            root.nodes.iter().map(|node| waits.main_node_of(waits.process(*node).pid).unwrap_or(*node)).collect()
        }
        _ => root.nodes.clone(),
    };
    let is_open = match root.kind {
        RootKind::Cycle => are_siblings(waits, &nodes),
        RootKind::Runs | RootKind::Polls => is_collective(nodes[0]),
        RootKind::Waits => {
            waits_for_any_client(waits, root.nodes[0])
                && !waits.thread(root.nodes[0]).is_some_and(Thread::is_opening_pipe)
        }
        RootKind::Sleeps => {
            waits.thread(root.nodes[0]).is_some_and(Thread::is_napping) && !root.waiting.direct.is_empty()
        }
        _ => false,
    };
    if !is_open {
        return;
    }
    let own = waits.process(root.nodes[0]);
    // Processes without ranks that wait for one another may have different tasks, and so may the processes that wait for them.
    let is_closed = root.kind == RootKind::Cycle && own.rank.is_none();
    let is_part = |node: &usize| {
        let process = waits.process(*node);
        waits.is_main_node(*node)
            && process.is_alive()
            && (nodes.contains(node) || !is_closed && are_alike(own, process))
            && !waits.thread(*node).is_some_and(Thread::waits_for_children)
    };
    let members: Vec<usize> = (0..waits.nodes.len()).filter(is_part).collect();
    let is_whole = nodes.iter().all(|node| members.contains(node));
    let threads: Vec<&Thread> = members.iter().filter_map(|node| waits.thread(*node)).collect();
    if !is_whole || threads.len() != members.len() || members.len() < 2 {
        return;
    }
    let operations = apart::find_operations(&threads);
    let are_named_apart = |operations: &Vec<(Operation, Vec<usize>)>| {
        own.rank.is_some()
            || members.iter().all(|node| is_collective(*node))
            || operations.iter().any(|(one, _)| one.function != operations[0].0.function)
    };
    if let Some(operations) = operations.filter(are_named_apart) {
        let named = nodes;
        let nodes = |indices: Vec<usize>| indices.into_iter().map(|index| members[index]).collect();
        root.operations = operations.into_iter().map(|(operation, indices)| (operation, nodes(indices))).collect();
        root.kind = RootKind::Apart;
        root.nodes = named;
        root.nodes.dedup();
    }
}

/// Returns other ends at the same place as the answer.
fn ends_alike(waits: &JobWaits, root: &AnswerRoot, sinks: &[Vec<usize>]) -> Vec<usize> {
    let [own] = root.nodes.as_slice() else { return Vec::new() };
    let place = |node: usize| {
        let thread = waits.thread(node)?;
        let frame = thread.frames.get(thread.shown_frame?)?;
        Some((frame.file.clone(), frame.line, frame.function.clone(), thread.syscall.clone()))
    };
    let is_refused = |node: usize| waits.process(node).state == State::Refused;
    if is_refused(*own) {
        return (0..waits.nodes.len()).filter(|node| node != own && is_refused(*node)).collect();
    }
    let is_it = |node: &usize| {
        node != own && waits.process(*node).pid != waits.process(*own).pid && place(*node) == place(*own)
    };
    let ends = sinks.iter().filter(|sink| sink.len() == 1).map(|sink| sink[0]);
    ends.filter(|node| place(*own).is_some() && is_it(node)).collect()
}

/// Returns true if all processes of these nodes are ranks, or were started by the same process.
fn are_siblings(waits: &JobWaits, nodes: &[usize]) -> bool {
    let first = waits.process(nodes[0]);
    nodes.iter().all(|node| {
        let process = waits.process(*node);
        process.rank.is_some() && first.rank.is_some() || process.parent == first.parent && waits.is_main_node(*node)
    })
}
