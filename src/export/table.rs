//! Tables: a definition, from which the schema, the page, and the files derive, and the writer of files.
//!
//! The code here is common to all tables. [`crate::tables`] defines each of them.

use crate::cells::{Buffer, Group, Type, ordered};
use crate::keys::{Column, KEYS, Keys};
use crate::options::Written;
use anyhow::{Context, Result};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as Schema, TypePtr};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The version of the tables; columns may be added in the same one.
pub const VERSION: &str = "cupeer-export/1";

/// The most rows of a row group. Readers skip whole groups and distribute them among threads. One group is in
/// memory at a time.
const ROWS: usize = 1 << 18;
/// The most bytes of texts in a group.
const BYTES: usize = 32 << 20;
/// The longest text that is stored in statistics, which help readers to skip rows.
const LONGEST: usize = 64;

/// A table, with the rows of one group.
pub trait Table: Default + Send {
    /// Name of the table.
    const NAME: &'static str;
    /// Description for users.
    const ABOUT: &'static str;
    /// True if all rows are about a process of the recording.
    const IS_OF_PROCESSES: bool;
    /// Column by which the rows are sorted.
    const SORTED_BY: Option<&'static str>;
    /// A row, without the columns that name its process.
    type Row<'a>;

    /// Returns the table's own columns.
    fn own() -> Vec<Column>;
    /// Adds a row.
    fn push(&mut self, row: Self::Row<'_>);
    /// Returns the buffers of the table's own columns, in the same order.
    fn buffers(&mut self) -> Vec<&mut dyn Buffer>;
    /// Returns the values by which the rows are sorted.
    fn order(&self) -> &[Option<i64>];
}

/// All columns of a table: those that name the process first.
pub fn columns<T: Table>() -> Vec<Column> {
    KEYS.iter().map(|key| key.column(T::IS_OF_PROCESSES)).chain(T::own()).collect()
}

/// Defines a table: its rows, its columns and their buffers.
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        $table:ident, $row:ident = $name:literal of $of:ident sorted by $by:ident {
            $( $(#[doc = $doc:literal])+ $column:ident: $kind:ty, )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Default)]
        pub struct $table { $( $column: <$kind as Kind>::Buffer, )+ }

        $(#[doc = $about])+
        pub struct $row<'a> { $( $(#[doc = $doc])+ pub $column: <$kind as Kind>::Cell<'a>, )+ }

        impl $crate::table::Table for $table {
            const NAME: &'static str = $name;
            const ABOUT: &'static str = concat!($($about),+);
            const IS_OF_PROCESSES: bool = $crate::table::is_of!($of);
            const SORTED_BY: Option<&'static str> = Some(stringify!($by));
            type Row<'a> = $row<'a>;

            fn own() -> Vec<$crate::keys::Column> {
                vec![$( $crate::keys::Column {
                    name: stringify!($column),
                    holds: <$kind as Kind>::TYPE,
                    is_optional: <$kind as Kind>::IS_OPTIONAL,
                    is_monotonic: <$kind as Kind>::IS_MONOTONIC,
                    about: concat!($($doc),+),
                } ),+]
            }

            #[inline]
            fn push(&mut self, row: $row<'_>) {
                $( <$kind as Kind>::push(&mut self.$column, row.$column); )+
            }

            fn buffers(&mut self) -> Vec<&mut dyn $crate::cells::Buffer> {
                vec![$( &mut self.$column ),+]
            }

            fn order(&self) -> &[Option<i64>] {
                &self.$by.0
            }
        }
    };
}
pub(crate) use table;

macro_rules! is_of {
    (processes) => {
        true
    };
    (anything) => {
        false
    };
}
pub(crate) use is_of;

fn schema(name: &str, columns: &[Column]) -> parquet::errors::Result<TypePtr> {
    let field = |column: &Column| {
        let (physical, logical) = match column.holds {
            Type::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Type::Int => (Physical::INT32, None),
            Type::Long => (Physical::INT64, None),
            Type::Flag => (Physical::BOOLEAN, None),
        };
        let repetition = if column.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Schema::primitive_type_builder(column.name, physical);
        Ok(Arc::new(field.with_repetition(repetition).with_logical_type(logical).build()?))
    };
    let fields = columns.iter().map(field).collect::<parquet::errors::Result<Vec<_>>>()?;
    Ok(Arc::new(Schema::group_type_builder(name).with_fields(fields).build()?))
}

fn properties(name: &str, columns: &[Column], sorted_by: Option<&str>) -> WriterPropertiesPtr {
    let pair = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_truncate_length(Some(LONGEST))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(None)
        .set_created_by(concat!("cupeer version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![pair("cupeer.schema", VERSION), pair("cupeer.table", name)]));
    for column in columns.iter().filter(|column| column.holds == Type::Long) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), !column.is_monotonic)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    let place = columns.iter().position(|column| Some(column.name) == sorted_by);
    let sorting =
        place.map(|at| vec![SortingColumn { column_idx: at as i32, descending: false, nulls_first: false }]);
    Arc::new(properties.set_sorting_columns(sorting).build())
}

/// The file of a part of a table.
pub struct Part<T: Table> {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    keys: Arc<Vec<Keys>>,
    /// Indexes of the rows' processes; [`NOBODY`] if there is none.
    processes: Vec<u32>,
    rows: T,
    /// Number of rows that were added.
    pub count: u64,
}

/// Index for no process.
pub const NOBODY: u32 = u32::MAX;

impl<T: Table> Part<T> {
    /// Creates part `number` of a table in the directory `node`.
    pub fn create(directory: &Path, node: &str, number: usize, keys: &Arc<Vec<Keys>>) -> Result<Part<T>> {
        let folder = directory.join(T::NAME).join(format!("node={node}"));
        let path = folder.join(format!("part-{number}.parquet"));
        let failed = || format!("failed to write {}", path.display());
        fs::create_dir_all(&folder).with_context(failed)?;
        let file = File::create_new(&path).with_context(failed)?;
        let columns = columns::<T>();
        let schema = schema(T::NAME, &columns).with_context(failed)?;
        let writer = SerializedFileWriter::new(file, schema, properties(T::NAME, &columns, T::SORTED_BY));
        let writer = writer.with_context(failed)?;
        Ok(Part { path, writer, keys: keys.clone(), processes: Vec::new(), rows: T::default(), count: 0 })
    }

    /// Adds a row about a process.
    #[inline]
    pub fn push(&mut self, process: u32, row: T::Row<'_>) {
        self.processes.push(process);
        self.rows.push(row);
        self.count += 1;
    }

    /// Writes a group where one is full.
    #[inline]
    pub fn settle(&mut self) -> Result<()> {
        if self.processes.len() >= ROWS
            || self.processes.len().is_multiple_of(1024)
                && self.rows.buffers().iter().map(|buffer| buffer.weight()).sum::<usize>() >= BYTES
        {
            return self.flush();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.processes.is_empty() {
            return Ok(());
        }
        self.write().with_context(|| format!("failed to write {}", self.path.display()))?;
        self.processes.clear();
        self.rows.buffers().into_iter().for_each(Buffer::clear);
        Ok(())
    }

    fn write(&mut self) -> parquet::errors::Result<()> {
        let order = sorted(self.rows.order());
        let processes = ordered(&self.processes, order.as_deref());
        let columns = columns::<T>();
        let mut group: Group = self.writer.next_row_group()?;
        for (key, Column { is_optional, .. }) in KEYS.iter().zip(&columns) {
            key.write(&self.keys, &processes, *is_optional, &mut group)?;
        }
        for (buffer, Column { is_optional, .. }) in
            self.rows.buffers().into_iter().zip(&columns[KEYS.len()..])
        {
            buffer.write(order.as_deref(), *is_optional, &mut group)?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the rest of the rows, and the end of the file. A file without rows is deleted, unless it must
    /// be kept.
    pub fn finish(mut self, is_kept: bool) -> Result<Option<Written>> {
        self.flush()?;
        let failed = || format!("failed to write {}", self.path.display());
        if self.count == 0 && !is_kept {
            fs::remove_file(&self.path).with_context(failed)?;
            // Fails if the directory contains other files.
            let _ = self.path.parent().map(fs::remove_dir);
            return Ok(None);
        }
        self.writer.finish().with_context(failed)?;
        Ok(Some(Written { rows: self.count, files: 1, bytes: self.writer.bytes_written() as u64 }))
    }
}

/// In which order these rise, where it is not the one in which they are.
fn sorted(moments: &[Option<i64>]) -> Option<Vec<u32>> {
    if moments.is_sorted() {
        return None;
    }
    let mut order: Vec<u32> = (0..moments.len() as u32).collect();
    order.sort_by_key(|at| moments[*at as usize]);
    Some(order)
}
