//! A reader of XML documents that accepts what we write, and nothing that is not well formed.

/// An element.
#[derive(Debug, PartialEq)]
pub struct Element {
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub children: Vec<Element>,
    /// The text between its tags, where that is not only space.
    pub text: String,
}

impl Element {
    /// The value of an attribute, which must be there.
    #[track_caller]
    pub fn get(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("{} has no {name}", self.name)).1
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

/// Reads a document; the error says what is wrong.
pub fn read(text: &str) -> Result<Element, String> {
    let is_char =
        |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    if let Some(c) = text.chars().find(|c| !is_char(*c)) {
        return Err(format!("{c:?} is no character of XML"));
    }
    let rest = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>").ok_or("no declaration")?;
    let mut reader = Reader { rest: rest.trim_start() };
    let element = reader.element()?;
    match reader.rest.trim() {
        "" => Ok(element),
        rest => Err(format!("behind the end: {rest}")),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Takes what stands before a text, and that text.
    fn until(&mut self, end: &str) -> Result<&'a str, String> {
        let (taken, rest) = self.rest.split_once(end).ok_or(format!("no {end} in {:.80}", self.rest))?;
        self.rest = rest;
        Ok(taken)
    }

    fn name(&mut self) -> Result<String, String> {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let end = self.rest.find(|c| !is_of_name(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
        if begins { Ok(name.to_owned()) } else { Err(format!("no name at {:.80}", self.rest)) }
    }

    fn element(&mut self) -> Result<Element, String> {
        self.rest = self.rest.strip_prefix('<').ok_or(format!("no element at {:.80}", self.rest))?;
        let mut element =
            Element { name: self.name()?, attributes: Vec::new(), children: Vec::new(), text: String::new() };
        loop {
            let spaced = self.rest.trim_start();
            if let Some(rest) = spaced.strip_prefix("/>") {
                self.rest = rest;
                return Ok(element);
            }
            if let Some(rest) = spaced.strip_prefix('>') {
                self.rest = rest;
                break;
            }
            if spaced.len() == self.rest.len() {
                return Err(format!("no space before {spaced:.80}"));
            }
            self.rest = spaced;
            let name = self.name()?;
            if !self.until("\"")?.eq("=") {
                return Err(format!("no value of {name}"));
            }
            let value = plain(self.until("\"")?)?;
            if element.attributes.iter().any(|(known, _)| *known == name) {
                return Err(format!("a second {name}"));
            }
            element.attributes.push((name, value));
        }
        loop {
            let end = self.rest.find('<').ok_or(format!("{} has no end", element.name))?;
            let (text, rest) = self.rest.split_at(end);
            element.text += &plain(text)?;
            self.rest = rest;
            if let Some(rest) = rest.strip_prefix("</") {
                self.rest = rest;
                let name = self.until(">")?;
                if name != element.name {
                    return Err(format!("{name} ends {}", element.name));
                }
                if element.text.trim().is_empty() {
                    element.text.clear();
                }
                return Ok(element);
            }
            element.children.push(self.element()?);
        }
    }
}

/// A text without its references.
fn plain(text: &str) -> Result<String, String> {
    if text.contains('<') || text.contains("]]>") {
        return Err(format!("no text: {text}"));
    }
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(';').ok_or(format!("a bare & before {part:.80}"))?;
        out.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#10" => '\n',
            _ => return Err(format!("&{name}; stands for nothing")),
        });
        out += rest;
    }
    Ok(out)
}

#[test]
fn malformed_xml_is_refused() {
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    let good = read(&format!("{head}\n<a x=\"1&lt;&#10;\">\n <b/>t&amp;</a>\n")).unwrap();
    assert_eq!((good.get("x"), good.children.len(), good.text.trim()), ("1<\n", 1, "t&"));
    for bad in ["", "<a>", "<a></b>", "<a x=1/>", "<a x=\"1\"y=\"2\"/>", "<a x=\"1\" x=\"2\"/>", "<a>&</a>"] {
        assert!(read(&format!("{head}{bad}")).is_err(), "{bad}");
    }
    for bad in ["<a>&nbsp;</a>", "<a>\u{1}</a>", "<a>\u{fffe}</a>", "<a/><b/>", "<a>]]></a>", "<a x=\"<\"/>"] {
        assert!(read(&format!("{head}{bad}")).is_err(), "{bad}");
    }
    assert!(read("<a/>").is_err(), "it says nothing of its encoding");
}
