//! The rules, decided at the call: after the driver has answered, in the thread that called.
//!
//! What belongs here: what is known at the call (`world`, and `space` of virtual memory), and what becomes of a finding (`emit` and `say`), or of a
//! failure that breaks no rule (`explain`). What does not: what a rule is, every word of it, and how it is decided, which
//! is in `cupeer_rules`.
//!
//! Nothing here changes what the program sees. A successful call is examined only if it exports, opens, enables or ends
//! something.

pub mod c_types;
mod emit;
mod explain;
mod say;
mod space;
mod world;

pub use emit::listen;
pub use space::note;
pub use world::Call;

/// Looks at a call that has returned. For where rules are checked.
#[cold]
#[inline(never)]
pub fn look(call: &Call) {
    let is_explained =
        cupeer_rules::decide::look(&call.judged(), call, &mut |found| emit::finding(call, found));
    if call.result != 0 && !is_explained && !call.id.spec().is_over(call.result) {
        explain::failure(call);
    }
}
