use super::*;

#[test]
fn names_are_unique() {
    for (i, f) in FUNCTIONS.iter().enumerate() {
        assert!(FUNCTIONS[i + 1..].iter().all(|g| g.name() != f.name()), "{} stands twice", f.name());
    }
}

#[test]
fn versions_of_one_name_differ_and_rise() {
    for (i, f) in FUNCTIONS.iter().enumerate() {
        let form = |f: &FnSpec| (f.lookup(), f.name().contains("_pt"));
        let is_alike = |g: &&FnSpec| form(g) == form(f) && !f.lookup().is_empty();
        for g in FUNCTIONS[i + 1..].iter().filter(is_alike) {
            assert!(g.since > f.since, "{} and {} are looked up alike", f.name(), g.name());
        }
    }
}

#[test]
fn the_drivers_functions_alone_are_looked_up() {
    for f in FUNCTIONS {
        let is_drivers = f.library == Library::Cuda;
        assert_eq!((f.lookup().is_empty(), f.since == 0), (!is_drivers, !is_drivers), "{}", f.name());
        assert_eq!(f.simulated == Fidelity::Absent, !is_drivers, "{}", f.name());
    }
}

#[test]
fn success_is_documented_first_and_no_result_twice() {
    for f in FUNCTIONS {
        assert_eq!(f.results()[0], 0, "{}", f.name());
        for (i, r) in f.results().iter().enumerate() {
            assert!(!f.results()[i + 1..].contains(r), "{}: {r} stands twice", f.name());
            assert!(f.result(*r).is_some(), "{}: {r} is none of its library", f.name());
        }
    }
}

#[test]
fn types_read_as_in_c() {
    let types: Vec<String> = FnId::cuGetProcAddress.spec().args().iter().map(ArgSpec::c_type).collect();
    assert_eq!(types, ["const char *", "void **", "int", "cuuint64_t"]);
}

/// The arguments that an effect names.
struct Parts {
    /// Arguments that are read as numbers.
    names: Vec<usize>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

impl Parts {
    fn of(effect: Effect) -> Parts {
        let parts = |names: &[usize], more: &[Option<usize>], outputs: &[usize]| Parts {
            names: names.to_vec(),
            inputs: more.iter().copied().flatten().collect(),
            outputs: outputs.to_vec(),
        };
        let given = |names: &[usize], more: &[Option<usize>]| {
            let names_too = names.iter().copied().map(Some).chain(more.iter().copied());
            parts(names, &names_too.collect::<Vec<_>>(), &[])
        };
        let by = |demand: Option<Demand>| demand.map(|demand| demand.by);
        match effect {
            Effect::Exports(Shared { by, handle, .. }) => parts(&[by], &[Some(by)], &[handle]),
            Effect::Opens(Shared { by: name, handle, of, demand, .. }) => {
                parts(&[name], &[Some(handle), of, by(demand)], &[name])
            }
            Effect::Closes(Named { by, .. }) | Effect::Disables(Named { by, .. }) => given(&[by], &[]),
            Effect::Enables(Named { by: name, .. }, demand) => given(&[name], &[by(demand)]),
            Effect::Ends(End { by, size, .. }) => given(&[by], &[size]),
            Effect::Asks(Query { device, peer, answer, choice, .. }) => {
                parts(&[], &[Some(device), peer, choice.map(|(argument, _)| argument)], &[answer])
            }
            Effect::LooksUp(found) => parts(&[], &[], &[found]),
            Effect::Makes(Made { object: Object::Memory, by, size: Some(pitch), at: rows @ Some(_), .. }) => {
                parts(&[by], &[rows], &[by, pitch])
            }
            Effect::Makes(Made { by, size, of, at, .. }) => parts(&[by], &[size, of, at], &[]),
            Effect::Retains(Named { by, .. }) => parts(&[by], &[], &[by]),
            Effect::Copies(Copied { to, from, size, .. }) => given(&[to, from, size], &[]),
            Effect::Uses(Used { by, size, element, others, .. }) => {
                let more = match others {
                    OtherArgs::Nothing => [None; 2],
                    OtherArgs::Rows(height, pitch) => [Some(height), Some(pitch)],
                    OtherArgs::ToHost(host) | OtherArgs::FromHost(host) => [Some(host), None],
                };
                // Without a size, the argument is a structure.
                let names: &[usize] = if size.is_some() { &[by] } else { &[] };
                parts(names, &[Some(by), size, element, more[0], more[1]], &[])
            }
            Effect::UsesEach(Batch { to, from, sizes, count }) => given(&[to, from, sizes, count], &[]),
            Effect::Launches(Launched { function, parameters, extra }) => {
                given(&[function], &[Some(parameters), extra])
            }
            Effect::Finds(LookedUp { by, of, room, .. }) => parts(&[], &[Some(of), room], &[by]),
            Effect::Instantiates(exec, graph) => parts(&[exec, graph], &[Some(graph)], &[]),
            Effect::Completes(Work::Current) => parts(&[], &[], &[]),
            Effect::Follows(Followed { event, stream }) => given(&[event, stream], &[]),
            Effect::Awaits(Signal { address, value, stream }) | Effect::Signals(Signal { address, value, stream }) => {
                given(&[address, value, stream], &[])
            }
            Effect::Posts(Posted { operations, count, stream }) => given(&[operations, count, stream], &[]),
            Effect::Runs(HostCall { function, stream }) => given(&[function, stream], &[]),
            Effect::Completes(Work::Stream(by) | Work::Event(by) | Work::Context(by))
            | Effect::Drops(by)
            | Effect::Replays(by)
            | Effect::Discards(by)
            | Effect::Records(by)
            | Effect::Unloads(_, by) => given(&[by], &[]),
            Effect::Alters(Altered { exec, node, parameters, .. }) => given(&[exec, node, parameters], &[]),
            Effect::Grants(Grant { by, size, to, .. }) => given(&[by], &[size, Some(to)]),
            Effect::Begins => parts(&[], &[], &[]),
            Effect::Gathers(Gathered { team, of }) => parts(&[team], &[Some(of)], &[team]),
            Effect::Joins(AddedDevice { team, device }) => given(&[team], &[Some(device)]),
            Effect::Binds(Bound { by, from, size, device, team, at, .. }) => {
                given(&[by], &[from, Some(size), device, Some(team), Some(at)])
            }
            Effect::Unbinds(Unbound { team, size, device, at }) => {
                given(&[team], &[Some(size), Some(device), Some(at)])
            }
        }
    }
}

/// Ledgers read arguments by their effects: an object has a name of 4 or 8 bytes, which is an output if it is
/// opened, and its handle has the opposite direction.
#[test]
fn effects_name_arguments_that_can_be_read() {
    for f in FUNCTIONS {
        for effect in f.effects() {
            let Parts { names, inputs, outputs } = Parts::of(*effect);
            let is_input = |index: &usize| f.args()[*index].direction == Direction::In;
            let is_sound = names.iter().all(|index| matches!(f.args()[*index].stored_size(), 4 | 8))
                && inputs.iter().all(is_input)
                && !outputs.iter().any(is_input);
            assert!(is_sound, "{}: {effect:?}", f.name());
        }
        assert!(f.gathers().is_none_or(|it| f.makes().is_some_and(|made| made.by == it.team)), "{}", f.name());
    }
}

/// Rules and models find an argument by its effect, and never by its name, which can change in the next
/// version of a function. So an effect must name each new argument, or this list must have it as unused.
#[test]
fn effects_name_all_arguments_of_what_shares_memory_but_these() {
    use FnId::*;
    const UNUSED: &[(FnId, &[&str])] = &[
        (cuMemAddressReserve, &["alignment", "flags"]),
        (cuMemCreate, &["flags"]),
        (cuMemMap, &["flags"]),
        (cuMemGetAccess, &["location"]),
        (cuMemExportToShareableHandle, &["flags"]),
        (cuMemRetainAllocationHandle, &["addr"]),
        (cuMemGetHandleForAddressRange, &["size", "handleType", "flags"]),
        (cuMemPoolGetAccess, &["location"]),
        (cuMemPoolExportToShareableHandle, &["flags"]),
        (cuMemPoolImportFromShareableHandle, &["flags"]),
        (cuMulticastBindMem, &["flags"]),
        (cuMulticastBindMem_v2, &["flags"]),
        (cuMulticastBindAddr, &["flags"]),
        (cuMulticastBindAddr_v2, &["flags"]),
        (cuEventRecordWithFlags, &["flags"]),
        (cuEventRecordWithFlags_ptsz, &["flags"]),
        #[cfg(feature = "more-functions")]
        (cuCupeerExport, &["flags"]),
    ];
    for f in FUNCTIONS {
        let is_about_memory = f.is_virtual_memory_call() || f.is_in(Group::Pool) || f.is_in(Group::Peer);
        if !(f.shares() || f.is_release() || is_about_memory || f.records().is_some()) {
            continue;
        }
        let parts = f.effects().iter().map(|effect| Parts::of(*effect));
        let mut named: Vec<usize> = parts.flat_map(|it| [it.names, it.inputs, it.outputs].concat()).collect();
        named.extend(f.args().iter().flat_map(|arg| [arg.count_argument(), arg.handle_kind_argument()]).flatten());
        named.extend(f.stream_argument().into_iter().chain(f.input_array().map(|(array, _)| array)));
        let unused = (0..f.args().len()).filter(|index| !named.contains(index)).map(|index| f.args()[index].name());
        let listed = UNUSED.iter().find(|(id, _)| *id == f.id).map_or(&[][..], |(_, names)| names);
        assert_eq!(unused.collect::<Vec<_>>(), listed, "{}", f.name());
    }
}

#[test]
fn shared_objects_can_be_released() {
    for object in Object::ALL {
        let any = |does: fn(&FnSpec) -> Option<Object>| FUNCTIONS.iter().any(|f| does(f) == Some(object));
        let opens = any(|f| f.opens().map(|shared| shared.object));
        assert_eq!(opens, any(|f| f.closes().map(|named| named.object)), "{object:?}");
        assert_eq!(opens, any(|f| f.exports().map(|shared| shared.object)), "{object:?}");
        let enables = any(|f| f.enables().map(|named| named.object));
        assert_eq!(enables, any(|f| f.disables().map(|named| named.object)), "{object:?}");
    }
}

/// The library calls them with one word, or two.
#[test]
fn undo_functions_take_arguments_of_the_call() {
    for f in FUNCTIONS {
        let is_done = f.opens().is_some() || f.enables().is_some() || f.makes().is_some();
        // A primary context is retained by another name than it is released.
        let is_retained = f.retains().is_some_and(|retained| retained.object != Object::Primary);
        assert_eq!(f.undone_by().is_some(), is_done || is_retained, "{}", f.name());
        let Some((inverse, given)) = f.undone_by() else { continue };
        let words: Vec<usize> = inverse.spec().args().iter().map(|arg| arg.stored_size()).collect();
        let named = f.args()[given.by].stored_size();
        let taken = if given.size.is_some() { &[8, 8][..] } else { &[named] };
        assert!(words.as_slice() == taken && matches!(named, 4 | 8), "{}", f.name());
        if let (Some(size), Some(end)) = (given.size, inverse.spec().ends()) {
            assert_eq!((end.by, end.size, f.args()[size].stored_size()), (0, Some(1), 8), "{}", f.name());
        }
    }
    let undone = |id: FnId| id.spec().undone_by().map(|(inverse, _)| inverse);
    for (id, inverse) in [
        (FnId::cuIpcOpenEventHandle, FnId::cuEventDestroy_v2),
        (FnId::cuCtxEnablePeerAccess, FnId::cuCtxDisablePeerAccess),
        (FnId::cuMemImportFromShareableHandle, FnId::cuMemRelease),
        (FnId::cuMemRetainAllocationHandle, FnId::cuMemRelease),
        (FnId::cuMemCreate, FnId::cuMemRelease),
        (FnId::cuMemMap, FnId::cuMemUnmap),
        (FnId::cuMemPoolCreate, FnId::cuMemPoolDestroy),
        (FnId::cuMemPoolImportFromShareableHandle, FnId::cuMemPoolDestroy),
        (FnId::cuMemPoolImportPointer, FnId::cuMemFree_v2),
        (FnId::cuMemAllocFromPoolAsync, FnId::cuMemFree_v2),
        (FnId::cuMemAddressReserve, FnId::cuMemAddressFree),
        (FnId::cuMemAlloc, FnId::cuMemFree),
        (FnId::cuMemAllocPitch_v2, FnId::cuMemFree_v2),
    ] {
        assert_eq!(undone(id), Some(inverse), "the newest form");
    }
}

#[test]
fn arguments_have_places_in_the_slot() {
    let open = FnId::cuIpcOpenMemHandle_v2.spec();
    assert_eq!([0, 1, 2, 3].map(|index| open.argument_byte_range(index)), [0..8, 8..24, 24..28, 28..28]);
}

#[test]
fn every_function_is_documented_and_in_a_group() {
    for f in FUNCTIONS {
        assert!(f.doc().ends_with('.') && f.groups().next().is_some(), "{}", f.name());
    }
}

#[test]
fn shared_objects_have_live_table_kinds() {
    use crate::record::live::kind::*;
    for f in FUNCTIONS {
        if let Some(shared) = f.exports().or(f.opens()) {
            let (exported, opened) = kinds_of(shared.object);
            assert_eq!(exported_object(exported), Some(shared.object), "{}", f.name());
            assert_eq!(opened_object(opened), Some(shared.object), "{}", f.name());
            assert_eq!((export_kind_of(opened), export_kind_of(exported)), (Some(exported), None), "{}", f.name());
        }
        if let Some(access) = f.enables() {
            let kind = opened_kind(access.object);
            assert_eq!((opened_object(kind), is_enabled_access(kind)), (Some(access.object), true), "{}", f.name());
        }
    }
    let mut all: Vec<u32> = OBJECTS.iter().flat_map(|(_, a, b)| [*a, *b]).filter(|k| *k != 0).collect();
    all.extend([OWNED]);
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    assert_eq!((exported_object(0), opened_object(0), opened_object(OWNED)), (None, None, None));
}
