//! The settings of denial: the denied pairs of devices, and the limit of peers.

use super::{read, read_text};
use cupeer_spec::deny::DeniedPairs;
use cupeer_spec::effect::Object;
use cupeer_spec::env;
use cupeer_spec::function::FnId;

/// The denied pairs and the limit of peers, of which at least one is set.
#[derive(Debug, Default)]
pub struct Deny {
    pub pairs: Option<DeniedPairs>,
    /// Maximum number of peers to which a context can have access; `None` for no limit.
    pub limit: Option<u32>,
}

impl Deny {
    /// Reads the settings from environment variables. A variable that is not valid denies nothing.
    pub(super) fn from_environment(complaints: &mut Vec<String>) -> Option<Deny> {
        let pairs = read_text(complaints, env::DENY_PEER, "nothing is denied", DeniedPairs::parse);
        let limit = read(complaints, env::PEER_LIMIT, "there is no limit", |value| {
            let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            digits.and_then(|digits| digits.parse().ok()).ok_or("must be a number of peers")
        });
        (pairs.is_some() || limit.is_some()).then_some(Deny { pairs, limit })
    }

    /// Returns true if calls of a function must be examined for denial.
    pub fn is_function_examined(&self, id: FnId) -> bool {
        let function = id.spec();
        // Imported virtual memory and pools can be used only after access is granted, which is examined instead.
        let opens = function.opens().filter(|shared| !shared.object.needs_granted_access());
        let makes_pool = function.makes().is_some_and(|made| made.object == Object::Pool);
        let tries = opens.is_some()
            || function.enables().is_some()
            || function.grants().is_some()
            || makes_pool
            || function.joins().is_some()
            || function.gathers().is_some();
        let counts = function.enables().or(function.disables()).is_some()
            || opens.is_some_and(|shared| shared.object.is_memory())
            || function.ended_context().is_some();
        self.pairs.is_some() && (tries || function.device_query().is_some()) || self.limit.is_some() && counts
    }
}
