//! Decides which of several threads that open and close the same object at once gives up its entry.
//!
//! An entry counts how often an object is open, and a call that closes it subtracts one before it is forwarded. While the
//! last open is being closed, a new open gets another entry. So one address can have several entries, and a thread that
//! looks for an open one must search all of them while other threads add more.

use super::live;
use core::cell::Cell;
use cupeer_spec::function::FnSpec;
use cupeer_spec::record::live::{Uses, process_object_key};

/// The effect of a forwarded call on the open object that it closes. The count of opens is already reduced.
#[derive(Clone, Copy, Default)]
pub enum Closing {
    /// The call closes no open object.
    #[default]
    Nothing,
    /// The call closes an object that was opened several times, and that stays open.
    OneOf(live::EntryRef),
    /// The call closes an object for the last time, and must give up the object's entry.
    Last(live::EntryRef),
    /// The object is not known, because other threads kept opening and closing it during the search.
    Unknown,
}

impl Closing {
    /// Subtracts one from the number of opens in the entry of this process's object with this kind and key words.
    pub fn begin(function: &FnSpec, kind: u32, a: u64, b: u64) -> Closing {
        /// Number of searches, because another thread may move the count to a new entry during a search.
        const ATTEMPTS: u32 = 16;
        let key = process_object_key(live::own_owner_number(), kind, a, b);
        // A call that destroys an object closes it, no matter how often it was opened.
        let closes_all = function.ends().is_some();
        for _ in 0..ATTEMPTS {
            let is_there = Cell::new(false);
            let closing = live::find_map(key, |place| {
                is_there.set(true);
                let before = place.change(|uses| match uses.count {
                    0 => None,
                    _ if closes_all => Some(Uses { count: 0, ..uses }),
                    count => Some(Uses { count: count - 1, ..uses }),
                })?;
                let is_last = closes_all || before.count == 1;
                Some(if is_last { Closing::Last(place) } else { Closing::OneOf(place) })
            });
            if let Some(closing) = closing {
                return closing;
            }
            if !is_there.get() {
                return Closing::Nothing;
            }
        }
        Closing::Unknown
    }

    /// Restores the number of opens after the call failed.
    pub fn undo(&self) {
        match self {
            Closing::Last(place) => drop(place.change(|uses| Some(Uses { count: uses.count + 1, ..uses }))),
            Closing::OneOf(place) => drop(count_another_open(place)),
            Closing::Nothing | Closing::Unknown => {}
        }
    }
}

/// Adds one to the number of opens, unless another thread is closing the object for the last time. Returns true if the number was
/// increased.
pub fn count_another_open(place: &live::EntryRef) -> bool {
    place.change(|uses| (uses.count > 0).then(|| Uses { count: uses.count + 1, ..uses })).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::live::tests::{be, with_table};
    use super::super::reclaim;
    use super::*;
    use cupeer_spec::function::FnId;
    use cupeer_spec::record::live::{Entry, WORDS, kind};

    #[test]
    fn threads_that_open_and_close_one_object_always_find_it_open() {
        // Fewer threads than entries in a bucket, because each may be closing one.
        const THREADS: u32 = 7;
        with_table(|| {
            // The pid must exist: entries that dead processes were filling are reclaimed.
            be(std::process::id());
            let (function, address) = (FnId::cuIpcCloseMemHandle.spec(), 0x1000);
            let key = process_object_key(live::own_owner_number(), kind::OPENED_MEMORY, address, 0);
            let open = || {
                if live::find_where(key, count_another_open).is_none() {
                    let new =
                        Entry { key, kind: kind::OPENED_MEMORY, address, count: 1, ..Entry::from_words([0; WORDS]) };
                    assert!(reclaim::insert(new));
                }
            };
            let close = || match Closing::begin(function, kind::OPENED_MEMORY, address, 0) {
                Closing::Nothing => panic!("it is open"),
                Closing::Last(place) => assert!(place.free()),
                Closing::OneOf(_) | Closing::Unknown => {}
            };
            let open_and_close = || {
                for _ in 0..200_000 {
                    open();
                    close();
                }
            };
            std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(open_and_close))));
        });
    }
}
