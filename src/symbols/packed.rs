//! The file `symbols.json` of a packed recording: names that were found where it was recorded.
//!
//! It is an object. Each key is a library: its build id in hexadecimal digits, or its path if it has none. Each value
//! is an array of `[place, "function", offset, [["function", "file", line], ...]]`: the place is the return address as
//! in the file of the library, and the offset is the distance from the start of the function. The lines of source are
//! omitted if they are unknown.

use super::symbol::{SourceLine, Symbol};
use anyhow::Result;
use cupeer_record::Library;
use cupeer_record::plain::{self, SymbolicLinks};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Largest size in bytes of a file `symbols.json` that is read.
const MOST_BYTES: u64 = 64 << 20;

/// Names of places, by library.
#[derive(Default, Debug)]
pub struct PackedSymbols(HashMap<String, BTreeMap<u64, Symbol>>);

impl PackedSymbols {
    /// The name of the file.
    pub const FILE: &str = "symbols.json";

    /// Reads the names in a packed recording; `None` if it was not packed. A directory may contain several
    /// packed recordings, each in a directory of its own.
    pub fn of_record(directory: &Path) -> Result<Option<PackedSymbols>> {
        let inner = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let inner = inner.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let places = inner.map(|entry| entry.path()).chain([directory.to_owned()]);
        let mut all: Option<PackedSymbols> = None;
        for file in places.map(|place| place.join(PackedSymbols::FILE)) {
            if file.symlink_metadata().is_ok_and(|found| found.is_file()) {
                let names = PackedSymbols::read(&file)?;
                for (library, symbols) in names.0 {
                    all.get_or_insert_default().0.entry(library).or_default().extend(symbols);
                }
                all.get_or_insert_default();
            }
        }
        Ok(all)
    }

    fn read(file: &Path) -> Result<PackedSymbols> {
        let bytes = plain::read(file, SymbolicLinks::Refused, MOST_BYTES)?;
        let libraries: HashMap<String, Vec<Value>> = serde_json::from_slice(&bytes)?;
        let symbol = |row: Value| {
            let function = row.get(1)?.as_str()?.replace(char::is_control, "?");
            let lines = row.get(3).and_then(Value::as_array).into_iter().flatten().filter_map(parse_line).collect();
            Some((row.get(0)?.as_u64()?, Symbol { function, offset: row.get(2)?.as_u64()?, lines }))
        };
        let symbols = |rows: Vec<Value>| rows.into_iter().filter_map(symbol).collect();
        Ok(PackedSymbols(libraries.into_iter().map(|(library, rows)| (library, symbols(rows))).collect()))
    }

    /// Returns the function at a place, which is an offset in a library; `None` if the packed recording has
    /// no name for it.
    pub fn find(&self, library: &Library, place: u64) -> Option<&Symbol> {
        self.0.get(&PackedSymbols::library_key(&library.build_id, &library.path))?.get(&place)
    }

    /// Adds the function at a place of a library. `path` is the path of the library in the packed recording.
    pub fn insert(&mut self, build_id: &[u8], path: &str, place: u64, symbol: Symbol) {
        self.0.entry(PackedSymbols::library_key(build_id, path)).or_default().insert(place, symbol);
    }

    /// Returns the contents of the file `symbols.json` with these names.
    pub fn to_json(&self) -> String {
        let row = |(place, symbol): (&u64, &Symbol)| {
            let lines: Vec<Value> =
                symbol.lines.iter().map(|line| serde_json::json!([line.function, line.file, line.line])).collect();
            let mut row = vec![(*place).into(), symbol.function.clone().into(), symbol.offset.into()];
            row.extend((!lines.is_empty()).then_some(Value::Array(lines)));
            Value::Array(row)
        };
        let libraries: BTreeMap<&String, Vec<Value>> =
            self.0.iter().map(|(library, symbols)| (library, symbols.iter().map(row).collect())).collect();
        format!("{}\n", serde_json::json!(libraries))
    }

    fn library_key(build_id: &[u8], path: &str) -> String {
        match build_id {
            [] => path.to_owned(),
            _ => build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// Parses one line of source from its array; `None` if the array is malformed.
fn parse_line(row: &Value) -> Option<SourceLine> {
    let text = |index: usize| Some(row.get(index)?.as_str()?.replace(char::is_control, "?"));
    let line = u32::try_from(row.get(2)?.as_u64()?).ok()?;
    Some(SourceLine { function: text(0), file: text(1)?, line })
}
