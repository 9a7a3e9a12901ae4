//! Multicast objects across processes: the number of devices each was created for, its devices, its bound memory, and
//! its holders.

use super::join::{AllocationOrigin, ImportGraph};
use super::rows::handle_type_names;
use crate::follow::ledger::CallSite;
use crate::follow::ledger::settle::ProcessEnd;
use crate::follow::memory::{Bound, OwnAllocation};
use cupeer_report::model::{BoundMemory, Multicast, TeamDevice, Uuid};
use std::collections::BTreeMap;

/// A call that binds memory to a multicast object, and waits for devices that no process has added.
pub struct WaitingBind {
    pub process: usize,
    pub call: CallSite,
    pub added: u32,
    pub wanted: u32,
}

impl ImportGraph<'_> {
    /// Returns the calls that wait for devices that no process has added.
    pub fn waiting_binds(&self) -> Vec<WaitingBind> {
        let mut added: BTreeMap<AllocationOrigin, (u32, Option<u32>)> = BTreeMap::new();
        let mut waiting = Vec::new();
        for (process, memory) in self.processes.iter().enumerate() {
            for allocation in memory.allocations() {
                let Some(team) = &allocation.history.multicast else { continue };
                let origin = self.find_origin(process, allocation.id);
                let sum = added.entry(origin).or_default();
                sum.0 += team.added.len() as u32;
                sum.1 = sum.1.or(wanted_devices(allocation));
                waiting.extend(team.waiting_bind.map(|call| (origin, process, call)));
            }
        }
        let missing = |(origin, process, call)| {
            let (added, wanted) = added[&origin];
            wanted.filter(|wanted| added < *wanted).map(|wanted| WaitingBind { process, call, added, wanted })
        };
        waiting.into_iter().filter_map(missing).collect()
    }

    /// Returns the rows about multicast objects, in the order of their creation.
    pub(super) fn multicast_rows(&self, fates: &[ProcessEnd]) -> Vec<Multicast> {
        let mut rows: BTreeMap<AllocationOrigin, Multicast> = BTreeMap::new();
        for (process, memory) in self.processes.iter().enumerate() {
            let proc = || fates[process].proc.clone();
            for allocation in memory.allocations() {
                let origin = self.find_origin(process, allocation.id);
                let is_one = |own: &OwnAllocation| own.history.multicast.is_some();
                if !is_one(allocation) && !self.allocation_of(origin).is_some_and(is_one) {
                    continue;
                }
                let new = || Multicast { since_ns: allocation.history.created_at(), ..Multicast::default() };
                let row = rows.entry(origin).or_insert_with(new);
                row.since_ns = row.since_ns.min(allocation.history.created_at());
                if !allocation.is_imported() {
                    (row.made_by, row.bytes) = (Some(proc()), allocation.size());
                    row.handle_types = handle_type_names(allocation.types.unwrap_or(0));
                }
                row.bytes = row.bytes.or(allocation.size());
                if allocation.history.ended.is_none() {
                    row.held_by.push(proc());
                }
                if allocation.mappings > 0 {
                    row.mapped_by.push(proc());
                }
                let Some(team) = &allocation.history.multicast else { continue };
                row.wanted_devices = row.wanted_devices.or(wanted_devices(allocation));
                let device =
                    |(device, at): &(Option<Uuid>, u64)| TeamDevice { proc: proc(), device: *device, added_ns: *at };
                row.devices.extend(team.added.iter().map(device));
                row.binds += team.binds;
                row.unbinds += team.unbinds;
                let bound = |Bound { device, offset: at, bytes }: &Bound| BoundMemory {
                    proc: proc(),
                    device: *device,
                    offset: *at,
                    bytes: *bytes,
                };
                row.bound.extend(team.bound.iter().map(bound));
                row.waiting.extend(team.waiting_bind.map(|_| proc()));
            }
        }
        let mut rows: Vec<Multicast> = rows.into_values().collect();
        rows.sort_by_key(|row| row.since_ns);
        rows
    }
}

/// Returns the number of devices that a multicast object was created for, if this process created the object.
fn wanted_devices(allocation: &OwnAllocation) -> Option<u32> {
    allocation.multicast.map(|team| team.wanted).filter(|wanted| *wanted != 0)
}
