//! Names of files in which each process puts something of its own, as valgrind has them.

/// Part of a file name with placeholders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileNamePart<'a> {
    /// Literal text. `%%` is one percent sign.
    Text(&'a [u8]),
    /// `%p`: the pid.
    Pid,
    /// `%h`: the name of the host.
    Host,
    /// `%q{VAR}`: the value of a variable.
    Variable(&'a [u8]),
    /// A percent sign before any other character.
    Stray,
}

/// Error message for a percent sign with a wrong character after it.
pub const AFTER: &str = "% must be followed by p, h, q{VAR} or %";

/// Returns the parts of a file name.
pub fn parse_file_name(name: &[u8]) -> impl Iterator<Item = FileNamePart<'_>> {
    let mut rest = name;
    core::iter::from_fn(move || {
        let (piece, after) = match rest {
            [] => return None,
            [b'%', b'p', after @ ..] => (FileNamePart::Pid, after),
            [b'%', b'h', after @ ..] => (FileNamePart::Host, after),
            [b'%', b'%', after @ ..] => (FileNamePart::Text(b"%"), after),
            [b'%', after @ ..] => parse_variable(after).unwrap_or((FileNamePart::Stray, after)),
            _ => {
                let end = rest.iter().position(|byte| *byte == b'%').unwrap_or(rest.len());
                (FileNamePart::Text(&rest[..end]), &rest[end..])
            }
        };
        rest = after;
        Some(piece)
    })
}

fn parse_variable(after: &[u8]) -> Option<(FileNamePart<'_>, &[u8])> {
    let quoted = after.strip_prefix(b"q{")?;
    let end = quoted.iter().position(|byte| *byte == b'}').filter(|end| *end > 0)?;
    Some((FileNamePart::Variable(&quoted[..end]), &quoted[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fall_into_pieces() {
        let all = |name: &'static str| parse_file_name(name.as_bytes()).collect::<Vec<_>>();
        assert_eq!(
            all("/tmp/%p.%h%%%q{A}b"),
            [
                FileNamePart::Text(b"/tmp/"),
                FileNamePart::Pid,
                FileNamePart::Text(b"."),
                FileNamePart::Host,
                FileNamePart::Text(b"%"),
                FileNamePart::Variable(b"A"),
                FileNamePart::Text(b"b"),
            ]
        );
        for stray in ["%", "%x", "%q", "%q{", "%q{}"] {
            assert_eq!(all(stray)[0], FileNamePart::Stray, "{stray}");
            // The parts add up to the text.
            let rest =
                all(stray).into_iter().map(|piece| if let FileNamePart::Text(text) = piece { text.len() } else { 1 });
            assert_eq!(rest.sum::<usize>(), stray.len(), "{stray}");
        }
    }
}
