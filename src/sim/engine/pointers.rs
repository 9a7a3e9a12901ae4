//! Pointer attributes.

use super::answer::{Answer, Value, fail, fail_if};
use super::driver::{Allocation, Driver, Kind, Rights, may_access};
use cupeer_spec::results::Result as Code;

/// Returns the value of an attribute for a pointer that does not have it.
pub(crate) fn nothing(attribute: i32) -> Value {
    match attribute {
        // CU_DEVICE_INVALID.
        DEVICE_ORDINAL => Value::Word(-2i32 as u32),
        SYNC_MEMOPS | IS_MANAGED | MAPPED | IS_GPU_DIRECT_RDMA_CAPABLE | IS_HW_DECOMPRESS_CAPABLE => {
            Value::Word(0)
        }
        MEMORY_TYPE | IS_LEGACY_CUDA_IPC_CAPABLE | ACCESS_FLAGS => Value::Word(0),
        P2P_TOKENS => Value::Tokens(0, 0),
        _ => Value::Wide(0),
    }
}

// `CU_POINTER_ATTRIBUTE_*` of CUDA 13.0.
const CONTEXT: i32 = 1;
const MEMORY_TYPE: i32 = 2;
const DEVICE_POINTER: i32 = 3;
const HOST_POINTER: i32 = 4;
const P2P_TOKENS: i32 = 5;
const SYNC_MEMOPS: i32 = 6;
const BUFFER_ID: i32 = 7;
const IS_MANAGED: i32 = 8;
const DEVICE_ORDINAL: i32 = 9;
const IS_LEGACY_CUDA_IPC_CAPABLE: i32 = 10;
const RANGE_START_ADDR: i32 = 11;
const RANGE_SIZE: i32 = 12;
const MAPPED: i32 = 13;
const ALLOWED_HANDLE_TYPES: i32 = 14;
const IS_GPU_DIRECT_RDMA_CAPABLE: i32 = 15;
const ACCESS_FLAGS: i32 = 16;
const MEMPOOL_HANDLE: i32 = 17;
const MAPPING_SIZE: i32 = 18;
const MAPPING_BASE_ADDR: i32 = 19;
const MEMORY_BLOCK_ID: i32 = 20;
const IS_HW_DECOMPRESS_CAPABLE: i32 = 21;
/// The highest number of an attribute.
const LAST: i32 = IS_HW_DECOMPRESS_CAPABLE;
/// CU_MEMORYTYPE_HOST.
const HOST: u32 = 1;
/// CU_MEMORYTYPE_DEVICE.
const DEVICE: u32 = 2;

impl Driver {
    /// `cuPointerGetAttribute`.
    pub(crate) fn pointer_attribute(&self, attribute: i32, address: u64) -> Answer<Value> {
        fail_if(!(1..=LAST).contains(&attribute), Code::INVALID_VALUE)?;
        match self.memory.containing(address) {
            Some((base, allocation)) => self.attribute_of(attribute, address, base, allocation),
            None => fail(Code::INVALID_VALUE),
        }
    }

    fn attribute_of(&self, attribute: i32, address: u64, base: u64, a: &Allocation) -> Answer<Value> {
        let managed = matches!(a.kind, Kind::Managed(_));
        let malloced = matches!(a.kind, Kind::Device { .. });
        let pool = match a.kind {
            Kind::Pool { pool, .. } => Some(pool),
            _ => None,
        };
        let mapping = match &a.kind {
            Kind::Mapped(mapping) => Some(mapping),
            _ => None,
        };
        Ok(match attribute {
            CONTEXT if pool.is_some() => Value::Wide(0),
            CONTEXT => Value::Wide(a.context),
            MEMORY_TYPE => Value::Word(if a.is_host() && !managed { HOST } else { DEVICE }),
            DEVICE_POINTER if self.reaches(a) => Value::Wide(address),
            HOST_POINTER if a.is_host() => Value::Wide(address),
            P2P_TOKENS if !a.is_host() || managed => Value::Tokens(0, 0),
            SYNC_MEMOPS => Value::Word(a.sync_memops.into()),
            BUFFER_ID | MEMORY_BLOCK_ID => Value::Wide(a.id),
            IS_MANAGED => Value::Word(managed.into()),
            DEVICE_ORDINAL => Value::Word(a.device as u32),
            IS_LEGACY_CUDA_IPC_CAPABLE | IS_GPU_DIRECT_RDMA_CAPABLE | IS_HW_DECOMPRESS_CAPABLE => {
                Value::Word(malloced.into())
            }
            // For mapped memory, the range is the whole reservation, which may be larger than the mapping.
            RANGE_START_ADDR => Value::Wide(self.reservation_of(address).map_or(base, |(start, _)| start)),
            RANGE_SIZE => Value::Wide(self.reservation_of(address).map_or(a.size, |(_, size)| size)),
            MAPPING_BASE_ADDR => Value::Wide(base),
            MAPPING_SIZE => Value::Wide(a.size),
            MAPPED => Value::Word(1),
            ALLOWED_HANDLE_TYPES => Value::Wide(match (mapping, pool) {
                (Some(mapping), _) => self.mapped_types(mapping),
                (_, Some(pool)) => self.memory.pools.types(pool) as u64,
                _ => 0,
            }),
            // As recorded, the value for memory of a pool does not depend on the access that the pool grants.
            ACCESS_FLAGS => Value::Word(match mapping {
                Some(mapping) => may_access(mapping, self.current_device()?) as u32,
                _ => Rights::ReadWrite as u32,
            }),
            MEMPOOL_HANDLE => Value::Wide(pool.map_or(0, |pool| self.memory.pools.handle(pool))),
            _ => return fail(Code::INVALID_VALUE),
        })
    }

    /// Returns true if work of the current context can use an allocation. Memory of another device requires
    /// access.
    pub(crate) fn reaches(&self, allocation: &Allocation) -> bool {
        if allocation.is_host() {
            return true;
        }
        let Ok(current) = self.current() else { return true };
        self.context(current).is_ok_and(|context| match &allocation.kind {
            Kind::Mapped(mapping) => may_access(mapping, context.device) > Rights::Nothing,
            Kind::Pool { pool, .. } => self.memory.pools.rights(*pool, context.device) > Rights::Nothing,
            _ => context.device == allocation.device || context.peers.contains(&allocation.context),
        })
    }

    /// `cuPointerGetAttributes`: returns the value of each attribute; `None` for attributes that the pointer
    /// lacks.
    pub(crate) fn pointer_attributes(&self, attributes: &[i32], address: u64) -> Answer<Vec<Option<Value>>> {
        fail_if(attributes.iter().any(|attribute| !(1..=LAST).contains(attribute)), Code::INVALID_VALUE)?;
        Ok(attributes.iter().map(|attribute| self.pointer_attribute(*attribute, address).ok()).collect())
    }

    /// `cuPointerSetAttribute`, which can set only CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
    pub(crate) fn set_pointer_attribute(&mut self, value: bool, attribute: i32, address: u64) -> Answer {
        match self.memory.containing_mut(address) {
            Some((_, Allocation { kind: Kind::Mapped(_), .. })) if attribute == SYNC_MEMOPS => {
                fail(Code::NOT_SUPPORTED)
            }
            Some((_, allocation)) if attribute == SYNC_MEMOPS => {
                allocation.sync_memops = value;
                Ok(())
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_address_has_what_its_allocation_has() {
        let mut driver = Driver::in_context();
        let base = driver.allocate(1000, false).unwrap();
        let get = |attribute| driver.pointer_attribute(attribute, base + 5);
        assert_eq!((get(RANGE_START_ADDR), get(RANGE_SIZE)), (Ok(Value::Wide(base)), Ok(Value::Wide(1000))));
        assert_eq!(
            (get(CONTEXT), get(DEVICE_POINTER)),
            (driver.current().map(Value::Wide), Ok(Value::Wide(base + 5)))
        );
    }
}
