//! `cupeer doctor --p2p` on the simulated driver, whose links can lose what is written to them.

use crate::support::{compile_text, cupeer, done, refused, stdout, temp_dir, wait_for, with};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A link that does not deliver, from a device to another one.
struct Broken {
    ends: (u64, u64),
    keys: &'static str,
    verdict: &'static str,
    /// The checks that are good all the same.
    good: &'static [&'static str],
}

const BROKEN: &[Broken] = &[
    Broken { ends: (0, 1), keys: "data = 'lost'", verdict: "wrong", good: &["copy_read", "kernel_read"] },
    Broken { ends: (2, 3), keys: "data = 'stale'", verdict: "stale", good: &[] },
    Broken { ends: (4, 5), keys: "data = 'stall'", verdict: "stalls", good: &[] },
    Broken {
        ends: (6, 7),
        keys: "data = 'lost'\ndata_by = 'kernels'",
        verdict: "wrong",
        good: &["copy_write", "copy_read", "kernel_read"],
    },
    Broken {
        ends: (7, 6),
        keys: "data = 'stale'\ndata_by = 'copies'",
        verdict: "stale",
        good: &["kernel_write", "kernel_read", "resident", "atomics"],
    },
    Broken {
        ends: (5, 4),
        keys: "data = 'stall'\ndata_by = 'kernels'",
        verdict: "stalls",
        good: &["copy_write", "copy_read"],
    },
];

fn topology(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("topology.toml");
    fs::write(&path, text).expect("a topology to write");
    path
}

/// The command with a simulated machine.
fn doctor(machine: &str) -> Command {
    let mut command = with(&["doctor", "--p2p", "--quick"]);
    command.arg(format!("--sim={machine}"));
    command
}

/// Returns the output as JSON, which must match the schema, and the exit status.
fn json(command: &mut Command) -> (Value, Option<i32>) {
    let ended = done(command.args(["--format", "json"]));
    assert_eq!(ended.stderr, "");
    (valid(&ended.stdout), ended.status.code())
}

fn valid(text: &str) -> Value {
    let document: Value = serde_json::from_str(text).expect("it is JSON");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/doctor-p2p.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).expect("a schema")).expect("JSON");
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::validator_for(&schema).expect("it is a schema");
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}\n{document:#}");
    document
}

fn pairs(document: &Value) -> impl Iterator<Item = ((u64, u64), &Value)> {
    let number = |value: &Value| value.as_u64().expect("a number");
    document["pairs"]
        .as_array()
        .expect("pairs")
        .iter()
        .map(move |pair| ((number(&pair["from"]), number(&pair["to"])), pair))
}

#[test]
fn each_broken_link_gets_its_verdict_and_no_good_one_does() {
    let folder = temp_dir();
    let mut text = "count = 8\n".to_owned();
    for Broken { ends: (from, to), keys, .. } in BROKEN {
        text += &format!("[[link]]\nfrom = {from}\nto = {to}\n{keys}\n");
    }
    let machine = topology(folder.path(), &text);
    let mut command = doctor(machine.to_str().unwrap());
    let (document, status) = json(command.args(["--limit", "4"]));
    assert_eq!((status, document["bad"].as_u64(), document["good"].as_u64()), (Some(1), Some(6), Some(50)));
    let mut seen = BTreeSet::new();
    for (ends, pair) in pairs(&document) {
        seen.insert(ends);
        let broken = BROKEN.iter().find(|broken| broken.ends == ends);
        let ways = pair["ways"].as_array().unwrap();
        assert_eq!(ways.iter().map(|way| way["way"].as_str().unwrap()).collect::<Vec<_>>(), ["peer", "ipc", "vmm"]);
        for way in ways {
            assert_eq!(way["verdict"], broken.map_or("good", |broken| broken.verdict), "{pair:#}");
            for check in way["checks"].as_array().unwrap() {
                let name = check["check"].as_str().unwrap();
                let is_good = broken.is_none_or(|broken| broken.good.contains(&name));
                // Checks after one that stalls are left out.
                let is_left_out = check["verdict"] == "not_tested" && way["verdict"] == "stalls";
                assert!(is_left_out || (check["verdict"] == "good") == is_good, "{check:#}\n{pair:#}");
            }
            assert_eq!(way["hints"].as_array().unwrap().is_empty(), broken.is_none());
        }
    }
    assert_eq!(seen.len(), 56);
}

#[test]
fn a_refusal_names_its_call_and_other_ways_are_tested_all_the_same() {
    let folder = temp_dir();
    let machine = topology(folder.path(), "count = 2\npeers = 0\n");
    let file = folder.path().join("machine.toml");
    let mut command = doctor(machine.to_str().unwrap());
    let (document, status) = json(command.arg("-o").arg(&file));
    assert_eq!(status, Some(1));
    for (_, pair) in pairs(&document) {
        let verdict = |way: usize| {
            let way = &pair["ways"][way];
            (way["verdict"].as_str().unwrap(), way["call"].as_str(), way["result"].as_str())
        };
        let code = Some("CUDA_ERROR_TOO_MANY_PEERS");
        assert_eq!(verdict(0), ("refused", Some("cuCtxEnablePeerAccess"), code));
        assert_eq!(verdict(1), ("refused", Some("cuIpcOpenMemHandle_v2"), code));
        assert_eq!(verdict(2), ("good", None, None));
    }
    let settings = stdout(with(&["env", "--p2p"]).arg(&file));
    assert!(settings.contains("\nexport NCCL_P2P_DISABLE=1\n"), "{settings}");
}

#[test]
fn people_see_a_sentence_a_matrix_and_what_is_bad() {
    let folder = temp_dir();
    let machine = topology(folder.path(), "count = 2\n[[link]]\nfrom = 0\nto = 1\ndata = 'lost'\n");
    let ended = done(&mut doctor(machine.to_str().unwrap()));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "Of 2 directions between 2 devices, 1 is bad, 1 is good in all ways.");
    assert_eq!(
        lines[2..6],
        ["writer \\ owner, all ways", "          0      1", "   0      .  wrong", "   1   good      ."]
    );
    for part in [
        "- 0 -> 1, all ways: wrong data\n",
        "    read by copy engine, read by a kernel: good\n",
        " words are wrong, the first at byte 0x0: nothing arrived\n",
        "    hint: it is an NVLink, which neither the IOMMU nor ACS concerns: ",
    ] {
        assert!(ended.stdout.contains(part), "{part}\n{}", ended.stdout);
    }
    let lost = "count = 2\n[[link]]\nfrom = 0\nto = 1\nkind = 'pcie'\ndata = 'lost'\n";
    let said = done(&mut doctor(topology(folder.path(), lost).to_str().unwrap())).stdout;
    assert!(said.contains("    hint: an IOMMU or PCIe ACS ") && !said.contains("NVLink"), "{said}");
    let measured = stdout(&mut with(&["doctor", "--p2p", "--sim=pcie:2"]));
    assert!(measured.starts_with("All 2 directions between 2 devices are good in all 3 ways.\n"), "{measured}");
    assert!(measured.contains("\nMeasured\n"), "{measured}");
    assert!(measured.contains("- atomics of both sides: the driver claims no native atomics"), "{measured}");
}

#[test]
fn without_a_pair_there_is_nothing_to_test() {
    for (machine, sentence) in [
        ("nvlink:1", "There is one device, and so no pair to test."),
        ("none:2", "None of the 2 devices reaches another one, the driver says: there is nothing to test."),
    ] {
        let said = stdout(&mut doctor(machine));
        assert!(said.starts_with(&format!("{sentence}\n")), "{said}");
    }
}

/// Machines of two and of four H200, which wrote the files; their UUIDs are made up.
#[test]
fn the_simulated_driver_answers_as_the_machine_that_wrote_a_file() {
    for (name, links) in [("two-h200-580.159.04.toml", 2), ("four-h200-580.159.04.toml", 12)] {
        let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let folder = temp_dir();
        let file = folder.path().join("machine.toml");
        let (_, status) = json(doctor(written.to_str().unwrap()).arg("-o").arg(&file));
        assert_eq!(status, Some(0));
        // A quick test measures nothing.
        let is_measured = |line: &&str| line.contains("_mb_s = ") || line.contains("round_trip_ns = ");
        let answers = |path: &Path| -> Vec<String> {
            let text = fs::read_to_string(path).unwrap();
            text.lines().filter(|line| !is_measured(line)).map(str::to_owned).collect()
        };
        assert_eq!(answers(&written).iter().filter(|line| *line == "[[link]]").count(), links, "{name}");
        assert_eq!(answers(&file), answers(&written), "{name}");
    }
}

#[test]
fn a_machine_file_is_simulated_denied_and_turned_into_settings() {
    let folder = temp_dir();
    let machine = topology(
        folder.path(),
        "links = 'pcie'\n[[device]]\nname = 'A \"quoted\" \\\\ name'\nmemory = '2GiB'\ncompute_capability = '8.6'\n\
         [[device]]\n[[device]]\n[[link]]\nfrom = 0\nto = 1\nboth = true\nkind = 'nvlink'\nperformance_rank = 3\n\
         partial_atomics = true\natomic_capabilities = [7, 0, 5]\n\
         [[link]]\nfrom = 1\nto = 2\ndata = 'lost'\n[[link]]\nfrom = 2\nto = 0\nkind = 'none'\narray_access = true\n",
    );
    let file = folder.path().join("machine.toml");
    let path = file.to_str().unwrap();
    let (first, _) = json(doctor(machine.to_str().unwrap()).args(["-o", path]));
    let (second, status) = json(&mut doctor(path));
    assert_eq!(status, Some(1));
    assert_eq!(first["devices"], second["devices"]);
    for ((ends, one), (_, other)) in pairs(&first).zip(pairs(&second)) {
        for key in ["can_access", "attributes", "atomic_capabilities"] {
            assert_eq!(one[key], other[key], "{ends:?} {key}");
        }
        let verdicts = |pair: &Value| {
            let ways = pair["ways"].as_array().unwrap();
            ways.iter().map(|way| way["verdict"].clone()).collect::<Vec<Value>>()
        };
        assert_eq!(verdicts(one), verdicts(other), "{ends:?}");
    }
    let uuid = |device: usize| first["devices"][device]["uuid"].as_str().unwrap().to_owned();
    let denied = stdout(&mut with(&["env", &format!("--sim={path}"), "--deny-peer", path, "--format", "sh"]));
    let wanted = format!("CUPEER_DENY_PEER={}/{}:oneway,{}/{}:oneway\n", uuid(1), uuid(2), uuid(2), uuid(0));
    assert!(denied.contains(&wanted), "{wanted}\n{denied}");
    // NVLink is there, and is not the bad link.
    let settings = stdout(&mut with(&["env", "--p2p", path]));
    for line in [
        "export NCCL_P2P_LEVEL=NVL",
        "unset GGML_CUDA_P2P",
        "export UCX_TLS=^cuda_ipc",
        "# an argument: --disable-custom-all-reduce",
    ] {
        assert!(settings.lines().any(|known| known == line), "{line}\n{settings}");
    }
    // Nothing but comments and commands, and each setting has its page.
    let status = Command::new("sh").args(["-euc", &settings]).status().unwrap();
    assert!(status.success());
    assert!(
        settings
            .lines()
            .filter(|line| line.starts_with("# "))
            .all(|line| { line.starts_with("# an argument: ") || line.contains("https://") })
    );
    let docker = stdout(&mut with(&["env", "--p2p", path, "--format", "docker"]));
    assert!(docker.starts_with("-e NCCL_P2P_LEVEL=NVL -e "), "{docker}");
}

#[test]
fn impossible_options_are_refused_before_any_test() {
    let folder = temp_dir();
    let untested = topology(folder.path(), "count = 2\n");
    let untested = untested.to_str().unwrap();
    let nowhere = folder.path().join("no/machine.toml");
    let nowhere = nowhere.to_str().unwrap();
    refused(&["doctor", "--p2p", "--sim", "-o", nowhere], &format!("-o '{nowhere}': no file can be written there"));
    refused(
        &["doctor", "--p2p", "--limit", "0"],
        "invalid value '0' for '--limit <SECONDS>': 0 is not in 1..=3600; see --help",
    );
    refused(
        &["env", "--p2p", untested],
        &format!(
            "--p2p '{untested}': no link in it was tested; 'cupeer doctor --p2p -o {untested}' writes what it finds"
        ),
    );
    refused(&["env", "--p2p", "/none.toml"], "--p2p: /none.toml: No such file or directory (os error 2)");
    let ended = done(&mut with(&["doctor", "--quick", "--sim"]));
    assert!(ended.stderr.contains("--p2p"), "{}", ended.stderr);
    let ended = done(with(&["doctor", "--p2p"]).env("LD_LIBRARY_PATH", folder.path()));
    // If a driver is installed, it is tested, or the reason why not is printed.
    assert!(ended.status.code() != Some(101), "{}", ended.stderr);
}

/// A driver that ends whoever makes a context, and one that makes none.
#[test]
fn a_driver_that_crashes_costs_a_process_and_not_the_run() {
    let driver = |retain: &str| {
        let text = format!(
            r#"
            #include <stddef.h>
            #include <stdlib.h>
            #include <string.h>
            #include <unistd.h>
            int cuInit(unsigned flags) {{ return 0; }}
            int cuDeviceGetCount(int *count) {{ *count = 2; return 0; }}
            int cuDeviceGet(int *device, int ordinal) {{ *device = ordinal; return 0; }}
            int cuDeviceGetName(char *name, int length, int device) {{ strcpy(name, "Fake"); return 0; }}
            int cuDeviceGetUuid(char *uuid, int device) {{ memset(uuid, device + 1, 16); return 0; }}
            int cuDeviceGetPCIBusId(char *id, int length, int device) {{ strcpy(id, "0000:01:00.0"); return 0; }}
            int cuDeviceTotalMem_v2(size_t *bytes, int device) {{ *bytes = 1 << 30; return 0; }}
            int cuDeviceGetAttribute(int *value, int attribute, int device) {{ *value = 1; return 0; }}
            int cuDeviceCanAccessPeer(int *can, int device, int peer) {{ *can = 1; return 0; }}
            int cuDeviceGetP2PAttribute(int *value, int attribute, int a, int b) {{ *value = 1; return 0; }}
            int cuDevicePrimaryCtxRetain(void **context, int device) {{ {retain} }}
            "#
        );
        compile_text("fake_driver", &text, &["-shared", "-fPIC"])
    };
    let library = driver("abort();");
    let mut command = with(&["doctor", "--p2p", "--driver"]);
    let (document, status) = json(command.arg(&library));
    assert_eq!((status, document["untested"].as_u64()), (Some(1), Some(2)));
    for (_, pair) in pairs(&document) {
        for way in pair["ways"].as_array().unwrap() {
            let reason = way["reason"].as_str().unwrap();
            assert_eq!(reason, "making a device ready: the process is gone: signal 6 ended it", "{way:#}");
        }
    }
    let library = driver("return 46;");
    let said = done(with(&["doctor", "--p2p", "--driver"]).arg(&library)).stdout;
    assert!(said.contains("cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE (2 times)\n"), "{said}");
}

/// Tools that read the JSON of a node without a usable driver find the reason in it.
#[test]
fn json_has_the_reason_why_no_link_was_tested() {
    let library = compile_text("fake_driver", "int cuInit(unsigned flags) { return 100; }", &["-shared", "-fPIC"]);
    let ended = done(with(&["doctor", "--p2p", "--format", "json", "--driver"]).arg(&library));
    let document = valid(&ended.stdout);
    let reason = document["error"].as_str().expect("a reason");
    assert!(reason.starts_with("no link was tested: cuInit: CUDA_ERROR_NO_DEVICE"), "{reason}");
    assert!(ended.stderr.contains(reason), "{}", ended.stderr);
    assert_eq!(ended.status.code(), Some(125));
}

/// A simulated driver in which one function is refused, and which writes a line for all that is given and taken.
const REFUSES: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef unsigned long long word;
typedef struct { char bytes[64]; } Handle;
static int done(int result, const char *sign, const char *what, word name) {
    FILE *file = result ? NULL : fopen(getenv("P2P_LOG"), "a");
    if (file) {
        fprintf(file, "%s %d %s %llx\n", sign, getpid(), what, name);
        fclose(file);
    }
    return result;
}
static int refuses(const char *name) { return strcmp(getenv("P2P_REFUSES"), name) ? 0 : 999; }
#define NEXT(name, types, args) (refuses(#name) ? 999 : ((int (*) types)dlsym(RTLD_NEXT, #name)) args)
int cuInit(unsigned flags) { return NEXT(cuInit, (unsigned), (flags)); }
int cuMemAlloc_v2(word *at, size_t size) {
    int result = NEXT(cuMemAlloc_v2, (word *, size_t), (at, size));
    return done(result, "+", "memory", *at);
}
int cuMemFree_v2(word at) { return done(NEXT(cuMemFree_v2, (word), (at)), "-", "memory", at); }
int cuMemCreate(word *handle, size_t size, const void *wanted, word flags) {
    int result = NEXT(cuMemCreate, (word *, size_t, const void *, word), (handle, size, wanted, flags));
    return done(result, "+", "handle", *handle);
}
int cuMemImportFromShareableHandle(word *handle, void *fd, int type) {
    int result = NEXT(cuMemImportFromShareableHandle, (word *, void *, int), (handle, fd, type));
    return done(result, "+", "handle", *handle);
}
int cuMemRelease(word handle) { return done(NEXT(cuMemRelease, (word), (handle)), "-", "handle", handle); }
int cuMemAddressReserve(word *at, size_t size, size_t align, word wish, word flags) {
    int result = NEXT(cuMemAddressReserve, (word *, size_t, size_t, word, word), (at, size, align, wish, flags));
    return done(result, "+", "reservation", *at);
}
int cuMemAddressFree(word at, size_t size) {
    return done(NEXT(cuMemAddressFree, (word, size_t), (at, size)), "-", "reservation", at);
}
int cuMemMap(word at, size_t size, size_t offset, word handle, word flags) {
    int result = NEXT(cuMemMap, (word, size_t, size_t, word, word), (at, size, offset, handle, flags));
    return done(result, "+", "mapping", at);
}
int cuMemUnmap(word at, size_t size) { return done(NEXT(cuMemUnmap, (word, size_t), (at, size)), "-", "mapping", at); }
int cuMemExportToShareableHandle(void *fd, word handle, int type, word flags) {
    return NEXT(cuMemExportToShareableHandle, (void *, word, int, word), (fd, handle, type, flags));
}
int cuMemSetAccess(word at, size_t size, const void *wishes, size_t count) {
    return NEXT(cuMemSetAccess, (word, size_t, const void *, size_t), (at, size, wishes, count));
}
int cuIpcOpenMemHandle_v2(word *at, Handle handle, unsigned flags) {
    return NEXT(cuIpcOpenMemHandle_v2, (word *, Handle, unsigned), (at, handle, flags));
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    int result = NEXT(cuDevicePrimaryCtxRetain, (void **, int), (context, device));
    return done(result, "+", "context", device);
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    return done(NEXT(cuDevicePrimaryCtxRelease_v2, (int), (device)), "-", "context", device);
}
int cuStreamCreate(void **stream, unsigned flags) { return NEXT(cuStreamCreate, (void **, unsigned), (stream, flags)); }
"#;

#[test]
fn everything_that_was_given_is_taken_back_when_a_later_step_is_refused() {
    let folder = temp_dir();
    // The loader would take the name of the simulated driver for the refusing one, which depends on it: it gets a path.
    let next = folder.path().join("next.so");
    fs::copy(compile_text("no_driver", "", &["-shared", "-fPIC"]), &next).expect("a library");
    let depends = ["-shared", "-fPIC", "-Wl,--no-as-needed", next.to_str().unwrap()];
    let driver = compile_text("refusing_driver", REFUSES, &depends);
    fs::remove_file(&next).expect("it is there");
    std::os::unix::fs::symlink(crate::support::sim_dir().join("libcuda.so"), &next).expect("a link");
    for function in [
        "cuMemAlloc_v2",
        "cuMemCreate",
        "cuMemExportToShareableHandle",
        "cuMemImportFromShareableHandle",
        "cuMemAddressReserve",
        "cuMemMap",
        "cuMemSetAccess",
        "cuIpcOpenMemHandle_v2",
        "cuStreamCreate",
        "none",
    ] {
        let log = folder.path().join(function);
        let mut command = with(&["doctor", "--p2p", "--quick", "--driver"]);
        command.arg(&driver).env("P2P_LOG", &log).env("P2P_REFUSES", function);
        let ended = done(&mut command);
        assert_eq!(ended.stdout.contains(function), function != "none", "{function}: {ended:?}");
        let log = fs::read_to_string(&log).expect("a log");
        let mut left = BTreeSet::new();
        for line in log.lines() {
            let (sign, thing) = line.split_once(' ').expect("a sign");
            let is_new = if sign == "+" { left.insert(thing) } else { left.remove(thing) };
            assert!(is_new || thing.contains("context"), "{function}: {line}\n{log}");
        }
        // A process may end with contexts, which take what was made in them along.
        left.retain(|thing| function == "cuStreamCreate" || !thing.contains("context"));
        assert!(left.is_empty(), "{function}: {left:?}\n{log}");
    }
}

/// The processes whose environment has a word.
fn marked(word: &str) -> BTreeSet<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|pid| {
            let mut environment = Vec::new();
            let opened = fs::File::open(format!("/proc/{pid}/environ"));
            let read = opened.and_then(|mut file| file.read_to_end(&mut environment));
            read.is_ok() && environment.split(|byte| *byte == 0).any(|one| one == word.as_bytes())
        })
        .collect()
}

/// Findings that took long are printed even if the file cannot be written, and an existing file stays complete.
#[test]
fn a_file_that_cannot_be_written_costs_no_findings() {
    let ended = done(doctor("nvlink:2").args(["-o", "/dev/full"]));
    assert!(ended.stdout.starts_with("All 2 directions between 2 devices are good"), "{}", ended.stdout);
    assert!(ended.stderr.contains("/dev/full: failed to write the topology"), "{}", ended.stderr);
    assert_eq!(ended.status.code(), Some(125));
}

/// A machine file does not call links good that a stall left untested.
#[test]
fn a_stall_by_copies_is_written_as_one_of_all() {
    let folder = temp_dir();
    let machine = topology(folder.path(), "count = 2\n[[link]]\nfrom = 0\nto = 1\ndata = 'stall'\n");
    let written = folder.path().join("written.toml");
    let ended = done(doctor(machine.to_str().unwrap()).args(["--limit", "1", "-o"]).arg(&written));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let text = std::fs::read_to_string(&written).unwrap();
    assert!(text.contains("data = \"stall\"") && !text.contains("data_by"), "{text}");
}

/// Killed when so many of its processes run, also over a link that stalls: nothing of it stays.
#[test]
fn killed_at_any_moment_it_leaves_no_process_and_no_memory() {
    let folder = temp_dir();
    let machine = topology(folder.path(), "count = 4\n[[link]]\nfrom = 0\nto = 1\ndata = 'stall'\n");
    let shared = || -> BTreeSet<_> {
        let names = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().contains("cupeer")).collect()
    };
    let before = shared();
    for (round, processes) in [1, 2, 3, 4, 5, 5, 4, 3].into_iter().enumerate() {
        let word = format!("DOCTOR_TEST={}-{round}", std::process::id());
        let (name, value) = word.split_once('=').unwrap();
        let mut command = doctor(machine.to_str().unwrap());
        let mut child = command.env(name, value).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("its processes", || {
            assert!(child.try_wait().unwrap().is_none(), "{processes} processes did not come");
            marked(&word).len() >= processes
        });
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("the end of its processes", || marked(&word).is_empty());
    }
    assert_eq!(shared(), before);
}

#[test]
fn our_own_library_is_not_between_the_test_and_the_driver() {
    let record = temp_dir();
    let mut command = cupeer();
    command.args(["run", "--sim", "-o"]).arg(record.path().join("r")).arg("--");
    command.arg(crate::support::install().join("bin/cupeer")).args(["doctor", "--p2p", "--quick"]);
    let ended = done(&mut command);
    assert!(ended.stdout.starts_with("All 2 directions between 2 devices are good"), "{}", ended.stdout);
    assert!(ended.stderr.contains("without libcupeer.so"), "{}", ended.stderr);
}
