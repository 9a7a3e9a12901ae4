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
use cupeer_spec::fault::FaultPlan;
use cupeer_spec::function::FnId;
use cupeer_spec::rank;
use cupeer_spec::record::job;
use cupeer_spec::selector::FunctionSet;
use std::ffi::CString;

pub use check::Check;
pub use deny::Deny;

pub struct Settings {
    /// Form of the log; `None` if there is no log.
    pub log: Option<LogForm>,
    /// Path of the log file as given in the environment variable; `None` for stderr.
    pub log_file: Option<CString>,
    /// True if only failed calls are logged.
    pub only_failed: bool,
    /// Key of the fingerprints of handles, from the environment; zero if there is none.
    pub fingerprint_key: [u8; 16],
    /// Path of the driver library for calls that no other library takes.
    pub driver: Option<CString>,
    pub record: Option<Record>,
    /// True if stacks include Python lines.
    pub python: bool,
    /// The settings of the checks; always `None` without a record.
    pub check: Option<Check>,
    /// The fault plan.
    pub inject: Option<FaultPlan>,
    /// True if the plan changes bytes of handles.
    pub damages_handles: bool,
    /// True for a dry run: its faults are only reported, and not injected.
    pub is_dry: bool,
    /// True if other processes can arm plans.
    pub allows_faults: bool,
    /// Directory of the shared counts of injected faults; `None` if they are in the directory of the record.
    pub faults: Option<CString>,
    /// The time when the library was loaded, in nanoseconds of CLOCK_MONOTONIC.
    pub began: AtomicU64,
    /// The denied pairs and the limit of peers.
    pub deny: Option<Deny>,
    /// Path of the page that the launcher shares with us.
    pub status: Option<CString>,
    /// Device and inode number of stderr when the program begins; `None` if no message is possible.
    pub stderr: Option<(u64, u64)>,
    /// The functions whose calls are logged.
    logged: FunctionSet,
    /// The functions whose calls are recorded.
    recorded: FunctionSet,
    /// The allocating functions whose calls are all recorded, even small ones.
    allocations: FunctionSet,
    /// Functions whose calls the fault plan examines.
    injected: FunctionSet,
    /// Messages about variables whose values are not valid.
    complaints: Vec<String>,
}

/// Settings of the record.
pub struct Record {
    /// Path of the directory of the record as given in the environment variable.
    pub directory: CString,
    /// Size of the ring in bytes; `None` for a full record.
    pub ring: Option<u64>,
    /// Size in bytes at which a full record begins to overwrite its later half; `None` for no limit.
    pub limit: Option<u64>,
    /// True if the user's group can read and write the record.
    pub shared: bool,
    /// True for a large job, whose files are in one folder per host. In a large job, only processes that share something have a
    /// record.
    pub is_large: bool,
}

impl Record {
    /// Reads the settings of the record from environment variables. `None` if nothing is recorded.
    fn from_environment(complaints: &mut Vec<String>) -> Option<Record> {
        let mode = read_text(complaints, env::RECORD, "using auto", RecordMode::parse);
        let shared = read(complaints, env::SHARE, "the recording is only for the user", |value| {
            (value.to_bytes() == b"group").then_some(true).ok_or("must be group")
        });
        let (directory, shared) = (usable_value(env::OUT)?.to_owned(), shared.unwrap_or(false));
        let number = |name: &str| variable(name)?.to_str().ok()?.parse::<u32>().ok();
        let is_large = |most| rank::SIZE.iter().copied().find_map(number).is_some_and(|ranks| ranks > most);
        let (ring, limit, is_large) = match mode.unwrap_or(RecordMode::Auto(env::AUTO_RANKS)) {
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
    /// Log with a line of text for each call.
    Text,
    /// Log with a JSON object on each line.
    Json,
}

/// Returns the settings. If several threads ask for them first at the same time, all threads get the settings that one thread
/// read.
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
    let settings = create();
    match EVERY_CALL.settings.compare_exchange(ptr::null_mut(), settings.cast(), Release, Acquire) {
        // SAFETY: published, and never freed.
        Ok(_) => unsafe { &*settings },
        // SAFETY: the first one is never freed. Neither is ours, because another thread's memory may not be given back.
        Err(first) => unsafe { &*first.cast() },
    }
}

/// Maximum length of a value that is read, in bytes. It is reduced if there is too little memory.
static LONGEST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Creates the settings: the defaults, or the settings from the environment.
fn create() -> *mut Settings {
    if !is_any_set() {
        DEFAULTS.began.store(clock::now(), Relaxed);
        return ptr::from_ref(&DEFAULTS).cast_mut();
    }
    read_environment()
}

/// Settings if no variable of cupeer is set, as in most processes that load the library. They take no memory and no time.
#[unsafe(link_section = ".data.start")]
static DEFAULTS: Settings = Settings::defaults();

/// Reads the environment, after reserving the memory that the settings may need. Without that memory, long values count as not
/// set.
#[inline(never)]
fn read_environment() -> *mut Settings {
    /// Number of bytes for the settings themselves and for messages.
    const ALWAYS: usize = 32 * 1024;
    /// Length of a value in bytes up to which the memory that is always available is enough.
    const SHORT: usize = 512;
    let make = || (Box::into_raw(Box::new(Settings::from_environment())), true);
    let need = env::NAMES.iter().copied().map(|name| match variable(name).map_or(0, CStr::count_bytes) {
        0 => 0,
        length if name == env::INJECT => inject::memory_of(length),
        length => 8 * length,
    });
    memory::run_with_reserved_memory(ALWAYS + need.sum::<usize>(), make).unwrap_or_else(|| {
        LONGEST.store(SHORT, Relaxed);
        // If another thread took the reserved memory first, the rest of the allocator's arena is used.
        memory::run_with_reserved_memory(memory::INITIAL_SIZE, make).unwrap_or_else(|| make().0)
    })
}

impl Settings {
    const fn defaults() -> Self {
        Settings {
            log: None,
            log_file: None,
            only_failed: false,
            fingerprint_key: [0; 16],
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
        }
    }

    fn from_environment() -> Self {
        let path = |name| usable_value(name).map(CStr::to_owned);
        let mut new = Settings { complaints: messages_about_long_values(), ..Settings::defaults() };
        new.began = AtomicU64::new(clock::now());
        new.log = read(&mut new.complaints, env::LOG, "there is no log", |value| match value.to_bytes() {
            b"text" => Ok(LogForm::Text),
            b"json" => Ok(LogForm::Json),
            _ => Err("must be text or json"),
        });
        new.log_file = path(env::LOG_FILE);
        new.only_failed = read_flag(&mut new.complaints, env::FAILED, false);
        let job = read(&mut new.complaints, env::JOB, "the key is zero", |value| {
            job::parse_key(value.to_bytes()).ok_or("must be 32 hexadecimal digits")
        });
        new.fingerprint_key = job.unwrap_or_default();
        let otherwise = format!("logging the default set, {}", FunctionSet::DEFAULT);
        let trace = read_text(&mut new.complaints, env::TRACE, &otherwise, FunctionSet::parse);
        new.record = Record::from_environment(&mut new.complaints);
        new.python = usable_value(env::PYTHON).is_none() || read_flag(&mut new.complaints, env::PYTHON, true);
        new.check = Check::from_environment(new.record.is_some(), &mut new.complaints);
        (new.inject, new.is_dry) = inject::from_environment(&mut new.complaints);
        new.allows_faults = read_flag(&mut new.complaints, env::ALLOW_FAULTS, false);
        new.faults = path(env::FAULTS);
        new.deny = Deny::from_environment(&mut new.complaints);
        new.driver = path(env::DRIVER);
        new.status = path(env::STATUS);
        let has_setting = new.log.is_some() || new.record.is_some() || new.driver.is_some();
        if has_setting || new.inject.is_some() || new.deny.is_some() || !new.complaints.is_empty() {
            new.stderr = opened::identity(libc::STDERR_FILENO);
        }
        if elf::is_second_copy() {
            // Another copy of this library was loaded first, and sees all calls.
            (new.log, new.record, new.check, new.inject, new.deny) = (None, None, None, None, None);
            new.allows_faults = false;
        }
        new.set_functions(trace);
        new
    }

    /// Sets the functions whose calls are logged, recorded, or examined for faults. `trace` contains the functions that the user
    /// named.
    fn set_functions(&mut self, trace: Option<FunctionSet>) {
        if let Some(plan) = &self.inject {
            self.injected = inject::examined_functions(plan);
            self.damages_handles = plan.damages_handles();
        }
        let has_record = self.record.is_some();
        self.recorded = FunctionSet::all(has_record);
        // Lookups, of which there are hundreds at the start of a program, and frequent queries are recorded only if they are named.
        for id in FnId::all().filter(|id| id.spec().is_recorded_on_request()) {
            let is_named = trace.as_ref().is_some_and(|trace| trace.contains(id as usize));
            // An allocation is recorded if it is large, and counted if it is small. Contexts are few and expensive.
            let is_context = self.check.is_some() && id.spec().created_context().is_some();
            let is_wanted = is_named || is_context || id.spec().allocated_memory().is_some();
            self.recorded.set(id as usize, has_record && is_wanted);
            self.allocations.set(id as usize, is_named);
        }
        if self.log.is_some() {
            let default = || FunctionSet::parse(FunctionSet::DEFAULT).unwrap_or(FunctionSet::all(true));
            self.logged = trace.unwrap_or_else(default);
        }
    }

    /// Returns true if calls of a function are logged, perhaps only those that fail.
    #[inline(always)]
    pub fn is_logged(&self, id: FnId) -> bool {
        self.logged.contains(id as usize)
    }

    /// Returns true if calls of this function are recorded.
    #[inline(always)]
    pub fn is_recorded(&self, id: FnId) -> bool {
        self.recorded.contains(id as usize)
    }

    /// Returns true if all allocations of this function are recorded, even small ones.
    #[inline(always)]
    pub fn records_all_allocations(&self, id: FnId) -> bool {
        self.allocations.contains(id as usize)
    }

    /// Returns true if calls of a function run through `call`: they are logged, recorded, or changed, or return functions. Calls
    /// of a function that is only recorded can bypass `call` until their steps are needed; `is_awake` is true once they are.
    pub fn is_traced(&self, id: FnId, is_awake: bool) -> bool {
        id.spec().hands_out().is_some()
            || self.is_logged(id)
            || is_awake && self.is_recorded(id)
            || self.injected.contains(id as usize)
            || self.deny.as_ref().is_some_and(|deny| deny.is_function_examined(id))
    }

    /// Returns true if the processes of the job share a directory: the directory of the record, or one for the counts of injected
    /// faults.
    #[inline(always)]
    pub fn has_directory(&self) -> bool {
        self.record.is_some() || self.faults.is_some()
    }

    /// Returns the messages about values that were not understood. They are printed when the process reaches a driver.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }
}

/// Returns a message about each variable whose value is too long for the available memory.
fn messages_about_long_values() -> Vec<String> {
    let is_short = LONGEST.load(Relaxed) != usize::MAX;
    let is_left_out = |name: &&str| is_short && variable(name).is_some() && usable_value(name).is_none();
    let message = |name| format!("out of memory for {name}: it counts as not set");
    env::NAMES.iter().copied().filter(is_left_out).map(message).collect()
}

/// Reads a variable with `parse`; `None` if it is not set, or is not valid. If it is not valid, adds a message, which says that
/// the default `otherwise` applies.
fn read<T, E: Display>(
    complaints: &mut Vec<String>,
    name: &str,
    otherwise: &str,
    parse: impl FnOnce(&'static CStr) -> Result<T, E>,
) -> Option<T> {
    let value = usable_value(name)?;
    let refuse = |why| format!("{name}={} is not valid: {why}; {otherwise}", value.to_string_lossy());
    parse(value).map_err(|why| complaints.push(refuse(why))).ok()
}

/// Reads a variable as [`read`] does, but the value must be UTF-8.
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

/// Reads a variable that is 0 or 1; false if it is not set, and `otherwise` if it is not valid.
fn read_flag(complaints: &mut Vec<String>, name: &str, otherwise: bool) -> bool {
    let using = if otherwise { "using 1" } else { "using 0" };
    let flag = read(complaints, name, using, |value| match value.to_bytes() {
        b"1" => Ok(true),
        b"0" => Ok(false),
        _ => Err("must be 0 or 1"),
    });
    flag.unwrap_or(otherwise && usable_value(name).is_some())
}

/// Returns the value of an environment variable, if it is not empty and not too long for the available memory.
fn usable_value(name: &str) -> Option<&'static CStr> {
    variable(name).filter(|value| value.count_bytes() <= LONGEST.load(Relaxed))
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Returns true if the environment may have a variable of cupeer: if it has one, or if the C library is not initialized yet.
fn is_any_set() -> bool {
    // SAFETY: see `variable`. Each entry ends in NUL, and null ends them. Reading an entry stops at the first byte that differs from the
    // prefix.
    unsafe {
        let is_ours =
            |entry: *const c_char| (0..).zip(env::PREFIX.bytes()).all(|(i, byte)| *entry.add(i) as u8 == byte);
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() && !is_ours(*entry) {
            entry = entry.add(1);
        }
        entry.is_null() || !(*entry).is_null()
    }
}

/// Returns the value of an environment variable, if it is not empty. Uses the C library without Rust's lock, so that our
/// constructor can call this.
pub fn variable(name: &str) -> Option<&'static CStr> {
    unsafe extern "C" {
        fn secure_getenv(name: *const c_char) -> *const c_char;
    }
    let mut c_name = [0 as c_char; 32];
    for (place, byte) in c_name.iter_mut().zip(name.bytes().take(31)) {
        *place = byte as c_char;
    }
    // SAFETY: the C library sets it; it is null if a call comes before all constructors.
    if unsafe { environ.is_null() } {
        return early_value(name);
    }
    // SAFETY: the name ends in NUL. This runs when the library is loaded, before the program can change its environment. If a call comes
    // even earlier, no constructor has started threads that could. A program with more rights than its user gets null.
    let value = unsafe { secure_getenv(c_name.as_ptr()) };
    // SAFETY: not null, and ends in NUL.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }).filter(|value| !value.is_empty())
}

/// Returns the value of an environment variable from the kernel's data, before the C library is initialized.
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
    // SAFETY: never freed, and no other thread runs yet.
    let environment = unsafe { &*environment };
    let wanted = |entry: &&[u8]| entry.starts_with(name.as_bytes()) && entry.get(name.len()) == Some(&b'=');
    let entry = environment.split_inclusive(|byte| *byte == 0).find(wanted)?;
    CStr::from_bytes_until_nul(&entry[name.len() + 1..]).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_variables_the_settings_are_the_defaults() {
        assert!(env::NAMES.iter().copied().all(|name| name.starts_with(env::PREFIX) && variable(name).is_none()));
        assert!(!is_any_set());
        let texts = |of: &Settings| [&of.log_file, &of.driver, &of.faults, &of.status].map(Clone::clone);
        let sets = |of: &Settings| [&of.logged, &of.recorded, &of.injected].map(Clone::clone);
        let flags = |of: &Settings| [of.only_failed, of.python, of.damages_handles, of.is_dry, of.allows_faults];
        let all = |of: &Settings| {
            let is_there = [of.log.is_some(), of.record.is_some(), of.check.is_some(), of.inject.is_some()];
            let rest = (of.deny.is_some(), of.stderr, of.fingerprint_key, of.complaints.clone());
            (texts(of), sets(of), flags(of), is_there, rest)
        };
        assert_eq!(all(&DEFAULTS), all(&Settings::from_environment()));
    }
}
