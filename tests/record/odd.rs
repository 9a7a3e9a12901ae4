//! Calls from where few programs call: from a stack that the program has made, first in a child of vfork, from a
//! library that is opened again and again.

use super::recording;
use crate::programs::{Scene, linked, open_job, recorded};
use crate::support::{self, stdout};
use cupeer_record::Outcome;

fn odd(args: &[&str]) -> Scene {
    Scene::new(linked("odd.c", &["-fomit-frame-pointer"])).args(args)
}

#[test]
fn no_frame_is_looked_for_beyond_a_stack() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    assert_eq!(stdout(&mut recording(&odd(&["stack"]), &record)), "101\n101\ndone\n");
    let job = open_job(&record);
    let calls = recorded(&job.processes[0]);
    assert_eq!(calls.len(), 2);
    assert!(
        calls.iter().all(|call| call.outcome == Outcome::Returned(101) && !call.details.frames.is_empty())
    );
}

#[test]
fn a_child_of_vfork_leaves_its_parent_a_record_of_its_own() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    assert_eq!(stdout(&mut recording(&odd(&["vfork", "8", "20000"]), &record)), "done\n");
    let job = open_job(&record);
    let [process] = &job.processes[..] else { panic!("{:?}", job.processes) };
    assert_eq!((process.header.lost, recorded(process).len()), (0, 160_000));
}
