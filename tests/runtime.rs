//! The runtime's own functions, where it is a shared library: seen as what makes the driver's calls, and never altered. What
//! runs as a runtime here ends in the simulated driver.

use crate::support::{self, Done};
use cupeer_spec::env;
use cupeer_spec::function::{FUNCTIONS, Library};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders with a runtime of each version, as programs find it; its names have that version.
fn runtimes(folder: &Path) -> [PathBuf; 2] {
    ["12", "13"].map(|version| {
        let soname = format!("-Wl,-soname,libcudart.so.{version}");
        let library = support::compile_shared("programs/cudart.c", &[&soname, "-Wl,--default-symver", "-ldl"]);
        let place = folder.join(version);
        fs::create_dir_all(&place).unwrap();
        fs::copy(&library, place.join(format!("libcudart.so.{version}"))).unwrap();
        place.join(format!("libcudart.so.{version}"))
    })
}

fn linked_to(runtime: &Path, flags: &[&str]) -> Vec<String> {
    let place = format!("-Wl,-rpath,{}", runtime.parent().unwrap().display());
    let mut all: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    all.extend([runtime.display().to_string(), place, "-ldl".into()]);
    all
}

fn program(runtime: &Path) -> PathBuf {
    let flags = linked_to(runtime, &[]);
    support::compile_c("programs/runtime.c", &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

fn plugin(runtime: &Path, flags: &[&str]) -> PathBuf {
    let flags = linked_to(runtime, &[&["-DPLUGIN"], flags].concat());
    support::compile_shared("programs/runtime.c", &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The program on the simulated driver, alone.
fn alone(program: &Path, args: &[&str]) -> Done {
    let mut command = support::plain(program);
    support::done(command.args(args).env("LD_LIBRARY_PATH", support::sim_dir()).env(env::SIM, "nvlink:2"))
}

/// The same under `cupeer run`.
fn run(options: &[&str], program: &Path, args: &[&str]) -> Done {
    let mut command = support::cupeer();
    support::done(command.args(["run", "--sim=nvlink:2"]).args(options).arg("--").arg(program).args(args))
}

/// Runs the program with all calls under a plan. Returns its output, and the report.
fn planned(plan: &str) -> (Done, Value) {
    let folder = support::temp_dir();
    let [runtime, _] = runtimes(folder.path());
    let record = folder.path().join("record");
    let done = run(&["-o", record.to_str().unwrap(), "--inject", plan], &program(&runtime), &["all"]);
    (done, report(&record))
}

fn report(record: &Path) -> Value {
    let text = support::stdout(support::cupeer().arg("report").arg(record).args(["--format", "json"]));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn its_calls_are_parents_of_the_drivers() {
    let folder = support::temp_dir();
    let [runtime, _] = runtimes(folder.path());
    let program = program(&runtime);
    let without = alone(&program, &["all"]);
    assert!(without.status.success() && without.stdout.contains("calls of this runtime"), "{without:?}");
    let record = folder.path().join("record");
    let done = run(&["-o", record.to_str().unwrap()], &program, &["all"]);
    assert_eq!((done.status, &done.stdout), (without.status, &without.stdout), "{}", done.stderr);

    let report = report(&record);
    crate::report::json::assert_valid(&report);
    for function in FUNCTIONS.iter().filter(|function| function.library == Library::Cudart) {
        let row = report["functions"].as_array().unwrap().iter().find(|row| row["function"] == function.name());
        let called = without.stdout.matches(&format!("{}(", function.name())).count();
        assert_eq!(row.unwrap_or(&Value::Null)["calls"], called, "{}", function.name());
    }
    // A failure is told of once, with what made the call and what that returned.
    let failures = report["failures"].as_array().unwrap();
    let names: Vec<_> = failures.iter().map(|failure| failure["function"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| name.starts_with("cu") && !name.starts_with("cuda")), "{names:?}");
    let refused = failures.iter().find(|failure| failure["function"] == "cuIpcCloseMemHandle").unwrap();
    let made = json!({"function": "cudaIpcCloseMemHandle", "result": runtimes_name(&refused["result"])});
    assert_eq!(refused["runtime"], made);
    let group = report["failure_groups"].as_array().unwrap().iter();
    let group = group.clone().find(|group| group["function"] == "cuIpcCloseMemHandle").unwrap();
    assert_eq!(group["runtime"], made);
    let text = support::stdout(support::cupeer().arg("report").arg(&record).env("COLUMNS", "400"));
    let words = format!("in cudaIpcCloseMemHandle, which returned {}", made["result"].as_str().unwrap());
    assert!(text.contains(&words), "{text}");
    // If calls of the driver are filtered out, those of the runtime are failures of their own.
    let filtered = ["--function", "@runtime", "--format", "json"];
    let filtered = support::stdout(support::cupeer().arg("report").arg(&record).args(filtered));
    let filtered: Value = serde_json::from_str(&filtered).unwrap();
    let alike = |failure: &&Value| failure["function"] == "cudaIpcCloseMemHandle";
    assert_eq!(filtered["failures"].as_array().unwrap().iter().filter(alike).count(), 1, "{filtered:#}");
    // The caller is the program, and neither the runtime nor cupeer.
    let program = program.to_str().unwrap();
    for failure in failures {
        assert_eq!(failure["caller"]["library"], program, "{failure:#}");
        let ours = |place: &Value| place["library"].as_str().unwrap_or("").ends_with("libcupeer.so");
        assert!(!failure["stack"].as_array().unwrap().iter().any(ours), "{failure:#}");
    }
    // Calls that the runtime makes only to the driver belong to none of the runtime's functions that are seen.
    let alone = failures.iter().filter(|failure| failure["runtime"].is_null());
    assert_eq!(alone.count(), 0, "{failures:#?}");
}

/// The runtime's name of a result of the driver's.
fn runtimes_name(result: &Value) -> &'static str {
    let known = cupeer_spec::results::parse_result_code(result.as_str().unwrap()).unwrap();
    cupeer_spec::runtime::runtime_result_name(known).unwrap()
}

#[test]
fn its_calls_are_in_the_log_with_its_own_results() {
    let folder = support::temp_dir();
    let [runtime, _] = runtimes(folder.path());
    let log = folder.path().join("log");
    let options = ["--record", "off", "--log", "json", "--log-file", log.to_str().unwrap(), "--trace", "@runtime"];
    let done = run(&options, &program(&runtime), &["all"]);
    assert!(done.status.success(), "{done:?}");
    let text = fs::read_to_string(&log).unwrap();
    let calls: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<&Value> = calls.iter().filter(|line| line["function"].is_string()).collect();
    assert!(calls.iter().all(|call| call["function"].as_str().unwrap().starts_with("cuda")), "{text}");
    let twice = calls.iter().filter(|call| call["function"] == "cudaDeviceEnablePeerAccess");
    let results: Vec<_> = twice.map(|call| call["result"].as_str().unwrap()).collect();
    assert_eq!(results, ["cudaSuccess", "cudaErrorPeerAccessAlreadyEnabled"]);
    // Handles are there by their fingerprints alone.
    let opened = calls.iter().find(|call| call["function"] == "cudaIpcOpenMemHandle").unwrap();
    assert!(opened["args"]["handle"].as_str().unwrap().starts_with("ipc:"), "{opened}");
}

/// Each library keeps the runtime that it was linked to, whatever came first.
#[test]
fn two_runtimes_keep_their_own() {
    let folder = support::temp_dir();
    let [old, new] = runtimes(folder.path());
    // Bound at once or when called; with the hash table of old linkers; calling as the last thing that they do.
    let of_old = plugin(&old, &["-Wl,-z,now", "-Wl,--hash-style=sysv", "-O2", "-DLAST"]);
    let of_new = plugin(&new, &["-Wl,-z,lazy", "-O2", "-DLAST"]);
    let looked_up = [format!("={}", new.display()), format!("={}", old.display())];
    let plugins = [&of_new, &of_old, &of_new].map(|plugin| plugin.to_str().unwrap());
    for (program, first) in [(program(&old), "linked"), (program(&new), "linked to the other")] {
        for args in [
            &plugins[..],
            &[&looked_up[0], plugins[1], plugins[0], &looked_up[1]],
            &[plugins[1], &looked_up[0], &looked_up[1], plugins[0]],
        ] {
            let without = alone(&program, args);
            assert_eq!(
                without.stdout.matches("of its own: 1").count(),
                args.len() - args.iter().filter(|arg| arg.starts_with('=')).count()
            );
            for options in [&["--record", "off", "--log", "text", "--log-file", "/dev/null"][..], &["--record", "off"]]
            {
                let done = run(options, &program, args);
                assert_eq!((done.status, &done.stdout), (without.status, &without.stdout), "{first}, {options:?}");
                assert!(!done.stderr.contains("escape"), "{}", done.stderr);
            }
        }
    }
}

/// A library that has the runtime's functions itself, as one that was linked to the static runtime, calls those.
#[test]
fn a_static_runtime_is_left_alone() {
    let folder = support::temp_dir();
    let text = "#include <stdio.h>\n\
                int cudaDeviceCanAccessPeer(int *can, int device, int peer) { *can = 7; return 0; }\n\
                int plugin(unsigned base) { int can; cudaDeviceCanAccessPeer(&can, 0, 1); return can; }\n";
    let own = support::compile_text("own-runtime", text, &["-shared", "-fPIC"]);
    let host = support::compile_c("programs/host.c", &["-ldl"]);
    let record = folder.path().join("record");
    let args = ["100", "local", own.to_str().unwrap()];
    assert_eq!(alone(&host, &args).stdout, "local: 7\n");
    let done = run(&["-o", record.to_str().unwrap()], &host, &args);
    assert_eq!(done.stdout, "local: 7\n", "{}", done.stderr);
    assert!(!record.exists(), "no call was seen: {}", done.stderr);
}

/// Plans that name the runtime's functions alter the driver's.
#[test]
fn plans_alter_the_driver_alone() {
    let (done, report) = planned("cudaIpcOpenMemHandle:error=cudaErrorMapBufferObjectFailed");
    assert!(done.stdout.contains("cudaIpcOpenMemHandle(&memory, handle, 1) = 205"), "{done:?}");
    let failures = report["failures"].as_array().unwrap();
    let injected: Vec<_> = failures.iter().filter(|failure| failure["injected"] == true).collect();
    assert_eq!(injected.len(), 2, "{failures:#?}");
    for failure in injected {
        assert_eq!(failure["function"], "cuIpcOpenMemHandle_v2");
        let made = json!({"function": "cudaIpcOpenMemHandle", "result": "cudaErrorMapBufferObjectFailed"});
        assert_eq!(failure["runtime"], made);
    }
    let refused = support::done(support::cupeer().args(["run", "--inject", "@runtime:error=1", "--", "true"]));
    assert!(refused.stderr.contains("'@runtime' selects no function of the driver or NVML"), "{refused:?}");
}

/// A reference to the runtime's functions that nobody satisfies stays so: cupeer exports none of them.
#[test]
fn without_a_runtime_there_is_none() {
    let text = "extern int cudaDeviceDisablePeerAccess(int) __attribute__((weak));\n\
                int main(void) { return cudaDeviceDisablePeerAccess ? 1 : 99; }";
    let program = support::compile_text("no-runtime", text, &[]);
    let mut command = support::plain(&program);
    command.env("LD_PRELOAD", support::preload_library());
    assert_eq!(support::done(&mut command).status.code(), Some(99));
}

/// A call that hangs is told of once: that of the driver, and in which of the runtime's it is.
#[test]
fn a_call_that_does_not_return_is_told_of_once() {
    let (done, report) = planned("cudaIpcOpenMemHandle:exit=3");
    assert!(done.stdout.contains("cudaIpcGetMemHandle"), "{done:?}");
    let processes = report["processes"].as_array().unwrap().iter();
    let pending: Vec<&Value> = processes.flat_map(|process| process["pending"].as_array().unwrap()).collect();
    assert_eq!(pending.len(), 1, "{pending:#?}");
    assert_eq!(pending[0]["function"], "cuIpcOpenMemHandle_v2");
    assert_eq!(pending[0]["runtime"], json!({"function": "cudaIpcOpenMemHandle", "result": null}));
}
