//! A thread of the program that uses the numbers of our descriptors for files of its own.

use crate::programs::{Cupeer, Scene, linked};
use crate::support::{done, temp_dir};
use cupeer_spec::env;
use std::fs;

/// Between a look at a descriptor and what is done with it, another thread may have put something else under it: what is
/// mapped then is a file that is too short, and to touch it ends the program.
#[test]
fn descriptors_that_another_thread_replaces_are_not_mapped() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let scene = Scene::new(linked("redirects.c", &[])).args(&["200"]).arg(folder.path().join("short"));
    let mut command = scene.command(Cupeer::Recording, folder.path());
    command.env(env::OUT, &record).env(env::CHECK, "warnings").env_remove("FAKE_DRIVER_LOG");
    let ended = done(&mut command);
    assert!(ended.status.success() && ended.stdout == "done\n", "{}: {}", ended.status, ended.stderr);
    assert_eq!(fs::read(folder.path().join("short")).unwrap().get(..5), Some(&b"short"[..]));
}
