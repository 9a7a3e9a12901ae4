//! Incidents: problems in a recording that no rule covers: abnormal exits, exit statuses other than 0, and calls that
//! failed or did not return.
//!
//! It lists the incidents, and their names for tools that read them beside the rules' names. The text report finds and
//! shows the same incidents.

use super::model::{Place, Process};
use super::text::View;
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
    says: "A process was killed by a signal, or ended by a system call of its own.",
    hint: "Its last call, or the one that it died in, shows how far it came; a core dump or a debugger shows the rest.",
    severity: Severity::Error,
};
/// A process returned a failure.
pub const FAILED: Kind = Kind {
    id: "process-failed",
    says: "A process ended with an exit status that is a failure.",
    hint: "What it wrote before its end says why; its failed calls are in the report.",
    severity: Severity::Warning,
};
/// A call did not return.
pub const UNRETURNED: Kind = Kind {
    id: "call-not-returned",
    says: "A call of the driver has not returned.",
    hint: "Compare what the other processes last called: one may wait for another.",
    severity: Severity::Warning,
};
/// A call failed, and no rule says why.
pub const UNEXPLAINED: Kind = Kind {
    id: "call-unexplained",
    says: "A call of the driver failed, and no rule says why.",
    hint: "Run with --check, which asks the driver for more; 'cupeer explain RESULT' has the causes that are known.",
    severity: Severity::Note,
};
/// All kinds.
pub const KINDS: [&Kind; 4] = [&DIED, &FAILED, &UNRETURNED, &UNEXPLAINED];

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
    deaths.chain(failing).chain(unreturned).chain(unexplained).collect()
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
