//! How the frames of one address lead to the next, in a word; and those that were seen.
//!
//! They are kept in memory that is there from the start, without a lock: an entry that two threads write at once does not
//! fit together, and counts as empty. What was unloaded may be something else when it comes again, so an entry is
//! of the state of the libraries that it was made in.

use super::eh_frame::Tables;
use super::row::{Frame, Place, Row};
use super::{RBP, REGISTERS, RIP, RSP};
use crate::sys::elf;
use crate::sys::every_call::libraries_generation;
use crate::sys::program_memory;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// No object says anything about the address.
    Unknown = 0,
    /// The frame is so far from a register, the return address lies below it, and some registers below that.
    Frame,
    /// The kernel has put the registers on the stack.
    Signal,
    /// Something else: to be asked of the tables each time.
    Odd,
    Outermost,
}

/// From the lowest bit on: three for the kind, four for the register that the frame is found
/// by, five for each of the six registers that functions keep, which say how many words below the frame it lies, and the
/// distance of the frame in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule(u64);

/// The registers that a function gives back as they were.
const KEEPS: [usize; 6] = [3, RBP, 12, 13, 14, 15];
/// A bit for each, and for the two that every frame has.
pub const KEPT: u32 = 1 << 3 | 1 << RBP | 0xf << 12 | 1 << RSP | 1 << RIP;

const REGISTER: u32 = 3;
const SAVED: u32 = 7;
const EACH: u32 = 5;
const OFFSET: u32 = SAVED + EACH * KEEPS.len() as u32;

impl Rule {
    #[inline]
    pub fn at(address: usize) -> Rule {
        known(address).unwrap_or_else(|| look(address))
    }

    /// The rule that a row comes to.
    fn of(row: &Row) -> Rule {
        if row.places[RIP] == Place::Lost {
            return Rule(Kind::Outermost as u64);
        }
        let odd = Rule(Kind::Odd as u64);
        let Frame::Register(register, offset) = row.frame else { return odd };
        let words = offset / 8;
        if offset % 8 != 0 || register > 15 || words << OFFSET >> OFFSET != words || row.is_signal {
            return odd;
        }
        let mut rule = Kind::Frame as u64 | (register as u64) << REGISTER | (words as u64) << OFFSET;
        for (register, place) in row.places.iter().enumerate() {
            let kept = KEEPS.iter().position(|kept| *kept == register);
            match (*place, kept) {
                (Place::At(-8), _) if register == RIP => {}
                (Place::At(below), Some(index)) if below % 8 == 0 && (-248..0).contains(&below) => {
                    rule |= ((below / -8) as u64) << (SAVED + EACH * index as u32);
                }
                (Place::Same, _) if register != RIP => {}
                _ => return odd,
            }
        }
        Rule(rule)
    }

    pub fn kind(self) -> Kind {
        match self.0 & 7 {
            1 => Kind::Frame,
            2 => Kind::Signal,
            3 => Kind::Odd,
            4 => Kind::Outermost,
            _ => Kind::Unknown,
        }
    }

    /// The register that the frame is found by.
    pub fn register(self) -> usize {
        (self.0 >> REGISTER & 15) as usize
    }

    /// How far the frame is from what is there.
    pub fn offset(self) -> isize {
        (self.0 as i64 >> OFFSET) as isize * 8
    }

    /// The registers that lie below the frame, each with how many words; and the lowest of all that lies there, the return
    /// address included.
    pub fn saved(self) -> (impl Iterator<Item = (usize, usize)>, usize) {
        let words = move |index: usize| (self.0 >> (SAVED + EACH * index as u32) & 31) as usize;
        let lowest = (0..KEEPS.len()).map(words).max().unwrap_or(0).max(1);
        let each = (0..KEEPS.len()).map(move |index| (KEEPS[index], words(index)));
        (each.filter(|(_, words)| *words != 0), lowest)
    }
}

/// How many are kept: 64 KiB, of which untouched pages cost nothing.
const BITS: u32 = 12;

struct Entry {
    /// What it is of, mixed with the rule.
    check: AtomicU64,
    rule: AtomicU64,
}

static SEEN: [Entry; 1 << BITS] =
    [const { Entry { check: AtomicU64::new(0), rule: AtomicU64::new(0) } }; 1 << BITS];

impl Entry {
    #[inline]
    fn read(&self, key: u64) -> Option<Rule> {
        let rule = self.rule.load(Relaxed);
        (rule != 0 && self.check.load(Relaxed) == key ^ rule.rotate_left(17)).then_some(Rule(rule))
    }

    fn write(&self, key: u64, rule: u64) {
        self.check.store(key ^ rule.rotate_left(17), Relaxed);
        self.rule.store(rule, Relaxed);
    }
}

/// What an entry is of.
#[inline]
fn key(address: usize) -> u64 {
    address as u64 ^ u64::from(libraries_generation()) << 47
}

#[inline]
fn places(key: u64) -> [&'static Entry; 2] {
    let pair = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)) as usize & !1;
    [&SEEN[pair], &SEEN[pair + 1]]
}

#[inline]
fn known(address: usize) -> Option<Rule> {
    let key = key(address);
    let [first, second] = places(key);
    first.read(key).or_else(|| second.read(key))
}

/// Asks the tables of the object that an address belongs to.
#[cold]
#[inline(never)]
fn look(address: usize) -> Rule {
    let key = key(address);
    // Code that was made at run time comes and goes without a word, so nothing is remembered of it.
    let Some(table) = elf::unwind_table(address) else { return Rule(Kind::Unknown as u64) };
    let row = Tables::at(table).row(address);
    let rule = match row {
        Some(row) if row.is_signal && is_sigreturn(address + 1) => Rule(Kind::Signal as u64),
        Some(row) => Rule::of(&row),
        None => return Rule(Kind::Unknown as u64),
    };
    remember(key, rule);
    rule
}

fn remember(key: u64, rule: Rule) {
    let [first, second] = places(key);
    // The one that came last goes on.
    let (check, before) = (first.check.load(Relaxed), first.rule.load(Relaxed));
    second.check.store(check, Relaxed);
    second.rule.store(before, Relaxed);
    first.write(key, rule.0);
}

/// Whether the code at an address is what every C library lets signal handlers return to: `mov rax, 15; syscall`.
pub fn is_sigreturn(address: usize) -> bool {
    const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    let mut code = [0; CODE.len()];
    program_memory::copy(address, &mut code) == CODE.len() && code == CODE
}

const _: () = assert!(REGISTERS > RIP && OFFSET < 48);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_one_pair_are_both_remembered() {
        let alike = |key: &u64| core::ptr::eq(places(*key)[0], places(1 << 46)[0]);
        let keys: Vec<u64> = (1 << 46..).filter(alike).take(8).collect();
        for pair in keys.windows(2) {
            for (key, rule) in pair.iter().zip([5, 9]) {
                remember(*key, Rule(rule));
            }
            let rules = [0, 1].map(|i: usize| places(pair[i]).iter().find_map(|place| place.read(pair[i])));
            assert_eq!(rules, [Some(Rule(5)), Some(Rule(9))]);
        }
    }
}
