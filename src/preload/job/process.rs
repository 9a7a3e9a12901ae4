//! The identity of this process in the live table, for the other processes of its job.

use super::directory::Directory;
use crate::sys::line::ShortText;
use crate::sys::{caller, environment, life};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use cupeer_spec::record::begun::{self, BegunLine};
use cupeer_spec::record::{Header, ProcessFileName};

/// The fields by which other processes of the job identify this process. [`Header`] has fields with the same names.
#[derive(Clone, Copy, Default)]
pub struct Identity {
    pub pid: u32,
    pub image: u32,
    pub pid_ns: u64,
    pub started: u64,
}

static PID: AtomicU32 = AtomicU32::new(0);
static IMAGE: AtomicU32 = AtomicU32::new(0);
pub(super) static PID_NS: AtomicU64 = AtomicU64::new(0);
static STARTED: AtomicU64 = AtomicU64::new(0);

/// Returns the identity of this process; all zero before it has a record.
pub fn identity() -> Identity {
    Identity {
        pid: PID.load(Relaxed),
        image: IMAGE.load(Relaxed),
        pid_ns: pid_namespace(),
        started: STARTED.load(Relaxed),
    }
}

/// Returns the inode of this process's pid namespace; 0 if it is not known.
pub fn pid_namespace() -> u64 {
    PID_NS.load(Relaxed)
}

/// Start address of the stack of the program that this process executes, folded to 32 bits. It differs from that of programs that
/// the process executes later.
static STACK: AtomicU32 = AtomicU32::new(0);

/// Returns the start of this program's stack, as [`life::read_state`] returns it for other processes.
pub fn own_stack_start() -> u32 {
    STACK.load(Relaxed)
}

/// Adds this process, whose record has no name yet, to the list in the directory of the host. If that fails and the process never
/// shares anything, reports do not count it.
pub fn list_in_host_folder(header: &Header, directory: &Directory) {
    let Header { boot_id, pid_ns, pid, started, image, uid, .. } = *header;
    let file = ShortText::<96>::new(format_args!("{}", ProcessFileName { boot_id, pid_ns, pid, started, image }));
    let program = caller::program_path();
    let name = program.iter().rposition(|byte| *byte == b'/').map_or(program, |slash| &program[slash + 1..]);
    let name = name.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let rank = Some(environment::rank()).filter(|rank| *rank != u32::MAX);
    let line = BegunLine { file: file.text(), uid, rank, program: name };
    let line = ShortText::<512>::new(format_args!("{line}\n"));
    let _ = directory.in_folder(|folder| folder.add_line(begun::FILE, line.text().as_bytes()));
}

/// Sets the identity of this process for the live table, from the header of its record.
pub fn set_own_identity(header: &Header) {
    PID.store(header.pid, Relaxed);
    IMAGE.store(header.image, Relaxed);
    PID_NS.store(header.pid_ns, Relaxed);
    STARTED.store(header.started, Relaxed);
    environment::find_ranks();
    STACK.store(life::read_state(header.pid).map_or(0, |seen| seen.stack), Relaxed);
}
