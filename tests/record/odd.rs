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
    assert!(calls.iter().all(|call| call.outcome == Outcome::Returned(101) && !call.details.frames.is_empty()));
}

/// With any stack, the program continues, and each call has at least its own place.
#[test]
fn stacks_that_cannot_be_unwound_end_no_program() {
    let scene = || Scene::new(linked("jit.c", &["-O1", "-fno-omit-frame-pointer"]));
    for (form, calls) in [("frame", 2), ("bare", 2), ("garbage", 18), ("hijacked", 18), ("registered", 6)] {
        let folder = support::temp_dir();
        let record = folder.path().join("record");
        let answers = "101 0\n".repeat(calls / 2) + "done\n";
        assert_eq!(stdout(&mut recording(&scene().args(&[form]), &record)), answers, "{form}");
        let job = open_job(&record);
        let made = recorded(&job.processes[0]);
        assert_eq!(made.len(), calls, "{form}");
        for call in made {
            assert_eq!(call.details.frames.first(), Some(&call.caller), "{form}");
            // A frame pointer leads on: to both, to main, and to the C library that called it.
            assert!(form != "frame" || call.details.frames.len() > 3, "{:x?}", call.details.frames);
        }
    }
}

#[test]
fn a_child_of_vfork_that_calls_first_makes_its_parents_record() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    assert_eq!(stdout(&mut recording(&odd(&["vfork", "8", "20000"]), &record)), "done\n");
    let job = open_job(&record);
    let [process] = &job.processes[..] else { panic!("{:?}", job.processes) };
    assert_eq!((process.header.lost, recorded(process).len()), (0, 1 + 160_000));
    // Known as its parent: nobody but that one is this old.
    assert_ne!(process.header.parent, process.header.pid);
    assert_eq!(process.header.parent, std::process::id());
    assert!(process.proc.contains(&format!("-{}-", process.header.pid)), "{}", process.proc);
}
