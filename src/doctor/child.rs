//! Child processes that load a driver, because a driver may crash.

use anyhow::{Context, Result};
use cupeer_console::output;
use cupeer_console::variables::{LD_LIBRARY_PATH, LD_PRELOAD, nonempty_variable};
use cupeer_launch::driver::ChosenDriver;
use cupeer_launch::libraries;
use cupeer_launch::settings::prepend_library_path;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Returns a command that runs cupeer itself, with the environment of a program that uses this driver. The caller
/// adds a hidden subcommand.
pub fn child_command(chosen: Option<&ChosenDriver>) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("failed to find /proc/self/exe")?);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
        .env_remove(LD_PRELOAD)
        .envs(without_preload_library(std::env::var_os(LD_PRELOAD)).map(|rest| (LD_PRELOAD, rest)));
    if let Some(chosen) = chosen {
        let search = prepend_library_path(nonempty_variable(LD_LIBRARY_PATH).as_ref(), &chosen.directory);
        command.env(LD_LIBRARY_PATH, search).envs(chosen.setting.clone());
    }
    Ok(command)
}

/// Prints a result as a line of JSON, which the parent process reads.
pub fn print_json_line(result: &impl Serialize) -> Result<ExitCode> {
    output::print_as_is(&format!("{}\n", serde_json::to_string(result)?))
}

/// Returns LD_PRELOAD without cupeer's library, which would change what the driver does.
fn without_preload_library(value: Option<OsString>) -> Option<OsString> {
    let value = value?;
    let others =
        libraries::preload_elements(&value).filter(|path| path.file_name() != Some(OsStr::new(libraries::PRELOAD)));
    let others: Vec<&OsStr> = others.map(Path::as_os_str).collect();
    (!others.is_empty()).then(|| others.join(OsStr::new(":")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_library_is_taken_out_of_the_preload() {
        let without = |value: &str| without_preload_library(Some(value.into()));
        assert_eq!(without("/a.so:/x/libcupeer.so /b.so"), Some("/a.so:/b.so".into()));
        assert_eq!(without("/x/libcupeer.so"), None);
    }
}
