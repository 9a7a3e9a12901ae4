//! The values in the columns of tables: the kinds, and the buffers that hold the rows of one group.
//!
//! A table is a list of kinds with names, so that its schema, its page and its files come from one place. The crate `parquet`
//! encodes the values.

use foldhash::fast::RandomState;
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{BoolType, ByteArray, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedRowGroupWriter;
use std::collections::HashMap;
use std::fs::File;

/// A group of rows in the making.
pub type Group<'a> = SerializedRowGroupWriter<'a, File>;

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
    /// The type that readers see.
    const TYPE: Type;
    /// True if values may be null.
    const IS_OPTIONAL: bool = false;
    /// True if values differ in nearly every row, and mostly rise.
    const IS_MONOTONIC: bool = false;

    /// Adds a value.
    fn push(buffer: &mut Self::Buffer, cell: Self::Cell<'_>);
    /// Adds a row without a value, where that is allowed.
    fn push_none(buffer: &mut Self::Buffer);
}

/// The values of one column in a group.
pub trait Buffer {
    /// Removes all values.
    fn clear(&mut self);
    /// The bytes of its different texts.
    fn weight(&self) -> usize {
        0
    }
    /// Writes them, in this order where one is given.
    fn write(&self, order: Option<&[u32]>, is_optional: bool, group: &mut Group) -> Result<()>;
}

/// A column that may have nulls.
pub struct Maybe<K>(std::marker::PhantomData<K>);

impl<K: Kind> Kind for Maybe<K> {
    type Cell<'a> = Option<K::Cell<'a>>;
    type Buffer = K::Buffer;
    const TYPE: Type = K::TYPE;
    const IS_OPTIONAL: bool = true;
    const IS_MONOTONIC: bool = K::IS_MONOTONIC;

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
        let text = match buffer.known.get(cell) {
            Some(text) => text.clone(),
            None => {
                let text = ByteArray::from(cell);
                buffer.known.insert(cell.into(), text.clone());
                buffer.bytes += cell.len();
                text
            }
        };
        buffer.values.push(Some(text));
    }

    fn push_none(buffer: &mut Texts) {
        buffer.values.push(None);
    }
}

/// Texts, each different one once in memory.
#[derive(Default)]
pub struct Texts {
    values: Vec<Option<ByteArray>>,
    known: HashMap<Box<str>, ByteArray, RandomState>,
    bytes: usize,
}

impl Buffer for Texts {
    fn clear(&mut self) {
        self.values.clear();
        self.known.clear();
        self.bytes = 0;
    }

    fn weight(&self) -> usize {
        self.bytes
    }

    fn write(&self, order: Option<&[u32]>, is_optional: bool, group: &mut Group) -> Result<()> {
        column::<parquet::data_type::ByteArrayType>(&self.values, order, is_optional, group)
    }
}

/// Defines a kind that stores its values unchanged.
macro_rules! plain {
    ($(#[doc = $doc:literal])+ $kind:ident: $cell:ty as $physical:ty, $type:ident $(, monotonic $monotonic:literal)?) => {
        $(#[doc = $doc])+
        pub struct $kind;

        impl Kind for $kind {
            type Cell<'a> = $cell;
            type Buffer = Plain<$physical>;
            const TYPE: Type = Type::$type;
            $(const IS_MONOTONIC: bool = $monotonic;)?

            #[inline]
            fn push(buffer: &mut Self::Buffer, cell: $cell) {
                buffer.0.push(Some(cell));
            }

            fn push_none(buffer: &mut Self::Buffer) {
                buffer.0.push(None);
            }
        }
    };
}

plain! {
    /// A small number.
    Int: i32 as Int32Type, Int
}
plain! {
    /// A number that many rows share.
    Long: i64 as Int64Type, Long
}
plain! {
    /// A moment, or a number that grows from row to row.
    Monotonic: i64 as Int64Type, Long, monotonic true
}
plain! {
    /// A truth value.
    Flag: bool as BoolType, Flag
}

/// Unchanged values.
pub struct Plain<T: DataType>(pub Vec<Option<T::T>>);

impl<T: DataType> Default for Plain<T> {
    fn default() -> Self {
        Plain(Vec::new())
    }
}

impl<T: DataType> Buffer for Plain<T> {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn write(&self, order: Option<&[u32]>, is_optional: bool, group: &mut Group) -> Result<()> {
        column::<T>(&self.0, order, is_optional, group)
    }
}

/// Writes the next column of a group.
pub fn column<T: DataType>(
    rows: &[Option<T::T>],
    order: Option<&[u32]>,
    is_optional: bool,
    group: &mut Group,
) -> Result<()> {
    let rows = ordered(rows, order);
    let levels = is_optional.then(|| rows.iter().map(|row| i16::from(row.is_some())).collect::<Vec<_>>());
    let values: Vec<T::T> = rows.iter().flatten().cloned().collect();
    let missing = || ParquetError::General("there are more columns than in the schema".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let writer: &mut ColumnWriterImpl<T> = column.typed::<T>();
    writer.write_batch(&values, levels.as_deref(), None)?;
    column.close()
}

/// The values in an order.
pub fn ordered<'a, T: Clone>(values: &'a [T], order: Option<&[u32]>) -> std::borrow::Cow<'a, [T]> {
    match order {
        Some(order) => order.iter().map(|at| values[*at as usize].clone()).collect(),
        None => values.into(),
    }
}
