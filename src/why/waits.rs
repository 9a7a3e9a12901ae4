//! The graph of a job: its threads, and what each waits for, as far as that is known.
//!
//! A wait for a process leads to the thread of it that could end the wait, or else to the thread that says most of it. Servants
//! ([`helpers`]) are not in it.

use super::collective::{are_alike, is_collective};
use super::document::{On, Process, State, Thread};
use super::graph::Graph;
use super::names::Names;
use super::shared::{Place, Shared};
use super::syscall::About;
use super::{does, helpers, locks};
use std::collections::HashMap;

/// A thread, or a process without a known thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    pub process: usize,
    pub thread: Option<usize>,
}

/// Facts about a lock for which one thread waits and which another thread holds.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Held {
    /// Path of the locked file, for a lock of a file.
    pub file: Option<String>,
    /// Place where the holder acquired the lock.
    pub since: Option<String>,
}

pub struct Waits<'a> {
    pub processes: &'a [Process],
    pub nodes: Vec<Node>,
    pub graph: Graph,
    /// Most informative node of each process; `None` for servants.
    first: Vec<Option<usize>>,
    /// Waits for locks: the waiting node, the holding node, and facts about the lock.
    pub locks: HashMap<(usize, usize), Held>,
    /// Nodes whose targets are only candidates: threads or processes that could end the wait.
    guessed: Vec<usize>,
    /// Nodes that wait for a lock whose owner is gone, each with the tid of the owner.
    pub orphaned: HashMap<usize, u32>,
}

impl<'a> Waits<'a> {
    pub fn of(processes: &'a [Process], names: &Names) -> Waits<'a> {
        let mut nodes = Vec::new();
        let mut first = Vec::new();
        for (index, process) in processes.iter().enumerate() {
            let is_servant = helpers::is_servant(process);
            first.push((!is_servant).then_some(nodes.len()));
            if !is_servant {
                let threads = (0..process.threads.len()).map(Some);
                let all = threads.chain(process.threads.is_empty().then_some(None));
                nodes.extend(all.map(|thread| Node { process: index, thread }));
            }
        }
        let graph = Graph::new(nodes.len());
        let mut waits = Waits {
            processes,
            nodes,
            graph,
            first,
            locks: HashMap::new(),
            guessed: Vec::new(),
            orphaned: HashMap::new(),
        };
        let mut sources = locks::Sources::default();
        for node in 0..waits.nodes.len() {
            waits.add_waits_of(node, names, &mut sources);
        }
        // Among the candidates for ending a wait, those that themselves wait come first.
        let guessed = std::mem::take(&mut waits.guessed);
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
    pub fn first_of(&self, pid: u32) -> Option<usize> {
        self.first[self.processes.iter().position(|process| process.pid == pid)?]
    }

    /// Returns true if a node is the most informative one of its process.
    pub fn is_first(&self, node: usize) -> bool {
        self.first[self.nodes[node].process] == Some(node)
    }

    /// Returns true if a node is the most informative one of its process, or executes code of the program.
    pub fn matters(&self, node: usize) -> bool {
        self.is_first(node) || self.thread(node).is_some_and(is_working)
    }

    /// Returns the nodes of a process.
    fn nodes_of(&self, process: usize) -> impl Iterator<Item = usize> + '_ {
        let from = self.nodes.partition_point(|node| node.process < process);
        (from..self.nodes.len()).take_while(move |node| self.nodes[*node].process == process)
    }

    fn link(&mut self, from: usize, to: impl IntoIterator<Item = usize>) {
        to.into_iter().for_each(|to| self.graph.add(from, to));
    }

    fn add_waits_of(&mut self, node: usize, names: &Names, sources: &mut locks::Sources) {
        let (process, Some(thread)) = (self.process(node), self.thread(node)) else { return };
        if let Some(place) = thread.polls.as_ref().and_then(|polls| polls.place) {
            let to = self.sharers(node, place);
            return self.link(node, to);
        }
        if thread.call.is_some() || !matches!(thread.state, State::Waits | State::Runs) {
            return;
        }
        // A library of collectives has threads and descriptors of its own, which do not reveal the missing process.
        if is_collective(thread) && self.is_first(node) && !leads_to_job(process, thread, self.processes) {
            let to = self.absent(node);
            return self.link(node, to);
        }
        if thread.state == State::Runs {
            return;
        }
        if helpers::is_wrapper(process) || thread.is_parent() {
            let children = does::children(process.pid, thread, names);
            let is_running = |pid: &u32| {
                self.processes.iter().any(|child| child.pid == *pid && child.state != State::Ended)
            };
            let to: Vec<usize> =
                children.iter().filter(|pid| is_running(pid)).filter_map(|pid| self.first_of(*pid)).collect();
            return self.link(node, to);
        }
        match &thread.about {
            Some(About::Descriptors(_)) => {
                let to: Vec<usize> = thread.on.iter().flat_map(|on| self.peers(node, on)).collect();
                if thread.on.len() == 1 {
                    self.guessed.push(node);
                }
                self.link(node, to);
            }
            Some(About::FileLock(_)) => {
                for on in &thread.on {
                    for to in on.peers.iter().filter_map(|pid| self.first_of(*pid)).collect::<Vec<_>>() {
                        self.link(node, [to]);
                        let file = Some(on.name.clone()).filter(|name| !name.is_empty());
                        self.locks.insert((node, to), Held { file, since: None });
                    }
                }
            }
            Some(About::Lock(futex)) => {
                let is_there = |owner: &u32| {
                    !futex.is_join || process.threads.iter().any(|thread| thread.own_tids.contains(owner))
                };
                self.futex(node, futex.address, futex.owner.filter(is_there), sources);
            }
            _ => {}
        }
    }

    /// Returns the nodes of processes of the same kind that are not in a collective operation, although this node waits for all
    /// processes of the kind.
    fn absent(&self, node: usize) -> Vec<usize> {
        let own = self.process(node);
        let is_absent = |to: &usize| {
            let other = self.process(*to);
            let is_elsewhere = |thread: &Thread| !is_collective(thread) && !thread.is_parent();
            are_alike(own, other) && self.thread(*to).is_some_and(is_elsewhere)
        };
        self.first.iter().flatten().copied().filter(is_absent).collect()
    }

    /// Returns the threads that could end a wait for a descriptor.
    fn peers(&self, node: usize, on: &On) -> Vec<usize> {
        let own = self.process(node);
        let others: Vec<usize> = on
            .peers
            .iter()
            .filter(|pid| **pid != own.pid)
            .filter_map(|pid| Some(self.nodes[self.first_of(*pid)?].process))
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
            children != 1 && process.threads.first().is_some_and(Thread::is_parent)
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
        chosen.into_iter().flat_map(|other| self.serving(other, own.pid, on)).collect()
    }

    /// Returns the threads of a process that could end a wait for a descriptor: the one that waits at the other end; or, if the
    /// first thread only accepts new work, the threads in code of the program; or else the most informative thread.
    fn serving(&self, process: usize, pid: u32, on: &On) -> Vec<usize> {
        let waits_there = |node: &usize| {
            self.thread(*node).is_some_and(|thread| {
                thread.on.iter().any(|one| one.peers.contains(&pid) && one.is_end_of(on))
            })
        };
        if let Some(there) = self.nodes_of(process).find(waits_there) {
            return vec![there];
        }
        let Some(first) = self.first[process] else { return Vec::new() };
        let works = |node: &usize| *node != first && self.thread(*node).is_some_and(is_working);
        let working: Vec<usize> = self.nodes_of(process).filter(works).collect();
        let is_listener = self.thread(first).is_some_and(Thread::listens);
        if is_listener && !working.is_empty() { working } else { vec![first] }
    }

    fn futex(&mut self, node: usize, address: u64, owner: Option<u32>, sources: &mut locks::Sources) {
        let process = self.process(node);
        let place = Shared::place(&process.shared, address).map(|(_, place)| place);
        if let Some(owner) = owner {
            return self.owned(node, owner, place.is_some());
        }
        if let Some(place) = place {
            let to = self.sharers(node, place);
            self.guessed.push(node);
            return self.link(node, to);
        }
        let Some(thread) = self.thread(node) else { return };
        let own: Vec<usize> = self.nodes_of(self.nodes[node].process).collect();
        if let Some(wanted) = sources.wanted(thread) {
            let mut holders = Vec::new();
            for other in own.iter().copied() {
                let held = self.thread(other).map(|thread| sources.held(thread)).unwrap_or_default();
                let at = held.iter().find(|(name, _)| wanted.contains(name));
                holders.extend(at.map(|(_, at)| (other, Some(at.clone()))));
                if at.is_none() && other != node && !held.is_empty() {
                    holders.extend(
                        Some((other, None)).filter(|_| {
                            self.thread(other).is_some_and(|other| sources.wanted(other).is_some())
                        }),
                    );
                }
            }
            // For a lock that is found by its name, the holder is certain.
            let named = holders.iter().any(|(_, at)| at.is_some());
            holders.retain(|(_, at)| at.is_some() || !named);
            if named || holders.len() == 1 {
                for (holder, at) in holders {
                    self.link(node, [holder]);
                    self.locks.insert((node, holder), Held { file: None, since: at });
                }
                return;
            }
        }
        if !self.matters(node) {
            return;
        }
        let is_able = |other: &usize| {
            *other != node
                && self.thread(*other).is_some_and(|other| {
                    let same = matches!(&other.about, Some(About::Lock(futex)) if futex.address == address);
                    let has_peers = leads_to_job(process, other, self.processes);
                    // A thread that reads from stdin waits for a person.
                    let is_control =
                        !has_peers && other.on.iter().all(|on| on.fd == 0) && !other.on.is_empty();
                    !same && !other.listens() && !is_control && (is_working(other) || has_peers)
                })
        };
        let to: Vec<usize> = own.into_iter().filter(is_able).collect();
        self.link(node, to);
    }

    /// Adds a wait for the owner of a lock, or for the end of a joined thread.
    fn owned(&mut self, node: usize, owner: u32, is_shared: bool) {
        let index = self.nodes[node].process;
        let is_it = |node: &usize| self.thread(*node).is_some_and(|thread| thread.own_tids.contains(&owner));
        let mut found = self.nodes_of(index).find(is_it);
        if found.is_none() && is_shared {
            let is_process = |node: &usize| self.process(*node).own_pid == owner && self.is_first(*node);
            found = (0..self.nodes.len()).find(is_it).or_else(|| (0..self.nodes.len()).find(is_process));
        }
        match found {
            Some(holder) => {
                self.link(node, [holder]);
                let is_join = self
                    .thread(node)
                    .is_some_and(|thread| matches!(&thread.about, Some(About::Lock(futex)) if futex.is_join));
                if !is_join {
                    self.locks.insert((node, holder), Held::default());
                }
            }
            None => _ = self.orphaned.insert(node, owner),
        }
    }

    /// Returns nodes of the other processes that have mapped the memory in which a thread waits, and that do not wait there
    /// themselves.
    fn sharers(&self, node: usize, place: Place) -> Vec<usize> {
        let own = self.nodes[node].process;
        let waits_there = |process: &Process| {
            process.threads.iter().any(|thread| match &thread.about {
                _ if thread
                    .polls
                    .as_ref()
                    .and_then(|polls| polls.place)
                    .is_some_and(|known| known.is_near(place)) =>
                {
                    true
                }
                Some(About::Lock(futex)) => {
                    Shared::place(&process.shared, futex.address).is_some_and(|(_, known)| known == place)
                }
                _ => false,
            })
        };
        let others: Vec<usize> = (0..self.processes.len())
            .filter(|other| *other != own && self.first[*other].is_some())
            .filter(|other| {
                let process = &self.processes[*other];
                process.shared.iter().any(|one| one.is_writable && one.has(place)) && !waits_there(process)
            })
            .collect();
        let is_parent = |other: &usize| self.processes[*other].threads.first().is_some_and(Thread::is_parent);
        let likely: Vec<usize> = others.iter().copied().filter(|other| !is_parent(other)).collect();
        let chosen = if likely.is_empty() { others } else { likely };
        chosen.into_iter().filter_map(|other| self.first[other]).collect()
    }
}

/// Returns true if a thread executes code of the program, and is not one that only wakes up from time to time.
fn is_working(thread: &Thread) -> bool {
    thread.frames.iter().any(|frame| frame.is_own()) && !(thread.naps() && thread.sleeps())
}

/// Returns true if a thread waits for a descriptor whose other end belongs to a process of the job.
fn leads_to_job(own: &Process, thread: &Thread, processes: &[Process]) -> bool {
    let is_other = |pid: &u32| *pid != own.pid && processes.iter().any(|process| process.pid == *pid);
    thread.on.iter().any(|on| on.peers.iter().any(is_other))
}
