//! Facts about the stream and the host memory of a copy, a memset, or a launch.

use super::FnSpec;
use crate::effect::{Copied, Effect, HostCopy, OtherArgs, Sides, Used};
use crate::group::Group;

impl FnSpec {
    /// The argument that names the stream.
    pub const fn stream(&self) -> Option<usize> {
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
        self.stream().is_some()
    }

    /// The copy between device memory and the host that a call does before it returns.
    pub const fn host_copy(&self) -> Option<HostCopy> {
        match *self.effects() {
            _ if self.is_asynchronous() => None,
            [Effect::Uses(Used { by: device, size: Some(size), others: OtherArgs::ToHost(host), .. })] => {
                Some(HostCopy { host, device, size, is_to_host: true })
            }
            [
                Effect::Uses(Used {
                    by: device, size: Some(size), others: OtherArgs::FromHost(host), ..
                }),
            ] => Some(HostCopy { host, device, size, is_to_host: false }),
            _ => None,
        }
    }

    /// True if the work of a call may write to the host's memory after the call has returned.
    pub const fn writes_to_host_later(&self) -> bool {
        self.is_asynchronous()
            && matches!(
                self.effects(),
                [Effect::Uses(Used { others: OtherArgs::ToHost(_), .. } | Used { size: None, .. })]
                    | [Effect::Copies(Copied { sides: Sides::Anything, .. })]
                    | [Effect::UsesEach(_)]
            )
    }

    /// Returns true if a call may read or write shared device memory: it copies, fills, or launches.
    pub const fn may_use_shared(&self) -> bool {
        self.uses_memory() || self.is_in(Group::Launch) || matches!(self.effects(), [Effect::Replays(_)])
    }

    /// Returns true if the default stream of a call is the thread's own.
    pub const fn is_per_thread(&self) -> bool {
        matches!(
            self.name().as_bytes(),
            [.., b'_', b'p', b't', b'd', b's'] | [.., b'_', b'p', b't', b's', b'z']
        )
    }
}
