//! Streams.

use super::boundary::{OutPointer, write_result, write_result_in_context};
use crate::abi::CUstreamAttrValue;
use crate::engine::answer::{Answer, fail_if};
use crate::engine::queue;
use crate::engine::{driver::Driver, process};
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// Writes the status and the number of the capture of a stream. The status is CU_STREAM_CAPTURE_STATUS_NONE
/// if the stream is not being captured.
fn write_capture_status(stream: u64, status: OutPointer<i32>, id: Option<OutPointer<u64>>) -> Answer {
    write_result(status, |driver| {
        let (status, number) = driver.graphs.capture_of(&driver.stream(stream)?).unwrap_or((0, 0));
        if let Some(id) = id {
            id.put(number);
        }
        Ok(status)
    })
}

forward! {
    cuStreamCreate(phStream: *mut CUstream, Flags: u32) =
        write_result_in_context(phStream, |driver| driver.create_stream(Flags, 0));
    cuStreamCreateWithPriority(phStream: *mut CUstream, flags: u32, priority: i32) =
        write_result_in_context(phStream, |driver| driver.create_stream(flags, priority));
    cuStreamDestroy | cuStreamDestroy_v2(hStream) = process::enter()?.destroy_stream(hStream);
    cuStreamGetPriority(hStream: CUstream, priority: *mut i32) =
        write_result(priority, |driver| Ok(driver.stream(hStream)?.priority));
    cuStreamGetFlags(hStream: CUstream, flags: *mut u32) =
        write_result(flags, |driver| Ok(driver.stream_unless_captured(hStream)?.flags));
    cuStreamGetId(hStream: CUstream, streamId: *mut u64) =
        write_result(streamId, |driver| Ok(driver.stream_unless_captured(hStream)?.id));
    cuStreamGetCtx(hStream: CUstream, pctx: *mut CUcontext) =
        write_result(pctx, |driver| Ok(driver.stream(hStream)?.context));
    cuStreamGetDevice(hStream: CUstream, device: *mut CUdevice) =
        write_result(device, |driver| Ok(driver.context(driver.stream(hStream)?.context)?.device));
    cuStreamIsCapturing(hStream: CUstream, captureStatus: *mut i32) = write_capture_status(hStream, captureStatus, None);
    cuStreamGetCaptureInfo(hStream: CUstream, captureStatus_out: *mut i32, id_out: *mut u64) =
        write_capture_status(hStream, captureStatus_out, Some(id_out));
    cuStreamGetAttribute(hStream: CUstream, attr: i32, value_out: *mut CUstreamAttrValue) =
        write_result(value_out, |driver| Ok(CUstreamAttrValue { bytes: driver.stream_attribute(hStream, attr)? }));
    cuStreamCopyAttributes(dst: CUstream, src: CUstream) = process::enter()?.copy_stream_attributes(dst, src);
}

entry! {
    fn cuStreamQuery | cuStreamQuery_ptsz(hStream) {
        let mut driver = process::enter()?;
        let stream = driver.stream_unless_captured(hStream)?;
        let pending = driver.pending_of_stream(&stream);
        fail_if(!driver.are_tasks_done(&pending), Code::NOT_READY)?;
        driver.check_context_not_failed(stream.context)
    }

    fn cuStreamSynchronize | cuStreamSynchronize_ptsz(hStream) {
        let mut context = 0;
        let first = |driver: &mut Driver| {
            let stream = driver.stream_unless_captured(hStream)?;
            context = stream.context;
            Ok(driver.pending_of_stream(&stream))
        };
        queue::lock_when_done(first)?.check_context_not_failed(context)
    }

    fn cuStreamWaitEvent | cuStreamWaitEvent_ptsz(hStream, hEvent, Flags) {
        let mut driver = process::enter()?;
        fail_if(Flags > 1, Code::INVALID_VALUE)?;
        let stream = driver.stream(hStream)?;
        driver.events.get(hEvent)?;
        if driver.graphs.join_capture(&stream, hEvent) {
            return Ok(());
        }
        for number in driver.tasks_before_event(hEvent)? {
            driver.follow_task(&stream, number);
        }
        Ok(())
    }

    fn cuStreamGetCaptureInfo_v2(
        hStream: CUstream,
        captureStatus_out: *mut i32,
        id_out: *mut u64,
        _graph_out: *mut c_void,
        _dependencies_out: *mut c_void,
        _numDependencies_out: *mut usize,
    ) {
        write_capture_status(hStream, captureStatus_out, Some(id_out))
    }

    fn cuStreamGetCaptureInfo_v3(
        hStream: CUstream,
        captureStatus_out: *mut i32,
        id_out: *mut u64,
        _graph_out: *mut c_void,
        _dependencies_out: *mut c_void,
        _edgeData_out: *mut c_void,
        _numDependencies_out: *mut usize,
    ) {
        write_capture_status(hStream, captureStatus_out, Some(id_out))
    }

    fn cuStreamSetAttribute(hStream: CUstream, attr: i32, value: *const CUstreamAttrValue) {
        let mut driver = process::enter()?;
        driver.set_stream_attribute(hStream, attr, value.required()?.bytes)
    }

    fn cuStreamAttachMemAsync(hStream: CUstream, dptr: CUdeviceptr, length: usize, _flags: u32) {
        let mut driver = process::enter()?;
        driver.stream(hStream)?;
        let (base, size) = driver.address_range(dptr)?;
        // A length of 0 stands for the rest of the allocation.
        let count = if length == 0 { size - (dptr - base) } else { length as u64 };
        driver.advice_at(dptr, count).map(drop)
    }
}
