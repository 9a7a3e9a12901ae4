//! Shortens names of functions to the width of a table, and keeps them readable.

/// Mark in place of an omitted part.
const LEFT_OUT: char = '…';

/// Returns the name of a function in at most `width` characters: first without its parameters, then without
/// its template arguments, then without its return type, then without its outer scopes.
pub fn shorten_name(name: &str, width: usize) -> String {
    let fits = |text: &str| text.chars().count() <= width;
    let mut text = name.to_owned();
    for step in [
        |text: &str| replace_brackets(text, '(', ')'),
        |text: &str| replace_brackets(text, '<', '>'),
        strip_return_type,
    ] {
        if fits(&text) {
            return text;
        }
        text = step(&text);
    }
    while !fits(&text) {
        let rest = text.strip_prefix(LEFT_OUT).and_then(|rest| rest.strip_prefix("::")).unwrap_or(&text);
        match find_separators(rest, "::").first() {
            Some(at) => text = format!("{LEFT_OUT}::{}", &rest[at + 2..]),
            None => {
                let kept = width.saturating_sub(1);
                return text.chars().take(kept).chain([LEFT_OUT]).take(width).collect();
            }
        }
    }
    text
}

/// Replaces each outermost pair of brackets of one kind, with the text between them.
fn replace_brackets(text: &str, open: char, close: char) -> String {
    let mut out = String::new();
    let mut depth = 0;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let operator = operator_length(rest).max(unnamed_scope_length(rest));
        let taken = if operator > 0 { operator } else { character.len_utf8() };
        if depth == 0 {
            out.push_str(&rest[..taken]);
        }
        if operator == 0 && character == open {
            depth += 1;
            let is_empty = rest[1..].starts_with(close);
            if depth == 1 && !is_empty {
                out.push(LEFT_OUT);
            }
        } else if operator == 0 && character == close && depth > 0 {
            depth -= 1;
            if depth == 0 {
                out.push(close);
            }
        }
        rest = &rest[taken..];
    }
    out
}

/// Returns a name without its return type, which the C++ names of template functions contain.
fn strip_return_type(text: &str) -> String {
    let end = find_separators(text, "(").into_iter().next_back().unwrap_or(text.len());
    let spaces = find_separators(&text[..end], " ");
    let is_part = |at: &usize| text[..*at].ends_with("operator") || text[..*at].ends_with("as");
    match spaces.into_iter().rev().find(|at| !is_part(at)) {
        Some(at) if !text[at + 1..].starts_with('[') => text[at + 1..].to_owned(),
        _ => text.to_owned(),
    }
}

/// Returns the positions of a separator outside of brackets.
fn find_separators(text: &str, separator: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let rest = &text[at..];
        if depth == 0 && rest.starts_with(separator) {
            found.push(at);
        }
        let skipped = operator_length(rest).max(unnamed_scope_length(rest));
        match character {
            _ if skipped > 0 => {}
            '(' | '<' | '{' | '[' => depth += 1,
            ')' | '>' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += if skipped > 0 { skipped } else { character.len_utf8() };
    }
    found
}

/// Returns the number of bytes of the operator's name that begins here and contains brackets, such as
/// `operator<`; 0 if none begins here.
fn operator_length(text: &str) -> usize {
    const OPERATORS: [&str; 12] = ["<=>", "<<=", ">>=", "->*", "()", "<<", ">>", "<=", ">=", "->", "<", ">"];
    let Some(rest) = text.strip_prefix("operator") else {
        // The `>` of an arrow is not a bracket.
        return if text.starts_with("->") { 2 } else { 0 };
    };
    OPERATORS.iter().find(|sign| rest.starts_with(**sign)).map_or(0, |sign| "operator".len() + sign.len())
}

/// Returns the number of bytes of the unnamed scope that begins here; 0 if none begins here.
fn unnamed_scope_length(text: &str) -> usize {
    const SCOPE: &str = "(anonymous namespace)";
    if text.starts_with(SCOPE) { SCOPE.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::shorten_name;

    #[test]
    fn least_informative_parts_are_shortened_first() {
        let name = "std::vector<int, std::allocator<int> > acme::pool<int>::open<float>(char const*, int)";
        for (width, wanted) in [
            (100, name),
            (80, "std::vector<int, std::allocator<int> > acme::pool<int>::open<float>(…)"),
            (60, "std::vector<…> acme::pool<…>::open<…>(…)"),
            (30, "acme::pool<…>::open<…>(…)"),
            (22, "…::pool<…>::open<…>(…)"),
            (20, "…::open<…>(…)"),
            (13, "…::open<…>(…)"),
            (5, "…::o…"),
            (0, ""),
        ] {
            assert_eq!(shorten_name(name, width), wanted);
        }
    }

    #[test]
    fn operators_and_nameless_scopes_are_no_brackets() {
        assert_eq!(
            shorten_name("std::ostream& acme::operator<<<int>(std::ostream&)", 45),
            "std::ostream& acme::operator<<<int>(…)"
        );
        assert_eq!(shorten_name("acme::operator<(acme::x const&)", 30), "acme::operator<(…)");
        assert_eq!(shorten_name("acme::f::operator()(int) const", 28), "acme::f::operator()(…) const");
        let name = "acme::(anonymous namespace)::open(std::string)";
        assert_eq!(shorten_name(name, 40), "acme::(anonymous namespace)::open(…)");
        assert_eq!(shorten_name(name, 34), "…::(anonymous namespace)::open(…)");
        assert_eq!(shorten_name("<alloc::vec::Vec<T> as acme::Open>::open", 20), "<…>::open");
        assert_eq!(shorten_name("f+0x2", 5), "f+0x2");
    }
}
