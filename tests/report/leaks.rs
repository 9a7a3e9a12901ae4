//! Open handles that pile up: in running processes, over marks, and over time; with totals and both places.

use super::scene::{Actor, Scene, us};
use super::{json_of, of};
use serde_json::Value;

fn mark(actor: &mut Actor, at: u64, text: &str) {
    let stream = actor.stream;
    actor.writer().mark(stream, us(at), text.as_bytes()).expect("room");
}

/// Returns the leaks of a report: severity, count and message, and the roles of their places.
fn leaks(scene: &Scene) -> Vec<(String, u64, String, Vec<String>)> {
    let report = json_of(scene, &[]);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let leak = |row: &Value| {
        let roles = row["objects"].as_array().expect("objects").iter().map(|object| text(&object["role"]));
        (text(&row["severity"]), row["count"].as_u64().expect("a count"), text(&row["message"]), roles.collect())
    };
    let rows = report["findings"].as_array().expect("findings").iter();
    rows.filter(|row| row["rule"] == "ipc-leak").map(leak).collect()
}

fn leak(count: u64, message: &str, roles: &[&str]) -> (String, u64, String, Vec<String>) {
    ("warning".into(), count, message.into(), roles.iter().map(|role| (*role).to_owned()).collect())
}

/// Exports handles 1 to `count`.
fn exporter(scene: &Scene, count: u64) -> Actor {
    let mut exporter = scene.gone(0);
    for handle in 1..=count {
        exporter.export(handle, handle, 0x100_0000 * handle);
    }
    exporter
}

/// Opens handle `i` at `at(i)`, and closes it 5 us later if `is_closed(i)`.
fn opens(importer: &mut Actor, count: u64, at: impl Fn(u64) -> u64, is_closed: impl Fn(u64) -> bool) {
    for i in 1..=count {
        importer.open(at(i), i, 0x100_0000_0000 + 0x100_0000 * i);
        if is_closed(i) {
            importer.close(at(i) + 15, 0x100_0000_0000 + 0x100_0000 * i);
        }
    }
}

#[test]
fn a_running_process_that_forgets_some_is_told_with_totals_and_both_places() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (exporter(&scene, 200), scene.running(1));
    opens(&mut importer, 200, |i| 1000 * i, |i| i % 10 != 3);
    // The owner has freed one of those that stay open.
    exporter.free(201_000, 0x100_0000 * 13).ends();
    importer.ends();
    let message = "20 of 200 handles opened at this place were never closed; they keep 40 MiB of other processes' memory, \
                   2 MiB of which the owners freed";
    assert_eq!(leaks(&scene), [leak(20, message, &["opening", "export", "closing"])]);
    let text = of(&scene, &[]);
    assert!(text.contains("ipc-leak") && !text.contains("was broken by "), "{text}");
}

#[test]
fn a_running_process_that_holds_what_it_needs_is_quiet() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (exporter(&scene, 40), scene.running(1));
    opens(&mut importer, 40, |i| 1000 * i, |i| (6..38).contains(&i));
    exporter.ends();
    importer.ends();
    assert_eq!(json_of(&scene, &[])["findings"], serde_json::json!([]));
}

#[test]
fn handles_that_become_more_with_each_mark_are_told() {
    for (each_iteration, expected) in [(true, true), (false, false)] {
        let scene = Scene::new();
        let (mut exporter, mut importer) = (exporter(&scene, 20), scene.gone(1));
        // 21 marks, and a handle after each, or all behind the first.
        let at = |i: u64| if each_iteration { 1000 * i + 500 } else { 1000 + 20 * i };
        let mut opened = 0;
        for step in 1..=21 {
            mark(&mut importer, 1000 * step, &format!("step {step}"));
            while opened < 20 && at(opened + 1) < 1000 * (step + 1) {
                opened += 1;
                importer.open(at(opened), opened, 0x100_0000_0000 + 0x100_0000 * opened);
            }
        }
        [&mut exporter, &mut importer].into_iter().for_each(Actor::ends);
        let message = "20 of 20 handles opened at this place were never closed, some after 20 of 20 marks such as 'step 1'; \
                       they keep 40 MiB of other processes' memory";
        let wanted = [leak(20, message, &["opening", "export"])];
        assert_eq!(leaks(&scene), if expected { &wanted[..] } else { &[] }, "{each_iteration}");
    }
}

#[test]
fn handles_that_become_more_over_minutes_are_told() {
    const SECOND: u64 = 1_000_000;
    for (pause, expected) in [(5 * SECOND, true), (1000, false)] {
        let scene = Scene::new();
        let (mut exporter, mut importer) = (exporter(&scene, 20), scene.gone(1));
        opens(&mut importer, 20, |i| pause * i, |_| false);
        importer.ask(pause * 20 + 100, 1);
        [&mut exporter, &mut importer].into_iter().for_each(Actor::ends);
        let found = leaks(&scene);
        assert_eq!(found.len(), usize::from(expected), "{found:?}");
        for (_, _, message, _) in found {
            assert!(
                message.starts_with("20 of 20 handles opened at this place were never closed, throughout 95.0 s; "),
                "{message}"
            );
        }
    }
}
