//! Facts about the stream and the memory of a copy, a memset, or a launch, and about the host memory that it uses.

use super::FnSpec;
use crate::effect::{AddressSpace, Batch, Copied, Effect, HostCopy, OtherArgs, Used};
use crate::group::Group;

impl FnSpec {
    /// Returns the index of the argument that names the stream.
    pub const fn stream_argument(&self) -> Option<usize> {
        let mut index = 0;
        while index < self.args().len() {
            if self.args()[index].is_stream() {
                return Some(index);
            }
            index += 1;
        }
        None
    }

    /// Returns true if a call works in stream order.
    pub const fn is_asynchronous(&self) -> bool {
        self.stream_argument().is_some()
    }

    /// Returns the copy between device memory and the host that a call completes before it returns.
    pub const fn host_copy(&self) -> Option<HostCopy> {
        match *self.effects() {
            _ if self.is_asynchronous() => None,
            [Effect::Uses(Used { by: device, size: Some(size), others: OtherArgs::ToHost(host), .. })] => {
                Some(HostCopy { host, device, size, is_to_host: true })
            }
            [Effect::Uses(Used { by: device, size: Some(size), others: OtherArgs::FromHost(host), .. })] => {
                Some(HostCopy { host, device, size, is_to_host: false })
            }
            _ => None,
        }
    }

    /// Returns true if the work of a call may write to host memory after the call has returned.
    pub const fn writes_to_host_later(&self) -> bool {
        self.is_asynchronous()
            && matches!(
                self.effects(),
                [Effect::Uses(Used { others: OtherArgs::ToHost(_), .. } | Used { size: None, .. })]
                    | [Effect::Copies(Copied { sides: AddressSpace::Anything, .. })]
                    | [Effect::UsesEach(_)]
            )
    }

    /// Returns the arguments that hold the first addresses of the ranges or rows of a call that does nothing but read or write them.
    pub const fn start_arguments(&self) -> [Option<usize>; 2] {
        match (self.touched_ranges(), self.effects()) {
            (_, [Effect::Uses(Used { by, element: Some(_), .. })]) => [Some(*by), None],
            ([Some((first, ..)), Some((second, ..))], _) => [Some(first), Some(second)],
            ([Some((first, ..)), None], _) => [Some(first), None],
            _ => [None; 2],
        }
    }

    /// Returns the argument that points to the structure of a copy of rows, and the structure's size in bytes.
    pub const fn rows_structure(&self) -> Option<(usize, usize)> {
        match *self.effects() {
            [Effect::Uses(Used { by, size: None, .. })] => Some((by, self.args()[by].value_size())),
            _ => None,
        }
    }

    /// Returns the batch of copies of a call that does nothing else.
    pub const fn only_batch_copy(&self) -> Option<Batch> {
        match *self.effects() {
            [Effect::UsesEach(batch)] => Some(batch),
            _ => None,
        }
    }

    /// Returns the argument that holds the element with which a call fills memory.
    pub const fn fill_element_argument(&self) -> Option<usize> {
        match *self.effects() {
            [Effect::Uses(Used { element, .. })] => element,
            _ => None,
        }
    }

    /// Returns true if a call may read or write shared device memory: it copies, fills, or launches.
    pub const fn can_use_shared_memory(&self) -> bool {
        self.uses_memory() || self.is_in(Group::Launch) || matches!(self.effects(), [Effect::Replays(_)])
    }

    /// Returns true if the default stream of a call is the thread's own.
    pub const fn is_per_thread(&self) -> bool {
        matches!(self.name().as_bytes(), [.., b'_', b'p', b't', b'd', b's'] | [.., b'_', b'p', b't', b's', b'z'])
    }
}
