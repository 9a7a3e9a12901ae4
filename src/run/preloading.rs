//! Programs that refuse to run with a preloaded library: AddressSanitizer that the program configures itself, and programs
//! that read LD_PRELOAD.

use super::child::ProgramEnd;
use cupeer_console::variables::LD_PRELOAD;
use cupeer_launch::elf::ElfFile;
use cupeer_launch::{libraries, program};
use cupeer_record::plain::{self, SymbolicLinks};
use std::ffi::OsStr;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Function by which a program configures AddressSanitizer. The preload library also defines it, but the program's own
/// takes precedence.
const ASAN_OPTIONS_FUNCTION: &[u8] = b"__asan_default_options";
/// Maximum size in bytes of a program that is read.
const MOST_READ: u64 = 1 << 30;

/// Returns the fix for a program that failed, and that is linked to the shared AddressSanitizer and configures it.
pub fn asan_hint(program: &OsStr, end: ProgramEnd) -> Option<String> {
    let (path, elf, status) = failed_program(program, end)?;
    let is_sanitizer = |name: &String| name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan");
    let is_first = elf.needed_libraries().is_ok_and(|names| names.iter().any(is_sanitizer))
        && file_contains(&path, ASAN_OPTIONS_FUNCTION);
    is_first.then(|| {
        format!(
            "{} defines {}, and returned {status}; if AddressSanitizer refused to start, set \
             ASAN_OPTIONS=verify_asan_link_order=0",
            program.display(),
            ASAN_OPTIONS_FUNCTION.escape_ascii()
        )
    })
}

/// Returns the fix for a program that failed and reads LD_PRELOAD.
pub fn ld_preload_hint(program: &OsStr, end: ProgramEnd) -> Option<String> {
    let (path, _, status) = failed_program(program, end)?;
    file_contains(&path, LD_PRELOAD.as_bytes()).then(|| {
        format!(
            "{} reads LD_PRELOAD, and returned {status}; if it refuses to run with a preloaded library, link it with {} \
             ahead of libcuda, and set the other variables of 'cupeer env'",
            program.display(),
            libraries::PRELOAD
        )
    })
}

/// Returns the path of a program that exited with an error, its ELF file, and its status; `None` for a script.
fn failed_program(program: &OsStr, end: ProgramEnd) -> Option<(PathBuf, ElfFile, i32)> {
    let ProgramEnd::Exited(status @ 1..) = end else { return None };
    let path = program::find_program(program)?;
    let elf = ElfFile::open(&path).ok()??;
    Some((path, elf, status.into()))
}

/// Returns true if a file contains the bytes `wanted`.
fn file_contains(path: &Path, wanted: &[u8]) -> bool {
    let Ok(file) = plain::open(path, SymbolicLinks::Followed) else { return false };
    let (mut file, mut window) = (BufReader::new(file).take(MOST_READ), vec![0; 1 << 16]);
    let mut kept = 0;
    while let Ok(read @ 1..) = file.read(&mut window[kept..]) {
        let filled = kept + read;
        if window[..filled].windows(wanted.len()).any(|bytes| bytes == wanted) {
            return true;
        }
        kept = filled.min(wanted.len() - 1);
        window.copy_within(filled - kept..filled, 0);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for before in [0, 1, (1 << 16) - 5, 1 << 16, (1 << 17) - 19] {
            let bytes = [vec![b'L'; before], LD_PRELOAD.into(), vec![0; 9]].concat();
            std::fs::write(&path, bytes).unwrap();
            assert!(file_contains(&path, LD_PRELOAD.as_bytes()), "{before}");
            assert!(!file_contains(&path, b"LD_PRELOADS"));
        }
    }
}
