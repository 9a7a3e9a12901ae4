//! Processes: those of other pid namespaces, and what comes when one has ended its driver.

use super::{holds, played};

#[test]
fn processes_of_two_pid_namespaces_share_unless_their_pids_are_equal() {
    let played = played("namespaces", "nvlink:2", &[]);
    if played.status.code() == Some(77) {
        println!("not played, namespaces cannot be made here");
        return;
    }
    assert!(played.status.success(), "{}{}", played.stdout, played.stderr);
}

#[test]
fn what_comes_after_the_end_of_the_driver_comes_too_late() {
    holds("at_exit", "nvlink:2");
}
