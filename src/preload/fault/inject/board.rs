//! The board, mapped: the file that lists the plans which are armed while the job is running (`cupeer_spec::record::armed`).
//!
//! cupeer uses only files of this user that no other user can write to, and checks their contents before it uses them.

use crate::job::directory::{self, Directory, Path, c_path};
use crate::recorder::file::Identity;
use crate::settings::{self, Settings};
use crate::sys::files;
use crate::sys::life;
use crate::sys::line::ShortText;
use crate::sys::opened::OpenedFile;
use crate::sys::process::boot_id;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{AcqRel, Acquire, Release},
};
use cupeer_spec::record::armed::{ArmedPlansBoard, BoardFileName, MAGIC, PROCESSES, PlanReader, VERSION};

/// Mapped board, which is never unmapped; null before the board is found.
static BOARD: AtomicPtr<ArmedPlansBoard> = AtomicPtr::new(ptr::null_mut());
/// Pid of the process to which [`PLACE`] belongs.
static PLACE_OWNER: AtomicU32 = AtomicU32::new(0);
/// Index of this process's place on the board, plus one; 0 if it has no place.
static PLACE: AtomicU32 = AtomicU32::new(0);

/// Returns the board, if it was found.
pub fn known() -> Option<&'static ArmedPlansBoard> {
    // SAFETY: mapped with its size and never unmapped; its fields that change are atomics.
    unsafe { BOARD.load(Acquire).as_ref() }
}

/// Finds the board. If there is no board and `is_made` is true, creates the board.
pub fn find_or_create_board(is_made: bool) -> Result<&'static ArmedPlansBoard, c_int> {
    if let Some(board) = known() {
        return Ok(board);
    }
    let directory = directory(settings::get(), is_made)?;
    let boot_id = boot_id();
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    let path = directory.path_of(ShortText::<48>::new(format_args!("{}", BoardFileName { boot_id, user })).text())?;
    let mapped = match open(&directory, &path, &boot_id) {
        Err(libc::ENOENT) if is_made => {
            let begin = |base: *mut u8| {
                let board = base.cast::<ArmedPlansBoard>();
                // SAFETY: mapped with the size of a board, all zero, and not published yet.
                unsafe {
                    (&raw mut (*board).version).write(VERSION);
                    (&raw mut (*board).boot_id).write(boot_id);
                    (&raw mut (*board).magic).write(MAGIC);
                }
            };
            let own = Directory { path: directory.path, mode: 0o600 };
            directory::create_mapped_file(&own, &path, ".armed", size_of::<ArmedPlansBoard>(), begin)?;
            open(&directory, &path, &boot_id)
        }
        found => found,
    }?;
    match BOARD.compare_exchange(ptr::null_mut(), mapped, AcqRel, Acquire) {
        // SAFETY: never unmapped.
        Ok(_) => Ok(unsafe { &*mapped }),
        Err(first) => {
            // SAFETY: mapped above and not published; the first one is never unmapped.
            unsafe {
                libc::munmap(mapped.cast(), size_of::<ArmedPlansBoard>());
                Ok(&*first)
            }
        }
    }
}

fn open(directory: &Directory, path: &Path, boot_id: &[u8; 16]) -> Result<*mut ArmedPlansBoard, c_int> {
    let file = open_trusted_file(directory, path)?;
    if file.info().size < size_of::<ArmedPlansBoard>() as u64 {
        return Err(libc::EPROTO);
    }
    let mapped = file.map(0, size_of::<ArmedPlansBoard>())?.cast::<ArmedPlansBoard>();
    // SAFETY: mapped above with this size; its fields that change are atomics.
    if unsafe { (*mapped).is_valid(boot_id) } {
        return Ok(mapped);
    }
    // SAFETY: mapped above with this size.
    unsafe { libc::munmap(mapped.cast(), size_of::<ArmedPlansBoard>()) };
    Err(libc::EPROTO)
}

/// Returns the directory in which processes count together. If the directory of the recording is missing and `is_made` is true,
/// creates the directory.
pub fn directory(settings: &Settings, is_made: bool) -> Result<Directory, c_int> {
    match &settings.faults {
        Some(name) => {
            let mut path = [0; files::PATH_MAX];
            // SAFETY: getpid has no preconditions.
            let pid = unsafe { libc::getpid() } as u32;
            files::expand(name, pid, &mut path).ok_or(libc::ENAMETOOLONG)?;
            Ok(Directory { path, mode: 0o600 })
        }
        None if is_made => directory::directory(),
        None => directory::configured_directory().ok_or(libc::ENOENT),
    }
}

/// Opens a file, if it belongs to this user and no other user can write to it, not even another user who takes part in the job.
pub fn open_trusted_file(directory: &Directory, path: &Path) -> Result<OpenedFile, c_int> {
    let file = OpenedFile::open(c_path(path), libc::O_RDWR)?;
    let about = file.info().ownership;
    let is_ours = directory.is_of_user(about.owner) && about.mode & 0o022 == 0;
    if is_ours { Ok(file) } else { Err(libc::EPERM) }
}

/// Writes into this process's entry of the board up to which generation it follows the plans.
pub fn note_followed_generation(board: &'static ArmedPlansBoard, generation: u64, is_open: bool) {
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() } as u32;
    if PLACE_OWNER.load(Acquire) != pid {
        PLACE.store(take_board_entry(board, is_open).map_or(0, |place| place as u32 + 1), Release);
        PLACE_OWNER.store(pid, Release);
    }
    let place = (PLACE.load(Acquire) as usize).checked_sub(1).and_then(|place| board.processes.get(place));
    if let Some(place) = place {
        place.seen.store(generation + 1, Release);
    }
}

/// Takes a place on the board for this process: a free place, or the place of a process that ended. Returns the index of the
/// place.
fn take_board_entry(board: &'static ArmedPlansBoard, is_open: bool) -> Option<usize> {
    let Identity { pid, pid_ns, started, .. } = Identity::of_owner();
    let has_ended = |place: &PlanReader| {
        let there = place.pid.load(Acquire);
        let is_same_start = |seen: &life::ProcessState| seen.started == place.started.load(Acquire);
        place.pid_ns.load(Acquire) == pid_ns
            && !life::read_state(there).as_ref().is_some_and(is_same_start)
            && !(there != pid && life::exists(there) && life::read_state(there).is_none())
    };
    let free = |place: &PlanReader| place.pid.load(Acquire) == 0;
    let is_own = |place: &PlanReader| place.pid.load(Acquire) == pid && place.pid_ns.load(Acquire) == pid_ns;
    let choices: [&dyn Fn(&PlanReader) -> bool; 3] = [&is_own, &free, &has_ended];
    for is_chosen in choices {
        for place in (0..PROCESSES).filter(|place| is_chosen(&board.processes[*place])) {
            let seen = &board.processes[place];
            if seen.register_process(seen.pid.load(Acquire), pid, pid_ns, started, is_open) {
                return Some(place);
            }
        }
    }
    None
}
