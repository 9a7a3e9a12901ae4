//! Writes the end of a child of this process to the child's record, because a killed child cannot.

use super::directory::{Directory, Path, c_path, configured_directory};
use crate::sys::clock;
use crate::sys::files;
use crate::sys::line::ShortText;
use crate::sys::opened::OpenedFile;
use crate::sys::process::boot_id;
use core::mem::size_of;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use cupeer_spec::record::end::{self, EndSpan, RecordedEnd};
use cupeer_spec::record::{Header, MAGIC, SUFFIX};

/// Notes in the records of a child process that a signal ended it, except in records with another end. If the child executed
/// several programs, each has a record, and all but the last have an end.
pub fn note_killed(pid: u32, signal: u8) {
    let Some(directory) = configured_directory() else { return };
    let middle = ShortText::<16>::new(format_args!("-{pid}-"));
    let search = |directory: &Directory| {
        files::each_name(c_path(&directory.path), |name| {
            if name.contains(middle.text()) && name.ends_with(SUFFIX) {
                let _ = directory.path_of(name).map(|path| write_killing_signal(&path, pid, signal));
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

fn write_killing_signal(path: &Path, pid: u32, signal: u8) {
    let Ok(file) = OpenedFile::open(c_path(path), libc::O_RDWR) else { return };
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
                let seen = EndSpan { after: 0, before: clock::now() };
                ended.write_volatile(ended.read_volatile().combine(seen));
                end.store(
                    RecordedEnd::Signal(signal).combine_with_recorded(RecordedEnd::from_word(known)).to_word(),
                    Relaxed,
                );
            }
        }
        libc::munmap(mapped.cast(), size_of::<Header>());
    }
}
