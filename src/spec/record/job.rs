//! The file `job` of a recording: facts that its processes share. It has lines `name=value`. Readers must
//! ignore unknown names.

/// Name of the file with facts that all processes of a recording share.
pub const FILE: &str = "job";
/// First line of the file. The version is that of the whole directory.
pub const FIRST_LINE: &str = "cupeer job 1";
/// Name of the line with the key of fingerprints: 32 hexadecimal digits.
pub const KEY: &str = "key";
/// A line for each later run that takes part: host and pid of its launcher.
pub const JOINED: &str = "joined";
/// A line for each run: its launcher, as boot id, pid namespace, pid, start and user.
pub const RUN: &str = "run";

/// A line for each run: its command, as a shell would take it.
pub const COMMAND: &str = "command";

/// A line for each program that a run started and that made no call: its end, as
/// [`RecordedEnd::to_word`](super::end::RecordedEnd::to_word), and its name. Programs that made calls have files of
/// their own.
pub const STARTED: &str = "started";

/// A line for each process that a run saw use a driver without our library: the process, as the name of a file would have
/// it, and the path of the driver.
pub const BYPASSED: &str = "bypassed";

/// A line for each run with processes that could not record everything: their number.
pub const LOST: &str = "lost";

/// A line for each run with processes that have no recording: their number.
pub const MISSING: &str = "missing";

/// A line for each signal that a launcher received from outside of its run, or sent itself to end the run: boot id, pid of the
/// launcher, time in nanoseconds of CLOCK_MONOTONIC, signal, pid of the sender (0 for the terminal), and name of the sender.
pub const SIGNAL: &str = "signal";

/// A line for each run that ended with a problem: a finding above a note, a crash, a failure.
pub const NOTABLE: &str = "notable";

/// Prefix of the files with the calls that processes waited in when none made progress: the document of
/// `cupeer why`. The host's boot id, the launcher's pid, and a number follow.
pub const HANG: &str = "hang-";
/// Suffix of the files with the prefix [`HANG`].
pub const HANG_SUFFIX: &str = ".json";

/// Prefix of the files with NVML's answers about memory after calls failed for lack of it. The boot id of the
/// host and the pid of the launcher follow.
pub const MEMORY_SAMPLES: &str = "memory-";

/// Returns the digits of the key in the text of the file, or in a line of it.
pub fn find_key_digits(text: &[u8]) -> Option<&[u8]> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        (line[..at].trim_ascii() == KEY.as_bytes()).then(|| line[at + 1..].trim_ascii())
    })
}

/// Parses the digits of a key.
pub fn parse_key(digits: &[u8]) -> Option<[u8; 16]> {
    let mut key = [0; 16];
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    if digits.len() != 2 * key.len() {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_32_hexadecimal_digits() {
        let text = b"cupeer job 1\nother=1\n key = 000102030405060708090a0b0c0d0eFf\njoined=a:1\n";
        let key_of = find_key_digits(text).and_then(parse_key);
        assert_eq!(key_of.map(|key| (key[1], key[15])), Some((1, 0xff)));
        for digits in [&b""[..], b"00", b"000102030405060708090a0b0c0d0e0g", b"000102030405060708090a0b0c0d0e0f0"] {
            assert_eq!(parse_key(digits), None);
        }
        assert_eq!(find_key_digits(b"cupeer job 1\nkeys=1\n"), None);
    }
}
