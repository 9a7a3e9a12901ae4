//! Entries about a process in its recording, appended as facts become known.
//!
//! An entry starts at a multiple of [`ALIGN`] with a [`Head`], and its text follows. It is valid if it has
//! the magic number, which is written last. If not, continue at the next multiple: a writer may have died
//! before it completed the entry.

use crate::launchers::column;
use crate::rank;

/// Alignment of entries.
pub const ALIGN: usize = 16;
/// First bytes of a valid entry.
pub const MAGIC: u16 = u16::from_le_bytes(*b"cM");

/// The start of an entry.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Bytes [`MAGIC`].
    pub magic: u16,
    /// Kind of entry.
    pub tag: u16,
    /// Number of bytes that follow.
    pub length: u32,
}

/// A text: `name`, NUL, value. Names in use: `cupeer` (its version), `program`, `host`, `driver` (its version as
/// a number), `trace` (the recorded functions), `directory` (the working directory),
/// [`INITIALIZED_BY`], [`DEVICES_FROM`], [`OUTLIVED`], [`MISSING`], [`STARTED_BY`].
pub const TEXT: u16 = 1;
/// Name of a text with the pid of the process that had initialized the driver before this process was forked
/// from it; 0 if unknown.
pub const INITIALIZED_BY: &str = "initialized-by";
/// Name of a text like [`INITIALIZED_BY`], for a likely pid: the forked process had device nodes open when
/// its recording began.
pub const DEVICES_FROM: &str = "devices-from";
/// Name of a text with the time in nanoseconds for which a forked process, which made no call, outlived the
/// other process and kept its device nodes open; 0 if unknown.
pub const OUTLIVED: &str = "outlived";
/// Smallest number of nanoseconds that counts for [`OUTLIVED`], because processes of a job end one after the
/// other.
pub const LEAST_OUTLIVED: u64 = 2_000_000_000;
/// Name of a text with a sentence: the part of the process that could not be recorded, with the reason.
pub const MISSING: &str = "missing";
/// Name of a text with the command line of the program behind a process that Python's multiprocessing
/// started.
pub const STARTED_BY: &str = "started-by";
/// Name of a text with the time, on the recording's clock, at which the process was about to execute another
/// program, and the path of that program.
pub const BECAME: &str = "became";
/// Kind of an entry with an argument of the program. The entries are in the order of the arguments.
pub const ARGUMENT: u16 = 2;
/// An environment variable that influences CUDA programs: `NAME=value`.
pub const VARIABLE: u16 = 3;
/// A function of the table: its number in slots (2 bytes), the bytes of its arguments in a slot (2 bytes), its
/// name.
pub const FUNCTION: u16 = 4;
/// A library: the offset that is added to its addresses, its first address, the address behind its last (8
/// bytes each), the time on the recording's clock from which on it was loaded there (8), the length of its
/// build id (1), the build id, and its path.
pub const LIBRARY: u16 = 5;
/// A device: its ordinal in the process (4 bytes), its UUID (16), its PCI address, NUL, its name.
pub const DEVICE: u16 = 6;
/// A library whose calls bypass cupeer: the method, NUL, its path.
pub const ESCAPED: u16 = 7;

/// A function of Python: its number (4 bytes), its first line (4 bytes), the path of its file when it was
/// compiled, NUL, its name. A missing function is unknown.
pub const PYTHON: u16 = 8;

/// Fork of this process after its parent had initialized the driver, in code that both have: the pid of the
/// process that initialized it (4 bytes), the time on the monotonic clock (8 bytes), the number of return
/// addresses (1), which is 0 if they are unknown, the addresses (8 each), and the lines of Python among them,
/// each as a [`PythonLine`](super::slot::PythonLine).
pub const FORKED: u16 = 9;
/// First of the numbers of functions in the lines of a [`FORKED`] entry. No call has such a number.
pub const FORKED_PYTHON: u32 = 1 << 16;

/// Memory that is only counted: see [`counted`](super::counted). Its process changes it in place.
pub const COUNTED: u16 = 10;

/// Prefixes of recorded variables, apart from those of [`launchers`](crate::launchers). Variables that may contain secrets
/// must not be added.
const VARIABLES: &[&str] = &[
    "CUDA_",
    "CUPEER_",
    "NCCL_",
    "UCX_",
    "NVSHMEM_",
    "NVIDIA_VISIBLE_DEVICES",
    "PYTORCH_",
    "TORCH_",
    "VLLM_",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
];

/// Parts of the names of variables that may hold secrets, the key of the job's fingerprints among them.
const SECRETS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "CUPEER_JOB"];

const OF_LAUNCHERS: &[&str] = column!(recorded);
const NUMBERS: &[&str] = column!(numbers);

/// Returns true if the value of a variable may be secret: it is not recorded, and not packed.
pub fn is_secret_variable(name: &[u8]) -> bool {
    let has = |part: &&str| name.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()));
    SECRETS.iter().any(has)
}

/// Returns true if a variable is recorded.
pub fn is_recorded_variable(name: &[u8]) -> bool {
    let mut prefixes = [VARIABLES, OF_LAUNCHERS, NUMBERS].into_iter().flatten();
    let is_known = prefixes.any(|prefix| name.starts_with(prefix.as_bytes())) || rank::is_rank_variable(name);
    is_known && !is_secret_variable(name)
}

/// Entry of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Kind of entry.
    pub tag: u16,
    /// Contents of the entry.
    pub bytes: &'a [u8],
    /// Offset of the bytes in the input.
    pub at: usize,
}

/// Returns the entries in the bytes of a block. The first one is at `start`.
pub fn entries(block: &[u8], start: usize) -> impl Iterator<Item = Entry<'_>> {
    let mut at = start.next_multiple_of(ALIGN);
    core::iter::from_fn(move || {
        loop {
            let [m0, m1, t0, t1, length @ ..] = *block.get(at..)?.first_chunk::<{ size_of::<Head>() }>()?;
            // The rest of a block is often empty, so look for the next valid entry.
            if u16::from_le_bytes([m0, m1]) != MAGIC {
                at += ALIGN;
                continue;
            }
            let body = at + size_of::<Head>();
            let length = u32::from_le_bytes(length) as usize;
            match block.get(body..body.saturating_add(length)) {
                Some(bytes) => {
                    at = (body + length).next_multiple_of(ALIGN);
                    return Some(Entry { tag: u16::from_le_bytes([t0, t1]), bytes, at: body });
                }
                None => at += ALIGN,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_recorded_by_the_variables_that_give_them() {
        for name in [rank::JOB, rank::HOST, rank::SIZE].into_iter().flatten() {
            assert!(is_recorded_variable(name.as_bytes()), "{name}");
        }
        assert!(!is_recorded_variable(b"RANKING"));
    }

    #[test]
    fn secrets_are_not_recorded() {
        for name in ["CUDA_VISIBLE_DEVICES", "RANK", "NCCL_DEBUG", "VLLM_CACHE_ROOT"] {
            assert!(is_recorded_variable(name.as_bytes()), "{name}");
        }
        for name in ["VLLM_API_KEY", "CUPEER_JOB", "TORCH_hub_token", "AWS_SECRET_ACCESS_KEY", "HOME"] {
            assert!(!is_recorded_variable(name.as_bytes()), "{name}");
        }
    }
}
