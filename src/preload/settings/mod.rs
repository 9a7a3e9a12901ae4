//! The settings from the environment, read once when the library is loaded, because programs change their environment
//! later.
//!
//! A bad value causes one message, printed when the process reaches a driver, and the default applies.

mod check;
mod deny;
pub mod inject;
pub mod key;

use crate::sys::clock;
use crate::sys::elf;
use crate::sys::every_call::EVERY_CALL;
use crate::sys::{memory, opened};
use core::ffi::{CStr, c_char};
use core::fmt::Display;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::env::{self, RecordMode};
use cupeer_spec::fault::Plan;
use cupeer_spec::function::FnId;
use cupeer_spec::rank;
use cupeer_spec::record::job;
use cupeer_spec::selector::FunctionSet;
use std::ffi::CString;

pub use check::Check;
pub use deny::Deny;

pub struct Settings {
    /// The form of the log, where there is one.
    pub log: Option<LogForm>,
    /// The file of the log, as it was named; stderr where there is none.
    pub log_file: Option<CString>,
    pub failed: bool,
    /// The key of the fingerprints.
    pub job: [u8; 16],
    /// The driver for calls behind which there is none.
    pub driver: Option<CString>,
    pub record: Option<Record>,
    /// Whether lines of Python are told.
    pub python: bool,
    /// What is checked, where anything is; never without a record.
    pub check: Option<Check>,
    /// The plan of faults, where there is one.
    pub inject: Option<Plan>,
    /// Whether it puts something else into a handle.
    pub damages_handles: bool,
    /// Whether its rules only say when they would fire.
    pub is_dry: bool,
    /// Whether plans are armed from outside, too.
    pub allows_faults: bool,
    /// Where processes count together what its rules did, where that is not the record's directory.
    pub faults: Option<CString>,
    /// When the library was loaded, in nanoseconds of CLOCK_MONOTONIC.
    pub began: AtomicU64,
    /// What is denied, where anything is.
    pub deny: Option<Deny>,
    /// The page that the launcher shares with us.
    pub status: Option<CString>,
    /// What stderr is when the program begins, where we may have to write there.
    pub stderr: Option<(u64, u64)>,
    logged: FunctionSet,
    recorded: FunctionSet,
    /// The allocating functions of which all calls are traced.
    allocations: FunctionSet,
    injected: FunctionSet,
    complaints: Vec<String>,
}

/// What is recorded, and where.
pub struct Record {
    /// The directory, as it was named.
    pub directory: CString,
    /// The size of a ring; `None` where everything is kept.
    pub ring: Option<u64>,
    /// The size at which a file that keeps everything begins to overwrite its later half.
    pub limit: Option<u64>,
    /// Whether the group may read and write it.
    pub shared: bool,
    /// Whether the job is so large that files lie in a folder a host, and only those of processes that share something.
    pub is_large: bool,
}

impl Record {
    fn new(directory: CString, mode: RecordMode, shared: bool) -> Option<Record> {
        let number = |name: &str| found(name)?.to_str().ok()?.parse::<u32>().ok();
        let is_large = |most| rank::SIZE_NAMES.all().find_map(number).is_some_and(|ranks| ranks > most);
        let (ring, limit, is_large) = match mode {
            RecordMode::Off => return None,
            RecordMode::Auto(most) if is_large(most) => (Some(env::AUTO_RING), None, true),
            RecordMode::Auto(_) => (None, Some(env::AUTO_LIMIT), false),
            RecordMode::Full(limit) => (None, limit, false),
            RecordMode::Ring(size) => (Some(size), None, false),
        };
        Some(Record { directory, ring, limit, shared, is_large })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LogForm {
    /// Lines for people.
    Text,
    /// An object a line.
    Json,
}

/// The settings. Several threads may read them first at the same time; one reading stays.
#[inline]
pub fn get() -> &'static Settings {
    let settings = EVERY_CALL.settings.load(Acquire).cast::<Settings>();
    if settings.is_null() {
        return read_all();
    }
    // SAFETY: settings that were published are never freed.
    unsafe { &*settings }
}

#[cold]
#[unsafe(link_section = ".text.startup")]
fn read_all() -> &'static Settings {
    let settings = make();
    match EVERY_CALL.settings.compare_exchange(ptr::null_mut(), settings.cast(), Release, Acquire) {
        // SAFETY: published, and never freed.
        Ok(_) => unsafe { &*settings },
        // SAFETY: the first one never is freed; neither is ours, whose memory another thread may not give back.
        Err(first) => unsafe { &*first.cast() },
    }
}

/// The most bytes of a value that is read: fewer where there is no memory for all of them.
static LONGEST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Makes the settings, in as much memory as they may need. Where that cannot be had, what is long counts as not set.
fn make() -> *mut Settings {
    if !is_any_set() {
        NOTHING.began.store(clock::now(), Relaxed);
        return ptr::from_ref(&NOTHING).cast_mut();
    }
    read_environment()
}

/// The settings where no variable of ours is set, as in most processes that meet us: they take no memory, and no time.
#[unsafe(link_section = ".data.start")]
static NOTHING: Settings = Settings {
    log: None,
    log_file: None,
    failed: false,
    job: [0; 16],
    driver: None,
    record: None,
    python: true,
    check: None,
    inject: None,
    damages_handles: false,
    is_dry: false,
    allows_faults: false,
    faults: None,
    began: AtomicU64::new(0),
    deny: None,
    status: None,
    stderr: None,
    logged: FunctionSet::all(false),
    recorded: FunctionSet::all(false),
    allocations: FunctionSet::all(false),
    injected: FunctionSet::all(false),
    complaints: Vec::new(),
};

#[inline(never)]
fn read_environment() -> *mut Settings {
    /// What is known without a variable, and the messages.
    const ALWAYS: usize = 32 * 1024;
    /// What can be had in any case is enough for so many bytes of each.
    const SHORT: usize = 512;
    let make = || (Box::into_raw(Box::new(Settings::from_environment())), true);
    let need = env::NAMES.all().map(|name| match found(name).map_or(0, CStr::count_bytes) {
        0 => 0,
        length if name == env::INJECT => inject::memory_of(length),
        length => 8 * length,
    });
    memory::within(ALWAYS + need.sum::<usize>(), make).unwrap_or_else(|| {
        LONGEST.store(SHORT, Relaxed);
        // Where another thread has come first and taken it, there is the arena.
        memory::within(memory::FIRST, make).unwrap_or_else(|| make().0)
    })
}

impl Settings {
    fn from_environment() -> Self {
        let mut complaints = Vec::new();
        let is_short = LONGEST.load(Relaxed) != usize::MAX;
        let left_out = |name: &&str| is_short && found(name).is_some() && value(name).is_none();
        for name in env::NAMES.all().filter(left_out) {
            complaints.push(format!("out of memory for {name}: it counts as not set"));
        }
        let log = read(&mut complaints, env::LOG, "there is no log", |value| match value.to_bytes() {
            b"text" => Ok(LogForm::Text),
            b"json" => Ok(LogForm::Json),
            _ => Err("must be text or json"),
        });
        let failed = read_flag(&mut complaints, env::FAILED, false);
        let job = read(&mut complaints, env::JOB, "the key is zero", |value| {
            job::key(value.to_bytes()).ok_or("must be 32 hexadecimal digits")
        });
        let otherwise = format!("logging the default set, {}", FunctionSet::DEFAULT);
        let trace = read_text(&mut complaints, env::TRACE, &otherwise, FunctionSet::parse);
        let mode = read_text(&mut complaints, env::RECORD, "using auto", RecordMode::parse);
        let shared = read(&mut complaints, env::SHARE, "the recording is only for the user", |value| {
            (value.to_bytes() == b"group").then_some(true).ok_or("must be group")
        });
        let shared = shared.unwrap_or(false);
        let mode = mode.unwrap_or(RecordMode::Auto(env::AUTO_RANKS));
        let record = value(env::OUT).and_then(|directory| Record::new(directory.to_owned(), mode, shared));
        let python = value(env::PYTHON).is_none() || read_flag(&mut complaints, env::PYTHON, true);
        let check = Check::from_environment(record.is_some(), &mut complaints);
        let (inject, is_dry) = inject::from_environment(&mut complaints);
        let allows_faults = read_flag(&mut complaints, env::ALLOW_FAULTS, false);
        let deny = Deny::from_environment(&mut complaints);
        let driver = value(env::DRIVER).map(CStr::to_owned);
        let speaks = log.is_some()
            || record.is_some()
            || inject.is_some()
            || deny.is_some()
            || driver.is_some()
            || !complaints.is_empty();
        // Another copy of us is loaded before, and sees everything.
        let is_first = !elf::is_second_copy();
        let (log, record) = (log.filter(|_| is_first), record.filter(|_| is_first));
        let (check, inject) = (check.filter(|_| is_first), inject.filter(|_| is_first));
        let deny = deny.filter(|_| is_first);
        // The record has all but the look-ups, of which there are hundreds at the start of a program, and what is
        // asked all the time, unless somebody wants to trace them.
        let mut recorded = FunctionSet::all(record.is_some());
        let mut allocations = FunctionSet::all(false);
        for id in FnId::all().filter(|id| id.spec().is_plentiful()) {
            let wanted = trace.as_ref().is_some_and(|trace| trace.contains(id as usize));
            // An allocation is recorded if it is large, and counted if it is small. Contexts are few and expensive.
            let is_context = check.is_some() && id.spec().creates_context().is_some();
            let is_kept = wanted || is_context || id.spec().allocates().is_some();
            recorded.set(id as usize, record.is_some() && is_kept);
            allocations.set(id as usize, wanted);
        }
        let default = || FunctionSet::parse(FunctionSet::DEFAULT).unwrap_or(FunctionSet::all(true));
        Settings {
            log,
            stderr: if speaks { opened::identity(libc::STDERR_FILENO) } else { None },
            log_file: value(env::LOG_FILE).map(CStr::to_owned),
            failed,
            job: job.unwrap_or_default(),
            driver,
            record,
            python,
            check,
            deny,
            recorded,
            allocations,
            injected: inject.as_ref().map_or(FunctionSet::all(false), inject::functions),
            damages_handles: inject.as_ref().is_some_and(Plan::damages_handles),
            inject,
            is_dry,
            allows_faults: allows_faults && is_first,
            faults: value(env::FAULTS).map(CStr::to_owned),
            began: AtomicU64::new(clock::now()),
            status: value(env::STATUS).map(CStr::to_owned),
            logged: if log.is_some() { trace.unwrap_or_else(default) } else { FunctionSet::all(false) },
            complaints,
        }
    }

    /// Whether a call of this function is logged, should it fail where only those are.
    #[inline(always)]
    pub fn is_logged(&self, id: FnId) -> bool {
        self.logged.contains(id as usize)
    }

    /// Whether a call of this function is recorded.
    #[inline(always)]
    pub fn is_recorded(&self, id: FnId) -> bool {
        self.recorded.contains(id as usize)
    }

    /// Whether somebody wants to trace all allocations of this function, also small ones.
    #[inline(always)]
    pub fn asks_for_allocations(&self, id: FnId) -> bool {
        self.allocations.contains(id as usize)
    }

    /// Whether calls of this function run through `call`: it is logged or recorded, or its outputs must be
    /// looked at. What is only recorded may need no look yet: it `is_awake` where it does.
    pub fn is_traced(&self, id: FnId, is_awake: bool) -> bool {
        id.spec().hands_out().is_some()
            || self.is_logged(id)
            || is_awake && self.is_recorded(id)
            || self.injected.contains(id as usize)
            || self.deny.as_ref().is_some_and(|deny| deny.concerns(id))
    }

    /// Whether the processes of the job share a directory: that of the record, or one for the counts of plans.
    #[inline(always)]
    pub fn has_directory(&self) -> bool {
        self.record.is_some() || self.faults.is_some()
    }

    /// What was not understood. For a process that has met a driver; all others hear nothing of us.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }
}

/// What a variable asks for, where it is set. What is not understood is complained of, and `otherwise` is done.
fn read<T, E: Display>(
    complaints: &mut Vec<String>,
    name: &str,
    otherwise: &str,
    parse: impl FnOnce(&'static CStr) -> Result<T, E>,
) -> Option<T> {
    let value = value(name)?;
    let refuse = |why| format!("{name}={} is not valid: {why}; {otherwise}", value.to_string_lossy());
    parse(value).map_err(|why| complaints.push(refuse(why))).ok()
}

/// The same of one that must be text.
fn read_text<T, E: Display>(
    complaints: &mut Vec<String>,
    name: &str,
    otherwise: &str,
    parse: impl FnOnce(&'static str) -> Result<T, E>,
) -> Option<T> {
    read(complaints, name, otherwise, |value| {
        let text = value.to_str().map_err(|_| "it is not UTF-8".to_owned());
        text.and_then(|text| parse(text).map_err(|error| error.to_string()))
    })
}

/// Whether a variable says yes; `otherwise` where it says neither that nor no.
fn read_flag(complaints: &mut Vec<String>, name: &str, otherwise: bool) -> bool {
    let using = if otherwise { "using 1" } else { "using 0" };
    let flag = read(complaints, name, using, |value| match value.to_bytes() {
        b"1" => Ok(true),
        b"0" => Ok(false),
        _ => Err("must be 0 or 1"),
    });
    flag.unwrap_or(otherwise && value(name).is_some())
}

/// A variable of the environment that is not empty, and not too long for the memory that there is.
fn value(name: &str) -> Option<&'static CStr> {
    found(name).filter(|value| value.count_bytes() <= LONGEST.load(Relaxed))
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Whether the environment has any variable of ours. Where the C library does not have it yet, it may.
fn is_any_set() -> bool {
    // SAFETY: see `found`. Each entry ends in NUL, and null ends them; what comes behind another byte than the prefix's is
    // not read.
    unsafe {
        let is_ours = |entry: *const c_char| {
            (0..).zip(env::PREFIX.bytes()).all(|(i, byte)| *entry.add(i) as u8 == byte)
        };
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() && !is_ours(*entry) {
            entry = entry.add(1);
        }
        entry.is_null() || !(*entry).is_null()
    }
}

/// A variable of the environment that is not empty, read as the C library has it, without Rust's lock. For our constructor.
pub fn found(name: &str) -> Option<&'static CStr> {
    unsafe extern "C" {
        fn secure_getenv(name: *const c_char) -> *const c_char;
    }
    let mut c_name = [0 as c_char; 32];
    for (place, byte) in c_name.iter_mut().zip(name.bytes().take(31)) {
        *place = byte as c_char;
    }
    // SAFETY: set by the C library, which is not the case yet where a call comes before all constructors.
    if unsafe { environ.is_null() } {
        return early_value(name);
    }
    // SAFETY: the name ends in NUL. Read when the library is loaded, before the program can change its
    // environment; where a call comes even earlier, its constructors have not started threads that do.
    // Nothing in a program with more rights than its user.
    let value = unsafe { secure_getenv(c_name.as_ptr()) };
    // SAFETY: not null, and ends in NUL.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }).filter(|value| !value.is_empty())
}

/// The same, as the system has it.
fn early_value(name: &str) -> Option<&'static CStr> {
    // SAFETY: getauxval has no preconditions.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    static ENVIRONMENT: AtomicPtr<Vec<u8>> = AtomicPtr::new(ptr::null_mut());
    let mut environment = ENVIRONMENT.load(Acquire);
    if environment.is_null() {
        environment = Box::into_raw(Box::new(std::fs::read("/proc/self/environ").unwrap_or_default()));
        ENVIRONMENT.store(environment, Release);
    }
    // SAFETY: never freed. Nobody else runs yet.
    let environment = unsafe { &*environment };
    let wanted = |entry: &&[u8]| entry.starts_with(name.as_bytes()) && entry.get(name.len()) == Some(&b'=');
    let entry = environment.split_inclusive(|byte| *byte == 0).find(wanted)?;
    CStr::from_bytes_until_nul(&entry[name.len() + 1..]).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_is_set_the_environment_is_not_read() {
        assert!(env::NAMES.all().all(|name| name.starts_with(env::PREFIX) && found(name).is_none()));
        assert!(!is_any_set());
        let texts = |of: &Settings| [&of.log_file, &of.driver, &of.faults, &of.status].map(Clone::clone);
        let sets = |of: &Settings| [&of.logged, &of.recorded, &of.injected].map(Clone::clone);
        let flags = |of: &Settings| [of.failed, of.python, of.damages_handles, of.is_dry, of.allows_faults];
        let all = |of: &Settings| {
            let is_there = [of.log.is_some(), of.record.is_some(), of.check.is_some(), of.inject.is_some()];
            let rest = (of.deny.is_some(), of.stderr, of.job, of.complaints.clone());
            (texts(of), sets(of), flags(of), is_there, rest)
        };
        assert_eq!(all(&NOTHING), all(&Settings::from_environment()));
    }
}
