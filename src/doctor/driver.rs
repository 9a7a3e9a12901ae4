//! Examines the driver that a program would load, and which functions of the table it has. A child process loads it:
//! see `probe`.

use super::child::child_command;
use super::document::{Document, Function};
use super::probe::{ProbeResult, result_name};
use anyhow::{Context, Result};
use cupeer_console::variables::LD_LIBRARY_PATH;
use cupeer_launch::driver::{self, ChosenDriver};
use cupeer_launch::elf::ElfFile;
use cupeer_nvidia::format_cuda_version;
use cupeer_spec::abi::CUdriverProcAddressQueryResult;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

pub fn examine_driver(document: &mut Document, chosen: Option<&ChosenDriver>) -> Result<()> {
    let mut command = child_command(chosen)?;
    let found = command.arg("probe-driver").output().context("failed to start the process that examines the driver")?;
    let (mut known, mut present) = (0, 0);
    for line in found.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line).context("the process that examines the driver")? {
            ProbeResult::NotLoaded(reason) => report_missing_driver(document, &reason),
            ProbeResult::Path(path) => add_driver_path(document, Path::new(&path)),
            ProbeResult::Version(0, number) => {
                document.add_part("version", u32::try_from(number).map_or(number.to_string(), format_cuda_version));
            }
            ProbeResult::Version(result, _) => {
                document.add_part("version", "unknown".to_owned());
                let returned = result_name(result);
                document.wrong.push(format!("the driver's cuDriverGetVersion returned {returned}"));
            }
            ProbeResult::NoVersion => {
                document.wrong.push("the library has no cuDriverGetVersion: it is not a CUDA driver".to_owned())
            }
            ProbeResult::Function { name, exported, lookup } => {
                known += 1;
                present += usize::from(exported);
                let lookup = lookup.map_or("no cuGetProcAddress".to_owned(), describe_lookup);
                document.functions.push(Function { name, exported, lookup });
            }
        }
    }
    if known > 0 {
        document.add_part("functions", format!("{present} of the {known} that cupeer intercepts"));
    }
    if let Some(signal) = found.status.signal() {
        document.wrong.push(format!("the driver crashed while being examined (signal {signal})"));
    } else if !found.status.success() {
        let status = found.status.code().unwrap_or(-1);
        document.wrong.push(format!("the driver ended the process that examined it, with status {status}"));
    }
    Ok(())
}

fn report_missing_driver(document: &mut Document, reason: &str) {
    document.add_part("driver", "none".to_owned());
    let search = std::env::var_os(LD_LIBRARY_PATH).map(|path| path.to_string_lossy().into_owned());
    let mut tried: Vec<&str> = search.iter().flat_map(|path| path.split([':', ';'])).collect();
    tried.extend(["/etc/ld.so.cache", "the loader's own directories"]);
    document.wrong.push(format!(
        "no driver: {reason}; tried: {}; use --driver PATH, or 'cupeer run --sim', which needs none",
        tried.join(", ")
    ));
}

fn add_driver_path(document: &mut Document, path: &Path) {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let leads_to = if real == path { String::new() } else { format!(" -> {}", real.display()) };
    document.add_part("driver", format!("{}{leads_to}", path.display()));
    if let Ok(Some(elf)) = ElfFile::open(&real)
        && driver::is_preload_library(&real, &elf)
    {
        document.wrong.push(format!("{} is cupeer's own preload library, not a driver", path.display()));
    }
}

fn describe_lookup((result, status): (i32, i32)) -> String {
    if result != 0 {
        return result_name(result);
    }
    let status = CUdriverProcAddressQueryResult(status);
    status.name().map_or(status.0.to_string(), |name| name.trim_start_matches("CU_GET_PROC_ADDRESS_").to_owned())
}
