use super::*;

#[test]
fn names_are_unique() {
    for (i, f) in FUNCTIONS.iter().enumerate() {
        assert!(FUNCTIONS[i + 1..].iter().all(|g| g.name != f.name), "{} stands twice", f.name);
    }
}

#[test]
fn versions_of_one_name_differ_and_rise() {
    for (i, f) in FUNCTIONS.iter().enumerate() {
        let form = |f: &FnSpec| (f.lookup(), f.name.contains("_pt"));
        let is_alike = |g: &&FnSpec| form(g) == form(f) && !f.lookup().is_empty();
        for g in FUNCTIONS[i + 1..].iter().filter(is_alike) {
            assert!(g.since > f.since, "{} and {} are looked up alike", f.name, g.name);
        }
    }
}

#[test]
fn the_drivers_functions_alone_are_looked_up() {
    for f in FUNCTIONS {
        let is_drivers = f.library == Library::Cuda;
        assert_eq!((f.lookup().is_empty(), f.since == 0), (!is_drivers, !is_drivers), "{}", f.name);
        assert_eq!(f.simulated == Fidelity::Absent, !is_drivers, "{}", f.name);
    }
}

#[test]
fn success_is_documented_first_and_no_result_twice() {
    for f in FUNCTIONS {
        assert_eq!(f.results[0], 0, "{}", f.name);
        for (i, r) in f.results.iter().enumerate() {
            assert!(!f.results[i + 1..].contains(r), "{}: {r} stands twice", f.name);
            assert!(f.result(*r).is_some(), "{}: {r} is none of its library", f.name);
        }
    }
}

#[test]
fn types_read_as_in_c() {
    let types: Vec<String> = FnId::cuGetProcAddress.spec().args.iter().map(ArgSpec::c_type).collect();
    assert_eq!(types, ["const char *", "void **", "int", "cuuint64_t"]);
}

/// The ledgers read it by that: an object has a name of 4 or 8 bytes, which is an output where it is opened, and its
/// handle goes the other way.
#[test]
fn effects_name_arguments_that_can_be_read() {
    for f in FUNCTIONS {
        let is_name = |index: usize| matches!(f.args[index].stored(), 4 | 8);
        let is = |index: usize, direction| f.args[index].direction == direction;
        for effect in f.effects {
            let is_sound = match *effect {
                Effect::Exports(Shared { by, handle, .. }) => {
                    is_name(by) && is(by, Direction::In) && is(handle, Direction::Out)
                }
                Effect::Opens(Shared { by, handle, .. }) => {
                    is_name(by) && is(by, Direction::Out) && is(handle, Direction::In)
                }
                Effect::Closes(Named { by, .. })
                | Effect::Enables(Named { by, .. })
                | Effect::Disables(Named { by, .. })
                | Effect::Ends(End { by, .. }) => is_name(by) && is(by, Direction::In),
                Effect::Asks(Question { device, peer, answer, choice, .. }) => {
                    let asked = [Some(device), peer, choice.map(|(argument, _)| argument)];
                    !is(answer, Direction::In)
                        && asked.into_iter().flatten().all(|index| is(index, Direction::In))
                }
                Effect::LooksUp(found) => is(found, Direction::Out),
                Effect::Makes(Made { by, size, of, .. }) => {
                    is_name(by) && [size, of].into_iter().flatten().all(|index| is(index, Direction::In))
                }
                Effect::Retains(Named { by, .. }) => is_name(by) && is(by, Direction::Out),
                Effect::Copies(Copied { to, from, size, .. }) => {
                    [to, from, size].into_iter().all(|index| is_name(index) && is(index, Direction::In))
                }
                Effect::Uses(Used { by, size, element, rows, .. }) => {
                    let rows = rows.map(|(height, pitch)| [height, pitch]);
                    let all = [Some(by), size, element];
                    let mut all = all.into_iter().flatten().chain(rows.into_iter().flatten());
                    is_name(by) == size.is_some() && all.all(|index| is(index, Direction::In))
                }
                Effect::UsesEach(Batch { to, from, sizes, count }) => {
                    [to, from, sizes, count].into_iter().all(|at| is_name(at) && is(at, Direction::In))
                }
                Effect::Launches(Launched { function, parameters, extra }) => {
                    let all = [Some(function), Some(parameters), extra];
                    is_name(function) && all.into_iter().flatten().all(|index| is(index, Direction::In))
                }
                Effect::Finds(LookedUp { by, of, room, .. }) => {
                    let all = [Some(of), room];
                    is(by, Direction::Out) && all.into_iter().flatten().all(|index| is(index, Direction::In))
                }
                Effect::Instantiates(exec, graph) => {
                    is_name(exec) && is_name(graph) && is(graph, Direction::In)
                }
                Effect::Replays(exec) | Effect::Discards(exec) => is_name(exec) && is(exec, Direction::In),
                Effect::Alters(Altered { exec, node, parameters, .. }) => [exec, node, parameters]
                    .into_iter()
                    .all(|index| is_name(index) && is(index, Direction::In)),
                Effect::Records(by) | Effect::Unloads(_, by) => is_name(by) && is(by, Direction::In),
                Effect::Grants(Grant { by, size, to, .. }) => {
                    let all = [Some(by), size, Some(to)];
                    is_name(by) && all.into_iter().flatten().all(|index| is(index, Direction::In))
                }
                Effect::Begins => true,
                Effect::Gathers(team) => f.makes().is_some_and(|made| made.by == team),
                Effect::Joins(Joined { team, device }) => {
                    is_name(team) && [team, device].into_iter().all(|index| is(index, Direction::In))
                }
                Effect::Binds(Bound { by, size, device, team, at, .. }) => {
                    let all = [Some(by), Some(size), device, Some(team), Some(at)];
                    is_name(by) && all.into_iter().flatten().all(|index| is(index, Direction::In))
                }
                Effect::Unbinds(Unbound { team, size, device, at }) => {
                    let all = [team, size, device, at];
                    is_name(team) && all.into_iter().all(|index| is(index, Direction::In))
                }
            };
            assert!(is_sound, "{}: {effect:?}", f.name);
        }
    }
}

#[test]
fn what_is_shared_can_be_given_back() {
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
fn what_undoes_a_call_takes_words_of_it() {
    for f in FUNCTIONS {
        let is_done = f.opens().is_some() || f.enables().is_some() || f.makes().is_some();
        assert_eq!(f.undone_by().is_some(), is_done || f.retains().is_some(), "{}", f.name);
        let Some((inverse, given)) = f.undone_by() else { continue };
        let words: Vec<usize> = inverse.spec().args.iter().map(|arg| arg.stored()).collect();
        let taken = if given.size.is_some() { &[8, 8][..] } else { &[8] };
        assert_eq!((words.as_slice(), f.args[given.by].stored()), (taken, 8), "{}", f.name);
        if let (Some(size), Some(end)) = (given.size, inverse.spec().ends()) {
            assert_eq!((end.by, end.size, f.args[size].stored()), (0, Some(1), 8), "{}", f.name);
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
    ] {
        assert_eq!(undone(id), Some(inverse), "the newest form");
    }
}

#[test]
fn arguments_have_places_in_the_slot() {
    let open = FnId::cuIpcOpenMemHandle_v2.spec();
    assert_eq!([0, 1, 2, 3].map(|index| open.place(index)), [0..8, 8..24, 24..28, 28..28]);
}

#[test]
fn every_function_is_documented_and_in_a_group() {
    for f in FUNCTIONS {
        assert!(f.doc().ends_with('.') && f.groups().next().is_some(), "{}", f.name);
    }
}

#[test]
fn what_functions_share_has_kinds_of_its_own() {
    use crate::record::live::kind::*;
    for f in FUNCTIONS {
        if let Some(shared) = f.exports().or(f.opens()) {
            let (exported, opened) = kinds(shared.object);
            assert_eq!(exported_object(exported), Some(shared.object), "{}", f.name);
            assert_eq!(opened_object(opened), Some(shared.object), "{}", f.name);
            assert_eq!((export_of(opened), export_of(exported)), (Some(exported), None), "{}", f.name);
        }
        if let Some(access) = f.enables() {
            let kind = opened(access.object);
            assert_eq!((opened_object(kind), is_access(kind)), (Some(access.object), true), "{}", f.name);
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
