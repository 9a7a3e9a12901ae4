//! Recordings that cannot be written: the program continues, one message says so, and losses are counted.

use super::{in_namespaces, recording, take_environment};
use crate::programs::{Scene, library, linked, program, recorded};
use crate::support::{self, Done};
use cupeer_record::Job;
use cupeer_spec::env;
use std::path::Path;
use std::process::Command;

/// Number of calls of troubled.c in each of its two threads.
const CALLS: u64 = 3000;

fn troubled(how: &str, argument: &Path) -> Scene {
    Scene::new(linked("troubled.c", &["-ldl"])).args(&[how, &CALLS.to_string()]).arg(argument)
}

/// The program ended as it does without cupeer, and there is no more than one message.
#[track_caller]
fn assert_unharmed(done: &Done, what: &str) {
    let Done { status, stdout, stderr } = done;
    assert!(status.code() == Some(9) && stdout == "done\n", "{what}: {status}\n{stdout}\n{stderr}");
    let is_ours = stderr.lines().all(|line| line.starts_with("cupeer: "));
    assert!(is_ours && stderr.lines().count() <= 1, "{what}: {stderr}");
}

/// Each call is in the record or counted as lost.
#[track_caller]
fn assert_counted(record: &Path, said: &str, what: &str) {
    let job = Job::open(record).unwrap_or_else(|error| panic!("{what}: {error}"));
    let had: u64 = job.processes.iter().map(|process| recorded(process).len() as u64).sum();
    let lost: u64 = job.processes.iter().map(|process| process.header.lost).sum();
    assert_eq!(had + lost, 2 * CALLS * job.processes.len() as u64, "{what}: {had} had, {lost} lost");
    assert_eq!(lost > 0, !said.is_empty(), "{what}: {lost} lost, and it says {said:?}");
}

#[track_caller]
fn run(command: &mut Command, what: &str) -> Done {
    let done = support::done(command);
    assert_unharmed(&done, what);
    done
}

/// With several threads, the kernel enlarges the table of descriptors only after a grace period.
#[test]
fn no_call_enlarges_the_table_of_descriptors() {
    let folder = support::temp_dir();
    let scene = Scene::new(linked("descriptor_table.c", &[]));
    let done = support::done(&mut recording(&scene, folder.path()));
    let sizes: Vec<u32> = done.stdout.split_whitespace().map(|size| size.parse().unwrap()).collect();
    assert!(sizes.len() == 2 && sizes[0] == sizes[1], "{}{}", done.stdout, done.stderr);
    assert_eq!(Job::open(folder.path()).unwrap().processes.len(), 1);
}

/// "Full disk: a message, no crash, no SIGBUS, no lost program." A copy of what is there is made in the end.
#[test]
fn on_a_full_disk() {
    let folder = support::temp_dir();
    let at = folder.path().display();
    std::fs::create_dir(folder.path().join("disk")).unwrap();
    let mut complaints = 0;
    // From too small for anything to large enough for all.
    for kib in (4..200).step_by(12).chain((200..3000).step_by(150)).chain([6000]) {
        let copy = folder.path().join(format!("copy-{kib}"));
        let scene = troubled("none", Path::new("-"));
        let program = recording(&scene, &folder.path().join("disk/record"));
        let mut command = Command::new("sh");
        command.args(["-c", "\"$@\"; e=$?; cp -r \"$DISK\"/record \"$COPY\" 2>/dev/null; exit $e", "sh"]);
        command.arg(program.get_program()).args(program.get_args());
        command.env("COPY", &copy).env("DISK", folder.path().join("disk"));
        take_environment(&mut command, &program);
        let mount = format!("mount -t tmpfs -o size={kib}k tmpfs {at}/disk");
        let flags = ["--user", "--map-root-user", "--mount"];
        let Some(mut command) = in_namespaces(&flags, &mount, &command) else { return };
        let what = format!("{kib} KiB");
        let done = run(&mut command, &what);
        complaints += done.stderr.lines().count();
        if done.stderr.contains("goes on without a recording") {
            continue;
        }
        assert!(done.stderr.is_empty() || done.stderr.contains("No space left on device"), "{}", done.stderr);
        assert_counted(&copy, &done.stderr, &what);
        assert!(kib < 6000 || done.stderr.is_empty());
    }
    assert!(complaints > 10, "{complaints}");
}

/// A right program is not blamed for what its record lacks.
#[test]
fn nobody_is_blamed_on_a_full_disk() {
    let mut lossy = 0;
    for kib in [1500, 2200, 3000] {
        let folder = support::temp_dir();
        let disk = folder.path().join("disk");
        std::fs::create_dir(&disk).unwrap();
        let mut command = support::cupeer();
        command.args(["run", "--sim=nvlink:2", "--check", "--error-exitcode=9", "--out"]).arg(disk.join("record"));
        command.arg("--").arg(program("rounds.c", &["-DLINKED", support::sim_library().to_str().unwrap()])).arg("2500");
        let mount = format!("mount -t tmpfs -o size={kib}k tmpfs {}", disk.display());
        let Some(mut command) = in_namespaces(&["--user", "--map-root-user", "--mount"], &mount, &command) else {
            return;
        };
        let Done { status, stdout, stderr } = support::done(&mut command);
        assert!(status.success() && stdout == "done\n", "{kib} KiB: {status}\n{stdout}{stderr}");
        assert!(!stderr.contains("while") && !stderr.contains("did not return"), "{kib} KiB: {stderr}");
        lossy += u32::from(stderr.contains("events lost"));
    }
    assert!(lossy > 0, "the disk was full at least once");
}

/// A run's knowledge of missing processes is in its recording.
#[test]
fn a_recording_without_inodes_names_the_missing_processes() {
    let folder = support::temp_dir();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mut run = Command::new("sh");
    run.args(["-c", "$CUPEER run --sim=nvlink:2 --out $DISK/r -- $PROGRAM 4; $CUPEER report $DISK/r", "sh"]);
    run.env("CUPEER", support::cupeer().get_program()).env("DISK", &disk);
    run.env("PROGRAM", program("rounds.c", &["-DLINKED", support::sim_library().to_str().unwrap()]));
    // For the root, the directory, its two files, and one process.
    let mount = format!("mount -t tmpfs -o size=9m,nr_inodes=5 tmpfs {}", disk.display());
    let Some(mut command) = in_namespaces(&["--user", "--map-root-user", "--mount"], &mount, &run) else {
        return;
    };
    let Done { stdout, stderr, .. } = support::done(&mut command);
    assert!(stderr.contains("1 process could not record everything"), "{stdout}{stderr}");
    assert!(stdout.starts_with("done\nNo rule was broken by "), "{stdout}");
    let text = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("says that 1 process recorded nothing"), "{stdout}");
}

#[test]
fn nothing_can_be_created() {
    let folder = support::temp_dir();
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    std::os::unix::fs::symlink("nowhere/there", folder.path().join("link")).unwrap();
    let long = folder.path().join("d/".repeat(1990));
    for place in [&file, Path::new("/proc/record"), Path::new("/nowhere/record"), &folder.path().join("link"), &long] {
        let mut command = recording(&troubled("none", Path::new("-")), &folder.path().join("record"));
        let what = place.display().to_string();
        let done = run(command.env(env::OUT, place), &what);
        let says = if place == long { "cannot record into" } else { "goes on without a recording" };
        assert!(done.stderr.contains(says), "{what}: {}", done.stderr);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn on_a_read_only_file_system() {
    let folder = support::temp_dir();
    let at = folder.path().display();
    std::fs::create_dir(folder.path().join("record")).unwrap();
    let program = recording(&troubled("none", Path::new("-")), &folder.path().join("record"));
    let mount = format!("mount -t tmpfs -o ro tmpfs {at}/record");
    let flags = ["--user", "--map-root-user", "--mount"];
    let Some(mut command) = in_namespaces(&flags, &mount, &program) else { return };
    let done = run(&mut command, "read-only");
    assert!(done.stderr.contains("Read-only file system"), "{}", done.stderr);
}

#[test]
fn files_may_not_become_large() {
    let folder = support::temp_dir();
    // From the begin, and from the middle of the run on.
    for kib in (1..300).step_by(13).chain([500, 1000, 100_000]) {
        let what = format!("at most {kib} KiB from the begin");
        let record = folder.path().join(format!("limited-{kib}"));
        let program = recording(&troubled("none", Path::new("-")), &record);
        let mut shell = support::plain("bash");
        shell.args(["-c", &format!("ulimit -f {kib} && exec \"$@\""), "sh"]);
        shell.arg(program.get_program()).args(program.get_args());
        take_environment(&mut shell, &program);
        let done = run(&mut shell, &what);
        if !done.stderr.contains("goes on without a recording") {
            assert_counted(&record, &done.stderr, &what);
        }
    }
    for (how, bytes) in [("limit", 1), ("limit", 400_000), ("handler", 70_000), ("handler", 999_999)] {
        let what = format!("{how} {bytes}");
        let record = folder.path().join(format!("{how}-{bytes}"));
        let scene = troubled(how, Path::new(&bytes.to_string()));
        let done = run(&mut recording(&scene, &record), &what);
        assert_counted(&record, &done.stderr, &what);
    }
}

#[test]
fn descriptors_are_closed_and_reused() {
    let folder = support::temp_dir();
    let (record, file) = (folder.path().join("record"), folder.path().join("file"));
    let done = run(&mut recording(&troubled("close", &file), &record), "close");
    assert_eq!(done.stderr, "");
    assert_counted(&record, "", "close");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "data\n");
    // None left to open the file again.
    let record = folder.path().join("none-left");
    let done = run(&mut recording(&troubled("numbers", &file), &record), "numbers");
    assert_counted(&record, &done.stderr, "numbers");
}

#[test]
fn the_directory_is_removed() {
    let folder = support::temp_dir();
    for how in ["remove", "fork"] {
        let record = folder.path().join(how);
        let done = run(&mut recording(&troubled(how, &record), &record), how);
        assert_eq!(done.stderr, "", "{how}: the file is there without a name");
        // A process that begins afterwards makes the job again.
        assert_eq!(record.exists(), how == "fork");
        if how == "fork" {
            let job = Job::open(&record).unwrap();
            assert_eq!(job.processes.len(), 1);
            assert_eq!(recorded(&job.processes[0]).len() as u64, CALLS);
        }
    }
}

/// One thread makes the record; the other does without it, and has it as soon as it is there.
#[test]
fn the_file_system_is_slow() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let mut program = recording(&troubled("none", Path::new("-")), &record);
    let slow = library("slow.c", &["-ldl"]);
    let preloaded = format!("{}:{}", slow.display(), support::preload_library().display());
    let done = run(program.env("LD_PRELOAD", preloaded), "slow");
    assert!(done.stderr.contains(": Connection timed out; "), "{}", done.stderr);
    assert!(done.stderr.ends_with(" goes on without a recording until that is over\n"), "{}", done.stderr);
    assert_counted(&record, &done.stderr, "slow");
    let job = Job::open(&record).unwrap();
    assert_eq!(job.processes[0].header.lost, CALLS / 2);
}

/// "Random settings: one message, no crash."
#[test]
fn settings_that_are_not_understood() {
    let folder = support::temp_dir();
    let long = "x".repeat(5000);
    let kept = [
        "Full",
        "ring:",
        "ring:1",
        "ring:255K",
        "ring:x",
        "ring:-1",
        "ring:99999999999999999999G",
        "ring:256k ",
        "\u{fffd}",
        "%p",
        &long,
    ];
    for (i, value) in kept.into_iter().enumerate() {
        let record = folder.path().join(i.to_string());
        let mut command = recording(&troubled("none", Path::new("-")), &record);
        let done = run(command.env(env::RECORD, value), value);
        assert!(done.stderr.contains("CUPEER_RECORD"), "{value}: {:?}", done.stderr);
        assert_counted(&record, "", value);
    }
    for (i, value) in ["all", "Group", "0770", &long].into_iter().enumerate() {
        let record = folder.path().join(format!("shared-{i}"));
        let mut command = recording(&troubled("none", Path::new("-")), &record);
        let done = run(command.env(env::SHARE, value), value);
        assert!(done.stderr.contains("CUPEER_SHARE"), "{value}: {:?}", done.stderr);
        assert_counted(&record, "", value);
    }
}
