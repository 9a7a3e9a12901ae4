//! The memory that a call uses whose structures are not recorded as cuda.h has them.

use cupeer_record::Call;
use cupeer_spec::effect::{Effect, Used};
use cupeer_spec::function::FnSpec;
use cupeer_spec::record::slot::{detail, nodes};

/// Returns the ranges of device memory that a call uses: the first address, the number of bytes, and true if they are written.
pub fn ranges(function: &FnSpec, call: &Call) -> impl Iterator<Item = (u64, u64, bool)> {
    let batch = call
        .details
        .ranges
        .iter()
        .map(|(address, word)| (*address, word & detail::RANGE_BYTES, word & detail::WRITTEN != 0));
    let graph = nodes::read(&call.details.nodes).into_iter().flat_map(|(_, ranges)| ranges);
    let graph = graph.map(|range| (range.address, range.bytes, range.is_write));
    let rows = rows(function, call).into_iter().flatten().filter(|(address, ..)| *address != 0);
    batch.chain(graph).chain(rows).collect::<Vec<_>>().into_iter()
}

/// Returns the destination and the source of a copy of rows, which is recorded as four words.
fn rows(function: &FnSpec, call: &Call) -> Option<[(u64, u64, bool); 2]> {
    let by = function.effects().iter().find_map(|effect| match effect {
        Effect::Uses(Used { by, size: None, .. }) => Some(*by),
        _ => None,
    })?;
    let (words, _) = call.argument(by)?.as_chunks::<8>();
    let [to, written, from, read] =
        words.try_into().ok().map(|words: [[u8; 8]; 4]| words.map(u64::from_le_bytes))?;
    Some([(to, written, true), (from, read, false)])
}
