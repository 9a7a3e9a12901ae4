//! `cupeer pack`: a record as one file, to be sent to somebody who has neither this machine nor its libraries.
//!
//! What belongs here: what goes into the file and in which order, and what is said about it. What does not: what
//! an address is called (`symbols`), and what the record says (`report`).
//!
//! # The file
//!
//! A compressed tar archive of one directory, [`FOLDER`], which is a record again: `tar xf` and `cupeer report` on
//! the directory give what `cupeer report` gives on the file. Besides the record's own files it has
//! `symbols.json` ([`cupeer_report::symbols::PackedSymbols`]), and as the last one `pack.json` ([`about`]), without which it is not
//! whole. The key of the fingerprints is left out, and so is whatever looks like a secret: see [`redact`].

mod about;
mod addresses;
mod archive;
mod files;
mod meta;
mod process;
mod reading;
pub mod redact;
mod unpack;

pub use about::format_size;
pub use unpack::{UnpackedRecording, is_packed, unpack_to_temporary};

use crate::records::reduced;
use about::PackDescription;
use addresses::LibraryAddresses;
use anyhow::{Context, Result, ensure};
use archive::PackArchive;
use clap::Args;
use cupeer_console::output;
use cupeer_facts::part::file;
use cupeer_record::Process;
use cupeer_recordings::{home, made};
use cupeer_report::symbols::{PackedSymbols, Symbols};
use files::{MemberKind, PackedFile};
use redact::{Redact, Redaction};
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

/// Name of the directory in the archive.
pub const FOLDER: &str = "cupeer-record";
pub const SUFFIX: &str = ".cupeer.tar.gz";

#[derive(Args)]
#[command(after_help = "\
Never included: the key of the fingerprints, and values of variables whose names suggest secrets.
Always included: pids, devices, names of files and functions, and the texts of calls and marks.

Examples:
  cupeer pack DIR                       # DIR.cupeer.tar.gz, for 'cupeer report'
  cupeer pack DIR --redact hosts,paths  # with numbers in place of names")]
pub struct PackArgs {
    /// Recording: a directory, a name that 'cupeer ls' lists, or a packed file, to redact more of it
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Write to FILE [default: DIR.cupeer.tar.gz in the working directory]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Data to leave out, separated by commas
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub redact: Vec<Redact>,
    /// Overwrite FILE if it exists
    #[arg(long)]
    pub force: bool,
}

pub fn command(args: &PackArgs) -> Result<ExitCode> {
    let directory = &home::find_recording(&args.directory)?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => made::default_output(directory, SUFFIX)?,
    };
    made::refuse_existing(&output, args.force)?;
    if directory.is_file() {
        // A packed recording can be packed again to redact more of it.
        ensure!(
            !file::is_reduced_file(directory),
            "{} is reduced, one file that can be sent as it is",
            directory.display()
        );
        ensure!(is_packed(directory), "{} is neither a directory nor a packed recording", directory.display());
        return pack_recording(unpack_to_temporary(directory)?.directory_path(), &output, args);
    }
    pack_recording(directory, &output, args)
}

/// Returns the redaction for a recording with these processes and files.
fn new_redaction(what: &[Redact], processes: &[Process], found: &[PackedFile]) -> Redaction {
    let keys = found.iter().filter(|file| file.kind == MemberKind::Job).filter_map(|file| files::read_key(&file.path));
    Redaction::new(what, processes.iter().map(Process::host), keys)
}

/// Returns the redaction for a recording in a directory, or for one that was unpacked there.
pub fn redaction_of(what: &[Redact], directory: &Path, processes: &[Process]) -> Result<Redaction> {
    let found = if directory.is_dir() { files::list_files(directory)?.files } else { Vec::new() };
    Ok(new_redaction(what, processes, &found))
}

/// Kinds of files, in the order of the archive. The tables come after the processes, because the addresses in them are looked
/// up in the libraries of the processes.
const ORDER: [MemberKind; 7] = [
    MemberKind::Job,
    MemberKind::Begun,
    MemberKind::Process,
    MemberKind::Table,
    MemberKind::Faults,
    MemberKind::Hang,
    MemberKind::MemorySamples,
];

fn pack_recording(directory: &Path, output: &Path, args: &PackArgs) -> Result<ExitCode> {
    let found = files::list_files(directory)?;
    let mut about = PackDescription::new(found.problems);
    let mut processes: Vec<Option<Process>> = Vec::new();
    for file in &found.files {
        let opened = (file.kind == MemberKind::Process).then(|| Process::open(&file.path));
        let problem = |problem| about.problems.push((file.name.clone(), problem));
        processes.push(opened.and_then(|opened| opened.map_err(problem).ok()));
    }
    ensure!(
        reduced::reduced_files_in(directory).is_empty(),
        "records in {} were reduced; its files with names in {} can be sent as they are",
        directory.display(),
        file::SUFFIX
    );
    let is_begun = |file: &PackedFile| file.kind == MemberKind::Begun;
    ensure!(
        processes.iter().any(Option::is_some) || found.files.iter().any(is_begun),
        "{} holds no recording of a process{}",
        directory.display(),
        about.problem_sentences().next().map(|problem| format!(": {problem}")).unwrap_or_default()
    );
    let known: Vec<Process> = processes.iter().flatten().cloned().collect();
    let redaction = new_redaction(&args.redact, &known, &found.files);

    let mut archive = PackArchive::create(output)?;
    let mut addresses = LibraryAddresses::default();
    for kind in ORDER {
        for (file, process) in found.files.iter().zip(&processes).filter(|(file, _)| file.kind == kind) {
            let problems = match process {
                Some(process) => process::add_process_file(file, process, &redaction, &mut addresses, &mut archive)
                    .with_context(|| format!("failed to pack {}", file.path.display()))?,
                // The file of this process could not be opened, which is noted as a problem already.
                None if kind == MemberKind::Process => continue,
                None => match files::redacted_contents(file, &redaction, &mut addresses) {
                    Ok((bytes, problem)) => {
                        archive
                            .add_file(&file.name, &bytes)
                            .with_context(|| format!("failed to pack {}", file.path.display()))?;
                        problem.into_iter().collect()
                    }
                    Err(problem) => vec![problem],
                },
            };
            about.problems.extend(problems.into_iter().map(|problem| (file.name.clone(), problem)));
        }
    }
    let mut symbols = Symbols::of_record(directory, &known);
    let names = addresses.name_places(&mut symbols, &redaction);
    archive.add_file(PackedSymbols::FILE, names.to_json().as_bytes())?;
    about.note_contents(&known, &redaction);
    about.unnamed = symbols.notes().map(|(library, why)| (redaction.redact_path(library), why.to_owned())).collect();
    archive.add_file(PackDescription::FILE, format!("{:#}\n", serde_json::to_value(&about)?).as_bytes())?;
    let size = archive.finish(output, args.force)?;
    about.problem_sentences().for_each(|problem| output::print_problem(&problem));
    output::print(&format!("{} has {}\n", output.display(), about.describe_contents(size)))
}
