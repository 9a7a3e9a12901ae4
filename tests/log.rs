//! The log as a person or a script reads it, and what it does when its place cannot be written: nothing that
//! the program would notice.

use crate::programs::{Cupeer, Log, Scene, finish, linked, number, program};
use crate::support;
use cupeer_spec::env;
use cupeer_spec::function::FUNCTIONS;
use cupeer_spec::selector::FunctionSet;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

/// Returns the log of values.c, as JSON lines.
fn values() -> Log {
    let outcome = Scene::new(linked("values.c", &[])).run(Cupeer::Logging);
    assert!(outcome.status.success() && outcome.stdout.is_empty() && outcome.stderr.is_empty(), "{outcome:#?}");
    outcome.log
}

/// Returns the log of values.c, as text on stderr.
fn values_as_text(more: &[(&str, &str)]) -> Vec<String> {
    let scene = Scene::new(linked("values.c", &[])).env(env::LOG, "text");
    let scene = more.iter().fold(scene, |scene, (name, value)| scene.env(name, *value));
    let outcome = scene.run(Cupeer::Off);
    assert!(outcome.status.success() && outcome.stdout.is_empty(), "{outcome:#?}");
    outcome.stderr.lines().map(str::to_owned).collect()
}

fn of<'a>(log: &'a Log, function: &str) -> Vec<&'a Value> {
    log.lines.iter().filter(|l| l["function"] == function).collect()
}

#[test]
fn a_json_line_has_the_promised_keys_and_the_arguments_by_name() {
    let log = values();
    for line in &log.lines {
        let function = FUNCTIONS.iter().find(|f| f.name() == line["function"]).unwrap();
        let keys: Vec<&str> = line["args"].as_object().unwrap().keys().map(String::as_str).collect();
        let names: Vec<&str> = function.args().iter().map(|a| a.name()).collect();
        assert_eq!(keys, names, "{line}");
        for key in ["ts_ns", "pid", "tid", "seq", "duration_ns"] {
            assert!(line[key].is_u64(), "{key}: {line}");
        }
        assert!(line["ts_ns"].as_u64().unwrap() > 1_600_000_000_000_000_000, "not a realtime: {line}");
        assert!(line["duration_ns"].as_u64().unwrap() < 60_000_000_000, "{line}");
        assert!(line["result"].as_str().unwrap().starts_with("CUDA_") || line["result"] == "8000", "{line}");
        assert!(line["injected"] == false || line["injected"].is_null(), "{line}");
        assert!(line["caller"].as_str().unwrap().contains("/values-"), "{line}");
    }
    let sequence: Vec<u64> = log.lines.iter().map(|l| l["seq"].as_u64().unwrap()).collect();
    assert!(sequence.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{sequence:?}");
    let times: Vec<u64> = log.lines.iter().map(|l| l["ts_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn outputs_are_shown_after_success_alone() {
    let log = values();
    let asked: Vec<&Value> = of(&log, "cuDeviceCanAccessPeer").iter().map(|l| &l["args"]).collect();
    assert_eq!(*asked[0], json!({"canAccessPeer": 1, "dev": 0, "peerDev": 1}));
    assert_eq!(*asked[1], json!({"canAccessPeer": "0x0", "dev": 0, "peerDev": -1}));
    assert_eq!(*asked[2], json!({"canAccessPeer": null, "dev": 30101, "peerDev": 1}));
    let results: Vec<&Value> = of(&log, "cuDeviceCanAccessPeer").iter().map(|l| &l["result"]).collect();
    assert_eq!(results[2], "CUDA_ERROR_INVALID_DEVICE");
    let got = of(&log, "cuIpcGetMemHandle");
    assert_eq!(got[3]["args"]["pHandle"], Value::Null);
    assert_eq!(got[3]["result"], "CUDA_ERROR_INVALID_HANDLE");
}

#[test]
fn arrays_are_shown_in_full_or_cut_and_never_read_after_a_failure() {
    let log = values();
    let asked: Vec<&Value> = of(&log, "cuDeviceGetP2PAtomicCapabilities").iter().map(|l| &l["args"]).collect();
    assert_eq!(asked[0]["capabilities"], json!([1, 2, 3]));
    assert_eq!(asked[0]["operations"], json!(["CU_ATOMIC_OPERATION_INTEGER_ADD", "CU_ATOMIC_OPERATION_CAS", 99]));
    assert_eq!(asked[1]["capabilities"].as_array().unwrap().len(), 17);
    assert_eq!(asked[1]["capabilities"][16], "...");
    assert_eq!(asked[1]["count"], 20);
    assert_eq!(
        *asked[2],
        json!({"capabilities": "0x0", "operations": "0x0", "count": 0, "srcDevice": 0, "dstDevice": 1})
    );
    assert_eq!(asked[3]["capabilities"], "0x0");
    assert_eq!(asked[4]["capabilities"], Value::Null);
}

#[test]
fn enumerations_by_name_and_wide_values_in_hexadecimal() {
    let log = values();
    let attributes = of(&log, "cuDeviceGetP2PAttribute");
    assert_eq!(attributes[0]["args"]["attrib"], "CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK");
    assert_eq!(attributes[1]["args"]["attrib"], 77);
    assert_eq!(of(&log, "cuIpcCloseMemHandle")[0]["args"]["dptr"], "0xdeadbeef0000");
    assert_eq!(of(&log, "cuCtxEnablePeerAccess")[0]["args"], json!({"peerContext": "0x1234", "Flags": 0}));
    assert_eq!(of(&log, "cuCtxDisablePeerAccess")[0]["args"], json!({"peerContext": "0x0"}));
    assert_eq!(of(&log, "cuIpcOpenMemHandle_v2")[0]["args"]["Flags"], "CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS");
    assert_eq!(of(&log, "cuIpcOpenMemHandle")[0]["args"]["Flags"], 3);
    let looked_up = of(&log, "cuGetProcAddress_v2");
    assert_eq!(looked_up[0]["args"]["symbolStatus"], "CU_GET_PROC_ADDRESS_SUCCESS");
    assert_ne!(number(&looked_up[0]["args"]["pfn"]), 0);
    assert_eq!(looked_up[1]["args"]["symbol"], "a \"quoted\"\nname\x1b");
    assert_eq!(looked_up[1]["args"]["symbolStatus"], "0x0");
    assert_eq!(number(&looked_up[1]["args"]["pfn"]), 0);
    assert_eq!(of(&log, "cuGetProcAddress")[0]["args"]["symbol"], "0x0");
}

#[test]
fn ended_objects_are_shown_by_address_or_device() {
    let log = values();
    let ended = |function: &str| of(&log, function).iter().map(|l| l["args"].clone()).collect::<Vec<_>>();
    assert_eq!(ended("cuMemFree_v2"), [json!({"dptr": "0x700000"}), json!({"dptr": "0x75f9"})]);
    assert_eq!(of(&log, "cuMemFree_v2")[1]["result"], "CUDA_ERROR_INVALID_CONTEXT");
    assert_eq!(ended("cuEventDestroy_v2"), [json!({"hEvent": "0x99"})]);
    assert_eq!(ended("cuCtxDestroy_v2"), [json!({"ctx": "0x0"})]);
    assert_eq!(ended("cuDevicePrimaryCtxRelease_v2"), [json!({"dev": 1})]);
    assert_eq!(ended("cuDevicePrimaryCtxReset_v2"), [json!({"dev": 30708})]);
}

#[test]
fn an_unknown_result_is_shown_as_a_number() {
    let log = values();
    let results: Vec<String> =
        of(&log, "cuDeviceCanAccessPeer").iter().map(|l| l["result"].to_string().replace('"', "")).collect();
    assert_eq!(results[3], "8000");
}

#[test]
fn handles_are_equal_fingerprints_for_equal_handles_and_never_their_bytes() {
    let folder = support::temp_dir();
    let scene = Scene::new(linked("values.c", &[]));
    let (status, ..) = finish(scene.command(Cupeer::Logging, folder.path()));
    assert!(status.success());
    let text = fs::read_to_string(folder.path().join("log")).unwrap();
    let log = Log::parse(&text);
    let prints: Vec<&str> =
        of(&log, "cuIpcGetMemHandle").iter().filter_map(|l| l["args"]["pHandle"].as_str()).collect();
    assert_eq!(prints.len(), 3);
    assert_eq!(prints[0], prints[1]);
    assert_ne!(prints[0], prints[2]);
    for print in &prints {
        let digits = print.strip_prefix("ipc:").unwrap();
        assert!(digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{print}");
    }
    assert_eq!(of(&log, "cuIpcOpenMemHandle_v2")[0]["args"]["handle"], prints[0]);
    assert_eq!(of(&log, "cuIpcOpenMemHandle")[0]["args"]["handle"], prints[2]);
    let events = &of(&log, "cuIpcGetEventHandle")[0]["args"]["pHandle"];
    assert_eq!(events, &of(&log, "cuIpcOpenEventHandle")[0]["args"]["handle"]);
    // The bytes of marked_handle(0x700000), wherever they might begin, as they might be written.
    let bytes: Vec<u8> = (0..64u32).map(|i| if i < 4 { [0, 0, 0x70, 0][i as usize] } else { (37 * i) as u8 }).collect();
    for window in bytes.windows(6) {
        let plain: String = window.iter().map(|b| format!("{b:02x}")).collect();
        let spaced: Vec<String> = window.iter().map(|b| b.to_string()).collect();
        for form in [plain, spaced.join(","), spaced.join(", ")] {
            assert!(!text.contains(&form), "the log shows bytes of a handle: {form}");
        }
    }
}

#[test]
fn fingerprints_depend_on_the_job() {
    let print = |job: &str| {
        let scene = Scene::new(linked("values.c", &[])).env(env::JOB, job);
        let log = scene.run(Cupeer::Logging).log;
        of(&log, "cuIpcGetMemHandle")[0]["args"]["pHandle"].clone()
    };
    let (one, two) = (print("000102030405060708090a0b0c0d0e0f"), print("ffffffffffffffffffffffffffffffff"));
    assert_ne!(one, two);
    assert_eq!(one, print("000102030405060708090a0b0c0d0e0f"));
}

#[test]
fn a_text_line_is_for_people() {
    let lines = values_as_text(&[]);
    let default = FunctionSet::parse(FunctionSet::DEFAULT).unwrap();
    let index = |name| FUNCTIONS.iter().position(|f| f.name() == name).unwrap();
    assert_eq!(
        lines.len(),
        values().lines.iter().filter(|l| default.contains(index(l["function"].as_str().unwrap()))).count()
    );
    // 12:34:56.789012 [pid/tid] cuFn(a=1, out=[2]) = CUDA_SUCCESS <1.2us> /lib/x.so+0x12
    for line in &lines {
        let (time, rest) = line.split_at(15);
        let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "00:00:00.000000", "{line}");
        let rest = rest.strip_prefix(" [").unwrap_or_else(|| panic!("{line}"));
        let (ids, rest) = rest.split_once("] cu").unwrap();
        let (pid, tid) = ids.split_once('/').unwrap();
        assert!(pid.parse::<u32>().is_ok() && tid.parse::<u32>().is_ok(), "{line}");
        let (_, tail) = rest.rsplit_once(") = ").unwrap();
        let words: Vec<&str> = tail.split(' ').collect();
        let [result, duration, caller] = words[..] else { panic!("{line}") };
        assert!(result.starts_with("CUDA_") || result == "8000", "{line}");
        assert!(duration.starts_with('<') && duration.ends_with("s>"), "{line}");
        assert!(caller.contains("/values-"), "{line}");
    }
    let has =
        |part: &str| assert!(lines.iter().any(|l| l.contains(part)), "{part} is missing in\n{}", lines.join("\n"));
    has(" cuDeviceCanAccessPeer(canAccessPeer=[1], dev=0, peerDev=1) = CUDA_SUCCESS <");
    has(" cuDeviceCanAccessPeer(canAccessPeer=NULL, dev=0, peerDev=-1) = CUDA_SUCCESS <");
    has(" cuIpcGetMemHandle(pHandle=0x10, dptr=0x76c0) = CUDA_ERROR_INVALID_HANDLE <");
    has("operations=[CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS, 99]");
    has("handle=ipc:");
}

#[test]
fn a_set_and_failures_alone_can_be_chosen() {
    assert_eq!(values_as_text(&[(env::TRACE, "none")]).len(), 0);
    let events = values_as_text(&[(env::TRACE, "@ipc-event,cuDeviceGetP2P*,^cuIpcOpen*")]);
    assert_eq!(events.len(), 8, "{}", events.join("\n"));
    assert_eq!(values_as_text(&[(env::TRACE, "@lifetime")]).len(), 6);
    assert_eq!(values_as_text(&[(env::FAILED, "1"), (env::TRACE, "@lifetime")]).len(), 2);
    let failed = values_as_text(&[(env::FAILED, "1")]);
    assert_eq!(failed.len(), 6, "{}", failed.join("\n"));
    assert!(failed.iter().all(|l| !l.contains("CUDA_SUCCESS")));
    assert_eq!(values_as_text(&[(env::FAILED, "1"), (env::TRACE, "@ipc")]).len(), 1);
    assert_eq!(values_as_text(&[(env::FAILED, "0"), (env::TRACE, "cuCtxDisablePeerAccess")]).len(), 1);
}

/// Inside a program a bad setting costs one line on stderr, and no call.
#[test]
fn bad_settings_are_said_once_and_harm_nothing() {
    for (name, value) in
        [(env::LOG, "yaml"), (env::TRACE, "cuIpcOpenMemHandel"), (env::FAILED, "maybe"), (env::JOB, "xyz")]
    {
        let folder = support::temp_dir();
        let log = folder.path().join("log");
        let scene = Scene::new(linked("values.c", &[])).env(env::LOG, "json").env(env::LOG_FILE, &log).env(name, value);
        let outcome = scene.run(Cupeer::Off);
        assert!(outcome.status.success(), "{outcome:#?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{name}={value}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(name), "{name}={value}: {}", outcome.stderr);
        assert_eq!(outcome.driver.len(), Scene::new(linked("values.c", &[])).run(Cupeer::Absent).driver.len());
    }
    // In a program that never meets a driver, not even that.
    let quiet = Scene::new(program("host.c", &[])).args(&["0", "keep", "libm.so.6"]).no_driver();
    quiet.run(Cupeer::Absent).assert_same(&quiet.env(env::LOG, "yaml").run(Cupeer::Off), "bad setting, no driver");
}

// The file of the log.

#[test]
fn a_file_is_appended_to_and_the_users_alone() {
    let folder = support::temp_dir();
    let log = folder.path().join("log");
    for run in 1..=2 {
        let outcome =
            Scene::new(linked("values.c", &[])).env(env::LOG, "json").env(env::LOG_FILE, &log).run(Cupeer::Off);
        assert!(outcome.status.success() && outcome.stderr.is_empty());
        let lines = fs::read_to_string(&log).unwrap().lines().count();
        assert_eq!(lines, run * values_as_text(&[]).len());
    }
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_name_of_the_file_follows_the_process() {
    let folder = support::temp_dir();
    let log = folder.path().join("%p-%h-%q{FLAVOUR}-%%.log");
    let scene =
        Scene::new(linked("forks.c", &[])).env(env::LOG, "json").env(env::LOG_FILE, &log).env("FLAVOUR", "sweet");
    let outcome = scene.run(Cupeer::Off);
    assert!(outcome.status.success() && outcome.stderr.is_empty(), "{outcome:#?}");
    let mut expected: BTreeMap<u64, usize> = BTreeMap::new();
    for call in &outcome.driver {
        *expected.entry(call.pid).or_default() += 1;
    }
    let mut found = BTreeMap::new();
    for file in fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        assert!(name.ends_with("-sweet-%.log"), "{name}");
        let log = Log::parse(&fs::read_to_string(file.path()).unwrap());
        let pid = name.split('-').next().unwrap().parse().unwrap();
        assert!(log.calls.iter().all(|c| c.pid == pid), "{name}");
        found.insert(pid, log.calls.len());
    }
    assert_eq!(found, expected);
}

#[test]
fn a_file_that_cannot_be_written_is_said_once_and_harms_nothing() {
    let folder = support::temp_dir();
    for bad in [folder.path().join("missing/log"), folder.path().to_owned(), Path::new("").to_owned()] {
        let scene = Scene::new(linked("threads.c", &[])).env(env::LOG, "json").env(env::LOG_FILE, &bad);
        let outcome = scene.run(Cupeer::Off);
        assert!(outcome.status.success() && outcome.stdout == "done\n", "{outcome:#?}");
        if !bad.as_os_str().is_empty() {
            assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
            assert!(outcome.stderr.contains(bad.to_str().unwrap()), "{}", outcome.stderr);
        }
    }
}

#[test]
fn a_full_disk_is_said_once_and_harms_nothing() {
    let scene = Scene::new(linked("threads.c", &[])).env(env::LOG, "json").env(env::LOG_FILE, "/dev/full");
    let outcome = scene.run(Cupeer::Off);
    assert!(outcome.status.success() && outcome.stdout == "done\n", "{outcome:#?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("/dev/full"), "{}", outcome.stderr);
}

#[test]
fn errno_is_kept_where_the_log_fails() {
    for file in ["/dev/full", "/", "/missing/log"] {
        let scene = Scene::new(linked("errors.c", &[])).env(env::LOG, "json").env(env::LOG_FILE, file);
        assert_eq!(scene.run(Cupeer::Off).stdout, scene.run(Cupeer::Absent).stdout);
    }
}

/// Descriptors of ours are out of the program's way, but must do with what there is.
#[test]
fn few_descriptors_are_enough() {
    let folder = support::temp_dir();
    let mut command = Scene::new(linked("threads.c", &[])).command(Cupeer::Logging, folder.path());
    let limited = ["-c", "ulimit -n 40; exec \"$0\""].map(str::to_owned);
    let program = command.get_program().to_owned();
    let variables: Vec<_> = command.get_envs().filter_map(|(k, v)| Some((k.to_owned(), v?.to_owned()))).collect();
    command = support::plain("sh");
    command.args(limited).arg(program).envs(variables);
    let (status, stdout, stderr) = finish(command);
    assert!(status.success() && stdout == "done\n" && stderr.is_empty(), "{stdout}{stderr}");
    let log = Log::parse(&fs::read_to_string(folder.path().join("log")).unwrap());
    assert_eq!(log.calls.len(), 16 * 200);
}

#[test]
fn the_environment_is_that_of_the_beginning() {
    for program in [linked("forgetful.c", &[]), program("forgetful.c", &[])] {
        Scene::new(program).compare();
    }
}

#[test]
fn stderr_may_be_closed_or_a_pipe_that_nobody_reads() {
    for how in ["closed", "pipe"] {
        let outcome = Scene::new(linked("descriptors.c", &[])).arg(how).env(env::LOG, "text").run(Cupeer::Off);
        assert!(outcome.status.success() && outcome.stdout == "alive\n", "{how}: {outcome:#?}");
    }
    // Closed or broken from the start, and full.
    let folder = support::temp_dir();
    let scene = || Scene::new(linked("threads.c", &[])).env(env::LOG, "text");
    for shell in ["exec \"$0\" 2>&-", "exec \"$0\" 2>/dev/full", "exec \"$0\" 0<&- 2>&-"] {
        let mut command = scene().command(Cupeer::Off, folder.path());
        let program = command.get_program().to_owned();
        let variables: Vec<_> = command.get_envs().map(|(k, v)| (k.to_owned(), v.map(|v| v.to_owned()))).collect();
        command = std::process::Command::new("sh");
        command.arg("-c").arg(shell).arg(program);
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let (status, stdout, _) = finish(command);
        assert!(status.success() && stdout == "done\n", "{shell}: {status:?} {stdout}");
    }
    let mut command = scene().command(Cupeer::Off, folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_limit_on_the_size_of_files_does_not_kill() {
    let folder = support::temp_dir();
    let log = folder.path().join("log");
    let scene = Scene::new(linked("descriptors.c", &[])).arg("full").env(env::LOG, "json").env(env::LOG_FILE, &log);
    let folder = support::temp_dir();
    let mut command = scene.command(Cupeer::Off, folder.path());
    // The fake driver's own account would meet the limit too.
    command.env_remove("FAKE_DRIVER_LOG");
    let (status, stdout, stderr) = finish(command);
    assert!(status.success() && stdout == "alive\n", "{status:?} {stdout} {stderr}");
    // stderr is a file here, which the limit holds for as well.
    assert!(stderr.lines().count() <= 1, "{stderr}");
}

/// The number of a standard stream that a program has closed is free for its next file.
#[test]
fn closed_standard_streams_stay_closed() {
    let folder = support::temp_dir();
    let log = folder.path().join("log");
    let scene = Scene::new(linked("stderr_closed.c", &[])).env(env::LOG, "json").env(env::LOG_FILE, &log);
    let mut command = scene.command(Cupeer::Off, folder.path());
    command.env_remove("FAKE_DRIVER_LOG");
    let (status, stdout, _) = finish(command);
    assert!(status.success(), "{status:?} {stdout}");
    assert_eq!(stdout, "0: closed\n2: closed\nopened as 0 and 2\n");
    let log = Log::parse(&fs::read_to_string(&log).unwrap());
    assert_eq!(log.calls.len(), 2);
}

/// A daemon closes every descriptor and opens its own files under the same numbers.
#[test]
fn a_programs_own_files_are_never_written_to() {
    for log_file in [true, false] {
        let folder = support::temp_dir();
        let (data, log) = (folder.path().join("data"), folder.path().join("log"));
        let mut scene = Scene::new(linked("descriptors.c", &[])).arg(&data).env(env::LOG, "json");
        if log_file {
            scene = scene.env(env::LOG_FILE, &log);
        }
        let outcome = scene.run(Cupeer::Off);
        assert!(outcome.status.success(), "{outcome:#?}");
        assert_eq!(fs::read_to_string(&data).unwrap(), "data\n", "log in a file: {log_file}");
        if log_file {
            let log = Log::parse(&fs::read_to_string(&log).unwrap());
            assert_eq!(log.calls.len(), 60);
        } else {
            assert_eq!(outcome.stderr.lines().count(), 20, "{}", outcome.stderr);
        }
    }
}

// Many at once.

#[test]
fn lines_of_many_processes_and_threads_do_not_mix() {
    for (file, format) in [(true, "json"), (false, "json"), (false, "text")] {
        let folder = support::temp_dir();
        let log = folder.path().join("log");
        let mut scene = Scene::new(linked("flood.c", &[])).args(&["8", "4", "2000"]).env(env::LOG, format);
        if file {
            scene = scene.env(env::LOG_FILE, &log);
        }
        let mut command = scene.command(Cupeer::Off, folder.path());
        command.env_remove("FAKE_DRIVER_LOG");
        let (status, stdout, stderr) = finish(command);
        assert!(status.success() && stdout == "failed: 0\n", "{stdout}");
        let text = if file { fs::read_to_string(&log).unwrap() } else { stderr };
        if format == "json" {
            let log = Log::parse(&text);
            assert_eq!(log.calls.len(), 8 * 4 * 2000);
            let mut threads = BTreeMap::<_, usize>::new();
            for call in &log.calls {
                *threads.entry((call.pid, call.tid)).or_default() += 1;
            }
            assert!(threads.len() == 32 && threads.values().all(|n| *n == 2000), "{threads:?}");
        } else {
            assert_eq!(text.lines().count(), 8 * 4 * 2000);
            assert!(text.lines().all(|l| l.matches(" cuIpcOpenMemHandle_v2(").count() == 1 && l.contains("/flood-")));
        }
    }
}

#[test]
fn forks_while_threads_log_do_not_hang() {
    let folder = support::temp_dir();
    let scene = Scene::new(linked("fork_storm.c", &[])).arg("1000");
    let mut command = scene.command(Cupeer::Logging, folder.path());
    command.env_remove("FAKE_DRIVER_LOG");
    let (status, stdout, stderr) = finish(command);
    assert!(status.success() && stdout == "failed: 0\n", "{status:?} {stdout} {stderr}");
    let log = Log::parse(&fs::read_to_string(folder.path().join("log")).unwrap());
    for mark in ["7", "8"] {
        let children = log.calls.iter().filter(|c| c.mark == mark && c.pid == c.tid).count();
        assert_eq!(children, 1000, "calls of children with mark {mark}");
    }
}

/// A thread's last destructors run when much else of it is gone: see late.c.
#[test]
fn destructors_of_threads_can_call() {
    for format in ["json", "text"] {
        let outcome = Scene::new(linked("late.c", &[])).env(env::LOG, format).run(Cupeer::Off);
        assert!(outcome.status.success(), "{outcome:#?}");
        assert_eq!(outcome.stderr.lines().count(), outcome.driver.len(), "{outcome:#?}");
    }
}
