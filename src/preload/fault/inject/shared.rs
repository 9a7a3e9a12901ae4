//! The counters that the processes of a job share: the file that `cupeer_spec::record::faults` describes, or memory of
//! this process and its children if there is no directory for a file.

use super::board;
use super::plan_file::{Layout, PlanFile};
use super::private;
use crate::fault::deny;
use crate::job::directory::{self, Directory, Path};
use crate::log::message;
use crate::settings::{self, Settings};
use crate::sys::aside::run_blocked_with_stack;
use crate::sys::line::ShortText;
use crate::sys::{arena, process};
use core::ffi::c_int;
use core::fmt::Write;
use core::mem::{ManuallyDrop, offset_of};
use core::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use core::{ptr, slice};
use cupeer_spec::fault::{ConditionKey, CounterScope, FaultPlan, PlannedFault};
use cupeer_spec::record::faults::{FaultCounter, Header, RELEASE, SCOPES, ScopeCounter, TEXT};
use cupeer_spec::record::plain_bytes;

/// Mapped file, or memory in place of a file; null before [`map_counts`]. Never unmapped.
static FILE: AtomicPtr<PlanFile> = AtomicPtr::new(ptr::null_mut());

/// Directory of the shared counts; null if there is none. A file in this directory releases hanging calls.
static DIRECTORY: AtomicPtr<Directory> = AtomicPtr::new(ptr::null_mut());

/// Number of bytes at the start of a header that do not change. Other processes change the numbers after these bytes at any time,
/// so no reference to a whole header is made.
const FIXED: usize = offset_of!(Header, processes);

/// Contents of the file, composed when the settings are read; null if the environment has no plan.
static RULES: AtomicPtr<PlanText> = AtomicPtr::new(ptr::null_mut());

/// Text with a line for each fault in the environment, and then a line for each denied pair.
#[derive(Default)]
struct PlanText {
    text: String,
    /// Number of lines of the text.
    count: u32,
}

/// Composes the text of the file from the settings.
pub fn compose_text(settings: &Settings) {
    let mut rules = PlanText::default();
    for rule in settings.inject.iter().flat_map(|plan| &plan.rules) {
        let _ = writeln!(rules.text, "{} {}", rule.name, rule.text);
        rules.count += 1;
    }
    for (number, name) in deny::denied_names().iter().enumerate() {
        let _ = writeln!(rules.text, "{} {name}", deny_name(number).text());
        rules.count += 1;
    }
    RULES.store(Box::into_raw(Box::new(rules)), Release);
}

/// Maps the file, unless it is mapped already. For use on the slow path of a call.
pub fn map_counts() {
    if FILE.load(Acquire).is_null() {
        // Paths are long, and stacks may be small.
        run_blocked_with_stack(|| map_counts_now(settings::get()));
    }
}

fn map_counts_now(settings: &Settings) {
    let layout = layout();
    let attached = board::directory(settings, true).and_then(|directory| {
        remember_directory(&directory);
        open_or_create(&directory, &layout)
    });
    let base = match attached {
        Ok(base) => base,
        Err(error) => {
            let is_joint = |rule: &PlannedFault| {
                let mut conditions = rule.conditions.iter();
                matches!(rule.per, CounterScope::Job | CounterScope::Rank)
                    || conditions.any(|one| one.key == ConditionKey::Process)
            };
            let is_needed = |plan: &FaultPlan| plan.rules.iter().any(is_joint);
            if error != libc::ENOENT || settings.inject.as_ref().is_some_and(is_needed) {
                message::print_line(format_args!(
                    "faults are counted in this process only: no file can be shared ({})",
                    message::ErrnoText(error)
                ));
            }
            let base = private::map_shared(layout.size()).cast::<u8>();
            if base.is_null() {
                return;
            }
            // SAFETY: mapped above with this size, and not published yet.
            unsafe { layout.write(base, layout.header()) };
            base
        }
    };
    let file = PlanFile::new(base, layout.size(), layout.header());
    if let Some(file) = arena::store_permanently(ManuallyDrop::new(file)) {
        let new = ptr::from_ref::<PlanFile>(file).cast_mut();
        if FILE.compare_exchange(ptr::null_mut(), new, AcqRel, Acquire).is_err() {
            file.unmap();
        }
    }
}

fn file() -> Option<&'static PlanFile> {
    // SAFETY: null, or a value that is never freed.
    unsafe { FILE.load(Acquire).as_ref() }
}

fn layout() -> Layout<'static> {
    // SAFETY: never freed.
    let rules = unsafe { RULES.load(Acquire).as_ref() };
    let (text, rules) = rules.map_or(("", 0), |rules| (&*rules.text, rules.count));
    Layout { text, rules, boot_id: process::boot_id(), scopes: SCOPES }
}

/// Remembers the directory of the shared counts, once.
fn remember_directory(directory: &Directory) {
    let kept = private::map_once(&DIRECTORY, size_of::<Directory>(), |size| {
        // Forked children share the memory.
        private::map_shared(size)
    });
    if !kept.is_null() {
        // SAFETY: mapped with this size. Threads that come at the same time write the same.
        unsafe { kept.write(Directory { path: directory.path, mode: directory.mode }) };
    }
}

/// Path of a file that releases the calls which hang under a label, once the file exists. The path is not on the stack, which may
/// be small.
pub struct ReleaseFile(*mut Path);

impl ReleaseFile {
    /// Returns the gate of a label. `None` if there is no directory for the file.
    pub fn new(label: &str) -> Option<ReleaseFile> {
        // SAFETY: never unmapped, and written before anything hangs.
        let directory = unsafe { DIRECTORY.load(Acquire).as_ref() }?;
        let path = private::map_wiped_on_fork(size_of::<Path>()).cast::<Path>();
        if path.is_null() {
            return None;
        }
        let name = ShortText::<80>::new(format_args!("{RELEASE}{label}"));
        let is_made = run_blocked_with_stack(|| {
            if let Ok(made) = directory.path_of(name.text()) {
                // SAFETY: mapped above with this size.
                unsafe { path.write(made) };
            }
        });
        let gate = ReleaseFile(path);
        is_made.then_some(gate)
    }

    /// Returns true once the file exists.
    pub fn exists(&self) -> bool {
        // SAFETY: a path that ends in NUL, or is empty.
        unsafe { libc::access(self.0.cast(), libc::F_OK) == 0 }
    }
}

impl Drop for ReleaseFile {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and not shared.
        unsafe { libc::munmap(self.0.cast(), size_of::<Path>()) };
    }
}

/// Returns the name of a denied pair, or of the limit of peers, in the text of the file. `number` starts at 0, and the name at 1.
pub fn deny_name(number: usize) -> ShortText<32> {
    ShortText::new(format_args!("deny-peer/{}", number + 1))
}

fn open_or_create(directory: &Directory, layout: &Layout) -> Result<*mut u8, c_int> {
    let path = directory.path_of(layout.name().text())?;
    let open = || open(directory, &path, layout);
    match open() {
        Err(libc::ENOENT) => {
            // SAFETY: mapped with this size, all zero.
            let write = |base| unsafe { layout.write(base, layout.header()) };
            directory::create_mapped_file(directory, &path, ".faults", layout.size(), write)?;
            open()
        }
        other => other,
    }
}

fn open(directory: &Directory, path: &Path, layout: &Layout) -> Result<*mut u8, c_int> {
    let base = directory.open(path)?.map(0, layout.size())?;
    // SAFETY: mapped above; the layout is within its size.
    let (fixed, text) =
        unsafe { (slice::from_raw_parts(base, FIXED), slice::from_raw_parts(base.add(TEXT), layout.text.len())) };
    if fixed != &plain_bytes(&layout.header())[..FIXED] || text != layout.text.as_bytes() {
        // SAFETY: mapped above with this size; it is the file of another plan.
        unsafe { libc::munmap(base.cast(), layout.size()) };
        return Err(libc::EINVAL);
    }
    Ok(base)
}

/// Returns the counts of a fault of the environment's plan, or of a denied pair. The numbers of denied pairs follow those of the
/// faults.
pub fn counter(number: u32) -> Option<&'static FaultCounter> {
    file()?.counters().get(number as usize)
}

/// Counts a denied call, for the denied pair (or the limit of peers) with an index.
pub fn count_denied_call(which: usize) {
    let rules = settings::get().inject.as_ref().map_or(0, |plan| plan.rules.len());
    if let Some(counter) = counter((rules + which) as u32) {
        counter.matched.fetch_add(1, Relaxed);
        counter.fired.fetch_add(1, Relaxed);
    }
}

/// Returns the scopes in which the processes of the job count together.
pub fn scopes() -> Option<&'static [ScopeCounter]> {
    Some(file()?.scopes())
}

/// Counts this process among the processes of the job, and returns its number.
pub fn next_process() -> u64 {
    file().map_or(1, PlanFile::count_process)
}

fn damaged_fingerprints() -> &'static [AtomicU64] {
    file().map_or(&[], PlanFile::damaged_fingerprints)
}

/// Remembers the fingerprint of a handle that a fault damaged.
pub fn add_damaged(fingerprint: u64) {
    let is_kept = damaged_fingerprints().iter().any(|place| {
        let there = place.compare_exchange(0, fingerprint, Release, Acquire);
        there.is_ok() || there == Err(fingerprint)
    });
    if !is_kept && let Some(file) = file() {
        file.count_unlisted();
    }
}

/// Returns true if a fault damaged any handle, in any process.
pub fn has_damaged() -> bool {
    damaged_fingerprints().first().is_some_and(|first| first.load(Acquire) != 0)
}

/// Returns true if a fault damaged the handle with this fingerprint, in any process.
pub fn is_damaged(fingerprint: u64) -> bool {
    damaged_fingerprints().iter().any(|place| place.load(Acquire) == fingerprint)
}
