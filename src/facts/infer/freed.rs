//! Adds the releasing call to findings about memory that was freed too early.

use super::objects::freeing_object;
use crate::follow::collect::Collected;
use crate::follow::pending::PendingFinding;
use cupeer_rules::{Rule, Tells};
use cupeer_spec::record::slot::finding::role;

/// Adds to a finding about freed memory the call that freed it.
pub fn add_freeing_call(all: &Collected, found: &mut PendingFinding) {
    let recorded = found.recorded_objects.iter().map(|object| (object.what.role, Some(object.what.fingerprint)));
    let mut known = recorded.chain(found.objects.iter().map(|object| (object.role, object.fingerprint)));
    let is_ended = |(role, _)| [role::FREEING, role::ENDING].contains(&role);
    if !Rule::of(&found.rule).is_some_and(|rule| rule.spec().states_fact(Tells::FreedBefore))
        || known.clone().any(is_ended)
    {
        return;
    }
    let fingerprint = known.find(|(role, _)| *role == role::EXPORT).and_then(|(_, fingerprint)| fingerprint);
    let Some(fingerprint) = fingerprint.filter(|fingerprint| *fingerprint != 0) else { return };
    let entry = all.ledger.find_of_any_kind(all.domains[found.processes[0]], fingerprint);
    let Some((entry, export)) = entry.and_then(|entry| Some((entry, entry.export.as_deref()?))) else {
        return;
    };
    let mut ends = export.ended_before.iter().chain(&export.ended).rev();
    let ended = ends.find(|ended| ended.site.is_some() && ended.at.is_some_and(|ended| ended <= found.at));
    found.objects.extend(ended.map(|ended| freeing_object(entry, export, ended)));
}
