//! Multicast objects: one address for the memory of several devices.

/// `CUmulticastObjectProp`: properties of a multicast object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CUmulticastObjectProp {
    /// Number of devices that will be added.
    pub numDevices: u32,
    /// Largest number of bytes of each device's memory that can be bound.
    pub size: usize,
    /// Bits of [`CUmemAllocationHandleType`](super::CUmemAllocationHandleType).
    pub handleTypes: u64,
    /// Reserved; must be zero.
    pub flags: u64,
}

enumerations! {
    /// `CUmulticastGranularity_flags`: kinds of granularity.
    CUmulticastGranularity_flags: i32 {
        CU_MULTICAST_GRANULARITY_MINIMUM = 0,
        CU_MULTICAST_GRANULARITY_RECOMMENDED = 1,
    }
}

const _: () = assert!(size_of::<CUmulticastObjectProp>() == 32 && align_of::<CUmulticastObjectProp>() == 8);
