//! `cupeer doctor --between`: what stands between two processes that are to share, by what each of them wrote about itself.
//!
//! What belongs here: reading, and how it is printed. `ways` decides.

mod ways;

use super::document;
use crate::args::DoctorFormat;
use anyhow::Result;
use cupeer_console::output::{self, terminal_width};
use cupeer_report::style::{Mark, Style};
use cupeer_views::table::Table;
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use ways::{Method, Possible, ways};

/// What `--between --format json` prints. Names stay; more may be added.
#[derive(Serialize)]
struct Comparison {
    schema: &'static str,
    ways: Vec<Method>,
}

pub fn command(one: &Path, other: &Path, format: DoctorFormat) -> Result<ExitCode> {
    let (one, other) = (document::read(one)?, document::read(other)?);
    let ways = ways(&one.process, &other.process);
    let is_any_possible = ways.iter().any(|way| way.possible != Possible::No);
    match format {
        DoctorFormat::Json => output::print_json(&Comparison { schema: "cupeer-doctor-between/1", ways })?,
        DoctorFormat::Text => output::print_marked(&text(&ways, terminal_width(), output::stdout_style()))?,
    };
    Ok(ExitCode::from(u8::from(!is_any_possible)))
}

fn text(ways: &[Method], width: usize, style: Style) -> String {
    let mut table = Table::new(&["WAY OF SHARING", "", "BECAUSE"], 3, 30);
    for way in ways {
        let reasons: Vec<&str> = way.because.iter().map(|reason| reason.says.as_str()).collect();
        table.row([way.way.to_owned(), way.possible.word().to_owned(), reasons.join("; ")]);
    }
    let mark = |line: &str| {
        let marks = [(Possible::No, Mark::Error), (Possible::Unknown, Mark::Warning)];
        let found =
            marks.into_iter().find(|(possible, _)| line.contains(&format!("  {}  ", possible.word())));
        found.map_or(line.to_owned(), |(possible, mark)| style.mark_in(mark, possible.word(), line))
    };
    let mut text: String = table.render(width).lines().map(|line| format!("{}\n", mark(line))).collect();
    let mut hints: Vec<&str> = Vec::new();
    for reason in ways.iter().flat_map(|way| &way.because) {
        hints.extend(reason.hint.as_deref().filter(|hint| !hints.contains(hint)));
    }
    if !hints.is_empty() {
        let lines: String = hints.iter().map(|hint| format!("- {hint}\n")).collect();
        text += &format!("\n{}\n{lines}", style.mark(Mark::Heading, "What to do:"));
    }
    text
}
