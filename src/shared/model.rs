//! Runs the loom models of this crate.

/// Tries all orders in which the threads of a model can run, with up to three preemptions. More preemptions
/// find nothing else in models of this size, and take minutes.
pub fn try_all(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
