//! Converts the linker's names to those in the source code.

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};
use std::fmt::{self, Write};

/// Largest number of bytes of a demangled name; a longer name stays mangled. A mangled name of a few bytes can stand
/// for a name of any length.
const LONGEST: usize = 64 * 1024;
/// Limit on the nesting depth of a name, because the demangler recurses.
const DEEPEST: u32 = 192;

/// Returns a name in source form. A name in an unknown form stays unchanged.
pub fn demangle(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    // Remove the version after the `@`, which the dynamic symbols of some libraries have in their names.
    let plain = text.split('@').next().unwrap_or_default();
    let readable = demangle_rust(plain).or_else(|| demangle_cpp(plain)).unwrap_or_else(|| plain.to_owned());
    // Replace control characters, because names are shown on terminals.
    readable.replace(char::is_control, "?")
}

fn demangle_rust(name: &str) -> Option<String> {
    // A Rust name in the older (legacy) mangling is a valid C++ name with a hash at its end.
    let is_older = || {
        // A suffix of the compiler begins with a period, and so may a part of the name.
        let (_, hash) = name.rsplit_once("17h")?;
        let (digits, behind) = hash.split_at_checked(16)?;
        let is_end = behind == "E" || behind.starts_with("E.");
        (is_end && digits.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(())
    };
    if !name.starts_with("_R") && is_older().is_none() {
        return None;
    }
    let mut out = LimitedText(String::new());
    write!(out, "{:#}", rustc_demangle::try_demangle(name).ok()?).ok()?;
    Some(out.0)
}

fn demangle_cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let limit = ParseOptions::default().recursion_limit(DEEPEST);
    let symbol = BorrowedSymbol::new_with_options(name.as_bytes(), &limit).ok()?;
    let mut out = LimitedText(String::new());
    symbol.structured_demangle(&mut out, &DemangleOptions::default().recursion_limit(DEEPEST)).ok()?;
    Some(out.0)
}

struct LimitedText(String);

impl Write for LimitedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn names_of_all_languages_are_as_they_were_written() {
        for (mangled, wanted) in [
            ("main", "main"),
            ("_ZN4acme4poolIiE4openEPKc", "acme::pool<int>::open(char const*)"),
            ("_ZN4acme4openEv.cold", "acme::open() [clone .cold]"),
            ("_ZN4acme4open17h0123456789abcdefE", "acme::open"),
            ("_ZN4acme4open17h0123456789abcdefE.llvm.123", "acme::open"),
            (
                "_ZN46_$LT$acme..Pool$u20$as$u20$core..ops..Drop$GT$4drop17h0123456789abcdefE",
                "<acme::Pool as core::ops::Drop>::drop",
            ),
            ("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"),
            ("_ZN4acme", "_ZN4acme"),
            ("_R", "_R"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("a\x1b[31mb", "a?[31mb"),
        ] {
            assert_eq!(demangle(mangled.as_bytes()), wanted);
        }
    }

    #[test]
    fn a_name_that_would_be_endless_stays_as_it_is() {
        // Each parameter is a pair of two of the one before.
        let digit = |i: u32| char::from_digit(i, 36).unwrap().to_ascii_uppercase();
        let pairs = |most| (0..most).map(|i| format!("S_IS{0}_S{0}_E", digit(i))).collect::<String>();
        let few = format!("_Z1fSt4pairIiiE{}", pairs(2));
        assert!(demangle(few.as_bytes()).starts_with("f(std::pair<int, int>, std::pair<std::pair<"));
        let nested = "PF".repeat(5000);
        for name in [format!("_Z1fSt4pairIiiE{}", pairs(30)), format!("_Z1f{nested}")] {
            assert_eq!(demangle(name.as_bytes()), name);
        }
    }
}
