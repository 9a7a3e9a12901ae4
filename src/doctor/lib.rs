//! `cupeer doctor`: examines what `run` rests on and the machine below it, and says what is wrong or would break what.
//!
//! In: the machine, NVIDIA's libraries, and a function that runs a program under cupeer. Out: a document with facts and what each
//! would break, as tables or JSON, and its exit status. Links between devices are tested by [`cupeer_p2p`]. Begin with `command` in
//! this file, then `system`.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `args`: the options.
//! - `child`, `probe`, `asked`: processes of their own for what loads a driver, which may crash.
//! - `system`: the machine and this process.
//! - `document`: the document.
//! - `own`, `driver`, `program`: what `run` rests on.
//! - `p2p`, `between`: the options `--p2p` and `--between`.

pub mod args;
mod asked;
mod between;
mod child;
mod document;
mod driver;
mod own;
mod p2p;
mod probe;
mod program;
mod system;

pub use asked::command as probe_system;
pub use probe::command as probe_driver;

use crate::args::{DoctorArgs, DoctorFormat};
use anyhow::Result;
use cupeer_console::output;
use cupeer_console::output::terminal_width;
use cupeer_launch::program::Run;
use cupeer_report::style::{Mark, Style};
use cupeer_views::table::Table;
use document::{Document, Report};
use std::process::ExitCode;
use system::{Fact, Verdict};

/// Runs the command; `run` runs a program under cupeer.
pub fn command(args: &DoctorArgs, run: Run) -> Result<ExitCode> {
    output::be_verbose(args.verbose);
    if args.p2p.p2p {
        return p2p::command(args);
    }
    if let [one, other] = &args.between[..] {
        return between::command(one, other, args.format);
    }
    let mut report = Report::default();
    own::look(&mut report);
    let chosen = cupeer_launch::driver::choose(&args.driver)?;
    driver::look(&mut report, chosen.as_ref())?;
    // The simulated driver rests on nothing of the machine.
    let system = match args.driver.sim {
        None => system::System::here(chosen.as_ref())?,
        Some(_) => system::System::without_devices(),
    };
    let facts = if args.driver.sim.is_none() { system.facts() } else { Vec::new() };
    if !args.program.is_empty() {
        program::look(&mut report, &args.driver, &args.program, run)?;
    }
    let document = Document::new(report, facts, &system);
    if let Some(path) = &args.output {
        document::write(&document, path)?;
    }
    match args.format {
        DoctorFormat::Json => output::print_json(&document)?,
        DoctorFormat::Text => {
            output::print_marked(&text(&document, terminal_width(), output::stdout_style()))?
        }
    };
    // Only what `run` rests on counts: a bad row of the machine is about some way of sharing, which nobody may want.
    Ok(ExitCode::from(u8::from(!document.wrong.is_empty())))
}

fn text(document: &Document, width: usize, style: Style) -> String {
    let mut parts = Table::new(&["", ""], 2, 40);
    for part in &document.parts {
        parts.row([part.name.clone(), part.value.clone()]);
    }
    let mut text = parts.render(width).trim_start().to_owned();
    if !document.functions.is_empty() {
        let mut functions = Table::new(&["FUNCTION", "EXPORTED", "LOOKED UP"], 3, 20);
        for function in &document.functions {
            let exported = if function.exported { "yes" } else { "no" };
            functions.row([function.name.clone(), exported.to_owned(), function.lookup.clone()]);
        }
        text += &format!("\n{}", functions.render(width));
    }
    let alike = system::alike(&document.facts);
    if !alike.is_empty() {
        text += &format!("\n{}", machine(&alike, width, style));
    }
    let bad: Vec<&Fact> = alike.iter().map(|(fact, _)| *fact).filter(|f| f.verdict == Verdict::Bad).collect();
    if !bad.is_empty() {
        let lines = bad.iter().map(|fact| format!("- {}\n", breaking(fact)));
        text +=
            &format!("\n{}\n{}", style.mark(Mark::Heading, "What would break:"), lines.collect::<String>());
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

/// The table of the machine: what is bad first among its like.
fn machine(alike: &[(&Fact, String)], width: usize, style: Style) -> String {
    let mut table = Table::new(&["MACHINE", "", "VALUE"], 3, 30);
    for (fact, about) in alike {
        let about = if about.is_empty() { String::new() } else { format!("{about}: ") };
        table.row([fact.name.clone(), fact.verdict.word().to_owned(), format!("{about}{}", fact.value)]);
    }
    let start = alike.iter().map(|(fact, _)| fact.name.len()).chain(["MACHINE".len()]).max().unwrap_or(0) + 2;
    table.render(width).lines().map(|line| format!("{}\n", marked(line, start, style))).collect()
}

/// A line of the table with its verdict, which begins in column `start`, marked.
fn marked(line: &str, start: usize, style: Style) -> String {
    let (Some(before), Some(rest)) = (line.get(..start), line.get(start..)) else { return line.to_owned() };
    let found = [(Verdict::Bad, Mark::Error), (Verdict::Unknown, Mark::Warning)]
        .into_iter()
        .find_map(|(verdict, mark)| Some((verdict.word(), rest.strip_prefix(verdict.word())?, mark)));
    match found {
        Some((word, after, mark)) => format!("{before}{}{after}", style.mark(mark, word)),
        None => line.to_owned(),
    }
}

/// What a bad fact would break, and what to do.
fn breaking(fact: &Fact) -> String {
    let breaks = fact.breaks.as_deref().unwrap_or("it is not known what");
    let hint = fact.hint.as_ref().map(|hint| format!(". {hint}")).unwrap_or_default();
    format!("{}: {breaks}{hint}", fact.name)
}
