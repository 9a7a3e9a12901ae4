//! Values in the columns of tables, and the buffers that hold one group of rows.
//!
//! A column has the type of a field of its row. The crate `parquet` encodes the values.

use foldhash::fast::RandomState;
use parquet::basic::Type;
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedRowGroupWriter;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;

/// Writer of one group of rows.
pub type Group<'a> = SerializedRowGroupWriter<'a, File>;

/// One value of a row; `None` is null.
#[derive(Clone, Copy)]
pub enum Cell<'a> {
    Text(Option<&'a str>),
    Int(Option<i32>),
    Long(Option<i64>),
    Flag(Option<bool>),
}

/// Type of a field of a row: its type in a column, and its conversion to a cell.
pub trait Value {
    /// Type of the column that stores such values.
    const TYPE: Type;
    /// True if values may be null.
    const IS_OPTIONAL: bool;

    /// Returns the value as a cell.
    fn cell(&self) -> Cell<'_>;
}

macro_rules! values {
    ($($type:ty: $physical:ident as $cell:ident),+ $(,)?) => {$(
        impl Value for $type {
            const TYPE: Type = Type::$physical;
            const IS_OPTIONAL: bool = false;

            fn cell(&self) -> Cell<'_> {
                Cell::$cell(Some(*self))
            }
        }

        impl Value for Option<$type> {
            const TYPE: Type = Type::$physical;
            const IS_OPTIONAL: bool = true;

            fn cell(&self) -> Cell<'_> {
                Cell::$cell(*self)
            }
        }
    )+};
}
values!(&str: BYTE_ARRAY as Text, i32: INT32 as Int, i64: INT64 as Long, bool: BOOLEAN as Flag);

/// Buffer with the values of one column in a group of rows.
pub enum Buffer {
    Text(TextColumn),
    Int(Vec<Option<i32>>),
    Long(Vec<Option<i64>>),
    Flag(Vec<Option<bool>>),
}

/// Texts of a column. Equal texts share their memory.
#[derive(Default)]
pub struct TextColumn {
    values: Vec<Option<ByteArray>>,
    known: HashMap<Box<str>, ByteArray, RandomState>,
    /// Number of bytes of the distinct texts.
    bytes: usize,
}

impl TextColumn {
    fn push(&mut self, text: Option<&str>) {
        let shared = text.map(|text| match self.known.get(text) {
            Some(known) => known.clone(),
            None => {
                let new = ByteArray::from(text);
                self.known.insert(text.into(), new.clone());
                self.bytes += text.len();
                new
            }
        });
        self.values.push(shared);
    }
}

impl Buffer {
    pub fn new(of: Type) -> Buffer {
        match of {
            Type::INT32 => Buffer::Int(Vec::new()),
            Type::INT64 => Buffer::Long(Vec::new()),
            Type::BOOLEAN => Buffer::Flag(Vec::new()),
            _ => Buffer::Text(TextColumn::default()),
        }
    }

    pub fn push(&mut self, cell: Cell) {
        match (self, cell) {
            (Buffer::Text(texts), Cell::Text(text)) => texts.push(text),
            (Buffer::Int(all), Cell::Int(number)) => all.push(number),
            (Buffer::Long(all), Cell::Long(number)) => all.push(number),
            (Buffer::Flag(all), Cell::Flag(flag)) => all.push(flag),
            _ => unreachable!("a column and its cells have one type"),
        }
    }

    /// Returns the number of bytes that the texts of a buffer take; 0 for a buffer of other values.
    pub fn text_bytes(&self) -> usize {
        if let Buffer::Text(texts) = self { texts.bytes } else { 0 }
    }

    /// Writes the values as the next column of a group: all, or those at the given positions.
    pub fn write_column(&self, order: Option<&[u32]>, is_optional: bool, group: &mut Group) -> Result<()> {
        match self {
            Buffer::Text(texts) => write_values::<ByteArrayType>(&texts.values, order, is_optional, group),
            Buffer::Int(all) => write_values::<Int32Type>(all, order, is_optional, group),
            Buffer::Long(all) => write_values::<Int64Type>(all, order, is_optional, group),
            Buffer::Flag(all) => write_values::<BoolType>(all, order, is_optional, group),
        }
    }
}

fn write_values<T: DataType>(
    rows: &[Option<T::T>],
    order: Option<&[u32]>,
    is_optional: bool,
    group: &mut Group,
) -> Result<()> {
    let rows = in_order(rows, order);
    let levels = is_optional.then(|| rows.iter().map(|row| i16::from(row.is_some())).collect::<Vec<_>>());
    let values: Vec<T::T> = rows.iter().flatten().cloned().collect();
    let missing = || ParquetError::General("there are more columns than in the schema".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let writer: &mut ColumnWriterImpl<T> = column.typed::<T>();
    writer.write_batch(&values, levels.as_deref(), None)?;
    column.close()
}

/// Returns all values, or those at the given positions.
pub fn in_order<'a, T: Clone>(values: &'a [T], order: Option<&[u32]>) -> Cow<'a, [T]> {
    match order {
        Some(order) => order.iter().map(|at| values[*at as usize].clone()).collect(),
        None => values.into(),
    }
}
