//! Calls between two marks.

use super::scene::{Actor, Scene, us};
use super::{json_of, of};
use crate::support;
use serde_json::Value;

fn mark(actor: &mut Actor, at: u64, text: &str) {
    let stream = actor.stream;
    actor.writer().mark(stream, us(at), text.as_bytes()).expect("room");
}

/// Opened before the first mark, between both, and behind; one that was opened between was closed behind.
fn scene() -> Scene {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    for handle in 1..6 {
        exporter.export(100 + 20 * handle, handle, 0x7000 * handle);
    }
    importer.open(300, 1, 0x9000);
    mark(&mut importer, 400, "warm");
    importer.open(450, 2, 0xa000).open(470, 3, 0xb000).open(480, 4, 0xc000).close(490, 0xc000);
    mark(&mut importer, 500, "done");
    mark(&mut importer, 501, "done");
    importer.close(520, 0xb000).open(550, 5, 0xd000);
    [exporter, importer].iter_mut().for_each(Actor::ends);
    scene
}

#[test]
fn leaks_between_two_marks_are_what_grew() {
    let scene = scene();
    let open = |options: &[&str]| {
        let leaks = json_of(&scene, options)["leaks"].clone();
        leaks.as_array().expect("an array").iter().filter_map(|leak| leak["handles"].as_u64()).sum::<u64>()
    };
    assert_eq!(open(&[]), 3);
    assert_eq!(open(&["--since-mark", "warm"]), 2, "one that was closed behind, and one that was opened behind");
    assert_eq!(open(&["--until-mark", "done"]), 3);
    assert_eq!(open(&["--since-mark", "warm", "--until-mark", "done"]), 2);
    assert_eq!(open(&["--since-mark", "done"]), 1);
    let text = of(&scene, &["--leaks", "--since-mark", "warm", "--until-mark", "done"]);
    assert!(text.contains("- 2 mappings, 4MiB, open for"), "{text}");
    let filters = json_of(&scene, &["--since-mark", "warm"])["record"]["filters"].clone();
    assert_eq!(filters, Value::from(vec!["--since-mark warm"]));
}

#[test]
fn a_mark_of_several_words_is_shown_as_it_is_given() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    mark(&mut actor, 100, "step 3");
    actor.ends();
    let text = of(&scene, &["--until-mark", "step 3"]);
    assert!(text.contains("shown      --until-mark 'step 3'\n"), "{text}");
}

#[test]
fn a_mark_that_is_not_there_is_answered_with_those_that_are() {
    let fails = |scene: &Scene, options: &[&str]| {
        let mut command = support::cupeer();
        let done = support::done(command.arg("report").arg(scene.dir()).args(options));
        assert!(!done.status.success(), "{options:?}");
        done.stderr
    };
    let scene = scene();
    assert_eq!(fails(&scene, &["--since-mark", "wram"]), "cupeer: there is no mark 'wram'; there are 'warm', 'done'\n");
    assert_eq!(
        fails(&scene, &["--since-mark", "done", "--until-mark", "warm"]),
        "cupeer: --since-mark is after --until-mark\n"
    );
    let empty = Scene::new();
    empty.gone(0).ends();
    assert_eq!(
        fails(&empty, &["--until-mark", "a"]),
        "cupeer: there is no mark 'a': the recording has none; cupeer_mark makes them\n"
    );
}
