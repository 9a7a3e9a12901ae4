//! `--check` takes nothing that a plan did for the fault of the program or the driver.

use super::client::program;
use crate::support;

/// Runs `faults.c` with a check of everything, and gives what it says.
fn checked(plan: &str, word: &str) -> String {
    let folder = support::temp_dir();
    let mut command = support::with(&["run", "--check=notes", "--sim=nvlink:2", "--record", "full", "-o"]);
    command.arg(folder.path().join("r"));
    if !plan.is_empty() {
        command.args(["--inject", plan]);
    }
    command.arg("--").arg(program()).args(["turns", "1", "1", word]);
    support::done(&mut command).stderr
}

fn findings(said: &str) -> Vec<&str> {
    let is_finding = |line: &&str| {
        ["error ", "warning ", "note "]
            .iter()
            .any(|word| line.strip_prefix("cupeer: ").is_some_and(|rest| rest.starts_with(word)))
    };
    said.lines().filter(is_finding).collect()
}

/// A plan, what is called, and a rule that the same calls would break if the program had brought it about itself.
const CASES: &[(&str, &str)] = &[
    ("cuIpcOpen*:error=any:seed=1", "ow"),
    ("cuIpcOpen*:stage=undo:error=any:seed=2", "ow"),
    ("cuIpcGetMemHandle:error=any:seed=3:process=2..", "gg"),
    ("cuCtxEnablePeerAccess:error=any:seed=4", "e"),
    ("cuCtxEnablePeerAccess:stage=undo:error=any:seed=4", "e"),
    ("@peer,^@release:error=any:seed=5", "cra"),
    // Handles that were damaged on their way.
    ("cuIpcGetMemHandle:process=1:out=pHandle=zero", "o"),
    ("cuIpcGetMemHandle:process=1:out=pHandle=flip/25", "o"),
    ("cuIpcGetEventHandle:process=1:out=pHandle=flip/25", "w"),
    // The one who opens it makes no call that a rule concerns.
    ("cuIpcGetMemHandle:out=pHandle=zero", "o"),
    ("cuIpcGetMemHandle:out=pHandle=flip/36", "o"),
    // It is told that access is enabled, and disables it.
    ("cuCtxEnablePeerAccess:error=PEER_ACCESS_ALREADY_ENABLED", "ed"),
    // Addresses that the program was given, and gives back.
    ("cuIpcOpenMemHandle*:out=pdptr=null", "ox"),
    ("cuIpcOpenMemHandle*:out=pdptr=4096", "ox"),
    ("cuIpcOpenEventHandle:out=phEvent=null", "wy"),
    // A close that was made to fail, and is tried again.
    ("cuIpcCloseMemHandle:when=1:force:error=MAP_FAILED", "oxx"),
    ("cuIpcCloseMemHandle:when=1:force:stage=after:error=MAP_FAILED", "oxx"),
    ("cuCtxDisablePeerAccess:when=1:force:error=INVALID_CONTEXT", "edd"),
    ("cuDeviceCanAccessPeer:out=canAccessPeer=0", "ce"),
    // Calls that the driver made although the program was told of a failure, and calls that it did not make.
    ("cuIpcOpen*:stage=after:error=any:seed=6", "ow"),
    ("cuIpcGet*:stage=after:error=any:seed=6:process=2..", "gfv"),
    ("cuCtxEnablePeerAccess:when=1:stage=after:error=INVALID_CONTEXT", "ee"),
    ("cuCtxDisablePeerAccess:when=1:force:error=INVALID_CONTEXT", "ede"),
];

#[test]
fn effects_of_a_plan_are_not_blamed_on_the_program() {
    let plain = checked("", "ewocragoxwyd");
    assert_eq!(findings(&plain), [""; 0], "{plain}");
    for (plan, word) in CASES {
        let said = checked(plan, word);
        assert!(said.contains("fired"), "{plan} has done nothing: {said}");
        assert_eq!(findings(&said), [""; 0], "{plan} {word}: {said}");
    }
}

#[test]
fn mistakes_of_the_program_are_found_beside_a_plan() {
    // A second close of what was closed, with a plan that has hit something else.
    let said = checked("cuDeviceCanAccessPeer:error=INVALID_DEVICE", "coxx");
    assert!(findings(&said).iter().any(|line| line.contains("ipc-closed-twice")), "{said}");
}
