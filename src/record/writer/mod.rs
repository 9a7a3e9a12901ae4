//! Writes records in the format of libcupeer.so, slowly, to test and benchmark readers.
//!
//! The files follow the format, in any shape that a process can give them. [`blocks`] builds the blocks, [`stream`]
//! the slots, [`items`] the contents of details, and [`calls`] the calls.

pub mod blocks;
pub mod calls;
mod items;
pub mod stream;

use crate::faults::{FaultCounts, FaultFile};
use crate::live::LiveTable;
use crate::process::{Device, Library, PythonFunction};
use blocks::{Destination, Window};
use cupeer_spec::function::FnId;
use cupeer_spec::record::{
    self, BLOCK, ClockMoment, Header, MAGIC, ProcessFileName, SUFFIX, VERSION, clock, job, live, meta, mode,
};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use calls::{call, set, set_shape};
pub use items::item_bytes;

/// Data about a process for its recording. The default is process 1000 of one boot, whose clock counts nanoseconds.
///
/// Fields without a comment are those of [`Header`].
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct About {
    pub boot_id: [u8; 16],
    pub pid_ns: u64,
    pub pid: u32,
    pub parent: u32,
    pub started: u64,
    pub image: u32,
    pub uid: u32,
    pub key_check: u64,
    pub clock: u32,
    /// Moment when the file is created.
    pub first: ClockMoment,
    /// Nanoseconds per tick, for the moments of blocks.
    pub speed: f64,
    /// Number of blocks of a ring, at least two more than the number of streams; `None` if the recording is
    /// not a ring.
    pub ring: Option<u32>,
    /// True to write everything to the file immediately, in the order in which libcupeer.so does it, so that the file
    /// can be read while it grows. Otherwise, the file is complete when it is finished.
    pub at_once: bool,
}

impl Default for About {
    fn default() -> About {
        About {
            boot_id: *b"a boot of a host",
            pid_ns: 4026531836,
            pid: 1000,
            parent: 1,
            started: 100_000,
            image: 0,
            uid: 1000,
            key_check: 0x6b65_7973,
            clock: clock::MONOTONIC,
            first: ClockMoment { ticks: 1_000_000, monotonic: 1_000_000, realtime: 1_700_000_000_000_000_000 },
            speed: 1.0,
            ring: None,
            at_once: false,
        }
    }
}

impl About {
    /// Returns the name of the file without its suffix.
    pub fn proc(&self) -> String {
        self.file_name().trim_end_matches(SUFFIX).to_owned()
    }

    fn file_name(&self) -> String {
        let Self { boot_id, pid_ns, pid, started, image, .. } = *self;
        ProcessFileName { boot_id, pid_ns, pid, started, image }.to_string()
    }

    /// Returns a moment on all clocks of this process, from its ticks.
    pub fn moment_at(&self, ticks: u64) -> ClockMoment {
        let since = ((ticks as i128 - i128::from(self.first.ticks)) as f64 * self.speed) as i64;
        ClockMoment {
            ticks,
            monotonic: self.first.monotonic.saturating_add_signed(since),
            realtime: self.first.realtime.saturating_add_signed(since),
        }
    }
}

/// Writer of the recording of one process.
pub struct Writer {
    about: About,
    file: Destination,
    header: Header,
    windows: Vec<Window>,
    /// Place of the next entry about the process: the block, the offset in it, and the bytes of the block's
    /// entries.
    meta: (u32, usize, Vec<u8>),
    /// Number of the next block of a ring.
    next_in_ring: u32,
    /// Ring blocks that are in use and must not be reused.
    taken: Vec<u32>,
}

impl Writer {
    /// Creates a file in a directory, with the functions of this version's table.
    pub fn create(dir: &Path, about: About) -> io::Result<Writer> {
        let path = dir.join(about.file_name());
        Writer::new(Destination::create(path)?, about)
    }

    /// Creates a recording in memory, for [`Writer::into_bytes`].
    ///
    /// # Examples
    ///
    /// ```
    /// use cupeer_record::Process;
    /// use cupeer_record::writer::{About, Writer, call};
    /// use cupeer_spec::function::FnId;
    ///
    /// let mut writer = Writer::in_memory(About::default());
    /// let stream = writer.stream(1000)?;
    /// writer.call(stream, &call(FnId::cuIpcGetMemHandle, 10, 20))?;
    /// let process = Process::from_bytes("PROC.cupeer", writer.into_bytes())?;
    /// assert_eq!(process.events()?.count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_memory(about: About) -> Writer {
        Writer::new(Destination::Bytes(Vec::new()), about).expect("memory can be written to")
    }

    fn new(file: Destination, about: About) -> io::Result<Writer> {
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            block: BLOCK as u32,
            mode: if about.ring.is_some() { mode::RING } else { mode::FULL },
            clock: about.clock,
            boot_id: about.boot_id,
            pid_ns: about.pid_ns,
            pid: about.pid,
            parent: about.parent,
            started: about.started,
            image: about.image,
            uid: about.uid,
            first: about.first,
            last: about.first,
            next_block: 1,
            ring_blocks: about.ring.unwrap_or(0).into(),
            lost: 0,
            next_stream: 0,
            ended_by: 0,
            key_check: about.key_check,
            end: record::end::RecordedEnd::Returned(0).to_word(),
            reserved: 0,
            called: [0; record::CALLED_WORDS],
            ended: Default::default(),
        };
        let mut writer = Writer {
            about,
            file,
            header,
            windows: Vec::new(),
            meta: (0, record::META_START, vec![0; BLOCK]),
            next_in_ring: 1,
            taken: Vec::new(),
        };
        writer.file.write(&vec![0; BLOCK * writer.about.ring.unwrap_or(1).max(1) as usize], 0)?;
        writer.write_header()?;
        for function in FnId::all() {
            let spec = function.spec();
            writer.function(function as u16, spec.name(), spec.stored_args_size() as u16)?;
        }
        Ok(writer)
    }

    fn write_header(&mut self) -> io::Result<()> {
        self.file.write(record::plain_bytes(&self.header), 0)
    }

    /// Adds a text about the process.
    pub fn text(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.entry(meta::TEXT, &[name.as_bytes(), b"\0", value.as_bytes()])
    }

    /// Adds an argument of the program.
    pub fn argument(&mut self, argument: &str) -> io::Result<()> {
        self.entry(meta::ARGUMENT, &[argument.as_bytes()])
    }

    /// Adds an environment variable.
    pub fn variable(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.entry(meta::VARIABLE, &[name.as_bytes(), b"=", value.as_bytes()])
    }

    /// Adds a function, or changes the meaning of a number.
    pub fn function(&mut self, number: u16, name: &str, stored: u16) -> io::Result<()> {
        self.entry(meta::FUNCTION, &[&number.to_le_bytes(), &stored.to_le_bytes(), name.as_bytes()])
    }

    /// Adds a library.
    pub fn library(&mut self, library: &Library) -> io::Result<()> {
        let [base, start, end, since] =
            [library.base, library.range.start, library.range.end, library.since].map(u64::to_le_bytes);
        let length = [library.build_id.len() as u8];
        let pieces: [&[u8]; 7] = [&base, &start, &end, &since, &length, &library.build_id, library.path.as_bytes()];
        self.entry(meta::LIBRARY, &pieces)
    }

    /// Adds a Python function, by its number.
    pub fn python(&mut self, number: u32, function: &PythonFunction) -> io::Result<()> {
        let PythonFunction { file, name, first_line } = function;
        let pieces: [&[u8]; 5] =
            [&number.to_le_bytes(), &first_line.to_le_bytes(), file.as_bytes(), b"\0", name.as_bytes()];
        self.entry(meta::PYTHON, &pieces)
    }

    /// Adds a device.
    pub fn device(&mut self, device: &Device) -> io::Result<()> {
        let ordinal = device.ordinal.to_le_bytes();
        let pieces: [&[u8]; 5] = [&ordinal, &device.uuid, device.pci.as_bytes(), b"\0", device.name.as_bytes()];
        self.entry(meta::DEVICE, &pieces)
    }

    /// Adds a library whose calls bypass cupeer.
    pub fn escaped(&mut self, way: &str, path: &str) -> io::Result<()> {
        self.entry(meta::ESCAPED, &[way.as_bytes(), b"\0", path.as_bytes()])
    }

    /// Changes the header, for example the number of lost events.
    pub fn change_header(&mut self, change: impl FnOnce(&mut Header)) -> io::Result<()> {
        change(&mut self.header);
        self.write_header()
    }

    /// Writes the data that is still in memory, and returns the path of the file. Pending calls stay pending, as if the
    /// process were killed here.
    pub fn finish(mut self) -> io::Result<PathBuf> {
        self.write_windows()?;
        Ok(self.file.into_path())
    }

    /// Returns the bytes of a recording in memory. Pending calls stay pending.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.write_windows().expect("memory can be written to");
        self.file.into_bytes()
    }
}

/// Returns the first eight digits of a boot id, as they are in file names.
fn short_boot_id([a, b, c, d, ..]: [u8; 16]) -> String {
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// Writes the file `job`, which makes a directory a recording.
pub fn write_job_file(dir: &Path) -> io::Result<()> {
    fs::write(dir.join(job::FILE), format!("{}\n{}=000102030405060708090a0b0c0d0e0f\n", job::FIRST_LINE, job::KEY))
}

/// Writes the live table of a host, with these entries.
pub fn write_live_table(dir: &Path, boot_id: [u8; 16], entries: &[live::Entry], refused: u64) -> io::Result<PathBuf> {
    let path = dir.join(format!("{}{}", live::PREFIX, short_boot_id(boot_id)));
    let table = LiveTable { path: path.clone(), boot_id, entries: entries.to_vec(), refused, problem: None };
    fs::write(&path, table.to_bytes())?;
    Ok(path)
}

/// Writes the counts of a fault plan on a host: the number of processes, and the fingerprints of damaged handles.
/// `plan` is the hexadecimal number in the name of its file.
pub fn write_fault_counts(
    dir: &Path,
    (boot_id, plan): ([u8; 16], u32),
    rules: &[FaultCounts],
    processes: u64,
    damaged: &[u64],
) -> io::Result<PathBuf> {
    let path = dir.join(format!("{}{}-{plan:08x}", record::faults::PREFIX, short_boot_id(boot_id)));
    let file = FaultFile {
        path: path.clone(),
        boot_id,
        rules: rules.to_vec(),
        processes,
        damaged: damaged.to_vec(),
        damaged_more: 0,
        later: None,
        problem: None,
    };
    fs::write(&path, file.to_bytes())?;
    Ok(path)
}
