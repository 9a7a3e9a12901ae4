//! The calling thread's stack of contexts.
//!
//! It has no destructor, so that the driver can be called when the thread's other storage is gone already:
//! from the destructor of a pthread key, or of another library's thread-local.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

thread_local! {
    static STACK: RefCell<ManuallyDrop<Vec<u64>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Returns the current context, which is the top of the stack; 0 if the stack is empty.
pub(crate) fn current_context() -> u64 {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

/// Pushes a context, which becomes the current context.
pub(crate) fn push_context(context: u64) {
    STACK.with_borrow_mut(|stack| stack.push(context));
}

/// Removes the current context from the stack, and returns it.
pub(crate) fn pop_context() -> Option<u64> {
    STACK.with_borrow_mut(|stack| stack.pop())
}

/// Replaces the current context; 0 removes it.
pub(crate) fn set_current_context(context: u64) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_is_current_and_each_thread_has_its_own() {
        push_context(1);
        push_context(2);
        assert_eq!(current_context(), 2);
        set_current_context(3);
        assert_eq!(std::thread::spawn(current_context).join().unwrap(), 0);
        assert_eq!((pop_context(), current_context()), (Some(3), 1));
        set_current_context(0);
        assert_eq!((current_context(), pop_context()), (0, None));
    }

    #[test]
    fn it_needs_no_destructor() {
        assert!(!std::mem::needs_drop::<RefCell<ManuallyDrop<Vec<u64>>>>());
    }
}
