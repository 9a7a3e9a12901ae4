use super::*;
use crate::document::parse;
use crate::document::tests::document;
use proptest::prelude::*;

/// A process with all that sharing needs.
fn process() -> Process {
    let ids = |id| crate::system::process::Ids { real: id, effective: id, saved: id };
    let namespaces = ["pid", "ipc", "mnt", "net", "user"].map(|kind| (kind.to_owned(), "1".to_owned()));
    Process {
        boot_id: Some("boot".into()),
        namespaces: namespaces.into(),
        user: Some(ids(1000)),
        group: Some(ids(1000)),
        host_user: Some(1000),
        permitted: Some("0000000000000000".into()),
        effective: Some("0000000000000000".into()),
        seccomp: Some(0),
        ptrace_scope: Some(0),
        descriptor: Some(Descriptor::Taken),
        shm: Some("0:27".into()),
        imex: Some(vec!["channel0".into()]),
        module: Some("580.159.04".into()),
        libraries: Some("580.159.04".into()),
        devices: Some(vec![device("GPU-0"), device("GPU-1")]),
        ..Process::default()
    }
}

fn device(uuid: &str) -> Device {
    Device {
        uuid: uuid.to_owned(),
        pci: "0000:01:00.0".into(),
        shown: Some(true),
        mig: Some(false),
        fabric: Some(true),
        clique: Some("ab/1".into()),
    }
}

/// Results for legacy handles, events, SCM_RIGHTS, pidfd_getfd, fabric handles, and /dev/shm if the other process
#[track_caller]
fn becomes(change: impl Fn(&mut Process), expected: &str) -> Vec<MethodVerdict> {
    let (one, mut other) = (process(), process());
    change(&mut other);
    let word = |ways: &[MethodVerdict]| -> String {
        let letter = |way: &MethodVerdict| match way.possible {
            Feasibility::Yes => 'y',
            Feasibility::Unknown => 'u',
            Feasibility::No => 'n',
        };
        ways.iter().map(letter).collect()
    };
    let ways = super::judge_methods(&one, &other);
    assert_eq!(word(&ways), expected, "{ways:#?}");
    assert_eq!(word(&super::judge_methods(&other, &one)), expected, "the other order");
    for way in &ways {
        assert!(!way.because.is_empty() && way.because.iter().all(|reason| reason.possible == way.possible));
    }
    ways
}

fn space(kind: &'static str) -> impl Fn(&mut Process) {
    move |process| drop(process.namespaces.insert(kind.to_owned(), "2".to_owned()))
}

#[test]
fn two_that_are_alike_can_share_in_all_ways() {
    let ways = becomes(|_| {}, "yyyyyy");
    assert_eq!(ways[0].because[0].says, "nothing is in the way");
}

#[test]
fn each_namespace_stands_in_the_way_of_what_needs_it() {
    becomes(space("pid"), "uuynyy");
    becomes(space("ipc"), "yyyyyy");
    becomes(space("mnt"), "yyyyyy");
    // One directory for the socket is left.
    becomes(space("net"), "yyyyyy");
    becomes(
        |process| {
            space("net")(process);
            space("mnt")(process);
        },
        "yyuyyy",
    );
    becomes(space("user"), "yyynyy");
}

#[test]
fn withheld_facts_are_unknown() {
    becomes(|process| process.namespaces.clear(), "uuuuyy");
    becomes(|process| process.boot_id = None, "uuuuyu");
    becomes(|process| process.devices = None, "uuuuuy");
    becomes(|process| process.descriptor = None, "yyyuyy");
    becomes(|process| process.imex = None, "yyyyuy");
    becomes(|process| process.host_user = None, "yuyyyu");
    becomes(|process| *process = Process::default(), "unuuun");
}

#[test]
fn users_and_capabilities() {
    let ids = crate::system::process::Ids { real: 2000, effective: 2000, saved: 2000 };
    becomes(
        |process| {
            process.user = Some(ids.clone());
            process.host_user = Some(2000);
        },
        "ynynyu",
    );
    becomes(|process| process.group = Some(ids.clone()), "yyynyy");
    // One of them has a capability that the other has not, and may be the exporter.
    becomes(|process| process.permitted = Some("0000000000000001".into()), "yyynyy");
    let refused = |process: &mut Process| process.descriptor = Some(Descriptor::Refused(libc::EPERM));
    let ways = becomes(refused, "yyynyy");
    assert!(ways[3].because[0].hint.as_ref().unwrap().contains("ptrace_scope=0"));
    // With CAP_SYS_PTRACE on both sides, users and capabilities do not matter.
    let may = |process: &mut Process| process.effective = Some("0000000000080000".into());
    let (mut one, mut other) = (process(), process());
    [&mut one, &mut other].into_iter().for_each(may);
    other.group = Some(ids);
    assert_eq!(super::judge_methods(&one, &other)[3].possible, Feasibility::Yes);
}

#[test]
fn devices_and_drivers() {
    becomes(|process| process.devices = Some(vec![device("GPU-7")]), "nnnnyy");
    becomes(|process| process.devices = Some(Vec::new()), "nnnnny");
    let ways = becomes(|process| process.devices = Some(vec![device("GPU-1")]), "yyyyyy");
    assert_eq!(ways[0].because[0].says, "only for memory of GPUs that both may use: GPU-1");
    becomes(|process| process.libraries = Some("575.1".into()), "uuuuuy");
    let (mut one, mut other) = (process(), process());
    for process in [&mut one, &mut other] {
        process.devices.as_mut().unwrap().iter_mut().for_each(|device| device.mig = Some(true));
    }
    assert_eq!(super::judge_methods(&one, &other)[0].possible, Feasibility::No);
}

#[test]
fn hosts_channels_and_file_systems() {
    becomes(|process| process.boot_id = Some("other".into()), "nnnnyn");
    becomes(
        |process| {
            process.boot_id = Some("other".into());
            process.devices.as_mut().unwrap().iter_mut().for_each(|device| device.clique = Some("cd/1".into()));
        },
        "nnnnnn",
    );
    becomes(
        |process| {
            process.boot_id = Some("other".into());
            process.devices.as_mut().unwrap().iter_mut().for_each(|device| device.clique = None);
        },
        "nnnnun",
    );
    becomes(|process| process.imex = Some(vec!["channel1".into()]), "yyyyny");
    becomes(|process| process.imex = Some(Vec::new()), "yyyyny");
    becomes(|process| process.shm = Some("0:99".into()), "ynyyyn");
}

proptest! {
    /// Reports in which something was overwritten are refused or read, and those that are read can be compared.
    #[test]
    fn a_damaged_report_is_refused_or_can_be_compared(at: prop::sample::Index, with in "[\"0-9a-z{}\\[\\]:,. -]{0,6}") {
        let whole = serde_json::to_string(&document()).unwrap();
        let at = at.index(whole.len());
        let end = (at + with.len()).min(whole.len());
        let (Some(before), Some(after)) = (whole.get(..at), whole.get(end..)) else { return Ok(()) };
        if let Ok(read) = parse(format!("{before}{with}{after}").as_bytes()) {
            let ways = super::judge_methods(&read.process, &document().process);
            prop_assert_eq!(ways.len(), 6);
        }
    }
}
