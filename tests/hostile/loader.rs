//! Files for the dynamic loader belong only to users who could have replaced the command.

use super::{is_given_away, limited, set_mode};
use crate::support::{self, compile_text, copy_program, done, temp_dir};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An installation of its own: the command and its libraries in one directory.
fn installed(directory: &Path) -> PathBuf {
    let real = support::install();
    fs::create_dir(directory).unwrap();
    for name in ["bin/cupeer", "lib/cupeer/libcupeer.so", "lib/cupeer/libcupeer_sim.so"] {
        copy_program(&real.join(name), &directory.join(Path::new(name).file_name().unwrap()));
    }
    directory.join("cupeer")
}

/// Says whether somebody's library was loaded.
fn program() -> PathBuf {
    let text = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    puts(dlopen("libpeculiar.so", RTLD_NOW) ? "planted" : "none");
    return !dlopen("libcuda.so.1", RTLD_NOW);
}
"#;
    compile_text("loads", text, &["-ldl"])
}

fn run(command: &Path) -> Command {
    let mut command = support::plain(command);
    limited(command.args(["run", "--sim", "--record", "off", "--"]).arg(program()))
}

fn plant(directory: &Path) {
    fs::create_dir(directory).unwrap();
    let library = compile_text("peculiar", "int peculiar;\n", &["-shared", "-fPIC"]);
    fs::copy(library, directory.join("libpeculiar.so")).unwrap();
}

#[test]
fn libraries_that_somebody_has_planted_are_not_loaded() {
    let folder = temp_dir();
    let place = folder.path().join("place");
    let cupeer = installed(&place);
    set_mode(&place, 0o1777);
    let planted = place.join("cupeer-sim");
    plant(&planted);
    set_mode(&planted, 0o777);
    let said = |reason: &str| {
        format!(
            "cupeer: refused to load libraries by way of '{}': {reason}, or install cupeer where only you can \
             write; using a directory of the user instead\n",
            planted.display()
        )
    };
    let ended = done(&mut run(&cupeer));
    assert_eq!(ended.stderr, said("everybody can write there; remove that right (chmod o-w)"));
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "none\n"));
    set_mode(&planted, 0o755);
    if is_given_away(&planted) {
        let ended = done(&mut run(&cupeer));
        assert_eq!(ended.stderr, said("it belongs to user 65534; remove it"));
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "none\n"));
    }
}

#[test]
fn a_library_that_somebody_else_could_change_is_refused() {
    for (name, mode) in [("libcupeer.so", 0o755), ("libcupeer_sim.so", 0o755), ("libcupeer.so", 0o777), ("", 0o777)] {
        let folder = temp_dir();
        let place = folder.path().join("place");
        let cupeer = installed(&place);
        set_mode(&place.join(name), mode);
        if mode == 0o755 && !is_given_away(&place.join(name)) {
            continue;
        }
        let ended = done(&mut run(&cupeer));
        let sentence = format!("refused to load libraries by way of '{}", place.join(name).display());
        let sentence = sentence.trim_end_matches('/');
        assert!(
            ended.status.code() == Some(125) && ended.stderr.contains(sentence),
            "{name} {mode:o}: {} {}",
            ended.status,
            ended.stderr
        );
    }
}

/// These installations still run: prefixes of a group, directories in which all users have files of their own, links to the
/// files, and installations of another user.
#[test]
fn installations_of_many_kinds_run() {
    let check = |cupeer: &Path, what: &str| {
        let ended = done(&mut run(cupeer));
        assert_eq!(
            (ended.status.code(), ended.stdout.as_str(), ended.stderr.as_str()),
            (Some(0), "none\n", ""),
            "{what}"
        );
    };
    let folder = temp_dir();
    let place = folder.path().join("group");
    let cupeer = installed(&place);
    for path in [place.clone(), cupeer.clone(), place.join("libcupeer.so"), place.join("libcupeer_sim.so")] {
        // 12345 is nobody's own group.
        let _ = std::os::unix::fs::chown(&path, None, Some(12345));
        set_mode(&path, 0o775);
    }
    check(&cupeer, "a group's");
    check(&cupeer, "a group's, again");

    let place = folder.path().join("flat");
    let cupeer = installed(&place);
    set_mode(&place, 0o1777);
    check(&cupeer, "everybody's");

    let place = folder.path().join("linked");
    let cupeer = installed(&place);
    for name in ["libcupeer.so", "libcupeer_sim.so"] {
        fs::rename(place.join(name), folder.path().join(name)).unwrap();
        symlink(Path::new("..").join(name), place.join(name)).unwrap();
    }
    check(&cupeer, "links");

    let place = folder.path().join("theirs");
    let cupeer = installed(&place);
    fs::create_dir(place.join("cupeer-sim")).unwrap();
    let all = ["", "cupeer", "libcupeer.so", "libcupeer_sim.so", "cupeer-sim"];
    if all.iter().all(|name| is_given_away(&place.join(name))) {
        check(&cupeer, "another user's");
    }
}
