//! Reads lines of source for people, where the file is still the one that was compiled or executed.
//!
//! A file counts if it is older than the program that was compiled from it and than the recording. Only regular files of
//! limited size are read.

use super::symbol::SourceLine;
use cupeer_record::plain;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Largest size in bytes of a source file that is read.
const MOST_BYTES: u64 = 4 << 20;
/// Number of source files that are read: the first ones.
const MOST_FILES: usize = 256;
/// Number of characters after which a shown line is cut off.
const LONGEST: usize = 160;

/// Source files that were read, each once.
pub struct SourceFiles {
    /// Start of the recording.
    began: SystemTime,
    files: HashMap<String, Option<(SystemTime, String)>>,
}

impl SourceFiles {
    /// Returns a reader for a recording of this host that began at this time.
    pub fn accepting_older_than(began: SystemTime) -> SourceFiles {
        SourceFiles { began, files: HashMap::new() }
    }

    /// Returns the text of a line of source. `library` is the compiled library with the line; `None` for an
    /// interpreted program. Returns `None` if the file does not exist, or may have changed.
    pub fn read_line(&mut self, line: &SourceLine, library: Option<&str>) -> Option<String> {
        let built = match library {
            Some(library) => fs::metadata(library).ok()?.modified().ok()?,
            None => self.began,
        };
        if built > self.began || !line.file.starts_with('/') || line.line == 0 {
            return None;
        }
        if !self.files.contains_key(&line.file) {
            let read = if self.files.len() < MOST_FILES { read_source_file(&line.file) } else { None };
            self.files.insert(line.file.clone(), read);
        }
        let (changed, text) = self.files.get(&line.file)?.as_ref()?;
        if *changed > built {
            return None;
        }
        let text = text.lines().nth(line.line as usize - 1)?.trim();
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        (!text.is_empty()).then(|| match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        })
    }
}

/// Returns the text of a regular file, and the time of its last change.
fn read_source_file(path: &str) -> Option<(SystemTime, String)> {
    let file = plain::open(Path::new(path), plain::SymbolicLinks::Followed).ok()?;
    let bytes = plain::read_rest(&file, MOST_BYTES).ok()?;
    Some((file.metadata().ok()?.modified().ok()?, String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::time::Duration;

    #[test]
    fn lines_are_those_that_were_compiled() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("a.c"), format!("int f;\n\tcall(\"\x1b[2J\");\n\n{}\n", "x".repeat(200))).unwrap();
        fs::write(path("a"), "").unwrap();
        let now = SystemTime::now();
        let of = |began, name: &str, number, library: Option<&str>| {
            let line = SourceLine { function: None, file: path(name), line: number };
            SourceFiles::accepting_older_than(began).read_line(&line, library)
        };
        assert_eq!(of(now, "a.c", 1, Some(&path("a"))).as_deref(), Some("int f;"));
        assert_eq!(of(now, "a.c", 2, None).as_deref(), Some("call(\" [2J\");"));
        assert_eq!(of(now, "a.c", 4, None).map(|line| line.chars().count()), Some(LONGEST + 1));
        for number in [0, 3, 5] {
            assert_eq!(of(now, "a.c", number, None), None);
        }
        let before = now - Duration::from_secs(60);
        assert_eq!(of(before, "a.c", 1, None), None, "changed since");
        assert_eq!(of(before, "a.c", 1, Some(&path("a"))), None, "built since");
        let file = OpenOptions::new().write(true).open(path("a")).unwrap();
        file.set_modified(before).unwrap();
        assert_eq!(of(now, "a.c", 1, Some(&path("a"))), None, "changed after it was built");
        assert_eq!(of(now, "a.c", 1, Some(&path("b"))), None, "built from something else");
        for special in ["/dev/zero", "/proc/self/mem", "/nowhere", "a.c", "/"] {
            let line = SourceLine { function: None, file: special.into(), line: 1 };
            assert_eq!(SourceFiles::accepting_older_than(now).read_line(&line, None), None, "{special}");
        }
    }
}
