//! The counters that the processes of a job share: the file that `cupeer_spec::record::faults` describes, or memory of
//! this process and its children if there is no directory for a file.

use super::private;
use crate::fault::deny;
use crate::job::directory::{self, Directory, Path};
use crate::log::message;
use crate::settings::{self, Settings};
use crate::sys::aside::aside;
use crate::sys::files;
use crate::sys::line::Short;
use crate::sys::process;
use core::ffi::c_int;
use core::fmt::Write;
use core::mem::offset_of;
use core::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use core::{ptr, slice};
use cupeer_spec::fault::{Key, Per, Plan, Rule, fnv};
use cupeer_spec::record::bytes;
use cupeer_spec::record::faults::{
    Counter, DAMAGED, DAMAGED_COUNT, Header, MAGIC, PREFIX, RELEASE, SCOPES, Scope, TEXT, VERSION,
};

/// The start of the file, mapped; null before it is.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// The directory, where there is one: for releasing what hangs.
static DIRECTORY: AtomicPtr<Directory> = AtomicPtr::new(ptr::null_mut());

/// How much of a header stays as it is. The two numbers behind are changed by others at any moment, so that nobody makes a
/// reference to all of it.
const FIXED: usize = offset_of!(Header, processes);

/// What the file says of the rules, known when the settings are read; null where there is none in the environment.
static RULES: AtomicPtr<Rules> = AtomicPtr::new(ptr::null_mut());

/// The rules of the environment, and behind them what is denied: a line for each, and how many they are.
#[derive(Default)]
struct Rules {
    text: String,
    count: u32,
}

/// Works out what the file says of the rules.
pub fn describe(settings: &Settings) {
    let mut rules = Rules::default();
    for rule in settings.inject.iter().flat_map(|plan| &plan.rules) {
        let _ = writeln!(rules.text, "{} {}", rule.name, rule.text);
        rules.count += 1;
    }
    for (number, name) in deny::names().iter().enumerate() {
        let _ = writeln!(rules.text, "{} {name}", deny_name(number).text());
        rules.count += 1;
    }
    RULES.store(Box::into_raw(Box::new(rules)), Release);
}

/// Takes part in the counting, where that was not done. For the slow way of a call.
pub fn attach() {
    if BASE.load(Acquire).is_null() {
        // Paths are long, and stacks may be small.
        aside(|| attach_here(settings::get()));
    }
}

fn attach_here(settings: &Settings) {
    let layout = Layout::of_rules();
    let attached = directory(settings, true).and_then(|directory| {
        keep(&directory);
        open_or_create(&directory, &layout)
    });
    let base = match attached {
        Ok(base) => base,
        Err(error) => {
            let is_joint = |rule: &Rule| {
                let mut conditions = rule.conditions.iter();
                matches!(rule.per, Per::Job | Per::Rank) || conditions.any(|one| one.key == Key::Process)
            };
            let is_needed = |plan: &Plan| plan.rules.iter().any(is_joint);
            if error != libc::ENOENT || settings.inject.as_ref().is_some_and(is_needed) {
                message::line(format_args!(
                    "faults are counted in this process only: no file can be shared ({})",
                    message::Reason(error)
                ));
            }
            let base = private::map_shared(layout.size()).cast::<u8>();
            if base.is_null() {
                return;
            }
            // SAFETY: mapped above with this size, and nobody else's yet.
            unsafe { layout.write(base, layout.header()) };
            base
        }
    };
    if BASE.compare_exchange(ptr::null_mut(), base, AcqRel, Acquire).is_err() {
        // SAFETY: mapped above with this size and not published.
        unsafe { libc::munmap(base.cast(), layout.size()) };
    }
}

/// The directory in which processes count together. That of the recording is made if it is not there and `is_made`.
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
        None => directory::named().ok_or(libc::ENOENT),
    }
}

/// Remembers the directory, once.
fn keep(directory: &Directory) {
    let kept = private::map_once(&DIRECTORY, size_of::<Directory>(), |size| {
        // Children have the same.
        private::map_shared(size)
    });
    if !kept.is_null() {
        // SAFETY: mapped with this size. Who comes at the same time writes the same.
        unsafe { kept.write(Directory { path: directory.path, mode: directory.mode }) };
    }
}

/// The file whose appearance releases what hangs under a label. Its path is not on the stack, which may be small.
pub struct Gate(*mut Path);

impl Gate {
    /// `None` where there is no directory for it.
    pub fn of(label: &str) -> Option<Gate> {
        // SAFETY: never unmapped, and written before anything hangs.
        let directory = unsafe { DIRECTORY.load(Acquire).as_ref() }?;
        let path = private::map(size_of::<Path>()).cast::<Path>();
        if path.is_null() {
            return None;
        }
        let name = Short::<80>::new(format_args!("{RELEASE}{label}"));
        let is_made = aside(|| {
            if let Ok(made) = directory.file(name.text()) {
                // SAFETY: mapped above with this size.
                unsafe { path.write(made) };
            }
        });
        let gate = Gate(path);
        is_made.then_some(gate)
    }

    /// Whether it is there.
    pub fn is_open(&self) -> bool {
        // SAFETY: a path that ends in NUL, or is empty.
        unsafe { libc::access(self.0.cast(), libc::F_OK) == 0 }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and nobody else's.
        unsafe { libc::munmap(self.0.cast(), size_of::<Path>()) };
    }
}

/// What a file has where.
pub struct Layout<'a> {
    pub text: &'a str,
    pub rules: u32,
    pub boot_id: [u8; 16],
    pub scopes: usize,
}

impl Layout<'_> {
    fn of_rules() -> Layout<'static> {
        // SAFETY: never freed.
        let rules = unsafe { RULES.load(Acquire).as_ref() };
        let (text, rules) = rules.map_or(("", 0), |rules| (&*rules.text, rules.count));
        Layout { text, rules, boot_id: process::boot_id(), scopes: SCOPES }
    }

    fn counters(&self) -> usize {
        (TEXT + self.text.len()).next_multiple_of(64)
    }

    fn scopes_at(&self) -> usize {
        (self.counters() + self.rules as usize * size_of::<Counter>()).next_multiple_of(64)
    }

    pub fn size(&self) -> usize {
        (self.scopes_at() + self.scopes * size_of::<Scope>()).next_multiple_of(4096)
    }

    fn name(&self) -> Short<32> {
        let boot = u32::from_be_bytes([0, 1, 2, 3].map(|i| self.boot_id[i]));
        let hash = fnv(self.text.as_bytes());
        Short::new(format_args!("{PREFIX}{boot:08x}-{:08x}", (hash ^ hash >> 32) as u32))
    }

    pub fn header(&self) -> Header {
        Header {
            magic: MAGIC,
            version: VERSION,
            rules: self.rules,
            boot_id: self.boot_id,
            text: self.text.len() as u32,
            counters: self.counters() as u32,
            scopes: self.scopes_at() as u32,
            scope_count: self.scopes as u32,
            ..Header::default()
        }
    }

    /// # Safety
    ///
    /// There are [`Layout::size`] zeros at `base` that nobody else writes to.
    pub unsafe fn write(&self, base: *mut u8, header: Header) {
        // SAFETY: the caller's promise; the layout lies within its size.
        unsafe {
            base.cast::<Header>().write(header);
            ptr::copy_nonoverlapping(self.text.as_ptr(), base.add(TEXT), self.text.len());
        }
    }
}

/// The name of a denied pair, or of the limit, among the rules.
pub fn deny_name(number: usize) -> Short<32> {
    Short::new(format_args!("deny-peer/{}", number + 1))
}

fn open_or_create(directory: &Directory, layout: &Layout) -> Result<*mut u8, c_int> {
    let path = directory.file(layout.name().text())?;
    let open = || open(directory, &path, layout);
    match open() {
        Err(libc::ENOENT) => {
            // SAFETY: mapped with this size, all zero.
            let write = |base| unsafe { layout.write(base, layout.header()) };
            directory::publish_mapped(directory, &path, ".faults", layout.size(), write)?;
            open()
        }
        other => other,
    }
}

fn open(directory: &Directory, path: &Path, layout: &Layout) -> Result<*mut u8, c_int> {
    let base = directory.open(path)?.map(0, layout.size())?;
    // SAFETY: mapped above; the layout lies within its size.
    let (fixed, text) = unsafe {
        (slice::from_raw_parts(base, FIXED), slice::from_raw_parts(base.add(TEXT), layout.text.len()))
    };
    if fixed != &bytes(&layout.header())[..FIXED] || text != layout.text.as_bytes() {
        // SAFETY: mapped above with this size; it is the file of another plan.
        unsafe { libc::munmap(base.cast(), layout.size()) };
        return Err(libc::EINVAL);
    }
    Ok(base)
}

/// What is counted of a rule of the environment's plan, or behind these of a denied pair.
pub fn counter(number: u32) -> Option<&'static Counter> {
    let base = BASE.load(Acquire);
    let header = base.cast::<Header>();
    // SAFETY: mapped for good; the layout was compared, and has so many counters there.
    unsafe {
        let is_there = !header.is_null() && number < (*header).rules;
        is_there.then(|| &*base.add((*header).counters as usize).cast::<Counter>().add(number as usize))
    }
}

/// Counts what was denied.
pub fn denied(which: usize) {
    let rules = settings::get().inject.as_ref().map_or(0, |plan| plan.rules.len());
    if let Some(counter) = counter((rules + which) as u32) {
        counter.matched.fetch_add(1, Relaxed);
        counter.fired.fetch_add(1, Relaxed);
    }
}

/// The scopes of the job.
pub fn scopes() -> Option<&'static [Scope]> {
    let base = BASE.load(Acquire);
    let header = base.cast::<Header>();
    // SAFETY: mapped for good; the layout was compared, and has so many scopes there.
    (!header.is_null()).then(|| unsafe {
        let first = base.add((*header).scopes as usize).cast::<Scope>();
        slice::from_raw_parts(first, (*header).scope_count as usize)
    })
}

/// The next number of a process.
pub fn next_process() -> u64 {
    let base = BASE.load(Acquire).cast::<Header>();
    if base.is_null() {
        return 1;
    }
    // SAFETY: a number of the mapped header, aligned, and changed only in this way.
    unsafe { AtomicU64::from_ptr(&raw mut (*base).processes) }.fetch_add(1, AcqRel) + 1
}

fn damaged() -> &'static [AtomicU64] {
    let base = BASE.load(Acquire);
    if base.is_null() {
        return &[];
    }
    // SAFETY: within the first page of the mapping, aligned, and used only in this way.
    unsafe { slice::from_raw_parts(base.add(DAMAGED).cast::<AtomicU64>(), DAMAGED_COUNT) }
}

/// Remembers the fingerprint of a handle that a rule has damaged.
pub fn add_damaged(fingerprint: u64) {
    let is_kept = damaged().iter().any(|place| {
        let there = place.compare_exchange(0, fingerprint, Release, Acquire);
        there.is_ok() || there == Err(fingerprint)
    });
    let base = BASE.load(Acquire).cast::<Header>();
    if !is_kept && !base.is_null() {
        // SAFETY: a number of the mapped header, aligned, and changed only in this way.
        unsafe { AtomicU64::from_ptr(&raw mut (*base).damaged_more) }.fetch_add(1, Relaxed);
    }
}

/// Whether a rule has damaged any handle.
pub fn has_damaged() -> bool {
    damaged().first().is_some_and(|first| first.load(Acquire) != 0)
}

/// Whether a rule has damaged the handle of this fingerprint, in any process.
pub fn is_damaged(fingerprint: u64) -> bool {
    damaged().iter().any(|place| place.load(Acquire) == fingerprint)
}
