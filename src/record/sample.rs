//! Memory of devices and processes, as NVML reported it to a launcher after a call failed for lack of memory: a file
//! [`MEMORY_SAMPLES`] for each launcher, with a line for each device and sample.

use crate::clock::monotonic_now;
use crate::host;
use crate::plain::{self, SymbolicLinks};
use cupeer_spec::record::job::MEMORY_SAMPLES;
use std::path::Path;

/// Largest size in bytes of a file with memory samples, for writing and for reading.
pub const LONGEST: u64 = 256 << 10;
/// First line of the file.
pub const FIRST_LINE: &str = "cupeer memory 1";
/// Start of the line that says why there is no further sample.
const NONE: &str = "none ";

/// Memory of a device at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemorySample {
    /// Boot id of the host.
    pub boot_id: [u8; 16],
    /// Time when NVML was asked, in nanoseconds of CLOCK_MONOTONIC.
    pub at: u64,
    /// UUID of the device.
    pub device: [u8; 16],
    /// Size in bytes of the device's memory.
    pub total: u64,
    /// Size in bytes of the memory that is in use.
    pub used: u64,
    /// Size in bytes of the memory that is free.
    pub free: u64,
    /// Processes that have memory of the device; `None` if NVML does not list them.
    pub holders: Option<Vec<MemoryHolder>>,
}

/// Process that has memory of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryHolder {
    /// Pid of the process according to NVML: its pid on the host, which in a container belongs to another
    /// process.
    pub pid: u32,
    /// Pid of the process in its own pid namespace, and its start time in ticks since boot, as its own file has them; `None` if the
    /// process cannot be seen from here, as from a container.
    pub process: Option<(u32, u64)>,
    /// Size in bytes of the memory that the process has; `None` if NVML does not report it, as in Windows
    /// Subsystem for Linux.
    pub bytes: Option<u64>,
    /// Name of the process's program, as the kernel has it; empty if the process cannot be seen from here.
    pub name: String,
}

impl MemorySample {
    /// Returns the line for this sample in the file, without its newline.
    pub fn to_line(&self) -> String {
        let MemorySample { boot_id, at, device, total, used, free, holders } = self;
        let [boot, device] = [boot_id, device].map(|bytes| u128::from_be_bytes(*bytes));
        let number = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
        let holder = |MemoryHolder { pid, process, bytes, name }: &MemoryHolder| {
            let (own, started) = process.unzip();
            let name = name.replace(|c: char| c.is_control() || c == ';', "?");
            format!(";{pid}:{}:{}:{}:{name}", number(own.map(u64::from)), number(started), number(*bytes))
        };
        let list = if holders.is_some() { "" } else { ";-" };
        let holders: String = holders.iter().flatten().map(holder).collect();
        format!("{boot:032x}:{at}:{device:032x}:{total}:{used}:{free}{list}{holders}")
    }

    fn of(line: &str) -> Option<MemorySample> {
        let mut pieces = line.split(';');
        let mut parts = pieces.next()?.split(':');
        let id = |part: Option<&str>| Some(u128::from_str_radix(part?, 16).ok()?.to_be_bytes());
        let (boot_id, at, device) = (id(parts.next())?, parts.next()?.parse().ok()?, id(parts.next())?);
        let mut number = || parts.next()?.parse().ok();
        let (total, used, free) = (number()?, number()?, number()?);
        let pieces: Vec<&str> = pieces.collect();
        let holders =
            if pieces == ["-"] { None } else { Some(pieces.into_iter().filter_map(MemoryHolder::of).collect()) };
        Some(MemorySample { boot_id, at, device, total, used, free, holders })
    }
}

impl MemoryHolder {
    fn of(piece: &str) -> Option<MemoryHolder> {
        let mut parts = piece.splitn(5, ':');
        let pid = parts.next()?.parse().ok()?;
        let process = parts.next()?.parse().ok().zip(parts.next()?.parse().ok());
        Some(MemoryHolder { pid, process, bytes: parts.next()?.parse().ok(), name: parts.next()?.to_owned() })
    }
}

/// Samples of one launcher.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MemorySamples {
    /// Samples in the order of their times.
    pub samples: Vec<MemorySample>,
    /// Reason why there are no further samples; `None` if there is none.
    pub problem: Option<String>,
}

impl MemorySamples {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The error is a sentence without a subject.
    pub fn open(path: &Path) -> Result<MemorySamples, String> {
        let bytes =
            plain::read(path, SymbolicLinks::Refused, LONGEST).map_err(|error| format!("cannot be read: {error}"))?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("is not a file with samples of memory".into());
        }
        let mut read = MemorySamples::default();
        for line in lines {
            match line.strip_prefix(NONE) {
                Some(reason) => read.problem = Some(reason.to_owned()),
                None => read.samples.extend(MemorySample::of(line)),
            }
        }
        read.samples.sort_by_key(|sample| sample.at);
        Ok(read)
    }

    /// Returns the name of the file that this process writes; `None` if the system does not supply the boot
    /// id.
    pub fn own_file_name() -> Option<String> {
        Some(format!("{MEMORY_SAMPLES}{}-{}", host::short_boot_id(host::boot_id()?), std::process::id()))
    }

    /// Returns the line that says why there is no sample, without its newline.
    pub fn line_without_sample(reason: &str) -> String {
        format!("{NONE}{}", reason.replace(char::is_control, " "))
    }
}

/// Returns the current time, for a new sample.
pub fn sample_time() -> u64 {
    monotonic_now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_as_they_were_written_and_nothing_else_is() {
        let holder = |pid, process, bytes, name: &str| MemoryHolder { pid, process, bytes, name: name.into() };
        let holders = vec![holder(7, Some((1, 5)), Some(1 << 34), "a:b c"), holder(0, None, None, "")];
        let sample = |at, holders| MemorySample {
            boot_id: [1; 16],
            at,
            device: [0xc0; 16],
            total: 9,
            used: 5,
            free: 4,
            holders,
        };
        let all = vec![sample(1, Some(holders)), sample(2, Some(Vec::new())), sample(3, None)];
        let lines: String = all.iter().rev().map(|sample| sample.to_line() + "\n").collect();
        let none = MemorySamples::line_without_sample("no\nNVML");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory-0123abcd-7");
        std::fs::write(&path, format!("{FIRST_LINE}\n{lines}\n1:2\n;;\n:::::\nx:1:1:1:1:1\n{none}\n{}", &lines[..40]))
            .unwrap();
        let read = MemorySamples::open(&path).unwrap();
        assert_eq!(read, MemorySamples { samples: all, problem: Some("no NVML".into()) });
        std::fs::write(&path, &lines).unwrap();
        assert_eq!(MemorySamples::open(&path).unwrap_err(), "is not a file with samples of memory");
        let controls =
            MemoryHolder { name: "\n;\u{1b}".into(), ..read.samples[0].holders.as_ref().unwrap()[0].clone() };
        let line = MemorySample { holders: Some(vec![controls]), ..read.samples[0].clone() }.to_line();
        assert!(line.ends_with(":???"), "{line}");
    }
}
