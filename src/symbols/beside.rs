//! Does work beside the calling thread, or in it where the machine allows no further thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Result, Scope};

/// Starts some work in a new thread. Returns a function that waits for the result, or does the work itself if no thread
/// could be started. An error is the panic of the work.
pub fn begin<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> impl FnOnce() -> Result<T> {
    let left = Arc::new(Mutex::new(Some(work)));
    let take = |left: &Mutex<Option<_>>| left.lock().unwrap_or_else(PoisonError::into_inner).take();
    let theirs = left.clone();
    let thread = Builder::new().spawn_scoped(scope, move || take(&theirs).map(|work| work()));
    move || {
        let done = match thread {
            Ok(thread) => thread.join()?,
            Err(_) => take(&left).map(|work| work()),
        };
        done.ok_or_else(|| Box::new("the work was done twice") as _)
    }
}
