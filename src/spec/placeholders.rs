//! Names of files in which each process puts something of its own, as valgrind has them.

/// Part of a file name with placeholders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
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

/// Error about the character after a percent sign.
pub const AFTER: &str = "% must be followed by p, h, q{VAR} or %";

/// Returns the parts of a file name.
pub fn pieces(name: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = name;
    core::iter::from_fn(move || {
        let (piece, after) = match rest {
            [] => return None,
            [b'%', b'p', after @ ..] => (Piece::Pid, after),
            [b'%', b'h', after @ ..] => (Piece::Host, after),
            [b'%', b'%', after @ ..] => (Piece::Text(b"%"), after),
            [b'%', after @ ..] => variable(after).unwrap_or((Piece::Stray, after)),
            _ => {
                let end = rest.iter().position(|byte| *byte == b'%').unwrap_or(rest.len());
                (Piece::Text(&rest[..end]), &rest[end..])
            }
        };
        rest = after;
        Some(piece)
    })
}

fn variable(after: &[u8]) -> Option<(Piece<'_>, &[u8])> {
    let quoted = after.strip_prefix(b"q{")?;
    let end = quoted.iter().position(|byte| *byte == b'}').filter(|end| *end > 0)?;
    Some((Piece::Variable(&quoted[..end]), &quoted[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fall_into_pieces() {
        let all = |name: &'static str| pieces(name.as_bytes()).collect::<Vec<_>>();
        assert_eq!(
            all("/tmp/%p.%h%%%q{A}b"),
            [
                Piece::Text(b"/tmp/"),
                Piece::Pid,
                Piece::Text(b"."),
                Piece::Host,
                Piece::Text(b"%"),
                Piece::Variable(b"A"),
                Piece::Text(b"b"),
            ]
        );
        for stray in ["%", "%x", "%q", "%q{", "%q{}"] {
            assert_eq!(all(stray)[0], Piece::Stray, "{stray}");
            // The parts add up to the text.
            let rest = all(stray)
                .into_iter()
                .map(|piece| if let Piece::Text(text) = piece { text.len() } else { 1 });
            assert_eq!(rest.sum::<usize>(), stray.len(), "{stray}");
        }
    }
}
