//! Builds, instantiates, and destroys graphs.

use super::answer::{Answer, fail_if};
use super::driver::{Driver, Node};
use super::space::HandleKind;
use cupeer_spec::results::Result as Code;

/// All bits of `CU_GRAPH_INSTANTIATE_FLAG_*`.
const FLAGS: u64 = 0xf;
/// CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH and CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH, which
/// exclude each other.
const FREED_OR_ON_DEVICE: u64 = 5;

impl Driver {
    /// Creates a graph that consists of these nodes. Returns its handle.
    pub(crate) fn add_graph(&mut self, nodes: Vec<Node>) -> Answer<u64> {
        let handle = self.space.new_handle(HandleKind::Graph)?;
        self.graphs.graphs.insert(handle, Vec::new());
        for node in nodes {
            self.add_node(handle, node)?;
        }
        Ok(handle)
    }

    /// Adds a node at the end of a graph.
    pub(crate) fn add_node(&mut self, graph: u64, node: Node) -> Answer<u64> {
        self.graphs.nodes_of(graph)?;
        let handle = self.space.new_handle(HandleKind::Other)?;
        self.graphs.nodes.insert(handle, node);
        self.graphs.graphs.entry(graph).or_default().push(handle);
        Ok(handle)
    }

    /// Returns a copy of a graph for `cuGraphAddChildGraphNode`: later changes of the original have no effect
    /// on the copy.
    pub(crate) fn clone_graph(&mut self, graph: u64) -> Answer<u64> {
        let handles = self.graphs.nodes_of(graph)?.to_vec();
        let mut nodes = Vec::new();
        for handle in handles {
            nodes.push(match self.graphs.node(handle)?.clone() {
                Node::Graph(child) => Node::Graph(self.clone_graph(child)?),
                node => node,
            });
        }
        self.add_graph(nodes)
    }

    /// `cuGraphAddMemAllocNode`: returns a node with an address that is reserved, but has no memory until the
    /// graph runs.
    pub(crate) fn reserve_graph_allocation(&mut self, size: u64) -> Answer<Node> {
        let pool = self.memory.pools.current_pool(self.current_device()?);
        let address = self.allocate_from_pool(pool, size)?;
        self.remove_allocation(address);
        Ok(Node::Allocation(address, size))
    }

    /// `cuGraphInstantiate`: copies the nodes of the graph, so later changes of the graph have no effect.
    pub(crate) fn instantiate(&mut self, graph: u64, flags: u64) -> Answer<u64> {
        // A graph that the device launches cannot free memory at its launch.
        fail_if(flags & !FLAGS != 0 || flags & FREED_OR_ON_DEVICE == FREED_OR_ON_DEVICE, Code::INVALID_VALUE)?;
        let nodes = self.graphs.flatten_nodes(graph)?;
        let handle = self.space.new_handle(HandleKind::Executable)?;
        self.graphs.executables.insert(handle, nodes);
        Ok(handle)
    }

    /// `cuGraphDestroy`.
    pub(crate) fn destroy_graph(&mut self, graph: u64) -> Answer {
        self.graphs.destroy(graph)?;
        self.space.recycle_handle(HandleKind::Graph, graph);
        Ok(())
    }

    /// `cuGraphExecDestroy`.
    pub(crate) fn destroy_executable(&mut self, exec: u64) -> Answer {
        self.graphs.destroy_executable(exec)?;
        self.space.recycle_handle(HandleKind::Executable, exec);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::KernelNode;
    use super::*;
    use crate::engine::answer::fail;
    use cupeer_topology::Topology;

    #[test]
    fn an_executable_graph_takes_what_fits_and_keeps_it() {
        let mut driver = Driver::new(Topology::parse("nvlink:1").unwrap(), vec![0]);
        driver.create_context(0, 0).unwrap();
        let kernel = |function| Node::Kernel(KernelNode::new(function, [1; 3], [1; 3], vec![[function].into()]));
        let inner = driver.add_graph(vec![kernel(1)]).unwrap();
        let child = Node::Graph(driver.clone_graph(inner).unwrap());
        let outer = driver.add_graph(vec![child, kernel(2)]).unwrap();
        // A child graph is a copy.
        driver.add_node(inner, kernel(3)).unwrap();
        let exec = driver.instantiate(outer, 0).unwrap();
        let functions = |driver: &Driver| {
            let nodes = driver.graphs.enabled_nodes(exec).unwrap().into_iter();
            nodes
                .map(|node| if let Node::Kernel(kernel) = node { kernel.arguments()[0] } else { 0 })
                .collect::<Vec<u64>>()
        };
        assert_eq!(functions(&driver), [1, 2]);
        let other = driver.add_graph(vec![kernel(4), kernel(5)]).unwrap();
        assert_eq!(driver.graphs.update_executable(exec, other), Ok(true));
        let allocation = driver.reserve_graph_allocation(4096).unwrap();
        let Node::Allocation(address, 4096) = allocation else { panic!("no allocation") };
        driver.add_node(other, allocation).unwrap();
        assert_eq!(driver.graphs.update_executable(exec, other), Ok(false));
        assert!(
            driver.graphs.is_allocated_by_graph(address + 4095) && !driver.graphs.is_allocated_by_graph(address + 4096)
        );
        // Its nodes are those of the graph that it was made of.
        let (first, last) = (driver.graphs.nodes_of(outer).unwrap()[0], driver.graphs.nodes_of(outer).unwrap()[1]);
        assert_eq!(driver.graphs.replace_node(exec, first, kernel(6)), fail(Code::INVALID_VALUE));
        assert_eq!(driver.graphs.replace_node(exec, last, kernel(7)), Ok(()));
        for graph in [inner, outer, other] {
            driver.graphs.destroy(graph).unwrap();
        }
        assert_eq!((functions(&driver), driver.graphs.nodes.len()), (vec![4, 7], 0));
        assert_eq!(driver.graphs.destroy(exec), fail(Code::INVALID_VALUE));
        assert_eq!(driver.graphs.destroy_executable(exec), Ok(()));
    }
}
