//! Receivers of findings, and their forms: the program itself, a log in JSON, and a person who has seen a finding ten times.

use crate::support::{self, Done, compile_c, cupeer, done, plain, temp_dir};
use serde_json::Value;
use std::path::Path;

/// Runs a part of told.c.
fn told(what: &str, how: &str, options: &[&str], record: &Path) -> Done {
    let program = compile_c("programs/told.c", &["-ldl", "-rdynamic"]);
    let mut command = cupeer();
    command.args(["run", "--sim=nvlink:2", "--out"]).arg(record).args(options).arg("--");
    done(command.arg(program).args([what, how]))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn report(record: &Path) -> Value {
    json(&support::stdout(cupeer().arg("report").arg(record).args(["--format", "json"])))
}

/// The keys that every finding has, in a log and for a program's own function.
const KEYS: [&str; 18] = [
    "rule",
    "severity",
    "confidence",
    "pid",
    "tid",
    "rank",
    "function",
    "argument",
    "args",
    "result",
    "message",
    "hint",
    "sentence",
    "source",
    "driver_message",
    "caller",
    "python",
    "objects",
];

#[test]
fn a_program_hears_of_its_own_findings() {
    let folder = temp_dir();
    let ended = told("listens", "bad", &["--check=notes"], folder.path());
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "checks 1", "{}", ended.stdout);
    assert_eq!(lines[1], "heard error ipc-flags certain cuIpcOpenMemHandle_v2 1: Flags must be 1 (is 0)");
    assert!(lines[2].starts_with("hint: Pass CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS"), "{}", lines[2]);
    let finding = json(lines[3].strip_prefix("json: ").expect("an object"));
    for key in KEYS {
        assert!(finding.get(key).is_some(), "{key} is missing: {finding}");
    }
    // The second one was for nobody, and is told on stderr all the same.
    assert_eq!(lines[4], "heard 1");
    assert_eq!(ended.stderr.matches("cupeer: error ipc-flags:").count(), 2, "{}", ended.stderr);
    let unchecked = told("listens", "bad", &["--check=off"], folder.path());
    assert!(unchecked.stdout.starts_with("checks 0\nheard 0\n"), "{}", unchecked.stdout);
}

/// A callback may do what `cupeer.h` allows. Of the forbidden actions, an end of its frames is noticed.
#[test]
fn a_callback_may_do_what_the_header_says_and_must_return() {
    use std::os::unix::process::ExitStatusExt;
    let leaves = |how: &str| {
        let folder = temp_dir();
        let program = compile_c("programs/told.c", &["-ldl", "-rdynamic"]);
        let mut command = cupeer();
        command.args(["run", "-q", "--sim=nvlink:2", "--check", "--out"]).arg(folder.path()).arg("--");
        let ended = done(command.arg(program).args(["leaves", "bad"]).env("LEAVING", how));
        (ended, folder)
    };
    let heard = "leaves ipc-close-address\n";
    let (ended, _folder) = leaves("set");
    let said = format!("{heard}returned 1\nagain ipc-close-address 1\nand again\ncanceled 0, after 1\ndone\n");
    assert_eq!((ended.stdout, ended.status.code()), (said, Some(0)), "{}", ended.stderr);
    let (ended, folder) = leaves("fork");
    let both = ["returned 1", "and again"].map(|line| ended.stdout.lines().filter(|other| *other == line).count());
    assert_eq!((both, ended.status.code()), ([2, 2], Some(0)), "{}{}", ended.stdout, ended.stderr);
    let report = report(folder.path());
    let process = |row: &Value| (row["events"].as_u64() > Some(0), row["exit"]["kind"].to_string());
    let processes: Vec<_> = report["processes"].as_array().expect("processes").iter().map(process).collect();
    assert_eq!(processes, vec![(true, "\"returned\"".to_owned()); 2], "{report}");
    let (ended, _folder) = leaves("exit");
    assert_eq!((ended.stdout.as_str(), ended.status.code()), (heard, Some(9)), "{}", ended.stderr);
    // The call returns first.
    let (ended, _folder) = leaves("cancel");
    let said = format!("{heard}canceled 1, after 1\ndone\n");
    assert_eq!((ended.stdout, ended.status.code()), (said, Some(0)), "{}", ended.stderr);
    let line =
        "aborting: the callback of cupeer_on_finding did not return, but threw an exception or ended its thread\n";
    let (ended, _folder) = leaves("end");
    assert_eq!((ended.stdout.as_str(), ended.status.signal()), (heard, Some(libc::SIGABRT)), "{}", ended.stderr);
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
    let mut throws = cupeer();
    let folder = temp_dir();
    throws.args(["run", "-q", "--sim=nvlink:2", "--check", "--out"]).arg(folder.path());
    let ended = done(throws.arg("--").arg(compile_c("programs/throws.cpp", &["-lstdc++", "-ldl"])));
    assert_eq!((ended.stdout.as_str(), ended.status.signal()), ("", Some(libc::SIGABRT)), "{}", ended.stderr);
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
}

/// Else a test suite would hear nothing of a rule that eleven of its tests break.
#[test]
fn a_new_callback_gets_ten_more_findings() {
    let folder = temp_dir();
    let ended = told("anew", "bad", &[], folder.path());
    let counts: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("so far")).collect();
    assert_eq!(counts, ["so far 10", "so far 20"], "{}", ended.stdout);
}

#[test]
fn without_cupeer_there_is_nobody_to_tell() {
    let program = compile_c("programs/told.c", &["-ldl", "-rdynamic"]);
    assert_eq!(support::stdout(plain(program).args(["listens", "bad"])), "no cupeer\ndone\n");
}

#[test]
fn a_log_of_json_has_findings_as_objects() {
    let folder = temp_dir();
    let log = folder.path().join("log");
    let options = ["--check", "--log", "json", "--log-file", log.to_str().expect("UTF-8")];
    let ended = told("often", "bad", &options, &folder.path().join("record"));
    assert!(!ended.stderr.contains("hint:"), "the log has it: {}", ended.stderr);
    let text = std::fs::read_to_string(&log).expect("the log");
    let lines: Vec<Value> = text.lines().map(json).collect();
    let findings: Vec<&Value> = lines.iter().filter_map(|line| line.get("finding")).collect();
    assert_eq!(findings.len(), 10);
    for key in KEYS {
        assert!(findings.iter().all(|finding| finding.get(key).is_some()), "{key}");
    }
    assert_eq!(findings[0]["rule"], "ipc-close-address");
    assert_eq!(findings[0]["args"]["dptr"], "0x1000");
    assert!(findings[0]["driver_message"].as_str().is_some_and(|text| text.contains("invalid device pointer")));
    let stamps = ["ts_ns", "pid", "tid", "seq"];
    assert!(lines.iter().all(|line| stamps.iter().all(|key| line[key].is_number())));
}

#[test]
fn ten_findings_alike_are_told_and_all_are_counted() {
    let folder = temp_dir();
    let ended = told("often", "bad", &["--check"], folder.path());
    assert_eq!(ended.stderr.matches("cupeer: error ipc-close-address:").count(), 10, "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("are only counted").count(), 1, "{}", ended.stderr);
    let report = report(folder.path());
    let findings = report["findings"].as_array().expect("findings");
    assert_eq!((findings.len(), &findings[0]["count"]), (1, &Value::from(25)), "{report}");
}

/// One mistake at one line, of a hundred things, is one finding with its count: found at the call, and afterwards.
#[test]
fn a_hundred_findings_alike_are_one_with_a_count() {
    let program = support::compile_c("programs/hundred.c", &["-ldl"]);
    for (what, rule) in [
        ("freed", "ipc-freed-while-open"),
        ("destroyed", "ipc-event-destroyed-while-open"),
        ("late", "ipc-event-opened-after-destroy"),
        ("after-free", "ipc-open-after-free"),
    ] {
        for check in ["--check=notes", "--check=off"] {
            let folder = temp_dir();
            let mut run = support::cupeer();
            run.args(["run", "-q", check, "--sim=nvlink:2", "--out"]).arg(folder.path()).arg("--");
            let ended = support::done(run.arg(&program).arg(what));
            assert!(ended.status.success(), "{what}: {}", ended.stderr);
            let report = report(folder.path());
            let findings = report["findings"].as_array().expect("findings");
            let all: Vec<_> = findings.iter().map(|found| (&found["rule"], &found["count"])).collect();
            assert_eq!(all, [(&Value::from(rule), &Value::from(100))], "{what} {check}");
        }
    }
}

#[test]
fn on_a_network_file_system_the_report_alone_knows_of_others() {
    let folder = temp_dir();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    let near = told("remote", "good", &["--check"], &here);
    assert!(near.stderr.contains("error ipc-open-in-exporting-process:"), "{}", near.stderr);
    let far = told("remote", "bad", &["--check"], &there);
    assert_eq!(far.stderr.matches("the recording is on a network file system").count(), 1, "{}", far.stderr);
    assert!(!far.stderr.contains("hint: Within one process"), "{}", far.stderr);
    // Findings that need only the call are still reported.
    assert!(far.stderr.contains("error ipc-flags:"), "{}", far.stderr);
    assert_eq!(near.stdout, far.stdout);
    let rules = |report: Value| -> Vec<String> {
        let findings = report["findings"].as_array().cloned().unwrap_or_default();
        let mut rules: Vec<_> = findings.iter().map(|f| f["rule"].to_string()).collect();
        rules.sort();
        rules
    };
    assert_eq!(rules(report(&there)), rules(report(&here)), "the report has the same rules");
}

#[test]
fn behind_the_runtime_each_library_is_a_caller_of_its_own() {
    let folder = temp_dir();
    // It has to return to the runtime: no call at the end of a function.
    let text = "int through(int (*f)(unsigned long long)) { volatile int result = f(0x1000); return result; }";
    let runtime = support::compile_text("runtime", text, &["-shared", "-fPIC", "-Wl,-soname,libcudart.so.13"]);
    std::fs::copy(runtime, folder.path().join("libcudart.so.13")).expect("a copy");
    let text = "int through(int (*)(unsigned long long));\n\
                void closes(int (*f)(unsigned long long)) { for (int i = 0; i < 12; i++) through(f); }";
    let here = folder.path().to_str().expect("UTF-8");
    let path = format!("-Wl,-rpath,{here}");
    let library = folder.path().join("libcudart.so.13");
    let user = support::compile_text(
        "user",
        text,
        &["-shared", "-fPIC", "-fno-builtin", library.to_str().expect("UTF-8"), &path],
    );
    for number in [1, 2] {
        std::fs::copy(&user, folder.path().join(format!("libuser{number}.so"))).expect("a copy");
    }
    let record = folder.path().join("record");
    let program = compile_c("programs/told.c", &["-ldl", "-rdynamic"]);
    let mut command = cupeer();
    command.args(["run", "--sim=nvlink:2", "--check", "--out"]).arg(&record).arg("--").arg(program);
    let ended = done(command.args(["behind", "bad"]).env("LIBRARIES", here));
    for number in [1, 2] {
        let said = ended.stderr.matches(&format!("/libuser{number}.so+")).count();
        assert_eq!(said, 10, "{}", ended.stderr);
    }
    let report = report(&record);
    let counts: Vec<_> = report["findings"].as_array().expect("findings").iter().map(|f| &f["count"]).collect();
    assert_eq!(counts, [12, 12], "{report}");
}

#[test]
fn certain_facts_of_one_call_are_not_reported_of_others() {
    let program = support::compile_text(
        "one-zero",
        r#"
        #include <dlfcn.h>
        #include <string.h>
        typedef struct { char bytes[64]; } Handle;
        int main(void) {
            void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
            int (*init)(unsigned) = dlsym(driver, "cuInit");
            int (*retain)(void **, int) = dlsym(driver, "cuDevicePrimaryCtxRetain");
            int (*set)(void *) = dlsym(driver, "cuCtxSetCurrent");
            int (*open)(unsigned long long *, Handle, unsigned) = dlsym(driver, "cuIpcOpenMemHandle_v2");
            init(0), retain(&context, 0), set(context);
            for (int i = 0; i < 20; i++) {
                unsigned long long address;
                Handle handle;
                memset(&handle, i, sizeof handle);
                open(&address, handle, 1);
            }
            return 0;
        }"#,
        &["-ldl"],
    );
    for check in ["--check=notes", "--check=off"] {
        let folder = support::temp_dir();
        let record = folder.path().join("record");
        let mut command = support::cupeer();
        command.args(["run", "-q", "--sim=nvlink:2", check, "--out"]).arg(&record).arg("--").arg(&program);
        support::done(&mut command);
        let report = report(&record);
        let found: Vec<_> = report["findings"].as_array().expect("findings").iter().collect();
        assert_eq!((found.len(), &found[0]["count"]), (1, &20.into()), "{check}: {found:#?}");
        assert_eq!(found[0]["confidence"], "inferred", "{check}: {found:#?}");
        let message = found[0]["message"].as_str().expect("a message");
        assert!(message.starts_with("no process under cupeer exported "), "{check}: {message}");
    }
}

/// A rule that all ranks break in one place is a line of the first rank, and its count is in the summary.
#[test]
fn the_same_line_of_several_processes_is_said_once() {
    let folder = temp_dir();
    let all = ["sh", "-c", "\"$0\" \"$@\" & \"$0\" \"$@\" & \"$0\" \"$@\" & wait"];
    let scene = super::scenes::scene("ipc-flags");
    let ended = done(&mut scene.under_within(super::scenes::How::Bad, &[], &folder.path().join("record"), &all));
    let live = ended.stderr.lines().filter(|line| line.starts_with("cupeer: error ipc-flags: "));
    assert_eq!(live.count(), 1, "{}", ended.stderr);
    let count = "cupeer:   error ipc-flags: cuIpcOpenMemHandle_v2, 3 times in 3 processes";
    assert!(ended.stderr.lines().any(|line| line == count), "{}", ended.stderr);
}
