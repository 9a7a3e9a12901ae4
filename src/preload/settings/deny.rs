//! What the environment denies: pairs of devices, and more than a number of peers.

use super::{refusal, value};
use cupeer_spec::deny::Denied;
use cupeer_spec::env;
use cupeer_spec::function::FnId;

/// What is denied, where anything is.
#[derive(Debug, Default)]
pub struct Deny {
    /// The pairs.
    pub pairs: Option<Denied>,
    /// How many peers a context can be given access to.
    pub limit: Option<u32>,
}

impl Deny {
    /// Reads the variables. What is not understood denies nothing.
    pub(super) fn from_environment(complaints: &mut Vec<String>) -> Option<Deny> {
        let pairs = value(env::DENY_PEER).and_then(|value| {
            let pairs = value.to_str().map_err(|_| "it is not UTF-8".to_owned());
            let pairs = pairs.and_then(|text| Denied::parse(text).map_err(|error| error.to_string()));
            let complain = |error| {
                complaints.push(refusal(env::DENY_PEER, value, &format!("{error}; nothing is denied")));
            };
            pairs.map_err(complain).ok()
        });
        let limit = value(env::PEER_LIMIT).and_then(|value| {
            let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let limit = digits.and_then(|digits| digits.parse().ok());
            if limit.is_none() {
                let why = "must be a number of peers; there is no limit";
                complaints.push(refusal(env::PEER_LIMIT, value, why));
            }
            limit
        });
        (pairs.is_some() || limit.is_some()).then_some(Deny { pairs, limit })
    }

    /// Whether calls of a function must be examined.
    pub fn concerns(&self, id: FnId) -> bool {
        let function = id.spec();
        let opens = function.opens();
        let tries = opens.is_some() || function.enables().is_some();
        let counts = function.enables().or(function.disables()).is_some()
            || opens.is_some_and(|shared| shared.object.is_memory())
            || function.ends_context().is_some();
        self.pairs.is_some() && (tries || function.asks().is_some()) || self.limit.is_some() && counts
    }
}
