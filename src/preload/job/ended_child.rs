//! Writes the end of a child of this process to the child's record, because a killed child cannot.

use super::directory::{Directory, Path, c_path, named};
use crate::sys::clock;
use crate::sys::files;
use crate::sys::line::Short;
use crate::sys::opened::Opened;
use crate::sys::process::boot_id;
use core::mem::size_of;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use cupeer_spec::record::end::{self, End, Span};
use cupeer_spec::record::{Header, MAGIC, SUFFIX};

/// Notes in the records of a child process that a signal ended it, except in records with another end. If the child executed
/// several programs, each has a record, and all but the last have an end.
pub fn note_killed(pid: u32, signal: u8) {
    let Some(directory) = named() else { return };
    let middle = Short::<16>::new(format_args!("-{pid}-"));
    let search = |directory: &Directory| {
        files::each_name(c_path(&directory.path), |name| {
            if name.contains(middle.text()) && name.ends_with(SUFFIX) {
                let _ = directory.file(name).map(|path| end_in(&path, pid, signal));
            }
            false
        });
    };
    search(&directory);
    // In large jobs, the records are in a subdirectory for each host.
    if let Ok(folder) = directory.folder_of_host() {
        search(&folder);
    }
}

fn end_in(path: &Path, pid: u32, signal: u8) {
    let Ok(file) = Opened::open(c_path(path), libc::O_RDWR) else { return };
    let Ok(mapped) = file.map(0, size_of::<Header>()) else { return };
    let header = mapped.cast::<Header>();
    // SAFETY: mapped above with this size; other processes may write to it, so its words are volatile or atomic.
    unsafe {
        let is_child = (&raw const (*header).magic).read_volatile() == MAGIC
            && (&raw const (*header).pid).read_volatile() == pid
            && (&raw const (*header).parent).read_volatile() == std::process::id()
            && (&raw const (*header).boot_id).read_volatile() == boot_id();
        if is_child {
            let end = AtomicU32::from_ptr(&raw mut (*header).end);
            let known = end.load(Relaxed);
            if matches!(known, end::UNSEEN | end::EXECUTED) {
                let ended = &raw mut (*header).ended;
                let seen = Span { after: 0, before: clock::now() };
                ended.write_volatile(ended.read_volatile().and(seen));
                end.store(End::Signal(signal).seen_of(End::of(known)).word(), Relaxed);
            }
        }
        libc::munmap(mapped.cast(), size_of::<Header>());
    }
}
