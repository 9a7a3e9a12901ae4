//! The kinds of objects that calls export, open, or end, and facts about each kind.

use crate::group::Group;

named! {
    /// Kind of object that calls export, open, or end.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub enum Object {
        /// Device memory. Named by its address.
        Memory = "memory",
        /// An event.
        Event = "event",
        /// The access of the current context to a peer context. Named by the peer context.
        Peer = "peer access",
        /// A context, with all that belongs to it.
        Context = "context",
        /// The primary context of a device. Named by the device.
        Primary = "primary context",
        /// Physical memory that can be mapped. Named by its handle in the process.
        Allocation = "allocation",
        /// A range of addresses. Named by its start.
        Reservation = "reservation",
        /// Physical memory that is mapped at an address. Named by this address.
        Mapping = "mapping",
        /// A memory pool. Named by its handle in the process.
        Pool = "pool",
        /// Memory of a pool. Named by its address.
        Pointer = "pool pointer",
    }
    /// Returns the word for the kind of object.
    pub fn word;
}

impl Object {
    /// Returns the groups of all functions that share or release objects of this kind.
    pub(super) const fn sharing_groups(self) -> &'static [Group] {
        match self {
            Object::Memory => &[Group::Ipc, Group::IpcMem],
            Object::Event => &[Group::Ipc, Group::IpcEvent],
            Object::Peer => &[Group::Peer],
            Object::Allocation | Object::Reservation | Object::Mapping => &[Group::Vmm],
            Object::Pool | Object::Pointer => &[Group::Pool],
            Object::Context | Object::Primary => &[],
        }
    }

    /// Returns true for device memory, which has a size. A process that opens it accesses it over the link
    /// between two devices.
    pub const fn is_memory(self) -> bool {
        matches!(self, Object::Memory | Object::Pointer)
    }

    /// Returns true for objects of virtual memory management. Calls about them are few and slow, and all are
    /// recorded.
    pub const fn is_virtual_memory(self) -> bool {
        matches!(self, Object::Allocation | Object::Reservation | Object::Mapping)
    }

    /// Returns true if a device can use an opened object of this kind only after a call granted it access.
    pub const fn needs_granted_access(self) -> bool {
        self.is_virtual_memory() || matches!(self, Object::Pool | Object::Pointer)
    }

    /// Returns true if the calls that end objects of this kind are few, and end nothing else. All of these calls are
    /// recorded.
    pub(super) const fn has_dedicated_end_calls(self) -> bool {
        self.is_virtual_memory() || matches!(self, Object::Pool)
    }

    /// Returns true if other processes can keep the object after its creator released it, because they hold
    /// references.
    pub const fn outlives_its_maker(self) -> bool {
        self.is_virtual_memory()
    }

    /// Returns true if an object of this kind belongs to a context, and ends with it. Virtual memory, pools,
    /// and the memory of pools do not: on driver 580, they continued to work after the end of the context
    /// that was current when they were created.
    pub const fn belongs_to_context(self) -> bool {
        matches!(self, Object::Memory | Object::Event | Object::Peer)
    }

    /// Returns true for a context or primary context. Other objects belong to it, and end with it.
    pub const fn is_context(self) -> bool {
        matches!(self, Object::Context | Object::Primary)
    }
}
