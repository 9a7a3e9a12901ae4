//! Builds the C programs of this folder, runs them without cupeer and with it, and compares: what they
//! print, how they end, and what the fake driver saw.
//!
//! What belongs here: what the tests of more than one file need to run a program of this folder. What a
//! program does stands at its own head.

use crate::support;
use cupeer_record::{Event, Job, Outcome as Returned, Process};
use cupeer_spec::{
    abi::{IpcMemFlags, ProcAddressFlags},
    env,
    function::{FnId, Group},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Marks from here to [`EITHER`] take a way that cannot be caught. The same as in table.h.
pub const ESCAPES: u64 = 50_000;
/// Marks from here on may be in the log or not, but at most once. The same as in table.h.
pub const EITHER: u64 = 60_000;

/// A program that links no driver.
#[track_caller]
pub fn program(source: &str, flags: &[&str]) -> PathBuf {
    support::compile_c(&format!("programs/{source}"), flags)
}

/// A program that links the fake driver.
#[track_caller]
pub fn linked(source: &str, flags: &[&str]) -> PathBuf {
    program(source, &with_driver(flags, &driver().join("libcuda.so")))
}

/// A shared library that links no driver.
#[track_caller]
pub fn library(source: &str, flags: &[&str]) -> PathBuf {
    support::compile_shared(&format!("programs/{source}"), flags)
}

/// A shared library that links the fake driver.
#[track_caller]
pub fn linked_library(source: &str, flags: &[&str]) -> PathBuf {
    library(source, &with_driver(flags, &driver().join("libcuda.so")))
}

/// A shared library that calls NVML's functions instead of the driver's, and links the fake NVML.
#[track_caller]
pub fn linked_to_nvml(source: &str, flags: &[&str]) -> PathBuf {
    library(source, &with_driver(&[flags, &["-DNVML"]].concat(), &nvml().join("libnvidia-ml.so")))
}

fn with_driver<'a>(flags: &[&'a str], driver: &'a Path) -> Vec<&'a str> {
    [flags, &["-DLINKED", "-Wl,--no-as-needed", driver.to_str().unwrap()]].concat()
}

/// A folder with the fake driver as `libcuda.so.1` and `libcuda.so`.
pub fn driver() -> PathBuf {
    driver_of(&[])
}

/// The fake driver of an older CUDA, which lacks some names.
pub fn old_driver() -> PathBuf {
    driver_of(&["-DOLD", "-DTAG=old"])
}

/// A second driver, which calls itself so in the oracle.
pub fn second_driver() -> PathBuf {
    driver_of(&["-DTAG=second"])
}

/// A folder with the fake NVML as `libnvidia-ml.so.1` and `libnvidia-ml.so`.
pub fn nvml() -> PathBuf {
    fake("fake_nvml.c", "libnvidia-ml.so", &[])
}

/// A driver whose functions begin with instructions that simple patchers can move.
pub fn patchable_driver() -> PathBuf {
    driver_of(&["-fpatchable-function-entry=24"])
}

/// A driver of another name, as a package has it that brings its own.
pub fn driver_named(soname: &str) -> PathBuf {
    let name = soname.strip_suffix(".1").expect("a name with its version");
    fake("fake_driver.c", name, &["-DTAG=other"])
}

fn driver_of(flags: &[&str]) -> PathBuf {
    fake("fake_driver.c", "libcuda.so", flags)
}

fn fake(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let soname = format!("-Wl,-soname,{name}.1");
    // Like the real one, whose references to itself nobody comes between.
    let base = ["-fexceptions", "-Wl,-Bsymbolic", &soname];
    let built = library(source, &[&base, flags].concat());
    let folder = built.with_extension("d");
    if !folder.exists() {
        let fresh = support::temp_dir().keep();
        let real = format!("{name}.1");
        fs::copy(built, fresh.join(&real)).unwrap();
        symlink(&real, fresh.join(name)).unwrap();
        if fs::rename(&fresh, &folder).is_err() {
            // Another test was faster.
            fs::remove_dir_all(&fresh).unwrap();
        }
    }
    folder
}

/// Parts of cupeer under which a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cupeer {
    /// Not preloaded.
    Absent,
    /// Preloaded, with nothing switched on.
    Off,
    /// Preloaded, with a JSON log of everything.
    Logging,
    /// Preloaded, with a record of everything.
    Recording,
}

/// A program to be run, with all that surrounds it.
pub struct Scene {
    program: PathBuf,
    args: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    libraries: Option<PathBuf>,
    before: Vec<PathBuf>,
    after: Vec<PathBuf>,
    has_fixed_addresses: bool,
}

impl Scene {
    /// A program that finds the fake driver.
    pub fn new(program: PathBuf) -> Self {
        Scene {
            program,
            args: Vec::new(),
            environment: Vec::new(),
            libraries: Some(driver()),
            before: Vec::new(),
            after: Vec::new(),
            has_fixed_addresses: false,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.args.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args(self, arguments: &[&str]) -> Self {
        arguments.iter().fold(self, |scene, argument| scene.arg(argument))
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Has the program find the libraries of this folder, and not the fake driver.
    pub fn libraries(mut self, folder: PathBuf) -> Self {
        self.libraries = Some(folder);
        self
    }

    /// Has the program find no driver.
    pub fn no_driver(mut self) -> Self {
        self.libraries = None;
        self
    }

    /// Preloads a library before ours.
    pub fn preload_before(mut self, library: PathBuf) -> Self {
        self.before.push(library);
        self
    }

    /// Preloads a library after ours.
    pub fn preload_after(mut self, library: PathBuf) -> Self {
        self.after.push(library);
        self
    }

    /// Has the kernel place the program at the same addresses each time, where that is allowed.
    pub fn fixed_addresses(mut self) -> Self {
        self.has_fixed_addresses = true;
        self
    }

    /// The command, for tests that run it themselves; its files go to `folder`.
    pub fn command(&self, cupeer: Cupeer, folder: &Path) -> Command {
        let mut preload = self.before.clone();
        if cupeer != Cupeer::Absent {
            preload.push(support::preload_library());
        }
        preload.extend(self.after.iter().cloned());
        let preload: Vec<_> = preload.iter().map(|p| p.to_str().unwrap()).collect();
        let mut command = support::plain(&self.program);
        command.args(&self.args);
        if !preload.is_empty() {
            command.env("LD_PRELOAD", preload.join(":"));
        }
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command.env("FAKE_DRIVER_LOG", folder.join("oracle"));
        if cupeer == Cupeer::Logging {
            command.env(env::LOG, "json").env(env::LOG_FILE, folder.join("log")).env(env::TRACE, "all");
        }
        if cupeer == Cupeer::Recording {
            command.env(env::OUT, folder.join("record")).env(env::RECORD, "full").env(env::TRACE, "all");
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if self.has_fixed_addresses {
            let fix = || {
                // SAFETY: takes a number, and changes nothing but the addresses of the next program.
                unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as _) };
                Ok(())
            };
            // SAFETY: between fork and exec one system call is made.
            unsafe { command.pre_exec(fix) };
        }
        command
    }

    /// Runs the program.
    pub fn run(&self, cupeer: Cupeer) -> Outcome {
        let folder = support::temp_dir();
        let (status, stdout, stderr) = finish(self.command(cupeer, folder.path()));
        let read = |name| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        Outcome {
            status,
            stdout,
            stderr,
            driver: without_questions(read("oracle").lines().map(Call::of_driver).collect()),
            log: Log::parse(&read("log")),
            log_exists: folder.path().join("log").exists(),
            record: read_record(&folder.path().join("record")),
        }
    }

    /// Runs the program in all ways, and proves that cupeer changed nothing and saw everything.
    /// Returns what there was under the log.
    pub fn compare(&self) -> Outcome {
        let without = self.run(Cupeer::Absent);
        assert!(without.status.success(), "the program itself fails: {without:#?}");
        self.compare_with(without)
    }

    /// The same, for a program that may end as it likes.
    pub fn compare_with(&self, without: Outcome) -> Outcome {
        let off = self.run(Cupeer::Off);
        off.assert_same(&without, "off");
        assert!(!off.log_exists);
        let logging = self.run(Cupeer::Logging);
        logging.assert_same(&without, "logging");
        logging.assert_log_complete();
        let recording = self.run(Cupeer::Recording);
        recording.assert_same(&without, "recording");
        recording.assert_record_complete();
        logging
    }
}

/// The calls in a record, which must be whole; none where there is no record.
#[track_caller]
fn read_record(folder: &Path) -> Vec<Call> {
    if !folder.exists() {
        return Vec::new();
    }
    let job = open_job(folder);
    let mut calls = Vec::new();
    for process in &job.processes {
        assert_eq!((process.header.lost, process.header.ended_by), (0, 0), "{}", process.proc);
        calls.extend(recorded(process).iter().map(|call| Call::of_record(process, call)));
    }
    calls
}

/// A job with which nothing is wrong.
#[track_caller]
pub fn open_job(folder: &Path) -> Job {
    let job = Job::open(folder).unwrap_or_else(|error| panic!("{error}"));
    assert!(job.problems.is_empty(), "{:?}", job.problems);
    job
}

/// All calls of a process, with the ends that came late.
#[track_caller]
pub fn recorded(process: &Process) -> Vec<cupeer_record::Call> {
    let mut events = process.events().unwrap();
    let mut calls: Vec<cupeer_record::Call> = Vec::new();
    let mut pending = BTreeMap::new();
    for event in events.by_ref() {
        match event {
            Event::Call(call) => {
                if call.outcome == Returned::Pending {
                    pending.insert((call.stream, call.seq), calls.len());
                }
                calls.push(call);
            }
            Event::LateEnd { stream, seq, .. } => {
                let call = pending.get(&(stream, seq)).map(|place| &mut calls[*place]);
                assert!(call.is_some_and(|call| call.apply_late_end(&event)), "the end of no call: {event:?}");
            }
            Event::Mark { .. } | Event::Use(_) => {}
        }
    }
    assert!(events.first_error().is_none(), "{:?}", events.first_error());
    calls
}

/// The argument that carries the mark of a call.
pub fn mark_of(call: &cupeer_record::Call) -> Option<u64> {
    // That of a multicast object is in what it is to be: its size.
    let in_structure = || Some(u64::from_le_bytes(*call.argument_by_name("prop")?.get(4..)?.first_chunk()?));
    // That of a copy of rows is where it copies from.
    let in_rows = || Some(u64::from_le_bytes(*call.argument_by_name("pCopy")?.get(16..)?.first_chunk()?));
    let in_stream = || ["hStream", "stream"].iter().find_map(|name| number_of(call, name));
    let marked = MARKED.iter().find_map(|name| number_of(call, name));
    marked.or_else(in_structure).or_else(in_rows).or_else(in_stream)
}

fn number_of(call: &cupeer_record::Call, name: &str) -> Option<u64> {
    let bytes = call.argument_by_name(name)?;
    Some(bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)))
}

/// Runs a command to its end, which must come in time.
pub fn finish(mut command: Command) -> (ExitStatus, String, String) {
    // Files, because a program may leave children behind that keep a pipe open.
    let (mut out, mut err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let started = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if started.elapsed() > support::PATIENCE => {
                let states = states(child.id());
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("{command:?} hangs: {states}; it printed {}{}", read_all(&mut out), read_all(&mut err));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    (status, read_all(&mut out), read_all(&mut err))
}

/// Returns the state, the system call, and the signals of each thread of a process, as the system shows them.
fn states(pid: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state = |thread: fs::DirEntry| {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let status = read("status");
        let is_told = |line: &&str| ["State", "Sig", "Shd"].iter().any(|start| line.starts_with(start));
        let lines: Vec<&str> = status.lines().filter(is_told).collect();
        format!("{:?} in {}, system call {}", lines, read("wchan"), read("syscall"))
    };
    threads.map(state).collect()
}

fn read_all(file: &mut fs::File) -> String {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The calls of the program: the library asks the driver for the device of an allocation that was exported or imported.
fn without_questions(mut calls: Vec<Call>) -> Vec<Call> {
    let shares = [FnId::cuMemExportToShareableHandle, FnId::cuMemImportFromShareableHandle];
    let shared = calls.iter().filter(|call| shares.iter().any(|one| call.function == one.spec().name()));
    let shared: BTreeSet<String> = shared.map(|call| call.mark.clone()).collect();
    let asks = FnId::cuMemGetAllocationPropertiesFromHandle.spec().name();
    calls.retain(|call| call.function != asks || !shared.contains(&call.mark));
    calls
}

/// Results of a run.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    /// Calls that the drivers, NVML, and the wrappers before them saw.
    pub driver: Vec<Call>,
    pub log: Log,
    pub log_exists: bool,
    pub record: Vec<Call>,
}

/// Arguments that carry a mark. A call that failed has no outputs; a handle shows nothing but its fingerprint.
const MARKED: [&str; 33] = [
    "hGraphExec",
    "hGraph",
    "devPtr",
    "dev",
    "srcDevice",
    "src",
    "peerContext",
    "dptr",
    "event",
    "Flags",
    "phEvent",
    "hEvent",
    "ctx",
    "device1",
    "device",
    "addr",
    "ptr",
    "size",
    "option",
    "memPool",
    "pool_out",
    "pool",
    "handle",
    "dstDevice",
    "f",
    "hmod",
    "library",
    "lib",
    "kernel",
    "dsts",
    "opList",
    "function",
    "callback",
];

/// One call, as the driver, the log or the record has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Call {
    pub function: String,
    pub mark: String,
    pub result: String,
    pub pid: u64,
    pub tid: u64,
    /// Observer: a driver or wrapper by its name, `log`, or `record`.
    pub seen_by: String,
}

impl Call {
    fn of_driver(line: &str) -> Call {
        let words: Vec<&str> = line.split(' ').collect();
        let [seen_by, function, mark, result, pid, tid] = words[..] else { panic!("oracle: {line}") };
        let number: i32 = result.parse().unwrap();
        let spec = FnId::all().map(FnId::spec).find(|spec| spec.name() == function);
        let name = spec.unwrap_or_else(|| panic!("oracle: {line}")).result_name(number);
        Call {
            function: function.into(),
            mark: mark.into(),
            result: name.unwrap_or(result).into(),
            pid: pid.parse().unwrap(),
            tid: tid.parse().unwrap(),
            seen_by: seen_by.into(),
        }
    }

    fn of_log(line: &Value) -> Call {
        let args = line["args"].as_object().unwrap_or_else(|| panic!("no args: {line}"));
        let mark = if let Some(symbol) = args.get("symbol") {
            let symbol = symbol.as_str().filter(|s| *s != "0x0").unwrap_or("NULL");
            let symbol: String = symbol.chars().map(|c| if c <= ' ' { '_' } else { c }).collect();
            format!("{symbol}/{}/{}", number(&args["cudaVersion"]), number(&args["flags"]))
        } else {
            let argument = MARKED.iter().find_map(|name| args.get(*name)).or_else(|| args.get("prop")?.get("size"));
            let argument = argument.or_else(|| args.get("pCopy")?.get("src"));
            let argument = argument.or_else(|| args.get("hStream")).or_else(|| args.get("stream"));
            number(argument.unwrap_or_else(|| panic!("no mark: {line}"))).to_string()
        };
        Call {
            function: line["function"].as_str().unwrap().into(),
            mark,
            result: line["result"].as_str().unwrap_or_else(|| panic!("no result: {line}")).into(),
            pid: line["pid"].as_u64().unwrap(),
            tid: line["tid"].as_u64().unwrap(),
            seen_by: "log".into(),
        }
    }

    fn of_record(process: &Process, call: &cupeer_record::Call) -> Call {
        let function = call.function.expect("a function that we know");
        let number = |name: &str| number_of(call, name);
        let mark = if number("cudaVersion").is_some() {
            let text = call.details.texts.first().map(|(_, text)| String::from_utf8_lossy(text));
            let symbol: String = text.map_or("NULL".into(), |text| text.replace(|c| c <= ' ', "_"));
            format!("{symbol}/{}/{}", number("cudaVersion").unwrap_or(0), number("flags").unwrap_or(0))
        } else {
            mark_of(call).unwrap_or(0).to_string()
        };
        let result = match call.outcome {
            Returned::Returned(result) => {
                function.spec().result_name(result).map_or_else(|| result.to_string(), str::to_owned)
            }
            other => format!("{other:?}"),
        };
        Call {
            function: function.spec().name().into(),
            mark,
            result,
            pid: process.header.pid.into(),
            tid: call.tid.into(),
            seen_by: "record".into(),
        }
    }

    /// Returns true if the function allocates, frees, destroys, resets, copies, or records an event: a recording has only those
    /// of its calls that are about much memory, end shared objects, copy between devices, or fail on an event of another process.
    fn is_rare(&self) -> bool {
        let is_rare = |id: FnId| {
            let does_not_work = [Group::Lifetime, Group::Alloc, Group::Init];
            let is_in = |group: &Group| id.spec().is_in(*group);
            id.spec().is_device_work() || does_not_work.iter().any(is_in)
        };
        FnId::all().any(|id| id.spec().name() == self.function && is_rare(id))
    }

    /// The number of a mark; the mark of a look-up has none.
    pub fn number(&self) -> u64 {
        self.mark.parse().unwrap_or(0)
    }

    /// Returns the fields that are equal in all runs.
    fn lasting(&self) -> (&str, &str, &str, &str) {
        (&self.seen_by, &self.function, &self.mark, &self.result)
    }
}

/// A JSON value that stands for a number: itself, in hexadecimal, or by a name of cuda.h.
pub fn number(value: &Value) -> u64 {
    let flags = IpcMemFlags::VALUES.iter().map(|(number, name)| (u64::from(*number), *name));
    let mut names = ProcAddressFlags::VALUES.iter().copied().chain(flags);
    match value {
        Value::Number(n) => n.as_u64().unwrap_or_else(|| n.as_i64().unwrap() as u64),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => names.find(|(_, name)| name == text).unwrap_or_else(|| panic!("{text}")).0,
        },
        Value::Null => 0,
        other => panic!("no number: {other}"),
    }
}

/// A JSON log, line by line.
#[derive(Default, Debug)]
pub struct Log {
    pub lines: Vec<Value>,
    pub calls: Vec<Call>,
    /// Library and way.
    pub escaped: Vec<(String, String)>,
}

impl Log {
    /// Reads a log, of which every line must be JSON and have all keys.
    pub fn parse(text: &str) -> Log {
        assert!(text.is_empty() || text.ends_with('\n'), "the last line is not complete: {text}");
        let mut log = Log::default();
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            for key in ["ts_ns", "pid", "tid"] {
                assert!(value[key].is_u64(), "{key}: {line}");
            }
            if let Some(escaped) = value.get("escaped") {
                let word = |key: &str| escaped[key].as_str().unwrap_or_else(|| panic!("{line}")).to_owned();
                log.escaped.push((word("library"), word("way")));
            } else if value.get("patched").is_none() {
                assert!(value["seq"].is_u64() && value["duration_ns"].is_u64(), "{line}");
                assert!(value["caller"].is_string() || value["caller"].is_null(), "{line}");
                assert!(value.get("injected").is_some(), "{line}");
                log.calls.push(Call::of_log(&value));
            }
            log.lines.push(value);
        }
        log
    }

    /// The calls of a thread are numbered without a gap. Those within another call, in a signal handler, stand
    /// before it; a program that becomes another one keeps its thread and begins again.
    fn assert_sequence(&self) {
        let mut times: BTreeMap<(u64, u64), BTreeMap<u64, usize>> = BTreeMap::new();
        for line in self.lines.iter().filter(|l| l.get("seq").is_some()) {
            let number = |key: &str| line[key].as_u64().unwrap();
            *times.entry((number("pid"), number("tid"))).or_default().entry(number("seq")).or_default() += 1;
        }
        for (thread, times) in times {
            let numbers: Vec<_> = times.into_iter().collect();
            let whole = numbers.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0 && pair[0].1 >= pair[1].1);
            assert!(whole, "numbers of thread {thread:?}, and how often there are: {numbers:?}");
        }
    }

    /// Returns true if a library with this end of its path is named as bypassing in this way.
    pub fn names_escape(&self, library: &Path, way: &str) -> bool {
        self.escaped.iter().any(|(l, w)| Path::new(l).ends_with(library.file_name().unwrap()) && w == way)
    }
}

impl Outcome {
    /// The same output, end and calls.
    pub fn assert_same(&self, other: &Outcome, what: &str) {
        let end = |outcome: &Outcome| (outcome.status.code(), outcome.status.signal());
        let printed = format!("it printed:\n{}{}", self.stdout, self.stderr);
        assert_eq!(end(self), end(other), "{what}: it ends otherwise (left: with cupeer); {printed}");
        println!("{what}: with cupeer (got) and without it (expected), stdout");
        support::assert_lines(&self.stdout, &other.stdout);
        println!("the same, stderr");
        support::assert_lines(&self.stderr, &other.stderr);
        let lasting = |outcome: &Outcome| {
            let mut calls: Vec<String> = outcome.driver.iter().map(|c| format!("{:?}\n", c.lasting())).collect();
            calls.sort();
            calls.concat()
        };
        println!("the same, what the driver saw");
        support::assert_lines(&lasting(self), &lasting(other));
    }

    /// The log has what the driver saw, each call once with its result, process and thread: all but what
    /// cannot be caught, and of that nothing.
    pub fn assert_log_complete(&self) {
        self.assert_complete("logged", &self.log.calls, |_| true);
        self.log.assert_sequence();
    }
    /// The same for the record. A call that ends nothing shared may not be there.
    pub fn assert_record_complete(&self) {
        self.assert_complete("recorded", &self.record, |call| !call.is_rare());
    }

    fn assert_complete(&self, done: &str, calls: &[Call], is_wanted: impl Fn(&Call) -> bool) {
        let key = |c: &Call| (c.function.clone(), c.mark.clone(), c.result.clone(), c.pid, c.tid);
        let certain = |c: &&Call| c.number() < ESCAPES;
        let counts = |calls: &mut dyn Iterator<Item = &Call>| {
            let mut counts: BTreeMap<_, usize> = BTreeMap::new();
            calls.for_each(|call| *counts.entry(key(call)).or_default() += 1);
            counts
        };
        let by_driver = || self.driver.iter().filter(|c| c.seen_by != "wrapper").filter(certain);
        let seen = counts(&mut by_driver());
        let wanted = counts(&mut by_driver().filter(|call| is_wanted(call)));
        let had = counts(&mut calls.iter().filter(certain));
        let missed: Vec<_> = wanted.keys().filter(|c| !had.contains_key(c)).collect();
        let invented: Vec<_> = had.keys().filter(|c| !seen.contains_key(c)).collect();
        let again: Vec<_> = had.iter().filter(|(c, times)| seen.get(c).is_some_and(|seen| *times > seen)).collect();
        assert!(
            missed.is_empty() && invented.is_empty() && again.is_empty(),
            "{} calls, {} {done}\nnot {done}: {missed:?}\nnot called: {invented:?}\n{done} more than once: {again:?}",
            seen.values().sum::<usize>(),
            had.values().sum::<usize>()
        );
        let all = counts(&mut calls.iter());
        for call in calls {
            assert!(!(ESCAPES..EITHER).contains(&call.number()), "an escaped call is {done}: {call:?}");
            let times = all[&key(call)];
            assert!(call.number() < EITHER || times == 1, "{done} {times} times: {call:?}");
        }
    }
}
