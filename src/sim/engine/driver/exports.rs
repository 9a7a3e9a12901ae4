//! What this process exports to others.

use super::super::answer::Answer;
use super::super::channel::{Channel, SLOTS, Slot, State};
use super::super::handle::Locator;
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
    pub(crate) fn publish(&mut self, mut content: Slot) -> Answer<(u16, u32)> {
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

    pub(crate) fn locator(&mut self, slot: u16) -> Answer<Locator> {
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
