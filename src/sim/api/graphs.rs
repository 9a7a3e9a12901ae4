//! Stream capture, and graphs: their nodes, and their launch.

use super::boundary::{Argument, InPointer, OutPointer, with_stream, write_result};
use super::copies::{look_up_transfer, run_transfer_as};
use super::modules::{launch_read_kernel, read_launch};
use crate::abi::CUDA_GRAPH_INSTANTIATE_PARAMS;
use crate::engine::answer::{Answer, fail, fail_if};
use crate::engine::copies::CopyMode;
use crate::engine::driver::{Driver, Node, RowEnd, TransferParameters};
use crate::engine::process;
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

fn instantiate_graph(out: OutPointer<CUgraphExec>, graph: u64, flags: u64) -> Answer {
    write_result(out, |driver| {
        check_nodes(driver, graph)?;
        driver.instantiate(graph, flags)
    })
}

/// Fails if a copy or a memset in a graph uses freed memory, and the machine refuses such graphs.
fn check_nodes(driver: &Driver, graph: u64) -> Answer {
    if driver.machine.checks_graphs {
        driver.graphs.flatten_nodes(graph)?.iter().try_for_each(|(_, node)| match node {
            Node::Transfer(what) => check_memory(driver, *what),
            _ => Ok(()),
        })?;
    }
    Ok(())
}

/// Fails if the memory of a copy or a memset does not exist now, and no graph allocates it when it runs.
fn check_memory(driver: &Driver, what: TransferParameters) -> Answer {
    let addresses = match what {
        TransferParameters::Copy(copy) => [copy.src.Device, copy.dst.Device],
        TransferParameters::Fill(fill) => [fill.dst.0; 2],
        TransferParameters::Row(to, from, _) => [to, from].map(|end| if let RowEnd::At(at, _) = end { at } else { 0 }),
    };
    if !addresses.iter().any(|address| driver.graphs.is_allocated_by_graph(*address)) {
        look_up_transfer(driver, what)?;
    }
    Ok(())
}

/// Adds a node to a graph, after the nodes on which it depends.
fn add(
    out: OutPointer<CUgraphNode>,
    graph: u64,
    (before, count): (InPointer<CUgraphNode>, usize),
    node: impl FnOnce(&mut Driver) -> Answer<Node>,
) -> Answer {
    write_result(out, |driver| {
        let before = if count == 0 { Vec::new() } else { before.elements(count)? };
        let nodes = driver.graphs.nodes_of(graph)?;
        fail_if(!before.iter().all(|node| nodes.contains(&(node.0 as u64))), Code::INVALID_VALUE)?;
        let node = node(driver)?;
        driver.add_node(graph, node)
    })
}

/// Replaces the parameters of a node of an executable graph.
fn replace_node(exec: u64, node: u64, new: impl FnOnce(&Driver) -> Answer<Node>) -> Answer {
    let mut driver = process::enter()?;
    let new = new(&driver)?;
    driver.graphs.replace_node(exec, node, new)
}

/// Returns a pointer to a structure that arrives as an address.
///
/// # Safety
///
/// The address is null, or that of a `T` which lives as long as the call.
unsafe fn structure_at<T>(address: u64) -> InPointer<T> {
    // SAFETY: the caller promises what `receive` asks.
    unsafe { (address as *const T).receive() }
}

/// Returns the node of a copy whose memory exists, or will when the graph runs.
fn make_copy_node(driver: &Driver, parameters: InPointer<CUDA_MEMCPY3D_v2>) -> Answer<Node> {
    let what = TransferParameters::Copy(parameters.required()?);
    check_memory(driver, what).map(|()| Node::Transfer(what))
}

/// Returns the node of a memset whose memory exists, or will when the graph runs.
fn make_memset_node(driver: &Driver, parameters: InPointer<CUDA_MEMSET_NODE_PARAMS>) -> Answer<Node> {
    let what = TransferParameters::Fill(parameters.required()?);
    check_memory(driver, what).map(|()| Node::Transfer(what))
}

/// Returns the node for a launch. The parameters are the words of `CUDA_KERNEL_NODE_PARAMS` that CUDA 10
/// already had.
fn make_kernel_node(driver: &Driver, parameters: InPointer<[u64; 7]>) -> Answer<Node> {
    let words = parameters.required()?;
    let halves = |word: u64| [word as u32, (word >> 32) as u32];
    let ([a, b], [c, d], [e, f]) = (halves(words[1]), halves(words[2]), halves(words[3]));
    read_launch(driver, words[0], ([a, b, c], [d, e, f]), (words[5], words[6])).map(Node::Kernel)
}

/// Returns the words of `CUDA_KERNEL_NODE_PARAMS` for a node.
fn kernel_node_params(driver: &Driver, node: u64) -> Answer<[u64; 9]> {
    let Node::Kernel(kernel) = driver.graphs.node(node)? else { return fail(Code::INVALID_VALUE) };
    let ([a, b, c], [d, e, f]) = (kernel.grid, kernel.block);
    let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    Ok([kernel.function, word(a, b), word(c, d), word(e, f), 0, kernel.parameters_address() as u64, 0, 0, 0])
}

/// Updates an executable graph. If the graph has other nodes, the outcome is
/// CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED; if it uses freed memory,
/// CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED.
fn update_executable(exec: u64, graph: u64, result: u64) -> Answer {
    let mut driver = process::enter()?;
    driver.graphs.nodes_of(graph)?;
    let outcome = match check_nodes(&driver, graph) {
        Err(_) => 5,
        Ok(()) if driver.graphs.update_executable(exec, graph)? => 0,
        Ok(()) => 2,
    };
    let place = result as *mut i32;
    fail_if(place.is_null(), Code::INVALID_VALUE)?;
    // SAFETY: not null, and the caller of the C function promises that a result can be written there.
    unsafe { place.write_unaligned(outcome) };
    if outcome == 0 { Ok(()) } else { fail(Code::GRAPH_EXEC_UPDATE_FAILURE) }
}

/// Defines the functions that add a node to a graph, each by its arguments after the four that all of them
/// have.
macro_rules! additions {
    ($($name:ident $(| $same:ident)* ($($arg:ident: $type:ty),*) = $node:expr;)*) => {
        entry! {$(
            fn $name $(| $same)* (
                phGraphNode: *mut CUgraphNode,
                hGraph: CUgraph,
                dependencies: *const CUgraphNode,
                numDependencies: usize,
                $($arg: $type),*
            ) {
                add(phGraphNode, hGraph, (dependencies, numDependencies), $node)
            }
        )*}
    };
}
additions! {
    cuGraphAddMemcpyNode(copyParams: *const CUDA_MEMCPY3D_v2, ctx: CUcontext) =
        |driver| driver.context_or_current(ctx).and_then(|_| make_copy_node(driver, copyParams));
    cuGraphAddMemsetNode(memsetParams: *const CUDA_MEMSET_NODE_PARAMS, ctx: CUcontext) =
        |driver| driver.context_or_current(ctx).and_then(|_| make_memset_node(driver, memsetParams));
    cuGraphAddKernelNode | cuGraphAddKernelNode_v2(nodeParams: *const [u64; 7]) =
        |driver| make_kernel_node(driver, nodeParams);
    cuGraphAddChildGraphNode(childGraph: CUgraph) = |driver| driver.clone_graph(childGraph).map(Node::Graph);
}

forward! {
    /// In every mode, a capture here allows all calls of other threads.
    cuStreamBeginCapture_v2(hStream: CUstream, mode: i32) =
        with_stream(hStream, |driver, stream| driver.graphs.begin_capture(stream, mode));
    cuGraphDestroy(hGraph: *mut c_void) = process::enter()?.destroy_graph(hGraph.address());
    cuGraphExecDestroy(hGraphExec) = process::enter()?.destroy_executable(hGraphExec);
    cuGraphNodeGetType(hNode: CUgraphNode, kind: *mut CUgraphNodeType) =
        write_result(kind, |driver| driver.graphs.node(hNode).map(Node::kind));
    /// Before CUDA 12, the structure was shorter.
    cuGraphKernelNodeGetParams(hNode: CUgraphNode, nodeParams: *mut [u64; 7]) =
        write_result(nodeParams, |driver| Ok(*kernel_node_params(driver, hNode)?.first_chunk().ok_or(Code::UNKNOWN)?));
    cuGraphKernelNodeGetParams_v2(hNode: CUgraphNode, nodeParams: *mut [u64; 9]) =
        write_result(nodeParams, |driver| kernel_node_params(driver, hNode));
    cuGraphInstantiate | cuGraphInstantiate_v2(phGraphExec, hGraph, _phErrorNode, _logBuffer, _bufferSize) =
        instantiate_graph(phGraphExec, hGraph, 0);
    cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags) = instantiate_graph(phGraphExec, hGraph, flags);
    cuGraphExecUpdate(hGraphExec, hGraph, _hErrorNode_out, updateResult_out) =
        update_executable(hGraphExec, hGraph, updateResult_out);
    /// The result is the first member of the structure.
    cuGraphExecUpdate_v2(hGraphExec, hGraph, resultInfo) = update_executable(hGraphExec, hGraph, resultInfo);
    cuGraphExecMemcpyNodeSetParams(hGraphExec, hNode, copyParams, ctx) =
        replace_node(hGraphExec, hNode, |driver| {
            driver.context_or_current(ctx)?;
            // SAFETY: the caller of the C function promises that it is such a structure, or null.
            make_copy_node(driver, unsafe { structure_at(copyParams) })
        });
    cuGraphExecMemsetNodeSetParams(hGraphExec, hNode, memsetParams, ctx) =
        replace_node(hGraphExec, hNode, |driver| {
            driver.context_or_current(ctx)?;
            // SAFETY: the caller of the C function promises that it is such a structure, or null.
            make_memset_node(driver, unsafe { structure_at(memsetParams) })
        });
    cuGraphExecKernelNodeSetParams | cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, nodeParams) =
        // SAFETY: the caller of the C function promises that it is such a structure, or null.
        replace_node(hGraphExec, hNode, |driver| make_kernel_node(driver, unsafe { structure_at(nodeParams) }));
    cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled) =
        process::enter()?.graphs.set_node_enabled(hGraphExec, hNode, isEnabled != 0);
    cuGraphMemcpyNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_MEMCPY3D_v2) =
        write_result(nodeParams, |driver| match driver.graphs.node(hNode)? {
            Node::Transfer(TransferParameters::Copy(copy)) => Ok(*copy),
            Node::Transfer(TransferParameters::Row(to, from, length)) => Ok(CUDA_MEMCPY3D {
                src: (*from).into(),
                dst: (*to).into(),
                WidthInBytes: *length,
                Height: 1,
                Depth: 1,
            }),
            _ => fail(Code::INVALID_VALUE),
        });
    cuGraphMemsetNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_MEMSET_NODE_PARAMS) =
        write_result(nodeParams, |driver| match driver.graphs.node(hNode)? {
            Node::Transfer(TransferParameters::Fill(fill)) => Ok(*fill),
            _ => fail(Code::INVALID_VALUE),
        });
    cuGraphChildGraphNodeGetGraph(hNode: CUgraphNode, phGraph: *mut CUgraph) =
        write_result(phGraph, |driver| match driver.graphs.node(hNode)? {
            Node::Graph(graph) => Ok(*graph),
            _ => fail(Code::INVALID_VALUE),
        });
    /// The structure begins with the type and three numbers. For a copy, flags and the context follow first.
    cuGraphExecNodeSetParams(hGraphExec, hNode, nodeParams) = replace_node(hGraphExec, hNode, |driver| {
        fail_if(nodeParams == 0, Code::INVALID_VALUE)?;
        let content = nodeParams + 16;
        // SAFETY: not null, and the caller of the C function promises a structure whose type tells its content.
        unsafe {
            match (nodeParams as *const CUgraphNodeType).read_unaligned() {
                CUgraphNodeType::KERNEL => make_kernel_node(driver, structure_at(content)),
                CUgraphNodeType::MEMCPY => make_copy_node(driver, structure_at(content + 16)),
                CUgraphNodeType::MEMSET => make_memset_node(driver, structure_at(content)),
                _ => fail(Code::NOT_SUPPORTED),
            }
        }
    });
}

entry! {
    fn cuStreamEndCapture(hStream: CUstream, phGraph: *mut *mut c_void) {
        let mut driver = process::enter()?;
        let out = phGraph.required()?;
        let stream = driver.stream(hStream)?;
        out.put(0);
        let nodes = driver.graphs.end_capture(&stream)?;
        out.put(driver.add_graph(nodes)?);
        Ok(())
    }

    fn cuGraphCreate(phGraph: *mut *mut c_void, flags: u32) {
        write_result(phGraph, |driver| if flags == 0 { driver.add_graph(Vec::new()) } else { fail(Code::INVALID_VALUE) })
    }

    /// With a null array, returns only the number of nodes.
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

    /// The properties of the allocation are not stored, so the fields for them keep the values of the caller.
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
            let node = driver.reserve_graph_allocation(before.bytesize as u64)?;
            if let Node::Allocation(at, _) = node {
                address = at;
            }
            Ok(node)
        })?;
        nodeParams.put(CUDA_MEM_ALLOC_NODE_PARAMS { dptr: CUdeviceptr(address), ..before });
        Ok(())
    }

    fn cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz(
        phGraphExec, hGraph, instantiateParams,
    ) {
        process::check_can_enter()?;
        let place = instantiateParams as *mut CUDA_GRAPH_INSTANTIATE_PARAMS;
        // SAFETY: the caller of the C function promises that it is such a structure, or null.
        let params = unsafe { place.as_mut() }.ok_or(Code::INVALID_VALUE)?;
        instantiate_graph(phGraphExec, hGraph, params.flags)?;
        // CUDA_GRAPH_INSTANTIATE_SUCCESS.
        params.result_out = 0;
        Ok(())
    }

    fn cuGraphExecChildGraphNodeSetParams(hGraphExec, hNode, childGraph) {
        let mut driver = process::enter()?;
        // As recorded, this failure has the result code of a failed update.
        fail_if(check_nodes(&driver, childGraph).is_err(), Code::GRAPH_EXEC_UPDATE_FAILURE)?;
        driver.graphs.replace_child(hGraphExec, hNode, childGraph)
    }

    fn cuGraphUpload(hGraphExec: *mut c_void, hStream: CUstream) {
        let driver = process::enter()?;
        driver.stream(hStream)?;
        driver.graphs.enabled_nodes(hGraphExec.address()).map(drop)
    }

    fn cuGraphLaunch | cuGraphLaunch_ptsz(hGraphExec, hStream) {
        let nodes = {
            let driver = process::enter()?;
            driver.stream(hStream)?;
            driver.graphs.enabled_nodes(hGraphExec)?
        };
        for node in nodes {
            match node {
                Node::Transfer(what) => match run_transfer_as(CopyMode::InGraph, Some(hStream), what) {
                    // The memory was freed after the graph was created, which only the device notices.
                    Err(failure) if failure.code == Code::INVALID_VALUE => {
                        let mut driver = process::enter()?;
                        let stream = driver.stream(hStream)?;
                        driver.mark_context_failed(stream.context, Code::ILLEGAL_ADDRESS);
                        return Ok(());
                    }
                    done => done?,
                },
                node => {
                    let mut driver = process::enter()?;
                    let stream = driver.stream(hStream)?;
                    match node {
                        Node::Call(call) => driver.call_in_order(&stream, call)?,
                        Node::Kernel(kernel) if driver.graphs.add_to_capture(&stream, || Node::Kernel(kernel.clone()))? => {}
                        Node::Kernel(kernel) => launch_read_kernel(&mut driver, &stream, &kernel)?,
                        _ => return fail(Code::NOT_SUPPORTED),
                    }
                }
            }
        }
        Ok(())
    }
}
