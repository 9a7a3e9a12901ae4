//! Finds the shared memory that executable graphs use.

use super::uses;
use crate::driver::graphs::{AddressRole, shared};
use cupeer_spec::record::slot::nodes::{MOST, NodeRange};

/// Returns true if a node of an executable graph uses shared memory.
#[inline]
pub fn does_graph_use_shared(exec: u64) -> bool {
    uses::has_any() && shared::uses_any(exec, uses::version(), uses::is_shared)
}

/// The flags of an executable graph, and the shared memory that its copies and memsets use.
pub struct GraphMemoryUses {
    words: [u64; 1 + 3 * MOST],
    length: usize,
}

impl GraphMemoryUses {
    /// Reads the nodes of an executable graph. Returns `None` if they use no shared memory, or if the graph may do more than
    /// copies, memsets, and kernels.
    pub fn read_graph(exec: u64) -> Option<GraphMemoryUses> {
        let mut all = GraphMemoryUses { words: [0; 1 + 3 * MOST], length: 1 };
        all.words[0] = shared::each(exec, &mut |it| {
            let is_write = it.part != AddressRole::CopyFrom;
            let range = NodeRange { address: it.address, bytes: it.bytes, is_write, value: it.value };
            all.words[all.length..all.length + 3].copy_from_slice(&range.to_words());
            all.length += 3;
        })?;
        Some(all)
    }

    /// Returns true if the graph has no flags.
    pub fn has_no_flags(&self) -> bool {
        self.words[0] == 0
    }

    /// Passes the flags and the uses of memory to `work`, in the form in which a record stores them.
    pub fn with_bytes(&self, work: impl FnOnce(&[u8])) {
        work(self.words.map(u64::to_le_bytes)[..self.length].as_flattened());
    }
}
