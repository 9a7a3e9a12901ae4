//! `cupeer reproduce`: the C file of a recording compiles without a warning, returns the recorded results, and breaks the same rules.

use crate::check::scenes::{self, How, Scene, report};
use crate::reduce::copy;
use crate::support::{cupeer, done, plain, sample, sim_dir, stdout, temp_dir};
use cupeer_reproduce::declarations::declare_used;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Scenes that each run repeats: a kind of object or of failure each. With `FULL_SIZE`, all scenes are repeated.
const REPEATED: [&str; 18] = [
    "not-initialized",
    "context-destroyed/enable",
    "peer-already-enabled",
    "ipc-freed-while-open",
    "ipc-exporter-gone",
    "ipc-exporter-died",
    "ipc-damaged-handle",
    "ipc-handle-kind",
    "ipc-context-ended-while-open/virtual-reset",
    "ipc-event-destroyed-while-open",
    "vmm-unreachable-device/imported",
    "vmm-descriptor/closed",
    "pool-freed-while-open/context",
    "pool-import-in-use",
    "multicast-incomplete",
    "access-not-ordered",
    "piles-up",
    "piles-up/handles",
];
/// Smallest share of all scenes that are repeated, in percent.
const SHARE: usize = 80;

/// Records the wrong program of a scene.
fn record(scene: &Scene, folder: &Path) -> PathBuf {
    let directory = folder.join("record");
    done(&mut scene.under(How::Bad, &["--check=notes"], &directory));
    directory
}

/// Writes the C file of a recording, and compiles it against declarations that derive from the table.
fn compiled(record: &Path, folder: &Path) -> Result<PathBuf, String> {
    let file = folder.join("bug.c");
    let written = done(cupeer().arg("reproduce").arg(record).arg("-o").arg(&file));
    if !written.status.success() {
        return Err(written.stderr);
    }
    compile(&file, folder)
}

/// Compiles a C file of the command into a folder. Returns the program, or the messages of the compiler.
fn compile(file: &Path, folder: &Path) -> Result<PathBuf, String> {
    let text = fs::read_to_string(file).expect("the file");
    fs::write(folder.join("cuda.h"), declare_used(&text)).expect("a header");
    let program = file.with_extension("");
    let mut compiler = plain(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    compiler.args(["-Wall", "-Werror", "-I"]).arg(folder).arg("-o").arg(&program).arg(file);
    let compiled = done(compiler.arg("-L").arg(sim_dir()).arg("-lcuda"));
    if compiled.status.success() { Ok(program) } else { Err(compiled.stderr) }
}

/// Rules that a recording shows as broken.
fn rules(record: &Path) -> BTreeSet<String> {
    let report = report(record);
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    findings.iter().filter_map(|finding| Some(finding["rule"].as_str()?.to_owned())).collect()
}

/// Repeats a scene. Returns what differs.
fn repeat(scene: &Scene) -> Vec<String> {
    let folder = temp_dir();
    let record = record(scene, folder.path());
    let program = match compiled(&record, folder.path()) {
        Ok(program) => program,
        Err(error) => return vec![error],
    };
    let again = folder.path().join("again");
    let machine = format!("--sim={}", scene.machine);
    let ran = done(cupeer().args(["run", "--check=notes", &machine, "--out"]).arg(&again).arg("--").arg(program));
    let (recorded, repeated) = (rules(&record), rules(&again));
    let mut differences = Vec::new();
    if ran.status.code() != Some(0) || !ran.stdout.contains("0 differences to the recording") {
        differences.push(format!("{:?}: {}", ran.status, ran.stdout));
    }
    if recorded != repeated {
        differences.push(format!("{recorded:?} became {repeated:?}"));
    }
    differences
}

#[test]
fn scenes_have_the_same_results_and_findings() {
    scenes::for_each(REPEATED.iter().map(|name| scenes::scene(name)), repeat);
}

#[test]
fn most_scenes_are_repeated() {
    let is_own = |scene: &&Scene| !scene.machine.starts_with("answers");
    let every = sample(16, 1);
    let all: Vec<&Scene> = scenes::scenes().iter().filter(is_own).step_by(every).collect();
    let mut failed = Vec::new();
    for scene in &all {
        let differences = repeat(scene);
        if !differences.is_empty() {
            println!("{}: {}", scene.name, differences.join("\n"));
            failed.push(scene.name);
        }
    }
    let share = 100 * (all.len() - failed.len()) / all.len();
    // A sample can have more of the scenes with graphs and kernels, for which copies stand in.
    println!("{share}% of {} scenes are repeated", all.len());
    assert!(share >= sample(SHARE / 2, SHARE), "{share}% of {} are repeated; not {failed:?}", all.len());
}

/// A recording of PyTorch and NCCL on two H200. The repeated calls need neither of them.
#[test]
fn recording_of_hardware_is_repeated_without_its_libraries() {
    let folder = temp_dir();
    let record = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nccl-all-reduce.cupeer.tar.gz"));
    let program = compiled(record, folder.path()).expect("a program");
    let again = folder.path().join("again");
    let mut run = cupeer();
    run.args(["run", "--check", "--sim=nvlink:2", "--out"]).arg(&again).arg("--").arg(program);
    let ran = done(&mut run);
    assert!(ran.stdout.ends_with("0 differences to the recording\n"), "{ran:?}");
    assert_eq!(rules(&again), rules(record));
}

#[test]
fn different_result_is_reported_and_fails_the_program() {
    let folder = temp_dir();
    let record = record(scenes::scene("peer-already-enabled"), folder.path());
    let program = compiled(&record, folder.path()).expect("a program");
    let ran = done(plain(program).env("LD_LIBRARY_PATH", sim_dir()).env("CUPEER_SIM", "none:2"));
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let expected = "returned CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, not CUDA_SUCCESS";
    assert!(ran.stdout.contains(expected) && ran.stdout.contains("process 0, line"), "{ran:?}");
}

#[test]
fn file_has_nothing_of_the_program() {
    let folder = temp_dir();
    let record = record(scenes::scene("ipc-freed-while-open"), folder.path());
    let text = stdout(cupeer().arg("reproduce").arg(&record));
    assert!(text.contains("error ipc-freed-while-open: cuMemFree_v2, 1 time"), "{text}");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let home = std::env::current_dir().expect("a directory");
    for word in ["lifetime", "bad", &format!("\"{}\"", host.trim()), &home.display().to_string()] {
        assert!(!text.split(|c: char| c.is_whitespace()).any(|part| part == word), "{word} is in {text}");
    }
}

/// Checks that the command refuses a recording, writes nothing, and says why.
#[track_caller]
fn assert_refused(arguments: &[&Path], sentence: &str) {
    let ended = done(cupeer().arg("reproduce").args(arguments));
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(125), ""), "{ended:?}");
    assert!(ended.stderr.contains(sentence), "{ended:?}");
}

#[test]
fn output_and_bad_input_are_refused_with_a_reason() {
    let folder = temp_dir();
    let path = |name: &str| folder.path().join(name);
    assert_refused(&[&path("nothing")], "No such file or directory");
    fs::create_dir(path("empty")).expect("a directory");
    assert_refused(&[&path("empty")], "empty");
    fs::write(path("text"), "text").expect("a file");
    assert_refused(&[&path("text")], "not a packed recording");
    let record = record(scenes::scene("ipc-freed-while-open"), folder.path());
    fs::write(path("bug.c"), "mine").expect("a file");
    assert_refused(&[&record, Path::new("-o"), &path("bug.c")], "exists; --force overwrites it");
    assert_eq!(fs::read_to_string(path("bug.c")).expect("the file"), "mine");
    let null = Path::new("/dev/null");
    assert_refused(&[&record, Path::new("-o"), null, Path::new("--force")], "/dev/null is not a regular file");
    assert!(!fs::metadata(null).expect("a device").is_file());
    let link = path("link.c");
    std::os::unix::fs::symlink("bug.c", &link).expect("a link");
    done(cupeer().arg("reproduce").arg(&record).arg("-o").arg(&link).arg("--force"));
    assert!(link.is_symlink() && fs::read_to_string(path("bug.c")).expect("the file").contains("CUresult"));
    for process in fs::read_dir(&record).expect("a recording").flatten().map(|entry| entry.path()) {
        if process.extension().is_some_and(|suffix| suffix == "cupeer") {
            fs::write(process, "damaged").expect("a file");
        }
    }
    assert_refused(&[&record], "holds no recording of a process");
}

#[test]
fn hosts_that_share_are_refused() {
    let folder = temp_dir();
    let record = record(scenes::scene("ipc-freed-while-open"), folder.path());
    let hosts = folder.path().join("hosts");
    for number in 0..2u8 {
        let host = hosts.join(number.to_string());
        copy(&record, &host, number);
        let files = fs::read_dir(&host).expect("a host").flatten().map(|entry| entry.path());
        let mut processes: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|suffix| suffix == "cupeer")).collect();
        processes.sort();
        fs::remove_file(&processes[usize::from(number)]).expect("a process");
    }
    assert_refused(&[&hosts], "several hosts that share memory");
}

/// Shrinks the program of a recording. Returns the file, the rules of a run of it, and the last line on stderr.
fn shrink(record: &Path, machine: &str, folder: &Path) -> (String, BTreeSet<String>, String) {
    let small = folder.join("small.c");
    let shrunk = done(cupeer().arg("reproduce").arg("--shrink").arg(record).arg("-o").arg(&small));
    assert_eq!(shrunk.status.code(), Some(0), "{shrunk:?}");
    let text = fs::read_to_string(&small).expect("the file");
    let program = compile(&small, folder).expect("a program");
    let again = folder.join("shrunk");
    let ran = done(cupeer().args(["run", "--check=notes", machine, "--out"]).arg(&again).arg("--").arg(program));
    assert!(ran.stdout.contains("0 differences"), "{ran:?}");
    (text, rules(&again), shrunk.stderr.lines().last().unwrap_or_default().to_owned())
}

/// Returns the number of calls in a C file.
fn calls_in(text: &str) -> usize {
    let is_call =
        |line: &&str| ["expect", "must"].iter().any(|call| line.trim_start().starts_with(&format!("{call}(")));
    text.lines().filter(is_call).count()
}

#[test]
fn shrunk_program_keeps_its_finding_with_fewer_calls() {
    let folder = temp_dir();
    let record = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cases/shared_tensor.cupeer"));
    let (text, rules, told) = shrink(record, "--sim", folder.path());
    let whole = done(cupeer().arg("reproduce").arg(record)).stdout;
    assert!(calls_in(&text) < calls_in(&whole), "{text}");
    assert!(rules.contains("ipc-exporter-gone"), "{rules:?}");
    assert!(text.contains("It reproduces the finding ipc-exporter-gone of cuIpcOpenMemHandle"), "{text}");
    assert!(told.contains("kept the finding ipc-exporter-gone of cuIpcOpenMemHandle"), "{told}");
}

/// Most calls of half of the shrunk programs.
const MEDIAN_CALLS: usize = 40;

/// `KEEP_SHRUNK=DIRECTORY` keeps the files, to read them.
#[test]
fn shrunk_scenes_are_short_and_show_the_same() {
    let kept = std::env::var_os("KEEP_SHRUNK").map(PathBuf::from);
    let piles_up = |name: &&&str| name.starts_with("piles-up");
    let names: Vec<&str> = REPEATED.iter().filter(|name| !piles_up(name)).step_by(sample(4, 1)).copied().collect();
    let mut lengths = Vec::new();
    for name in names {
        let folder = temp_dir();
        let record = record(scenes::scene(name), folder.path());
        let machine = format!("--sim={}", scenes::scene(name).machine);
        let (text, found, told) = shrink(&record, &machine, folder.path());
        let recorded = rules(&record);
        assert!(found.is_subset(&recorded), "{name}: {found:?} of {recorded:?}: {text}");
        let goal = told.split(" finding ").nth(1).and_then(|rest| rest.split(' ').next());
        assert!(goal.is_none_or(|rule| found.contains(rule)), "{name}: {told}: {found:?} {text}");
        println!("{name}: {} lines of calls; {told}", calls_in(&text));
        lengths.push(calls_in(&text));
        if let Some(kept) = &kept {
            fs::write(kept.join(name.replace('/', "-") + ".c"), text).expect("a file");
        }
    }
    lengths.sort_unstable();
    assert!(lengths[lengths.len() / 2] <= MEDIAN_CALLS, "{lengths:?}");
}

#[test]
fn a_process_that_the_finding_does_not_need_is_left_out() {
    let folder = temp_dir();
    let record = record(scenes::scene("peer-already-enabled"), folder.path());
    let (text, rules, _) = shrink(&record, "--sim", folder.path());
    assert!(text.contains("PROCESSES = 1,") && rules.contains("peer-already-enabled"), "{text}");
    assert!(calls_in(&text) <= 6, "{text}");
}

#[test]
fn a_failure_that_the_machine_does_not_show_is_not_said_to_be_kept() {
    let folder = temp_dir();
    let record = record(scenes::scene("vmm-unreachable-device/imported"), folder.path());
    let small = folder.path().join("small.c");
    let shrunk = done(cupeer().args(["reproduce", "--shrink", "--sim=nvlink:2", "-o"]).arg(&small).arg(&record));
    assert_eq!(shrunk.status.code(), Some(0), "{shrunk:?}");
    let difference = "kept the difference: cuMemSetAccess(reservation1, ";
    assert!(shrunk.stderr.contains(difference) && !shrunk.stderr.contains("kept CUDA_ERROR"), "{shrunk:?}");
}

/// An interrupted command writes the smallest program so far, and leaves no process.
#[test]
fn an_interrupted_shrinking_writes_what_it_has() {
    let folder = temp_dir();
    let record = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cases/wake_up.cupeer"));
    let small = folder.path().join("small.c");
    let mut command = cupeer();
    command.arg("reproduce").arg("--shrink").arg(record).arg("-o").arg(&small).env("TMPDIR", folder.path());
    let mut running = command.stderr(std::process::Stdio::piped()).spawn().expect("a process");
    let mut told = BufReader::new(running.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    // A run with fewer calls has begun, so there is a goal.
    assert!(told.any(|line| line.starts_with("cupeer: run ")), "no run with fewer calls");
    // SAFETY: sends a signal to a child that nobody has waited for, so that the number is still its own.
    unsafe { libc::kill(running.id().cast_signed(), libc::SIGTERM) };
    let last = told.last().unwrap_or_default();
    assert!(running.wait().expect("an end").success() && last.contains("interrupted"), "{last}");
    assert!(compile(&small, folder.path()).is_ok());
    let own = folder.path().to_str().expect("a path");
    assert_eq!(processes_with(own), Vec::<String>::new());
}

/// Returns the command lines of all processes that have a text in them.
fn processes_with(text: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).filter(|line| line.contains(text)).collect()
}

#[test]
fn a_program_that_shows_nothing_cannot_be_shrunk() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    done(&mut scenes::scene("ipc-freed-while-open").under(How::Good, &["--check=notes"], &record));
    let small = folder.path().join("small.c");
    assert_refused(&[&record, Path::new("--shrink"), Path::new("-o"), &small], "shows no finding");
    assert!(!small.exists());
}

#[test]
fn answers_of_another_machine_are_listed_by_function() {
    let folder = temp_dir();
    let record = record(scenes::scene("peer-already-enabled"), folder.path());
    let replay = |machine: &str| done(cupeer().arg("replay").arg(&record).arg(machine));
    let same = replay("--sim=nvlink:2");
    assert!(same.status.success() && same.stdout.contains(": 0 answers differ"), "{same:?}");
    let other = replay("--sim=none:2");
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    let line = "  cuCtxEnablePeerAccess returned CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, not CUDA_SUCCESS, 1 time\n";
    assert!(other.stdout.contains(line), "{other:?}");
    let refused = replay("--sim=cube:2");
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
}
