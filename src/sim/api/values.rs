//! Values in memory that streams write and wait for.

use crate::abi::CUstreamBatchMemOpParams;
use crate::engine::answer::{Answer, fail, fail_if};
use crate::engine::process;
use crate::engine::values::{Operation, OperationKind};
use cupeer_spec::results::Result as Code;

/// Number of operations from which on a batch fails.
const TOO_MANY: u32 = 256;

/// Reads an operation of a batch. The first word of the union is its `CU_STREAM_MEM_OP_*`.
fn read_operation(params: &CUstreamBatchMemOpParams) -> Answer<Operation> {
    let [first, address, value, flags, ..] = params.words;
    let (kind, bytes) = match first as u32 {
        1 => (OperationKind::Wait, 4),
        2 => (OperationKind::Write, 4),
        3 => (OperationKind::Flush, 0),
        4 => (OperationKind::Wait, 8),
        5 => (OperationKind::Write, 8),
        6 => (OperationKind::Barrier, 0),
        _ => return fail(Code::INVALID_VALUE),
    };
    let flags = if bytes == 0 { (first >> 32) as u32 } else { flags as u32 };
    let value = if bytes == 4 { u64::from(value as u32) } else { value };
    Ok(Operation { kind, address, bytes, value, flags })
}

fn run_batch(stream: u64, count: u32, params: u64, flags: u32, is_first_version: bool) -> Answer {
    let mut driver = process::enter()?;
    fail_if(count == 0 || count >= TOO_MANY || flags != 0, Code::INVALID_VALUE)?;
    let place = core::ptr::NonNull::new(params as *mut CUstreamBatchMemOpParams).ok_or(Code::INVALID_VALUE)?;
    // SAFETY: the caller of the C function promises that it is null or an array of that many such structures.
    let params = unsafe { core::slice::from_raw_parts(place.as_ptr(), count as usize) };
    let operations = params.iter().map(read_operation).collect::<Answer<Vec<Operation>>>()?;
    driver.operate(stream, &operations, is_first_version)
}

/// Defines the functions that write a value or wait for one, each with its per-thread form.
macro_rules! entries {
    ($($kind:ident $type:ident $first:literal: $name:ident $own:ident;)*) => {
        entry! {$(
            fn $name | $own(stream, addr, value, flags) {
                let (kind, bytes) = (OperationKind::$kind, size_of::<$type>());
                let operation = Operation { kind, address: addr, bytes, value: value.into(), flags };
                process::enter()?.operate(stream, &[operation], $first)
            }
        )*}
    };
}
entries! {
    Wait u32 true: cuStreamWaitValue32 cuStreamWaitValue32_ptsz;
    Wait u32 false: cuStreamWaitValue32_v2 cuStreamWaitValue32_v2_ptsz;
    Wait u64 true: cuStreamWaitValue64 cuStreamWaitValue64_ptsz;
    Wait u64 false: cuStreamWaitValue64_v2 cuStreamWaitValue64_v2_ptsz;
    Write u32 true: cuStreamWriteValue32 cuStreamWriteValue32_ptsz;
    Write u32 false: cuStreamWriteValue32_v2 cuStreamWriteValue32_v2_ptsz;
    Write u64 true: cuStreamWriteValue64 cuStreamWriteValue64_ptsz;
    Write u64 false: cuStreamWriteValue64_v2 cuStreamWriteValue64_v2_ptsz;
}

forward! {
    cuStreamBatchMemOp | cuStreamBatchMemOp_ptsz(stream, count, paramArray, flags) =
        run_batch(stream, count, paramArray, flags, true);
    cuStreamBatchMemOp_v2 | cuStreamBatchMemOp_v2_ptsz(stream, count, paramArray, flags) =
        run_batch(stream, count, paramArray, flags, false);
}
