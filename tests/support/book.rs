//! The pages that people read, and the parts that they are made of: the README, what stands beside it, and `docs`.

use std::fs;
use std::path::{Path, PathBuf};

/// A page, named from the root of the repository: `docs/guides/hang.md`.
pub struct Page {
    /// Its path from the root.
    pub name: PathBuf,
    /// All of it.
    pub text: String,
}

/// A fenced block of code.
pub struct Block<'a> {
    /// Text after the fence: `sh`, or nothing.
    pub language: &'a str,
    /// Its lines.
    pub lines: Vec<&'a str>,
}

/// The directory that pages are named from.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One page.
#[track_caller]
pub fn page(name: impl AsRef<Path>) -> Page {
    let path = root().join(&name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Page { name: name.as_ref().to_owned(), text }
}

/// The contents of the sidebar when the pages are built as a website. This file is not a page.
pub const SIDEBAR: &str = "docs/SUMMARY.md";

/// The README and all pages of `docs`.
pub fn book() -> Vec<Page> {
    let mut pages = vec![page("README.md")];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root().join(&folder)).expect("a folder of pages");
        for name in entries.map(|entry| folder.join(entry.expect("an entry").file_name())) {
            if root().join(&name).is_dir() {
                folders.push(name);
            } else if name.extension().is_some_and(|extension| extension == "md") && name != Path::new(SIDEBAR) {
                pages.push(page(name));
            }
        }
    }
    pages
}

impl Page {
    /// The fenced blocks, and the lines outside of them.
    pub fn parts(&self) -> (Vec<Block<'_>>, Vec<&str>) {
        let (mut blocks, mut prose) = (Vec::<Block>::new(), Vec::new());
        let mut is_code = false;
        for line in self.text.lines() {
            match line.trim_start().strip_prefix("```") {
                Some(language) if !is_code => blocks.push(Block { language, lines: Vec::new() }),
                Some(_) => {}
                None if is_code => blocks.last_mut().expect("the open block").lines.push(line),
                None => prose.push(line),
            }
            is_code ^= line.trim_start().starts_with("```");
        }
        assert!(!is_code, "{}: a block of code is not closed", self.name.display());
        (blocks, prose)
    }

    /// The text outside of blocks, and what of it stands between backticks.
    pub fn spans(&self) -> (String, Vec<String>) {
        let prose = self.parts().1.join("\n");
        let (mut text, mut code) = (String::new(), Vec::new());
        for (i, piece) in prose.split('`').enumerate() {
            if i % 2 == 0 { text += piece } else { code.push(piece.split_whitespace().collect::<Vec<_>>().join(" ")) }
        }
        (text, code)
    }
}
