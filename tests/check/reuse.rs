//! Handles and addresses that are given out again, as drivers do: what is known of the object that had one is not said of the next.

use super::scenes::{How, Play, report, success};
use crate::support::{self, cupeer, done, temp_dir};
use std::fs;

/// Returns the scenes of the program, and the machines of each.
fn plays() -> Vec<Play> {
    let text = fs::read_to_string("tests/programs/rules/again.c").expect("the program");
    let (_, scenes) = text.split_once("\nSCENES(").expect("its scenes");
    let names = scenes.split("{\"").skip(1).map(|scene| scene.split('"').next().expect("a name").to_owned());
    let machines = |name: &str| {
        let usual = (!name.starts_with("early ")).then_some("nvlink:2");
        let early = (!name.starts_with("usual ")).then_some("nvlink:2,reuse=early");
        usual.into_iter().chain(early)
    };
    let plays = names.flat_map(|name| {
        let name: &'static str = name.leak();
        machines(name).map(move |machine| Play { program: "again", name, machine })
    });
    plays.collect()
}

#[test]
fn a_right_program_whose_handles_come_back_yields_nothing() {
    let plays = plays();
    assert!(plays.len() > 15, "{plays:?}");
    let mut wrong = Vec::new();
    for play in plays {
        let alone = done(&mut play.alone(How::Good));
        let all_well = alone.stdout.lines().all(|line| line == "done" || line.ends_with(success()));
        if !alone.status.success() || !all_well {
            wrong.push(format!("{play:?}: {}\n{}{}", alone.status, alone.stdout, alone.stderr));
            continue;
        }
        // At the call, and when the recording is read.
        let checked = play.checked(How::Good, &[]);
        let folder = temp_dir();
        let record = folder.path().join("record");
        let unchecked = done(&mut play.under(How::Good, &[], &record));
        for (what, run, report) in [("checked", &checked.done, &checked.report), ("read", &unchecked, &report(&record))]
        {
            if run.stdout != alone.stdout || !run.status.success() {
                wrong.push(format!("{play:?}, {what}: {}\n{}{}", run.status, run.stdout, run.stderr));
            }
            if report["findings"] != serde_json::json!([]) {
                wrong.push(format!("{play:?}, {what}: {:#}", report["findings"]));
            }
            if report["leaks"].as_array().is_some_and(|leaks| !leaks.is_empty()) {
                wrong.push(format!("{play:?}, {what}: {:#}", report["leaks"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Memory of device 0 is mapped and released, and an allocation on device 1 gets its handle. Device 1 cannot reach the first one.
const MAPPED: &str = r#"
#include "vmm.h"
int main(void) {
    Allocation first, second;
    CUdeviceptr at;
    start(0);
    IS(create(&first, 0, GRANULE), 0);
    IS(cuMemAddressReserve(&at, GRANULE, 0, 0, 0), 0);
    IS(cuMemMap(at, GRANULE, 0, first, 0), 0);
    IS(cuMemRelease(first), 0);
    IS(create(&second, 1, GRANULE), 0);
    IS(second == first, 1);
    Access access = {{1, 1}, 3};
    IS(cuMemSetAccess(at, GRANULE, &access, 1), 101);
    IS(cuMemUnmap(at, GRANULE), 0);
    IS(cuMemAddressFree(at, GRANULE), 0);
    IS(cuMemRelease(second), 0);
    return 0;
}
"#;

#[test]
fn a_mapping_is_judged_by_its_own_allocation_and_not_by_what_has_its_handle() {
    let program = support::compile_linked("mapped", MAPPED);
    // At the call, and when the recording is read.
    for check in ["--check", "--check=off"] {
        let folder = temp_dir();
        let record = folder.path().join("r");
        let mut run = cupeer();
        run.args(["run", "--sim=none:2,reuse=early", check, "-o"]).arg(&record).arg("--").arg(&program);
        let ran = done(&mut run);
        assert!(ran.stdout.is_empty(), "{}{}", ran.stdout, ran.stderr);
        let report = report(&record);
        let [finding] = report["findings"].as_array().expect("rows").as_slice() else { panic!("{report:#}") };
        assert_eq!(finding["rule"], "vmm-unreachable-device");
        let message = finding["message"].as_str().expect("a text");
        assert!(message.contains("device 1") && message.contains("device 0"), "{check}: {message}");
    }
}

/// A real driver crashes when a handle is mapped or exported that was released.
#[test]
fn a_released_handle_from_which_the_driver_does_not_come_back_is_found() {
    for (name, function) in
        [("vmm-handle-released", "cuMemMap"), ("vmm-handle-released/export", "cuMemExportToShareableHandle")]
    {
        let play = Play { program: "vmm", name, machine: "nvlink:2" };
        let folder = temp_dir();
        let record = folder.path().join("record");
        let fault = format!("{function}:signal=SEGV");
        let ran = done(&mut play.under(How::Bad, &["--check", "--inject", &fault], &record));
        assert!(!ran.status.success() && ran.stderr.contains("vmm-handle-released"), "{}", ran.stderr);
        let report = report(&record);
        let [finding] = report["findings"].as_array().expect("rows").as_slice() else { panic!("{report:#}") };
        assert_eq!((&finding["rule"], &finding["function"]), (&"vmm-handle-released".into(), &function.into()));
    }
}
