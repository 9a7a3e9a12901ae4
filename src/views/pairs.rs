//! Pairs of devices over all processes. The table, the text chart, and the matrix of the page show the same pairs.
//!
//! It selects and orders the pairs and their rows. The contents of the rows come from `peers`.

use cupeer_report::model::{Peer, Report, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// Devices of an access: the accessing one, and the accessed one; `None` if a device is not known.
pub type Pair = (Option<Uuid>, Option<Uuid>);

/// Returns the accesses of all processes, for each pair of devices.
pub fn accesses_by_pair(report: &Report) -> BTreeMap<Pair, Vec<&Peer>> {
    let mut pairs: BTreeMap<_, Vec<&Peer>> = BTreeMap::new();
    for peer in &report.peers {
        pairs.entry((peer.from, peer.to)).or_default().push(peer);
    }
    pairs
}

/// Returns the accesses for each pair of devices that are both known.
pub fn accesses_by_known_pair(report: &Report) -> BTreeMap<(Uuid, Uuid), Vec<&Peer>> {
    accesses_by_pair(report).into_iter().filter_map(|((from, to), peers)| Some(((from?, to?), peers))).collect()
}

/// Returns the devices of a report in the order of its table, followed by devices that only pairs name.
pub fn devices_of_pairs<'a>(report: &Report, pairs: impl Iterator<Item = &'a (Uuid, Uuid)>) -> Vec<Uuid> {
    let mut devices: Vec<Uuid> = report.devices.iter().map(|device| device.uuid).collect();
    let named: BTreeSet<Uuid> = pairs.flat_map(|(from, to)| [*from, *to]).collect();
    let others: Vec<Uuid> = named.into_iter().filter(|uuid| !devices.contains(uuid)).collect();
    devices.extend(others);
    devices
}
