//! What a log says of the rules that acted at a call.

use super::Fault;
use core::fmt;

/// The names of the rules, separated by commas.
pub struct Names<'a>(pub &'a Fault<'a>);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut separator = "";
        let mut result = Ok(());
        self.0.each_hit(|_, name| {
            if result.is_ok() {
                result = write!(f, "{separator}{name}");
            }
            separator = ",";
        });
        result
    }
}
