//! Reads the live tables: what is open on a host.

use crate::source::{OpenSource, Source};
use cupeer_spec::record::{self, live, live::state};
use std::path::{Path, PathBuf};

/// Number of entries that are read from the file at once.
const PIECE: usize = 64;
const ENTRY: usize = size_of::<live::Entry>();
/// Largest number of times that an entry is read if its place is reused during the reading.
const ATTEMPTS: u32 = 16;

/// Open objects of a job on one host, at the time of reading.
#[derive(Clone, Debug)]
pub struct LiveTable {
    /// Path of the file.
    pub path: PathBuf,
    /// Boot id of the host.
    pub boot_id: [u8; 16],
    /// Entries of the open objects.
    pub entries: Vec<live::Entry>,
    /// Number of entries for which the table had no space.
    pub refused: u64,
    /// Problem of a file that can be read nevertheless: the rest of a sentence that begins with the path.
    pub problem: Option<String>,
}

impl LiveTable {
    /// Reads a table.
    ///
    /// # Errors
    ///
    /// The error is a sentence without a subject, such as "is empty".
    ///
    /// # Examples
    ///
    /// ```no_run
    /// let table = cupeer_record::LiveTable::open(std::path::Path::new("recording/live-BOOT"))?;
    /// println!("{} objects are open", table.entries.len());
    /// # Ok::<(), String>(())
    /// ```
    pub fn open(path: &Path) -> Result<LiveTable, String> {
        LiveTable::read(&path.into(), path)
    }

    /// Reads the bytes of a table, with the errors of [`LiveTable::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<LiveTable, String> {
        LiveTable::read(&bytes.into(), Path::new(name))
    }

    fn read(source: &Source, path: &Path) -> Result<LiveTable, String> {
        let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
        let file = source.open().map_err(unreadable)?;
        let mut bytes = [0; size_of::<live::Header>()];
        let had = file.read(&mut bytes, 0).map_err(unreadable)?;
        if had == 0 || bytes[..8] == [0; 8] {
            return Err("is empty".into());
        }
        if bytes[..8] != live::MAGIC {
            return Err("is not a live table".into());
        }
        let header = record::read_plain::<live::Header>(&bytes[..had]).ok_or("is cut off in its header")?;
        crate::version::check_version(header.version.into(), live::OLDEST..=live::VERSION)?;
        if header.entry as usize != ENTRY {
            return Err(format!("has entries of {} bytes instead of {ENTRY}", header.entry));
        }
        let mut table = LiveTable {
            path: path.to_path_buf(),
            boot_id: header.boot_id,
            entries: Vec::new(),
            refused: header.refused,
            problem: None,
        };
        let size = file.size().map_err(unreadable)?;
        for k in 0..(header.segments as usize).min(live::MOST_SEGMENTS) {
            let end = live::entry_offset(k, live::segment_entries(k)) as u64;
            if end > size {
                table.problem = Some("is cut off: some of what was open is missing".into());
            }
            if live::entry_offset(k, 0) as u64 >= size {
                break;
            }
            read_segment(&file, k, &mut table.entries).map_err(unreadable)?;
        }
        Ok(table)
    }

    /// Returns the contents of a file with these entries.
    pub fn to_bytes(&self) -> Vec<u8> {
        let segments = (0..live::MOST_SEGMENTS).scan(0, |room, k| {
            let had = *room;
            *room += live::segment_entries(k);
            (k == 0 || had < self.entries.len()).then_some(k)
        });
        let segments: Vec<usize> = segments.collect();
        let end = segments.last().map_or(0, |k| live::entry_offset(*k, live::segment_entries(*k)));
        let mut bytes = vec![0; end];
        let header = live::Header {
            magic: live::MAGIC,
            version: live::VERSION,
            entry: size_of::<live::Entry>() as u32,
            boot_id: self.boot_id,
            segments: segments.len() as u32,
            freed: 0,
            refused: self.refused,
        };
        bytes[..size_of::<live::Header>()].copy_from_slice(record::plain_bytes(&header));
        let places = segments.iter().flat_map(|k| (0..live::segment_entries(*k)).map(|i| (*k, i)));
        for ((k, i), entry) in places.zip(&self.entries) {
            let word = live::process_word(entry.pid_ns, entry.pid, entry.started, entry.image) | live::state::LIVE;
            let entry = live::Entry { word, ..*entry };
            let (key, place) = (live::key_offset(k, i), live::entry_offset(k, i));
            bytes[key..key + 8].copy_from_slice(&entry.key.to_le_bytes());
            bytes[place..place + size_of::<live::Entry>()].copy_from_slice(record::plain_bytes(&entry));
        }
        bytes
    }
}

fn read_segment(file: &OpenSource, k: usize, entries: &mut Vec<live::Entry>) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE * ENTRY];
    for first in (0..live::segment_entries(k)).step_by(PIECE) {
        let (start, end) = (live::entry_offset(k, first) as u64, live::entry_offset(k, first + PIECE) as u64);
        if file.next_data(start) >= end {
            continue;
        }
        let had = file.read(&mut piece, start)?;
        let before = first_words(&piece[..had]);
        if before.iter().any(|word| state::in_word(*word) == state::LIVE) {
            read_entries(file, start, &before, &mut piece, entries)?;
        }
        if had < piece.len() {
            break;
        }
    }
    Ok(())
}

/// Reads consecutive entries, whose first words were read shortly before.
fn read_entries(
    file: &OpenSource,
    start: u64,
    before: &[u64],
    piece: &mut [u8],
    entries: &mut Vec<live::Entry>,
) -> std::io::Result<()> {
    let had = file.read(piece, start)?;
    let mut again = vec![0; piece.len()];
    let had_again = file.read(&mut again, start)?;
    let now = piece[..had].chunks_exact(ENTRY).zip(first_words(&again[..had_again]));
    // Check all of the entries as `read_entry` checks a single one. Read entries that changed in between one
    // by one.
    let mut now = now.map(|(bytes, word)| (self::first_word(bytes) == Some(word)).then_some((bytes, word)));
    for (i, before) in before.iter().copied().enumerate() {
        let now = now.next().flatten();
        if state::in_word(before) != state::LIVE {
            continue;
        }
        let same = now.filter(|(_, word)| *word == before).and_then(|(bytes, _)| parse_entry(bytes));
        let place = start + (i * ENTRY) as u64;
        entries.extend(if same.is_some() { same } else { read_entry(file, place, before)? });
    }
    Ok(())
}

/// Reads the entry whose first word was `before`, or a later entry in the same place: reads the word, the
/// entry, and the word again.
fn read_entry(file: &OpenSource, place: u64, mut before: u64) -> std::io::Result<Option<live::Entry>> {
    for _ in 0..ATTEMPTS {
        let (mut bytes, mut again) = ([0; ENTRY], [0; 8]);
        if !file.read_all(&mut bytes, place)? || !file.read_all(&mut again, place)? {
            return Ok(None);
        }
        let now = u64::from_le_bytes(again);
        if state::in_word(now) != state::LIVE {
            return Ok(None);
        }
        if (first_word(&bytes), now) == (Some(before), before) {
            return Ok(parse_entry(&bytes));
        }
        before = now;
    }
    Ok(None)
}

/// Parses the bytes of an entry; `None` if they are malformed.
fn parse_entry(bytes: &[u8]) -> Option<live::Entry> {
    let words: [[u8; 8]; live::WORDS] = bytes.as_chunks().0.try_into().ok()?;
    Some(live::Entry::from_words(words.map(u64::from_le_bytes)))
}

fn first_words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(ENTRY).filter_map(first_word).collect()
}

/// Returns the first word of an entry's bytes.
fn first_word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
