//! The table of the work that the calls of each function need beyond their slots.

use cupeer_spec::function::{Direction, FUNCTION_COUNT, FUNCTIONS, FnId, FnSpec, Library};

/// The work that the calls of a function need beyond their slots.
#[derive(Clone, Copy)]
pub struct ExtraWork {
    /// True if the record contains the stack of a call even if the call succeeds.
    pub frames: bool,
    /// True if the function opens or ends something, so that steps run before and after each call.
    pub is_tracked: bool,
    /// True if few calls of the function are recorded; [`super::relevance()`] decides which.
    pub is_rare: bool,
    /// True if the function has arrays or texts as arguments.
    pub has_details: bool,
    /// Number of bytes of the stored arguments if they do not fit in a slot; otherwise 0.
    pub wide: u8,
    /// True if the function writes to memory that its arguments point to.
    pub writes: bool,
    /// True if a call takes part in sharing. In a large job, such a call gives the record of the process its
    /// name.
    pub shares: bool,
}

impl ExtraWork {
    const fn of(function: &FnSpec) -> ExtraWork {
        let args = function.args();
        let (mut writes, mut has_details, mut i) = (false, false, 0);
        while i < args.len() {
            writes |= matches!(args[i].direction, Direction::Out | Direction::InOut);
            has_details |= args[i].count_argument().is_some() || matches!(args[i].direction, Direction::String);
            i += 1;
        }
        let allocates = function.allocated_memory().is_some();
        let is_nvml = matches!(function.library, Library::Nvml);
        ExtraWork {
            frames: function.records_stack_on_success(),
            is_tracked: function.is_tracked(),
            is_rare: function.ends_often() || function.is_device_work() || allocates || is_nvml,
            has_details,
            wide: if function.overflows_slot() { function.stored_args_size() as u8 } else { 0 },
            writes,
            // The report shows which processes hold the memory of a device, even if they share nothing.
            shares: function.shares() || allocates,
        }
    }
}

/// The extra work of each function, in the order of the function table.
pub static EXTRA_WORK: [ExtraWork; FUNCTION_COUNT] = {
    let mut all = [ExtraWork::of(&FUNCTIONS[0]); FUNCTION_COUNT];
    let mut i = 1;
    while i < FUNCTION_COUNT {
        all[i] = ExtraWork::of(&FUNCTIONS[i]);
        i += 1;
    }
    all
};

/// Returns true if a function opens or ends something, so that steps run before and after each call.
#[inline(always)]
pub fn is_tracked(id: FnId) -> bool {
    EXTRA_WORK[id as usize].is_tracked
}
