//! The counts of fault plans: the files `faults-BOOT-PLAN`, one per plan and host.

use crate::source::Source;
use cupeer_spec::record::{self, faults};
use std::path::{Path, PathBuf};

/// Largest number of rules that are read. The text of a plan has some KiB, so it cannot have more lines.
const MOST_RULES: usize = 1 << 16;
/// Largest number of bytes of a plan's text that are read.
const MOST_TEXT: usize = 16 << 20;
const COUNTER: usize = size_of::<faults::FaultCounter>();

/// Counts of one fault plan on one host, at the time of reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Boot id of the host.
    pub boot_id: [u8; 16],
    /// Faults of the plan, in the order in which they are tried.
    pub rules: Vec<FaultCounts>,
    /// Number of processes that had the plan.
    pub processes: u64,
    /// Fingerprints of the handles that the plan damaged, up to a limit.
    pub damaged: Vec<u64>,
    /// Number of damaged handles that `damaged` omits.
    pub damaged_more: u64,
    /// Number and times of a plan that was armed while the job was running.
    pub later: Option<LaterPlan>,
    /// Problem of a file that can be read nevertheless: the rest of a sentence that begins with the path.
    pub problem: Option<String>,
}

/// Number and times of a plan that was armed while its job was running.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaterPlan {
    /// Number of the plan in the job.
    pub number: u64,
    /// Time at which it was armed, in nanoseconds since 1970.
    pub armed: u64,
    /// Time at which it was disarmed; 0 while it is armed.
    pub disarmed: u64,
    /// Process that armed the plan for itself and its descendants: pid, pid namespace, and start in ticks since boot. `None` for a
    /// plan of `cupeer fault`.
    pub root: Option<(u32, u64, u64)>,
}

/// Counts of one fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultCounts {
    /// Name of the fault, which begins with that of its plan: `PLAN/NAME`.
    pub name: String,
    /// Text of the fault as it was written.
    pub text: String,
    /// Number of calls that met the conditions.
    pub matched: u64,
    /// Number of calls at which the fault fired. In a dry run, number of calls at which it would have fired.
    pub fired: u64,
    /// Number of processes that had the plan.
    pub processes: u64,
}

impl FaultCounts {
    /// Returns the name of the fault's plan.
    pub fn plan_name(&self) -> &str {
        self.name.split_once('/').map_or(&self.name, |(plan, _)| plan)
    }
}

impl FaultFile {
    /// Returns true if a file with this name contains the counts of a fault plan.
    pub fn is_file_name(name: &str) -> bool {
        name.len() > faults::PREFIX.len() && name.starts_with(faults::PREFIX)
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The error is a sentence without a subject, such as "is empty".
    pub fn open(path: &Path) -> Result<FaultFile, String> {
        FaultFile::read(&path.into(), path)
    }

    /// Reads the bytes of a file, with the errors of [`FaultFile::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<FaultFile, String> {
        FaultFile::read(&bytes.into(), Path::new(name))
    }

    /// Reads all files of counts in a directory, ordered by name, and omits those that cannot be read.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// for file in cupeer_record::FaultFile::all_in(std::path::Path::new("recording")) {
    ///     for rule in &file.rules {
    ///         println!("{}: matched {}, fired {}", rule.name, rule.matched, rule.fired);
    ///     }
    /// }
    /// ```
    pub fn all_in(dir: &Path) -> Vec<FaultFile> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let named = entries.filter(|entry| FaultFile::is_file_name(&entry.file_name().to_string_lossy()));
        let mut paths: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
        paths.sort_unstable();
        paths.iter().filter_map(|path| FaultFile::open(path).ok()).collect()
    }

    fn read(source: &Source, path: &Path) -> Result<FaultFile, String> {
        let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
        let file = source.open().map_err(unreadable)?;
        let mut head = vec![0; faults::TEXT];
        let had = file.read(&mut head, 0).map_err(unreadable)?;
        if had == 0 || head[..8] == [0; 8] {
            return Err("is empty".into());
        }
        if head[..8] != faults::MAGIC {
            return Err("does not say what fault plans did".into());
        }
        let header = record::read_plain::<faults::Header>(&head[..had]).ok_or("is cut off in its header")?;
        crate::version::check_version(header.version.into(), faults::VERSION..=faults::VERSION)?;
        let size = file.size().map_err(unreadable)?;
        let (text, rules) = (header.text as usize, header.rules as usize);
        if text > MOST_TEXT || rules > MOST_RULES {
            return Err(format!("claims to have {rules} rules in {text} bytes"));
        }
        let end = u64::from(header.counters) + (rules * COUNTER) as u64;
        let is_cut = (faults::TEXT + text) as u64 > size || end > size;
        // Allocate no memory for bytes that the file lacks.
        let mut lines = vec![0; text.min(size.saturating_sub(faults::TEXT as u64) as usize)];
        let had = file.read(&mut lines, faults::TEXT as u64).map_err(unreadable)?;
        let lines = String::from_utf8_lossy(&lines[..had]).into_owned();
        let lines: Vec<&str> = lines.lines().filter(|line| !line.is_empty()).take(rules).collect();
        let mut counters = vec![0; lines.len() * COUNTER];
        let had = file.read(&mut counters, header.counters.into()).map_err(unreadable)?;
        counters[had..].fill(0);
        let rule = |(line, counter): (&&str, &[u8])| {
            let (name, text) = line.split_once(' ').unwrap_or((line, ""));
            let (matched, fired) = (read_number(counter, 0), read_number(counter, 8));
            let (name, text) = (name.to_owned(), text.to_owned());
            FaultCounts { name, text, matched, fired, processes: header.processes }
        };
        let rules: Vec<FaultCounts> = lines.iter().zip(counters.chunks_exact(COUNTER)).map(rule).collect();
        let problem = match header.rules as usize - rules.len() {
            _ if is_cut => Some("is cut off: some of what fault plans did is missing".to_owned()),
            0 => None,
            missing => Some(format!("lacks the text of {missing} of {} rules", header.rules)),
        };
        let damaged = head[faults::DAMAGED..].chunks_exact(8).take(faults::DAMAGED_COUNT);
        let damaged = damaged.map(|bytes| read_number(bytes, 0)).filter(|fingerprint| *fingerprint != 0);
        Ok(FaultFile {
            path: path.to_path_buf(),
            boot_id: header.boot_id,
            processes: header.processes,
            damaged: damaged.collect(),
            damaged_more: header.damaged_more,
            later: (header.number != 0).then(|| LaterPlan {
                number: header.number,
                armed: header.armed,
                disarmed: header.disarmed,
                root: header.arming_process(),
            }),
            problem,
            rules,
        })
    }

    /// Returns the bytes of a file with these counts, without the scopes, which only running processes need.
    pub fn to_bytes(&self) -> Vec<u8> {
        let line = |rule: &FaultCounts| format!("{} {}\n", rule.name, rule.text);
        let text: String = self.rules.iter().map(line).collect();
        let counters = (faults::TEXT + text.len()).next_multiple_of(8);
        let end = counters + self.rules.len() * COUNTER;
        let later = self.later.as_ref();
        let root = later.and_then(|later| later.root).unwrap_or_default();
        let header = faults::Header {
            magic: faults::MAGIC,
            version: faults::VERSION,
            rules: self.rules.len() as u32,
            boot_id: self.boot_id,
            text: text.len() as u32,
            counters: counters as u32,
            scopes: end as u32,
            scope_count: 0,
            processes: self.processes,
            damaged_more: self.damaged_more,
            number: later.map_or(0, |later| later.number),
            armed: later.map_or(0, |later| later.armed),
            disarmed: later.map_or(0, |later| later.disarmed),
            root_pid: root.0,
            reserved: 0,
            root_pid_ns: root.1,
            root_started: root.2,
        };
        let mut bytes = vec![0; end];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(0, record::plain_bytes(&header));
        let damaged = self.damaged.iter().take(faults::DAMAGED_COUNT).enumerate();
        damaged.for_each(|(i, fingerprint)| put(faults::DAMAGED + 8 * i, &fingerprint.to_le_bytes()));
        put(faults::TEXT, text.as_bytes());
        for (i, rule) in self.rules.iter().enumerate() {
            put(counters + i * COUNTER, &rule.matched.to_le_bytes());
            put(counters + i * COUNTER + 8, &rule.fired.to_le_bytes());
        }
        bytes
    }
}

fn read_number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Merges the faults of several files: the same fault on several hosts, or in several plans, becomes one.
pub fn merge_faults(files: &[FaultFile]) -> Vec<FaultCounts> {
    let mut places = std::collections::HashMap::new();
    let mut rules: Vec<FaultCounts> = Vec::new();
    for rule in files.iter().flat_map(|file| &file.rules) {
        let place = *places.entry((&rule.name, &rule.text)).or_insert(rules.len());
        match rules.get_mut(place) {
            Some(known) => {
                known.matched = known.matched.saturating_add(rule.matched);
                known.fired = known.fired.saturating_add(rule.fired);
                known.processes = known.processes.saturating_add(rule.processes);
            }
            None => rules.push(rule.clone()),
        }
    }
    rules
}
