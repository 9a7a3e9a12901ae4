//! The report as a single HTML file that works offline: problems first, then charts and tables.
//!
//! It defines the layout of the page, and the place of each part of the model. Sentences come from the text report
//! ([`super::text`]), so that both use the same words. Similar rows are grouped and long lists are cut, so that the
//! page stays small, and the page states how much it omits. Rows are HTML, so that the page is complete without
//! scripts; scripts draw the charts from `charts::Data`, sort, and filter.
//!
//! All text of a recording is untrusted: maud escapes it, and `script_data` escapes text in scripts.

mod charts;
mod finding;
mod ledger;
mod memory;
mod story;
mod table;
mod tables;
mod timeline;
mod wrong;

use crate::form::{Cleaning, FormInput, FormProperties, ReportForm};
use crate::text::TextView;
use anyhow::Result;
use cupeer_record::Job;
use cupeer_report::filter::Filter;
use cupeer_report::model::Report;
use cupeer_report::terminal::{EscapingJsonWriter, clean_lines};
use cupeer_report::verdict::{HeadlineLine, Verdict};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;
use std::collections::HashMap;
use std::io::{self, Write};

/// Content security policy: the page fetches nothing, and runs only its own scripts. Plot needs inline
/// styles.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src";
const STYLE: &str = include_str!("page.css");
/// Drawing libraries. Their licenses must be distributed with them. `vendor/parts.json` names their sources.
const VENDORED: [&str; 2] = [include_str!("vendor/d3.min.js"), include_str!("vendor/plot.min.js")];
const LICENSES: [(&str, &str); 2] =
    [("D3", include_str!("vendor/LICENSE-d3")), ("Observable Plot", include_str!("vendor/LICENSE-plot"))];
const SCRIPTS: [&str; 6] = [
    include_str!("js/common.js"),
    include_str!("js/timeline.js"),
    include_str!("js/pairs.js"),
    include_str!("js/lives.js"),
    include_str!("js/memory.js"),
    include_str!("js/tables.js"),
];
/// The SHA-256 hashes of `VENDORED` and `SCRIPTS`, in base64. A test prints those of changed scripts.
const HASHES: [&str; 8] = [
    "8glLv2FBs1lyLE/kVOtsSw8OQswQzHr5IfwVj864ZTk=",
    "Q1gIZGd0B3fdeI1rJ6lc69uu/dUMcwowYBFwc71xNMs=",
    "dP6r7EIx8bxuPGksE9sC3zqPV4icwZj815RRdtdlaqw=",
    "bocdP1srCnh8XkoSbdLFT19WudDQDXC7AlC72NgwWFE=",
    "YI51MW3TB5USViWU7Jp5UUlShRwK/76iMOWptbJPU0I=",
    "5ABGYBRCfi2zQxmWJZ3vbRUw3D3V36BwGKQ6d7zeZjA=",
    "rV3jckwqqqviEcOpfRk+AbQtWTofvUsuD7qqqgcyLp4=",
    "8cDKlWizE3jXkMuc7AP1ibEBl55lsuSvVX6c3SiptqM=",
];
/// Form `html` of the report.
pub struct HtmlForm;

impl ReportForm for HtmlForm {
    fn properties(&self) -> FormProperties {
        let about = FormProperties::new("html", "One HTML file, which works offline");
        FormProperties { needs_calls: true, cleaning: Cleaning::Own, ..about }
    }

    fn render(&self, given: &mut FormInput, out: &mut dyn Write) -> Result<io::Result<()>> {
        let (job, filter, _) = given.recording()?;
        let shown = given.options.shown;
        Ok(out.write_all(render_page(job, filter, given.report()?, shown)?.as_bytes()))
    }
}

struct Page<'a> {
    report: &'a Report,
    verdict: &'a Verdict<'a>,
    headline: Vec<HeadlineLine<'a>>,
    /// The text form with its default limits.
    brief_view: TextView<'a>,
    /// Text form with all rows and frames.
    whole_view: TextView<'a>,
    ledger: ledger::HandleRows<'a>,
    /// Indexes of processes in the report.
    process_indexes: HashMap<&'a str, usize>,
}

/// Returns the page; `shown` is the argument of `cupeer report` for this recording.
pub fn render_page(job: &Job, filter: &Filter, report: &Report, shown: &str) -> Result<String> {
    let (verdict, whole) = (Verdict::of(report, false), Verdict::of(report, true));
    let page = Page {
        report,
        verdict: &verdict,
        headline: verdict.headline(shown),
        brief_view: TextView::without_wrapping(&verdict),
        whole_view: TextView::without_wrapping(&whole),
        ledger: ledger::group_handles(&report.handles),
        process_indexes: report.processes.iter().map(|process| &*process.proc).zip(0..).collect(),
    };
    let timeline = timeline::read_timeline(job, filter, report)?;
    let data = script_data(&page.collect_data(&timeline))?;
    let body = clean_lines(&page.render_body(&timeline).into_string());
    let policy = HASHES.iter().fold(POLICY.to_owned(), |policy, hash| policy + " 'sha256-" + hash + "'");
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "cupeer report " (clean_lines(shown)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (PreEscaped(body))
                script type="application/json" id="data" { (PreEscaped(data)) }
                @for script in VENDORED.iter().chain(&SCRIPTS) { script { (PreEscaped(script)) } }
            }
        }
    };
    Ok(document.into_string() + "\n")
}

/// Returns a value as JSON for a script element. No text in it can end the script or begin a comment.
fn script_data(value: &impl Serialize) -> Result<String> {
    let mut json = Vec::new();
    serde_json::to_writer(EscapingJsonWriter(&mut json), value).map_err(io::Error::from)?;
    Ok(String::from_utf8(json)?.replace('<', "\\u003c"))
}

impl Page<'_> {
    fn render_body(&self, timeline: &timeline::Timeline) -> Markup {
        let sections = [
            ("timeline", "Timeline", timeline_section(timeline)),
            ("memory", "Memory", self.memory_section()),
            ("record", "", self.recording_facts()),
            ("processes", "Processes", self.process_section()),
            ("devices", "Devices", self.device_section()),
            ("handles", "Handles", self.handle_section()),
            ("calls", "Calls", self.call_section()),
            ("more", "More", self.rare_sections()),
        ];
        // Leave out sections without content.
        let sections: Vec<_> = sections.into_iter().filter(|(.., section)| !section.0.is_empty()).collect();
        html! {
            a.skip href="#main" { "To the report" }
            header {
                strong { "cupeer " span { "report" } }
                nav aria-label="Sections" {
                    a href="#digest" { "Problems" }
                    @for (id, name, _) in &sections { @if !name.is_empty() { a href={ "#" (id) } { (name) } } }
                }
                input #search type="search" placeholder="Search: press /" aria-label="Search all tables and findings";
                output #found for="search" {}
            }
            main #main tabindex="-1" {
                (self.summary_section())
                (self.problem_section())
                @for (id, _, section) in &sections { section id=(id) { (section) } }
            }
            footer {
                details {
                    summary { "Drawn with " (LICENSES[1].0) " and " (LICENSES[0].0) ". This page asks nothing of any network." }
                    @for (name, license) in LICENSES { h3 { (name) } pre { (license) } }
                }
            }
        }
    }
}

/// Legend of a chart: classes of the style sheet, with their meanings.
type LegendEntries = [(&'static str, &'static str)];

const TIMELINE_KEYS: &LegendEntries = &[
    ("call", "call"),
    ("shape", "calls at that time"),
    ("failed", "failed"),
    ("hang", "has not returned"),
    ("death", "ended abnormally"),
    ("error", "error"),
    ("warning", "warning"),
    ("note", "note"),
    ("mark", "mark"),
    ("arrow", "from export to open"),
    ("free", "from close to free"),
    ("late", "freed while open"),
    ("unordered", "two uses that nothing orders"),
    ("life", "process"),
    ("stall", "no progress of any process"),
    ("gap", "nothing, shortened"),
    ("dead-row", "process that ended abnormally, or that others wait for"),
    ("wrong-row", "process that hangs, waits, or exited with an error"),
];
const LIVES_KEYS: &LegendEntries = &[
    ("life", "exported"),
    ("begun", "export"),
    ("freed", "free"),
    ("call", "open"),
    ("hang", "never closed"),
    ("failed", "with a problem"),
    ("death", "failed to open"),
];
const PAIRS_KEYS: &LegendEntries = &[
    ("enabled", "enabled"),
    ("call", "opened over IPC"),
    ("shape", "can access, or asked"),
    ("cannot", "cannot access"),
    ("failed", "failed"),
];
const OPENINGS_KEYS: &LegendEntries = &[("call", "opened and closed"), ("hang", "still open"), ("failed", "failed")];
const LINKS_KEYS: &LegendEntries = &[
    ("enabled", "enabled"),
    ("call", "opened over IPC"),
    ("failed", "failed, or a process that ended abnormally or that others wait for"),
    ("hang", "process that hangs or waits"),
    ("warn", "process that exited with an error"),
    ("shape", "other process"),
];

fn legend(keys: &LegendEntries) -> Markup {
    html! { span.legend { @for (class, words) in keys { span class={ "key " (class) } { (words) } } } }
}

/// Reserves the place for a chart that a script draws, with a description for screen readers.
fn chart_placeholder(id: &str, label: &str) -> Markup {
    html! { div.picture id=(id) role="img" aria-label=(label) {} }
}

fn timeline_section(timeline: &timeline::Timeline) -> Markup {
    use cupeer_report::moments::{duration, number};
    let said = match timeline.calls - timeline.single.min(timeline.calls) {
        0 => "Each call is a bar".to_owned(),
        folded => format!(
            "Of each process, the longest calls are bars, {} in all; {} more are folded into the grey shapes, which count calls in {}",
            number(timeline.single),
            number(folded),
            duration(timeline.width_ns)
        ),
    };
    html! {
        @if timeline.calls > 0 {
            h2 { "Timeline" }
            p.hint { (said) ". " span #folded {} }
            div.tools {
                button type="button" #each hidden aria-pressed="false" { "Each process" }
                button type="button" #zoom-in title="+" { "Zoom in" }
                button type="button" #zoom-out title="-" { "Zoom out" }
                button type="button" #fit title="0" { "Fit" }
                span #steps hidden {
                    button type="button" #previous title="p" { "◀ Previous" }
                    button type="button" #next title="n" { "Next ▶" }
                }
                (legend(TIMELINE_KEYS))
            }
            div.picture #ranks tabindex="0" role="application"
                aria-label="Timeline of all processes. Arrow keys move, plus and minus zoom, 0 shows all, n and p show the next and the previous notable moment, Enter opens it." {}
            p #moment role="status" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Stdio};

    /// The packages have its licenses from the list, and the page has them from here.
    #[test]
    fn vendored_parts_are_listed_with_their_licenses() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/html/vendor"));
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let list: Vec<HashMap<String, String>> = serde_json::from_str(&read("parts.json")).unwrap();
        let mut names = BTreeSet::from(["README.md".to_owned(), "parts.json".to_owned()]);
        for part in &list {
            for field in ["name", "version", "license", "source", "path", "sha256"] {
                assert!(part.get(field).is_some_and(|text| !text.is_empty()), "{field} of {part:?}");
            }
            let text = read(&part["text"]);
            assert!(text.contains("Copyright"), "{} is no licence", part["text"]);
            assert!(read(&part["file"]).contains(&part["version"]), "{} is another version", part["file"]);
            names.extend([part["file"].clone(), part["text"].clone()]);
        }
        let there = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let there: BTreeSet<String> = there.map(|name| name.into_string().unwrap()).collect();
        assert_eq!(there, names, "what is there, and what the list has");
        let scripts: Vec<String> = list.iter().map(|part| read(&part["file"])).collect();
        assert!(scripts == VENDORED, "the page has other scripts than the list");
        let texts: Vec<String> = list.iter().map(|part| read(&part["text"])).collect();
        assert_eq!(texts, LICENSES.map(|(_, text)| text), "the page has other licences than the list");
    }

    #[test]
    fn the_policy_has_the_hash_of_each_script() {
        let hash = "sha256sum | cut -c1-64 | tr a-f A-F | basenc --base16 -d | base64";
        let hashes = VENDORED.iter().chain(&SCRIPTS).map(|script| {
            let mut sum = Command::new("sh");
            sum.args(["-c", hash]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut sum = sum.spawn().unwrap();
            sum.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
            String::from_utf8(sum.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
        });
        assert_eq!(hashes.collect::<Vec<_>>(), HASHES);
    }

    #[test]
    fn nothing_in_what_is_vendored_ends_its_script() {
        for script in VENDORED.iter().chain(&SCRIPTS) {
            assert!(!script.contains("</script") && !script.contains("<!--"));
        }
        assert!(!STYLE.contains("</style") && !STYLE.contains("url(") && !STYLE.contains("@import"));
    }

    /// Returns the colors of marks that a script draws, without those of texts, grids, and highlights.
    fn colors(script: &str) -> BTreeSet<&str> {
        let neutral = ["text", "soft", "line", "panel", "accent", "mono", "on-color"];
        let all = script.split("var(--").skip(1).filter_map(|rest| rest.split(')').next());
        all.filter(|name| !neutral.contains(name) && !name.contains('$')).collect()
    }

    #[test]
    fn every_color_of_a_picture_is_in_its_legend() {
        let pairs = SCRIPTS[2];
        let (matrices, links) = pairs.split_once("picture(\"links\"").unwrap();
        // The names of processes have the ink of their rows.
        let rows = SCRIPTS[1].lines().filter(|line| !line.contains("const label =")).collect::<String>();
        // The colors of links are above, with those of the device matrix.
        let fates = matrices.lines().find(|line| line.contains("fateColors =")).unwrap();
        let openings = matrices.split_once("picture(\"openings\"").unwrap().1;
        let devices = matrices.lines().find(|line| line.contains("colorOf =")).unwrap();
        let all = [
            (colors(&rows), TIMELINE_KEYS, &["error", "warning", "note", "mark"][..]),
            (colors(SCRIPTS[3]), LIVES_KEYS, &[]),
            (colors(devices), PAIRS_KEYS, &[]),
            (colors(openings), OPENINGS_KEYS, &[]),
            (&colors(links) | &colors(fates), LINKS_KEYS, &[]),
        ];
        for (drawn, keys, more) in all {
            let in_style = |class: &str| {
                let begin = format!(".key.{class}::before");
                let line = STYLE.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("{begin}"));
                line.split("var(--").nth(1).unwrap().split(')').next().unwrap()
            };
            let told: BTreeSet<&str> = keys.iter().map(|(class, _)| in_style(class)).collect();
            assert!(!drawn.is_empty());
            for color in drawn.iter().chain(more) {
                assert!(told.contains(color), "{color} is in no legend: {told:?}");
            }
        }
    }

    #[test]
    fn data_ends_no_script_and_stays_the_same() {
        let hostile = ["</script><script>alert(1)</script>", "<!--<script>", "\u{2028}\u{202e}\"'"];
        let text = script_data(&hostile).unwrap();
        assert!(!text.contains('<') && !text.contains('\u{202e}'), "{text}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), hostile);
    }
}
