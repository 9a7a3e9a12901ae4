//! `cupeer doctor`: examines the needs of `cupeer run` and the machine, and reports problems and what they would
//! break.
//!
//! In: the machine, NVIDIA's libraries, and a function that runs a program under cupeer. Out: a document with facts
//! and the effect of each, as tables or JSON, and the exit status. [`cupeer_p2p`] tests the links between devices.
//! Begin with `command` in this file, then `system`.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `args`: the options.
//! - `child`, `probe`, `queries`: child processes that load a driver, which may crash.
//! - `system`: the machine and this process.
//! - `document`: the document.
//! - `own`, `driver`, `program`: the needs of `cupeer run`.
//! - `p2p`, `between`: the options `--p2p` and `--between`.

pub mod args;

mod between;
mod child;
mod document;
mod driver;
mod own;
mod p2p;
mod probe;
mod program;
mod queries;
mod system;

pub use probe::command as probe_driver;
pub use queries::command as probe_system;

use crate::args::{DoctorArgs, DoctorFormat};
use anyhow::Result;
use cupeer_console::output::{self, line_width};
use cupeer_launch::program::RunProgram;
use cupeer_report::style::{Emphasis, Style};
use cupeer_views::table::Table;
use document::Document;
use std::process::ExitCode;
use system::{ExaminedSystem, Fact, Verdict};

/// Runs the command; `run` is a function that runs a program under cupeer.
pub fn command(args: &DoctorArgs, run: RunProgram) -> Result<ExitCode> {
    output::set_verbose(args.verbose);
    if args.p2p.p2p {
        return p2p::command(args);
    }
    if let [one, other] = &args.between[..] {
        return between::command(one, other, args.format);
    }
    let mut document = Document::new();
    own::examine_cupeer_files(&mut document);
    let chosen = cupeer_launch::driver::choose_driver(&args.driver)?;
    driver::examine_driver(&mut document, chosen.as_ref())?;
    let system = match args.driver.sim {
        None => ExaminedSystem::examine_machine(chosen.as_ref())?,
        Some(_) => ExaminedSystem::without_devices(),
    };
    // The simulated driver does not depend on the machine, so the machine is not examined.
    if args.driver.sim.is_none() {
        document.facts = system.facts();
    }
    document.process = system.process();
    if !args.program.is_empty() {
        program::examine_program(&mut document, &args.driver, &args.program, run)?;
    }
    if let Some(path) = &args.output {
        document::write(&document, path)?;
    }
    match args.format {
        DoctorFormat::Json => output::print_json(&document)?,
        DoctorFormat::Text => output::print_marked(&format_document(&document, line_width(), output::stdout_style()))?,
    };
    // Only problems that prevent `cupeer run` count. A bad fact about the machine concerns a single method of
    // sharing, which the user may not need.
    Ok(ExitCode::from(u8::from(!document.wrong.is_empty())))
}

fn format_document(document: &Document, width: usize, style: Style) -> String {
    let mut parts = Table::new(&["", ""], 2, 40);
    for part in &document.parts {
        parts.push_row([part.name.clone(), part.value.clone()]);
    }
    let mut text = parts.render(width).trim_start().to_owned();
    if !document.functions.is_empty() {
        let mut functions = Table::new(&["FUNCTION", "EXPORTED", "LOOKED UP"], 3, 20);
        for function in &document.functions {
            let exported = if function.exported { "yes" } else { "no" };
            functions.push_row([function.name.clone(), exported.to_owned(), function.lookup.clone()]);
        }
        text += &format!("\n{}", functions.render(width));
    }
    let alike = system::group_alike(&document.facts);
    if !alike.is_empty() {
        text += &format!("\n{}", render_machine_facts(&alike, width, style));
    }
    let bad: Vec<&Fact> = alike.iter().map(|(fact, _)| *fact).filter(|f| f.verdict == Verdict::Bad).collect();
    if !bad.is_empty() {
        let lines = bad.iter().map(|fact| format!("- {}\n", describe_bad_fact(fact)));
        text +=
            &format!("\n{}\n{}", style.emphasize(Emphasis::Heading, "What would break:"), lines.collect::<String>());
    }
    for (title, sentences) in [("Wrong", &document.wrong), ("Unclear", &document.unclear)] {
        let lines: String = sentences.iter().map(|sentence| format!("- {sentence}\n")).collect();
        if !lines.is_empty() {
            text += &format!("\n{title}:\n{lines}");
        }
    }
    if document.wrong.is_empty() && document.unclear.is_empty() {
        text += if bad.is_empty() {
            "\nAll checks above passed.\n"
        } else {
            "\nThe checks of cupeer and the driver passed.\n"
        };
    }
    text
}

/// Returns the table of facts about the machine. Among facts of the same name, bad ones come first.
fn render_machine_facts(alike: &[(&Fact, String)], width: usize, style: Style) -> String {
    let mut table = Table::new(&["MACHINE", "", "VALUE"], 3, 30);
    for (fact, about) in alike {
        let about = if about.is_empty() { String::new() } else { format!("{about}: ") };
        table.push_row([fact.name.clone(), fact.verdict.word().to_owned(), format!("{about}{}", fact.value)]);
    }
    let marks = [(Verdict::Bad.word(), Emphasis::Error), (Verdict::Unknown.word(), Emphasis::Warning)];
    table.render_highlighted(width, &marks, style)
}

/// Returns the effect of a bad fact, and how to fix it.
fn describe_bad_fact(fact: &Fact) -> String {
    let breaks = fact.breaks.as_deref().unwrap_or("it is not known what");
    let hint = fact.hint.as_ref().map(|hint| format!(". {hint}")).unwrap_or_default();
    format!("{}: {breaks}{hint}", fact.name)
}
