//! Ends that came from outside, and which end was the first: in all forms, of jobs with a parent and two ranks.

use super::{report, unwrapped};
use crate::report::html;
use crate::support::{self, compile_linked, cupeer, done, plain, temp_dir, with};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// A job of a parent and two ranks. All of them call the driver, and then end in the way that is asked for: the parent says "ready"
/// first, and passes on the status of the first rank that fails, after it has ended the other one.
const JOB: &str = r#"
#include "vmm.h"
#include <signal.h>
static pid_t ranks[2];
static void call(void) {
    int can;
    start(0);
    IS(cuDeviceCanAccessPeer(&can, 0, 1), 0);
}
static void pass_on(int signal) { kill(ranks[0], signal), kill(ranks[1], signal); }
static void leave(int signal) { (void)signal, exit(5); }
static int rank(const char *how, int number, int ready) {
    if (!strcmp(how, "handle")) signal(SIGTERM, leave);
    if (!strcmp(how, "ignore")) signal(SIGTERM, SIG_IGN);
    call();
    IS(write(ready, "", 1), 1);
    if (number == 1 && !strcmp(how, "crash")) abort();
    if (number == 1 && !strcmp(how, "exit")) exit(3);
    if (number == 1 && !strcmp(how, "killed")) raise(SIGKILL);
    for (;;) pause();
}
int main(int count, char **words) {
    const char *how = words[1];
    if (count > 3) return rank(how, atoi(words[2]), atoi(words[3]));
    int ready[2], result = 0, status;
    char text[2][12], byte;
    IS(pipe(ready), 0);
    for (int i = 0; i < 2; i++) {
        sprintf(text[0], "%d", i), sprintf(text[1], "%d", ready[1]);
        ranks[i] = fork();
        if (ranks[i]) continue;
        setenv("RANK", text[0], 1);
        execl("/proc/self/exe", words[0], how, text[0], text[1], (char *)0);
    }
    for (int i = 0; i < 2; i++) IS(read(ready[0], &byte, 1), 1);
    call();
    if (!strcmp(how, "forward") || !strcmp(how, "handle") || !strcmp(how, "ignore")) signal(SIGTERM, pass_on);
    printf("ready %d %d\n", ranks[0], ranks[1]);
    fflush(stdout);
    if (!strcmp(how, "terminate")) pass_on(SIGTERM);
    for (int left = 2; left;) {
        if (wait(&status) < 0) continue;
        left--;
        if (!result) result = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (result) pass_on(SIGTERM);
    }
    return strcmp(how, "terminate") ? result : 0;
}
"#;

struct Job {
    folder: tempfile::TempDir,
    launcher: Child,
    rest: BufReader<ChildStdout>,
    ranks: Vec<i32>,
}

/// Everything that is said of a job that has ended.
struct Told {
    code: Option<i32>,
    signal: Option<i32>,
    summary: String,
    text: String,
    junit: String,
    sarif: String,
    json: Value,
    page: String,
}

impl Job {
    /// Starts it under a command, or under `cupeer run` with some words before the program, and waits until all ranks wait.
    fn start(outer: &[&str], inner: &[&str], how: &str) -> Job {
        let folder = temp_dir();
        let program = compile_linked("asked-job", JOB);
        let own = cupeer();
        let words: Vec<_> = outer.iter().map(|word| (*word).as_ref()).chain([own.get_program()]).collect();
        let mut command = plain(words[0]);
        command.args(&words[1..]).args(["run", "--sim=nvlink:2", "-o"]).arg(folder.path().join("r"));
        command.arg("--").args(inner).arg(program).arg(how).process_group(0);
        Job::of(folder, &mut command)
    }

    fn of(folder: tempfile::TempDir, command: &mut Command) -> Job {
        let mut launcher = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut rest = BufReader::new(launcher.stdout.take().unwrap());
        let mut line = String::new();
        rest.read_line(&mut line).unwrap();
        let ranks = line.strip_prefix("ready ").expect(&line).split_whitespace();
        let ranks = ranks.map(|pid| pid.parse().unwrap()).collect();
        Job { folder, launcher, rest, ranks }
    }

    fn record(&self) -> PathBuf {
        self.folder.path().join("r")
    }

    /// Sends a signal to the launcher, or to its group if the number is negative.
    fn send(&self, signal: i32, sign: i32) {
        // SAFETY: the process is a child of this test that nobody has waited for, and it leads a group.
        assert_eq!(unsafe { libc::kill(sign * self.launcher.id() as i32, signal) }, 0);
    }

    fn told(mut self) -> Told {
        let (mut none, mut summary) = (String::new(), String::new());
        self.rest.read_to_string(&mut none).unwrap();
        self.launcher.stderr.take().unwrap().read_to_string(&mut summary).unwrap();
        let status = self.launcher.wait().unwrap();
        let form = |form: &str| done(with(&["report", "--format", form]).arg(self.record())).stdout;
        Told {
            code: status.code(),
            signal: status.signal(),
            summary,
            text: unwrapped(&report(&self.record()).0),
            junit: form("junit"),
            sarif: form("sarif"),
            json: serde_json::from_str(&form("json")).expect("JSON"),
            page: html::page(&self.record(), "outside"),
        }
    }
}

impl Told {
    /// The rows of the processes: the parent, and the ranks.
    fn processes(&self) -> Vec<&Value> {
        let mut rows: Vec<&Value> = self.json["processes"].as_array().unwrap().iter().collect();
        rows.sort_by_key(|row| row["rank"].as_i64().unwrap_or(-1));
        rows
    }

    /// Levels and kinds in SARIF, and the number of failures in JUnit.
    fn weight(&self) -> (Vec<(String, String)>, String) {
        let sarif: Value = serde_json::from_str(&self.sarif).expect("JSON");
        let results = sarif["runs"][0]["results"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kinds = results.map(|result| (text(&result["level"]), text(&result["ruleId"])));
        let failures = self.junit.split_once("failures=\"").expect("a count").1;
        (kinds.collect(), failures.split_once('"').unwrap().0.to_owned())
    }

    /// Asserts that no form takes the ends for a fault of the program, or offers a note as their explanation.
    #[track_caller]
    fn suspects_nothing(&self) {
        let (kinds, failures) = self.weight();
        assert!(kinds.iter().all(|(level, _)| level == "note"), "{kinds:?}");
        assert_eq!(failures, "0", "{}", self.junit);
        for said in [&self.summary, &self.text, &self.page] {
            for wrong in ["a note may", "no finding explains", "killed by SIG", "ended abnormally: "] {
                assert!(!said.contains(wrong), "{wrong}: {said}");
            }
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// The first line of a text.
fn first(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[test]
fn a_job_that_timeout_ended_is_told_with_that() {
    for (outer, inner) in [(&["timeout", "1"][..], &[][..]), (&[], &["timeout", "1"])] {
        let told = Job::start(outer, inner, "wait").told();
        let first = first(&told.summary);
        assert!(first.starts_with("cupeer: 3 processes were ended by SIGTERM from outside after "), "{first}");
        assert!(first.contains("(timeout, process "), "{first}");
        assert!(told.text.starts_with("3 processes were ended by SIGTERM from outside after "), "{}", told.text);
        assert_eq!(told.code, Some(124), "{}", told.summary);
        told.suspects_nothing();
        for process in told.processes() {
            assert_eq!((&process["asked"]["signal"], &process["asked"]["sender"]), (&15.into(), &"timeout".into()));
        }
    }
}

#[test]
fn stops_by_a_person_or_a_scheduler_are_followed_to_the_end() {
    for (how, signal, sign, name) in [
        ("wait", libc::SIGINT, -1, "SIGINT"),
        ("wait", libc::SIGTERM, -1, "SIGTERM"),
        ("forward", libc::SIGTERM, 1, "SIGTERM"),
        ("wait", libc::SIGHUP, -1, "SIGHUP"),
        ("wait", libc::SIGQUIT, -1, "SIGQUIT"),
    ] {
        let job = Job::start(&[], &[], how);
        // Longer than the launcher takes to see that they run.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let sent = now();
        job.send(signal, sign);
        let told = job.told();
        assert!(first(&told.summary).contains(&format!(" ended by {name} from outside after ")), "{}", told.summary);
        told.suspects_nothing();
        assert_eq!((told.signal, told.code), if how == "wait" { (Some(signal), None) } else { (None, Some(143)) });
        let began = told.json["record"]["began_ns"].as_u64().unwrap();
        assert!(told.json["record"]["ended_ns"].as_u64().unwrap() >= sent, "{}", told.text);
        let data = support::page_data(&told.page);
        for process in data["processes"].as_array().unwrap() {
            assert!(began + process["until_ns"].as_u64().unwrap() >= sent, "{process}");
        }
        assert!(began + data["lasted_ns"].as_u64().unwrap() >= sent);
    }
}

#[test]
fn ctrl_c_in_a_terminal_comes_from_outside() {
    let (mut shows, within) = support::terminal();
    let folder = temp_dir();
    let mut command = cupeer();
    command.args(["run", "--sim=nvlink:2", "-o"]).arg(folder.path().join("r")).arg("--");
    command.arg(compile_linked("asked-job", JOB)).arg("wait").stdin(within.try_clone().unwrap());
    // SAFETY: the calls take numbers, and the terminal is the standard input of the child.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    let job = Job::of(folder, &mut command);
    shows.write_all(b"\x03").unwrap();
    let told = job.told();
    assert!(first(&told.summary).contains(" were ended by SIGINT from outside after "), "{}", told.summary);
    assert!(first(&told.summary).contains("(terminal)"), "{}", told.summary);
    told.suspects_nothing();
}

/// Programs handle such signals, and schedulers lose their patience.
#[test]
fn ends_after_a_signal_are_reported_with_it() {
    let job = Job::start(&[], &[], "handle");
    job.send(libc::SIGTERM, 1);
    let told = job.told();
    assert_eq!(told.code, Some(5), "{}", told.summary);
    let wanted = "cupeer: 3 processes ended with exit status 5 after SIGTERM from outside after ";
    assert!(told.summary.starts_with(wanted), "{}", told.summary);
    told.suspects_nothing();

    let job = Job::start(&[], &[], "ignore");
    job.send(libc::SIGTERM, 1);
    let asked = || fs::read_to_string(job.record().join("job")).unwrap().contains("\nsignal=");
    support::wait_for("the note of a signal", asked);
    // SAFETY: the processes are ranks of the job, which their parent has not waited for.
    job.ranks.iter().for_each(|pid| unsafe { assert_eq!(libc::kill(*pid, libc::SIGKILL), 0) });
    let told = job.told();
    let wanted = "2 processes were killed by SIGKILL after SIGTERM from outside after ";
    assert!(told.summary.contains(wanted), "{}", told.summary);
    assert_eq!(told.weight().1, "0", "{}", told.junit);
}

#[test]
fn the_crash_is_first_and_the_ranks_that_its_parent_then_ended_follow() {
    for (how, status, kind, wanted) in [
        ("crash", 134, "process-died", "rank 1 was killed by SIGABRT after "),
        ("killed", 137, "process-died", "rank 1 was killed by SIGKILL after "),
        ("exit", 3, "process-failed", "1 process exited with an error: exit status 3: rank 1"),
    ] {
        let told = Job::start(&[], &[], how).told();
        assert_eq!(told.code, Some(status), "{}", told.summary);
        assert!(told.text.starts_with(wanted), "{how}: {}", told.text);
        let other = told.text.find("rank 0 was ended by SIGTERM after ").expect(&told.text);
        assert!(other > wanted.len(), "{}", told.text);
        // The parent that passes the status on is no second failure.
        let (kinds, failures) = told.weight();
        let failing: Vec<_> = kinds.iter().filter(|(level, _)| level != "note").collect();
        assert!(matches!(failing[..], [(_, rule)] if rule == kind), "{how}: {kinds:?}");
        assert_eq!(failures, "1", "{how}: {}", told.junit);
        assert!(!told.text.contains("SIGTERM from outside"), "{how}: {}", told.text);
        let [parent, zero, one] = told.processes()[..] else { panic!("{:#}", told.json) };
        let time = |row: &Value, key: &str| row[key].as_u64().expect(key);
        assert!(time(one, "ended_by_ns") <= time(zero, "ended_by_ns"), "{how}");
        assert!(time(zero, "ended_by_ns") <= time(parent, "ended_by_ns"), "{how}");
        // Only of a crash, a note may be the explanation.
        assert!(how != "killed" || !told.text.contains("notes about it"), "{}", told.text);
    }
}

/// As Python does with the workers of a pool.
#[test]
fn a_parent_that_ends_its_children_and_returns_well_is_right() {
    let told = Job::start(&[], &[], "terminate").told();
    assert_eq!(told.code, Some(0), "{}", told.summary);
    assert!(first(&told.summary).starts_with("cupeer: 3 processes, 3 recorded calls, "), "{}", told.summary);
    assert!(!told.text.split("\n\n").next().unwrap().contains("Problems"), "{}", told.text);
    assert!(!told.text.contains("were ended by"), "{}", told.text);
    told.suspects_nothing();
}

/// The note of a launcher, as cupeer itself makes it when it ends a job.
#[test]
fn an_end_by_cupeer_itself_is_told_as_such() {
    let job = Job::start(&[], &[], "ignore");
    let (boot, launcher) = (fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap(), job.launcher.id());
    let boot = boot.trim().replace('-', "");
    let mut file = fs::OpenOptions::new().append(true).open(job.record().join("job")).unwrap();
    writeln!(file, "signal={boot}:{launcher}:1:9:{launcher}:cupeer").unwrap();
    // SAFETY: the processes are ranks of the job, which their parent has not waited for.
    job.ranks.iter().for_each(|pid| unsafe { assert_eq!(libc::kill(*pid, libc::SIGKILL), 0) });
    let told = job.told();
    assert!(told.text.contains("2 processes were ended by SIGKILL from cupeer after "), "{}", told.text);
    told.suspects_nothing();
}

/// A rank that opens memory where it had closed other memory, as right programs do: the address is a clue only if it crashes or
/// fails by itself.
#[test]
fn no_note_is_found_about_a_process_that_was_ended_from_outside() {
    let text = r#"
        #include "vmm.h"
        int main(int count, char **words) {
            int to[2], signal = atoi(words[1]), status;
            Handle handles[2];
            CUdeviceptr at;
            (void)count;
            IS(pipe(to), 0);
            pid_t child = fork();
            if (!child) {
                start(0);
                IS(read(to[0], handles, sizeof handles), sizeof handles);
                for (int i = 0; i < 2; i++) {
                    IS(cuIpcOpenMemHandle_v2(&at, handles[i], 1), 0);
                    IS(cuIpcCloseMemHandle(at), 0);
                }
                if (!signal) exit(3);
                raise(signal);
            }
            start(0);
            for (int i = 0; i < 2; i++) {
                IS(cuMemAlloc_v2(&at, 4096), 0);
                IS(cuIpcGetMemHandle(&handles[i], at), 0);
            }
            IS(write(to[1], handles, sizeof handles), sizeof handles);
            IS(waitpid(child, &status, 0), child);
            return 0;
        }"#;
    let program = compile_linked("reopens", text);
    for (signal, is_told) in [(0, true), (libc::SIGSEGV, true), (libc::SIGTERM, false), (libc::SIGKILL, false)] {
        let folder = temp_dir();
        let record = folder.path().join("r");
        let mut run = cupeer();
        run.args(["run", "--sim=nvlink:2", "-o"]).arg(&record).arg("--").arg(&program).arg(signal.to_string());
        let told = done(&mut run);
        let text = report(&record).0;
        for said in [&told.stderr, &text] {
            assert_eq!(said.contains("note ipc-opened-at-closed-address"), is_told, "{signal}: {said}");
            assert_eq!(unwrapped(said).contains("; notes about it "), is_told, "{signal}: {said}");
        }
    }
}
