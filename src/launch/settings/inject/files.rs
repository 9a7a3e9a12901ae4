//! Files with fault plans: a rule per line, comments, names, and includes.

use super::{CollectedRules, LONGEST_PLAN, is_plan_name};
use anyhow::{Context, Result, bail, ensure};
use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_spec::selector::explain_error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Maximum depth of files that include each other.
const MOST_NESTED_FILES: usize = 16;
/// Maximum size of a file in bytes, including comments.
const LARGEST_FILE: u64 = 1 << 20;

pub fn read_plan_files(files: &[PathBuf], rules: &mut CollectedRules) -> Result<()> {
    let mut reader = PlanReader { rules, seen: Vec::new(), chain: Vec::new() };
    for file in files {
        let option = format!("--inject-file '{}'", file.display());
        if reader.read_file(file, &option)? == 0 {
            bail!("{option}: it contains no fault");
        }
    }
    Ok(())
}

struct PlanReader<'a> {
    rules: &'a mut CollectedRules,
    /// Real paths of the files that were read, each with the place that named the file.
    seen: Vec<(PathBuf, String)>,
    /// Files that are being read: each one includes the next.
    chain: Vec<PathBuf>,
}

impl PlanReader<'_> {
    /// Reads a file that `place` names. Returns the number of its rules, including rules of included files.
    fn read_file(&mut self, path: &Path, place: &str) -> Result<usize> {
        let text = read_contents(path).with_context(|| place.to_owned())?;
        let real = path.canonicalize().with_context(|| place.to_owned())?;
        let chain = self.format_chain(&real);
        ensure!(!self.chain.contains(&real), "{place}: this file includes itself: {chain}");
        ensure!(
            self.chain.len() < MOST_NESTED_FILES,
            "{place}: more than {MOST_NESTED_FILES} files include each other: {chain}"
        );
        if let Some((_, first)) = self.seen.iter().find(|(seen, _)| *seen == real) {
            bail!("{place}: this file has already been read, by {first}; its faults would count twice");
        }
        self.seen.push((real.clone(), place.to_owned()));
        self.chain.push(real);
        let rules = self.read_lines(path, &text);
        self.chain.pop();
        rules
    }

    fn read_lines(&mut self, path: &Path, text: &str) -> Result<usize> {
        let mut plan = plan_name_from(path);
        let (mut is_named, mut count) = (false, 0);
        for (line, number) in text.split('\n').zip(1..) {
            let rule = without_comment(line);
            let begin = line.len() - line.trim_start().len();
            let place = |column: usize| format!("{}:{number}:{column}", path.display());
            let (word, rest) = rule.trim().split_once(char::is_whitespace).unwrap_or((rule.trim(), ""));
            let value = rest.trim();
            let value_column = begin + rule.trim().len() - value.len() + 1;
            match word {
                "include" if value.is_empty() => {
                    bail!("{}: the name of a file is missing here: include OTHER", place(begin + word.len() + 1));
                }
                "include" => {
                    let other = path.parent().unwrap_or(Path::new("")).join(value);
                    count += self.read_file(&other, &place(value_column))?;
                }
                "plan" => {
                    let here = place(begin + 1);
                    ensure!(!is_named, "{here}: the plan already has a name; a file has only one");
                    ensure!(count == 0, "{here}: the name of the plan must come before its faults");
                    ensure!(
                        is_plan_name(value),
                        "{}: '{}' is not a plan name; a plan name has 1 to {LONGEST_PLAN} letters, digits, '.', '_' and '-'",
                        place(value_column),
                        super::shorten_for_message(value)
                    );
                    (plan, is_named) = (value.to_owned(), true);
                }
                _ => match self.rules.add_plan(&plan, rule) {
                    Ok(added) => count += added,
                    Err(error) => {
                        bail!("{}: {}", place(error.column), explain_error(line, error.column, &error.message))
                    }
                },
            }
        }
        Ok(count)
    }

    fn format_chain(&self, last: &Path) -> String {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = self.chain.iter().map(PathBuf::as_path).chain([last]);
        files.map(name).collect::<Vec<_>>().join(" includes ")
    }
}

fn read_contents(path: &Path) -> Result<String> {
    // Only a regular file is accepted: a pipe, such as `<(...)`, can be read only once, and reading it would wait for its writer.
    let bytes = plain::read(path, SymbolicLinks::Followed, LARGEST_FILE).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => anyhow::anyhow!("{error}; a fault plan is a regular file"),
        ErrorKind::InvalidData => anyhow::anyhow!("{error}; this is not a fault plan"),
        _ => error.into(),
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        anyhow::anyhow!("line {} is not UTF-8; this is not a fault plan", line + 1)
    })
}

/// Returns a line without its comment, which starts with `#` at the start of the line or after white space.
fn without_comment(line: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    line.match_indices('#').find(begins).map_or(line, |(at, _)| &line[..at])
}

/// Returns the name of a plan without a given name: the part of the file's name that is a valid name.
fn plan_name_from(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = stem.chars().map(allowed).take(LONGEST_PLAN).collect();
    if name.is_empty() { "plan".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Reads the first of some files; gives the names of the rules, or the error without the directory.
    fn read_files(files: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut rules = CollectedRules::default();
        let first = directory.path().join(files[0].0);
        let error =
            |error: anyhow::Error| format!("{error:#}").replace(&format!("{}/", directory.path().display()), "");
        read_plan_files(&[first], &mut rules).map_err(error)?;
        Ok(rules.plan.rules.into_iter().map(|rule| rule.name).collect())
    }

    #[test]
    fn rules_comments_names_and_includes() {
        let names = read_files(&[
            (
                "my plan.txt",
                "# what it is for\n\n@ipc:delay=1ms  # slow\r\n\tinclude sub/other.plan\n@ipc:hang:name=h;@peer:hang",
            ),
            ("sub/other.plan", "plan second\ninclude third\n@ipc:exit=3"),
            ("sub/third", "  @ipc:exit=4"),
        ]);
        assert_eq!(names.unwrap(), ["my-plan/1", "third/1", "second/1", "my-plan/h", "my-plan/3"]);
    }

    #[test]
    fn plans_of_one_name_go_on_counting() {
        let files = [("a", "@ipc:hang\ninclude x/a\n@ipc:hang"), ("x/a", "@ipc:exit=1")];
        assert_eq!(read_files(&files).unwrap(), ["a/1", "a/2", "a/3"]);
    }

    #[test]
    fn a_comment_begins_after_white_space() {
        for (line, rule) in
            [("# x", ""), ("a # b", "a "), ("a#b", "a#b"), ("a#b\t#c #d", "a#b\t"), ("", ""), ("ä #", "ä ")]
        {
            assert_eq!(without_comment(line), rule);
        }
    }

    #[test]
    fn errors_name_the_file_the_line_and_the_column() {
        let deep: Vec<(String, String)> =
            (0..20).map(|i| (format!("f{i}"), format!("include f{}\n@ipc:hang:name=n{i}", i + 1))).collect();
        let deep: Vec<(&str, &str)> = deep.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("a", "\n  @ipc:dealy=1ms # x")], "a:2:8: there is no key 'dealy'; did you mean 'delay'?"),
            (&[("a", "@ipc:delay # x")], "a:1:11: 'delay' needs a value, such as"),
            (&[("a", "@ipc:hang;\t@ipx:hang")], "a:1:12: there is no group '@ipx'"),
            (&[("a", "@ipc:delay=1ms#x")], "a:1:12: '1ms#x' is not a time"),
            (&[("a", "# nothing\n\n")], "--inject-file 'a': it contains no fault"),
            (&[("a", "include b"), ("b", "@ipc:hang\n@ipc:x=1")], "b:2:6: there is no key 'x'"),
            (&[("a", "  include   b")], "a:1:13: No such file or directory"),
            (&[("a", " include # x")], "a:1:9: the name of a file is missing here: include OTHER"),
            (&[("a", "include a")], "a:1:9: this file includes itself: a includes a"),
            (
                &[("a", "include b"), ("b", "include c"), ("c", "\ninclude ./a")],
                "c:2:9: this file includes itself: a includes b includes c includes a",
            ),
            (
                &[("a", "include b\ninclude b"), ("b", "@ipc:hang")],
                "a:2:9: this file has already been read, by a:1:9; its faults would count twice",
            ),
            (&[("a", "@ipc:hang\nplan x")], "a:2:1: the name of the plan must come before its faults"),
            (&[("a", "plan x\n plan y")], "a:2:2: the plan already has a name"),
            (&[("a", "plan x/y")], "a:1:6: 'x/y' is not a plan name; a plan name has 1 to 40 letters"),
            (&[("a", "plan")], "a:1:5: '' is not a plan name"),
            (&[("a", "@ipc:hang:name=b\n\n@ipc:hang:name=b")], "a:3:16: another fault is named 'a/b' already"),
            (
                &[("a", "@ipc:hang:name=x/1\ninclude x"), ("x", "@ipc:hang")],
                "x:1:1: another fault is named 'x/1' already",
            ),
            (&deep, "f15:1:9: more than 16 files include each other: f0 includes f1 includes"),
        ];
        for (files, sentence) in cases {
            let said = read_files(files).unwrap_err();
            assert!(said.starts_with(sentence), "{files:?}\n{said}\n{sentence}");
            assert!(!said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn binary_files_are_not_plans() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let said = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            format!("{:#}", read_plan_files(std::slice::from_ref(&path), &mut CollectedRules::default()).unwrap_err())
        };
        assert!(said(b"# x\n\xff").ends_with("line 2 is not UTF-8; this is not a fault plan"));
        assert!(said(&vec![b'#'; 2 << 20]).ends_with("the file is larger than 1 MiB; this is not a fault plan"));
        let missing = read_plan_files(&[directory.path().join("b")], &mut CollectedRules::default()).unwrap_err();
        assert!(format!("{missing:#}").starts_with("--inject-file '") && missing.to_string().ends_with("b'"));
        assert!(
            format!("{:#}", read_plan_files(&[directory.path().into()], &mut CollectedRules::default()).unwrap_err())
                .contains("directory")
        );
    }
}
