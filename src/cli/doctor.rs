//! `cupeer doctor`: examines what `run` rests on, and says what is wrong: which driver a program would get, which
//! functions of the table it has, where cupeer's libraries are, and which calls of a program escape.
//!
//! The driver itself is loaded in a child process: see `probe`.

use crate::args::{DoctorArgs, DriverArgs, LogFormat, Options};
use crate::driver::{self, Chosen};
use crate::elf::Elf;
use crate::job::temporary;
use crate::list::version;
use crate::output::terminal_width;
use crate::probe::Fact;
use crate::run::{self, End};
use crate::settings::{LD_LIBRARY_PATH, LD_PRELOAD, inherited, with_directory};
use crate::{libraries, output, p2p};
use anyhow::{Context, Result};
use cupeer_report::model::past;
use cupeer_report::table::Table;
use cupeer_report::text::names::counted;
use cupeer_spec::abi::CUdriverProcAddressQueryResult;
use cupeer_spec::way::Way;
use cupeer_spec::{env, results};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

struct Report {
    facts: Table,
    functions: Option<Table>,
    wrong: Vec<String>,
    /// What may be right, or not.
    unclear: Vec<String>,
}

impl Report {
    fn fact(&mut self, name: &str, value: String) {
        self.facts.row([name.to_owned(), value]);
    }
}

pub fn command(args: &DoctorArgs) -> Result<ExitCode> {
    output::be_verbose(args.verbose);
    if args.p2p.p2p {
        return p2p::command(args, without_ours(std::env::var_os(LD_PRELOAD)));
    }
    let mut report = Report {
        facts: Table::new(&["", ""], 2, 40),
        functions: None,
        wrong: Vec::new(),
        unclear: Vec::new(),
    };
    own_parts(&mut report);
    let chosen = driver::choose(&args.driver)?;
    look_at_driver(&mut report, chosen.as_ref())?;
    if !args.program.is_empty() {
        look_at_program(&mut report, &args.driver, &args.program)?;
    }
    let width = terminal_width();
    let mut text = report.facts.render(width).trim_start().to_owned();
    if let Some(functions) = &report.functions {
        text += &format!("\n{}", functions.render(width));
    }
    if report.wrong.is_empty() && report.unclear.is_empty() {
        text += "\nNothing is wrong.\n";
    }
    for (title, sentences) in [("Wrong", &report.wrong), ("Unclear", &report.unclear)] {
        let lines: String = sentences.iter().map(|sentence| format!("- {sentence}\n")).collect();
        if !lines.is_empty() {
            text += &format!("\n{title}:\n{lines}");
        }
    }
    output::print(&text)?;
    Ok(ExitCode::from(u8::from(!report.wrong.is_empty())))
}

/// Our own libraries, the C library, and what the environment has for the dynamic loader.
fn own_parts(report: &mut Report) {
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

fn look_at_driver(report: &mut Report, chosen: Option<&Chosen>) -> Result<()> {
    let mut command = Command::new(std::env::current_exe().context("failed to find /proc/self/exe")?);
    command.arg("probe-driver").stdin(Stdio::null()).stderr(Stdio::null());
    command
        .env_remove(LD_PRELOAD)
        .envs(without_ours(std::env::var_os(LD_PRELOAD)).map(|rest| (LD_PRELOAD, rest)));
    if let Some(chosen) = chosen {
        let search = with_directory(inherited(LD_LIBRARY_PATH).as_ref(), &chosen.directory);
        command.env(LD_LIBRARY_PATH, search).envs(chosen.setting.clone());
    }
    let found = command.output().context("failed to start the process that examines the driver")?;
    let mut functions = Table::new(&["FUNCTION", "EXPORTED", "LOOKED UP"], 3, 20);
    let (mut known, mut present) = (0, 0);
    for line in found.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line).context("the process that examines the driver")? {
            Fact::NotLoaded(reason) => no_driver(report, &reason),
            Fact::Path(path) => driver_path(report, Path::new(&path)),
            Fact::Version(0, number) => {
                report.fact("version", u32::try_from(number).map_or(number.to_string(), version));
            }
            Fact::Version(result, _) => {
                report.fact("version", "unknown".to_owned());
                let returned = result_name(result);
                report.wrong.push(format!("the driver's cuDriverGetVersion returned {returned}"));
            }
            Fact::NoVersion => {
                report.wrong.push("the library has no cuDriverGetVersion: it is not a CUDA driver".to_owned())
            }
            Fact::Function { name, exported, lookup } => {
                known += 1;
                present += usize::from(exported);
                let exported = if exported { "yes" } else { "no" };
                let lookup = lookup.map_or("no cuGetProcAddress".to_owned(), lookup_name);
                functions.row([name, exported.to_owned(), lookup]);
            }
        }
    }
    if known > 0 {
        report.fact("functions", format!("{present} of the {known} that cupeer intercepts"));
        report.functions = Some(functions);
    }
    if let Some(signal) = found.status.signal() {
        report.wrong.push(format!("the driver crashed while being examined (signal {signal})"));
    } else if !found.status.success() {
        let status = found.status.code().unwrap_or(-1);
        report.wrong.push(format!("the driver ended the process that examined it, with status {status}"));
    }
    Ok(())
}

/// LD_PRELOAD without our library: the driver is to be seen as it is.
fn without_ours(value: Option<OsString>) -> Option<OsString> {
    let value = value?;
    let others =
        libraries::preloaded(&value).filter(|path| path.file_name() != Some(OsStr::new(libraries::PRELOAD)));
    let others: Vec<&OsStr> = others.map(Path::as_os_str).collect();
    (!others.is_empty()).then(|| others.join(OsStr::new(":")))
}

fn no_driver(report: &mut Report, reason: &str) {
    report.fact("driver", "none".to_owned());
    let search = std::env::var_os(LD_LIBRARY_PATH).map(|path| path.to_string_lossy().into_owned());
    let mut tried: Vec<&str> = search.iter().flat_map(|path| path.split([':', ';'])).collect();
    tried.extend(["/etc/ld.so.cache", "the loader's own directories"]);
    report.wrong.push(format!(
        "no driver: {reason}; tried: {}; use --driver PATH, or 'cupeer run --sim', which needs none",
        tried.join(", ")
    ));
}

fn driver_path(report: &mut Report, path: &Path) {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let leads_to = if real == path { String::new() } else { format!(" -> {}", real.display()) };
    report.fact("driver", format!("{}{leads_to}", path.display()));
    if let Ok(Some(elf)) = Elf::open(&real)
        && driver::is_ours(&real, &elf)
    {
        report.wrong.push(format!("{} is cupeer's own preload library, not a driver", path.display()));
    }
}

fn result_name(number: i32) -> String {
    results::spec(number).map_or(number.to_string(), |result| result.name().to_owned())
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

/// Runs a program, and reads from its log what went past us.
fn look_at_program(report: &mut Report, driver: &DriverArgs, program: &[OsString]) -> Result<()> {
    let folder = temporary("cupeer-doctor-").context("failed to make a private directory for a record")?;
    let log = folder.path().join("log");
    let options = Options {
        // Without one it would not be known whether a watched call came.
        record: Some("ring:1M".to_owned()),
        out: Some(folder.path().join("record")),
        log: Some(LogFormat::Json),
        log_file: Some(log.clone()),
        trace: Some("none".to_owned()),
        driver: driver.clone(),
        ..Options::default()
    };
    let run = run::with_options(&options, &[(env::FAILED, OsStr::new("0"))], program)?;
    let ended = match run.end {
        End::Exited(code) => format!("ended with status {code}"),
        End::Killed(signal) => format!("was killed by signal {signal}"),
    };
    report.fact("program", format!("{} {ended}", program[0].display()));
    let reached = match run.reached {
        0 => "no process".to_owned(),
        more => counted(more.into(), "process"),
    };
    report.fact("reached the driver", reached);
    let is_unseen = run.is_unseen();
    report.wrong.extend(run.unreached);
    report.wrong.extend(run.notes);
    let text = std::fs::read_to_string(&log).context("failed to read the log of the program")?;
    for ((library, way), processes) in escaped(&text) {
        let times = if processes == 1 { String::new() } else { format!(" in {processes} processes") };
        if way != Way::Unseen.name() {
            report.wrong.push(past(&library, &way, &times));
        }
    }
    let sentence = match report.wrong.is_empty() {
        true => "libcuda was loaded, but no watched call was seen: there was none, or it escaped cupeer",
        false => "libcuda was loaded, but no watched call was seen",
    };
    report.unclear.extend(is_unseen.then(|| sentence.to_owned()));
    Ok(())
}

/// The libraries that a log names as escaped, with the way, and in how many processes.
fn escaped(log: &str) -> BTreeMap<(String, String), usize> {
    let mut found = BTreeMap::new();
    for line in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let word = |key: &str| line["escaped"][key].as_str().map(str::to_owned);
        if let (Some(library), Some(way)) = (word("library"), word("way")) {
            *found.entry((library, way)).or_default() += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_counted_by_library_and_way() {
        let line = r#"{"ts_ns":1,"pid":2,"tid":2,"escaped":{"library":"/x.so","way":"RTLD_DEEPBIND"}}"#;
        let found = escaped(&format!("{line}\nnot json\n{{\"function\":\"cuInit\"}}\n{line}\n"));
        assert_eq!(found, BTreeMap::from([(("/x.so".to_owned(), "RTLD_DEEPBIND".to_owned()), 2)]));
    }

    #[test]
    fn our_library_is_taken_out_of_the_preload() {
        let without = |value: &str| without_ours(Some(value.into()));
        assert_eq!(without("/a.so:/x/libcupeer.so /b.so"), Some("/a.so:/b.so".into()));
        assert_eq!(without("/x/libcupeer.so"), None);
    }
}
