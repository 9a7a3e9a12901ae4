//! Suppressions: findings that a user knows and wants to ignore.
//!
//! It reads the file, and decides which findings an entry matches; [`suggest`] writes a file that matches the findings
//! of a recording. A suppressed finding stays in the report, with the entry, and does not count.
//!
//! ```toml
//! [[suppression]]
//! rule = "ipc-never-closed"   # a name or a pattern, as for --ignore
//! library = "libnccl.so*"     # the calling library: the name of its file; with a slash, its path
//! caller = "ncclCommDestroy"  # a function on the call stack, or LIBRARY+0xOFFSET
//! program = "train*"          # the name of its file; with a slash, its path
//! reason = "NCCL leaves them to the end of the process"
//! ```
//!
//! All are patterns, and all except `rule` are optional.

pub mod suggest;

use crate::model::{Place, SuppressedBy, Suppression};
use cupeer_rules::{check_rule_name, matches_file};
use cupeer_spec::names::find_nearest_name;
use cupeer_spec::names::matches_pattern;
use std::rc::Rc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Entries of suppression files, in the order of the files.
#[derive(Clone, Default)]
pub struct Suppressions(Vec<Suppression>);

/// Mistake in a suppression file, with its position: line and column, from 1.
#[derive(Debug)]
pub struct Mistake {
    /// Line of the mistake, from 1.
    pub line: usize,
    /// Column of the mistake, from 1.
    pub column: usize,
    /// Sentence that describes the mistake.
    pub message: String,
}

/// Properties of a finding by which entries select it.
pub struct FindingFacts<'a> {
    /// Name of the finding's rule.
    pub rule: &'a str,
    /// Place that made the call of the finding.
    pub caller: &'a Place,
    /// Call stack: the caller, its caller, and so on.
    pub stack: &'a [Place],
    /// Paths of the programs of the finding's processes.
    pub programs: &'a [&'a str],
}

/// Key of the list of entries in a file; below it, the keys of an entry.
const LIST_KEY: &str = "suppression";
const ENTRY_KEYS: [&str; 5] = ["rule", "library", "caller", "program", "reason"];

/// Mistake: its byte offset in the text, and its message.
type At = (usize, String);

impl Suppressions {
    /// Adds the entries of a file, by its name and its text. Returns the number of entries.
    ///
    /// # Errors
    ///
    /// The text is not TOML, or an entry is malformed.
    ///
    /// # Examples
    ///
    /// ```
    /// use cupeer_report::suppress::Suppressions;
    ///
    /// let mut suppressions = Suppressions::default();
    /// let text = "[[suppression]]\nrule = 'ipc-never-closed'\nreason = 'the process exits'\n";
    /// assert_eq!(suppressions.add("known.toml", text).unwrap(), 1);
    /// let mistake = suppressions.add("wrong.toml", "[[suppression]]\nrule = 7\n").unwrap_err();
    /// assert_eq!(mistake.line, 2);
    /// ```
    pub fn add(&mut self, file: &str, text: &str) -> Result<usize, Mistake> {
        let entries = parse_entries(&file.into(), text).map_err(|(at, message)| {
            let (line, column) = line_and_column(text, at);
            Mistake { line, column, message }
        })?;
        let count = entries.len();
        self.0.extend(entries);
        Ok(count)
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first entry that matches a finding; `None` if no entry does.
    pub fn find_match(&self, facts: &FindingFacts) -> Option<SuppressedBy> {
        let entry = self.0.iter().find(|entry| entry.is_match_for(facts))?;
        Some(SuppressedBy { file: entry.file.clone(), line: entry.line, reason: entry.reason.clone() })
    }

    /// Returns the entries, each with the number of findings that it suppresses in this report.
    pub fn rows_with_counts<'a>(
        &self,
        found: impl Iterator<Item = (&'a SuppressedBy, u64)> + Clone,
    ) -> Vec<Suppression> {
        let row = |entry: &Suppression| {
            let is_its = |by: &SuppressedBy| (&by.file, by.line) == (&entry.file, entry.line);
            let findings = found.clone().filter(|(by, _)| is_its(by)).map(|(_, count)| count).sum();
            Suppression { findings, ..entry.clone() }
        };
        self.0.iter().map(row).collect()
    }
}

/// Returns the line and the column of a byte, both from 1.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let begin = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[begin..].chars().count() + 1)
}

fn parse_entries(file: &Rc<str>, text: &str) -> Result<Vec<Suppression>, At> {
    let document = DeTable::parse(text)
        .map_err(|error| (error.span().map_or(0, |span| span.start), error.message().trim().replace('\n', "; ")))?;
    let top = document.get_ref();
    check_keys(top, &[LIST_KEY])?;
    let Some(list) = top.get(LIST_KEY) else { return Ok(Vec::new()) };
    let no_list = || (list.span().start, format!("'{LIST_KEY}' is a list of tables: write [[{LIST_KEY}]]"));
    let DeValue::Array(tables) = list.get_ref() else { return Err(no_list()) };
    let entry = |table: &Spanned<DeValue>| match table.get_ref() {
        DeValue::Table(keys) => parse_entry(file, text, (table.span().start, keys)),
        _ => Err(no_list()),
    };
    tables.iter().map(entry).collect()
}

fn parse_entry(file: &Rc<str>, text: &str, (at, table): (usize, &DeTable)) -> Result<Suppression, At> {
    check_keys(table, &ENTRY_KEYS)?;
    let value = |key: &str| {
        let Some(value) = table.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) if text.is_empty() && key != "reason" => {
                Err((value.span().start, format!("'{key}' is empty, and means nothing")))
            }
            DeValue::String(text) => Ok(Some(text.to_string())),
            _ => Err((value.span().start, format!("'{key}' must be a string"))),
        }
    };
    let rule = value("rule")?.ok_or_else(|| (at, format!("this [[{LIST_KEY}]] lacks 'rule'")))?;
    let at_rule = table.get("rule").map_or(at, |rule| rule.span().start);
    check_rule_name(&rule).map_err(|message| (at_rule, message))?;
    Ok(Suppression {
        file: file.clone(),
        line: line_and_column(text, at).0 as u64,
        rule,
        library: value("library")?,
        caller: value("caller")?,
        program: value("program")?,
        reason: value("reason")?.map(Into::into),
        findings: 0,
    })
}

fn check_keys(table: &DeTable, known: &[&str]) -> Result<(), At> {
    let Some((key, _)) = table.iter().find(|(key, _)| !known.contains(&key.get_ref().as_ref())) else {
        return Ok(());
    };
    let name = key.get_ref();
    let hint = match find_nearest_name(name, known.iter().copied()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None if known == [LIST_KEY] => format!("a file has only [[{LIST_KEY}]]"),
        None => format!("there are {}", known.join(", ")),
    };
    Err((key.span().start, format!("unknown key '{name}'; {hint}")))
}

impl Suppression {
    fn is_match_for(&self, facts: &FindingFacts) -> bool {
        let is_named = |pattern: &str, text: &str| matches_pattern(pattern.as_bytes(), text.as_bytes());
        let is_caller = |pattern: &str, place: &Place| {
            place.functions().any(|function| is_named(pattern, function))
                || place.library.is_some() && is_named(pattern, &place.short())
        };
        let mut frames = [facts.caller, facts.caller.calling_place()].into_iter().chain(facts.stack);
        is_named(&self.rule, facts.rule)
            && self.library.as_ref().is_none_or(|pattern| {
                let libraries = [facts.caller, facts.caller.calling_place()].map(|place| place.library.as_deref());
                libraries.iter().flatten().any(|library| matches_file(pattern, library.as_bytes()))
            })
            && self.caller.as_ref().is_none_or(|pattern| frames.any(|place| is_caller(pattern, place)))
            && self.program.as_ref().is_none_or(|pattern| {
                !facts.programs.is_empty()
                    && facts.programs.iter().all(|program| matches_file(pattern, program.as_bytes()))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(library: &str, offset: u64, function: Option<&str>) -> Place {
        Place { library: Some(library.into()), offset, function: function.map(Into::into), ..Place::default() }
    }

    /// Returns true if an entry with these lines matches a finding of `ipc-never-closed` in the program
    /// `/opt/train`.
    fn means(lines: &str) -> bool {
        let caller = place("/usr/lib/libnccl.so.2", 0x123, Some("ncclFree(void*)+0x8"));
        let stack = [caller.clone(), place("/opt/train", 0x456, None)];
        let mut all = Suppressions::default();
        all.add("f", &format!("[[suppression]]\nrule = 'ipc-never-*'\n{lines}")).unwrap();
        let programs = ["/opt/train"];
        all.find_match(&FindingFacts { rule: "ipc-never-closed", caller: &caller, stack: &stack, programs: &programs })
            .is_some()
    }

    #[test]
    fn an_entry_means_what_all_its_patterns_match() {
        for lines in [
            "",
            "library = 'libnccl*'",
            "library = '/usr/*/libnccl.so.2'",
            "caller = 'ncclFree(void[*])'",
            "caller = 'ncclFree*'",
            "caller = 'libnccl.so.2+0x123'",
            "caller = 'train+0x456'",
            "program = 'train'\nlibrary = 'libnccl.so.2'\ncaller = 'nccl*'",
        ] {
            let is_bracket = lines.contains('[');
            assert_eq!(means(lines), !is_bracket, "{lines}: brackets are no patterns here");
        }
        for lines in [
            "library = 'train'",
            "library = '/lib/libnccl.so.2'",
            "caller = 'ncclFre'",
            "caller = 'train+0x45'",
            "program = 'nccl*'",
            "library = 'libnccl*'\ncaller = 'main'",
        ] {
            assert!(!means(lines), "{lines}");
        }
    }

    #[test]
    fn the_first_entry_that_means_it_counts() {
        let mut all = Suppressions::default();
        assert_eq!(all.add("a", "[[suppression]]\nrule = 'peer-*'\n\n[[suppression]]\nrule = '*'\n").unwrap(), 2);
        assert_eq!(all.add("b", "# nothing\n[[suppression]]\nrule = 'ipc-flags'\nreason = 'known'").unwrap(), 1);
        let caller = Place::default();
        let of = |rule| {
            let by = all.find_match(&FindingFacts { rule, caller: &caller, stack: &[], programs: &[] }).unwrap();
            (by.file.to_string(), by.line)
        };
        assert_eq!(of("peer-flags"), ("a".into(), 1));
        assert_eq!(of("ipc-flags"), ("a".into(), 4));
        let by = SuppressedBy { file: "a".into(), line: 4, reason: None };
        let rows = all.rows_with_counts([(&by, 3)].into_iter());
        assert_eq!(rows.iter().map(|row| (row.line, row.findings)).collect::<Vec<_>>(), [(1, 0), (4, 3), (2, 0)]);
    }

    #[test]
    fn mistakes_have_a_place_and_a_remedy() {
        for (text, line, column, message) in [
            ("# x\n[[suppression]]\nreason = 'x'\n", 2, 1, "this [[suppression]] lacks 'rule'"),
            ("[[suppression]]\nrule = 'ipc-flagz'\n", 2, 8, "no rule is named 'ipc-flagz'; did you mean 'ipc-flags'?"),
            ("[[suppression]]\nrule = ''\n", 2, 8, "'rule' is empty, and means nothing"),
            ("[[suppression]]\nrule = '*'\nlibary = 'x'\n", 3, 1, "unknown key 'libary'; did you mean 'library'?"),
            (
                "[[suppression]]\nrule = '*'\nbecause = 'x'\n",
                3,
                1,
                "unknown key 'because'; there are rule, library, caller, program, reason",
            ),
            ("[[suppression]]\nrule = '*'\n  library = ''\n", 3, 13, "'library' is empty, and means nothing"),
            ("[[suppress]]\nrule = '*'\n", 1, 3, "unknown key 'suppress'; a file has only [[suppression]]"),
            ("[[suppression]]\nrule = 3\n", 2, 8, "'rule' must be a string"),
            ("suppression = 3\n", 1, 15, "'suppression' is a list of tables: write [[suppression]]"),
            ("suppression = [3]\n", 1, 15, "'suppression' is a list of tables: write [[suppression]]"),
            ("[suppression]\nrule = '*'\n", 1, 1, "'suppression' is a list of tables: write [[suppression]]"),
        ] {
            let mistake = Suppressions::default().add("f", text).err().unwrap_or_else(|| panic!("{text} is read"));
            assert_eq!((mistake.line, mistake.column, mistake.message.as_str()), (line, column, message), "{text}");
        }
        let mistake = Suppressions::default().add("f", "x = 1\n[[suppression\n").err().unwrap();
        assert_eq!(mistake.line, 2, "{}", mistake.message);
    }
}
