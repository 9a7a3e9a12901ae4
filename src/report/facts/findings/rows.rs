//! Builds the rows of findings: each with its severity, its place in words, and its objects. [`super::table`]
//! joins them.

use super::objects::{Objects, word};
use super::table::{FindingRows, Member, Row, library};
use super::{awaited, descriptors, exhausted, freed, handles, placement, ranks, space, staged};
use crate::asked::filter::Filter;
use crate::asked::suppress::Facts;
use crate::facts::at_calls::{FindingGroup, Key};
use crate::facts::collect::Collected;
use crate::facts::functions::{Functions, Number};
use crate::facts::ledger::Site;
use crate::model::{Finding, Object};
use crate::words::places::Places;
use crate::words::results;
use cupeer_record::Job;
use cupeer_rules::reason::Reason;
use cupeer_rules::{Basis, Cache, Rule, Severity};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding::{Confidence, role};
use std::rc::Rc;

/// What a finding says that a missing call might contradict.
const LACKS_CALLS: &str = "; the record lacks calls, and one of them may show that this is not so";

/// What findings follow from.
pub struct Context<'a> {
    pub job: &'a Job,
    pub all: &'a Collected,
    /// What is asked for.
    pub filter: &'a Filter,
    /// Whether others will be put together with it.
    pub is_part: bool,
}

/// Something that was found, before its place has a name.
pub struct Draft<'a> {
    pub sentence: Sentence,
    pub function: Number,
    /// `None` where the call has not returned.
    pub result: Option<i32>,
    /// The process of the first, and then all others.
    pub processes: Vec<usize>,
    /// The first call, when it began, and when the last one did.
    pub site: Site,
    pub at: u64,
    pub last: u64,
    pub count: u64,
    pub driver_message: Option<&'a [u8]>,
    pub objects: Vec<Object>,
    /// The cache that alone has it open.
    pub cache: Option<&'static Cache>,
    /// How bad it is, where its process has said that.
    pub said: Option<Severity>,
}

impl Draft<'_> {
    /// Of one call of a process that returned a result, and was made at a time.
    pub fn of(sentence: Sentence, function: FnId, result: i32, process: u32, site: Site, at: u64) -> Self {
        Draft {
            sentence,
            function: function as Number,
            result: Some(result),
            processes: vec![process as usize],
            site,
            at,
            last: at,
            count: 1,
            driver_message: None,
            objects: Vec::new(),
            cache: None,
            said: None,
        }
    }

    /// The same of what a cache alone has open, if any: why that is by design, and its setting.
    pub fn with_cache(mut self, cache: Option<&'static Cache>) -> Self {
        if let Some(cache) = cache {
            self.sentence.message += &format!("; {}", cache.why);
            self.sentence.hint = cache.hint.into();
        }
        Draft { cache, ..self }
    }
}

/// What was found, in words.
pub struct Sentence {
    /// The name of the rule that is broken.
    pub rule: Rc<str>,
    pub message: String,
    pub hint: String,
    pub confidence: Confidence,
    pub argument: Option<&'static str>,
}

impl Sentence {
    pub fn of(reason: &Reason, confidence: Confidence) -> Self {
        let (message, hint) = (reason.to_string(), reason.hint().into());
        Sentence { rule: reason.rule().spec().name.into(), message, hint, confidence, argument: None }
    }
}

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
        let args = Functions::id(key.function).map_or(&[][..], |function| function.spec().args);
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
        let lacks_calls =
            spec.is_some_and(|spec| spec.rests_on_history() && all.lacks_calls(spec.scope, &processes));
        let (severity, confidence) = match lacks_calls {
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
