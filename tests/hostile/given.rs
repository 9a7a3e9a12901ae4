//! Directories and files that are given to cupeer, and are not what they should be.

use super::{caller, is_given_away, limited, make_pipe};
use crate::programs::{Cupeer, Scene, linked};
use crate::support::{self, done, temp_dir, with};
use cupeer_record::writer::{self, About, Writer};
use cupeer_spec::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

/// Makes something of that kind.
fn put(kind: &str, path: &Path) {
    match kind {
        "a pipe" => make_pipe(path),
        "a link" => symlink("/dev/zero", path).unwrap(),
        "a directory" => fs::create_dir(path).unwrap(),
        _ => File::create(path).unwrap().set_len(1 << 40).unwrap(),
    }
}

const KINDS: [(&str, &str); 4] = [
    ("a pipe", "it is a pipe, not a file"),
    ("a link", "it is a link, not a file"),
    ("a directory", "it is a directory, not a file"),
    ("sparse", "the file is larger than 1 MiB"),
];

#[test]
fn a_job_that_is_none_is_refused_at_once() {
    for (kind, sentence) in KINDS {
        let folder = temp_dir();
        put(kind, &folder.path().join("job"));
        let mut command = with(&["run", "--sim", "--record", "full", "-o"]);
        let ended = done(&mut limited(command.arg(folder.path()).args(["--", "true"])));
        assert!(
            ended.status.code() == Some(125) && ended.stderr.contains(sentence),
            "{kind}: {} {}",
            ended.status,
            ended.stderr
        );
        // The library alone goes on without a record, and says so.
        let mut command = support::plain(caller());
        command.env("LD_PRELOAD", support::preload_library()).env("LD_LIBRARY_PATH", support::sim_dir());
        command.env(env::OUT, folder.path()).env(env::RECORD, "full");
        let ended = done(&mut limited(&command));
        assert_eq!(ended.stdout, "done\n", "{kind}: {}", ended.stderr);
        assert!(kind == "sparse" || ended.stderr.contains("record"), "{kind}: {}", ended.stderr);
        // A reader continues behind it, and reports it.
        let mut writer = Writer::create(folder.path(), About::default()).unwrap();
        writer.text("cupeer", "0.1.0").unwrap();
        writer.finish().unwrap();
        for args in [&["report"][..], &["release"], &["pack", "-o", "/dev/null/x"]] {
            let mut command = with(args);
            let ended = done(&mut limited(command.arg(folder.path())));
            assert!([Some(0), Some(125)].contains(&ended.status.code()), "{kind} {args:?}: {}", ended.status);
        }
    }
}

#[test]
fn a_job_of_somebody_else_is_for_those_who_share() {
    let folder = temp_dir();
    writer::write_job_file(folder.path()).unwrap();
    if !is_given_away(&folder.path().join("job")) {
        return;
    }
    let run = |share: &[&str]| {
        let mut command = with(&["run", "--sim", "--record", "full", "-o"]);
        done(&mut limited(command.arg(folder.path()).args(share).arg("--").arg(caller())))
    };
    let ended = run(&[]);
    assert!(
        ended.status.code() == Some(125) && ended.stderr.contains("job' belongs to user 65534"),
        "{}",
        ended.stderr
    );
    assert_eq!(run(&["--share", "group"]).stdout, "done\n");
    // In a directory of the same user: as a container has it that runs as root.
    assert!(is_given_away(folder.path()));
    assert_eq!(run(&[]).stdout, "done\n");
}

/// A table that another user can truncate would end the program.
#[test]
fn a_table_of_somebody_else_is_for_those_who_share() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let scene = |commands: &str| Scene::new(linked("shared.c", &[])).args(&commands.split(' ').collect::<Vec<_>>());
    let command = |commands: &str, share: bool| {
        let mut command = scene(commands).command(Cupeer::Recording, folder.path());
        command.env(env::OUT, &record).env(env::CHECK, "warnings").env_remove("FAKE_DRIVER_LOG");
        if share {
            command.env(env::SHARE, "group");
        }
        command
    };
    assert!(done(&mut command("export:5", false)).status.success());
    let table = fs::read_dir(&record).unwrap().flatten().map(|entry| entry.path());
    let table = table.into_iter().find(|path| path.to_str().unwrap().contains("/live-")).unwrap();
    if !is_given_away(&table) {
        return;
    }
    let ended = done(&mut command("export:6", true));
    assert_eq!(ended.stderr, "");
    let mut child = command("wait export:6 open:7 close:7 free:6 wait", false)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    lines.next().unwrap().unwrap();
    // It is mapped by now, where it is. The next calls look into it.
    File::options().write(true).open(&table).unwrap().set_len(0).unwrap();
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}: {said}", ended.status);
    assert!(said.contains("it belongs to another user; several users record together with --share group"), "{said}");
}

#[test]
fn pipes_are_neither_plans_nor_drivers_nor_packs() {
    let folder = temp_dir();
    let pipe = folder.path().join("pipe");
    make_pipe(&pipe);
    let pipe = pipe.to_str().unwrap();
    let at = |option: &str| format!("{option}={pipe}");
    for (args, sentence) in [
        (
            &["run", "--sim", "--inject-file", pipe, "--", "true"][..],
            "it is a pipe, not a file; a fault plan is a regular file",
        ),
        (&["run", "--driver", pipe, "--", "true"], "it is a pipe, not a file"),
        (&["run", &at("--sim"), "--", "true"], "not a regular file, as a topology must be"),
        (&["run", "--sim", "--inject-file", "/dev/stdin", "--", "true"], "not a file; a fault plan is a regular file"),
        (&["run", "--sim", "--inject-file", "/dev/zero", "--", "true"], "it is a device, not a file"),
        (&["doctor", "--driver", pipe], "it is a pipe, not a file"),
        (&["doctor", "--between", pipe, pipe], "it is a pipe, not a file"),
        (&["report", pipe], ""),
        (&["pack", pipe, "-o", "/dev/null/x"], ""),
        (&["run", "--sim", "--", pipe], ""),
    ] {
        let ended = done(&mut limited(&with(args)));
        let code = ended.status.code();
        assert!([Some(125), Some(126)].contains(&code), "{args:?}: {code:?} {}", ended.stderr);
        assert!(ended.stderr.contains(sentence), "{args:?}: {}", ended.stderr);
    }
    // As a shell has it: `--inject-file <(echo ...)`.
    let mut command = limited(&with(&["run", "--sim", "--inject-file", "/dev/stdin", "--", "true"]));
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"@ipc:hang\n").unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("it is a pipe, not a file; a fault plan is a regular file"), "{said}");
}

/// To read all of a hole would take as long as somebody wants it to.
#[test]
fn holes_are_not_packed() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    fs::create_dir(&record).unwrap();
    let make = |pid: u32| {
        let mut writer = Writer::create(&record, About { pid, ..About::default() }).unwrap();
        writer.text("cupeer", "0.1.0").unwrap();
        writer.finish().unwrap()
    };
    make(1);
    let path = make(2);
    let file = File::options().write(true).open(&path).unwrap();
    // tmpfs and others have less.
    if file.set_len(1 << 42).is_err() {
        return left_out!("files of this file system cannot be that long");
    }
    let mut command = with(&["pack", "-o"]);
    let ended = done(&mut limited(command.arg(folder.path().join("packed")).arg(&record)));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("it has 4095 GiB of holes, more than any recording"), "{}", ended.stderr);
    // As long as a ring may be that was not needed.
    file.set_len(256 << 20).unwrap();
    let mut command = with(&["pack", "--force", "-o"]);
    let ended = done(&mut limited(command.arg(folder.path().join("packed")).arg(&record)));
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
}

/// Its blocks would be zeros on the whole disk.
#[test]
fn a_ring_that_no_memory_holds_is_refused() {
    for size in ["9223372036854775808", "18446744073709551615", "1025G"] {
        let kept = format!("--record=ring:{size}");
        let ended = done(&mut with(&["run", "--sim", &kept, "--", "true"]));
        assert!(
            ended.status.code() == Some(125) && ended.stderr.contains("a SIZE is at least 1M and at most 1024G"),
            "{}",
            ended.stderr
        );
        let folder = temp_dir();
        let mut command = support::plain(caller());
        command.env("LD_PRELOAD", support::preload_library()).env("LD_LIBRARY_PATH", support::sim_dir());
        command.env(env::OUT, folder.path().join("record")).env(env::RECORD, format!("ring:{size}"));
        let ended = done(&mut limited(&command));
        assert!(
            ended.stdout == "done\n" && ended.stderr.contains("a SIZE is at least 1M and at most 1024G; using auto"),
            "{}",
            ended.stderr
        );
        assert!(crate::programs::open_job(&folder.path().join("record")).processes.len() == 1);
    }
}
