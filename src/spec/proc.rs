//! Parses the text of the kernel's files in /proc. Callers read the files.

use core::fmt;

/// Path of the `stat` file of a process, by its name in /proc. It is the path for the first thread, which has
/// the same contents. For a process's own `stat` file, a processor emulator makes up contents with another
/// start time, whatever path is used.
pub struct StatPath<T>(pub T);

impl<T: fmt::Display> fmt::Display for StatPath<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "/proc/{0}/task/{0}/stat", self.0)
    }
}

/// Facts about a process or a thread from its `stat` file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Letter of the state, such as `T` for stopped.
    pub state: u8,
    /// Pid of the process that started the process or adopted it.
    pub parent: i32,
    /// True if the process is exiting, or is a zombie.
    pub is_ending: bool,
    /// Number of threads.
    pub threads: u64,
    /// Start time in ticks since boot.
    pub started: u64,
    /// Start address of the stack; 0 if the system withholds it.
    pub stack: u64,
}

impl Stat {
    /// Parses the text of the file. The name of the program, in parentheses, may contain any bytes, so fields
    /// are counted from the last parenthesis.
    pub fn parse(text: &[u8]) -> Option<Stat> {
        /// Flag PF_EXITING of the kernel.
        const EXITING: u64 = 4;
        let from = text.iter().rposition(|byte| *byte == b')')? + 1;
        let mut fields = text[from..].split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty());
        let number = |field: &[u8]| core::str::from_utf8(field).ok()?.parse::<u64>().ok();
        // The state is field 3, the first one after the name.
        let state = *fields.next()?.first()?;
        let parent = number(fields.next()?)? as i32;
        let flags = number(fields.nth(9 - 5)?)?;
        let threads = number(fields.nth(20 - 10)?)?;
        let started = number(fields.nth(22 - 21)?)?;
        let stack = fields.nth(28 - 23).and_then(number).unwrap_or(0);
        let is_ending = matches!(state, b'Z' | b'X' | b'x') || flags & EXITING != 0;
        Some(Stat { state, parent, is_ending, threads, started, stack })
    }
}

/// Returns the pids of a process from the text of its `status` file: that in the namespace of /proc first,
/// and that in the process's own namespace last.
pub fn parse_pids(status: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
    line.unwrap_or_default().split(|byte| byte.is_ascii_whitespace()).filter(|pid| !pid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ending_from_when_it_begins_to_end() {
        let stat = |state: &str, flags: u32| {
            format!(
                "12 (a ) b) {state} 1 12 12 0 -1 {flags} 1 0 2 0 3 4 5 6 20 0 1 0 4711 100 5 18446744073709551615 1 2 140736 0 0"
            )
        };
        let sleeping = Stat { state: b'S', parent: 1, is_ending: false, threads: 1, started: 4711, stack: 140736 };
        assert_eq!(Stat::parse(stat("S", 4194304).as_bytes()), Some(sleeping));
        assert!(Stat::parse(stat("R", 4194304 | 4).as_bytes()).unwrap().is_ending);
        assert!(Stat::parse(stat("Z", 0).as_bytes()).unwrap().is_ending);
        for broken in ["", "12 (a", "12 (a) S", "12 (a) S 1 2 x"] {
            assert_eq!(Stat::parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn the_first_thread_says_what_the_process_says() {
        let read = |path: &str| Stat::parse(&std::fs::read(path).unwrap()).unwrap();
        let (ours, whole) = (read(&StatPath(std::process::id()).to_string()), read("/proc/self/stat"));
        assert_eq!((ours.parent, ours.started, ours.stack), (whole.parent, whole.started, whole.stack));
    }

    #[test]
    fn a_process_below_the_namespace_of_proc_has_several_pids() {
        let numbers = |text: &'static str| parse_pids(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(numbers("Name:\ta\nNSpid:\t12\nVmPeak:\t 3 kB\n"), [b"12"]);
        assert!(numbers("Name:\ta\n").is_empty());
        assert_eq!(numbers("Name:\ta\nNSpid:\t4711\t12\n"), [&b"4711"[..], b"12"]);
    }
}
