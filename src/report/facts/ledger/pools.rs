//! Tracks the memory pools of a process, for the rules about its next call.

use crate::words::judged::is_done_all_the_same;
use crate::words::judged::judged;
use cupeer_record::{Call, Outcome};
use cupeer_rules::decide::{Imported, Pool, Pools};
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;

/// What one process has.
pub struct OwnPools(Pools<Vec<Pool>, Vec<Imported>>);

impl Default for OwnPools {
    fn default() -> Self {
        OwnPools(Pools::new(Vec::new(), Vec::new()))
    }
}

impl OwnPools {
    pub fn known(&self) -> &Pools<Vec<Pool>, Vec<Imported>> {
        &self.0
    }

    /// The device of the pool that a call exports.
    pub fn exported(&self, function: FnId, call: &Call) -> Option<i32> {
        let shared = function.spec().exports().filter(|shared| shared.object == Object::Pool)?;
        self.0.pool(call.number(shared.by)?)?.device
    }

    /// Notes a call about pools.
    pub fn call(&mut self, function: FnId, call: &Call) {
        let Outcome::Returned(result) = call.outcome else { return self.0.lose() };
        if call.injected {
            if is_done_all_the_same(call) || result == 0 {
                self.0.lose();
            }
            return;
        }
        self.0.note(&judged(function, result, &call.arguments(), call));
    }
}
