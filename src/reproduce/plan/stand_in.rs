//! The memory that a call uses whose structures are not recorded as cuda.h has them.

use cupeer_record::Call;
use cupeer_spec::effect::{Effect, Used};
use cupeer_spec::function::FnSpec;
use cupeer_spec::record::slot::detail;
use cupeer_spec::record::slot::nodes::{self, NodeRange};

/// Returns the ranges of device memory that a call uses.
pub fn used_ranges(function: &FnSpec, call: &Call) -> Vec<NodeRange> {
    let range = |address, bytes, is_write| NodeRange { address, bytes, is_write, value: None };
    let batch = call
        .details
        .ranges
        .iter()
        .map(move |(address, word)| range(*address, word & detail::RANGE_BYTES, word & detail::WRITTEN != 0));
    let graph = nodes::read_nodes(&call.details.nodes).into_iter().flat_map(|(_, ranges)| ranges);
    let rows = row_ranges(function, call)
        .into_iter()
        .flat_map(move |[to, written, from, read]| [range(to, written, true), range(from, read, false)]);
    batch.chain(graph).chain(rows).filter(|range| range.address != 0).collect()
}

/// Returns the four words as which a copy of rows is recorded: the start and the size of its destination, and of its source.
fn row_ranges(function: &FnSpec, call: &Call) -> Option<[u64; 4]> {
    let by = function.effects().iter().find_map(|effect| match effect {
        Effect::Uses(Used { by, size: None, .. }) => Some(*by),
        _ => None,
    })?;
    let (words, _) = call.argument(by)?.as_chunks::<8>();
    words.try_into().ok().map(|words: [[u8; 8]; 4]| words.map(u64::from_le_bytes))
}
