//! Fault plans: hits belong to their calls, and files of counters are read back, whatever their bytes.

use super::{all_calls, call, one_stream};
use cupeer_record::faults::LaterPlan;
use cupeer_record::writer::{self, About, Writer};
use cupeer_record::{Details, FaultCounts, FaultFile, FiredFault, Job, Outcome, faults};
use cupeer_spec::record::faults as spec;
use cupeer_spec::record::slot::{self, detail, hit::did};
use proptest::prelude::*;

fn hit(did: u16, rule: &str) -> FiredFault {
    FiredFault {
        what: slot::hit::FiredFault { did, process: 2, count: 7, ..Default::default() },
        fault_name: rule.into(),
    }
}

fn rule(name: &str, text: &str, matched: u64, fired: u64) -> FaultCounts {
    FaultCounts { name: name.into(), text: text.into(), matched, fired, processes: 2 }
}

fn file(rules: Vec<FaultCounts>, damaged: Vec<u64>) -> FaultFile {
    FaultFile {
        path: "faults".into(),
        boot_id: [7; 16],
        rules,
        processes: 2,
        damaged,
        damaged_more: 0,
        later: Some(LaterPlan { number: 7, armed: 8, disarmed: 9, root: Some((10, 11, 12)) }),
        problem: None,
    }
}

#[test]
fn hits_belong_to_their_call() {
    let (mut writer, stream) = one_stream();
    let mut failed = call(10, 1);
    (failed.outcome, failed.injected) = (Outcome::Returned(205), true);
    failed.details.hits = vec![hit(did::DELAY, "inject/1"), hit(did::ERROR | did::NOT_CALLED, "inject/2")];
    writer.call(stream, &failed).unwrap();
    let mut hangs = call(20, 2);
    let number = writer.begin(stream, &hangs).unwrap();
    hangs.details.hits = vec![hit(did::HANG, "inject/gate")];
    writer.details(stream, number, &hangs.details).unwrap();
    let mut odd = vec![detail::HIT, 0, 32, 0];
    odd.extend([1; 32]);
    writer.items(stream, slot::DETAIL, number, &odd).unwrap();
    writer.items(stream, slot::DETAIL, number, &[detail::HIT, 0, 3, 0, 1, 2, 3, 0]).unwrap();
    writer.call(stream, &call(30, 3)).unwrap();
    let calls = all_calls(writer.into_bytes());
    assert_eq!(calls[0].details.hits, failed.details.hits);
    assert_eq!(calls[0].injecting_fault(), Some("inject/2"));
    assert_eq!(calls[0].details.hits[1].effect_words().collect::<Vec<_>>(), ["error", "not-called"]);
    assert!(calls[0].stopping_fault().is_none());
    assert_eq!(calls[1].details.hits, hangs.details.hits, "what has no name or is too short says nothing");
    assert_eq!(calls[1].stopping_fault(), Some(&hangs.details.hits[0]));
    assert_eq!(calls[1].injecting_fault(), None);
    assert_eq!(*calls[2].details, Details::default());
}

#[test]
fn late_end_of_a_hung_call_replaces_its_first_end() {
    let (mut writer, stream) = one_stream();
    let mut hung = call(10, 1);
    (hung.outcome, hung.injected) = (Outcome::Returned(205), true);
    hung.details.hits = vec![
        hit(0, "inject/late"),
        hit(did::HANG, "inject/gate"),
        hit(did::HANG | did::ERROR, "inject/gate"),
        hit(did::DELAY_AFTER, "inject/late"),
    ];
    writer.call(stream, &hung).unwrap();
    // Two plans that a program armed may each have a rule of this name.
    let mut twice = call(20, 2);
    twice.details.hits = vec![hit(did::DELAY, "armed/1"), hit(did::DELAY | did::ERROR, "armed/1")];
    writer.call(stream, &twice).unwrap();
    let calls = all_calls(writer.into_bytes());
    let wanted = [hit(did::DELAY_AFTER, "inject/late"), hit(did::HANG | did::ERROR, "inject/gate")];
    assert_eq!(calls[0].details.hits, wanted);
    assert_eq!(calls[0].injecting_fault(), Some("inject/gate"));
    assert_eq!(calls[1].details.hits, twice.details.hits);
}

#[test]
fn driver_results_of_injected_calls_are_known() {
    assert!(hit(did::ERROR, "a/1").is_completed_anyway());
    for other in [did::DELAY, did::ERROR | did::NOT_CALLED, did::ERROR | did::UNDONE, did::ERROR | did::DRY] {
        assert!(!hit(other, "a/1").is_completed_anyway(), "{other}");
    }
    let mut failed = hit(did::ERROR, "a/1");
    failed.what.driver_result = 1;
    assert!(!failed.is_completed_anyway());
}

#[test]
fn files_of_all_hosts_and_plans_are_read_and_are_no_record_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let rules = [rule("inject/1", "cuMemFree*:error=999", 5, 2), rule("inject/2", "@ipc:delay=1ms", 0, 0)];
    let path = writer::write_fault_counts(folder.path(), ([1; 16], 0xab), &rules, 2, &[77]).unwrap();
    assert_eq!(path.file_name().unwrap(), "faults-01010101-000000ab");
    assert!(Job::open(folder.path()).is_err(), "it is no recording");
    assert_eq!(FaultFile::all_in(folder.path()).len(), 1);
    writer::write_job_file(folder.path()).unwrap();
    Writer::create(folder.path(), About::default()).unwrap().finish().unwrap();
    // Another plan of that host, and the first plan of another host, which has its own directory.
    writer::write_fault_counts(folder.path(), ([1; 16], 0xac), &[rule("mine/1", "cuMemFree*:error=999", 1, 1)], 1, &[])
        .unwrap();
    let inner = folder.path().join("other");
    std::fs::create_dir(&inner).unwrap();
    writer::write_fault_counts(&inner, ([2; 16], 0xab), &rules, 3, &[78]).unwrap();
    // Other files that may be in the directory.
    std::fs::write(folder.path().join(format!("{}gate", spec::RELEASE)), b"").unwrap();
    std::fs::create_dir(folder.path().join("vllm-cache")).unwrap();
    std::fs::write(folder.path().join("vllm-cache/gpu_p2p_access_cache.json"), b"{}").unwrap();

    let job = Job::open(folder.path()).unwrap();
    assert!(job.problems.is_empty(), "{:?}", job.problems);
    assert_eq!(job.faults.len(), 3);
    let found = job.merged_faults();
    let rows: Vec<_> =
        found.iter().map(|rule| (rule.plan_name(), &*rule.name, rule.matched, rule.fired, rule.processes)).collect();
    assert_eq!(rows, [("inject", "inject/1", 10, 4, 5), ("inject", "inject/2", 0, 0, 5), ("mine", "mine/1", 1, 1, 1)]);
    assert_eq!(job.faults.iter().flat_map(|file| &file.damaged).collect::<Vec<_>>(), [&77, &78]);
}

#[test]
fn problems_of_files_are_described() {
    let good = file(vec![rule("a/1", "cuInit:error=1", 1, 1), rule("a/2", "cuInit:delay=1s", 1, 1)], vec![5]);
    let bytes = good.to_bytes();
    let changed = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        FaultFile::from_bytes("faults", bytes)
    };
    assert_eq!(FaultFile::from_bytes("faults", bytes.clone()), Ok(good.clone()));
    let error = |answer: Result<FaultFile, String>| answer.unwrap_err();
    assert_eq!(error(FaultFile::from_bytes("faults", Vec::new())), "is empty");
    assert_eq!(error(FaultFile::from_bytes("faults", vec![0; 9000])), "is empty", "it is being made");
    assert_eq!(error(changed(0, b'X')), "does not say what fault plans did");
    assert_eq!(error(changed(8, 9)), "was written by a newer cupeer (format 9; this one reads 1)");
    assert_eq!(error(FaultFile::from_bytes("faults", bytes[..50].to_vec())), "is cut off in its header");
    assert!(error(changed(15, 9)).starts_with("claims to have"));
    let cut = FaultFile::from_bytes("faults", bytes[..spec::TEXT + 20].to_vec()).unwrap();
    assert_eq!(cut.problem.unwrap(), "is cut off: some of what fault plans did is missing");
    assert_eq!((cut.rules[0].name.as_str(), cut.rules[0].matched), ("a/1", 0));
    // An additional rule, whose counters are in the space of a scope.
    let mut more = bytes.clone();
    more.extend([0; 64]);
    more[12] = 3;
    let more = FaultFile::from_bytes("faults", more).unwrap();
    assert_eq!((more.rules, &*more.problem.unwrap()), (good.rules, "lacks the text of 1 of 3 rules"));
}

proptest! {
    #[test]
    fn files_come_back(
        rules in proptest::collection::vec(("[a-z]{1,5}/[a-z0-9]{1,5}", "[!-~]{1,60}", any::<u64>(), any::<u64>()), 0..20),
        damaged in proptest::collection::vec(1..u64::MAX, 0..256),
    ) {
        let rules = rules.iter().map(|(name, text, matched, fired)| rule(name, text, *matched, *fired)).collect();
        let file = file(rules, damaged);
        prop_assert_eq!(FaultFile::from_bytes("faults", file.to_bytes()), Ok(file));
    }

    #[test]
    fn damaged_files_break_nothing(
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..12),
        heads in proptest::collection::vec((8..64usize, any::<u8>()), 0..4),
        length in 0..6000usize,
    ) {
        let rules = (0..30).map(|i| rule(&format!("a/{i}"), "cuMemFree*:error=any", i, i)).collect();
        let mut bytes = file(rules, vec![1, 2, 3]).to_bytes();
        let size = bytes.len();
        changes.iter().for_each(|(at, byte)| bytes[usize::from(*at) % size] = *byte);
        heads.iter().for_each(|(at, byte)| bytes[*at] = *byte);
        bytes.truncate(length);
        if let Ok(file) = FaultFile::from_bytes("faults", bytes.clone()) {
            prop_assert!(file.rules.len() <= bytes.len() && file.damaged.len() <= spec::DAMAGED_COUNT);
            let _ = faults::merge_faults(&[file.clone(), file]);
        }
    }

    #[test]
    fn random_bytes_are_a_file_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..9000), begins in any::<bool>()) {
        let mut bytes = bytes;
        if begins && bytes.len() > 16 {
            bytes[..8].copy_from_slice(&spec::MAGIC);
            bytes[8..12].copy_from_slice(&spec::VERSION.to_le_bytes());
            bytes[14..16].fill(0);
        }
        let length = bytes.len();
        if let Ok(file) = FaultFile::from_bytes("faults", bytes) {
            prop_assert!(file.rules.len() <= length);
        }
    }
}
