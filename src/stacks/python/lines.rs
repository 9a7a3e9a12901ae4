//! Decodes the tables that map an instruction of a code object to its line, for each version of CPython. Any bytes are
//! a valid table or none.
//!
//! `mod` finds and reads the tables.

/// The format of a table that maps instructions to lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineTableForm {
    /// Python 3.9: pairs of a number of bytes and a number of lines to add (`Objects/lnotab_notes.txt`).
    Later,
    /// Python 3.10: ranges of bytes, each with its line (PEP 626).
    Ranges,
    /// Python 3.11 and later: ranges of instructions with their positions (PEP 657, `Objects/locations.md`).
    Positions,
}

/// Returns the line of the instruction at byte `at` of a code object. `first` is the code object's first line, and `next` returns
/// the next byte of the table. Returns `None` if the instruction has no line, or the table lacks it.
pub fn line_of(form: LineTableForm, first: i32, at: usize, mut next: impl FnMut() -> Option<u8>) -> Option<u32> {
    let mut line = i64::from(first);
    let mut end = 0usize;
    match form {
        LineTableForm::Later => {
            while let Some(bytes) = next() {
                end += usize::from(bytes);
                if end > at {
                    break;
                }
                line += i64::from(next()? as i8);
            }
            valid_line(line)
        }
        LineTableForm::Ranges => loop {
            end += usize::from(next()?);
            let delta = next()? as i8;
            let has_line = delta != i8::MIN;
            line += if has_line { i64::from(delta) } else { 0 };
            if end > at {
                return valid_line(line).filter(|_| has_line);
            }
        },
        LineTableForm::Positions => {
            let mut head = next()?;
            loop {
                end += 2 * (usize::from(head & 7) + 1);
                let kind = head >> 3 & 15;
                let mut following = next();
                match kind {
                    ONE_LINE_1 | ONE_LINE_2 => line += i64::from(kind - ONE_LINE_0),
                    NO_COLUMNS | LONG => line += read_signed(&mut following, &mut next)?,
                    _ => {}
                }
                if end > at {
                    return valid_line(line).filter(|_| kind != NONE);
                }
                // Skips the columns of the entry.
                while following? & HEAD == 0 {
                    following = next();
                }
                head = following?;
            }
        }
    }
}

/// Bit that is set only in the first byte of an entry.
const HEAD: u8 = 0x80;
const ONE_LINE_0: u8 = 10;
const ONE_LINE_1: u8 = 11;
const ONE_LINE_2: u8 = 12;
const NO_COLUMNS: u8 = 13;
const LONG: u8 = 14;
const NONE: u8 = 15;

/// Reads a signed number in groups of six bits, the lowest group first. The lowest bit of the number is its sign. `following` is
/// the number's first byte before the call, and the byte after the number afterwards.
fn read_signed(following: &mut Option<u8>, next: &mut impl FnMut() -> Option<u8>) -> Option<i64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let byte = (*following)?;
        *following = next();
        value |= u64::from(byte & 0x3f).checked_shl(shift)?;
        shift += 6;
        if byte & 0x40 == 0 {
            let size = i64::try_from(value >> 1).ok().filter(|size| *size <= i64::from(u32::MAX))?;
            return Some(if value & 1 == 1 { -size } else { size });
        }
    }
}

fn valid_line(line: i64) -> Option<u32> {
    u32::try_from(line).ok().filter(|line| *line > 0)
}
