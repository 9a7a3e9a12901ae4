//! Calls of the driver within a call of the runtime.

use super::json_of;
use super::scene::{Actor, RUNTIME, Scene, us};
use cupeer_record::{Call, Outcome};
use cupeer_spec::function::FnId;
use serde_json::{Value, json};

/// A call of the driver that fails, made by the runtime.
fn refused(actor: &Actor, at: u64) -> Call {
    let mut call = actor.makes(FnId::cuIpcCloseMemHandle, at);
    (call.caller, call.outcome) = (RUNTIME + 0x100, Outcome::Returned(1));
    call
}

/// A call of the runtime, which takes 100 microseconds.
fn of_runtime(actor: &Actor, at: u64, result: i32) -> Call {
    let mut call = actor.makes(FnId::cudaIpcCloseMemHandle, at);
    (call.end, call.outcome) = (us(at + 100), Outcome::Returned(result));
    call
}

/// Function, runtime's function and its result of each failure, in order.
fn failures(report: &Value) -> Vec<[Value; 3]> {
    let failures = report["failures"].as_array().unwrap().iter();
    let row = |failure: &Value| {
        let made = &failure["runtime"];
        [failure["function"].clone(), made["function"].clone(), made["result"].clone()]
    };
    failures.map(row).collect()
}

#[test]
fn a_failure_is_told_of_with_the_call_that_it_was_made_in() {
    let scene = Scene::new();
    let mut actor = scene.rank(0);
    actor.runtime();
    let told = (of_runtime(&actor, 100, 1), refused(&actor, 120));
    // The runtime fails by itself: it has not asked the driver, or that had nothing against it.
    let own = of_runtime(&actor, 300, 35);
    let mut granted = refused(&actor, 320);
    granted.outcome = Outcome::Returned(0);
    // Behind it, and by a signal handler meanwhile.
    let behind = refused(&actor, 500);
    let during = of_runtime(&actor, 600, 0);
    let mut handler = refused(&actor, 620);
    handler.caller = actor.makes(FnId::cuIpcCloseMemHandle, 620).caller;
    for call in [&told.0, &told.1, &own, &granted, &behind, &during, &handler] {
        actor.add(call);
    }
    actor.ends();
    let (driver, runtime, none) = (json!("cuIpcCloseMemHandle"), json!("cudaIpcCloseMemHandle"), || Value::Null);
    let expected = [
        [driver.clone(), runtime.clone(), json!("cudaErrorInvalidValue")],
        [runtime, none(), none()],
        [driver.clone(), none(), none()],
        [driver, none(), none()],
    ];
    assert_eq!(failures(&json_of(&scene, &[])), expected);
    // If the driver's call is filtered out, that of the runtime is shown instead.
    let filtered = json_of(&scene, &["--function", "@runtime"]);
    assert_eq!(failures(&filtered).len(), 2, "{filtered:#}");
}

#[test]
fn a_call_that_hangs_in_one_of_the_runtimes_is_one() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    actor.runtime();
    let (outer, inner) = (of_runtime(&actor, 100, 0), refused(&actor, 120));
    actor.hang(&outer).hang(&inner).ends();
    let report = json_of(&scene, &[]);
    let pending = report["processes"][0]["pending"].as_array().unwrap();
    assert_eq!(pending.len(), 1, "{pending:#?}");
    assert_eq!(pending[0]["runtime"], json!({"function": "cudaIpcCloseMemHandle", "result": null}));
}

/// A call that was left by a jump did not return, and later calls are not in it.
#[test]
fn a_call_that_was_left_by_a_jump_makes_no_others() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    actor.runtime();
    let (left, later) = (of_runtime(&actor, 100, 0), refused(&actor, 400));
    actor.hang(&left).add(&later).ends();
    let report = json_of(&scene, &[]);
    assert_eq!(failures(&report), [[json!("cuIpcCloseMemHandle"), Value::Null, Value::Null]]);
    assert_eq!(report["processes"][0]["pending"][0]["function"], "cudaIpcCloseMemHandle");
}

/// A runtime may call its own functions. The failure that the innermost call has is that of all.
#[test]
fn calls_of_the_runtime_may_be_in_one_another() {
    let scene = Scene::new();
    let mut actor = scene.rank(0);
    actor.runtime();
    let outer = of_runtime(&actor, 100, 35);
    let (mut inner, mut driver, later) =
        (actor.makes(FnId::cudaDeviceDisablePeerAccess, 110), refused(&actor, 120), refused(&actor, 170));
    (inner.end, inner.outcome) = (us(150), Outcome::Returned(35));
    driver.outcome = Outcome::Returned(0);
    for call in [&outer, &inner, &driver, &later] {
        actor.add(call);
    }
    actor.ends();
    let result = json!("cudaErrorInsufficientDriver");
    let expected = [
        [json!("cudaDeviceDisablePeerAccess"), Value::Null, Value::Null],
        [json!("cuIpcCloseMemHandle"), json!("cudaIpcCloseMemHandle"), result],
    ];
    assert_eq!(failures(&json_of(&scene, &[])), expected);
}
