//! Adds the release of freed memory to findings about it.

use super::objects::{Objects, word};
use crate::follow::collect::Collected;
use crate::follow::ledger::Realm;
use cupeer_report::model;
use cupeer_report::places::Places;
use cupeer_rules::{Rule, Tells};
use cupeer_spec::record::slot::finding::role;

/// Adds where that was freed which a finding says had been freed before.
pub fn freed(
    all: &Collected,
    (rule, realm, at): (Rule, Realm, u64),
    known: &mut Vec<model::Object>,
    objects: &Objects,
    places: &mut Places,
) {
    let is_ended =
        |object: &model::Object| [role::FREEING, role::ENDING].iter().any(|role| object.role == word(*role));
    if !rule.spec().tells(Tells::FreedBefore) || known.iter().any(is_ended) {
        return;
    }
    let export = known.iter().find(|object| object.role == word(role::EXPORT));
    let Some(fingerprint) = export.and_then(|export| export.fingerprint) else { return };
    let entry = all.ledger.any(realm, fingerprint.0);
    let Some((entry, export)) = entry.and_then(|entry| Some((entry, entry.export.as_deref()?))) else {
        return;
    };
    let mut all = export.ended_before.iter().chain(&export.ended).rev();
    let ended = all.find(|ended| ended.site.is_some() && ended.at.is_some_and(|ended| ended <= at));
    if let Some(ended) = ended {
        known.push(objects.freeing(entry, export, ended, places));
    }
}
