//! `cupeer doctor`: what it says of the driver, of programs, and of the machine; and what stands between two processes.

use crate::programs;
use crate::report::json::validator;
use crate::support::{
    compile_text, cupeer, done, preload_library, refused, sim_dir, sim_library, stdout, temp_dir, with,
};
use cupeer_spec::function::{FUNCTIONS, FnSpec, Library};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

fn of_the_driver() -> impl Iterator<Item = &'static FnSpec> {
    FUNCTIONS.iter().filter(|function| function.library == Library::Cuda)
}

#[test]
fn the_doctor_finds_the_simulated_driver_well() {
    let report = stdout(&mut with(&["doctor", "--sim"]));
    for line in [
        format!("libcupeer.so      {}", preload_library().display()),
        format!("libcupeer_sim.so  {}", sim_library().display()),
        "LD_PRELOAD        not set".to_owned(),
        "version           13.0".to_owned(),
        format!("functions         {0} of the {0} that cupeer intercepts", of_the_driver().count()),
        "All checks above passed.".to_owned(),
    ] {
        assert!(report.lines().any(|found| found == line), "{line} is missing in\n{report}");
    }
    for function in of_the_driver() {
        let found = report.lines().find(|line| line.split(' ').next() == Some(function.name())).unwrap();
        // The driver is of version 13.0, and refuses newer ones.
        let wanted = if function.since > 13000 { "CUDA_ERROR_INVALID_VALUE" } else { "SUCCESS" };
        assert_eq!(found.split_whitespace().collect::<Vec<_>>()[1..], ["yes", wanted], "{report}");
    }
    // Our own library in the environment is not in the way.
    let report = stdout(with(&["doctor", "--sim"]).env("LD_PRELOAD", preload_library()));
    assert!(report.ends_with("All checks above passed.\n"), "{report}");
}

/// A directory for LD_LIBRARY_PATH in which this file is the driver.
fn as_driver(library: &Path) -> tempfile::TempDir {
    let directory = temp_dir();
    symlink(library, directory.path().join("libcuda.so.1")).unwrap();
    directory
}

#[track_caller]
fn wrong(command: &mut Command, sentence: &str) {
    let ended = done(command);
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(1), ""), "{}", ended.stdout);
    assert!(ended.stdout.contains(&format!("\nWrong:\n- {sentence}")), "{sentence} is missing in\n{}", ended.stdout);
}

#[test]
fn the_doctor_says_what_is_wrong_with_a_driver() {
    let directory = temp_dir();
    let text = directory.path().join("text");
    fs::write(&text, "no library").unwrap();
    let place = as_driver(&text);
    let ended = done(with(&["doctor"]).env("LD_LIBRARY_PATH", place.path()));
    assert_eq!(ended.status.code(), Some(1));
    let tried = format!(
        "; tried: {}, /etc/ld.so.cache, the loader's own directories; use --driver PATH, or 'cupeer run --sim', which needs none",
        place.path().display()
    );
    assert!(ended.stdout.contains("- no driver: ") && ended.stdout.contains(&tried), "{}", ended.stdout);

    let place = as_driver(&preload_library());
    let link = place.path().join("libcuda.so.1");
    let sentence = format!("{} is cupeer's own preload library, not a driver", link.display());
    wrong(with(&["doctor"]).env("LD_LIBRARY_PATH", place.path()), &sentence);

    let crash = compile_text(
        "crash",
        "int cuInit(unsigned f) { return (int)f; }\n\
         __attribute__((constructor)) static void start(void) { *(volatile int *)8 = 1; }",
        &["-shared", "-fPIC"],
    );
    wrong(with(&["doctor", "--driver"]).arg(&crash), "the driver crashed while being examined (signal 11)");

    let stub = compile_text(
        "stub",
        "int cuInit(unsigned f) { return 34; }\nint cuDriverGetVersion(int *v) { return 34; }",
        &["-shared", "-fPIC"],
    );
    wrong(with(&["doctor", "--driver"]).arg(&stub), "the driver's cuDriverGetVersion returned CUDA_ERROR_STUB_LIBRARY");

    let old = compile_text(
        "old",
        "int cuInit(unsigned f) { return 0; }\nint cuDriverGetVersion(int *v) { *v = 10020; return 0; }\n\
         int cuIpcCloseMemHandle(void *p) { return 0; }",
        &["-shared", "-fPIC"],
    );
    let report = stdout(with(&["doctor", "--driver"]).arg(&old));
    assert!(report.contains("version           10.2\n"), "{report}");
    assert!(report.contains(&format!("functions         2 of the {} that", of_the_driver().count())), "{report}");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let close = "cuIpcCloseMemHandle yes no cuGetProcAddress";
    assert!(report.lines().any(|line| words(line) == close), "{report}");
}

#[test]
fn the_doctor_runs_a_program_and_finds_what_really_escaped() {
    let linked = [&format!("-L{}", sim_dir().display()), "-lcuda", "-shared", "-fPIC"];
    let library = compile_text(
        "asks",
        "int cuDeviceCanAccessPeer(int *, int, int);\nint ask(void) { int yes; return cuDeviceCanAccessPeer(&yes, 0, 1); }",
        &linked,
    );
    let program = compile_text(
        "opens",
        "#define _GNU_SOURCE\n#include <dlfcn.h>\nint main(int argc, char **argv) {\n\
         void *library = dlopen(argv[1], RTLD_NOW | (argc > 2 ? RTLD_DEEPBIND : 0));\n\
         int (*ask)(void) = (int (*)(void))dlsym(library, \"ask\");\nask();\nreturn 0; }",
        &["-ldl"],
    );
    let doctor = |deep: &[&str]| done(with(&["doctor", "--sim"]).arg(&program).arg(&library).args(deep));
    let fine = doctor(&[]);
    assert!(fine.stdout.contains("reached the driver  1 process\n"), "{}", fine.stdout);
    assert!(fine.status.success() && fine.stdout.ends_with("All checks above passed.\n"), "{}", fine.stdout);
    let escaped = doctor(&["deep"]);
    let sentence = format!("\nWrong:\n- the calls of {} escape cupeer: RTLD_DEEPBIND\n", library.display());
    assert!(escaped.stdout.contains(&sentence), "{}", escaped.stdout);
    assert_eq!(escaped.status.code(), Some(1));
}

#[test]
fn the_doctor_names_who_patched_an_entry() {
    let driver = programs::patchable_driver().join("libcuda.so.1");
    let patcher = programs::library("patcher.c", &["-O1"]);
    let program = programs::linked("patched.c", &[]);
    let doctor = |last: &[&str]| {
        let mut command = with(&["doctor", "--driver"]);
        command.arg(&driver).arg("--").arg(&program).args(["linked", "far", "before"]).arg(&patcher);
        command.env("FAKE_DRIVER_LOG", "/dev/null").args(last);
        done(&mut command).stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let report = doctor(&["keep"]);
    // Calls of the program carry a mark, and so have an argument.
    let marked = of_the_driver().filter(|function| !function.args().is_empty());
    let all: Vec<&str> = marked.map(|function| function.name()).collect();
    let plain = all.iter().filter(|name| !name.starts_with("cuGetProcAddress"));
    let (names, more) = (plain.clone().take(64).copied().collect::<Vec<_>>().join(", "), plain.count() - 64);
    let wanted = format!("patched by {}: {names}, and {more} more; its calls are still seen", patcher.display());
    assert!(report.contains(&wanted), "{wanted} is missing in\n{report}");
    // Not after it has taken its patches back.
    assert!(!doctor(&[]).contains("patched by"));
}

#[test]
fn the_doctor_names_what_escaped_from_a_program() {
    let line = r#"{"ts_ns":1,"pid":2,"tid":2,"escaped":{"library":"/x/liba.so","way":"RTLD_DEEPBIND"}}"#;
    let program = format!("echo '{line}' >>\"$CUPEER_LOG_FILE\"; echo words; echo $CUPEER_LOG $CUPEER_TRACE; exit 3");
    let ended = done(&mut with(&["doctor", "--sim", "--", "sh", "-c", &program]));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    for words in [
        "words\njson none\n",
        "program             sh ended with status 3\n",
        "reached the driver  no process\n",
        "Wrong:\n- the calls of /x/liba.so escape cupeer: RTLD_DEEPBIND\n",
    ] {
        assert!(ended.stdout.contains(words), "{words} is missing in\n{}", ended.stdout);
    }
    let ended = done(&mut with(&["doctor", "--sim", "--", "no-such-program"]));
    assert_eq!(
        (ended.status.code(), ended.stderr.as_str()),
        (Some(127), "cupeer: 'no-such-program': No such file or directory\n")
    );
}

/// Returns the output of `--format json`, which must match the published schema, without a field that the schema lacks.
fn json_of(command: &mut Command) -> Value {
    let ended = done(command);
    let report =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", ended.stdout, ended.stderr));
    let errors: Vec<String> =
        validator("doctor.schema.json").iter_errors(&report).map(|error| format!("{error:?}")).collect();
    assert!(errors.is_empty(), "{}\n{report:#}", errors.join("\n"));
    report
}

fn fact<'a>(report: &'a Value, name: &str) -> &'a Value {
    let facts = report["facts"].as_array().unwrap();
    facts.iter().find(|fact| fact["name"] == name).unwrap_or_else(|| panic!("{name} is missing in {facts:#?}"))
}

/// The simulated driver and an NVML, found as a program finds those of the machine.
fn with_gpus(args: &[&str]) -> Command {
    let driver = as_driver(&sim_library()).keep();
    let mut command = with(args);
    command.env("LD_LIBRARY_PATH", format!("{}:{}", driver.display(), programs::nvml().display()));
    command
}

#[test]
fn without_a_gpu_there_is_a_table_of_the_machine_and_nothing_is_guessed() {
    // A file that is not a library ends the loader's search, even if a driver follows.
    let place = temp_dir();
    for name in ["libcuda.so.1", "libnvidia-ml.so.1"] {
        fs::write(place.path().join(name), "no library").unwrap();
    }
    let at = |args: &[&str]| {
        let mut command = with(args);
        command.env("LD_LIBRARY_PATH", place.path());
        command
    };
    let report = done(&mut at(&["doctor"]));
    // It is the driver that is missing which is wrong.
    assert_eq!(report.status.code(), Some(1), "{}", report.stdout);
    let row = |name: &str| report.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    let words = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(row("MACHINE")), ["MACHINE", "VALUE"], "{}", report.stdout);
    assert_eq!(words(row("cuInit"))[1], "unknown", "{}", report.stdout);
    let colored = done(&mut at(&["doctor", "--color", "always"]));
    assert!(colored.stdout.contains(" \x1b[33munknown\x1b[0m  "), "{}", colored.stdout);
    let report = json_of(&mut at(&["doctor", "--format", "json"]));
    assert_eq!((&report["schema"], &report["process"]["devices"]), (&"cupeer-doctor/1".into(), &Value::Null));
    assert_eq!(fact(&report, "cuInit")["verdict"], "unknown");
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let uid: u32 =
        status.lines().find_map(|l| l.strip_prefix("Uid:")?.split_whitespace().nth(1)?.parse().ok()).unwrap();
    assert_eq!(report["process"]["user"]["effective"], uid);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(report["process"]["boot_id"], boot.trim());
    // A bad row says what would break, and what to set.
    for fact in report["facts"].as_array().unwrap().iter().filter(|fact| fact["verdict"] == "bad") {
        assert!(fact["breaks"].is_string() && fact["hint"].is_string(), "{fact:#}");
    }
}

#[test]
fn the_simulated_driver_rests_on_nothing_of_the_machine() {
    let text = stdout(&mut with(&["doctor", "--sim"]));
    assert!(!text.contains("MACHINE"), "{text}");
    let report = json_of(&mut with(&["doctor", "--sim", "--format", "json"]));
    assert_eq!(report["facts"], Value::Array(Vec::new()));
    assert_eq!(report["functions"].as_array().unwrap().len(), of_the_driver().count());
}

#[test]
fn nvml_and_cuda_are_asked_in_a_child() {
    let report = json_of(&mut with_gpus(&["doctor", "--format", "json"]));
    assert_eq!(fact(&report, "cuInit")["value"], "CUDA_SUCCESS", "{report:#}");
    let gpus = fact(&report, "gpus")["value"].as_str().unwrap();
    assert!(gpus.starts_with("2 of CUDA, 2 of NVML"), "{gpus}");
    let pair = fact(&report, "peer access");
    assert_eq!((&pair["verdict"], pair["about"].as_array().unwrap().len()), (&"good".into(), 2), "{pair:#}");
    let devices = report["process"]["devices"].as_array().unwrap();
    assert_eq!(devices[1]["uuid"], "GPU-c09ee200-5130-4d0e-b00d-000000000001");
    assert!(devices.iter().all(|device| device["shown"] == true), "{devices:#?}");
    // NVML shows devices that CUDA_VISIBLE_DEVICES hides.
    let report = json_of(with_gpus(&["doctor", "--format", "json"]).env("CUDA_VISIBLE_DEVICES", "1"));
    let devices = report["process"]["devices"].as_array().unwrap();
    assert_eq!((&devices[0]["shown"], &devices[1]["shown"]), (&false.into(), &true.into()));
    assert_eq!(fact(&report, "peer access")["verdict"], "unknown");
    let set = fact(&report, "environment")["value"].as_str().unwrap();
    assert!(set.starts_with("CUDA_VISIBLE_DEVICES=1 "), "{set}");
}

#[test]
fn an_nvml_that_crashes_takes_only_its_own_answers() {
    let crash = compile_text("crashing-nvml", "int nvmlInit_v2(void) { __builtin_trap(); }", &["-shared", "-fPIC"]);
    let place = temp_dir();
    symlink(&crash, place.path().join("libnvidia-ml.so.1")).unwrap();
    symlink(sim_library(), place.path().join("libcuda.so.1")).unwrap();
    let report = json_of(with(&["doctor", "--format", "json"]).env("LD_LIBRARY_PATH", place.path()));
    let manager = fact(&report, "fabric manager")["value"].as_str().unwrap();
    assert!(manager.contains("the process that asked was killed by signal"), "{manager}");
    // The earlier facts are kept.
    assert_ne!(report["process"]["descriptor"], Value::Null);
    assert_eq!(report["wrong"], Value::Array(Vec::new()));
}

/// The verdicts of the six ways between two files.
fn between(one: &Path, other: &Path) -> Vec<(String, Value)> {
    let ended = done(with(&["doctor", "--format", "json", "--between"]).args([one, other]));
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {}", ended.stderr));
    assert_eq!(report["schema"], "cupeer-doctor-between/1");
    let ways = report["ways"].as_array().unwrap();
    ways.iter().map(|way| (way["possible"].as_str().unwrap().to_owned(), way["because"][0]["says"].clone())).collect()
}

/// Writes what a process says of itself, in new namespaces; `None` where they are not allowed.
fn written_in(flags: &[&str], file: &Path) -> Option<()> {
    let inner = with_gpus(&["doctor"]);
    let mut command = crate::support::plain("unshare");
    command.args(flags).arg("sh").args(["-c", "\"$@\" >/dev/null; test -s \"$4\"", "sh"]);
    command.arg(inner.get_program()).args(inner.get_args()).arg("-o").arg(file);
    let command = command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let allowed = crate::support::plain("unshare").args(flags).arg("true").output();
    if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
        println!("left out: unshare {flags:?}: {allowed:?}");
        return None;
    }
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&ended.stderr));
    Some(())
}

#[test]
fn two_processes_are_compared_by_what_they_wrote_in_their_namespaces() {
    let place = temp_dir();
    let at = |name: &str| place.path().join(name);
    assert!(done(with_gpus(&["doctor", "-o"]).arg(at("a"))).status.success());
    assert!(done(with_gpus(&["doctor", "-o"]).arg(at("b"))).status.success());
    let words = |ways: &[(String, Value)]| ways.iter().map(|(word, _)| word.clone()).collect::<Vec<_>>();
    let alike = between(&at("a"), &at("b"));
    // The machine decides whether pidfd_getfd works, and whether there are IMEX channels.
    let known = [&words(&alike)[..3], &words(&alike)[5..]].concat();
    assert_eq!(known, ["yes"; 4], "{alike:?}");

    // In a user namespace, so that no rights are needed.
    if written_in(&["-U", "-r", "--pid", "--fork"], &at("pid")).is_some() {
        let apart = between(&at("a"), &at("pid"));
        assert_eq!((&*apart[0].0, &*apart[3].0), ("unknown", "no"), "{apart:?}");
        assert!(apart[3].1.as_str().unwrap().contains("pid namespaces differ"), "{apart:?}");
        assert_eq!((&*apart[2].0, &*apart[5].0), ("yes", "yes"), "{apart:?}");
    }
    let own_shm = "mount -t tmpfs x /dev/shm";
    let flags = ["-U", "-r", "-m", "-n", "sh", "-c", &format!("{own_shm} && exec \"$@\""), "sh"];
    if written_in(&flags, &at("shm")).is_some() {
        let apart = between(&at("shm"), &at("a"));
        assert_eq!(words(&apart)[..3], ["yes", "no", "unknown"], "{apart:?}");
        assert_eq!((&*apart[5].0, &apart[5].1), ("no", &"they have different file systems at /dev/shm".into()));
    }
    // For people, with what to do.
    let text = stdout(with(&["doctor", "--between"]).args([at("a"), at("b")]));
    assert!(text.starts_with("WAY OF SHARING "), "{text}");
}

#[test]
fn files_that_are_no_reports_are_refused_with_their_names() {
    let place = temp_dir();
    let at = |name: &str| place.path().join(name).display().to_string();
    assert!(done(with_gpus(&["doctor", "-o"]).arg(at("good"))).status.success());
    let good = fs::read_to_string(at("good")).unwrap();
    for (name, text) in [("empty", ""), ("cut", &good[..good.len() / 2]), ("text", "hello"), ("other", "{}")] {
        fs::write(at(name), text).unwrap();
    }
    fs::write(at("newer"), good.replace("cupeer-doctor/1", "cupeer-doctor/2")).unwrap();
    // If the cut is at the end of a line, the next line is the missing one.
    let lines = good[..good.len() / 2].split('\n').count();
    for (name, sentence) in [
        ("empty", "it is empty; 'cupeer doctor -o FILE' writes one".to_owned()),
        ("cut", format!("it ends early, in line {lines}: it was cut, or is still being written")),
        ("text", "it is not JSON: expected value at line 1 column 1; 'cupeer doctor -o FILE' writes one".to_owned()),
        ("other", "it is no report of 'cupeer doctor'; 'cupeer doctor -o FILE' writes one".to_owned()),
        ("newer", "it is of the form \"cupeer-doctor/2\", and this cupeer reads cupeer-doctor/1: use one version of cupeer for both".to_owned()),
        ("missing", "No such file or directory (os error 2)".to_owned()),
    ] {
        refused(&["doctor", "--between", &at("good"), &at(name)], &format!("--between '{}': {sentence}", at(name)));
    }
    refused(&["doctor", "--between", "/dev/zero", &at("good")], "--between '/dev/zero': it is a device, not a file");
    refused(
        &["doctor", "--sim", "-o", "/no/where.json"],
        "--output '/no/where.json': No such file or directory (os error 2)",
    );
    let ended = done(cupeer().args(["doctor", "--between", &at("good")]));
    assert_eq!(ended.status.code(), Some(125), "{}", ended.stderr);
}
