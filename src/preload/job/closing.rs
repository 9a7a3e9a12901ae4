//! Decides which of several threads that open and close the same object at once gives up its entry.
//!
//! An entry counts how often an object is open, and a call that closes takes one from the count before it is
//! forwarded. While the last one is being closed, a new open gets another entry. So one address can have several
//! entries, and a thread that looks for an open one must search all of them while other threads add more.

use super::live;
use core::cell::Cell;
use cupeer_spec::function::FnSpec;
use cupeer_spec::record::live::{Uses, own_key};

/// What a call that is forwarded closes. Its count is less already.
#[derive(Clone, Copy, Default)]
pub enum Closing {
    /// Nothing that is open.
    #[default]
    Nothing,
    /// One of several openings.
    OneOf(live::Place),
    /// The last one: the entry is this call's to give up.
    Last(live::Place),
    /// It is not known: other threads opened and closed the same all the time.
    Unknown,
}

impl Closing {
    /// Counts one opening less, of what an entry of this process with these numbers tells of.
    pub fn begin(function: &FnSpec, kind: u32, a: u64, b: u64) -> Closing {
        /// What is open may be counted elsewhere while one looks.
        const ATTEMPTS: u32 = 16;
        let key = own_key(live::own(), kind, a, b);
        // What is destroyed is closed, however often it was opened.
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

    /// The call has failed: it is open as it was.
    pub fn undo(&self) {
        match self {
            Closing::Last(place) => drop(place.change(|uses| Some(Uses { count: uses.count + 1, ..uses }))),
            Closing::OneOf(place) => drop(count_in(place)),
            Closing::Nothing | Closing::Unknown => {}
        }
    }
}

/// Counts one opening more, unless the last one is being closed. Says whether it did.
pub fn count_in(place: &live::Place) -> bool {
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
    fn threads_that_open_and_close_the_same_never_miss_what_they_have_open() {
        // Fewer than there are entries in a bucket, each of which may be one's that is being closed.
        const THREADS: u32 = 7;
        with_table(|| {
            // What a process that has died was filling is taken from it.
            be(std::process::id());
            let (function, address) = (FnId::cuIpcCloseMemHandle.spec(), 0x1000);
            let key = own_key(live::own(), kind::OPENED_MEMORY, address, 0);
            let open = || {
                if live::find_where(key, count_in).is_none() {
                    let new = Entry {
                        key,
                        kind: kind::OPENED_MEMORY,
                        address,
                        count: 1,
                        ..Entry::from_words([0; WORDS])
                    };
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
