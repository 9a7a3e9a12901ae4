//! A graph of waits: which node waits for which others. A node that waits for several goes on when one of them does something.
//!
//! A wait ends at a node without waits, or in nodes that wait for one another. [`WaitGraph::sinks`] finds those ends,
//! and [`WaitGraph::nodes_waiting_for`] the nodes that wait for one. The nodes are numbers: threads and processes, for
//! whoever makes the graph.

use std::collections::{BTreeSet, VecDeque};

#[derive(Default, Clone, Debug)]
pub struct WaitGraph {
    edges: Vec<BTreeSet<usize>>,
}

/// The nodes that wait for some nodes: directly, or by way of other nodes.
#[derive(Default, Clone, PartialEq, Eq, Debug)]
pub struct WaitingNodes {
    pub direct: Vec<usize>,
    pub indirect: Vec<usize>,
}

impl WaitGraph {
    pub fn new(count: usize) -> WaitGraph {
        WaitGraph { edges: vec![BTreeSet::new(); count] }
    }

    pub fn add_wait(&mut self, from: usize, to: usize) {
        self.edges[from].insert(to);
    }

    pub fn targets(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        self.edges[from].iter().copied()
    }

    /// Removes redundant waits of a node: those for nodes that it also waits for by way of its other targets.
    pub fn remove_indirect_waits(&mut self, node: usize) {
        const MOST: usize = 64;
        let targets: Vec<usize> = self.targets(node).filter(|to| *to != node).collect();
        for to in targets.iter().copied().take(if targets.len() > 1 { MOST } else { 0 }) {
            let others = targets.iter().copied().filter(|other| *other != to && self.edges[node].contains(other));
            if self.has_path(others.collect(), to, node) {
                self.edges[node].remove(&to);
            }
        }
    }

    /// Returns true if waits lead from any node of `from` to the node `to`, on a path that avoids the node `without`.
    fn has_path(&self, from: Vec<usize>, to: usize, without: usize) -> bool {
        let mut seen: BTreeSet<usize> = from.iter().copied().chain([without]).collect();
        let mut next = from;
        while let Some(node) = next.pop() {
            if node == to {
                return true;
            }
            next.extend(self.targets(node).filter(|node| seen.insert(*node)));
        }
        false
    }

    /// Returns the ends of all waits, in the order of their first nodes. An end is a node that waits for no other, or a group of
    /// nodes that wait only for one another.
    pub fn sinks(&self) -> Vec<Vec<usize>> {
        let components = self.components();
        let mut of = vec![0; self.edges.len()];
        for (index, component) in components.iter().enumerate() {
            component.iter().for_each(|node| of[*node] = index);
        }
        let is_sink = |component: &&Vec<usize>| {
            component.iter().all(|node| self.targets(*node).all(|to| of[to] == of[component[0]]))
        };
        let mut sinks: Vec<Vec<usize>> = components.iter().filter(is_sink).cloned().collect();
        sinks.sort();
        sinks
    }

    /// Returns true if the nodes of an end wait for one another, or its only node for itself.
    pub fn is_cycle(&self, sink: &[usize]) -> bool {
        sink.len() > 1 || sink.iter().any(|node| self.edges[*node].contains(node))
    }

    /// Returns the nodes that wait for the nodes of an end, by the smallest number of steps.
    pub fn nodes_waiting_for(&self, sink: &[usize]) -> WaitingNodes {
        let mut from: Vec<Vec<usize>> = vec![Vec::new(); self.edges.len()];
        for (node, edges) in self.edges.iter().enumerate() {
            edges.iter().for_each(|to| from[*to].push(node));
        }
        let mut steps = vec![None; self.edges.len()];
        sink.iter().for_each(|node| steps[*node] = Some(0));
        let mut next: VecDeque<usize> = sink.iter().copied().collect();
        while let Some(node) = next.pop_front() {
            for before in &from[node] {
                if steps[*before].is_none() {
                    steps[*before] = steps[node].map(|step: u32| step + 1);
                    next.push_back(*before);
                }
            }
        }
        let with =
            |is: fn(u32) -> bool| (0..steps.len()).filter(|node| steps[*node].is_some_and(is)).collect::<Vec<usize>>();
        WaitingNodes { direct: with(|step| step == 1), indirect: with(|step| step > 1) }
    }

    /// Returns the shortest cycle through the first node of an end that is in any cycle, in the order of the waits.
    pub fn shortest_cycle(&self, sink: &[usize]) -> Vec<usize> {
        let through = |start: usize| {
            let mut before = vec![None; self.edges.len()];
            let mut next = VecDeque::from([start]);
            while let Some(node) = next.pop_front() {
                for to in self.targets(node) {
                    if to == start {
                        let mut path = vec![node];
                        while let Some(earlier) = before[path[path.len() - 1]] {
                            path.push(earlier);
                        }
                        path.reverse();
                        return Some(path);
                    }
                    if before[to].is_none() {
                        before[to] = Some(node);
                        next.push_back(to);
                    }
                }
            }
            None
        };
        sink.iter().find_map(|node| through(*node)).unwrap_or_default()
    }

    /// Returns the strongly connected components by Tarjan's algorithm, without recursion, because there may be thousands of
    /// threads.
    fn components(&self) -> Vec<Vec<usize>> {
        let count = self.edges.len();
        let (mut index, mut low) = (vec![usize::MAX; count], vec![0; count]);
        let (mut stack, mut is_open) = (Vec::new(), vec![false; count]);
        let (mut found, mut number) = (Vec::new(), 0);
        for root in 0..count {
            if index[root] != usize::MAX {
                continue;
            }
            let mut path = vec![(root, self.edges[root].iter())];
            (index[root], low[root], number) = (number, number, number + 1);
            stack.push(root);
            is_open[root] = true;
            while let Some((node, rest)) = path.last_mut() {
                let node = *node;
                match rest.next().copied() {
                    Some(to) if index[to] == usize::MAX => {
                        (index[to], low[to], number) = (number, number, number + 1);
                        stack.push(to);
                        is_open[to] = true;
                        path.push((to, self.edges[to].iter()));
                    }
                    Some(to) if is_open[to] => low[node] = low[node].min(index[to]),
                    Some(_) => {}
                    None => {
                        path.pop();
                        if let Some((parent, _)) = path.last() {
                            low[*parent] = low[*parent].min(low[node]);
                        }
                        if low[node] == index[node] {
                            let from = stack.iter().rposition(|open| *open == node).unwrap_or(0);
                            let mut component = stack.split_off(from);
                            component.iter().for_each(|node| is_open[*node] = false);
                            component.sort_unstable();
                            found.push(component);
                        }
                    }
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(count: usize, edges: &[(usize, usize)]) -> WaitGraph {
        let mut graph = WaitGraph::new(count);
        edges.iter().for_each(|(from, to)| graph.add_wait(*from, *to));
        graph
    }

    #[test]
    fn a_chain_ends_where_nobody_waits() {
        // A ring in which rank 3 sleeps: 2 and 4 wait for it, and 0, 1 and 5 for those.
        let ring = graph(6, &[(0, 5), (5, 4), (4, 3), (1, 2), (2, 3)]);
        assert_eq!(ring.sinks(), [[3]]);
        assert!(!ring.is_cycle(&[3]));
        assert_eq!(ring.nodes_waiting_for(&[3]), WaitingNodes { direct: vec![2, 4], indirect: vec![0, 1, 5] });
    }

    #[test]
    fn a_circle_is_in_the_order_of_its_waits() {
        let circle = graph(6, &[(0, 2), (2, 1), (1, 0), (3, 0), (4, 3)]);
        let sinks = circle.sinks();
        assert_eq!(sinks, [vec![0, 1, 2], vec![5]]);
        assert!(circle.is_cycle(&sinks[0]) && !circle.is_cycle(&sinks[1]));
        assert_eq!(circle.shortest_cycle(&sinks[0]), [0, 2, 1]);
        assert_eq!(circle.nodes_waiting_for(&sinks[0]), WaitingNodes { direct: vec![3], indirect: vec![4] });
        let own = graph(1, &[(0, 0)]);
        assert!(own.is_cycle(&own.sinks()[0]) && own.shortest_cycle(&[0]) == [0]);
    }

    #[test]
    fn a_server_and_its_clients_lead_to_the_client_that_is_elsewhere() {
        // 0 waits for any of its clients; 1 and 2 wait for it, and 3 does not.
        let store = graph(4, &[(0, 1), (0, 2), (0, 3), (1, 0), (2, 0)]);
        assert_eq!(store.sinks(), [[3]]);
        assert_eq!(store.nodes_waiting_for(&[3]), WaitingNodes { direct: vec![0], indirect: vec![1, 2] });
    }

    #[test]
    fn the_end_of_a_wait_is_the_node_that_waits_for_the_others() {
        let mut guessed = graph(4, &[(0, 1), (0, 2), (1, 2), (3, 1), (3, 0)]);
        guessed.remove_indirect_waits(0);
        assert_eq!(guessed.targets(0).collect::<Vec<_>>(), [1]);
        // A path to a node through the node itself is not a wait by another node.
        let mut store = graph(3, &[(0, 1), (0, 2), (1, 0)]);
        store.remove_indirect_waits(0);
        assert_eq!(store.targets(0).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn many_nodes_are_no_recursion() {
        let edges: Vec<(usize, usize)> = (1..100_000).map(|node| (node, node - 1)).collect();
        assert_eq!(graph(100_000, &edges).sinks(), [[0]]);
    }
}
