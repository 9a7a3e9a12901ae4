//! The rows: findings of one rule and function, with one result and from one place, over all processes.

use super::super::collect::Collected;
use super::super::filter::Filter;
use super::super::functions::Functions;
use super::super::model::{Finding, MOST_PROCS, Object, Place};
use super::super::places::{Places, Stack};
use super::super::results;
use super::objects::Objects;
use super::{FindingGroup, Key, handles, is_explanation, ranks};
use cupeer_record::Job;
use cupeer_rules::reason::Reason;
use cupeer_rules::{Basis, Rule, Severity};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding::Confidence;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What findings follow from.
pub struct Context<'a> {
    /// The record.
    pub job: &'a Job,
    /// What was read of it.
    pub all: &'a Collected,
    /// What is asked for.
    pub filter: &'a Filter,
}

/// A row, with what it takes to join it to others.
pub struct Row {
    /// The row of the report.
    pub finding: Finding,
    /// How bad it is.
    pub severity: Severity,
    /// The process of the first.
    pub process: usize,
    /// Whether the report has found it, and no process.
    pub by_report: bool,
    /// All processes.
    processes: Vec<usize>,
}

/// Something that the report has found, before its place has a name.
pub struct Draft<'a> {
    /// What.
    pub sentence: Sentence,
    /// The function.
    pub function: FnId,
    /// What it returned.
    pub result: Option<i32>,
    /// The process of the first, and then all others.
    pub processes: Vec<usize>,
    /// Thread and number of the first call.
    pub site: (u32, u64),
    /// Where it was made.
    pub stack: Stack,
    /// When it began.
    pub at: u64,
    /// When the last one began.
    pub last: u64,
    /// How many there are.
    pub count: u64,
    /// What the driver said about the first.
    pub driver_message: Option<&'a [u8]>,
    /// What it is about.
    pub objects: Vec<Object>,
}

/// What was found, in words.
pub struct Sentence {
    /// The rule that is broken.
    pub rule: Rule,
    /// The sentence with its values.
    pub message: String,
    /// What to do.
    pub hint: &'static str,
    /// How sure it is.
    pub confidence: Confidence,
    /// The argument that it is about.
    pub argument: Option<&'static str>,
}

impl Sentence {
    /// Says a reason.
    pub fn of(reason: &Reason, confidence: Confidence, argument: &'static str) -> Self {
        let (message, hint) = (reason.to_string(), reason.hint());
        let argument = Some(argument).filter(|argument| !argument.is_empty());
        Sentence { rule: reason.rule(), message, hint, confidence, argument }
    }
}

/// All rows: the worst first, then in the order of time.
pub fn rows(context: &Context, places: &mut Places) -> Vec<Row> {
    let objects = Objects::new(context.job, &context.all.stacks);
    let mut joined = Joined::default();
    let (drafts, revised) = handles::drafts(context, &objects, places);
    for (key, kept) in context.all.findings.kept.iter().filter(|(key, _)| !revised.contains(key)) {
        if let Some(row) = context.kept(key, kept, &objects, places) {
            joined.add(row);
        }
    }
    for draft in drafts {
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
    /// A row of what was found while events were read.
    fn kept(&self, key: &Key, kept: &FindingGroup, objects: &Objects, places: &mut Places) -> Option<Row> {
        let (all, first) = (self.all, &kept.first);
        let (caller, _) = places.stack(&all.stacks, key.stack);
        let rule = all.findings.names.name(key.rule);
        let spec = Rule::of(&rule).map(Rule::spec);
        let severity = match spec.filter(|_| first.by_report) {
            Some(spec) => all.findings.asked[key.process].severity(spec, library(&caller))?,
            None => first.finding.severity,
        };
        let function = all.functions.name(key.function);
        let id = Functions::id(key.function);
        let args = id.map_or(&[][..], |function| function.spec().args);
        let basis = spec.map(|spec| spec.basis_at(id));
        let recorded = first.finding.objects.iter();
        let recorded = recorded.map(|object| objects.recorded(object, key.process, places)).collect();
        let finding = Finding {
            rule,
            severity: severity.word(),
            confidence: first.finding.confidence.word(),
            function,
            argument: first.finding.argument.and_then(|i| Some(args.get(usize::from(i))?.name)),
            result: key.result.map(|result| results::name(id, result)),
            proc: all.fates[key.process].proc.clone(),
            tid: first.tid,
            seq: first.seq,
            time_ns: first.at,
            last_ns: kept.last,
            count: kept.count,
            procs: Vec::new(),
            procs_more: 0,
            ranks: Vec::new(),
            message: first.finding.message.clone(),
            sentence: basis.map(Basis::sentence),
            source: basis.map(Basis::source),
            hint: first.finding.hint.clone(),
            driver_message: first.driver_message.as_deref().map(text),
            caller,
            objects: recorded,
        };
        let by_report = first.by_report;
        Some(Row { finding, severity, process: key.process, by_report, processes: vec![key.process] })
    }

    /// A row of what the report has found; `None` where nobody asks for it.
    fn drafted(&self, draft: Draft, places: &mut Places) -> Option<Row> {
        let Draft { sentence, function, at, .. } = draft;
        let all = self.all;
        let processes: Vec<usize> = draft.processes.into_iter().filter(|p| self.filter.process(*p)).collect();
        let process = *processes.first()?;
        if !self.filter.shows(Some(function), draft.result.is_some_and(|result| result != 0), at) {
            return None;
        }
        let (caller, _) = places.stack(&all.stacks, draft.stack);
        let rule = sentence.rule.spec();
        let severity = all.findings.asked[process].severity(rule, library(&caller))?;
        let finding = Finding {
            rule: rule.name.into(),
            severity: severity.word(),
            confidence: sentence.confidence.word(),
            function: function.spec().name.into(),
            argument: sentence.argument,
            result: draft.result.map(|result| results::name(Some(function), result)),
            proc: all.fates[process].proc.clone(),
            tid: draft.site.0,
            seq: draft.site.1,
            time_ns: at,
            last_ns: draft.last,
            count: draft.count,
            procs: Vec::new(),
            procs_more: 0,
            ranks: Vec::new(),
            message: sentence.message,
            sentence: Some(rule.basis_at(Some(function)).sentence()),
            source: Some(rule.basis_at(Some(function)).source()),
            hint: sentence.hint.into(),
            driver_message: draft.driver_message.map(text),
            caller,
            objects: draft.objects,
        };
        Some(Row { finding, severity, process, by_report: true, processes })
    }
}

impl Row {
    /// Two rows of the same as one.
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

/// The calls that a row is about: function, result and caller.
fn place(row: &Row) -> (Rc<str>, Option<String>, Place) {
    let Finding { function, result, caller, .. } = &row.finding;
    (function.clone(), result.clone(), caller.clone())
}

fn library(caller: &Place) -> &str {
    caller.library.as_deref().unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The rows by what they have in common.
#[derive(Default)]
struct Joined(BTreeMap<Common, Row>);

/// Rule, function, result and caller.
type Common = (Rc<str>, Rc<str>, Option<String>, Place);

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
        let Finding { rule, function, result, caller, .. } = &row.finding;
        let key = (rule.clone(), function.clone(), result.clone(), caller.clone());
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
        let broken: BTreeMap<_, u64> =
            rows.iter().filter(is_broken).map(|row| (place(row), row.finding.count)).collect();
        rows.retain(|row| {
            let explained = broken.get(&place(row)).copied().unwrap_or(0);
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
