//! Containers whose filter refuses the system call by which a program's memory is read without the risk of a fault.

use super::{in_namespaces, recording};
use crate::check::scenes::words;
use crate::programs::{Scene, linked, open_job, program, recorded};
use crate::support::{self, cupeer, stdout};
use serde_json::Value;

/// Recorded facts about a program whose calls have long stacks: the rank, a variable, and the number of frames of each call.
type Kept = (Option<u32>, Option<String>, Vec<usize>);

/// Runs it while these system calls are refused, and with nothing in /proc. Gives also what was said, and the report as JSON
/// and as text; `None` where the test may not do that.
fn sealed(numbers: &str, is_proc_empty: bool) -> Option<(Kept, String, [String; 2])> {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let jit = linked("jit.c", &["-O1", "-fno-omit-frame-pointer"]);
    let scene = Scene::new(program("sealed.c", &[])).args(&[numbers, jit.to_str().unwrap(), "frame"]);
    let scene = scene.env("OMPI_COMM_WORLD_RANK", "3").env("CUDA_VISIBLE_DEVICES", "0,1");
    let mut command = recording(&scene, &record);
    if is_proc_empty {
        command = in_namespaces(&["-rm"], "mount -t tmpfs none /proc", &command)?;
    }
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "101 0\ndone\n", "{stderr}");
    let process = open_job(&record).processes.remove(0);
    let frames = recorded(&process).iter().map(|call| call.details.frames.len()).collect();
    let variable = process.variable("CUDA_VISIBLE_DEVICES").map(str::to_owned);
    let report = |form| stdout(cupeer().arg("report").arg(&record).args(["--format", form]));
    Some(((process.rank(), variable, frames), stderr, ["json", "text"].map(report)))
}

fn refused() -> String {
    libc::SYS_process_vm_readv.to_string()
}

#[test]
fn a_filter_that_refuses_to_read_memory_takes_nothing_from_the_record() {
    // No call has this number.
    let (whole, said, _) = sealed("4000", false).unwrap();
    assert_eq!((whole.0, whole.1.as_deref(), said.as_str()), (Some(3), Some("0,1"), ""));
    assert!(whole.2.len() == 2 && whole.2.iter().all(|frames| *frames > 3), "{:?}", whole.2);
    let (refused, of_refused, [report, _]) = sealed(&refused(), false).unwrap();
    assert_eq!((refused, of_refused), (whole, said));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["record"]["problems"].as_array().unwrap().len(), 0, "{report:#}");
}

#[test]
fn unreadable_memory_is_reported_as_missing() {
    let Some(((rank, variable, frames), said, [json, text])) = sealed(&refused(), true) else { return };
    assert_eq!((rank, variable), (None, None));
    // The place of the call is known anyway.
    assert!(frames.len() == 2 && frames.iter().all(|frames| *frames >= 1), "{frames:?}");
    let why = "(process_vm_readv: Operation not permitted; /proc/self/mem: No such file or directory)";
    assert!(said.contains(why) && said.contains("its rank") && said.lines().count() == 1, "{said}");
    let sentence = said.trim().strip_prefix("cupeer: ").unwrap();
    let report: Value = serde_json::from_str(&json).unwrap();
    let problems = report["record"]["problems"].as_array().unwrap();
    assert!(problems.len() == 1 && problems[0].as_str().unwrap().ends_with(sentence), "{problems:?}");
    assert_eq!(report["processes"][0]["unknown"]["rank"], "its variables are missing");
    assert!(words(&text).contains(&words(sentence)), "{text}");
}
