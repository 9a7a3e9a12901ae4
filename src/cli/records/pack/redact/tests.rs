//! Tests of the replacements.

use super::{Redact, Redaction};
use cupeer_spec::record::meta;

fn redaction(what: &[Redact]) -> Redaction {
    let hosts = ["node17.corp.example", "node17", "gpu-2", "gpu-2"];
    Redaction::new(what, hosts.into_iter(), ["00112233445566778899aabbccddeeff".to_owned()].into_iter())
}

fn entry(what: &[Redact], tag: u16, text: &str) -> String {
    let bytes = redaction(what).redact_entry(tag, text.as_bytes()).expect("it is kept");
    String::from_utf8(bytes).unwrap()
}

#[test]
fn without_a_wish_all_stays_but_secrets() {
    for (tag, text) in [
        (meta::TEXT, "host\0node17"),
        (meta::TEXT, "later\0thing"),
        (meta::ARGUMENT, "/home/alice/train.py"),
        (meta::VARIABLE, "NCCL_DEBUG=INFO"),
        (meta::ESCAPED, "deepbind\0/home/alice/x.so"),
        (99, "later"),
    ] {
        assert_eq!(entry(&[], tag, text), text);
    }
    assert_eq!(entry(&[], meta::VARIABLE, "CUPEER_JOB=1"), "CUPEER_JOB=-");
    assert_eq!(entry(&[], meta::VARIABLE, "VLLM_API_KEY=abc"), "VLLM_API_KEY=-");
    assert_eq!(entry(&[], meta::ARGUMENT, "--key=00112233445566778899aabbccddeeff"), "--key=-");
    let other = [0xff, b'/', 0xfe];
    assert_eq!(redaction(&[]).redact_entry(meta::ARGUMENT, &other), Some(other.to_vec()));
}

#[test]
fn hosts_are_numbered_wherever_they_stand() {
    let hosts = |tag, text| entry(&[Redact::Hosts], tag, text);
    assert_eq!(hosts(meta::TEXT, "host\0node17.corp.example"), "host\0host-1");
    assert_eq!(hosts(meta::TEXT, "host\0node17"), "host\0host-1");
    assert_eq!(hosts(meta::TEXT, "host\0gpu-2"), "host\0host-2");
    assert_eq!(hosts(meta::ARGUMENT, "--at=node17:29500,gpu-2.corp.example"), "--at=host-1:29500,host-2");
    assert_eq!(hosts(meta::ARGUMENT, "node170 xnode17 gpu-22"), "node170 xnode17 gpu-22");
    assert_eq!(hosts(meta::TEXT, "program\0/scratch/node17/app"), "program\0/scratch/host-1/app");
}

#[test]
fn directories_are_digits_and_the_same_ones_the_same() {
    let all = redaction(&[Redact::Paths]);
    let of = |tag, text: &str| String::from_utf8(all.redact_entry(tag, text.as_bytes()).unwrap()).unwrap();
    let program = of(meta::TEXT, "program\0/home/alice/bin/app");
    let library = of(meta::ESCAPED, "way\0/home/alice/bin/x.so");
    let digits = program.strip_prefix("program\0/~").unwrap().strip_suffix("/app").unwrap();
    assert_eq!((digits.len(), library), (8, format!("way\0/~{digits}/x.so")));
    assert!(of(meta::TEXT, "directory\0/home/alice").starts_with("directory\0/~"));
    assert_eq!(of(meta::ESCAPED, "way\0/usr/lib/libc.so.6"), "way\0/usr/lib/libc.so.6");
    for (text, kept) in [
        ("--out=/home/alice", "--out=/~"),
        ("/home/alice/train.py", "/train.py"),
        ("alice/lib/libx.so.2", "/libx.so.2"),
        ("-v /home/al ice/x y/alice.smith", "/~"),
    ] {
        let new = of(meta::ARGUMENT, text);
        assert!(new.contains(kept) && !new.contains("alice") && !new.contains("ice"), "{new}");
    }
    let list = of(meta::VARIABLE, "LD_LIBRARY_PATH=/home/alice:/usr/lib:/home/alice/lib");
    assert!(list.contains(":/usr/lib:/~") && !list.contains("alice"), "{list}");
    assert_eq!(of(meta::ARGUMENT, "--epochs=3"), "--epochs=3");
}

#[test]
fn arguments_and_values_are_gone_and_ranks_stay() {
    assert_eq!(entry(&[Redact::Arguments], meta::ARGUMENT, "python3"), "-");
    let environment = |text| entry(&[Redact::Environment], meta::VARIABLE, text);
    assert_eq!(environment("NCCL_DEBUG=INFO"), "NCCL_DEBUG=-");
    assert_eq!(environment("RANK=3"), "RANK=3");
    assert_eq!(environment("CUDA_VISIBLE_DEVICES=0,1"), "CUDA_VISIBLE_DEVICES=0,1");
}

#[test]
fn unknown_entries_are_dropped_by_any_redaction() {
    for what in [Redact::Arguments, Redact::Environment, Redact::Hosts, Redact::Paths, Redact::All] {
        assert_eq!(redaction(&[what]).redact_entry(99, b"later"), None);
        assert_eq!(redaction(&[what]).redact_entry(meta::TEXT, b"later\0thing"), None);
    }
    assert_eq!(redaction(&[Redact::All]).redacted_kinds(), ["arguments", "environment", "hosts", "paths"]);
}

#[test]
fn rules_of_fault_plans_are_like_arguments() {
    let text = "cuInit:program=train*:thread=node17:caller=/home/alice/libx.so:error=999";
    let of = |what: &[Redact]| redaction(what).redact_rule(text);
    assert_eq!(of(&[]), text);
    assert_eq!(of(&[Redact::Arguments]), "-");
    assert_eq!(of(&[Redact::Hosts]), text.replace("node17", "host-1"));
    let paths = of(&[Redact::Paths]);
    assert!(
        paths.starts_with("cuInit:program=train*:") && !paths.contains("alice") && paths.contains("/libx.so:"),
        "{paths}"
    );
}

#[test]
fn files_of_python_keep_their_names() {
    let head = [1, 0, 0, 0, 30, 0, 0, 0];
    let of = |text: &[u8]| [&head, text].concat();
    let kept = of(b"/home/alice/train.py\0exchange");
    assert_eq!(redaction(&[Redact::Hosts]).redact_entry(meta::PYTHON, &kept), Some(kept.clone()));
    let gone = redaction(&[Redact::Paths]).redact_entry(meta::PYTHON, &kept).expect("it is kept");
    let text = String::from_utf8_lossy(&gone[8..]).into_owned();
    assert!(gone.starts_with(&head) && text.ends_with("/train.py\0exchange") && !text.contains("alice"), "{text}");
    assert_eq!(redaction(&[Redact::Paths]).redact_entry(meta::PYTHON, &head), None);
}
