//! The driver of this process: what `cuInit` sets up, and the lock around it.

use super::answer::{Answer, fail, fail_if};
use super::backing::Backing;
use super::driver::{Driver, is_in_program_call};
use super::forks::{self, is_forked_child};
use super::log;
use super::visible::parse_visible_devices;
use cupeer_spec::env;
use cupeer_spec::results::Result as Code;
use cupeer_topology::Topology;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

static DRIVER: OnceLock<Mutex<Driver>> = OnceLock::new();
/// A file that stays open from `cuInit` on, as the device nodes of a real driver do. Children of fork inherit it, so tools see
/// that their parent initialized the driver.
static NODE: OnceLock<Option<Backing>> = OnceLock::new();
/// True after the exit handler that `cuInit` registered has run.
static HAS_SHUT_DOWN: AtomicBool = AtomicBool::new(false);

/// The exit handler that `cuInit` registers. Exit handlers and destructors that were registered before
/// `cuInit`, such as those of the CUDA runtime, run later.
extern "C" fn note_shutdown() {
    HAS_SHUT_DOWN.store(true, Ordering::Relaxed);
}

/// `cuInit`.
pub(crate) fn initialize() -> Answer {
    fail_if(is_forked_child(), Code::NOT_INITIALIZED)?;
    fail_if(HAS_SHUT_DOWN.load(Ordering::Relaxed), Code::DEINITIALIZED)?;
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
        log::print_error(&error);
        fail(Code::NO_DEVICE)
    })?;
    let variable = std::env::var_os("CUDA_VISIBLE_DEVICES");
    let devices = parse_visible_devices(&machine, variable.as_ref().map(|v| v.to_str().unwrap_or("?")))?;
    // This reads the environment now, because a child by fork could wait forever for another thread that
    // reads it.
    log::log_file_path();
    NODE.get_or_init(|| Backing::create(c"nvidia-sim", 0));
    forks::remember_process();
    DRIVER.get_or_init(|| {
        // SAFETY: the function takes nothing and only stores a word. If it cannot be registered, the driver only misses the exit.
        unsafe { libc::atexit(note_shutdown) };
        Mutex::new(Driver::new(machine, devices))
    });
    Ok(())
}

/// Locks the driver for a call of the program. Fails before `cuInit`, after the shutdown, in a child by fork,
/// and in a function of the program that the driver called.
pub(crate) fn enter() -> Answer<MutexGuard<'static, Driver>> {
    fail_if(is_in_program_call(), Code::NOT_PERMITTED)?;
    match DRIVER.get() {
        Some(_) if HAS_SHUT_DOWN.load(Ordering::Relaxed) && !is_forked_child() => fail(Code::DEINITIALIZED),
        Some(driver) if !is_forked_child() => Ok(driver.lock().unwrap_or_else(PoisonError::into_inner)),
        _ => fail(Code::NOT_INITIALIZED),
    }
}

/// Locks the driver for a thread of the driver itself. Such threads exist only after `cuInit`.
pub(crate) fn lock() -> MutexGuard<'static, Driver> {
    let driver = DRIVER.get_or_init(|| Mutex::new(Driver::new(Topology::default(), Vec::new())));
    driver.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails if [`enter`] would fail.
pub(crate) fn check_can_enter() -> Answer {
    enter().map(drop)
}
