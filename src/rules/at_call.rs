//! The rules that only the call itself can decide, and the facts that they need.

use crate::rule::{Rule, RuleSpec};

/// The rules that a record alone does not decide, or only in part, and what would have to be known for that. Where the process
/// was not checked, nobody can say that they were kept.
pub const ONLY_AT_THE_CALL: [(Rule, &str); 26] = [
    (Rule::IpcMemoryKind, "what the driver says of the pointer"),
    (Rule::IpcPointerUnknown, "what the driver says of the pointer, but where it is NULL"),
    (Rule::IpcDeviceHidden, "whether the process may use the device's node"),
    (Rule::IpcFreeImport, "that free, which is only recorded where rules are checked"),
    (Rule::IpcFreedWhileOpen, "whether an importer that makes no further call still runs"),
    (Rule::IpcContextEndedWhileOpen, "whether an importer that makes no further call still runs"),
    (Rule::IpcEventDestroyedWhileOpen, "whether an importer that makes no further call still runs"),
    (
        Rule::IpcExporterGone,
        "whether an exporter that makes no further call still runs, or had died before a close",
    ),
    (Rule::ContextDestroyed, "whether the current context is there, where another library destroyed it"),
    (
        Rule::PeerContextInvalid,
        "which of two contexts has been destroyed, where nothing that was shared went with it",
    ),
    (
        Rule::IpcDamagedHandle,
        "which export the bytes resemble that the driver does not check: to the record nobody exported them",
    ),
    (Rule::DescriptorsExhausted, "whether the process had reached its limit of open files"),
    (Rule::PoolPointer, "what the driver says of the pointer"),
    (Rule::PoolWrongPool, "what others have exported, but where the pool is the process's own"),
    (Rule::PoolFreedWhileOpen, "whether an importer that makes no further call still runs"),
    (Rule::PoolDestroyedWhileOpen, "whether an importer that makes no further call still runs"),
    (Rule::UseAfterClose, "whether the driver had memory there again"),
    (Rule::UseAfterUnmap, "whether the driver had memory there again"),
    (Rule::UseAfterFree, "whether the driver had memory there again"),
    (Rule::UseBeyondEnd, "where the memory ended, which only the driver says"),
    (Rule::UseWithoutAccess, "which devices had access"),
    (Rule::UseAfterOwnerFreed, "which copies go within a device, which are not recorded otherwise"),
    (Rule::UseInGraph, "what the nodes of the graph use"),
    (Rule::UseInKernel, "what the parameters of the kernel are"),
    (Rule::CallFailed, "which causes the driver rules out"),
    (Rule::DriverUndocumented, "which causes the driver rules out"),
];

impl RuleSpec {
    /// What would have to be known to decide it without the call; `None` where the record tells it.
    pub fn only_at_the_call(&self) -> Option<&'static str> {
        ONLY_AT_THE_CALL.iter().find(|(rule, _)| *rule == self.id).map(|(_, what)| *what)
    }
}
