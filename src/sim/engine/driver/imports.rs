//! What this process has opened of others.

use super::super::answer::{Answer, fail};
use super::super::backing::Backing;
use super::super::channel::{Channel, MEMORY_NAME, Slot};
use super::super::handle::Locator;
use super::super::namespaces;
use cupeer_spec::results::Result as Code;
use std::sync::Arc;

/// A process of which something is open.
#[derive(Debug)]
pub(crate) struct Exporter {
    /// By which number it is found in /proc.
    number: u32,
    pub(in crate::engine) channel: Channel,
    /// Its devices' memory, as far as it is needed.
    memory: Vec<Arc<Backing>>,
    /// The slots that are held, and how often.
    held: Vec<(u16, u32)>,
}

/// All processes of which something is open.
#[derive(Default, Debug)]
pub(crate) struct Imports(pub(in crate::engine) Vec<Exporter>);

impl Imports {
    /// The exporter of a handle: one that is known, or a new one.
    pub(crate) fn find(&mut self, locator: &Locator) -> Option<usize> {
        let nonce = (locator.token >> 16) as u16;
        let open = |number| Some((number, Channel::open(number, locator.channel, nonce)?));
        let (number, channel) =
            open(locator.pid).or_else(|| namespaces::numbers(locator.pid).find_map(open))?;
        if let Some(at) = self.0.iter().position(|e| e.channel.inode() == channel.inode()) {
            return Some(at);
        }
        self.0.push(Exporter { number, channel, memory: Vec::new(), held: Vec::new() });
        Some(self.0.len() - 1)
    }

    /// How many openings are held.
    pub(crate) fn held(&self) -> usize {
        self.0.iter().flat_map(|exporter| &exporter.held).map(|(_, count)| *count as usize).sum()
    }

    /// Gives up one hold on a slot, and the exporter with its last one.
    pub(crate) fn let_go(&mut self, channel: u64, slot: u16) {
        let Some(at) = self.0.iter().position(|e| e.channel.inode() == channel) else { return };
        let exporter = &mut self.0[at];
        if let Some(i) = exporter.held.iter().position(|(held, _)| *held == slot) {
            exporter.held[i].1 -= 1;
            if exporter.held[i].1 == 0 {
                exporter.held.remove(i);
                exporter.channel.let_go(slot);
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
    /// Holds a slot and reads it.
    pub(crate) fn hold(&mut self, slot: u16) -> Answer<Slot> {
        match self.held.iter_mut().find(|(held, _)| *held == slot) {
            Some((_, count)) => *count += 1,
            None if self.channel.hold(slot) => self.held.push((slot, 1)),
            None => return fail(Code::OPERATING_SYSTEM),
        }
        self.channel.read(slot)
    }

    /// The memory behind a slot.
    pub(crate) fn memory(&mut self, slot: &Slot) -> Option<Arc<Backing>> {
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
