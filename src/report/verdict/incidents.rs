//! Kinds of problems that no rule covers: hangs, abnormal exits, ends from outside, exit statuses other than 0, and calls that failed or did not
//! return. Tools read their names beside those of the rules.

use crate::model::{Place, Process};
use cupeer_rules::Severity;

/// Kind of problem that no rule covers.
pub struct IncidentKind {
    /// Name of the kind. No rule has the same name.
    pub id: &'static str,
    /// Sentence that states what is wrong.
    pub says: &'static str,
    /// Advice to the user.
    pub hint: &'static str,
    /// Severity of incidents of this kind.
    pub severity: Severity,
    /// True if the JUnit form has a failed test case for an incident of this kind.
    pub fails_test_case: bool,
}

/// The job made no progress.
pub const HUNG: IncidentKind = IncidentKind {
    id: "job-hung",
    says: "No process of the job made progress, or a recorded call did not return, for the time of --on-hang.",
    hint: "Look at the process and the line that the message names. The stacks of all processes are in hang-*.json in the recording.",
    severity: Severity::Error,
    fails_test_case: true,
};
/// A process crashed or was killed.
pub const DIED: IncidentKind = IncidentKind {
    id: "process-died",
    says: "A process was killed by a signal, or called exit_group.",
    hint: "Look at its last recorded call. Use a core dump or a debugger for details. SIGKILL comes from another process, or from the kernel if memory is short.",
    severity: Severity::Error,
    fails_test_case: true,
};
/// A process exited with an error.
pub const FAILED: IncidentKind = IncidentKind {
    id: "process-failed",
    says: "A process exited with an error.",
    hint: "Read what the process printed last, and its failed calls in the report.",
    severity: Severity::Warning,
    fails_test_case: true,
};
/// A signal from outside asked a process to end.
pub const ASKED_TO_END: IncidentKind = IncidentKind {
    id: "process-asked-to-end",
    says: "A process ended after a signal that asks processes to end, such as SIGTERM.",
    hint: "Nothing to do if that was intended. Otherwise, find out which process sent the signal, and why.",
    severity: Severity::Note,
    fails_test_case: false,
};
/// A call did not return.
pub const UNRETURNED: IncidentKind = IncidentKind {
    id: "call-not-returned",
    says: "A driver call did not return.",
    hint: "Compare the last calls of the other processes: one may be waiting for another.",
    severity: Severity::Warning,
    fails_test_case: false,
};
/// A call failed, and no rule explains why.
pub const UNEXPLAINED: IncidentKind = IncidentKind {
    id: "call-unexplained",
    says: "A driver call failed, and no rule explains it.",
    hint: "Run with --check, which queries the driver for details. 'cupeer explain RESULT' lists the known causes.",
    severity: Severity::Note,
    fails_test_case: false,
};
/// All kinds of incidents.
pub const KINDS: [&IncidentKind; 6] = [&HUNG, &DIED, &FAILED, &ASKED_TO_END, &UNRETURNED, &UNEXPLAINED];

/// Problem of one process or of the job, with its evidence.
pub struct Incident<'a> {
    /// Kind of the incident.
    pub kind: &'static IncidentKind,
    /// Description of the incident: a sentence without its period.
    pub message: String,
    /// Process of the recording that the incident is about; `None` if there is none.
    pub process: Option<&'a Process>,
    /// Name of the function in whose call the incident happened.
    pub function: Option<&'a str>,
    /// Name of the result of the call.
    pub result: Option<&'a str>,
    /// Call stack, the caller first.
    pub stack: &'a [Place],
    /// Number of times that the incident happened.
    pub count: u64,
}

impl Incident<'_> {
    /// Creates an incident that has only a message.
    pub fn new(kind: &'static IncidentKind, message: String) -> Self {
        Incident { kind, message, process: None, function: None, result: None, stack: &[], count: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_rules::Rule;

    #[test]
    fn their_names_are_no_rules() {
        for kind in KINDS {
            assert_eq!(Rule::of(kind.id), None, "{}", kind.id);
        }
    }
}
