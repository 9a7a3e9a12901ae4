//! Examines cupeer's own libraries, the C library, and the variables of the dynamic loader.

use super::document::Document;
use cupeer_console::variables::{LD_LIBRARY_PATH, LD_PRELOAD};
use cupeer_launch::libraries;
use std::ffi::CStr;

/// Adds facts about cupeer's own libraries, the C library, and the dynamic loader's variables.
pub fn examine_cupeer_files(document: &mut Document) {
    document.add_part("cupeer", env!("CARGO_PKG_VERSION").to_owned());
    for (name, found) in
        [(libraries::PRELOAD, libraries::find_preload()), (libraries::SIM, libraries::find_library(libraries::SIM))]
    {
        match found {
            Ok(path) => document.add_part(name, path.display().to_string()),
            Err(error) => {
                document.add_part(name, "not found".to_owned());
                document.wrong.push(format!("{error:#}"));
            }
        }
    }
    // SAFETY: returns a static NUL-terminated text.
    let glibc = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    document.add_part("glibc", glibc.to_string_lossy().into_owned());
    for name in [LD_PRELOAD, LD_LIBRARY_PATH] {
        let value = std::env::var_os(name).map_or("not set".to_owned(), |value| value.display().to_string());
        document.add_part(name, value);
    }
}
