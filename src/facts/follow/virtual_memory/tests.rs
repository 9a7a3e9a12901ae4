use super::join::most;
use super::space::{Allocation, Source, Space, Sum, Target};
use super::*;
use cupeer_record::{Call, writer};
use cupeer_spec::function::FnId;

const DEVICES: [Uuid; 2] = [Uuid([0x10; 16]), Uuid([0x20; 16])];

fn see(space: &mut Space, call: &Call) {
    let uuid = |ordinal: Option<i32>| DEVICES.get(ordinal? as usize).copied();
    space.call(call.function.unwrap(), call, call.start, uuid);
}

/// A call that succeeds and takes some time, with these arguments.
fn call(function: FnId, (start, end): (u64, u64), arguments: &[(&str, u64)]) -> Call {
    let mut call = writer::call(function, start, end);
    for (name, value) in arguments {
        let argument = function.spec().args().iter().find(|argument| argument.name() == *name).unwrap();
        writer::set(&mut call, name, &value.to_le_bytes()[..argument.stored()]);
    }
    call
}

/// Makes an allocation that can be shared as a descriptor.
fn create(space: &mut Space, at: (u64, u64), handle: u64, size: u64, device: i32) {
    let mut call = call(FnId::cuMemCreate, at, &[("handle", handle), ("size", size)]);
    let properties = [1, 1, 1, device].map(i32::to_le_bytes).concat();
    writer::set(&mut call, "prop", &properties);
    see(space, &call);
}

fn simple(space: &mut Space, function: FnId, at: u64, arguments: &[(&str, u64)]) {
    see(space, &call(function, (at, at + 1), arguments));
}

fn grant(space: &mut Space, at: u64, (ptr, size): (u64, u64), access: &[(i32, i32)]) {
    let mut call = call(FnId::cuMemSetAccess, (at, at + 1), &[("ptr", ptr), ("size", size)]);
    let elements = access.iter().flat_map(|(device, flags)| [1, *device, *flags]);
    call.details.elements = vec![(2, elements.flat_map(i32::to_le_bytes).collect())];
    see(space, &call);
}

fn own(space: &Space, device: usize) -> Sum {
    space.own.get(&Location::Device(DEVICES[device])).copied().unwrap_or_default()
}

#[test]
fn memory_is_there_while_there_is_a_handle_or_a_mapping() {
    let mut space = Space::new(0);
    create(&mut space, (1, 2), 0xa, 100, 1);
    simple(&mut space, FnId::cuMemMap, 3, &[("ptr", 0x1000), ("size", 100), ("handle", 0xa)]);
    simple(&mut space, FnId::cuMemRelease, 5, &[("handle", 0xa)]);
    assert_eq!((own(&space, 1).now, own(&space, 1).bytes), (1, 100));
    assert!(space.of_handle(0xa).is_none());
    // By an address inside of the mapping the process gets a handle again, which may be another number.
    simple(&mut space, FnId::cuMemRetainAllocationHandle, 7, &[("handle", 0xb), ("addr", 0x1010)]);
    simple(&mut space, FnId::cuMemUnmap, 9, &[("ptr", 0x1000), ("size", 100)]);
    let kept = space.of_handle(0xb).unwrap();
    assert_eq!((kept.references, kept.retained, kept.released, kept.mappings), (1, 1, 1, 0));
    assert_eq!(own(&space, 1).now, 1);
    simple(&mut space, FnId::cuMemRelease, 11, &[("handle", 0xb)]);
    assert_eq!(own(&space, 1), Sum { times: 1, now: 0, bytes: 0, most: 100 });
    assert!(space.allocations.is_empty(), "nobody else knew it");
}

#[test]
fn each_reference_is_released() {
    let mut space = Space::new(0);
    create(&mut space, (1, 2), 0xa, 100, 0);
    simple(&mut space, FnId::cuMemMap, 3, &[("ptr", 0x1000), ("size", 100), ("handle", 0xa)]);
    simple(&mut space, FnId::cuMemRetainAllocationHandle, 5, &[("handle", 0xa), ("addr", 0x1000)]);
    simple(&mut space, FnId::cuMemUnmap, 7, &[("ptr", 0x1000), ("size", 100)]);
    let release = |at| call(FnId::cuMemRelease, (at, at + 1), &[("handle", 0xa)]);
    assert!(space.keeps_reference(FnId::cuMemRelease, &release(9)));
    see(&mut space, &release(9));
    assert!(!space.keeps_reference(FnId::cuMemRelease, &release(11)));
    assert_eq!(own(&space, 0).now, 1);
    see(&mut space, &release(11));
    assert_eq!(own(&space, 0).now, 0);
    // Once too often, which a driver refuses, changes nothing.
    see(&mut space, &release(13));
    assert_eq!(own(&space, 0).bytes, 0);
}

#[test]
fn a_handle_that_another_thread_gets_anew_is_another_allocation() {
    let mut space = Space::new(0);
    create(&mut space, (1, 2), 0xa, 100, 0);
    // It is released while the other thread is in the call that gets its number.
    create(&mut space, (10, 30), 0xa, 7, 0);
    simple(&mut space, FnId::cuMemRelease, 20, &[("handle", 0xa)]);
    space.settle(u64::MAX);
    assert_eq!(own(&space, 0), Sum { times: 2, now: 1, bytes: 7, most: 100 });
    // What ended without a call that is known gives way.
    create(&mut space, (40, 41), 0xa, 9, 0);
    space.settle(u64::MAX);
    assert_eq!((own(&space, 0).now, own(&space, 0).bytes), (1, 9));
}

#[test]
fn what_failed_or_was_made_up_is_not_there() {
    let mut space = Space::new(0);
    let mut failed = call(FnId::cuMemAddressReserve, (1, 2), &[("ptr", 0x1000), ("size", 64)]);
    failed.outcome = cupeer_record::Outcome::Returned(2);
    see(&mut space, &failed);
    let mut changed = call(FnId::cuMemAddressReserve, (3, 4), &[("ptr", 0x2000), ("size", 64)]);
    changed.injected = true;
    see(&mut space, &changed);
    simple(&mut space, FnId::cuMemAddressReserve, 5, &[("ptr", 0x3000), ("size", 64)]);
    simple(&mut space, FnId::cuMemAddressReserve, 7, &[("ptr", 0x4000), ("size", 16)]);
    simple(&mut space, FnId::cuMemAddressFree, 9, &[("ptr", 0x3000), ("size", 64)]);
    assert_eq!(space.reserved, Sum { times: 2, now: 1, bytes: 16, most: 80 });
}

#[test]
fn access_is_counted_by_the_device_and_whose_memory_it_is() {
    let mut space = Space::new(0);
    create(&mut space, (1, 2), 0xa, 100, 1);
    for (at, ptr) in [(3, 0x1000), (5, 0x2000)] {
        simple(&mut space, FnId::cuMemMap, at, &[("ptr", ptr), ("size", 100), ("handle", 0xa)]);
    }
    // Over a hole, for the memory's own device too.
    grant(&mut space, 7, (0x1000, 0x2000), &[(0, 3), (1, 3)]);
    grant(&mut space, 9, (0x1000, 100), &[(0, 1)]);
    space.settle(u64::MAX);
    let key = (DEVICES[0], Target::At(Location::Device(DEVICES[1])));
    assert_eq!(space.reach.len(), 1, "a device is not its own peer");
    assert_eq!((space.reach[&key].granted, space.reach[&key].on, space.reach[&key].last), (2, 2, 9));
    grant(&mut space, 11, (0x1000, 100), &[(0, 0)]);
    space.settle(u64::MAX);
    assert_eq!((space.reach[&key].on, space.reach[&key].off), (1, None));
    simple(&mut space, FnId::cuMemUnmap, 13, &[("ptr", 0x1000), ("size", 0x2000)]);
    assert_eq!((space.reach[&key].on, space.reach[&key].off), (0, Some(13)));
    assert_eq!((space.mapped.now, space.mapped.most), (0, 200));
}

#[test]
fn imports_are_joined_over_those_who_pass_them_on() {
    let made = Source::Made { location: Location::Device(DEVICES[1]), types: 1 };
    let mut spaces: Vec<Space> = (0..3).map(|_| Space::new(0)).collect();
    spaces[0].takes(Allocation::new(0xa, made, Some(100), 1));
    spaces[0].exports(0xa, Some(0x11));
    spaces[1].takes(Allocation::new(0xb, Source::Imported(0x11), None, 2));
    spaces[1].exports(0xb, Some(0x12));
    spaces[2].takes(Allocation::new(0xc, Source::Imported(0x12), None, 3));
    spaces[2].takes(Allocation::new(0xd, Source::Imported(0x99), None, 4));
    let memory = VirtualMemory { spaces };
    let joined = memory.joined();
    let held = joined.held(2);
    let rows: Vec<_> = held.iter().map(|held| (held.origin, held.bytes, held.location)).collect();
    let known = (join::Origin::Known(0, 0), 100, Location::Device(DEVICES[1]));
    assert_eq!(rows, [known, (join::Origin::Unknown(0x99, 0), 0, Location::Unknown)]);
    // Nor does a circle end the search.
    let mut spaces: Vec<Space> = (0..2).map(|_| Space::new(0)).collect();
    for (space, (own, other)) in spaces.iter_mut().zip([(0x21, 0x22), (0x22, 0x21)]) {
        space.takes(Allocation::new(0xa, Source::Imported(other), None, 1));
        space.exports(0xa, Some(own));
    }
    let memory = VirtualMemory { spaces };
    assert_eq!(memory.joined().location(memory.joined().origin(0, 0)), Location::Unknown);
}

#[test]
fn the_most_at_one_time() {
    let spans = [(1, Some(5), 10), (5, Some(9), 20), (6, None, 1), (2, Some(3), 7)];
    assert_eq!(most(spans.into_iter()), 21);
    assert_eq!(most(std::iter::empty()), 0);
}
