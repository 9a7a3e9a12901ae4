//! The driver of this process: what `cuInit` sets up, and the lock around it.

use super::answer::{Answer, fail, refuse};
use super::arrays::Arrays;
use super::backing::Backing;
use super::contexts::Contexts;
use super::events::Events;
use super::exports::Exports;
use super::forks::{self, is_forked_child};
use super::graphs::Graphs;
use super::imports::Imports;
use super::log;
use super::memory::Memory;
use super::modules::Modules;
use super::queue::{self, Queue};
use super::space::Space;
use super::store::Stores;
use super::streams::Streams;
use super::visible::visible;
use super::vmm::Vmm;
use cupeer_spec::env;
use cupeer_spec::results::Result as Code;
use cupeer_topology::{Device, Link, Topology};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Everything that a process has of the driver.
pub(crate) struct Driver {
    /// The machine, with all its devices.
    pub machine: Topology,
    /// The physical index of each device that this process sees.
    pub visible: Vec<usize>,
    pub contexts: Contexts,
    pub space: Space,
    pub stores: Stores,
    pub memory: Memory,
    pub vmm: Vmm,
    pub arrays: Arrays,
    pub streams: Streams,
    pub queue: Queue,
    pub events: Events,
    pub exports: Exports,
    pub imports: Imports,
    pub modules: Modules,
    pub graphs: Graphs,
}

impl Driver {
    /// A driver for a machine of which these devices are seen.
    pub(crate) fn new(machine: Topology, visible: Vec<usize>) -> Driver {
        Driver {
            contexts: Contexts::new(visible.len()),
            space: Space::default(),
            stores: Stores::new(visible.len()),
            memory: Memory::new(visible.len()),
            vmm: Vmm::default(),
            arrays: Arrays::default(),
            streams: Streams::default(),
            queue: Queue::default(),
            events: Events::default(),
            exports: Exports::default(),
            imports: Imports::default(),
            modules: Modules::default(),
            graphs: Graphs::default(),
            machine,
            visible,
        }
    }

    /// Checks an ordinal that is the parameter `dev`.
    pub(crate) fn ordinal(&self, device: i32) -> Answer<usize> {
        self.named_ordinal("dev", device)
    }

    /// Checks an ordinal; the driver's message has the name of its parameter.
    pub(crate) fn named_ordinal(&self, parameter: &str, device: i32) -> Answer<usize> {
        let count = self.visible.len();
        match usize::try_from(device) {
            Ok(ordinal) if ordinal < count => Ok(ordinal),
            _ => {
                let text = format!("Parameter {parameter} must be between 0 and {count}");
                refuse(Code::INVALID_DEVICE, text)
            }
        }
    }

    /// The device of an ordinal.
    pub(crate) fn device(&self, ordinal: usize) -> &Device {
        &self.machine.devices()[self.visible[ordinal]]
    }

    /// The link from one ordinal to another; `None` for a device with itself.
    pub(crate) fn link(&self, from: usize, to: usize) -> Option<&Link> {
        self.machine.link(self.visible[from], self.visible[to])
    }
}

#[cfg(test)]
impl Driver {
    /// One with two devices that reach each other, and with a context of the first one current.
    pub(crate) fn in_context() -> Driver {
        let mut driver = Driver::new(Topology::default(), vec![0, 1]);
        driver.create_context(0, 0).expect("a context");
        driver
    }
}

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
    if queue::in_call() {
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
