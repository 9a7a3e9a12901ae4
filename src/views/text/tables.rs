//! The tables: functions, devices, handles, pairs of devices, and bypasses.

use super::TextView;
use crate::pairs::{self, Pair};
use crate::table::Table;
use cupeer_report::model::{Codes, Device, Function, Handle, Peer, Process, State};
use cupeer_report::moments::{bytes, duration, number};
use cupeer_report::names::{clean, codes, counted};
use cupeer_report::verdict::format_total_size;
use cupeer_spec::bypass;
use cupeer_spec::effect::Object;
use std::collections::{BTreeMap, BTreeSet};

/// Number of closed handles from which they share one line, unless all are requested.
const MOST_CLOSED: usize = 20;

/// Columns of the table of functions.
pub const FUNCTIONS: [&str; 10] =
    ["FUNCTION", "CALLS", "FAILED", "TOTAL", "P50", "P99", "MAX", "RANKS", "INJECTED", "RESULTS"];
/// Indexes of the columns of [`FUNCTIONS`] that contain numbers.
pub const FUNCTION_NUMBERS: [usize; 7] = [1, 2, 3, 4, 5, 6, 8];

/// Columns of the table of devices.
pub const DEVICES: [&str; 5] = ["DEVICE", "PCI", "NAME", "SEEN BY", "UUID"];
/// Number of pairs above which pairs of one device share a row if their other cells are equal.
const MANY_PAIRS: usize = 16;
/// Columns of the table of pairs of devices.
pub const PAIRS: [&str; 8] = ["FROM", "TO", "ASKED", "CAN", "ENABLED BY", "OPENED", "FAILED", "COPIED"];

/// Merges rows of pairs that have the same first device and otherwise equal cells.
fn merge_alike_pairs(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    const TO: usize = 1;
    let mut folded: Vec<(Vec<String>, u64)> = Vec::new();
    for row in rows {
        let is_alike = |known: &[String]| known[0] == row[0] && known[TO + 1..] == row[TO + 1..];
        match folded.iter_mut().find(|(known, _)| is_alike(known)) {
            Some((_, count)) => *count += 1,
            None => folded.push((row, 1)),
        }
    }
    let named = |(mut row, count): (Vec<String>, u64)| {
        if count > 1 {
            row[TO] = format!("{} and {} more", row[TO], count - 1);
        }
        row
    };
    folded.into_iter().map(named).collect()
}

impl TextView<'_> {
    pub fn functions(&self) -> String {
        let table = Table::new(&FUNCTIONS, 7, 20).with_numbers(&FUNCTION_NUMBERS);
        let functions = &self.report.functions;
        let shown = self.table_section("Functions", table, functions, |function| self.function_row(function));
        // The column RANKS is missing if there are no ranks, or no space for it.
        match shown.contains("  RANKS") {
            true => shown.replacen("Functions", "Functions (ranks: least/median/most calls)", 1),
            false => shown,
        }
    }

    /// Returns a function in the columns of [`FUNCTIONS`].
    pub fn function_row(&self, function: &Function) -> [String; 10] {
        let time = |ns: Option<u64>| ns.map_or("-".into(), duration);
        let ranks = function.ranks.as_ref();
        [
            clean(&function.function),
            number(function.calls),
            self.report.format_failed(function),
            duration(function.total_ns),
            time(function.p50_ns),
            time(function.p99_ns),
            time(function.max_ns),
            ranks.map_or("-".into(), |r| format!("{}/{}/{}", r.least, r.median, r.most)),
            number(function.injected),
            codes(&function.failures),
        ]
    }

    pub fn devices(&self) -> String {
        let table = Table::new(&DEVICES, 4, 40);
        self.table_section("Devices", table, &self.report.devices, |device| self.device_row(device))
    }

    /// Returns a device in the columns of [`DEVICES`].
    pub fn device_row(&self, device: &Device) -> [String; 5] {
        let sees = |process: &&Process| process.devices.iter().any(|d| d.uuid == device.uuid);
        let seen = self.report.processes.iter().filter(sees).map(|process| &*process.proc);
        let (name, seen_by) = (self.names.device(Some(device.uuid)), self.names.processes(seen));
        [name, clean(&device.pci), clean(&device.name), seen_by, device.uuid.to_string()]
    }

    pub fn handles(&self) -> String {
        let handles = &self.report.handles;
        let columns = ["HANDLE", "SIZE", "STATE", "EXPORTER", "OPENED BY", "BYTES USED BY COPIES"];
        let mut table = Table::new(&columns, 5, 20).with_numbers(&[1]).with_last_below();
        let closed = || handles.iter().filter(|handle| handle.state == State::Closed);
        let count = closed().count();
        let is_told_of = self.lists_all || count < MOST_CLOSED;
        let rows: Vec<&Handle> = handles.iter().filter(|handle| is_told_of || handle.state != State::Closed).collect();
        for handle in rows.iter().take(self.most_rows) {
            // A damaged handle is listed as the handle that was damaged.
            let original = self.find_original(handle);
            let of = original.unwrap_or(handle);
            let size = match of.bytes {
                Some(size) => bytes(size),
                None if handle.kind == Object::Memory.word() => "unknown".to_owned(),
                None => handle.kind.to_owned(),
            };
            table.push_row([
                handle.fingerprint.to_string(),
                size,
                handle.state.to_string(),
                of.exporter.as_ref().map_or("unknown".into(), |proc| self.names.process(proc)),
                match handle.damaged_from {
                    Some(original) => format!("copy of {original}; {}", self.describe_importers(handle)),
                    None => self.describe_importers(handle),
                },
                self.describe_accesses(handle),
            ]);
        }
        table = table.without_empty_columns();
        let mut states: BTreeMap<State, u64> = BTreeMap::new();
        handles.iter().for_each(|handle| *states.entry(handle.state).or_default() += 1);
        let (folded, folded_bytes) = (self.report.handles_more, self.report.handles_more_bytes);
        if folded > 0 {
            let closed = states.entry(State::Closed).or_default();
            *closed = closed.saturating_add(folded);
        }
        let states: Vec<String> =
            states.iter().rev().map(|(state, count)| format!("{} {state}", number(*count))).collect();
        let title = format!("Handles: {}", states.join(", "));
        let in_file = (folded > 0).then(|| {
            let size = bytes(folded_bytes);
            let closed = counted(folded, "more closed handle");
            self.wrap_item("", &format!("{closed}, {size} in all: only counted in what was reduced"))
        });
        let in_file = in_file.unwrap_or_default();
        if is_told_of {
            return self.titled_table(&title, table, rows.len()) + &in_file;
        }
        let size = format_total_size(closed());
        let line = format!("{}{size}; --all shows them", counted(count as u64, "closed handle"));
        let table = if table.is_empty() { self.title(&title) } else { self.titled_table(&title, table, rows.len()) };
        table + &self.wrap_item("", &line) + &in_file
    }

    fn find_original(&self, handle: &Handle) -> Option<&Handle> {
        let original = handle.damaged_from?;
        let is_it = |other: &&Handle| other.fingerprint == original && other.kind == handle.kind;
        self.report.handles.iter().filter(is_it).find(|other| other.exporter.is_some())
    }

    /// Returns the table of peers: a row for each pair of devices, over all processes.
    pub fn peers(&self) -> String {
        let has_copies = self.report.peers.iter().any(|peer| peer.copies > 0);
        let columns = if has_copies { 8 } else { 7 };
        let mut table = Table::new(&PAIRS[..columns], columns, 10).with_numbers(&[2, 5]).with_last_below();
        let rows = self.pair_rows();
        let count = rows.len();
        for mut row in rows.into_iter().take(self.most_rows) {
            row.truncate(columns);
            table.push_cells(row);
        }
        self.titled_table("Pairs of devices", table, count)
    }

    /// Returns the pairs of devices in the columns of [`PAIRS`], problems first.
    pub fn pair_rows(&self) -> Vec<Vec<String>> {
        let mut rows: Vec<_> = pairs::accesses_by_pair(self.report).into_iter().collect();
        let is_wrong = |peers: &[&Peer]| peers.iter().any(|peer| peer.unmapped_since_failure);
        let has_failed = |peers: &[&Peer]| peers.iter().any(|peer| !peer.failed.is_empty());
        rows.sort_by_key(|(_, peers)| (!is_wrong(peers), !has_failed(peers)));
        let row = |((from, to), peers): &(Pair, Vec<&Peer>)| {
            vec![
                self.names.device(*from),
                self.names.device(*to),
                number(peers.iter().map(|peer| peer.asked).sum()),
                access_answers(peers).into(),
                self.format_enabled(peers),
                number(peers.iter().map(|peer| peer.opened).sum()),
                format_failed(peers),
                format_copied(peers),
            ]
        };
        let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
        if self.lists_all || rows.len() <= MANY_PAIRS { rows } else { merge_alike_pairs(rows) }
    }

    fn format_enabled(&self, peers: &[&Peer]) -> String {
        let are = |is_off: bool, is_mapped: bool| {
            let alike = move |peer: &&&Peer| peer.disabled_ns.is_some() == is_off && (peer.mappings > 0) == is_mapped;
            let peers = peers.iter().filter(|peer| peer.enabled).filter(alike);
            self.names.processes(peers.map(|peer| &*peer.proc))
        };
        let parts = [
            (are(false, false), ""),
            (are(false, true), " (mappings)"),
            (are(true, false), " (off again)"),
            (are(true, true), " (mappings, off again)"),
        ];
        let parts = parts.iter().filter(|(who, _)| !who.is_empty()).map(|(who, how)| format!("{who}{how}"));
        let text = parts.collect::<Vec<_>>().join(", ");
        if text.is_empty() { "-".into() } else { text }
    }

    /// Lists libraries whose calls bypass cupeer.
    pub fn bypassing_libraries(&self) -> String {
        let mut who: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for escaped in self.report.bypassing_libraries() {
            who.entry((&escaped.library, &escaped.way)).or_default().insert(&escaped.proc);
        }
        if who.is_empty() {
            return String::new();
        }
        let title = self.title(&format!("Calls of {} escaped cupeer", counted(who.len() as u64, "library")));
        title
            + &self.format_list(who.iter(), |((library, way), procs)| {
                let (way, procs) = (bypass::name_with_hint(way), self.names.processes(procs.iter().copied()));
                self.wrap_item("  ", &format!("{} ({}) in {procs}", clean(library), clean(&way)))
            })
    }
}

/// Formats the answers that processes got when they queried access between a pair of devices.
fn access_answers(peers: &[&Peer]) -> &'static str {
    let answers: BTreeSet<bool> = peers.iter().filter_map(|peer| peer.can_access).collect();
    match (answers.contains(&true), answers.contains(&false)) {
        (true, true) => "both",
        (true, false) => "yes",
        (false, true) => "no",
        (false, false) => "-",
    }
}

/// Formats the bytes copied from one device to the other.
fn format_copied(peers: &[&Peer]) -> String {
    match peers.iter().map(|peer| peer.copies).sum() {
        0 => "-".into(),
        copies => {
            let all = peers.iter().fold(0u64, |all, peer| all.saturating_add(peer.copied_bytes));
            format!("{} in {}", bytes(all), counted(copies, "call"))
        }
    }
}

fn format_failed(peers: &[&Peer]) -> String {
    let sum = |of: fn(&Peer) -> &Codes| {
        let mut sum = Codes::new();
        for (code, count) in peers.iter().flat_map(|peer| of(peer)) {
            *sum.entry(code.clone()).or_default() += count;
        }
        sum
    };
    let mut parts = Vec::new();
    let peer = sum(|peer| &peer.failed);
    let open = sum(|peer| &peer.open_failed);
    if !peer.is_empty() {
        parts.push(codes(&peer));
    }
    if !open.is_empty() {
        let since = peers.iter().any(|peer| peer.unmapped_since_failure);
        parts.push(format!("IPC: {}{}", codes(&open), if since { ", no mapping since" } else { "" }));
    }
    let injected: u64 = peers.iter().map(|peer| peer.injected).sum();
    if injected > 0 {
        parts.push(format!("{} INJECTED", number(injected)));
    }
    if parts.is_empty() { "-".into() } else { parts.join("; ") }
}
