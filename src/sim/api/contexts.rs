//! Contexts.

use super::boundary::{Out, get};
use crate::abi::{CUctxCreateParams, CUexecAffinityParam};
use crate::engine::answer::{Answer, fail, no_context};
use crate::engine::driver::{Context, Driver, PRIORITIES, check_flags};
use crate::engine::process;
use crate::engine::{queue, stack};
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;
use std::sync::MutexGuard;

/// The version of the interface that contexts have had since CUDA 3.2.
const API_VERSION: u32 = 3020;

fn create(out: Out<CUcontext>, flags: u32, dev: CUdevice) -> Answer {
    get(out, |driver| driver.create_context(driver.ordinal(dev.0)?, flags))
}

/// The driver, once all work of a context is done.
fn settled(context: impl FnOnce(&mut Driver) -> Answer<u64>) -> Answer<MutexGuard<'static, Driver>> {
    queue::settled(|driver| {
        let context = context(driver)?;
        Ok(driver.pending_in(context))
    })
}

/// The same for the primary context of a device, with its ordinal.
fn settled_primary(dev: CUdevice) -> Answer<(MutexGuard<'static, Driver>, usize)> {
    let ordinal = process::enter()?.ordinal(dev.0)?;
    Ok((settled(|driver| Ok(driver.contexts.primary(ordinal).handle))?, ordinal))
}

/// Changes a setting of the current context, of whose values `last` is the last one.
fn set(value: u32, last: u32, setting: impl Fn(&mut Context) -> &mut u32) -> Answer {
    let mut driver = process::enter()?;
    let current = driver.current()?;
    if value > last {
        return fail(Code::INVALID_VALUE);
    }
    *setting(driver.context_mut(current)?) = value;
    Ok(())
}

entry! {
    fn cuCtxCreate_v2(pctx: *mut CUcontext, flags: u32, dev: CUdevice) {
        create(pctx, flags, dev)
    }

    /// Affinity needs MPS, which is not simulated.
    fn cuCtxCreate_v3(
        pctx: *mut CUcontext,
        paramsArray: HostAddress,
        numParams: i32,
        flags: u32,
        dev: CUdevice,
    ) {
        if numParams < 0 || (numParams > 0 && paramsArray == 0) {
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
        ctxCreateParams: HostAddress,
        flags: u32,
        dev: CUdevice,
    ) {
        // SAFETY: the caller of the C function promises that it is such a structure, or null.
        if let Some(params) = unsafe { (ctxCreateParams as *const CUctxCreateParams).as_ref() } {
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
        get(pctx, |driver| {
            if flags != 0 {
                return fail(Code::INVALID_VALUE);
            }
            let current = driver.current()?;
            driver.context_mut(current)?.attached += 1;
            Ok(current)
        })
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
            Some(top) => pctx.put(top),
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
        get(pctx, |_| Ok(stack::current()))
    }

    fn cuCtxGetDevice(device: *mut CUdevice) {
        get(device, |driver| driver.current_ordinal())
    }

    fn cuCtxGetDevice_v2(device: *mut CUdevice, ctx: CUcontext) {
        get(device, |driver| Ok(driver.context(driver.context_or_current(ctx)?)?.device))
    }

    fn cuCtxGetFlags(flags: *mut u32) {
        get(flags, |driver| Ok(driver.current_context()?.all_flags()))
    }

    fn cuCtxSetFlags(flags: u32) {
        let mut driver = process::enter()?;
        check_flags(flags)?;
        let current = driver.current()?;
        driver.context_mut(current)?.flags = flags;
        Ok(())
    }

    fn cuCtxGetId(ctx: CUcontext, ctxId: *mut u64) {
        get(ctxId, |driver| Ok(driver.context(driver.context_or_current(ctx)?)?.id))
    }

    fn cuCtxGetApiVersion(ctx: CUcontext, version: *mut u32) {
        get(version, |driver| driver.context_or_current(ctx).map(|_| API_VERSION))
    }

    fn cuCtxSynchronize() {
        settled(|driver| driver.current())?.current().map(drop)
    }

    fn cuCtxSynchronize_v2(ctx: CUcontext) {
        let mut context = 0;
        let driver = settled(|driver| {
            context = driver.context_or_current(ctx)?;
            Ok(context)
        })?;
        driver.check_failed(context)
    }

    fn cuCtxGetLimit(pvalue: *mut usize, limit: i32) {
        get(pvalue, |driver| driver.current_context()?.limit(limit))
    }

    fn cuCtxSetLimit(limit: i32, value: usize) {
        let mut driver = process::enter()?;
        let current = driver.current()?;
        driver.context_mut(current)?.set_limit(limit, value as u64)
    }

    fn cuCtxGetCacheConfig(pconfig: *mut u32) {
        get(pconfig, |driver| Ok(driver.current_context()?.cache_config))
    }

    fn cuCtxSetCacheConfig(config: u32) {
        set(config, 3, |context| &mut context.cache_config)
    }

    fn cuCtxGetSharedMemConfig(pConfig: *mut u32) {
        get(pConfig, |driver| Ok(driver.current_context()?.shared_config))
    }

    fn cuCtxSetSharedMemConfig(config: u32) {
        set(config, 2, |context| &mut context.shared_config)
    }

    fn cuCtxGetStreamPriorityRange(leastPriority: *mut i32, greatestPriority: *mut i32) {
        process::enter()?.current()?;
        leastPriority.put(PRIORITIES.0);
        greatestPriority.put(PRIORITIES.1);
        Ok(())
    }

    fn cuCtxGetExecAffinity(pExecAffinity: *mut CUexecAffinityParam, kind: i32) {
        get(pExecAffinity, |driver| {
            let device = driver.current_device()?;
            if kind != 0 {
                return fail(Code::UNSUPPORTED_EXEC_AFFINITY);
            }
            // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: all of them.
            Ok(CUexecAffinityParam { kind, smCount: driver.device_attribute(16, device)? as u32 })
        })
    }

    fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice) {
        get(pctx, |driver| driver.retain_primary(driver.ordinal(dev.0)?))
    }

    fn cuDevicePrimaryCtxRelease | cuDevicePrimaryCtxRelease_v2(dev: CUdevice) {
        let (mut driver, ordinal) = settled_primary(dev)?;
        driver.release_primary(ordinal)
    }

    fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) {
        let (mut driver, ordinal) = settled_primary(dev)?;
        driver.reset_primary(ordinal);
        Ok(())
    }

    fn cuDevicePrimaryCtxReset(dev: CUdevice) {
        let (mut driver, ordinal) = settled_primary(dev)?;
        driver.reset_primary_once(ordinal);
        Ok(())
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
