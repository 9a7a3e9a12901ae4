//! Writes XML elements: texts and values are escaped, and characters that XML cannot contain are replaced.

use super::terminal::clean_lines;

/// An element.
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<Node>,
}

enum Node {
    Element(Element),
    Text(String),
}

impl Element {
    pub fn new(name: &'static str) -> Self {
        Element { name, attributes: Vec::new(), children: Vec::new() }
    }

    /// The same with an attribute.
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// The same with a text at its end.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.children.push(Node::Text(text.into()));
        self
    }

    /// The same with elements at its end.
    pub fn and(mut self, children: impl IntoIterator<Item = Element>) -> Self {
        self.children.extend(children.into_iter().map(Node::Element));
        self
    }

    /// The document.
    pub fn document(&self) -> String {
        let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
        self.write(&mut text, 0);
        text
    }

    fn write(&self, out: &mut String, depth: usize) {
        let indent = "  ".repeat(depth);
        *out += &format!("{indent}<{}", self.name);
        for (name, value) in &self.attributes {
            *out += &format!(" {name}=\"{}\"", escaped(value, true));
        }
        if self.children.is_empty() {
            *out += "/>\n";
            return;
        }
        *out += ">";
        let has_elements = self.children.iter().any(|child| matches!(child, Node::Element(_)));
        if has_elements {
            *out += "\n";
        }
        for child in &self.children {
            match child {
                Node::Element(element) => element.write(out, depth + 1),
                Node::Text(text) => *out += &escaped(text, false),
            }
        }
        if has_elements {
            *out += &indent;
        }
        *out += &format!("</{}>\n", self.name);
    }
}

/// A text without anything that a reader of XML, or a terminal, takes for more than text. In attributes, readers make spaces of
/// line ends that are not written as references.
fn escaped(text: &str, is_attribute: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean_lines(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' if is_attribute => out += "&#10;",
            // No characters of XML.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_stands_in_it_is_text() {
        let wild = "a<b>&\"]]>\u{0}\x1b[2J\u{fffe}\u{85}\nä";
        let element = Element::new("e").with("a", wild).text(wild).document();
        let body = "a&lt;b&gt;&amp;&quot;]]&gt;\u{fffd}\u{fffd}[2J\u{fffd}\u{fffd}";
        assert_eq!(
            element,
            format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<e a=\"{body}&#10;ä\">{body}\nä</e>\n")
        );
    }

    #[test]
    fn elements_stand_in_lines() {
        let leaf = || Element::new("leaf").with("n", 1);
        let text = Element::new("root").and([leaf(), Element::new("in").and([leaf()])]).document();
        let expected = "<root>\n  <leaf n=\"1\"/>\n  <in>\n    <leaf n=\"1\"/>\n  </in>\n</root>\n";
        assert!(text.ends_with(expected), "{text}");
    }
}
