//! Decides whether a call meets the conditions of a fault. Every fact but the arguments is looked up when a fault needs it, and only once.

use super::arming::PlansInUse;
use super::conditions::{deciding_argument, is_met_by_number, is_met_by_text};
use super::loaded::{LoadedFault, LoadedPlan};
use super::{private, shared};
use crate::driver::model;
use crate::driver::queries;
use crate::fault::forward::ForwardedCall;
use crate::recorder;
use crate::settings;
use crate::settings::key;
use crate::sys::caller::{self, Caller, each_frame};
use crate::sys::clock;
use crate::sys::environment;
use crate::sys::line::ShortText;
use crate::sys::program_memory;
use core::cell::OnceCell;
use core::ffi::c_char;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use cupeer_spec::abi::{CUmemAccessDesc, CUmemAllocationProp, CUmemLocation, CUmemPoolProps};
use cupeer_spec::effect::Object;
use cupeer_spec::fault::{ConditionKey, ConditionValues, FaultCondition, stack_hash};
use cupeer_spec::function::{ArgSpec, Direction};
use cupeer_spec::names::matches_pattern;
use cupeer_spec::record::live::mix_bits;
use cupeer_spec::record::slot::detail::MOST_FRAMES;
use cupeer_spec::value::MOST_TEXT;

/// Returns the number of this process in the job; 0 if there is no memory for it.
pub fn process_number() -> u64 {
    private::process().map_or(0, |process| process.number.load(Relaxed))
}

/// Chooses the armed faults that may concern this process, once per process, and again in a forked child. Each fault of a plan
/// that is armed later counts as a fault that concerns the process.
pub fn choose_faults_of_process(armed: &PlansInUse) {
    if private::are_faults_chosen() {
        return;
    }
    shared::map_counts();
    let Some(process) = private::process() else { return };
    if process.number.load(Acquire) == 0 {
        let number = shared::next_process();
        // Two threads that come at once take two numbers, and keep the first.
        let _ = process.number.compare_exchange(0, number, Relaxed, Relaxed);
    }
    environment::find_ranks();
    armed.mark_faults_of_process(|rule| {
        rule.spec.conditions.iter().all(|condition| process_meets(condition).unwrap_or(true))
    });
    process.note_faults_chosen();
}

/// Returns true if the process meets a condition; `None` for a condition that is about the call.
fn process_meets(condition: &FaultCondition) -> Option<bool> {
    let number = |number: u32| number != u32::MAX && is_met_by_number(condition, u64::from(number));
    Some(match condition.key {
        ConditionKey::Rank => number(environment::rank()),
        ConditionKey::LocalRank => number(environment::local_rank()),
        // SAFETY: getpid has no preconditions.
        ConditionKey::Pid => number(unsafe { libc::getpid() } as u32),
        ConditionKey::Process => is_met_by_number(condition, process_number()),
        ConditionKey::Program => is_met_by_text(condition, file_name(caller::program_path())),
        _ => return None,
    })
}

/// Returns the part of a path after its last slash.
fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Facts about a call, each of which is looked up at its first use.
pub struct Facts<'a> {
    call: &'a ForwardedCall<'a>,
    context: OnceCell<u64>,
    device: OnceCell<i32>,
    peer: OnceCell<i32>,
    stack: OnceCell<u64>,
    /// Result of the previous call of this thread, with bit 32 set; 0 if there was no call.
    previous: u64,
}

impl<'a> Facts<'a> {
    pub fn new(call: &'a ForwardedCall<'a>) -> Self {
        // SAFETY: only this thread and its signal handlers use the block.
        let previous = unsafe { (*crate::sys::arch::thread()).result };
        let (context, stack) = (OnceCell::new(), OnceCell::new());
        Facts { call, context, device: OnceCell::new(), peer: OnceCell::new(), stack, previous }
    }

    /// Returns the current context.
    pub fn context(&self) -> u64 {
        *self.context.get_or_init(queries::context)
    }

    /// Returns a hash of the call stack; 0 if the stack is not known.
    pub fn stack(&self) -> u64 {
        *self.stack.get_or_init(|| {
            let mut frames = [0; MOST_FRAMES];
            let mut count = 0;
            each_frame(self.call.caller, MOST_FRAMES, |address| {
                frames[count] = address;
                count += 1;
                count < MOST_FRAMES
            });
            let frames = frames[..count].iter().map(|address| Caller::at(*address));
            let named = frames.map(|caller| match caller.library {
                // Code that was generated at run time may be anywhere.
                b"" => (&b""[..], 0),
                library => (file_name(library), caller.offset as u64),
            });
            if count == 0 { 0 } else { stack_hash(named) }
        })
    }

    /// Returns the word of the first argument that `is_it` accepts.
    fn argument(&self, is_it: impl Fn(&ArgSpec) -> bool) -> Option<u64> {
        let args = self.call.id.spec().args();
        args.iter().position(is_it).and_then(|index| self.call.words.get(index).copied())
    }

    /// Returns true if the call meets all conditions of a fault.
    pub fn meet(&self, plan: &LoadedPlan, rule: &LoadedFault) -> bool {
        let conditions = &rule.spec.conditions;
        // A condition that remembers the call is tested last.
        let is_last = |condition: &&FaultCondition| condition.key == ConditionKey::NewSite;
        conditions.iter().filter(|condition| !is_last(condition)).all(|one| self.meets(plan, rule, one))
            && conditions.iter().filter(is_last).all(|one| self.meets(plan, rule, one))
    }

    /// Tests a condition on the devices in a structure among the arguments; `None` if the function takes no such structure.
    fn structure_meets(&self, condition: &FaultCondition) -> Option<bool> {
        let function = self.call.id.spec();
        let mut args = function.args().iter().zip(self.call.words);
        let (arg, word, offset) = args.find_map(|(arg, word)| Some((arg, *word, location_in(arg)?)))?;
        let count = arg.count_argument().map_or(1, |count| self.call.words[count]);
        let device = |index: u64| {
            let at = index.checked_mul(arg.value_size() as u64)?.checked_add(word)?.checked_add(offset as u64)?;
            let location = program_memory::copy_value(at as *const CUmemLocation)?;
            Some(if location.kind.0 == CUmemLocation::DEVICE { location.id } else { -1 })
        };
        let devices = || (0..count).map_while(device).filter(|device| *device >= 0);
        let has_one = devices().any(|device| is_met_by_number(condition, device as u64) != condition.not);
        Some(devices().next().is_some() && has_one != condition.not)
    }

    /// Returns the ordinal of the device of a peer context, of the memory that the call grants access to, or of the object to
    /// open; -1 if the device is not known.
    fn peer_device(&self) -> i32 {
        if let Some(grant) = self.call.id.spec().grants() {
            let address = self.call.words[grant.by];
            if grant.object == Object::Pool {
                return model::pool(address).and_then(|pool| pool.device).unwrap_or(-1);
            }
            // A query that fails would appear in the driver's log.
            let allocation = queries::mapping(address).and_then(|_| queries::mapped_allocation(address));
            return allocation.map_or(-1, |(_, device)| device);
        }
        if let Some(access) = self.call.id.spec().enables().or(self.call.id.spec().disables()) {
            let peer = self.call.words[access.by];
            return if peer == 0 { -1 } else { queries::device_of(peer) };
        }
        let Some(export) = self.call.live_export().filter(|export| export.uuid != [0; 16]) else { return -1 };
        recorder::describe_devices();
        queries::ordinal(export.uuid).unwrap_or(-1)
    }

    /// Returns the size in bytes of the allocation that an argument points into, or of the object to open.
    fn size(&self) -> Option<u64> {
        let is_address = |arg: &ArgSpec| arg.type_word() == "CUdeviceptr" && matches!(arg.direction, Direction::In);
        match self.argument(is_address) {
            Some(address) => queries::size_of(address),
            None => self.call.live_export().map(|export| export.bytes).filter(|size| *size > 0),
        }
    }

    fn meets(&self, plan: &LoadedPlan, rule: &LoadedFault, condition: &FaultCondition) -> bool {
        let function = self.call.id.spec();
        if let Some(argument) = deciding_argument(function, condition) {
            return self.call.words.get(argument).is_some_and(|word| is_met_by_number(condition, *word));
        }
        if let Some(is_met) = process_meets(condition) {
            return is_met;
        }
        let device = |device: i32| device >= 0 && is_met_by_number(condition, device as u64);
        match &condition.key {
            ConditionKey::Dev => match self.structure_meets(condition) {
                Some(is_met) => is_met,
                None => device(*self.device.get_or_init(queries::device_of_current_context)),
            },
            ConditionKey::Peer => device(*self.peer.get_or_init(|| self.peer_device())),
            ConditionKey::Ctx => is_met_by_number(condition, self.context()),
            ConditionKey::Size => self.size().is_some_and(|size| is_met_by_number(condition, size)),
            ConditionKey::Handle => {
                let handle = self.argument(|arg| arg.is_ipc_handle() && matches!(arg.direction, Direction::In));
                // SAFETY: the word of a handle by value is the address of its bytes.
                handle.is_some_and(|handle| is_met_by_number(condition, unsafe { fingerprint_at(handle) }))
            }
            ConditionKey::Thread => thread_meets(condition),
            ConditionKey::Caller => {
                is_met_by_text(condition, file_name(Caller::of(self.call.caller, self.call.id, true).library))
            }
            ConditionKey::Stack => is_met_by_number(condition, self.stack()),
            ConditionKey::Prev => self.previous != 0 && is_met_by_number(condition, self.previous & 0xffff_ffff),
            ConditionKey::Argument(name) => self.argument_meets(name, condition),
            ConditionKey::Time => {
                is_met_by_number(condition, clock::now().saturating_sub(settings::get().began.load(Relaxed)))
            }
            ConditionKey::Mark => rule.has_mark.load(Acquire),
            ConditionKey::NewSite => plan.scopes.is_new(rule.number, self.stack()),
            // The condition has a range from 0 as its value: the hashes in the range are the chosen share of all hashes.
            ConditionKey::SomeSites => {
                is_met_by_number(condition, mix_bits(self.stack() ^ mix_bits(rule.spec.seed)) % 1_000_000)
            }
            ConditionKey::Rank
            | ConditionKey::LocalRank
            | ConditionKey::Pid
            | ConditionKey::Process
            | ConditionKey::Program => false,
        }
    }

    /// Tests a condition on a text or a handle among the arguments.
    fn argument_meets(&self, name: &str, condition: &FaultCondition) -> bool {
        let Some((index, arg)) = self.call.id.spec().find_argument(name) else { return false };
        let word = self.call.words.get(index).copied().unwrap_or(0);
        match arg.direction {
            Direction::String => {
                let text = program_memory::copy_text(word as *const c_char);
                text.is_some_and(|text| {
                    let bytes = text.map(|byte| byte as u8);
                    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(MOST_TEXT);
                    is_met_by_text(condition, &bytes[..length])
                })
            }
            Direction::In if arg.is_ipc_handle() => {
                // SAFETY: the word of a handle by value is the address of its bytes.
                let fingerprint = unsafe { fingerprint_at(word) };
                is_met_by_number(condition, fingerprint)
            }
            _ => false,
        }
    }
}

/// Returns the offset of the `CUmemLocation` in the structure that an argument points to; `None` if the structure has none.
fn location_in(arg: &ArgSpec) -> Option<usize> {
    match arg.type_word() {
        _ if !matches!(arg.direction, Direction::In) => None,
        "CUmemAllocationProp" => Some(offset_of!(CUmemAllocationProp, location)),
        "CUmemPoolProps" => Some(offset_of!(CUmemPoolProps, location)),
        "CUmemAccessDesc" => Some(offset_of!(CUmemAccessDesc, location)),
        "CUmemLocation" => Some(0),
        _ => None,
    }
}

/// Returns the fingerprint of the handle at an address.
///
/// # Safety
///
/// 64 bytes can be read there.
pub unsafe fn fingerprint_at(address: u64) -> u64 {
    // SAFETY: the caller's promise.
    key::fingerprint(unsafe { &*(address as *const [u8; 64]) })
}

fn thread_meets(condition: &FaultCondition) -> bool {
    // SAFETY: neither has preconditions.
    let (pid, tid) = unsafe { (libc::getpid() as u64, libc::syscall(libc::SYS_gettid) as u64) };
    let ConditionValues::Patterns(patterns) = &condition.values else {
        return is_met_by_number(condition, tid);
    };
    let mut name = [0u8; 17];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(16);
    let number = ShortText::<24>::new(format_args!("{tid}"));
    let is_it = |pattern: &String| match pattern.as_str() {
        "main" => pid == tid,
        pattern => pattern == number.text() || matches_pattern(pattern.as_bytes(), &name[..length]),
    };
    patterns.iter().any(is_it) != condition.not
}
