//! Builds the rows of findings: each with its severity, its place in words, and its objects. [`super::table`]
//! joins them.

use super::drafts::{Context, Draft, Sentence};
use super::objects::{Objects, word};
use super::row::{Member, Row};
use super::table::{FindingRows, library};
use super::{awaited, descriptors, exhausted, freed, handles, placement, ranks, space, staged};
use crate::follow::functions::Functions;
use crate::follow::judged::{FindingGroup, Key};
use cupeer_report::model::{Finding, Object};
use cupeer_report::places::Places;
use cupeer_report::results;
use cupeer_report::suppress::Facts;
use cupeer_rules::{Basis, Rule, Severity};
use cupeer_spec::record::slot::finding::{Confidence, role};

/// What a finding says that a missing call might contradict.
const LACKS_CALLS: &str = "; the record lacks calls, and one of them may show that this is not so";

/// All that was found, before it is known what all processes together tell.
pub fn found(context: &Context, places: &mut Places) -> FindingRows {
    let objects = Objects::new(context.job, context.all);
    let mut found = FindingRows::default();
    let (mut drafts, revised) = handles::drafts(context, &objects, places);
    for (key, kept) in context.all.findings.kept.iter().filter(|(key, _)| !revised.contains(key)) {
        drafts.push(context.kept(key, kept, &objects, places));
    }
    let of_records = space::unused(context)
        .into_iter()
        .chain(space::incomplete(context))
        .chain(descriptors::kept(context));
    let exhausted = exhausted::drafts(context, &objects, places);
    let mut crossed = placement::crossed(context, &objects, places);
    crossed.extend(placement::contexts(context));
    crossed.extend(staged::drafts(context, &objects, places));
    let of_calls = drafts.into_all().into_iter().chain(exhausted).chain(crossed);
    for draft in of_calls.chain(of_records).chain(awaited::drafts(context, &objects, places)) {
        found.rows.extend(context.drafted(draft, places));
    }
    let mut drafted = |drafts: Vec<Draft>| -> Vec<Row> {
        drafts.into_iter().filter_map(|draft| context.drafted(draft, places)).collect()
    };
    found.fallbacks = drafted(ranks::fallbacks(context));
    found.failing = drafted(ranks::failing(context));
    found
}

/// All rows of a record: the worst first, then in the order of time.
pub fn rows(context: &Context, places: &mut Places) -> Vec<Row> {
    let members: Vec<Member> = (0..context.job.processes.len()).map(|index| context.member(index)).collect();
    let functions = &context.all.functions;
    found(context, places).rows(&members, |name| functions.by_process_of(name))
}

impl<'a> Context<'a> {
    fn member(&self, index: usize) -> Member {
        Member {
            proc: self.all.fates[index].proc.clone(),
            rank: self.job.processes[index].rank(),
            has_injected: self.all.tallies[index].injected > 0,
        }
    }

    fn kept(&self, key: &Key, kept: &'a FindingGroup, objects: &Objects, places: &mut Places) -> Draft<'a> {
        let finding = &kept.finding;
        let args = Functions::id(key.function).map_or(&[][..], |function| function.spec().args());
        let recorded = finding.objects.iter();
        let mut about: Vec<Object> =
            recorded.map(|object| objects.recorded(object, key.process, places)).collect();
        let earlier = kept.earlier.iter().filter(|earlier| {
            // What the process has told itself is not told again.
            !finding.objects.iter().any(|object| object.what.role == earlier.role)
        });
        about.extend(earlier.map(|earlier| objects.earlier(earlier, key.process, places)));
        let realm = self.all.realms[key.process];
        for export in about.iter_mut().filter(|object| object.role == word(role::EXPORT)) {
            let entry = export.fingerprint.and_then(|handle| self.all.ledger.any(realm, handle.0));
            export.allocator = entry.and_then(|entry| objects.allocator(entry));
        }
        if let Some(rule) = self.all.findings.rule(key) {
            freed::freed(self.all, (rule, realm, kept.at), &mut about, objects, places);
        }
        let mut message = finding.message.clone();
        match self.all.findings.rule(key) {
            Some(Rule::DescriptorsExhausted) => {
                let (more, made) = exhausted::descriptors(self, key.process, objects, places);
                message += &more;
                about.extend(made);
            }
            Some(Rule::IpcDeviceHidden) => message.extend(placement::visible(self, key.process, &about)),
            _ => {}
        }
        Draft {
            sentence: Sentence {
                rule: self.all.findings.names.name(key.rule),
                message,
                hint: finding.hint.clone(),
                confidence: finding.confidence,
                argument: finding.argument.and_then(|i| Some(args.get(usize::from(i))?.name())),
            },
            function: key.function,
            result: key.result,
            processes: vec![key.process],
            site: kept.site,
            at: kept.at,
            last: kept.last,
            count: kept.count,
            driver_message: kept.driver_message.as_deref(),
            objects: about,
            cache: None,
            said: key.severity,
            lacks_facts: false,
        }
    }

    /// The row of a draft; `None` where nobody asks for it.
    fn drafted(&self, mut draft: Draft, places: &mut Places) -> Option<Row> {
        draft.processes.retain(|process| self.filter.process(*process));
        let (function, has_failed) = (Functions::id(draft.function), draft.result != Some(0));
        if !self.filter.shows(function, has_failed, draft.at) {
            return None;
        }
        self.row(draft, places)
    }

    /// A row with the severity that a process has said; where the report has found it, as bad as it is in a call of that
    /// library.
    fn row(&self, draft: Draft, places: &mut Places) -> Option<Row> {
        let Draft { sentence, function, processes, site, said, .. } = draft;
        let (all, process, id) = (self.all, *processes.first()?, Functions::id(function));
        let (caller, stack) = places.stack(&all.stacks, site.stack);
        let spec = Rule::of(&sentence.rule).map(Rule::spec);
        let severity = match said {
            Some(severity) => severity,
            None => all.findings.asked[process].severity(spec?, library(&caller), draft.cache)?,
        };
        let lacks_calls = spec.is_some_and(|spec| all.lacks_calls(spec.scope, &processes));
        let (severity, confidence) = match lacks_calls || draft.lacks_facts {
            true => (Severity::Note, Confidence::Inferred),
            false => (severity, sentence.confidence),
        };
        let basis = spec.map(|spec| spec.basis_at(id));
        let programs: Vec<&str> =
            processes.iter().map(|process| self.job.processes[*process].program()).collect();
        let facts = Facts { rule: &sentence.rule, caller: &caller, stack: &stack, programs: &programs };
        let suppressed_by = self.filter.suppressions.find(&facts);
        let finding = Finding {
            rule: sentence.rule,
            severity: severity.word(),
            fails: false,
            confidence: confidence.word(),
            function: all.functions.name(function),
            argument: sentence.argument,
            result: draft.result.map(|result| results::name(id, result)),
            proc: all.fates[process].proc.clone(),
            tid: site.tid,
            seq: site.seq,
            time_ns: draft.at,
            last_ns: draft.last,
            count: draft.count,
            procs: Vec::new(),
            procs_more: 0,
            ranks: Vec::new(),
            message: if lacks_calls && !sentence.message.is_empty() {
                sentence.message + LACKS_CALLS
            } else {
                sentence.message
            },
            sentence: basis.map(Basis::sentence),
            source: basis.map(Basis::source),
            hint: sentence.hint,
            driver_message: draft.driver_message.map(|text| String::from_utf8_lossy(text).into_owned()),
            runtime: all.made_by.of(process, site.tid, site.seq),
            caller,
            stack,
            objects: draft.objects,
            suppressed_by,
        };
        Some(Row::new(finding, processes, process, said.is_none()))
    }
}
