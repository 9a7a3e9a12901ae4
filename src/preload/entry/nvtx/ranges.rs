//! Tracks the names of open NVTX ranges for the marks at their ends, because NVTX does not repeat the name.
//!
//! A thread leaves its innermost range, or the program ends a range by its number.

use crate::sys::arch::thread;
use crate::sys::book::Book;

/// The most ranges that are open at a time; the oldest one makes way, and ends without a mark.
const MOST: usize = 512;
/// The bytes of a name that are kept.
const MOST_NAME: usize = 240;

/// What stands before the name of a range in the mark at its end.
const END: &[u8] = b"end of ";

/// Whose range it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Nobody,
    /// Of a thread, by the address of its block, which a forked child keeps; and of a domain, whose ranges nest on their own.
    Thread(usize, usize),
    /// Of the process; known by its number.
    Process,
}

impl Whose {
    /// This thread's, in a domain.
    pub fn this_thread(domain: usize) -> Whose {
        Whose::Thread(thread() as usize, domain)
    }
}

#[derive(Clone, Copy)]
struct Range {
    whose: Whose,
    /// They count from 1 as they begin.
    number: u64,
    length: usize,
    name: [u8; MOST_NAME],
}

const NONE: Range = Range { whose: Whose::Nobody, number: 0, length: 0, name: [0; MOST_NAME] };

struct Ranges {
    all: [Range; MOST],
    begun: u64,
}

static RANGES: Book<Ranges> = Book::new(Ranges { all: [NONE; MOST], begun: 0 });

/// Notes a range that begins. Returns its number, and how many of the same are around it; `None` where it cannot be noted.
pub fn begin(whose: Whose, name: Option<&[u8]>) -> Option<(u64, usize)> {
    RANGES.with(|ranges| ranges.begin(whose, name.unwrap_or_default()))
}

/// Forgets the innermost range, or that of a number, and hands the name of the mark at its end to `mark`; a range without a
/// name has none. Returns how many of the same were around it; `None` where it is not known.
pub fn end(whose: Whose, number: Option<u64>, mark: impl FnOnce(&[u8])) -> Option<usize> {
    let (range, around) = RANGES.with(|ranges| ranges.end(whose, number)).flatten()?;
    if range.length > 0 {
        let mut text = [0; END.len() + MOST_NAME];
        text[..END.len()].copy_from_slice(END);
        text[END.len()..][..range.length].copy_from_slice(&range.name[..range.length]);
        mark(&text[..END.len() + range.length]);
    }
    Some(around)
}

impl Ranges {
    fn begin(&mut self, whose: Whose, name: &[u8]) -> (u64, usize) {
        let around = self.all.iter().filter(|range| range.whose == whose).count();
        self.begun += 1;
        // What is nobody's has the number 0, and so is the oldest.
        let place = self.all.iter_mut().min_by_key(|range| range.number);
        if let Some(range) = place {
            let length = name.len().min(MOST_NAME);
            *range = Range { whose, number: self.begun, length, ..NONE };
            range.name[..length].copy_from_slice(&name[..length]);
        }
        (self.begun, around)
    }

    fn end(&mut self, whose: Whose, number: Option<u64>) -> Option<(Range, usize)> {
        let is_it =
            |range: &Range| range.whose == whose && number.is_none_or(|number| range.number == number);
        let around = self.all.iter().filter(|range| range.whose == whose).count().checked_sub(1)?;
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
        let (mut ranges, mine) = (ranges(), Whose::Thread(1, 0));
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
        /// As a stack for each thread and domain, and a map for the process.
        #[test]
        fn each_end_finds_its_begin(steps in proptest::collection::vec((0..2usize, 0..2usize, any::<bool>()), 0..200)) {
            let (mut ranges, mut stacks) = (ranges(), std::collections::HashMap::<_, Vec<u64>>::new());
            for (thread, domain, begins) in steps {
                let whose = Whose::Thread(thread, domain);
                let stack = stacks.entry((thread, domain)).or_default();
                if begins {
                    let (number, around) = ranges.begin(whose, b"name");
                    prop_assert_eq!(around, stack.len());
                    stack.push(number);
                } else {
                    prop_assert_eq!(ranges.end(whose, None).map(|(range, _)| range.number), stack.pop());
                }
            }
        }
    }
}
