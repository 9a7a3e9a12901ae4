//! Compares two reports of `cupeer doctor` (`--between`): which methods of sharing device memory are possible
//! between the two processes, and what prevents the others.
//!
//! This file reads the reports and prints the result. `methods` decides.

mod methods;

use super::document;
use crate::args::DoctorFormat;
use anyhow::Result;
use cupeer_console::output::{self, line_width};
use cupeer_report::style::{Emphasis, Style};
use cupeer_views::table::Table;
use methods::{Feasibility, MethodVerdict, judge_methods};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;

/// Document that `--between --format json` prints. The names of its fields are stable, but fields may be
/// added.
#[derive(Serialize)]
struct ComparisonDocument {
    schema: &'static str,
    ways: Vec<MethodVerdict>,
}

pub fn command(one: &Path, other: &Path, format: DoctorFormat) -> Result<ExitCode> {
    let (one, other) = (document::read(one)?, document::read(other)?);
    let ways = judge_methods(&one.process, &other.process);
    let is_any_possible = ways.iter().any(|way| way.possible != Feasibility::No);
    match format {
        DoctorFormat::Json => output::print_json(&ComparisonDocument { schema: "cupeer-doctor-between/1", ways })?,
        DoctorFormat::Text => output::print_marked(&format_methods(&ways, line_width(), output::stdout_style()))?,
    };
    Ok(ExitCode::from(u8::from(!is_any_possible)))
}

fn format_methods(ways: &[MethodVerdict], width: usize, style: Style) -> String {
    let mut table = Table::new(&["WAY OF SHARING", "", "BECAUSE"], 3, 30);
    for way in ways {
        let reasons: Vec<&str> = way.because.iter().map(|reason| reason.says.as_str()).collect();
        table.push_row([way.way.to_owned(), way.possible.word().to_owned(), reasons.join("; ")]);
    }
    let marks = [(Feasibility::No.word(), Emphasis::Error), (Feasibility::Unknown.word(), Emphasis::Warning)];
    let mut text = table.render_highlighted(width, &marks, style);
    let mut hints: Vec<&str> = Vec::new();
    for reason in ways.iter().flat_map(|way| &way.because) {
        hints.extend(reason.hint.as_deref().filter(|hint| !hints.contains(hint)));
    }
    if !hints.is_empty() {
        let lines: String = hints.iter().map(|hint| format!("- {hint}\n")).collect();
        text += &format!("\n{}\n{lines}", style.emphasize(Emphasis::Heading, "What to do:"));
    }
    text
}
