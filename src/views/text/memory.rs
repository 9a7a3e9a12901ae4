//! Virtual memory: the memory of each process per device, and the memory that is kept alive for others.
//!
//! It shows sums, and a sentence for each process that keeps memory alive. Single allocations are in the JSON form,
//! and here if all rows are requested.

use super::TextView;
use crate::table::Table;
use cupeer_report::model::{Allocation, DeviceMemory, Kept, Multicast, Proc, Where};
use cupeer_report::moments::{bytes, duration, number};
use cupeer_report::names::counted;

/// Time in nanoseconds below which an import that outlasts its owner still counts as part of an orderly end,
/// if the program or its exit then releases it.
const BRIEF_NS: u64 = 1_000_000_000;

impl TextView<'_> {
    pub fn virtual_memory(&self) -> String {
        let memory = &self.report.allocations;
        let head = ["PROCESS", "DEVICE", "ALLOCATED", "AT MOST", "IMPORTED", "AT MOST", "MAPPED", "EXPORTS"];
        let table = Table::new(&head, 8, 10).with_numbers(&[2, 3, 4, 5, 6]);
        let devices = self.table_section("Virtual memory, by device", table, &memory.devices, |row| {
            [
                self.names.process(&row.proc),
                self.format_location(row.location, row.device),
                bytes(row.bytes),
                bytes(row.most_bytes),
                bytes(row.imported_bytes),
                bytes(row.imported_most_bytes),
                bytes(row.mapped_bytes),
                format_exports(row),
            ]
        });
        let head = ["PROCESS", "RESERVED", "AT MOST", "MAPPED", "AT MOST", "UNMAPPED"];
        let table = Table::new(&head, 6, 10).with_numbers(&[1, 2, 3, 4, 5]);
        let spaces = self.table_section("Virtual memory, by addresses", table, &memory.spaces, |row| {
            [
                self.names.process(&row.proc),
                bytes(row.reserved_bytes),
                bytes(row.reserved_most_bytes),
                bytes(row.mapped_bytes),
                bytes(row.mapped_most_bytes),
                bytes(row.unmapped_bytes),
            ]
        });
        devices + &self.list_kept_memory() + &spaces + &self.multicast_table() + &self.largest_allocations()
    }

    pub(super) fn format_location(&self, place: Where, device: Option<cupeer_report::model::Uuid>) -> String {
        match place {
            Where::Host => "host".into(),
            Where::Multicast => "multicast".into(),
            Where::Device | Where::Unknown => self.names.device(device),
        }
    }

    /// Lists memory that processes keep alive for others, and memory that they kept alive for a long time.
    fn list_kept_memory(&self) -> String {
        let kept = &self.report.allocations.kept;
        let told: Vec<&Kept> = kept.iter().filter(|kept| self.lists_all || !is_orderly(kept)).collect();
        self.format_list(told.iter(), |kept| self.wrap_item("- ", &self.describe_kept(kept)))
    }

    fn describe_kept(&self, kept: &Kept) -> String {
        let (who, owner) = (self.names.process(&kept.proc), self.names.process(&kept.owner));
        let what = format!("{} of {}", bytes(kept.bytes), self.format_location(kept.location, kept.device));
        let (at, longest) = (self.at(kept.given_up_ns), duration(kept.longest_ns));
        let one = kept.allocations == 1;
        let (them, was) = if one { ("it", "was") } else { ("them", "were") };
        let size = format!("{what} ({})", counted(kept.allocations, "allocation"));
        let from = match kept.given_up_by {
            "exit" => format!("which imported {them} from {owner}, which ended at {at}"),
            _ => format!("which imported {them} from {owner}, released at {at}"),
        };
        match (kept.until, kept.until_ns) {
            ("now", _) => format!("{size} {} held by {who}, {from}", if one { "is" } else { "are" }),
            ("exit", Some(end)) => {
                format!("{size} {was} held by {who}, {from}, until it ended at {}", self.at(end))
            }
            _ => format!("{size} {was} held by {who}, {from}, for {longest} at most"),
        }
    }

    /// Lists multicast objects, and the processes that wait for devices to be added.
    fn multicast_table(&self) -> String {
        let all = &self.report.allocations.multicast;
        let table = Table::new(&["MADE BY", "SIZE", "DEVICES", "BOUND", "MAPPED BY", "HELD BY"], 6, 10);
        let table = self.table_section("Multicast objects", table, all, |row| {
            let bound = row.bound.iter().map(|bound| bound.bytes).sum();
            [
                row.made_by.as_ref().map_or("unknown".into(), |proc| self.names.process(proc)),
                row.bytes.map_or("unknown".into(), bytes),
                format_added_devices(row),
                if row.bound.is_empty() { "-".into() } else { bytes(bound) },
                self.format_process_list(&row.mapped_by),
                self.format_process_list(&row.held_by),
            ]
        });
        let waiting: Vec<&Multicast> = all.iter().filter(|row| !row.waiting.is_empty()).collect();
        table + &self.format_list(waiting.iter(), |row| self.wrap_item("- ", &self.describe_wait(row)))
    }

    fn describe_wait(&self, row: &Multicast) -> String {
        let who = self.format_process_list(&row.waiting);
        let has = if row.waiting.len() == 1 { "has" } else { "have" };
        format!(
            "{who} {has} not returned from binding memory: {} devices were added to the multicast object",
            format_added_devices(row)
        )
    }

    pub(super) fn format_process_list(&self, all: &[Proc]) -> String {
        let names: Vec<String> = all.iter().map(|proc| self.names.process(proc)).collect();
        if names.is_empty() { "-".into() } else { names.join(", ") }
    }

    /// Lists the largest allocations, one row each, if all rows are requested.
    fn largest_allocations(&self) -> String {
        let memory = &self.report.allocations;
        if !self.lists_all {
            return String::new();
        }
        let head = ["PROCESS", "DEVICE", "SIZE", "SINCE", "OWNER", "STATE", "REFERENCES", "MAPPED AT", "ACCESS"];
        let mut table = Table::new(&head, 9, 10).with_numbers(&[2, 6]).with_last_below();
        for row in &memory.largest {
            table.push_row([
                self.names.process(&row.proc),
                self.format_location(row.location, row.device),
                row.bytes.map_or("unknown".into(), bytes),
                self.at(row.since_ns),
                row.owner.as_ref().map_or("unknown".into(), |owner| self.names.process(owner)),
                allocation_state(row).into(),
                number(row.references),
                format_mapped_addresses(row),
                self.devices_with_access(row),
            ]);
        }
        let more = match memory.largest_more {
            0 => String::new(),
            more => format!("... {} that are smaller\n", counted(more, "allocation")),
        };
        let table = self.titled_table("The largest allocations", table, 0);
        if table.is_empty() { table } else { table + &more }
    }

    /// Names the devices that have access to a mapping of the allocation.
    fn devices_with_access(&self, row: &Allocation) -> String {
        let all = row.mappings.iter().flat_map(|mapping| &mapping.access);
        let mut devices: Vec<_> = all.map(|access| access.device).collect();
        devices.sort_unstable();
        devices.dedup();
        let names: Vec<String> = devices.iter().map(|device| self.names.device(Some(*device))).collect();
        if names.is_empty() { "-".into() } else { names.join(", ") }
    }
}

/// Formats the number of devices that were added to a multicast object, and the number for which it was
/// created.
fn format_added_devices(row: &Multicast) -> String {
    let added = number(row.devices.len() as u64);
    row.wanted_devices.map_or(added.clone(), |wanted| format!("{added} of {wanted}"))
}

/// Returns true if memory was kept alive only while the job was ending.
fn is_orderly(kept: &Kept) -> bool {
    let is_held = kept.until == "now" || kept.until == "exit" && kept.given_up_by == "release";
    !is_held && kept.longest_ns < BRIEF_NS
}

fn format_exports(row: &DeviceMemory) -> String {
    match row.exported {
        0 => "-".into(),
        exported => match row.never_imported {
            0 => number(exported),
            unused => format!("{}, {} never imported", number(exported), number(unused)),
        },
    }
}

fn allocation_state(row: &Allocation) -> &'static str {
    match (row.mapped, row.references) {
        (0, _) => "not mapped",
        (_, 0) => "mapped, released",
        _ => "mapped",
    }
}

fn format_mapped_addresses(row: &Allocation) -> String {
    let addresses: Vec<&str> = row.mappings.iter().map(|mapping| mapping.address.as_str()).collect();
    match row.mapped.saturating_sub(addresses.len() as u64) {
        _ if addresses.is_empty() => "-".into(),
        0 => addresses.join(", "),
        more => format!("{}, {} more", addresses.join(", "), number(more)),
    }
}
