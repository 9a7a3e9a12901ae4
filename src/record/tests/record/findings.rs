//! Findings belong to their calls, and objects to their findings.

use super::{all_calls, call, one_stream};
use cupeer_record::{Details, Finding, FindingObject, writer};
use cupeer_spec::record;
use cupeer_spec::record::slot::finding::Severity;
use cupeer_spec::record::slot::{self, detail, finding::Confidence};

fn object(address: u64) -> FindingObject {
    let mut what = slot::finding::FindingObject { role: slot::finding::role::EXPORT, address, ..Default::default() };
    what.library[..7].copy_from_slice(b"libx.so");
    FindingObject { what, frames: vec![address, 2] }
}

fn finding(message: &str, objects: Vec<FindingObject>) -> Finding {
    Finding {
        confidence: Confidence::Inferred,
        severity: Severity::Warning,
        argument: Some(1),
        rule: "ipc-flags".into(),
        message: message.into(),
        hint: "Pass 1.".into(),
        objects,
    }
}

/// The findings of a call that has these items, each list in a detail of its own.
fn read_back(details: &[&[(u8, Vec<u8>)]]) -> Vec<Finding> {
    let (mut writer, stream) = one_stream();
    let number = writer.call(stream, &call(10, 1)).unwrap();
    for list in details {
        let items: Vec<u8> = list.iter().flat_map(|(tag, body)| writer::item_bytes(*tag, 0, body)).collect();
        writer.items(stream, slot::DETAIL, number, &items).unwrap();
    }
    writer.call(stream, &call(20, 2)).unwrap();
    let calls = all_calls(writer.into_bytes());
    assert!(calls[1].details.findings.is_empty());
    calls[0].details.findings.clone()
}

fn finding_item(message: &str) -> (u8, Vec<u8>) {
    (detail::FINDING, [&[2, 1, 1, 0][..], b"ipc-flags\0", message.as_bytes(), b"\0Pass 1."].concat())
}

fn object_item(address: u64) -> (u8, Vec<u8>) {
    let object = object(address);
    let frames: Vec<u8> = object.frames.iter().flat_map(|frame| frame.to_le_bytes()).collect();
    (detail::OBJECT, [record::plain_bytes(&object.what), &frames].concat())
}

#[test]
fn objects_belong_to_the_finding_before_them_also_in_the_next_detail() {
    let found = read_back(&[&[finding_item("a"), object_item(1), finding_item("")], &[object_item(2), object_item(3)]]);
    let expected = [finding("a", vec![object(1)]), finding("", vec![object(2), object(3)])];
    assert_eq!(found, expected);
    assert_eq!(found[0].objects[0].library_name(), "libx.so");
}

#[test]
fn writer_follows_the_format() {
    let (mut writer, stream) = one_stream();
    let findings = vec![finding("a", vec![object(1)]), Finding { argument: None, ..finding("", Vec::new()) }];
    let details = Details { findings: findings.clone(), ..Details::default() };
    let number = writer.call(stream, &call(10, 1)).unwrap();
    writer.details(stream, number, &details).unwrap();
    assert_eq!(all_calls(writer.into_bytes())[0].details.findings, findings);
    assert_eq!(read_back(&[&[finding_item("a"), object_item(1)]]), findings[..1]);
}

#[test]
fn objects_of_nothing_and_broken_findings_say_nothing() {
    assert!(read_back(&[&[object_item(1)]]).is_empty());
    let broken = (detail::FINDING, vec![0, 77, 0, 0, b'a', 0, b'b']);
    let found = read_back(&[&[finding_item("a"), broken.clone(), object_item(1), (detail::OBJECT, vec![1; 127])]]);
    assert_eq!(found, [finding("a", Vec::new())], "the object is of a finding that cannot be read");
    let no_text = (detail::FINDING, vec![0, 0, 0, 0, 0xff, 0xfe]);
    assert!(read_back(&[&[no_text, object_item(1)]]).is_empty());
    let short = (detail::OBJECT, vec![1; 127]);
    assert_eq!(read_back(&[&[finding_item("a"), short]]), [finding("a", Vec::new())]);
}

#[test]
fn a_call_keeps_so_many_findings_and_objects() {
    let many: Vec<_> = (0..40).flat_map(|i| [finding_item("a"), object_item(i)]).collect();
    let lists: Vec<&[(u8, Vec<u8>)]> = many.chunks(20).collect();
    let found = read_back(&lists);
    assert_eq!(found.len(), 16);
    assert!(found.iter().zip(0..).all(|(finding, i)| finding.objects[0] == object(i)), "{found:?}");
    let one: Vec<_> = std::iter::once(finding_item("a")).chain((0..100).map(object_item)).collect();
    let lists: Vec<&[(u8, Vec<u8>)]> = one.chunks(20).collect();
    assert_eq!(read_back(&lists)[0].objects.len(), 64);
}
