//! How the models are run.

/// Tries all orders in which the threads of a model can go on, with up to three switches at a moment at which the
/// running one could have gone on: more find nothing else in models of this size, and take minutes.
pub fn try_all(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
