//! The items of details, as bytes.

use crate::event::{Content, Details, Left};
use crate::finding::{Finding, Object};
use cupeer_spec::record;
use cupeer_spec::record::slot::detail;
use cupeer_spec::record::slot::finding::NO_ARGUMENT;

/// Returns the items of a call's details.
pub fn items(details: &Details) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |tag, argument, body: &[u8]| bytes.extend(item(tag, argument, body));
    if !details.frames.is_empty() {
        let frames: Vec<u8> = details.frames.iter().flat_map(|frame| frame.to_le_bytes()).collect();
        add(detail::FRAMES, 0, &frames);
    }
    if !details.python.is_empty() {
        let lines: Vec<u8> = details.python.iter().flat_map(|line| line.bytes()).collect();
        add(detail::PYTHON, 0, &lines);
    }
    details.elements.iter().for_each(|(argument, body)| add(detail::ELEMENTS, *argument, body));
    details.texts.iter().for_each(|(argument, body)| add(detail::TEXT, *argument, body));
    if !details.arguments.is_empty() {
        add(detail::ARGUMENTS, 0, &details.arguments);
    }
    if let Some((address, size)) = details.memory {
        add(detail::MEMORY, 0, &[address.to_le_bytes(), size.to_le_bytes()].concat());
    }
    if details.devices != (None, None) {
        let device = |device: Option<i32>| device.unwrap_or(-1).to_le_bytes();
        add(detail::DEVICES, 0, &[device(details.devices.0), device(details.devices.1)].concat());
    }
    if let Some(context) = details.context {
        add(detail::CONTEXT, 0, &context.to_le_bytes());
    }
    if let Some((context, device)) = details.owner {
        add(detail::OWNER, 0, &[context.to_le_bytes(), i64::from(device).to_le_bytes()].concat());
    }
    if let Some(current) = details.current {
        add(detail::CURRENT, 0, &current.to_le_bytes());
    }
    if !details.ranges.is_empty() {
        let words: Vec<u8> = details
            .ranges
            .iter()
            .flat_map(|(at, how)| [at.to_le_bytes(), how.to_le_bytes()])
            .flatten()
            .collect();
        add(detail::RANGES, 0, &words);
    }
    if !details.nodes.is_empty() {
        add(detail::NODES, 0, &details.nodes);
    }
    if let Some(contexts) = details.contexts {
        add(detail::CONTEXTS, 0, &contexts.to_le_bytes());
    }
    if let Some(Content { hash, device, is_constant }) = details.content {
        let rest = [device.to_le_bytes(), i32::from(is_constant).to_le_bytes()].concat();
        add(detail::CONTENT, 0, &[&hash.to_le_bytes()[..], &rest].concat());
    }
    if let Some(Left { device, free, total, counted_bytes, counted }) = details.left {
        let words = [device as u64, free, total, counted_bytes, counted].map(u64::to_le_bytes);
        add(detail::LEFT, 0, words.as_flattened());
    }
    if let Some(message) = &details.message {
        add(detail::MESSAGE, 0, message);
    }
    for finding in &details.findings {
        add(detail::FINDING, 0, &of_finding(finding));
        finding.objects.iter().for_each(|object| add(detail::OBJECT, 0, &of_object(object)));
    }
    for hit in &details.hits {
        add(detail::HIT, 0, &[record::bytes(&hit.what), hit.rule.as_bytes()].concat());
    }
    bytes
}

/// Returns the bytes of one item, with the padding before the next one.
pub fn item(tag: u8, argument: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag, argument];
    bytes.extend((body.len() as u16).to_le_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn of_finding(finding: &Finding) -> Vec<u8> {
    let argument = finding.argument.unwrap_or(NO_ARGUMENT);
    let head = [finding.confidence as u8, finding.severity as u8, argument, 0];
    let texts = [&finding.rule, "\0", &finding.message, "\0", &finding.hint];
    [&head[..], texts.concat().as_bytes()].concat()
}

fn of_object(object: &Object) -> Vec<u8> {
    let frames = object.frames.iter().flat_map(|frame| frame.to_le_bytes());
    record::bytes(&object.what).iter().copied().chain(frames).collect()
}
