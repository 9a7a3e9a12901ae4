//! Incidents: problems in a recording that no rule covers: abnormal exits, exit statuses other than 0, and calls that
//! failed or did not return.
//!
//! It lists the incidents, and their names for tools that read them beside the rules' names. The text report finds and
//! shows the same incidents.

use super::model::{Place, Process};
use super::text::View;
use super::text::names::counted;
use cupeer_rules::Severity;

/// A kind of incident.
pub struct Kind {
    /// Its name. No rule has it.
    pub id: &'static str,
    /// What is wrong, as a sentence.
    pub says: &'static str,
    /// What to do.
    pub hint: &'static str,
    /// How bad it is.
    pub severity: Severity,
}

/// A process died.
pub const DIED: Kind = Kind {
    id: "process-died",
    says: "A process was killed by a signal, or called exit_group.",
    hint: "Look at its last call. Use a core dump or a debugger for details.",
    severity: Severity::Error,
};
/// A process returned a failure.
pub const FAILED: Kind = Kind {
    id: "process-failed",
    says: "A process exited with an error.",
    hint: "Read what the process printed last, and its failed calls in the report.",
    severity: Severity::Warning,
};
/// Processes were forked too late, and no finding shows it.
pub const FORKED: Kind = Kind {
    id: "process-forked-late",
    says: "A process was forked after CUDA was initialized, and exited with an error without a recorded call.",
    hint: "The driver does not work in a forked child. Start processes with spawn instead; see 'cupeer explain used-after-fork'.",
    severity: Severity::Warning,
};
/// What is said of them, after their number.
pub const FORKED_LATE: &str =
    "forked after CUDA was initialized exited with an error without a recorded call";
/// A call did not return.
pub const UNRETURNED: Kind = Kind {
    id: "call-not-returned",
    says: "A driver call did not return.",
    hint: "Compare the last calls of the other processes: one may be waiting for another.",
    severity: Severity::Warning,
};
/// A call failed, and no rule says why.
pub const UNEXPLAINED: Kind = Kind {
    id: "call-unexplained",
    says: "A driver call failed, and no rule explains it.",
    hint: "Run with --check, which queries the driver for details. 'cupeer explain RESULT' lists the known causes.",
    severity: Severity::Note,
};
/// All kinds.
pub const KINDS: [&Kind; 5] = [&DIED, &FAILED, &FORKED, &UNRETURNED, &UNEXPLAINED];

/// Something that went wrong.
pub struct Incident<'a> {
    pub kind: &'static Kind,
    /// What happened, in a sentence without its full stop.
    pub message: String,
    /// To whom, where it is about one process.
    pub process: Option<&'a Process>,
    /// The function that it happened in.
    pub function: Option<&'a str>,
    /// What that returned.
    pub result: Option<&'a str>,
    /// Who called that, and who called the caller, and so on.
    pub stack: &'a [Place],
    pub count: u64,
}

/// All incidents of a report, deaths first.
pub fn all<'a>(view: &View<'a>) -> Vec<Incident<'a>> {
    let deaths = view.all_deaths().into_iter().map(|(process, how)| {
        let call = process.pending.first();
        Incident {
            kind: &DIED,
            message: view.death(process, &how),
            process: Some(process),
            function: call.map(|call| &*call.function),
            result: None,
            stack: call.map_or(&[], |call| &call.stack),
            count: 1,
        }
    });
    let failing = view.all_failing_ends().into_iter().map(|(process, code)| Incident {
        kind: &FAILED,
        message: format!("{} ended with exit status {code}", view.names.process(&process.proc)),
        process: Some(process),
        function: None,
        result: None,
        stack: &[],
        count: 1,
    });
    let unreturned = view.all_unreturned().into_iter().map(|(process, call)| Incident {
        kind: &UNRETURNED,
        message: view.unreturned(process, call),
        process: Some(process),
        function: Some(&call.function),
        result: None,
        stack: &call.stack,
        count: 1,
    });
    let unexplained = view.unexplained().into_iter().map(|group| Incident {
        kind: &UNEXPLAINED,
        message: view.group(group),
        process: None,
        function: Some(&group.function),
        result: Some(&group.result),
        stack: std::slice::from_ref(&group.caller),
        count: group.count,
    });
    let processes = deaths.chain(failing).chain(of_others(view));
    processes.chain(unreturned).chain(unexplained).collect()
}

/// The incidents of processes that are not in the recording: programs that were started and made no call, and children that
/// were forked too late.
pub fn of_others<'a>(view: &View<'a>) -> Vec<Incident<'a>> {
    let incident = |kind, message, count| Incident {
        kind,
        message,
        process: None,
        function: None,
        result: None,
        stack: &[],
        count,
    };
    let starts = if view.is_passed_on() { Vec::new() } else { view.all_failing_starts() };
    let starts = starts
        .into_iter()
        .map(|(is_killed, message)| incident(if is_killed { &DIED } else { &FAILED }, message, 1));
    let forked = Some(view.forked_late())
        .filter(|count| *count > 0)
        .map(|count| incident(&FORKED, format!("{} {FORKED_LATE}", counted(count, "process")), count));
    starts.chain(forked).collect()
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
