//! Directories of exports, and errors about them.

use super::{command, export, scene};
use crate::support::{self, done, names, temp_dir};
use std::fs;

#[test]
fn an_export_replaces_only_an_export_and_only_when_asked() {
    let (scene, folder) = (scene(), temp_dir());
    let out = folder.path().join("out");
    export(&scene.dir(), &out, &[]);
    let refused = done(&mut command(&scene.dir(), &out, &[]));
    let shown = out.display();
    assert_eq!(refused.stderr, format!("cupeer: {shown} holds an export; --force replaces it\n"));
    assert_eq!(refused.status.code(), Some(125));
    export(&scene.dir(), &out, &["--force"]);
    fs::write(out.join("call/mine.txt"), "mine").unwrap();
    let refused = done(&mut command(&scene.dir(), &out, &["--force"]));
    assert!(refused.stderr.contains("call/mine.txt, which is not a part of it"), "{}", refused.stderr);
    assert!(out.join("call/mine.txt").exists() && out.join("_cupeer.json").exists());
    let refused = done(&mut command(&scene.dir(), &scene.dir(), &["--force"]));
    assert!(refused.stderr.contains("is not empty, and holds no export"), "{}", refused.stderr);
    assert_eq!(names(folder.path()), ["out"], "nothing is left beside");
}

#[test]
fn a_wrong_command_line_is_told_what_is_wrong() {
    let (scene, folder) = (scene(), temp_dir());
    let record = scene.dir();
    let out = folder.path().join("out");
    let said = |command: &mut std::process::Command| {
        let ended = done(command);
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(125), ""), "{}", ended.stderr);
        ended.stderr
    };
    let none = said(&mut command(&folder.path().join("none"), &out, &[]));
    assert!(none.contains("cannot be read: No such file"), "{none}");
    let none = said(&mut command(&record, &folder.path().join("none/out"), &[]));
    assert!(none.contains("none is no directory, so nothing can be written there"), "{none}");
    let mut other = support::cupeer();
    other.arg("export").arg(&record).args(["--to", "csv", "-o"]).arg(&out);
    let other = said(&mut other);
    assert!(other.contains("invalid value 'csv'") && other.contains("parquet"), "{other}");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let empty = said(&mut command(&empty, &out, &[]));
    assert!(empty.contains("holds no recording"), "{empty}");
    let unnamed = said(&mut command(&record, &out, &["--job", ""]));
    assert!(unnamed.contains("--job needs a name"), "{unnamed}");
    assert!(!out.exists());
}

#[test]
fn an_export_that_does_not_fit_leaves_nothing() {
    let (scene, folder) = (scene(), temp_dir());
    let out = folder.path().join("out");
    let export = command(&scene.dir(), &out, &[]);
    let mut limited = support::plain("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$@\"", "sh"])
        .arg(export.get_program())
        .args(export.get_args());
    let ended = done(&mut limited);
    assert_eq!(ended.status.code(), Some(125), "{}", ended.stderr);
    assert!(ended.stderr.contains("failed to write ") && ended.stderr.contains("File too large"), "{}", ended.stderr);
    assert_eq!(names(folder.path()), [] as [&str; 0], "nothing is left");
}
