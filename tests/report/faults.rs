//! Effects of fault plans: counted separately, and not taken for mistakes of the program or the driver.

use super::scene::{Actor, Scene, checked, hit};
use super::{json_of, of};
use cupeer_record::writer;
use cupeer_record::{Call, Outcome};
use cupeer_spec::function::FnId;
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::record::slot::hit::did;
use cupeer_spec::record::slot::shape;
use serde_json::{Value, json};

const NOT_CALLED: u16 = did::ERROR | did::NOT_CALLED;

/// A call that a rule made fail, in place of the driver.
fn failed(mut call: Call, result: i32, rule: &str) -> Call {
    (call.outcome, call.injected) = (Outcome::Returned(result), true);
    call.details.hits = vec![hit(NOT_CALLED, rule)];
    call
}

/// A call that closes memory.
fn closing(actor: &Actor, at: u64, address: u64) -> Call {
    let mut call = actor.makes(FnId::cuIpcCloseMemHandle, at);
    writer::set(&mut call, "dptr", &address.to_le_bytes());
    call
}

/// Somebody who exports memory and frees it, and somebody who does with the handle what the test says.
fn two(imports: impl FnOnce(&mut Actor)) -> Scene {
    let scene = Scene::new();
    scene.gone(0).export(100, 0x11, 0x7000).free(400, 0x7000).ends();
    let mut importer = scene.gone(1);
    imports(&mut importer);
    importer.ends();
    scene
}

/// That nothing is taken for anybody's fault.
#[track_caller]
fn assert_nobody_is_blamed(scene: &Scene) -> Value {
    let report = json_of(scene, &[]);
    assert_eq!((&report["findings"], &report["leaks"]), (&json!([]), &json!([])), "{report:#}");
    let text = of(scene, &[]);
    assert!(!text.contains("Problems") && text.contains("was broken by "), "{text}");
    report
}

/// The rules without the calls at which they fired.
fn without_hits(report: &Value) -> Value {
    let mut faults = report["faults"].clone();
    for row in faults.as_array_mut().expect("an array") {
        row.as_object_mut().expect("an object").retain(|key, _| !key.starts_with("hits"));
    }
    faults
}

#[test]
fn each_rule_says_at_which_calls_it_fired() {
    let scene = two(|importer| {
        importer.open(200, 0x11, 0x9000);
        let mut late = closing(importer, 300, 0x9000);
        late.details.hits = vec![hit(did::DELAY | did::DELAY_AFTER, "inject/2")];
        (late.details.hits[0].what.waited, late.details.hits[0].what.count) = (1_500_000, 7);
        let mut undone = failed(importer.opening(400, (0x11, checked(0x11)), 0), 205, "inject/1");
        undone.details.hits[0].what.did = did::ERROR | did::UNDONE;
        // Told of before the call, which the driver then refuses.
        let mut hung = closing(importer, 500, 0x9000);
        hung.details.hits = vec![hit(did::HANG, "armed/gate")];
        hung.outcome = Outcome::Returned(1);
        let mut denied = failed(importer.opening(600, (0x11, checked(0x11)), 0), 217, "deny-peer/1");
        denied.details.hits[0].what.did |= did::DENIED;
        denied.details.hits.push(hit(0, "armed/gate"));
        importer.add(&late).add(&undone).add(&hung).add(&denied);
        let mut never = closing(importer, 700, 0x9000);
        let number = importer.begins(&never);
        never.details.hits = vec![hit(did::HANG, "inject/2")];
        let (stream, details) = (importer.stream, (*never.details).clone());
        importer.writer().details(stream, number, &details).unwrap();
    });
    scene.faults(&[("cuIpcOpen*:stage=undo:error=205", 1, 1), ("cuIpcClose*:delay=1ms", 2, 2)], &[]);
    let report = json_of(&scene, &[]);
    let faults = report["faults"].as_array().unwrap();
    let seen = |row: &Value| {
        let hits = row["hits"].as_array().unwrap().iter();
        let of =
            |hit: &Value| json!([hit["function"], hit["count"], hit["did"], hit["driver_result"], hit["waited_ns"]]);
        json!([row["name"], row["hits_more"], hits.map(of).collect::<Vec<_>>()])
    };
    let (open, close) = ("cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle");
    let expected = [
        json!(["inject/1", 0, [[open, 1, ["error", "undone"], "CUDA_SUCCESS", 0]]]),
        json!([
            "inject/2",
            0,
            [[close, 7, ["delay", "delay-after"], "CUDA_SUCCESS", 1_500_000], [close, 1, ["hang"], null, 0]]
        ]),
        json!(["armed/gate", 0, [[close, 1, ["hang"], "CUDA_ERROR_INVALID_VALUE", 0], [open, 1, [], null, 0]]]),
        json!(["deny-peer/1", 0, [[open, 1, ["error", "denied", "not-called"], null, 0]]]),
    ];
    assert_eq!(faults.iter().map(seen).collect::<Vec<_>>(), expected);
    let (first, process) = (&faults[0]["hits"][0], &report["processes"][1]);
    assert_eq!((&first["proc"], first["tid"].is_u64()), (&process["proc"], true));
    assert!(first["seq"].is_u64() && first["time_ns"].is_u64());
    let text = of(&scene, &[]).split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "inject/1 at cuIpcOpenMemHandle_v2, rank 1, at 0.000400: error, undone (call 1 of those it counts) - inject/2 at ",
        ": delay, delay after, waited 1.5ms (call 7 of those it counts)",
        ": hang (call 1 of those it counts) - armed/gate at",
        ": error, denied, not called Functions ",
        "- armed/gate at cuIpcOpenMemHandle_v2, rank 1, at 0.000600: nothing (call 1 of those it counts)",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    // Those of another process are not chosen.
    let other = json_of(&scene, &["--rank", "0"]);
    assert_eq!((&other["faults"][0]["fired"], &other["faults"][0]["hits"]), (&json!(1), &json!([])));
}

#[test]
fn the_first_of_many_calls_of_a_rule_are_kept() {
    let scene = Scene::new();
    // The first calls are those of the process that is read last.
    for (rank, from) in [(0, 10_000), (1, 1_000)] {
        let mut actor = scene.gone(rank);
        for i in 0..130 {
            let mut call = closing(&actor, from + 20 * i, 0x9000);
            call.details.hits = vec![hit(did::DELAY, "inject/1")];
            call.details.hits[0].what.count = i + 1;
            actor.add(&call);
        }
        actor.ends();
    }
    scene.faults(&[("cuIpcCloseMemHandle:delay=1ms", 260, 260)], &[]);
    let report = json_of(&scene, &[]);
    let (row, proc) = (&report["faults"][0], &report["processes"][1]["proc"]);
    let hits = row["hits"].as_array().unwrap();
    let counts: Vec<u64> = hits.iter().map(|hit| hit["count"].as_u64().unwrap()).collect();
    assert_eq!((counts, &row["hits_more"]), ((1..=100).collect(), &json!(160)));
    assert!(hits.iter().all(|hit| hit["proc"] == *proc), "{hits:#?}");
    let lines = |options: &[&str]| of(&scene, options).matches("\n- inject/1 at ").count();
    let text = of(&scene, &[]);
    assert!(text.contains("\n... 257 more calls; --all shows the first of them\n"), "{text}");
    let text = of(&scene, &["--all"]);
    assert!(text.contains("\n... 160 more calls\n"), "{text}");
    assert_eq!((lines(&[]), lines(&["--all"])), (3, 100));
}

#[test]
fn failures_that_a_rule_made_are_counted_apart() {
    let scene = two(|importer| {
        for i in 0..3 {
            let mut call = importer.opening(200 + 20 * i, (0x11, checked(0x11)), 0);
            writer::set_shape(&mut call, "pdptr", shape::UNREAD);
            importer.add(&failed(call, 205, "inject/1"));
        }
    });
    scene.faults(&[("cuIpcOpenMemHandle*:error=MAP_FAILED", 3, 3), ("cuMemFree:when=5:delay=1s", 1, 0)], &[]);
    let report = assert_nobody_is_blamed(&scene);
    let faults = json!([
        {"plan": "inject", "name": "inject/1", "rule": "cuIpcOpenMemHandle*:error=MAP_FAILED", "matched": 3,
         "fired": 3, "processes": 4, "dry_run": false, "only_seen": false},
        {"plan": "inject", "name": "inject/2", "rule": "cuMemFree:when=5:delay=1s", "matched": 1, "fired": 0,
         "processes": 4, "dry_run": false, "only_seen": false},
    ]);
    assert_eq!(without_hits(&report), faults);
    for failure in [&report["failures"][0], &report["failure_groups"][0]] {
        assert_eq!((&failure["injected"], &failure["injected_by"]), (&json!(true), &json!("inject/1")));
    }
    assert_eq!(report["failure_groups"][0]["count"], 3);
    assert_eq!((&report["functions"][0]["injected"], &report["processes"][1]["injected"]), (&json!(3), &json!(3)));
    assert_eq!(report["handles"][0]["failed"][0]["injected"], 3);
    let peer = &report["peers"][0];
    assert_eq!((&peer["injected"], &peer["unmapped_since_failure"]), (&json!(3), &json!(false)));
    let text = of(&scene, &[]);
    for line in [
        "No rule that was checked was broken by the 5 calls that were recorded. 3 calls\nfailed because of a fault plan.",
        "- 3 calls failed (injected)\n",
        "inject/1        3      3  cuIpcOpenMemHandle*:error=MAP_FAILED\n",
        "inject/2        1      0  cuMemFree:when=5:delay=1s (never fired; counted in\n                          each process)\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(of(&scene, &["--failed"]).contains("<10.0us> (INJECTED by inject/1)\n"));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("rank 1 failed: 3 MAP_FAILED (INJECTED)"), "{text}");
}

#[test]
fn a_failure_of_the_driver_stays_one_beside_those_of_a_rule() {
    let scene = two(|importer| {
        let call = importer.opening(200, (0x11, checked(0x11)), 0);
        importer.add(&failed(call, 205, "inject/1")).fail_to_open(300, (0x11, checked(0x11)), 205);
    });
    let report = json_of(&scene, &[]);
    let groups = report["failure_groups"].as_array().unwrap();
    let kinds: Vec<_> = groups.iter().map(|group| (&group["injected"], &group["count"])).collect();
    assert_eq!(kinds.len(), 2, "{groups:#?}");
    assert!(kinds.contains(&(&json!(true), &json!(1))) && kinds.contains(&(&json!(false), &json!(1))));
    assert!(of(&scene, &[]).contains("- 1 call failed\n"), "{}", of(&scene, &[]));
    assert_eq!(report["peers"][0]["unmapped_since_failure"], true);
}

#[test]
fn a_mapping_whose_closing_failed_on_purpose_is_no_leak() {
    // The exporter frees at 400 what the importer would have closed by then.
    let scene = two(|importer| {
        importer.open(200, 0x11, 0x9000);
        let close = closing(importer, 300, 0x9000);
        importer.add(&failed(close, 999, "inject/1")).ask(500, 1);
    });
    let report = assert_nobody_is_blamed(&scene);
    assert_eq!(report["handles"][0]["state"], "open on purpose");
    assert_eq!(report["handles"][0]["opens"][0]["state"], "open on purpose");
    assert!(of(&scene, &[]).contains("- 1 handle is open, which a fault plan kept from being closed\n"));
    assert!(of(&scene, &["--leaks"]).contains("Each handle that was opened was closed or released."));

    let scene = two(|importer| {
        importer.open(200, 0x11, 0x9000);
        let mut close = failed(closing(importer, 300, 0x9000), 999, "inject/1");
        close.details.hits[0].what.did = did::ERROR;
        importer.add(&close).ask(500, 1);
    });
    let report = assert_nobody_is_blamed(&scene);
    assert_eq!(report["handles"][0]["state"], "closed", "the driver closed it all the same");

    let scene = two(|importer| {
        importer.open(200, 0x11, 0x9000);
        let close = closing(importer, 300, 0x9000);
        importer.add(&failed(close, 999, "inject/1")).close(350, 0x9000);
    });
    assert_eq!(assert_nobody_is_blamed(&scene)["handles"][0]["state"], "closed", "at the second try");

    // Nobody kept this one open.
    let scene = two(|importer| {
        importer.open(200, 0x11, 0x9000).ask(500, 1);
    });
    assert_eq!(json_of(&scene, &[])["handles"][0]["state"], "freed while open");
}

#[test]
fn an_opening_at_a_wrong_address_cannot_be_closed() {
    let scene = Scene::new();
    scene.gone(0).export(100, 0x11, 0x7000).ends();
    let mut importer = scene.gone(1);
    let mut open = importer.opening(200, (0x11, checked(0x11)), 0);
    open.injected = true;
    open.details.hits = vec![hit(did::OUT, "inject/1")];
    importer.add(&open).ends();
    assert_eq!(assert_nobody_is_blamed(&scene)["handles"][0]["state"], "open on purpose");
}

#[test]
fn a_damaged_handle_is_nobodys_fault() {
    // 0x5a has the checked bytes of 0x11, as after a byte was turned.
    let scene = two(|importer| {
        importer.fail_to_open(200, (0x5a, checked(0x11)), 1).ask(300, 1);
    });
    assert_eq!(json_of(&scene, &[])["findings"][0]["rule"], "ipc-damaged-handle", "without a plan");
    scene.faults(&[("cuIpcGetMemHandle:out=pHandle=flip/9", 1, 1)], &[0x5a]);
    let report = assert_nobody_is_blamed(&scene);
    assert_eq!(report["handles"][0]["state"], "damaged on purpose");
    assert_eq!(report["handles"][0]["failed"][0]["injected"], 1);
    let failure = &report["failures"][0];
    assert_eq!((&failure["injected"], &failure["follows_fault"]), (&json!(false), &json!(true)));
    let text = of(&scene, &[]);
    assert!(text.contains("- 1 call failed because a fault plan had changed their input\n"), "{text}");
    assert!(text.contains("- 1 handle is damaged by a fault plan\n"), "{text}");

    // Without a list of it, the call that returned it is enough.
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    let mut export = exporter.makes(FnId::cuIpcGetMemHandle, 100);
    writer::set(&mut export, "pHandle", &super::scene::handle(0x5a, 0x5b));
    export.injected = true;
    export.details.hits = vec![hit(did::OUT, "inject/1")];
    exporter.add(&export).ends();
    importer.fail_to_open(200, (0x5a, 0x5b), 1).ask(300, 1).ends();
    let report = json_of(&scene, &[]);
    assert_eq!((&report["handles"][0]["state"], &report["findings"]), (&json!("damaged on purpose"), &json!([])));
}

#[test]
fn deliberate_hangs_say_how_they_are_released() {
    let scene = Scene::new();
    let mut actor = scene.running(0);
    let mut call = actor.makes(FnId::cuIpcCloseMemHandle, 100);
    let number = actor.begins(&call);
    call.details.hits = vec![hit(did::HANG, "inject/1")];
    let (stream, details) = (actor.stream, (*call.details).clone());
    actor.writer().details(stream, number, &details).unwrap();
    actor.ends();
    scene.faults(&[("cuIpcCloseMemHandle:hang=gate", 1, 1)], &[]);
    let report = assert_nobody_is_blamed(&scene);
    let pending = &report["processes"][0]["pending"][0];
    assert_eq!((&pending["injected_by"], &pending["release"]), (&json!("inject/1"), &json!("gate")));
    let text = of(&scene, &[]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("- 1 call has not returned (held by a fault plan)"), "{text}");
    assert!(text.contains("cupeer-run-1 gate` ends it"), "{text}");
}

#[test]
fn a_process_that_a_rule_ended_leaves_nothing_behind_that_is_its_fault() {
    let killed = |on_purpose: bool| {
        let scene = Scene::new();
        let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
        exporter.export(100, 0x11, 0x7000).ends();
        importer.open(200, 0x11, 0x9000);
        let mut call = importer.makes(FnId::cuIpcCloseMemHandle, 300);
        let number = importer.begins(&call);
        if on_purpose {
            call.details.hits = vec![hit(did::SIGNAL | did::NOT_CALLED, "inject/1")];
        }
        let (stream, details) = (importer.stream, (*call.details).clone());
        importer.writer().details(stream, number, &details).unwrap();
        importer.ends();
        scene
    };
    let report = assert_nobody_is_blamed(&killed(true));
    assert_eq!(report["handles"][0]["state"], "open on purpose");
    let report = json_of(&killed(false), &[]);
    assert_eq!(report["handles"][0]["state"], "open at exit");
    assert_eq!(report["findings"][0]["rule"], "ipc-never-closed");
}

#[test]
fn denied_pairs_are_no_failing_ones() {
    let scene = Scene::new();
    scene.gone(0).export(100, 0x11, 0x7000).ends();
    let mut importer = scene.gone(1);
    let mut ask = importer.makes(FnId::cuDeviceCanAccessPeer, 200);
    writer::set(&mut ask, "dev", &1i32.to_le_bytes());
    ask.injected = true;
    ask.details.hits = vec![hit(did::DENIED | did::OUT, "deny-peer/1")];
    let open = importer.opening(300, (0x11, checked(0x11)), 0);
    let mut denied = failed(open, 217, "deny-peer/1");
    denied.details.hits[0].what.did |= did::DENIED;
    importer.add(&ask).add(&denied).ask(400, 1).ends();
    let report = assert_nobody_is_blamed(&scene);
    let peer = &report["peers"][0];
    assert_eq!((&peer["injected"], &peer["unmapped_since_failure"]), (&json!(2), &json!(false)));
    let cuda = report["functions"].as_array().unwrap().iter();
    let injected: Vec<_> = cuda.filter(|row| row["injected"] == 1).map(|row| &row["function"]).collect();
    assert_eq!(injected.len(), 2, "{injected:?}");
}

#[test]
fn differences_of_ranks_are_reported_with_their_faults() {
    let scene = Scene::new();
    for rank in 0..6 {
        let mut actor = scene.gone(rank);
        if rank == 4 {
            let enable = actor.makes(FnId::cuCtxEnablePeerAccess, 50);
            actor.add(&failed(enable, 217, "inject/1"));
            actor.simple(100, FnId::cuIpcCloseMemHandle, "dptr", &[0; 8]);
        }
        for i in 0..5 {
            let mut call = actor.makes(FnId::cuIpcGetEventHandle, 200 + 20 * i);
            call.outcome = Outcome::Returned(if rank == 5 { 400 } else { 0 });
            actor.add(&call).close(210 + 20 * i, 0x9000);
        }
        if rank == 5 {
            let ask = actor.makes(FnId::cuDeviceCanAccessPeer, 900);
            actor.add(&failed(ask, 1, "inject/2"));
        }
        actor.ends();
    }
    let report = json_of(&scene, &[]);
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["rule"] == "ranks-differ").expect("it is found");
    let message = finding["message"].as_str().unwrap();
    assert!(message.ends_with("; a fault plan changed calls there"), "{message}");
    let text = of(&scene, &[]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("rank 4 made 6, the others 5; a fault plan changed calls of rank 4"), "{text}");
}

#[test]
fn calls_that_the_driver_made_anyway_are_news_to_the_program() {
    let again = |did: u16| {
        let scene = Scene::new();
        let mut actor = scene.gone(0);
        let mut first = actor.makes(FnId::cuCtxEnablePeerAccess, 100);
        first.details.devices = (Some(0), Some(1));
        let mut first = failed(first, 999, "inject/1");
        first.details.hits[0].what.did = did;
        actor.add(&first).enable_between(200, (0, 1), 704).ends();
        json_of(&scene, &[])["findings"].as_array().unwrap().len()
    };
    assert_eq!(again(did::ERROR), 0, "the driver had switched it on");
    assert_eq!((again(NOT_CALLED), again(did::ERROR | did::UNDONE)), (1, 1), "it had not");
}

#[test]
fn a_trace_marks_the_calls_that_a_rule_changed() {
    let scene = two(|importer| {
        importer.open(200, 0x11, 0x9000);
        let close = closing(importer, 300, 0x9000);
        importer.add(&failed(close, 999, "inject/1"));
        let mut slow = closing(importer, 350, 0x9000);
        slow.details.hits = vec![hit(did::DELAY, "inject/2")];
        importer.add(&slow);
    });
    let trace: Value = serde_json::from_str(&of(&scene, &["--format", "trace"])).unwrap();
    let slices = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    let marked: Vec<&Value> = slices.clone().filter(|slice| slice["cname"].is_string()).collect();
    assert_eq!((slices.count(), marked.len()), (5, 2));
    assert_eq!(marked[0]["args"]["injected_by"], "inject/1");
    assert_eq!(marked[0]["args"]["faults"], json!(["inject/1: error, not-called"]));
    assert_eq!(marked[1]["args"]["faults"], json!(["inject/2: delay"]));
    assert_eq!(marked[1]["args"]["injected_by"], Value::Null);
}

#[test]
fn faults_of_two_records_are_compared() {
    let record = |fired: u64| {
        let scene = two(|importer| {
            importer.open(200, 0x11, 0x9000).close(300, 0x9000);
        });
        scene.faults(&[("cuMemFree:p=50%:error=999:seed=1", 1, fired), ("@ipc:delay=1ms", 3, 3)], &[]);
        scene
    };
    let (one, other) = (record(0), record(1));
    let other = other.dir().display().to_string();
    let diff = json_of(&one, &["--diff", &other]);
    let faults = json!([
        {"name": "inject/1", "rule": "cuMemFree:p=50%:error=999:seed=1", "matched": [1, 1], "fired": [0, 1],
         "differs": true},
        {"name": "inject/2", "rule": "@ipc:delay=1ms", "matched": [3, 3], "fired": [3, 3], "differs": false},
    ]);
    assert_eq!(diff["faults"], faults);
    let text = of(&one, &["--diff", &other]);
    assert!(
        text.contains("Faults that differ\nFAULT     MATCHED  FIRED   DEFINITION\ninject/1  1        0 -> 1  cuMem"),
        "{text}"
    );
    assert!(text.contains("1 fault is as frequent in both"), "{text}");
}

#[test]
fn a_plan_that_was_only_tried_says_so() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    actor.writer().variable("CUPEER_DRY_RUN", "1").unwrap();
    let mut call = closing(&actor, 100, 0x9000);
    call.details.hits = vec![hit(did::DRY, "inject/1")];
    actor.add(&call).ends();
    scene.faults(&[("cuIpcCloseMemHandle:error=999", 1, 1)], &[]);
    let report = json_of(&scene, &[]);
    assert_eq!((&report["faults"][0]["dry_run"], &report["processes"][0]["injected"]), (&json!(true), &json!(0)));
    assert!(of(&scene, &[]).contains("\nFaults of a dry run: they changed nothing\n"));
}

#[test]
fn rules_that_a_program_armed_itself_are_known_by_their_calls() {
    let scene = two(|importer| {
        importer.open(200, 0x11, 0x9000);
        for at in [300, 320] {
            let close = closing(importer, at, 0x9000);
            importer.add(&failed(close, 999, "armed/1"));
        }
    });
    let rule = json!({"plan": "armed", "name": "armed/1", "rule": null, "matched": null, "fired": 2, "processes": 1,
                      "dry_run": false, "only_seen": false});
    assert_eq!(without_hits(&json_of(&scene, &[])), json!([rule]));
    let text = of(&scene, &[]);
    assert!(text.contains("armed/1        -      2  (armed by the program)\n"), "{text}");
}

#[test]
fn failures_of_calls_that_a_plan_changed_are_not_blamed() {
    // Closed at another address than the driver's, which it does not know.
    let refused = |actor: &Actor, at: u64, address: u64| {
        let mut call = closing(actor, at, address);
        call.outcome = Outcome::Returned(1);
        call
    };
    let scene = Scene::new();
    scene.gone(0).export(100, 0x11, 0x7000).ends();
    let mut importer = scene.gone(1);
    let mut open = importer.opening(200, (0x11, checked(0x11)), 0x1000);
    open.injected = true;
    open.details.hits = vec![hit(did::OUT, "inject/1")];
    let close = refused(&importer, 300, 0x1000);
    importer.add(&open).add(&close).ends();
    let report = assert_nobody_is_blamed(&scene);
    assert_eq!(report["failure_groups"][0]["follows_fault"], true);
    let text = of(&scene, &[]);
    assert!(text.contains("- 1 call failed because a fault plan had changed their input\n"), "{text}");
    let told = of(&scene, &["--failed"]);
    assert!(told.contains("> (of what a fault plan had CHANGED)"), "{told}");

    // Closed once more, because the program was told that it was not.
    let scene = Scene::new();
    scene.gone(0).export(100, 0x11, 0x7000).ends();
    let mut importer = scene.gone(1);
    let mut first = failed(closing(&importer, 300, 0x9000), 205, "inject/1");
    first.details.hits[0].what.did = did::ERROR;
    let second = refused(&importer, 350, 0x9000);
    importer.open(200, 0x11, 0x9000).add(&first).add(&second);
    // Later openings at that address are real.
    importer.open(400, 0x11, 0x9000).close(450, 0x9000);
    let third = refused(&importer, 500, 0x9000);
    importer.add(&third).ends();
    let groups = json_of(&scene, &[])["failure_groups"].take();
    let groups = groups.as_array().unwrap();
    let kinds: Vec<_> =
        groups.iter().map(|group| (&group["injected"], &group["follows_fault"], &group["count"])).collect();
    for kind in [(true, false), (false, true), (false, false)] {
        assert!(kinds.contains(&(&json!(kind.0), &json!(kind.1), &json!(1))), "{groups:#?}");
    }
}

#[test]
fn a_failure_that_a_plan_may_have_caused_is_told_with_what_is_well() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    let call = failed(actor.makes(FnId::cuIpcGetMemHandle, 100), 1, "inject/1");
    actor.add(&call).writer().change_header(|header| header.end = RecordedEnd::Returned(1).to_word()).unwrap();
    actor.ends();
    let text = of(&scene, &[]);
    let first = text.split_once("\n\n").expect("a digest").0.replace('\n', " ");
    let ended = "1 process exited with an error while a fault plan was active. No rule was broken by ";
    assert!(first.starts_with(ended), "{text}");
}
