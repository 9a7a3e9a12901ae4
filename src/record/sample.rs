//! Memory of devices and processes, as NVML reported it to a launcher after a call failed for lack of memory: a file
//! [`SAMPLES`] for each launcher, with a line for each device and sample.

use crate::clock::monotonic;
use crate::host;
use crate::plain::{self, Links};
use cupeer_spec::record::job::SAMPLES;
use std::path::Path;

/// Largest size in bytes of such a file, for writing and for reading.
pub const LONGEST: u64 = 256 << 10;
/// First line of the file.
pub const FIRST_LINE: &str = "cupeer memory 1";
/// Start of the line that says why there is no further sample.
const NONE: &str = "none ";

/// Memory of a device at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
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
    pub holders: Option<Vec<Holder>>,
}

/// Process that has memory of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
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

impl Sample {
    /// Returns the line for this sample in the file, without its newline.
    pub fn line(&self) -> String {
        let Sample { boot_id, at, device, total, used, free, holders } = self;
        let [boot, device] = [boot_id, device].map(|bytes| u128::from_be_bytes(*bytes));
        let number = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
        let holder = |Holder { pid, process, bytes, name }: &Holder| {
            let (own, started) = process.unzip();
            let name = name.replace(|c: char| c.is_control() || c == ';', "?");
            format!(";{pid}:{}:{}:{}:{name}", number(own.map(u64::from)), number(started), number(*bytes))
        };
        let list = if holders.is_some() { "" } else { ";-" };
        let holders: String = holders.iter().flatten().map(holder).collect();
        format!("{boot:032x}:{at}:{device:032x}:{total}:{used}:{free}{list}{holders}")
    }

    fn of(line: &str) -> Option<Sample> {
        let mut pieces = line.split(';');
        let mut parts = pieces.next()?.split(':');
        let id = |part: Option<&str>| Some(u128::from_str_radix(part?, 16).ok()?.to_be_bytes());
        let (boot_id, at, device) = (id(parts.next())?, parts.next()?.parse().ok()?, id(parts.next())?);
        let mut number = || parts.next()?.parse().ok();
        let (total, used, free) = (number()?, number()?, number()?);
        let pieces: Vec<&str> = pieces.collect();
        let holders =
            if pieces == ["-"] { None } else { Some(pieces.into_iter().filter_map(Holder::of).collect()) };
        Some(Sample { boot_id, at, device, total, used, free, holders })
    }
}

impl Holder {
    fn of(piece: &str) -> Option<Holder> {
        let mut parts = piece.splitn(5, ':');
        let pid = parts.next()?.parse().ok()?;
        let process = parts.next()?.parse().ok().zip(parts.next()?.parse().ok());
        Some(Holder { pid, process, bytes: parts.next()?.parse().ok(), name: parts.next()?.to_owned() })
    }
}

/// Samples of one launcher.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Samples {
    /// Samples in the order of their times.
    pub samples: Vec<Sample>,
    /// Reason why there are no further samples; `None` if there is none.
    pub problem: Option<String>,
}

impl Samples {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The error is a sentence without a subject.
    pub fn open(path: &Path) -> Result<Samples, String> {
        let bytes =
            plain::read(path, Links::Refused, LONGEST).map_err(|error| format!("cannot be read: {error}"))?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("is not a file with samples of memory".into());
        }
        let mut read = Samples::default();
        for line in lines {
            match line.strip_prefix(NONE) {
                Some(reason) => read.problem = Some(reason.to_owned()),
                None => read.samples.extend(Sample::of(line)),
            }
        }
        read.samples.sort_by_key(|sample| sample.at);
        Ok(read)
    }

    /// Returns the name of the file that this process writes; `None` if the system does not supply the boot
    /// id.
    pub fn file() -> Option<String> {
        Some(format!("{SAMPLES}{}-{}", host::short(host::boot_id()?), std::process::id()))
    }

    /// Returns the line that says why there is no sample, without its newline.
    pub fn none(reason: &str) -> String {
        format!("{NONE}{}", reason.replace(char::is_control, " "))
    }
}

/// Returns the current time, for a new sample.
pub fn now() -> u64 {
    monotonic()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_as_they_were_written_and_nothing_else_is() {
        let holder = |pid, process, bytes, name: &str| Holder { pid, process, bytes, name: name.into() };
        let holders = vec![holder(7, Some((1, 5)), Some(1 << 34), "a:b c"), holder(0, None, None, "")];
        let sample = |at, holders| Sample {
            boot_id: [1; 16],
            at,
            device: [0xc0; 16],
            total: 9,
            used: 5,
            free: 4,
            holders,
        };
        let all = vec![sample(1, Some(holders)), sample(2, Some(Vec::new())), sample(3, None)];
        let lines: String = all.iter().rev().map(|sample| sample.line() + "\n").collect();
        let none = Samples::none("no\nNVML");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory-0123abcd-7");
        std::fs::write(
            &path,
            format!("{FIRST_LINE}\n{lines}\n1:2\n;;\n:::::\nx:1:1:1:1:1\n{none}\n{}", &lines[..40]),
        )
        .unwrap();
        let read = Samples::open(&path).unwrap();
        assert_eq!(read, Samples { samples: all, problem: Some("no NVML".into()) });
        std::fs::write(&path, &lines).unwrap();
        assert_eq!(Samples::open(&path).unwrap_err(), "is not a file with samples of memory");
        let controls =
            Holder { name: "\n;\u{1b}".into(), ..read.samples[0].holders.as_ref().unwrap()[0].clone() };
        let line = Sample { holders: Some(vec![controls]), ..read.samples[0].clone() }.line();
        assert!(line.ends_with(":???"), "{line}");
    }
}
