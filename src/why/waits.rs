//! The graph of a job: its threads, and what each waits for, as far as that is known.
//!
//! A wait for a process leads to the thread of it that could end the wait, or else to the thread that says most of it. Servants
//! ([`helpers`]) are not in it.

use super::collective::{are_alike, is_collective};
use super::document::{On, Process, State, Thread};
use super::graph::WaitGraph;
use super::names::ProcessNames;
use super::shared::{SharedAddress, SharedMapping};
use super::syscall::AwaitedEvent;
use super::{does, helpers, locks};
use std::collections::HashMap;

/// A thread, or a process without a known thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitNode {
    pub process: usize,
    pub thread: Option<usize>,
}

/// Facts about a lock for which one thread waits and which another thread holds.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct HeldLock {
    /// Path of the locked file, for a lock of a file.
    pub file: Option<String>,
    /// Place where the holder acquired the lock.
    pub since: Option<String>,
}

pub struct JobWaits<'a> {
    pub processes: &'a [Process],
    pub nodes: Vec<WaitNode>,
    pub graph: WaitGraph,
    /// Most informative node of each process; `None` for servants.
    main_nodes: Vec<Option<usize>>,
    /// Waits for locks: the waiting node, the holding node, and facts about the lock.
    pub locks: HashMap<(usize, usize), HeldLock>,
    /// Nodes whose targets are only candidates: threads or processes that could end the wait.
    guessed_nodes: Vec<usize>,
    /// Nodes that wait for a lock whose owner is gone, each with the tid of the owner.
    pub orphaned_locks: HashMap<usize, u32>,
}

impl<'a> JobWaits<'a> {
    pub fn of(processes: &'a [Process], names: &ProcessNames) -> JobWaits<'a> {
        let mut nodes = Vec::new();
        let mut first = Vec::new();
        for (index, process) in processes.iter().enumerate() {
            let is_servant = helpers::is_servant(process);
            first.push((!is_servant).then_some(nodes.len()));
            if !is_servant {
                let threads = (0..process.threads.len()).map(Some);
                let all = threads.chain(process.threads.is_empty().then_some(None));
                nodes.extend(all.map(|thread| WaitNode { process: index, thread }));
            }
        }
        let graph = WaitGraph::new(nodes.len());
        let mut waits = JobWaits {
            processes,
            nodes,
            graph,
            main_nodes: first,
            locks: HashMap::new(),
            guessed_nodes: Vec::new(),
            orphaned_locks: HashMap::new(),
        };
        let mut sources = locks::SourceCache::default();
        for node in 0..waits.nodes.len() {
            waits.add_waits_of(node, names, &mut sources);
        }
        // Among the candidates for ending a wait, those that themselves wait come first.
        let guessed = std::mem::take(&mut waits.guessed_nodes);
        guessed.into_iter().for_each(|node| waits.graph.remove_indirect_waits(node));
        waits
    }

    pub fn process(&self, node: usize) -> &'a Process {
        &self.processes[self.nodes[node].process]
    }

    pub fn thread(&self, node: usize) -> Option<&'a Thread> {
        self.process(node).threads.get(self.nodes[node].thread?)
    }

    /// Returns the most informative node of a process.
    pub fn main_node_of(&self, pid: u32) -> Option<usize> {
        self.main_nodes[self.processes.iter().position(|process| process.pid == pid)?]
    }

    /// Returns true if a node is the most informative one of its process.
    pub fn is_main_node(&self, node: usize) -> bool {
        self.main_nodes[self.nodes[node].process] == Some(node)
    }

    /// Returns true if a node is the most informative one of its process, or executes code of the program.
    pub fn is_important(&self, node: usize) -> bool {
        self.is_main_node(node) || self.thread(node).is_some_and(is_working)
    }

    /// Returns the nodes of a process.
    fn nodes_of(&self, process: usize) -> impl Iterator<Item = usize> + '_ {
        let from = self.nodes.partition_point(|node| node.process < process);
        (from..self.nodes.len()).take_while(move |node| self.nodes[*node].process == process)
    }

    fn add_waits(&mut self, from: usize, to: impl IntoIterator<Item = usize>) {
        to.into_iter().for_each(|to| self.graph.add_wait(from, to));
    }

    fn add_waits_of(&mut self, node: usize, names: &ProcessNames, sources: &mut locks::SourceCache) {
        let (process, Some(thread)) = (self.process(node), self.thread(node)) else { return };
        if let Some(place) = thread.polls.as_ref().and_then(|polls| polls.shared_address) {
            let to = self.sharing_nodes(node, place);
            return self.add_waits(node, to);
        }
        if thread.call.is_some() || !matches!(thread.state, State::Waits | State::Runs) {
            return;
        }
        // A library of collectives has threads and descriptors of its own, which do not reveal the missing process.
        if is_collective(thread) && self.is_main_node(node) && !leads_to_job(process, thread, self.processes) {
            let to = self.absent_nodes(node);
            return self.add_waits(node, to);
        }
        if thread.state == State::Runs {
            return;
        }
        if helpers::is_wrapper(process) || thread.waits_for_children() {
            let children = does::awaited_children(process.pid, thread, names);
            let is_running =
                |pid: &u32| self.processes.iter().any(|child| child.pid == *pid && child.state != State::Ended);
            let to: Vec<usize> =
                children.iter().filter(|pid| is_running(pid)).filter_map(|pid| self.main_node_of(*pid)).collect();
            return self.add_waits(node, to);
        }
        match &thread.awaited {
            Some(AwaitedEvent::Descriptors(_)) => {
                let to: Vec<usize> = thread.on.iter().flat_map(|on| self.peer_nodes(node, on)).collect();
                if thread.on.len() == 1 {
                    self.guessed_nodes.push(node);
                }
                self.add_waits(node, to);
            }
            Some(AwaitedEvent::FileLock(_)) => {
                for on in &thread.on {
                    for to in on.peers.iter().filter_map(|pid| self.main_node_of(*pid)).collect::<Vec<_>>() {
                        self.add_waits(node, [to]);
                        let file = Some(on.name.clone()).filter(|name| !name.is_empty());
                        self.locks.insert((node, to), HeldLock { file, since: None });
                    }
                }
            }
            Some(AwaitedEvent::Lock(futex)) => {
                let is_there = |owner: &u32| {
                    !futex.is_join || process.threads.iter().any(|thread| thread.own_tids.contains(owner))
                };
                self.add_futex_waits(node, futex.address, futex.owner.filter(is_there), sources);
            }
            _ => {}
        }
    }

    /// Returns the nodes of processes of the same kind that are not in a collective operation, although this node waits for all
    /// processes of the kind.
    fn absent_nodes(&self, node: usize) -> Vec<usize> {
        let own = self.process(node);
        let is_absent = |to: &usize| {
            let other = self.process(*to);
            let is_elsewhere = |thread: &Thread| !is_collective(thread) && !thread.waits_for_children();
            are_alike(own, other) && self.thread(*to).is_some_and(is_elsewhere)
        };
        self.main_nodes.iter().flatten().copied().filter(is_absent).collect()
    }

    /// Returns the threads that could end a wait for a descriptor.
    fn peer_nodes(&self, node: usize, on: &On) -> Vec<usize> {
        let own = self.process(node);
        let others: Vec<usize> = on
            .peers
            .iter()
            .filter(|pid| **pid != own.pid)
            .filter_map(|pid| Some(self.nodes[self.main_node_of(*pid)?].process))
            .collect();
        // Descriptors are inherited: a process that waits for the same event does not cause it, nor does a parent that waits for
        // its children.
        let is_fellow = |process: &Process| {
            let mut all = process.threads.first().into_iter().flat_map(|thread| &thread.on);
            all.any(|one| one.kind == on.kind && one.inode == on.inode && one.reads == on.reads)
        };
        // A process with a single child, for which it waits, has handed its inherited descriptors to that child.
        let is_parent = |process: &Process| {
            let children = self.processes.iter().filter(|child| child.parent == process.pid).count();
            children != 1 && process.threads.first().is_some_and(Thread::waits_for_children)
        };
        let likely: Vec<usize> = others
            .iter()
            .copied()
            .filter(|other| {
                let process = &self.processes[*other];
                !is_fellow(process) && !is_parent(process)
            })
            .collect();
        let chosen = if likely.is_empty() { others } else { likely };
        chosen.into_iter().flat_map(|other| self.serving_nodes(other, own.pid, on)).collect()
    }

    /// Returns the threads of a process that could end a wait for a descriptor: the one that waits at the other end; or, if the
    /// first thread only accepts new work, the threads in code of the program; or else the most informative thread.
    fn serving_nodes(&self, process: usize, pid: u32, on: &On) -> Vec<usize> {
        let waits_there = |node: &usize| {
            self.thread(*node)
                .is_some_and(|thread| thread.on.iter().any(|one| one.peers.contains(&pid) && one.is_other_end_of(on)))
        };
        if let Some(there) = self.nodes_of(process).find(waits_there) {
            return vec![there];
        }
        let Some(first) = self.main_nodes[process] else { return Vec::new() };
        let works = |node: &usize| *node != first && self.thread(*node).is_some_and(is_working);
        let working: Vec<usize> = self.nodes_of(process).filter(works).collect();
        let is_listener = self.thread(first).is_some_and(Thread::accepts_connections);
        if is_listener && !working.is_empty() { working } else { vec![first] }
    }

    fn add_futex_waits(&mut self, node: usize, address: u64, owner: Option<u32>, sources: &mut locks::SourceCache) {
        let process = self.process(node);
        let place = SharedMapping::locate(&process.shared, address).map(|(_, place)| place);
        if let Some(owner) = owner {
            return self.add_wait_for_owner(node, owner, place.is_some());
        }
        if let Some(place) = place {
            let to = self.sharing_nodes(node, place);
            self.guessed_nodes.push(node);
            return self.add_waits(node, to);
        }
        let Some(thread) = self.thread(node) else { return };
        let own: Vec<usize> = self.nodes_of(self.nodes[node].process).collect();
        if let Some(wanted) = sources.wanted_locks(thread) {
            let mut holders = Vec::new();
            for other in own.iter().copied() {
                let held = self.thread(other).map(|thread| sources.held_locks(thread)).unwrap_or_default();
                let at = held.iter().find(|(name, _)| wanted.contains(name));
                holders.extend(at.map(|(_, at)| (other, Some(at.clone()))));
                if at.is_none() && other != node && !held.is_empty() {
                    holders.extend(
                        Some((other, None))
                            .filter(|_| self.thread(other).is_some_and(|other| sources.wanted_locks(other).is_some())),
                    );
                }
            }
            // For a lock that is found by its name, the holder is certain.
            let named = holders.iter().any(|(_, at)| at.is_some());
            holders.retain(|(_, at)| at.is_some() || !named);
            if named || holders.len() == 1 {
                for (holder, at) in holders {
                    self.add_waits(node, [holder]);
                    self.locks.insert((node, holder), HeldLock { file: None, since: at });
                }
                return;
            }
        }
        if !self.is_important(node) {
            return;
        }
        let is_able = |other: &usize| {
            *other != node
                && self.thread(*other).is_some_and(|other| {
                    let same = matches!(&other.awaited, Some(AwaitedEvent::Lock(futex)) if futex.address == address);
                    let has_peers = leads_to_job(process, other, self.processes);
                    // A thread that reads from stdin waits for a person.
                    let is_control = !has_peers && other.on.iter().all(|on| on.fd == 0) && !other.on.is_empty();
                    !same && !other.accepts_connections() && !is_control && (is_working(other) || has_peers)
                })
        };
        let to: Vec<usize> = own.into_iter().filter(is_able).collect();
        self.add_waits(node, to);
    }

    /// Adds a wait for the owner of a lock, or for the end of a joined thread.
    fn add_wait_for_owner(&mut self, node: usize, owner: u32, is_shared: bool) {
        let index = self.nodes[node].process;
        let is_it = |node: &usize| self.thread(*node).is_some_and(|thread| thread.own_tids.contains(&owner));
        let mut found = self.nodes_of(index).find(is_it);
        if found.is_none() && is_shared {
            let is_process = |node: &usize| self.process(*node).own_pid == owner && self.is_main_node(*node);
            found = (0..self.nodes.len()).find(is_it).or_else(|| (0..self.nodes.len()).find(is_process));
        }
        match found {
            Some(holder) => {
                self.add_waits(node, [holder]);
                let is_join = self
                    .thread(node)
                    .is_some_and(|thread| matches!(&thread.awaited, Some(AwaitedEvent::Lock(futex)) if futex.is_join));
                if !is_join {
                    self.locks.insert((node, holder), HeldLock::default());
                }
            }
            None => _ = self.orphaned_locks.insert(node, owner),
        }
    }

    /// Returns nodes of the other processes that have mapped the memory in which a thread waits, and that do not wait there
    /// themselves.
    fn sharing_nodes(&self, node: usize, place: SharedAddress) -> Vec<usize> {
        let own = self.nodes[node].process;
        let waits_there = |process: &Process| {
            process.threads.iter().any(|thread| match &thread.awaited {
                _ if thread
                    .polls
                    .as_ref()
                    .and_then(|polls| polls.shared_address)
                    .is_some_and(|known| known.is_in_same_memory(place)) =>
                {
                    true
                }
                Some(AwaitedEvent::Lock(futex)) => {
                    SharedMapping::locate(&process.shared, futex.address).is_some_and(|(_, known)| known == place)
                }
                _ => false,
            })
        };
        let others: Vec<usize> = (0..self.processes.len())
            .filter(|other| *other != own && self.main_nodes[*other].is_some())
            .filter(|other| {
                let process = &self.processes[*other];
                process.shared.iter().any(|one| one.is_writable && one.contains(place)) && !waits_there(process)
            })
            .collect();
        let is_parent = |other: &usize| self.processes[*other].threads.first().is_some_and(Thread::waits_for_children);
        let likely: Vec<usize> = others.iter().copied().filter(|other| !is_parent(other)).collect();
        let chosen = if likely.is_empty() { others } else { likely };
        chosen.into_iter().filter_map(|other| self.main_nodes[other]).collect()
    }
}

/// Returns true if a thread executes code of the program, and is not one that only wakes up from time to time.
fn is_working(thread: &Thread) -> bool {
    thread.frames.iter().any(|frame| frame.is_own()) && !(thread.is_napping() && thread.is_sleeping())
}

/// Returns true if a thread waits for a descriptor whose other end belongs to a process of the job.
fn leads_to_job(own: &Process, thread: &Thread, processes: &[Process]) -> bool {
    let is_other = |pid: &u32| *pid != own.pid && processes.iter().any(|process| process.pid == *pid);
    thread.on.iter().any(|on| on.peers.iter().any(is_other))
}
