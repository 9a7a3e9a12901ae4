//! The families by which the pages group the rules. The family of a rule follows from its name.

use crate::rule::RuleSpec;

/// Family: the rules about one kind of sharing.
#[derive(PartialEq, Eq, Debug)]
pub struct RuleFamily {
    /// Name of the family's page.
    pub name: &'static str,
    /// Title of the family's page.
    pub title: &'static str,
    /// Prefixes of the names of the family's rules.
    prefixes: &'static [&'static str],
}

/// All families. Rules whose names have no prefix of another family belong to the first one.
pub static FAMILIES: &[RuleFamily] = &[
    RuleFamily { name: "general", title: "Rules for every call", prefixes: &[] },
    RuleFamily { name: "peer", title: "Rules for peer access", prefixes: &["peer-"] },
    RuleFamily { name: "ipc", title: "Rules for legacy IPC", prefixes: &["ipc-"] },
    RuleFamily { name: "vmm", title: "Rules for virtual memory", prefixes: &["vmm-", "fabric-"] },
    RuleFamily { name: "multicast", title: "Rules for multicast objects", prefixes: &["multicast-"] },
    RuleFamily { name: "pools", title: "Rules for memory pools", prefixes: &["pool-"] },
    RuleFamily { name: "use", title: "Rules for the use of shared memory", prefixes: &["use-", "copy-"] },
    RuleFamily {
        name: "jobs",
        title: "Rules for jobs",
        prefixes: &["ranks-", "fd-", "descriptors-", "memory-", "piles-", "opened-", "ex", "host-"],
    },
];

impl RuleSpec {
    /// Returns the family of the rule.
    pub fn family(&self) -> &'static RuleFamily {
        let has = |family: &&RuleFamily| family.prefixes.iter().any(|prefix| self.name().starts_with(prefix));
        FAMILIES.iter().find(has).unwrap_or(&FAMILIES[0])
    }
}
