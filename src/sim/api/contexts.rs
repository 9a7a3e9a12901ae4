//! Contexts.

use super::boundary::{Out, context_handle};
use crate::abi::{CUctxCreateParams, CUexecAffinityParam};
use crate::engine::answer::{Answer, fail, no_context};
use crate::engine::process::{self, Driver};
use crate::engine::{queue, stack, streams};
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;
use std::sync::MutexGuard;

/// The version of the interface that contexts have had since CUDA 3.2.
const API_VERSION: u32 = 3020;

fn create(out: Out<CUcontext>, flags: u32, dev: CUdevice) -> Answer {
    let mut driver = process::enter()?;
    let out = out.required()?;
    let ordinal = driver.ordinal(dev.0)?;
    out.put(context_handle(driver.create_context(ordinal, flags)?));
    Ok(())
}

/// The driver, once all work of a context is done.
fn settled(context: impl Fn(&mut Driver) -> Answer<u64>) -> Answer<MutexGuard<'static, Driver>> {
    let mut driver = process::enter()?;
    let context = context(&mut driver)?;
    let number = driver.pending_in(context);
    Ok(queue::wait(driver, number))
}

/// The same for the primary context of a device.
fn settled_primary(device: usize) -> Answer<MutexGuard<'static, Driver>> {
    settled(|driver| Ok(driver.contexts.primary(device).handle))
}

fn release(dev: CUdevice) -> Answer {
    let ordinal = process::enter()?.ordinal(dev.0)?;
    settled_primary(ordinal)?.release_primary(ordinal)
}

fn reset(dev: CUdevice) -> Answer {
    let ordinal = process::enter()?.ordinal(dev.0)?;
    settled_primary(ordinal)?.reset_primary(ordinal)
}

entry! {
    fn cuCtxCreate_v2(pctx: *mut CUcontext, flags: u32, dev: CUdevice) {
        create(pctx, flags, dev)
    }

    /// Affinity needs MPS, which is not simulated.
    fn cuCtxCreate_v3(
        pctx: *mut CUcontext,
        paramsArray: *mut CUexecAffinityParam,
        numParams: i32,
        flags: u32,
        dev: CUdevice,
    ) {
        if numParams < 0 || (numParams > 0 && paramsArray.get().is_none()) {
            return fail(Code::INVALID_VALUE);
        }
        if numParams > 0 {
            process::check()?;
            return fail(Code::UNSUPPORTED_EXEC_AFFINITY);
        }
        create(pctx, flags, dev)
    }

    fn cuCtxCreate_v4(
        pctx: *mut CUcontext,
        ctxCreateParams: *mut CUctxCreateParams,
        flags: u32,
        dev: CUdevice,
    ) {
        if let Some(params) = ctxCreateParams.get() {
            process::check()?;
            if !params.cigParams.is_null() {
                return fail(Code::NOT_SUPPORTED);
            }
            if params.numExecAffinityParams != 0 {
                return fail(Code::UNSUPPORTED_EXEC_AFFINITY);
            }
        }
        create(pctx, flags, dev)
    }

    /// The form of CUDA 2 to 3: not for a context that was attached, as seen on driver 580.
    fn cuCtxDestroy(ctx: CUcontext) {
        process::check()?;
        if ctx == 0 {
            return fail(Code::INVALID_VALUE);
        }
        if process::enter()?.context(ctx)?.attached > 1 {
            return fail(Code::INVALID_CONTEXT);
        }
        settled(|_| Ok(ctx))?.destroy_context(ctx)
    }

    fn cuCtxDestroy_v2(ctx: CUcontext) {
        process::check()?;
        if ctx == 0 {
            return fail(Code::INVALID_VALUE);
        }
        settled(|_| Ok(ctx))?.destroy_context(ctx)
    }

    fn cuCtxAttach(pctx: *mut CUcontext, flags: u32) {
        let mut driver = process::enter()?;
        let out = pctx.required()?;
        if flags != 0 {
            return fail(Code::INVALID_VALUE);
        }
        let current = driver.current()?;
        driver.context_mut(current)?.attached += 1;
        out.put(context_handle(current));
        Ok(())
    }

    fn cuCtxDetach(ctx: CUcontext) {
        settled(|_| Ok(ctx))?.detach_context(ctx)
    }

    fn cuCtxPushCurrent_v2(ctx: CUcontext) {
        let driver = process::enter()?;
        if ctx == 0 {
            return fail(Code::INVALID_VALUE);
        }
        driver.known_context(ctx)?;
        stack::push(ctx);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(pctx: *mut CUcontext) {
        let _driver = process::enter()?;
        match stack::pop() {
            Some(top) => pctx.put(context_handle(top)),
            None => return no_context(),
        }
        Ok(())
    }

    fn cuCtxSetCurrent(ctx: CUcontext) {
        let driver = process::enter()?;
        // A destroyed one becomes current, and is found destroyed when it is used.
        if ctx != 0 {
            driver.known_context(ctx)?;
        }
        stack::set(ctx);
        Ok(())
    }

    fn cuCtxGetCurrent(pctx: *mut CUcontext) {
        process::check()?;
        pctx.required()?.put(context_handle(stack::current()));
        Ok(())
    }

    fn cuCtxGetDevice(device: *mut CUdevice) {
        let driver = process::enter()?;
        let out = device.required()?;
        out.put(CUdevice(driver.current_ordinal()? as i32));
        Ok(())
    }

    fn cuCtxGetDevice_v2(device: *mut CUdevice, ctx: CUcontext) {
        let driver = process::enter()?;
        let out = device.required()?;
        let context = driver.context_or_current(ctx)?;
        out.put(CUdevice(driver.context(context)?.device as i32));
        Ok(())
    }

    fn cuCtxGetFlags(flags: *mut u32) {
        let driver = process::enter()?;
        let out = flags.required()?;
        out.put(driver.context(driver.current()?)?.all_flags());
        Ok(())
    }

    fn cuCtxSetFlags(flags: u32) {
        let mut driver = process::enter()?;
        crate::engine::contexts::check_flags(flags)?;
        let current = driver.current()?;
        driver.context_mut(current)?.flags = flags;
        Ok(())
    }

    fn cuCtxGetId(ctx: CUcontext, ctxId: *mut u64) {
        let driver = process::enter()?;
        let out = ctxId.required()?;
        let context = driver.context_or_current(ctx)?;
        out.put(driver.context(context)?.id);
        Ok(())
    }

    fn cuCtxGetApiVersion(ctx: CUcontext, version: *mut u32) {
        let driver = process::enter()?;
        let out = version.required()?;
        driver.context_or_current(ctx)?;
        out.put(API_VERSION);
        Ok(())
    }

    fn cuCtxSynchronize() {
        settled(|driver| driver.current()).map(|_| ())
    }

    fn cuCtxSynchronize_v2(ctx: CUcontext) {
        settled(|driver| driver.context_or_current(ctx)).map(|_| ())
    }

    fn cuCtxGetLimit(pvalue: *mut usize, limit: i32) {
        let driver = process::enter()?;
        let out = pvalue.required()?;
        let context = driver.context(driver.current()?)?;
        out.put(context.limit(limit)? as usize);
        Ok(())
    }

    fn cuCtxSetLimit(limit: i32, value: usize) {
        let mut driver = process::enter()?;
        let current = driver.current()?;
        driver.context_mut(current)?.set_limit(limit, value as u64)
    }

    fn cuCtxGetCacheConfig(pconfig: *mut u32) {
        let driver = process::enter()?;
        let out = pconfig.required()?;
        out.put(driver.context(driver.current()?)?.cache_config);
        Ok(())
    }

    fn cuCtxSetCacheConfig(config: u32) {
        let mut driver = process::enter()?;
        let current = driver.current()?;
        if config > 3 {
            return fail(Code::INVALID_VALUE);
        }
        driver.context_mut(current)?.cache_config = config;
        Ok(())
    }

    fn cuCtxGetSharedMemConfig(pConfig: *mut u32) {
        let driver = process::enter()?;
        let out = pConfig.required()?;
        out.put(driver.context(driver.current()?)?.shared_config);
        Ok(())
    }

    fn cuCtxSetSharedMemConfig(config: u32) {
        let mut driver = process::enter()?;
        let current = driver.current()?;
        if config > 2 {
            return fail(Code::INVALID_VALUE);
        }
        driver.context_mut(current)?.shared_config = config;
        Ok(())
    }

    fn cuCtxGetStreamPriorityRange(leastPriority: *mut i32, greatestPriority: *mut i32) {
        process::enter()?.current()?;
        leastPriority.put(streams::PRIORITIES.0);
        greatestPriority.put(streams::PRIORITIES.1);
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() {
        process::enter()?.current().map(|_| ())
    }

    fn cuCtxGetExecAffinity(pExecAffinity: *mut CUexecAffinityParam, kind: i32) {
        let driver = process::enter()?;
        let out = pExecAffinity.required()?;
        let device = driver.current_device()?;
        if kind != 0 {
            return fail(Code::UNSUPPORTED_EXEC_AFFINITY);
        }
        // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: all of them.
        out.put(CUexecAffinityParam { kind, smCount: driver.device_attribute(16, device)? as u32 });
        Ok(())
    }

    fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice) {
        let mut driver = process::enter()?;
        let out = pctx.required()?;
        let ordinal = driver.ordinal(dev.0)?;
        out.put(context_handle(driver.retain_primary(ordinal)?));
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease(dev: CUdevice) {
        release(dev)
    }

    fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) {
        release(dev)
    }

    fn cuDevicePrimaryCtxReset(dev: CUdevice) {
        reset(dev)
    }

    fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) {
        reset(dev)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: u32) {
        let mut driver = process::enter()?;
        let ordinal = driver.ordinal(dev.0)?;
        driver.set_primary_flags(ordinal, flags)
    }

    fn cuDevicePrimaryCtxGetState(dev: CUdevice, flags: *mut u32, active: *mut i32) {
        let mut driver = process::enter()?;
        let (flags, active) = (flags.required()?, active.required()?);
        let ordinal = driver.ordinal(dev.0)?;
        flags.put(driver.contexts.primary(ordinal).flags);
        active.put(driver.is_primary_active(ordinal).into());
        Ok(())
    }
}
