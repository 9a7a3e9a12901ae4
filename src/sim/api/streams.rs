//! Streams.

use super::boundary::{Out, context_handle, stream_handle};
use crate::abi::CUstreamAttrValue;
use crate::engine::answer::{Answer, fail};
use crate::engine::{process, queue};
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// What a stream captures: without it, CU_STREAM_CAPTURE_STATUS_NONE.
fn capture(stream: u64, status: Out<i32>, id: Out<u64>) -> Answer {
    let driver = process::enter()?;
    let status = status.required()?;
    let found = driver.graphs.of(&driver.stream(stream)?).unwrap_or((0, 0));
    status.put(found.0);
    id.put(found.1);
    Ok(())
}

entry! {
    fn cuStreamCreate(phStream: *mut CUstream, Flags: u32) {
        let mut driver = process::enter()?;
        driver.current()?;
        let out = phStream.required()?;
        out.put(stream_handle(driver.create_stream(Flags, 0)?));
        Ok(())
    }

    fn cuStreamCreateWithPriority(phStream: *mut CUstream, flags: u32, priority: i32) {
        let mut driver = process::enter()?;
        driver.current()?;
        let out = phStream.required()?;
        out.put(stream_handle(driver.create_stream(flags, priority)?));
        Ok(())
    }

    fn cuStreamDestroy_v2(hStream: CUstream) {
        process::enter()?.destroy_stream(hStream)
    }

    fn cuStreamQuery(hStream: CUstream) {
        let mut driver = process::enter()?;
        let stream = driver.stream(hStream)?;
        driver.graphs.check_stream(&stream)?;
        driver.pending(&stream).map_or(Ok(()), |_| fail(Code::NOT_READY))
    }

    fn cuStreamSynchronize(hStream: CUstream) {
        let mut driver = process::enter()?;
        let stream = driver.stream(hStream)?;
        driver.graphs.check_stream(&stream)?;
        let number = driver.pending(&stream);
        drop(queue::wait(driver, number));
        Ok(())
    }

    fn cuStreamWaitEvent(hStream: CUstream, hEvent: CUevent, Flags: u32) {
        let mut driver = process::enter()?;
        if Flags > 1 {
            return fail(Code::INVALID_VALUE);
        }
        let stream = driver.stream(hStream)?;
        driver.events.get(hEvent)?;
        if driver.graphs.join(&stream, hEvent) {
            return Ok(());
        }
        if let Some(number) = driver.event_pending(hEvent)? {
            driver.follow(&stream, number);
        }
        Ok(())
    }

    fn cuStreamGetPriority(hStream: CUstream, priority: *mut i32) {
        let driver = process::enter()?;
        let out = priority.required()?;
        out.put(driver.stream(hStream)?.priority);
        Ok(())
    }

    fn cuStreamGetFlags(hStream: CUstream, flags: *mut u32) {
        let driver = process::enter()?;
        let out = flags.required()?;
        out.put(driver.stream(hStream)?.flags);
        Ok(())
    }

    fn cuStreamGetId(hStream: CUstream, streamId: *mut u64) {
        let driver = process::enter()?;
        let out = streamId.required()?;
        out.put(driver.stream(hStream)?.id);
        Ok(())
    }

    fn cuStreamGetCtx(hStream: CUstream, pctx: *mut CUcontext) {
        let driver = process::enter()?;
        let out = pctx.required()?;
        out.put(context_handle(driver.stream(hStream)?.context));
        Ok(())
    }

    fn cuStreamGetDevice(hStream: CUstream, device: *mut CUdevice) {
        let driver = process::enter()?;
        let out = device.required()?;
        let context = driver.stream(hStream)?.context;
        out.put(CUdevice(driver.context(context)?.device as i32));
        Ok(())
    }

    fn cuStreamIsCapturing(hStream: CUstream, captureStatus: *mut i32) {
        let driver = process::enter()?;
        let out = captureStatus.required()?;
        out.put(driver.graphs.of(&driver.stream(hStream)?).unwrap_or((0, 0)).0);
        Ok(())
    }

    fn cuStreamGetCaptureInfo(hStream: CUstream, captureStatus_out: *mut i32, id_out: *mut u64) {
        capture(hStream, captureStatus_out, id_out)
    }

    fn cuStreamGetCaptureInfo_v2(
        hStream: CUstream,
        captureStatus_out: *mut i32,
        id_out: *mut u64,
        _graph_out: *mut c_void,
        _dependencies_out: *mut c_void,
        _numDependencies_out: *mut usize,
    ) {
        capture(hStream, captureStatus_out, id_out)
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
        capture(hStream, captureStatus_out, id_out)
    }

    fn cuStreamGetAttribute(hStream: CUstream, attr: i32, value_out: *mut CUstreamAttrValue) {
        let driver = process::enter()?;
        let out = value_out.required()?;
        out.put(CUstreamAttrValue { bytes: driver.stream_attribute(hStream, attr)? });
        Ok(())
    }

    fn cuStreamSetAttribute(hStream: CUstream, attr: i32, value: *const CUstreamAttrValue) {
        let mut driver = process::enter()?;
        driver.set_stream_attribute(hStream, attr, value.required()?.bytes)
    }

    fn cuStreamCopyAttributes(dst: CUstream, src: CUstream) {
        process::enter()?.copy_stream_attributes(dst, src)
    }

    fn cuStreamAttachMemAsync(hStream: CUstream, dptr: CUdeviceptr, length: usize, _flags: u32) {
        let driver = process::enter()?;
        driver.stream(hStream)?;
        let (base, size) = driver.address_range(dptr)?;
        // 0 stands for all of it.
        let count = if length == 0 { size - (dptr - base) } else { length as u64 };
        driver.check_managed(dptr, count, true)
    }
}
