//! First lines of a report: the problems in a few lines, the cause first; and rows that are folded, cut, and shown only on
//! request.

use super::scene::{Actor, Scene, checked, us};
use super::{json_of, of};
use crate::support;
use cupeer_record::writer::About;
use cupeer_spec::function::FnId;
use cupeer_spec::record::end::{EndSpan, RecordedEnd};

/// The lines before the head.
fn digest(text: &str) -> Vec<&str> {
    text.split_once("\n\nrecording ").expect("a head").0.lines().collect()
}

/// Sixteen ranks that share with their neighbours. The sixth is killed at 64 ms, in a call; its neighbour then fails, and the
/// last one hangs.
pub fn killed() -> Scene {
    let scene = Scene::new();
    let ends = |rank: u32| match rank {
        5 => RecordedEnd::Unseen,
        6 => RecordedEnd::Returned(1),
        _ => RecordedEnd::Returned(0),
    };
    for rank in 0..16u32 {
        let mut actor = scene.gone(rank);
        let handle = 0xa0 + u64::from(rank);
        let neighbour = 0xa0 + u64::from((rank + 15) % 16);
        actor.export(300 + u64::from(rank), handle, 0x7000).open(1000 + u64::from(rank), neighbour, 0x9000);
        match rank {
            5 => {
                let call = actor.makes(FnId::cuIpcOpenEventHandle, 64_000);
                actor.hang(&call);
            }
            6 => drop(actor.fail_to_open(70_000, (0xa5, checked(0xa5)), 400)),
            _ => drop(actor.close(66_000 + u64::from(rank), 0x9000)),
        }
        actor.writer().change_header(|header| header.end = ends(rank).to_word()).unwrap();
        actor.ends();
    }
    scene
}

const DEATH: [&str; 2] = ["rank 5 was killed or called exit_group in cuIpcOpenEventHandle, called at", "    0.064000"];

#[test]
fn a_death_is_the_first_line_and_what_followed_comes_after_it() {
    let text = of(&killed(), &[]);
    let lines = digest(&text);
    assert_eq!(lines[..2], DEATH, "{text}");
    // The last one is as long as the path of the record.
    let more = lines.iter().position(|line| line.starts_with("more: cupeer report")).expect("more");
    assert!(more <= 7, "{lines:#?}");
    assert!(lines[2].starts_with("error ipc-exporter-gone in rank 6: "), "{lines:#?}");
    assert!(text.contains(" --rank 5"), "{text}");
}

/// The cause of its death may be among the calls that are left out.
#[test]
fn deaths_are_counted_first_if_calls_are_left_out() {
    let scene = killed();
    for options in [&["--failed"][..], &["--function", "cuIpcGetMemHandle"], &["--since", "0.001"]] {
        let text = of(&scene, options);
        assert_eq!(
            digest(&text)[0],
            "1 process ended abnormally, as the report without filters says",
            "{options:?}: {text}"
        );
    }
}

#[test]
fn only_the_selected_rank_has_its_death_reported() {
    let scene = killed();
    let text = of(&scene, &["--rank", "5"]);
    assert_eq!(digest(&text)[..2], DEATH, "{text}");
    assert!(!text.contains("more: cupeer report"), "that is what is shown: {text}");
    let text = of(&scene, &["--rank", "6"]);
    assert!(digest(&text).contains(&"1 process exited with an error: exit status 1: rank 6"), "{text}");
    let text = of(&scene, &["--rank", "3"]);
    assert!(text.starts_with("No rule that was checked was broken by the 3 calls shown."), "{text}");
}

#[test]
fn problems_are_in_the_digest_even_if_filters_leave_out_the_rest() {
    let scene = killed();
    let text = of(&scene, &["--function", "cuIpcGetMemHandle"]);
    let wrong = text.split_once("\nProblems\n").map(|(_, rest)| rest.lines().next().expect("a line"));
    let first = digest(&text)[0];
    assert_eq!(first.starts_with("No rule "), wrong.is_none(), "{text}");
    assert!(!first.is_empty(), "{text}");
}

#[test]
fn a_rank_that_calls_one_function_more_often_is_told_in_a_line() {
    let scene = Scene::new();
    for rank in 0..4 {
        let mut actor = scene.gone(rank);
        for time in 0..if rank == 3 { 8 } else { 1 } {
            actor.ask(100 + time, 1);
        }
        actor.ends();
    }
    let text = support::stdout(support::cupeer().arg("report").arg(scene.dir()).env("COLUMNS", "120"));
    assert_eq!(
        digest(&text)[0],
        "rank 3 makes a different number of calls than the other ranks: cuDeviceCanAccessPeer: rank 3 made 8, the others 1"
    );
}

#[test]
fn failures_alone_do_not_say_how_often_a_rank_calls() {
    let scene = Scene::new();
    for rank in 0..4 {
        let mut actor = scene.gone(rank);
        for time in 0..8 {
            let mut call = actor.makes(FnId::cuIpcGetEventHandle, 100 + 20 * time);
            let result = if rank == 3 { 2 } else { 0 };
            call.outcome = cupeer_record::Outcome::Returned(result);
            actor.add(&call);
        }
        actor.ends();
    }
    let text = of(&scene, &["--failed"]);
    assert!(text.starts_with("8 calls failed, cuIpcGetEventHandle = OUT_OF_MEMORY in rank 3\n"), "{text}");
    assert!(!text.contains("deviate"), "{text}");
}

#[test]
fn many_problems_are_eight_lines() {
    let scene = Scene::new();
    for rank in 0..4u32 {
        let mut actor = scene.gone(rank);
        actor.ask(100, 1);
        actor.writer().change_header(|header| header.end = RecordedEnd::Signal(11).to_word()).unwrap();
        actor.ends();
    }
    let mut actor = scene.gone(4);
    for (i, function) in
        [FnId::cuCtxEnablePeerAccess, FnId::cuIpcGetMemHandle, FnId::cuIpcGetEventHandle, FnId::cuIpcCloseMemHandle]
            .into_iter()
            .enumerate()
    {
        for (n, result) in [3, 4, 709].into_iter().enumerate() {
            let mut call = actor.makes(function, 1000 + 100 * i as u64 + n as u64);
            call.outcome = cupeer_record::Outcome::Returned(result);
            actor.add(&call);
        }
    }
    actor.ends();
    let text = support::stdout(support::cupeer().arg("report").arg(scene.dir()).env("COLUMNS", "300"));
    let lines = digest(&text);
    assert!(lines.len() <= 8, "{lines:#?}");
    assert_eq!(lines[0], "rank 0 was killed by SIGSEGV; its last recorded call was cuDeviceCanAccessPeer at 0.000100");
    assert_eq!(lines[1], "3 processes also ended abnormally: ranks 1-3", "no end has a time");
}

/// Adds a process that a signal killed, with the times of its last call and its end.
fn dies(mut actor: Actor, signal: u8, last: u64, ended: EndSpan) {
    actor.ask(last, 1);
    actor
        .writer()
        .change_header(|header| (header.end, header.ended) = (RecordedEnd::Signal(signal).to_word(), ended))
        .unwrap();
    actor.ends();
}

/// Seen to run until a time in microseconds, and to have ended by another one.
fn between(after: u64, before: u64) -> EndSpan {
    EndSpan { after: us(after), before: us(before) }
}

/// The lines about deaths.
fn deaths(scene: &Scene) -> (String, String) {
    let text = support::stdout(support::cupeer().arg("report").arg(scene.dir()).env("COLUMNS", "300"));
    let lines = digest(&text);
    let others = lines.iter().find(|line| line.contains("ended abnormally")).expect("the others");
    (lines[0].to_owned(), (*others).to_owned())
}

const CRASH: &str =
    "rank 3 was killed by SIGSEGV after 30.100s; its last recorded call was cuDeviceCanAccessPeer at 29.900000";

#[test]
fn the_first_death_is_the_first_end_and_not_the_oldest_last_call() {
    let scene = Scene::new();
    dies(scene.gone(0), 6, 1_000_000, between(599_000_000, 600_000_000));
    dies(scene.gone(3), 11, 29_900_000, between(29_950_000, 30_100_000));
    let (first, second) = deaths(&scene);
    assert_eq!(first, CRASH);
    assert_eq!(second, "1 process ended abnormally after it: rank 0");
    // The last call shows that it ran, too.
    let scene = Scene::new();
    dies(scene.gone(0), 6, 600_000_000, EndSpan::default());
    dies(scene.gone(3), 11, 29_900_000, between(0, 30_100_000));
    assert_eq!(deaths(&scene), (first, second));
}

#[test]
fn an_order_that_is_unknown_is_not_claimed() {
    let also = "1 process also ended abnormally: rank 0";
    // Between two looks of the launcher.
    let scene = Scene::new();
    dies(scene.gone(0), 6, 1_000_000, between(29_000_000, 30_200_000));
    dies(scene.gone(3), 11, 29_900_000, between(29_000_000, 30_100_000));
    let (first, second) = deaths(&scene);
    assert!(first.starts_with("rank 3 was killed by SIGSEGV"), "{first}");
    assert_eq!(second, also);
    // Nobody saw the end of one, and it made no call after the other one ended.
    let scene = Scene::new();
    dies(scene.gone(0), 6, 1_000_000, EndSpan::default());
    dies(scene.gone(3), 11, 29_900_000, between(29_000_000, 30_100_000));
    assert_eq!(deaths(&scene), (first, also.to_owned()));
    // Hosts have clocks of their own.
    let scene = Scene::new();
    let elsewhere = About { boot_id: [7; 16], pid: 1000, ..About::default() };
    dies(scene.process(elsewhere), 6, 600_000_000, between(600_000_000, 600_100_000));
    dies(scene.rank(3), 11, 29_900_000, between(29_950_000, 30_100_000));
    let (first, second) = deaths(&scene);
    assert!(first.starts_with("rank 3 was killed by SIGSEGV"), "{first}");
    assert!(second.starts_with("1 process also ended abnormally: 1000"), "{second}");
}

/// One that died in a call is the likelier cause.
#[test]
fn the_end_in_a_call_is_first_among_ends_without_times() {
    let scene = Scene::new();
    dies(scene.gone(0), 6, 1_000_000, EndSpan::default());
    let mut actor = scene.gone(3);
    let call = actor.makes(FnId::cuIpcOpenEventHandle, 29_900_000);
    actor.hang(&call);
    actor.writer().change_header(|header| header.end = RecordedEnd::Signal(11).to_word()).unwrap();
    actor.ends();
    let (first, second) = deaths(&scene);
    assert_eq!(first, "rank 3 was killed by SIGSEGV in cuIpcOpenEventHandle, called at 29.900000");
    assert_eq!(second, "1 process also ended abnormally: rank 0");
}

#[test]
fn a_parent_that_passes_a_status_on_is_not_a_second_failure() {
    let failing = |parent: (RecordedEnd, u64), child: (RecordedEnd, u64)| {
        let scene = Scene::new();
        let ends = |about: About, (end, time): (RecordedEnd, u64)| {
            let mut actor = scene.process(about);
            let ended = if time > 0 { EndSpan::at(us(time)) } else { EndSpan::default() };
            actor.ask(100, 1);
            actor.writer().change_header(|header| (header.end, header.ended) = (end.to_word(), ended)).unwrap();
            actor.ends();
        };
        ends(About { pid: 2000, started: u64::MAX - 1, ..About::default() }, parent);
        ends(About { pid: 2001, parent: 2000, started: u64::MAX - 1, ..About::default() }, child);
        let text = of(&scene, &["--all"]);
        let is_told = |pid: u32| {
            let wrong = text.split_once("\nProblems\n").expect("problems").1;
            wrong.split("\n\n").next().unwrap().contains(&pid.to_string())
        };
        let told = [2000, 2001].map(is_told);
        // All forms agree.
        let shown =
            |form: &str| support::stdout(support::cupeer().arg("report").arg(scene.dir()).args(["--format", form]));
        let failures = told.iter().filter(|is_told| **is_told).count();
        assert!(shown("junit").contains(&format!(" failures=\"{failures}\"")), "{}", shown("junit"));
        let results = shown("sarif").matches("\"ruleId\": \"process-").count();
        assert_eq!(results, failures, "{}", shown("sarif"));
        told
    };
    assert_eq!(failing((RecordedEnd::Returned(3), 900), (RecordedEnd::Returned(3), 500)), [false, true]);
    assert_eq!(failing((RecordedEnd::Returned(139), 900), (RecordedEnd::Signal(11), 500)), [false, true]);
    assert_eq!(failing((RecordedEnd::Returned(245), 900), (RecordedEnd::Signal(11), 500)), [false, true], "Python");
    assert_eq!(
        failing((RecordedEnd::Returned(4), 900), (RecordedEnd::Returned(3), 500)),
        [true, true],
        "its own status"
    );
    assert_eq!(
        failing((RecordedEnd::Returned(3), 300), (RecordedEnd::Returned(3), 500)),
        [true, true],
        "it did not wait"
    );
    assert_eq!(failing((RecordedEnd::Returned(3), 0), (RecordedEnd::Returned(3), 500)), [true, true], "nobody knows");
}

#[test]
fn ranks_that_are_alike_share_a_row_and_those_that_are_not_come_first() {
    let scene = killed();
    let text = of(&scene, &[]);
    let table = text.split_once("\nProcesses\n").expect("a table").1;
    let rows: Vec<&str> = table.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 4, "{table}");
    assert!(rows[1].contains("  1005  train") && rows[1].contains("died"), "{table}");
    assert!(rows[2].contains("  1006  train    1 "), "{table}");
    assert!(rows[3].starts_with("0-4,7-15  14 pids  train    0 "), "{table}");
    assert!(rows[3].contains("0.066000-0.066015 cuIpcCloseMemHandle"), "{table}");
    let all = of(&scene, &["--all"]);
    assert_eq!(all.split_once("\nProcesses\n").unwrap().1.split_once("\n\n").unwrap().0.lines().count(), 17);
}

#[test]
fn a_failure_is_told_once_and_each_call_where_that_is_asked_for() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    let mut call = actor.makes(FnId::cuIpcGetEventHandle, 200);
    call.outcome = cupeer_record::Outcome::Returned(2);
    actor.add(&call).ends();
    let text = of(&scene, &[]);
    assert!(text.starts_with("1 call failed, cuIpcGetEventHandle = OUT_OF_MEMORY in rank 0\n"), "{text}");
    assert_eq!(text.matches("CUDA_ERROR_OUT_OF_MEMORY").count(), 1, "{text}");
    assert!(!text.contains("Failures in order of time"), "{text}");
    let failed = of(&scene, &["--failed"]);
    assert!(failed.contains("\nFailures in order of time\n0.000200  rank 0 cuIpcGetEventHandle("), "{failed}");
}

#[test]
fn marks_are_told_with_their_times() {
    let scene = Scene::new();
    let mut actor = scene.gone(3);
    let stream = actor.stream;
    actor.ask(100, 1);
    actor.writer().mark(stream, super::scene::us(250), b"epoch 1\x1b[2J").unwrap();
    actor.ask(300, 1).ends();
    let text = of(&scene, &[]);
    assert!(text.contains("\nMarks\n    TIME  WHO     MARK\n0.000250  rank 3  epoch 1\u{fffd}[2J\n"), "{text}");
    let marks = &json_of(&scene, &[])["marks"];
    assert_eq!((marks.as_array().unwrap().len(), &marks[0]["tid"]), (1, &1003.into()), "{marks}");
    let late = json_of(&scene, &["--since", "0.000280"]);
    assert_eq!(late["marks"].as_array().unwrap().len(), 0);
}
