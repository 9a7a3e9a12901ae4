//! Capturing streams, and graphs: what is in them, and launching them.

use super::boundary::{Argument, In, Out, get};
use super::copies::{lookup, transfer_as};
use super::modules::{kernel_of, replay};
use crate::abi::CUDA_GRAPH_INSTANTIATE_PARAMS;
use crate::engine::answer::{Answer, fail};
use crate::engine::copies::Form;
use crate::engine::driver::{Driver, End, Node, Parameters};
use crate::engine::process;
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

fn instantiate(out: Out<CUgraphExec>, graph: u64, flags: u64) -> Answer {
    get(out, |driver| {
        check_nodes(driver, graph)?;
        driver.instantiate(graph, flags)
    })
}

/// Fails if the machine refuses graphs that use memory that is gone, and this one does.
fn check_nodes(driver: &Driver, graph: u64) -> Answer {
    if driver.machine.checks_graphs() {
        driver.graphs.all_of(graph)?.iter().try_for_each(|(_, node)| match node {
            Node::Transfer(what) => check_memory(driver, *what),
            _ => Ok(()),
        })?;
    }
    Ok(())
}

/// Fails if memory of a copy or a memset is not there, and will not be when the graph runs.
fn check_memory(driver: &Driver, what: Parameters) -> Answer {
    let addresses = match what {
        Parameters::Copy(copy) => [copy.src.Device, copy.dst.Device],
        Parameters::Fill(fill) => [fill.dst.0; 2],
        Parameters::Row(to, from, _) => [to, from].map(|end| if let End::At(at, _) = end { at } else { 0 }),
    };
    if !addresses.iter().any(|address| driver.graphs.allocates(*address)) {
        lookup(driver, what)?;
    }
    Ok(())
}

/// Adds a node to a graph, behind what it depends on.
fn add(
    out: Out<CUgraphNode>,
    graph: u64,
    (before, count): (In<CUgraphNode>, usize),
    node: impl FnOnce(&mut Driver) -> Answer<Node>,
) -> Answer {
    get(out, |driver| {
        let before = if count == 0 { Vec::new() } else { before.elements(count)? };
        let nodes = driver.graphs.nodes_of(graph)?;
        if !before.iter().all(|node| nodes.contains(&(node.0 as u64))) {
            return fail(Code::INVALID_VALUE);
        }
        let node = node(driver)?;
        driver.add_node(graph, node)
    })
}

/// A copy whose memory is there, or will be when the graph runs.
fn copy_node(driver: &Driver, parameters: In<CUDA_MEMCPY3D_v2>) -> Answer<Node> {
    let what = Parameters::Copy(parameters.required()?);
    check_memory(driver, what).map(|()| Node::Transfer(what))
}

fn fill_node(driver: &Driver, parameters: In<CUDA_MEMSET_NODE_PARAMS>) -> Answer<Node> {
    let what = Parameters::Fill(parameters.required()?);
    check_memory(driver, what).map(|()| Node::Transfer(what))
}

/// A launch by the words of `CUDA_KERNEL_NODE_PARAMS`, as far as CUDA 10 has them.
fn kernel_node(driver: &Driver, parameters: In<[u64; 7]>) -> Answer<Node> {
    let words = parameters.required()?;
    let halves = |word: u64| [word as u32, (word >> 32) as u32];
    let ([a, b], [c, d], [e, f]) = (halves(words[1]), halves(words[2]), halves(words[3]));
    kernel_of(driver, words[0], ([a, b, c], [d, e, f]), (words[5], words[6])).map(Node::Kernel)
}

/// The words of `CUDA_KERNEL_NODE_PARAMS` of a node.
fn kernel_params(driver: &Driver, node: u64) -> Answer<[u64; 9]> {
    let Node::Kernel(kernel) = driver.graphs.node(node)? else { return fail(Code::INVALID_VALUE) };
    let ([a, b, c], [d, e, f]) = (kernel.grid, kernel.block);
    let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    Ok([kernel.function, word(a, b), word(c, d), word(e, f), 0, kernel.parameters() as u64, 0, 0, 0])
}

/// CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED is told where nodes are others, and PARAMETERS_CHANGED where memory is gone.
fn update(exec: u64, graph: u64, result: u64) -> Answer {
    let mut driver = process::enter()?;
    driver.graphs.nodes_of(graph)?;
    let outcome = match check_nodes(&driver, graph) {
        Err(_) => 5,
        Ok(()) if driver.graphs.update(exec, graph)? => 0,
        Ok(()) => 2,
    };
    let place = result as *mut i32;
    if place.is_null() {
        return fail(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller of the C function promises that a result can be written there.
    unsafe { place.write_unaligned(outcome) };
    if outcome == 0 { Ok(()) } else { fail(Code::GRAPH_EXEC_UPDATE_FAILURE) }
}

entry! {
    /// The mode says which calls of other threads are refused meanwhile: none is here.
    fn cuStreamBeginCapture_v2(hStream: CUstream, mode: i32) {
        let mut driver = process::enter()?;
        let stream = driver.stream(hStream)?;
        driver.graphs.begin(&stream, mode)
    }

    fn cuStreamEndCapture(hStream: CUstream, phGraph: *mut *mut c_void) {
        let mut driver = process::enter()?;
        let out = phGraph.required()?;
        let stream = driver.stream(hStream)?;
        out.put(0);
        let nodes = driver.graphs.end(&stream)?;
        out.put(driver.add_graph(nodes)?);
        Ok(())
    }

    fn cuGraphCreate(phGraph: *mut *mut c_void, flags: u32) {
        get(phGraph, |driver| if flags == 0 { driver.add_graph(Vec::new()) } else { fail(Code::INVALID_VALUE) })
    }

    fn cuGraphDestroy(hGraph: *mut c_void) {
        process::enter()?.destroy_graph(hGraph.address())
    }

    fn cuGraphExecDestroy(hGraphExec: CUgraphExec) {
        process::enter()?.destroy_executable(hGraphExec)
    }

    /// Without an array, their number.
    fn cuGraphGetNodes(hGraph: CUgraph, nodes: *mut CUgraphNode, numNodes: *mut usize) {
        let driver = process::enter()?;
        let room = numNodes.required()?.get().unwrap_or(0);
        let all = driver.graphs.nodes_of(hGraph)?;
        if nodes.address() == 0 {
            numNodes.put(all.len());
            return Ok(());
        }
        for index in 0..room {
            nodes.put_at(index, all.get(index).copied().unwrap_or(0));
        }
        numNodes.put(room.min(all.len()));
        Ok(())
    }

    fn cuGraphNodeGetType(hNode: CUgraphNode, kind: *mut CUgraphNodeType) {
        get(kind, |driver| driver.graphs.node(hNode).map(Node::kind))
    }

    fn cuGraphMemcpyNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_MEMCPY3D_v2) {
        get(nodeParams, |driver| match driver.graphs.node(hNode)? {
            Node::Transfer(Parameters::Copy(copy)) => Ok(*copy),
            Node::Transfer(Parameters::Row(to, from, length)) => Ok(CUDA_MEMCPY3D {
                src: (*from).into(),
                dst: (*to).into(),
                WidthInBytes: *length,
                Height: 1,
                Depth: 1,
            }),
            _ => fail(Code::INVALID_VALUE),
        })
    }

    fn cuGraphMemsetNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_MEMSET_NODE_PARAMS) {
        get(nodeParams, |driver| match driver.graphs.node(hNode)? {
            Node::Transfer(Parameters::Fill(fill)) => Ok(*fill),
            _ => fail(Code::INVALID_VALUE),
        })
    }

    /// The form before CUDA 12 ends earlier.
    fn cuGraphKernelNodeGetParams(hNode: CUgraphNode, nodeParams: *mut [u64; 7]) {
        get(nodeParams, |driver| Ok(*kernel_params(driver, hNode)?.first_chunk().ok_or(Code::UNKNOWN)?))
    }

    fn cuGraphKernelNodeGetParams_v2(hNode: CUgraphNode, nodeParams: *mut [u64; 9]) {
        get(nodeParams, |driver| kernel_params(driver, hNode))
    }

    fn cuGraphChildGraphNodeGetGraph(hNode: CUgraphNode, phGraph: *mut CUgraph) {
        get(phGraph, |driver| match driver.graphs.node(hNode)? {
            Node::Graph(graph) => Ok(*graph),
            _ => fail(Code::INVALID_VALUE),
        })
    }

    /// Of the properties, nothing is kept.
    fn cuGraphMemAllocNodeGetParams(hNode: CUgraphNode, params_out: *mut CUDA_MEM_ALLOC_NODE_PARAMS) {
        let driver = process::enter()?;
        let Node::Allocation(address, bytes) = *driver.graphs.node(hNode)? else {
            return fail(Code::INVALID_VALUE);
        };
        let before = params_out.required()?.get().ok_or(Code::INVALID_VALUE)?;
        let (dptr, bytesize) = (CUdeviceptr(address), bytes as usize);
        params_out.put(CUDA_MEM_ALLOC_NODE_PARAMS { dptr, bytesize, ..before });
        Ok(())
    }

    fn cuGraphAddMemcpyNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        copyParams: *const CUDA_MEMCPY3D_v2,
        ctx: CUcontext,
    ) {
        add(phGraphNode, hGraph, (dependencies, numDependencies), |driver| {
            driver.context_or_current(ctx)?;
            copy_node(driver, copyParams)
        })
    }

    fn cuGraphAddMemsetNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        memsetParams: *const CUDA_MEMSET_NODE_PARAMS,
        ctx: CUcontext,
    ) {
        add(phGraphNode, hGraph, (dependencies, numDependencies), |driver| {
            driver.context_or_current(ctx)?;
            fill_node(driver, memsetParams)
        })
    }

    fn cuGraphAddKernelNode | cuGraphAddKernelNode_v2(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        nodeParams: *const [u64; 7],
    ) {
        add(phGraphNode, hGraph, (dependencies, numDependencies), |driver| kernel_node(driver, nodeParams))
    }

    fn cuGraphAddChildGraphNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        childGraph: CUgraph,
    ) {
        add(phGraphNode, hGraph, (dependencies, numDependencies), |driver| {
            driver.clone_graph(childGraph).map(Node::Graph)
        })
    }

    fn cuGraphAddMemAllocNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        nodeParams: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
    ) {
        let before = nodeParams.required()?.get().ok_or(Code::INVALID_VALUE)?;
        let mut address = 0;
        add(phGraphNode, hGraph, (dependencies, numDependencies), |driver| {
            let node = driver.graph_allocation(before.bytesize as u64)?;
            if let Node::Allocation(at, _) = node {
                address = at;
            }
            Ok(node)
        })?;
        nodeParams.put(CUDA_MEM_ALLOC_NODE_PARAMS { dptr: CUdeviceptr(address), ..before });
        Ok(())
    }

    fn cuGraphInstantiate | cuGraphInstantiate_v2(
        phGraphExec: *mut CUgraphExec,
        hGraph: CUgraph,
        _phErrorNode: HostAddress,
        _logBuffer: HostAddress,
        _bufferSize: usize,
    ) {
        instantiate(phGraphExec, hGraph, 0)
    }

    fn cuGraphInstantiateWithFlags(phGraphExec: *mut CUgraphExec, hGraph: CUgraph, flags: u64) {
        instantiate(phGraphExec, hGraph, flags)
    }

    fn cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz(
        phGraphExec: *mut CUgraphExec,
        hGraph: CUgraph,
        instantiateParams: HostAddress,
    ) {
        process::check()?;
        let place = instantiateParams as *mut CUDA_GRAPH_INSTANTIATE_PARAMS;
        // SAFETY: the caller of the C function promises that it is such a structure, or null.
        let params = unsafe { place.as_mut() }.ok_or(Code::INVALID_VALUE)?;
        instantiate(phGraphExec, hGraph, params.flags)?;
        // CUDA_GRAPH_INSTANTIATE_SUCCESS.
        params.result_out = 0;
        Ok(())
    }

    fn cuGraphExecUpdate(
        hGraphExec: CUgraphExec,
        hGraph: CUgraph,
        _hErrorNode_out: HostAddress,
        updateResult_out: HostAddress,
    ) {
        update(hGraphExec, hGraph, updateResult_out)
    }

    /// The result is the first member of the structure.
    fn cuGraphExecUpdate_v2(hGraphExec: CUgraphExec, hGraph: CUgraph, resultInfo: HostAddress) {
        update(hGraphExec, hGraph, resultInfo)
    }

    fn cuGraphExecMemcpyNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        copyParams: HostAddress,
        ctx: CUcontext,
    ) {
        let mut driver = process::enter()?;
        driver.context_or_current(ctx)?;
        // SAFETY: the caller of the C function promises that it is such a structure, or null.
        let node = copy_node(&driver, unsafe { (copyParams as *const CUDA_MEMCPY3D_v2).receive() })?;
        driver.graphs.alter(hGraphExec, hNode, node)
    }

    fn cuGraphExecMemsetNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        memsetParams: HostAddress,
        ctx: CUcontext,
    ) {
        let mut driver = process::enter()?;
        driver.context_or_current(ctx)?;
        // SAFETY: the caller of the C function promises that it is such a structure, or null.
        let node =
            fill_node(&driver, unsafe { (memsetParams as *const CUDA_MEMSET_NODE_PARAMS).receive() })?;
        driver.graphs.alter(hGraphExec, hNode, node)
    }

    fn cuGraphExecKernelNodeSetParams | cuGraphExecKernelNodeSetParams_v2(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        nodeParams: HostAddress,
    ) {
        let mut driver = process::enter()?;
        // SAFETY: the caller of the C function promises that it is such a structure, or null.
        let node = kernel_node(&driver, unsafe { (nodeParams as *const [u64; 7]).receive() })?;
        driver.graphs.alter(hGraphExec, hNode, node)
    }

    fn cuGraphExecChildGraphNodeSetParams(hGraphExec: CUgraphExec, hNode: CUgraphNode, childGraph: CUgraph) {
        let mut driver = process::enter()?;
        // As recorded, a refusal is one of an update.
        if check_nodes(&driver, childGraph).is_err() {
            return fail(Code::GRAPH_EXEC_UPDATE_FAILURE);
        }
        driver.graphs.alter_child(hGraphExec, hNode, childGraph)
    }

    /// The structure begins with the type and three numbers; of a copy, flags and the context come before what it copies.
    fn cuGraphExecNodeSetParams(hGraphExec: CUgraphExec, hNode: CUgraphNode, nodeParams: HostAddress) {
        let mut driver = process::enter()?;
        if nodeParams == 0 {
            return fail(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller of the C function promises such a structure, whose type says what is in it.
        let node = unsafe {
            let kind = (nodeParams as *const CUgraphNodeType).read_unaligned();
            let at = |distance: u64| (nodeParams + 16 + distance) as *const c_void;
            match kind {
                CUgraphNodeType::KERNEL => kernel_node(&driver, at(0).cast::<[u64; 7]>().receive()),
                CUgraphNodeType::MEMCPY => copy_node(&driver, at(16).cast::<CUDA_MEMCPY3D_v2>().receive()),
                CUgraphNodeType::MEMSET => {
                    fill_node(&driver, at(0).cast::<CUDA_MEMSET_NODE_PARAMS>().receive())
                }
                _ => fail(Code::NOT_SUPPORTED),
            }
        }?;
        driver.graphs.alter(hGraphExec, hNode, node)
    }

    fn cuGraphNodeSetEnabled(hGraphExec: CUgraphExec, hNode: CUgraphNode, isEnabled: u32) {
        process::enter()?.graphs.enable(hGraphExec, hNode, isEnabled != 0)
    }

    fn cuGraphUpload(hGraphExec: *mut c_void, hStream: CUstream) {
        let driver = process::enter()?;
        driver.stream(hStream)?;
        driver.graphs.executable(hGraphExec.address()).map(drop)
    }

    fn cuGraphLaunch | cuGraphLaunch_ptsz(hGraphExec: CUgraphExec, hStream: CUstream) {
        let nodes = {
            let driver = process::enter()?;
            driver.stream(hStream)?;
            driver.graphs.executable(hGraphExec)?
        };
        for node in nodes {
            match node {
                Node::Transfer(what) => match transfer_as(Form::InGraph, Some(hStream), what) {
                    // It was there when the graph was made. The device finds out that it is gone.
                    Err(failure) if failure.code == Code::INVALID_VALUE => {
                        let mut driver = process::enter()?;
                        let stream = driver.stream(hStream)?;
                        driver.fail_context(stream.context, Code::ILLEGAL_ADDRESS);
                        return Ok(());
                    }
                    done => done?,
                },
                Node::Kernel(kernel) => {
                    let mut driver = process::enter()?;
                    let stream = driver.stream(hStream)?;
                    if !driver.graphs.take(&stream, || Node::Kernel(kernel.clone()))? {
                        replay(&mut driver, &stream, &kernel)?;
                    }
                }
                Node::Call(call) => {
                    let mut driver = process::enter()?;
                    let stream = driver.stream(hStream)?;
                    driver.call(&stream, call)?;
                }
                Node::Graph(_) | Node::Allocation(..) => return fail(Code::NOT_SUPPORTED),
            }
        }
        Ok(())
    }
}
