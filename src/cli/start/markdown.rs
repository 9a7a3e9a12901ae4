//! What pages of Markdown have in common.

/// A text in which nothing but what stands between backticks has a meaning to Markdown.
pub fn escaped(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_markdown_would_read_is_escaped_but_for_code() {
        assert_eq!(escaped("a*b_c `d*e|f` <g>"), r"a\*b_c `d*e\|f` \<g>");
    }
}
