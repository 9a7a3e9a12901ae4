//! Reads what batches of copies use.

use super::questions::number;
use cupeer_spec::abi::CUDA_MEMCPY3D_BATCH_OP;
use cupeer_spec::effect::Batch;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::MOST_ARGS;

/// So many copies of a batch are looked at.
const MOST: usize = 4096;

/// Hands over the ranges that a batch of copies uses: the argument that names each, where it begins, and its bytes.
#[inline(never)]
pub fn each_range(id: FnId, args: &[u8; MOST_ARGS], batch: Batch, work: &mut dyn FnMut(usize, u64, u64)) {
    let count = MOST.min(number(id, args, batch.count) as usize);
    if batch.to == batch.from {
        let copies = number(id, args, batch.to) as *const CUDA_MEMCPY3D_BATCH_OP;
        for index in (0..count).take_while(|_| !copies.is_null()) {
            // SAFETY: as cuda.h says of batches, the array has as many elements as there are copies.
            let used = unsafe { copies.add(index).read_unaligned() }.used();
            used.iter().for_each(|(start, bytes)| work(batch.to, *start, *bytes));
        }
        return;
    }
    let array = |argument| number(id, args, argument) as *const u64;
    let (to, from, sizes) = (array(batch.to), array(batch.from), array(batch.sizes));
    if [to, from, sizes].iter().any(|array| array.is_null()) {
        return;
    }
    for index in 0..count {
        // SAFETY: as cuda.h says of batches, each array has as many elements as there are copies.
        let [to, from, size] = [to, from, sizes].map(|array| unsafe { array.add(index).read_unaligned() });
        work(batch.to, to, size);
        work(batch.from, from, size);
    }
}
