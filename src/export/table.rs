//! Tables: a definition, from which the schema, the page, and the files derive, and the writer of files.
//!
//! The code here is common to all tables. [`crate::tables`] defines each of them.

use crate::cells::{Buffer, Value, in_order};
use crate::keys::{self, Column, ProcessKeys};
use crate::options::WrittenSize;
use anyhow::{Context, Result};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as Schema, TypePtr};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Version of the tables. Columns may be added without a new version.
pub const VERSION: &str = "cupeer-export/1";

/// Largest number of rows in a row group. Readers skip whole groups and distribute them among threads. One
/// group is in memory at a time.
const ROWS: usize = 1 << 18;
/// Number of bytes of text from which a row group is full; tested at every 1024th row.
const BYTES: usize = 32 << 20;
/// Length in bytes of the longest text that is stored in the statistics, by which readers skip rows.
const LONGEST: usize = 64;

/// Columns whose values differ in nearly every row, like those by which tables are sorted: a dictionary of them
/// saves nothing.
const DISTINCT: [&str; 2] = ["duration_ns", "seq"];

/// Definition of a table.
pub struct Spec {
    /// Name of the table.
    pub name: &'static str,
    /// Description for users.
    pub about: &'static str,
    /// Column by which the rows of a group are sorted.
    pub sorted_by: &'static str,
    /// All columns: the key columns, and then the fields of the rows.
    pub columns: Vec<Column>,
}

/// Table whose rows have one type.
pub trait Table {
    /// Row of the table, without the columns that name its process.
    type Row<'a>;

    /// Returns the definition of the table.
    fn spec() -> Spec;
    /// Adds a row to the buffers of the table's own columns.
    fn push(row: &Self::Row<'_>, buffers: &mut [Buffer]);
}

/// Defines a table by the structure of its rows. `of processes: true` says that all rows have a process.
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        $table:ident: $row:ident $(<$life:lifetime>)? = $name:literal of processes: $of_processes:literal, sorted by $by:ident {
            $( $(#[doc = $doc:literal])+ $column:ident: $value:ty, )+
        }
    ) => {
        $(#[doc = $about])+
        pub struct $table;

        $(#[doc = $about])+
        pub struct $row $(<$life>)? { $( $(#[doc = $doc])+ pub $column: $value, )+ }

        impl $(<$life>)? $row $(<$life>)? {
            fn columns() -> Vec<$crate::keys::Column> {
                vec![$( $crate::table::column::<$value>(stringify!($column), concat!($($doc),+)) ),+]
            }
        }

        impl $crate::table::Table for $table {
            type Row<'a> = $row $(<$life>)?;

            fn spec() -> $crate::table::Spec {
                $crate::table::Spec {
                    name: $name,
                    about: concat!($($about),+),
                    sorted_by: stringify!($by),
                    columns: $crate::keys::columns($of_processes).chain($row::columns()).collect(),
                }
            }

            fn push(row: &Self::Row<'_>, buffers: &mut [$crate::cells::Buffer]) {
                let cells = [$( $crate::cells::Value::cell(&row.$column) ),+];
                buffers.iter_mut().zip(cells).for_each(|(buffer, cell)| buffer.push(cell));
            }
        }
    };
}
pub(crate) use table;

/// Returns the column of a field.
pub fn column<V: Value>(name: &'static str, about: &'static str) -> Column {
    Column { name, column_type: V::TYPE, is_optional: V::IS_OPTIONAL, about }
}

fn build_schema(spec: &Spec) -> parquet::errors::Result<TypePtr> {
    let field = |column: &Column| {
        let repetition = if column.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let logical = (column.column_type == Type::BYTE_ARRAY).then_some(LogicalType::String);
        let field = Schema::primitive_type_builder(column.name, column.column_type);
        Ok(Arc::new(field.with_repetition(repetition).with_logical_type(logical).build()?))
    };
    let fields = spec.columns.iter().map(field).collect::<parquet::errors::Result<Vec<_>>>()?;
    Ok(Arc::new(Schema::group_type_builder(spec.name).with_fields(fields).build()?))
}

fn build_properties(spec: &Spec, sorted_by: usize) -> WriterPropertiesPtr {
    let pair = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let sorting = SortingColumn { column_idx: sorted_by as i32, descending: false, nulls_first: false };
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_truncate_length(Some(LONGEST))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(None)
        .set_created_by(concat!("cupeer version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![pair("cupeer.schema", VERSION), pair("cupeer.table", spec.name)]))
        .set_sorting_columns(Some(vec![sorting]));
    for column in spec.columns.iter().filter(|column| column.column_type == Type::INT64) {
        let path = ColumnPath::from(column.name);
        let is_distinct = column.name == spec.sorted_by || DISTINCT.contains(&column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), !is_distinct)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Arc::new(properties.build())
}

/// The file of a part of a table, with the group of rows that is being filled.
pub struct TablePart<T: Table> {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    spec: Spec,
    keys: Arc<Vec<ProcessKeys>>,
    /// Indexes of the rows' processes; [`NOBODY`] for a row about no process.
    processes: Vec<u32>,
    /// Values of the table's own columns.
    buffers: Vec<Buffer>,
    /// Index of the buffer by which the rows are sorted.
    sorted_by: usize,
    /// Number of rows that were added.
    count: u64,
    table: PhantomData<T>,
}

/// Index that stands for no process.
pub const NOBODY: u32 = u32::MAX;

/// Rows and bytes written, by table.
pub type Tables = BTreeMap<&'static str, WrittenSize>;

impl<T: Table> TablePart<T> {
    /// Creates part `number` of a table in the directory `node`.
    pub fn create(directory: &Path, node: &str, number: usize, keys: &Arc<Vec<ProcessKeys>>) -> Result<TablePart<T>> {
        let spec = T::spec();
        let folder = directory.join(spec.name).join(format!("node={node}"));
        let path = folder.join(format!("part-{number}.parquet"));
        let failed = || format!("failed to write {}", path.display());
        fs::create_dir_all(&folder).with_context(failed)?;
        let file = File::create_new(&path).with_context(failed)?;
        let own = &spec.columns[keys::COUNT..];
        let buffers = new_buffers(own);
        let sorted_by = own.iter().position(|column| column.name == spec.sorted_by).unwrap_or(0);
        let properties = build_properties(&spec, keys::COUNT + sorted_by);
        let writer = SerializedFileWriter::new(file, build_schema(&spec).with_context(failed)?, properties);
        let writer = writer.with_context(failed)?;
        let keys = keys.clone();
        Ok(TablePart {
            path,
            writer,
            spec,
            keys,
            processes: Vec::new(),
            buffers,
            sorted_by,
            count: 0,
            table: PhantomData,
        })
    }

    /// Adds a row about a process, and writes the group if it is full.
    pub fn push_row(&mut self, process: u32, row: &T::Row<'_>) -> Result<()> {
        self.processes.push(process);
        T::push(row, &mut self.buffers);
        self.count += 1;
        let is_full = self.processes.len() >= ROWS
            || self.processes.len().is_multiple_of(1024)
                && self.buffers.iter().map(Buffer::text_bytes).sum::<usize>() >= BYTES;
        if is_full { self.flush_group() } else { Ok(()) }
    }

    fn flush_group(&mut self) -> Result<()> {
        self.write_group().with_context(|| format!("failed to write {}", self.path.display()))?;
        self.processes.clear();
        self.buffers = new_buffers(&self.spec.columns[keys::COUNT..]);
        Ok(())
    }

    fn write_group(&mut self) -> parquet::errors::Result<()> {
        let order =
            if let Buffer::Long(moments) = &self.buffers[self.sorted_by] { ascending_order(moments) } else { None };
        let processes = in_order(&self.processes, order.as_deref());
        let (keys, own) = self.spec.columns.split_at(keys::COUNT);
        let mut group = self.writer.next_row_group()?;
        for (index, key) in keys.iter().enumerate() {
            let mut buffer = Buffer::new(key.column_type);
            let cells = processes.iter().map(|process| keys::key_cells(&self.keys, *process as usize)[index]);
            cells.for_each(|cell| buffer.push(cell));
            buffer.write_column(None, key.is_optional, &mut group)?;
        }
        for (buffer, column) in self.buffers.iter().zip(own) {
            buffer.write_column(order.as_deref(), column.is_optional, &mut group)?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the remaining rows and the end of the file, and adds the file's size to the sizes in `tables`.
    /// Deletes a file without rows unless `is_kept` is true.
    pub fn finish(mut self, is_kept: bool, tables: &mut Tables) -> Result<()> {
        if !self.processes.is_empty() {
            self.flush_group()?;
        }
        let failed = || format!("failed to write {}", self.path.display());
        if self.count == 0 && !is_kept {
            fs::remove_file(&self.path).with_context(failed)?;
            // Removing the directory fails if it contains other files, which is fine.
            let _ = self.path.parent().map(fs::remove_dir);
            return Ok(());
        }
        self.writer.finish().with_context(failed)?;
        let bytes = self.writer.bytes_written() as u64;
        tables.entry(self.spec.name).or_default().add(WrittenSize { rows: self.count, files: 1, bytes });
        Ok(())
    }
}

fn new_buffers(columns: &[Column]) -> Vec<Buffer> {
    columns.iter().map(|column| Buffer::new(column.column_type)).collect()
}

/// Returns the positions of these values in ascending order; `None` if the values are already in order.
fn ascending_order(moments: &[Option<i64>]) -> Option<Vec<u32>> {
    if moments.is_sorted() {
        return None;
    }
    let mut order: Vec<u32> = (0..moments.len() as u32).collect();
    order.sort_by_key(|at| moments[*at as usize]);
    Some(order)
}
