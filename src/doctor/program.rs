//! Runs a program, and lists its calls that bypass cupeer.

use super::document::Document;
use anyhow::{Context, Result};
use cupeer_launch::args::{DriverArgs, LogFormat, Options};
use cupeer_launch::program::RunProgram;
use cupeer_recordings::job::create_temporary_directory;
use cupeer_report::model::format_bypass;
use cupeer_report::names::counted;
use cupeer_spec::bypass::Bypass;
use cupeer_spec::env;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Runs a program under cupeer, and reads from cupeer's log which calls bypassed cupeer.
pub fn examine_program(
    document: &mut Document,
    driver: &DriverArgs,
    program: &[OsString],
    run: RunProgram,
) -> Result<()> {
    let folder =
        create_temporary_directory("cupeer-doctor-").context("failed to make a private directory for a recording")?;
    let log = folder.path().join("log");
    let options = Options {
        // Without a recording, it would be unknown whether the program made any watched call.
        record: Some("ring:1M".to_owned()),
        out: Some(folder.path().join("record")),
        log: Some(LogFormat::Json),
        log_file: Some(log.clone()),
        trace: Some("none".to_owned()),
        driver: driver.clone(),
        ..Options::default()
    };
    let run = run(&options, &[(env::FAILED, OsStr::new("0"))], program)?;
    document.add_part("program", format!("{} {}", program[0].display(), run.ended));
    let reached = match run.reached {
        0 => "no process".to_owned(),
        more => counted(more.into(), "process"),
    };
    document.add_part("reached the driver", reached);
    document.wrong.extend(run.wrong);
    let text = std::fs::read_to_string(&log).context("failed to read the log of the program")?;
    for ((library, way), processes) in count_bypassing_libraries(&text) {
        let times = if processes == 1 { String::new() } else { format!(" in {processes} processes") };
        if way != Bypass::Unseen.name() {
            document.wrong.push(format_bypass(&library, &way, &times));
        }
    }
    for (library, functions) in read_patched_functions(&text) {
        document.add_part("patched by", format!("{library}: {functions}; its calls are still seen"));
    }
    let sentence = match document.wrong.is_empty() {
        true => "libcuda was loaded, but cupeer saw no call that it records: there was none, or it escaped cupeer",
        false => "libcuda was loaded, but cupeer saw no call that it records",
    };
    document.unclear.extend(run.is_unseen.then(|| sentence.to_owned()));
    Ok(())
}

/// Returns the patched functions of cupeer by library: code of the library (a debugger or UCX, for example) replaced
/// the start of these functions.
fn read_patched_functions(log: &str) -> BTreeMap<String, String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let found = lines.filter_map(|line| {
        let patched = line.get("patched")?;
        let library = match patched["library"].as_str()? {
            "" => "an unknown library",
            library => library,
        };
        let names: Vec<&str> = patched["functions"].as_array()?.iter().filter_map(Value::as_str).collect();
        Some((library.to_owned(), names.join(", ")))
    });
    found.collect()
}

/// Returns the libraries whose calls bypassed cupeer, each with the way in which they did and the number of
/// processes.
fn count_bypassing_libraries(log: &str) -> BTreeMap<(String, String), usize> {
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
        let found = count_bypassing_libraries(&format!("{line}\nnot json\n{{\"function\":\"cuInit\"}}\n{line}\n"));
        assert_eq!(found, BTreeMap::from([(("/x.so".to_owned(), "RTLD_DEEPBIND".to_owned()), 2)]));
    }

    #[test]
    fn patches_are_listed_by_library() {
        let line = r#"{"ts_ns":1,"pid":2,"tid":2,"patched":{"library":"/u.so","functions":["cuMemFree","cuMemMap"]}}"#;
        let unknown = r#"{"patched":{"library":"","functions":["cuMemFree"]}}"#;
        let found = read_patched_functions(&format!("{line}\nnot json\n{line}\n{unknown}\n"));
        let expected = [("/u.so", "cuMemFree, cuMemMap"), ("an unknown library", "cuMemFree")];
        assert_eq!(found, expected.map(|(library, names)| (library.to_owned(), names.to_owned())).into());
    }
}
