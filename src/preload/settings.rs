//! What the environment asks for: read once, when a program first meets a driver. A bad value is one
//! message, and the default.

use crate::{log, message};
use core::ffi::{CStr, c_char};
use core::ptr;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};
use cupeer_spec::env;
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::selector::FunctionSet;
use std::ffi::CString;

/// The settings of this process.
pub struct Settings {
    /// The form of the log, where there is one.
    pub log: Option<LogForm>,
    /// The file of the log, as it was named; stderr where there is none.
    pub log_file: Option<CString>,
    /// Whether only failing calls are logged.
    pub failed: bool,
    /// The key of the fingerprints.
    pub job: [u8; 16],
    trace: FunctionSet,
    driver: Option<CString>,
}

/// The form of the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LogForm {
    /// Lines for people.
    Text,
    /// An object a line.
    Json,
}

static SETTINGS: AtomicPtr<Settings> = AtomicPtr::new(ptr::null_mut());

/// The settings. Several threads may read them first at the same time; one reading stays.
#[inline]
pub fn get() -> &'static Settings {
    let settings = SETTINGS.load(Acquire);
    if settings.is_null() {
        return read();
    }
    // SAFETY: settings that were published are never freed.
    unsafe { &*settings }
}

#[cold]
fn read() -> &'static Settings {
    let settings = Box::into_raw(Box::new(Settings::from_environment()));
    match SETTINGS.compare_exchange(ptr::null_mut(), settings, Release, Acquire) {
        Ok(_) => {
            // SAFETY: published, and never freed.
            let settings = unsafe { &*settings };
            log::start(settings);
            settings
        }
        Err(first) => {
            // SAFETY: ours was not published; the first one never is freed.
            unsafe {
                drop(Box::from_raw(settings));
                &*first
            }
        }
    }
}

impl Settings {
    fn from_environment() -> Self {
        let log = text(env::LOG).and_then(|value| match value.to_bytes() {
            b"" => None,
            b"text" => Some(LogForm::Text),
            b"json" => Some(LogForm::Json),
            _ => {
                refuse(env::LOG, value, "text or json; there is no log");
                None
            }
        });
        let failed = text(env::FAILED).is_some_and(|value| match value.to_bytes() {
            b"1" => true,
            b"" | b"0" => false,
            _ => {
                refuse(env::FAILED, value, "0 or 1; it counts as 0");
                false
            }
        });
        Settings {
            log,
            log_file: text(env::LOG_FILE).filter(|path| !path.is_empty()).map(CStr::to_owned),
            failed,
            job: text(env::JOB).map_or([0; 16], job_key),
            trace: trace(),
            driver: text(env::DRIVER).filter(|path| !path.is_empty()).map(CStr::to_owned),
        }
    }

    /// Whether a call of this function is logged, should it fail where only those are.
    #[inline]
    pub fn is_logged(&self, id: FnId) -> bool {
        self.log.is_some() && self.trace.contains(id as usize)
    }

    /// Whether calls of this function run through `call`: it is logged, or its outputs must be looked at.
    pub fn is_traced(&self, id: FnId) -> bool {
        id.spec().hands_out.is_some() || self.is_logged(id)
    }

    /// The driver for calls behind which there is none.
    pub fn driver(&self) -> Option<&CStr> {
        self.driver.as_deref()
    }
}

fn trace() -> FunctionSet {
    let default = || FunctionSet::parse(FunctionSet::DEFAULT).unwrap_or(FunctionSet::all(true));
    let Some(value) = text(env::TRACE).filter(|value| !value.is_empty()) else { return default() };
    let parsed = value.to_str().map_err(|_| "it is not UTF-8".to_string());
    match parsed.and_then(|set| FunctionSet::parse(set).map_err(|error| error.to_string())) {
        Ok(set) => set,
        Err(error) => {
            message::line(format_args!(
                "{}={}: {error}; logging the default set, {}",
                env::TRACE,
                value.to_string_lossy(),
                FunctionSet::DEFAULT
            ));
            default()
        }
    }
}

fn job_key(value: &CStr) -> [u8; 16] {
    let mut key = [0; 16];
    let digits = value.to_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    if digits.len() == 2 * key.len() && digits.iter().all(u8::is_ascii_hexdigit) {
        for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
            *byte = digit(pair[0]).unwrap_or(0) << 4 | digit(pair[1]).unwrap_or(0);
        }
    } else if !digits.is_empty() {
        refuse(env::JOB, value, "32 hexadecimal digits; the key is zero");
    }
    key
}

fn refuse(name: &str, value: &CStr, wanted: &str) {
    message::line(format_args!("{name}={} is not understood: it takes {wanted}", value.to_string_lossy()));
}

/// A variable of the environment, read as the C library has it, without Rust's lock.
pub fn text(name: &str) -> Option<&'static CStr> {
    let mut c_name = [0 as c_char; 32];
    for (place, byte) in c_name.iter_mut().zip(name.bytes().take(31)) {
        *place = byte as c_char;
    }
    // SAFETY: the name ends in NUL. A program that changes its environment while it meets its driver
    // races with every getenv of its own libraries too.
    let value = unsafe { libc::getenv(c_name.as_ptr()) };
    // SAFETY: not null, and ends in NUL.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// The groups whose callers are looked for behind the runtime.
pub fn looks_behind_runtime(id: FnId) -> bool {
    [Group::Open, Group::Export, Group::Enable].iter().any(|group| id.spec().is_in(*group))
}
