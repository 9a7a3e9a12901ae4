//! Reads the bytes of a file into facts about its process.

use crate::process::{Device, ForkOrigin, Library, Process, PythonFunction};
use crate::scan;
use crate::source::{OpenSource, Source};
use cupeer_spec::record::end::{EndSpan, RecordedEnd};
use cupeer_spec::record::slot::PythonLine;
use cupeer_spec::record::{
    self, BLOCK, BLOCK_MAGIC, BlockHeader, ClockMoment, Header, META_START, OLDEST, VERSION, block, clock, meta, mode,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Largest number of blocks with entries that are read: 32 MiB. Processes have one or two.
const MOST_META: usize = 1024;
/// Largest number of functions in a recording.
const MOST_FUNCTIONS: usize = 4096;

impl Process {
    /// Reads the file of a process, without its events.
    ///
    /// # Errors
    ///
    /// The error is a sentence without a subject, such as "is empty".
    ///
    /// # Examples
    ///
    /// ```no_run
    /// let process = cupeer_record::Process::open(std::path::Path::new("recording/PROC.cupeer"))?;
    /// println!("{} on {}", process.program(), process.host());
    /// # Ok::<(), String>(())
    /// ```
    pub fn open(path: &Path) -> Result<Process, String> {
        read_process(path.into(), path)
    }

    /// Reads the bytes of a process's file, with the errors of [`Process::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Process, String> {
        read_process(bytes.into(), Path::new(name))
    }

    /// Returns how the process ended, as far as its file shows now. The process may have ended after its
    /// recording was opened.
    pub fn end(&self) -> RecordedEnd {
        RecordedEnd::from_word(self.read_header_now().end)
    }

    /// Returns the last time at which the process was seen to run, and the first at which it was seen to have
    /// ended, as far as its file shows now; zeros if unknown.
    pub fn end_time_span(&self) -> EndSpan {
        self.read_header_now().ended
    }

    fn read_header_now(&self) -> Header {
        let file = self.source.open().ok();
        file.and_then(|file| read_header(&file).ok()).unwrap_or(self.header)
    }
}

/// Reads everything except the events. The error is a sentence about the file, without its name.
pub(crate) fn read_process(source: Source, path: &Path) -> Result<Process, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let file = source.open().map_err(unreadable)?;
    let header = read_header(&file)?;
    let mut process = Process {
        proc: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        path: path.to_path_buf(),
        source,
        header,
        texts: Vec::new(),
        arguments: Vec::new(),
        variables: Vec::new(),
        functions: Vec::new(),
        libraries: Vec::new(),
        python: BTreeMap::new(),
        forked: None,
        devices: Vec::new(),
        bypassing_libraries: Vec::new(),
        counted_at: None,
        moments: Vec::new(),
        problem: None,
    };

    let mut moments = MomentRange::default();
    let mut others = Vec::new();
    scan::scan_blocks(&file, 1, |found| {
        moments.add(found.header.begun);
        if found.header.kind == block::META && others.len() < MOST_META {
            others.push(found.number);
        }
    })
    .map_err(unreadable)?;
    process.moments = [header.first, header.last].into_iter().chain(moments.first_and_last()).collect();

    let mut buffer = vec![0; BLOCK];
    for number in [0].into_iter().chain(others) {
        let length = file.read(&mut buffer, scan::start(number)).map_err(unreadable)?;
        let start = if number == 0 { META_START } else { size_of::<BlockHeader>() };
        for entry in meta::entries(&buffer[..length], start) {
            if entry.tag == meta::COUNTED {
                let start = scan::start(number) + entry.at as u64;
                process.counted_at = Some(start..start + entry.bytes.len() as u64);
            }
            add_entry(&mut process, entry.tag, entry.bytes);
        }
    }

    if is_cut_off(&file, &header).map_err(unreadable)? {
        process.problem = Some("is cut off: events are missing".into());
    }
    Ok(process)
}

/// Returns true if blocks are missing at the end of the file. A chunk that was being written when its process
/// died is not missing: its slots are still in the window.
fn is_cut_off(file: &OpenSource, header: &Header) -> std::io::Result<bool> {
    let size = file.size()?;
    let (whole, rest) = (size / BLOCK as u64, size % BLOCK as u64);
    if rest != 0 {
        let mut bytes = [0; size_of::<BlockHeader>()];
        file.read(&mut bytes, whole * BLOCK as u64)?;
        let last = record::read_plain::<BlockHeader>(&bytes).filter(|last| last.magic == BLOCK_MAGIC);
        return Ok(last.is_none_or(|last| last.kind != block::CHUNK));
    }
    let expected = if header.mode == mode::RING {
        header.ring_blocks
    } else {
        // Each thread may be writing one block now.
        header.next_block.saturating_sub(u64::from(header.next_stream) + 1)
    };
    Ok(header.ended_by == 0 && whole < expected)
}

/// Returns the header; an error if this version of cupeer cannot read it.
pub(crate) fn read_header(file: &OpenSource) -> Result<Header, String> {
    let mut bytes = [0; size_of::<Header>()];
    let mut again = bytes;
    // The process may be changing the header. Two equal readings in a row are consistent.
    for _ in 0..4 {
        let had = file.read(&mut bytes, 0).map_err(|error| format!("cannot be read: {error}"))?;
        if had == 0 {
            return Err("is empty".into());
        }
        if bytes[..8] == [0; 8] {
            return Err("was created, but never written to".into());
        }
        if bytes[..8] != record::MAGIC {
            return Err("is not the recording of a process".into());
        }
        if had < bytes.len() {
            return Err("is cut off in its first block".into());
        }
        if bytes == again {
            break;
        }
        again = bytes;
    }
    let Some(header) = record::read_plain::<Header>(&bytes) else {
        return Err("is cut off in its first block".into());
    };
    crate::version::check_version(header.version.into(), OLDEST..=VERSION)?;
    if header.block as usize != BLOCK {
        return Err(format!("has blocks of {} bytes instead of {BLOCK}", header.block));
    }
    if header.clock != clock::MONOTONIC && header.clock != clock::COUNTER {
        return Err(format!("counts time by an unknown clock ({})", header.clock));
    }
    Ok(header)
}

/// First and last moment that were added.
#[derive(Default)]
struct MomentRange {
    range: Option<(ClockMoment, ClockMoment)>,
}

impl MomentRange {
    fn add(&mut self, moment: ClockMoment) {
        if moment.ticks == 0 || moment.monotonic == 0 {
            return;
        }
        let (first, last) = self.range.get_or_insert((moment, moment));
        if moment.ticks < first.ticks {
            *first = moment;
        }
        if moment.ticks > last.ticks {
            *last = moment;
        }
    }

    fn first_and_last(&self) -> impl Iterator<Item = ClockMoment> {
        self.range.into_iter().flat_map(|(first, last)| [first, last])
    }
}

/// Adds the data of an entry to the process. Ignores a malformed entry.
fn add_entry(process: &mut Process, tag: u16, bytes: &[u8]) {
    match tag {
        meta::TEXT => process.texts.extend(split_pair(bytes, 0)),
        meta::ARGUMENT => process.arguments.push(lossy_text(bytes)),
        meta::VARIABLE => process.variables.extend(split_pair(bytes, b'=')),
        meta::FUNCTION => {
            if let Some((number, stored, name)) = parse_function(bytes)
                && number < MOST_FUNCTIONS
            {
                let functions = &mut process.functions;
                functions.resize(functions.len().max(number + 1), (String::new(), 0));
                functions[number] = (name, stored);
            }
        }
        meta::LIBRARY => process.libraries.extend(parse_library(bytes)),
        meta::PYTHON => process.python.extend(parse_python(bytes)),
        meta::FORKED => process.forked = parse_forked(bytes).or(process.forked.take()),
        meta::DEVICE => process.devices.extend(parse_device(bytes)),
        meta::ESCAPED => process.bypassing_libraries.extend(split_pair(bytes, 0)),
        _ => {}
    }
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Splits bytes into two texts at the first byte `between`.
fn split_pair(bytes: &[u8], between: u8) -> Option<(String, String)> {
    let at = bytes.iter().position(|byte| *byte == between)?;
    Some((lossy_text(&bytes[..at]), lossy_text(&bytes[at + 1..])))
}

fn parse_function(bytes: &[u8]) -> Option<(usize, u16, String)> {
    let (number, bytes) = bytes.split_first_chunk()?;
    let (stored, name) = bytes.split_first_chunk()?;
    Some((usize::from(u16::from_le_bytes(*number)), u16::from_le_bytes(*stored), lossy_text(name)))
}

/// Reads an entry [`meta::LIBRARY`].
pub fn parse_library(bytes: &[u8]) -> Option<Library> {
    let mut rest = bytes;
    let mut number = || {
        let (number, after) = rest.split_first_chunk()?;
        rest = after;
        Some(u64::from_le_bytes(*number))
    };
    let (base, start, end, since) = (number()?, number()?, number()?, number()?);
    let (length, rest) = rest.split_first()?;
    let (build_id, path) = rest.split_at_checked(usize::from(*length))?;
    Some(Library { base, range: start..end, since, build_id: build_id.to_vec(), path: lossy_text(path) })
}

fn parse_forked(bytes: &[u8]) -> Option<ForkOrigin> {
    let (initializer, bytes) = bytes.split_first_chunk()?;
    let (monotonic, bytes) = bytes.split_first_chunk()?;
    let (count, bytes) = bytes.split_first()?;
    let (frames, python) = bytes.split_at_checked(usize::from(*count) * 8)?;
    Some(ForkOrigin {
        initializer: u32::from_le_bytes(*initializer),
        monotonic: u64::from_le_bytes(*monotonic),
        frames: frames.as_chunks().0.iter().map(|frame| u64::from_le_bytes(*frame)).collect(),
        python: PythonLine::parse_all(python).collect(),
    })
}

fn parse_python(bytes: &[u8]) -> Option<(u32, PythonFunction)> {
    let (number, bytes) = bytes.split_first_chunk()?;
    let (first_line, bytes) = bytes.split_first_chunk()?;
    let (file, name) = split_pair(bytes, 0)?;
    Some((u32::from_le_bytes(*number), PythonFunction { file, name, first_line: u32::from_le_bytes(*first_line) }))
}

fn parse_device(bytes: &[u8]) -> Option<Device> {
    let (ordinal, bytes) = bytes.split_first_chunk()?;
    let (uuid, bytes) = bytes.split_first_chunk()?;
    let (pci, name) = split_pair(bytes, 0)?;
    Some(Device { ordinal: i32::from_le_bytes(*ordinal), uuid: *uuid, pci, name })
}
