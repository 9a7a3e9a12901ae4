//! One process: who it was, and its calls in the order of time.

use cupeer_spec::record::{Header, Moment};
use std::path::PathBuf;

/// A library of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Library {
    /// What is added to its addresses.
    pub base: u64,
    /// Its first address, and the one after its last.
    pub range: std::ops::Range<u64>,
    /// From when on it lay there, on the record's clock.
    pub since: u64,
    /// Its build id; empty where it has none.
    pub build_id: Vec<u8>,
    /// Its path.
    pub path: String,
}

/// A device as a process sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its ordinal there.
    pub ordinal: i32,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its PCI address.
    pub pci: String,
    /// Its name.
    pub name: String,
}

/// What a record says of its process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Unique in the record: boot, pid namespace, pid, start, and the image where it is not the first. The name
    /// of the file without its suffix.
    pub proc: String,
    /// The file.
    pub path: PathBuf,
    /// Its begin.
    pub header: Header,
    /// `name=value` texts of the process: see [`cupeer_spec::record::meta::TEXT`].
    pub texts: Vec<(String, String)>,
    /// The program's arguments.
    pub arguments: Vec<String>,
    /// Variables of its environment.
    pub variables: Vec<(String, String)>,
    /// The functions of the table, by their number in the record: name, bytes of the arguments.
    pub functions: Vec<(String, u16)>,
    /// Libraries that calls came from.
    pub libraries: Vec<Library>,
    /// Its devices.
    pub devices: Vec<Device>,
    /// Libraries whose calls went past us: way, path.
    pub escaped: Vec<(String, String)>,
}

/// From ticks to nanoseconds of CLOCK_MONOTONIC, for all processes of one boot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Clock {
    /// A moment.
    pub origin: Moment,
    /// Nanoseconds a tick.
    pub speed: f64,
}
