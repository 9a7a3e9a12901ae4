//! Legacy IPC: the exports of this process, and its imports.

use super::super::answer::{Answer, fail};
use super::super::backing::Backing;
use super::super::channel::{Channel, Export, MEMORY_NAME, MOST_EXPORTS, SlotState};
use super::super::handle::ExportLocator;
use super::super::limits::random_bytes;
use super::super::namespaces;
use cupeer_spec::results::Result as Code;
use std::collections::VecDeque;
use std::sync::Arc;

/// The exports of this process. The channel is created for the first export.
#[derive(Default, Debug)]
pub(crate) struct ProcessExports {
    channel: Option<Channel>,
    nonce: u16,
    serial: u16,
    /// Slots of withdrawn exports, which can be used again.
    free: Vec<u16>,
    /// The lowest slot that was never used.
    fresh: u32,
    /// Slots of destroyed events. As recorded, the handles of these events work until another export needs
    /// the slot.
    retired: VecDeque<u16>,
}

impl ProcessExports {
    fn open_channel(&mut self) -> Answer<&Channel> {
        if self.channel.is_none() {
            self.nonce = random_nonce();
            self.channel = Channel::create(self.nonce);
        }
        self.channel.as_ref().ok_or_else(|| Code::MAP_FAILED.into())
    }

    /// Publishes an export in a slot. Returns the slot, and the token of the export.
    pub(crate) fn publish(&mut self, mut content: Export) -> Answer<(u16, u32)> {
        self.open_channel()?;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.fresh < MOST_EXPORTS => {
                self.fresh += 1;
                (self.fresh - 1) as u16
            }
            None => self.retired.pop_front().ok_or(Code::OUT_OF_MEMORY)?,
        };
        self.serial = self.serial.wrapping_add(1);
        content.token = u32::from(self.nonce) << 16 | u32::from(self.serial);
        self.open_channel()?.write_slot(slot, &content)?;
        Ok((slot, content.token))
    }

    /// Returns the channel's file, and the offset of the page for the event in a slot.
    pub(crate) fn event_page(&self, slot: u16) -> Option<(Backing, u64)> {
        self.channel.as_ref()?.open_event_page(slot)
    }

    pub(crate) fn locator(&mut self, slot: u16) -> Answer<ExportLocator> {
        let channel = self.open_channel()?;
        let descriptor = channel.descriptor().ok_or(Code::MAP_FAILED)?;
        let token = channel.read_slot(slot)?.token;
        Ok(ExportLocator { pid: std::process::id(), channel: descriptor, slot, token })
    }

    /// Withdraws an export, and sets the state of its slot. Returns true if another process still uses the
    /// export.
    pub(crate) fn withdraw(&mut self, slot: u16, state: SlotState) -> bool {
        let Some(channel) = &self.channel else { return false };
        let gone = match channel.read_slot(slot) {
            Ok(content) => channel.write_slot(slot, &Export { state, ..content }).is_ok(),
            Err(_) => false,
        };
        !gone || self.is_held(slot)
    }

    /// Returns true if another process uses an export.
    pub(crate) fn is_held(&self, slot: u16) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.is_held(slot))
    }

    /// Keeps the slot of a destroyed event, so that its handle works until another export needs the slot.
    pub(crate) fn retire_event_slot(&mut self, slot: u16) {
        self.retired.push_back(slot);
    }

    /// Makes the slot of a withdrawn export available for another export.
    pub(crate) fn recycle_slot(&mut self, slot: u16) {
        self.free.push(slot);
    }
}

/// Returns a random number, which distinguishes this process from an earlier process with the same pid.
fn random_nonce() -> u16 {
    u16::from_le_bytes(random_bytes())
}

/// Another process whose exports this process has open.
#[derive(Debug)]
pub(crate) struct Exporter {
    /// The pid of the exporter in this process's /proc.
    number: u32,
    pub(in crate::engine) channel: Channel,
    /// Files of the exporter's device memory that this process uses.
    memory: Vec<Arc<Backing>>,
    /// Slots of the exporter that this process holds, each with the number of holds.
    held: Vec<(u16, u32)>,
}

/// All processes whose exports this process has open.
#[derive(Default, Debug)]
pub(crate) struct Imports(pub(in crate::engine) Vec<Exporter>);

impl Imports {
    /// Returns the index of the exporter of a handle. Adds the exporter if it is new.
    pub(crate) fn find_exporter(&mut self, locator: &ExportLocator) -> Option<usize> {
        let nonce = (locator.token >> 16) as u16;
        let open = |number| Some((number, Channel::open(number, locator.channel, nonce)?));
        let (number, channel) = open(locator.pid).or_else(|| namespaces::find_pids(locator.pid).find_map(open))?;
        if let Some(at) = self.0.iter().position(|e| e.channel.inode() == channel.inode()) {
            return Some(at);
        }
        self.0.push(Exporter { number, channel, memory: Vec::new(), held: Vec::new() });
        Some(self.0.len() - 1)
    }

    /// Returns the number of imports that are open.
    pub(crate) fn count_open(&self) -> usize {
        self.0.iter().flat_map(|exporter| &exporter.held).map(|(_, count)| *count as usize).sum()
    }

    /// Ends one hold on a slot of an exporter. After its last hold, the exporter is forgotten. `channel` is
    /// the inode of its channel.
    pub(crate) fn release_slot(&mut self, channel: u64, slot: u16) {
        let Some(at) = self.0.iter().position(|e| e.channel.inode() == channel) else { return };
        let exporter = &mut self.0[at];
        if let Some(i) = exporter.held.iter().position(|(held, _)| *held == slot) {
            exporter.held[i].1 -= 1;
            if exporter.held[i].1 == 0 {
                exporter.held.remove(i);
                exporter.channel.release_slot(slot);
            }
        }
        self.drop_unused();
    }

    pub(crate) fn drop_unused(&mut self) {
        self.0.retain(|exporter| !exporter.held.is_empty());
        for exporter in &mut self.0 {
            exporter.memory.retain(|memory| Arc::strong_count(memory) > 1);
        }
    }
}

impl Exporter {
    /// Holds a slot, and returns the export in it.
    pub(crate) fn hold_slot(&mut self, slot: u16) -> Answer<Export> {
        match self.held.iter_mut().find(|(held, _)| *held == slot) {
            Some((_, count)) => *count += 1,
            None if self.channel.hold_slot(slot) => self.held.push((slot, 1)),
            None => return fail(Code::OPERATING_SYSTEM),
        }
        self.channel.read_slot(slot)
    }

    /// Returns the file with the memory of an export.
    pub(crate) fn memory_file(&mut self, slot: &Export) -> Option<Arc<Backing>> {
        if let Some(known) = self.memory.iter().find(|memory| memory.inode() == slot.inode) {
            return Some(known.clone());
        }
        let memory = Backing::open(self.number, slot.descriptor, MEMORY_NAME)?;
        if memory.inode() != slot.inode {
            return None;
        }
        self.memory.push(Arc::new(memory));
        self.memory.last().cloned()
    }
}
