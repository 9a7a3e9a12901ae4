//! Finds out whether cupeer records another process of this host, and where, from the libraries and the initial
//! environment that the system shows.

use super::environment;
use super::files;
use super::line::ShortText;
use super::opened::OpenedFile;
use core::fmt;
use cupeer_spec::env;

/// End of the path of our library.
const LIBRARY: &[u8] = b"/libcupeer.so";

/// Returns true if a process has loaded our library, and its directory of recordings differs from ours.
pub fn is_recorded_elsewhere(pid: u32) -> bool {
    let (mut own, mut length) = ([0u8; 1024], 0);
    environment::each(|variable| {
        if let Some(value) = recording_directory_in(variable) {
            length = value.len().min(own.len());
            own[..length].copy_from_slice(&value[..length]);
        }
    });
    let mut is_elsewhere = false;
    each_piece(format_args!("/proc/{pid}/environ\0"), 0, |variable| {
        if let Some(value) = recording_directory_in(variable) {
            is_elsewhere = value != &own[..length];
        }
    });
    is_elsewhere && has_our_library(pid)
}

fn has_our_library(pid: u32) -> bool {
    let mut is_there = false;
    each_piece(format_args!("/proc/{pid}/maps\0"), b'\n', |line| is_there |= line.ends_with(LIBRARY));
    is_there
}

/// Returns the value in `NAME=value` if the variable is the one that names the directory of the recording.
fn recording_directory_in(variable: &[u8]) -> Option<&[u8]> {
    variable.strip_prefix(env::OUT.as_bytes())?.strip_prefix(b"=")
}

/// Calls `found` with each piece of a file of the system (such as /proc), split at a separator. Long pieces are passed in parts.
fn each_piece(path: fmt::Arguments, separator: u8, mut found: impl FnMut(&[u8])) {
    let path = ShortText::<48>::new(path);
    let Some(path) = path.c_text() else { return };
    let Ok(file) = OpenedFile::open_following_links(path, libc::O_RDONLY) else { return };
    let (mut bytes, mut kept) = ([0u8; 4096], 0);
    loop {
        let read = files::read_from(file.descriptor(), &mut bytes[kept..]).unwrap_or(0);
        let (mut from, end) = (0, kept + read);
        while let Some(length) = bytes[from..end].iter().position(|byte| *byte == separator) {
            found(&bytes[from..from + length]);
            from += length + 1;
        }
        if read == 0 || from == 0 && end == bytes.len() {
            found(&bytes[from..end]);
            from = end;
        }
        if read == 0 {
            return;
        }
        bytes.copy_within(from..end, 0);
        kept = end - from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn files_are_read_piece_by_piece() {
        let (mut lines, mut whole) = (Vec::new(), String::new());
        each_piece(format_args!("/proc/self/status\0"), b'\n', |line| lines.push(line.to_vec()));
        std::fs::File::open("/proc/self/status").unwrap().read_to_string(&mut whole).unwrap();
        let names =
            |text: Vec<&str>| text.iter().filter_map(|l| Some(l.split_once(':')?.0.to_owned())).collect::<Vec<_>>();
        let read: Vec<&str> = lines.iter().filter_map(|line| std::str::from_utf8(line).ok()).collect();
        assert_eq!(names(read), names(whole.lines().collect()));
        let mut variables = 0;
        each_piece(format_args!("/proc/self/environ\0"), 0, |_| variables += 1);
        assert!(variables > 1);
    }

    #[test]
    fn a_process_without_our_library_is_not_recorded() {
        let mut child =
            std::process::Command::new("sleep").arg("60").env(env::OUT, "/elsewhere").spawn().expect("a child");
        assert!(!is_recorded_elsewhere(child.id()) && !has_our_library(child.id()));
        child.kill().expect("it runs");
        child.wait().expect("its end");
        assert!(!is_recorded_elsewhere(child.id()));
    }
}
