//! The program of `cupeer demo`: two processes share memory and an event through CUDA IPC, across two devices with peer access.
//! NCCL, PyTorch, and UCX make the same calls when they start.
//!
//! It uses the driver alone, so it runs on the simulated one. It exits with 0 if the importer reads the text that the exporter
//! wrote, and the exporter reads the answer. With the argument `early` it has a bug: the importer says that it is done before it
//! closes the memory, so the exporter frees memory that is open.

use anyhow::{Context, Error, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use cupeer_console::args::value_word;
use cupeer_console::output;
use cupeer_console::startup::own_command;
use cupeer_nvidia::{Handle, call, load};
use cupeer_spec::abi::{CUcontext, CUdeviceptr, CUevent, CUipcEventHandle, CUipcMemHandle, CUstream};
use cupeer_spec::function::Library;
use cupeer_spec::results;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::ptr::null_mut;

#[derive(Args)]
pub struct DemoShareArgs {
    /// Bug of the program
    bug: Option<Bug>,
    /// Process of the program; without it, both are started
    #[arg(long)]
    role: Option<Role>,
}

#[derive(ValueEnum, Clone, Copy)]
enum Bug {
    Early,
}

#[derive(ValueEnum, Clone, Copy)]
enum Role {
    Exporter,
    Importer,
}

const TEXTS: [&[u8; 19]; 2] = [b"hello from device 0", b"hello from device 1"];
/// CU_EVENT_DISABLE_TIMING and CU_EVENT_INTERPROCESS.
const EVENT_FLAGS: u32 = 2 | 4;
/// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.
const LAZY_PEER_ACCESS: u32 = 1;

/// Calls a function of the driver with values of the given types. Returns from the caller if the call fails.
#[collapse_debuginfo(yes)]
macro_rules! cuda {
    ($driver:ident.$name:ident($($value:expr => $kind:ty),*)) => {
        call!(&$driver, stringify!($name), ($($value => $kind),*)).map_err(named)?
    };
}

/// Adds the name of a result to a failure that ends in its number.
fn named(failure: String) -> Error {
    let number = failure.rsplit(' ').next().and_then(|word| word.parse().ok());
    let name = number.and_then(results::find_spec).map_or(String::new(), |spec| format!(" ({})", spec.name()));
    anyhow!("{failure}{name}")
}

pub fn command(args: &DemoShareArgs) -> Result<ExitCode> {
    let is_early = args.bug.is_some();
    let Some(role) = args.role else { return start(is_early) };
    // The socket to the other process.
    let other = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let ran = match role {
        Role::Exporter => exporter(other, is_early),
        Role::Importer => importer(other, is_early),
    };
    Ok(match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", value_word(role));
            ExitCode::FAILURE
        }
    })
}

/// Starts both processes, and waits for them.
fn start(is_early: bool) -> Result<ExitCode> {
    let (left, right) = UnixStream::pair()?;
    let start = |role, end| {
        let bug = is_early.then(|| value_word(Bug::Early));
        let mut command = own_command()?;
        command.args(["demo-share", "--role", &value_word(role)]).args(bug).stdin(OwnedFd::from(end));
        command.spawn().context("failed to start a process")
    };
    let mut children = [start(Role::Exporter, left)?, start(Role::Importer, right)?];
    let ends: Vec<_> = children.iter_mut().map(|child| child.wait()).collect::<io::Result<_>>()?;
    Ok(ExitCode::from(u8::from(!ends.iter().all(|end| end.success()))))
}

/// Loads the driver, and makes the primary context of a device current. The driver stays loaded.
fn begin(device: i32) -> Result<ManuallyDrop<Handle>> {
    let driver = ManuallyDrop::new(load(Library::Cuda).map_err(Error::msg)?);
    let mut context = CUcontext(null_mut());
    cuda!(driver.cuInit(0 => u32));
    cuda!(driver.cuDevicePrimaryCtxRetain(&mut context => *mut CUcontext, device => i32));
    cuda!(driver.cuCtxSetCurrent(context => CUcontext));
    Ok(driver)
}

/// Waits for the byte that the other process sends.
fn wait(mut other: &UnixStream) -> Result<()> {
    other.read_exact(&mut [0]).context("the other process ended first")
}

#[inline(never)]
fn exporter(mut importer: UnixStream, is_early: bool) -> Result<()> {
    let driver = begin(0)?;
    let (mut memory, mut event) = (CUdeviceptr(0), CUevent(null_mut()));
    let (mut memory_handle, mut event_handle) = ([0; 64], [0; 64]);
    let mut answer = [0; 19];
    cuda!(driver.cuMemAlloc_v2(&mut memory => *mut CUdeviceptr, 1 << 20 => usize));
    cuda!(driver.cuMemcpyHtoD_v2(memory => CUdeviceptr, TEXTS[0].as_ptr() => *const u8, 19 => usize));
    cuda!(driver.cuEventCreate(&mut event => *mut CUevent, EVENT_FLAGS => u32));
    cuda!(driver.cuIpcGetMemHandle(memory_handle.as_mut_ptr() => *mut u8, memory => CUdeviceptr));
    cuda!(driver.cuIpcGetEventHandle(event_handle.as_mut_ptr() => *mut u8, event => CUevent));
    cuda!(driver.cuEventRecord(event => CUevent, CUstream(null_mut()) => CUstream));
    importer.write_all(&[memory_handle, event_handle].concat())?;
    wait(&importer)?;
    cuda!(driver.cuMemcpyDtoH_v2(answer.as_mut_ptr() => *mut u8, memory => CUdeviceptr, 19 => usize));
    output::print(&format!("exporter read \"{}\"\n", String::from_utf8_lossy(&answer)))?;
    cuda!(driver.cuEventDestroy_v2(event => CUevent));
    cuda!(driver.cuMemFree_v2(memory => CUdeviceptr));
    if is_early {
        importer.write_all(b"f")?;
        wait(&importer)?;
    }
    ensure!(&answer == TEXTS[1], "this is not the importer's text");
    Ok(())
}

#[inline(never)]
fn importer(mut exporter: UnixStream, is_early: bool) -> Result<()> {
    let driver = begin(1)?;
    let (mut memory_handle, mut event_handle) = ([0; 64], [0; 64]);
    exporter.read_exact(&mut memory_handle).and_then(|()| exporter.read_exact(&mut event_handle))?;
    let (memory_handle, event_handle) =
        (CUipcMemHandle { reserved: memory_handle }, CUipcEventHandle { reserved: event_handle });
    let (mut memory, mut event, mut peer) = (CUdeviceptr(0), CUevent(null_mut()), CUcontext(null_mut()));
    let (mut can_access, mut text) = (0, [0; 19]);
    cuda!(driver.cuDeviceCanAccessPeer(&mut can_access => *mut i32, 1 => i32, 0 => i32));
    cuda!(driver.cuDevicePrimaryCtxRetain(&mut peer => *mut CUcontext, 0 => i32));
    if can_access != 0 {
        cuda!(driver.cuCtxEnablePeerAccess(peer => CUcontext, 0 => u32));
    }
    cuda!(driver.cuIpcOpenMemHandle_v2(&mut memory => *mut CUdeviceptr, memory_handle => CUipcMemHandle, LAZY_PEER_ACCESS => u32));
    cuda!(driver.cuIpcOpenEventHandle(&mut event => *mut CUevent, event_handle => CUipcEventHandle));
    cuda!(driver.cuStreamWaitEvent(CUstream(null_mut()) => CUstream, event => CUevent, 0 => u32));
    cuda!(driver.cuMemcpyDtoH_v2(text.as_mut_ptr() => *mut u8, memory => CUdeviceptr, 19 => usize));
    output::print(&format!("importer read \"{}\"\n", String::from_utf8_lossy(&text)))?;
    cuda!(driver.cuMemcpyHtoD_v2(memory => CUdeviceptr, TEXTS[1].as_ptr() => *const u8, 19 => usize));
    cuda!(driver.cuEventDestroy_v2(event => CUevent));
    if is_early {
        // The bug: the exporter frees the memory when it reads this. Wait until it has.
        exporter.write_all(b"d")?;
        wait(&exporter)?;
    }
    cuda!(driver.cuIpcCloseMemHandle(memory => CUdeviceptr));
    if can_access != 0 {
        cuda!(driver.cuCtxDisablePeerAccess(peer => CUcontext));
    }
    exporter.write_all(b"d")?;
    ensure!(&text == TEXTS[0], "this is not the exporter's text");
    Ok(())
}
