use super::*;

fn uses(handle: u64) -> Vec<NodeUse> {
    let mut all = Vec::new();
    each_use(handle, &mut |it| all.push(*it));
    all
}

#[test]
fn a_graph_has_its_uses_until_it_ends_or_the_ring_drops_them() {
    let add = |handle: u64, count: u64| {
        let (number, first) = (LAST.fetch_add(1, Relaxed) + 1, PUT.load(Relaxed));
        let all: Vec<NodeUse> = (0..count)
            .map(|at| NodeUse {
                label: Label {
                    index: (at % 3 != 0).then_some(at as u32 % 0xffff),
                    within: (at % 2 == 1).then_some(7),
                },
                part: [Part::CopyTo, Part::CopyFrom, Part::Fill, Part::Parameter(3)][at as usize % 4],
                address: 0x7000_0000_0000 + at,
                bytes: if at % 4 == 3 { 1 } else { 64 },
                kernel: if at % 4 == 3 { 0x5000 } else { 0 },
            })
            .collect();
        all.iter().for_each(|it| put(number, 0x9000 + it.address, it));
        note(handle, number, first, PUT.load(Relaxed));
        all
    };
    assert!(uses(0x10).is_empty() && !is_to_look(0x10, 1));
    let (first, second) = (add(0x10, 8), add(0x20, 5));
    assert_eq!((uses(0x10), uses(0x20)), (first.clone(), second));
    // Each version is looked at until nothing is found in it, and a finding is said a few times.
    assert!(is_to_look(0x10, 1));
    note_clean(0x10, 1);
    assert!(!is_to_look(0x10, 1) && is_to_look(0x10, 2));
    (0..MOST_FOUND).for_each(|_| note_found(0x10));
    assert!(!is_to_look(0x10, 2));
    let call = |id, word: u64| {
        let mut words = [0; MOST_ARGUMENTS];
        words[0] = word;
        before(id, &words);
    };
    call(FnId::cuGraphExecDestroy, 0x20);
    assert_eq!((uses(0x10).len(), uses(0x20).len()), (8, 0));
    // The handle may be another graph's.
    let again = add(0x20, 3);
    assert_eq!(uses(0x20), again);
    add(0x30, MOST_USES as u64 - 5);
    assert_eq!((uses(0x10), uses(0x20).len()), (Vec::new(), 3));
    call(FnId::cuCtxDestroy_v2, 0x99);
    assert!(uses(0x20).is_empty() && uses(0x30).is_empty());
}
