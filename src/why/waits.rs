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

/// A thread, or a process of which no thread is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    pub process: usize,
    pub thread: Option<usize>,
}

/// Facts about a lock that a thread waits for.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Held {
    /// The file that it locks.
    pub file: Option<String>,
    /// The place where the holder got it.
    pub since: Option<String>,
}

pub struct Waits<'a> {
    pub processes: &'a [Process],
    pub nodes: Vec<Node>,
    pub graph: Graph,
    /// By process: its node that says most. `None` for servants.
    first: Vec<Option<usize>>,
    /// The waits for locks.
    pub locks: HashMap<(usize, usize), Held>,
    /// The nodes whose waits lead to whoever could end them, and need not.
    guessed: Vec<usize>,
    /// The threads whose lock belongs to a thread that is not there: its number.
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
            waits.add(node, names, &mut sources);
        }
        // Among candidates for the end of a wait, one that itself waits comes first.
        let guessed = std::mem::take(&mut waits.guessed);
        guessed.into_iter().for_each(|node| waits.graph.thin(node));
        waits
    }

    pub fn process(&self, node: usize) -> &'a Process {
        &self.processes[self.nodes[node].process]
    }

    pub fn thread(&self, node: usize) -> Option<&'a Thread> {
        self.process(node).threads.get(self.nodes[node].thread?)
    }

    /// The node of a process that says most.
    pub fn first_of(&self, pid: u32) -> Option<usize> {
        self.first[self.processes.iter().position(|process| process.pid == pid)?]
    }

    /// Returns true if a node says most of its process.
    pub fn is_first(&self, node: usize) -> bool {
        self.first[self.nodes[node].process] == Some(node)
    }

    /// Returns true if a node is more than a thread of a library.
    pub fn matters(&self, node: usize) -> bool {
        self.is_first(node) || self.thread(node).is_some_and(is_working)
    }

    /// The nodes of a process.
    fn nodes_of(&self, process: usize) -> impl Iterator<Item = usize> + '_ {
        let from = self.nodes.partition_point(|node| node.process < process);
        (from..self.nodes.len()).take_while(move |node| self.nodes[*node].process == process)
    }

    fn link(&mut self, from: usize, to: impl IntoIterator<Item = usize>) {
        to.into_iter().for_each(|to| self.graph.add(from, to));
    }

    fn add(&mut self, node: usize, names: &Names, sources: &mut locks::Sources) {
        let (process, Some(thread)) = (self.process(node), self.thread(node)) else { return };
        if let Some(place) = thread.polls.as_ref().and_then(|polls| polls.place) {
            let to = self.sharers(node, place);
            return self.link(node, to);
        }
        if thread.call.is_some() || !matches!(thread.state, State::Waits | State::Runs) {
            return;
        }
        // A library of collectives has threads and descriptors of its own, which say nothing of which process is not there.
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

    /// The processes that are like the one of a node, which waits for all, and are somewhere else.
    fn absent(&self, node: usize) -> Vec<usize> {
        let own = self.process(node);
        let is_absent = |to: &usize| {
            let other = self.process(*to);
            let is_elsewhere = |thread: &Thread| !is_collective(thread) && !thread.is_parent();
            are_alike(own, other) && self.thread(*to).is_some_and(is_elsewhere)
        };
        self.first.iter().flatten().copied().filter(is_absent).collect()
    }

    /// The threads that could do what is waited for at a descriptor.
    fn peers(&self, node: usize, on: &On) -> Vec<usize> {
        let own = self.process(node);
        let others: Vec<usize> = on
            .peers
            .iter()
            .filter(|pid| **pid != own.pid)
            .filter_map(|pid| Some(self.nodes[self.first_of(*pid)?].process))
            .collect();
        // Descriptors are inherited: whoever waits for the same thing does not do it, nor does a parent that waits for its children.
        let is_fellow = |process: &Process| {
            let mut all = process.threads.first().into_iter().flat_map(|thread| &thread.on);
            all.any(|one| one.kind == on.kind && one.inode == on.inode && one.reads == on.reads)
        };
        // A process that forked only the one that it waits for goes on with what that has inherited.
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

    /// The threads of a process that could do what is waited for: the one that waits at the other end; or, if its first thread only
    /// takes new work, those that are in code of the program; or else the one that says most.
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
            // A lock that a name leads to needs no guess.
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
                    // A thread that reads from stdin waits for people.
                    let is_control =
                        !has_peers && other.on.iter().all(|on| on.fd == 0) && !other.on.is_empty();
                    !same && !other.listens() && !is_control && (is_working(other) || has_peers)
                })
        };
        let to: Vec<usize> = own.into_iter().filter(is_able).collect();
        self.link(node, to);
    }

    /// A lock that has its owner, or a thread whose end is waited for.
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

    /// The processes that have mapped the memory in which a thread waits, and do not wait there themselves.
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

/// Returns true if a thread is in code of the program, and does not only look around from time to time.
fn is_working(thread: &Thread) -> bool {
    thread.frames.iter().any(|frame| frame.is_own()) && !(thread.naps() && thread.sleeps())
}

/// Returns true if a thread waits for a descriptor whose other end a process of the job has.
fn leads_to_job(own: &Process, thread: &Thread, processes: &[Process]) -> bool {
    let is_other = |pid: &u32| *pid != own.pid && processes.iter().any(|process| process.pid == *pid);
    thread.on.iter().any(|on| on.peers.iter().any(is_other))
}
