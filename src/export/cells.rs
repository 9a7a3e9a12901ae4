//! What stands in the columns of tables: the kinds, and the buffers that hold the rows of one group.
//!
//! What belongs here: how a value is kept until its group is written. A table is a list of kinds with names, so that
//! its schema, its page and what is written come from one place.

use crate::chunk::{self, Group, NONE, Value};
use cupeer_report::model::Fingerprint;
use foldhash::fast::RandomState;
use parquet::errors::Result;
use parquet::schema::types::ColumnDescPtr;
use std::collections::HashMap;
use std::hash::Hash;

/// The types of columns, as engines know them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// UTF-8.
    Text,
    /// 32 bits, signed.
    Int,
    /// 64 bits, signed.
    Long,
    /// True or false.
    Flag,
}

/// A kind of column.
pub trait Kind {
    /// A value.
    type Cell<'a>;
    /// The values of a group.
    type Buffer: Buffer + Default;
    /// What readers see.
    const TYPE: Type;
    /// Whether there may be no value.
    const IS_OPTIONAL: bool = false;

    /// Adds a value.
    fn push(buffer: &mut Self::Buffer, cell: Self::Cell<'_>);
    /// Adds none, where that is allowed.
    fn push_none(buffer: &mut Self::Buffer);
}

/// The values of one column in a group.
pub trait Buffer {
    /// Forgets them.
    fn clear(&mut self);
    /// How many bytes its dictionary has, as far as they count.
    fn weight(&self) -> usize {
        0
    }
    /// Writes them, in this order where one is given.
    fn write(&mut self, order: Option<&[u32]>, column: &ColumnDescPtr, group: &mut Group) -> Result<()>;
}

/// A column of which some rows have no value.
pub struct Maybe<K>(std::marker::PhantomData<K>);

impl<K: Kind> Kind for Maybe<K> {
    type Cell<'a> = Option<K::Cell<'a>>;
    type Buffer = K::Buffer;
    const TYPE: Type = K::TYPE;
    const IS_OPTIONAL: bool = true;

    #[inline]
    fn push(buffer: &mut K::Buffer, cell: Option<K::Cell<'_>>) {
        match cell {
            Some(cell) => K::push(buffer, cell),
            None => K::push_none(buffer),
        }
    }

    fn push_none(buffer: &mut K::Buffer) {
        K::push_none(buffer);
    }
}

/// A text.
pub struct Text;

impl Kind for Text {
    type Cell<'a> = &'a str;
    type Buffer = Texts;
    const TYPE: Type = Type::Text;

    fn push(buffer: &mut Texts, cell: &str) {
        let code = buffer.code(cell);
        buffer.codes.push(code);
    }

    fn push_none(buffer: &mut Texts) {
        buffer.codes.push(NONE);
    }
}

/// A text that is nearly always one of a few that we know.
pub struct Word;

/// One of our own words, which are found by their place in memory, or another text.
#[derive(Clone, Copy)]
pub enum Name<'a> {
    /// Ours.
    Own(&'static str),
    /// A record's.
    Other(&'a str),
}

impl Kind for Word {
    type Cell<'a> = Name<'a>;
    type Buffer = Texts;
    const TYPE: Type = Type::Text;

    #[inline]
    fn push(buffer: &mut Texts, cell: Name<'_>) {
        let code = match cell {
            Name::Own(text) => buffer.code_of_own(text),
            Name::Other(text) => buffer.code(text),
        };
        buffer.codes.push(code);
    }

    fn push_none(buffer: &mut Texts) {
        buffer.codes.push(NONE);
    }
}

/// How many of our own words are found without a look at their letters.
const RECENT: usize = 64;

/// Texts by their codes.
pub struct Texts {
    codes: Vec<u32>,
    known: HashMap<Box<str>, u32, RandomState>,
    words: Vec<Box<str>>,
    bytes: usize,
    recent: [(usize, usize, u32); RECENT],
}

impl Default for Texts {
    fn default() -> Self {
        let (codes, words) = (Vec::new(), Vec::new());
        Texts { codes, known: HashMap::default(), words, bytes: 0, recent: [(0, 0, 0); RECENT] }
    }
}

impl Texts {
    fn code(&mut self, text: &str) -> u32 {
        if let Some(code) = self.known.get(text) {
            return *code;
        }
        let code = self.words.len() as u32;
        self.words.push(text.into());
        self.known.insert(text.into(), code);
        self.bytes += text.len();
        code
    }

    #[inline]
    fn code_of_own(&mut self, text: &'static str) -> u32 {
        let key = (text.as_ptr() as usize, text.len());
        let place = (key.0 ^ key.0 >> 6) % RECENT;
        let (at, length, code) = self.recent[place];
        if (at, length) == key && length > 0 {
            return code;
        }
        let code = self.code(text);
        self.recent[place] = (key.0, key.1, code);
        code
    }
}

impl Buffer for Texts {
    fn clear(&mut self) {
        self.codes.clear();
        self.known.clear();
        self.words.clear();
        self.bytes = 0;
        self.recent = [(0, 0, 0); RECENT];
    }

    fn weight(&self) -> usize {
        self.bytes
    }

    fn write(&mut self, order: Option<&[u32]>, column: &ColumnDescPtr, group: &mut Group) -> Result<()> {
        chunk::coded(column, &ordered(&self.codes, order), &self.words, group)
    }
}

/// What keeps numbers apart by codes.
pub struct Coded<T> {
    codes: Vec<u32>,
    known: HashMap<T, u32, RandomState>,
    values: Vec<T>,
    last: Option<(T, u32)>,
}

impl<T> Default for Coded<T> {
    fn default() -> Self {
        Coded { codes: Vec::new(), known: HashMap::default(), values: Vec::new(), last: None }
    }
}

impl<T: Copy + Eq + Hash> Coded<T> {
    #[inline]
    fn push(&mut self, value: T) {
        let code = match self.last {
            Some((last, code)) if last == value => code,
            _ => {
                let next = self.values.len() as u32;
                let code = *self.known.entry(value).or_insert(next);
                if code == next {
                    self.values.push(value);
                }
                self.last = Some((value, code));
                code
            }
        };
        self.codes.push(code);
    }

    fn clear(&mut self) {
        self.codes.clear();
        self.known.clear();
        self.values.clear();
        self.last = None;
    }
}

/// A small number.
pub struct Int;

impl Kind for Int {
    type Cell<'a> = i32;
    type Buffer = Coded<i32>;
    const TYPE: Type = Type::Int;

    #[inline]
    fn push(buffer: &mut Coded<i32>, cell: i32) {
        buffer.push(cell);
    }

    #[inline]
    fn push_none(buffer: &mut Coded<i32>) {
        buffer.codes.push(NONE);
    }
}

impl Buffer for Coded<i32> {
    fn clear(&mut self) {
        self.clear();
    }

    fn write(&mut self, order: Option<&[u32]>, column: &ColumnDescPtr, group: &mut Group) -> Result<()> {
        chunk::coded(column, &ordered(&self.codes, order), &self.values, group)
    }
}

/// A number, of which many rows have the same ones.
pub struct Long;

impl Kind for Long {
    type Cell<'a> = i64;
    type Buffer = Coded<i64>;
    const TYPE: Type = Type::Long;

    #[inline]
    fn push(buffer: &mut Coded<i64>, cell: i64) {
        buffer.push(cell);
    }

    #[inline]
    fn push_none(buffer: &mut Coded<i64>) {
        buffer.codes.push(NONE);
    }
}

/// Where a dictionary has no more than this, it is always used.
const FEW: usize = 1 << 10;

impl Buffer for Coded<i64> {
    fn clear(&mut self) {
        self.clear();
    }

    fn write(&mut self, order: Option<&[u32]>, column: &ColumnDescPtr, group: &mut Group) -> Result<()> {
        let codes = ordered(&self.codes, order);
        if self.values.len() <= FEW.max(codes.len() / 4) {
            return chunk::coded(column, &codes, &self.values, group);
        }
        // Nearly each row has another one: a dictionary would be all of them.
        let value = |code: &u32| self.values.get(*code as usize).copied().unwrap_or_default();
        let values: Vec<i64> = codes.iter().map(value).collect();
        let is_optional = column.max_def_level() > 0;
        let present: Vec<bool> =
            if is_optional { codes.iter().map(|code| *code != NONE).collect() } else { Vec::new() };
        chunk::numbers(&values, &present, group)
    }
}

/// What stands for a handle.
pub struct Print;

impl Kind for Print {
    type Cell<'a> = Fingerprint;
    type Buffer = Coded<u64>;
    const TYPE: Type = Type::Text;

    #[inline]
    fn push(buffer: &mut Coded<u64>, cell: Fingerprint) {
        buffer.push(cell.0);
    }

    #[inline]
    fn push_none(buffer: &mut Coded<u64>) {
        buffer.codes.push(NONE);
    }
}

impl Buffer for Coded<u64> {
    fn clear(&mut self) {
        self.clear();
    }

    fn write(&mut self, order: Option<&[u32]>, column: &ColumnDescPtr, group: &mut Group) -> Result<()> {
        let texts: Vec<Box<str>> =
            self.values.iter().map(|value| Fingerprint(*value).to_string().into()).collect();
        chunk::coded(column, &ordered(&self.codes, order), &texts, group)
    }
}

/// A moment or a number that grows from row to row.
pub struct Rising;

impl Kind for Rising {
    type Cell<'a> = i64;
    type Buffer = Numbers;
    const TYPE: Type = Type::Long;

    #[inline]
    fn push(buffer: &mut Numbers, cell: i64) {
        buffer.values.push(cell);
        if !buffer.present.is_empty() {
            buffer.present.push(true);
        }
    }

    fn push_none(buffer: &mut Numbers) {
        if buffer.present.is_empty() {
            buffer.present.resize(buffer.values.len(), true);
        }
        buffer.values.push(0);
        buffer.present.push(false);
    }
}

/// Numbers as they are.
#[derive(Default)]
pub struct Numbers {
    pub values: Vec<i64>,
    /// Empty where all are there.
    present: Vec<bool>,
}

impl Buffer for Numbers {
    fn clear(&mut self) {
        self.values.clear();
        self.present.clear();
    }

    fn write(&mut self, order: Option<&[u32]>, column: &ColumnDescPtr, group: &mut Group) -> Result<()> {
        if column.max_def_level() > 0 {
            self.present.resize(self.values.len(), true);
        }
        chunk::numbers(&ordered(&self.values, order), &ordered(&self.present, order), group)
    }
}

/// Whether something is so.
pub struct Flag;

impl Kind for Flag {
    type Cell<'a> = bool;
    type Buffer = Flags;
    const TYPE: Type = Type::Flag;

    #[inline]
    fn push(buffer: &mut Flags, cell: bool) {
        buffer.0.push(Some(cell));
    }

    fn push_none(buffer: &mut Flags) {
        buffer.0.push(None);
    }
}

/// Answers.
#[derive(Default)]
pub struct Flags(Vec<Option<bool>>);

impl Buffer for Flags {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn write(&mut self, order: Option<&[u32]>, column: &ColumnDescPtr, group: &mut Group) -> Result<()> {
        chunk::flags(&ordered(&self.0, order), column.max_def_level() > 0, group)
    }
}

/// A column that is the same for all rows of a process, by the numbers of the processes in the rows.
pub fn of_processes<T: Value + Clone + Eq + Hash>(
    column: &ColumnDescPtr,
    rows: &[u32],
    value: impl Fn(u32) -> Option<T>,
    group: &mut Group,
) -> Result<()> {
    let mut codes: HashMap<u32, u32, RandomState> = HashMap::default();
    let mut known: HashMap<T, u32, RandomState> = HashMap::default();
    let mut values = Vec::new();
    let mut last = (NONE, NONE);
    let mut is_first = true;
    let mut code = |row: u32| {
        if row == last.0 && !is_first {
            return last.1;
        }
        is_first = false;
        let code = *codes.entry(row).or_insert_with(|| match value(row) {
            None => NONE,
            Some(value) => *known.entry(value.clone()).or_insert_with(|| {
                values.push(value);
                values.len() as u32 - 1
            }),
        });
        last = (row, code);
        code
    };
    let codes: Vec<u32> = match rows.first() {
        // Mostly all are of one process.
        Some(first) if rows.iter().all(|row| row == first) => vec![code(*first); rows.len()],
        _ => rows.iter().map(|row| code(*row)).collect(),
    };
    chunk::coded(column, &codes, &values, group)
}

/// The values in an order.
pub fn ordered<'a, T: Copy>(values: &'a [T], order: Option<&[u32]>) -> std::borrow::Cow<'a, [T]> {
    match order.filter(|_| !values.is_empty()) {
        Some(order) => order.iter().map(|at| values[*at as usize]).collect(),
        None => values.into(),
    }
}
