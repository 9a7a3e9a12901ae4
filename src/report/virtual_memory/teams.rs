//! Multicast objects: which devices were to join and which did, what is bound, and who has them, across processes.

use super::super::ledger::settle::Fate;
use super::super::model::{BoundMemory, Multicast, TeamDevice, Uuid};
use super::VirtualMemory;
use super::join::Origin;
use super::rows::handle_types;
use super::space::Source;
use std::collections::BTreeMap;

/// What one process has done with a multicast object.
#[derive(Default)]
pub struct Team {
    /// How many devices it was made for, where this process made it.
    pub wanted: Option<u32>,
    /// The devices that this process has added, and when.
    pub added: Vec<(Option<Uuid>, u64)>,
    /// The memory that it has bound and not unbound.
    pub bound: Vec<Bound>,
    /// How often it bound memory, and unbound it.
    pub binds: u64,
    pub unbinds: u64,
    /// Whether a call that binds memory has not returned.
    pub waits: bool,
}

/// Memory that is bound to a multicast object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    pub device: Option<Uuid>,
    /// Where in the object.
    pub at: u64,
    pub bytes: u64,
}

impl Team {
    pub(super) fn binds(&mut self, bound: Bound) {
        self.binds += 1;
        self.bound.push(bound);
    }

    /// Unbinds what a device has bound at a place; where it is not known for which device that was, what is there.
    pub(super) fn unbinds(&mut self, device: Option<Uuid>, at: u64) {
        self.unbinds += 1;
        let is_it = |bound: &Bound| bound.at == at && (bound.device == device || bound.device.is_none());
        if let Some(index) = self.bound.iter().position(is_it) {
            self.bound.swap_remove(index);
        }
    }
}

impl VirtualMemory {
    /// The rows about multicast objects, in the order in which they were made.
    pub(super) fn teams(&self, fates: &[Fate]) -> Vec<Multicast> {
        let joined = self.joined();
        let mut rows: BTreeMap<Origin, Multicast> = BTreeMap::new();
        for (process, space) in self.spaces.iter().enumerate() {
            let proc = || fates[process].proc.clone();
            for (number, allocation) in &space.allocations {
                let origin = joined.origin(process, *number);
                let is_one = |own: &super::space::Allocation| own.team.is_some();
                if !is_one(allocation) && !joined.allocation(origin).is_some_and(is_one) {
                    continue;
                }
                let row = rows.entry(origin).or_insert_with(|| Multicast {
                    made_by: None,
                    since_ns: allocation.since,
                    bytes: None,
                    handle_types: Vec::new(),
                    wanted_devices: None,
                    devices: Vec::new(),
                    bound: Vec::new(),
                    binds: 0,
                    unbinds: 0,
                    held_by: Vec::new(),
                    mapped_by: Vec::new(),
                    waiting: Vec::new(),
                });
                row.since_ns = row.since_ns.min(allocation.since);
                if let Source::Made { types, .. } = allocation.source {
                    (row.made_by, row.bytes) = (Some(proc()), allocation.bytes);
                    row.handle_types = handle_types(types);
                }
                row.bytes = row.bytes.or(allocation.bytes);
                if allocation.ended.is_none() {
                    row.held_by.push(proc());
                }
                if allocation.mappings > 0 {
                    row.mapped_by.push(proc());
                }
                let Some(team) = &allocation.team else { continue };
                row.wanted_devices = row.wanted_devices.or(team.wanted);
                let device = |(device, at): &(Option<Uuid>, u64)| TeamDevice {
                    proc: proc(),
                    device: *device,
                    added_ns: *at,
                };
                row.devices.extend(team.added.iter().map(device));
                row.binds += team.binds;
                row.unbinds += team.unbinds;
                let bound = |Bound { device, at, bytes }: &Bound| BoundMemory {
                    proc: proc(),
                    device: *device,
                    offset: *at,
                    bytes: *bytes,
                };
                row.bound.extend(team.bound.iter().map(bound));
                row.waiting.extend(team.waits.then(proc));
            }
        }
        let mut rows: Vec<Multicast> = rows.into_values().collect();
        rows.sort_by_key(|row| row.since_ns);
        rows
    }
}
