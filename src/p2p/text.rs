//! The verdicts on a terminal: a sentence, matrices, bad links, and rates.

use super::plan::{Direction, DirectionCounts, MethodResult};
use super::request::Device;
use super::verdict::{SharingMethod, Verdict};
use super::{Findings, hints};
use crate::fact::Fact;
use cupeer_report::style::{Emphasis, Style};
use cupeer_views::table::{Table, display_width};
use std::fmt::Write;

pub fn format_findings(findings: &Findings, style: Style, width: usize) -> String {
    let mut text = format!("{}\n", summary_sentence(findings));
    text += &verdict_matrices(findings, style);
    let bad = bad_directions(findings, style);
    if !bad.is_empty() {
        text += &format!("\n{}\n{bad}", style.emphasize(Emphasis::Heading, "Bad"));
    }
    let untested = list_untested(findings);
    if !untested.is_empty() {
        text += &format!("\n{}\n{untested}", style.emphasize(Emphasis::Heading, "Not tested"));
    }
    text += &rates_table(findings, style, width);
    text
}

/// Returns a sentence that summarizes all directions.
fn summary_sentence(findings: &Findings) -> String {
    let pairs = &findings.pairs;
    let reachable = pairs.iter().filter(|pair| pair.about.can_access).count();
    let count = findings.devices.len();
    if reachable == 0 {
        return match count {
            0 => "There is no device.".to_owned(),
            1 => "There is one device, and so no pair to test.".to_owned(),
            _ => format!("None of the {count} devices reaches another one, the driver says: there is nothing to test."),
        };
    }
    let (all, ways) = (reachable, SharingMethod::ALL.len());
    let DirectionCounts { bad, good, untested } = DirectionCounts::count(pairs);
    if good == all {
        return format!("All {all} directions between {count} devices are good in all {ways} ways.");
    }
    let parts = [(bad, "bad"), (good, "good in all ways"), (untested, "not tested in all ways")];
    let parts = parts
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {} {what}", if number == 1 { "is" } else { "are" }));
    format!("Of {all} directions between {count} devices, {}.", parts.collect::<Vec<_>>().join(", "))
}

fn verdict_mark(verdict: &Verdict) -> Option<Emphasis> {
    match verdict {
        Verdict::Good => None,
        Verdict::NotTested { .. } => Some(Emphasis::Note),
        Verdict::Refused { .. } => Some(Emphasis::Warning),
        _ => Some(Emphasis::Error),
    }
}

/// Returns a matrix of verdicts for each method, or a single matrix if all methods have the same verdicts.
fn verdict_matrices(findings: &Findings, style: Style) -> String {
    let verdict = |pair: &Direction, way: SharingMethod| {
        pair.ways.iter().find(|tested| tested.way == way).map(|tested| tested.verdict.clone())
    };
    let alike = findings.pairs.iter().all(|pair| {
        let names: Vec<_> = pair.ways.iter().map(|tested| tested.verdict.matrix_word()).collect();
        names.windows(2).all(|two| two[0] == two[1])
    });
    if findings.pairs.is_empty() {
        return String::new();
    }
    let ways: &[SharingMethod] = if alike { &SharingMethod::ALL[..1] } else { &SharingMethod::ALL };
    let mut text = String::new();
    for way in ways {
        let title = if alike { "all ways" } else { way.description() };
        let title = format!("writer \\ owner, {title}");
        let _ = writeln!(text, "\n{}", style.emphasize(Emphasis::Heading, &title));
        let count = findings.devices.len();
        let cell = |from: usize, to: usize| {
            let pair = findings.pairs.iter().find(|pair| (pair.from, pair.to) == (from, to));
            match pair.map(|pair| verdict(pair, *way)) {
                None => (".".to_owned(), None),
                Some(None) => ("-".to_owned(), Some(Emphasis::Note)),
                Some(Some(verdict)) => (verdict.matrix_word().to_owned(), verdict_mark(&verdict)),
            }
        };
        let width = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let width = width.map(|(from, to)| display_width(&cell(from, to).0)).max().unwrap_or(1).max(2);
        let head: String = (0..count).map(|to| format!("  {to:>width$}")).collect();
        let _ = writeln!(text, "{:>4}{head}", "");
        for from in 0..count {
            let _ = write!(text, "{from:>4}");
            for to in 0..count {
                let (word, mark) = cell(from, to);
                let padding = " ".repeat(2 + width - display_width(&word));
                let word = mark.map_or(word.clone(), |mark| style.emphasize(mark, &word));
                let _ = write!(text, "{padding}{word}");
            }
            text.push('\n');
        }
    }
    text
}

/// Lists the bad directions, with their checks and hints. Methods with the same text share an entry.
fn bad_directions(findings: &Findings, style: Style) -> String {
    let mut text = String::new();
    for pair in &findings.pairs {
        let bad = pair.ways.iter().filter(|tested| tested.verdict.is_bad());
        for (about, ways) in group_by_text(bad.map(|tested| (results_and_hints(tested, pair.is_nvlink()), tested))) {
            let verdict = &ways[0].verdict;
            let name = style.emphasize(verdict_mark(verdict).unwrap_or(Emphasis::Note), verdict.name());
            let names: Vec<&str> = ways.iter().map(|tested| tested.way.description()).collect();
            let names = if ways.len() == SharingMethod::ALL.len() { "all ways".to_owned() } else { names.join(", ") };
            let _ = write!(text, "- {} -> {}, {names}: {name}\n{about}", pair.from, pair.to);
        }
        for Fact { name, about, verdict, value, hint, .. } in findings.explaining_facts(pair) {
            let place = if about.is_empty() { String::new() } else { format!(" of {}", about.join(" -> ")) };
            let hint = hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
            let _ = writeln!(text, "    the system: {name}{place}, {}: {value}{hint}", verdict.word());
        }
    }
    text
}

/// Groups values by their texts, in the order of the first value of each group.
fn group_by_text<T>(all: impl Iterator<Item = (String, T)>) -> Vec<(String, Vec<T>)> {
    let mut groups: Vec<(String, Vec<T>)> = Vec::new();
    for (text, value) in all {
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, values)) => values.push(value),
            None => groups.push((text, vec![value])),
        }
    }
    groups
}

/// Returns lines with the results of the checks of a method, and its hints.
fn results_and_hints(tested: &MethodResult, is_nvlink: bool) -> String {
    let mut text = String::new();
    let said = |verdict: &Verdict| match verdict {
        Verdict::Good => "good".to_owned(),
        other => format!("{}, {}", other.name(), other.explanation()),
    };
    // Checks with the same result share a line.
    for (said, checks) in
        group_by_text(tested.checks.iter().map(|(check, verdict)| (said(verdict), check.description())))
    {
        let _ = writeln!(text, "    {}: {said}", checks.join(", "));
    }
    for hint in hints::hints_for(tested, is_nvlink) {
        let _ = writeln!(text, "    hint: {hint}");
    }
    text
}

/// Lists the reasons why checks were not run. Each reason is listed once, with the number of checks.
fn list_untested(findings: &Findings) -> String {
    let mut reasons = Vec::new();
    for tested in findings.pairs.iter().flat_map(|pair| &pair.ways) {
        match &tested.verdict {
            Verdict::NotTested { reason } => reasons.push(format!("{}: {reason}", tested.way.description())),
            // Bad methods are already listed with all their checks.
            verdict if verdict.is_bad() => {}
            _ => reasons.extend(tested.checks.iter().filter_map(|(check, verdict)| match verdict {
                Verdict::NotTested { reason } => Some(format!("{}: {reason}", check.description())),
                _ => None,
            })),
        }
    }
    let times = |count: usize| if count == 1 { String::new() } else { format!(" ({count} times)") };
    let groups = group_by_text(reasons.into_iter().map(|reason| (reason, ())));
    groups.into_iter().map(|(said, all)| format!("- {said}{}\n", times(all.len()))).collect()
}

/// Returns a table of the measured rates and the nominal rates.
fn rates_table(findings: &Findings, style: Style, width: usize) -> String {
    let head = &["WRITER", "OWNER", "WAY", "COPY GB/s", "KERNEL GB/s", "PROMISED GB/s", "ROUND TRIP us"];
    let mut table = Table::new(head, 7, 10).with_numbers(&[3, 4, 5, 6]);
    let giga = |rate: u64| format!("{:.1}", rate as f64 / 1e3);
    for pair in &findings.pairs {
        for tested in &pair.ways {
            let Some(measured) = tested.measured else { continue };
            let promised = pair.promise.and_then(|promise| promise.mb_s);
            let trip = measured.round_trip_ns.map(|ns| format!("{:.1}", ns as f64 / 1e3));
            table.push_row([
                pair.from.to_string(),
                pair.to.to_string(),
                tested.way.name().to_owned(),
                giga(measured.copy_mb_s),
                giga(measured.kernel_mb_s),
                promised.map_or("unknown".to_owned(), giga),
                trip.unwrap_or("unknown".to_owned()),
            ]);
        }
    }
    if table.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n{}", style.emphasize(Emphasis::Heading, "Measured"), table.render(width));
    for pair in &findings.pairs {
        let best = pair.ways.iter().filter_map(|tested| tested.measured).map(|measured| measured.copy_mb_s).max();
        let promised = pair.promise.and_then(|promise| promise.mb_s);
        if let (Some(best), Some(promised)) = (best, promised)
            && best * 100 < promised * SLOW_PERCENT
        {
            let _ = writeln!(
                text,
                "{} -> {}: copies carry {}% of what the link promises; the headers of packets take 10 to 25%, and the rest \
                 is a link that is shared, narrow, or goes through the CPU",
                pair.from,
                pair.to,
                best * 100 / promised
            );
        }
    }
    text
}

/// Percentage of the nominal rate below which a measured rate gets a remark.
const SLOW_PERCENT: u64 = 70;

/// Returns a table of the devices.
pub fn devices_table(devices: &[Device], width: usize) -> String {
    let mut table = Table::new(&["GPU", "NAME", "PCI", "UUID"], 3, 10);
    for (index, device) in devices.iter().enumerate() {
        table.push_row([
            index.to_string(),
            device.name.clone(),
            device.pci.clone(),
            cupeer_spec::uuid::Uuid(device.uuid).to_string(),
        ]);
    }
    table.render(width)
}
