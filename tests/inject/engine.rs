//! Effects of rules on a call, and calls that they leave alone, by the simulated driver's own ledger.

use super::client::{Ran, command, program, ran, run};
use crate::support;
use cupeer_spec::env;
use std::time::Instant;

/// The calls of one process without a plan.
const ALL: &str = "cragovwpl";

fn one(plan: &str, word: &str) -> Ran {
    let ran = run(plan, &["turns", "1", "1", word]);
    assert_eq!(ran.done.stderr, "", "{plan}");
    ran
}

#[test]
fn the_library_is_ours() {
    let (folder, maps) = (support::temp_dir(), support::temp_dir());
    let maps = maps.path().join("maps");
    let arguments = ["turns", "1", "1", "c"];
    let mut command = command(folder.path(), "cuDeviceCanAccessPeer:error=INVALID_DEVICE", &arguments);
    assert_eq!(ran(command.env("SHOW_MAPS", &maps)).first(), ["101"]);
    let maps = std::fs::read_to_string(maps).unwrap();
    support::assert_loaded_from(&maps, &support::preload_library());
    support::assert_loaded_from(&maps, &support::sim_library());
}

#[test]
fn instead_of_the_call_leaves_the_driver_untouched() {
    let plain = one("", ALL);
    let all = "cuIpcOpen*,cuIpcGet*,@peer,^@release:process=2..:error=any:seed=1";
    let failed = one(all, ALL);
    let calls = |ran: &Ran| ran.value("calls").parse::<u64>().unwrap();
    // Seven of the letters are calls, and none of them reaches the driver.
    assert_eq!(calls(&plain) - calls(&failed), 7);
    assert_eq!((plain.value("memory"), plain.value("events")), ("1", "1"));
    assert_eq!((failed.value("memory"), failed.value("events")), ("0", "0"));
    assert!(failed.first()[..7].iter().all(|result| *result != "0"), "{:?}", failed.first());
    assert_eq!((failed.value("opened"), failed.value("event")), ("untouched", "untouched"));
}

#[test]
fn after_and_undone_leaves_no_mapping() {
    let plain = one("", "eowl");
    assert_eq!([plain.value("memory"), plain.value("events"), plain.value("peers")], ["1", "1", "1"]);
    let undone = one("cuIpcOpen*,cuCtxEnable*:stage=undo:error=any:seed=2", "eowpl");
    assert_eq!([undone.value("memory"), undone.value("events"), undone.value("peers")], ["0", "0", "0"]);
    assert!(undone.first()[..3].iter().all(|result| *result != "0"), "{:?}", undone.first());
    assert_eq!((undone.value("opened"), undone.value("event")), ("untouched", "untouched"));
    // Three calls that were made, and three that undid them.
    let calls = |ran: &Ran| ran.value("calls").parse::<u64>().unwrap();
    assert_eq!(calls(&undone) - calls(&plain), 3);
    let after = one("cuIpcOpen*,cuCtxEnable*:stage=after:error=any:seed=2", "eowpl");
    assert_eq!([after.value("memory"), after.value("events"), after.value("peers")], ["1", "1", "1"]);
    assert_eq!((after.value("opened"), after.value("event")), ("set", "set"));
}

/// Nothing stays of what is undone; what is only said to have failed stays.
#[test]
fn virtual_memory_that_is_undone_is_given_back() {
    for (plan, allocations, mappings) in [
        ("", "2", "1"),
        ("cuMemCreate,cuMemImport*:stage=undo:error=INVALID_VALUE", "0", "0"),
        ("cuMemImport*,cuMemMap:stage=undo:error=INVALID_VALUE", "1", "0"),
        ("cuMemImport*,cuMemMap:stage=after:error=INVALID_VALUE", "2", "1"),
    ] {
        let ran = one(plan, "nktijl");
        assert_eq!((ran.value("allocations"), ran.value("mappings")), (allocations, mappings), "{plan}");
    }
}

/// The table of `tests/programs/faults.txt`: a plan, what is called, and what the program sees. The same on a GPU:
/// `tests/hardware/check_faults.py`.
#[test]
fn the_table_of_plans_holds() {
    let table = include_str!("../programs/faults.txt");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() > 20);
    for row in rows {
        let &[plan, word, expected] = row.as_slice() else { panic!("{row:?}") };
        assert_eq!(one(plan, word).first().join(" "), expected, "{plan} {word}");
    }
}

#[test]
fn a_failure_of_the_drivers_own_stays() {
    // Closing what is not open fails; a rule that acts after a success has nothing to do.
    let plan = "cuIpcCloseMemHandle:stage=after:force:error=MAP_FAILED";
    assert_eq!(one(plan, "x").first(), ["1"]);
    assert_eq!(one(plan, "ox").first(), ["0", "205"]);
}

#[test]
fn outputs_are_what_the_plan_says() {
    let value = |plan: &str, word: &str, name: &str| one(plan, word).value(name).to_owned();
    assert_eq!(value("cuDeviceCanAccessPeer:out=canAccessPeer=0", "cp", "value"), "0");
    assert_eq!(value("cuDeviceCanAccessPeer:out=canAccessPeer=-3", "cp", "value"), "-3");
    assert_eq!(value("cuDeviceGetP2PAttribute:attrib=ACCESS_SUPPORTED:out=value=9", "ap", "value"), "9");
    assert_eq!(value("cuDeviceGetP2PAttribute:attrib=PERFORMANCE_RANK:out=value=9", "ap", "value"), "1");
    assert_eq!(value("cuIpcOpenMemHandle*:out=pdptr=null", "op", "opened"), "null");
    let plain = value("", "gh", "handle");
    assert_eq!(value("cuIpcGetMemHandle:process=2..:out=pHandle=zero", "gh", "handle"), "000000");
    let flipped = value("cuIpcGetMemHandle:process=2..:out=pHandle=flip/31", "gh", "handle");
    let byte = |handle: &str| u8::from_str_radix(&handle[2..4], 16).unwrap();
    assert_eq!(byte(&flipped), !byte(&plain));
    // Another handle of the same process: that of the memory before.
    let other = "cuIpcGetMemHandle:process=2..:out=pHandle=other";
    assert_ne!(value("", "gfgh", "handle"), plain);
    assert_eq!(value(other, "gfgh", "handle"), plain);
    // There is none, or one of another kind alone: the output stays.
    assert_eq!(value(other, "gh", "handle"), plain);
    assert_ne!(value("", "vgh", "handle"), plain);
    assert_eq!(value(other, "vgh", "handle"), value("", "vgh", "handle"));
}

#[test]
fn a_handle_that_was_damaged_does_not_open() {
    // Byte 36 is one that drivers check. The exporter is the first process.
    let damaged = "cuIpcGetMemHandle:process=1:out=pHandle=flip/36";
    assert_eq!(one(damaged, "o").first(), ["1"]);
}

#[test]
fn the_first_rule_with_a_result_decides_and_waits_add_up() {
    let plan = "cuDeviceCanAccessPeer:delay=60ms;cuDeviceCanAccessPeer:error=INVALID_DEVICE:delay=60ms;\
                cuDeviceCanAccessPeer:error=NOT_INITIALIZED:delay-after=60ms";
    let begun = Instant::now();
    assert_eq!(one(plan, "c").first(), ["101"]);
    // No upper bound: the machine may be slow. Less than the waits it cannot be.
    assert!(begun.elapsed().as_millis() >= 180);
}

#[test]
fn signals_and_ends() {
    let with = |plan: &str| run(plan, &["turns", "1", "1", "co"]);
    let ended = with("cuIpcOpenMemHandle*:exit=7");
    assert_eq!((ended.done.stderr.as_str(), ended.lines.len()), ("faults: a process ended with 0x700\n", 0));
    let killed = with("cuIpcOpenMemHandle*:signal=KILL");
    assert_eq!(killed.done.stderr, "faults: a process ended with 0x9\n");
    // One that is ignored by default: the call goes on.
    assert_eq!(with("cuIpcOpenMemHandle*:signal=WINCH").first(), ["0", "0"]);
}

#[test]
fn calls_are_selected_by_their_object() {
    let at = |condition: &str, word: &str| {
        let plan = format!("cuDeviceCanAccessPeer,@ipc,@enable,^@release:process=2..:{condition}:error=any:seed=1");
        let ran = one(&plan, word);
        ran.first().iter().map(|result| if *result == "0" { '.' } else { 'x' }).collect::<String>()
    };
    assert_eq!(at("dev=0", "cr"), "x.");
    assert_eq!(at("peer=0", "cr"), ".x");
    assert_eq!(at("dev=^0", "cr"), ".x");
    assert_eq!(at("dev=0..1:peer=1", "cr"), "x.");
    // The device of the current context.
    assert_eq!(at("dev=1", "g1g0g"), ".x.");
    assert_eq!(at("peer=1", "e"), "x");
    assert_eq!(at("peer=0", "e"), ".");
    // 4096 bytes of its own: the size is that of what it exports.
    assert_eq!((at("size=4K", "g"), at("size=8K..", "g"), at("size=^4K", "g")), ("x".into(), ".".into(), ".".into()));
    assert_eq!((at("Flags=1", "oe"), at("Flags=0", "eo")), ("x.".into(), "x.".into()));
    assert_eq!((at("prev=SUCCESS", "cc"), at("prev=INVALID_DEVICE", "cc")), (".x".into(), "..".into()));
    assert_eq!(
        (at("thread=main", "c"), at("thread=^main", "c"), at("thread=no*", "c")),
        ("x".into(), ".".into(), ".".into())
    );
    let name = program().file_name().unwrap().to_str().unwrap().to_owned();
    let of = |key: &str| (at(&format!("{key}={name}"), "c"), at(&format!("{key}=^{name}"), "c"));
    assert_eq!(of("program"), ("x".into(), ".".into()));
    assert_eq!(of("caller"), ("x".into(), ".".into()));
    assert_eq!((at("pid=1", "c"), at("pid=2..", "c"), at("rank=0", "c")), (".".into(), "x".into(), ".".into()));
    assert_eq!(
        (at("site=new", "ccrr"), at("after=1h", "c"), at("until=1h", "c")),
        ("x.x.".into(), ".".into(), "x".into())
    );
    assert_eq!((at("mark=ma*", "cmc"), at("mark=other", "cmc")), (".x".into(), "..".into()));
}

#[test]
fn opened_objects_are_known_from_their_exporter() {
    let at = |condition: &str| {
        let folder = support::temp_dir();
        let plan = format!("cuIpcOpen*:{condition}:error=any:seed=1");
        let mut command = command(folder.path(), &plan, &["turns", "1", "1", "ow"]);
        command.env(env::OUT, folder.path().join("r")).env_remove(env::RECORD);
        let ran = ran(&mut command);
        ran.first().iter().map(|result| if *result == "0" { '.' } else { 'x' }).collect::<String>()
    };
    // The exporter's memory is 1 MiB on device 0; an event has no size.
    assert_eq!(["peer=0", "peer=1", "peer=^0"].map(at), ["xx", "..", ".."]);
    assert_eq!(["size=1M", "size=..1K"].map(at), ["x.", ".."]);
}

#[test]
fn ranks_choose_processes() {
    let with = |rank: &str| {
        let folder = support::temp_dir();
        let mut command =
            command(folder.path(), "cuDeviceCanAccessPeer:rank=1..2:error=INVALID_DEVICE", &["turns", "1", "1", "c"]);
        ran(command.env("RANK", rank)).first().concat()
    };
    assert_eq!(["0", "1", "2", "3"].map(with), ["0", "101", "101", "0"]);
}

#[test]
fn a_part_of_the_sites_by_the_seed() {
    // The letters c and r call from two places. A site is known by its stack, which contains the file name of the
    // program, and that is different in each checkout. So no fixed number of seeds is enough everywhere.
    const WAYS: [&str; 4] = ["....", ".x.x", "x.x.", "xxxx"];
    let mut seen = std::collections::BTreeSet::<String>::new();
    for seed in 0..200 {
        seen.insert(
            one(&format!("cuDeviceCanAccessPeer:site=50%:seed={seed}:error=any"), "crcr")
                .first()
                .iter()
                .map(|result| if *result == "0" { '.' } else { 'x' })
                .collect(),
        );
        if seen.len() >= WAYS.len() {
            break;
        }
    }
    assert_eq!(Vec::from_iter(&seen), WAYS);
}

#[test]
fn a_broken_plan_is_none_and_one_message() {
    for (plan, place) in
        [("cuIpcOpen*:error=NOTHING", "column 18"), ("cuIpcOpen*:when=0:error=any", "column 17"), ("x", "column 1")]
    {
        let ran = run(plan, &["turns", "1", "1", "co"]);
        assert_eq!(ran.first(), ["0", "0"], "{plan}");
        // The parent meets no driver, the exporter and the process do.
        let said: Vec<&str> = ran.done.stderr.lines().collect();
        assert!((1..=2).contains(&said.len()), "{said:?}");
        assert!(said.iter().all(|line| line.contains(place) && line.ends_with("; nothing is injected")), "{said:?}");
    }
}

#[test]
fn a_plan_that_is_only_tried_changes_nothing() {
    let folder = support::temp_dir();
    let mut command =
        command(folder.path(), "cuIpcOpen*:error=any;cuDeviceCanAccessPeer:exit=3", &["turns", "1", "1", "cowl"]);
    let ran = ran(command.env(env::DRY_RUN, "1"));
    assert_eq!(ran.first()[..3], ["0", "0", "0"]);
    assert_eq!((ran.value("memory"), ran.done.stderr.as_str()), ("1", ""));
}

#[test]
fn held_calls_are_released_from_outside() {
    let folder = support::temp_dir();
    let mut command = command(folder.path(), "cuIpcOpenMemHandle*:hang=gate", &["turns", "1", "1", "co"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let file = || {
        std::fs::read_dir(folder.path())
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("faults-"))
    };
    support::wait_for("a file of faults", file);
    std::fs::write(folder.path().join("release-gate"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0.0: 0 0\n");
}
