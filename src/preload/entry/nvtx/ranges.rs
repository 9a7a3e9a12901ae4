//! Tracks the names of open NVTX ranges for the marks at their ends, because NVTX does not repeat the name.
//!
//! A thread leaves its innermost range, or the program ends a range by its number.

use crate::sys::arch::thread;
use crate::sys::book::LockedFacts;

/// Largest number of open ranges. Beyond it, the oldest range is dropped, and ends without a mark.
const MOST: usize = 512;
/// Number of bytes that are kept of a range's name.
const MOST_NAME: usize = 240;

/// Text before the name of a range, in the mark at its end.
const END: &[u8] = b"end of ";

/// Owner of a range: only the same owner can end it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Nobody,
    /// A thread, by the address of its block (which a forked child keeps), and a domain, because the ranges of each domain nest
    /// separately.
    Thread(usize, usize),
    /// The process; the program ends the range by its number.
    Process,
}

impl Owner {
    /// Returns this thread as the owner of ranges in a domain.
    pub fn this_thread(domain: usize) -> Owner {
        Owner::Thread(thread() as usize, domain)
    }
}

#[derive(Clone, Copy)]
struct Range {
    owner: Owner,
    /// Ranges are numbered from 1 in the order of their starts.
    number: u64,
    length: usize,
    name: [u8; MOST_NAME],
}

const NONE: Range = Range { owner: Owner::Nobody, number: 0, length: 0, name: [0; MOST_NAME] };

struct Ranges {
    all: [Range; MOST],
    begun: u64,
}

static RANGES: LockedFacts<Ranges> = LockedFacts::new(Ranges { all: [NONE; MOST], begun: 0 });

/// Adds a range. Returns its number, and the number of ranges of the same owner around it; `None` if it cannot be kept.
pub fn begin(owner: Owner, name: Option<&[u8]>) -> Option<(u64, usize)> {
    RANGES.with(|ranges| ranges.begin(owner, name.unwrap_or_default()))
}

/// Removes the owner's innermost range, or the range with this number. Passes the text of the mark at its end to `mark`, unless
/// the range has no name. Returns the number of ranges of the same owner around it; `None` if that is unknown.
pub fn end(owner: Owner, number: Option<u64>, mark: impl FnOnce(&[u8])) -> Option<usize> {
    let (range, around) = RANGES.with(|ranges| ranges.end(owner, number)).flatten()?;
    if range.length > 0 {
        let mut text = [0; END.len() + MOST_NAME];
        text[..END.len()].copy_from_slice(END);
        text[END.len()..][..range.length].copy_from_slice(&range.name[..range.length]);
        mark(&text[..END.len() + range.length]);
    }
    Some(around)
}

impl Ranges {
    fn begin(&mut self, owner: Owner, name: &[u8]) -> (u64, usize) {
        let around = self.all.iter().filter(|range| range.owner == owner).count();
        self.begun += 1;
        // A free place has the number 0, so it is chosen before the oldest range.
        let place = self.all.iter_mut().min_by_key(|range| range.number);
        if let Some(range) = place {
            let length = name.len().min(MOST_NAME);
            *range = Range { owner, number: self.begun, length, ..NONE };
            range.name[..length].copy_from_slice(&name[..length]);
        }
        (self.begun, around)
    }

    fn end(&mut self, owner: Owner, number: Option<u64>) -> Option<(Range, usize)> {
        let is_it = |range: &Range| range.owner == owner && number.is_none_or(|number| range.number == number);
        let around = self.all.iter().filter(|range| range.owner == owner).count().checked_sub(1)?;
        let range = self.all.iter_mut().filter(|range| is_it(range)).max_by_key(|range| range.number)?;
        Some((core::mem::replace(range, NONE), around))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges() -> Ranges {
        Ranges { all: [NONE; MOST], begun: 0 }
    }

    #[test]
    fn the_oldest_makes_way_and_the_innermost_ends_first() {
        let (mut ranges, mine) = (ranges(), Owner::Thread(1, 0));
        for i in 0..MOST + 1 {
            ranges.begin(mine, i.to_string().as_bytes());
        }
        for i in (1..MOST + 1).rev() {
            let (range, around) = ranges.end(mine, None).expect("a range");
            assert_eq!((&range.name[..range.length], around), (i.to_string().as_bytes(), i - 1));
        }
        assert!(ranges.end(mine, None).is_none());
    }

    proptest! {
        /// A stack per thread and domain is the reference.
        #[test]
        fn each_end_finds_its_begin(steps in proptest::collection::vec((0..2usize, 0..2usize, any::<bool>()), 0..200)) {
            let (mut ranges, mut stacks) = (ranges(), std::collections::HashMap::<_, Vec<u64>>::new());
            for (thread, domain, begins) in steps {
                let owner = Owner::Thread(thread, domain);
                let stack = stacks.entry((thread, domain)).or_default();
                if begins {
                    let (number, around) = ranges.begin(owner, b"name");
                    prop_assert_eq!(around, stack.len());
                    stack.push(number);
                } else {
                    prop_assert_eq!(ranges.end(owner, None).map(|(range, _)| range.number), stack.pop());
                }
            }
        }
    }
}
