//! What `run` rests on that is ours: the libraries beside the command, the C library, and what the environment has for the
//! dynamic loader.

use super::document::Report;
use cupeer_console::variables::{LD_LIBRARY_PATH, LD_PRELOAD};
use cupeer_launch::libraries;
use std::ffi::CStr;

/// Our own libraries, the C library, and what the environment has for the dynamic loader.
pub fn look(report: &mut Report) {
    report.fact("cupeer", env!("CARGO_PKG_VERSION").to_owned());
    for (name, found) in
        [(libraries::PRELOAD, libraries::find_preload()), (libraries::SIM, libraries::find(libraries::SIM))]
    {
        match found {
            Ok(path) => report.fact(name, path.display().to_string()),
            Err(error) => {
                report.fact(name, "not found".to_owned());
                report.wrong.push(format!("{error:#}"));
            }
        }
    }
    // SAFETY: returns a static NUL-terminated text.
    let glibc = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    report.fact("glibc", glibc.to_string_lossy().into_owned());
    for name in [LD_PRELOAD, LD_LIBRARY_PATH] {
        let value = std::env::var_os(name).map_or("not set".to_owned(), |value| value.display().to_string());
        report.fact(name, value);
    }
}
