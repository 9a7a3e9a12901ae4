use super::*;

fn uses(handle: u64) -> Vec<NodeUse> {
    let mut all = Vec::new();
    each_use(handle, &mut |it| all.push(*it));
    all
}

#[test]
fn a_graph_has_its_uses_until_it_ends_or_the_ring_drops_them() {
    let add = |handle: u64, count: u64| {
        let (number, first) = (LAST_NUMBER.fetch_add(1, Relaxed) + 1, USES_PUT.load(Relaxed));
        let all: Vec<NodeUse> = (0..count)
            .map(|at| NodeUse {
                label: NodeLabel {
                    index: (at % 3 != 0).then_some(at as u32 % 0xffff),
                    within: (at % 2 == 1).then_some(7),
                },
                part: [AddressRole::CopyTo, AddressRole::CopyFrom, AddressRole::Fill, AddressRole::Parameter(3)]
                    [at as usize % 4],
                address: 0x7000_0000_0000 + at,
                bytes: if at % 4 == 3 { 1 } else { 64 },
                kernel: if at % 4 == 3 { 0x5000 } else { 0 },
                is_exact: at % 4 == 1,
                may_be_host: at % 4 == 0,
                value: (at % 4 == 2).then_some(u32::MAX),
            })
            .collect();
        all.iter().for_each(|it| put(number, 0x9000 + it.address, it));
        note(handle, number, (first, USES_PUT.load(Relaxed)), 0);
        all
    };
    assert!(uses(0x10).is_empty() && !is_to_examine(0x10, 1));
    let (first, second) = (add(0x10, 8), add(0x20, 5));
    assert_eq!((uses(0x10), uses(0x20)), (first.clone(), second));
    // Each version is examined until nothing is found in it, and a finding is reported a few times.
    assert!(is_to_examine(0x10, 1));
    note_uses_no_gone_memory(0x10, 1);
    assert!(!is_to_examine(0x10, 1) && is_to_examine(0x10, 2));
    (0..MOST_FOUND).for_each(|_| note_uses_gone_memory(0x10));
    assert!(!is_to_examine(0x10, 2));
    let call = |id, word: u64| {
        let mut words = [0; MOST_ARGUMENTS];
        words[0] = word;
        forget_before_call(id, &words);
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
    // In one test: both use the ring.
    shared_memory_of_a_graph_is_determined_once_per_version();
}

fn shared_memory_of_a_graph_is_determined_once_per_version() {
    const AT: u64 = 0x7abc_0000_0000;
    let is_shared: fn(u64) -> bool = |address| address >= AT;
    let it = |part, address| NodeUse {
        label: NodeLabel::default(),
        part,
        address,
        bytes: 64,
        kernel: 0,
        is_exact: true,
        may_be_host: false,
        value: None,
    };
    let make = |handle: u64, kinds: u32, all: &[NodeUse]| {
        let (number, first) = (LAST_NUMBER.fetch_add(1, Relaxed) + 1, USES_PUT.load(Relaxed));
        all.iter().for_each(|it| put(number, 0x9000, it));
        note(handle, number, (first, USES_PUT.load(Relaxed)), kinds);
    };
    let shared = |handle| {
        let mut all = Vec::new();
        shared::each(handle, &mut |it| all.push(it.address)).map(|flags| (flags, all))
    };
    let (to, from) = (it(AddressRole::CopyTo, AT), it(AddressRole::CopyFrom, AT - 64));
    make(0x40, 0, &[to, from]);
    assert!(!shared::uses_any(0x40, 1, |_| false) && shared::uses_any(0x40, 2, is_shared));
    assert_eq!(shared(0x40), Some((0, vec![AT])));
    assert!(shared::uses_any(0x40, 2, |_| panic!("it is known")));
    // Rows are not known byte by byte, and parameters not at all.
    let parameter = NodeUse { kernel: 1, bytes: 1, is_exact: false, ..it(AddressRole::Parameter(0), AT) };
    make(0x50, 0, &[parameter, NodeUse { is_exact: false, ..to }]);
    assert!(shared::uses_any(0x50, 2, is_shared) && shared(0x50).is_none());
    // A copy from there to what may be the host tells of itself.
    make(0x60, 0, &[it(AddressRole::CopyFrom, AT), NodeUse { may_be_host: true, ..it(AddressRole::CopyTo, AT - 64) }]);
    assert!(shared::uses_any(0x60, 2, is_shared));
    assert_eq!(shared(0x60), Some((cupeer_spec::record::slot::nodes::TELLS, vec![AT])));
    // A graph that waits for other work, or that may have changed, has no known use.
    make(0x70, shared::OTHERS, &[to]);
    assert!(shared::uses_any(0x70, 2, is_shared) && shared(0x70).is_none());
    let mut words = [0; MOST_ARGUMENTS];
    words[0] = 0x40;
    shared::note_possible_change(FnId::cuGraphExecUpdate_v2, &words);
    assert!(shared::uses_any(0x40, 2, is_shared) && shared(0x40).is_none());
    assert!(!shared::uses_any(0x80, 2, is_shared));
}
