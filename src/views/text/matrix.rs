//! The peer matrix as a text chart: a row for each device that accesses, a column for each device whose memory is
//! accessed.
//!
//! A cell has two letters. The table of pairs, which follows, has the details.

use super::TextView;
use crate::pairs;
use cupeer_report::model::{Peer, Uuid};
use std::collections::BTreeSet;

/// Smallest number of devices for which there is a matrix. For fewer, the table shows everything.
const FEWEST_DEVICES: usize = 3;
/// Title of the matrix, with the legend.
pub const TITLE: &str = "Access between devices (e enabled, y can, n cannot; o opened over IPC, ! failed)";
/// Width of a cell in characters.
const CELL: usize = 4;

impl TextView<'_> {
    /// Returns the matrix; empty if there are too few devices, or if it is too wide for the terminal.
    pub fn matrix(&self) -> String {
        let pairs = pairs::accesses_by_known_pair(self.report);
        let is_named = |uuid: &Uuid| pairs.keys().any(|(from, to)| from == uuid || to == uuid);
        let devices: Vec<Uuid> =
            pairs::devices_of_pairs(self.report, pairs.keys()).into_iter().filter(is_named).collect();
        let names = devices.iter().map(|uuid| self.names.device(Some(*uuid)));
        let numbers = self.distinct_numbers(&devices);
        let (heads, labels): (Vec<String>, Vec<String>) = match numbers {
            Some(numbers) => (numbers.iter().map(u32::to_string).collect(), names.collect()),
            None => names.enumerate().map(|(i, name)| (i.to_string(), format!("{i} {name}"))).unzip(),
        };
        let label = labels.iter().map(String::len).max().unwrap_or(0);
        if devices.len() < FEWEST_DEVICES || label + CELL * devices.len() > self.width {
            return String::new();
        }
        let mut text = self.title(TITLE);
        let heads: String = heads.iter().map(|head| format!("{head:>CELL$}")).collect();
        text += &format!("{:label$}{heads}\n", "");
        for (from, name) in devices.iter().zip(&labels) {
            let cells: String = devices
                .iter()
                .map(|to| match pairs.get(&(*from, *to)) {
                    Some(peers) => format!("{:>CELL$}", format_cell(peers)),
                    None => format!("{:>CELL$}", if from == to { "" } else { "." }),
                })
                .collect();
            text += format!("{name:label$}{cells}").trim_end();
            text.push('\n');
        }
        text
    }

    /// Returns the numbers of the devices; `None` if a device has no number, or if two have the same.
    fn distinct_numbers(&self, devices: &[Uuid]) -> Option<Vec<u32>> {
        let number = |uuid: &Uuid| self.report.devices.iter().find(|device| device.uuid == *uuid)?.number;
        let numbers: Vec<u32> = devices.iter().map(number).collect::<Option<_>>()?;
        let distinct: BTreeSet<&u32> = numbers.iter().collect();
        (distinct.len() == numbers.len()).then_some(numbers)
    }
}

/// Formats a cell: the accesses of all processes from one device to another, such as `eo!`.
pub fn format_cell(peers: &[&Peer]) -> String {
    let any = |what: fn(&Peer) -> bool| peers.iter().any(|peer| what(peer));
    let mut cell = String::new();
    if any(|peer| peer.enabled) {
        cell.push('e');
    } else if any(|peer| peer.can_access == Some(true)) {
        cell.push('y');
    } else if any(|peer| peer.can_access == Some(false)) {
        cell.push('n');
    }
    if any(|peer| peer.opened > 0) {
        cell.push('o');
    }
    if any(|peer| !peer.open_failed.is_empty() || has_failed(peer)) {
        cell.push('!');
    }
    if cell.is_empty() { ".".into() } else { cell }
}

/// Returns true if a query failed, or an attempt to enable or disable access. Enabling access that is already
/// enabled is no failure.
fn has_failed(peer: &Peer) -> bool {
    peer.failed.keys().any(|name| name != "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED")
}
