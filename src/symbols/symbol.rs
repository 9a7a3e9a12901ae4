//! The name of an address, and its lines of source.

use super::short::shorten_name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest number of characters of a function's name in text for people.
pub const LONGEST_NAME: usize = 80;

/// Returns true if a library is libc or the loader. Their function names are enough, because they start threads and
/// every library calls them.
pub fn is_libc_or_loader(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["libc.so", "ld-linux"].iter().any(|begin| name.starts_with(begin))
}

/// Function of an address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Symbol {
    /// Name of the function as in the source code.
    pub function: String,
    /// Offset of the address from the start of the function, in bytes.
    pub offset: u64,
    /// Lines of source, those of inlined functions first; empty if unknown.
    pub lines: Vec<SourceLine>,
}

/// Line of source, with its function.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SourceLine {
    /// Name of the function as in the source code; `None` if unknown.
    pub function: Option<String>,
    /// Path of the source file when it was compiled.
    pub file: String,
    /// Number of the line, from 1; 0 if the debugging information has none.
    pub line: u32,
}

impl SourceLine {
    /// Returns the line in the form `main.c:12 in f`.
    pub fn text(&self) -> String {
        let file = self.file.rsplit('/').next().unwrap_or(&self.file);
        let line = if self.line > 0 { format!(":{}", self.line) } else { String::new() };
        let function = self.function.as_ref().map(|name| format!(" in {}", shorten_name(name, LONGEST_NAME)));
        format!("{file}{line}{}", function.unwrap_or_default())
    }
}
