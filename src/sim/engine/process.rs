//! The driver of this process: what `cuInit` sets up, and the lock around it.

use super::answer::{Answer, fail};
use super::backing::Backing;
use super::driver::{Driver, in_call};
use super::forks::{self, is_forked_child};
use super::log;
use super::visible::visible;
use cupeer_spec::env;
use cupeer_spec::results::Result as Code;
use cupeer_topology::Topology;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

static DRIVER: OnceLock<Mutex<Driver>> = OnceLock::new();
/// What stays open from `cuInit` on, as the device nodes of a real driver do: children of fork have it, and who looks for
/// what their parent has done finds it there.
static NODE: OnceLock<Option<Backing>> = OnceLock::new();
/// Whether the process exits, and has come to the handler that the driver has had since `cuInit`.
static HAS_SHUT_DOWN: AtomicBool = AtomicBool::new(false);

/// What handlers and destructors call that were there before `cuInit` comes too late, as the CUDA runtime's do.
extern "C" fn shut_down() {
    HAS_SHUT_DOWN.store(true, Ordering::Relaxed);
}

/// `cuInit`.
pub(crate) fn initialize() -> Answer {
    if is_forked_child() {
        return fail(Code::NOT_INITIALIZED);
    }
    if HAS_SHUT_DOWN.load(Ordering::Relaxed) {
        return fail(Code::DEINITIALIZED);
    }
    if DRIVER.get().is_some() {
        return Ok(());
    }
    let text = std::env::var_os(env::SIM).unwrap_or_default();
    let machine = match text.to_str() {
        Some("") => Ok(Topology::default()),
        Some(text) => Topology::parse(text).map_err(|e| e.to_string()),
        None => Err(format!("{} is not UTF-8 text", env::SIM)),
    };
    let machine = machine.or_else(|error| {
        log::complain(&error);
        fail(Code::NO_DEVICE)
    })?;
    let variable = std::env::var_os("CUDA_VISIBLE_DEVICES");
    let devices = visible(&machine, variable.as_ref().map(|v| v.to_str().unwrap_or("?")))?;
    // Asked before there can be a child of fork that would wait for another thread's answer.
    log::file();
    NODE.get_or_init(|| Backing::create(c"nvidia-sim", 0));
    forks::remember();
    DRIVER.get_or_init(|| {
        // SAFETY: the function takes nothing and only stores a word. Where there is no room for it, nothing is lost.
        unsafe { libc::atexit(shut_down) };
        Mutex::new(Driver::new(machine, devices))
    });
    Ok(())
}

/// The driver, locked; fails before `cuInit`, when the process has shut it down, in a child of fork, and in a function that
/// the driver calls.
pub(crate) fn enter() -> Answer<MutexGuard<'static, Driver>> {
    if in_call() {
        return fail(Code::NOT_PERMITTED);
    }
    match DRIVER.get() {
        Some(_) if HAS_SHUT_DOWN.load(Ordering::Relaxed) && !is_forked_child() => fail(Code::DEINITIALIZED),
        Some(driver) if !is_forked_child() => Ok(driver.lock().unwrap_or_else(PoisonError::into_inner)),
        _ => fail(Code::NOT_INITIALIZED),
    }
}

/// The driver, locked, for the driver's own thread, which only a process has that called `cuInit`.
pub(crate) fn lock() -> MutexGuard<'static, Driver> {
    let driver = DRIVER.get_or_init(|| Mutex::new(Driver::new(Topology::default(), Vec::new())));
    driver.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails where [`enter`] would.
pub(crate) fn check() -> Answer {
    enter().map(drop)
}
