//! Examines the driver that a program would load, and which functions of the table it has. A child process loads it:
//! see `probe`.

use super::child::child;
use super::document::{Document, Function};
use super::probe::{Fact, result_name};
use anyhow::{Context, Result};
use cupeer_console::variables::LD_LIBRARY_PATH;
use cupeer_launch::driver::{self, Chosen};
use cupeer_launch::elf::Elf;
use cupeer_nvidia::version;
use cupeer_spec::abi::CUdriverProcAddressQueryResult;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

pub fn examine(document: &mut Document, chosen: Option<&Chosen>) -> Result<()> {
    let mut command = child(chosen)?;
    let found = command
        .arg("probe-driver")
        .output()
        .context("failed to start the process that examines the driver")?;
    let (mut known, mut present) = (0, 0);
    for line in found.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line).context("the process that examines the driver")? {
            Fact::NotLoaded(reason) => no_driver(document, &reason),
            Fact::Path(path) => driver_path(document, Path::new(&path)),
            Fact::Version(0, number) => {
                document.part("version", u32::try_from(number).map_or(number.to_string(), version));
            }
            Fact::Version(result, _) => {
                document.part("version", "unknown".to_owned());
                let returned = result_name(result);
                document.wrong.push(format!("the driver's cuDriverGetVersion returned {returned}"));
            }
            Fact::NoVersion => document
                .wrong
                .push("the library has no cuDriverGetVersion: it is not a CUDA driver".to_owned()),
            Fact::Function { name, exported, lookup } => {
                known += 1;
                present += usize::from(exported);
                let lookup = lookup.map_or("no cuGetProcAddress".to_owned(), lookup_name);
                document.functions.push(Function { name, exported, lookup });
            }
        }
    }
    if known > 0 {
        document.part("functions", format!("{present} of the {known} that cupeer intercepts"));
    }
    if let Some(signal) = found.status.signal() {
        document.wrong.push(format!("the driver crashed while being examined (signal {signal})"));
    } else if !found.status.success() {
        let status = found.status.code().unwrap_or(-1);
        document.wrong.push(format!("the driver ended the process that examined it, with status {status}"));
    }
    Ok(())
}

fn no_driver(document: &mut Document, reason: &str) {
    document.part("driver", "none".to_owned());
    let search = std::env::var_os(LD_LIBRARY_PATH).map(|path| path.to_string_lossy().into_owned());
    let mut tried: Vec<&str> = search.iter().flat_map(|path| path.split([':', ';'])).collect();
    tried.extend(["/etc/ld.so.cache", "the loader's own directories"]);
    document.wrong.push(format!(
        "no driver: {reason}; tried: {}; use --driver PATH, or 'cupeer run --sim', which needs none",
        tried.join(", ")
    ));
}

fn driver_path(document: &mut Document, path: &Path) {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let leads_to = if real == path { String::new() } else { format!(" -> {}", real.display()) };
    document.part("driver", format!("{}{leads_to}", path.display()));
    if let Ok(Some(elf)) = Elf::open(&real)
        && driver::is_ours(&real, &elf)
    {
        document.wrong.push(format!("{} is cupeer's own preload library, not a driver", path.display()));
    }
}

fn lookup_name((result, status): (i32, i32)) -> String {
    if result != 0 {
        return result_name(result);
    }
    let status = CUdriverProcAddressQueryResult(status);
    status
        .name()
        .map_or(status.0.to_string(), |name| name.trim_start_matches("CU_GET_PROC_ADDRESS_").to_owned())
}
