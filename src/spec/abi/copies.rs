//! The structures of copies of rows.

/// `CUDA_MEMCPY2D`, in the form of CUDA 3.2 with 64-bit sizes and device addresses, and in the older form
/// with 32 bits. Pointers are numbers here, so that no code follows them before they are checked.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY2D<W> {
    /// Offset of the source in its row, in bytes.
    pub srcXInBytes: W,
    /// Row of the source at which the copy begins.
    pub srcY: W,
    /// `CU_MEMORYTYPE_*` of the source.
    pub srcMemoryType: i32,
    /// Host address of the source.
    pub srcHost: u64,
    /// Device address of the source.
    pub srcDevice: W,
    /// Handle of the array that is the source.
    pub srcArray: u64,
    /// Distance in bytes from one row of the source to the next.
    pub srcPitch: W,
    /// Offset of the destination in its row, in bytes.
    pub dstXInBytes: W,
    /// Row of the destination at which the copy begins.
    pub dstY: W,
    /// `CU_MEMORYTYPE_*` of the destination.
    pub dstMemoryType: i32,
    /// Host address of the destination.
    pub dstHost: u64,
    /// Device address of the destination.
    pub dstDevice: W,
    /// Handle of the array that is the destination.
    pub dstArray: u64,
    /// Distance in bytes from one row of the destination to the next.
    pub dstPitch: W,
    /// Bytes per row.
    pub WidthInBytes: W,
    /// Number of rows.
    pub Height: W,
}

/// `CUDA_MEMCPY3D` in the same two forms, and `CUDA_MEMCPY3D_PEER`, in which the reserved fields are the contexts.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY3D<W> {
    /// Source of the copy.
    pub src: Side3D<W>,
    /// Destination of the copy.
    pub dst: Side3D<W>,
    /// Bytes per row.
    pub WidthInBytes: W,
    /// Number of rows.
    pub Height: W,
    /// Number of slices.
    pub Depth: W,
}

/// Fields that [`CUDA_MEMCPY3D`] has with the prefix `src` and with `dst`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Side3D<W> {
    /// Offset in bytes at which the copy begins in each row.
    pub XInBytes: W,
    /// Row at which the copy begins.
    pub Y: W,
    /// Slice at which the copy begins.
    pub Z: W,
    /// Level of detail, which must be zero.
    pub LOD: W,
    /// Type of the memory: `CU_MEMORYTYPE_*`.
    pub MemoryType: i32,
    /// Host address.
    pub Host: u64,
    /// Device address.
    pub Device: W,
    /// Handle of the array.
    pub Array: u64,
    /// Context of this side, in a copy between peers.
    pub Context: u64,
    /// Distance in bytes from one row to the next.
    pub Pitch: W,
    /// Number of rows per slice.
    pub Height: W,
}

/// `CUDA_MEMCPY2D` as the functions of CUDA 3.2 and later take it.
pub type CUDA_MEMCPY2D_v2 = CUDA_MEMCPY2D<u64>;
/// `CUDA_MEMCPY3D` as the functions of CUDA 3.2 and later take it.
pub type CUDA_MEMCPY3D_v2 = CUDA_MEMCPY3D<u64>;
/// `CUDA_MEMCPY3D_PEER`.
pub type CUDA_MEMCPY3D_PEER = CUDA_MEMCPY3D<u64>;

/// `CUDA_MEMCPY3D_BATCH_OP`: one of several copies of slices of rows.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY3D_BATCH_OP {
    /// Source of the copy.
    pub src: CUmemcpy3DOperand,
    /// Destination of the copy.
    pub dst: CUmemcpy3DOperand,
    /// Width of a row, number of rows, and number of slices.
    pub extent: [usize; 3],
    /// Order in which the source may be read: `CUmemcpySrcAccessOrder`.
    pub srcAccessOrder: i32,
    /// Flags of the copy: `CUmemcpyFlags`.
    pub flags: u32,
}

/// `CUmemcpy3DOperand`: memory at an address, or an array.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUmemcpy3DOperand {
    /// Kind of operand: [`CUmemcpy3DOperand::POINTER`], or 2 for an array.
    pub kind: i32,
    /// Address of the memory, or handle of the array.
    pub place: u64,
    /// For an address: the row length in elements, the number of rows per slice, and the location of the
    /// memory (a [`super::CUmemLocation`]). For an array: the offset in a row, the row, and the slice.
    pub rest: [u64; 3],
}

impl CUmemcpy3DOperand {
    /// CU_MEMCPY_OPERAND_TYPE_POINTER.
    pub const POINTER: i32 = 1;
}

const _: () = {
    assert!(size_of::<CUmemcpy3DOperand>() == 40 && size_of::<CUDA_MEMCPY3D_BATCH_OP>() == 112);
    assert!(size_of::<CUDA_MEMCPY2D<u64>>() == 128 && size_of::<CUDA_MEMCPY2D<u32>>() == 96);
    assert!(size_of::<CUDA_MEMCPY3D<u64>>() == 200 && size_of::<CUDA_MEMCPY3D<u32>>() == 144);
};
