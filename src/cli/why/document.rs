//! What `cupeer why --format json` prints, and what its text is made of.

use serde::Serialize;

/// What the reader takes. Fields may be added without another number.
pub const SCHEMA: &str = "cupeer-why/1";

/// What the document begins with.
pub const BEGIN: &str = "{\n  \"schema\": \"cupeer-why/";

/// What each process of a job waits in, since when, and who owes whom. Names stay; more may be added. Fields whose names end in
/// _ns hold nanoseconds.
#[derive(Serialize, Clone, Debug, Default)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(
        title = "cupeer why --format json",
        extend("$id" = "https://github.com/cupeer/cupeer/blob/main/docs/why.schema.json")
    )
)]
pub struct Document {
    /// `cupeer-why/1`.
    pub schema: String,
    /// The version of cupeer.
    pub cupeer: String,
    /// When the processes were read, since 1970.
    pub time_ns: u64,
    /// How long that took.
    pub took_ns: u64,
    /// The recording of the job; null without one.
    pub record: Option<String>,
    /// The answer in one sentence.
    pub answer: String,
    /// For how long no process had made progress, if `cupeer run --on-hang` printed this; null otherwise.
    pub without_progress_ns: Option<u64>,
    /// The processes: ranks in their order, then the others by pid.
    pub processes: Vec<Process>,
    /// What could not be read, one sentence each.
    pub unseen: Vec<String>,
}

/// State of a process or thread.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It waits.
    Waits,
    /// It runs.
    Runs,
    /// A signal or a debugger stopped it.
    Stopped,
    /// It ended, before it was read or while it was.
    Ended,
    /// It may not be read.
    Refused,
}

/// A process.
#[derive(Serialize, Clone, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Process {
    /// Its pid, as this command sees it.
    pub pid: u32,
    /// Its pid, as it sees itself: another number in another pid namespace.
    pub own_pid: u32,
    /// Its rank in the job; null without one.
    pub rank: Option<u32>,
    /// The name of its record; null if it has none.
    pub proc: Option<String>,
    /// The path of its program.
    pub program: String,
    /// Its arguments, the program first.
    pub arguments: Vec<String>,
    /// Its state: that of the thread that says most.
    pub state: State,
    /// What it does, as a clause without its name: `waits in recv at x.py:12 since 38 s`.
    pub doing: String,
    /// How long it has been doing that, if the kernel or its record says so.
    pub since_ns: Option<u64>,
    /// The pids of the processes that it waits for, as far as they are known.
    pub waits_for: Vec<u32>,
    /// What it exported and others did not take, and what else the record says that others may wait for, one clause each.
    pub owes: Vec<String>,
    /// The handles that it exported.
    #[serde(skip)]
    pub exported: Vec<String>,
    /// What would permit to read it; null if it was read.
    pub hint: Option<String>,
    /// The longest time for which a thread was stopped to be read; 0 if none was.
    pub stopped_ns: u64,
    /// Its threads: the one that says most first. Threads with the same stack are one entry.
    pub threads: Vec<Thread>,
    /// How many more threads it has that were not read.
    pub threads_more: u64,
}

/// A thread, or several that do the same.
#[derive(Serialize, Clone, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Thread {
    /// Its tid, as this command sees it.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// How many threads have this stack.
    pub count: u64,
    /// Its state.
    pub state: State,
    /// How long it has waited, if the kernel says so.
    pub since_ns: Option<u64>,
    /// The system call that it waits in; null if it is in none.
    pub syscall: Option<String>,
    /// The descriptors that it waits for, and whose their other ends are.
    pub on: Vec<On>,
    /// The tid of the thread that holds the lock it waits for, if the lock says so.
    pub holder: Option<u32>,
    /// The recorded call that it is in; null if it is in none.
    pub call: Option<Call>,
    /// The frames, the innermost first.
    pub frames: Vec<Frame>,
    /// Whether these are all frames of C: a thread that waits is not stopped, so its registers are not known.
    pub complete: bool,
}

/// A descriptor that a thread waits for.
#[derive(Serialize, Clone, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct On {
    /// The number of the descriptor.
    pub fd: i32,
    /// Its kind: `Unix socket`, `TCP socket`, `pipe`, `eventfd`, `file`, `descriptor`.
    pub kind: String,
    /// What it is known by: a path, or the address of the other end; empty without one.
    pub name: String,
    /// Its inode; null if it has none.
    pub inode: Option<u64>,
    /// The pids of the processes that have the other end.
    pub peers: Vec<u32>,
    /// Why no peer is known; null if one is, or if it has none.
    pub unknown: Option<String>,
}

/// A recorded call that has not returned.
#[derive(Serialize, Clone, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Call {
    /// Its function.
    pub function: String,
    /// How long it has not returned.
    pub since_ns: u64,
    /// The handle that it is about; null without one.
    pub handle: Option<String>,
    /// The fault that keeps it from returning; null if none does.
    pub injected_by: Option<String>,
}

/// A frame.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Frame {
    /// `C` for all compiled code, or `Python`.
    pub language: String,
    /// The function; null if it is not known.
    pub function: Option<String>,
    /// The source file; null if it is not known.
    pub file: Option<String>,
    /// The line in it; null if it is not known.
    pub line: Option<u32>,
    /// The path of the library or program; null for Python, and for code in none.
    pub library: Option<String>,
    /// The offset in the library, or the address for code in none; null for Python.
    pub offset: Option<String>,
}

impl Frame {
    /// `x.py:12`, `share.c:88`, or `recv in libc.so.6`.
    pub fn place(&self) -> String {
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

    /// Whether this is code of the program's own, as far as its place says.
    pub fn is_own(&self) -> bool {
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
        match &*self.language {
            "Python" => {
                let file = self.file.as_deref().unwrap_or_default();
                !file.starts_with('<') && !file.contains("/lib/python3") && !file.contains("/site-packages/")
            }
            _ => {
                let library = self.library.as_deref().unwrap_or_default();
                let name = library.rsplit('/').next().unwrap_or_default();
                !library.is_empty() && !LIBRARIES.iter().any(|known| name.contains(known))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_the_schema_of_why_is_current() {
        let made = format!("{:#}\n", cupeer_report::schema::of::<Document>().to_value());
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/why.schema.json");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == made, "docs/why.schema.json is stale: run scripts/docs");
    }
}
