//! One process: its identity. Its calls are in [`crate::events`].

use crate::alive;
use crate::events::Events;
use crate::read;
use crate::source::Source;
use cupeer_spec::function::FnId;
use cupeer_spec::rank::Ranks;
use cupeer_spec::record::end::End;
use cupeer_spec::record::{Header, Moment, meta, mode};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub use crate::clock::Clock;

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

/// A function of Python.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PythonFunction {
    /// The path of its file, as its compiler had it.
    pub file: String,
    /// Its name.
    pub name: String,
    /// Its first line.
    pub first_line: u32,
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
    /// What is read: the file, or bytes in its place.
    pub source: Source,
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
    /// Functions of Python that calls came from, by their numbers in the record.
    pub python: BTreeMap<u32, PythonFunction>,
    /// Its devices.
    pub devices: Vec<Device>,
    /// Libraries whose calls went past us: way, path.
    pub escaped: Vec<(String, String)>,
    /// Moments on all clocks, from the header and from blocks, as they stand there: some may be zero or wrong.
    pub moments: Vec<Moment>,
    /// What is wrong with the file, although it can be read: a sentence without a subject.
    pub problem: Option<String>,
}

impl Process {
    /// Reads a process's file, all but the events. The error is a sentence without a subject: "is empty".
    pub fn open(path: &Path) -> Result<Process, String> {
        read::process(path.into(), path)
    }

    /// The same with bytes in place of the file.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Process, String> {
        read::process(bytes.into(), Path::new(name))
    }

    /// All events of the process, in the order of time.
    pub fn events(&self) -> io::Result<Events> {
        Events::open(self)
    }

    /// The function of a number in this record; `None` where this version of cupeer does not know it, or keeps
    /// its arguments in another way.
    pub fn function_id(&self, number: u16) -> Option<FnId> {
        let (name, stored) = self.functions.get(usize::from(number))?;
        FnId::all()
            .find(|function| function.spec().name == name)
            .filter(|function| function.spec().stored() == usize::from(*stored))
    }

    /// The name of the function of a number in this record; `?` where the record does not say.
    pub fn function_name(&self, number: u16) -> &str {
        match self.functions.get(usize::from(number)) {
            Some((name, _)) if !name.is_empty() => name,
            _ => "?",
        }
    }

    /// A variable of its environment.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Its rank in the job, as its launcher has told it.
    pub fn rank(&self) -> Option<u32> {
        let mut ranks = Ranks::default();
        self.variables.iter().for_each(|(name, value)| ranks.see(name.as_bytes(), value.as_bytes()));
        ranks.job()
    }

    /// A text by its name: see [`cupeer_spec::record::meta::TEXT`]. The last one counts.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The name of its host; empty where the record does not say.
    pub fn host(&self) -> &str {
        self.text("host").unwrap_or_default()
    }

    /// The path of its program; empty where the record does not say.
    pub fn program(&self) -> &str {
        self.text("program").unwrap_or_default()
    }

    /// Which program it was last about to become, and when, on the record's clock.
    pub fn became(&self) -> Option<(u64, &str)> {
        let (ticks, program) = self.text(meta::BECAME)?.split_once(' ')?;
        Some((ticks.parse().ok()?, program))
    }

    /// The library that an address lay in at a time on the record's clock. A library that was noticed only later
    /// is better than none.
    pub fn library_at(&self, address: u64, ticks: u64) -> Option<&Library> {
        let all = || self.libraries.iter().filter(|library| library.range.contains(&address));
        all()
            .filter(|library| library.since <= ticks)
            .max_by_key(|library| library.since)
            .or_else(|| all().min_by_key(|library| library.since))
    }

    /// The device of an ordinal.
    pub fn device(&self, ordinal: i32) -> Option<&Device> {
        self.devices.iter().rev().find(|device| device.ordinal == ordinal)
    }

    /// How it ended, where somebody has seen that by now: it may have ended after its record was opened.
    pub fn end(&self) -> End {
        let file = self.source.open().ok();
        let now = file.and_then(|file| read::header(&file).ok());
        End::of(now.map_or(self.header.end, |header| header.end))
    }

    /// Whether a ring has been written around, so that its first events are gone.
    pub fn has_dropped(&self) -> bool {
        // Its first block holds no events, and is not counted.
        self.header.mode == mode::RING && self.header.next_block > self.header.ring_blocks
    }

    /// Whether calls that it made are missing, or what they returned: nothing is known from what its record does not have.
    /// What a ring has overwritten is not missing.
    pub fn has_losses(&self) -> bool {
        self.header.lost > 0 || self.header.ended_by != 0 || self.problem.is_some()
    }

    /// That its file ends before the process did, and why, where it does: a sentence without a subject.
    pub fn ends_early(&self) -> Option<String> {
        let why = || io::Error::from_raw_os_error(self.header.ended_by as i32);
        (self.header.ended_by != 0).then(|| format!("ends before its process did: {}", why()))
    }

    /// Whether the process runs; `None` where that cannot be known, as on another host. Of a process that has
    /// executed another program only [`crate::Job::alive`] knows that this image of it is gone.
    pub fn is_alive(&self) -> Option<bool> {
        let who = (&self.header).into();
        alive::Host::look(std::iter::once(who)).runs(who)
    }
}
