//! The step from the frames of one address to the next, packed into a word, and the table of steps that were used.
//!
//! The table is static memory without a lock: an entry that two threads write at once does not match, and counts as
//! empty. An unloaded library may come back as another one, so an entry belongs to the state of the libraries in which
//! it was made.

use super::Tables;
use crate::sys::elf;
use crate::sys::every_call::libraries_generation;
use crate::sys::program_memory::OwnMemory;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_stacks::unwind::processor::{EACH, FORGETS, KEEPS, NUMBER, PLACE, REGISTERS, RETURN, RETURN_BELOW, STACK};
use cupeer_stacks::unwind::{RegisterRule, UnwindRow, WINDOW, is_sigreturn};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// No object has tables for the address.
    Unknown = 0,
    /// The frame is at an offset from a register, and the return address and some registers are saved below it.
    Frame,
    /// The frame is that of a signal handler: the kernel saved the registers on the stack.
    Signal,
    /// The rule has any other form, so the tables are read each time.
    Complex,
    Outermost,
}

/// A rule in one word. From the lowest bit: three bits for the kind; [`NUMBER`] bits for the register that leads to the frame;
/// [`EACH`] bits for each of [`KEEPS`], with its distance below the frame in words; and the offset of the frame from the register
/// in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule(u64);

/// A bit for each register that stays known after a frame of kind [`Kind::Frame`] if it was known before. Two other registers are
/// always known.
pub const KEPT: u64 = {
    let (mut kept, mut index) = (0, 0);
    while index < KEEPS.len() {
        kept |= 1 << KEEPS[index];
        index += 1;
    }
    kept
};

const REGISTER: u32 = 3;
const SAVED: u32 = REGISTER + NUMBER;
const OFFSET: u32 = SAVED + EACH * KEEPS.len() as u32;

impl Rule {
    #[inline]
    pub fn for_address(address: usize) -> Rule {
        find_known_rule(address).unwrap_or_else(|| read_tables(address))
    }

    /// Returns the rule for a row of the unwind table.
    fn from_row(row: &UnwindRow) -> Rule {
        if row.is_outermost() {
            return Rule(Kind::Outermost as u64);
        }
        let complex = Rule(Kind::Complex as u64);
        let Some((register, offset)) = row.frame_base() else { return complex };
        let words = offset / 8;
        if offset % 8 != 0 || register >> NUMBER != 0 || words << OFFSET >> OFFSET != words || row.is_signal {
            return complex;
        }
        let is_at_return = |below: i64| below % 8 == 0 && Some((below / -8) as usize) == RETURN_BELOW;
        let mut rule = Kind::Frame as u64 | (register as u64) << REGISTER | (words as u64) << OFFSET;
        for register in 0..REGISTERS {
            let kept = KEEPS.iter().position(|kept| *kept == register);
            match (row.register_rule(register), kept) {
                (RegisterRule::Offset(below), _) if register == RETURN && is_at_return(below) => {}
                (RegisterRule::Offset(below), Some(index))
                    if below % 8 == 0 && (1..1 << EACH).contains(&(below / -8)) =>
                {
                    rule |= ((below / -8) as u64) << (SAVED + EACH * index as u32);
                }
                (RegisterRule::Offset(_), None) if FORGETS.contains(&register) => {}
                (RegisterRule::SameValue, _) if register != RETURN || RETURN_BELOW.is_none() => {}
                _ => return complex,
            }
        }
        let rule = Rule(rule);
        // The saved registers must fit in one piece of the stack, because it is read at once.
        if 8 * rule.saved_registers_below().1.len() > WINDOW { complex } else { rule }
    }

    pub fn kind(self) -> Kind {
        match self.0 & 7 {
            1 => Kind::Frame,
            2 => Kind::Signal,
            3 => Kind::Complex,
            4 => Kind::Outermost,
            _ => Kind::Unknown,
        }
    }

    /// Returns the number of the register whose value leads to the frame.
    pub fn register(self) -> usize {
        (self.0 >> REGISTER & ((1 << NUMBER) - 1)) as usize
    }

    /// Returns the distance of the frame from the value of that register, in bytes.
    pub fn offset(self) -> isize {
        (self.0 as i64 >> OFFSET) as isize * 8
    }

    /// Returns the registers that are saved below the frame, each with its distance in words, and the range of all these
    /// distances, including that of the return address.
    pub fn saved_registers_below(self) -> (impl Iterator<Item = (usize, usize)>, Range<usize>) {
        let words = move |index: usize| (self.0 >> (SAVED + EACH * index as u32) & ((1 << EACH) - 1)) as usize;
        let each = (0..KEEPS.len()).map(move |index| (KEEPS[index], words(index)));
        let each = each.filter(|(_, words)| *words != 0);
        let lowest = each.clone().map(|(_, words)| words).max().unwrap_or(0);
        let range = match RETURN_BELOW {
            Some(words) => words..lowest.max(words) + 1,
            None => each.clone().map(|(_, words)| words).min().unwrap_or(1)..lowest + 1,
        };
        (each, range)
    }
}

/// Number of bits of an index in the table of rules, which has 64 KiB. Untouched pages cost nothing.
const BITS: u32 = 12;

struct Entry {
    /// Key of the entry, mixed with the rule; it matches no key while two threads write the entry.
    check: AtomicU64,
    rule: AtomicU64,
}

static SEEN: [Entry; 1 << BITS] = [const { Entry { check: AtomicU64::new(0), rule: AtomicU64::new(0) } }; 1 << BITS];

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

/// Returns the key of an address in the table of rules.
#[inline]
fn key(address: usize) -> u64 {
    address as u64 ^ u64::from(libraries_generation()) << 47
}

#[inline]
fn entries_of_key(key: u64) -> [&'static Entry; 2] {
    let pair = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)) as usize & !1;
    [&SEEN[pair], &SEEN[pair + 1]]
}

#[inline]
fn find_known_rule(address: usize) -> Option<Rule> {
    let key = key(address);
    let [first, second] = entries_of_key(key);
    first.read(key).or_else(|| second.read(key))
}

/// Reads the rule for an address from the unwind tables of the object that contains it, and remembers the rule.
#[cold]
#[inline(never)]
fn read_tables(address: usize) -> Rule {
    let key = key(address);
    // Code that was generated at run time can change without notice, so its rules are not remembered.
    let Some(table) = elf::unwind_table(address) else { return Rule(Kind::Unknown as u64) };
    let row = Tables::at(table, OwnMemory).find_row(address);
    let rule = match row {
        Some(row) if row.is_signal && is_sigreturn(OwnMemory, address + 1) => Rule(Kind::Signal as u64),
        Some(row) => Rule::from_row(&row),
        None => return Rule(Kind::Unknown as u64),
    };
    remember(key, rule);
    rule
}

fn remember(key: u64, rule: Rule) {
    let [first, second] = entries_of_key(key);
    // The rule that was in the first entry moves to the second entry.
    let (check, before) = (first.check.load(Relaxed), first.rule.load(Relaxed));
    second.check.store(check, Relaxed);
    second.rule.store(before, Relaxed);
    first.write(key, rule.0);
}

const _: () = assert!(OFFSET < 48 && STACK < 64 && PLACE < 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_one_pair_are_both_remembered() {
        let alike = |key: &u64| core::ptr::eq(entries_of_key(*key)[0], entries_of_key(1 << 46)[0]);
        let keys: Vec<u64> = (1 << 46..).filter(alike).take(8).collect();
        for pair in keys.windows(2) {
            for (key, rule) in pair.iter().zip([5, 9]) {
                remember(*key, Rule(rule));
            }
            let rules = [0, 1].map(|i: usize| entries_of_key(pair[i]).iter().find_map(|place| place.read(pair[i])));
            assert_eq!(rules, [Some(Rule(5)), Some(Rule(9))]);
        }
    }
}
