//! Records of large jobs, `--record auto`: a ring, in a folder a host, of processes that share something.

use crate::programs;
use crate::support::{self, Done, cupeer, stdout, temp_dir};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Number of queries of `large.c` before it shares.
const ASKED: u64 = 10;
/// The calls of its sharing that the table has.
const SHARED: u64 = 1;

fn program() -> PathBuf {
    programs::program("large.c", &["-ldl", "-pthread"])
}

trait Succeeds {
    fn succeeds(self);
}

impl Succeeds for Done {
    #[track_caller]
    fn succeeds(self) {
        assert!(self.status.success(), "{}{}", self.stdout, self.stderr);
    }
}

/// The file name of `large.c`'s program.
fn name() -> String {
    program().file_name().unwrap().to_str().unwrap().to_owned()
}

/// A text whose lines were wrapped.
fn in_a_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs `large.c` as one of so many ranks.
#[track_caller]
fn run(record: &Path, ranks: u32, what: &str, options: &[&str]) -> Done {
    let mut run = cupeer();
    run.env("WORLD_SIZE", ranks.to_string());
    run.args(["run", "--sim", "-o"]).arg(record).args(options).arg("--").arg(program()).arg(what);
    support::done(&mut run)
}

#[track_caller]
fn report(record: &Path) -> Value {
    let text = stdout(cupeer().arg("report").arg(record).args(["--format", "json"]));
    serde_json::from_str(&text).expect("it is JSON")
}

/// The folder of this host in a record.
#[track_caller]
fn folder(record: &Path) -> PathBuf {
    let names = support::names(record);
    let name = names.iter().find(|name| name.starts_with("host-")).expect("it has a folder");
    record.join(name)
}

fn files(folder: &Path) -> Vec<String> {
    support::names(folder).into_iter().filter(|name| name.ends_with(".cupeer")).collect()
}

fn calls(report: &Value) -> u64 {
    report["functions"].as_array().unwrap().iter().map(|row| row["calls"].as_u64().unwrap()).sum()
}

#[test]
fn up_to_a_number_of_ranks_everything_is_kept_as_ever() {
    for (ranks, options) in [(256, &[][..]), (1000, &["--record", "auto:1000"]), (1000, &["--record", "full"])] {
        let folder = temp_dir();
        let record = folder.path().join("r");
        run(&record, ranks, "asks", options).succeeds();
        let report = report(&record);
        assert_eq!(report["record"]["mode"], "full", "{options:?}");
        assert_eq!(files(&record).len(), 1);
        assert_eq!(calls(&report), ASKED);
        assert!(report["record"].get("quiet").is_none());
    }
}

#[test]
fn the_first_variable_that_is_a_number_says_how_many_ranks_there_are() {
    for (variables, is_large) in [
        (&[("SLURM_NTASKS", "300")][..], true),
        (&[("OMPI_COMM_WORLD_SIZE", "300")], true),
        (&[("PMI_SIZE", "300"), ("SLURM_NTASKS", "1")], true),
        (&[("WORLD_SIZE", "8"), ("SLURM_NTASKS", "300")], false),
        (&[("WORLD_SIZE", "many"), ("SLURM_NTASKS", "300")], true),
        (&[("WORLD_SIZE", "-300")], false),
        (&[], false),
    ] {
        let folder = temp_dir();
        let record = folder.path().join("r");
        let mut run = cupeer();
        run.args(["run", "--sim", "-o"]).arg(&record).arg("--").arg(program()).arg("asks");
        support::done(run.envs(variables.iter().copied())).succeeds();
        assert_eq!(files(&record).is_empty(), is_large, "{variables:?}");
    }
}

#[test]
fn a_process_that_shares_has_a_ring_with_all_that_it_did() {
    let temporary = temp_dir();
    let record = temporary.path().join("r");
    run(&record, 257, "shares", &[]).succeeds();
    let report = report(&record);
    assert_eq!(report["record"]["mode"], "ring");
    assert_eq!(calls(&report), ASKED + SHARED);
    assert_eq!((&report["record"]["lost"], &report["record"]["dropped"]), (&0.into(), &false.into()));
    assert_eq!(report["handles"].as_array().unwrap().len(), 1);
    let folder = folder(&record);
    let names = files(&folder);
    assert_eq!((names.len(), files(&record).len()), (1, 0));
    let file = folder.join(&names[0]);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    // The end is in the record, although it lies elsewhere.
    assert_eq!(report["processes"][0]["exit"]["kind"], "returned");
}

#[test]
fn a_process_that_shares_nothing_leaves_a_line() {
    let temporary = temp_dir();
    let record = temporary.path().join("r");
    let done = run(&record, 257, "asks", &[]);
    assert!(done.stderr.contains("1 process shared nothing and was not recorded in "), "{}", done.stderr);
    done.succeeds();
    assert_eq!(support::names(&folder(&record)), ["begun"]);
    let text = stdout(cupeer().arg("report").arg(&record));
    assert!(text.starts_with("Nothing is known: 1 process shared nothing and was not recorded."), "{text}");
    assert!(!text.contains("was broken by ") && !text.contains("1970"), "{text}");
    // Beside one that shares, it is counted.
    run(&record, 257, "shares", &[]).succeeds();
    run(&record, 257, "asks", &[]).succeeds();
    let told = report(&record);
    assert_eq!(told["record"]["quiet"], serde_json::json!([{"program": name(), "processes": 2}]));
    assert_eq!(told["processes"].as_array().unwrap().len(), 1);
    let text = stdout(cupeer().arg("report").arg(&record));
    let said = format!("2 more processes shared nothing and were not recorded: {} (2)", name());
    assert!(in_a_line(&text).contains(&said), "{text}");
    assert!(
        in_a_line(&text).contains("Processes that shared nothing were not recorded, so how they ended is unknown."),
        "{text}"
    );
    // And in what is made of the record.
    let reduced = temporary.path().join("one.cupeer.json.gz");
    stdout(cupeer().arg("reduce").arg(&record).arg("-o").arg(&reduced));
    assert_eq!(report(&reduced)["record"]["quiet"], told["record"]["quiet"]);
    let packed = temporary.path().join("one.tar.gz");
    stdout(cupeer().arg("pack").arg(&record).arg("-o").arg(&packed));
    assert_eq!(report(&packed)["record"]["quiet"], told["record"]["quiet"]);
    let redacted = temporary.path().join("two.tar.gz");
    stdout(cupeer().arg("pack").arg(&record).arg("-o").arg(&redacted).args(["--redact", "all"]));
    assert_eq!(report(&redacted)["record"]["quiet"], told["record"]["quiet"]);
}

#[test]
fn one_that_was_killed_is_told_where_its_launcher_saw_it() {
    let temporary = temp_dir();
    let record = temporary.path().join("r");
    run(&record, 257, "killed", &[]);
    assert_eq!(files(&folder(&record)).len(), 0);
    let text = stdout(cupeer().arg("report").arg(&record));
    let said = format!(
        "1 launched program failed: {} was killed by SIGKILL (it made no call itself or shared nothing)",
        name()
    );
    assert!(in_a_line(&text).contains(&said), "{text}");
}

#[test]
fn findings_and_faults_are_kept_without_sharing() {
    let temporary = temp_dir();
    let record = temporary.path().join("r");
    run(&record, 257, "asks", &["--inject", "cuDeviceCanAccessPeer:when=5:delay=1ms"]).succeeds();
    let report = report(&record);
    assert_eq!(report["faults"][0]["fired"], 1);
    assert_eq!(calls(&report), ASKED);
    assert_eq!(files(&folder(&record)).len(), 1);
}

#[test]
fn children_are_processes_of_their_own() {
    let temporary = temp_dir();
    let record = temporary.path().join("r");
    run(&record, 257, "fork", &[]).succeeds();
    let report = report(&record);
    assert_eq!(files(&folder(&record)).len(), 1);
    assert_eq!(report["record"]["quiet"][0]["processes"], 2);
    assert_eq!(calls(&report), ASKED + SHARED);
}

#[test]
fn a_file_that_cannot_be_renamed_is_replaced_and_losses_are_counted() {
    // One whose descriptors are closed, and on a file system without nameless files, alone and with threads.
    let nameless = programs::library("nameless.c", &["-ldl"]);
    for (what, preload) in [("closed", None), ("shares", Some(&nameless)), ("threads", Some(&nameless))] {
        let temporary = temp_dir();
        let record = temporary.path().join("r");
        let mut run = cupeer();
        run.env("WORLD_SIZE", "257").args(["run", "--sim", "-o"]).arg(&record).arg("--");
        if let Some(library) = preload {
            run.arg("env").arg(format!("LD_PRELOAD={}", preloads(library)));
        }
        support::done(run.arg(program()).arg(what)).succeeds();
        let report = report(&record);
        let lost = report["record"]["lost"].as_u64().unwrap();
        let all = ASKED + SHARED + if what == "threads" { 8 * 2000 } else { 0 };
        let before = if what == "threads" { ASKED + 8 * 1000 } else { ASKED };
        assert!(lost >= before, "{what}: {lost} lost");
        if what != "threads" {
            assert_eq!((lost, calls(&report)), (before + SHARED - 1, 1), "{what}");
        }
        // A call that a thread is in at that moment is in neither record.
        let sum = lost + calls(&report);
        assert!((all - 8..=all).contains(&sum), "{what}: {sum} of {all}");
        assert_eq!(report["handles"].as_array().unwrap().len(), 1, "{what}");
        assert_eq!(report["processes"].as_array().unwrap().len(), 1, "{what}");
        assert_eq!(report["processes"][0]["devices"].as_array().unwrap().len(), 2, "{what}");
        assert_eq!(files(&folder(&record)).len(), 1, "{what}");
        // A process that shares nothing leaves nothing there, either.
        let mut run = cupeer();
        run.env("WORLD_SIZE", "257").args(["run", "--sim", "-o"]).arg(&record).arg("--");
        run.arg("env").arg(format!("LD_PRELOAD={}", preloads(&nameless))).arg(program()).arg("asks");
        support::done(&mut run).succeeds();
        assert_eq!(files(&folder(&record)).len(), 1, "{what}");
    }
}

/// Returns the value of LD_PRELOAD with a library before cupeer's.
fn preloads(library: &Path) -> String {
    format!("{}:{}", library.display(), support::preload_library().display())
}

#[test]
fn a_node_reduces_to_one_file_and_leaves_no_folder() {
    let temporary = temp_dir();
    let record = temporary.path().join("r");
    run(&record, 257, "asks", &[]).succeeds();
    run(&record, 257, "shares", &["--reduce"]).succeeds();
    let names = support::names(&record);
    assert!(names.iter().all(|name| name == "job" || name.ends_with(".cupeer.json.gz")), "{names:?}");
    run(&record, 257, "asks", &["--reduce"]).succeeds();
    let report = report(&record);
    assert_eq!(report["record"]["quiet"][0]["processes"], 2);
    assert_eq!(report["processes"].as_array().unwrap().len(), 1);
}

#[test]
fn processes_of_one_host_find_each_other_in_its_folder() {
    let temporary = temp_dir();
    let record = temporary.path().join("r");
    let share = support::compile_c("../scripts/demo.d/share.c", &["-ldl"]);
    let mut run = cupeer();
    run.env("WORLD_SIZE", "257").args(["run", "--sim", "-o"]).arg(&record).arg("--").arg(share);
    support::done(&mut run).succeeds();
    let report = report(&record);
    let handles = report["handles"].as_array().unwrap();
    assert!(handles.iter().all(|handle| handle["exporter"].is_string()), "{handles:?}");
    assert_eq!(report["processes"].as_array().unwrap().len(), 2);
    let top = stdout(cupeer().arg("top").arg(&record).args(["--once"]));
    assert!(top.contains("2 ended"), "{top}");
}

#[test]
fn top_says_how_many_run_that_it_does_not_show() {
    let temporary = temp_dir();
    let record = temporary.path().join("r");
    let mut run = cupeer();
    run.env("WORLD_SIZE", "257").args(["run", "--reduce", "--sim", "-o"]).arg(&record);
    let mut run = run.arg("--").arg(program()).arg("waits").stdin(Stdio::piped()).spawn().expect("it runs");
    let begun = || fs::read_dir(&record).into_iter().flatten().flatten().map(|entry| entry.path().join("begun"));
    support::wait_for("a line", || begun().any(|path| fs::read(path).is_ok_and(|text| !text.is_empty())));
    let top = stdout(cupeer().arg("top").arg(&record).arg("--once"));
    assert!(top.contains("1 process that has shared nothing so far"), "{top}");
    drop(run.stdin.take());
    assert!(run.wait().expect("it ends").success());
    assert_eq!(report(&record)["record"]["quiet"][0]["processes"], 1);
}

#[test]
fn lines_of_others_are_left_alone() {
    let temporary = temp_dir();
    let record = temporary.path().join("r");
    run(&record, 257, "shares", &[]).succeeds();
    let folder = folder(&record);
    fs::write(folder.join("begun"), b"\xff\xfe\n \n.cupeer 0 - x\nx.cupeer 0 - odd\0name\nx.cupeer 0 - again\n")
        .unwrap();
    let report = report(&record);
    assert_eq!(report["record"]["quiet"].as_array().unwrap().len(), 1);
    assert_eq!(report["record"]["quiet"][0]["processes"], 1);
    // Elsewhere, a file of that name is somebody else's.
    fs::write(record.join("begun"), "y.cupeer 0 - other\n").unwrap();
    assert_eq!(self::report(&record)["record"]["quiet"][0]["processes"], 1);
}

#[test]
fn runs_that_end_and_begin_at_once_count_each_process_once() {
    const RUNS: u64 = 10;
    // Also where a run is over, and is reduced, while a process of another one says that it has begun.
    let late = programs::library("late_write.c", &[]);
    let marks = temp_dir();
    let hit = marks.path().join("hit");
    for (round, preloaded) in [(0, None), (1, None), (2, None), (5, Some(&late))] {
        let temporary = temp_dir();
        let record = temporary.path().join("r");
        let runs: Vec<_> = (0..RUNS)
            .map(|i| {
                std::thread::sleep(std::time::Duration::from_millis(7 * i * round));
                let mut run = cupeer();
                run.envs(preloaded.map(|library| ("LD_PRELOAD", library))).env("LATE_HIT", &hit);
                run.env("WORLD_SIZE", "257").args(["run", "-q", "--reduce", "--sim", "-o"]).arg(&record);
                run.args(["--", "sh", "-c", "\"$0\" asks; \"$0\" shares; \"$0\" asks"]).arg(program());
                run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it is started")
            })
            .collect();
        for mut run in runs {
            assert!(run.wait().expect("it ends").success());
        }
        let report = report(&record);
        assert_eq!(report["processes"].as_array().unwrap().len() as u64, RUNS, "round {round}");
        assert_eq!(report["record"]["quiet"][0]["processes"], 2 * RUNS, "round {round}");
        assert_eq!(report["record"]["lost"], 0, "round {round}");
    }
    if !hit.exists() {
        left_out!("no run set the file aside while a process of another one was writing to it");
    }
}

#[test]
fn unreadable_processes_do_not_count_as_quiet() {
    let temporary = temp_dir();
    let record = temporary.path().join("r");
    run(&record, 257, "shares", &[]).succeeds();
    run(&record, 257, "shares", &[]).succeeds();
    let (folder, text) = (folder(&record), || stdout(cupeer().arg("report").arg(&record)));
    assert!(text().starts_with("No rule was broken by "), "{}", text());
    fs::write(folder.join(&files(&folder)[0]), "").unwrap();
    let report = report(&record);
    assert_eq!(report["record"]["quiet"], Value::Null);
    assert_eq!(report["record"]["problems"].as_array().unwrap().len(), 1);
    assert!(text().contains("The recording is\nincomplete."), "{}", text());
    let mut job = fs::OpenOptions::new().append(true).open(record.join("job")).unwrap();
    std::io::Write::write_all(&mut job, b"lost=3\nlost=x\n").unwrap();
    assert!(in_a_line(&text()).contains("job says that 3 processes could not record everything"), "{}", text());
}

#[test]
fn a_job_whose_processes_shared_nothing_can_be_packed_and_exported() {
    let temporary = temp_dir();
    let (record, packed) = (temporary.path().join("r"), temporary.path().join("r.cupeer.tar.gz"));
    run(&record, 257, "asks", &[]).succeeds();
    stdout(cupeer().arg("pack").arg(&record).arg("-o").arg(&packed));
    assert_eq!(report(&packed)["record"]["quiet"], report(&record)["record"]["quiet"]);
    let mut export = cupeer();
    export.arg("export").arg(&record).args(["--to", "parquet", "-o"]).arg(temporary.path().join("x"));
    let done = support::done(&mut export);
    assert!(
        done.status.success() && done.stderr.contains("1 process shared nothing and was not recorded"),
        "{}",
        done.stderr
    );
}
