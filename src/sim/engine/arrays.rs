//! Creates and destroys arrays.

use super::answer::{Answer, fail_if};
use super::driver::{Array, ArrayDescriptor, Driver, keys_of};
use super::space::HandleKind;
use cupeer_spec::results::Result as Code;

const LAYERED: u32 = 1;
const CUBEMAP: u32 = 4;
/// CUDA_ARRAY3D_SPARSE and CUDA_ARRAY3D_DEFERRED_MAPPING: arrays whose memory the program maps later.
const MAPPED_LATER: u32 = 0xc0;
/// All bits of `CUDA_ARRAY3D_*`.
const KNOWN: u32 = 0xff;

impl ArrayDescriptor {
    /// Checks the shape and the flags. Returns the number of bytes of the array.
    fn check_shape(&self) -> Answer<u64> {
        fail_if(self.flags & MAPPED_LATER != 0, Code::NOT_SUPPORTED)?;
        let layered = self.flags & LAYERED != 0;
        let faces = if layered { self.depth.is_multiple_of(6) && self.depth > 0 } else { self.depth == 6 };
        let whole = self.width > 0
            && self.flags & !KNOWN == 0
            && (self.depth == 0 || self.height > 0 || layered)
            && (!layered || self.depth > 0)
            && (self.flags & CUBEMAP == 0 || faces && self.width == self.height);
        let (row, rows, slices) = self.extents().filter(|_| whole).ok_or(Code::INVALID_VALUE)?;
        let size = row.checked_mul(rows).and_then(|slice| slice.checked_mul(slices));
        size.ok_or_else(|| Code::OUT_OF_MEMORY.into())
    }

    /// Returns the descriptor of a level of a mipmapped array: each extent is halved `level` times, except
    /// the number of layers.
    fn level_descriptor(&self, level: u32) -> ArrayDescriptor {
        let half = |extent: u64| if extent == 0 { 0 } else { (extent >> level).max(1) };
        let depth = if self.flags & (LAYERED | CUBEMAP) != 0 { self.depth } else { half(self.depth) };
        ArrayDescriptor { width: half(self.width), height: half(self.height), depth, ..*self }
    }
}

impl Driver {
    /// `cuArray3DCreate`.
    pub(crate) fn create_array(&mut self, descriptor: ArrayDescriptor) -> Answer<u64> {
        self.add_array(descriptor, false)
    }

    fn add_array(&mut self, descriptor: ArrayDescriptor, is_level: bool) -> Answer<u64> {
        let context = self.current_context_handle()?;
        let device = self.context(context)?.device;
        let size = descriptor.check_shape()?;
        let handle = self.space.new_handle(HandleKind::Other)?;
        let (stored, taken) = self.take_memory(device, size)?;
        stored.backing.release_pages(stored.offset, taken);
        let array = Array { descriptor, stored, taken, context, device, is_level };
        self.arrays.map.insert(handle, array);
        Ok(handle)
    }

    /// `cuArrayDestroy`. It fails for a level of a mipmapped array, which ends with the mipmapped array.
    pub(crate) fn destroy_array(&mut self, handle: u64) -> Answer {
        fail_if(self.arrays.get(handle)?.is_level, Code::INVALID_HANDLE)?;
        self.remove_array(handle);
        Ok(())
    }

    fn remove_array(&mut self, handle: u64) {
        if let Some(array) = self.arrays.map.remove(&handle) {
            self.return_memory(array.device, array.stored.offset, array.taken);
        }
    }

    /// `cuMipmappedArrayCreate`: with the wanted number of levels, but no level after the level of one
    /// element.
    pub(crate) fn create_mipmapped(&mut self, descriptor: ArrayDescriptor, levels: u32) -> Answer<u64> {
        descriptor.check_shape()?;
        let longest = descriptor.width.max(descriptor.height).max(descriptor.level_descriptor(0).depth);
        let levels = levels.min(64 - longest.leading_zeros());
        fail_if(levels == 0, Code::INVALID_VALUE)?;
        let handle = self.space.new_handle(HandleKind::Other)?;
        self.arrays.mipmapped.insert(handle, Vec::new());
        for level in 0..levels {
            match self.add_array(descriptor.level_descriptor(level), true) {
                Ok(array) => self.arrays.mipmapped.entry(handle).or_default().push(array),
                Err(failure) => {
                    self.destroy_mipmapped(handle)?;
                    return Err(failure);
                }
            }
        }
        Ok(handle)
    }

    /// `cuMipmappedArrayDestroy`.
    pub(crate) fn destroy_mipmapped(&mut self, handle: u64) -> Answer {
        for level in self.arrays.mipmapped.remove(&handle).ok_or(Code::INVALID_HANDLE)? {
            self.remove_array(level);
        }
        Ok(())
    }

    /// Frees the arrays of a context.
    pub(crate) fn remove_arrays_of(&mut self, context: u64) {
        let handles = keys_of(&self.arrays.map, |array| array.context == context);
        for handle in &handles {
            self.remove_array(*handle);
        }
        self.arrays.mipmapped.retain(|_, levels| !levels.iter().any(|level| handles.contains(level)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::answer::fail;

    fn descriptor(width: u64, height: u64, depth: u64, flags: u32) -> ArrayDescriptor {
        ArrayDescriptor { width, height, depth, format: 0x20, channels: 1, flags }
    }

    #[test]
    fn shapes_are_checked_and_memory_comes_back() {
        let mut driver = Driver::in_context();
        let context = driver.current_context_handle().unwrap();
        let free = driver.memory_info(0).0;
        for (width, height, depth, flags) in
            [(0, 1, 1, 0), (4, 0, 2, 0), (4, 4, 5, CUBEMAP), (4, 3, 6, CUBEMAP), (4, 4, 0, LAYERED), (1, 1, 1, 256)]
        {
            let answer = driver.create_array(descriptor(width, height, depth, flags));
            assert_eq!(answer, fail(Code::INVALID_VALUE), "{width} {height} {depth} {flags}");
        }
        assert_eq!(driver.create_array(descriptor(1 << 40, 1 << 40, 1, 0)), fail(Code::OUT_OF_MEMORY));
        let array = driver.create_array(descriptor(4, 0, 7, LAYERED)).unwrap();
        driver.create_array(descriptor(4, 4, 12, LAYERED | CUBEMAP)).unwrap();
        driver.destroy_array(array).unwrap();
        assert_eq!(driver.destroy_array(array), fail(Code::INVALID_HANDLE));
        driver.destroy_context(context).unwrap();
        assert_eq!(driver.memory_info(0).0, free);
    }

    #[test]
    fn levels_are_halved_and_end_together() {
        let mut driver = Driver::in_context();
        let mipmapped = driver.create_mipmapped(descriptor(8, 4, 0, 0), 99).unwrap();
        let last = driver.arrays.level_handle(mipmapped, 3).unwrap();
        let shape = driver.arrays.get(last).unwrap().descriptor;
        assert_eq!((shape.width, shape.height, shape.depth), (1, 1, 0));
        assert_eq!(driver.arrays.level_handle(mipmapped, 4), fail(Code::INVALID_VALUE));
        assert_eq!(driver.destroy_array(last), fail(Code::INVALID_HANDLE));
        driver.destroy_mipmapped(mipmapped).unwrap();
        assert!(driver.arrays.get(last).is_err());
    }
}
