use super::asleep::RangeState;
use super::*;
use crate::follow::ledger::{CallSite, Site};
use cupeer_model::View;
use cupeer_record::{Call, writer};
use cupeer_report::places::StackTable;
use cupeer_spec::function::FnId;

pub const DEVICES: [Uuid; 2] = [Uuid([0x10; 16]), Uuid([0x20; 16])];

pub fn memory() -> ProcessMemory {
    ProcessMemory::new(0, DEVICES.map(Some).to_vec())
}

fn see(memory: &mut ProcessMemory, call: &Call) {
    let (function, site) =
        (call.function.unwrap(), Site::new(call, StackTable::default().find_or_add(0, 0, &[], &[]), false));
    memory.apply_call(function, call, CallSite { function, site, at: call.start });
}

/// A call that succeeds and takes some time, with these arguments.
fn call(function: FnId, (start, end): (u64, u64), arguments: &[(&str, u64)]) -> Call {
    let mut call = writer::call(function, start, end);
    for (name, value) in arguments {
        let argument = function.spec().args().iter().find(|argument| argument.name() == *name).unwrap();
        writer::set(&mut call, name, &value.to_le_bytes()[..argument.stored_size()]);
    }
    call
}

/// Makes an allocation that can be shared as a descriptor.
pub fn create(memory: &mut ProcessMemory, at: (u64, u64), handle: u64, size: u64, device: i32) {
    let mut call = call(FnId::cuMemCreate, at, &[("handle", handle), ("size", size)]);
    let properties = [1, 1, 1, device].map(i32::to_le_bytes).concat();
    writer::set(&mut call, "prop", &properties);
    see(memory, &call);
}

fn simple(memory: &mut ProcessMemory, function: FnId, at: u64, arguments: &[(&str, u64)]) {
    see(memory, &call(function, (at, at + 1), arguments));
}

fn grant(memory: &mut ProcessMemory, at: u64, (ptr, size): (u64, u64), access: &[(i32, i32)]) {
    let mut call = call(FnId::cuMemSetAccess, (at, at + 1), &[("ptr", ptr), ("size", size)]);
    let elements = access.iter().flat_map(|(device, flags)| [1, *device, *flags]);
    call.details.elements = vec![(2, elements.flat_map(i32::to_le_bytes).collect())];
    see(memory, &call);
}

fn own(memory: &ProcessMemory, device: usize) -> UsageSum {
    memory.state.keeper.own.get(&Location::Device(DEVICES[device])).copied().unwrap_or_default()
}

#[test]
fn memory_is_there_while_there_is_a_handle_or_a_mapping() {
    let mut memory = memory();
    create(&mut memory, (1, 2), 0xa, 100, 1);
    simple(&mut memory, FnId::cuMemMap, 3, &[("ptr", 0x1000), ("size", 100), ("handle", 0xa)]);
    simple(&mut memory, FnId::cuMemRelease, 5, &[("handle", 0xa)]);
    assert_eq!((own(&memory, 1).now, own(&memory, 1).bytes), (1, 100));
    assert_eq!(memory.state.allocation(0xa).map(|it| (it.references, it.mappings)), Some((0, 1)));
    // By an address inside of the mapping the process gets a handle again, which may be another number.
    simple(&mut memory, FnId::cuMemRetainAllocationHandle, 7, &[("handle", 0xb), ("addr", 0x1010)]);
    simple(&mut memory, FnId::cuMemUnmap, 9, &[("ptr", 0x1000), ("size", 100)]);
    let kept = memory.state.allocations.find_by_name(0xb).unwrap();
    let history = &kept.history;
    assert_eq!((kept.references, history.retained, history.released, kept.mappings), (1, 1, 1, 0));
    assert_eq!(own(&memory, 1).now, 1);
    simple(&mut memory, FnId::cuMemRelease, 11, &[("handle", 0xb)]);
    assert_eq!(own(&memory, 1), UsageSum { times: 1, now: 0, bytes: 0, most: 100 });
    create(&mut memory, (13, 14), 0xb, 1, 1);
    memory.apply_returned(u64::MAX);
    assert_eq!(memory.allocations().count(), 1, "nobody else knew it");
}

#[test]
fn each_reference_is_released() {
    let mut memory = memory();
    create(&mut memory, (1, 2), 0xa, 100, 0);
    simple(&mut memory, FnId::cuMemMap, 3, &[("ptr", 0x1000), ("size", 100), ("handle", 0xa)]);
    simple(&mut memory, FnId::cuMemRetainAllocationHandle, 5, &[("handle", 0xa), ("addr", 0x1000)]);
    simple(&mut memory, FnId::cuMemUnmap, 7, &[("ptr", 0x1000), ("size", 100)]);
    let release = |at| call(FnId::cuMemRelease, (at, at + 1), &[("handle", 0xa)]);
    assert!(memory.keeps_reference(FnId::cuMemRelease, &release(9)));
    see(&mut memory, &release(9));
    assert!(!memory.keeps_reference(FnId::cuMemRelease, &release(11)));
    assert_eq!(own(&memory, 0).now, 1);
    see(&mut memory, &release(11));
    assert_eq!(own(&memory, 0).now, 0);
    // Once too often, which a driver refuses, changes nothing.
    see(&mut memory, &release(13));
    assert_eq!(own(&memory, 0).bytes, 0);
}

#[test]
fn a_handle_that_another_thread_gets_anew_is_another_allocation() {
    let mut memory = memory();
    create(&mut memory, (1, 2), 0xa, 100, 0);
    // It is released while the other thread is in the call that gets its number.
    create(&mut memory, (10, 30), 0xa, 7, 0);
    simple(&mut memory, FnId::cuMemRelease, 20, &[("handle", 0xa)]);
    memory.apply_returned(u64::MAX);
    assert_eq!(own(&memory, 0), UsageSum { times: 2, now: 1, bytes: 7, most: 100 });
    // An entry whose end was not recorded gives way.
    create(&mut memory, (40, 41), 0xa, 9, 0);
    memory.apply_returned(u64::MAX);
    assert_eq!((own(&memory, 0).now, own(&memory, 0).bytes), (1, 9));
}

#[test]
fn failed_or_invented_objects_are_not_there() {
    let mut memory = memory();
    let mut failed = call(FnId::cuMemAddressReserve, (1, 2), &[("ptr", 0x1000), ("size", 64)]);
    failed.outcome = cupeer_record::Outcome::Returned(2);
    see(&mut memory, &failed);
    let mut changed = call(FnId::cuMemAddressReserve, (3, 4), &[("ptr", 0x2000), ("size", 64)]);
    changed.injected = true;
    see(&mut memory, &changed);
    simple(&mut memory, FnId::cuMemAddressReserve, 5, &[("ptr", 0x3000), ("size", 64)]);
    simple(&mut memory, FnId::cuMemAddressReserve, 7, &[("ptr", 0x4000), ("size", 16)]);
    simple(&mut memory, FnId::cuMemAddressFree, 9, &[("ptr", 0x3000), ("size", 64)]);
    assert_eq!(memory.state.keeper.reserved, UsageSum { times: 2, now: 1, bytes: 16, most: 80 });
}

#[test]
fn access_is_counted_by_the_device_and_whose_memory_it_is() {
    let mut memory = memory();
    create(&mut memory, (1, 2), 0xa, 100, 1);
    for (at, ptr) in [(3, 0x1000), (5, 0x2000)] {
        simple(&mut memory, FnId::cuMemMap, at, &[("ptr", ptr), ("size", 100), ("handle", 0xa)]);
    }
    // Over a hole, for the memory's own device too.
    grant(&mut memory, 7, (0x1000, 0x2000), &[(0, 3), (1, 3)]);
    grant(&mut memory, 9, (0x1000, 100), &[(0, 1)]);
    memory.apply_returned(u64::MAX);
    let key = (DEVICES[0], AllocationSource::Made(Location::Device(DEVICES[1])));
    assert_eq!(memory.state.keeper.reach.len(), 1, "a device is not its own peer");
    assert_eq!(
        (
            memory.state.keeper.reach[&key].granted,
            memory.state.keeper.reach[&key].mappings_now,
            memory.state.keeper.reach[&key].last_granted
        ),
        (2, 2, 9)
    );
    grant(&mut memory, 11, (0x1000, 100), &[(0, 0)]);
    memory.apply_returned(u64::MAX);
    assert_eq!((memory.state.keeper.reach[&key].mappings_now, memory.state.keeper.reach[&key].lost_at), (1, None));
    simple(&mut memory, FnId::cuMemUnmap, 13, &[("ptr", 0x1000), ("size", 0x2000)]);
    assert_eq!((memory.state.keeper.reach[&key].mappings_now, memory.state.keeper.reach[&key].lost_at), (0, Some(13)));
    assert_eq!((memory.state.keeper.mapped.now, memory.state.keeper.mapped.most), (0, 200));
}

/// A descriptor as a record has it: its fingerprint twice, and its number.
fn handle_bytes(fingerprint: u64) -> Vec<u8> {
    [fingerprint, fingerprint].map(u64::to_le_bytes).concat().into_iter().chain([9, 0, 0, 0]).collect()
}

pub fn import(memory: &mut ProcessMemory, at: u64, handle: u64, fingerprint: u64) {
    let mut call = call(FnId::cuMemImportFromShareableHandle, (at, at + 1), &[("handle", handle)]);
    writer::set(&mut call, "osHandle", &handle_bytes(fingerprint));
    see(memory, &call);
}

pub fn export(memory: &mut ProcessMemory, at: u64, handle: u64, fingerprint: u64) {
    let mut call = call(FnId::cuMemExportToShareableHandle, (at, at + 1), &[("handle", handle)]);
    writer::set(&mut call, "shareableHandle", &handle_bytes(fingerprint));
    see(memory, &call);
    memory.apply_returned(u64::MAX);
}

#[test]
fn a_mapping_keeps_its_allocation_when_another_one_gets_the_handle() {
    let mut memory = memory();
    create(&mut memory, (1, 2), 0xa, 100, 1);
    simple(&mut memory, FnId::cuMemMap, 3, &[("ptr", 0x1000), ("size", 100), ("handle", 0xa)]);
    simple(&mut memory, FnId::cuMemRelease, 5, &[("handle", 0xa)]);
    // The driver gives the number out again.
    create(&mut memory, (7, 8), 0xa, 7, 0);
    grant(&mut memory, 9, (0x1000, 100), &[(0, 3)]);
    memory.apply_returned(u64::MAX);
    let key = (DEVICES[0], AllocationSource::Made(Location::Device(DEVICES[1])));
    assert_eq!(memory.state.keeper.reach[&key].granted, 1, "it lies on the other device");
    assert_eq!((own(&memory, 0).bytes, own(&memory, 1).bytes), (7, 100));
    simple(&mut memory, FnId::cuMemUnmap, 11, &[("ptr", 0x1000), ("size", 100)]);
    assert_eq!((own(&memory, 0).bytes, own(&memory, 1).bytes), (7, 0));
    assert_eq!(memory.state.allocation(0xa).map(|it| (it.bytes, it.mappings)), Some((7, 0)));
}

#[test]
fn a_release_that_seems_to_come_before_what_it_releases_counts() {
    let mut memory = memory();
    create(&mut memory, (1, 20), 0xa, 100, 0);
    simple(&mut memory, FnId::cuMemRelease, 10, &[("handle", 0xa)]);
    memory.apply_returned(u64::MAX);
    assert_eq!(own(&memory, 0), UsageSum { times: 1, now: 0, bytes: 0, most: 100 });
}

#[test]
fn each_import_of_a_pool_is_destroyed_by_itself() {
    let mut memory = memory();
    let mut call = |function: FnId, argument, at| {
        simple(&mut memory, function, at, &[(argument, 7)]);
        memory.apply_returned(u64::MAX);
        memory.state.pools.each().map(|pool| pool.history.destroyed).collect::<Vec<_>>()
    };
    let import = FnId::cuMemPoolImportFromShareableHandle;
    assert_eq!(call(import, "pool_out", 1), [None]);
    assert_eq!(call(import, "pool_out", 3), [None]);
    assert_eq!(call(FnId::cuMemPoolDestroy, "pool", 5), [None]);
    assert_eq!(call(FnId::cuMemPoolDestroy, "pool", 7), [Some(7)]);
}

#[test]
fn the_device_of_an_import_is_the_one_that_the_driver_told() {
    let mut memory = memory();
    let mut call = call(FnId::cuMemImportFromShareableHandle, (1, 2), &[("handle", 0xb)]);
    call.details.owner = Some((0, 1));
    see(&mut memory, &call);
    simple(&mut memory, FnId::cuMemMap, 3, &[("ptr", 0x1000), ("size", 100), ("handle", 0xb)]);
    memory.apply_returned(u64::MAX);
    let known = memory.state.allocations.find_by_name(0xb).unwrap();
    assert_eq!((known.device, known.history.device), (Some(1), Some(DEVICES[1])));
    assert!(known.is_imported());
}

#[test]
fn ranges_sleep_until_memory_is_mapped_there_again_or_their_addresses_are_freed() {
    let mut memory = memory();
    let state = |memory: &ProcessMemory, at| {
        memory.state.keeper.unmapped_ranges.range_at(at).map(|range| (range.name, range.state.state))
    };
    simple(&mut memory, FnId::cuMemAddressReserve, 1, &[("ptr", 0x1000), ("size", 0x400)]);
    for (at, start) in [(3, 0x1000), (5, 0x1100), (7, 0x1200)] {
        create(&mut memory, (at, at + 1), start, 0x100, 0);
        simple(&mut memory, FnId::cuMemMap, at, &[("ptr", start), ("size", 0x100), ("handle", start)]);
    }
    assert_eq!(state(&memory, 0x1000), None);
    simple(&mut memory, FnId::cuMemUnmap, 9, &[("ptr", 0x1000), ("size", 0x300)]);
    simple(&mut memory, FnId::cuMemMap, 11, &[("ptr", 0x1100), ("size", 0x100), ("handle", 0x1100)]);
    memory.apply_returned(u64::MAX);
    let asleep = [0x10ff, 0x1100, 0x12ff, 0x1300].map(|at| state(&memory, at));
    let wanted = [
        Some((0x1000, RangeState::Unmapped)),
        Some((0x1100, RangeState::MappedAgain)),
        Some((0x1200, RangeState::Unmapped)),
        None,
    ];
    assert_eq!((asleep, memory.state.keeper.unmapped_ranges.unmapped_bytes()), (wanted, 0x200));
    simple(&mut memory, FnId::cuMemUnmap, 13, &[("ptr", 0x1000), ("size", 0x400)]);
    simple(&mut memory, FnId::cuMemAddressFree, 15, &[("ptr", 0x1000), ("size", 0x400)]);
    assert_eq!(state(&memory, 0x1000), Some((0x1000, RangeState::Freed)));
    simple(&mut memory, FnId::cuMemAddressReserve, 17, &[("ptr", 0x1000), ("size", 0x400)]);
    memory.apply_returned(u64::MAX);
    assert_eq!((state(&memory, 0x1000), memory.state.keeper.unmapped_ranges.unmapped_bytes()), (None, 0));
}
