//! Events.

use super::boundary::make;
use crate::engine::answer::fail;
use crate::engine::{process, queue};
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

entry! {
    fn cuEventCreate(phEvent: *mut CUevent, Flags: u32) {
        make(phEvent, |driver| driver.create_event(Flags))
    }

    fn cuEventDestroy | cuEventDestroy_v2(hEvent: CUevent) {
        process::enter()?.destroy_event(hEvent)
    }

    fn cuEventRecord | cuEventRecord_ptsz(hEvent: CUevent, hStream: CUstream) {
        process::enter()?.record_event(hEvent, hStream)
    }

    fn cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz(hEvent: CUevent, hStream: CUstream, flags: u32) {
        let mut driver = process::enter()?;
        // CU_EVENT_RECORD_EXTERNAL is for streams that are being captured.
        if flags > 1 {
            return fail(Code::INVALID_VALUE);
        }
        driver.record_event(hEvent, hStream)
    }

    fn cuEventQuery(hEvent: CUevent) {
        let mut driver = process::enter()?;
        if !driver.is_event_done(hEvent)? {
            return fail(Code::NOT_READY);
        }
        let context = driver.events.get(hEvent)?.context;
        driver.check_failed(context)
    }

    fn cuEventSynchronize(hEvent: CUevent) {
        let mut context = 0;
        let driver = queue::settled(|driver| {
            context = driver.events.get(hEvent)?.context;
            driver.event_pending(hEvent)
        })?;
        driver.check_failed(context)
    }

    fn cuEventElapsedTime(pMilliseconds: *mut f32, hStart: CUevent, hEnd: CUevent) {
        let driver = process::enter()?;
        let elapsed = driver.elapsed(hStart, hEnd)?;
        // A null pointer has this code, as recorded.
        pMilliseconds.required().or(fail(Code::INVALID_HANDLE))?.put(elapsed);
        Ok(())
    }
}
