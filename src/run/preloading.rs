//! Programs that refuse to run with a preloaded library: AddressSanitizer that the program configures itself, and programs
//! that read LD_PRELOAD.

use super::child::End;
use cupeer_console::variables::LD_PRELOAD;
use cupeer_launch::elf::Elf;
use cupeer_launch::{libraries, program};
use cupeer_record::plain::{self, Links};
use std::ffi::OsStr;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Function by which a program configures AddressSanitizer. The preload library also defines it, but the program's own
/// takes precedence.
const OPTIONS: &[u8] = b"__asan_default_options";
/// Maximum size in bytes of a program that is read.
const MOST_READ: u64 = 1 << 30;

/// Returns the fix for a program that failed, and that is linked to the shared AddressSanitizer and configures it.
pub fn by_sanitizer(program: &OsStr, end: End) -> Option<String> {
    let (path, elf, status) = failed(program, end)?;
    let is_sanitizer = |name: &String| name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan");
    let is_first = elf.needed().is_ok_and(|names| names.iter().any(is_sanitizer)) && mentions(&path, OPTIONS);
    is_first.then(|| {
        format!(
            "{} defines {}, and returned {status}; if AddressSanitizer refused to start, set \
             ASAN_OPTIONS=verify_asan_link_order=0",
            program.display(),
            OPTIONS.escape_ascii()
        )
    })
}

/// Returns the fix for a program that failed and reads LD_PRELOAD.
pub fn by_itself(program: &OsStr, end: End) -> Option<String> {
    let (path, _, status) = failed(program, end)?;
    mentions(&path, LD_PRELOAD.as_bytes()).then(|| {
        format!(
            "{} reads LD_PRELOAD, and returned {status}; if it refuses to run with a preloaded library, link it with {} \
             ahead of libcuda, and set the other variables of 'cupeer env'",
            program.display(),
            libraries::PRELOAD
        )
    })
}

/// Returns the path of a program that exited with an error, its ELF file, and its status; `None` for a script.
fn failed(program: &OsStr, end: End) -> Option<(PathBuf, Elf, i32)> {
    let End::Exited(status @ 1..) = end else { return None };
    let path = program::find(program)?;
    let elf = Elf::open(&path).ok()??;
    Some((path, elf, status.into()))
}

/// Returns true if a file contains the bytes `wanted`.
fn mentions(path: &Path, wanted: &[u8]) -> bool {
    let Ok(file) = plain::open(path, Links::Followed) else { return false };
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
            assert!(mentions(&path, LD_PRELOAD.as_bytes()), "{before}");
            assert!(!mentions(&path, b"LD_PRELOADS"));
        }
    }
}
