//! Pointer attributes.

use super::answer::{Answer, AttributeValue, fail, fail_if};
use super::driver::{AccessRights, Allocation, AllocationKind, Driver, rights_of};
use cupeer_spec::results::Result as Code;

/// Returns the value of an attribute for a pointer that does not have it.
pub(crate) fn missing_value(attribute: i32) -> AttributeValue {
    match attribute {
        // CU_DEVICE_INVALID.
        DEVICE_ORDINAL => AttributeValue::Word(-2i32 as u32),
        SYNC_MEMOPS | IS_MANAGED | MAPPED | IS_GPU_DIRECT_RDMA_CAPABLE | IS_HW_DECOMPRESS_CAPABLE => {
            AttributeValue::Word(0)
        }
        MEMORY_TYPE | IS_LEGACY_CUDA_IPC_CAPABLE | ACCESS_FLAGS => AttributeValue::Word(0),
        P2P_TOKENS => AttributeValue::Tokens(0, 0),
        _ => AttributeValue::Wide(0),
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
    pub(crate) fn pointer_attribute(&self, attribute: i32, address: u64) -> Answer<AttributeValue> {
        fail_if(!(1..=LAST).contains(&attribute), Code::INVALID_VALUE)?;
        match self.memory.allocation_at(address) {
            Some((base, allocation)) => self.attribute_of(attribute, address, base, allocation),
            None => fail(Code::INVALID_VALUE),
        }
    }

    fn attribute_of(&self, attribute: i32, address: u64, base: u64, a: &Allocation) -> Answer<AttributeValue> {
        let managed = matches!(a.kind, AllocationKind::Managed(_));
        let malloced = matches!(a.kind, AllocationKind::Device { .. });
        let pool = match a.kind {
            AllocationKind::Pool { pool, .. } => Some(pool),
            _ => None,
        };
        let mapping = match &a.kind {
            AllocationKind::Mapped(mapping) => Some(mapping),
            _ => None,
        };
        Ok(match attribute {
            CONTEXT if pool.is_some() => AttributeValue::Wide(0),
            CONTEXT => AttributeValue::Wide(a.context),
            MEMORY_TYPE => AttributeValue::Word(if a.is_host_accessible() && !managed { HOST } else { DEVICE }),
            DEVICE_POINTER if self.can_reach(a) => AttributeValue::Wide(address),
            HOST_POINTER if a.is_host_accessible() => AttributeValue::Wide(address),
            P2P_TOKENS if !a.is_host_accessible() || managed => AttributeValue::Tokens(0, 0),
            SYNC_MEMOPS => AttributeValue::Word(a.sync_memops.into()),
            BUFFER_ID | MEMORY_BLOCK_ID => AttributeValue::Wide(a.id),
            IS_MANAGED => AttributeValue::Word(managed.into()),
            DEVICE_ORDINAL => AttributeValue::Word(a.device as u32),
            IS_LEGACY_CUDA_IPC_CAPABLE | IS_GPU_DIRECT_RDMA_CAPABLE | IS_HW_DECOMPRESS_CAPABLE => {
                AttributeValue::Word(malloced.into())
            }
            // For mapped memory, the range is the whole reservation, which may be larger than the mapping.
            RANGE_START_ADDR => AttributeValue::Wide(self.reservation_of(address).map_or(base, |(start, _)| start)),
            RANGE_SIZE => AttributeValue::Wide(self.reservation_of(address).map_or(a.size, |(_, size)| size)),
            MAPPING_BASE_ADDR => AttributeValue::Wide(base),
            MAPPING_SIZE => AttributeValue::Wide(a.size),
            MAPPED => AttributeValue::Word(1),
            ALLOWED_HANDLE_TYPES => AttributeValue::Wide(match (mapping, pool) {
                (Some(mapping), _) => self.export_types_of(mapping),
                (_, Some(pool)) => self.memory.pools.export_types(pool) as u64,
                _ => 0,
            }),
            // As recorded, the value for memory of a pool does not depend on the access that the pool grants.
            ACCESS_FLAGS => AttributeValue::Word(match mapping {
                Some(mapping) => rights_of(mapping, self.current_device()?) as u32,
                _ => AccessRights::ReadWrite as u32,
            }),
            MEMPOOL_HANDLE => AttributeValue::Wide(pool.map_or(0, |pool| self.memory.pools.handle(pool))),
            _ => return fail(Code::INVALID_VALUE),
        })
    }

    /// Returns true if work of the current context can use an allocation. Memory of another device requires
    /// access.
    pub(crate) fn can_reach(&self, allocation: &Allocation) -> bool {
        if allocation.is_host_accessible() {
            return true;
        }
        let Ok(current) = self.current_context_handle() else { return true };
        self.context(current).is_ok_and(|context| match &allocation.kind {
            AllocationKind::Mapped(mapping) => rights_of(mapping, context.device) > AccessRights::Nothing,
            AllocationKind::Pool { pool, .. } => {
                self.memory.pools.rights(*pool, context.device) > AccessRights::Nothing
            }
            _ => context.device == allocation.device || context.peers.contains(&allocation.context),
        })
    }

    /// `cuPointerGetAttributes`: returns the value of each attribute; `None` for attributes that the pointer
    /// lacks.
    pub(crate) fn pointer_attributes(&self, attributes: &[i32], address: u64) -> Answer<Vec<Option<AttributeValue>>> {
        fail_if(attributes.iter().any(|attribute| !(1..=LAST).contains(attribute)), Code::INVALID_VALUE)?;
        Ok(attributes.iter().map(|attribute| self.pointer_attribute(*attribute, address).ok()).collect())
    }

    /// `cuPointerSetAttribute`, which can set only CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
    pub(crate) fn set_pointer_attribute(&mut self, value: bool, attribute: i32, address: u64) -> Answer {
        match self.memory.allocation_at_mut(address) {
            Some((_, Allocation { kind: AllocationKind::Mapped(_), .. })) if attribute == SYNC_MEMOPS => {
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
        let base = driver.allocate_device(1000, false).unwrap();
        let get = |attribute| driver.pointer_attribute(attribute, base + 5);
        assert_eq!(
            (get(RANGE_START_ADDR), get(RANGE_SIZE)),
            (Ok(AttributeValue::Wide(base)), Ok(AttributeValue::Wide(1000)))
        );
        assert_eq!(
            (get(CONTEXT), get(DEVICE_POINTER)),
            (driver.current_context_handle().map(AttributeValue::Wide), Ok(AttributeValue::Wide(base + 5)))
        );
    }
}
