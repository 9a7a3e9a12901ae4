//! One process: its identity. Its calls are in [`crate::events`].

use crate::alive;
use crate::source::Source;
use cupeer_spec::function::FnId;
use cupeer_spec::rank::Ranks;
use cupeer_spec::record::slot::PythonLine;
use cupeer_spec::record::{BLOCK, ClockMoment, Header, called_bit, clock, meta, mode};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

pub use crate::clock::Clock;

/// Library in a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Library {
    /// Value that was added to the library's addresses when it was loaded.
    pub base: u64,
    /// First address of the library, and the address after its last.
    pub range: std::ops::Range<u64>,
    /// Time when the library was first seen there, in ticks of the record's clock.
    pub since: u64,
    /// Build id of the library; empty if it has none.
    pub build_id: Vec<u8>,
    /// Path of the library.
    pub path: String,
}

/// Python function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PythonFunction {
    /// Path of the source file when it was compiled.
    pub file: String,
    /// Name of the function.
    pub name: String,
    /// First line of the function.
    pub first_line: u32,
}

/// Fork of a process whose parent had initialized the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForkOrigin {
    /// Pid of the process that had initialized the driver.
    pub initializer: u32,
    /// Time of the fork on the monotonic clock.
    pub monotonic: u64,
    /// Return addresses of the code that forked; none if they are unknown.
    pub frames: Vec<u64>,
    /// Python frames of the code that forked.
    pub python: Vec<PythonLine>,
}

/// Device as one process sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Ordinal of the device in the process.
    pub ordinal: i32,
    /// UUID of the device.
    pub uuid: [u8; 16],
    /// PCI address of the device.
    pub pci: String,
    /// Name of the device.
    pub name: String,
}

/// Process of a recording, without its events.
#[derive(Clone, Debug)]
pub struct Process {
    /// Name that is unique in the recording: boot, pid namespace, pid, start, and the number of the program if it is
    /// not the first. It is the name of the file without its suffix.
    pub proc: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Source of the bytes: the file, or memory.
    pub source: Source,
    /// Header of the file.
    pub header: Header,
    /// Texts of the process, each `name=value`: see [`cupeer_spec::record::meta::TEXT`].
    pub texts: Vec<(String, String)>,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Environment variables of the process.
    pub variables: Vec<(String, String)>,
    /// Functions by their number in the record: the name, and the size of the arguments in bytes.
    pub functions: Vec<(String, u16)>,
    /// Libraries that calls came from.
    pub libraries: Vec<Library>,
    /// Python functions that calls came from, by their number in the record.
    pub python: BTreeMap<u32, PythonFunction>,
    /// Fork to which the process owes its existence, if its parent had initialized the driver.
    pub forked: Option<ForkOrigin>,
    /// Devices that the process sees.
    pub devices: Vec<Device>,
    /// Libraries whose calls bypassed cupeer: how, and the path.
    pub bypassing_libraries: Vec<(String, String)>,
    /// Place in the file of the table of memory that is only counted, if there is one.
    pub counted_at: Option<std::ops::Range<u64>>,
    /// Moments on all clocks, from the header and from blocks, unchanged: some may be zero or wrong.
    pub moments: Vec<ClockMoment>,
    /// Problem of a file that can be read nevertheless: the rest of a sentence that begins with the path.
    pub problem: Option<String>,
}

impl Process {
    /// Returns the function with a number in this record; `None` if this version of cupeer does not know it, or stores
    /// its arguments in another way.
    pub fn function_id(&self, number: u16) -> Option<FnId> {
        let (name, stored) = self.functions.get(usize::from(number))?;
        FnId::by_name(name).filter(|function| function.spec().stored_args_size() == usize::from(*stored))
    }

    /// Returns the functions that the process, or the one that it was forked from, has called, recorded or not.
    pub fn called_functions(&self) -> impl Iterator<Item = FnId> {
        let is_called = |number: &usize| {
            let (word, bit) = called_bit(*number);
            self.header.called.get(word).is_some_and(|called| called & bit != 0)
        };
        (0..self.functions.len()).filter(is_called).filter_map(|number| FnId::by_name(&self.functions[number].0))
    }

    /// Returns the name of the function with a number in this record; `?` if the record does not have it.
    pub fn function_name(&self, number: u16) -> &str {
        match self.functions.get(usize::from(number)) {
            Some((name, _)) if !name.is_empty() => name,
            _ => "?",
        }
    }

    /// Returns the value of a recorded environment variable; `None` if the recording does not have it.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the rank of the process in the job, from the launcher's variables.
    pub fn rank(&self) -> Option<u32> {
        let mut ranks = Ranks::default();
        self.variables.iter().for_each(|(name, value)| ranks.add_variable(name.as_bytes(), value.as_bytes()));
        ranks.rank_in_job()
    }

    /// Returns the last text with a name: see [`cupeer_spec::record::meta::TEXT`].
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the name of the host; empty if the recording does not have it.
    pub fn host(&self) -> &str {
        self.text("host").unwrap_or_default()
    }

    /// Returns the path of the program; empty if the recording does not have it.
    pub fn program(&self) -> &str {
        self.text("program").unwrap_or_default()
    }

    /// Returns the program that the process was about to execute last, and the time in ticks of the
    /// recording's clock; `None` if the process executed none.
    pub fn executed_program(&self) -> Option<(u64, &str)> {
        let (ticks, program) = self.text(meta::BECAME)?.split_once(' ')?;
        Some((ticks.parse().ok()?, program))
    }

    /// Returns the library that contained an address at a time in ticks of the recording's clock; otherwise,
    /// a library that was first seen at this address later.
    pub fn library_at(&self, address: u64, ticks: u64) -> Option<&Library> {
        let all = || self.libraries.iter().filter(|library| library.range.contains(&address));
        all()
            .filter(|library| library.since <= ticks)
            .max_by_key(|library| library.since)
            .or_else(|| all().min_by_key(|library| library.since))
    }

    /// Returns the device with an ordinal.
    pub fn device(&self, ordinal: i32) -> Option<&Device> {
        self.devices.iter().rev().find(|device| device.ordinal == ordinal)
    }

    /// Returns true if events were overwritten: in a ring, the first events; in a recording that reached its
    /// limit, events between the first and the last ones.
    pub fn has_overwritten(&self) -> bool {
        match self.header.mode {
            // Block 0 has no events, and is not part of the ring.
            mode::RING => self.header.next_block > self.header.ring_blocks,
            mode => mode == mode::BOUNDED,
        }
    }

    /// Returns the largest size in bytes that the recording may have, if this limit was reached: see
    /// [`mode::BOUNDED`].
    pub fn reached_limit(&self) -> Option<u64> {
        (self.header.mode == mode::BOUNDED).then_some(self.header.ring_blocks.saturating_mul(BLOCK as u64))
    }

    /// Returns true if calls of the process or their results are missing, so that their absence proves nothing. Calls
    /// that a ring has overwritten are not missing.
    pub fn has_losses(&self) -> bool {
        self.header.lost > 0 || self.header.ended_by != 0 || self.problem.is_some()
    }

    /// Returns the reason if the file ends before the process did: the rest of a sentence that begins with
    /// the path.
    pub fn reason_for_early_end(&self) -> Option<String> {
        let Header { ended_by, mode, ring_blocks, .. } = self.header;
        if ended_by as i32 == libc::EBUSY && mode == mode::RING {
            // Block 0 has no calls, and does not count.
            let size = ring_blocks.saturating_mul(2 * BLOCK as u64).div_ceil(1 << 20);
            return Some(format!(
                "is without the calls of some threads: its ring has room for {} threads at a time, because each one that calls needs \
                 {} KiB; record with ring:{size}M or more",
                ring_blocks.saturating_sub(1),
                BLOCK >> 10
            ));
        }
        let why = || io::Error::from_raw_os_error(ended_by as i32);
        (ended_by != 0).then(|| format!("ends before its process did: {}", why()))
    }

    /// Returns true if the process runs; `None` if that cannot be known, as on another host. Only
    /// [`crate::Job::are_alive`] knows whether the process became another program.
    pub fn is_alive(&self) -> Option<bool> {
        let who = (&self.header).into();
        alive::HostState::read(std::iter::once(who)).is_running(who)
    }
}

impl Clock {
    /// Computes the clock of these processes, all of one boot and with the same
    /// [`cupeer_spec::record::Header::clock`].
    pub(crate) fn of<'a>(processes: impl Iterator<Item = &'a Process>) -> Clock {
        let mut counted_by = clock::MONOTONIC;
        let mut moments = Vec::new();
        for process in processes {
            counted_by = process.header.clock;
            moments.extend(&process.moments);
        }
        if counted_by == clock::COUNTER {
            Clock::from_counter_ticks(moments)
        } else {
            Clock::from_nanosecond_ticks(&moments)
        }
    }
}
