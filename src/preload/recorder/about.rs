//! Appends entries about the process to its file as they become known.

use super::current::{current, has_begun_anew};
use super::file::{FIRST_ROOM, File};
use super::{clock, stream};
use crate::driver::queries::{Description, has_device_of_parent};
use crate::log::message;
use crate::sys::book::LockedFacts;
use crate::sys::caller;
use crate::sys::environment;
use crate::sys::files::{self, until_nul};
use crate::sys::forks::{initialized_before_fork, parent_pid_of_fork};
use crate::sys::line::ShortText;
use crate::sys::object::LoadedObject;
use crate::sys::program_memory;
use crate::sys::python::FunctionTexts;
use core::fmt::Display;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::Release, fence};
use cupeer_spec::function::FnId;
use cupeer_spec::proc::{Stat, StatPath};
use cupeer_spec::record::counted::WORDS;
use cupeer_spec::record::{BLOCK, BLOCK_MAGIC, BlockHeader, META_START, block, meta};

/// Place in the process's file where the next entry is appended.
struct Appender {
    /// Epoch of the record that the block belongs to.
    epoch: u64,
    /// Address of the mapped block that receives entries; 0 before the first entry.
    block: usize,
    /// Offset of the next entry in the block, in bytes.
    next: usize,
    /// Offset in the block of the end of its allocated part, in bytes.
    room: usize,
    /// Number of blocks of a ring that hold entries. They are never given back to the ring.
    ring_blocks: u64,
}

static APPENDER: LockedFacts<Appender> =
    LockedFacts::new(Appender { epoch: 0, block: 0, next: 0, room: 0, ring_blocks: 0 });

/// Writes the entries that are known when the file is created.
pub fn write_first_entries(file: &File) {
    let room = if file.ring.is_null() { FIRST_ROOM } else { BLOCK };
    let block = file.header as usize;
    APPENDER.with(|appender| {
        *appender = Appender { epoch: file.epoch, block, next: META_START, room, ring_blocks: 0 };
    });
    add_text(file, "cupeer", env!("CARGO_PKG_VERSION").as_bytes());
    add_text(file, "program", caller::program_path());
    add_text(file, "host", files::read_host_name(&mut [0; 65]));
    let mut directory = [0u8; 2048];
    // SAFETY: writes at most that many bytes, with a NUL where it succeeds.
    if !unsafe { libc::getcwd(directory.as_mut_ptr().cast(), directory.len()) }.is_null() {
        add_text(file, "directory", until_nul(&directory));
    }
    if let Some(parent) = initialized_before_fork(file.epoch) {
        add_number(file, meta::INITIALIZED_BY, parent);
    } else if !has_begun_anew() && has_device_of_parent() {
        add_number(file, meta::DEVICES_FROM, parent_pid_of_fork().unwrap_or(0));
    }
    for id in FnId::all() {
        let (number, size) = (id as u16, id.spec().stored_args_size() as u16);
        let name = id.spec().name().as_bytes();
        append_entry(file, meta::FUNCTION, &[&number.to_le_bytes(), &size.to_le_bytes(), name]);
    }
    let mut line = [0u8; 4096];
    let length = files::read(c"/proc/self/cmdline", &mut line).unwrap_or(0);
    for argument in line[..length].split_inclusive(|byte| *byte == 0) {
        append_entry(file, meta::ARGUMENT, &[until_nul(argument)]);
    }
    if is_of_multiprocessing(&line[..length]) {
        add_starting_command(file, &mut line);
    }
    if let Some((by_call, by_file)) = program_memory::refusal() {
        let missing = ShortText::<512>::new(format_args!(
            "the system refuses to read this process's memory (process_vm_readv: {}; /proc/self/mem: {}): its variables, \
             its rank, and the stacks, arrays and texts of its calls are missing from the record",
            message::ErrnoText(by_call),
            message::ErrnoText(by_file),
        ));
        message::print_line(format_args!("{}", missing.text()));
        add_text(file, meta::MISSING, missing.text().as_bytes());
    }
    environment::each(|variable| {
        let name = variable.split(|byte| *byte == b'=').next().unwrap_or(variable);
        if meta::is_recorded_variable(name) {
            append_entry(file, meta::VARIABLE, &[variable]);
        }
    });
}

/// Returns true if a command line belongs to a process that Python's multiprocessing started. Such a command line names no
/// script.
fn is_of_multiprocessing(line: &[u8]) -> bool {
    const MODULE: &[u8] = b"multiprocessing";
    line.windows(MODULE.len()).any(|part| part == MODULE)
}

/// Adds the command line of the nearest ancestor process that multiprocessing did not start, because it names the program's
/// script.
fn add_starting_command(file: &File, line: &mut [u8]) {
    const MOST: usize = 4;
    // SAFETY: getppid has no preconditions.
    let mut pid = unsafe { libc::getppid() };
    for _ in 0..MOST {
        let path = ShortText::<48>::new(format_args!("/proc/{pid}/cmdline\0"));
        let length = files::read(path.c_text().unwrap_or_default(), line).unwrap_or(0);
        let found = line[..length].trim_ascii_end();
        let end = found.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if !is_of_multiprocessing(&line[..end]) {
            line[..end].iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
            return add_text(file, meta::STARTED_BY, &line[..end]);
        }
        let path = ShortText::<64>::new(format_args!("{}\0", StatPath(pid)));
        let length = files::read(path.c_text().unwrap_or_default(), line).unwrap_or(0);
        let Some(stat) = Stat::parse(&line[..length]) else { return };
        pid = stat.parent;
    }
}

pub fn add_text(file: &File, name: &str, value: &[u8]) {
    append_entry(file, meta::TEXT, &[name.as_bytes(), b"\0", value]);
}

/// Adds a number as an entry with a name and a decimal text.
pub fn add_number(file: &File, name: &str, value: impl Display) {
    add_text(file, name, ShortText::<24>::new(format_args!("{value}")).text().as_bytes());
}

/// Adds an entry with the path of the program that the process is about to execute, and the current time.
pub fn add_exec(file: &File, program: &[u8]) {
    let now = ShortText::<24>::new(format_args!("{} ", clock::now()));
    append_entry(file, meta::TEXT, &[meta::BECAME.as_bytes(), b"\0", now.text().as_bytes(), program]);
}

/// Adds an entry about a library that a call came from. `part` is the range of the library's addresses that contains the caller.
pub fn add_library(object: &LoadedObject, part: &Range<usize>) {
    let Some(file) = current() else { return };
    let mut note = [0u8; 64];
    let build_id = object.build_id(&mut note);
    let path = caller::path(object);
    let number = |number: usize| (number as u64).to_le_bytes();
    append_entry(
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

pub fn add_driver_description(description: Description) {
    let Some(file) = current() else { return };
    match description {
        Description::Driver(version) => {
            add_number(file, "driver", version);
        }
        Description::Device { ordinal, uuid, pci, name } => {
            let pieces: [&[u8]; 5] = [&ordinal.to_le_bytes(), uuid, until_nul(pci), b"\0", until_nul(name)];
            append_entry(file, meta::DEVICE, &pieces);
        }
    }
}

pub fn add_python_function(number: u32, first_line: u32, texts: &FunctionTexts) {
    let Some(file) = current() else { return };
    // In UTF-8, a character has up to four bytes.
    let (path, name) = (
        ShortText::<2048>::new(format_args!("{}", texts.file)),
        ShortText::<512>::new(format_args!("{}", texts.function)),
    );
    let pieces: [&[u8]; 5] =
        [&number.to_le_bytes(), &first_line.to_le_bytes(), path.text().as_bytes(), b"\0", name.text().as_bytes()];
    append_entry(file, meta::PYTHON, &pieces);
}

/// Adds an entry about a library whose calls bypass cupeer. `way` is the kind of bypass.
pub fn add_bypass(library: &[u8], way: &str) {
    let Some(file) = current() else { return };
    append_entry(file, meta::ESCAPED, &[way.as_bytes(), b"\0", library]);
}

/// Adds the table of counters for memory that is counted instead of recorded call by call: see [`cupeer_spec::record::counted`].
/// Returns the table's address, aligned to a cache line of 64 bytes.
pub fn add_counter_table(file: &File) -> Option<*mut AtomicU64> {
    const LINE: usize = 64;
    static EMPTY: [u8; LINE + 8 * (WORDS + 1)] = [0; _];
    let body = append_entry(file, meta::COUNTED, &[&EMPTY])?;
    let begin = 8 + body.wrapping_add(8).align_offset(LINE);
    // SAFETY: the bytes are in the mapped block, which is never unmapped, and nobody else writes to them; they are aligned to
    // eight bytes, as all entries are.
    unsafe {
        body.cast::<u64>().write_volatile(begin as u64);
        Some(body.add(begin).cast())
    }
}

/// Appends an entry, cut to the size of a block. Returns the address of its bytes, which stays valid as long as the record; `None` if
/// there is no room.
pub fn append_entry(file: &File, tag: u16, pieces: &[&[u8]]) -> Option<*mut u8> {
    const HEAD: usize = size_of::<meta::Head>();
    let most = BLOCK - size_of::<BlockHeader>() - HEAD - meta::ALIGN;
    let length = pieces.iter().map(|piece| piece.len()).sum::<usize>().min(most);
    let size = (HEAD + length).next_multiple_of(meta::ALIGN);
    let write = |appender: &mut Appender| {
        let place = appender.take(file, size)?;
        // SAFETY: so many bytes in the mapped block, and the lock is held.
        unsafe {
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
            Some(place.add(HEAD))
        }
    };
    APPENDER.with(write).flatten()
}

impl Appender {
    /// Takes `size` bytes of the block for an entry. Returns their address; `None` if there is no room.
    fn take(&mut self, file: &File, size: usize) -> Option<*mut u8> {
        if self.epoch != file.epoch {
            return None;
        }
        if self.next + size > BLOCK {
            self.begin_block(file)?;
        }
        while self.next + size > self.room {
            // Block 0 is allocated in the file piece by piece. All other blocks are allocated as a whole.
            self.room = file.extend(0, self.room).ok()?;
        }
        let at = self.next;
        self.next += size;
        Some((self.block + at) as *mut u8)
    }

    /// Continues in another block of the file. Returns `None` if the file gets no more blocks.
    fn begin_block(&mut self, file: &File) -> Option<()> {
        let new = if file.ring.is_null() {
            file.new_block().ok()?
        } else {
            self.ring_blocks += 1;
            if self.ring_blocks > file.ring_blocks / 4 {
                return None;
            }
            stream::take_ring_block(file).ok()?.cast()
        };
        // SAFETY: mapped, and only ours. The kind is 0 meanwhile, so that readers do not take the old bytes of a ring's block for
        // entries.
        unsafe {
            let header = new.cast::<BlockHeader>();
            (&raw mut (*header).kind).write_volatile(0);
            fence(Release);
            ptr::write_bytes(new.add(size_of::<BlockHeader>()), 0, BLOCK - size_of::<BlockHeader>());
            (*header).magic = BLOCK_MAGIC;
            fence(Release);
            (&raw mut (*header).kind).write_volatile(block::META);
        }
        (self.block, self.next, self.room) = (new as usize, size_of::<BlockHeader>(), BLOCK);
        Some(())
    }
}
