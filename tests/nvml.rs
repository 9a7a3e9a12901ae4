//! NVML's functions are caught in every way in which the driver's are; and a program that asks NVML alone has nothing
//! to do with CUDA.

use crate::programs::{
    Cupeer, EITHER, ESCAPES, Outcome, Scene, driver, library, linked_library, linked_to_nvml, nvml, program,
};
use crate::support;
use cupeer_record::{Job, MemorySample};
use cupeer_spec::env;
use cupeer_spec::function::{FUNCTIONS, Library};
use std::fs;
use std::path::Path;

fn functions() -> usize {
    FUNCTIONS.iter().filter(|function| function.library == Library::Nvml).count()
}

/// Runs a program in all ways: cupeer changes nothing and sees everything, and no record is made because of NVML.
#[track_caller]
fn compare(scene: &Scene) -> Outcome {
    let without = scene.run(Cupeer::Absent);
    assert!(without.status.success(), "the program itself fails: {without:#?}");
    let off = scene.run(Cupeer::Off);
    off.assert_same(&without, "off");
    let recording = scene.run(Cupeer::Recording);
    recording.assert_same(&without, "recording");
    assert!(recording.record.is_empty(), "{:?}", recording.record);
    let logging = scene.run(Cupeer::Logging);
    logging.assert_same(&without, "logging");
    logging.assert_log_complete();
    logging
}

fn host(base: u64, libraries: &[(&str, &Path)]) -> Scene {
    let scene = Scene::new(program("host.c", &[])).libraries(nvml()).arg(base.to_string());
    libraries.iter().fold(scene, |scene, (mode, path)| scene.arg(*mode).arg(*path))
}

#[test]
fn found_by_handle_for_all_and_again_after_it_was_closed() {
    for (way, times) in [("handle", 1), ("global", 2), ("closed", 2)] {
        let outcome = compare(&Scene::new(program("nvml.c", &[])).libraries(nvml()).arg(way));
        assert_eq!(outcome.log.calls.len(), times * functions() + 1, "{way}");
        let failed = outcome.log.calls.iter().find(|call| call.mark == "30003").expect("the call that fails");
        assert_eq!(failed.result, "NVML_ERROR_NOT_SUPPORTED");
    }
}

#[test]
fn called_by_libraries_that_link_it_or_look_for_it() {
    let linked = linked_to_nvml("plugin.c", &[]);
    let lazy = linked_to_nvml("plugin.c", &["-Wl,-z,lazy"]);
    let by_default = library("plugin.c", &["-DNVML", "-DBY_DEFAULT"]);
    let weak = library("plugin.c", &["-DNVML", "-DWEAK"]);
    let real = nvml().join("libnvidia-ml.so.1");
    let outcome = compare(&host(100, &[("local", &linked), ("global", &linked), ("local", &lazy)]));
    assert_eq!(outcome.log.calls.len(), 3 * functions());
    compare(&host(100, &[("keep", &real), ("local", &by_default), ("local", &weak)]));
}

#[test]
fn functions_and_variables_of_a_librarys_own_are_left_alone() {
    let own = library("plugin.c", &["-DNVML", "-DOWN"]);
    let outcome = compare(&host(EITHER, &[("local", &own), ("global", &own)]));
    assert!(outcome.driver.is_empty());
    let pointers = library("plugin.c", &["-DNVML", "-DPOINTERS"]);
    let outcome = compare(&host(EITHER, &[("local", &pointers)]));
    assert_eq!(outcome.driver.len(), functions());
}

/// A linked call behind which there is no NVML.
#[test]
fn without_nvml_it_is_not_found() {
    let weak = library("plugin.c", &["-DNVML", "-DWEAK"]);
    let scene = host(100, &[("local", &weak)]).no_driver();
    assert!(scene.run(Cupeer::Absent).stdout.contains("local: 0"));
    let outcome = scene.run(Cupeer::Off);
    assert!(outcome.status.success() && outcome.stdout.contains("local: 0"), "{outcome:#?}");
    let text = "#include <stdio.h>\nextern int nvmlDeviceGetNvLinkState(void *, unsigned, int *) __attribute__((weak));\n\
                int main(void) { return nvmlDeviceGetNvLinkState ? nvmlDeviceGetNvLinkState(0, 0, 0) : 99; }";
    let alone = support::compile_text("no-nvml", text, &[]);
    for (preload, status) in [(false, 99), (true, 12)] {
        let mut command = support::plain(&alone);
        if preload {
            command.env("LD_PRELOAD", support::preload_library());
        }
        assert_eq!(support::done(&mut command).status.code(), Some(status));
    }
}

#[test]
fn bypasses_are_named_if_nvml_is_traced() {
    let deep = linked_to_nvml("plugin.c", &[]);
    let scene = host(ESCAPES, &[("deepbind", &deep)]);
    let traced = compare(&scene);
    assert!(traced.log.names_escape(&deep, "RTLD_DEEPBIND"), "{:?}", traced.log.escaped);
    let untraced = scene.env(env::TRACE, "@ipc").run(Cupeer::Logging);
    assert!(!untraced.log_exists, "{:?}", untraced.log);
}

/// A program that only calls NVML is not a CUDA program, and has no recording. Together with CUDA, traced calls are recorded.
#[test]
fn a_record_is_made_because_of_the_driver_alone() {
    let directory = support::temp_dir();
    let out = directory.path().join("record");
    let mut command = support::with(&["run", "--out"]);
    command.arg(&out).args(["--record", "full", "--trace", "all", "--log", "json", "--log-file"]);
    command.arg(directory.path().join("log")).arg("--").arg(program("nvml.c", &[])).arg("handle");
    command.env("LD_LIBRARY_PATH", nvml());
    let done = support::done(&mut command);
    assert!(done.status.success(), "{}", done.stderr);
    let log = fs::read_to_string(directory.path().join("log")).expect("a log");
    assert!(log.contains("\"nvmlDeviceGetFieldValues\""), "{log}");
    assert!(!out.exists(), "{}", done.stderr);

    let both = std::env::join_paths([nvml(), driver()]).unwrap();
    let of_driver = linked_library("plugin.c", &[]);
    let of_nvml = linked_to_nvml("plugin.c", &[]);
    let scene = host(100, &[("local", &of_driver), ("local", &of_nvml)]).libraries(both.into());
    scene.compare();
}

/// Fails for lack of memory as often as it is told, and waits in between.
const FAILS: &str = r#"
#include "../../programs/headlines/job.h"
int main(int argc, char **argv) {
    CUdeviceptr memory;
    start(0);
    if (cuMemAlloc_v2(&memory, 2 << 20)) return 2;
    for (int i = 0; i < atoi(argv[1]); i++)
        if (cuMemAlloc_v2(&memory, 1ull << 40) != 2) return 1;
    return 0;
}"#;

/// Runs it on a small device. Returns the recording.
fn without_memory(directory: &Path, times: &str, nvml: Option<(&str, bool)>) -> Job {
    let machine = directory.join("small.toml");
    fs::write(&machine, "[[device]]\nmemory = \"16GiB\"\n").unwrap();
    let out = directory.join(format!("r-{times}-{}", nvml.is_some()));
    let mut command = support::with(&["run", "--record", "full", "--out"]);
    command.arg(&out).arg(format!("--sim={}", machine.display())).arg("--");
    command.arg(support::compile_linked("without-memory", FAILS)).arg(times);
    match nvml {
        Some((holders, is_old)) => command
            .env("LD_LIBRARY_PATH", self::nvml())
            .env("FAKE_NVML_HOLDERS", holders)
            .envs(is_old.then_some(("FAKE_NVML_OLD", "1"))),
        None => command.env_remove("LD_LIBRARY_PATH"),
    };
    let done = support::done(&mut command);
    assert!(done.status.success(), "{}", done.stderr);
    Job::open(&out).unwrap()
}

#[test]
fn a_call_that_finds_no_memory_has_all_processes_of_the_device_sampled() {
    let directory = support::temp_dir();
    let own = std::process::id();
    for (version, old) in [("new", false), ("old", true)] {
        let folder = directory.path().join(version);
        fs::create_dir(&folder).unwrap();
        let holders = format!("0:{own}:1073741824,0:4294967295:-,1:{own}:4096");
        let job = without_memory(&folder, "1", Some((&holders, old)));
        let of_first = |sample: &&MemorySample| sample.device[15] == 0;
        let all: Vec<&MemorySample> = job.memory_samples.iter().filter(of_first).collect();
        let [sample] = all[..] else { panic!("{:?}", job.memory_samples) };
        assert_eq!((sample.total, sample.used, sample.free), (16 << 30, 1 << 30, 15 << 30));
        let holders = sample.holders.as_ref().expect("a list");
        assert_eq!(
            holders.iter().map(|one| (one.pid, one.bytes)).collect::<Vec<_>>(),
            [(own, Some(1 << 30)), (u32::MAX, None)]
        );
        assert_eq!((&holders[1].process, &*holders[1].name), (&None, ""));
        assert!(job.sampling_problems.is_empty() && job.problems.is_empty());
    }
}

/// A program that fails again and again does not fill the recording.
#[test]
fn many_failures_are_one_sample_and_without_nvml_the_reason_is_noted() {
    let directory = support::temp_dir();
    let job = without_memory(directory.path(), "2000", Some(("", false)));
    let count = job.memory_samples.iter().filter(|sample| sample.device[15] == 0).count();
    let lasted = job.memory_samples.last().unwrap().at - job.memory_samples[0].at;
    assert!(count >= 1 && count as u64 <= 2 + lasted / 200_000_000, "{count} in {lasted} ns");
    let job = without_memory(directory.path(), "3", None);
    assert!(job.memory_samples.is_empty() != job.sampling_problems.is_empty(), "{:?}", job.sampling_problems);
    let job = without_memory(directory.path(), "0", None);
    assert!(job.memory_samples.is_empty() && job.sampling_problems.is_empty(), "nothing failed");
}
