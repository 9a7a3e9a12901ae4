//! The text form, as it looks in 80 and in 160 columns.

use super::scene::{Scene, checked, hit};
use super::{json_of, of};
use crate::support;
use cupeer_record::Outcome;
use cupeer_record::writer::{self, About};
use cupeer_spec::function::FnId;
use cupeer_spec::record::end;
use cupeer_spec::record::slot::{hit::did, shape};

/// Four ranks of which everything goes wrong that can.
pub fn wrong() -> Scene {
    let scene = Scene::new();
    let mut ranks: Vec<_> = (0..4).map(|rank| scene.gone(rank)).collect();
    for (i, rank) in ranks.iter_mut().enumerate() {
        let i = i as u64;
        rank.ask(100 + i, 1).enable(200 + i, if i == 2 { 704 } else { 0 });
        rank.export(300 + i, 0xa0 + i, 0x7000);
        for n in 0..if i == 3 { 4 } else { 6 } {
            rank.open(1000 + 100 * n + i, 0xa0 + (i + 1) % 4, 0x9000).close(1050 + 100 * n + i, 0x9000);
        }
    }
    ranks[0].export_event(400, 0xe0, 0x77).open(2000, 0xa1, 0x9000);
    ranks[1].open_event(2100, 0xe0, 0x78).open(2110, 0xa0, 0xb000);
    ranks[0].free(2200, 0x7000);
    ranks[2].fail_to_open(2300, (0x5a, checked(0xa3)), 1).fail_to_open(2400, (0xa3, checked(0xa3)), 217);
    let mut injected = ranks[2].opening(2500, (0xa3, checked(0xa3)), 0);
    (injected.outcome, injected.injected) = (Outcome::Returned(2), true);
    injected.details.message = Some(b"out of\nluck".to_vec());
    injected.details.hits = vec![hit(did::ERROR | did::NOT_CALLED, "inject/1")];
    let rules = [("cuIpcOpenMemHandle*:when=9:error=OUT_OF_MEMORY", 9, 1), ("cuMemFree:error=any:seed=4", 0, 0)];
    scene.faults(&rules, &[]);
    writer::set_shape(&mut injected, "pdptr", shape::UNREAD);
    ranks[2].add(&injected);
    let hung = ranks[3].makes(FnId::cuIpcOpenEventHandle, 2600);
    ranks[3].hang(&hung);
    ranks[3].writer().escaped("RTLD_DEEPBIND", "/opt/lib/deep.so").unwrap();
    ranks[3].writer().change_header(|header| header.end = end::UNSEEN).unwrap();
    ranks.iter_mut().for_each(|rank| rank.ends());
    scene
}

/// Compares with what was seen to be right, with the folder of the test left out.
#[track_caller]
fn assert_shows(scene: &Scene, columns: &str, options: &[&str], golden: &str) {
    let mut command = support::cupeer();
    command.current_dir(scene.folder()).args(["report", "cupeer-run-1"]).args(options).env("COLUMNS", columns);
    support::assert_golden(&support::stdout(&mut command), golden);
}

#[test]
fn problems_come_first_and_tables_follow() {
    let scene = wrong();
    assert_shows(&scene, "80", &[], "wrong-80.txt");
    assert_shows(&scene, "160", &[], "wrong-160.txt");
}

#[test]
fn a_record_of_which_nothing_is_wrong() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    exporter.export(100, 0x11, 0x7000).free(400, 0x7000).ends();
    importer.enable(150, 704).open(200, 0x11, 0x9000).close(300, 0x9000).ends();
    assert_shows(&scene, "80", &[], "healthy.txt");
}

#[test]
fn leaks_stand_alone_by_the_stack_that_opened_them() {
    assert_shows(&wrong(), "80", &["--leaks"], "leaks.txt");
    let scene = Scene::new();
    scene.gone(0).export(100, 0x11, 0x7000).ends();
    let mut importer = scene.gone(1);
    importer.open(200, 0x11, 0x9000).open(210, 0x11, 0x9000).open(220, 0x11, 0x9000).ends();
    assert!(of(&scene, &["--leaks"]).contains("- 1 mapping, 2MiB, opened 3 times, open for 30.0us: rank 1\n"));
    assert_eq!(json_of(&scene, &["--leaks"])["leaks"][0]["times"], 3);
    let scene = Scene::new();
    scene.gone(0).ask(100, 1).ends();
    assert!(of(&scene, &["--leaks"]).ends_with("a process's own memory are not listed here.\n"));
}

#[test]
fn long_tables_are_cut_and_say_how_to_see_the_rest() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    for i in 0..50 {
        actor.export(100 + 20 * i, i + 1, 0x10_0000 * (i + 1));
        actor.fail_to_open(5000 + 20 * i, (1000 + i, 1000 + i), 1);
    }
    actor.ends();
    let text = of(&scene, &[]);
    assert_eq!(text.matches("... 80 more; --all shows them").count(), 1, "handles: {text}");
    let failed = of(&scene, &["--failed"]);
    assert_eq!(failed.matches("... 30 more; --all shows them").count(), 2, "handles and failures: {failed}");
    assert_eq!(failed.matches("(from the same place as at 0.005000)").count(), 19);
    let all = of(&scene, &["--all"]);
    assert!(!all.contains("more; --all") && all.lines().count() > text.lines().count() + 100, "{all}");
}

#[test]
fn all_importers_of_a_handle_are_shown_where_all_are_asked_for() {
    let scene = Scene::new();
    scene.gone(0).export(100, 0x11, 0x7000).ends();
    for rank in 1..10 {
        scene.gone(rank).open(200, 0x11, 0x9000).close(300, 0x9000).ends();
        scene.gone(10 + rank).fail_to_open(400, (0x11, checked(0x11)), 1).ends();
    }
    let text = of(&scene, &[]);
    assert!(text.contains("; 3 more; ") || text.contains("; 3\n"), "{text}");
    let all = of(&scene, &["--all"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(all.contains("rank 9 0.000200 to 0.000300; rank 11 failed"), "{all}");
    assert!(all.contains("rank 19 failed: 1 INVALID_VALUE"), "{all}");
}

#[test]
fn numbers_of_a_ring_that_dropped_events_are_those_of_its_last_ones() {
    for (calls, last) in [(10, false), (100_000, true)] {
        let scene = Scene::new();
        let mut actor = scene.process(About { ring: Some(8), ..About::default() });
        for i in 0..calls {
            actor.ask(100 + 20 * i, 1);
        }
        actor.ends();
        let text = of(&scene, &[]);
        assert_eq!(text.contains("\nevents     the last "), last, "{text}");
        assert_eq!(text.contains("broken by the 10 calls that were recorded."), !last, "{text}");
        assert_eq!(text.contains(" calls that were kept."), last, "{text}");
        assert_eq!(text.contains("The ring\nno longer contains older calls"), last, "{text}");
        let text = of(&scene, &["--function", "cuDevice*"]);
        assert_eq!(text.contains(" of the last "), last, "{text}");
        assert_eq!(json_of(&scene, &[])["record"]["dropped"], last);
    }
}

#[test]
fn processes_with_the_same_pid_have_short_names() {
    let scene = Scene::new();
    let about = |pid_ns| About { pid: 5, pid_ns, ..About::default() };
    for (pid_ns, rank) in [(1, "0"), (2, "1"), (3, "")] {
        for image in 0..if pid_ns == 3 { 1 } else { 2 } {
            let mut actor = scene.process(About { image, ..about(pid_ns) });
            if !rank.is_empty() {
                actor.writer().variable("RANK", rank).unwrap();
            }
            actor.fail_to_open(100, (0x11, 0x12), 1).ends();
        }
    }
    let mut other = scene.process(About { pid: 6, pid_ns: 4, ..About::default() });
    other.writer().variable("RANK", "0").unwrap();
    other.ask(100, 1).ends();
    let mut twin = scene.process(About { pid: 5, pid_ns: 5, ..About::default() });
    twin.writer().variable("RANK", "7").unwrap();
    twin.writer().escaped("RTLD_DEEPBIND", "/opt/lib/deep.so").unwrap();
    twin.ask(100, 1).ends();
    let text = of(&scene, &["--all"]);
    assert!(text.contains("5#1 cuIpcOpenMemHandle_v2") && text.contains("5#5 cuIpc"), "{text}");
    assert!(text.contains("   0  5#1  train    exec") && text.contains("   7    5  train    0 "), "{text}");
    assert!(text.contains("(RTLD_DEEPBIND) in rank 7"), "{text}");
    let scene = Scene::new();
    for (pid_ns, pid) in [(1, 5), (2, 5), (3, 6)] {
        for rank in if pid == 5 { &["1", "2"][pid_ns as usize - 1..][..1] } else { &["1"] } {
            let mut actor = scene.process(About { pid, pid_ns, ..About::default() });
            actor.writer().variable("RANK", rank).unwrap();
            actor.fail_to_open(100, (0x11, 0x12), 1).ends();
        }
    }
    let text = of(&scene, &["--all"]);
    assert!(text.contains("rank 1 (5) cuIpcOpenMemHandle_v2") && text.contains("rank 2 cuIpc"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn variables_that_decide_about_peers_stand_below_the_processes() {
    let scene = Scene::new();
    for rank in 0..4 {
        let mut actor = scene.gone(rank);
        actor.writer().variable("NCCL_DEBUG", "INFO").unwrap();
        actor.writer().variable("VLLM_API_KEY", "cheshire").unwrap();
        actor.writer().variable("NCCL_P2P_DISABLE", if rank == 3 { "0" } else { "1" }).unwrap();
        if rank < 2 {
            actor.writer().variable("CUDA_VISIBLE_DEVICES", "0,1").unwrap();
        }
        actor.ask(100, 1).ends();
    }
    let text = of(&scene, &[]);
    let wanted = "\
variables: CUDA_VISIBLE_DEVICES=0,1 NCCL_P2P_DISABLE=1 (ranks 0,1)
variables: NCCL_P2P_DISABLE=0 (rank 3)
variables: NCCL_P2P_DISABLE=1 (rank 2)
\nDevices";
    assert!(text.contains(wanted), "{text}");
    let report = json_of(&scene, &[]);
    let variables = &report["processes"][3]["variables"];
    assert_eq!(*variables, serde_json::json!({"NCCL_DEBUG": "INFO", "NCCL_P2P_DISABLE": "0", "RANK": "3"}));
}

#[test]
fn a_damaged_handle_is_shown_with_what_it_is_a_copy_of() {
    let scene = Scene::new();
    scene.gone(0).export(100, 0x11, 0x7000).ends();
    scene.gone(1).fail_to_open(200, (0x99, checked(0x11)), 1).ends();
    let mut command = support::cupeer();
    let text = support::stdout(command.arg("report").arg(scene.dir()).env("COLUMNS", "120"));
    let row = "2MiB  damaged   rank 0    copy of ipc:0000000000000011; rank 1 failed: 1 INVALID_VALUE\n";
    assert!(text.contains(row), "{text}");
}

#[test]
fn many_closed_handles_are_one_line() {
    let shown = |count: u64, options: &[&str]| {
        let scene = Scene::new();
        let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
        for i in 0..count {
            exporter.export(100 + 20 * i, i + 1, 0x10_0000 * (i + 1));
            importer.open(5000 + 20 * i, i + 1, 0x10_0000 * (i + 1)).close(9000 + 20 * i, 0x10_0000 * (i + 1));
        }
        exporter.export(9990, 0xff, 0x7).ends();
        importer.ends();
        of(&scene, options)
    };
    let one = "exported  rank 0    nobody\n20 closed handles (40MiB); --all shows them\n";
    assert!(shown(20, &[]).contains(one));
    for text in [shown(19, &[]), shown(20, &["--all"])] {
        assert!(text.matches(" closed    rank 0    rank 1").count() >= 19, "{text}");
        assert!(!text.contains("closed handles"), "{text}");
    }
}

#[test]
fn names_that_programs_chose_cannot_move_the_cursor() {
    let scene = Scene::new();
    let mut actor = scene.gone(0).on("al\u{1b}[2Jpha");
    actor.writer().text("program", "/tmp/\u{1b}[31mred\r\n").unwrap();
    actor.writer().escaped("dl\u{7}mopen", "/tmp/\u{9b}31m.so").unwrap();
    actor.ask(100, 1).ends();
    let mut command = support::cupeer();
    let text = support::stdout(command.arg("report").arg(scene.dir()).env("COLUMNS", "200"));
    assert!(text.contains(" \u{fffd}[31mred"), "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn many_devices_make_a_picture() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    for ordinal in 2..8u8 {
        actor.device(ordinal);
    }
    for from in 0..8i32 {
        for to in (0..8i32).filter(|to| *to != from) {
            let at = 100 + 100 * from as u64 + 10 * to as u64;
            actor.ask_about(at, (from, to), i32::from(to != 7));
            if from < 2 && to != 7 {
                actor.enable_between(1000 + at, (from, to), 0);
            }
        }
    }
    actor.enable_between(3000, (2, 7), 217).enable_between(3010, (3, 4), 704);
    actor.export(3100, 0x11, 0x7000).ends();
    let mut importer = scene.gone(1);
    importer.open(3200, 0x11, 0x9000).close(3300, 0x9000).ends();
    let text = of(&scene, &["--function", "^cuMem*"]);
    let picture: String = text
        .lines()
        .skip_while(|line| !line.starts_with("Access between devices"))
        .take(10)
        .map(|l| format!("{l}\n"))
        .collect();
    support::assert_lines(
        &picture,
        "\
Access between devices (e enabled, y can, n cannot; o opened over IPC, ! failed)
                     0   1   2   3   4   5   6   7
GPU 0 (1010..1010)       e   e   e   e   e   e   n
GPU 1 (2020..2020)  eo       e   e   e   e   e   n
GPU 2 (3030..3030)   y   y       y   y   y   y  n!
GPU 3 (4040..4040)   y   y   y       e   y   y   n
GPU 4 (5050..5050)   y   y   y   y       y   y   n
GPU 5 (6060..6060)   y   y   y   y   y       y   n
GPU 6 (7070..7070)   y   y   y   y   y   y       n
GPU 7 (8080..8080)   y   y   y   y   y   y   y
",
    );
}

/// 8 devices have 56 pairs, and those of each device are equal.
#[test]
fn pairs_that_are_alike_share_a_row() {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    for ordinal in 2..8 {
        actor.device(ordinal);
    }
    let pairs = (0..8).flat_map(|from| (0..8).map(move |to| (from, to))).filter(|(from, to)| from != to);
    for (i, pair) in (0..).zip(pairs) {
        actor.ask_about(100 + i, pair, i32::from(pair != (0, 3)));
    }
    actor.ends();
    let rows = |options: &[&str]| {
        let text = of(&scene, options);
        let table = text.split_once("Pairs of devices").expect("the table").1.to_owned();
        let table = table.split("\n\n").next().expect("its rows").to_owned();
        table.lines().filter(|line| line.starts_with("GPU ")).map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(rows(&["--all"]).len(), 56);
    let rows = rows(&[]);
    // The one pair that is not like the others of its device has a row of its own.
    assert_eq!(rows.len(), 9, "{rows:#?}");
    assert_eq!(rows.iter().filter(|row| row.contains(" and 6 more ")).count(), 7, "{rows:#?}");
    assert!(rows.iter().any(|row| row.contains(" and 5 more ")), "{rows:#?}");
}
