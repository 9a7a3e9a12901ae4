//! The files of a directory that belong to a recording.
//!
//! This has their names, for packing and unpacking, and the redacted contents of all but the files of processes. Links are not
//! followed: they lead to files that the owner of the recording did not mean to send.

use super::addresses::LibraryAddresses;
use super::redact::Redaction;
use anyhow::Context;
use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_record::{FaultFile, LiveTable, MemorySample, MemorySamples, quiet, sample};
use cupeer_spec::record::begun::{self, BegunLine};
use cupeer_spec::record::{SUFFIX, faults, job, live};
use serde_json::{Map, Value};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberKind {
    /// The job file, which all processes share.
    Job,
    /// The list of processes that began on a host, which a large job has.
    Begun,
    Process,
    /// The live table of a host: its open objects.
    Table,
    /// The counts of a fault plan on a host.
    Faults,
    /// A hang of the job.
    Hang,
    /// Samples of the devices' memory at failed calls.
    MemorySamples,
}

pub struct PackedFile {
    pub path: PathBuf,
    /// Name of the file in the archive, without its folder.
    pub name: String,
    pub kind: MemberKind,
}

#[derive(Default)]
pub struct RecordFiles {
    pub files: Vec<PackedFile>,
    /// Names of files that were left out, each with the reason.
    pub problems: Vec<(String, String)>,
}

/// Maximum size in bytes of a file about a hang that is read.
const LONGEST_HANG: u64 = 64 << 20;
/// Maximum length in bytes of a name without its suffix: an archive's header has room for 100 bytes in all.
const LONGEST_NAME: usize = 64;

pub fn kind_of_file(name: &str) -> Option<MemberKind> {
    let is_word = |word: &str| {
        !word.is_empty()
            && word.len() <= LONGEST_NAME
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if name == job::FILE {
        return Some(MemberKind::Job);
    }
    if begun::is_begun_file(name) {
        return Some(MemberKind::Begun);
    }
    let kinds = [
        (name.strip_suffix(SUFFIX), MemberKind::Process),
        (name.strip_prefix(live::PREFIX), MemberKind::Table),
        (name.strip_prefix(faults::PREFIX), MemberKind::Faults),
        (name.strip_prefix(job::MEMORY_SAMPLES), MemberKind::MemorySamples),
        (name.strip_prefix(job::HANG).and_then(|name| name.strip_suffix(job::HANG_SUFFIX)), MemberKind::Hang),
    ];
    kinds.into_iter().find(|(word, _)| word.is_some_and(is_word)).map(|(_, kind)| kind)
}

/// Returns the files of a recording, and of the recordings in its subdirectories, which may be those of several hosts. In the
/// archive, the subdirectories are called by numbers, because their names may be those of hosts.
pub fn list_files(directory: &Path) -> anyhow::Result<RecordFiles> {
    let mut found = RecordFiles::default();
    let mut folders = 0;
    let entries = sorted_entries(directory).with_context(|| format!("failed to read {}", directory.display()))?;
    for (path, file_type) in entries {
        if file_type.is_dir() {
            let inner = match self::sorted_entries(&path) {
                Ok(inner) => inner,
                Err(error) => {
                    // The name of the directory is left out, because it may be that of a host.
                    found.problems.push(("a directory in it".into(), format!("cannot be read: {error}")));
                    continue;
                }
            };
            let before = found.files.len();
            for (path, file_type) in inner {
                found.add_file(path, file_type, &format!("{}/", folders + 1));
            }
            folders += usize::from(found.files.len() > before);
        } else {
            found.add_file(path, file_type, "");
        }
    }
    Ok(found)
}

impl RecordFiles {
    fn add_file(&mut self, path: PathBuf, file_type: fs::FileType, folder: &str) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
        let Some(kind) = kind_of_file(name) else { return };
        let name = format!("{folder}{name}");
        if file_type.is_file() {
            self.files.push(PackedFile { path, name, kind });
        } else {
            let what = if file_type.is_symlink() { "a link" } else { "no file" };
            self.problems.push((name, format!("is {what}, and is left out")));
        }
    }
}

fn sorted_entries(directory: &Path) -> io::Result<Vec<(PathBuf, fs::FileType)>> {
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.path(), entry.file_type()?))
    };
    let mut entries = fs::read_dir(directory)?.map(entry).collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}

pub fn read_key(path: &Path) -> Option<String> {
    let text = cupeer_recordings::job::read_job_file(path).ok()?;
    job::find_key_digits(text.as_bytes()).map(|key| String::from_utf8_lossy(key).into_owned())
}

/// The contents of a file for the archive, and a problem if the contents are incomplete; or the reason why the file is left out.
/// Problems and reasons are sentences without a subject.
type Contents = Result<(Vec<u8>, Option<String>), String>;

/// Returns the redacted contents of a file, other than the file of a process. Data that only running processes need is left out.
pub fn redacted_contents(file: &PackedFile, redaction: &Redaction, addresses: &mut LibraryAddresses) -> Contents {
    let whole = |bytes: Vec<u8>| Ok((bytes, None));
    match file.kind {
        MemberKind::Job => redact_job_file(file, redaction).and_then(whole),
        MemberKind::Begun => redact_begun_list(file, redaction).and_then(whole),
        MemberKind::MemorySamples => redact_samples(file, redaction).and_then(whole),
        MemberKind::Hang => {
            redact_hang(file, redaction).map_err(|error| format!("{error}, and is left out")).and_then(whole)
        }
        MemberKind::Table => {
            let table = LiveTable::open(&file.path).map_err(|error| format!("{error}, and is left out"))?;
            addresses.add_table(&table.entries);
            Ok((table.to_bytes(), table.problem))
        }
        MemberKind::Faults => {
            let mut counts = FaultFile::open(&file.path).map_err(|error| format!("{error}, and is left out"))?;
            counts.rules.iter_mut().for_each(|rule| rule.text = redaction.redact_rule(&rule.text));
            Ok((counts.to_bytes(), counts.problem))
        }
        MemberKind::Process => Err("is the file of a process".into()),
    }
}

fn unreadable_message(error: impl Into<anyhow::Error>) -> String {
    format!("cannot be read: {:#}", error.into())
}

/// Returns the file `job` without its key. If anything is redacted, only commands, programs, and counts remain.
fn redact_job_file(file: &PackedFile, redaction: &Redaction) -> Result<Vec<u8>, String> {
    let text = cupeer_recordings::job::read_job_file(&file.path).map_err(unreadable_message)?;
    if !text.starts_with(job::FIRST_LINE) {
        return Err("is not part of a recording, and is left out".into());
    }
    let redacted = |line: &str| match line.split_once('=') {
        _ if job::find_key_digits(line.as_bytes()).is_some() => None,
        _ if redaction.redacted_kinds().is_empty() => Some(line.to_owned()),
        Some((job::COMMAND, command)) => redaction.redact_command(command).map(|new| format!("{}={new}", job::COMMAND)),
        Some((job::STARTED, program)) => Some(format!("{}={}", job::STARTED, redaction.redact_path(program))),
        Some((job::LOST | job::MISSING, _)) | None => Some(line.to_owned()),
        Some(_) => None,
    };
    Ok(text.lines().filter_map(redacted).map(|line| format!("{line}\n")).collect::<String>().into_bytes())
}

/// Returns the list of processes that began.
fn redact_begun_list(file: &PackedFile, redaction: &Redaction) -> Result<Vec<u8>, String> {
    let bytes = plain::read(&file.path, SymbolicLinks::Refused, quiet::MOST_BYTES).map_err(unreadable_message)?;
    let line = |begun: BegunLine<'_>| {
        let program = redaction.redact_path(begun.program);
        format!("{}\n", BegunLine { program: &program, ..begun })
    };
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().filter_map(BegunLine::parse).map(line).collect::<String>().into_bytes())
}

/// Returns samples from NVML about memory. If anything is redacted, the names of programs are left out, which may be other
/// users'.
fn redact_samples(file: &PackedFile, redaction: &Redaction) -> Result<Vec<u8>, String> {
    let samples = MemorySamples::open(&file.path)?;
    let is_named = redaction.redacted_kinds().is_empty();
    let line = |mut sample: MemorySample| {
        sample.holders.iter_mut().flatten().filter(|_| !is_named).for_each(|holder| holder.name.clear());
        sample.to_line() + "\n"
    };
    let none =
        samples.problem.map(|reason| MemorySamples::line_without_sample(&redaction.redact_sentence(&reason)) + "\n");
    let lines: String = samples.samples.into_iter().map(line).chain(none).collect();
    Ok(format!("{}\n{lines}", sample::FIRST_LINE).into_bytes())
}

/// Returns the answer about a hang, without the processes and their stacks. If anything is redacted, only the first clause of the
/// answer stays, because the others may contain files and addresses.
fn redact_hang(file: &PackedFile, redaction: &Redaction) -> Result<Vec<u8>, String> {
    let bytes = plain::read(&file.path, SymbolicLinks::Refused, LONGEST_HANG).map_err(unreadable_message)?;
    let mut hang: Map<String, Value> = serde_json::from_slice(&bytes).map_err(unreadable_message)?;
    let answer = hang.get("answer").and_then(Value::as_str).unwrap_or_default();
    let first = answer.split("; ").next().filter(|_| !redaction.redacted_kinds().is_empty());
    let answer = redaction.redact_sentence(first.unwrap_or(answer));
    hang.retain(|key, _| key.ends_with("_ns") || ["schema", "cupeer"].contains(&key.as_str()));
    hang.insert("answer".into(), answer.into());
    serde_json::to_vec_pretty(&hang).map_err(unreadable_message)
}

#[cfg(test)]
mod tests {
    use super::{MemberKind, kind_of_file};

    #[test]
    fn files_are_known_by_their_names() {
        assert_eq!(kind_of_file("job"), Some(MemberKind::Job));
        assert_eq!(kind_of_file("0123abcd-4026531836-17-99-1.cupeer"), Some(MemberKind::Process));
        assert_eq!(kind_of_file("begun"), Some(MemberKind::Begun));
        assert_eq!(kind_of_file("begun-17"), Some(MemberKind::Begun));
        assert_eq!(kind_of_file("live-0123abcd"), Some(MemberKind::Table));
        assert_eq!(kind_of_file("faults-0123abcd-89abcdef"), Some(MemberKind::Faults));
        assert_eq!(kind_of_file("hang-0123abcd-17-1.json"), Some(MemberKind::Hang));
        assert_eq!(kind_of_file("memory-0123abcd-17"), Some(MemberKind::MemorySamples));
        for other in [
            ".cupeer",
            "x.cupeer.tar.gz",
            "../x.cupeer",
            "a/b.cupeer",
            "live-",
            "live-/x",
            "faults-",
            "hang-.json",
            "hang-0123abcd-17-1",
            ".faults-1",
            "release-gate",
            ".job-1",
            "notes.txt",
        ] {
            assert_eq!(kind_of_file(other), None, "{other}");
        }
    }
}
