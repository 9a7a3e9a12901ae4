//! Events.

use super::boundary::write_result_in_context;
use crate::engine::answer::{fail, fail_if};
use crate::engine::{process, queue};
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

forward! {
    cuEventCreate(phEvent: *mut CUevent, Flags: u32) = write_result_in_context(phEvent, |driver| driver.create_event(Flags));
    cuEventDestroy | cuEventDestroy_v2(hEvent) = process::enter()?.destroy_event(hEvent);
    cuEventRecord | cuEventRecord_ptsz(hEvent, hStream) = process::enter()?.record_event(hEvent, hStream);
}

entry! {
    fn cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz(hEvent, hStream, flags) {
        let mut driver = process::enter()?;
        // CU_EVENT_RECORD_EXTERNAL is for streams that are being captured.
        fail_if(flags > 1, Code::INVALID_VALUE)?;
        driver.record_event(hEvent, hStream)
    }

    fn cuEventQuery(hEvent) {
        let mut driver = process::enter()?;
        fail_if(!driver.is_event_done(hEvent)?, Code::NOT_READY)?;
        let context = driver.events.get(hEvent)?.context;
        driver.check_context_not_failed(context)
    }

    fn cuEventSynchronize(hEvent) {
        let mut context = 0;
        let driver = queue::lock_when_done(|driver| {
            context = driver.events.get(hEvent)?.context;
            driver.tasks_before_event(hEvent)
        })?;
        driver.check_context_not_failed(context)
    }

    fn cuEventElapsedTime(pMilliseconds: *mut f32, hStart: CUevent, hEnd: CUevent) {
        let driver = process::enter()?;
        let elapsed = driver.elapsed_milliseconds(hStart, hEnd)?;
        // As recorded, a null pointer causes this code.
        pMilliseconds.required().or(fail(Code::INVALID_HANDLE))?.put(elapsed);
        Ok(())
    }
}
