//! Copies. Asynchronous copies are done when they return, unless their stream waits or devices are late.

use super::boundary::InPointer;
use crate::engine::answer::{Answer, Failure, fail_if, invalid};
use crate::engine::copies::CopyMode;
use crate::engine::damage;
use crate::engine::driver::{Driver, LEGACY, Node, RowEnd, TransferParameters};
use crate::engine::process;
use crate::engine::queue;
use crate::engine::transfers::{AddressRole, Transfer, TransferShape, TransferSide};
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// CU_MEMORYTYPE_HOST.
const HOST: i32 = 1;
/// CU_MEMORYTYPE_DEVICE.
const DEVICE: i32 = 2;
/// CU_MEMORYTYPE_ARRAY.
const ARRAY: i32 = 3;
/// CU_MEMORYTYPE_UNIFIED.
const UNIFIED: i32 = 4;

/// A C type of an address or of a number of bytes.
pub(super) trait IntoNumber {
    fn number(self) -> u64;
}
impl IntoNumber for u32 {
    fn number(self) -> u64 {
        self.into()
    }
}
impl IntoNumber for u64 {
    fn number(self) -> u64 {
        self
    }
}
impl IntoNumber for usize {
    fn number(self) -> u64 {
        self as u64
    }
}
/// Returns the source or destination of a copy at an address that the driver must know.
pub(super) fn device(address: impl IntoNumber) -> RowEnd {
    RowEnd::At(address.number(), AddressRole::Device)
}

/// Returns the source or destination of a copy at any address: host memory, or memory that the driver knows.
pub(super) fn host(address: impl IntoNumber) -> RowEnd {
    RowEnd::At(address.number(), AddressRole::Any)
}

impl RowEnd {
    /// Returns the source or destination of a copy in an array, at an offset in bytes.
    pub(super) fn in_array(array: u64, offset: usize) -> RowEnd {
        RowEnd::Array(array, offset as u64)
    }

    fn to_side(self, driver: &Driver, length: u64) -> Answer<TransferSide> {
        let (array, offset) = match self {
            RowEnd::At(address, role) => return Ok(TransferSide::flat(address, role)),
            RowEnd::In(address, context) => {
                return Ok(TransferSide::flat(address, AddressRole::Device).with_context(context));
            }
            RowEnd::Array(array, offset) => (array, offset),
        };
        let (row, rows, slices) = driver.arrays.get(array)?.descriptor.extents().ok_or(Code::INVALID_VALUE)?;
        fail_if(offset.checked_add(length).is_none_or(|end| end > row * rows * slices), Code::INVALID_VALUE)?;
        Ok(TransferSide::flat(offset, AddressRole::Array(array)))
    }
}

/// A side of a copy in which all numbers are zero. Fields that a kind of side does not use keep these values.
const EMPTY: Side3D<u64> = Side3D {
    XInBytes: 0,
    Y: 0,
    Z: 0,
    LOD: 0,
    MemoryType: DEVICE,
    Host: 0,
    Device: 0,
    Array: 0,
    Context: 0,
    Pitch: 0,
    Height: 0,
};

impl From<RowEnd> for Side3D<u64> {
    fn from(end: RowEnd) -> Side3D<u64> {
        match end {
            RowEnd::At(address, AddressRole::Device) => Side3D { Device: address, ..EMPTY },
            RowEnd::At(address, _) => Side3D { MemoryType: UNIFIED, Device: address, ..EMPTY },
            RowEnd::In(address, context) => Side3D { Device: address, Context: context, ..EMPTY },
            RowEnd::Array(array, offset) => Side3D { MemoryType: ARRAY, Array: array, XInBytes: offset, ..EMPTY },
        }
    }
}

/// Copies one row in the order of a stream. `stream` is `None` for the functions that have no stream.
pub(super) fn flat(to: RowEnd, from: RowEnd, length: impl IntoNumber, stream: Option<u64>) -> Answer {
    run_transfer(stream, TransferParameters::Row(to, from, length.number()))
}

/// Writes the index of a copy to the program's variable at the address `failed`, unless this is null or `None`.
fn write_failed_index(failed: Option<u64>, index: usize) {
    let place = failed.unwrap_or(0) as *mut usize;
    if !place.is_null() {
        // SAFETY: not null, and the caller of the C function promises that a number can be written there.
        unsafe { place.write_unaligned(index) };
    }
}

/// Returns the mode of a copy with a `CUmemcpySrcAccessOrder`. In each order but that of the stream, the
/// source may be read immediately.
fn copy_mode_of_order(order: i32) -> CopyMode {
    const STREAM: i32 = 1;
    if order == STREAM { CopyMode::InStream } else { CopyMode::SourceFirst }
}

/// Makes several copies in their order. Writes the index of the first one that fails to `failed`, or all bits if none fails.
fn copy_batch(
    [to, from, sizes]: [u64; 3],
    count: usize,
    (attributes, indexes, attribute_count): (u64, InPointer<usize>, usize),
    failed: Option<u64>,
    stream: u64,
) -> Answer {
    let write_index = |index| write_failed_index(failed, index);
    write_index(usize::MAX);
    // CU_STREAM_LEGACY is not allowed, and neither is 0, which stands for the same stream.
    let is_legacy = stream == 0 || stream == LEGACY;
    fail_if([to, from, sizes, attributes].contains(&0) || count == 0 || is_legacy, Code::INVALID_VALUE)?;
    let starts = indexes.elements(attribute_count)?;
    fail_if(
        starts.first() != Some(&0) || !starts.is_sorted_by(|a, b| a < b) || starts.last() >= Some(&count),
        Code::INVALID_VALUE,
    )?;
    // SAFETY: not null, and the caller of the C function promises as many elements.
    let word = |array: u64, index| unsafe { (array as *const u64).add(index).read_unaligned() };
    for index in 0..count {
        let group = starts.partition_point(|start| *start <= index) - 1;
        // `CUmemcpyAttributes` has six words. The first word is the order. SAFETY: not null, and the caller
        // of the C function promises one structure for each group.
        let order = unsafe { (attributes as *const [i32; 6]).add(group).read_unaligned() }[0];
        let row = TransferParameters::Row(host(word(to, index)), host(word(from, index)), word(sizes, index));
        run_transfer_as(copy_mode_of_order(order), Some(stream), row).inspect_err(|_| write_index(index))?;
    }
    Ok(())
}

/// Makes several copies of slices of rows, with `failed` as in [`copy_batch`].
fn copy_slices_batch(copies: u64, count: usize, failed: Option<u64>, flags: u64, stream: u64) -> Answer {
    let write_index = |index| write_failed_index(failed, index);
    write_index(usize::MAX);
    fail_if(copies == 0 || count == 0 || flags != 0 || stream == 0 || stream == LEGACY, Code::INVALID_VALUE)?;
    for index in 0..count {
        // SAFETY: not null, and the caller of the C function promises as many elements.
        let copy = unsafe { (copies as *const CUDA_MEMCPY3D_BATCH_OP).add(index).read_unaligned() };
        let [width, height, depth] = copy.extent.map(|length| length as u64);
        let (src, dst) = (convert_operand(copy.src), convert_operand(copy.dst));
        let rows = CUDA_MEMCPY3D { src, dst, WidthInBytes: width, Height: height, Depth: depth };
        run_transfer_as(copy_mode_of_order(copy.srcAccessOrder), Some(stream), TransferParameters::Copy(rows))
            .inspect_err(|_| write_index(index))?;
    }
    Ok(())
}

/// Performs a copy or a memset in the order of a stream. Without a stream, uses the default stream, and
/// waits.
pub(super) fn run_transfer(stream: Option<u64>, what: TransferParameters) -> Answer {
    run_transfer_as(mode_without_attributes(stream), stream, what)
}

/// Returns the mode of a copy that has no attributes.
fn mode_without_attributes(stream: Option<u64>) -> CopyMode {
    if stream.is_some() { CopyMode::InStream } else { CopyMode::Blocking }
}

/// Performs a copy or a memset in a certain mode.
pub(super) fn run_transfer_as(mode: CopyMode, stream: Option<u64>, what: TransferParameters) -> Answer {
    let mut driver = process::enter()?;
    driver.current_context_handle()?;
    let of = driver.stream(stream.unwrap_or(LEGACY))?;
    let transfer = look_up_transfer(&driver, what)?;
    if stream.is_some() && driver.graphs.add_to_capture(&of, || Node::Transfer(what))? {
        return Ok(());
    }
    if transfer.stalls() {
        // A transfer that never ends holds up its stream, and everything that waits for the stream.
        driver.do_later(&of, || damage::block_forever())?;
        let pending = if stream.is_none() { driver.pending_of_stream(&of) } else { Vec::new() };
        drop(queue::wait_for_tasks(driver, pending));
        return Ok(());
    }
    if driver.is_late() {
        let Some((transfer, before)) = driver.queue_transfer(&of, transfer, mode)? else { return Ok(()) };
        let driver = queue::wait_for_tasks(driver, before);
        driver.check_context_not_failed(of.context)?;
        drop(driver);
        return transfer.run();
    }
    let pending = driver.pending_of_stream(&of);
    if !pending.is_empty() && stream.is_some() && !driver.is_synchronous(&transfer) {
        // The places stay valid: memory is not freed before work that uses it is done.
        return driver.do_later(&of, || drop(transfer.run()));
    }
    drop(queue::wait_for_tasks(driver, pending));
    transfer.run()
}

/// Returns a side of a copy that is in an array. The pitch and the height are those of the array.
fn array_copy_side(driver: &Driver, side: &Side3D<u64>, shape: &TransferShape) -> Answer<TransferSide> {
    let (row, rows, slices) = driver.arrays.get(side.Array)?.descriptor.extents().ok_or(Code::INVALID_VALUE)?;
    let within = |start: u64, count: u64, most| start.checked_add(count).is_some_and(|end| end <= most);
    let is_inside = within(side.XInBytes, shape.width, row)
        && within(side.Y, shape.height, rows)
        && within(side.Z, shape.depth, slices);
    fail_if(!is_inside, Code::INVALID_VALUE)?;
    let slice = row * rows;
    let address = side.Z * slice + side.Y * row + side.XInBytes;
    Ok(TransferSide { address, role: AddressRole::Array(side.Array), pitch: row, slice, context: 0 })
}

/// Converts a side of a copy of rows to the form of the engine.
fn convert_side(driver: &Driver, side: &Side3D<u64>, shape: &TransferShape, operand: &str) -> Answer<TransferSide> {
    let (start, role) = match side.MemoryType {
        HOST => (side.Host, AddressRole::Any),
        DEVICE => (side.Device, AddressRole::Device),
        UNIFIED => (side.Device, AddressRole::Any),
        ARRAY => return array_copy_side(driver, side, shape),
        other => return invalid(format!("Invalid memory type {other:#x}")),
    };
    let row = side.XInBytes.checked_add(shape.width).ok_or(Code::INVALID_VALUE)?;
    // A pitch of 0 means rows without gaps, and a height of 0 means slices without gaps.
    let pitch = if side.Pitch == 0 { row } else { side.Pitch };
    let height = if side.Height == 0 { shape.height } else { side.Height };
    if pitch < row {
        let messages = [
            "Pitch must be greater than copy width in bytes".into(),
            format!("Invalid X finish position: Must be less than or equal to pitch, for {operand} operand").into(),
        ];
        return Err(Failure { code: Code::INVALID_VALUE, messages: messages.into() });
    }
    fail_if(height < shape.height && shape.depth > 1, Code::INVALID_VALUE)?;
    let address = || {
        let slice = pitch.checked_mul(height)?;
        let rows = side.Z.checked_mul(slice)?.checked_add(side.Y.checked_mul(pitch)?)?;
        Some((start.checked_add(rows.checked_add(side.XInBytes)?)?, slice))
    };
    let (address, slice) = address().ok_or(Code::INVALID_VALUE)?;
    Ok(TransferSide { address, role, pitch, slice, context: side.Context })
}

/// Converts a side of `cuMemcpy3DBatchAsync`.
fn convert_operand(it: CUmemcpy3DOperand) -> Side3D<u64> {
    match (it.kind, it.rest) {
        (CUmemcpy3DOperand::POINTER, [pitch, height, _]) => {
            Side3D { MemoryType: UNIFIED, Device: it.place, Pitch: pitch, Height: height, ..EMPTY }
        }
        (_, [x, y, z]) => Side3D { MemoryType: ARRAY, Array: it.place, XInBytes: x, Y: y, Z: z, ..EMPTY },
    }
}

/// Converts a side to the form with 64-bit fields.
fn widen_side<W: Into<u64>>(side: Side3D<W>) -> Side3D<u64> {
    Side3D {
        XInBytes: side.XInBytes.into(),
        Y: side.Y.into(),
        Z: side.Z.into(),
        LOD: 0,
        MemoryType: side.MemoryType,
        Host: side.Host,
        Device: side.Device.into(),
        Array: side.Array,
        Context: side.Context,
        Pitch: side.Pitch.into(),
        Height: side.Height.into(),
    }
}

/// A structure of cuda.h that describes a copy of rows.
trait CopyOfRows: Copy {
    /// Converts the structure to the form that can describe every copy of rows.
    fn to_memcpy3d(self) -> CUDA_MEMCPY3D<u64>;
}

impl<W: Copy + Into<u64>> CopyOfRows for CUDA_MEMCPY2D<W> {
    fn to_memcpy3d(self) -> CUDA_MEMCPY3D<u64> {
        let dst = Side3D {
            MemoryType: self.dstMemoryType,
            Host: self.dstHost,
            Device: self.dstDevice.into(),
            Array: self.dstArray,
            Pitch: self.dstPitch.into(),
            XInBytes: self.dstXInBytes.into(),
            Y: self.dstY.into(),
            ..EMPTY
        };
        let src = Side3D {
            MemoryType: self.srcMemoryType,
            Host: self.srcHost,
            Device: self.srcDevice.into(),
            Array: self.srcArray,
            Pitch: self.srcPitch.into(),
            XInBytes: self.srcXInBytes.into(),
            Y: self.srcY.into(),
            ..EMPTY
        };
        CUDA_MEMCPY3D { src, dst, WidthInBytes: self.WidthInBytes.into(), Height: self.Height.into(), Depth: 1 }
    }
}

impl<W: Copy + Into<u64>> CopyOfRows for CUDA_MEMCPY3D<W> {
    fn to_memcpy3d(self) -> CUDA_MEMCPY3D<u64> {
        CUDA_MEMCPY3D {
            src: widen_side(self.src),
            dst: widen_side(self.dst),
            WidthInBytes: self.WidthInBytes.into(),
            Height: self.Height.into(),
            Depth: self.Depth.into(),
        }
    }
}

/// Copies rows in the current context. In these structures, the fields for contexts are reserved.
fn copy_rows(copy: InPointer<impl CopyOfRows>, stream: Option<u64>) -> Answer {
    process::check_can_enter()?;
    let mut copy = copy.required()?.to_memcpy3d();
    (copy.src.Context, copy.dst.Context) = (0, 0);
    run_transfer(stream, TransferParameters::Copy(copy))
}

/// Returns a transfer, after looking up the memory that it reads and writes.
pub(super) fn look_up_transfer(driver: &Driver, what: TransferParameters) -> Answer<Transfer> {
    match what {
        TransferParameters::Row(to, from, length) => {
            driver.look_up_copy(to.to_side(driver, length)?, from.to_side(driver, length)?, TransferShape::flat(length))
        }
        TransferParameters::Copy(CUDA_MEMCPY3D { src, dst, WidthInBytes: width, Height: height, Depth: depth }) => {
            let shape = TransferShape { width, height, depth };
            let to = convert_side(driver, &dst, &shape, "destination")?;
            driver.look_up_copy(to, convert_side(driver, &src, &shape, "source")?, shape)
        }
        TransferParameters::Fill(CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width, height }) => {
            let [pitch, width, height] = [pitch, width, height].map(|number| number as u64);
            driver.look_up_fill(dst.0, pitch, elementSize.into(), value, width, height)
        }
    }
}

/// Copies rows between two contexts, which must exist. A null context stands for the current context.
fn copy_rows_between_peers(copy: InPointer<CUDA_MEMCPY3D<u64>>, stream: Option<u64>) -> Answer {
    let copy = copy.required()?.to_memcpy3d();
    check_contexts(copy.dst.Context, copy.src.Context)?;
    run_transfer(stream, TransferParameters::Copy(copy))
}

fn check_contexts(to: u64, from: u64) -> Answer {
    let driver = process::enter()?;
    driver.context_or_current(to)?;
    driver.context_or_current(from).map(drop)
}

/// Defines the functions of one kind of copy: before and since CUDA 3.2, each synchronous and asynchronous.
macro_rules! one_way {
    ($old:ident $old_async:ident $new:ident | $own:ident $new_async:ident | $own_async:ident
     ($to:ident: $to_old:ty, $to_end:ident),
     ($from:ident: $from_old:ty, $from_end:ident)) => {
        entry! {
            fn $old($to: $to_old, $from: $from_old, ByteCount: u32) {
                flat($to_end($to), $from_end($from), ByteCount, None)
            }

            fn $old_async($to: $to_old, $from: $from_old, ByteCount: u32, hStream: CUstream) {
                flat($to_end($to), $from_end($from), ByteCount, Some(hStream))
            }

            fn $new | $own($to, $from, ByteCount) {
                flat($to_end($to), $from_end($from), ByteCount, None)
            }

            fn $new_async | $own_async($to, $from, ByteCount, hStream) {
                flat($to_end($to), $from_end($from), ByteCount, Some(hStream))
            }
        }
    };
}
one_way! {
    cuMemcpyHtoD cuMemcpyHtoDAsync
    cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz
    (dstDevice: u32, device), (srcHost: HostAddress, host)
}
one_way! {
    cuMemcpyDtoH cuMemcpyDtoHAsync
    cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz
    (dstHost: HostAddress, host), (srcDevice: u32, device)
}
one_way! {
    cuMemcpyDtoD cuMemcpyDtoDAsync
    cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz
    (dstDevice: u32, device), (srcDevice: u32, device)
}

forward! {
    cuMemcpy | cuMemcpy_ptds(dst, src, ByteCount) = flat(host(dst), host(src), ByteCount, None);
    cuMemcpyAsync | cuMemcpyAsync_ptsz(dst, src, ByteCount, hStream) =
        flat(host(dst), host(src), ByteCount, Some(hStream));
    cuMemcpy3DBatchAsync | cuMemcpy3DBatchAsync_ptsz(numOps, opList, failIdx, flags, hStream) =
        copy_slices_batch(opList, numOps, Some(failIdx), flags, hStream);
    cuMemcpy3DBatchAsync_v2 | cuMemcpy3DBatchAsync_v2_ptsz(numOps, opList, flags, hStream) =
        copy_slices_batch(opList, numOps, None, flags, hStream);
    cuMemcpy2D(pCopy: *const CUDA_MEMCPY2D<u32>) = copy_rows(pCopy, None);
    cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds | cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds(pCopy) =
        copy_rows(pCopy, None);
    cuMemcpy2DAsync(pCopy: *const CUDA_MEMCPY2D<u32>, hStream: CUstream) = copy_rows(pCopy, Some(hStream));
    cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz(pCopy, hStream) = copy_rows(pCopy, Some(hStream));
    cuMemcpy3D(pCopy: *const CUDA_MEMCPY3D<u32>) = copy_rows(pCopy, None);
    cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds(pCopy) = copy_rows(pCopy, None);
    cuMemcpy3DAsync(pCopy: *const CUDA_MEMCPY3D<u32>, hStream: CUstream) = copy_rows(pCopy, Some(hStream));
    cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz(pCopy, hStream) = copy_rows(pCopy, Some(hStream));
    cuMemcpy3DPeer | cuMemcpy3DPeer_ptds(pCopy) = copy_rows_between_peers(pCopy, None);
    cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz(pCopy, hStream) = copy_rows_between_peers(pCopy, Some(hStream));
}

entry! {
    fn cuMemcpyBatchAsync | cuMemcpyBatchAsync_ptsz(
        dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream,
    ) {
        copy_batch([dsts, srcs, sizes], count, (attrs, attrsIdxs, numAttrs), Some(failIdx), hStream)
    }

    fn cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz(
        dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream,
    ) {
        copy_batch([dsts, srcs, sizes], count, (attrs, attrsIdxs, numAttrs), None, hStream)
    }

    /// Peer access need not be enabled. Without it, a real driver copies through the host.
    fn cuMemcpyPeer | cuMemcpyPeer_ptds(dstDevice, dstContext, srcDevice, srcContext, ByteCount) {
        check_contexts(dstContext, srcContext)?;
        flat(RowEnd::In(dstDevice, dstContext), RowEnd::In(srcDevice, srcContext), ByteCount, None)
    }

    fn cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz(
        dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream,
    ) {
        check_contexts(dstContext, srcContext)?;
        flat(RowEnd::In(dstDevice, dstContext), RowEnd::In(srcDevice, srcContext), ByteCount, Some(hStream))
    }
}
