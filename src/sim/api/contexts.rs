//! Contexts.

use super::boundary::{OutPointer, write_both_results, write_result};
use crate::abi::{CUctxCreateParams, CUexecAffinityParam};
use crate::engine::answer::{Answer, fail, fail_if, no_context};
use crate::engine::driver::{Context, Driver, PRIORITIES, check_flags};
use crate::engine::process;
use crate::engine::{queue, stack};
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;
use std::sync::MutexGuard;

/// Version that `cuCtxGetApiVersion` returns: contexts have had this interface since CUDA 3.2.
const API_VERSION: u32 = 3020;

fn create_context(out: OutPointer<CUcontext>, flags: u32, dev: CUdevice) -> Answer {
    write_result(out, |driver| driver.create_context(driver.check_ordinal(dev.0)?, flags))
}

/// Waits until all work of a context is done. Returns the locked driver.
fn lock_when_context_done(context: impl FnOnce(&mut Driver) -> Answer<u64>) -> Answer<MutexGuard<'static, Driver>> {
    queue::lock_when_done(|driver| {
        let context = context(driver)?;
        Ok(driver.pending_in_context(context))
    })
}

/// Waits until all work of the primary context of a device is done. Returns the locked driver, and the
/// ordinal of the device.
fn lock_when_primary_done(dev: CUdevice) -> Answer<(MutexGuard<'static, Driver>, usize)> {
    let ordinal = process::enter()?.check_ordinal(dev.0)?;
    Ok((lock_when_context_done(|driver| Ok(driver.contexts.primary(ordinal).handle))?, ordinal))
}

/// Changes a setting of the current context. `last` is the highest valid value; `setting` returns the field.
fn set_context_setting(value: u32, last: u32, setting: impl Fn(&mut Context) -> &mut u32) -> Answer {
    let mut driver = process::enter()?;
    let current = driver.current_context_handle()?;
    fail_if(value > last, Code::INVALID_VALUE)?;
    *setting(driver.context_mut(current)?) = value;
    Ok(())
}

forward! {
    cuCtxCreate_v2(pctx, flags, dev) = create_context(pctx, flags, dev);
    cuCtxDetach(ctx) = lock_when_context_done(|_| Ok(ctx))?.detach_context(ctx);
    cuCtxGetCurrent(pctx: *mut CUcontext) = write_result(pctx, |_| Ok(stack::current_context()));
    cuCtxGetDevice(device: *mut CUdevice) = write_result(device, |driver| driver.current_ordinal());
    cuCtxGetDevice_v2(device: *mut CUdevice, ctx: CUcontext) =
        write_result(device, |driver| Ok(driver.context(driver.context_or_current(ctx)?)?.device));
    cuCtxGetFlags(flags: *mut u32) = write_result(flags, |driver| Ok(driver.current_context()?.all_flags()));
    cuCtxGetId(ctx: CUcontext, ctxId: *mut u64) =
        write_result(ctxId, |driver| Ok(driver.context(driver.context_or_current(ctx)?)?.id));
    cuCtxGetApiVersion(ctx: CUcontext, version: *mut u32) =
        write_result(version, |driver| driver.context_or_current(ctx).map(|_| API_VERSION));
    cuCtxSynchronize() = lock_when_context_done(|driver| driver.current_context_handle())?.current_context_handle().map(drop);
    cuCtxGetLimit(pvalue: *mut usize, limit: i32) =
        write_result(pvalue, |driver| driver.current_context()?.limit(limit));
    cuCtxGetCacheConfig(pconfig: *mut u32) =
        write_result(pconfig, |driver| Ok(driver.current_context()?.cache_config));
    cuCtxSetCacheConfig(config: u32) = set_context_setting(config, 3, |context| &mut context.cache_config);
    cuCtxGetSharedMemConfig(pConfig: *mut u32) =
        write_result(pConfig, |driver| Ok(driver.current_context()?.shared_config));
    cuCtxSetSharedMemConfig(config: u32) = set_context_setting(config, 2, |context| &mut context.shared_config);
    cuCtxGetStreamPriorityRange(leastPriority: *mut i32, greatestPriority: *mut i32) =
        write_both_results((leastPriority, greatestPriority), |driver| driver.current_context_handle().map(|_| PRIORITIES));
    cuDevicePrimaryCtxRetain(pctx, dev) = write_result(pctx, |driver| driver.retain_primary(driver.check_ordinal(dev.0)?));
    cuCtxAttach(pctx: *mut CUcontext, flags: u32) = write_result(pctx, |driver| {
        fail_if(flags != 0, Code::INVALID_VALUE)?;
        let current = driver.current_context_handle()?;
        driver.context_mut(current)?.attached += 1;
        Ok(current)
    });
    cuCtxGetExecAffinity(pExecAffinity: *mut CUexecAffinityParam, kind: i32) = write_result(pExecAffinity, |driver| {
        let device = driver.current_device()?;
        fail_if(kind != 0, Code::UNSUPPORTED_EXEC_AFFINITY)?;
        // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: all of them.
        Ok(CUexecAffinityParam { kind, smCount: driver.device_attribute(16, device)? as u32 })
    });
}

entry! {
    /// Fails if the program requests an execution affinity, because that needs MPS, which is not simulated.
    fn cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev) {
        fail_if(numParams < 0 || (numParams > 0 && paramsArray == 0), Code::INVALID_VALUE)?;
        if numParams > 0 {
            process::check_can_enter()?;
            return fail(Code::UNSUPPORTED_EXEC_AFFINITY);
        }
        create_context(pctx, flags, dev)
    }

    fn cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev) {
        // SAFETY: the caller of the C function promises that it is such a structure, or null.
        if let Some(params) = unsafe { (ctxCreateParams as *const CUctxCreateParams).as_ref() } {
            process::check_can_enter()?;
            fail_if(!params.cigParams.is_null(), Code::NOT_SUPPORTED)?;
            fail_if(params.numExecAffinityParams != 0, Code::UNSUPPORTED_EXEC_AFFINITY)?;
        }
        create_context(pctx, flags, dev)
    }

    /// The function of CUDA 2 to 3 fails for a context that was attached, as seen on driver 580.
    fn cuCtxDestroy(ctx) {
        process::check_can_enter()?;
        fail_if(ctx == 0, Code::INVALID_VALUE)?;
        fail_if(process::enter()?.context(ctx)?.attached > 1, Code::INVALID_CONTEXT)?;
        lock_when_context_done(|_| Ok(ctx))?.destroy_context(ctx)
    }

    fn cuCtxDestroy_v2(ctx) {
        process::check_can_enter()?;
        fail_if(ctx == 0, Code::INVALID_VALUE)?;
        lock_when_context_done(|_| Ok(ctx))?.destroy_context(ctx)
    }

    fn cuCtxPushCurrent_v2(ctx: CUcontext) {
        let driver = process::enter()?;
        fail_if(ctx == 0, Code::INVALID_VALUE)?;
        driver.context_even_destroyed(ctx)?;
        stack::push_context(ctx);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(pctx: *mut CUcontext) {
        let _driver = process::enter()?;
        match stack::pop_context() {
            Some(top) => pctx.put(top),
            None => return no_context(),
        }
        Ok(())
    }

    fn cuCtxSetCurrent(ctx: CUcontext) {
        let driver = process::enter()?;
        // A destroyed context becomes current, too; its use fails later.
        if ctx != 0 {
            driver.context_even_destroyed(ctx)?;
        }
        stack::set_current_context(ctx);
        Ok(())
    }

    fn cuCtxSetFlags(flags: u32) {
        let mut driver = process::enter()?;
        check_flags(flags)?;
        let current = driver.current_context_handle()?;
        driver.context_mut(current)?.flags = flags;
        Ok(())
    }

    fn cuCtxSynchronize_v2(ctx) {
        let mut context = 0;
        let driver = lock_when_context_done(|driver| {
            context = driver.context_or_current(ctx)?;
            Ok(context)
        })?;
        driver.check_context_not_failed(context)
    }

    fn cuCtxSetLimit(limit: i32, value: usize) {
        let mut driver = process::enter()?;
        let current = driver.current_context_handle()?;
        driver.context_mut(current)?.set_limit(limit, value as u64)
    }

    fn cuDevicePrimaryCtxRelease | cuDevicePrimaryCtxRelease_v2(dev) {
        let (mut driver, ordinal) = lock_when_primary_done(dev)?;
        driver.release_primary(ordinal)
    }

    fn cuDevicePrimaryCtxReset_v2(dev) {
        let (mut driver, ordinal) = lock_when_primary_done(dev)?;
        driver.reset_primary(ordinal);
        Ok(())
    }

    fn cuDevicePrimaryCtxReset(dev) {
        let (mut driver, ordinal) = lock_when_primary_done(dev)?;
        driver.reset_primary_once(ordinal);
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: u32) {
        let mut driver = process::enter()?;
        let ordinal = driver.check_ordinal(dev.0)?;
        driver.set_primary_flags(ordinal, flags)
    }

    fn cuDevicePrimaryCtxGetState(dev: CUdevice, flags: *mut u32, active: *mut i32) {
        let mut driver = process::enter()?;
        let (flags, active) = (flags.required()?, active.required()?);
        let ordinal = driver.check_ordinal(dev.0)?;
        flags.put(driver.contexts.primary(ordinal).flags);
        active.put(driver.is_primary_active(ordinal).into());
        Ok(())
    }
}
