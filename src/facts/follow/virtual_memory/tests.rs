use super::join::most_bytes_at_once;
use super::*;
use crate::follow::memory::Location;
use crate::follow::memory::tests::{DEVICES, create, export, import, memory};
use cupeer_model::{Id, View};

#[test]
fn imports_are_joined_over_those_who_pass_them_on() {
    let mut memories = [memory(), memory(), memory()];
    create(&mut memories[0], (1, 2), 0xa, 100, 1);
    export(&mut memories[0], 3, 0xa, 0x11);
    import(&mut memories[1], 5, 0xb, 0x11);
    export(&mut memories[1], 7, 0xb, 0x12);
    import(&mut memories[2], 9, 0xc, 0x12);
    import(&mut memories[2], 11, 0xd, 0x99);
    let made = memories[0].state.allocation(0xa).unwrap().id;
    memories.iter_mut().for_each(|memory| memory.apply_returned(u64::MAX));
    let imports = ImportGraph::new(&memories);
    let held = imports.imported_allocations(2);
    let rows: Vec<_> = held.iter().map(|held| (held.origin, held.bytes, held.location)).collect();
    let known = (AllocationOrigin::Known(0, made), 100, Location::Device(DEVICES[1]));
    assert_eq!(rows, [known, (AllocationOrigin::Unknown(0x99, Id::NONE), 0, Location::Unknown)]);
}

#[test]
fn a_circle_of_imports_ends_the_search() {
    let mut memories = [memory(), memory()];
    for (memory, (own, other)) in memories.iter_mut().zip([(0x21, 0x22), (0x22, 0x21)]) {
        import(memory, 1, 0xa, other);
        export(memory, 3, 0xa, own);
    }
    let id = memories[0].state.allocation(0xa).unwrap().id;
    memories.iter_mut().for_each(|memory| memory.apply_returned(u64::MAX));
    let imports = ImportGraph::new(&memories);
    assert_eq!(imports.location_of_origin(imports.find_origin(0, id)), Location::Unknown);
}

#[test]
fn the_most_at_one_time() {
    let spans = [(1, Some(5), 10), (5, Some(9), 20), (6, None, 1), (2, Some(3), 7)];
    assert_eq!(most_bytes_at_once(spans.into_iter()), 21);
    assert_eq!(most_bytes_at_once(std::iter::empty()), 0);
}
