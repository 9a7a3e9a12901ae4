//! Files are written to their own places: no planted link is followed.

use super::{caller, is_given_away, limited, make_pipe, set_mode};
use crate::support::{self, done, temp_dir, with};
use cupeer_spec::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

const SECRET: &str = "what the victim wrote\n";

fn victim(folder: &Path) -> std::path::PathBuf {
    let victim = folder.join("victim");
    fs::write(&victim, SECRET).unwrap();
    set_mode(&victim, 0o600);
    victim
}

#[track_caller]
fn assert_untouched(victim: &Path, what: &str) {
    assert_eq!(fs::read_to_string(victim).unwrap(), SECRET, "{what}");
    assert_eq!(victim.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{what}");
}

/// The name of the temporary file for `job` can be guessed.
#[test]
fn a_link_that_waits_for_the_file_of_a_job_is_not_followed() {
    for share in ["", "--share group"] {
        let folder = temp_dir();
        let victim = victim(folder.path());
        let record = folder.path().join("record");
        fs::create_dir(&record).unwrap();
        set_mode(&record, 0o777);
        // exec keeps the number of the process.
        let script =
            format!("ln -s \"$0\" \"$1/.job-$$\"; exec \"$2\" run --sim -o \"$1\" --record full {share} -- true");
        let mut command = support::plain("sh");
        command.args(["-c", &script]).arg(&victim).arg(&record).arg(support::install().join("bin/cupeer"));
        let ended = done(&mut command);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert_untouched(&victim, share);
        let job = record.join("job").symlink_metadata().unwrap();
        let mode = if share.is_empty() { 0o600 } else { 0o660 };
        assert_eq!((job.is_file(), job.mode() & 0o777), (true, mode), "{share}");
    }
}

/// All names that can be known before, at once: a run ends as it would, or is refused, and nothing is written elsewhere.
#[test]
fn links_at_all_names_of_a_record_are_not_followed() {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for name in ["job".to_owned(), format!("live-{}", &boot[..8]), "vllm-cache".to_owned()] {
        let folder = temp_dir();
        let victim = victim(folder.path());
        let record = folder.path().join("record");
        fs::create_dir(&record).unwrap();
        symlink(&victim, record.join(&name)).unwrap();
        let mut command = with(&["run", "--sim", "--record", "full", "--deny-peer", "all", "--check", "-o"]);
        let ended = done(&mut limited(command.arg(&record).arg("--").arg(caller())));
        assert_untouched(&victim, &name);
        let is_refused = ended.status.code() == Some(125);
        assert_eq!(is_refused, name != format!("live-{}", &boot[..8]), "{name}: {}", ended.stderr);
        if is_refused {
            assert!(ended.stderr.contains(&name) && ended.stderr.contains("link"), "{}", ended.stderr);
        }
    }
}

fn logging(log: &Path) -> Command {
    let mut command = with(&["run", "--sim", "--log", "text", "--trace", "all", "--log-file"]);
    command.arg(log).arg("--").arg(caller());
    limited(&command)
}

/// Past the command, which looks before: as a program's children and containers have it.
fn logging_alone(log: &Path) -> Command {
    let mut command = support::plain(caller());
    command
        .env("LD_PRELOAD", support::preload_library())
        .env("LD_LIBRARY_PATH", support::sim_dir())
        .env(env::LOG, "text")
        .env(env::TRACE, "all")
        .env(env::LOG_FILE, log);
    limited(&command)
}

#[test]
fn a_log_goes_through_links_of_ones_own_and_to_what_is_no_file() {
    let folder = temp_dir();
    let log = folder.path().join("log");
    symlink("target", folder.path().join("link")).unwrap();
    for command in [logging, logging_alone] {
        for name in ["log", "link"] {
            let ended = done(&mut command(&folder.path().join(name)));
            assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("done\n", ""), "{name}");
        }
        assert!(fs::read_to_string(folder.path().join("target")).unwrap().contains("cuIpcCloseMemHandle"));
        assert!(fs::read_to_string(&log).unwrap().contains("cuIpcCloseMemHandle"));
        let ended = done(&mut command(Path::new("/dev/stderr")));
        assert!(ended.stderr.contains("cuIpcCloseMemHandle") && ended.stdout == "done\n", "{}", ended.stderr);
        let ended = done(&mut command(Path::new("/dev/null")));
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("done\n", ""));
    }
}

#[test]
fn a_log_follows_no_link_of_somebody_else_where_everybody_makes_files() {
    let folder = temp_dir();
    let victim = victim(folder.path());
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    let (link, file) = (shared.join("link"), shared.join("file"));
    symlink(&victim, &link).unwrap();
    fs::write(&file, "").unwrap();
    set_mode(&file, 0o666);
    if !is_given_away(&link) || !is_given_away(&file) {
        return;
    }
    for (planted, what) in [(&link, "a link"), (&file, "a file")] {
        let ended = done(&mut logging(planted));
        let sentence = format!("it is {what} of user 65534, in a directory where others can write; name another file");
        assert!(ended.status.code() == Some(125) && ended.stderr.contains(&sentence), "{}", ended.stderr);
        let ended = done(&mut logging_alone(planted));
        assert!(ended.stdout == "done\n" && ended.stderr.contains("cannot write the log"), "{}", ended.stderr);
        assert_untouched(&victim, what);
        assert_eq!(fs::read_to_string(&file).unwrap(), "", "{what}");
    }
    // If only the owner creates links in a directory, they are trusted.
    let private = folder.path().join("private");
    fs::create_dir(&private).unwrap();
    symlink(folder.path().join("log"), private.join("link")).unwrap();
    assert!(is_given_away(&private) && is_given_away(&private.join("link")));
    assert_eq!(done(&mut logging_alone(&private.join("link"))).stderr, "");
    assert!(fs::read_to_string(folder.path().join("log")).unwrap().contains("cuIpcCloseMemHandle"));
}

/// A report and a topology are files that the user names, as a log is.
#[test]
fn an_output_follows_no_link_of_somebody_else_where_everybody_makes_files() {
    let folder = temp_dir();
    let victim = victim(folder.path());
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    let write = |output: &Path| {
        let mut command = with(&["doctor", "--sim", "--output"]);
        done(&mut limited(command.arg(output)))
    };
    // One's own is followed.
    symlink(folder.path().join("there"), shared.join("own")).unwrap();
    fs::write(folder.path().join("there"), "").unwrap();
    write(&shared.join("own"));
    assert!(fs::read_to_string(folder.path().join("there")).unwrap().starts_with('{'));
    let (link, file, pipe) = (shared.join("link"), shared.join("file"), shared.join("pipe"));
    symlink(&victim, &link).unwrap();
    fs::write(&file, "").unwrap();
    set_mode(&file, 0o666);
    make_pipe(&pipe);
    if ![&link, &file, &pipe].into_iter().all(|planted| is_given_away(planted)) {
        return;
    }
    for (planted, what) in [(&link, "a link"), (&file, "a file"), (&pipe, "a file")] {
        let ended = write(planted);
        let sentence = format!("it is {what} of user 65534, in a directory where others can write");
        assert!(ended.status.code() == Some(125) && ended.stderr.contains(&sentence), "{}", ended.stderr);
        assert_untouched(&victim, what);
        assert!(link.is_symlink() && fs::metadata(&file).unwrap().len() == 0, "{what}");
    }
}

/// An export goes where the user says, and is compared with those beside it, which may be anybody's.
#[test]
fn an_export_follows_no_link_and_waits_for_no_pipe_of_somebody_else() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut run = with(&["run", "--sim", "--record", "full", "-o"]);
    assert_eq!(done(run.arg(&record).arg("--").arg(caller())).stdout, "done\n");
    let (shared, private) = (folder.path().join("shared"), folder.path().join("private"));
    for (directory, mode) in [(&shared, 0o1777), (&private, 0o700)] {
        fs::create_dir(directory).unwrap();
        set_mode(directory, mode);
    }
    let (beside, link) = (shared.join("beside"), shared.join("link"));
    fs::create_dir(&beside).unwrap();
    make_pipe(&beside.join("_cupeer.json"));
    let export = |output: &Path| {
        let mut command = with(&["export", "-o"]);
        done(&mut limited(command.arg(output).arg(&record)))
    };
    let ended = export(&shared.join("own"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    symlink(&private, &link).unwrap();
    if is_given_away(&link) {
        let ended = export(&link);
        assert!(
            ended.status.code() == Some(125) && ended.stderr.contains("it is a link of user 65534"),
            "{}",
            ended.stderr
        );
        assert_eq!(fs::read_dir(&private).unwrap().count(), 0);
    }
}
