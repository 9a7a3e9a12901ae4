//! One column of a row group, from the values to its bytes in a file.
//!
//! What belongs here: pages. What has a dictionary is encoded here: nearly all columns are names or small numbers in
//! long runs, and we know the dictionary before we write. Everything else is the crate's.

use crate::hybrid;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{BoolType, ByteArray, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::fs::File;

/// The code of a value that there is not.
pub const NONE: u32 = u32::MAX;

/// How many rows have a page.
const PAGE: usize = 1 << 16;
/// The longest text that stands in statistics, where it helps a reader to skip rows.
const LONGEST: usize = 64;

/// A group of rows in the making.
pub type Group<'a> = SerializedRowGroupWriter<'a, File>;

/// What can stand in a dictionary.
pub trait Value {
    /// Appends it as Parquet has it.
    fn put(&self, out: &mut Vec<u8>);

    /// The least and the greatest of some.
    fn statistics(all: &[Self], nulls: u64) -> Option<Statistics>
    where
        Self: Sized;
}

impl Value for i32 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn statistics(all: &[Self], nulls: u64) -> Option<Statistics> {
        Some(Statistics::int32(
            all.iter().min().copied(),
            all.iter().max().copied(),
            None,
            Some(nulls),
            false,
        ))
    }
}

impl Value for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn statistics(all: &[Self], nulls: u64) -> Option<Statistics> {
        Some(Statistics::int64(
            all.iter().min().copied(),
            all.iter().max().copied(),
            None,
            Some(nulls),
            false,
        ))
    }
}

impl Value for Box<str> {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend((self.len() as u32).to_le_bytes());
        out.extend(self.as_bytes());
    }

    fn statistics(all: &[Self], nulls: u64) -> Option<Statistics> {
        let [least, most] = [all.iter().min(), all.iter().max()]
            .map(|text| text.filter(|text| text.len() <= LONGEST).map(|text| ByteArray::from(&**text)));
        if least.is_some() != most.is_some() {
            return None;
        }
        let statistics = ValueStatistics::new(least, most, None, Some(nulls), false);
        Some(Statistics::ByteArray(statistics.with_min_is_exact(true).with_max_is_exact(true)))
    }
}

/// Writes a column by the codes of its values in a dictionary; [`NONE`] where there is none.
pub fn coded<T: Value>(
    column: &ColumnDescPtr,
    codes: &[u32],
    dictionary: &[T],
    group: &mut Group,
) -> Result<()> {
    let mut bytes = TrackedWrite::new(Vec::new());
    let is_optional = column.max_def_level() > 0;
    let mut sizes = [0, 0];
    let mut plain = Vec::new();
    dictionary.iter().for_each(|value| value.put(&mut plain));
    let mut add = |page: Page, size: usize, bytes: &mut TrackedWrite<Vec<u8>>| -> Result<()> {
        let spec = SerializedPageWriter::new(bytes).write_page(CompressedPage::new(page, size))?;
        sizes = [sizes[0] + spec.uncompressed_size, sizes[1] + spec.compressed_size];
        Ok(())
    };
    let page = Page::DictionaryPage {
        buf: compressed(&plain)?,
        num_values: dictionary.len() as u32,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    add(page, plain.len(), &mut bytes)?;
    let first = bytes.bytes_written();
    let width = hybrid::width(dictionary.len());
    let mut nulls = 0;
    let mut there = Vec::new();
    for codes in codes.chunks(PAGE) {
        plain.clear();
        let mut given = codes;
        if is_optional {
            there.clear();
            there.extend(codes.iter().copied().filter(|code| *code != NONE));
            let missing = codes.len() - there.len();
            plain.extend([0; 4]);
            // Mostly all are there, or none is.
            if missing == 0 || there.is_empty() {
                hybrid::run(u32::from(missing == 0), codes.len(), 1, &mut plain);
            } else {
                let levels: Vec<u32> = codes.iter().map(|code| u32::from(*code != NONE)).collect();
                hybrid::encode(&levels, 1, &mut plain);
            }
            let size = (plain.len() - 4) as u32;
            plain[..4].copy_from_slice(&size.to_le_bytes());
            nulls += missing as u64;
            given = &there;
        }
        plain.push(width as u8);
        hybrid::encode(given, width, &mut plain);
        let page = Page::DataPage {
            buf: compressed(&plain)?,
            num_values: codes.len() as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        add(page, plain.len(), &mut bytes)?;
    }
    let builder = ColumnChunkMetaData::builder(column.clone())
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
        .set_compression(Compression::SNAPPY)
        .set_num_values(codes.len() as i64)
        .set_total_uncompressed_size(sizes[0] as i64)
        .set_total_compressed_size(sizes[1] as i64)
        .set_dictionary_page_offset(Some(0))
        .set_data_page_offset(first as i64);
    let metadata = match T::statistics(dictionary, nulls) {
        Some(statistics) => builder.set_statistics(statistics).build()?,
        None => builder.build()?,
    };
    let bytes = Bytes::from(bytes.into_inner()?);
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: codes.len() as u64,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    group.append_column(&bytes, close)
}

fn compressed(bytes: &[u8]) -> Result<Bytes> {
    let compressed = snap::raw::Encoder::new().compress_vec(bytes);
    compressed.map(Bytes::from).map_err(|error| ParquetError::External(Box::new(error)))
}

/// Writes a column of numbers; `present` says which of them there are, and is empty where all are.
pub fn numbers(values: &[i64], present: &[bool], group: &mut Group) -> Result<()> {
    let missing = || ParquetError::General("there are more columns than in the schema".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let writer = column.typed::<Int64Type>();
    if present.is_empty() {
        writer.write_batch(values, None, None)?;
    } else {
        let levels: Vec<i16> = present.iter().map(|there| i16::from(*there)).collect();
        let given: Vec<i64> =
            values.iter().zip(present).filter(|(_, there)| **there).map(|(value, _)| *value).collect();
        writer.write_batch(&given, Some(&levels), None)?;
    }
    column.close()
}

/// Writes a column that says yes or no.
pub fn flags(values: &[Option<bool>], is_optional: bool, group: &mut Group) -> Result<()> {
    let missing = || ParquetError::General("there are more columns than in the schema".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let given: Vec<bool> = values.iter().copied().flatten().collect();
    let levels = || -> Vec<i16> { values.iter().map(|value| i16::from(value.is_some())).collect() };
    column.typed::<BoolType>().write_batch(&given, is_optional.then(levels).as_deref(), None)?;
    column.close()
}
