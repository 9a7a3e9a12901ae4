//! Memsets. An asynchronous memset is done when its call returns, unless its stream waits for other work.

use super::copies::{IntoNumber, run_transfer};
use crate::engine::answer::Answer;
use crate::engine::driver::TransferParameters;
use cupeer_spec::abi::*;

/// Sets a rectangle of elements. The width and the height count elements and rows.
fn fill(
    (address, pitch): (impl IntoNumber, impl IntoNumber),
    (element, value): (u64, u32),
    (width, height): (impl IntoNumber, impl IntoNumber),
    stream: Option<u64>,
) -> Answer {
    let (address, pitch, width, height) = (address.number(), pitch.number(), width.number(), height.number());
    let node = CUDA_MEMSET_NODE_PARAMS {
        dst: CUdeviceptr(address),
        pitch: pitch as usize,
        value,
        elementSize: element as u32,
        width: width as usize,
        height: height as usize,
    };
    run_transfer(stream, TransferParameters::Fill(node))
}

/// Defines the functions for memsets of one size of element.
macro_rules! sizes {
    ($($type:ident $element:literal: $old:ident $new:ident $own:ident $later:ident $own_later:ident
       $old_2d:ident $new_2d:ident $own_2d:ident $later_2d:ident $own_later_2d:ident)*) => {
        entry! {$(
            fn $old(dstDevice: u32, value: $type, N: u32) {
                fill((dstDevice, 0u32), ($element, value.into()), (N, 1u32), None)
            }

            fn $new | $own(dstDevice, value, N) {
                fill((dstDevice, 0u32), ($element, value.into()), (N, 1u32), None)
            }

            fn $later | $own_later(dstDevice, value, N, hStream) {
                fill((dstDevice, 0u32), ($element, value.into()), (N, 1u32), Some(hStream))
            }

            fn $old_2d(dstDevice: u32, dstPitch: u32, value: $type, Width: u32, Height: u32) {
                fill((dstDevice, dstPitch), ($element, value.into()), (Width, Height), None)
            }

            fn $new_2d | $own_2d(dstDevice, dstPitch, value, Width, Height) {
                fill((dstDevice, dstPitch), ($element, value.into()), (Width, Height), None)
            }

            fn $later_2d | $own_later_2d(dstDevice, dstPitch, value, Width, Height, hStream) {
                fill((dstDevice, dstPitch), ($element, value.into()), (Width, Height), Some(hStream))
            }
        )*}
    };
}
sizes! {
    u8 1: cuMemsetD8 cuMemsetD8_v2 cuMemsetD8_v2_ptds cuMemsetD8Async cuMemsetD8Async_ptsz
        cuMemsetD2D8 cuMemsetD2D8_v2 cuMemsetD2D8_v2_ptds cuMemsetD2D8Async cuMemsetD2D8Async_ptsz
    u16 2: cuMemsetD16 cuMemsetD16_v2 cuMemsetD16_v2_ptds cuMemsetD16Async cuMemsetD16Async_ptsz
        cuMemsetD2D16 cuMemsetD2D16_v2 cuMemsetD2D16_v2_ptds cuMemsetD2D16Async cuMemsetD2D16Async_ptsz
    u32 4: cuMemsetD32 cuMemsetD32_v2 cuMemsetD32_v2_ptds cuMemsetD32Async cuMemsetD32Async_ptsz
        cuMemsetD2D32 cuMemsetD2D32_v2 cuMemsetD2D32_v2_ptds cuMemsetD2D32Async cuMemsetD2D32Async_ptsz
}
