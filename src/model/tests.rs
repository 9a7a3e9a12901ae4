use crate::call::returned;
use crate::*;
use cupeer_spec::effect::Subject;
use cupeer_spec::function::FnId;

const GRANULE: u64 = 2 << 20;

/// Declares a keeper without further facts, by its tables.
macro_rules! keeper {
    ($name:ident: $allocations:ty, $mappings:ty, $reservations:ty, $pools:ty, $pointers:ty) => {
        #[derive(Default)]
        struct $name;

        impl Keeper for $name {
            type At = ();
            type OfAllocation = ();
            type OfMapping = ();
            type OfReservation = ();
            type OfPool = ();
            type Allocations = $allocations;
            type Mappings = $mappings;
            type Reservations = $reservations;
            type Pools = $pools;
            type Pointers = $pointers;
        }
    };
}
type Few<T, const N: usize> = Slots<T, (), N>;
type Each<T> = IndexedTable<T, ()>;
keeper!(Small: Few<Allocation, 2>, Few<Mapping, 2>, Few<Reservation, 2>, Few<Pool, 3>, Few<Pointer, 2>);
keeper!(Many: Few<Allocation, 32>, Few<Mapping, 32>, Few<Reservation, 32>, Few<Pool, 32>, Few<Pointer, 32>);
keeper!(All: Each<Allocation>, Each<Mapping>, Each<Reservation>, Each<Pool>, Each<Pointer>);

fn small() -> ProcessObjects<Small> {
    ProcessObjects::default()
}

fn see<K: Keeper<At = ()>>(process: &mut ProcessObjects<K>, function: FnId, values: &[(&str, u64)]) {
    returned(function, values, |call| process.apply_call(call, None, ()));
}

fn create<K: Keeper<At = ()>>(process: &mut ProcessObjects<K>, handle: u64, bytes: u64) {
    see(process, FnId::cuMemCreate, &[("handle", handle), ("size", bytes)]);
}

fn map<K: Keeper<At = ()>>(process: &mut ProcessObjects<K>, start: u64, bytes: u64, handle: u64) {
    see(process, FnId::cuMemMap, &[("ptr", start), ("size", bytes), ("handle", handle)]);
}

fn release<K: Keeper<At = ()>>(process: &mut ProcessObjects<K>, handle: u64) {
    see(process, FnId::cuMemRelease, &[("handle", handle)]);
}

#[test]
fn an_allocation_is_counted_and_remembered_until_its_handle_is_anothers() {
    let mut process = small();
    create(&mut process, 1, GRANULE);
    create(&mut process, 2, 2 * GRANULE);
    see(&mut process, FnId::cuMemRetainAllocationHandle, &[("handle", 1)]);
    for left in [1, 0] {
        release(&mut process, 1);
        assert_eq!(process.allocation(1).map(|it| (it.references, it.is_counted)), Some((left, true)));
    }
    see(&mut process, FnId::cuMemImportFromShareableHandle, &[("handle", 3)]);
    assert!(process.allocation(1).is_none() && process.allocation(3).is_some_and(|it| it.is_imported()));
    assert!(!process.has_lost(ObjectFamily::VirtualMemory));
    create(&mut process, 4, GRANULE);
    assert!(process.has_lost(ObjectFamily::VirtualMemory) && process.allocation(4).is_none());
    assert!(process.allocation(0).is_none());
    release(&mut process, 2);
    release(&mut process, 2);
    assert_eq!(process.allocation(2).map(|it| it.is_counted), Some(false), "the driver knew better");
}

#[test]
fn mappings_come_and_go_by_ranges() {
    let mut process = small();
    map(&mut process, GRANULE, GRANULE, 1);
    map(&mut process, 3 * GRANULE, 2 * GRANULE, 2);
    see(&mut process, FnId::cuMemSetAccess, &[("ptr", GRANULE), ("size", GRANULE)]);
    let granted: Vec<bool> = process.mappings.each().map(|mapping| mapping.is_granted).collect();
    assert_eq!(granted, [true, false]);
    see(&mut process, FnId::cuMemUnmap, &[("ptr", 0), ("size", 3 * GRANULE)]);
    let left: Vec<u64> = process.mappings.each().map(|mapping| mapping.name).collect();
    assert_eq!(left, [3 * GRANULE]);
    let mapping = process.mappings.each().next().expect("it is there");
    assert!(mapping.overlaps((4 * GRANULE, 1)) && !mapping.overlaps((5 * GRANULE, GRANULE)));
    assert!(mapping.is_within((0, 5 * GRANULE)) && !mapping.is_within((4 * GRANULE, GRANULE)));
}

#[test]
fn a_mapping_stays_with_its_allocation_whatever_has_the_handle_later() {
    let mut process = small();
    create(&mut process, 7, GRANULE);
    map(&mut process, GRANULE, GRANULE, 7);
    release(&mut process, 7);
    let first = process.allocation(7).expect("it is mapped");
    see(&mut process, FnId::cuMemImportFromShareableHandle, &[("handle", 7)]);
    let mapping = process.mappings.each().next().expect("it is mapped").without_history();
    assert_eq!(process.allocation_of(&mapping).map(|it| (it.id, it.is_imported())), Some((first.id, false)));
    assert!(process.allocation(7).is_some_and(|it| it.id != first.id && it.is_imported()));
    // Retaining by address returns a handle: the allocation's own, or the old number of another one.
    release(&mut process, 7);
    see(&mut process, FnId::cuMemRetainAllocationHandle, &[("handle", 7), ("addr", GRANULE + 5)]);
    assert_eq!(process.allocation(7).map(|it| (it.id, it.references)), Some((first.id, 1)));
    see(&mut process, FnId::cuMemUnmap, &[("ptr", GRANULE), ("size", GRANULE)]);
    assert_eq!(process.allocation(7).map(|it| (it.references, it.mappings)), Some((1, 0)));
}

#[test]
fn a_pool_is_known_by_its_source() {
    let mut process = small();
    // The type, the handle types.
    see(&mut process, FnId::cuMemPoolCreate, &[("pool", 1), ("poolProps", 1 | 1 << 32)]);
    see(&mut process, FnId::cuDeviceGetDefaultMemPool, &[("pool_out", 2), ("dev", 1)]);
    let import = |process: &mut _| see(process, FnId::cuMemPoolImportFromShareableHandle, &[("pool_out", 3)]);
    import(&mut process);
    let known =
        |process: &ProcessObjects<Small>, handle| process.pool(handle).map(|it| (it.origin, it.types, it.device));
    assert_eq!(known(&process, 1), Some((ObjectOrigin::Made, Some(1), None)));
    assert_eq!(known(&process, 2), Some((ObjectOrigin::Found, None, Some(1))));
    assert_eq!(known(&process, 3), Some((ObjectOrigin::Imported, None, None)));
    see(&mut process, FnId::cuMemPoolExportToShareableHandle, &[("pool", 2)]);
    see(&mut process, FnId::cuDeviceGetDefaultMemPool, &[("pool_out", 2), ("dev", 1)]);
    assert!(process.pool(2).is_some_and(|it| it.is_exported), "it is the same");
    import(&mut process);
    see(&mut process, FnId::cuMemPoolDestroy, &[("pool", 3)]);
    assert!(process.pool(3).is_some_and(|it| !it.is_destroyed), "it was imported twice");
    see(&mut process, FnId::cuMemPoolDestroy, &[("pool", 3)]);
    assert!(process.pool(3).is_some_and(|it| it.is_destroyed));
    see(&mut process, FnId::cuMemPoolCreate, &[("pool", 3)]);
    assert!(process.pool(3).is_some_and(|it| !it.is_destroyed && it.origin == ObjectOrigin::Made));
    assert!(!process.has_lost(ObjectFamily::Pools));
    see(&mut process, FnId::cuMemPoolCreate, &[("pool", 4)]);
    assert!(process.has_lost(ObjectFamily::Pools) && process.pool(4).is_none());
}

#[test]
fn pointers_are_open_until_they_are_freed_once() {
    let mut process = small();
    see(&mut process, FnId::cuMemPoolImportFromShareableHandle, &[("pool_out", 7)]);
    for address in [0x10, 0x20, 0x20] {
        see(&mut process, FnId::cuMemPoolImportPointer, &[("ptr_out", address), ("pool", 7)]);
    }
    assert_eq!((process.pointers_of(7), process.pointers_of(8)), (2, 0));
    see(&mut process, FnId::cuMemFreeAsync, &[("dptr", 0x10)]);
    see(&mut process, FnId::cuMemFree_v2, &[("dptr", 0x999)]);
    assert_eq!(process.pointers_of(7), 1);
    see(&mut process, FnId::cuMemFree_v2, &[("dptr", 0x20)]);
    assert_eq!((process.pointers_of(7), process.has_lost(ObjectFamily::Pools)), (0, false));
}

#[test]
fn the_granularity_is_the_least_that_the_driver_told() {
    let mut process = small();
    assert_eq!(process.granularity(Subject::Team), None);
    // The minimum, and the recommended granularity.
    for (granularity, option) in [(GRANULE, 0), (64 * GRANULE, 1)] {
        let values = [("granularity", granularity), ("option", option)];
        see(&mut process, FnId::cuMulticastGetGranularity, &values);
    }
    assert_eq!((process.granularity(Subject::Team), process.granularity(Subject::Memory)), (Some(GRANULE), None));
}

#[test]
fn both_tables_give_the_same_answers_in_500_random_lives_of_numbers_that_come_back_at_once() {
    for seed in 1..=500u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |count: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % count
        };
        let (fixed, indexed) = (&mut many(), &mut all());
        for _ in 0..60 {
            let (name, other) = (1 + below(4), 1 + below(4));
            let range = [("ptr", name * GRANULE), ("size", (1 + below(2)) * GRANULE), ("handle", other)];
            let (function, values): (FnId, &[(&str, u64)]) = match below(12) {
                0 | 1 => (FnId::cuMemCreate, &[("handle", name), ("size", GRANULE)]),
                2 => (FnId::cuMemImportFromShareableHandle, &[("handle", name)]),
                3 => (FnId::cuMemRetainAllocationHandle, &[("handle", name), ("addr", other * GRANULE)]),
                4 | 5 => (FnId::cuMemRelease, &[("handle", name)]),
                6 | 7 => (FnId::cuMemMap, &range),
                8 => (FnId::cuMemUnmap, &range[..2]),
                9 => (FnId::cuMemSetAccess, &range[..2]),
                10 => (FnId::cuMemPoolImportFromShareableHandle, &[("pool_out", name)]),
                _ => (FnId::cuMemPoolDestroy, &[("pool", name)]),
            };
            see(fixed, function, values);
            see(indexed, function, values);
            let answers = [fixed as &dyn View, indexed].map(|view| {
                let mut mapped = Vec::new();
                view.each_mapping((0, 64 * GRANULE), &mut |it| mapped.push((*it, view.allocation_of(it))));
                mapped.sort_by_key(|(it, _)| it.name);
                // A mapping keeps its allocation as long as it exists.
                assert!(mapped.iter().all(|(it, of)| (it.allocation == Id::NONE) == of.is_none()), "seed {seed}");
                let named = (1..5).map(|name| (view.allocation(name), view.pool(name)));
                (mapped, named.collect::<Vec<_>>())
            });
            assert_eq!(answers[0], answers[1], "seed {seed}");
        }
    }
}

fn all() -> ProcessObjects<All> {
    ProcessObjects::default()
}

fn many() -> ProcessObjects<Many> {
    ProcessObjects::default()
}

#[test]
fn ended_entries_do_not_accumulate() {
    let mut process = all();
    create(&mut process, 1, GRANULE);
    for handle in 2..200_000 {
        create(&mut process, handle, GRANULE);
        release(&mut process, handle);
    }
    assert!(process.allocations.each().count() < 70_000);
    assert!(process.allocation(1).is_some_and(|it| it.references == 1), "it is still there");
    assert!(process.allocation(199_999).is_some_and(|it| it.references == 0), "the last ones are remembered");
    assert!(!process.has_lost(ObjectFamily::VirtualMemory));
}

#[test]
fn objects_without_a_number_take_no_slot() {
    let mut process = small();
    for function in [FnId::cuMemCreate, FnId::cuMemMap, FnId::cuMemPoolCreate, FnId::cuMemPoolImportPointer] {
        (0..5).for_each(|_| see(&mut process, function, &[]));
    }
    let counts = (process.allocations.each().count(), process.mappings.each().count());
    assert_eq!((counts, process.pools.each().count(), process.pointers.each().count()), ((0, 0), 0, 0));
    assert!(!process.has_lost(ObjectFamily::VirtualMemory) && !process.has_lost(ObjectFamily::Pools));
}
