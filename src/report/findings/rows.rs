//! The rows: findings of one rule and function, with one result and from one place, over all processes.

use super::super::collect::Collected;
use super::super::filter::Filter;
use super::super::functions::{Functions, Number};
use super::super::ledger::Site;
use super::super::model::{Finding, MOST_PROCS, Object, Place, SuppressedBy};
use super::super::places::Places;
use super::super::results;
use super::super::suppress::Facts;
use super::objects::{Objects, word};
use super::{FindingGroup, Key, descriptors, earlier, handles, is_explanation, ranks, space};
use cupeer_record::Job;
use cupeer_rules::reason::Reason;
use cupeer_rules::{Basis, Rule, Severity};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding::{Confidence, role};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What findings follow from.
pub struct Context<'a> {
    pub job: &'a Job,
    pub all: &'a Collected,
    /// What is asked for.
    pub filter: &'a Filter,
}

/// A row, with what it takes to join it to others.
pub struct Row {
    pub finding: Finding,
    pub severity: Severity,
    /// The process of the first.
    pub process: usize,
    /// Whether the report has found it, and no process.
    pub by_report: bool,
    /// All processes.
    processes: Vec<usize>,
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
        }
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
    pub fn of(reason: &Reason, confidence: Confidence, argument: &'static str) -> Self {
        let (message, hint) = (reason.to_string(), reason.hint().into());
        let argument = Some(argument).filter(|argument| !argument.is_empty());
        Sentence { rule: reason.rule().spec().name.into(), message, hint, confidence, argument }
    }
}

/// All rows: the worst first, then in the order of time.
pub fn rows(context: &Context, places: &mut Places) -> Vec<Row> {
    let objects = Objects::new(context.job, context.all);
    let mut joined = Joined::default();
    let (drafts, revised) = handles::drafts(context, &objects, places);
    for (key, kept) in context.all.findings.kept.iter().filter(|(key, _)| !revised.contains(key)) {
        if let Some(row) = context.kept(key, kept, &objects, places) {
            joined.add(row);
        }
    }
    let of_records = space::unused(context)
        .into_iter()
        .chain(space::incomplete(context))
        .chain(descriptors::kept(context));
    for draft in drafts.into_iter().chain(of_records).chain(descriptors::awaited(context)) {
        joined.extend(context.drafted(draft, places));
    }
    // Where a rule is broken, that is said, and who goes another way is not the news.
    let fallbacks = ranks::fallbacks(context).into_iter().filter_map(|draft| context.drafted(draft, places));
    let fallbacks: Vec<Row> = fallbacks.filter(|row| !joined.explains(row, Severity::Note)).collect();
    let differing = ranks::differing(context).into_iter().filter_map(|draft| context.drafted(draft, places));
    // What libraries do on purpose, ranks may do differently.
    let differing: Vec<Row> = differing.filter(|row| !joined.has_note_like(row)).collect();
    joined.extend(fallbacks);
    joined.extend(differing);
    joined.finish(context)
}

impl Context<'_> {
    fn kept(&self, key: &Key, kept: &FindingGroup, objects: &Objects, places: &mut Places) -> Option<Row> {
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
            earlier::freed(self.all, (rule, realm, kept.at), &mut about, objects, places);
        }
        let draft = Draft {
            sentence: Sentence {
                rule: self.all.findings.names.name(key.rule),
                message: finding.message.clone(),
                hint: finding.hint.clone(),
                confidence: finding.confidence,
                argument: finding.argument.and_then(|i| Some(args.get(usize::from(i))?.name)),
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
        };
        self.row(draft, (!kept.by_report).then_some(finding.severity), places)
    }

    /// A row of what the report has found; `None` where nobody asks for it.
    fn drafted(&self, mut draft: Draft, places: &mut Places) -> Option<Row> {
        draft.processes.retain(|process| self.filter.process(*process));
        let (function, has_failed) = (Functions::id(draft.function), draft.result != Some(0));
        if !self.filter.shows(function, has_failed, draft.at) {
            return None;
        }
        self.row(draft, None, places)
    }

    /// A row with the severity that a process has said; where the report has found it, as bad as it is in a call of that
    /// library.
    fn row(&self, draft: Draft, said: Option<Severity>, places: &mut Places) -> Option<Row> {
        let Draft { sentence, function, processes, site, .. } = draft;
        let (all, process, id) = (self.all, *processes.first()?, Functions::id(function));
        let (caller, stack) = places.stack(&all.stacks, site.stack);
        let spec = Rule::of(&sentence.rule).map(Rule::spec);
        let severity = match said {
            Some(severity) => severity,
            None => all.findings.asked[process].severity(spec?, library(&caller))?,
        };
        let basis = spec.map(|spec| spec.basis_at(id));
        let programs: Vec<&str> =
            processes.iter().map(|process| self.job.processes[*process].program()).collect();
        let facts = Facts { rule: &sentence.rule, caller: &caller, stack: &stack, programs: &programs };
        let suppressed_by = self.filter.suppressions.find(&facts);
        let finding = Finding {
            rule: sentence.rule,
            severity: severity.word(),
            confidence: sentence.confidence.word(),
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
            message: sentence.message,
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
        Some(Row { finding, severity, process, by_report: said.is_none(), processes })
    }
}

impl Row {
    fn and(self, other: Row) -> Row {
        // One that is only counted says nothing, whenever it was.
        let order = |row: &Row| (row.finding.message.is_empty(), row.finding.time_ns, row.process);
        let (mut first, other) = if order(&other) < order(&self) { (other, self) } else { (self, other) };
        first.finding.count += other.finding.count;
        first.finding.last_ns = first.finding.last_ns.max(other.finding.last_ns);
        first.severity = first.severity.max(other.severity);
        first.finding.severity = first.severity.word();
        first.processes.extend(other.processes);
        first
    }
}

/// Puts words into rows of which all were only counted: the rule's own hint, and of explanations, which a process gives
/// once for each result, what was said in another place.
fn complete(rows: &mut [Row]) {
    let key = |row: &Row| {
        let Finding { rule, function, result, .. } = &row.finding;
        (rule.clone(), function.clone(), result.clone())
    };
    let said = rows.iter().filter(|row| is_explanation(&row.finding.rule) && !row.finding.message.is_empty());
    let said: BTreeMap<_, String> = said.map(|row| (key(row), row.finding.message.clone())).collect();
    for row in rows.iter_mut().filter(|row| row.finding.message.is_empty()) {
        row.finding.message = said.get(&key(row)).cloned().unwrap_or_default();
        if let Some(rule) = Rule::of(&row.finding.rule).filter(|_| row.finding.hint.is_empty()) {
            row.finding.hint = rule.spec().hint.into();
        }
    }
}

/// Calls that are alike: function, result and caller.
type Calls = (Rc<str>, Option<String>, Place);

fn place(row: &Row) -> Calls {
    let Finding { function, result, caller, .. } = &row.finding;
    (function.clone(), result.clone(), caller.clone())
}

fn library(caller: &Place) -> &str {
    caller.library.as_deref().unwrap_or_default()
}

/// The rows by what they have in common: the rule, the calls, and what suppresses them.
#[derive(Default)]
struct Joined(BTreeMap<(Rc<str>, Calls, Option<SuppressedBy>), Row>);

impl Extend<Row> for Joined {
    fn extend<I: IntoIterator<Item = Row>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.add(row));
    }
}

impl Joined {
    /// Whether a rule at least this severe is broken in calls like those of a row.
    fn explains(&self, row: &Row, least: Severity) -> bool {
        let is_alike = |known: &Row| place(known) == place(row) && known.severity >= least;
        self.0.values().any(|known| is_alike(known) && !is_explanation(&known.finding.rule))
    }

    /// Whether calls of the same function with the same result are usual somewhere.
    fn has_note_like(&self, row: &Row) -> bool {
        let is_note = |known: &&Row| known.severity == Severity::Note && !is_explanation(&known.finding.rule);
        let key = |row: &Row| (row.finding.function.clone(), row.finding.result.clone());
        self.0.values().filter(is_note).any(|known| key(known) == key(row))
    }

    fn add(&mut self, row: Row) {
        let key = (row.finding.rule.clone(), place(&row), row.finding.suppressed_by.clone());
        let row = match self.0.remove(&key) {
            Some(known) => known.and(row),
            None => row,
        };
        self.0.insert(key, row);
    }

    fn finish(self, context: &Context) -> Vec<Row> {
        let mut rows: Vec<Row> = self.0.into_values().collect();
        // What breaks a rule needs no other explanation.
        let is_broken = |row: &&Row| {
            !is_explanation(&row.finding.rule) && Rule::of(&row.finding.rule) != Some(Rule::IpcFallback)
        };
        let mut broken: BTreeMap<_, BTreeMap<Rc<str>, u64>> = BTreeMap::new();
        for row in rows.iter().filter(is_broken) {
            // One rule has two rows where some of them are suppressed.
            *broken.entry(place(row)).or_default().entry(row.finding.rule.clone()).or_default() +=
                row.finding.count;
        }
        rows.retain(|row| {
            let explained =
                broken.get(&place(row)).and_then(|rules| rules.values().max()).copied().unwrap_or(0);
            Rule::of(&row.finding.rule) != Some(Rule::CallFailed) || explained < row.finding.count
        });
        complete(&mut rows);
        for row in &mut rows {
            row.processes.sort_unstable();
            row.processes.dedup();
            let of = |process: &usize| context.job.processes[*process].rank();
            row.finding.ranks = row.processes.iter().filter_map(of).collect();
            row.finding.ranks.sort_unstable();
            row.finding.ranks.dedup();
            let named = row.processes.iter().take(MOST_PROCS);
            row.finding.procs = named.map(|process| context.all.fates[*process].proc.clone()).collect();
            row.finding.procs_more = row.processes.len().saturating_sub(MOST_PROCS) as u64;
        }
        rows.sort_by_key(|row| (std::cmp::Reverse(row.severity), row.finding.time_ns, row.process));
        rows
    }
}
