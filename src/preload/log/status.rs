//! The page that the launcher shares with its processes: a process reports here that it reached a driver, and which
//! libraries bypass cupeer.

use crate::settings;
use crate::sys::opened::OpenedFile;
use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::bypass::Bypass;
use cupeer_spec::status::{ENDED, EXECUTES, MAGIC, NAME, SAID, Status};

/// Counts this process, once, among the processes that reached a driver.
pub fn count_reached() {
    static PID: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    if PID.swap(pid, Relaxed) != pid {
        count(|status| &status.reached);
    }
}

/// Counts a library whose calls bypass cupeer, or for [`Bypass::Unseen`], a process of which cupeer saw no call.
pub fn count_bypass(way: Bypass) {
    count(|status| if way == Bypass::Unseen { &status.unseen } else { &status.escaped });
}

/// Reports to the launcher that the library is loaded in the process that the launcher started, and the name of this process if
/// it starts others without LD_PRELOAD. The constructor calls this; in all other processes, this costs one system call.
pub fn report_loaded() {
    let Some(path) = &settings::get().status else { return };
    let is_dropped = !is_preload_named();
    let is_child = launcher(path.to_bytes()) == Some(std::os::unix::process::parent_id());
    if !is_dropped && !is_child {
        return;
    }
    with_page(|status| {
        if is_dropped {
            put_name(&status.dropper);
            status.dropped.fetch_add(1, Relaxed);
        }
        if is_launched(status) {
            put_name(&status.image);
            status.ended.store(0, Relaxed);
            status.loaded.fetch_add(1, Relaxed);
            IS_LAUNCHED.store(true, Relaxed);
        }
    });
}

/// Reports that the process that the launcher started exits while the library is loaded.
pub fn report_exit() {
    put_end(ENDED);
}

/// Reports that this process is about to execute another program.
pub fn report_exec() {
    put_end(EXECUTES);
}

fn put_end(end: u32) {
    if IS_LAUNCHED.load(Relaxed) {
        with_page(|status| {
            if is_launched(status) {
                status.ended.store(end, Relaxed);
            }
        });
    }
}

/// True if this process is the one that the launcher started, or was forked from it.
#[unsafe(link_section = ".data.start")]
static IS_LAUNCHED: AtomicBool = AtomicBool::new(false);

fn is_launched(status: &Status) -> bool {
    status.launched.load(Relaxed) == std::process::id()
}

/// Returns the pid of the launcher from the path of its page.
fn launcher(path: &[u8]) -> Option<u32> {
    let digits = path.strip_prefix(b"/proc/")?.split(|byte| *byte == b'/').next()?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns true if LD_PRELOAD in the environment still names the library.
fn is_preload_named() -> bool {
    settings::variable("LD_PRELOAD").is_some_and(|value| {
        let mut elements = value.to_bytes().split(|byte| b" :".contains(byte));
        elements.any(|element| element.ends_with(b"libcupeer.so"))
    })
}

/// Writes the name of the program, cut to the length that the kernel keeps for a process.
fn put_name(place: &[AtomicU8; NAME]) {
    // SAFETY: the kernel's own text, which ends in NUL, or null.
    let path = unsafe {
        let path = libc::getauxval(libc::AT_EXECFN) as *const core::ffi::c_char;
        if path.is_null() { c"" } else { CStr::from_ptr(path) }
    };
    let name = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let bytes = name.iter().copied().take(NAME - 1).chain(core::iter::repeat(0));
    place.iter().zip(bytes).for_each(|(place, byte)| place.store(byte, Relaxed));
}

/// Returns true if no process of the run has printed the line with this hash before, or if it is unknown whether one has.
/// Remembers the hash.
pub fn is_first_print(hash: u64) -> bool {
    /// Number of places in which a hash may be stored.
    const PLACES: usize = 16;
    let (hash, mut is_new) = (hash | 1, true);
    with_page(|status| {
        for i in 0..PLACES {
            let place = &status.printed_hashes[(hash as usize).wrapping_add(i) % SAID];
            match place.compare_exchange(0, hash, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(known) if known == hash => {
                    is_new = false;
                    return;
                }
                Err(_) => {}
            }
        }
    });
    is_new
}

/// Returns true if a process of this run lost its record, or a part of it.
pub fn is_record_lost() -> bool {
    let mut is_lost = false;
    with_page(|status| is_lost = status.record_lost.load(Relaxed) > 0);
    is_lost
}

/// Counts a call that failed because there was too little device memory, and wakes the launcher, which finds out which processes
/// use the memory.
pub fn report_memory_exhausted() {
    with_page(|status| {
        status.exhausted.fetch_add(1, Release);
        status.bell.fetch_add(1, Release);
        // SAFETY: the address of a word of the page, which is mapped for good. Nothing is read or written.
        unsafe { libc::syscall(libc::SYS_futex, status.bell.as_ptr(), libc::FUTEX_WAKE, libc::c_int::MAX) };
    });
}

/// Page that the launcher shares; null before its first use. It stays mapped, because there may be no memory later. Its
/// descriptor is closed, because programs close descriptors that they do not know.
static PAGE: AtomicPtr<Status> = AtomicPtr::new(ptr::null_mut());

/// Adds 1 to the counter on the page that `which` returns.
pub fn count(which: impl FnOnce(&Status) -> &AtomicU32) {
    with_page(|status| _ = which(status).fetch_add(1, Relaxed));
}

/// Runs `work` with the launcher's page, if there is a page.
fn with_page(work: impl FnOnce(&Status)) {
    let mut page = PAGE.load(Acquire);
    if page.is_null() {
        let Some(mapped) = map() else { return };
        page = mapped;
        if let Err(first) = PAGE.compare_exchange(ptr::null_mut(), page, Release, Acquire) {
            // SAFETY: mapped above and not published.
            unsafe { libc::munmap(page.cast(), size_of::<Status>()) };
            page = first;
        }
    }
    // SAFETY: mapped for good; the file was long enough, and nobody makes it shorter.
    let status = unsafe { &*page };
    if status.magic.load(Relaxed) == MAGIC {
        work(status);
    }
}

fn map() -> Option<*mut Status> {
    let path = settings::get().status.as_ref()?;
    let page = OpenedFile::open_following_links(path, libc::O_RDWR).and_then(|file| file.map(0, size_of::<Status>()));
    page.ok().map(|page| page.cast())
}
