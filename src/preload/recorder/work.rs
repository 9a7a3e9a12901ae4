//! The table of the work that the calls of each function need beyond their slots.

use cupeer_spec::function::{Direction, FUNCTION_COUNT, FUNCTIONS, FnId, FnSpec, Library};

/// The work that the calls of a function need beyond their slots.
#[derive(Clone, Copy)]
pub struct ExtraWork {
    /// The call has its stack in the record even if it succeeds.
    pub frames: bool,
    /// It opens or ends something, so steps run before and after it.
    pub is_tracked: bool,
    /// Few of its calls are recorded; [`super::relevance`] decides which.
    pub is_rare: bool,
    /// It has arrays or texts.
    pub has_details: bool,
    /// The number of bytes of its arguments if they do not fit in the slot; otherwise 0.
    pub wide: u8,
    /// It writes to memory that its arguments point to.
    pub writes: bool,
    /// It takes part in sharing: in a large job, the record of the process has a name from here on.
    pub shares: bool,
}

impl ExtraWork {
    const fn of(function: &FnSpec) -> ExtraWork {
        let args = function.args();
        let (mut writes, mut has_details, mut i) = (false, false, 0);
        while i < args.len() {
            writes |= matches!(args[i].direction, Direction::Out | Direction::InOut);
            has_details |= args[i].count().is_some() || matches!(args[i].direction, Direction::String);
            i += 1;
        }
        let allocates = function.allocates().is_some();
        let is_nvml = matches!(function.library, Library::Nvml);
        ExtraWork {
            frames: function.carries_frames(),
            is_tracked: function.is_tracked(),
            is_rare: function.ends_often() || function.is_work() || allocates || is_nvml,
            has_details,
            wide: if function.is_wide() { function.stored() as u8 } else { 0 },
            writes,
            // The report shows which processes hold the memory of a device, even if they share nothing.
            shares: function.shares() || allocates,
        }
    }
}

/// In the order of the function table.
pub static EXTRA_WORK: [ExtraWork; FUNCTION_COUNT] = {
    let mut all = [ExtraWork::of(&FUNCTIONS[0]); FUNCTION_COUNT];
    let mut i = 1;
    while i < FUNCTION_COUNT {
        all[i] = ExtraWork::of(&FUNCTIONS[i]);
        i += 1;
    }
    all
};

/// Returns true if a function opens or ends something.
#[inline(always)]
pub fn is_tracked(id: FnId) -> bool {
    EXTRA_WORK[id as usize].is_tracked
}
