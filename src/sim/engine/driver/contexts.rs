//! Contexts: primary ones and created ones.

use super::super::answer::{Answer, fail_if};
use cupeer_spec::results::Result as Code;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

/// The values of a context's limits, in the order of `CU_LIMIT_*`; `None` for limits that the device lacks.
type Limits = [Option<u64>; 10];
/// The values of the limits of a new context.
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

/// The state of a context.
#[derive(Clone, Default, Debug)]
pub(crate) struct Context {
    /// The ordinal of the device of the context.
    pub device: usize,
    /// Flags from the creation of the context.
    pub flags: u32,
    /// Number of the context, unique in the process.
    pub id: u64,
    pub primary: bool,
    /// False after the context was destroyed. The entry of a destroyed context stays, so its handle is still
    /// known.
    pub alive: bool,
    /// Contexts whose memory this context can access, by `cuCtxEnablePeerAccess`.
    pub peers: HashSet<u64>,
    /// Number of calls of `cuCtxDetach` after which the context ends: 1, and 1 for each call of
    /// `cuCtxAttach`.
    pub attached: u32,
    pub limits: Limits,
    pub cache_config: u32,
    pub shared_config: u32,
    /// Result code of the first failure of work in the context. Each later use of the context fails with the
    /// same code.
    pub failed: Option<Code>,
    /// True after a call has returned that failure. Later calls also log that the error is sticky.
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

/// State of a device's primary context.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PrimaryContext {
    /// Handle of the context; 0 until the context is first retained.
    pub handle: u64,
    /// Number of retains that were not released.
    pub retained: u32,
    /// Flags for the next creation of the context.
    pub flags: u32,
}

/// All contexts of a process.
#[derive(Debug)]
pub(crate) struct Contexts {
    pub(in crate::engine) map: HashMap<u64, Context>,
    primaries: Vec<PrimaryContext>,
    next_id: u64,
}

impl Contexts {
    pub(crate) fn new(devices: usize) -> Contexts {
        Contexts { map: HashMap::new(), primaries: vec![PrimaryContext::default(); devices], next_id: 1 }
    }

    /// Returns the number of pairs of contexts with peer access.
    pub(crate) fn count_peers(&self) -> usize {
        self.map.values().filter(|context| context.alive).map(|context| context.peers.len()).sum()
    }

    /// Returns the state of the primary context of a device.
    pub(crate) fn primary(&mut self, device: usize) -> &mut PrimaryContext {
        &mut self.primaries[device]
    }

    /// Returns the contexts of a device, without destroyed contexts.
    pub(crate) fn of_device(&self, device: usize) -> impl Iterator<Item = &Context> {
        self.map.values().filter(move |context| context.alive && context.device == device)
    }

    /// Returns all contexts, including destroyed ones.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Context> {
        self.map.values_mut()
    }

    pub(crate) fn insert(&mut self, handle: u64, device: usize, flags: u32, primary: bool) {
        let id = self.next_id;
        self.next_id += 1;
        let fresh = Context { attached: 1, limits: LIMITS, shared_config: FOUR_BYTE_BANKS, ..Context::default() };
        self.map.insert(handle, Context { device, flags, id, primary, alive: true, ..fresh });
    }
}

/// Fails if the flags of a context have an unknown bit, or name more than one way of waiting.
pub(crate) fn check_flags(flags: u32) -> Answer {
    const SCHEDULING: u32 = 7;
    const KNOWN: u32 = 0xff;
    fail_if(flags & !KNOWN != 0 || !matches!(flags & SCHEDULING, 0 | 1 | 2 | 4), Code::INVALID_VALUE)?;
    Ok(())
}
