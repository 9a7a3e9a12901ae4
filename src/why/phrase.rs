//! The answer in one sentence: where the waits end, and who waits for that.

use super::document::{Process, Root as Shown, Thread};
use super::does;
use super::names::ProcessNames;
use super::roots::{self, AnswerRoot, RootKind};
use super::shared::SharedMapping;
use super::syscall::{AwaitedEvent, libc_name};
use super::waits::JobWaits;
use cupeer_report::names::counted;

/// Number of other processes or threads that are named with their places: the first ones.
const MOST: usize = 3;

/// Returns the answer (the first line), and the processes and threads that it is about.
pub fn build_answer(processes: &[Process], names: &ProcessNames) -> (String, Option<Shown>) {
    let mut waits = JobWaits::of(processes, names);
    let Some(root) = roots::find_root(&mut waits) else {
        return ("no process of the job is running".into(), None);
    };
    let phrase = AnswerBuilder { waits: &waits, names, root: &root };
    if root.kind == RootKind::Unknown {
        let each = root
            .nodes
            .iter()
            .take(MOST)
            .map(|node| format!("{} {}", phrase.node_name(*node), phrase.node_activity(*node)));
        return (format!("not known: {}", each.collect::<Vec<_>>().join("; ")), Some(phrase.to_document_root()));
    }
    let mut clauses = phrase.end_clauses();
    clauses.extend(phrase.waiting_clauses());
    clauses.extend(phrase.alike_clause());
    (clauses.join("; "), Some(phrase.to_document_root()))
}

struct AnswerBuilder<'a> {
    waits: &'a JobWaits<'a>,
    names: &'a ProcessNames,
    root: &'a AnswerRoot,
}

impl AnswerBuilder<'_> {
    fn pids(&self, nodes: &[usize]) -> Vec<u32> {
        let mut all: Vec<u32> = Vec::new();
        for node in nodes {
            let pid = self.waits.process(*node).pid;
            if !all.contains(&pid) {
                all.push(pid);
            }
        }
        all
    }

    fn to_document_root(&self) -> Shown {
        let kind = match self.root.kind {
            RootKind::Ended => "ended",
            RootKind::Call => "call",
            RootKind::Deadlock => "deadlock",
            RootKind::Cycle => "cycle",
            RootKind::Apart => "apart",
            RootKind::Stopped => "stopped",
            RootKind::Sleeps => "sleeps",
            RootKind::Runs => "runs",
            RootKind::Polls => "polls",
            RootKind::Waits => "waits",
            RootKind::Refused => "refused",
            RootKind::Unknown => "unknown",
        };
        let pids = self.pids(&self.root.nodes);
        let [direct, indirect] = [&self.root.waiting.direct, &self.root.waiting.indirect].map(|nodes| self.pids(nodes));
        let waiting: Vec<u32> = direct.into_iter().filter(|pid| !pids.contains(pid)).collect();
        let waiting_indirectly =
            indirect.into_iter().filter(|pid| !pids.contains(pid) && !waiting.contains(pid)).collect();
        Shown { kind: kind.into(), pids, waiting, waiting_indirectly }
    }

    fn node_name(&self, node: usize) -> String {
        let name = self.names.name(self.waits.process(node).pid);
        match self.waits.thread(node) {
            Some(thread) if !self.waits.is_main_node(node) => {
                let like = thread.count - 1;
                let like = if like > 0 { format!(" and {like} like it") } else { String::new() };
                format!("thread {}{like} of {name}", thread.tid)
            }
            _ => name,
        }
    }

    /// Returns what a thread or process does.
    fn node_activity(&self, node: usize) -> String {
        let process = self.waits.process(node);
        match self.waits.thread(node) {
            Some(thread) if !self.waits.is_main_node(node) => does::activity_clause(process, thread, self.names),
            _ => process.doing.clone(),
        }
    }

    /// Returns clauses about the end of the waits.
    fn end_clauses(&self) -> Vec<String> {
        let first = self.root.nodes[0];
        match self.root.kind {
            RootKind::Deadlock => vec![format!("deadlock: {}", self.deadlock_clause())],
            RootKind::Apart => self.operation_clauses(),
            RootKind::Cycle if self.root.nodes.len() > 1 => vec![self.cycle_clause()],
            _ => {
                let process = self.waits.process(first);
                let mut clauses = vec![format!("{} {}", self.node_name(first), self.node_activity(first))];
                if self.root.kind == RootKind::Refused {
                    clauses.extend(process.hint.clone());
                }
                clauses.extend(self.exporter_clause(first));
                clauses.extend(self.orphaned_lock_clause(first));
                clauses.extend(self.no_worker_clause(first));
                clauses.extend(process.owes.first().map(|owed| format!("it {owed}")));
                if self.root.kind == RootKind::Waits && process.owes.is_empty() && self.waits.is_main_node(first) {
                    clauses.extend(does::peers_clause(process, self.names));
                }
                clauses
            }
        }
    }

    /// Returns the clause about a deadlock: `A waits for the lock that B holds, at x.c:4; B waits for the lock that A
    /// holds, at x.c:9`
    fn deadlock_clause(&self) -> String {
        let nodes = &self.root.nodes;
        let each = |index: usize| {
            let (node, next) = (nodes[index], nodes[(index + 1) % nodes.len()]);
            let whose = if node == next { "it holds itself".into() } else { format!("{} holds", self.node_name(next)) };
            let held = self.waits.locks.get(&(node, next)).cloned().unwrap_or_default();
            let since = held.since.map(|place| format!(" since {place}")).unwrap_or_default();
            let which = held.file.map_or_else(|| "the lock that".into(), |file| format!("the lock of {file}, which"));
            let at = self.waits.thread(node).map(does::place_clause).unwrap_or_default();
            format!("{} waits{at} for {which} {whose}{since}", self.node_name(node))
        };
        (0..nodes.len()).map(each).collect::<Vec<_>>().join("; ")
    }

    fn cycle_clause(&self) -> String {
        let nodes = &self.root.nodes;
        let each: Vec<String> =
            nodes.iter().map(|node| format!("{} {}", self.node_name(*node), self.node_activity(*node))).collect();
        let all = self.pids(nodes);
        match nodes.as_slice() {
            _ if all.len() == 1 => {
                format!("threads of {} wait for each other: {}", self.names.join_names(&all), each.join("; "))
            }
            [_, _] => format!("{} wait for each other: {}", self.names.join_names(&all), each.join("; ")),
            _ => {
                format!("{} wait in a circle: {}: {}", self.names.join_names(&all), self.wait_order(), each.join("; "))
            }
        }
    }

    /// Returns the order of the waits in a cycle: `rank 0 waits for rank 1, rank 1 for rank 2`
    fn wait_order(&self) -> String {
        let nodes = &self.root.nodes;
        let next = |index: usize| self.node_name(nodes[(index + 1) % nodes.len()]);
        let order = |index: usize| match index {
            0 => format!("{} waits for {}", self.node_name(nodes[0]), next(0)),
            _ => format!("{} for {}", self.node_name(nodes[index]), next(index)),
        };
        (0..nodes.len()).map(order).collect::<Vec<_>>().join(", ")
    }

    /// Returns clauses about processes in different operations: `rank 0 is in rendezvous (prog.py:13), rank 1 in
    /// all_reduce (prog.py:17)`
    fn operation_clauses(&self) -> Vec<String> {
        let each = |(index, (operation, nodes)): (usize, &(super::apart::Operation, Vec<usize>))| {
            let pids = self.pids(nodes);
            let is = match (index, pids.len()) {
                (0, 1) => " is",
                (0, _) => " are",
                _ => "",
            };
            format!("{}{is} in {} ({})", self.names.join_names(&pids), operation.function, operation.place)
        };
        let all: Vec<String> = self.root.operations.iter().enumerate().map(each).collect();
        let mut clauses = vec![all.join(", ")];
        clauses.extend((self.root.nodes.len() > 1).then(|| self.wait_order()));
        let nodes: Vec<usize> =
            self.root.operations.iter().filter_map(|(_, nodes)| nodes.first().copied()).take(MOST).collect();
        for node in nodes {
            clauses.push(format!("{} {}", self.node_name(node), self.node_activity(node)));
            let listens = self.waits.thread(node).is_some_and(Thread::accepts_connections);
            clauses.extend(does::peers_clause(self.waits.process(node), self.names).filter(|_| listens));
        }
        clauses
    }

    /// Returns a clause about the process that exported the handle that a process tries to open.
    fn exporter_clause(&self, node: usize) -> Option<String> {
        let handle = self.waits.thread(node)?.call.as_ref()?.handle.as_ref()?;
        let own = self.waits.process(node).pid;
        let is_it = |other: &&Process| other.pid != own && other.exported.contains(handle);
        let exporter = self.waits.processes.iter().find(is_it)?;
        Some(format!("{} exported it, and {}", self.names.name(exporter.pid), exporter.doing))
    }

    /// Returns a clause about the thread that ended while it held a lock.
    fn orphaned_lock_clause(&self, node: usize) -> Option<String> {
        let owner = self.waits.orphaned_locks.get(&node)?;
        let process = self.waits.process(node);
        let parent = self.waits.processes.iter().find(|parent| {
            parent.pid == process.parent && parent.threads.iter().any(|thread| thread.own_tids.contains(owner))
        });
        Some(match parent {
            Some(parent) => format!(
                "the lock belongs to thread {owner} of {}, which had it when it forked this process",
                self.names.name(parent.pid)
            ),
            None => format!("the lock belongs to thread {owner}, which ended without releasing it"),
        })
    }

    /// Returns a clause about a lock or condition that only threads of the same process could release, although
    /// none of them is about to.
    fn no_worker_clause(&self, node: usize) -> Option<String> {
        let thread = self.waits.thread(node)?;
        let process = self.waits.process(node);
        let Some(AwaitedEvent::Lock(futex)) = &thread.awaited else { return None };
        let is_shared = SharedMapping::locate(&process.shared, futex.address).is_some();
        let is_known = self.waits.orphaned_locks.contains_key(&node) || is_shared;
        (!is_known && self.root.kind == RootKind::Waits && process.threads_more == 0)
            .then(|| "no other thread of it is at work".into())
    }

    /// Returns clauses about who waits for the end.
    fn waiting_clauses(&self) -> Vec<String> {
        [self.waiting_threads_clauses(), self.waiting_processes_clauses()].concat()
    }

    /// Returns clauses about threads of the same process that wait for the end.
    fn waiting_threads_clauses(&self) -> Vec<String> {
        let [own] = self.root.nodes.as_slice() else { return Vec::new() };
        let is_same = |node: &&usize| self.waits.process(**node).pid == self.waits.process(*own).pid;
        let clause = |node: &usize| {
            let name = match self.waits.thread(*node) {
                Some(_) if self.waits.is_main_node(*node) => "its main thread".into(),
                Some(thread) => match thread.count - 1 {
                    0 => format!("thread {}", thread.tid),
                    like => format!("thread {} and {like} like it", thread.tid),
                },
                None => self.node_name(*node),
            };
            let is_one =
                self.waits.is_main_node(*node) || self.waits.thread(*node).is_none_or(|thread| thread.count == 1);
            let waits = if is_one { "waits" } else { "wait" };
            let what = if self.waits.locks.contains_key(&(*node, *own)) { "the lock that it holds" } else { "it" };
            format!("{name} {waits} for {what}{}", self.node_place(*node))
        };
        self.root
            .waiting
            .direct
            .iter()
            .filter(is_same)
            .filter(|node| self.waits.is_important(**node))
            .take(MOST)
            .map(clause)
            .collect()
    }

    /// Returns clauses about other processes that wait for the end, directly or by way of others.
    fn waiting_processes_clauses(&self) -> Vec<String> {
        let own = self.pids(&self.root.nodes);
        let mut direct = self.nodes_to_name(&self.root.waiting.direct, &own);
        if direct.is_empty() {
            // These processes wait for another thread of the same process.
            direct = self.nodes_to_name(&self.root.waiting.indirect, &own);
        }
        if direct.is_empty() || self.root.kind == RootKind::Apart {
            return Vec::new();
        }
        let pids = self.pids(&direct);
        let others: Vec<u32> = [own.clone(), pids.clone()].concat();
        let later = self.nodes_to_name(&self.root.waiting.indirect, &others);
        let indirect = self.pids(&later);
        let whom = if self.root.nodes.len() > 1 { "them" } else { "it" };
        let verb = if pids.len() == 1 { "waits" } else { "wait" };
        let for_those = match (indirect.len(), pids.len()) {
            (0, _) => String::new(),
            (_, 1) => {
                format!(", and {} for that{}", self.names_without_word(&indirect), self.common_place(&later))
            }
            _ => {
                format!(", and {} for those{}", self.names_without_word(&indirect), self.common_place(&later))
            }
        };
        let parent = self.waits.process(self.root.nodes[0]).parent;
        let who = match pids.as_slice() {
            [only] if *only == parent && self.root.kind == RootKind::Ended => {
                format!("its parent, {},", self.names.name(*only))
            }
            _ => self.names.join_names(&pids),
        };
        let places: Vec<String> = direct.iter().map(|node| self.node_place(*node)).collect();
        let polls = |node: &usize| self.waits.thread(*node).is_some_and(|thread| thread.polls.is_some());
        if places.iter().all(|place| *place == places[0]) && !direct.iter().any(polls) {
            return vec![format!("{who} {verb} for {whom}{}{for_those}", places[0])];
        }
        let mut clauses = vec![format!("{who} {verb} for {whom}{for_those}")];
        clauses.extend(
            direct.iter().take(MOST).map(|node| format!("{} {}", self.node_name(*node), self.node_activity(*node))),
        );
        clauses
    }

    /// Returns the nodes to name: important ones of processes that are not in `others`. Processes that only
    /// started others are left out if other nodes remain.
    fn nodes_to_name(&self, nodes: &[usize], others: &[u32]) -> Vec<usize> {
        let is_other = |node: &&usize| !others.contains(&self.waits.process(**node).pid);
        let all = nodes.iter().filter(is_other).copied().filter(|node| self.waits.is_important(*node));
        let mut all: Vec<usize> = all.collect();
        // If the most informative thread of a process is among the nodes, it stands for the whole process.
        let firsts: Vec<u32> =
            self.pids(&all.iter().copied().filter(|node| self.waits.is_main_node(*node)).collect::<Vec<_>>());
        all.retain(|node| self.waits.is_main_node(*node) || !firsts.contains(&self.waits.process(*node).pid));
        let has_ranks = self.waits.processes.iter().any(|process| process.rank.is_some());
        let is_plain = |node: &usize| {
            let process = self.waits.process(*node);
            let is_parent = self.waits.thread(*node).is_some_and(Thread::waits_for_children);
            // Processes that only started others, and that nobody else waits for, are left out.
            let is_child = |other: &usize| self.waits.process(*other).parent == process.pid;
            let is_last = self.waits.graph.nodes_waiting_for(&[*node]).direct.iter().all(is_child);
            !super::helpers::is_wrapper(process) && !(is_parent && (is_last || has_ranks && process.rank.is_none()))
        };
        let plain: Vec<usize> = all.iter().copied().filter(is_plain).collect();
        if plain.is_empty() && others.len() == self.root.nodes.len() { all } else { plain }
    }

    /// Returns the place of several nodes if all have the same; otherwise, an empty text.
    fn common_place(&self, nodes: &[usize]) -> String {
        let place = nodes.first().map(|node| self.node_place(*node)).unwrap_or_default();
        if nodes.iter().all(|node| self.node_place(*node) == place) { place } else { String::new() }
    }

    /// Returns the names of processes, without the word "ranks" if an earlier clause had it: `0, 1 and 5`.
    fn names_without_word(&self, pids: &[u32]) -> String {
        let all = self.names.join_names(pids);
        match (
            self.root.waiting.direct.iter().all(|node| self.waits.process(*node).rank.is_some()),
            all.strip_prefix("ranks "),
        ) {
            (true, Some(numbers)) => numbers.to_owned(),
            _ => all,
        }
    }

    /// Returns the place of a node: ` in recv at x.py:12`
    fn node_place(&self, node: usize) -> String {
        let Some(thread) = self.waits.thread(node) else { return String::new() };
        let at = does::place_clause(thread);
        match thread.syscall.as_deref().map(libc_name) {
            Some("wait" | "sleep") | None => at,
            Some(word) => format!(" in {word}{at}"),
        }
    }

    /// Returns a clause about other processes at the same place.
    fn alike_clause(&self) -> Option<String> {
        let count = self.root.alike.len() as u64;
        let more = match self.pids(&self.root.alike).as_slice() {
            few if few.len() < 4 => self.names.join_names(few),
            many => counted(many.len() as u64, "process").replacen(' ', " more ", 1),
        };
        (count > 0 && self.root.kind != RootKind::Apart).then(|| match self.root.kind {
            RootKind::Refused => format!("the same holds for {more}"),
            _ => format!("{more} {} the same", if count == 1 { "does" } else { "do" }),
        })
    }
}

#[cfg(test)]
mod tests;
