//! Contexts: primary ones and created ones.

use super::super::answer::{Answer, fail_if};
use cupeer_spec::results::Result as Code;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

/// The limits of a context, from CU_LIMIT_STACK_SIZE on; `None` for limits that the device lacks.
type Limits = [Option<u64>; 10];
/// The limits of a new context.
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
    /// Flags from its creation.
    pub flags: u32,
    /// Its number, unique in the process.
    pub id: u64,
    pub primary: bool,
    /// It was not destroyed: the handle of a destroyed context stays known.
    pub alive: bool,
    /// Contexts whose memory it may access, by `cuCtxEnablePeerAccess`.
    pub peers: HashSet<u64>,
    /// Number of calls of `cuCtxAttach`, and 1 for its creation.
    pub attached: u32,
    pub limits: Limits,
    pub cache_config: u32,
    pub shared_config: u32,
    /// Failure of its work: from then on, each use of the context fails with it.
    pub failed: Option<Code>,
    /// A call has returned that failure: only later calls log that the error is sticky.
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
pub(crate) struct Primary {
    /// Handle; 0 until the context was first retained.
    pub handle: u64,
    /// Number of retains without a release.
    pub retained: u32,
    /// The flags for its next creation.
    pub flags: u32,
}

/// All contexts of a process.
#[derive(Debug)]
pub(crate) struct Contexts {
    pub(in crate::engine) map: HashMap<u64, Context>,
    primaries: Vec<Primary>,
    next_id: u64,
}

impl Contexts {
    pub(crate) fn new(devices: usize) -> Contexts {
        Contexts { map: HashMap::new(), primaries: vec![Primary::default(); devices], next_id: 1 }
    }

    /// Returns the number of peers to which contexts have access.
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

    /// Returns all contexts, including destroyed ones.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Context> {
        self.map.values_mut()
    }

    pub(crate) fn insert(&mut self, handle: u64, device: usize, flags: u32, primary: bool) {
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
    fail_if(flags & !KNOWN != 0 || !matches!(flags & SCHEDULING, 0 | 1 | 2 | 4), Code::INVALID_VALUE)?;
    Ok(())
}
