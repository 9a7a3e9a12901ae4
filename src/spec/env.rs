//! The environment variables that the preload library and the simulated driver read, with their meaning.
//! `cupeer env` prints them, `cupeer list environment` and `docs/reference/variables.md` document them; no other place may name one.

use crate::record::RING_SIZES;
use crate::record::slot::finding::Severity;

/// An environment variable that cupeer reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Name of the variable.
    pub name: &'static str,
    /// Form of the variable's value.
    pub value: &'static str,
    /// Kind of the variable's value.
    pub content: Content,
    /// Meaning of the variable, with its default value.
    pub doc: &'static str,
}

/// Kind of a variable's value, for recordings that are sent to somebody else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// May name files, hosts, or parts of the program: `cupeer pack --redact environment` leaves it out.
    Private,
    /// Says only how cupeer recorded, so packed recordings keep it.
    Harmless,
}

/// Prefix of all variables.
pub const PREFIX: &str = "CUPEER_";

macro_rules! variables {
    ($($constant:ident $name:literal $value:literal $content:ident $doc:literal)*) => {
        $(#[doc = $doc] pub const $constant: &str = $name;)*
        /// The names of all variables. The preload library needs no more of them.
        pub static NAMES: &[&str] = &[$($name),*];

        /// All variables.
        pub static VARIABLES: &[Variable] = &[$(Variable {
            name: $name, value: $value, content: Content::$content, doc: $doc,
        },)*];
    };
}
variables! {
    LOG "CUPEER_LOG" "text|json" Private
        "Writes a line for each call. Default: no log."
    LOG_FILE "CUPEER_LOG_FILE" "PATH" Private
        "File to which the lines of the log are appended. %p becomes the pid, %h the host, %q{VAR} a variable. Default: stderr."
    TRACE "CUPEER_TRACE" "SET" Harmless
        "Functions that are logged: names, patterns, @groups, ^negations, separated by commas. Default: ^@lookup,^@init,^@lifetime,^@query,^@vmm,^@alloc,^@copy,^@launch,^@graph,^@event,^@order,@export,@open."
    FAILED "CUPEER_FAILED" "0|1" Private
        "1 logs only calls that did not return CUDA_SUCCESS. Default: 0."
    OUT "CUPEER_OUT" "DIR" Private
        "Directory of the recording, which contains a file for each process that calls the driver. It is created if it does not exist. %p becomes the pid, %h the host, %q{VAR} a variable. Default: no recording."
    RECORD "CUPEER_RECORD" "auto|full|ring|off" Harmless
        "Extent of the recording. full: everything. full:SIZE: everything while it fits into SIZE bytes for a process, and else the first calls (half of SIZE), the last calls, and everything still open. ring or ring:SIZE: the last SIZE bytes of each process (with K, M, or G; 1M to 1024G; default 16M) and everything still open. auto or auto:N: full:256M for up to N ranks (default 256; the first of WORLD_SIZE, OMPI_COMM_WORLD_SIZE, PMI_SIZE, and SLURM_NTASKS that is a number), and above that ring:4M, in one directory per host, with no file for a process that shares nothing. off: nothing. Default: auto."
    SHARE "CUPEER_SHARE" "group" Private
        "Lets the directory's group read and write the recording, for processes of several users. Default: only the user."
    PYTHON "CUPEER_PYTHON" "0|1" Private
        "0 records and reports no lines of Python. Default: 1."
    CHECK "CUPEER_CHECK" "LEVEL" Private
        "Checks the rules, and records findings. errors, warnings, or notes: reports findings of that severity and above, one paragraph each. full: as warnings. brief: as warnings, with one line each. off: checks nothing during the run, and the report has what the recording shows. Needs CUPEER_OUT. `cupeer run` sets brief if it records. Default: off."
    IGNORE "CUPEER_IGNORE" "RULE[@LIBRARY],..." Private
        "Rules that are not checked: names or patterns, separated by commas; with @LIBRARY, only in calls of that library. Default: none."
    ONLY "CUPEER_ONLY" "RULE[@LIBRARY],..." Private
        "The only rules that are checked. Default: all."
    ABORT_ON "CUPEER_ABORT_ON" "RULE[@LIBRARY],..." Private
        "Rules that abort the process (SIGABRT) when they are broken, after the finding is reported. Default: none."
    STOP_ON "CUPEER_STOP_ON" "RULE[@LIBRARY],..." Private
        "Rules that stop the process (SIGSTOP) when they are broken, so that a debugger can attach. Default: none."
    ERROR_ON "CUPEER_ERROR_ON" "RULES" Harmless
        "Findings that count as errors, in messages and in reports of the recording: as for `cupeer run --error-on`. All others are warnings at most. Default: each finding has the severity of its rule."
    TEST "CUPEER_TEST" "NAME" Private
        "Name of the test that started the process, set by the pytest plugin. It is only recorded. Default: none."
    INJECT "CUPEER_INJECT" "FAULT;..." Private
        "Fault plan: faults separated by semicolons or newlines, as for `cupeer run --inject`. Default: no faults."
    DRY_RUN "CUPEER_DRY_RUN" "0|1" Harmless
        "1 makes fault plans change nothing, and only records at which calls they would have fired. Default: 0."
    ALLOW_FAULTS "CUPEER_ALLOW_FAULTS" "0|1" Private
        "1 lets `cupeer fault` arm and disarm fault plans in the process while it is running. Needs CUPEER_OUT. Default: 0."
    FAULTS "CUPEER_FAULTS" "DIR" Private
        "Directory in which processes share the counts of fault plans. Default: the directory of the recording; without a recording, each process counts separately."
    DENY_PEER "CUPEER_DENY_PEER" "all|A/B[:oneway],..." Private
        "Pairs of devices, by UUID or PCI address, that appear unreachable. Default: none."
    PEER_LIMIT "CUPEER_PEER_LIMIT" "N" Private
        "Most peers that a context can access; one more is CUDA_ERROR_TOO_MANY_PEERS. Default: the driver's limit."
    DRIVER "CUPEER_DRIVER" "PATH" Private
        "Driver library for calls of a program that neither links nor opens libcuda. Default: these calls return SHARED_OBJECT_INIT_FAILED."
    JOB "CUPEER_JOB" "32 hexadecimal digits" Private
        "Key of the fingerprints of IPC handles; the same in all processes of a job. `cupeer run` creates a random one. Default: all zero."
    STATUS "CUPEER_STATUS" "PATH" Private
        "File that `cupeer run` shares with its processes, to learn whether any of them reached the driver. Default: none."
    SIM "CUPEER_SIM" "TOPOLOGY" Private
        "Machine that the simulated driver simulates: nvlink:N, pcie:N, none:N, or the path of a TOML file. Default: nvlink:2."
}

/// Value of [`CHECK`] that `cupeer run` sets when it records, if the user chose none.
pub const BRIEF: &str = "brief";

/// Level of checking: the values of [`CHECK`] except `off`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckLevel {
    /// Least severity of printed findings.
    pub severity: Severity,
    /// True if each finding is printed in one line, and its details at the end.
    pub is_brief: bool,
}

impl CheckLevel {
    /// Parses a value: `warnings` selects warnings and errors. The inner value is `None` for `off`.
    pub fn parse(text: &str) -> Option<Option<CheckLevel>> {
        let level = |severity, is_brief| Some(Some(CheckLevel { severity, is_brief }));
        match text {
            "off" => Some(None),
            "full" => level(Severity::Warning, false),
            BRIEF => level(Severity::Warning, true),
            _ => level(Severity::from_word(text.strip_suffix('s')?)?, false),
        }
    }

    /// Returns the level for a value of [`CHECK`]. Returns `None` if the variable is unset, `off`, or wrong.
    pub fn from_variable(value: Option<&str>) -> Option<CheckLevel> {
        CheckLevel::parse(value?).flatten()
    }
}

/// Default size of a ring in bytes.
pub const RING_SIZE: u64 = 16 << 20;

/// Default number of bytes per process up to which everything is kept.
pub const AUTO_LIMIT: u64 = 256 << 20;
/// Default number of ranks up to which everything is kept.
pub const AUTO_RANKS: u32 = 256;
/// Size in bytes of the ring that each process of a larger job has. A node has hundreds of processes, and may keep
/// files in memory.
pub const AUTO_RING: u64 = 4 << 20;

/// Selection of recorded calls: the values of [`RECORD`] and `--record`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordMode {
    /// `auto[:N]`: everything up to [`AUTO_LIMIT`] in a job with up to this number of ranks. In a larger job,
    /// a ring in the host's folder, and only for processes that share something.
    Auto(u32),
    /// `off`: no recording.
    Off,
    /// `full[:SIZE]`: everything or, with a size in bytes, the first and the last events.
    Full(Option<u64>),
    /// `ring[:SIZE]`: the last events that fit in this number of bytes.
    Ring(u64),
}

impl RecordMode {
    /// Parses a value of [`RECORD`]. The error is a sentence about the mistake.
    pub fn parse(text: &str) -> Result<RecordMode, &'static str> {
        let known = "it takes auto, auto:RANKS, full, full:SIZE, off, ring, or ring:SIZE, such as ring:64M";
        let sized = |digits, make: fn(u64) -> RecordMode| match parse_size(digits) {
            Some(size) if RING_SIZES.contains(&size) => Ok(make(size)),
            Some(_) => Err("a SIZE is at least 1M and at most 1024G"),
            None => Err(known),
        };
        if let Some(ranks) = text.strip_prefix("auto:") {
            let digits = ranks.bytes().all(|byte| byte.is_ascii_digit()).then_some(ranks);
            let ranks = digits.and_then(|digits| digits.parse().ok());
            return ranks.map(RecordMode::Auto).ok_or("auto: is followed by a number of ranks");
        }
        match text {
            "auto" => Ok(RecordMode::Auto(AUTO_RANKS)),
            "off" => Ok(RecordMode::Off),
            "full" => Ok(RecordMode::Full(None)),
            "ring" => Ok(RecordMode::Ring(RING_SIZE)),
            _ => match text.split_once(':') {
                Some(("ring", digits)) => sized(digits, RecordMode::Ring),
                Some(("full", digits)) => sized(digits, |size| RecordMode::Full(Some(size))),
                _ => Err(known),
            },
        }
    }
}

/// Reads a size: a number of bytes, or one followed by K, M or G.
pub fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    // Accept digits only: `parse` would accept a sign, too.
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok())??;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, wanted) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("256K", Some(256 << 10)),
            ("16m", Some(16 << 20)),
            ("2G", Some(2 << 30)),
            ("", None),
            ("K", None),
            ("+1", None),
            ("1T", None),
            ("99999999999G", None),
        ] {
            assert_eq!(parse_size(text), wanted, "{text}");
        }
    }

    #[test]
    fn records_are_full_or_rings() {
        for (good, mode) in [
            ("auto", RecordMode::Auto(256)),
            ("auto:0", RecordMode::Auto(0)),
            ("auto:4294967295", RecordMode::Auto(u32::MAX)),
            ("full", RecordMode::Full(None)),
            ("full:256M", RecordMode::Full(Some(AUTO_LIMIT))),
            ("off", RecordMode::Off),
            ("ring", RecordMode::Ring(16 << 20)),
            ("ring:1M", RecordMode::Ring(1 << 20)),
            ("ring:1024G", RecordMode::Ring(1 << 40)),
        ] {
            assert_eq!(RecordMode::parse(good), Ok(mode), "{good}");
        }
        let known = "it takes auto, auto:RANKS, full, full:SIZE, off, ring, or ring:SIZE, such as ring:64M";
        let ranks = "auto: is followed by a number of ranks";
        let sizes = "a SIZE is at least 1M and at most 1024G";
        for (wrong, why) in [
            ("", known),
            ("Full", known),
            ("auto1", known),
            ("auto:", ranks),
            ("auto:+1", ranks),
            ("auto:4294967296", ranks),
            ("ring:", known),
            ("ring:x", known),
            ("ring:16T", known),
            ("ring:1", sizes),
            ("full:1", sizes),
            ("full:", known),
            ("ring:1023K", sizes),
            ("ring:1025G", sizes),
            ("ring:9223372036854775808", sizes),
        ] {
            assert_eq!(RecordMode::parse(wrong), Err(why), "{wrong}");
        }
    }

    #[test]
    fn levels_are_severities_of_many() {
        assert_eq!(
            ["errors", "warnings", "notes"].map(|word| CheckLevel::from_variable(Some(word)).unwrap().severity),
            {
                let mut worst_first = Severity::ALL;
                worst_first.reverse();
                worst_first
            }
        );
        for wrong in ["", "s", "error", "all", "Errors"] {
            assert_eq!(CheckLevel::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_number_of_ranks_is_documented_with_its_variables() {
        let record = VARIABLES.iter().find(|variable| variable.name == RECORD).expect("it is there");
        for name in crate::rank::SIZE {
            assert!(record.doc.contains(name), "{name}: name it in the text of {RECORD}");
        }
    }

    #[test]
    fn every_variable_says_what_holds_without_it() {
        for v in VARIABLES {
            assert!(v.name.starts_with("CUPEER_") && v.doc.contains("Default: "), "{}", v.name);
        }
    }
}
