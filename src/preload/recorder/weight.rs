//! Work for each function beyond its slot.

use cupeer_spec::function::{Direction, FUNCTION_COUNT, FUNCTIONS, FnId, Library};

/// What there is to do for a function beyond its slot.
#[derive(Clone, Copy)]
pub struct Weight {
    /// The call carries frames even where it succeeds.
    pub frames: bool,
    /// It opens or ends something, and is looked at more closely.
    pub counts: bool,
    /// It is recorded only where it ends something that is shared, copies from device to device, uses memory that is gone, has a
    /// content that is to be found again, allocates or frees much memory, or is beside the driver.
    pub rarely: bool,
    /// It has arrays or texts.
    pub more: bool,
    /// The slot has no room for all of its arguments.
    pub wide: bool,
    /// It writes to what its arguments point to.
    pub writes: bool,
    /// It takes part in sharing: the record of a process of a large job has a name from here on.
    pub shares: bool,
}

/// In the order of the table.
pub static WEIGHTS: [Weight; FUNCTION_COUNT] = {
    let mut weights = [Weight {
        frames: false,
        counts: false,
        rarely: false,
        more: false,
        wide: false,
        writes: false,
        shares: false,
    }; FUNCTION_COUNT];
    let mut i = 0;
    while i < FUNCTION_COUNT {
        let (function, args) = (&FUNCTIONS[i], FUNCTIONS[i].args());
        weights[i].counts = function.is_tracked();
        // Who holds the memory of a device is to be known, also where nothing is shared.
        weights[i].shares = function.shares() || function.allocates().is_some();
        weights[i].frames = function.carries_frames();
        weights[i].wide = function.is_wide();
        weights[i].rarely = function.ends_often()
            || function.is_work()
            || function.allocates().is_some()
            || matches!(function.library, Library::Nvml);
        let mut j = 0;
        while j < args.len() {
            weights[i].writes |= matches!(args[j].direction, Direction::Out | Direction::InOut);
            weights[i].more |= args[j].count().is_some() || matches!(args[j].direction, Direction::String);
            j += 1;
        }
        i += 1;
    }
    weights
};

/// Whether a function opens or ends something.
#[inline(always)]
pub fn is_tracked(id: FnId) -> bool {
    WEIGHTS[id as usize].counts
}
