//! The verdicts on a terminal: a sentence, a matrix, what is bad, and what the links carry.

use super::plan::{Direction, Tested};
use super::request::Device;
use super::verdict::{Verdict, Way};
use super::{Findings, hints};
use cupeer_report::style::{Mark, Style};
use cupeer_report::table::{Table, display_width};
use std::fmt::Write;

pub fn show(findings: &Findings, style: Style, width: usize) -> String {
    let mut text = format!("{}\n", first(findings));
    text += &matrices(findings, style);
    let bad = bad(findings, style);
    if !bad.is_empty() {
        text += &format!("\n{}\n{bad}", style.mark(Mark::Heading, "Bad"));
    }
    let untested = left_out(findings);
    if !untested.is_empty() {
        text += &format!("\n{}\n{untested}", style.mark(Mark::Heading, "Not tested"));
    }
    text += &rates(findings, style, width);
    text
}

/// How many of all, in one sentence.
fn first(findings: &Findings) -> String {
    let pairs = &findings.pairs;
    let reachable: Vec<&Direction> = pairs.iter().filter(|pair| pair.about.can_access).collect();
    let count = findings.devices.len();
    if reachable.is_empty() {
        return match count {
            0 => "There is no device.".to_owned(),
            1 => "There is one device, and so no pair to test.".to_owned(),
            _ => format!(
                "None of the {count} devices reaches another one, the driver says: there is nothing to test."
            ),
        };
    }
    let all = reachable.len();
    let is = |pair: &&&Direction, wanted: &dyn Fn(&Verdict) -> bool| {
        pair.ways.iter().all(|way| wanted(&way.verdict))
    };
    let good = reachable.iter().filter(|pair| is(pair, &|verdict| *verdict == Verdict::Good)).count();
    let bad = reachable.iter().filter(|pair| !is(pair, &|verdict| !verdict.is_bad())).count();
    let ways = Way::ALL.len();
    if good == all {
        return format!("All {all} directions between {count} devices are good in all {ways} ways.");
    }
    let untested = all - good - bad;
    let mut sentence = format!("Of {all} directions between {count} devices, ");
    let mut parts = Vec::new();
    for (number, what) in [(bad, "bad"), (good, "good in all ways"), (untested, "not tested in all ways")] {
        if number > 0 {
            parts.push(format!("{number} {} {what}", if number == 1 { "is" } else { "are" }));
        }
    }
    let _ = write!(sentence, "{}.", parts.join(", "));
    sentence
}

fn short(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Wrong { .. } => "wrong",
        Verdict::NotTested { .. } => "untested",
        other => other.name(),
    }
}

fn mark(verdict: &Verdict) -> Option<Mark> {
    match verdict {
        Verdict::Good => None,
        Verdict::NotTested { .. } => Some(Mark::Note),
        Verdict::Refused { .. } => Some(Mark::Warning),
        _ => Some(Mark::Error),
    }
}

/// One matrix for each way, or one for all where they are alike.
fn matrices(findings: &Findings, style: Style) -> String {
    let verdict = |pair: &Direction, way: Way| {
        pair.ways.iter().find(|tested| tested.way == way).map(|tested| tested.verdict.clone())
    };
    let alike = findings.pairs.iter().all(|pair| {
        let names: Vec<_> = pair.ways.iter().map(|tested| short(&tested.verdict)).collect();
        names.windows(2).all(|two| two[0] == two[1])
    });
    if findings.pairs.is_empty() {
        return String::new();
    }
    let ways: &[Way] = if alike { &Way::ALL[..1] } else { &Way::ALL };
    let mut text = String::new();
    for way in ways {
        let title = if alike { "all ways" } else { way.doc() };
        let title = format!("writer \\ owner, {title}");
        let _ = writeln!(text, "\n{}", style.mark(Mark::Heading, &title));
        let count = findings.devices.len();
        let cell = |from: usize, to: usize| {
            let pair = findings.pairs.iter().find(|pair| (pair.from, pair.to) == (from, to));
            match pair.map(|pair| verdict(pair, *way)) {
                None => (".".to_owned(), None),
                Some(None) => ("-".to_owned(), Some(Mark::Note)),
                Some(Some(verdict)) => (short(&verdict).to_owned(), mark(&verdict)),
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
                let word = mark.map_or(word.clone(), |mark| style.mark(mark, &word));
                let _ = write!(text, "{padding}{word}");
            }
            text.push('\n');
        }
    }
    text
}

fn title(pair: &Direction, tested: &Tested) -> String {
    format!("{} -> {}, {}", pair.from, pair.to, tested.way.doc())
}

/// What is bad, with what was tried and what helps.
fn bad(findings: &Findings, style: Style) -> String {
    let mut text = String::new();
    for pair in &findings.pairs {
        for tested in pair.ways.iter().filter(|tested| tested.verdict.is_bad()) {
            let name = style.mark(mark(&tested.verdict).unwrap_or(Mark::Note), tested.verdict.name());
            let _ = writeln!(text, "- {}: {name}", title(pair, tested));
            // Several checks that say the same are one line.
            let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
            for (check, verdict) in &tested.checks {
                let said = match verdict {
                    Verdict::Good => "good".to_owned(),
                    other => format!("{}, {}", other.name(), other.detail()),
                };
                match groups.iter_mut().find(|(known, _)| *known == said) {
                    Some((_, checks)) => checks.push(check.doc()),
                    None => groups.push((said, vec![check.doc()])),
                }
            }
            for (said, checks) in groups {
                let _ = writeln!(text, "    {}: {said}", checks.join(", "));
            }
            for hint in hints::of(tested) {
                let _ = writeln!(text, "    hint: {hint}");
            }
        }
    }
    text
}

/// The reasons for which something was not tested, each once.
fn left_out(findings: &Findings) -> String {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    let checks = findings
        .pairs
        .iter()
        .flat_map(|pair| &pair.ways)
        .flat_map(|tested| tested.checks.iter().map(move |(check, verdict)| (tested, *check, verdict)));
    for (tested, check, verdict) in checks {
        let Verdict::NotTested { reason } = verdict else { continue };
        if tested.verdict.is_bad() {
            continue;
        }
        let said = match tested.verdict {
            Verdict::NotTested { .. } => format!("{}: {reason}", tested.way.doc()),
            _ => format!("{}: {reason}", check.doc()),
        };
        match reasons.iter_mut().find(|(known, _)| *known == said) {
            Some((_, count)) => *count += 1,
            None => reasons.push((said, 1)),
        }
    }
    reasons.into_iter().map(|(said, count)| format!("- {said} ({count})\n")).collect()
}

/// What the links carry.
fn rates(findings: &Findings, style: Style, width: usize) -> String {
    let head = &["WRITER", "OWNER", "WAY", "COPY GB/s", "KERNEL GB/s", "ROUND TRIP us"];
    let mut table = Table::new(head, 6, 10).with_numbers(&[3, 4, 5]);
    for pair in &findings.pairs {
        for tested in &pair.ways {
            let Some(measured) = tested.measured else { continue };
            let giga = |rate: u64| format!("{:.1}", rate as f64 / 1e3);
            let trip = measured.round_trip_ns.map_or("-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3));
            table.row([
                pair.from.to_string(),
                pair.to.to_string(),
                tested.way.name().to_owned(),
                giga(measured.copy_mb_s),
                giga(measured.kernel_mb_s),
                trip,
            ]);
        }
    }
    match table.is_empty() {
        true => String::new(),
        false => format!("\n{}\n{}", style.mark(Mark::Heading, "Measured"), table.render(width)),
    }
}

/// The devices, as a table.
pub fn devices(devices: &[Device], width: usize) -> String {
    let mut table = Table::new(&["GPU", "NAME", "PCI", "UUID"], 3, 10);
    for (index, device) in devices.iter().enumerate() {
        table.row([
            index.to_string(),
            device.name.clone(),
            device.pci.clone(),
            cupeer_spec::uuid::Uuid(device.uuid).to_string(),
        ]);
    }
    table.render(width)
}
