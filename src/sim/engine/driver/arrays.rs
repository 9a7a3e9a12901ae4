//! CUDA arrays: opaque memory with a shape, here row by row in a device's memory.

use super::super::answer::{Answer, fail};
use super::stores::Stored;
use cupeer_spec::results::Result as Code;
use std::collections::HashMap;

pub(crate) const LAYERED: u32 = 1;
pub(crate) const CUBEMAP: u32 = 4;
/// CUDA_ARRAY3D_SPARSE and CUDA_ARRAY3D_DEFERRED_MAPPING, which need virtual memory management.
const MAPPED_LATER: u32 = 0xc0;
const KNOWN: u32 = 0xff;

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct Descriptor {
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    pub format: i32,
    pub channels: u32,
    pub flags: u32,
}

impl Descriptor {
    /// Bytes of one element: `CU_AD_FORMAT_*` of integers and floating-point numbers.
    fn element(&self) -> Option<u64> {
        let channel = match self.format {
            1 | 8 => 1,
            2 | 9 | 0x10 => 2,
            3 | 10 | 0x20 => 4,
            _ => return None,
        };
        matches!(self.channels, 1 | 2 | 4).then(|| channel * u64::from(self.channels))
    }

    /// Bytes of a row, rows of a slice, slices.
    pub(crate) fn shape(&self) -> Option<(u64, u64, u64)> {
        let row = self.width.checked_mul(self.element()?)?;
        Some((row, self.height.max(1), self.depth.max(1)))
    }

    pub(crate) fn check(&self) -> Answer<u64> {
        if self.flags & MAPPED_LATER != 0 {
            return fail(Code::NOT_SUPPORTED);
        }
        let layered = self.flags & LAYERED != 0;
        let faces = if layered { self.depth.is_multiple_of(6) && self.depth > 0 } else { self.depth == 6 };
        let whole = self.width > 0
            && self.flags & !KNOWN == 0
            && (self.depth == 0 || self.height > 0 || layered)
            && (!layered || self.depth > 0)
            && (self.flags & CUBEMAP == 0 || faces && self.width == self.height);
        let (row, rows, slices) = self.shape().filter(|_| whole).ok_or(Code::INVALID_VALUE)?;
        let size = row.checked_mul(rows).and_then(|slice| slice.checked_mul(slices));
        size.ok_or_else(|| Code::OUT_OF_MEMORY.into())
    }

    /// A level of a mipmap: each extent halved so often, but not the number of layers.
    pub(crate) fn level(&self, level: u32) -> Descriptor {
        let half = |extent: u64| if extent == 0 { 0 } else { (extent >> level).max(1) };
        let depth = if self.flags & (LAYERED | CUBEMAP) != 0 { self.depth } else { half(self.depth) };
        Descriptor { width: half(self.width), height: half(self.height), depth, ..*self }
    }
}

/// An array.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub descriptor: Descriptor,
    pub stored: Stored,
    /// How much of its device's memory it takes.
    pub(in crate::engine) taken: u64,
    pub(in crate::engine) context: u64,
    pub(in crate::engine) device: usize,
    /// Whether it is a level of a mipmapped array, and ends with it.
    pub(in crate::engine) is_level: bool,
}

/// All arrays of a process.
#[derive(Default, Debug)]
pub(crate) struct Arrays {
    pub(in crate::engine) map: HashMap<u64, Array>,
    pub(in crate::engine) mipmapped: HashMap<u64, Vec<u64>>,
}

impl Arrays {
    /// The array behind a handle.
    pub(crate) fn get(&self, handle: u64) -> Answer<&Array> {
        self.map.get(&handle).ok_or_else(|| Code::INVALID_HANDLE.into())
    }

    /// `cuMipmappedArrayGetLevel`.
    pub(crate) fn level(&self, handle: u64, level: u32) -> Answer<u64> {
        let levels = self.mipmapped.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        levels.get(level as usize).copied().ok_or_else(|| Code::INVALID_VALUE.into())
    }
}
