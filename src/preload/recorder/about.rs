//! Appends entries about the process to its file as they become known.

use super::current::{current, has_begun_anew};
use super::file::{FIRST_ROOM, File};
use super::{clock, stream};
use crate::driver::questions::{Description, has_device_of_parent};
use crate::log::message;
use crate::sys::caller;
use crate::sys::environment;
use crate::sys::files::{self, until_nul};
use crate::sys::forks::{forked_from, initialized_before_fork};
use crate::sys::line::Short;
use crate::sys::lock::Lock;
use crate::sys::object::Object;
use crate::sys::program_memory;
use crate::sys::python::Texts;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use cupeer_spec::function::FnId;
use cupeer_spec::proc::{Stat, StatPath};
use cupeer_spec::record::counted::WORDS;
use cupeer_spec::record::{BLOCK, BLOCK_MAGIC, BlockHeader, META_START, block, meta};

/// The block that entries are appended to, and where in it; both of the record with this epoch.
static BLOCK_START: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Up to where it has room in the file.
static ROOM: AtomicUsize = AtomicUsize::new(0);
static EPOCH: AtomicU64 = AtomicU64::new(0);

static LOCK: Lock = Lock::new();

/// Writes what is known when the file is made.
pub fn begin(file: &File) {
    BLOCK_START.store(file.header.cast(), Relaxed);
    NEXT.store(META_START, Relaxed);
    ROOM.store(if file.ring.is_null() { FIRST_ROOM } else { BLOCK }, Relaxed);
    EPOCH.store(file.epoch, Release);
    text(file, "cupeer", env!("CARGO_PKG_VERSION").as_bytes());
    text(file, "program", caller::program());
    text(file, "host", files::host(&mut [0; 65]));
    let mut directory = [0u8; 2048];
    // SAFETY: writes at most that many bytes, with a NUL where it succeeds.
    if !unsafe { libc::getcwd(directory.as_mut_ptr().cast(), directory.len()) }.is_null() {
        text(file, "directory", until_nul(&directory));
    }
    if let Some(parent) = initialized_before_fork(file.epoch) {
        let pid = Short::<16>::new(format_args!("{parent}"));
        text(file, meta::INITIALIZED_BY, pid.text().as_bytes());
    } else if !has_begun_anew() && has_device_of_parent() {
        let pid = Short::<16>::new(format_args!("{}", forked_from().unwrap_or(0)));
        text(file, meta::DEVICES_FROM, pid.text().as_bytes());
    }
    for id in FnId::all() {
        let (number, size) = (id as u16, id.spec().stored() as u16);
        let name = id.spec().name().as_bytes();
        entry(file, meta::FUNCTION, &[&number.to_le_bytes(), &size.to_le_bytes(), name]);
    }
    let mut line = [0u8; 4096];
    let length = files::read(c"/proc/self/cmdline", &mut line).unwrap_or(0);
    for argument in line[..length].split_inclusive(|byte| *byte == 0) {
        entry(file, meta::ARGUMENT, &[until_nul(argument)]);
    }
    if is_of_multiprocessing(&line[..length]) {
        started_by(file, &mut line);
    }
    if let Some((by_call, by_file)) = program_memory::refusal() {
        let missing = Short::<512>::new(format_args!(
            "the system refuses to read this process's memory (process_vm_readv: {}; /proc/self/mem: {}): its variables, \
             its rank, and the stacks, arrays and texts of its calls are missing from the record",
            message::Reason(by_call),
            message::Reason(by_file),
        ));
        message::line(format_args!("{}", missing.text()));
        text(file, meta::MISSING, missing.text().as_bytes());
    }
    environment::each(|variable| {
        let name = variable.split(|byte| *byte == b'=').next().unwrap_or(variable);
        if meta::is_recorded(name) {
            entry(file, meta::VARIABLE, &[variable]);
        }
    });
}

/// Whether a command line is that of a process that Python's multiprocessing starts: it names no script.
fn is_of_multiprocessing(line: &[u8]) -> bool {
    const MODULE: &[u8] = b"multiprocessing";
    line.windows(MODULE.len()).any(|part| part == MODULE)
}

/// Says which program is behind it: the nearest ancestor that is none of these processes.
fn started_by(file: &File, line: &mut [u8]) {
    const MOST: usize = 4;
    // SAFETY: getppid has no preconditions.
    let mut pid = unsafe { libc::getppid() };
    for _ in 0..MOST {
        let path = Short::<48>::new(format_args!("/proc/{pid}/cmdline\0"));
        let length = files::read(path.c_text().unwrap_or_default(), line).unwrap_or(0);
        let found = line[..length].trim_ascii_end();
        let end = found.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if !is_of_multiprocessing(&line[..end]) {
            line[..end].iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
            return text(file, meta::STARTED_BY, &line[..end]);
        }
        let path = Short::<64>::new(format_args!("{}\0", StatPath(pid)));
        let length = files::read(path.c_text().unwrap_or_default(), line).unwrap_or(0);
        let Some(stat) = Stat::parse(&line[..length]) else { return };
        pid = stat.parent;
    }
}

pub fn text(file: &File, name: &str, value: &[u8]) {
    entry(file, meta::TEXT, &[name.as_bytes(), b"\0", value]);
}

/// Says which program the process is about to become, and when.
pub fn becomes(file: &File, program: &[u8]) {
    let now = Short::<24>::new(format_args!("{} ", clock::now()));
    entry(file, meta::TEXT, &[meta::BECAME.as_bytes(), b"\0", now.text().as_bytes(), program]);
}

/// Describes the part of a library that a call came from.
pub fn library(object: &Object, part: &Range<usize>) {
    let Some(file) = current() else { return };
    let mut note = [0u8; 64];
    let build_id = object.build_id(&mut note);
    let path = caller::path(object);
    let number = |number: usize| (number as u64).to_le_bytes();
    entry(
        file,
        meta::LIBRARY,
        &[
            &number(object.base),
            &number(part.start),
            &number(part.end),
            &clock::now().to_le_bytes(),
            &[build_id.len() as u8],
            build_id,
            path,
        ],
    );
}

pub fn describe(description: Description) {
    let Some(file) = current() else { return };
    match description {
        Description::Driver(version) => {
            text(file, "driver", Short::<16>::new(format_args!("{version}")).text().as_bytes());
        }
        Description::Device { ordinal, uuid, pci, name } => {
            let pieces: [&[u8]; 5] = [&ordinal.to_le_bytes(), uuid, until_nul(pci), b"\0", until_nul(name)];
            entry(file, meta::DEVICE, &pieces);
        }
    }
}

pub fn function_of_python(number: u32, first_line: u32, texts: &Texts) {
    let Some(file) = current() else { return };
    // In UTF-8, a character has up to four bytes.
    let (path, name) = (
        Short::<2048>::new(format_args!("{}", texts.file)),
        Short::<512>::new(format_args!("{}", texts.function)),
    );
    let pieces: [&[u8]; 5] = [
        &number.to_le_bytes(),
        &first_line.to_le_bytes(),
        path.text().as_bytes(),
        b"\0",
        name.text().as_bytes(),
    ];
    entry(file, meta::PYTHON, &pieces);
}

/// Names a library whose calls go past us.
pub fn escaped(library: &[u8], way: &str) {
    let Some(file) = current() else { return };
    entry(file, meta::ESCAPED, &[way.as_bytes(), b"\0", library]);
}

/// Makes the table of memory that is only counted: see [`cupeer_spec::record::counted`]. Its words are aligned to cache lines.
pub fn counted(file: &File) -> Option<*mut AtomicU64> {
    const LINE: usize = 64;
    static EMPTY: [u8; LINE + 8 * (WORDS + 1)] = [0; _];
    let body = entry(file, meta::COUNTED, &[&EMPTY])?;
    let begin = 8 + body.wrapping_add(8).align_offset(LINE);
    // SAFETY: the bytes lie in the mapped block, which is never unmapped, and nobody else writes to them; they are aligned to
    // eight bytes, as all entries are.
    unsafe {
        body.cast::<u64>().write_volatile(begin as u64);
        Some(body.add(begin).cast())
    }
}

/// Appends an entry. What does not fit into a block is cut; what cannot be written is not there.
/// Returns where its bytes are, for as long as the record is.
pub fn entry(file: &File, tag: u16, pieces: &[&[u8]]) -> Option<*mut u8> {
    const HEAD: usize = size_of::<meta::Head>();
    let most = BLOCK - size_of::<BlockHeader>() - HEAD - meta::ALIGN;
    let length = pieces.iter().map(|piece| piece.len()).sum::<usize>().min(most);
    let taken = (HEAD + length).next_multiple_of(meta::ALIGN);
    let mut written = None;
    LOCK.with(|| {
        if EPOCH.load(Acquire) != file.epoch {
            return;
        }
        if NEXT.load(Relaxed) + taken > BLOCK && !next_block(file) {
            return;
        }
        while NEXT.load(Relaxed) + taken > ROOM.load(Relaxed) {
            // Only block 0 begins with less than all.
            let Ok(room) = file.extend(0, ROOM.load(Relaxed)) else { return };
            ROOM.store(room, Relaxed);
        }
        let at = NEXT.fetch_add(taken, Relaxed);
        // SAFETY: the bytes from `at` on are in the mapped block, and we are alone.
        unsafe {
            let place = BLOCK_START.load(Relaxed).add(at);
            let mut body = place.add(HEAD);
            let mut left = length;
            for piece in pieces {
                let count = piece.len().min(left);
                ptr::copy_nonoverlapping(piece.as_ptr(), body, count);
                body = body.add(count);
                left -= count;
            }
            let head = place.cast::<meta::Head>();
            ((*head).tag, (*head).length) = (tag, length as u32);
            fence(Release);
            (&raw mut (*head).magic).write_volatile(meta::MAGIC);
            written = Some(place.add(HEAD));
        }
    });
    written
}

/// Goes on in another block. Says whether there is one.
fn next_block(file: &File) -> bool {
    /// The blocks of a ring that entries took, of the record with the epoch; they are never given back.
    static TAKEN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    if TAKEN[0].swap(file.epoch, Relaxed) != file.epoch {
        TAKEN[1].store(0, Relaxed);
    }
    if !file.ring.is_null() && TAKEN[1].fetch_add(1, Relaxed) >= file.ring_blocks / 4 {
        return false;
    }
    let new = if file.ring.is_null() {
        file.new_block()
    } else {
        stream::take_ring_block(file).map(|window| window.cast())
    };
    let Ok(new) = new else { return false };
    // SAFETY: mapped, and only ours. What a ring's block held before must not be taken for entries.
    unsafe {
        let header = new.cast::<BlockHeader>();
        (&raw mut (*header).kind).write_volatile(0);
        fence(Release);
        ptr::write_bytes(new.add(size_of::<BlockHeader>()), 0, BLOCK - size_of::<BlockHeader>());
        (*header).magic = BLOCK_MAGIC;
        fence(Release);
        (&raw mut (*header).kind).write_volatile(block::META);
    }
    BLOCK_START.store(new, Relaxed);
    NEXT.store(size_of::<BlockHeader>(), Relaxed);
    ROOM.store(BLOCK, Relaxed);
    true
}
