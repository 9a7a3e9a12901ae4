//! Files and directories in which somebody else has put something: links, pipes, devices, files of holes, libraries.
//!
//! What belongs here: what all of these tests need to plant something, as another user where they run as root.

mod dup;
mod given;
mod loader;
mod planted;
mod terminal;

use crate::support;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;
use std::process::Command;

/// The user whom nobody is.
const NOBODY: u32 = 65534;

/// Makes something another user's; `false` where the test may not, which is said.
fn is_given_away(path: &Path) -> bool {
    let given = lchown(path, Some(NOBODY), Some(NOBODY));
    if given.is_err() {
        left_out!("{} cannot be given to another user, because this is not root", path.display());
    }
    given.is_ok()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn make_pipe(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends in NUL.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o666) }, 0);
}

/// The same command, which is ended where it waits for ever or takes a lot of memory or of the disk.
fn limited(command: &Command) -> Command {
    let mut limited = support::plain("timeout");
    limited.args(["-k", "1", "60", "sh", "-c", "ulimit -v 8000000; ulimit -f 2000000; exec \"$@\"", "sh"]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        limited.current_dir(directory);
    }
    limited
}

/// A program that makes one call, which fails.
fn caller() -> std::path::PathBuf {
    support::compile_text(
        "caller",
        r#"
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
    int (*close)(unsigned long) = driver ? (int (*)(unsigned long))dlsym(driver, "cuIpcCloseMemHandle") : NULL;
    if (!init || init(0) != 0 || !close || close(0) == 0) return 1;
    puts("done");
    return 0;
}
"#,
        &["-ldl"],
    )
}
