//! The form for ui.perfetto.dev.

use super::memory::VirtualMemory;
use super::of;
use super::scene::{Scene, us};
use cupeer_record::writer::About;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The events of a trace, of which every one is well-formed.
#[track_caller]
fn trace(scene: &Scene, options: &[&str]) -> Vec<Value> {
    let text = of(scene, &[&["--format", "trace"], options].concat());
    let mut trace: Value = serde_json::from_str(&text).expect("it is JSON");
    let Value::Array(events) = trace["traceEvents"].take() else { panic!("no events: {text}") };
    let slices: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    for event in &events {
        assert!(event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        match event["ph"].as_str().unwrap() {
            "M" => assert!(event["args"].is_object() && event["name"].is_string(), "{event}"),
            "X" => assert!(event["dur"].as_f64().unwrap() > 0.0 && event["ts"].is_f64(), "{event}"),
            "i" => assert_eq!(event["s"], "t"),
            "C" => assert!(event["ts"].is_f64() && event["args"].is_object(), "{event}"),
            "s" | "t" | "f" => {
                // An arrow is bound to the slice that its point lies in.
                let at = event["ts"].as_f64().unwrap();
                let holds = |slice: &&&Value| {
                    let (ts, dur) = (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap());
                    slice["tid"] == event["tid"] && slice["pid"] == event["pid"] && ts < at && at < ts + dur
                };
                assert!(slices.iter().any(|slice| holds(&slice)), "{event}");
                assert!(event["id"].as_str().unwrap().starts_with("0x"));
            }
            other => panic!("a phase {other}"),
        }
    }
    events
}

/// The phases of the points of an arrow, with the functions that they lie at.
fn points(events: &[Value], id: &str) -> Vec<(String, String)> {
    let of_arrow = events.iter().filter(|event| event["id"] == id);
    let slice = |point: &Value| {
        let at = point["ts"].as_f64().unwrap();
        let is_it = |event: &&Value| {
            event["ph"] == "X"
                && event["tid"] == point["tid"]
                && event["ts"].as_f64().unwrap() < at
                && at < event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap()
        };
        events.iter().find(is_it).map(|event| event["name"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    of_arrow.map(|point| (point["ph"].as_str().unwrap().to_owned(), slice(point))).collect()
}

#[test]
fn arrows_lead_from_export_to_open_to_close_across_processes() {
    let scene = Scene::new();
    // The importer's file comes first.
    let (mut importer, mut exporter) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).export_event(150, 0x22, 0xe0).ends();
    importer.open(200, 0x11, 0x9000).open(220, 0x11, 0x9000).open_event(240, 0x22, 0xe1);
    importer.close(300, 0x9000).close(320, 0x9000).destroy(340, 0xe1).ends();
    let events = trace(&scene, &[]);
    let own = |phase: &str, function: &str| (phase.to_owned(), function.to_owned());
    assert_eq!(
        points(&events, "0x0000000000000022"),
        [own("s", "cuIpcGetEventHandle"), own("t", "cuIpcOpenEventHandle"), own("f", "cuEventDestroy_v2")]
    );
    let memory = [own("s", "cuIpcGetMemHandle"), own("t", "cuIpcOpenMemHandle_v2"), own("f", "cuIpcCloseMemHandle")];
    assert_eq!(points(&events, "0x0000000000000011"), memory);
    let arrows: BTreeSet<&str> = events.iter().filter_map(|event| event["id"].as_str()).collect();
    assert_eq!(arrows.len(), 3, "each opening has an arrow of its own");
    assert!(arrows.iter().all(|id| points(&events, id).len() == 3));
}

#[test]
fn a_slice_has_its_time_to_the_nanosecond_and_all_that_is_known_of_the_call() {
    let scene = Scene::new();
    let mut actor = scene.rank(5);
    actor.ask(100, 1);
    let mut call = actor.makes(cupeer_spec::function::FnId::cuIpcCloseMemHandle, 0);
    (call.start, call.end) = (us(200) + 7, us(201) + 8);
    actor.add(&call).fail_to_open(300, (0x11, 0x12), 1);
    let mark = us(400);
    let stream = actor.stream;
    actor.writer().mark(stream, mark, b"epoch \"3\"").unwrap();
    actor.ends();
    let events = trace(&scene, &[]);
    let named = |name: &str| events.iter().find(|event| event["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    let close = named("cuIpcCloseMemHandle");
    assert_eq!((&close["ts"], &close["dur"]), (&json!(200.007), &json!(1.001)));
    let failed = named("cuIpcOpenMemHandle_v2");
    assert_eq!(failed["cat"], "ipc,ipc-mem,open");
    assert_eq!(failed["args"]["result"], "CUDA_ERROR_INVALID_VALUE");
    assert_eq!(failed["args"]["handle"], "ipc:0000000000000011");
    assert_eq!(failed["args"]["stack"][1], "train+0x2000");
    assert_eq!(named("epoch \"3\"")["ts"], 400.0);
    assert_eq!(named("process_name")["args"]["name"], "rank 5: train 1005 on alpha");
    assert_eq!(named("process_sort_index")["args"]["sort_index"], 5);
    assert_eq!(named("thread_name")["args"]["name"], "thread 1005");
}

#[test]
fn a_call_that_hangs_lasts_to_the_end_of_the_record() {
    let scene = Scene::new();
    let (mut hanging, mut other) = (scene.gone(0), scene.gone(1));
    let call = hanging.makes(cupeer_spec::function::FnId::cuIpcOpenEventHandle, 100);
    hanging.hang(&call).ends();
    other.ask(2000, 1).ends();
    let events = trace(&scene, &[]);
    let hung = events.iter().find(|event| event["name"] == "cuIpcOpenEventHandle (has not returned)").unwrap();
    assert_eq!((&hung["ts"], &hung["dur"]), (&json!(100.0), &json!(1910.0)));
    assert_eq!(hung["args"]["result"], "has not returned");
}

#[test]
fn threads_of_different_hosts_have_tracks_of_their_own() {
    let scene = Scene::new();
    for (host, boot_id) in [("alpha", *b"boot of an alpha"), ("beta", *b"the boot of beta")] {
        scene.process(About { boot_id, ..About::default() }).on(host).ask(100, 1).ends();
    }
    let events = trace(&scene, &[]);
    let tracks: BTreeSet<(u64, u64)> = events
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap()))
        .collect();
    assert_eq!(tracks.len(), 2);
    let names: Vec<&Value> =
        events.iter().filter(|event| event["name"] == "process_name").map(|event| &event["args"]["name"]).collect();
    assert_eq!(names, ["train 1000 on alpha", "train 1000 on beta"]);
}

#[test]
fn filters_choose_slices_and_no_arrow_hangs_in_the_air() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).ends();
    importer.ask(150, 1).open(200, 0x11, 0x9000).close(300, 0x9000).ends();
    let count = |events: &[Value], phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    for (options, slices, starts) in [
        (&["--rank", "1"][..], 3, 0),
        (&["--function", "cuIpcOpen*"], 1, 0),
        (&["--function", "@ipc"], 3, 1),
        (&["--since", "0.00015"], 3, 0),
        (&["--failed"], 0, 0),
    ] {
        let events = trace(&scene, options);
        assert_eq!((count(&events, "X"), count(&events, "s")), (slices, starts), "{options:?}");
    }
}

#[test]
fn memory_is_a_counter_of_each_process_and_device() {
    let scene = Scene::new();
    let (mut first, mut second) = (scene.gone(0), scene.gone(1));
    // Changes that follow one another within a 500th of the recording are one.
    const LATER: u64 = 10_000_000_000;
    first.create(LATER, 7, 4 << 20, 0).create(2 * LATER, 8, 2 << 20, 1).release(4 * LATER, 7).ends();
    second.create(LATER, 7, 8 << 20, 0).release(3 * LATER, 7).ends();
    let events = trace(&scene, &[]);
    let counters = |pid: &Value, device: &str| -> Vec<u64> {
        let is_its = |event: &&Value| {
            event["ph"] == "C" && event["pid"] == *pid && event["name"].as_str().unwrap().ends_with(device)
        };
        let sum =
            |event: &Value| event["args"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>() >> 20;
        events.iter().filter(is_its).map(sum).collect()
    };
    let of_rank = |rank: u64| {
        let is_its = |event: &&Value| {
            event["name"] == "process_name"
                && event["args"]["name"].as_str().unwrap().starts_with(&format!("rank {rank}:"))
        };
        events.iter().find(is_its).map(|event| &event["pid"]).expect("its name")
    };
    assert_eq!(counters(of_rank(0), "1010")[..2], [4, 0], "{events:#?}");
    assert_eq!(counters(of_rank(0), "2020"), [2]);
    assert!(counters(of_rank(1), "1010").contains(&8));
}
