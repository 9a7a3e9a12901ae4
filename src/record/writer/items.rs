//! The items of details, as bytes.

use crate::event::{CopyContent, Details, DeviceMemoryState};
use crate::finding::{Finding, FindingObject};
use cupeer_spec::record;
use cupeer_spec::record::slot::detail;
use cupeer_spec::record::slot::finding::NO_ARGUMENT;

/// Returns the items of a call's details.
pub fn detail_items(details: &Details) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |tag, argument, body: &[u8]| bytes.extend(item_bytes(tag, argument, body));
    let bodies = single_item_bodies(details);
    bodies.iter().filter(|(_, body)| !body.is_empty()).for_each(|(tag, body)| add(*tag, 0, body));
    details.elements.iter().for_each(|(argument, body)| add(detail::ELEMENTS, *argument, body));
    details.texts.iter().for_each(|(argument, body)| add(detail::TEXT, *argument, body));
    details.message.iter().for_each(|message| add(detail::MESSAGE, 0, message));
    for finding in &details.findings {
        add(detail::FINDING, 0, &finding_bytes(finding));
        finding.objects.iter().for_each(|object| add(detail::OBJECT, 0, &object_bytes(object)));
    }
    for hit in &details.hits {
        add(detail::HIT, 0, &[record::plain_bytes(&hit.what), hit.fault_name.as_bytes()].concat());
    }
    bytes
}

/// Returns the bytes of the items of which a call has at most one. The bytes of a missing item are empty.
fn single_item_bodies(details: &Details) -> [(u8, Vec<u8>); 13] {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let pair = |(low, high): (i32, i32)| u64::from(low as u32) | u64::from(high as u32) << 32;
    let devices = Some(details.devices).filter(|devices| *devices != (None, None));
    let devices = devices.map(|(current, peer)| pair((current.unwrap_or(-1), peer.unwrap_or(-1))));
    let owner = details.owner.map(|(context, device)| [context, device as u64]);
    let ranges: Vec<[u64; 2]> = details.ranges.iter().copied().map(Into::into).collect();
    let content = details.content.map(|content| {
        let CopyContent { hash, device, is_constant } = content;
        [hash, pair((device, is_constant.into()))]
    });
    let left = details.device_memory.map(|left| {
        let DeviceMemoryState { device, free, total, counted_bytes, counted } = left;
        [device as u64, free, total, counted_bytes, counted]
    });
    [
        (detail::FRAMES, words(&details.frames)),
        (detail::PYTHON, details.python.iter().flat_map(|line| line.to_bytes()).collect()),
        (detail::ARGUMENTS, details.arguments.clone()),
        (detail::MEMORY, words(details.memory.map(<[u64; 2]>::from).as_slice().as_flattened())),
        (detail::DEVICES, words(devices.as_slice())),
        (detail::CONTEXT, words(details.context.as_slice())),
        (detail::OWNER, words(owner.as_slice().as_flattened())),
        (detail::CURRENT, words(details.current.as_slice())),
        (detail::RANGES, words(ranges.as_flattened())),
        (detail::NODES, details.nodes.clone()),
        (detail::CONTEXTS, words(details.contexts.as_slice())),
        (detail::CONTENT, words(content.as_slice().as_flattened())),
        (detail::LEFT, words(left.as_slice().as_flattened())),
    ]
}

/// Returns the bytes of one item, with padding up to the next item.
pub fn item_bytes(tag: u8, argument: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag, argument];
    bytes.extend((body.len() as u16).to_le_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn finding_bytes(finding: &Finding) -> Vec<u8> {
    let argument = finding.argument.unwrap_or(NO_ARGUMENT);
    let head = [finding.confidence as u8, finding.severity as u8, argument, 0];
    let texts = [&finding.rule, "\0", &finding.message, "\0", &finding.hint];
    [&head[..], texts.concat().as_bytes()].concat()
}

fn object_bytes(object: &FindingObject) -> Vec<u8> {
    let frames = object.frames.iter().flat_map(|frame| frame.to_le_bytes());
    record::plain_bytes(&object.what).iter().copied().chain(frames).collect()
}
