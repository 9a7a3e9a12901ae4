//! Each effect of the table, in the report: whatever functions share something, the ledger has it; whatever functions give
//! access or ask about it, the matrix.

use super::json_of;
use super::scene::{Actor, Scene, checked, handle};
use cupeer_record::Call;
use cupeer_record::writer;
use cupeer_spec::effect::{Object, Shared, Subject};
use cupeer_spec::function::{FnId, FnSpec};
use serde_json::{Value, json};

/// The functions that do something, and what it is.
fn those<T>(does: impl Fn(&'static FnSpec) -> Option<T>) -> Vec<(FnId, T)> {
    FnId::all().filter_map(|id| Some((id, does(id.spec())?))).collect()
}

/// Gives an argument a number.
fn set(call: &mut Call, function: FnId, argument: usize, number: u64) {
    let arg = &function.spec().args()[argument];
    writer::set(call, arg.name(), &number.to_le_bytes()[..arg.stored_size()]);
}

/// A call that exports or opens the handle 0x11.
fn sharing(actor: &Actor, at: u64, function: FnId, shared: Shared, address: u64) -> Call {
    let mut call = actor.makes(function, at);
    let arg = &function.spec().args()[shared.handle];
    let mut bytes = handle(0x11, checked(0x11)).to_vec();
    bytes.resize(arg.stored_size(), 0);
    writer::set(&mut call, arg.name(), &bytes);
    set(&mut call, function, shared.by, address);
    call
}

/// A function that exports something, one that opens it, and the kind of thing.
type Pair = ((FnId, Shared), (FnId, Shared), Object);

/// Every pair of functions by which one process shares something with another one.
fn pairs() -> Vec<Pair> {
    let exporting = those(FnSpec::exports).into_iter();
    let pairs = exporting.flat_map(|exporting| {
        let opening = those(FnSpec::opens).into_iter().filter(move |(_, to)| to.object == exporting.1.object);
        opening.map(move |opening| (exporting, opening, exporting.1.object))
    });
    pairs.collect()
}

/// The handle that one process shares by these functions with another one, after these calls of theirs.
#[track_caller]
fn shared(
    ((exports, exported), (opens, opened), object): Pair,
    exporter_ends: impl FnOnce(&Actor) -> Option<Call>,
    importer_ends: impl FnOnce(&Actor) -> Option<Call>,
) -> Value {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    let mut call = sharing(&exporter, 100, exports, exported, 0x7000);
    if object.is_memory() {
        call.details.memory = Some((0x7000, 4096));
        call.details.owner = Some((0xc0, 0));
    }
    exporter.add(&call);
    importer.add(&sharing(&importer, 200, opens, opened, 0x9000));
    if let Some(call) = exporter_ends(&exporter) {
        exporter.add(&call);
    }
    if let Some(call) = importer_ends(&importer) {
        importer.add(&call);
    }
    // It was there to the end.
    importer.ask(400, 1);
    exporter.ends();
    importer.ends();
    let report = json_of(&scene, &[]);
    let handles = report["handles"].as_array().unwrap();
    let what = format!("{} {}", exports.spec().name(), opens.spec().name());
    assert_eq!(handles.len(), 1, "{what}");
    assert_eq!(handles[0]["kind"], object.word(), "{what}");
    assert_eq!(handles[0]["exporter"], exporter.about.proc(), "{what}");
    assert_eq!(handles[0]["opens"][0]["proc"], importer.about.proc(), "{what}");
    handles[0].clone()
}

#[test]
fn shared_objects_and_their_releases_are_in_the_ledger() {
    assert!(pairs().len() >= 3);
    for pair in pairs() {
        let object = pair.2;
        assert_eq!(shared(pair, |_| None, |_| None)["state"], "open at exit", "{object:?}");
        for (closes, closed) in those(FnSpec::closes).into_iter().filter(|(_, closed)| closed.object == object) {
            let close = |importer: &Actor| {
                let mut call = importer.makes(closes, 300);
                set(&mut call, closes, closed.by, 0x9000);
                Some(call)
            };
            let found = shared(pair, |_| None, close);
            let name = closes.spec().name();
            assert_eq!((&found["state"], &found["opens"][0]["closed_by"]), (&json!("closed"), &json!(name)));
        }
        let ends = |end: Object| end == object || end.is_context();
        for (function, end) in those(FnSpec::ends).into_iter().filter(|(_, end)| ends(end.object)) {
            let ends = |exporter: &Actor| {
                let mut call = exporter.makes(function, 300);
                let number = match end.object {
                    Object::Context => 0xc0,
                    Object::Primary => 0,
                    _ => 0x7000,
                };
                set(&mut call, function, end.by, number);
                Some(call)
            };
            let found = shared(pair, ends, |_| None);
            let name = function.spec().name();
            let (state, by) = match object.outlives_its_maker() {
                _ if object.needs_granted_access() && end.object.is_context() => ("open at exit", Value::Null),
                true => ("open at exit", json!(name)),
                false => ("freed while open", json!(name)),
            };
            assert_eq!((&found["state"], &found["freed_by"]), (&json!(state), &by), "{object:?} {name}");
        }
    }
}

/// The one row of the matrix after these calls.
#[track_caller]
fn peer(calls: impl FnOnce(&mut Actor)) -> Value {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    actor.device(0).device(1);
    calls(&mut actor);
    actor.ends();
    let report = json_of(&scene, &[]);
    let peers = report["peers"].as_array().unwrap();
    assert_eq!(peers.len(), 1, "{peers:#?}");
    peers[0].clone()
}

#[test]
fn access_and_queries_about_it_are_in_the_matrix() {
    let between = |actor: &Actor, at: u64, function: FnId, by: usize| {
        let mut call = actor.makes(function, at);
        call.details.devices = (Some(0), Some(1));
        set(&mut call, function, by, 0xc1);
        call
    };
    for (enables, enabled) in those(FnSpec::enables) {
        let row = peer(|actor| {
            actor.add(&between(actor, 100, enables, enabled.by));
        });
        assert_eq!((&row["enabled"], &row["disabled_ns"]), (&json!(true), &Value::Null));
        for (disables, disabled) in those(FnSpec::disables) {
            let row = peer(|actor| {
                actor.add(&between(actor, 100, enables, enabled.by));
                actor.add(&between(actor, 200, disables, disabled.by));
            });
            assert!(row["disabled_ns"].is_string() || row["disabled_ns"].is_number(), "{row:#}");
        }
    }
    for (asks, question) in those(FnSpec::device_query) {
        let Some(to) = question.peer.filter(|_| question.subject != Subject::Device) else { continue };
        let row = peer(|actor| {
            let mut call = actor.makes(asks, 100);
            set(&mut call, asks, question.device, 0);
            set(&mut call, asks, to, 1);
            if let Some((choice, reach)) = question.choice {
                set(&mut call, asks, choice, reach as u64);
            }
            if asks.spec().args()[question.answer].count_argument().is_none() {
                set(&mut call, asks, question.answer, 1);
            }
            actor.add(&call);
        });
        let says_reach = question.subject == Subject::Reach || question.choice.is_some();
        let can = if says_reach { json!(true) } else { Value::Null };
        assert_eq!((&row["asked"], &row["can_access"]), (&json!(1), &can), "{}", asks.spec().name());
    }
}
