//! What this process has opened of others.

use super::answer::{Answer, Failure, fail, refuse};
use super::backing::Backing;
use super::channel::{Channel, MEMORY_NAME, Slot, State};
use super::handle::{self, Kind, Locator};
use super::memory::{Allocation, Kind as MemoryKind};
use super::namespaces;
use super::process::Driver;
use super::store::Stored;
use cupeer_spec::results::Result as Code;
use std::sync::Arc;

/// A process of which something is open.
#[derive(Debug)]
struct Exporter {
    /// By which number it is found in /proc.
    number: u32,
    channel: Channel,
    /// Its devices' memory, as far as it is needed.
    memory: Vec<Arc<Backing>>,
    /// The slots that are held, and how often.
    held: Vec<(u16, u32)>,
}

/// All processes of which something is open.
#[derive(Default, Debug)]
pub(crate) struct Imports(Vec<Exporter>);

impl Imports {
    /// The exporter of a handle: one that is known, or a new one.
    fn find(&mut self, locator: &Locator) -> Option<usize> {
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

    fn drop_unused(&mut self) {
        self.0.retain(|exporter| !exporter.held.is_empty());
        for exporter in &mut self.0 {
            exporter.memory.retain(|memory| Arc::strong_count(memory) > 1);
        }
    }
}

impl Exporter {
    /// Holds a slot and reads it.
    fn hold(&mut self, slot: u16) -> Answer<Slot> {
        match self.held.iter_mut().find(|(held, _)| *held == slot) {
            Some((_, count)) => *count += 1,
            None if self.channel.hold(slot) => self.held.push((slot, 1)),
            None => return fail(Code::OPERATING_SYSTEM),
        }
        self.channel.read(slot)
    }

    /// The memory behind a slot.
    fn memory(&mut self, slot: &Slot) -> Option<Arc<Backing>> {
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

/// What the driver says where it cannot get at another process's memory.
fn no_memory(code: Code) -> Failure {
    Failure { code, messages: vec!["Failed to allocate physical memory".into()] }
}

impl Driver {
    /// `cuIpcOpenMemHandle`, after its pointers and flags.
    pub(crate) fn import_memory(&mut self, bytes: &[u8; 64]) -> Answer<u64> {
        let context = self.current()?;
        let device = self.context(context)?.device;
        let Some(locator) = handle::read(Kind::Memory, bytes) else { return fail(Code::INVALID_VALUE) };
        if locator.pid == std::process::id() {
            return refuse(Code::INVALID_CONTEXT, "Error opening locally created memHandle.");
        }
        if let Some((address, known)) = self.memory.import_of(&locator, device) {
            return if known.context == context {
                known.import_references(1);
                Ok(address)
            } else {
                fail(Code::INVALID_HANDLE)
            };
        }
        let at = self.imports.find(&locator).ok_or_else(|| no_memory(Code::INVALID_HANDLE))?;
        let channel = self.imports.0[at].channel.inode();
        let result = self.import_from(at, &locator, context, device);
        if result.is_err() {
            self.imports.let_go(channel, locator.slot);
        }
        result
    }

    fn import_from(&mut self, at: usize, locator: &Locator, context: u64, device: usize) -> Answer<u64> {
        let exporter = &mut self.imports.0[at];
        let channel = exporter.channel.inode();
        let slot = exporter.hold(locator.slot)?;
        if slot.state == State::Ended && slot.token == locator.token {
            return Err(no_memory(Code::INVALID_VALUE));
        }
        if slot.state != State::Memory || slot.token != locator.token {
            return Err(no_memory(Code::NOT_PERMITTED));
        }
        let backing = exporter.memory(&slot).ok_or_else(|| no_memory(Code::INVALID_HANDLE))?;
        let home = self.machine.index_of(&slot.uuid).ok_or_else(|| no_memory(Code::INVALID_HANDLE))?;
        let here = self.visible[device];
        if home != here {
            if !self.machine.link(here, home).is_some_and(|link| link.can_access) {
                return fail(Code::PEER_ACCESS_UNSUPPORTED);
            }
            self.check_room(device, home)?;
        }
        let address = self.space.take(slot.size, false).ok_or(Code::OUT_OF_MEMORY)?;
        let kind = MemoryKind::Import { locator: *locator, channel, references: 1, home };
        let stored = Stored { backing, offset: slot.offset };
        self.memory.insert(address, Allocation::new(slot.size, kind, context, device).stored(stored));
        Ok(address)
    }

    /// `cuIpcCloseMemHandle`.
    pub(crate) fn close_import(&mut self, address: u64) -> Answer {
        self.current()?;
        let Some((base, allocation)) = self.memory.containing_mut(address) else {
            return refuse(Code::INVALID_VALUE, "User passed invalid device pointer");
        };
        if !matches!(allocation.kind, MemoryKind::Import { .. }) {
            let text =
                "Can't close mem handle allocation was not opened with the cuIpcOpenMemHandle API function";
            return refuse(Code::INVALID_VALUE, text);
        }
        if base != address {
            return refuse(Code::INVALID_VALUE, "Attempt to free a non-base allocation device pointer");
        }
        if allocation.import_references(-1) == 0 {
            self.remove(base);
        }
        Ok(())
    }

    /// `cuIpcOpenEventHandle`, after its pointers.
    pub(crate) fn import_event(&mut self, bytes: &[u8; 64]) -> Answer<u64> {
        let context = self.current()?;
        let unreachable = || Failure {
            code: Code::MAP_FAILED,
            messages: vec![
                "Failed to open/create interprocess memory file".into(),
                "Failed to open/find remote IPC semaphore pool.".into(),
            ],
        };
        let locator = handle::read(Kind::Event, bytes).ok_or_else(unreachable)?;
        if locator.pid == std::process::id() {
            return refuse(Code::INVALID_CONTEXT, "Error opening locally created eventHandle.");
        }
        let at = self.imports.find(&locator).ok_or_else(unreachable)?;
        let slot = self.imports.0[at].channel.read(locator.slot);
        self.imports.drop_unused();
        let slot = slot?;
        if slot.state != State::Event || slot.token != locator.token {
            return fail(Code::INVALID_HANDLE);
        }
        self.create_imported_event(context)
    }
}
