//! `cupeer sweep`: what it makes of programs that handle failures well, badly, and not at all.
//!
//! A correct client of two processes yields nothing; each copy of it in which one check or clean-up is deleted has to
//! yield a finding. A sample of the copies is tried; MUTANTS=all asks for all of them, with their share of findings.

use crate::support::{self, cupeer, done, temp_dir, wait_for};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The lines of the client that are deleted, one at a time, end in one of these.
const DELETED: [&str; 2] = ["/* check */", "/* clean-up */"];

fn careless() -> PathBuf {
    support::compile_c("programs/sweep/careless.c", &["-ldl"])
}

/// Output of a sweep.
struct Swept {
    status: Option<i32>,
    json: Value,
    stderr: String,
}

/// Sweeps a program on the simulated driver.
#[track_caller]
fn sweep(folder: &Path, options: &[&str], program: &Path, arguments: &[&str]) -> Swept {
    let mut command = cupeer();
    command.args(["sweep", "--sim=nvlink:2", "--format", "json", "--out"]).arg(folder.join("sweep"));
    command.args(options).arg("--").arg(program).args(arguments);
    swept(done(&mut command))
}

#[track_caller]
fn swept(done: support::Done) -> Swept {
    let json = serde_json::from_str(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: it ended with {}:\n{}{}", done.status, done.stdout, done.stderr));
    Swept { status: done.status.code(), json, stderr: done.stderr }
}

impl Swept {
    fn runs(&self) -> &[Value] {
        self.json["runs"].as_array().expect("runs")
    }

    /// The runs that have other rules or another verdict than those of the same number in another sweep.
    fn differs_from<'a>(&'a self, other: &'a Swept) -> Vec<[&'a Value; 2]> {
        assert_eq!(self.runs().len(), other.runs().len());
        let said = |run: &Value| (run["faults"].to_string(), run["verdict"].to_string());
        let pairs = self.runs().iter().zip(other.runs()).filter(|(one, two)| said(one) != said(two));
        pairs.map(|(one, two)| [one, two]).collect()
    }

    /// The rules of each run and its verdict, in their order.
    fn verdicts(&self) -> Vec<(String, &str)> {
        let rules = |run: &Value| {
            let rules = run["faults"].as_array().expect("faults").iter();
            rules.map(|fault| fault["rule"].as_str().expect("a rule")).collect::<Vec<_>>().join(";")
        };
        self.runs().iter().map(|run| (rules(run), run["verdict"].as_str().expect("a verdict"))).collect()
    }

    /// The different verdicts on runs in which a function fails.
    fn verdicts_on(&self, function: &str) -> Vec<&str> {
        let is_about = |rules: &str| rules.rsplit(';').next().is_some_and(|last| last.starts_with(function));
        let all = self.verdicts().into_iter().filter(|(rules, _)| is_about(rules));
        let mut verdicts: Vec<&str> = all.map(|(_, verdict)| verdict).collect();
        verdicts.sort_unstable();
        verdicts.dedup();
        verdicts
    }
}

#[test]
fn each_way_to_fail_has_its_verdict() {
    let folder = temp_dir();
    let file = folder.path().join("file").display().to_string();
    for (how, file, verdict, seen) in [
        ("good", "", "same", "status 0"),
        ("clean", "", "clean", "status 3: careless: cannot know"),
        ("crash", "", "crash", "killed by SIGSEGV"),
        ("hang", "", "hang", "did not end, outside recorded calls"),
        ("wrong", "", "wrong", "status 0, with different output"),
        ("leak", "", "leak", "left open: peer access (careless-"),
        ("twice", "", "misuse", "breaks peer-"),
        ("child", "", "hang", "the program ended, but 1 of its processes did not"),
        ("flaky", file.as_str(), "not-repeatable", "crash (killed by SIGABRT), then same (status 0)"),
    ] {
        let folder = temp_dir();
        // Programs that end by themselves have all the time that they need.
        let (patience, jobs) = if verdict == "hang" { ("10s", "-j8") } else { ("120s", "-j1") };
        let options = ["--timeout", patience, "--codes", "one", jobs];
        let swept = sweep(folder.path(), &options, &careless(), &[how, file]);
        assert_eq!(swept.verdicts_on("cuDeviceCanAccessPeer"), [verdict], "{how}: {:#}", swept.json);
        // The program says by itself that it cannot go on.
        assert_eq!(swept.verdicts_on("cuCtxEnablePeerAccess"), ["clean"], "{how}: {:#}", swept.json);
        let is_finding = !["same", "clean"].contains(&verdict);
        assert_eq!(swept.status, Some(i32::from(is_finding)), "{how}");
        for run in swept.runs().iter().filter(|run| run["verdict"] == verdict && verdict != "clean") {
            let said = run["seen"].as_str().unwrap();
            assert!(said.contains(seen), "{how}: {said}");
            // Findings are kept, and nothing else.
            let record = run["record"].as_str();
            assert_eq!(record.is_some_and(|record| Path::new(record).join("record").is_dir()), is_finding, "{how}");
        }
        let kept = std::fs::read_dir(folder.path().join("sweep")).unwrap().count();
        assert!(is_finding || kept == 1, "{how}: the journal is all that is left");
    }
}

/// The program does not release virtual memory when something fails, but does without faults.
#[test]
fn virtual_memory_that_is_left_is_a_leak() {
    let importer = support::compile_c("programs/sweep/importer.c", &["-ldl"]);
    for (how, on_map, on_access) in [
        ("good", "clean", "clean"),
        ("import", "leak: left open: allocation of another process (importer-", "clean"),
        ("mapping", "clean", "leak: left open: mapping (importer-"),
        ("reservation", "leak: left open: reservation (importer-", "leak: left open: reservation (importer-"),
        ("allocation", "leak: left open: allocation (importer-", "leak: left open: allocation (importer-"),
    ] {
        let folder = temp_dir();
        let swept = sweep(folder.path(), &["--codes", "one", "-j1"], &importer, &[how]);
        assert_eq!(swept.json["baseline"]["verdict"], "same", "{how}: {:#}", swept.json);
        for (function, wanted) in [("cuMemMap", on_map), ("cuMemSetAccess", on_access)] {
            let is_about = |run: &&Value| run["faults"][0]["rule"].as_str().unwrap().starts_with(function);
            let run = swept.runs().iter().find(is_about).expect(function);
            let said = format!("{}: {}", run["verdict"].as_str().unwrap(), run["seen"].as_str().unwrap());
            let (verdict, left) = wanted.split_once(": ").unwrap_or((wanted, ""));
            assert!(said.starts_with(verdict) && said.contains(left), "{how} {function}: {said}");
        }
    }
}

#[test]
fn memory_that_an_exit_releases_is_not_a_leak() {
    let folder = temp_dir();
    let ends = sweep(folder.path(), &["--codes", "one"], &careless(), &["ends"]);
    assert_eq!((ends.status, &ends.json["baseline"]["verdict"]), (Some(0), &"same".into()), "{:#}", ends.json);
    let note = "cupeer: note: it ends with peer access (careless-";
    assert!(ends.stderr.contains(note) && ends.stderr.contains(" open, which the system takes back\n"));
}

#[test]
fn findings_about_one_place_are_one() {
    let folder = temp_dir();
    let mut command = cupeer();
    command.args(["sweep", "--sim=nvlink:2", "--codes", "one", "--calls", "cuDeviceCanAccessPeer", "--out"]);
    command.arg(folder.path().join("text")).arg("--").arg(careless());
    let ended = done(command.args(["each", "4"]).env("COLUMNS", "120"));
    let call = ended.stdout.lines().find(|line| line.starts_with("   call: ")).unwrap_or_default();
    assert!(call.starts_with("   call: 4 from careless.c:37 in main, careless-"), "{}", ended.stdout);
    let head = "1. crash: cuDeviceCanAccessPeer fails once or from then on, with INVALID_DEVICE\n";
    assert!(ended.stdout.contains(head), "{}", ended.stdout);
    assert!(ended.stdout.contains("\n1 finding in 10 runs"), "{}", ended.stdout);
}

#[test]
fn seeds_of_late_devices_show_what_does_not_wait() {
    let program = support::compile_c("programs/sweep/late.c", &["-ldl"]);
    for (how, status, verdict, seen) in [
        ("waits", 0, "same", "status 0"),
        ("races", 1, "wrong", "status 0, with different output"),
        ("fails", 1, "wrong", "status 1, without a message"),
        ("differs", 0, "same", "status 0"),
    ] {
        let folder = temp_dir();
        let swept = sweep(folder.path(), &["--late", "3"], &program, &[how]);
        assert_eq!(swept.status, Some(status), "{how}: {}", swept.json);
        for (seed, run) in (1..).zip(swept.runs()) {
            assert_eq!((&run["seed"], &run["verdict"], &run["seen"]), (&seed.into(), &verdict.into(), &seen.into()));
            let is_kept = folder.path().join(format!("sweep/seed-{seed}/record")).is_dir();
            assert_eq!(is_kept, status == 1, "{how}");
        }
        assert_eq!((swept.runs().len(), &swept.json["findings"]), (3, &status.into()), "{how}");
        assert_eq!(swept.stderr.contains("note: its output differs"), how == "differs", "{}", swept.stderr);
    }
    let folder = temp_dir();
    let mut command = cupeer();
    command.args(["sweep", "--sim=pcie:2", "--late", "2", "--out"]).arg(folder.path().join("late"));
    let ended = done(command.arg("--").arg(&program).arg("fails"));
    let again = ended.stdout.lines().find_map(|line| line.strip_prefix("   again: ")).unwrap_or_default();
    assert!(again.starts_with("cupeer run --sim=pcie:2,late:1 -- "), "{}", ended.stdout);
    assert!(ended.stdout.contains("\n   seeds: 1, 2\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("\n2 of 2 seeds differ from the plain run, "), "{}", ended.stdout);
    let line = again.replacen("cupeer", &support::install().join("bin/cupeer").display().to_string(), 1);
    assert_eq!(done(support::plain("sh").args(["-c", &line])).status.code(), Some(1), "{line}");
}

#[test]
fn only_findings_are_shown_where_nothing_else_is_wanted() {
    for (how, status) in [("good", 0), ("crash", 1)] {
        let folder = temp_dir();
        let mut command = cupeer();
        command.args(["sweep", "-q", "--sim=nvlink:2", "--codes", "one", "--out"]).arg(folder.path().join("q"));
        let ended = done(command.arg("--").arg(careless()).arg(how));
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(status), ""), "{}", ended.stdout);
        let is_right = match status {
            0 => ended.stdout.is_empty(),
            _ => ended.stdout.starts_with("1. crash: ") && !ended.stdout.contains("STACKS"),
        };
        assert!(is_right, "{}", ended.stdout);
    }
}

#[test]
fn calls_after_a_failure_fail_as_well() {
    let folder = temp_dir();
    let swept_two = sweep(folder.path(), &["--codes", "one"], &careless(), &["behind"]);
    assert_eq!(swept_two.verdicts_on("cuDeviceGetP2PAttribute"), ["crash"]);
    let behind = swept_two.runs().iter().find(|run| run["verdict"] == "crash").unwrap();
    assert_eq!(behind["faults"].as_array().unwrap().len(), 2);
    // The command repeats it.
    let command = behind["command"].as_str().unwrap();
    let line = command.replacen("cupeer", &support::install().join("bin/cupeer").display().to_string(), 1);
    let again = done(support::plain("sh").args(["-c", &line]));
    assert_eq!(again.status.code(), Some(134), "{line}: {}{}", again.stdout, again.stderr);

    let folder = temp_dir();
    let one = sweep(folder.path(), &["--codes", "one", "--depth", "1"], &careless(), &["behind"]);
    assert!(one.verdicts_on("cuDeviceGetP2PAttribute").is_empty());
    assert_eq!(one.status, Some(0));
}

#[test]
fn options_choose_what_is_a_finding_and_which_calls_fail() {
    let folder = temp_dir();
    let options = ["--codes", "one", "--accept", "leak", "--calls", "cuDeviceCanAccessPeer"];
    let swept_leak = sweep(folder.path(), &options, &careless(), &["leak"]);
    assert_eq!((swept_leak.status, swept_leak.verdicts_on("cuDeviceCanAccessPeer")), (Some(0), vec!["leak"]));
    assert!(swept_leak.verdicts_on("cuCtxEnablePeerAccess").is_empty());

    let folder = temp_dir();
    let compare = ["--codes", "one", "--compare", "grep -q done"];
    let swept_wrong = sweep(folder.path(), &compare, &careless(), &["wrong"]);
    assert_eq!(swept_wrong.verdicts_on("cuDeviceCanAccessPeer"), ["same"], "the command has the last word");

    let folder = temp_dir();
    let all = ["--codes", "all", "--calls", "@release", "--stage", "undo"];
    let swept_all = sweep(folder.path(), &all, &careless(), &["good"]);
    let rules: Vec<String> = swept_all.verdicts().into_iter().map(|(rules, _)| rules).collect();
    assert!(rules.len() == 10 && rules.iter().all(|rule| rule.contains(":force")), "{rules:#?}");
    assert!(rules.iter().any(|rule| rule.contains("error=DEINITIALIZED")));
}

#[test]
fn a_program_that_is_wrong_without_faults_is_a_finding() {
    let folder = temp_dir();
    let swept = sweep(folder.path(), &[], &careless(), &["always"]);
    assert_eq!((swept.status, swept.json["baseline"]["verdict"].as_str()), (Some(1), Some("crash")));
    assert!(swept.runs().is_empty());

    let folder = temp_dir();
    let swept = sweep(
        folder.path(),
        &["--codes", "one"],
        Path::new("sh"),
        &["-c", &format!("{} good; echo no >&2; exit 4", careless().display())],
    );
    assert_eq!((swept.status, swept.json["baseline"]["verdict"].as_str()), (Some(1), Some("wrong")));
    assert_eq!(swept.json["baseline"]["seen"], "status 4: no");
    assert_eq!(swept.verdicts_on("cuDeviceCanAccessPeer"), ["same"]);
}

#[test]
fn a_long_sweep_wants_a_budget_and_spends_it_on_distinct_stacks() {
    let folder = temp_dir();
    let mut command = cupeer();
    command.args(["sweep", "--sim", "-j1", "--codes", "all", "--out"]).arg(folder.path().join("long"));
    let refused = done(command.arg("--").arg(careless()).args(["many", "20000"]));
    let said = refused.stderr.lines().last().unwrap_or_default();
    assert!(said.contains("that is more than an hour; set a limit with --budget TIME"), "{}", refused.stderr);
    assert_eq!((refused.status.code(), refused.stdout.as_str()), (Some(125), ""));

    let swept = sweep(folder.path(), &["-j1", "--codes", "one", "--budget", "2s"], &careless(), &["many", "20000"]);
    assert!(swept.stderr.contains("goes first to the 6 runs about distinct stacks"), "{}", swept.stderr);
    let numbers = |run: &Value| run["faults"][0]["call"].as_u64().unwrap();
    let done = swept.runs();
    assert!(done.iter().take(6).all(|run| numbers(run) == 1), "{done:#?}");
    let left = swept.json["left_out"].as_u64().unwrap();
    // Two further stacks have one call each.
    assert_eq!(left + done.len() as u64, 2 * 20_000 + 4);
}

#[test]
fn a_sweep_is_the_same_each_time_and_however_many_run_at_once() {
    let demo = support::compile_c("../scripts/demo.d/share.c", &["-ldl"]);
    let [one, two] = ["-j1", "-j2"].map(|jobs| {
        let folder = temp_dir();
        sweep(folder.path(), &[jobs], &demo, &[])
    });
    assert!(one.runs().len() >= 40 && one.json["left_out"] == 0, "{}", one.json);
    assert_eq!(one.differs_from(&two), [[&Value::Null; 2]; 0]);
    // The failing process just ends, with its memory exported, and the system releases that.
    assert_eq!((one.status, two.status), (Some(0), Some(0)));
    let taken = |run: &&Value| run["seen"].as_str().unwrap().contains("; the system takes back: exported memory (");
    assert!(one.runs().iter().filter(taken).count() >= 8, "{:#}", one.json);
    assert!(one.stderr.starts_with("cupeer: running the program as it is: run 1 of 3, without faults\n"));
}

#[test]
fn an_interrupted_sweep_shows_what_it_has_found() {
    let folder = temp_dir();
    let directory = folder.path().join("interrupted");
    let mut command = cupeer();
    command.args(["sweep", "--sim=nvlink:2", "-j1", "--format", "json", "--out"]).arg(&directory).arg("--");
    command.arg(client(None)).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    let journal = || std::fs::read_to_string(directory.join("sweep.jsonl")).unwrap_or_default();
    let done_lines = |text: &str| text.lines().filter(|line| line.starts_with("{\"done\"")).count();
    wait_for("five runs", || done_lines(&journal()) >= 5);
    // SAFETY: a child of ours that nobody has waited for.
    unsafe { libc::kill(running.id() as i32, libc::SIGINT) };
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let runs = json["runs"].as_array().map_or(0, Vec::len);
    assert!(runs >= 5 && json["interrupted"] == true && json["left_out"].as_u64() > Some(0), "{json:#}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("interrupted; the findings so far are in "));
}

#[test]
fn a_sweep_ends_in_a_comparison() {
    let folder = temp_dir();
    let mut command = cupeer();
    command.current_dir(folder.path()).args(["sweep", "--sim", "--codes", "one", "--out", "sweep"]);
    command.args(["--compare", "touch asked; exec sleep 1000", "--"]);
    command.arg(careless()).arg("good").stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    wait_for("the comparison", || folder.path().join("asked").exists());
    // SAFETY: a child of ours that nobody has waited for.
    unsafe { libc::kill(running.id() as i32, libc::SIGTERM) };
    assert_eq!(running.wait().unwrap().code(), Some(130));
}

#[test]
fn children_that_the_sweep_was_born_with_live_on() {
    let folder = temp_dir();
    let cupeer = support::install().join("bin/cupeer");
    // `exec` makes the server, and what it has started, a child of the sweep.
    let script = "sh -c 'sleep 1000 & echo $! >&3; wait' 3>helper >/dev/null 2>&1 & echo $! >server
        exec \"$0\" sweep --sim --codes one -- \"$1\" child";
    let mut command = support::plain("sh");
    let ended = done(command.current_dir(folder.path()).args(["-c", script]).arg(cupeer).arg(careless()));
    assert_eq!(ended.status.code(), Some(1), "{}{}", ended.stdout, ended.stderr);
    for who in ["server", "helper"] {
        let pid = std::fs::read_to_string(folder.path().join(who)).expect("a pid");
        // SAFETY: a process that the script has started; the signal ends it.
        let lived = unsafe { libc::kill(pid.trim().parse().expect("a number"), libc::SIGKILL) } == 0;
        assert!(lived, "the sweep has killed the {who}");
    }
}

#[test]
fn a_program_has_no_terminal_at_which_it_could_be_stopped() {
    let folder = temp_dir();
    let careless = careless();
    // The session is its own, without a terminal.
    let script = format!(
        "{} good || exit 4; set -- $$ $(cat /proc/$$/stat); [ $7 = $1 ] && [ $8 = 0 ] || exit 5",
        careless.display()
    );
    let swept = sweep(folder.path(), &["--codes", "one"], Path::new("sh"), &["-c", &script]);
    assert_eq!((swept.status, &swept.json["baseline"]["verdict"]), (Some(0), &"same".into()), "{}", swept.json);
}

#[test]
fn as_many_findings_are_counted_as_are_listed() {
    let folder = temp_dir();
    let mut command = cupeer();
    command.args(["sweep", "--sim=nvlink:2", "--out"]).arg(folder.path().join("text"));
    let text = done(command.arg("--").arg(careless()).arg("crash")).stdout;
    let swept = sweep(folder.path(), &[], &careless(), &["crash"]);
    let runs = swept.runs().iter().filter(|run| run["finding"] == true).count();
    let [findings, of_runs] = ["findings", "runs_with_findings"].map(|key| swept.json[key].as_u64().unwrap());
    assert!(of_runs == runs as u64 && findings < of_runs, "{findings} in {of_runs} of {runs}");
    assert!(text.contains(&format!("\n{findings} finding")), "{findings}: {text}");
    assert!(text.contains(&format!("\n{findings}. crash")) && !text.contains(&format!("\n{}. ", findings + 1)));
}

#[test]
fn repeating_commands_have_the_driver_of_the_run() {
    for sim in ["--sim", "--sim=pcie:2"] {
        let folder = temp_dir();
        let mut command = cupeer();
        command.args(["sweep", sim, "--codes", "one", "--format", "json", "--out"]).arg(folder.path().join("s"));
        let swept = swept(done(command.arg("--").arg(careless()).arg("good")));
        assert!(swept.runs().len() >= 4, "{:#}", swept.json);
        let command = swept.runs()[0]["command"].as_str().unwrap();
        assert!(command.starts_with(&format!("cupeer run {sim} --inject ")), "{command}");
    }
}

#[test]
fn that_access_is_enabled_already_is_the_last_code_and_no_failure() {
    let codes_of = |codes: &str| {
        let folder = temp_dir();
        let swept = sweep(folder.path(), &["--codes", codes], &careless(), &["tolerant"]);
        let of_enable = swept.runs().iter().filter_map(|run| {
            let fault = &run["faults"][0];
            let told = (fault["code"].as_str()?.to_owned(), run["verdict"].as_str()?.to_owned());
            (fault["function"] == "cuCtxEnablePeerAccess").then_some(told)
        });
        of_enable.collect::<Vec<_>>()
    };
    let one = codes_of("one");
    let is_told = |(code, _): &&(String, String)| code == "PEER_ACCESS_ALREADY_ENABLED";
    assert_eq!((one.len(), one.iter().filter(is_told).count()), (2, 0), "{one:?}");
    assert!(one.iter().all(|(_, verdict)| verdict == "clean"), "{one:?}");
    let sensible = codes_of("sensible");
    // Once, and from then on.
    let (told, others): (Vec<_>, Vec<_>) = sensible.iter().partition(|told| is_told(told));
    assert_eq!((told.len(), others.len()), (2, 12), "{sensible:?}");
    assert!(told.iter().all(|(_, verdict)| verdict == "same"), "{told:?}");
    assert!(sensible[12..].iter().all(|one| is_told(&one)), "{sensible:?}");
}

#[test]
fn results_that_were_only_seen_are_tried_and_marked() {
    let folder = temp_dir();
    let calls = ["--calls", "cuCtxEnablePeerAccess", "--accept", "clean"];
    let swept = sweep(folder.path(), &calls, &careless(), &["tolerant"]);
    let documented = |code: &str| {
        let faults = swept.runs().iter().map(|run| &run["faults"][0]).filter(|fault| fault["code"] == code);
        faults.map(|fault| fault["documented"].as_bool().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(documented("CONTEXT_IS_DESTROYED"), [false, false], "{:#}", swept.json);
    assert_eq!(documented("TOO_MANY_PEERS"), [true, true], "{:#}", swept.json);
    // The text says so beside the code, and the estimate has what a run that hangs takes.
    let mut command = cupeer();
    command.args(["sweep", "--sim=nvlink:2", "--calls", "cuDeviceCanAccessPeer", "--out"]);
    command.arg(folder.path().join("text")).arg("--").arg(careless());
    let ended = done(command.args(["each", "1"]).env("COLUMNS", "160"));
    let marked = "with INVALID_DEVICE, INVALID_VALUE (seen, not documented)";
    assert!(ended.stdout.contains(marked), "{}", ended.stdout);
    assert!(ended.stderr.contains("; a run that hangs takes 20 s, at most "), "{}", ended.stderr);
}

#[test]
fn programs_that_cannot_be_swept_are_refused() {
    for option in ["--budget", "--timeout"] {
        let mut command = cupeer();
        let refused = done(command.args(["sweep", option, "5", "--", "true"]));
        assert!(
            refused.stderr.contains("a time is a number above 0 with ms, s, m or h, such as 90s"),
            "{}",
            refused.stderr
        );
        assert_eq!(refused.status.code(), Some(125));
    }
    let folder = temp_dir();
    let out = folder.path().join("none");
    let mut command = cupeer();
    let refused = done(command.args(["sweep", "--sim", "--out"]).arg(&out).args(["--", "true"]));
    assert!(refused.stderr.contains("no process of 'true' reached the driver"), "{}", refused.stderr);
    assert_eq!(refused.status.code(), Some(125));
    assert!(!out.exists(), "an empty sweep leaves nothing");
    let mut command = cupeer();
    let refused = done(command.args(["sweep", "--sim", "--out"]).arg(&out).args(["--", "/nowhere/program"]));
    assert_eq!(refused.status.code(), Some(127), "{}", refused.stderr);
    support::refused(
        &["sweep", "--calls", "cuIpcOpn", "--", "true"],
        "--calls 'cuIpcOpn', column 1: no function is named 'cuIpcOpn'; 'cupeer list functions' lists them all",
    );
}

/// The client, without a line of it.
fn client(without: Option<usize>) -> PathBuf {
    let Some(without) = without else { return support::compile_c("programs/sweep/client.c", &["-ldl"]) };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/sweep/client.c");
    let source = std::fs::read_to_string(path).expect("the client");
    let lines = source.lines().enumerate();
    let mutant: String = lines.map(|(i, line)| format!("{}\n", if i == without { ";" } else { line })).collect();
    // Variables of a deleted line are unused.
    support::compile_text(&format!("client-without-{}", without + 1), &mutant, &["-ldl", "-w"])
}

/// The lines that are deleted.
fn marked() -> Vec<(usize, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/sweep/client.c");
    let source = std::fs::read_to_string(path).expect("the client");
    let lines = source.lines().enumerate();
    let marked = lines.filter(|(_, line)| DELETED.iter().any(|mark| line.ends_with(mark)));
    marked.map(|(number, line)| (number, line.trim().to_owned())).collect()
}

#[test]
fn a_correct_client_yields_nothing() {
    let folder = temp_dir();
    let swept = sweep(folder.path(), &[], &client(None), &[]);
    assert_eq!(swept.status, Some(0), "{:#}\n{}", swept.json, swept.stderr);
    assert!(swept.runs().len() >= 100 && swept.json["left_out"] == 0 && swept.json["findings"] == 0);
    let verdicts: Vec<&str> = swept.verdicts().into_iter().map(|(_, verdict)| verdict).collect();
    // It has ways round some failures, and messages for the others.
    assert!(verdicts.contains(&"same") && verdicts.contains(&"clean"), "{verdicts:?}");
    assert!(verdicts.iter().all(|verdict| ["same", "clean"].contains(verdict)), "{verdicts:?}");
}

#[test]
fn a_forgotten_check_or_clean_up_is_found() {
    let marked = marked();
    assert!(marked.len() >= 30, "{}", marked.len());
    let all = std::env::var("MUTANTS").is_ok_and(|mutants| mutants == "all");
    let (skipped, step) = if all { (0, 1) } else { (3, 8) };
    let tried: Vec<&(usize, String)> = marked.iter().skip(skipped).step_by(step).collect();
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        // More than there are processors: some hang, and wait for their time to be over.
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some((number, line)) = tried.get(next.fetch_add(1, Relaxed)) {
                    let folder = temp_dir();
                    let options = ["-j1", "--fail-fast", "--timeout", "30s"];
                    let swept = sweep(folder.path(), &options, &client(Some(*number)), &[]);
                    match swept.status {
                        Some(1) => {}
                        Some(0) => missed.lock().unwrap().push(format!("{}: {line}", number + 1)),
                        other => panic!("line {}: {other:?}\n{}", number + 1, swept.stderr),
                    }
                }
            });
        }
    });
    // The one that forgets exactly that; the others released it themselves.
    let missed = missed.into_inner().unwrap();
    println!("{} of {} found; missed:\n{}", tried.len() - missed.len(), tried.len(), missed.join("\n"));
    // 26 of 31: who forgets a check, and then just ends at the next one, leaves nothing behind. Of a sample, all but one.
    let allowed = if all { tried.len() / 6 } else { 1 };
    assert!(missed.len() <= allowed, "missed: {missed:#?}");
}
