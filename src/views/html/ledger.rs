//! The handle table of the page: one row per handle, or, if there are many, one row per group of similar handles.

use cupeer_report::model::{Handle, State};
use std::collections::HashMap;

/// Largest number of rows.
pub const MOST: usize = 2000;

/// Rows of the handle table in the order of the report, the worst first.
pub struct Ledger<'a> {
    pub lines: Vec<Line<'a>>,
    /// Number of handles that have no row.
    pub left_out: u64,
}

/// Row: a handle, and the number of similar handles, which have the same kind, size, exporter, openers, and
/// state.
pub struct Line<'a> {
    pub handle: &'a Handle,
    pub alike: u64,
    /// Last known time at which something happened to one of these handles.
    pub last_ns: u64,
}

/// Key of a group of similar handles.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    what: (&'a str, State, Option<u64>, bool),
    exporter: Option<&'a str>,
    opens: Vec<(&'a str, State)>,
    failed: Vec<&'a str>,
}

pub fn fold(handles: &[Handle]) -> Ledger<'_> {
    if handles.len() <= MOST {
        let lines = handles.iter().map(line).collect();
        return Ledger { lines, left_out: 0 };
    }
    let mut lines: Vec<Line> = Vec::new();
    let mut known: HashMap<Key, usize> = HashMap::new();
    let mut left_out = 0;
    for handle in handles {
        let key = Key {
            what: (handle.kind, handle.state, handle.bytes, handle.damaged_from.is_some()),
            exporter: handle.exporter.as_deref(),
            opens: handle.opens.iter().map(|open| (&*open.proc, open.state)).collect(),
            failed: handle.failed.iter().map(|failed| &*failed.proc).collect(),
        };
        match known.get(&key) {
            Some(known) => {
                let known = &mut lines[*known];
                known.alike += 1;
                known.last_ns = known.last_ns.max(last(handle));
            }
            None if lines.len() < MOST => {
                known.insert(key, lines.len());
                lines.push(line(handle));
            }
            None => left_out += 1,
        }
    }
    Ledger { lines, left_out }
}

fn line(handle: &Handle) -> Line<'_> {
    Line { handle, alike: 0, last_ns: last(handle) }
}

fn last(handle: &Handle) -> u64 {
    let ends = handle.opens.iter().flat_map(|open| [Some(open.opened_ns), open.closed_ns]);
    let ends = ends.chain([handle.exported_ns, handle.freed_ns]);
    ends.chain(handle.failed.iter().map(|failed| Some(failed.last_ns))).flatten().max().unwrap_or(0)
}
