//! Redaction: data that is left out of a packed recording, and of an export.
//!
//! What belongs here: for each thing that a record says of its process, what is said in its place. What does not:
//! the calls. Their arguments are numbers; the texts among them (names of functions that were looked up, marks of
//! the program, messages of the driver, what rules have found) stay. Findings name processes by pid and rank, libraries
//! by the names of their files, and two variables by value: those that choose devices and PyTorch's allocator. Rules of
//! fault plans keep their names, by which calls refer to them.
//!
//! The key of the fingerprints, and the values of variables whose names sound like secrets, never go into an
//! archive. Hosts become `host-1` and so on, directories a few digits: what was the same is the same in all of the
//! archive, and in no other one.

use clap::ValueEnum;
use cupeer_console::args::value_word;
use cupeer_spec::env::{Content, VARIABLES};
use cupeer_spec::record::meta;
use cupeer_spec::{launchers, rank};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;

/// Text that replaces a redacted value.
const REPLACEMENT: &str = "-";

/// Variables without personal data that explain the devices. Variables with numbers from launchers, and harmless variables of
/// cupeer, are kept as well.
const HARMLESS: &[&str] = &["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"];

/// Directories that exist on all machines, so that their names are kept.
const COMMON_DIRECTORIES: &[&str] = &[
    "",
    ".",
    "/bin",
    "/lib",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/local/bin",
    "/usr/local/lib",
];

/// Extensions of file names that are kept. (Directories could have such names, too.)
const KEPT_EXTENSIONS: &[&str] = &[".py", ".sh", ".so", ".toml", ".json", ".jsonl", ".yaml", ".yml", ".log", ".txt"];

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Redact {
    /// Program arguments
    Arguments,
    /// Values of variables, except ranks and visible devices
    Environment,
    /// Names of hosts, which numbers replace
    Hosts,
    /// Directories, which digits replace; names of files stay
    Paths,
    /// All of these
    All,
}

pub struct Redaction {
    what: Vec<Redact>,
    /// Names of hosts with their replacements, the longest name first.
    names: Vec<(String, String)>,
    keys: Vec<String>,
    salt: RandomState,
}

impl Redaction {
    /// Creates a redaction of these kinds of data for a recording: `hosts` are its hosts, and `keys` the keys of its
    /// fingerprints.
    pub fn new<'a>(
        what: &[Redact],
        hosts: impl Iterator<Item = &'a str>,
        keys: impl Iterator<Item = String>,
    ) -> Redaction {
        let mut names: Vec<(String, String)> = Vec::new();
        let mut count = 0;
        for host in hosts.filter(|host| !host.is_empty()) {
            if names.iter().any(|(name, _)| name == host) {
                continue;
            }
            let short = host.split('.').next().unwrap_or(host);
            // A host may appear with its short name and with its full name.
            let same = names.iter().find(|(name, _)| name == short).map(|(_, alias)| alias.clone());
            let alias = same.unwrap_or_else(|| {
                count += 1;
                format!("host-{count}")
            });
            for name in [host, short] {
                if !name.is_empty() && !names.iter().any(|(known, _)| known == name) {
                    names.push((name.to_owned(), alias.clone()));
                }
            }
        }
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Redaction {
            what: what.to_vec(),
            names,
            // A shorter key could be found by chance in unrelated texts.
            keys: keys.filter(|key| key.len() >= 16).collect(),
            salt: RandomState::new(),
        }
    }

    fn redacts(&self, one: Redact) -> bool {
        self.what.contains(&one) || self.what.contains(&Redact::All)
    }

    pub fn redacted_kinds(&self) -> Vec<String> {
        let asked = |one: &&Redact| **one != Redact::All && self.redacts(**one);
        Redact::value_variants().iter().filter(asked).map(|one| value_word(*one)).collect()
    }

    /// Returns the redacted entry; `None` if the kind of the entry is unknown.
    pub fn redact_entry(&self, tag: u16, bytes: &[u8]) -> Option<Vec<u8>> {
        match tag {
            meta::TEXT => {
                let (name, value) = split_at_byte(bytes, 0)?;
                let value = match name {
                    b"cupeer" | b"driver" | b"trace" | b"outlived" => value.to_vec(),
                    b"program" => self.redact_text(value, |text| self.redact_file_path(text)),
                    b"host" => self.redact_text(value, |text| self.host_alias(text)),
                    b"directory" => self.redact_text(value, |text| self.directory_alias(text)),
                    _ if !self.what.is_empty() => return None,
                    _ => self.redact_text(value, |text| text.to_owned()),
                };
                Some([name, b"\0", &value].concat())
            }
            meta::ARGUMENT => Some(self.redact_argument(bytes)),
            meta::VARIABLE => {
                let (name, value) = split_at_byte(bytes, b'=')?;
                Some([name, b"=", &self.redact_variable(name, value)].concat())
            }
            meta::LIBRARY => {
                let (before, path) = bytes.split_at(path_offset(bytes)?);
                Some([before, &self.redact_text(path, |text| self.redact_file_path(text))].concat())
            }
            meta::ESCAPED => {
                let (way, path) = split_at_byte(bytes, 0)?;
                Some([way, b"\0", &self.redact_text(path, |text| self.redact_file_path(text))].concat())
            }
            meta::PYTHON => {
                let (head, rest) = bytes.split_at_checked(8)?;
                let (path, name) = split_at_byte(rest, 0)?;
                Some([head, &self.redact_text(path, |text| self.redact_file_path(text)), b"\0", name].concat())
            }
            meta::FUNCTION | meta::DEVICE | meta::FORKED | meta::COUNTED => Some(bytes.to_vec()),
            _ => self.what.is_empty().then(|| bytes.to_vec()),
        }
    }

    /// Redacts an argument of a program.
    pub fn redact_argument(&self, bytes: &[u8]) -> Vec<u8> {
        match self.redacts(Redact::Arguments) {
            true => REPLACEMENT.into(),
            false => self.redact_text(bytes, |text| self.redact_value(text)),
        }
    }

    /// Redacts the command of a run; `None` if arguments are redacted.
    pub fn redact_command(&self, command: &str) -> Option<String> {
        let words = command.split(' ').map(|word| self.redact_text(word.as_bytes(), |text| self.redact_value(text)));
        let words = words.map(|word| String::from_utf8_lossy(&word).into_owned());
        (!self.redacts(Redact::Arguments)).then(|| words.collect::<Vec<_>>().join(" "))
    }

    /// Redacts the value of a variable.
    pub fn redact_variable(&self, name: &[u8], value: &[u8]) -> Vec<u8> {
        match meta::is_secret_variable(name) || self.redacts(Redact::Environment) && !is_harmless_variable(name) {
            true => REPLACEMENT.into(),
            false => self.redact_text(value, |text| self.redact_value(text)),
        }
    }

    /// Redacts the name of a host.
    pub fn redact_host_name(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.redact_text(name.as_bytes(), |text| self.host_alias(text))).into_owned()
    }

    /// Redacts the name of a job, which is often the name of its directory.
    pub fn redact_job_name(&self, name: &str) -> String {
        match self.redacts(Redact::Paths) {
            true => self.directory_alias(name).trim_start_matches('/').to_owned(),
            false => self.redact_sentence(name),
        }
    }

    /// Redacts a sentence that may name hosts.
    pub fn redact_sentence(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.redact_text(text.as_bytes(), str::to_owned)).into_owned()
    }

    /// Redacts a sentence about files in a directory, and removes the directory's path.
    pub fn redact_location(&self, text: &str, directory: &Path) -> String {
        let place = directory.display().to_string();
        self.redact_sentence(&text.replace(&format!("{place}/"), "").replace(&place, "the recording"))
    }

    /// Redacts the path of a library or program.
    pub fn redact_path(&self, path: &str) -> String {
        String::from_utf8_lossy(&self.redact_text(path.as_bytes(), |text| self.redact_file_path(text))).into_owned()
    }

    /// Redacts a rule of a fault plan, which may contain names of programs and hosts.
    pub fn redact_rule(&self, text: &str) -> String {
        if self.redacts(Redact::Arguments) {
            return REPLACEMENT.into();
        }
        String::from_utf8_lossy(&self.redact_text(text.as_bytes(), |text| self.redact_value(text))).into_owned()
    }

    /// Redacts a text by the function `by`, and then keys and names of hosts in it. Bytes that are not UTF-8 stay unchanged
    /// if nothing is replaced.
    fn redact_text(&self, bytes: &[u8], by: impl Fn(&str) -> String) -> Vec<u8> {
        let text = String::from_utf8_lossy(bytes);
        let mut new = by(&text);
        for key in &self.keys {
            new = new.replace(key, REPLACEMENT);
        }
        if self.redacts(Redact::Hosts) {
            new = self.replace_hosts(&new);
        }
        if new == text { bytes.to_vec() } else { new.into_bytes() }
    }

    fn host_alias(&self, name: &str) -> String {
        let known = self.names.iter().find(|(known, _)| self.redacts(Redact::Hosts) && known == name);
        known.map_or_else(|| name.to_owned(), |(_, alias)| alias.clone())
    }

    /// Replaces the names of hosts in a text. If a longer name begins with the name of a host, all of it is replaced.
    fn replace_hosts(&self, text: &str) -> String {
        let is_inner =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
        let mut out = String::new();
        let mut at = 0;
        while let Some(character) = text[at..].chars().next() {
            let begins = at == 0 || !is_inner(text.as_bytes().get(at - 1));
            let found = self.names.iter().find(|(name, alias)| {
                let rest = &text[at..];
                begins && rest.starts_with(name.as_str()) && !is_inner(rest.as_bytes().get(name.len()))
                    // This name is a replacement already.
                    && !rest.starts_with(alias.as_str())
            });
            if let Some((name, alias)) = found {
                out += alias;
                at += name.len();
                let rest = text[at..].bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b".-".contains(byte));
                at += rest.count();
            } else {
                out.push(character);
                at += character.len_utf8();
            }
        }
        out
    }

    /// Redacts the path of a file, but keeps the name of the file.
    fn redact_file_path(&self, path: &str) -> String {
        match path.rsplit_once('/') {
            Some((directory, name)) if self.redacts(Redact::Paths) => {
                format!("{}/{name}", self.directory_alias(directory))
            }
            _ => path.to_owned(),
        }
    }

    fn directory_alias(&self, path: &str) -> String {
        if !self.redacts(Redact::Paths) || COMMON_DIRECTORIES.contains(&path) {
            return path.to_owned();
        }
        format!("/~{:08x}", self.salt.hash_one(path) as u32)
    }

    /// Redacts an argument or the value of a variable, which may contain paths of files or directories.
    fn redact_value(&self, text: &str) -> String {
        if !self.redacts(Redact::Paths) {
            return text.to_owned();
        }
        let pieces = text.split_inclusive(|character: char| ":=,;'\"".contains(character));
        let path = |piece: &str| {
            let end = piece.find(|character: char| ":=,;'\"".contains(character)).unwrap_or(piece.len());
            let (path, separator) = piece.split_at(end);
            let name = path.rsplit('/').next().unwrap_or_default();
            let is_file = KEPT_EXTENSIONS.iter().any(|ending| name.ends_with(ending)) || name.contains(".so.");
            let new = match path.contains('/') {
                false => path.to_owned(),
                true if is_file => self.redact_file_path(path),
                true => self.directory_alias(path),
            };
            new + separator
        };
        pieces.map(path).collect()
    }
}

fn split_at_byte(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

fn is_harmless_variable(name: &[u8]) -> bool {
    let own = VARIABLES.iter().filter(|variable| variable.content == Content::Harmless);
    let mut known = launchers::collect_names(|launcher| launcher.numbers)
        .chain(own.map(|variable| variable.name))
        .chain(HARMLESS.iter().copied());
    rank::is_rank_variable(name) || known.any(|known| known.as_bytes() == name)
}

/// Returns the length in bytes of the part of a library's entry before the path.
fn path_offset(bytes: &[u8]) -> Option<usize> {
    let before = 33 + usize::from(*bytes.get(32)?);
    (bytes.len() >= before).then_some(before)
}

#[cfg(test)]
mod tests;
