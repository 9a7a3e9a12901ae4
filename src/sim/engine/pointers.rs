//! Pointer attributes.

use super::answer::{Answer, fail};
use super::memory::{Allocation, HOST_DEVICE_MAP, Kind};
use super::process::Driver;
use cupeer_spec::results::Result as Code;

/// An attribute of a pointer, with the width that it has in C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    /// `bool`, 1 byte.
    Flag(bool),
    /// `int`, `unsigned int` or an enumeration.
    Word(u32),
    /// A pointer, a handle, a size or a 64-bit number.
    Wide(u64),
    /// The two 64-bit tokens of CU_POINTER_ATTRIBUTE_P2P_TOKENS.
    Tokens(u64, u64),
}

impl Value {
    /// As it lies in memory.
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Value::Flag(value) => vec![value.into()],
            Value::Word(value) => value.to_ne_bytes().into(),
            Value::Wide(value) => value.to_ne_bytes().into(),
            Value::Tokens(a, b) => [a.to_ne_bytes(), b.to_ne_bytes()].concat(),
        }
    }
}

/// What an attribute is where the pointer does not have it.
pub(crate) fn nothing(attribute: i32) -> Value {
    match attribute {
        SYNC_MEMOPS | 8 | 13 | 21 => Value::Flag(false),
        // CU_DEVICE_INVALID.
        9 => Value::Word(-2i32 as u32),
        2 | 10 | 14 | 15 | 19 | 20 => Value::Word(0),
        5 => Value::Tokens(0, 0),
        _ => Value::Wide(0),
    }
}

/// The last attribute of CUDA 13.0, CU_POINTER_ATTRIBUTE_HW_DECOMPRESS_CAPABLE.
const LAST: i32 = 21;
/// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
const SYNC_MEMOPS: i32 = 6;
/// CU_MEMORYTYPE_HOST and CU_MEMORYTYPE_DEVICE.
const HOST: u32 = 1;
const DEVICE: u32 = 2;

impl Driver {
    /// `cuPointerGetAttribute`.
    pub(crate) fn pointer_attribute(&self, attribute: i32, address: u64) -> Answer<Value> {
        self.current()?;
        if !(1..=LAST).contains(&attribute) {
            return fail(Code::INVALID_VALUE);
        }
        match self.memory.containing(address) {
            Some((base, allocation)) => self.attribute_of(attribute, address, base, allocation),
            None => fail(Code::INVALID_VALUE),
        }
    }

    fn attribute_of(&self, attribute: i32, address: u64, base: u64, a: &Allocation) -> Answer<Value> {
        let managed = matches!(a.kind, Kind::Managed);
        let malloced = matches!(a.kind, Kind::Device { .. });
        let pooled = matches!(a.kind, Kind::Pool { .. });
        Ok(match attribute {
            1 if pooled => Value::Wide(0),
            1 => Value::Wide(a.context),
            2 => Value::Word(if a.is_host() && !managed { HOST } else { DEVICE }),
            3 => Value::Wide(self.device_pointer(address, a)?),
            4 if a.is_device() => return fail(Code::INVALID_VALUE),
            4 => Value::Wide(address),
            5 if malloced => Value::Tokens(a.id, 0),
            5 => return fail(Code::INVALID_VALUE),
            SYNC_MEMOPS => Value::Flag(a.sync_memops),
            7 => Value::Wide(a.id),
            8 => Value::Flag(managed),
            9 => Value::Word(a.device as u32),
            10 => Value::Word(malloced.into()),
            11 => Value::Wide(base),
            12 => Value::Wide(a.size),
            13 => Value::Flag(true),
            14 => Value::Word(0),
            // CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE.
            15 => Value::Word(3),
            16 => Value::Wide(if pooled { self.pool_handle(a.device) } else { 0 }),
            17 => Value::Wide(a.size),
            18 => Value::Wide(base),
            19 => Value::Word(0),
            20 => Value::Word(0),
            21 => Value::Flag(false),
            _ => return fail(Code::INVALID_VALUE),
        })
    }

    /// The address by which devices reach a pointer.
    fn device_pointer(&self, address: u64, allocation: &Allocation) -> Answer<u64> {
        match allocation.kind {
            Kind::Host { flags } | Kind::Registered { flags } if flags & HOST_DEVICE_MAP == 0 => {
                fail(Code::INVALID_VALUE)
            }
            _ => Ok(address),
        }
    }

    /// `cuPointerGetAttributes`: `None` for what the pointer does not have.
    pub(crate) fn pointer_attributes(&self, attributes: &[i32], address: u64) -> Answer<Vec<Option<Value>>> {
        self.current()?;
        if attributes.iter().any(|attribute| !(1..=LAST).contains(attribute)) {
            return fail(Code::INVALID_VALUE);
        }
        Ok(attributes.iter().map(|attribute| self.pointer_attribute(*attribute, address).ok()).collect())
    }

    /// `cuPointerSetAttribute`, which knows CU_POINTER_ATTRIBUTE_SYNC_MEMOPS alone.
    pub(crate) fn set_pointer_attribute(&mut self, value: bool, attribute: i32, address: u64) -> Answer {
        self.current()?;
        match self.memory.containing_mut(address) {
            Some((_, allocation)) if attribute == SYNC_MEMOPS && !allocation.is_host() => {
                allocation.sync_memops = value;
                Ok(())
            }
            _ => fail(Code::INVALID_VALUE),
        }
    }

    /// The handle of a device's default pool, which nothing else has.
    pub(crate) fn pool_handle(&self, device: usize) -> u64 {
        POOLS + 16 * device as u64
    }

    /// The device whose default pool this is.
    pub(crate) fn pool_device(&self, pool: u64) -> Answer<usize> {
        (0..self.visible.len())
            .find(|device| self.pool_handle(*device) == pool)
            .ok_or_else(|| Code::INVALID_VALUE.into())
    }
}

/// Where the handles of pools start: addresses in the first page, which nothing else can have.
const POOLS: u64 = 0x100;

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_topology::Topology;

    #[test]
    fn attributes_of_device_and_host_memory() {
        let mut driver = Driver::new(Topology::default(), vec![0, 1]);
        let context = driver.create_context(1, 0).unwrap();
        let device = driver.allocate(1000, false).unwrap();
        let host = driver.allocate_host(1000, 0).unwrap();
        let get = |attribute, address| driver.pointer_attribute(attribute, address);
        assert_eq!(get(1, device + 5), Ok(Value::Wide(context)));
        assert_eq!((get(2, device), get(2, host)), (Ok(Value::Word(DEVICE)), Ok(Value::Word(HOST))));
        assert_eq!((get(4, device), get(4, host)), (fail(Code::INVALID_VALUE), Ok(Value::Wide(host))));
        assert_eq!(get(9, device), Ok(Value::Word(1)));
        assert_eq!(
            (get(11, device + 5), get(12, device + 5)),
            (Ok(Value::Wide(device)), Ok(Value::Wide(1000)))
        );
        assert_eq!(get(2, 0x1234), fail(Code::INVALID_VALUE));
        let stack = 0u8;
        let several = driver.pointer_attributes(&[2, 8], &raw const stack as u64).unwrap();
        assert_eq!(several, [None, None]);
        driver.set_pointer_attribute(true, SYNC_MEMOPS, device).unwrap();
        assert_eq!(driver.pointer_attribute(SYNC_MEMOPS, device), Ok(Value::Flag(true)));
        assert_eq!(driver.set_pointer_attribute(true, 2, device), fail(Code::INVALID_VALUE));
    }
}
