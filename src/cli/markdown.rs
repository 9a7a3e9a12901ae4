//! Markdown for the generated pages.

use std::fs;
use std::path::Path;

/// Escapes a text so that Markdown shows it literally, except for code between backticks.
pub fn escape_markdown(text: &str) -> String {
    let mut escaped = String::new();
    let mut is_code = false;
    for c in text.chars() {
        is_code ^= c == '`';
        if !is_code && "*<|\\".contains(c) || is_code && c == '|' {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Checks that a page is current; with UPDATE_DOCS, writes it.
pub fn check_page(path: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, made).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == made, "{} is stale: run scripts/docs", path.display());
}

#[test]
fn markdown_is_escaped_outside_of_code() {
    assert_eq!(escape_markdown("a*b_c `d*e|f` <g>"), r"a\*b_c `d*e\|f` \<g>");
}
