//! The code addresses in a recording, which are named while its libraries are at hand.
//!
//! More are taken than are shown: an address belongs to every library that ever lay there.

use super::reading;
use super::redact::Redaction;
use cupeer_record::{Library, Process};
use cupeer_report::symbols::{PackedSymbols, Symbols};
use cupeer_spec::record::slot::finding::FindingObject;
use cupeer_spec::record::slot::{self, Slot, detail};
use cupeer_spec::record::{self, BLOCK, Header, block, live};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Maximum number of return addresses of a process; further ones are dropped. Programs call from a few hundred.
const MOST_ADDRESSES: usize = 1 << 20;

const SLOT: usize = size_of::<Slot>();

/// Return addresses in the libraries of all processes, for which the archive gets names of functions.
#[derive(Default)]
pub struct LibraryAddresses {
    /// Return addresses relative to the library's start, by the library's build id and path.
    places: BTreeMap<(Vec<u8>, String), BTreeSet<u64>>,
    libraries: HashMap<Identity, Vec<Library>>,
    /// Addresses in other processes that the recordings of processes contain.
    foreign: HashSet<(Identity, u64)>,
}

/// Identity of a process: pid namespace, pid, start time, and number of the program that it executed.
type Identity = (u64, u32, u64, u32);

#[derive(Default)]
pub struct ProcessAddresses {
    pub libraries: Vec<Library>,
    addresses: HashSet<u64>,
    /// Addresses in other processes, which findings of this process mention.
    foreign: HashSet<(Identity, u64)>,
}

impl ProcessAddresses {
    pub fn add_block(&mut self, bytes: &[u8]) {
        let Some(header) = reading::block_header(bytes) else { return };
        if ![block::WINDOW, block::CHUNK, block::RING].contains(&header.kind) {
            return;
        }
        // The last slot of a chunk is its trailer, and is not read.
        let bytes = &bytes[..bytes.len().min(BLOCK - SLOT)];
        let mut at = SLOT;
        while let Some(slot) = bytes.get(at..).and_then(record::read_plain::<Slot>) {
            let number = header.base.wrapping_add((at / SLOT - 1) as u64);
            let mut slots = 1;
            if slot.seq() == number as u32 {
                match slot.state() {
                    slot::PENDING | slot::RETURNED | slot::UNWOUND | slot::LATE_END | slot::RUN => {
                        self.add_address(slot.caller())
                    }
                    slot::DETAIL => {
                        slots = slot.slot_count().max(1);
                        let end = (at + slots * SLOT).min(bytes.len());
                        self.add_frames(&bytes[(at + detail::START).min(end)..end]);
                    }
                    _ => {}
                }
            }
            at += slots * SLOT;
        }
    }

    fn add_frames(&mut self, bytes: &[u8]) {
        let each = |bytes: &[u8]| -> Vec<u64> {
            let frames = bytes.chunks_exact(8).filter_map(|frame| frame.first_chunk());
            frames.map(|frame| u64::from_le_bytes(*frame)).collect()
        };
        for item in detail::items(bytes) {
            match item.tag {
                detail::FRAMES => each(item.bytes).into_iter().for_each(|frame| self.add_address(frame)),
                detail::OBJECT => {
                    let Some(object) = record::read_plain::<FindingObject>(item.bytes) else { continue };
                    let whose = (object.pid_ns, object.pid, object.started, object.image);
                    let room = MOST_ADDRESSES.saturating_sub(self.foreign.len());
                    let frames = each(&item.bytes[size_of::<FindingObject>()..]);
                    self.foreign.extend(frames.into_iter().take(room).map(|frame| (whose, frame)));
                }
                _ => {}
            }
        }
    }

    fn add_address(&mut self, address: u64) {
        if address != 0 && self.addresses.len() < MOST_ADDRESSES {
            self.addresses.insert(address);
        }
    }
}

impl LibraryAddresses {
    pub fn add_process(&mut self, process: &Process, found: ProcessAddresses) {
        for address in found.addresses {
            self.add_place(&found.libraries, address);
        }
        self.foreign.extend(found.foreign);
        let Header { pid_ns, pid, started, image, .. } = process.header;
        self.libraries.entry((pid_ns, pid, started, image)).or_default().extend(found.libraries);
    }

    pub fn add_table(&mut self, entries: &[live::Entry]) {
        let libraries = std::mem::take(&mut self.libraries);
        for entry in entries {
            let Some(libraries) = libraries.get(&(entry.pid_ns, entry.pid, entry.started, entry.image)) else {
                continue;
            };
            entry.return_addresses().iter().for_each(|frame| self.add_place(libraries, *frame));
        }
        self.libraries = libraries;
    }

    fn add_place(&mut self, libraries: &[Library], address: u64) {
        // A call may be the last instruction of a library, and then the return address lies after the end of
        // the library.
        let called = address.wrapping_sub(1);
        for library in libraries.iter().filter(|library| library.range.contains(&called)) {
            let key = (library.build_id.clone(), library.path.clone());
            self.places.entry(key).or_default().insert(address.wrapping_sub(library.base));
        }
    }

    /// Adds the places of addresses that processes recorded about others, after all processes have been read.
    fn resolve_foreign(&mut self) {
        let libraries = std::mem::take(&mut self.libraries);
        for (whose, frame) in std::mem::take(&mut self.foreign) {
            libraries.get(&whose).into_iter().for_each(|libraries| self.add_place(libraries, frame));
        }
        self.libraries = libraries;
    }

    /// Returns the names of all places, by the names of the libraries in the archive.
    pub fn name_places(&mut self, symbols: &mut Symbols, redaction: &Redaction) -> PackedSymbols {
        self.resolve_foreign();
        let mut names = PackedSymbols::default();
        // Each library is looked up as if it were loaded at the addresses in its file, so that places are
        // addresses.
        let library = |(build_id, path): &(Vec<u8>, String)| {
            let (base, range) = (0, 0..u64::MAX);
            Library { base, range, since: 0, build_id: build_id.clone(), path: path.clone() }
        };
        let libraries: Vec<Library> = self.places.keys().map(library).collect();
        let asked: Vec<(&Library, u64)> = libraries
            .iter()
            .zip(self.places.values())
            .flat_map(|(library, places)| places.iter().map(move |place| (library, *place)))
            .collect();
        for ((library, place), symbol) in asked.iter().zip(symbols.resolve(&asked)) {
            let Some(mut symbol) = symbol else { continue };
            symbol.lines.iter_mut().for_each(|line| line.file = redaction.redact_path(&line.file));
            names.insert(&library.build_id, &redaction.redact_path(&library.path), *place, symbol);
        }
        names
    }
}
