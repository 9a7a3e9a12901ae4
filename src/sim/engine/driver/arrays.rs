//! CUDA arrays: opaque memory with a shape, here row by row in a device's memory.

use super::super::answer::Answer;
use super::stores::StorePosition;
use cupeer_spec::results::Result as Code;
use std::collections::HashMap;

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct ArrayDescriptor {
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    pub format: i32,
    pub channels: u32,
    pub flags: u32,
}

impl ArrayDescriptor {
    /// Returns the number of bytes of an element; `None` unless the format is `CU_AD_FORMAT_*` of integers or
    /// floating-point numbers.
    fn element_size(&self) -> Option<u64> {
        let channel = match self.format {
            1 | 8 => 1,
            2 | 9 | 0x10 => 2,
            3 | 10 | 0x20 => 4,
            _ => return None,
        };
        matches!(self.channels, 1 | 2 | 4).then(|| channel * u64::from(self.channels))
    }

    /// Returns the bytes per row, the rows per slice, and the number of slices; `None` if the format is
    /// unknown.
    pub(crate) fn extents(&self) -> Option<(u64, u64, u64)> {
        let row = self.width.checked_mul(self.element_size()?)?;
        Some((row, self.height.max(1), self.depth.max(1)))
    }
}

/// An array.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub descriptor: ArrayDescriptor,
    pub stored: StorePosition,
    /// Number of bytes of device memory that the array takes.
    pub(in crate::engine) taken: u64,
    pub(in crate::engine) context: u64,
    pub(in crate::engine) device: usize,
    /// True for a level of a mipmapped array, which ends together with the mipmapped array.
    pub(in crate::engine) is_level: bool,
}

/// All arrays of a process.
#[derive(Default, Debug)]
pub(crate) struct Arrays {
    pub(in crate::engine) map: HashMap<u64, Array>,
    pub(in crate::engine) mipmapped: HashMap<u64, Vec<u64>>,
}

impl Arrays {
    /// Returns the array with a handle.
    pub(crate) fn get(&self, handle: u64) -> Answer<&Array> {
        self.map.get(&handle).ok_or_else(|| Code::INVALID_HANDLE.into())
    }

    /// `cuMipmappedArrayGetLevel`.
    pub(crate) fn level_handle(&self, handle: u64, level: u32) -> Answer<u64> {
        let levels = self.mipmapped.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        levels.get(level as usize).copied().ok_or_else(|| Code::INVALID_VALUE.into())
    }
}
