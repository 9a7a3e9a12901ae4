//! The handle table of the page: one row per handle, or, if there are many, one row per group of similar handles.

use cupeer_report::model::{Handle, State};
use std::collections::HashMap;

/// Number of handles above which similar handles share a row, and largest number of rows.
pub const MOST_ROWS: usize = 2000;

/// Rows of the handle table in the order of the report, the worst first.
pub struct HandleRows<'a> {
    pub lines: Vec<HandleRow<'a>>,
    /// Number of handles that have no row.
    pub left_out: u64,
}

/// Row: a handle, and the number of similar handles, which have the same kind, size, exporter, openers, and
/// state.
pub struct HandleRow<'a> {
    pub handle: &'a Handle,
    pub alike: u64,
    /// Last known time at which something happened to one of these handles.
    pub last_ns: u64,
}

/// Key of a group of similar handles.
#[derive(PartialEq, Eq, Hash)]
struct SimilarityKey<'a> {
    what: (&'a str, State, Option<u64>, bool),
    exporter: Option<&'a str>,
    opens: Vec<(&'a str, State)>,
    failed: Vec<&'a str>,
}

pub fn group_handles(handles: &[Handle]) -> HandleRows<'_> {
    if handles.len() <= MOST_ROWS {
        let lines = handles.iter().map(new_row).collect();
        return HandleRows { lines, left_out: 0 };
    }
    let mut lines: Vec<HandleRow> = Vec::new();
    let mut known: HashMap<SimilarityKey, usize> = HashMap::new();
    let mut left_out = 0;
    for handle in handles {
        let key = SimilarityKey {
            what: (handle.kind, handle.state, handle.bytes, handle.damaged_from.is_some()),
            exporter: handle.exporter.as_deref(),
            opens: handle.opens.iter().map(|open| (&*open.proc, open.state)).collect(),
            failed: handle.failed.iter().map(|failed| &*failed.proc).collect(),
        };
        match known.get(&key) {
            Some(known) => {
                let known = &mut lines[*known];
                known.alike += 1;
                known.last_ns = known.last_ns.max(last_time(handle));
            }
            None if lines.len() < MOST_ROWS => {
                known.insert(key, lines.len());
                lines.push(new_row(handle));
            }
            None => left_out += 1,
        }
    }
    HandleRows { lines, left_out }
}

fn new_row(handle: &Handle) -> HandleRow<'_> {
    HandleRow { handle, alike: 0, last_ns: last_time(handle) }
}

fn last_time(handle: &Handle) -> u64 {
    let ends = handle.opens.iter().flat_map(|open| [Some(open.opened_ns), open.closed_ns]);
    let ends = ends.chain([handle.exported_ns, handle.freed_ns]);
    ends.chain(handle.failed.iter().map(|failed| Some(failed.last_ns))).flatten().max().unwrap_or(0)
}
