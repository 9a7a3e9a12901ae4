//! Images of modules: PTX text, a cubin (ELF), or a fat binary. Only names and data are read.
//!
//! The bytes come from the program, and only their length is trusted. A fat binary is not read: it may be compressed, so
//! every name counts as present.

use super::answer::{Answer, fail};
use cupeer_spec::p2p::{Kernel, PTX};
use cupeer_spec::results::Result as Code;

/// A global variable of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GlobalVariable {
    pub name: String,
    /// Initial content of the variable. If it is shorter than the variable, the rest is zero.
    pub bytes: Vec<u8>,
    /// Size of the variable in bytes.
    pub size: u64,
}

/// The content of an image: the names that a module defines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ModuleImage {
    Known {
        functions: Vec<String>,
        globals: Vec<GlobalVariable>,
        /// The sizes in bytes of the parameters of each function, if the image contains them.
        parameters: Vec<Vec<u64>>,
    },
    /// The text of `cupeer_spec::p2p`, whose kernels the simulated driver carries out.
    Own,
    /// An image that cannot be read, such as a fat binary.
    Opaque,
}

/// Assumed size in bytes of a variable in an image that cannot be read.
const OPAQUE_SIZE: u64 = 64 << 10;
const ELF: &[u8] = b"\x7fELF";
const FAT: u32 = 0xba55_ed50;
/// The most bytes of an image.
pub(crate) const MOST_BYTES: u64 = 4 << 30;

impl ModuleImage {
    /// Returns the content of an image.
    pub(crate) fn parse_image(bytes: &[u8]) -> Answer<ModuleImage> {
        if bytes.starts_with(ELF) {
            return read_elf(bytes).ok_or_else(|| Code::INVALID_IMAGE.into());
        }
        if bytes.starts_with(&FAT.to_le_bytes()) {
            return Ok(ModuleImage::Opaque);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if text.trim_end_matches('\0') == PTX.trim_end_matches('\0') => Ok(ModuleImage::Own),
            Ok(text) => read_ptx(text).ok_or_else(|| Code::INVALID_PTX.into()),
            Err(_) => fail(Code::INVALID_IMAGE),
        }
    }

    /// Returns the names of the functions; none if they are unknown.
    pub(crate) fn function_names(&self) -> &[String] {
        match self {
            ModuleImage::Known { functions, .. } => functions,
            ModuleImage::Own | ModuleImage::Opaque => &[],
        }
    }

    /// Returns the sizes in bytes of the parameters of a function; `None` if they are unknown.
    pub(crate) fn parameter_sizes(&self, name: &str) -> Option<Vec<u64>> {
        match self {
            ModuleImage::Known { functions, parameters, .. } => {
                parameters.get(functions.iter().position(|known| known == name)?).cloned()
            }
            ModuleImage::Own => {
                let kernel = Kernel::ALL.iter().find(|kernel| kernel.name() == name)?;
                Some(vec![8; kernel.parameter_count()])
            }
            ModuleImage::Opaque => None,
        }
    }

    /// Returns true if the image may define a function of this name.
    pub(crate) fn has_function(&self, name: &str) -> bool {
        let is_own = || Kernel::ALL.iter().any(|kernel| kernel.name() == name);
        matches!(self, ModuleImage::Opaque)
            || *self == ModuleImage::Own && is_own()
            || self.function_names().iter().any(|known| known == name)
    }

    /// Returns the variable of this name, if the image may define one.
    pub(crate) fn find_global(&self, name: &str) -> Option<GlobalVariable> {
        match self {
            ModuleImage::Known { globals, .. } => globals.iter().find(|global| global.name == name).cloned(),
            ModuleImage::Own => None,
            ModuleImage::Opaque => Some(GlobalVariable { name: name.into(), bytes: Vec::new(), size: OPAQUE_SIZE }),
        }
    }
}

/// Returns the number of bytes from the start of an image that [`image_size`] needs: 0 for a text. `magic` is the
/// first four bytes.
pub(crate) fn header_size(magic: [u8; 4]) -> usize {
    match magic {
        _ if magic == ELF => 64,
        _ if magic == FAT.to_le_bytes() => 16,
        _ => 0,
    }
}

/// Returns the number of bytes of an image, from its header; `None` for a text, which ends in NUL.
pub(crate) fn image_size(head: &[u8; 64]) -> Option<u64> {
    let at = |offset, width| read_number(head, offset, width).unwrap_or(0);
    if head.starts_with(ELF) {
        let sections = at(0x28, 8).saturating_add(at(0x3a, 2) * at(0x3c, 2));
        let segments = at(0x20, 8).saturating_add(at(0x36, 2) * at(0x38, 2));
        return Some(sections.max(segments));
    }
    head.starts_with(&FAT.to_le_bytes()).then(|| at(6, 2).saturating_add(at(8, 8)))
}

/// Reads a little-endian number of `width` bytes.
fn read_number(bytes: &[u8], offset: u64, width: usize) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    let field = bytes.get(start..start.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Returns a part of the bytes; `None` if it is not within them.
fn slice_at(bytes: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(size).ok()?)?)
}

/// Reads the symbols of a cubin. Kernels are the functions whose symbols have the flag that CUDA sets for an
/// entry.
fn read_elf(bytes: &[u8]) -> Option<ModuleImage> {
    const SYMTAB: u64 = 2;
    const NOBITS: u64 = 8;
    const ENTRY: u64 = 0x10;
    let field = |offset, width| read_number(bytes, offset, width);
    let (table, step, count) = (field(0x28, 8)?, field(0x3a, 2)?, field(0x3c, 2)?);
    let section = |index: u64| -> Option<[u64; 4]> {
        let at = table.checked_add(index.checked_mul(step)?)?;
        Some([field(at + 4, 4)?, field(at + 24, 8)?, field(at + 32, 8)?, field(at + 40, 4)?])
    };
    let (mut functions, mut globals) = (Vec::new(), Vec::new());
    for index in 0..count {
        let [kind, offset, size, link] = section(index)?;
        if kind != SYMTAB {
            continue;
        }
        let [_, names, names_size, _] = section(link)?;
        let names = slice_at(bytes, names, names_size)?;
        for symbol in slice_at(bytes, offset, size)?.chunks_exact(24) {
            let field = |offset, width| read_number(symbol, offset, width);
            let name = names.get(usize::try_from(field(0, 4)?).ok()?..)?;
            let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next()?).into_owned();
            let (kind, other, home) = (field(4, 1)? & 15, field(5, 1)?, field(6, 2)?);
            if kind == 2 && other & ENTRY != 0 {
                functions.push(name);
            } else if kind == 1 && home < count {
                let [of, start, _, _] = section(home)?;
                let (value, size) = (field(8, 8)?, field(16, 8)?);
                let data = if of == NOBITS { None } else { slice_at(bytes, start.checked_add(value)?, size) };
                globals.push(GlobalVariable { name, bytes: data.unwrap_or_default().into(), size });
            }
        }
    }
    Some(ModuleImage::Known { functions, globals, parameters: Vec::new() })
}

/// Reads PTX: its kernels, and its variables outside of functions. Returns `None` for a text that is not PTX.
fn read_ptx(text: &str) -> Option<ModuleImage> {
    let text = without_comments(text.trim_end_matches('\0'));
    let words = split_words(&text);
    if !words.contains(&".version") {
        return None;
    }
    let (mut functions, mut globals, mut parameters, mut depth) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut at = 0;
    while at < words.len() {
        match words[at] {
            "{" => depth += 1,
            "}" => depth -= 1,
            ".entry" => {
                functions.extend(words.get(at + 1).map(|name| String::from(*name)));
                let all = words.get(at + 2..).filter(|rest| rest.starts_with(&["("])).unwrap_or_default();
                let end = all.iter().position(|word| *word == ")").unwrap_or(0);
                let all = all[..end].split(|word| *word == ".param").skip(1);
                parameters.push(all.filter_map(read_variable).map(|variable| variable.size).collect());
            }
            ".global" | ".const" if depth == 0 => {
                let end = words[at..].iter().position(|word| *word == ";").map_or(words.len(), |n| at + n);
                globals.extend(read_variable(&words[at + 1..end]));
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    Some(ModuleImage::Known { functions, globals, parameters })
}

/// Reads the declaration of a variable after its state space, such as `.align 4 .b8 name[8] = {1, 2}`.
fn read_variable(words: &[&str]) -> Option<GlobalVariable> {
    let mut element = None;
    let mut count = 1u64;
    let mut words = words.iter().copied();
    let name = loop {
        match words.next()? {
            ".align" => drop(words.next()),
            "(" | ")" | ".attribute" | ".managed" => {}
            ".v2" => count = 2,
            ".v4" => count = 4,
            kind if kind.starts_with('.') => element = element_bytes(kind),
            name => break name,
        }
    };
    let element = element?;
    let mut bytes = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "[" => count = count.checked_mul(words.next()?.parse().unwrap_or(1))?,
            "=" | "{" | "}" | "]" | "," => {}
            value => bytes.extend_from_slice(&parse_literal(value)?.to_le_bytes()[..element]),
        }
    }
    let size = count.checked_mul(element as u64).filter(|size| *size <= MOST_BYTES)?;
    bytes.truncate(size as usize);
    Some(GlobalVariable { name: name.into(), bytes, size })
}

/// Returns the number of bytes of an element of a PTX type, such as 4 for `.u32`.
fn element_bytes(kind: &str) -> Option<usize> {
    let bits: usize = kind.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    matches!(bits, 8 | 16 | 32 | 64).then_some(bits / 8)
}

fn parse_literal(text: &str) -> Option<u64> {
    let hexadecimal = |digits| u64::from_str_radix(digits, 16).ok();
    let (sign, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let digits = digits.trim_end_matches('U');
    let value = match digits.get(..2) {
        Some("0x" | "0X" | "0f" | "0F" | "0d" | "0D") => hexadecimal(&digits[2..])?,
        _ => digits.parse().ok()?,
    };
    Some(if sign { value.wrapping_neg() } else { value })
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some(at) = rest.find('/') {
        kept.push_str(&rest[..at]);
        let comment = &rest[at..];
        rest = if comment.starts_with("//") {
            comment.find('\n').map_or("", |end| &comment[end..])
        } else if comment.starts_with("/*") {
            comment.find("*/").map_or("", |end| &comment[end + 2..])
        } else {
            kept.push('/');
            &comment[1..]
        };
    }
    kept + rest
}

/// Splits a text into words. Each bracket, comma, semicolon, and equals sign is a word by itself.
fn split_words(text: &str) -> Vec<&str> {
    let single = |c: char| "{}()[],;=".contains(c);
    let mut words = Vec::new();
    for run in text.split_whitespace() {
        let mut start = 0;
        for (at, c) in run.char_indices().filter(|(_, c)| single(*c)) {
            if at > start {
                words.push(&run[start..at]);
            }
            start = at + c.len_utf8();
            words.push(&run[at..start]);
        }
        if start < run.len() {
            words.push(&run[start..]);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_variables_of_a_text_are_found() {
        let text = "// .entry not\n.version 3.2\n.target sm_20 /* .entry nor */\n\
                    .const .align 4 .u32 my_constant = 314;\n\
                    .visible .global .align 1 .b8 text[4] = {72, 105};\n\
                    .global .attribute(.managed) .align 8 .v2 .f32 pair;\n\
                    .visible .entry sum(\n.param .u64 a)\n{ .reg .u32 %r; ld.global.u32 %r, [a]; }\n\
                    .entry _Z3fooPi(.param .u64 b) { .shared .b8 not[4]; }\0";
        let image = ModuleImage::parse_image(text.as_bytes()).unwrap();
        assert_eq!(image.function_names(), ["sum", "_Z3fooPi"]);
        let found = |name: &str| image.find_global(name).map(|global| (global.size, global.bytes));
        assert_eq!(found("my_constant"), Some((4, vec![0x3a, 1, 0, 0])));
        assert_eq!(found("text"), Some((4, vec![72, 105])));
        assert_eq!(found("pair"), Some((8, vec![])));
        assert_eq!((found("not"), image.has_function("nor")), (None, false));
        assert_eq!((image.parameter_sizes("sum"), image.parameter_sizes("nor")), (Some(vec![8]), None));
    }

    #[test]
    fn other_bytes_are_refused_and_a_fat_binary_has_every_name() {
        assert_eq!(ModuleImage::parse_image(b"hello").unwrap_err().code, Code::INVALID_PTX);
        assert_eq!(ModuleImage::parse_image(b"\xff\xfe").unwrap_err().code, Code::INVALID_IMAGE);
        assert_eq!(ModuleImage::parse_image(b"\x7fELF").unwrap_err().code, Code::INVALID_IMAGE);
        let mut head = [0; 64];
        head[..4].copy_from_slice(&FAT.to_le_bytes());
        (head[6], head[8]) = (16, 100);
        assert_eq!(image_size(&head), Some(116));
        let image = ModuleImage::parse_image(&head).unwrap();
        assert!(image.has_function("any") && image.find_global("any").unwrap().size == OPAQUE_SIZE);
    }

    #[test]
    fn no_damaged_image_is_more_than_an_error() {
        let mut elf = vec![0u8; 64 + 2 * 64];
        elf[..4].copy_from_slice(ELF);
        (elf[0x28], elf[0x3a], elf[0x3c]) = (64, 64, 2);
        for at in 0..elf.len() {
            for byte in [1, 2, 0x7f, 0xff] {
                let old = std::mem::replace(&mut elf[at], byte);
                let _ = ModuleImage::parse_image(&elf);
                elf[at] = old;
            }
        }
    }
}
