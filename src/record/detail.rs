//! Reads the items of a detail into [`Details`].

use crate::event::{CopyContent, Details, DeviceMemoryState};
use crate::finding::{self, Finding};
use crate::hit::{self, FiredFault};
use cupeer_spec::record::slot::{self, PythonLine, detail, hit::did};

/// Largest number of items of one kind that are kept per call. Calls usually have one or two; a damaged
/// recording may have any number.
const MOST_ITEMS: usize = 16;
/// Largest number of memory ranges that are kept per call.
const MOST_RANGES: usize = 64;

impl Details {
    /// Adds the items in the bytes of a detail, from [`detail::START`] on. Ignores malformed items.
    pub(crate) fn add_items(&mut self, bytes: &[u8]) {
        // The objects of a finding may be in the next detail. If a finding is dropped, its objects are, too.
        let mut keeps_objects = true;
        for item in detail::items(bytes) {
            match item.tag {
                detail::FRAMES => {
                    let frames = item.bytes.chunks_exact(8).take(detail::MOST_FRAMES);
                    self.frames = frames.filter_map(read_number).collect();
                }
                detail::PYTHON => self.python = PythonLine::parse_all(item.bytes).take(detail::MOST_PYTHON).collect(),
                detail::ELEMENTS if self.elements.len() < MOST_ITEMS => {
                    self.elements.push((item.argument, item.bytes.to_vec()));
                }
                detail::TEXT if self.texts.len() < MOST_ITEMS => {
                    self.texts.push((item.argument, item.bytes.to_vec()));
                }
                detail::ARGUMENTS => {
                    self.arguments = item.bytes.iter().copied().take(slot::MOST_ARGS).collect();
                }
                detail::MEMORY => self.memory = parse_first_two(item.bytes).or(self.memory),
                detail::DEVICES => self.devices = parse_devices(item.bytes).unwrap_or(self.devices),
                detail::CONTEXT => self.context = read_number(item.bytes).or(self.context),
                detail::OWNER => {
                    let owner = parse_first_two(item.bytes).map(|(context, device)| (context, device as i32));
                    self.owner = owner.or(self.owner);
                }
                detail::CONTEXTS => self.contexts = read_number(item.bytes).or(self.contexts),
                detail::CURRENT => self.current = read_number(item.bytes).or(self.current),
                detail::RANGES => {
                    let ranges = item.bytes.chunks_exact(16).filter_map(parse_first_two);
                    self.ranges = ranges.take(MOST_RANGES).collect();
                }
                detail::NODES => self.nodes = item.bytes.to_vec(),
                detail::CONTENT => self.content = parse_content(item.bytes).or(self.content),
                detail::LEFT => self.device_memory = parse_device_memory(item.bytes).or(self.device_memory),
                detail::MESSAGE => self.message = Some(item.bytes.to_vec()),
                detail::FINDING => {
                    let room = self.findings.len() < finding::MOST;
                    let finding = Finding::parse(item.bytes).filter(|_| room);
                    keeps_objects = finding.is_some();
                    self.findings.extend(finding);
                }
                detail::OBJECT if keeps_objects => {
                    self.findings.last_mut().into_iter().for_each(|finding| finding.add_object(item.bytes));
                }
                detail::HIT => FiredFault::parse(item.bytes).into_iter().for_each(|hit| self.add_hit(hit)),
                _ => {}
            }
        }
    }

    /// Adds the contents of a later detail of the same call.
    pub(crate) fn merge(&mut self, later: Details) {
        if !later.frames.is_empty() {
            (self.frames, self.python, self.stack_of) = (later.frames, later.python, later.stack_of);
        }
        self.repeats = later.repeats.or(self.repeats);
        self.elements.extend(later.elements);
        self.texts.extend(later.texts);
        if !later.arguments.is_empty() {
            self.arguments = later.arguments;
        }
        self.memory = later.memory.or(self.memory);
        if later.devices != (None, None) {
            self.devices = later.devices;
        }
        self.context = later.context.or(self.context);
        self.owner = later.owner.or(self.owner);
        self.contexts = later.contexts.or(self.contexts);
        self.current = later.current.or(self.current);
        if !later.ranges.is_empty() {
            self.ranges = later.ranges;
        }
        if !later.nodes.is_empty() {
            self.nodes = later.nodes;
        }
        self.content = later.content.or(self.content);
        self.device_memory = later.device_memory.or(self.device_memory);
        self.message = later.message.or(self.message.take());
        self.findings.extend(later.findings);
        later.hits.into_iter().for_each(|hit| self.add_hit(hit));
    }

    /// Adds a fault that fired at the call. For a call that hangs or gets a signal, the fault is recorded
    /// before the call, and recorded again if it did more.
    fn add_hit(&mut self, hit: FiredFault) {
        let is_said_before = self.hits.iter().any(|known| known.has_effect(did::HANG | did::SIGNAL));
        let is_less = |known: &FiredFault| {
            (&known.fault_name, known.what.count) == (&hit.fault_name, hit.what.count)
                && known.what.did & !hit.what.did == 0
        };
        match self.hits.iter().position(is_less).filter(|_| is_said_before) {
            Some(place) => self.hits[place] = hit,
            None if self.hits.len() < hit::MOST => self.hits.push(hit),
            None => {}
        }
    }
}

/// Returns the text of a mark, which is stored like a detail.
pub(crate) fn mark_text(bytes: &[u8]) -> Vec<u8> {
    let text = detail::items(bytes).find(|item| item.tag == detail::TEXT);
    text.map_or_else(Vec::new, |item| item.bytes.to_vec())
}

fn read_number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.first_chunk()?))
}

/// Parses the ordinals of the devices of the current context and of the peer context; `None` for an unknown
/// device.
fn parse_devices(bytes: &[u8]) -> Option<(Option<i32>, Option<i32>)> {
    let both = read_number(bytes)?;
    let device = |number: u64| Some(number as i32).filter(|device| *device >= 0);
    Some((device(both), device(both >> 32)))
}

fn parse_content(bytes: &[u8]) -> Option<CopyContent> {
    let (hash, rest) = parse_first_two(bytes)?;
    Some(CopyContent { hash, device: rest as i32, is_constant: rest >> 32 != 0 })
}

fn parse_device_memory(bytes: &[u8]) -> Option<DeviceMemoryState> {
    let words: Vec<u64> = bytes.chunks_exact(8).filter_map(read_number).collect();
    let [device, free, total, counted_bytes, counted] = words[..] else { return None };
    Some(DeviceMemoryState { device: device as i32, free, total, counted_bytes, counted })
}

fn parse_first_two(bytes: &[u8]) -> Option<(u64, u64)> {
    Some((read_number(bytes)?, read_number(bytes.get(8..)?)?))
}
