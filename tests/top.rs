//! `cupeer top`: what it says of jobs that run on the simulated driver, once and on a screen.

use crate::programs::nvml;
use crate::support::{self, cupeer, done, names, refused, stdout, temp_dir, wait_for, with};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

// The screen, in a terminal of the test's own.
mod terminal;

const MIB: u64 = 1 << 20;

/// A crew that stays until it is dropped: see crew.c.
struct Crew {
    child: Child,
}

impl Crew {
    fn start(folder: &Path, options: &[&str], words: &[&str]) -> Crew {
        let program = support::compile_c("programs/crew.c", &[]);
        let mut command = cupeer();
        command.args(["run", "-q", "-o", "r", "--sim=nvlink:2"]).args(options).arg("--").arg(program).args(words);
        command.env_remove(cupeer_spec::env::RECORD).current_dir(folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let members = children(child.id()).first().map_or(Vec::new(), |crew| children(*crew as u32));
        let mut maps = members.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/maps")).ok());
        let maps = maps.find(|maps| !maps.is_empty()).expect("one that runs");
        support::assert_loaded_from(&maps, &support::preload_library());
        support::assert_loaded_from(&maps, &support::sim_library());
        Crew { child }
    }

    /// Lets it come to its end.
    fn end(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Processes that hang end with their parent.
        if let Some(pid) = children(self.child.id()).first() {
            // SAFETY: sends a signal to a child's child, which is not waited for by anybody else than that.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn children(pid: u32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn top(folder: &Path, words: &[&str]) -> Command {
    let mut command = with(&["top", "--once", "--interval", "100ms"]);
    command.args(words).current_dir(folder).env("XDG_STATE_HOME", folder.join("state"));
    command
}

/// The JSON form, which its schema knows.
#[track_caller]
fn json(command: &mut Command) -> Value {
    let printed: Value = serde_json::from_str(&stdout(command.args(["--format", "json"]))).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/top.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).expect("it is a schema");
    let errors: Vec<String> = validator.iter_errors(&printed).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    printed
}

/// The process with a rank.
fn of(document: &Value, rank: u64) -> &Value {
    let all = document["processes"].as_array().unwrap();
    all.iter().find(|process| process["rank"] == rank).expect("it has a row")
}

/// Ranks and bytes of those who hold, or whose is held.
fn held(holds: &Value) -> Vec<(u64, u64)> {
    let number = |value: &Value| value.as_u64().unwrap();
    let one = |hold: &Value| (number(&hold["who"]["rank"]), number(&hold["bytes"]));
    let mut all: Vec<(u64, u64)> = holds.as_array().unwrap().iter().map(one).collect();
    all.sort();
    all
}

/// Memory by owner, in the recordings alone and with NVML, which also knows a process outside of them.
#[test]
fn memory_has_owners_others_and_a_rest() {
    let folder = temp_dir();
    let _crew = Crew::start(folder.path(), &["--record", "full"], &["4", "2"]);
    let owned = |document: &Value, device: usize| -> Vec<(u64, u64, u64)> {
        let owners = document["devices"][device]["owners"].as_array().unwrap();
        let number = |value: &Value| value.as_u64().unwrap();
        let owner = |owner: &Value| (number(&owner["who"]["rank"]), number(&owner["bytes"]), number(&owner["count"]));
        owners.iter().map(owner).collect()
    };
    let alone = json(&mut top(folder.path(), &["r"]));
    assert_eq!(owned(&alone, 0), [(2, 3 * MIB, 1), (0, MIB, 1)]);
    assert_eq!(owned(&alone, 1), [(3, 4 * MIB, 1), (1, 2 * MIB, 1)]);
    let first = &alone["devices"][0]["owners"][0];
    assert!(first["place"].as_str().is_some_and(|place| place.contains("crew.c")), "{first:#}");
    let pid = of(&alone, 0)["pid"].as_u64().unwrap();
    let with_nvml = |format: &str| {
        let mut command = top(folder.path(), &["r", "--format", format]);
        command
            .env("LD_LIBRARY_PATH", nvml())
            .env("FAKE_NVML_HOLDERS", format!("0:{pid}:{},0:1:{},1:1:-", 9 * MIB, 5 * MIB));
        stdout(&mut command)
    };
    let document: Value = serde_json::from_str(&with_nvml("json")).unwrap();
    assert_eq!(owned(&document, 0), [(0, 9 * MIB, 1), (2, 3 * MIB, 1)], "NVML counts more of rank 0");
    let device = &document["devices"][0];
    assert_eq!((&device["used_bytes"], &device["total_bytes"]), (&(14 * MIB).into(), &(16384 * MIB).into()));
    assert_eq!((&device["others"][0]["pid"], &device["others"][0]["bytes"]), (&1.into(), &(5 * MIB).into()));
    assert_eq!(document["devices"][1]["others"][0]["bytes"], Value::Null);
    assert!(with_nvml("text").contains("all of 16GiB"));
    let metrics = with_nvml("prometheus");
    let has = |name: &str, value: u64| {
        let line =
            format!("{name}{{device=\"GPU-c09ee200-5130-4d0e-b00d-000000000000\",name=\"NVIDIA H200\"}} {value}\n");
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    };
    has("cupeer_owned_bytes", 12 * MIB);
    has("cupeer_others_bytes", 5 * MIB);
}

#[test]
fn it_says_who_holds_whose_memory() {
    let folder = temp_dir();
    let mut crew = Crew::start(folder.path(), &[], &["4", "2", "fail:1", "calls:1"]);
    let document = json(&mut top(folder.path(), &["r"]));
    assert_eq!((&document["schema"], &document["unseen"]), (&"cupeer-top/1".into(), &Value::Array(vec![])));
    for rank in 0..4 {
        let process = of(&document, rank);
        let size = |of: u64| (of, (of + 1) * MIB);
        let mut holds = [size((rank + 1) % 4), size((rank + 2) % 4)];
        holds.sort();
        assert_eq!(held(&process["holds"]), holds, "rank {rank}");
        assert_eq!(process["holds_bytes"], holds[0].1 + holds[1].1);
        let mut holders = [((rank + 2) % 4, (rank + 1) * MIB), ((rank + 3) % 4, (rank + 1) * MIB)];
        holders.sort();
        assert_eq!(held(&process["held_by"]), holders, "rank {rank}");
        let counts = ["shared_bytes", "held_bytes", "exports", "openings"].map(|key| process[key].as_u64().unwrap());
        assert_eq!(counts, [(rank + 1) * MIB, (rank + 1) * MIB, 1, 2]);
        assert_eq!((&process["exit"]["kind"], &process["failed"]), (&"running".into(), &u64::from(rank == 1).into()));
        assert!(process["calls_per_second"].as_f64().unwrap() > 0.0 && process["complete"] == true);
        assert!(process["program"].as_str().unwrap().contains("/crew-"));
    }
    let devices = document["devices"].as_array().unwrap();
    let shared = |device: &Value| device["shared_bytes"].as_u64().unwrap() / MIB;
    assert_eq!(devices.iter().map(shared).collect::<Vec<_>>(), [1 + 3, 2 + 4], "ranks are on the devices by turns");
    assert!(devices.iter().all(|device| device["name"] == "NVIDIA H200" && device["openings"] == 4));

    // Nothing that it has done is left in the record, and when all have ended, it has counted what the report counts.
    let before = names(&folder.path().join("r"));
    crew.end();
    let document = json(&mut top(folder.path(), &["r"]));
    assert_eq!(names(&folder.path().join("r")), before);
    let report = stdout(with(&["report", "r", "--format", "json"]).current_dir(folder.path()));
    let report: Value = serde_json::from_str(&report).unwrap();
    let sum = |key: &str| -> u64 {
        report["functions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|function| match &function[key] {
                Value::Object(map) => map.values().map(|count| count.as_u64().unwrap()).sum(),
                count => count.as_u64().unwrap(),
            })
            .sum()
    };
    let job = &document["jobs"][0];
    assert_eq!((&job["calls"], &job["failed"]), (&sum("calls").into(), &sum("failures").into()));
    assert_eq!((&job["running"], &job["ended"], &job["died"]), (&0.into(), &4.into(), &0.into()));
    assert_eq!(document["devices"], Value::Array(vec![]));
}

#[test]
fn a_call_that_hangs_grows_older_and_a_dead_process_holds_nothing() {
    let folder = temp_dir();
    let plan = ["--inject", "cuIpcCloseMemHandle:rank=2:hang=gate"];
    let _crew = Crew::start(folder.path(), &plan, &["4", "1", "close:2", "kill:1"]);
    let mut ages = Vec::new();
    wait_for("a call that hangs", || {
        let document = json(&mut top(folder.path(), &["r"]));
        let process = of(&document, 2);
        for call in process["unreturned"].as_array().unwrap() {
            assert_eq!(call["function"], "cuIpcCloseMemHandle");
            assert_eq!(call["tid"], process["pid"]);
            ages.push(call["age_ns"].as_u64().unwrap());
        }
        ages.len() == 3
    });
    assert!(ages.is_sorted_by(|a, b| a + 100_000_000 <= *b), "at least as long as it looks: {ages:?}");

    let document = json(&mut top(folder.path(), &["r"]));
    let dead = of(&document, 1);
    // Its parent waits for it only in the end.
    assert_eq!(dead["exit"]["kind"], "died");
    assert_eq!(
        (&dead["openings"], &dead["holds"], &dead["holds_bytes"]),
        (&1.into(), &Value::Array(vec![]), &0.into())
    );
    assert_eq!(held(&dead["held_by"]), [(0, 2 * MIB)], "its memory is still held");
    assert_eq!(of(&document, 2)["held_by"], Value::Array(vec![]), "who held it is dead");
    assert_eq!((&document["jobs"][0]["running"], &document["jobs"][0]["died"]), (&3.into(), &1.into()));

    wait_for("a call that hangs for a second", || {
        let text = stdout(&mut top(folder.path(), &["r"]));
        assert!(text.contains("3 processes run, 1 died"), "{text}");
        assert!(text.contains("died, left 1 open"), "{text}");
        text.lines().any(|line| line.starts_with("   2 ") && line.ends_with("s cuIpcCloseMemHandle"))
    });
    let released = done(with(&["release", "r", "gate"]).current_dir(folder.path()));
    assert!(released.status.success());
    wait_for("its return", || of(&json(&mut top(folder.path(), &["r"])), 2)["unreturned"] == Value::Array(vec![]));
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let folder = temp_dir();
    let _crew = Crew::start(folder.path(), &[], &["3", "1", "fail:0", "kill:2"]);
    let text = stdout(&mut top(folder.path(), &["r", "--format", "prometheus"]));
    let value = |series: &str| -> f64 {
        let line =
            text.lines().find_map(|line| line.strip_prefix(series)).unwrap_or_else(|| panic!("{series}: {text}"));
        line.trim().parse().unwrap()
    };
    let of = |metric: &str| value(&format!("{metric}{{record=\"r\"}}"));
    assert_eq!((of("cupeer_processes_running"), of("cupeer_processes_died")), (2.0, 1.0));
    assert_eq!((of("cupeer_failed_calls_total"), of("cupeer_hanging_processes")), (1.0, 0.0));
    assert!(of("cupeer_calls_total") > 6.0 && value("cupeer_unseen") == 0.0);
    check_exposition(&text);
    let shared: f64 = text
        .lines()
        .filter(|line| line.starts_with("cupeer_shared_bytes{"))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
        .sum();
    assert_eq!(shared, (1 + 2) as f64 * MIB as f64);
    // By what others read it with, where that is.
    let parser = "import sys; from prometheus_client.parser import text_string_to_metric_families as parse; \
                  print(sum(len(family.samples) for family in parse(sys.stdin.read())))";
    let has_it = Command::new("python3").args(["-c", "import prometheus_client"]).stderr(Stdio::null()).status();
    if !has_it.is_ok_and(|status| status.success()) {
        return left_out!("Python has no prometheus_client");
    }
    let file = folder.path().join("metrics");
    fs::write(&file, &text).unwrap();
    let parsed = stdout(Command::new("python3").args(["-c", parser]).stdin(fs::File::open(file).unwrap()));
    assert_eq!(parsed.trim().parse::<usize>().unwrap(), text.lines().filter(|line| !line.starts_with('#')).count());
}

/// Checks the rules of the format: each metric appears once, described before its values; a counter's name ends in `_total`; and
/// names, labels, and values have the right form.
fn check_exposition(text: &str) {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut current = ("", "");
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("a help text");
            assert!(is_name(name) && seen.insert(name) && words.ends_with('.'), "{line}");
            let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE ")).and_then(|it| it.split_once(' '));
            current = kind.expect("a type");
            assert_eq!(current.0, name);
            assert_eq!(current.1 == "counter", name.ends_with("_total"), "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let name = series.split('{').next().unwrap();
        assert!(name == current.0 && value.parse::<f64>().is_ok(), "{line}");
        if let Some(labels) = series.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            let labels = labels.strip_prefix('{').and_then(|labels| labels.strip_suffix('}')).expect("braces");
            for label in labels.split("\",") {
                let (name, value) = label.split_once("=\"").expect("a label");
                assert!(is_name(name) && !value.trim_end_matches('"').contains(['"', '\n']), "{line}");
            }
        }
    }
    assert!(seen.len() > 8 && text.ends_with('\n'));
}

#[test]
fn without_a_name_it_looks_at_what_runs_at_home() {
    let folder = temp_dir();
    let text = stdout(&mut top(folder.path(), &[]));
    assert!(text.starts_with("cupeer top  no job: 0 processes run"), "{text}");
    let empty = json(&mut top(folder.path(), &[]));
    assert_eq!((&empty["jobs"], &empty["processes"]), (&Value::Array(vec![]), &Value::Array(vec![])));

    let program = support::compile_c("programs/crew.c", &[]);
    let run = || {
        let mut command = cupeer();
        command.args(["run", "-q", "--sim=nvlink:2", "--"]).arg(&program).args(["2", "1"]);
        command.env_remove(cupeer_spec::env::RECORD).env("XDG_STATE_HOME", folder.path().join("state"));
        command
    };
    // One that has ended is not shown.
    assert!(done(&mut run()).status.success());
    let mut child = run().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let document = json(&mut top(folder.path(), &[]));
    let jobs = document["jobs"].as_array().unwrap();
    assert!(jobs.len() == 1 && jobs[0]["running"] == 2, "{document:#}");
    assert!(jobs[0]["name"].as_str().unwrap().ends_with("-2"), "{document:#}");
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(json(&mut top(folder.path(), &[]))["jobs"], Value::Array(vec![]));
}

#[test]
fn unseen_processes_are_named() {
    use cupeer_record::writer::{About, Writer, write_live_table};
    let folder = temp_dir();
    let record = folder.path().join("r");
    let mut crew = Crew::start(folder.path(), &[], &["2", "1"]);
    // Somebody else's file, a process of another host, its table, and a full table of this one.
    fs::write(record.join("junk.cupeer"), "cupeer\0R").unwrap();
    Writer::create(&record, About::default()).unwrap().finish().unwrap();
    write_live_table(&record, About::default().boot_id, &[], 0).unwrap();
    let own = names(&record).into_iter().find(|name| name.starts_with("live-") && !name.contains("live-6120")).unwrap();
    let file = fs::OpenOptions::new().write(true).open(record.join(own)).unwrap();
    let refused = std::mem::offset_of!(cupeer_spec::record::live::Header, refused) as u64;
    std::os::unix::fs::FileExt::write_all_at(&file, &7u64.to_le_bytes(), refused).unwrap();
    let document = json(&mut top(folder.path(), &["r"]));
    let unseen: Vec<&str> = document["unseen"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(
        unseen,
        [
            "r: junk.cupeer is cut off in its first block",
            "r: 1 process of other hosts, or of before this one was started",
            "r: 1 live table of other hosts, or of before this one was started",
            "r: the live table is full: 7 exports and openings are not in it",
        ]
    );
    assert_eq!(document["processes"].as_array().unwrap().len(), 2);
    let text = stdout(top(folder.path(), &["r"]).env("COLUMNS", "200"));
    assert_eq!(text.matches("\nnot seen ").count(), 4, "{text}");
    crew.end();
}

#[test]
fn unreadable_recordings_are_one_sentence() {
    let folder = temp_dir();
    let path = folder.path().display().to_string();
    refused(&["top", "--once", &path], &format!("{path} holds no recording"));
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let file = file.display().to_string();
    refused(&["top", &file], &format!("'{file}' is a file; name a directory that 'cupeer run' records to"));
    let none = folder.path().join("none").display().to_string();
    refused(&["top", &none], &format!("{none} cannot be read: No such file or directory (os error 2)"));
    refused(
        &["top", "--once", "--interval", "5ms"],
        "invalid value '5ms' for '--interval <TIME>': a time is a number with ms, s, m or h, at least 100ms, such as 2s; see --help",
    );
    refused(&["top", "--format", "json"], "the following required arguments were not provided: --once; see --help");
}
