//! Reads the parameters of launched kernels.

use super::kernels::{self, offset_and_size};
use super::queries::{self, numeric_argument};
use core::ffi::CStr;
use core::sync::atomic::AtomicU32;
use cupeer_spec::effect::Launched;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::MOST_ARGS;

/// Value `CU_LAUNCH_PARAM_BUFFER_POINTER`: the next word is the address of a buffer with all parameters.
const BUFFER: usize = 1;
/// Maximum size in bytes of a parameter that is examined. A larger parameter is an array with unused elements, which contain old
/// values of the stack, such as addresses.
const LARGEST: usize = 1024;

/// Hands over each word of 8 bytes in the parameters of a launch, with the index of its parameter. Hands over nothing if the
/// sizes of the parameters are not known.
#[inline(never)]
pub fn each_word(id: FnId, args: &[u8; MOST_ARGS], launched: Launched, work: &mut dyn FnMut(usize, u64)) {
    let argument = |index| numeric_argument(id, args, index) as usize;
    let Some(known) = kernels::parameters(numeric_argument(id, args, launched.function)) else { return };
    let extra = launched.extra.map_or(0, argument) as *const usize;
    each_word_of_parameters(known, argument(launched.parameters) as *const *const u64, extra, work);
}

/// Hands over each word of parameters, which a launch or a graph node passes in one of the two ways that cuda.h defines: an array
/// of pointers (`parameters`), or a buffer (`extra`).
#[inline(always)]
pub fn each_word_of_parameters(
    known: &[AtomicU32],
    parameters: *const *const u64,
    extra: *const usize,
    mut work: impl FnMut(usize, u64),
) {
    // SAFETY: cuda.h demands that this is null, or points to pairs of a number and a value.
    let is_buffer = !extra.is_null() && unsafe { extra.read() } == BUFFER;
    // SAFETY: the value of the first pair.
    let buffer = if is_buffer { unsafe { extra.add(1).read() } } else { 0 };
    if parameters.is_null() && buffer == 0 {
        return;
    }
    for (index, parameter) in known.iter().enumerate() {
        let (offset, size) = offset_and_size(parameter);
        let place = match buffer {
            // SAFETY: cuda.h demands a pointer for each parameter of the kernel.
            0 => unsafe { parameters.add(index).read() },
            buffer => buffer.wrapping_add(offset) as *const u64,
        };
        let words = if place.is_null() || size > LARGEST { 0 } else { size / size_of::<u64>() };
        for word in 0..words {
            // SAFETY: cuda.h demands as many bytes there as the parameter has, which the driver copies.
            work(index, unsafe { place.add(word).read_unaligned() });
        }
    }
}

/// Hands over the name of a kernel to `work`; empty if the query fails.
pub fn with_name(handle: u64, work: impl FnOnce(&str)) {
    let name = kernels::kind_of_handle(handle)
        .and_then(|kind| queries::run_in_relaxed_mode(|| queries::kernel_name(handle, kind)));
    // SAFETY: the name is valid while the kernel is loaded, which it is as long as its kind is known.
    let name = name.map_or(c"", |name| unsafe { CStr::from_ptr(name) });
    work(name.to_str().unwrap_or(""));
}
