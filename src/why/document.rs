//! The document that `cupeer why --format json` prints, and that its text is written from.

use super::shared::{SharedAddress, SharedMapping};
use super::syscall::{AwaitedEvent, MOMENT};
use schemars::JsonSchema;
use serde::Serialize;

/// Version of this format. Fields may be added without a new number.
pub const SCHEMA: &str = "cupeer-why/1";

/// Calls in which the processes of a job wait, since when, and for which processes. Names of fields are stable; fields
/// may be added. Fields whose names end in `_ns` contain nanoseconds. Example: `cupeer why --format json | jq -r
/// '.processes[] | "\(.pid) \(.doing)"'`
#[derive(Serialize, Clone, Debug, Default, JsonSchema)]
#[schemars(
    title = "cupeer why --format json",
    extend("$id" = "https://github.com/cupeer/cupeer/blob/main/docs/why.schema.json")
)]
pub struct Document {
    /// Version of this format: `cupeer-why/1`.
    pub schema: String,
    /// Version of cupeer.
    pub cupeer: String,
    /// Time when the processes were read, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Time in nanoseconds that reading the processes took.
    pub took_ns: u64,
    /// Path of the job's recording; null if it has none.
    pub record: Option<String>,
    /// Reason of the hang in one sentence.
    pub answer: String,
    /// Processes where the waits end, and those that wait for them; null if no process of the job is running.
    pub root: Option<Root>,
    /// Time in nanoseconds without progress of any process, if `cupeer run --on-hang` printed this; null otherwise.
    pub without_progress_ns: Option<u64>,
    /// Time when the job made progress again, in nanoseconds since 1970, in the file that `cupeer run --on-hang` keeps; null
    /// otherwise.
    pub resumed_ns: Option<u64>,
    /// Time when `cupeer run --on-hang` began to end the job, in nanoseconds since 1970; null if it did not.
    pub ended_ns: Option<u64>,
    /// Processes of the job: those with a rank in the order of their ranks, then the others by pid.
    pub processes: Vec<Process>,
    /// Data that could not be read: one sentence each.
    pub unseen: Vec<String>,
}

/// Processes where the waits end.
#[derive(Serialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
pub struct Root {
    /// Kind of the end: `ended`, `call`, `deadlock`, `cycle`, `apart` (processes in different operations), `stopped`, `sleeps`,
    /// `runs`, `polls`, `waits` (for something outside of the job), `refused`, or `unknown`.
    pub kind: String,
    /// Pids of these processes; of a cycle, in the order of the waits.
    pub pids: Vec<u32>,
    /// Pids of the processes that wait for one of them.
    pub waiting: Vec<u32>,
    /// Pids of the processes that wait for those in `waiting`.
    pub waiting_indirectly: Vec<u32>,
}

/// End of a process.
#[derive(Serialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct Ended {
    /// Exit status; null if a signal killed the process, or if it is unknown.
    pub status: Option<i32>,
    /// Name of the signal that killed the process; null if none did.
    pub signal: Option<String>,
    /// Time in nanoseconds since the end; null if unknown.
    pub ago_ns: Option<u64>,
}

impl Ended {
    /// Returns true if the process did not end well.
    pub fn is_failure(&self) -> bool {
        self.signal.is_some() || self.status.is_some_and(|status| status != 0)
    }
}

/// State of a process or thread.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The process or thread waits.
    Waits,
    /// The process or thread is running.
    Runs,
    /// A signal or a debugger stopped the process or thread.
    Stopped,
    /// The process or thread ended before or while it was read.
    Ended,
    /// The system does not permit reading the process or thread.
    Refused,
}

/// Process of the job.
#[derive(Serialize, Clone, Debug, JsonSchema)]
pub struct Process {
    /// Pid of the process in the pid namespace of this command.
    pub pid: u32,
    /// Pid of the process in its own pid namespace.
    pub own_pid: u32,
    /// Rank of the process in the job; null if it has none.
    pub rank: Option<u32>,
    /// Name of the process in the recording; null if it is not recorded.
    pub proc: Option<String>,
    /// Path of the program of the process.
    pub program: String,
    /// Arguments of the program, its name first.
    pub arguments: Vec<String>,
    /// State of the process: that of its most relevant thread.
    pub state: State,
    /// Activity of the process, as a clause without a subject: `waits in recv at x.py:12 since 38 s`.
    pub doing: String,
    /// Duration of this activity in nanoseconds; null if neither the kernel nor the recording has it.
    pub since_ns: Option<u64>,
    /// Pids of the processes that the process waits for, as far as they are known.
    pub waits_for: Vec<u32>,
    /// Exports of the process that no process opened, and other recorded facts for which others may wait: one clause
    /// each.
    pub owes: Vec<String>,
    /// Handles that the process exported.
    #[serde(skip)]
    pub exported: Vec<String>,
    /// Setting that would permit reading the process; null if it was read.
    pub hint: Option<String>,
    /// Longest time in nanoseconds for which a thread was stopped to be read; 0 if none was.
    pub stopped_ns: u64,
    /// Threads of the process, the most relevant first. Threads with the same stack are one entry.
    pub threads: Vec<Thread>,
    /// Number of threads of the process that were not read.
    pub threads_more: u64,
    /// Number of the threads in `threads_more` that were running.
    pub running_more: u64,
    /// End of the process; null if it is running, or if nothing is known of its end.
    pub ended: Option<Ended>,
    #[serde(skip)]
    pub parent: u32,
    /// The name that it gave itself, if that is another one than its program's.
    #[serde(skip)]
    pub comm: Option<String>,
    #[serde(skip)]
    pub shared: Vec<SharedMapping>,
}

/// Thread, or several threads with the same stack.
#[derive(Serialize, Clone, Debug, JsonSchema)]
pub struct Thread {
    /// Its tid, as this command sees it.
    pub tid: u32,
    /// Name of the thread.
    pub name: String,
    /// Number of threads with this stack.
    pub count: u64,
    /// State of the thread.
    pub state: State,
    /// Time in nanoseconds that the thread has waited; null if the kernel does not have it.
    pub since_ns: Option<u64>,
    /// System call that the thread waits in; null if it is in none.
    pub syscall: Option<String>,
    /// Descriptors that the thread waits for, with the processes that have the other ends.
    pub on: Vec<On>,
    /// Thread id of the thread that holds the lock for which the thread waits; null if the lock does not contain it.
    pub holder: Option<u32>,
    /// Recorded call that the thread is in; null if it is in none.
    pub call: Option<Call>,
    /// Place in shared memory that the thread reads again and again; null if it reads none, or if it is unknown.
    pub polls: Option<Polls>,
    /// Frames of the stack, the innermost first.
    pub frames: Vec<Frame>,
    /// The threads that this one stands for, as the process numbers them.
    #[serde(skip)]
    pub own_tids: Vec<u32>,
    #[serde(skip)]
    pub awaited: Option<AwaitedEvent>,
    /// The nanoseconds after which the system call returns anyway.
    #[serde(skip)]
    pub limit: Option<u64>,
    /// The frame that says most of where the thread is.
    #[serde(skip)]
    pub shown_frame: Option<usize>,
    /// True if these are all frames of compiled code. A waiting thread is not stopped, so its registers are unknown,
    /// and its frames can end early.
    pub complete: bool,
}

/// File descriptor that a thread waits for.
#[derive(Serialize, Clone, Debug, JsonSchema)]
pub struct On {
    /// Number of the descriptor in the process.
    pub fd: i32,
    /// Kind of the descriptor: `Unix socket`, `TCP socket`, `pipe`, `eventfd`, `file`, or `descriptor`.
    pub kind: String,
    /// Path of the file or socket, or address of the other end; empty if it has neither.
    pub name: String,
    /// Inode of the file or socket; null if it has none.
    pub inode: Option<u64>,
    /// Pids of the processes that have the other end.
    pub peers: Vec<u32>,
    /// Reason why no process with the other end is known; null if one is known, or if there is no other end.
    pub unknown: Option<String>,
    /// True if the thread waits for data to read.
    #[serde(skip)]
    pub reads: bool,
    /// The inode of the other end, if that is another one.
    #[serde(skip)]
    pub other_inode: Option<u64>,
}

impl On {
    /// Returns true if this is the other end of what another thread waits for.
    pub fn is_other_end_of(&self, on: &On) -> bool {
        let is_same = self.inode.is_some() && self.inode == on.inode && self.reads != on.reads;
        self.kind == on.kind && (is_same || self.inode.is_some() && self.inode == on.other_inode)
    }
}

/// Place in shared memory that a thread reads again and again.
#[derive(Serialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct Polls {
    /// Path of the file, or the kernel's name for memory without a file.
    pub name: String,
    /// Offset in the file or memory; null if the thread may read any place in it.
    pub offset: Option<u64>,
    /// Value there, as a number of 4 bytes; null without an offset.
    pub value: Option<u32>,
    /// Number of times that cupeer read the same there.
    pub looks: u32,
    #[serde(skip)]
    pub shared_address: Option<SharedAddress>,
}

/// Recorded call that has not returned.
#[derive(Serialize, Clone, Debug, JsonSchema)]
pub struct Call {
    /// Name of the function.
    pub function: String,
    /// Time in nanoseconds since the call began.
    pub since_ns: u64,
    /// Handle in the call's arguments; null if it has none.
    pub handle: Option<String>,
    /// Name of the fault that holds the call; null if none does.
    pub injected_by: Option<String>,
}

/// Frame of a call stack.
#[derive(Serialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct Frame {
    /// Language of the frame: `C` for all compiled code, or `Python`.
    pub language: String,
    /// Name of the function; null if unknown.
    pub function: Option<String>,
    /// Path of the source file; null if unknown.
    pub file: Option<String>,
    /// Number of the line in the source file; null if unknown.
    pub line: Option<u32>,
    /// Path of the library or program; null for Python, and for code in neither.
    pub library: Option<String>,
    /// Offset in the library, or the address for code in no library; null for Python.
    pub offset: Option<String>,
}

impl Thread {
    /// Returns the frames up to the begin of a process that Python forked: the others are its parent's.
    pub fn own_frames(&self) -> &[Frame] {
        let begins = |frame: &Frame| {
            let file = frame.file.as_deref().unwrap_or_default();
            frame.function.as_deref() == Some("_bootstrap") && file.ends_with("multiprocessing/process.py")
        };
        let begin = self.frames.iter().position(begins);
        &self.frames[..begin.unwrap_or(self.frames.len())]
    }

    /// A thread that waits, for tests.
    #[cfg(test)]
    pub fn waiting(tid: u32) -> Thread {
        Thread {
            tid,
            name: "t".into(),
            count: 1,
            state: State::Waits,
            since_ns: None,
            syscall: None,
            on: Vec::new(),
            holder: None,
            call: None,
            polls: None,
            frames: Vec::new(),
            own_tids: vec![tid],
            awaited: None,
            limit: None,
            shown_frame: None,
            complete: true,
        }
    }

    /// Returns true if the thread waits for children.
    pub fn waits_for_children(&self) -> bool {
        matches!(self.syscall.as_deref(), Some("wait4" | "waitid"))
    }

    pub fn is_sleeping(&self) -> bool {
        self.awaited == Some(AwaitedEvent::Time)
    }

    /// Returns true if the thread waits for a connection from anybody.
    pub fn accepts_connections(&self) -> bool {
        let listens = |on: &On| on.peers.is_empty() && on.unknown.is_none() && on.kind.ends_with("socket");
        matches!(self.syscall.as_deref(), Some("accept" | "accept4")) || self.on.iter().any(listens)
    }

    /// Returns true if the thread opens a pipe that nobody has open at the other end.
    pub fn is_opening_pipe(&self) -> bool {
        matches!(self.awaited, Some(AwaitedEvent::Open(_)))
    }

    /// Returns true if the thread sleeps or waits only for a moment: whoever does waits in a loop, and longer than the kernel
    /// knows.
    pub fn is_napping(&self) -> bool {
        self.limit.is_some_and(|limit| limit <= MOMENT)
    }
}

impl Process {
    /// A process of which only the end is known.
    pub fn with_end_only(pid: u32) -> Process {
        Process {
            pid,
            own_pid: pid,
            rank: None,
            proc: None,
            program: String::new(),
            arguments: Vec::new(),
            state: State::Ended,
            doing: String::new(),
            since_ns: None,
            waits_for: Vec::new(),
            owes: Vec::new(),
            exported: Vec::new(),
            hint: None,
            stopped_ns: 0,
            threads: Vec::new(),
            threads_more: 0,
            running_more: 0,
            ended: None,
            parent: 0,
            comm: None,
            shared: Vec::new(),
        }
    }

    pub fn is_alive(&self) -> bool {
        !matches!(self.state, State::Ended | State::Refused)
    }

    /// Returns true if the process is known to have ended otherwise than well.
    pub fn has_failed(&self) -> bool {
        self.ended.as_ref().is_some_and(Ended::is_failure)
    }
}

impl Frame {
    /// Returns the place of the frame: `x.py:12`, `share.c:88`, or `recv in libc.so.6`.
    pub fn place_text(&self) -> String {
        let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        match (&self.file, self.line, &self.function, &self.library) {
            (Some(file), Some(line), ..) => format!("{}:{line}", last(file)),
            (Some(file), None, ..) => last(file),
            (_, _, Some(function), Some(library)) => format!("{function} in {}", last(library)),
            (_, _, None, Some(library)) => {
                format!("{}+{}", last(library), self.offset.as_deref().unwrap_or("?"))
            }
            _ => self.offset.clone().unwrap_or_else(|| "?".to_owned()),
        }
    }

    /// Returns true if the source is a header, as of helpers that only forward.
    pub fn is_header(&self) -> bool {
        self.file.as_deref().is_some_and(cupeer_spec::origin::is_header_file)
    }

    /// Returns true if this is code of the program's own, as far as its place says.
    pub fn is_own(&self) -> bool {
        if self.language == "Python" {
            let file = self.file.as_deref().unwrap_or_default();
            return !file.starts_with('<') && !file.contains("/lib/python3") && !file.contains("/site-packages/");
        }
        const PLACES: [&str; 6] =
            ["/usr/lib/", "/usr/lib64/", "/lib/", "/lib64/", "/site-packages/", "/dist-packages/"];
        let library = self.library.as_deref().unwrap_or_default();
        let is_installed = |place: &&str| match place.starts_with("/usr") || place.starts_with("/lib") {
            true => library.starts_with(*place),
            false => library.contains(*place),
        };
        self.is_in_other_library() && !PLACES.iter().any(is_installed)
    }

    /// Returns true if this is code of another library than those of the system, of the driver, and of cupeer.
    pub fn is_in_other_library(&self) -> bool {
        const LIBRARIES: [&str; 12] = [
            "libc.so",
            "libpthread.so",
            "ld-linux",
            "libm.so",
            "libstdc++",
            "libgcc_s",
            "libcuda.so",
            "libcudart",
            "libcupeer",
            "libnccl",
            "vdso",
            "libmusl",
        ];
        let library = self.library.as_deref().unwrap_or_default();
        let name = library.rsplit('/').next().unwrap_or_default();
        !library.is_empty() && !LIBRARIES.iter().any(|known| name.contains(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_recordings::kept::ours::{HANG_BEGIN, remove_record};
    use cupeer_spec::record::job;
    use std::fs;

    #[test]
    fn kept_hangs_go_with_their_recording() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("app-1");
        fs::create_dir(&record).unwrap();
        fs::write(record.join(job::FILE), format!("{}\n", job::FIRST_LINE)).unwrap();
        let document = serde_json::to_vec_pretty(&Document { schema: SCHEMA.into(), ..Default::default() });
        fs::write(record.join("hang-a510ee21-7-1.json"), document.unwrap()).unwrap();
        for (name, text) in [("hang-a510ee21-7-2.json", "{}"), ("hang-gliding.json", HANG_BEGIN)] {
            fs::write(record.join(name), text).unwrap();
            assert!(!remove_record(&record).unwrap() && record.join(name).exists(), "{name} is somebody else's");
            fs::remove_file(record.join(name)).unwrap();
        }
        assert!(remove_record(&record).unwrap() && !record.exists());
    }

    #[test]
    fn page_of_the_schema_of_why_is_current() {
        let made = format!("{:#}\n", cupeer_views::schema::of::<Document>().to_value());
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/why.schema.json");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == made, "docs/why.schema.json is stale: run scripts/docs");
    }
}
