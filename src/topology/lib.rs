//! Simulated machines: the devices of the simulated driver, and the links between them.
//!
//! The crate defines topologies, their short names, and their file format. `src/sim` answers driver queries
//! from them.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `machine`: devices, links, and ways.
//! - `preset`: the short names.
//! - `file`: the file format.

mod file;
mod machine;
mod preset;

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

pub use machine::{
    DataCarrier, Device, Link, LinkDamage, LinkKind, MOST_DEVICES, MethodVerdict, OPERATIONS, PciAddress,
    SharingMethod, Topology, TopologyError,
};
pub use preset::{PRESETS, Preset};

/// Reads a regular file of at most `MOST_BYTES`. Other files, such as pipes, cannot be read again by each
/// process.
fn read_topology_file(path: &str) -> std::io::Result<Vec<u8>> {
    const MOST_BYTES: u64 = 1 << 20;
    let check = |about: std::fs::Metadata| match about.is_file() {
        true => Ok(()),
        false => Err(std::io::Error::other("not a regular file, as a topology must be")),
    };
    // Checks before the opening, because opening a device may have effects, and after it, because the path
    // may lead to another file by then.
    check(std::fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    check(file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(std::io::Error::other("a topology has at most 1 MiB"));
    }
    Ok(bytes)
}

/// Returns the path in the text of a topology, without the option `,late:SEED` that may follow it; `None` for
/// a short name.
pub fn topology_path(text: &str) -> Option<&str> {
    let before = text.rsplit_once(',').filter(|(_, option)| preset::parse_late_option(option).is_some());
    let path = before.map_or(text, |(path, _)| path);
    (path.contains('/') || path.ends_with(".toml")).then_some(path)
}

impl Topology {
    /// Reads a topology: a short name of [`PRESETS`], or the path of a TOML file, which `,late:SEED` may follow.
    pub fn parse(text: &str) -> Result<Topology, TopologyError> {
        let Some(path) = topology_path(text) else {
            return preset::parse_short_name(text).map_err(TopologyError);
        };
        let bytes = read_topology_file(path).map_err(|e| TopologyError(format!("{path}: {e}")))?;
        let mut machine = Topology::parse_file(path, &bytes)?;
        if let Some(seed) = text[path.len()..].strip_prefix(',').and_then(preset::parse_late_option) {
            machine.late = Some(seed.map_err(TopologyError)?);
        }
        Ok(machine)
    }

    /// Reads the bytes of a TOML file; `path` is for the messages.
    pub fn parse_file(path: &str, bytes: &[u8]) -> Result<Topology, TopologyError> {
        let line_of = |at: usize| 1 + bytes[..at.min(bytes.len())].iter().filter(|b| **b == b'\n').count();
        let text = std::str::from_utf8(bytes)
            .map_err(|e| TopologyError(format!("{path}:{}: this is not UTF-8 text", line_of(e.valid_up_to()))))?;
        file::parse(text).map_err(|e| TopologyError(format!("{path}:{}: {}", line_of(e.at), e.message)))
    }
}

impl Default for Topology {
    /// Returns the machine `nvlink:2`.
    fn default() -> Self {
        Topology::with_uniform_links(2, LinkKind::Nvlink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_recorded_pair() {
        let machine = Topology::default();
        assert_eq!(Topology::parse("nvlink:2").unwrap(), machine);
        let recorded = Link {
            can_access: true,
            performance_rank: 0,
            native_atomics: true,
            array_access: true,
            partial_atomics: false,
            atomic_capabilities: [0; OPERATIONS],
            data: LinkDamage::Good,
            data_by: DataCarrier::Any,
            verdicts: [None; SharingMethod::ALL.len()],
        };
        assert_eq!((machine.link(0, 1), machine.link(1, 0)), (Some(&recorded), Some(&recorded)));
        assert_eq!((machine.link(0, 0), machine.link(0, 2), machine.link(2, 0)), (None, None, None));
    }

    #[test]
    fn mistakes_are_named() {
        for path in ["/dev/zero", "/dev/", "/proc/self/fd/0/x.toml", "./no/such.toml"] {
            let error = Topology::parse(path).expect_err(path).to_string();
            assert!(error.starts_with(&format!("{path}: ")), "{error}");
        }
        let error = Topology::parse_file("t.toml", b"count = 1\nlate = 'x'").unwrap_err().to_string();
        assert_eq!(error, "t.toml:2: 'late' must be a number, which seeds the order of the work");
        assert_eq!(Topology::parse_file("t.toml", b"count = 1\nlate = 9").unwrap().late, Some(9));
        let error = Topology::parse_file("t.toml", b"# one\n\xff").unwrap_err().to_string();
        assert_eq!(error, "t.toml:2: this is not UTF-8 text");
        let error = Topology::parse("./no/such.toml,late:3").unwrap_err().to_string();
        assert!(error.starts_with("./no/such.toml: "), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_machine_or_an_error(bytes: Vec<u8>) {
            if let Ok(machine) = Topology::parse_file("any", &bytes) {
                assert!((1..=MOST_DEVICES).contains(&machine.devices.len()));
            }
        }

        #[test]
        fn any_short_name_is_a_machine_or_an_error(text in "[a-z]{0,7}:?[0-9x-]{0,4}(,kernels=[a-z]{0,5}|,late:?[0-9]{0,3})?") {
            if let Ok(machine) = Topology::parse(&text) {
                assert!((1..=MOST_DEVICES).contains(&machine.devices.len()));
            }
        }

        #[test]
        fn any_words_of_the_format_are_a_machine_or_an_error(
            words in proptest::collection::vec(
                proptest::sample::select(vec![
                    "[[device]]\n", "[[link]]\n", "[device]\n", "links", "kind", "from", "to", "name", "uuid",
                    "pci", "memory", "compute_capability", "kernels", "late", "'skip'", " = ", "0", "1", "-1", "99999999999999999999",
                    "\"nvlink\"", "\"9.0\"", "\"1GiB\"", "true", "multicast", "[]", "{}", "\n", "both", "count",
                    "data", "data_by", "'stale'", "'copies'", "peer", "'refused'", "atomic_capabilities", "[1, 2]", "copy_mb_s",
                ]),
                0..24,
            )
        ) {
            let _ = Topology::parse_file("any", words.concat().as_bytes());
        }
    }
}
