//! The files of a directory that belong to a recording.
//!
//! This has their names, for packing and unpacking, and the redacted contents of all but the files of processes. Links are not
//! followed: they lead to files that the owner of the recording did not mean to send.

use super::addresses::Addresses;
use super::redact::Redaction;
use anyhow::Context;
use cupeer_record::plain::{self, Links};
use cupeer_record::{FaultFile, LiveTable, Sample, Samples, quiet, sample};
use cupeer_spec::record::begun::{self, Begun};
use cupeer_spec::record::{SUFFIX, faults, job, live};
use serde_json::{Map, Value};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
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
    Samples,
}

pub struct Member {
    pub path: PathBuf,
    /// Name of the file in the archive, without its folder.
    pub name: String,
    pub kind: Kind,
}

#[derive(Default)]
pub struct RecordFiles {
    pub files: Vec<Member>,
    /// Names of files that were left out, each with the reason.
    pub problems: Vec<(String, String)>,
}

/// Maximum size in bytes of a file about a hang that is read.
const LONGEST_HANG: u64 = 64 << 20;
/// Maximum length in bytes of a name without its suffix: an archive's header has room for 100 bytes in all.
const LONGEST: usize = 64;

pub fn kind(name: &str) -> Option<Kind> {
    let is_word = |word: &str| {
        !word.is_empty()
            && word.len() <= LONGEST
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if name == job::FILE {
        return Some(Kind::Job);
    }
    if begun::is_named(name) {
        return Some(Kind::Begun);
    }
    let kinds = [
        (name.strip_suffix(SUFFIX), Kind::Process),
        (name.strip_prefix(live::PREFIX), Kind::Table),
        (name.strip_prefix(faults::PREFIX), Kind::Faults),
        (name.strip_prefix(job::SAMPLES), Kind::Samples),
        (name.strip_prefix(job::HANG).and_then(|name| name.strip_suffix(job::HANG_SUFFIX)), Kind::Hang),
    ];
    kinds.into_iter().find(|(word, _)| word.is_some_and(is_word)).map(|(_, kind)| kind)
}

/// Returns the files of a recording, and of the recordings in its subdirectories, which may be those of several hosts. In the
/// archive, the subdirectories are called by numbers, because their names may be those of hosts.
pub fn list(directory: &Path) -> anyhow::Result<RecordFiles> {
    let mut found = RecordFiles::default();
    let mut folders = 0;
    let entries = entries(directory).with_context(|| format!("failed to read {}", directory.display()))?;
    for (path, file_type) in entries {
        if file_type.is_dir() {
            let inner = match self::entries(&path) {
                Ok(inner) => inner,
                Err(error) => {
                    // The name of the directory is left out, because it may be that of a host.
                    found.problems.push(("a directory in it".into(), format!("cannot be read: {error}")));
                    continue;
                }
            };
            let before = found.files.len();
            for (path, file_type) in inner {
                found.add(path, file_type, &format!("{}/", folders + 1));
            }
            folders += usize::from(found.files.len() > before);
        } else {
            found.add(path, file_type, "");
        }
    }
    Ok(found)
}

impl RecordFiles {
    fn add(&mut self, path: PathBuf, file_type: fs::FileType, folder: &str) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
        let Some(kind) = kind(name) else { return };
        let name = format!("{folder}{name}");
        if file_type.is_file() {
            self.files.push(Member { path, name, kind });
        } else {
            let what = if file_type.is_symlink() { "a link" } else { "no file" };
            self.problems.push((name, format!("is {what}, and is left out")));
        }
    }
}

fn entries(directory: &Path) -> io::Result<Vec<(PathBuf, fs::FileType)>> {
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.path(), entry.file_type()?))
    };
    let mut entries = fs::read_dir(directory)?.map(entry).collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}

pub fn key(path: &Path) -> Option<String> {
    let text = cupeer_recordings::job::read(path).ok()?;
    job::key_in(text.as_bytes()).map(|key| String::from_utf8_lossy(key).into_owned())
}

/// The contents of a file for the archive, and a problem if the contents are incomplete; or the reason why the file is left out.
/// Problems and reasons are sentences without a subject.
type Contents = Result<(Vec<u8>, Option<String>), String>;

/// Returns the redacted contents of a file, other than the file of a process. Data that only running processes need is left out.
pub fn contents(file: &Member, redaction: &Redaction, addresses: &mut Addresses) -> Contents {
    let whole = |bytes: Vec<u8>| Ok((bytes, None));
    match file.kind {
        Kind::Job => job(file, redaction).and_then(whole),
        Kind::Begun => begun(file, redaction).and_then(whole),
        Kind::Samples => samples(file, redaction).and_then(whole),
        Kind::Hang => {
            hang(file, redaction).map_err(|error| format!("{error}, and is left out")).and_then(whole)
        }
        Kind::Table => {
            let table = LiveTable::open(&file.path).map_err(|error| format!("{error}, and is left out"))?;
            addresses.table(&table.entries);
            Ok((table.bytes(), table.problem))
        }
        Kind::Faults => {
            let mut counts =
                FaultFile::open(&file.path).map_err(|error| format!("{error}, and is left out"))?;
            counts.rules.iter_mut().for_each(|rule| rule.text = redaction.rule(&rule.text));
            Ok((counts.bytes(), counts.problem))
        }
        Kind::Process => Err("is the file of a process".into()),
    }
}

fn unreadable(error: impl Into<anyhow::Error>) -> String {
    format!("cannot be read: {:#}", error.into())
}

/// Returns the file `job` without its key. If anything is redacted, only commands, programs, and counts remain.
fn job(file: &Member, redaction: &Redaction) -> Result<Vec<u8>, String> {
    let text = cupeer_recordings::job::read(&file.path).map_err(unreadable)?;
    if !text.starts_with(job::FIRST_LINE) {
        return Err("is not part of a recording, and is left out".into());
    }
    let redacted = |line: &str| match line.split_once('=') {
        _ if job::key_in(line.as_bytes()).is_some() => None,
        _ if redaction.words().is_empty() => Some(line.to_owned()),
        Some((job::COMMAND, command)) => {
            redaction.command(command).map(|new| format!("{}={new}", job::COMMAND))
        }
        Some((job::STARTED, program)) => Some(format!("{}={}", job::STARTED, redaction.path(program))),
        Some((job::LOST | job::MISSING, _)) | None => Some(line.to_owned()),
        Some(_) => None,
    };
    Ok(text.lines().filter_map(redacted).map(|line| format!("{line}\n")).collect::<String>().into_bytes())
}

/// Returns the list of processes that began.
fn begun(file: &Member, redaction: &Redaction) -> Result<Vec<u8>, String> {
    let bytes = plain::read(&file.path, Links::Refused, quiet::LONGEST).map_err(unreadable)?;
    let line = |begun: Begun<'_>| {
        let program = redaction.path(begun.program);
        format!("{}\n", Begun { program: &program, ..begun })
    };
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().filter_map(Begun::parse).map(line).collect::<String>().into_bytes())
}

/// Returns samples from NVML about memory. If anything is redacted, the names of programs are left out, which may be other
/// users'.
fn samples(file: &Member, redaction: &Redaction) -> Result<Vec<u8>, String> {
    let samples = Samples::open(&file.path)?;
    let is_named = redaction.words().is_empty();
    let line = |mut sample: Sample| {
        sample.holders.iter_mut().flatten().filter(|_| !is_named).for_each(|holder| holder.name.clear());
        sample.line() + "\n"
    };
    let none = samples.problem.map(|reason| Samples::none(&redaction.sentence(&reason)) + "\n");
    let lines: String = samples.samples.into_iter().map(line).chain(none).collect();
    Ok(format!("{}\n{lines}", sample::FIRST_LINE).into_bytes())
}

/// Returns the answer about a hang, without the processes and their stacks. If anything is redacted, only the first clause of the
/// answer stays, because the others may contain files and addresses.
fn hang(file: &Member, redaction: &Redaction) -> Result<Vec<u8>, String> {
    let bytes = plain::read(&file.path, Links::Refused, LONGEST_HANG).map_err(unreadable)?;
    let mut hang: Map<String, Value> = serde_json::from_slice(&bytes).map_err(unreadable)?;
    let answer = hang.get("answer").and_then(Value::as_str).unwrap_or_default();
    let first = answer.split("; ").next().filter(|_| !redaction.words().is_empty());
    let answer = redaction.sentence(first.unwrap_or(answer));
    hang.retain(|key, _| key.ends_with("_ns") || ["schema", "cupeer"].contains(&key.as_str()));
    hang.insert("answer".into(), answer.into());
    serde_json::to_vec_pretty(&hang).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::{Kind, kind};

    #[test]
    fn files_are_known_by_their_names() {
        assert_eq!(kind("job"), Some(Kind::Job));
        assert_eq!(kind("0123abcd-4026531836-17-99-1.cupeer"), Some(Kind::Process));
        assert_eq!(kind("begun"), Some(Kind::Begun));
        assert_eq!(kind("begun-17"), Some(Kind::Begun));
        assert_eq!(kind("live-0123abcd"), Some(Kind::Table));
        assert_eq!(kind("faults-0123abcd-89abcdef"), Some(Kind::Faults));
        assert_eq!(kind("hang-0123abcd-17-1.json"), Some(Kind::Hang));
        assert_eq!(kind("memory-0123abcd-17"), Some(Kind::Samples));
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
            assert_eq!(kind(other), None, "{other}");
        }
    }
}
