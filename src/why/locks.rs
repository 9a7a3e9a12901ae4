//! Holders of locks: those of files, as the kernel lists them, and those of Python, from the lines of source that threads
//! execute.

use super::document::{Frame, Thread};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Returns the pids of other processes that hold a lock of the file that a descriptor refers to.
pub fn file_lock_holders(pid: u32, fd: i32) -> Vec<u32> {
    let Ok(file) = fs::metadata(format!("/proc/{pid}/fd/{fd}")) else { return Vec::new() };
    let (major, minor) = (libc::major(file.dev()), libc::minor(file.dev()));
    let id = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let text = fs::read_to_string("/proc/locks").unwrap_or_default();
    let holder = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_it = words.len() > 5 && words[1] != "->" && words[5] == id;
        words.get(4).filter(|_| is_it)?.parse().ok()
    };
    text.lines().filter_map(holder).filter(|holder| *holder != pid).collect()
}

/// Lines of the source files that were read, by path.
#[derive(Default)]
pub struct SourceCache {
    files: HashMap<String, Vec<String>>,
}

impl SourceCache {
    /// Returns the source line that a frame executes.
    fn source_line(&mut self, frame: &Frame) -> Option<&str> {
        let lines = self.source_lines(frame)?;
        lines.get(frame.line?.checked_sub(1)? as usize).map(String::as_str)
    }

    fn source_lines(&mut self, frame: &Frame) -> Option<&[String]> {
        let file = frame.file.as_ref().filter(|file| file.starts_with('/'))?;
        let read = || fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect();
        Some(self.files.entry(file.clone()).or_insert_with(read))
    }

    /// Returns the names of the Python lock that a thread waits for, as its source line writes them.
    pub fn wanted_locks(&mut self, thread: &Thread) -> Option<Vec<String>> {
        let frame = thread.frames.iter().find(|frame| frame.language == "Python")?;
        if !frame.is_own() {
            return None;
        }
        let names = acquired_locks(self.source_line(frame)?);
        (!names.is_empty()).then_some(names)
    }

    /// Returns the names of the Python locks that a thread holds, each with the place where the thread acquired it: locks of
    /// the `with` blocks around its frames, and locks that an earlier line of a function acquired.
    pub fn held_locks(&mut self, thread: &Thread) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for frame in thread.frames.iter().filter(|frame| frame.language == "Python" && frame.is_own()) {
            let Some(at) = frame.line.and_then(|line| line.checked_sub(1)) else { continue };
            let place = |index: usize| Frame { line: Some(index as u32 + 1), ..frame.clone() }.place_text();
            let Some(lines) = self.source_lines(frame) else { continue };
            let Some(mut depth) = lines.get(at as usize).map(|line| indentation(line)) else { continue };
            let mut released: Vec<String> = Vec::new();
            for index in (0..at as usize).rev() {
                let text = lines[index].trim_start();
                if text.is_empty() || text.starts_with('#') || indentation(&lines[index]) > depth {
                    continue;
                }
                let is_outer = indentation(&lines[index]) < depth;
                if let Some(name) = text.strip_suffix(".release()") {
                    released.push(strip_self(name));
                }
                for name in acquired_locks(&lines[index]) {
                    if (is_outer || !text.starts_with("with ")) && !released.contains(&name) {
                        found.push((name, place(index)));
                    }
                }
                depth = depth.min(indentation(&lines[index]));
                if text.starts_with("def ") || text.starts_with("async def ") {
                    break;
                }
            }
        }
        found
    }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the names of the locks that a source line acquires.
fn acquired_locks(line: &str) -> Vec<String> {
    let text = line.trim();
    if let Some(rest) = text.strip_prefix("with ").and_then(|rest| rest.split(':').next()) {
        let name = |one: &str| strip_self(one.split(" as ").next().unwrap_or_default());
        let is_call = |name: &String| name.contains('(');
        return rest.split(',').map(name).filter(|name| !name.is_empty() && !is_call(name)).collect();
    }
    let before = text.split_once(".acquire(").map(|(before, _)| before);
    let word = before.and_then(|before| before.rsplit([' ', '=', '(', '!']).next());
    word.filter(|word| !word.is_empty()).map(strip_self).into_iter().collect()
}

fn strip_self(name: &str) -> String {
    let name = name.trim();
    name.strip_prefix("self.").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(file: &str, lines: &[u32]) -> Thread {
        let frame = |line: &u32| Frame {
            language: "Python".into(),
            function: Some("f".into()),
            file: Some(file.into()),
            line: Some(*line),
            library: None,
            offset: None,
        };
        Thread { frames: lines.iter().map(frame).collect(), ..Thread::waiting(1) }
    }

    #[test]
    fn the_lines_say_which_locks_a_thread_is_in() {
        let text = "\
def f(self):
    with self.a:
        other()
        with b, c:
            d.acquire()
            e.acquire()
            e.release()
            if x:
                with g:
                    pass
                with self.h as lock:
                    pass
";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.py");
        fs::write(&file, text).unwrap();
        let thread = thread(file.to_str().unwrap(), &[11]);
        let mut sources = SourceCache::default();
        assert_eq!(sources.wanted_locks(&thread), Some(vec!["h".to_owned()]));
        let held: Vec<String> =
            sources.held_locks(&thread).into_iter().map(|(name, place)| format!("{name} {place}")).collect();
        assert_eq!(held, ["d x.py:5", "b x.py:4", "c x.py:4", "a x.py:2"]);
    }
}
