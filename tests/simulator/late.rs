//! Late devices: a missing wait is wrong data at the first run, and whatever is right without them is right with them.

use super::{RECORDED, conformance, holds_with, played};
use crate::support::{done, plain, rounds, sim_library};

/// Programs that read too early, within a process and between two.
const RACES: [&str; 13] = [
    "blocking-copy",
    "other-stream",
    "host",
    "reused-host",
    "any-order",
    "freed",
    "graph",
    "unmapped",
    "asked",
    "synchronized",
    "waited",
    "back",
    "overtaken",
];

#[track_caller]
fn sees(scene: &str, machine: &str, wanted: &str) {
    let played = played("waits", machine, &[scene]);
    assert_eq!(played.stdout, format!("{wanted}\n"), "{scene} on {machine}: {}", played.stderr);
    assert!(played.status.success());
}

#[test]
fn a_missing_wait_is_wrong_at_the_first_run_and_the_wait_mends_it() {
    for scene in RACES {
        for seed in 0..6 {
            let machine = format!("nvlink:2,late:{seed}");
            sees(scene, &machine, "old");
            sees(&format!("right-{scene}"), &machine, "new");
        }
        sees(&format!("right-{scene}"), "nvlink:2", "new");
        if scene != "unmapped" {
            sees(scene, "nvlink:2", "new");
        }
    }
}

#[test]
fn work_without_a_need_to_wait_is_not_late() {
    for seed in 0..6 {
        for scene in ["pageable", "legacy", "allocated", "queries", "many", "seen", "right-ended"] {
            sees(scene, &format!("late:{seed}"), "new");
        }
    }
}

#[test]
fn a_late_machine_answers_as_was_recorded() {
    for machine in ["late", "nvlink:2,late:3"] {
        let mut command = plain(conformance());
        command.arg("--driver").arg(sim_library()).args(["--compare", RECORDED]).env("CUPEER_SIM", machine);
        let done = done(&mut command);
        assert!(done.status.success(), "{machine}\n{}{}", done.stdout, done.stderr);
    }
}

#[test]
fn calls_wait_for_pending_work_as_was_recorded() {
    for seed in 0..3 {
        holds_with("pending", &format!("nvlink:1,kernels=skip,late:{seed}"), &[]);
    }
}

#[test]
fn right_programs_have_the_same_results_with_every_seed() {
    for program in 0..rounds(8) {
        for machine in ["nvlink:2", "late:0", "late:1", "late:2"] {
            holds_with("rights", machine, &[&program.to_string()]);
        }
    }
}

#[test]
fn facts_without_late_devices_hold_with_them() {
    for name in
        ["arrays", "at_exit", "callbacks", "cancelled", "capture", "crowd", "descriptors", "graph_nodes", "pools"]
    {
        for machine in ["nvlink:2,late", "nvlink:2,late:1"] {
            holds_with(name, machine, &[]);
        }
    }
    for name in ["mapped", "pooled", "relay"] {
        for seed in ["1", "2", "3"] {
            holds_with(name, &format!("nvlink:2,late:{seed}"), &[seed]);
        }
    }
}
