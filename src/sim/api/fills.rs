//! Setting memory. The asynchronous forms are done when they return, where nothing in their stream waits.

use super::copies::transfer;
use crate::engine::answer::Answer;
use cupeer_spec::abi::*;

/// What to set: elements of a size, in rows.
struct What {
    element: u64,
    value: u32,
    width: u64,
    height: u64,
}

fn fill(address: u64, pitch: u64, what: What, stream: Option<u64>) -> Answer {
    transfer(stream, move |driver| {
        driver.fill(address, pitch, what.element, what.value, what.width, what.height)
    })
}

/// Writes the entries for one size of element.
macro_rules! sizes {
    ($($type:ident $element:literal: $old:ident $new:ident $later:ident $old_2d:ident $new_2d:ident $later_2d:ident)*) => {
        entry! {$(
            fn $old(dstDevice: u32, value: $type, N: u32) {
                let what = What { element: $element, value: value.into(), width: N.into(), height: 1 };
                fill(dstDevice.into(), 0, what, None)
            }

            fn $new(dstDevice: CUdeviceptr, value: $type, N: usize) {
                let what = What { element: $element, value: value.into(), width: N as u64, height: 1 };
                fill(dstDevice, 0, what, None)
            }

            fn $later(dstDevice: CUdeviceptr, value: $type, N: usize, hStream: CUstream) {
                let what = What { element: $element, value: value.into(), width: N as u64, height: 1 };
                fill(dstDevice, 0, what, Some(hStream))
            }

            fn $old_2d(dstDevice: u32, dstPitch: u32, value: $type, Width: u32, Height: u32) {
                let (width, height) = (Width.into(), Height.into());
                let what = What { element: $element, value: value.into(), width, height };
                fill(dstDevice.into(), dstPitch.into(), what, None)
            }

            fn $new_2d(dstDevice: CUdeviceptr, dstPitch: usize, value: $type, Width: usize, Height: usize) {
                let (width, height) = (Width as u64, Height as u64);
                let what = What { element: $element, value: value.into(), width, height };
                fill(dstDevice, dstPitch as u64, what, None)
            }

            fn $later_2d(
                dstDevice: CUdeviceptr,
                dstPitch: usize,
                value: $type,
                Width: usize,
                Height: usize,
                hStream: CUstream,
            ) {
                let (width, height) = (Width as u64, Height as u64);
                let what = What { element: $element, value: value.into(), width, height };
                fill(dstDevice, dstPitch as u64, what, Some(hStream))
            }
        )*}
    };
}
sizes! {
    u8 1: cuMemsetD8 cuMemsetD8_v2 cuMemsetD8Async cuMemsetD2D8 cuMemsetD2D8_v2 cuMemsetD2D8Async
    u16 2: cuMemsetD16 cuMemsetD16_v2 cuMemsetD16Async cuMemsetD2D16 cuMemsetD2D16_v2 cuMemsetD2D16Async
    u32 4: cuMemsetD32 cuMemsetD32_v2 cuMemsetD32Async cuMemsetD2D32 cuMemsetD2D32_v2 cuMemsetD2D32Async
}
