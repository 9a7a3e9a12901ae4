//! Contexts: primary ones and created ones, and which is current.

use super::answer::{Answer, fail, no_context, refuse};
use super::process::Driver;
use super::stack;
use cupeer_spec::results::Result as Code;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

/// The limits of a context, from CU_LIMIT_STACK_SIZE on; `None` where the device has none.
type Limits = [Option<u64>; 10];
/// What they are at first.
const LIMITS: Limits = [
    Some(1024),
    Some(8_650_752),
    Some(8_388_608),
    None,
    Some(2048),
    Some(64),
    Some(11_796_480),
    Some(232_448),
    Some(0),
    None,
];

/// CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE.
const FOUR_BYTE_BANKS: u32 = 1;
/// CU_CTX_MAP_HOST, which primary contexts always have.
const MAP_HOST: u32 = 8;

/// A context.
#[derive(Clone, Default, Debug)]
pub(crate) struct Context {
    /// The ordinal of its device.
    pub device: usize,
    /// What it was created with.
    pub flags: u32,
    /// Its number, unique in the process.
    pub id: u64,
    pub primary: bool,
    /// Whether it exists: a handle stays known when its context is destroyed.
    pub alive: bool,
    /// Contexts whose memory it may access, by `cuCtxEnablePeerAccess`.
    pub peers: HashSet<u64>,
    /// How often `cuCtxAttach` was called, and 1 for its creation.
    pub attached: u32,
    pub limits: Limits,
    pub cache_config: u32,
    pub shared_config: u32,
    /// What its work failed with: then all that uses it fails so, until it is gone.
    pub failed: Option<Code>,
    /// Whether a call has said so: only the later ones say that the error stays.
    pub has_told: Cell<bool>,
}

impl Context {
    /// `cuCtxGetFlags`.
    pub(crate) fn all_flags(&self) -> u32 {
        if self.primary { self.flags | MAP_HOST } else { self.flags }
    }

    /// `cuCtxGetLimit`.
    pub(crate) fn limit(&self, limit: i32) -> Answer<u64> {
        let index = usize::try_from(limit).ok().filter(|index| *index < self.limits.len());
        let value = self.limits[index.ok_or(Code::INVALID_VALUE)?];
        value.ok_or_else(|| Code::UNSUPPORTED_LIMIT.into())
    }

    /// `cuCtxSetLimit`.
    pub(crate) fn set_limit(&mut self, limit: i32, value: u64) -> Answer {
        self.limit(limit)?;
        self.limits[limit as usize] = Some(value);
        Ok(())
    }
}

/// What a device has of a primary context.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Primary {
    /// Its handle, 0 until it was first retained.
    pub handle: u64,
    /// How often it is retained.
    pub retained: u32,
    /// The flags for its next creation.
    pub flags: u32,
}

/// All contexts of a process.
#[derive(Debug)]
pub(crate) struct Contexts {
    map: HashMap<u64, Context>,
    primaries: Vec<Primary>,
    next_id: u64,
}

impl Contexts {
    pub(crate) fn new(devices: usize) -> Contexts {
        Contexts { map: HashMap::new(), primaries: vec![Primary::default(); devices], next_id: 1 }
    }

    /// How many peers contexts were given access to.
    pub(crate) fn peers(&self) -> usize {
        self.map.values().filter(|context| context.alive).map(|context| context.peers.len()).sum()
    }

    /// The primary context of a device.
    pub(crate) fn primary(&mut self, device: usize) -> &mut Primary {
        &mut self.primaries[device]
    }

    /// The contexts of a device that exist.
    pub(crate) fn of_device(&self, device: usize) -> impl Iterator<Item = &Context> {
        self.map.values().filter(move |context| context.alive && context.device == device)
    }

    /// All contexts, also destroyed ones.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Context> {
        self.map.values_mut()
    }

    fn insert(&mut self, handle: u64, device: usize, flags: u32, primary: bool) {
        let id = self.next_id;
        self.next_id += 1;
        let fresh =
            Context { attached: 1, limits: LIMITS, shared_config: FOUR_BYTE_BANKS, ..Context::default() };
        self.map.insert(handle, Context { device, flags, id, primary, alive: true, ..fresh });
    }
}

/// Checks the flags of a context: one way of waiting, and no bit that is unknown.
pub(crate) fn check_flags(flags: u32) -> Answer {
    const SCHEDULING: u32 = 7;
    const KNOWN: u32 = 0xff;
    if flags & !KNOWN != 0 || !matches!(flags & SCHEDULING, 0 | 1 | 2 | 4) {
        return fail(Code::INVALID_VALUE);
    }
    Ok(())
}

impl Driver {
    /// The context behind a handle, which has to exist.
    pub(crate) fn context(&self, handle: u64) -> Answer<&Context> {
        match self.contexts.map.get(&handle) {
            Some(context) if context.alive => Ok(context),
            Some(_) => fail(Code::CONTEXT_IS_DESTROYED),
            None => fail(Code::INVALID_CONTEXT),
        }
    }

    /// The context behind a handle, which may be destroyed.
    pub(crate) fn known_context(&self, handle: u64) -> Answer<&Context> {
        self.contexts.map.get(&handle).ok_or_else(|| Code::INVALID_CONTEXT.into())
    }

    /// The same, to change it.
    pub(crate) fn context_mut(&mut self, handle: u64) -> Answer<&mut Context> {
        self.context(handle)?;
        self.contexts.map.get_mut(&handle).ok_or_else(|| Code::INVALID_CONTEXT.into())
    }

    /// The handle of the context that is current to the calling thread, which has to exist.
    pub(crate) fn current(&self) -> Answer<u64> {
        match stack::current() {
            0 => no_context(),
            handle => {
                self.context(handle)?;
                self.check_failed(handle)?;
                Ok(handle)
            }
        }
    }

    /// Fails if work of a context has failed.
    pub(crate) fn check_failed(&self, handle: u64) -> Answer {
        match self.contexts.map.get(&handle) {
            Some(Context { failed: Some(code), has_told, .. }) if has_told.replace(true) => {
                refuse(*code, "Sticky error detected")
            }
            Some(Context { failed: Some(code), .. }) => fail(*code),
            _ => Ok(()),
        }
    }

    /// Fails if work of any context of a device has failed: as recorded, the process gets no other one there.
    fn check_device(&self, device: usize) -> Answer {
        let failed = self.contexts.map.values().filter(|context| context.device == device);
        failed.filter_map(|context| context.failed).next().map_or(Ok(()), fail)
    }

    /// Work of a context fails as the device carries it out. What was launched before does not show it.
    pub(crate) fn fail_context(&mut self, handle: u64, code: Code) {
        if let Ok(context) = self.context_mut(handle) {
            context.failed.get_or_insert(code);
        }
    }

    /// The handle given, or the current one where it is 0.
    pub(crate) fn context_or_current(&self, handle: u64) -> Answer<u64> {
        if handle == 0 { self.current() } else { self.context(handle).map(|_| handle) }
    }

    /// The ordinal of the current context's device, also where the context is destroyed.
    pub(crate) fn current_ordinal(&self) -> Answer<usize> {
        match stack::current() {
            0 => self.current().map(|_| 0),
            handle => Ok(self.known_context(handle)?.device),
        }
    }

    /// The current context, which has to exist.
    pub(crate) fn current_context(&self) -> Answer<&Context> {
        self.context(self.current()?)
    }

    /// The ordinal of the current context's device.
    pub(crate) fn current_device(&self) -> Answer<usize> {
        Ok(self.current_context()?.device)
    }

    /// `cuCtxCreate`: the new context becomes current.
    pub(crate) fn create_context(&mut self, device: usize, flags: u32) -> Answer<u64> {
        check_flags(flags)?;
        self.check_device(device)?;
        let handle = self.space.handle()?;
        self.contexts.insert(handle, device, flags, false);
        stack::push(handle);
        Ok(handle)
    }

    /// `cuCtxDestroy`.
    pub(crate) fn destroy_context(&mut self, handle: u64) -> Answer {
        if self.context(handle)?.primary {
            return fail(Code::INVALID_CONTEXT);
        }
        self.tear_down(handle);
        if stack::current() == handle {
            stack::pop();
        }
        Ok(())
    }

    /// `cuCtxDetach`: the last one destroys. Of the current context alone.
    pub(crate) fn detach_context(&mut self, handle: u64) -> Answer {
        if stack::current() != handle {
            return fail(Code::INVALID_CONTEXT);
        }
        let context = self.context_mut(handle)?;
        if context.attached > 1 {
            context.attached -= 1;
            return Ok(());
        }
        self.destroy_context(handle)
    }

    /// Ends a context, with all that belongs to it.
    fn tear_down(&mut self, handle: u64) {
        self.streams.remove_of(handle);
        self.remove_events_of(handle);
        self.modules.remove_of(handle);
        self.graphs.remove_of(handle);
        self.remove_arrays_of(handle);
        self.free_all_of(handle);
        for context in self.contexts.all_mut() {
            context.peers.remove(&handle);
        }
        if let Some(context) = self.contexts.map.get_mut(&handle) {
            context.alive = false;
            context.peers.clear();
        }
    }

    /// `cuDevicePrimaryCtxRetain`.
    pub(crate) fn retain_primary(&mut self, device: usize) -> Answer<u64> {
        self.check_device(device)?;
        if self.contexts.primary(device).handle == 0 {
            self.contexts.primary(device).handle = self.space.handle()?;
        }
        let primary = self.contexts.primary(device);
        primary.retained += 1;
        let (handle, flags) = (primary.handle, primary.flags);
        if !self.is_primary_active(device) {
            self.contexts.insert(handle, device, flags, true);
        }
        Ok(handle)
    }

    /// Whether the primary context of a device exists.
    pub(crate) fn is_primary_active(&mut self, device: usize) -> bool {
        let handle = self.contexts.primary(device).handle;
        self.context(handle).is_ok()
    }

    /// `cuDevicePrimaryCtxRelease`.
    pub(crate) fn release_primary(&mut self, device: usize) -> Answer {
        let primary = self.contexts.primary(device);
        if primary.retained == 0 {
            return fail(Code::INVALID_CONTEXT);
        }
        primary.retained -= 1;
        if primary.retained == 0 {
            primary.flags = 0;
            let handle = primary.handle;
            self.tear_down(handle);
        }
        Ok(())
    }

    /// `cuDevicePrimaryCtxReset`: who retained it still has to release it.
    pub(crate) fn reset_primary(&mut self, device: usize) {
        let handle = self.contexts.primary(device).handle;
        if handle != 0 {
            self.tear_down(handle);
        }
    }

    /// `cuDevicePrimaryCtxSetFlags`: an active context takes them too.
    pub(crate) fn set_primary_flags(&mut self, device: usize, flags: u32) -> Answer {
        check_flags(flags)?;
        self.contexts.primary(device).flags = flags;
        let handle = self.contexts.primary(device).handle;
        if let Ok(context) = self.context_mut(handle) {
            context.flags = flags;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_topology::Topology;

    #[test]
    fn a_primary_context_keeps_its_handle() {
        let mut driver = Driver::new(Topology::default(), vec![0, 1]);
        let first = driver.retain_primary(0).unwrap();
        assert_eq!(driver.retain_primary(0), Ok(first));
        driver.release_primary(0).unwrap();
        assert!(driver.is_primary_active(0));
        driver.release_primary(0).unwrap();
        assert_eq!(driver.context(first).unwrap_err().code, Code::CONTEXT_IS_DESTROYED);
        assert_eq!(driver.release_primary(0), fail(Code::INVALID_CONTEXT));
        assert_eq!(driver.retain_primary(0), Ok(first));
    }
}
