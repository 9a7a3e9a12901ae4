//! The structures of copies of rows.

/// `CUDA_MEMCPY2D`, in the form of CUDA 3.2, whose sizes and device addresses have 64 bits, and in the one before it,
/// where they have 32. Pointers are numbers here: nobody follows them before they are checked.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY2D<W> {
    /// Where in a row the source begins.
    pub srcXInBytes: W,
    /// In which row.
    pub srcY: W,
    /// `CU_MEMORYTYPE_*` of the source.
    pub srcMemoryType: i32,
    /// Its address in the host's memory.
    pub srcHost: u64,
    /// Its address in device memory.
    pub srcDevice: W,
    /// The array.
    pub srcArray: u64,
    /// From one of its rows to the next.
    pub srcPitch: W,
    /// Where in a row the destination begins.
    pub dstXInBytes: W,
    /// In which row.
    pub dstY: W,
    /// `CU_MEMORYTYPE_*` of the destination.
    pub dstMemoryType: i32,
    /// Its address in the host's memory.
    pub dstHost: u64,
    /// Its address in device memory.
    pub dstDevice: W,
    /// The array.
    pub dstArray: u64,
    /// From one of its rows to the next.
    pub dstPitch: W,
    /// How much of a row.
    pub WidthInBytes: W,
    /// How many rows.
    pub Height: W,
}

/// `CUDA_MEMCPY3D` in the same two forms, and `CUDA_MEMCPY3D_PEER`, in which the reserved fields are the contexts.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY3D<W> {
    /// The source.
    pub src: Side3D<W>,
    /// The destination.
    pub dst: Side3D<W>,
    /// How much of a row.
    pub WidthInBytes: W,
    /// How many rows.
    pub Height: W,
    /// How many slices.
    pub Depth: W,
}

/// What [`CUDA_MEMCPY3D`] has once with the prefix `src` and once with `dst`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Side3D<W> {
    /// Where in a row it begins.
    pub XInBytes: W,
    /// In which row.
    pub Y: W,
    /// In which slice.
    pub Z: W,
    /// Zero.
    pub LOD: W,
    /// `CU_MEMORYTYPE_*`.
    pub MemoryType: i32,
    /// Its address in the host's memory.
    pub Host: u64,
    /// Its address in device memory.
    pub Device: W,
    /// The array.
    pub Array: u64,
    /// The context of a copy between peers.
    pub Context: u64,
    /// From one row to the next.
    pub Pitch: W,
    /// How many rows.
    pub Height: W,
}

/// `CUDA_MEMCPY2D` as the functions of CUDA 3.2 and later take it.
pub type CUDA_MEMCPY2D_v2 = CUDA_MEMCPY2D<u64>;
/// `CUDA_MEMCPY3D`, likewise.
pub type CUDA_MEMCPY3D_v2 = CUDA_MEMCPY3D<u64>;
/// `CUDA_MEMCPY3D_PEER`.
pub type CUDA_MEMCPY3D_PEER = CUDA_MEMCPY3D<u64>;

/// `CUDA_MEMCPY3D_BATCH_OP`: one of several copies of slices of rows.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUDA_MEMCPY3D_BATCH_OP {
    /// The source.
    pub src: CUmemcpy3DOperand,
    /// The destination.
    pub dst: CUmemcpy3DOperand,
    /// How much of a row, how many rows, and how many slices.
    pub extent: [usize; 3],
    /// `CUmemcpySrcAccessOrder`.
    pub srcAccessOrder: i32,
    /// `CUmemcpyFlags`.
    pub flags: u32,
}

/// `CUmemcpy3DOperand`: memory at an address, or an array.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CUmemcpy3DOperand {
    /// Which of both: [`CUmemcpy3DOperand::POINTER`], or 2.
    pub kind: i32,
    /// The address, or the array.
    pub place: u64,
    /// For an address: from one row to the next, in elements, how many rows a slice has, and where the memory is (a
    /// [`super::CUmemLocation`]). Of an array: where in a row, in which row, and in which slice.
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
