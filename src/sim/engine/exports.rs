//! What this process exports to others.

use super::answer::{Answer, fail, refuse};
use super::channel::{Channel, SLOTS, Slot, State};
use super::handle::{self, Kind, Locator};
use super::memory::Kind as MemoryKind;
use super::process::Driver;
use cupeer_spec::results::Result as Code;
use std::collections::VecDeque;

/// The exports of a process. Its channel exists from the first one on.
#[derive(Default, Debug)]
pub(crate) struct Exports {
    channel: Option<Channel>,
    nonce: u16,
    serial: u16,
    /// Slots that were used and are free again.
    free: Vec<u16>,
    /// The first slot that was never used.
    fresh: u32,
    /// Slots of events that are destroyed. Their handles go on working, as recorded, until a slot is needed.
    retired: VecDeque<u16>,
}

impl Exports {
    fn channel(&mut self) -> Answer<&Channel> {
        if self.channel.is_none() {
            self.nonce = nonce();
            self.channel = Channel::create(self.nonce);
        }
        self.channel.as_ref().ok_or_else(|| Code::MAP_FAILED.into())
    }

    /// Publishes something: the slot and its token.
    fn publish(&mut self, mut content: Slot) -> Answer<(u16, u32)> {
        self.channel()?;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.fresh < SLOTS => {
                self.fresh += 1;
                (self.fresh - 1) as u16
            }
            None => self.retired.pop_front().ok_or(Code::OUT_OF_MEMORY)?,
        };
        self.serial = self.serial.wrapping_add(1);
        content.token = u32::from(self.nonce) << 16 | u32::from(self.serial);
        self.channel()?.write(slot, &content)?;
        Ok((slot, content.token))
    }

    fn locator(&mut self, slot: u16) -> Answer<Locator> {
        let channel = self.channel()?;
        let descriptor = channel.descriptor().ok_or(Code::MAP_FAILED)?;
        let token = channel.read(slot)?.token;
        Ok(Locator { pid: std::process::id(), channel: descriptor, slot, token })
    }

    /// Withdraws an export, which gets this state; whether another process still uses it.
    pub(crate) fn withdraw(&mut self, slot: u16, state: State) -> bool {
        let Some(channel) = &self.channel else { return false };
        let gone = match channel.read(slot) {
            Ok(content) => channel.write(slot, &Slot { state, ..content }).is_ok(),
            Err(_) => false,
        };
        !gone || self.is_held(slot)
    }

    /// Whether another process uses an export.
    pub(crate) fn is_held(&self, slot: u16) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.is_held(slot))
    }

    /// Leaves the slot of an event that is destroyed as it is, until it is needed.
    pub(crate) fn retire(&mut self, slot: u16) {
        self.retired.push_back(slot);
    }

    /// Makes the slot of a withdrawn export free for another.
    pub(crate) fn recycle(&mut self, slot: u16) {
        self.free.push(slot);
    }
}

/// A number that tells this process from others that had its pid.
fn nonce() -> u16 {
    u16::from_le_bytes(random())
}

/// Random bytes. By the number of the call, because glibc has a function for it only since 2.25.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: the call writes at most as many bytes as there are.
    unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), 0) };
    bytes
}

impl Driver {
    /// `cuIpcGetMemHandle`, after its null checks.
    pub(crate) fn export_memory(&mut self, address: u64) -> Answer<[u8; 64]> {
        self.current()?;
        let Some((base, allocation)) = self.memory.containing(address) else {
            return refuse(Code::INVALID_VALUE, "User passed invalid device pointer");
        };
        let (MemoryKind::Device { export, .. }, Some(stored)) = (&allocation.kind, &allocation.stored) else {
            let text = "Cannot get mem handle because allocation not created from malloc API function";
            return refuse(Code::INVALID_VALUE, text);
        };
        let size = allocation.size;
        let pci = self.device(allocation.device).pci;
        let slot = match *export {
            Some(slot) => slot,
            None => {
                let content = Slot {
                    state: State::Memory,
                    token: 0,
                    descriptor: stored.backing.number() as u32,
                    inode: stored.backing.inode(),
                    offset: stored.offset,
                    size,
                    uuid: self.device(allocation.device).uuid,
                };
                let (slot, _) = self.exports.publish(content)?;
                if let Some(allocation) = self.memory.get_mut(base)
                    && let MemoryKind::Device { export, .. } = &mut allocation.kind
                {
                    *export = Some(slot);
                }
                slot
            }
        };
        Ok(handle::write(Kind::Memory, self.exports.locator(slot)?, size, Some(pci)))
    }

    /// `cuIpcGetEventHandle`, after its null checks.
    pub(crate) fn export_event(&mut self, handle: u64) -> Answer<[u8; 64]> {
        let event = self.events.get(handle)?;
        if !event.is_interprocess() || event.imported {
            let text = "Only local (non-imported) events created as interprocess may be exported.";
            return refuse(Code::INVALID_HANDLE, text);
        }
        // With another context current a real driver crashes, so that nobody can do so.
        if self.current()? != event.context {
            return fail(Code::INVALID_CONTEXT);
        }
        let slot = match event.export {
            Some(slot) => slot,
            None => {
                let uuid = self.device(self.context(event.context)?.device).uuid;
                let content =
                    Slot { state: State::Event, token: 0, descriptor: 0, inode: 0, offset: 0, size: 0, uuid };
                let (slot, _) = self.exports.publish(content)?;
                self.events.get_mut(handle)?.export = Some(slot);
                slot
            }
        };
        Ok(handle::write(Kind::Event, self.exports.locator(slot)?, 0, None))
    }
}
