//! Ends of processes in the summary, the report, its JSON, and its page: those of the started process and of its children.

use crate::report::html;
use crate::support::{self, Done, compile_c, cupeer, done, sim_dir, temp_dir, wait_for, with};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

// Ends that came from outside, and which was the first.
mod outside;

/// A program that reaches the driver and ends in the way that it is asked for.
pub fn program() -> PathBuf {
    let driver = sim_dir().join("libcuda.so");
    compile_c("programs/endings.c", &["-pthread", "-Wl,--no-as-needed", driver.to_str().unwrap()])
}

/// Outputs about a program with such an end.
struct Told {
    status: Option<i32>,
    /// Lines of the launcher.
    summary: String,
    /// The text of the report.
    report: String,
    /// Text of the page.
    page: String,
    /// The kinds, codes and signals of its processes, in the order of their start.
    exits: Vec<Exit>,
}

/// A kind, a code and a signal.
type Exit = (String, Option<u64>, Option<u64>);

fn report(directory: &Path) -> (String, Vec<Exit>) {
    let text = done(with(&["report"]).arg(directory)).stdout;
    let json = done(with(&["report", "--format", "json"]).arg(directory)).stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let exit = |process: &Value| {
        let exit = &process["exit"];
        (exit["kind"].as_str().unwrap().to_owned(), exit["code"].as_u64(), exit["signal"].as_u64())
    };
    (text, json["processes"].as_array().unwrap().iter().map(exit).collect())
}

/// The page of a record, in whose table each process has ended as JSON has it.
#[track_caller]
fn page(record: &Path, exits: &[Exit]) -> String {
    let page = html::page(record, "endings");
    for (place, (kind, code, signal)) in exits.iter().enumerate() {
        let wanted = match (kind.as_str(), code, signal) {
            (RETURNED, Some(code), _) => format!(" exit status {code} "),
            (RETURNED, None, _) => " returned ".to_owned(),
            ("signal", _, Some(1..=3 | 15)) => " was ended by SIG".to_owned(),
            ("signal", _, Some(_)) => " was killed by SIG".to_owned(),
            ("died", ..) => " was killed or called exit_group ".to_owned(),
            ("executed", ..) => " became ".to_owned(),
            ("running", ..) => " runs ".to_owned(),
            other => panic!("{other:?}"),
        };
        let row = page.split_once(&format!("<tr id=\"p{place}\"")).expect("its row").1;
        let row = html::read(&format!("<tr{}", row.split("</tr>").next().unwrap()));
        assert!(row.contains(&wanted), "{wanted} is not in: {row}");
    }
    html::read(&page)
}

fn told(words: &[&str], status: Option<i32>) -> Told {
    let (told, _) = told_in(&temp_dir(), words);
    assert_eq!(told.status, status, "{words:?}: {}", told.summary);
    told
}

/// The same, with the row of the first process; any status will do where none is given.
fn told_with_json(words: &[&str], status: Option<i32>) -> (Told, Value) {
    let folder = temp_dir();
    let (told, record) = told_in(&folder, words);
    assert!(status.is_none() || told.status == status, "{words:?}: {}", told.summary);
    let json = done(with(&["report", "--format", "json"]).arg(record)).stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    (told, json["processes"][0].clone())
}

fn told_in(folder: &tempfile::TempDir, words: &[&str]) -> (Told, PathBuf) {
    let record = folder.path().join("record");
    let mut command = cupeer();
    command.args(["run", "--sim", "--record", "full", "-o"]).arg(&record).arg("--").arg(program()).args(words);
    let ended = done(&mut command);
    let (report, exits) = report(&record);
    let page = page(&record, &exits);
    (Told { status: ended.status.code(), summary: ended.stderr, report, page, exits }, record)
}

const RETURNED: &str = "returned";
const WELL: &str = "No rule was broken by the 1 call that was recorded.";

#[test]
fn a_return_is_reported_with_its_status() {
    for (words, status) in [
        (&["return", "0"][..], 0),
        (&["return", "3"], 3),
        (&["exit", "0"], 0),
        (&["exit", "7"], 7),
        (&["exit", "256"], 0),
        (&["_exit", "0"], 0),
        (&["_exit", "5"], 5),
        (&["_Exit", "6"], 6),
        (&["quick_exit", "4"], 4),
        (&["system-call", "9"], 9),
        (&["last-thread"], 0),
        (&["vfork", "0"], 0),
        (&["exec-other"], 0),
    ] {
        let told = told(words, Some(status));
        let wanted = [(RETURNED.to_owned(), Some(status as u64), None)];
        assert_eq!(told.exits, wanted, "{words:?}");
        if status == 0 {
            assert!(told.report.contains(WELL), "{words:?}: {}", told.report);
            assert!(told.page.contains(WELL), "{words:?}: {}", told.page);
        } else {
            let wanted = format!("Problems\n- 1 process exited with an error\n  exit status {status}: ");
            assert!(told.report.contains(&wanted), "{words:?}: {}", told.report);
            let wanted = format!(" warning 1 process exited with an error: exit status {status}: ");
            assert!(told.page.contains(&wanted), "{words:?}: {}", told.page);
        }
        assert!(told.summary.starts_with("cupeer: 1 process, "), "{words:?}: {}", told.summary);
    }
}

/// A text without the breaks of its lines.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_signal_is_told_first_and_by_its_name() {
    for (words, signal, name) in [
        (&["abort"][..], 6, "SIGABRT"),
        (&["signal", "11"], 11, "SIGSEGV"),
        (&["signal", "8"], 8, "SIGFPE"),
        (&["signal", "9"], 9, "SIGKILL"),
    ] {
        let told = told(words, None);
        assert_eq!(told.exits, [("signal".to_owned(), None, Some(signal))], "{words:?}");
        let first = told.summary.lines().next().unwrap_or_default();
        assert!(first.starts_with("cupeer: process ") && first.ends_with(&format!(" was killed by {name}")), "{first}");
        let wrong = unwrapped(told.report.split_once("\nProblems\n").expect("something is wrong").1);
        assert!(wrong.starts_with("- 1 process ended abnormally "), "{wrong}");
        assert!(wrong.contains(&format!("was killed by {name}; its last recorded call was")), "{wrong}");
        assert!(told.report.contains("1 killed by a signal") && !told.report.contains("was broken"));
        assert!(told.page.contains(&format!(" was killed by {name} after ")), "{}", told.page);
        assert!(told.page.contains("1 killed by a signal") && !told.page.contains("was broken"));
    }
}

/// No fault of a program causes these.
#[test]
fn a_signal_that_asks_for_the_end_is_no_crash() {
    for (signal, name) in [(15, "SIGTERM"), (2, "SIGINT"), (1, "SIGHUP"), (3, "SIGQUIT")] {
        let told = told(&["signal", &signal.to_string()], None);
        assert_eq!(told.exits, [("signal".to_owned(), None, Some(signal))], "{name}");
        let ended = format!(" was ended by {name} after ");
        let first = told.summary.lines().next().unwrap_or_default();
        assert!(first.starts_with("cupeer: process ") && first.contains(&ended), "{first}");
        assert!(told.report.starts_with("process ") && told.report.contains(&ended), "{}", told.report);
        assert!(told.page.contains(&ended), "{}", told.page);
        for said in [&told.summary, &told.report, &told.page] {
            assert!(!said.contains("killed by SIG") && !said.contains("no finding explains"), "{said}");
        }
    }
}

#[test]
fn children_are_told_of_as_far_as_they_and_who_waits_for_them_know() {
    const DIED: &str = "was killed or called exit_group";
    for (words, exit, how) in [
        (&["child", "return", "0"][..], (RETURNED, Some(0), None), None),
        (&["child", "exit", "3"], (RETURNED, Some(3), None), None),
        (&["child", "_exit", "5"], (RETURNED, Some(5), None), None),
        (&["child", "quick_exit", "4"], (RETURNED, None, None), None),
        (&["child", "signal", "9"], ("signal", None, Some(9)), Some("was killed by SIGKILL")),
        (&["child", "abort"], ("signal", None, Some(6)), Some("was killed by SIGABRT")),
        (&["child", "system-call", "0"], ("died", None, None), Some(DIED)),
        (&["child", "child", "signal", "11"], ("signal", None, Some(11)), Some("was killed by SIGSEGV")),
        (&["child", "child", "exit", "2"], (RETURNED, Some(2), None), None),
        (&["child", "exec-fails", "11"], ("signal", None, Some(11)), Some("was killed by SIGSEGV")),
    ] {
        let told = told(words, Some(0));
        assert_eq!(told.exits, [(exit.0.to_owned(), exit.1, exit.2)], "{words:?}");
        let first = told.summary.lines().next().unwrap_or_default();
        let (report, page) = (unwrapped(&told.report), &told.page);
        let is_well = matches!(exit.1, Some(0) | None) && how.is_none();
        assert_eq!(report.contains("was broken by "), is_well, "{words:?}: {report}");
        assert_eq!(page.contains("was broken by "), is_well, "{words:?}: {page}");
        if let Some(how) = how {
            assert!(first.ends_with(how), "{words:?}: {first}");
            assert!(report.contains(&format!("{how}; its last recorded call was")), "{words:?}: {report}");
            let (_, after) = page.split_once(how).unwrap_or_else(|| panic!("{words:?}: {page}"));
            assert!(after.contains(" its last recorded call was"), "{words:?}: {page}");
        }
    }
}

/// The kernel gives the launcher a child that its parent did not wait for.
#[test]
fn the_launcher_sees_how_an_orphan_ended() {
    for (words, exit, how) in [
        (["orphan", "signal", "11"], ("signal", None, Some(11)), "was killed by SIGSEGV"),
        (["orphan", "signal", "9"], ("signal", None, Some(9)), "was killed by SIGKILL"),
        (["orphan", "system-call", "3"], (RETURNED, Some(3), None), "exited with status 3"),
    ] {
        let told = told(&words, Some(0));
        assert_eq!(told.exits, [(exit.0.to_owned(), exit.1, exit.2)], "{words:?}");
        assert!(told.summary.lines().any(|line| line.ends_with(how)), "{words:?}: {}", told.summary);
    }
}

#[test]
fn the_summary_tells_which_child_exited_with_an_error() {
    let said = told(&["child", "exit", "1"], Some(0)).summary;
    let is_it = |line: &str| line.starts_with("cupeer:   process ") && line.ends_with(") exited with status 1");
    assert!(said.lines().any(is_it), "{said}");
    // Its own status is that of the run.
    let said = told(&["exit", "1"], Some(1)).summary;
    assert!(!said.contains("exited"), "{said}");
}

/// A program whose child does something after `first`.
fn forks_late(name: &str, first: &str, child: &str) -> PathBuf {
    let text = format!(
        "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\nint cuInit(unsigned);\n\
         int cuDeviceCanAccessPeer(int *, int, int), cuDeviceGetCount(int *);\nint main(void) {{ int can; (void)can; {first}\n\
         if (fork() == 0) {child};\nwait(0); return 0; }}\n"
    );
    crate::support::compile_text(name, &text, &["-Wl,--no-as-needed", sim_dir().join("libcuda.so").to_str().unwrap()])
}

/// Its own initialization fails, whether or not the child then ends with an error.
#[test]
fn a_child_that_was_forked_too_late_is_a_finding_where_it_initializes_the_driver() {
    let asks = "if (cuInit(0) || cuDeviceCanAccessPeer(&can, 0, 1)) return 9;";
    let child = "_exit(cuInit(0) == 3 ? 0 : 9)";
    for (name, first) in [("late", "if (cuInit(0)) return 9;"), ("late-asks", asks)] {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let mut command = cupeer();
        command.args(["run", "--sim", "--error-exitcode", "7", "-o"]).arg(&record).arg("--");
        let ended = done(command.arg(forks_late(name, first, child)));
        assert_eq!(ended.status.code(), Some(7), "{}", ended.stderr);
        let is_it = |line: &str| line.starts_with("cupeer: error used-after-fork: ");
        assert!(ended.stderr.lines().any(is_it), "{}", ended.stderr);
        assert!(ended.stderr.contains("used-after-fork: cuInit, once in process "), "{}", ended.stderr);
        for (format, wanted) in
            [("text", "used-after-fork"), ("junit", "failures=\"1\""), ("sarif", "\"ruleId\": \"used-after-fork\"")]
        {
            let shown = done(with(&["report", "--format", format]).arg(&record)).stdout;
            assert!(shown.contains(wanted), "{format}: {shown}");
        }
    }
    // In any other process, it is no call that is recorded.
    let said = done(cupeer().args(["run", "--sim", "--"]).arg(forks_late("early", "", "_exit(cuInit(0))"))).stderr;
    assert!(!said.contains("1 call"), "{said}");
}

/// Runs a program with a status for findings, and returns what it printed, and its report in a form.
fn with_report(program: &Path, form: &str) -> (Done, String) {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = cupeer();
    command.args(["run", "--sim", "--error-exitcode", "7", "-o"]).arg(&record).arg("--").arg(program);
    let ended = done(&mut command);
    let shown = done(with(&["report", "--format", form]).arg(&record)).stdout;
    (ended, shown)
}

/// The driver does not work in it. No call shows that, but the recording says where it was forked, in every form.
#[test]
fn a_child_that_was_forked_too_late_is_a_finding_without_a_recorded_call() {
    let asks = "if (cuInit(0) || cuDeviceCanAccessPeer(&can, 0, 1)) return 9;";
    for (name, first) in [("forked", "if (cuInit(0)) return 9;"), ("forked-asks", asks)] {
        for how in ["exit(1)", "_exit(1)", "exit(cuDeviceGetCount(&can) ? 1 : 0)"] {
            let program = forks_late(name, first, how);
            let (ended, text) = with_report(&program, "text");
            assert_eq!(ended.status.code(), Some(7), "{}", ended.stderr);
            let text = unwrapped(&text);
            assert!(text.starts_with("warning used-after-fork in process "), "{text}");
            assert!(text.contains("had initialized CUDA, and exited with status 1"), "{text}");
            assert!(text.contains(".c:7 in main, "), "{text}");
            assert!(ended.stderr.contains("used-after-fork: fork, once in process "), "{}", ended.stderr);
            for (form, wanted) in [
                ("junit", "failures=\"2\""),
                ("sarif", "\"ruleId\": \"used-after-fork\""),
                ("html", "used-after-fork"),
                ("json", "\"forked\": 1"),
            ] {
                let (_, shown) = with_report(&program, form);
                assert!(shown.contains(wanted), "{form}: {shown}");
            }
        }
    }
}

/// The place is that of the fork in the parent, also of a call that the child makes later.
#[test]
fn a_call_in_a_child_that_was_forked_too_late_has_the_place_of_the_fork() {
    let program = forks_late("forked-calls", "if (cuInit(0)) return 9;", "exit(cuInit(0))");
    let (_, text) = with_report(&program, "text");
    let line = text.lines().find(|line| line.trim_start().starts_with("forked:"));
    assert!(line.is_some_and(|line| line.contains("forked-calls")), "{text}");
}

/// For Python, the place is the line that forked. The driver that the parent initialized is not reported as unseen.
#[test]
fn a_child_of_python_that_was_forked_too_late_has_its_line() {
    let text = "import ctypes, os, subprocess, sys
cuda = ctypes.CDLL('libcuda.so.1')
def start():
    return os.fork()
assert cuda.cuInit(0) == 0
subprocess.run(['sh', '-c', 'exit 2'])
if start() == 0:
    sys.exit(3)
os.wait()
";
    let folder = temp_dir();
    let (script, record) = (folder.path().join("job.py"), folder.path().join("record"));
    fs::write(&script, text).expect("a script");
    let mut command = cupeer();
    command.args(["run", "--sim", "-o"]).arg(&record).args(["--", "python3"]).arg(script);
    let ended = done(&mut command);
    assert!(ended.stderr.contains("warning used-after-fork: fork, once in process "), "{}", ended.stderr);
    assert!(ended.stderr.contains("at job.py:4 in start"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("saw no call"), "{}", ended.stderr);
}

/// A fork before the driver is initialized, a program that is executed, and a worker that does not use CUDA are right.
#[test]
fn right_children_of_fork_are_not_suspected() {
    let init = "if (cuInit(0)) return 9;";
    let executes = r#"{ char *args[] = {"sh", "-c", "exit 3", 0}; execv("/bin/sh", args); _exit(127); }"#;
    let cannot = r#"{ char *none[] = {"none", 0}; execv("/nonexistent", none); _exit(127); }"#;
    for (name, first, child) in [
        ("early", "", "exit(1)"),
        ("early-uses", "", "exit(cuInit(0) || cuDeviceCanAccessPeer(&can, 0, 1) ? 1 : 0)"),
        ("executes", init, executes),
        ("cannot-execute", init, cannot),
        ("computes", init, "_exit(0)"),
        ("system", "if (cuInit(0)) return 9; if (system(\"exit 3\") < 0) return 9;", "exit(0)"),
    ] {
        let (ended, text) = with_report(&forks_late(name, first, child), "text");
        let said = format!("{}{text}", ended.stderr);
        assert!(ended.status.success() && !said.contains("fork"), "{name}: {said}");
    }
}

/// Its open device files keep the memory of a process that ended, until it ends.
#[test]
fn a_child_that_outlives_its_parent_with_its_device_files_is_a_warning() {
    let text = r#"#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long long *, size_t);
int main(int count, char **args) {
    int ends[2], gone[2];
    unsigned long long memory;
    void *context;
    char byte;
    if (pipe(ends) || pipe(gone)) return 9;
    if (fork() == 0) {
        if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) _exit(9);
        if (cuMemAlloc_v2(&memory, 8 << 20)) _exit(9);
        if (fork() == 0) {
            close(ends[1]);
            close(gone[0]);
            if (read(ends[0], &byte, 1) < 0) _exit(9);
            usleep(atoi(args[1]) * 1000);
            if (count > 2 && (close_range(3, gone[1] - 1, 0) || close_range(gone[1] + 1, ~0u, 0))) _exit(9);
            exit(0);
        }
        _exit(0);
    }
    close(ends[0]);
    close(gone[1]);
    wait(0);
    close(ends[1]);
    return read(gone[0], &byte, 1) < 0;
}
"#;
    let program = crate::support::compile_text(
        "outlives",
        text,
        &["-Wl,--no-as-needed", sim_dir().join("libcuda.so").to_str().unwrap()],
    );
    for (arguments, is_told) in [(&["2500"][..], true), (&["1"], false), (&["2500", "closes"], false)] {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let mut command = cupeer();
        command.args(["run", "--sim", "--error-exitcode", "7", "-o"]).arg(&record).arg("--");
        let ended = done(command.arg(&program).args(arguments));
        let wanted = "kept the device memory of process ";
        assert_eq!(ended.stderr.contains(wanted), is_told, "{arguments:?}: {}", ended.stderr);
        for held in [" ended with 8 MiB of device memory in 1 allocation\n", " allocated in process "] {
            assert_eq!(ended.stderr.contains(held), is_told, "{arguments:?}: {}", ended.stderr);
        }
        assert_eq!(ended.status.code(), Some(if is_told { 7 } else { 0 }), "{}", ended.stderr);
    }
}

/// A worker that is stuck in I/O, say, when its parent ends: nobody sees how long it keeps the memory.
#[test]
fn a_child_that_runs_on_with_device_files_is_named() {
    let text = r#"#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int cuInit(unsigned);
int main(int count, char **args) {
    int begun[2];
    char byte;
    if (pipe(begun) || cuInit(0)) return 9;
    if (fork() == 0) {
        dup2(begun[1], 1);
        close(0);
        close(2);
        if (count > 1 && close_range(3, ~0u, 0)) _exit(9);
        if (write(1, "b", 1) != 1) _exit(9);
        close(1);
        sleep(5);
        _exit(0);
    }
    return read(begun[0], &byte, 1) != 1;
}
"#;
    let program = crate::support::compile_text(
        "runs_on",
        text,
        &["-Wl,--no-as-needed", sim_dir().join("libcuda.so").to_str().unwrap()],
    );
    for arguments in [&[][..], &["closes"]] {
        let folder = temp_dir();
        let mut command = cupeer();
        command.args(["run", "--sim", "-o"]).arg(folder.path().join("record")).arg("--").arg(&program);
        let ended = done(command.args(arguments));
        assert!(ended.status.success(), "{}", ended.stderr);
        let is_told = ended.stderr.contains(", which made no recorded call, is still running with /");
        assert_eq!(is_told, arguments.is_empty(), "{}", ended.stderr);
    }
}

/// They loaded the driver, and nothing that they did is in the record.
#[test]
fn processes_without_a_recorded_call_are_counted() {
    let silent = crate::support::compile_text(
        "silent",
        "int cuInit(unsigned);\nint main(void) { return cuInit(0); }\n",
        &["-Wl,--no-as-needed", sim_dir().join("libcuda.so").to_str().unwrap()],
    );
    let folder = temp_dir();
    let mut command = cupeer();
    command.args(["run", "--sim", "-v", "-o"]).arg(folder.path().join("record")).args(["--", "sh", "-c"]);
    let said = done(command.arg("\"$0\" return 0; \"$1\"; \"$1\"").arg(program()).arg(silent)).stderr;
    let line = "cupeer:   the driver was loaded 2 more times, as launchers do, without a call that cupeer records";
    assert!(said.contains("\ncupeer: 1 process, ") && said.lines().any(|known| known == line), "{said}");
}

/// A process that ends by `_exit` runs no exit handlers.
#[test]
fn an_immediate_exit_is_told_from_a_return() {
    for (way, immediate) in [("_exit", true), ("_Exit", true), ("exit", false), ("return", false)] {
        for words in [&[way, "5"][..], &["child", way, "5"]] {
            let (told, json) = told_with_json(words, None);
            assert_eq!(json["exit"]["code"], 5, "{words:?}");
            assert_eq!(json["exit"]["immediate"] == true, immediate, "{words:?}: {json}");
            assert_eq!(told.page.contains("exit status 5 by _exit"), immediate, "{words:?}: {}", told.page);
        }
    }
}

/// A process that becomes another program has not ended, and its record says which program that is.
#[test]
fn a_process_that_becomes_another_program_is_told_with_that() {
    for (way, program) in [
        ("exec-other", "/bin/true"),
        ("execvp", "true"),
        ("execlp", "sh"),
        ("execle", "/bin/sh"),
        ("execve", "/bin/true"),
        ("fexecve", "file descriptor "),
    ] {
        let (told, json) = told_with_json(&["child", way], Some(0));
        let became = json["became"].as_str().unwrap_or_default();
        assert!(became.starts_with(program), "{way}: {json}");
        assert_eq!(told.exits, [("executed".to_owned(), None, None)], "{way}");
        assert!(told.report.contains(WELL), "{way}: {}", told.report);
        assert!(told.page.contains(&format!(" became {became} ")), "{way}: {}", told.page);
        // The run knows how the program ended that its own process became.
        let (told, json) = told_with_json(&[way], Some(0));
        assert_eq!(told.exits, [(RETURNED.to_owned(), Some(0), None)], "{way}");
        assert_eq!(json["became"], became, "{way}");
    }
    let (told, json) = told_with_json(&["child", "exec-killed"], Some(0));
    assert_eq!((&json["became"], &json["exit"]["signal"]), (&"/bin/sh".into(), &9.into()), "{}", told.report);
    let report = unwrapped(&told.report);
    assert!(report.contains("became /bin/sh: was killed by SIGKILL; its last recorded call was"), "{report}");
    let (_, json) = told_with_json(&["exec-fails", "15"], None);
    assert_eq!((&json["became"], &json["exit"]["signal"]), (&Value::Null, &15.into()));
}

/// A shell makes no call, so that it has no file of its own in the record.
#[test]
fn programs_without_calls_are_reported_if_they_fail() {
    for (script, status, wanted) in [
        ("\"$0\" return 0; exit 3", Some(3), Some("sh returned 3 (it made no call itself)")),
        ("\"$0\" return 0; kill -9 $$", None, Some("sh was killed by SIGKILL (it made no call itself)")),
        ("\"$0\" return 0; exit 0", Some(0), None),
    ] {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let mut command = cupeer();
        command.args(["run", "--sim", "-o"]).arg(&record).args(["--", "sh", "-c", script]).arg(program());
        let ended = done(&mut command);
        assert_eq!(ended.status.code(), status, "{script}: {}", ended.stderr);
        let (text, exits) = report(&record);
        assert_eq!(exits, [(RETURNED.to_owned(), Some(0), None)], "{script}");
        let text = unwrapped(&text);
        assert_eq!(text.starts_with(WELL), wanted.is_none(), "{text}");
        // All forms agree.
        for (format, kind) in [("junit", "<failure "), ("sarif", "\"ruleId\": \"process-")] {
            let shown = done(with(&["report", "--format", format]).arg(&record)).stdout;
            let is_told = wanted.is_none_or(|wanted| shown.contains(wanted));
            assert!(shown.contains(kind) == wanted.is_some() && is_told, "{script}, {format}: {shown}");
        }
        let wanted = wanted.map(|wanted| format!("1 launched program failed: {wanted}"));
        assert!(wanted.is_none_or(|wanted| text.starts_with(&wanted)), "{text}");
    }
}

#[test]
fn a_program_that_becomes_another_has_both() {
    let told = told(&["exec", "exit", "3"], Some(3));
    let wanted = [("executed".to_owned(), None, None), (RETURNED.to_owned(), Some(3), None)];
    assert_eq!(told.exits, wanted);
}

#[test]
fn running_processes_are_reported_after_their_end() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut command = cupeer();
    command.args(["run", "--sim", "--record", "full", "-o"]).arg(&record).arg("--").arg(program());
    let word = folder.path().join("end");
    let ended = done(command.args(["child", "live-on"]).arg(&word));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let (text, exits) = report(&record);
    assert_eq!(exits, [("running".to_owned(), None, None)], "{text}");
    assert!(ended.stderr.lines().nth(1).is_some_and(|line| line.ends_with(") is still running")), "{}", ended.stderr);
    assert!(text.contains("No rule was broken so far by the 2 calls that were recorded."), "{text}");
    assert!(page(&record, &exits).contains("No rule was broken so far by the 2 calls that were recorded."), "{text}");
    fs::write(&word, "").unwrap();
    wait_for("its end", || report(&record).1 == [(RETURNED.to_owned(), Some(0), None)]);
}

#[test]
fn handles_that_others_still_hold_are_reported_with_a_death() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let share = crate::programs::program("rules/ends_while_open.c", &["-ldl"]);
    let mut command = cupeer();
    command.args(["run", "--sim", "--record", "full", "-o"]).arg(&record).arg("--").arg(share);
    let ended = done(&mut command);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let (text, exits) = report(&record);
    assert!(exits.contains(&("signal".to_owned(), None, Some(9))), "{exits:?}");
    let text = unwrapped(&text);
    assert!(text.contains("; its last recorded call was cuIpcGetMemHandle at"), "{text}");
    assert!(text.contains("; never closed elsewhere: ipc:"), "{text}");
}

#[test]
fn a_run_that_joins_a_record_sums_up_its_own_processes() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let run = |words: &[&str]| {
        let mut command = cupeer();
        command.current_dir(folder.path()).args(["run", "--sim", "-o", "record", "--"]).arg(program());
        done(command.args(words)).stderr
    };
    let first = run(&["return", "0"]);
    assert_eq!(first, "cupeer: 1 process, 1 recorded call, 0 failed; 'cupeer report record' shows them\n");
    let second = run(&["child", "abort"]);
    let (death, counts) = second.split_once('\n').unwrap();
    assert!(death.ends_with(" was killed by SIGABRT"), "{second}");
    let wanted = "cupeer: 1 process, 1 recorded call, 0 failed in this run; 'cupeer report record' shows them and 1 process of \
                  other runs\n";
    assert_eq!(counts, wanted);
    assert_eq!(report(&record).1.len(), 2);
}

/// Its processes say to the inner one that they reached the driver.
#[test]
fn a_run_in_a_run_is_not_said_to_have_reached_no_driver() {
    let folder = temp_dir();
    let inner = cupeer().get_program().to_owned();
    // Long enough to be looked at from outside.
    let script = "\"$0\" run -- \"$1\" child live-on end; sleep 2.5; : >end";
    let mut command = cupeer();
    command.current_dir(folder.path()).args(["run", "--sim", "-o", "record", "--", "sh", "-c", script]);
    let said = done(command.arg(inner).arg(program())).stderr;
    assert_eq!(said, "cupeer: 1 process, 2 recorded calls, 0 failed; 'cupeer report record' shows them\n");
}

/// The first child is killed, and the second one, which called the driver before it, aborts when their parent knows that.
const TWO_DIE: &str = r#"
#include "vmm.h"
static void call(void) {
    int can;
    IS(cuDeviceCanAccessPeer(&can, 0, 1), 0);
}
int main(void) {
    int go[2];
    char byte = 'x';
    IS(pipe(go), 0);
    pid_t second = fork();
    if (!second) {
        start(0);
        call();
        IS(read(go[0], &byte, 1), 1);
        call();
        abort();
    }
    pid_t first = fork();
    if (!first) {
        start(0);
        call();
        raise(SIGKILL);
    }
    int status;
    IS(waitpid(first, &status, 0), first);
    IS(write(go[1], &byte, 1), 1);
    IS(waitpid(second, &status, 0), second);
    start(0);
    call();
    return 0;
}
"#;

#[test]
fn the_process_that_was_killed_first_is_told_first() {
    let program = support::compile_linked("two_die", TWO_DIE);
    let folder = support::temp_dir();
    let record = folder.path().join("r");
    let mut run = support::cupeer();
    run.args(["run", "--sim=nvlink:2", "-o"]).arg(&record).arg("--").arg(&program);
    let done = support::done(&mut run);
    assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    let report = |options: &[&str]| support::stdout(support::cupeer().arg("report").arg(&record).args(options));
    let text = report(&[]);
    // Each end has a time: of its own words, it is exact; and the launcher saw the end of what it started.
    let json: serde_json::Value = serde_json::from_str(&report(&["--format", "json"])).expect("it is JSON");
    let of = |signal: i32, key: &str| {
        let mut rows = json["processes"].as_array().expect("rows").iter();
        let row = rows.find(|process| process["exit"]["signal"] == signal).expect("a process");
        row[key].as_u64().expect(key)
    };
    // Both may have ended between two looks of the launcher: then nobody claims an order.
    let is_known = of(libc::SIGKILL, "ended_by_ns") <= of(libc::SIGABRT, "ran_until_ns");
    let is_first = text.lines().next().is_some_and(|first| first.contains(" was killed by SIGKILL"));
    assert!(is_first || !is_known, "{text}");
    assert_eq!(text.contains("\n1 process ended abnormally after it: "), is_known, "{text}");
    let [began, all] = ["began_ns", "ended_ns"].map(|key| json["record"][key].as_u64().expect(key));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    assert!(all <= now, "the recording ended in the future");
    for process in json["processes"].as_array().expect("rows") {
        let [ran, ended] = ["ran_until_ns", "ended_by_ns"].map(|key| process[key].as_u64().expect(key));
        assert!(began <= ran && ran <= ended && ended <= all, "{process:#}");
        // The launcher may know the time as exactly as the process itself.
        assert!(ran == ended || process["exit"]["kind"] != "returned", "{process:#}");
    }
}
