//! Copies. The asynchronous forms are done when they return, where nothing in their stream waits and devices are not late.

use super::boundary::{In, Out};
use crate::engine::answer::{Answer, Failure, fail, refuse};
use crate::engine::copies::Form;
use crate::engine::driver::{Driver, End, LEGACY, Node, Parameters};
use crate::engine::process;
use crate::engine::queue;
use crate::engine::transfers::{Role, Shape, Side, Transfer};
use crate::engine::wires;
use core::ffi::c_void;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// `CU_MEMORYTYPE_*`.
const HOST: i32 = 1;
const DEVICE: i32 = 2;
const ARRAY: i32 = 3;
const UNIFIED: i32 = 4;

/// An address, or a number of bytes, however it came.
pub(super) trait Number {
    fn number(self) -> u64;
}
impl Number for u32 {
    fn number(self) -> u64 {
        self.into()
    }
}
impl Number for u64 {
    fn number(self) -> u64 {
        self
    }
}
impl Number for usize {
    fn number(self) -> u64 {
        self as u64
    }
}
impl<T> Number for In<T> {
    fn number(self) -> u64 {
        self.address()
    }
}
impl<T> Number for Out<T> {
    fn number(self) -> u64 {
        self.address()
    }
}

pub(super) fn device(address: impl Number) -> End {
    End::At(address.number(), Role::Device)
}

/// Host memory, or any other that the driver knows.
pub(super) fn host(address: impl Number) -> End {
    End::At(address.number(), Role::Any)
}

impl End {
    /// So far from the start of an array.
    pub(super) fn array(array: Out<c_void>, offset: usize) -> End {
        End::Array(array.address(), offset as u64)
    }

    fn side(self, driver: &Driver, length: u64) -> Answer<Side> {
        let (array, offset) = match self {
            End::At(address, role) => return Ok(Side::flat(address, role)),
            End::In(address, context) => return Ok(Side::flat(address, Role::Device).of(context)),
            End::Array(array, offset) => (array, offset),
        };
        let (row, rows, slices) = driver.arrays.get(array)?.descriptor.shape().ok_or(Code::INVALID_VALUE)?;
        if offset.checked_add(length).is_none_or(|end| end > row * rows * slices) {
            return fail(Code::INVALID_VALUE);
        }
        Ok(Side::flat(offset, Role::Array(array)))
    }
}

impl From<End> for Side3D<u64> {
    fn from(end: End) -> Side3D<u64> {
        let nothing = Side3D {
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
        match end {
            End::At(address, Role::Device) => Side3D { Device: address, ..nothing },
            End::At(address, _) => Side3D { MemoryType: UNIFIED, Device: address, ..nothing },
            End::In(address, context) => Side3D { Device: address, Context: context, ..nothing },
            End::Array(array, offset) => {
                Side3D { MemoryType: ARRAY, Array: array, XInBytes: offset, ..nothing }
            }
        }
    }
}

/// Copies one row, in the order of a stream; `None` is for the forms without one.
pub(super) fn flat(to: End, from: End, length: impl Number, stream: Option<u64>) -> Answer {
    transfer(stream, Parameters::Row(to, from, length.number()))
}

/// Writes the index of a copy where the program wants it.
fn tell(failed: Option<u64>, index: usize) {
    let place = failed.unwrap_or(0) as *mut usize;
    if !place.is_null() {
        // SAFETY: not null, and the caller of the C function promises that a number can be written there.
        unsafe { place.write_unaligned(index) };
    }
}

/// The form of a copy by its `CUmemcpySrcAccessOrder`: all but the order of the stream let the source be read at once.
fn form_of(order: i32) -> Form {
    const STREAM: i32 = 1;
    if order == STREAM { Form::InStream } else { Form::SourceFirst }
}

/// Several copies, in their order. `failed` gets the index of the first one that cannot be done, or of none: all bits.
fn batch(
    [to, from, sizes]: [u64; 3],
    count: usize,
    (attributes, indexes, attribute_count): (u64, In<usize>, usize),
    failed: Option<u64>,
    stream: u64,
) -> Answer {
    let tell = |index| tell(failed, index);
    tell(usize::MAX);
    // CU_STREAM_LEGACY is not taken, and neither is 0, which stands for it.
    let is_legacy = stream == 0 || stream == LEGACY;
    if [to, from, sizes, attributes].contains(&0) || count == 0 || is_legacy {
        return fail(Code::INVALID_VALUE);
    }
    let starts = indexes.elements(attribute_count)?;
    if starts.first() != Some(&0) || !starts.is_sorted_by(|a, b| a < b) || starts.last() >= Some(&count) {
        return fail(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller of the C function promises as many elements.
    let word = |array: u64, index| unsafe { (array as *const u64).add(index).read_unaligned() };
    for index in 0..count {
        let group = starts.partition_point(|start| *start <= index) - 1;
        // `CUmemcpyAttributes` is six words, and its first one is the order.
        // SAFETY: not null, and the caller of the C function promises one structure for each group.
        let order = unsafe { (attributes as *const [i32; 6]).add(group).read_unaligned() }[0];
        let row = Parameters::Row(host(word(to, index)), host(word(from, index)), word(sizes, index));
        transfer_as(form_of(order), Some(stream), row).inspect_err(|_| tell(index))?;
    }
    Ok(())
}

/// Several copies of slices of rows, in their order; `failed` as in [`batch`].
fn batch_of_slices(copies: u64, count: usize, failed: Option<u64>, flags: u64, stream: u64) -> Answer {
    let tell = |index| tell(failed, index);
    tell(usize::MAX);
    if copies == 0 || count == 0 || flags != 0 || stream == 0 || stream == LEGACY {
        return fail(Code::INVALID_VALUE);
    }
    for index in 0..count {
        // SAFETY: not null, and the caller of the C function promises as many elements.
        let copy = unsafe { (copies as *const CUDA_MEMCPY3D_BATCH_OP).add(index).read_unaligned() };
        let [width, height, depth] = copy.extent.map(|length| length as u64);
        let shape = Shape { width, height, depth };
        between(copy.dst.into(), copy.src.into(), shape, form_of(copy.srcAccessOrder), Some(stream))
            .inspect_err(|_| tell(index))?;
    }
    Ok(())
}

/// Looks bytes up, and moves or sets them in the order of a stream; without one, in that of the default stream,
/// and before the call returns.
pub(super) fn transfer(stream: Option<u64>, what: Parameters) -> Answer {
    transfer_as(plain(stream), stream, what)
}

/// The form of a copy that has no attributes.
fn plain(stream: Option<u64>) -> Form {
    if stream.is_some() { Form::InStream } else { Form::Blocking }
}

/// The same as a part of a graph, or in one of the other forms.
pub(super) fn transfer_as(form: Form, stream: Option<u64>, what: Parameters) -> Answer {
    let mut driver = process::enter()?;
    driver.current()?;
    let of = driver.stream(stream.unwrap_or(LEGACY))?;
    let transfer = lookup(&driver, what)?;
    if stream.is_some() && driver.graphs.take(&of, || Node::Transfer(what))? {
        return Ok(());
    }
    if transfer.stalls() {
        // What never ends is left to the stream, and so is whoever waits for it.
        driver.later(&of, || wires::stall())?;
        let pending = if stream.is_none() { driver.pending(&of) } else { Vec::new() };
        drop(queue::wait(driver, pending));
        return Ok(());
    }
    if driver.is_late() {
        let Some((transfer, before)) = driver.put_transfer(&of, transfer, form)? else { return Ok(()) };
        let driver = queue::wait(driver, before);
        driver.check_failed(of.context)?;
        drop(driver);
        return transfer.run();
    }
    let pending = driver.pending(&of);
    if !pending.is_empty() && stream.is_some() && !driver.is_synchronous(&transfer) {
        // What was looked up is there: memory is not freed before work that uses it is done.
        driver.enqueue(&of, || drop(transfer.run()));
        return Ok(());
    }
    drop(queue::wait(driver, pending));
    transfer.run()
}

/// Where a side of a copy of rows starts, and how it goes on.
#[derive(Clone, Copy)]
struct Corner {
    kind: i32,
    host: u64,
    device: u64,
    array: u64,
    pitch: u64,
    height: u64,
    x: u64,
    y: u64,
    z: u64,
    /// That of the memory, 0 for the current one.
    context: u64,
}

impl Corner {
    /// As a side of a copy of an array, which has a pitch and a height of its own.
    fn of_array(self, driver: &Driver, shape: &Shape) -> Answer<Side> {
        let (row, rows, slices) =
            driver.arrays.get(self.array)?.descriptor.shape().ok_or(Code::INVALID_VALUE)?;
        let within = |start: u64, count: u64, most| start.checked_add(count).is_some_and(|end| end <= most);
        if !within(self.x, shape.width, row)
            || !within(self.y, shape.height, rows)
            || !within(self.z, shape.depth, slices)
        {
            return fail(Code::INVALID_VALUE);
        }
        let slice = row * rows;
        let address = self.z * slice + self.y * row + self.x;
        Ok(Side { address, role: Role::Array(self.array), pitch: row, slice, context: 0 })
    }

    /// As a side.
    fn side(self, driver: &Driver, shape: &Shape, operand: &str) -> Answer<Side> {
        let (start, role) = match self.kind {
            HOST => (self.host, Role::Any),
            DEVICE => (self.device, Role::Device),
            UNIFIED => (self.device, Role::Any),
            ARRAY => return self.of_array(driver, shape),
            other => return refuse(Code::INVALID_VALUE, format!("Invalid memory type {other:#x}")),
        };
        let row = self.x.checked_add(shape.width).ok_or(Code::INVALID_VALUE)?;
        // Without a pitch, rows follow each other; so do slices without a height.
        let pitch = if self.pitch == 0 { row } else { self.pitch };
        let height = if self.height == 0 { shape.height } else { self.height };
        if pitch < row {
            return Err(Failure {
                code: Code::INVALID_VALUE,
                messages: vec![
                    "Pitch must be greater than copy width in bytes".into(),
                    format!("Invalid X finish position: Must be less than or equal to pitch, for {operand} operand")
                        .into(),
                ],
            });
        }
        if height < shape.height && shape.depth > 1 {
            return fail(Code::INVALID_VALUE);
        }
        let slice = pitch.checked_mul(height).ok_or(Code::INVALID_VALUE)?;
        let offset = |count: u64, step: u64| count.checked_mul(step).ok_or(Code::INVALID_VALUE);
        let distance = offset(self.z, slice)?
            .checked_add(offset(self.y, pitch)?)
            .and_then(|sum| sum.checked_add(self.x))
            .ok_or(Code::INVALID_VALUE)?;
        let address = start.checked_add(distance).ok_or(Code::INVALID_VALUE)?;
        Ok(Side { address, role, pitch, slice, context: self.context })
    }
}

impl From<Corner> for Side3D<u64> {
    fn from(it: Corner) -> Side3D<u64> {
        Side3D {
            XInBytes: it.x,
            Y: it.y,
            Z: it.z,
            LOD: 0,
            MemoryType: it.kind,
            Host: it.host,
            Device: it.device,
            Array: it.array,
            Context: it.context,
            Pitch: it.pitch,
            Height: it.height,
        }
    }
}

impl<W: Into<u64>> From<Side3D<W>> for Corner {
    fn from(side: Side3D<W>) -> Corner {
        Corner {
            kind: side.MemoryType,
            host: side.Host,
            device: side.Device.into(),
            array: side.Array,
            pitch: side.Pitch.into(),
            height: side.Height.into(),
            x: side.XInBytes.into(),
            y: side.Y.into(),
            z: side.Z.into(),
            context: side.Context,
        }
    }
}

impl From<CUmemcpy3DOperand> for Corner {
    fn from(side: CUmemcpy3DOperand) -> Corner {
        let none = Corner {
            kind: 0,
            host: 0,
            device: 0,
            array: 0,
            pitch: 0,
            height: 0,
            x: 0,
            y: 0,
            z: 0,
            context: 0,
        };
        match (side.kind, side.rest) {
            (CUmemcpy3DOperand::POINTER, [pitch, height, _]) => {
                Corner { kind: UNIFIED, device: side.place, pitch, height, ..none }
            }
            (_, [x, y, z]) => Corner { kind: ARRAY, array: side.place, x, y, z, ..none },
        }
    }
}

/// A structure that asks for a copy of rows.
trait Rows: Copy {
    /// Where to, where from, and how much.
    fn read(self) -> (Corner, Corner, Shape);
}

impl<W: Copy + Into<u64>> Rows for CUDA_MEMCPY2D<W> {
    fn read(self) -> (Corner, Corner, Shape) {
        let to = Corner {
            kind: self.dstMemoryType,
            host: self.dstHost,
            device: self.dstDevice.into(),
            array: self.dstArray,
            pitch: self.dstPitch.into(),
            height: 0,
            x: self.dstXInBytes.into(),
            y: self.dstY.into(),
            z: 0,
            context: 0,
        };
        let from = Corner {
            kind: self.srcMemoryType,
            host: self.srcHost,
            device: self.srcDevice.into(),
            array: self.srcArray,
            pitch: self.srcPitch.into(),
            x: self.srcXInBytes.into(),
            y: self.srcY.into(),
            ..to
        };
        (to, from, Shape { width: self.WidthInBytes.into(), height: self.Height.into(), depth: 1 })
    }
}

impl<W: Copy + Into<u64>> Rows for CUDA_MEMCPY3D<W> {
    fn read(self) -> (Corner, Corner, Shape) {
        let (width, height, depth) = (self.WidthInBytes.into(), self.Height.into(), self.Depth.into());
        (self.dst.into(), self.src.into(), Shape { width, height, depth })
    }
}

/// Without peers, the current context has to have access: the fields for others are reserved.
fn rows(copy: In<impl Rows>, stream: Option<u64>) -> Answer {
    process::check()?;
    let (to, from, shape) = copy.required()?.read();
    between(Corner { context: 0, ..to }, Corner { context: 0, ..from }, shape, plain(stream), stream)
}

fn between(to: Corner, from: Corner, shape: Shape, form: Form, stream: Option<u64>) -> Answer {
    let Shape { width, height, depth } = shape;
    let node =
        CUDA_MEMCPY3D { src: from.into(), dst: to.into(), WidthInBytes: width, Height: height, Depth: depth };
    transfer_as(form, stream, Parameters::Copy(node))
}

/// Looks up what is to be copied or set.
pub(super) fn lookup(driver: &Driver, what: Parameters) -> Answer<Transfer> {
    match what {
        Parameters::Row(to, from, length) => {
            driver.copy(to.side(driver, length)?, from.side(driver, length)?, Shape::flat(length))
        }
        Parameters::Copy(copy) => {
            let (to, from, shape) = copy.read();
            driver.copy(to.side(driver, &shape, "destination")?, from.side(driver, &shape, "source")?, shape)
        }
        Parameters::Fill(CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width, height }) => {
            let [pitch, width, height] = [pitch, width, height].map(|number| number as u64);
            driver.fill(dst.0, pitch, elementSize.into(), value, width, height)
        }
    }
}

/// The two contexts of a copy between peers have to exist; null is the current one.
fn rows_peer(copy: In<CUDA_MEMCPY3D<u64>>, stream: Option<u64>) -> Answer {
    let (to, from, shape) = copy.required()?.read();
    check_contexts(to.context, from.context)?;
    between(to, from, shape, plain(stream), stream)
}

fn check_contexts(to: u64, from: u64) -> Answer {
    let driver = process::enter()?;
    driver.context_or_current(to)?;
    driver.context_or_current(from).map(drop)
}

/// Writes the entries of one kind of copy: the forms of CUDA 3.2 and before, each also asynchronous.
macro_rules! one_way {
    ($old:ident $old_async:ident $new:ident | $own:ident $new_async:ident | $own_async:ident
     ($to:ident: $to_old:ty | $to_new:ty, $to_end:ident),
     ($from:ident: $from_old:ty | $from_new:ty, $from_end:ident)) => {
        entry! {
            fn $old($to: $to_old, $from: $from_old, ByteCount: u32) {
                flat($to_end($to), $from_end($from), ByteCount, None)
            }

            fn $old_async($to: $to_old, $from: $from_old, ByteCount: u32, hStream: CUstream) {
                flat($to_end($to), $from_end($from), ByteCount, Some(hStream))
            }

            fn $new | $own($to: $to_new, $from: $from_new, ByteCount: usize) {
                flat($to_end($to), $from_end($from), ByteCount, None)
            }

            fn $new_async | $own_async($to: $to_new, $from: $from_new, ByteCount: usize, hStream: CUstream) {
                flat($to_end($to), $from_end($from), ByteCount, Some(hStream))
            }
        }
    };
}
one_way! {
    cuMemcpyHtoD cuMemcpyHtoDAsync
    cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz
    (dstDevice: u32 | CUdeviceptr, device), (srcHost: *const c_void | HostAddress, host)
}
one_way! {
    cuMemcpyDtoH cuMemcpyDtoHAsync
    cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz
    (dstHost: *mut c_void | HostAddress, host), (srcDevice: u32 | CUdeviceptr, device)
}
one_way! {
    cuMemcpyDtoD cuMemcpyDtoDAsync
    cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz
    (dstDevice: u32 | CUdeviceptr, device), (srcDevice: u32 | CUdeviceptr, device)
}

entry! {
    fn cuMemcpy | cuMemcpy_ptds(dst: CUdeviceptr, src: CUdeviceptr, ByteCount: usize) {
        flat(host(dst), host(src), ByteCount, None)
    }

    fn cuMemcpyAsync | cuMemcpyAsync_ptsz(dst: CUdeviceptr, src: CUdeviceptr, ByteCount: usize, hStream: CUstream) {
        flat(host(dst), host(src), ByteCount, Some(hStream))
    }

    fn cuMemcpyBatchAsync | cuMemcpyBatchAsync_ptsz(
        dsts: HostAddress,
        srcs: HostAddress,
        sizes: HostAddress,
        count: usize,
        attrs: HostAddress,
        attrsIdxs: *const usize,
        numAttrs: usize,
        failIdx: HostAddress,
        hStream: CUstream,
    ) {
        batch([dsts, srcs, sizes], count, (attrs, attrsIdxs, numAttrs), Some(failIdx), hStream)
    }

    fn cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz(
        dsts: HostAddress,
        srcs: HostAddress,
        sizes: HostAddress,
        count: usize,
        attrs: HostAddress,
        attrsIdxs: *const usize,
        numAttrs: usize,
        hStream: CUstream,
    ) {
        batch([dsts, srcs, sizes], count, (attrs, attrsIdxs, numAttrs), None, hStream)
    }

    fn cuMemcpy3DBatchAsync | cuMemcpy3DBatchAsync_ptsz(
        numOps: usize,
        opList: HostAddress,
        failIdx: HostAddress,
        flags: u64,
        hStream: CUstream,
    ) {
        batch_of_slices(opList, numOps, Some(failIdx), flags, hStream)
    }

    fn cuMemcpy3DBatchAsync_v2 | cuMemcpy3DBatchAsync_v2_ptsz(
        numOps: usize,
        opList: HostAddress,
        flags: u64,
        hStream: CUstream,
    ) {
        batch_of_slices(opList, numOps, None, flags, hStream)
    }

    /// No access need be enabled: without it, the driver takes the bytes through the host.
    fn cuMemcpyPeer | cuMemcpyPeer_ptds(
        dstDevice: CUdeviceptr,
        dstContext: CUcontext,
        srcDevice: CUdeviceptr,
        srcContext: CUcontext,
        ByteCount: usize,
    ) {
        check_contexts(dstContext, srcContext)?;
        flat(End::In(dstDevice, dstContext), End::In(srcDevice, srcContext), ByteCount, None)
    }

    fn cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz(
        dstDevice: CUdeviceptr,
        dstContext: CUcontext,
        srcDevice: CUdeviceptr,
        srcContext: CUcontext,
        ByteCount: usize,
        hStream: CUstream,
    ) {
        check_contexts(dstContext, srcContext)?;
        flat(End::In(dstDevice, dstContext), End::In(srcDevice, srcContext), ByteCount, Some(hStream))
    }

    fn cuMemcpy2D(pCopy: *const CUDA_MEMCPY2D<u32>) {
        rows(pCopy, None)
    }

    fn cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds | cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds(pCopy: *const CUDA_MEMCPY2D<u64>) {
        rows(pCopy, None)
    }

    fn cuMemcpy2DAsync(pCopy: *const CUDA_MEMCPY2D<u32>, hStream: CUstream) {
        rows(pCopy, Some(hStream))
    }

    fn cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz(pCopy: *const CUDA_MEMCPY2D<u64>, hStream: CUstream) {
        rows(pCopy, Some(hStream))
    }

    fn cuMemcpy3D(pCopy: *const CUDA_MEMCPY3D<u32>) {
        rows(pCopy, None)
    }

    fn cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds(pCopy: *const CUDA_MEMCPY3D<u64>) {
        rows(pCopy, None)
    }

    fn cuMemcpy3DAsync(pCopy: *const CUDA_MEMCPY3D<u32>, hStream: CUstream) {
        rows(pCopy, Some(hStream))
    }

    fn cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz(pCopy: *const CUDA_MEMCPY3D<u64>, hStream: CUstream) {
        rows(pCopy, Some(hStream))
    }

    fn cuMemcpy3DPeer | cuMemcpy3DPeer_ptds(pCopy: *const CUDA_MEMCPY3D<u64>) {
        rows_peer(pCopy, None)
    }

    fn cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz(pCopy: *const CUDA_MEMCPY3D<u64>, hStream: CUstream) {
        rows_peer(pCopy, Some(hStream))
    }
}
