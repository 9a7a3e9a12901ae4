//! Handles whose exporter is not in the recording: it ran under another `cupeer run`, or without cupeer.

use super::Verdict;
use crate::model::Handle;
use crate::words::names::counted;
use cupeer_spec::effect::Object;
use cupeer_spec::env;
use cupeer_spec::function::FnId;
use cupeer_spec::selector::FunctionSet;

impl Verdict<'_> {
    /// Returns a sentence about handles that processes opened although no recorded process exported them.
    /// `None` if there is no such handle, or if the recording may only lack the exports.
    pub fn describe_foreign_handles(&self) -> Option<String> {
        let record = &self.report.record;
        let is_whole = record.mode == "full" && record.lost == 0 && !record.dropped && record.matching.is_none();
        if !is_whole || self.report.bypassing_libraries().next().is_some() || !self.has_all_exports() {
            return None;
        }
        let is_of_ipc =
            |handle: &&Handle| [Object::Memory, Object::Event].iter().any(|kind| kind.word() == handle.kind);
        let is_strange =
            |handle: &&Handle| handle.exporter.is_none() && handle.damaged_from.is_none() && !handle.opens.is_empty();
        match self.report.handles.iter().filter(is_of_ipc).filter(is_strange).count() as u64 {
            0 => None,
            1 => Some("1 handle comes from a process outside this recording; start both with the same -o DIR to see all of it".into()),
            count => Some(format!(
                "{} come from processes outside this recording; start all with the same -o DIR to see all of them",
                counted(count, "handle")
            )),
        }
    }

    /// Returns true if exports were recorded in all processes.
    fn has_all_exports(&self) -> bool {
        let has_all = |set: &FunctionSet| {
            FnId::all().filter(|id| id.spec().exports().is_some()).all(|id| set.contains(id as usize))
        };
        self.report.processes.iter().all(|process| match process.variables.get(env::TRACE).map(String::as_str) {
            None | Some("") => true,
            Some(text) => FunctionSet::parse(text).is_ok_and(|set| has_all(&set)),
        })
    }
}
