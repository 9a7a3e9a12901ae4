//! Capturing streams, and launching what they captured.

use super::boundary::{Out, get};
use super::copies::transfer;
use crate::abi::CUDA_GRAPH_INSTANTIATE_PARAMS;
use crate::engine::answer::{Answer, fail};
use crate::engine::graphs::Node;
use crate::engine::process;
use core::ffi::{c_char, c_void};
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

fn instantiate(out: Out<*mut c_void>, graph: u64, flags: u64) -> Answer {
    get(out, |driver| driver.instantiate(graph, flags))
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

    fn cuGraphDestroy | cuGraphExecDestroy(hGraph: *mut c_void) {
        process::enter()?.graphs.destroy(hGraph.address())
    }

    fn cuGraphInstantiate_v2(
        phGraphExec: *mut *mut c_void,
        hGraph: *mut c_void,
        _phErrorNode: *mut *mut c_void,
        _logBuffer: *mut c_char,
        _bufferSize: usize,
    ) {
        instantiate(phGraphExec, hGraph.address(), 0)
    }

    fn cuGraphInstantiateWithFlags(phGraphExec: *mut *mut c_void, hGraph: *mut c_void, flags: u64) {
        instantiate(phGraphExec, hGraph.address(), flags)
    }

    fn cuGraphInstantiateWithParams(
        phGraphExec: *mut *mut c_void,
        hGraph: *mut c_void,
        instantiateParams: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) {
        process::check()?;
        let params = instantiateParams.required()?.get().ok_or(Code::INVALID_VALUE)?;
        instantiate(phGraphExec, hGraph.address(), params.flags)?;
        // CUDA_GRAPH_INSTANTIATE_SUCCESS.
        instantiateParams.put(CUDA_GRAPH_INSTANTIATE_PARAMS { result_out: 0, ..params });
        Ok(())
    }

    fn cuGraphUpload(hGraphExec: *mut c_void, hStream: CUstream) {
        let driver = process::enter()?;
        driver.stream(hStream)?;
        driver.graphs.nodes(hGraphExec.address()).map(drop)
    }

    fn cuGraphLaunch(hGraphExec: *mut c_void, hStream: CUstream) {
        let nodes = {
            let driver = process::enter()?;
            driver.stream(hStream)?;
            driver.graphs.nodes(hGraphExec.address())?
        };
        for node in nodes {
            match node {
                Node::Transfer(lookup) => match transfer(Some(hStream), move |driver| lookup(driver)) {
                    // It was there when the graph was made. The device finds out that it is gone.
                    Err(failure) if failure.code == Code::INVALID_VALUE => {
                        let mut driver = process::enter()?;
                        let stream = driver.stream(hStream)?;
                        driver.fail_context(stream.context, Code::ILLEGAL_ADDRESS);
                        return Ok(());
                    }
                    done => done?,
                },
                Node::Call(call) => {
                    let mut driver = process::enter()?;
                    let stream = driver.stream(hStream)?;
                    driver.call(&stream, call)?;
                }
            }
        }
        Ok(())
    }
}
