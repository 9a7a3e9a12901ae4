//! Records at home: where a run without `--out` records to, what finds it there, and what removes it.

use crate::programs::{driver, linked, open_job};
use crate::support::{self, Done, cupeer, done, mode, names, temp_dir, wait_for};
use cupeer_spec::env;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The command in a directory, with state of its own below.
fn at(folder: &Path, words: &[&str]) -> Command {
    let mut command = cupeer();
    command.args(words).current_dir(folder).env_remove(env::RECORD).env("LD_LIBRARY_PATH", driver());
    command.env("XDG_STATE_HOME", folder.join("state")).env("TMPDIR", folder.join("tmp"));
    command
}

/// A program that opens what another exported.
fn shared() -> PathBuf {
    linked("shared.c", &[])
}

fn stem() -> String {
    shared().file_name().unwrap().to_str().unwrap().to_owned()
}

#[track_caller]
fn run(folder: &Path) -> Done {
    run_with(folder, "open:5")
}

/// A run in which nothing is wrong.
#[track_caller]
fn run_well(folder: &Path) -> Done {
    run_with(folder, "open:1")
}

#[track_caller]
fn run_with(folder: &Path, action: &str) -> Done {
    let done = done(at(folder, &["run"]).arg(shared()).arg(action));
    assert!(done.status.success(), "{}", done.stderr);
    done
}

/// Returns the output of `cupeer ls`: names, and ends.
fn listed(folder: &Path) -> Vec<(String, String)> {
    let rows: Value = serde_json::from_str(&support::stdout(&mut at(folder, &["ls", "--format", "json"]))).unwrap();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    rows.as_array().unwrap().iter().map(|row| (text(row, "name"), text(row, "end"))).collect()
}

#[test]
fn each_run_has_a_record_that_its_name_finds() {
    let folder = temp_dir();
    let (home, stem) = (folder.path().join("state/cupeer"), stem());
    for n in 1..=2 {
        let says = format!("0 failed; 'cupeer report {stem}-{n}' shows them");
        let ended = run(folder.path());
        assert!(ended.stderr.contains(&says), "{}", ended.stderr);
    }
    assert_eq!(names(folder.path()), ["state"], "nothing is left in the working directory");
    let first = home.join(format!("{stem}-1"));
    assert_eq!(open_job(&first).processes.len(), 1);
    assert_eq!((mode(&home), mode(&first)), (0o700, 0o700));
    assert!(names(&first).iter().all(|name| mode(&first.join(name)) == 0o600));
    let shows = |words: &[&str], n: u32| {
        let text = support::stdout(at(folder.path(), &["report"]).args(words));
        let expected = format!("\nrecording  {}/{stem}-{n}\n", home.display());
        assert!(text.contains(&expected), "{words:?}: {text}");
    };
    shows(&[], 2);
    shows(&["1"], 1);
    shows(&[&format!("{stem}-1")], 1);
    // A file in the working directory comes first.
    fs::create_dir(folder.path().join("1")).unwrap();
    let ended = done(&mut at(folder.path(), &["report", "1"]));
    assert_eq!(ended.stderr, "cupeer: 1 holds no recording\n");
    fs::create_dir(folder.path().join(format!("{stem}-3"))).unwrap();
    let ended = run(folder.path());
    let says = format!("'cupeer report state/cupeer/{stem}-3' shows");
    assert!(ended.stderr.contains(&says), "{}", ended.stderr);
}

#[test]
fn a_program_means_its_newest_record_and_a_wrong_name_the_nearest() {
    let folder = temp_dir();
    let script = folder.path().join("train.py");
    fs::write(&script, format!("import subprocess\nsubprocess.run(['{}', 'open:1'])\n", shared().display())).unwrap();
    for _ in 1..=2 {
        assert!(done(&mut at(folder.path(), &["run", "python3", "-u", "train.py"])).status.success());
    }
    let home = folder.path().join("state/cupeer");
    for named in ["train", "train.py", "./train.py", "train-2", "2"] {
        let text = support::stdout(&mut at(folder.path(), &["report", named]));
        assert!(text.contains(&format!("\nrecording  {}/train-2\n", home.display())), "{named}: {text}");
    }
    // The program is there, too.
    fs::copy(shared(), folder.path().join(stem())).unwrap();
    run(folder.path());
    let text = support::stdout(&mut at(folder.path(), &["report", &stem()]));
    assert!(text.contains(&format!("/{}-3\n", stem())), "{text}");
    let ended = done(&mut at(folder.path(), &["report", "trian"]));
    let none = "cupeer: there is no 'trian' here, and no recording of that name; did you mean 'train'?\n";
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(125), none));
}

#[test]
fn other_commands_take_its_name_too() {
    let folder = temp_dir();
    run(folder.path());
    let packed = done(&mut at(folder.path(), &["pack", "1"]));
    assert!(packed.status.success(), "{}", packed.stderr);
    assert!(folder.path().join(format!("{}-1.cupeer.tar.gz", stem())).exists());
    let diff = support::stdout(&mut at(folder.path(), &["report", "--diff", "1"]));
    assert!(diff.contains("Nothing differs"), "{diff}");
    let list = support::stdout(&mut at(folder.path(), &["release", "1", "--list"]));
    assert_eq!(list, "no known rule makes calls hang\n");
}

#[test]
fn the_home_is_where_the_specification_has_it() {
    let folder = temp_dir();
    let user = folder.path().join("user");
    fs::create_dir(&user).unwrap();
    let mut command = at(folder.path(), &["run"]);
    // One that is not absolute does not count.
    command.env("XDG_STATE_HOME", "state").env("HOME", &user).arg(shared()).arg("open:5");
    assert!(done(&mut command).status.success());
    assert_eq!(names(&user.join(".local/state/cupeer")), [format!("{}-1", stem())]);
    assert_eq!(mode(&user.join(".local")), 0o700);
    assert_eq!(names(folder.path()), ["user"]);
}

/// The program always runs, and is recorded where there is any place at all.
#[test]
fn no_home_is_no_obstacle() {
    let folder = temp_dir();
    fs::create_dir(folder.path().join("tmp")).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let here = folder.path().display().to_string();
    let cases = [
        ("", "/proc", "'/proc/.local/state/cupeer' cannot be made: "),
        (&*format!("{here}/file"), "/", "cannot be made: "),
    ];
    for (state, home, why) in cases {
        let mut command = at(folder.path(), &["run", "--check"]);
        command.env("XDG_STATE_HOME", state).env("HOME", home).arg(shared()).arg("open:5");
        let ended = done(&mut command);
        assert!(ended.status.success(), "{}", ended.stderr);
        let place = format!("the recording is in {here}/tmp/cupeer-{}-", stem());
        assert!(ended.stderr.contains(&place) && ended.stderr.contains(why), "{}", ended.stderr);
        let shown = ended.stderr.split("'cupeer report ").nth(1).unwrap().split('\'').next().unwrap();
        let record = folder.path().join(shown);
        assert_eq!((open_job(&record).processes.len(), mode(&record)), (1, 0o700));
        // A program that has nothing to record hears of no place.
        let mut command = at(folder.path(), &["run", "true"]);
        command.env("XDG_STATE_HOME", state).env("HOME", home);
        assert!(!done(&mut command).stderr.contains("record is in"));
    }
    let mut command = at(folder.path(), &["run"]);
    command.env("XDG_STATE_HOME", "").env("HOME", "").env("TMPDIR", "/proc/nowhere");
    let ended = done(command.arg(shared()).arg("open:5"));
    assert!(ended.status.success(), "{}", ended.stderr);
    let says = format!("cupeer: not recording: '/proc/nowhere/cupeer-{}/records' cannot be made: ", user());
    assert!(ended.stderr.starts_with(&says), "{}", ended.stderr);
}

/// Returns the user id of the tests.
fn user() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

#[test]
fn without_a_home_records_are_found_among_temporary_files() {
    let folder = temp_dir();
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let own = temporary.join(format!("cupeer-{}", user()));
    let nowhere = folder.path().join("nowhere");
    for home in [Path::new(""), Path::new("relative"), &nowhere] {
        let at = |words: &[&str]| {
            let mut command = at(folder.path(), words);
            command.env_remove("XDG_STATE_HOME").env("HOME", home);
            command
        };
        let ended = done(at(&["run"]).arg(shared()).arg("open:5"));
        let says = format!("'cupeer report {}-1' shows them", stem());
        assert!(ended.status.success() && ended.stderr.contains(&says), "{}", ended.stderr);
        assert_eq!((mode(&own), mode(&own.join("records"))), (0o700, 0o700));
        assert!(support::stdout(&mut at(&["ls"])).contains(&format!("{}-1", stem())));
        assert!(support::stdout(&mut at(&["report"])).contains("/records/"));
        support::stdout(&mut at(&["clean", "--yes"]));
        assert_eq!(support::stdout(&mut at(&["ls", "--format", "json"])).trim(), "[]");
    }
    assert!(!nowhere.exists());
    // A directory with a name is created, independent of HOME.
    let mut command = at(folder.path(), &["run"]);
    command.env("XDG_STATE_HOME", nowhere.join("state")).env("HOME", &nowhere).arg(shared()).arg("open:5");
    assert!(done(&mut command).status.success());
    assert_eq!(names(&nowhere.join("state/cupeer")), [format!("{}-1", stem())]);
    // Others can put there what they like.
    fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = at(folder.path(), &["ls"]);
    let ended = done(command.env_remove("XDG_STATE_HOME").env("HOME", ""));
    assert_eq!(ended.stderr, format!("cupeer: others can write to '{}'\n", own.display()));
}

#[test]
fn the_parents_of_a_named_directory_are_made() {
    let folder = temp_dir();
    let ended = done(at(folder.path(), &["run", "-o", "a/b/c"]).arg(shared()).arg("open:5"));
    assert!(ended.status.success() && ended.stderr.contains("'cupeer report a/b/c' shows"), "{}", ended.stderr);
    assert_eq!(open_job(&folder.path().join("a/b/c")).processes.len(), 1);
}

#[test]
fn a_run_that_records_nothing_says_so_and_no_report_is_taken_for_its_own() {
    let folder = temp_dir();
    let older = "cupeer: the last run, of 'true', recorded nothing; this is the recording of an earlier run\n";
    for _ in 0..2 {
        run(folder.path());
        assert_eq!(done(&mut at(folder.path(), &["report"])).stderr, "");
        let ended = done(&mut at(folder.path(), &["run", "true"]));
        let says = "cupeer: no process loaded the CUDA driver (libcuda.so.1), so there is nothing to report; ";
        assert!(ended.status.success() && ended.stderr.starts_with(says), "{}", ended.stderr);
        assert_eq!(done(&mut at(folder.path(), &["report"])).stderr, older);
        // No note is needed if the user names a recording.
        assert_eq!(done(&mut at(folder.path(), &["report", "1"])).stderr, "");
    }
}

#[test]
fn somebody_elses_directory_is_not_written_to() {
    let folder = temp_dir();
    fs::create_dir(folder.path().join("tmp")).unwrap();
    let home = folder.path().join("state/cupeer");
    fs::create_dir_all(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).unwrap();
    let ended = run(folder.path());
    let says = format!("because others can write to '{}'", home.display());
    assert!(ended.stderr.contains(&says), "{}", ended.stderr);
    assert_eq!(names(&home), [""; 0]);
}

#[test]
fn the_last_twenty_are_kept_and_what_is_not_a_record() {
    let folder = temp_dir();
    let home = folder.path().join("state/cupeer");
    run_well(folder.path());
    for number in 2..=20 {
        let record = home.join(format!("old-{number}"));
        fs::create_dir(&record).unwrap();
        cupeer_record::writer::write_job_file(&record).unwrap();
    }
    let foreign = home.join("thesis-0");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.tex"), "").unwrap();
    fs::create_dir(folder.path().join("elsewhere")).unwrap();
    cupeer_record::writer::write_job_file(&folder.path().join("elsewhere")).unwrap();
    symlink(folder.path().join("elsewhere"), home.join("link-0")).unwrap();
    let ended = run_well(folder.path());
    let says = format!(
        "cupeer: deleted {}-1: the last 20 are kept, the last 100 with a problem, and 1GiB in all; to keep one, rename it or use --out\n",
        stem()
    );
    assert!(ended.stderr.contains(&says), "{}", ended.stderr);
    // Once a day is enough, and -v always prints it.
    assert!(fs::remove_file(home.join(".told-deleted")).is_ok());
    for (options, is_told) in [(&["run"][..], true), (&["run"], false), (&["run", "-v"], true)] {
        let ended = done(at(folder.path(), options).arg(shared()).arg("open:1"));
        assert_eq!(ended.stderr.contains("cupeer: deleted old-"), is_told, "{}", ended.stderr);
    }
    let kept = names(&home);
    assert!(!kept.contains(&format!("{}-1", stem())), "the oldest goes: {kept:?}");
    assert_eq!(kept.len(), 23);
    for stays in ["thesis-0", "link-0", "old-5", "old-20", &format!("{}-24", stem())] {
        assert!(kept.contains(&stays.to_owned()), "{stays}: {kept:?}");
    }
    assert!(folder.path().join("elsewhere/job").exists());
}

#[test]
fn a_run_with_a_death_outlasts_those_without() {
    let folder = temp_dir();
    let home = folder.path().join("state/cupeer");
    let killed =
        done(at(folder.path(), &["run"]).args(["sh", "-c"]).arg(format!("{} open:1; kill -9 $$", shared().display())));
    assert!(killed.stderr.contains("SIGKILL"), "{}", killed.stderr);
    for number in 2..=21 {
        let record = home.join(format!("old-{number}"));
        fs::create_dir(&record).unwrap();
        cupeer_record::writer::write_job_file(&record).unwrap();
    }
    let ended = run_well(folder.path());
    assert!(ended.stderr.contains("cupeer: deleted old-2: the last 20 are kept, "), "{}", ended.stderr);
    assert!(names(&home).contains(&"sh-1".to_owned()), "{:?}", names(&home));
}

#[test]
fn a_run_in_progress_is_listed_and_stays() {
    let folder = temp_dir();
    let mut command = at(folder.path(), &["run", "sh", "-c"]);
    // The waiting program has not reached the driver, and nothing of it runs afterwards.
    let script = format!("{} open:5; read line", shared().display());
    let mut running = command.arg(script).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let home = folder.path().join("state/cupeer");
    wait_for("the recording", || listed(folder.path()).iter().any(|(_, end)| end == "running"));
    let name = names(&home).remove(0);
    let cleaned = support::stdout(&mut at(folder.path(), &["clean", "--all"]));
    assert_eq!(cleaned, format!("kept {name}, which is in progress\ndeleted nothing in {}\n", home.display()));
    drop(running.stdin.take());
    running.wait().unwrap();
    assert_eq!(listed(folder.path()).len(), 1);
    let cleaned = support::stdout(&mut at(folder.path(), &["clean"]));
    assert!(cleaned.starts_with(&format!("deleted {name}, ")) && cleaned.lines().count() == 1, "{cleaned}");
    assert_eq!(names(&home), [""; 0]);
}

/// Returns stderr and stdout of `cupeer clean` when somebody types an answer on its terminal.
fn cleaned(folder: &Path, words: &[&str], answer: &str) -> (String, String) {
    let (mut master, terminal) = support::terminal();
    master.write_all(answer.as_bytes()).unwrap();
    let done = done(at(folder, &["clean"]).args(words).stdin(Stdio::from(terminal)));
    assert!(done.status.success(), "{}", done.stderr);
    (done.stderr, done.stdout)
}

#[test]
fn cleaning_asks_on_a_terminal() {
    let folder = temp_dir();
    (0..2).for_each(|_| drop(run(folder.path())));
    let name = |n: u32| format!("{}-{n}", stem());
    let asks = format!("Delete 2 recordings, {} to {} (", name(1), name(2));
    for answer in ["n\n", "\n", "perhaps\n"] {
        let (asked, printed) = cleaned(folder.path(), &[], answer);
        assert!(asked.starts_with(&asks) && asked.ends_with(")? [y/N] "), "{asked}");
        assert_eq!(printed, "deleted nothing\n");
        assert_eq!(listed(folder.path()).len(), 2);
    }
    let (asked, _) = cleaned(folder.path(), &["--keep", "1"], "y\n");
    assert!(asked.starts_with(&format!("Delete recording {} (", name(1))), "{asked}");
    assert_eq!(listed(folder.path()).len(), 1);
    let (asked, printed) = cleaned(folder.path(), &["--yes"], "");
    assert!(asked.is_empty() && printed.starts_with(&format!("deleted {}, ", name(2))), "{asked}{printed}");
    let (asked, _) = cleaned(folder.path(), &[], "");
    assert!(asked.is_empty(), "there is nothing to delete: {asked}");
}

#[test]
fn cleaning_keeps_the_newest_and_what_was_renamed() {
    let folder = temp_dir();
    let home = folder.path().join("state/cupeer");
    (0..3).for_each(|_| drop(run(folder.path())));
    fs::rename(home.join(format!("{}-1", stem())), home.join("baseline")).unwrap();
    let listed = |folder: &Path| -> Vec<String> { listed(folder).into_iter().map(|row| row.0).collect() };
    let name = |n: u32| format!("{}-{n}", stem());
    assert_eq!(listed(folder.path()), [name(3), name(2), "baseline".into()]);
    support::stdout(&mut at(folder.path(), &["clean", "--keep", "1"]));
    assert_eq!(listed(folder.path()), [name(3), "baseline".into()]);
    support::stdout(&mut at(folder.path(), &["clean"]));
    assert_eq!(listed(folder.path()), ["baseline"]);
    let shown = support::stdout(&mut at(folder.path(), &["report", "baseline"]));
    assert!(shown.contains("\nrecording  "), "{shown}");
}

#[test]
fn the_table_says_how_each_ended() {
    let folder = temp_dir();
    let text = support::stdout(&mut at(folder.path(), &["ls"]));
    assert_eq!(text, format!("there are no recordings in {}/state/cupeer\n", folder.path().display()));
    let script = format!("{} open:5; exit 3", shared().display());
    done(at(folder.path(), &["run", "sh", "-c"]).arg(script));
    run(folder.path());
    let text = support::stdout(at(folder.path(), &["ls"]).env("COLUMNS", "160"));
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[0].starts_with("NAME ") && rows[0].contains("PROCESSES"), "{text}");
    assert!(rows[1].starts_with(&format!("{}-2 ", stem())) && rows[1].ends_with("open:5"), "{text}");
    assert!(rows.len() == 3 && rows[1].contains("  exit 0  "), "{text}");
    assert!(rows[2].starts_with("sh-1 ") && rows[2].contains("  exit 3 (sh)  "), "{text}");
    // On a narrow terminal, too, a record is a line.
    let text = support::stdout(at(folder.path(), &["ls"]).env("COLUMNS", "80"));
    assert!(text.lines().count() == 3 && text.contains("...\n"), "{text}");
    // A pipe has no end of the line.
    let text = support::stdout(at(folder.path(), &["ls"]).env_remove("COLUMNS"));
    assert!(text.lines().nth(1).unwrap().ends_with("open:5") && !text.contains("..."), "{text}");
}

/// The arguments of the processes that make calls name no script.
#[test]
fn the_script_behind_multiprocessing_is_listed() {
    let folder = temp_dir();
    let script = folder.path().join("train.py");
    let text = "import ctypes\nimport multiprocessing\ndef ask():\n    cuda = ctypes.CDLL('libcuda.so.1')\n    \
                cuda.cuInit(0)\n    cuda.cuDeviceCanAccessPeer(ctypes.byref(ctypes.c_int()), 0, 1)\n\
                if __name__ == '__main__':\n    multiprocessing.set_start_method('METHOD')\n    \
                child = multiprocessing.Process(target=ask)\n    child.start()\n    child.join()\n";
    for method in ["spawn", "forkserver"] {
        fs::write(&script, text.replace("METHOD", method)).unwrap();
        let ended = done(&mut at(folder.path(), &["run", "python3", "train.py", "--steps=3"]));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let listed = support::stdout(at(folder.path(), &["ls"]).env("COLUMNS", "160"));
        let first = listed.lines().nth(1).unwrap();
        assert!(first.contains("train.py --steps=3") && !first.contains("multiprocessing"), "{method}: {listed}");
        // The script has its place in 80 columns, too.
        let listed = support::stdout(at(folder.path(), &["ls"]).env("COLUMNS", "80"));
        let first = listed.lines().nth(1).unwrap();
        assert!(first.contains(" train") && first.chars().count() <= 80, "{method}: {listed}");
    }
}

#[test]
fn nobody_shares_what_lies_at_home() {
    support::refused(
        &["run", "--record", "full", "--share", "group", "true"],
        "--share needs --out DIR: nobody else reaches your own records",
    );
}

#[test]
fn a_sweep_is_kept_at_home_and_found_there() {
    let folder = temp_dir();
    let careless = support::compile_c("programs/sweep/careless.c", &["-ldl"]);
    let mut command = at(folder.path(), &["sweep", "--sim", "--codes", "one", "--timeout", "60s", "--"]);
    let swept = done(command.arg(&careless).arg("crash"));
    assert_eq!(swept.status.code(), Some(1), "{}", swept.stderr);
    let name = format!("sweep-{}-1", careless.file_name().unwrap().to_str().unwrap());
    assert!(names(&folder.path().join("state/cupeer")).contains(&name));
    assert_eq!(listed(folder.path()), [(name.clone(), "4 runs".to_owned())]);
    let kept = swept.stdout.lines().find_map(|line| line.strip_prefix("   record: ")).expect("a recording");
    let run = format!("1/{}", kept.rsplit('/').next().unwrap());
    let shown = support::stdout(&mut at(folder.path(), &["report", &run]));
    assert!(shown.contains("\nrecording  "), "{shown}");
    let refused = done(&mut at(folder.path(), &["report", &name]));
    assert!(refused.stderr.contains("is a sweep; its runs have records, such as "), "{}", refused.stderr);
    // It is no record of a run.
    let none = done(&mut at(folder.path(), &["report"]));
    assert!(none.stderr.starts_with("cupeer: there is no recording in "), "{}", none.stderr);
}
