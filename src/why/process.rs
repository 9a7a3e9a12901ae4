//! Reads one process from outside: what each of its threads waits in, and its stack. Nothing of it runs for that.

use super::memory::RemoteMemory;
use super::objects::{MappedFile, ParsedElfCache};
use super::shared::{PolledMemory, SharedMapping};
use super::since::LastRunReader;
use super::stacks::{StackReader, UnnamedFrame};
use super::syscall::WaitingCall;
use super::{refused, stop};
use cupeer_spec::env;
use cupeer_spec::rank::{self, Ranks};
use cupeer_stacks::Memory;
use cupeer_stacks::unwind::processor::{PLACE, STACK};
use procfs::Current;
use procfs::process::{Process, Syscall, Task};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Number of threads of a process whose stacks are read; further ones are only counted.
const MOST: usize = 256;
/// Number of attempts to read a thread that keeps running in between.
const ATTEMPTS: usize = 3;
/// Number of running threads that are stopped at the same time.
const AT_ONCE: usize = 16;

/// Kernel flag of a process that is ending and soon has no memory any more (PF_EXITING).
const EXITING: u32 = 4;

/// Facts about a process that need no access to its memory.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    pub pid: u32,
    /// Pid of the process in its own pid namespace.
    pub own_pid: u32,
    pub pid_ns: u64,
    /// Start time of the process, in clock ticks since boot.
    pub started: u64,
    pub parent: u32,
    pub rank: Option<u32>,
    pub program: String,
    pub arguments: Vec<String>,
    /// Directory to which the process records, as a path for cupeer.
    pub out: Option<PathBuf>,
    pub has_ended: bool,
    /// Wait status that the parent receives, if the process has ended.
    pub exit: Option<i32>,
    /// Name of the process in the kernel, which it may have set itself.
    pub comm: String,
    /// Number of ranks that the process's launcher started.
    pub world: Option<u32>,
}

/// Result of reading a process.
pub struct ProcessReading {
    pub about: ProcessInfo,
    pub threads: Vec<ThreadReading>,
    /// Number of threads that were not read.
    pub threads_more: u64,
    pub running_more: u64,
    pub files: Vec<MappedFile>,
    /// Reason why the process could not be read, and a sentence about what would permit it.
    pub refused: Option<(String, String)>,
    pub has_ended: bool,
    /// Nanoseconds since the process last ran, if it has ended.
    pub ended: Option<u64>,
    pub stopped: Duration,
    /// Mappings of shared memory.
    pub shared: Vec<SharedMapping>,
}

/// Result of reading a thread.
pub struct ThreadReading {
    pub tid: u32,
    /// Tid of the thread in the process's own pid namespace.
    pub own_tid: u32,
    pub name: String,
    /// State letter of the thread in /proc.
    pub state: char,
    /// Nanoseconds since the thread last ran, if it waits.
    pub since: Option<u64>,
    pub call: Option<WaitingCall>,
    pub frames: Vec<UnnamedFrame>,
    pub is_whole: bool,
    /// Shared memory that the thread reads repeatedly, if its value stayed the same.
    pub polls: Option<PolledMemory>,
}

impl ProcessInfo {
    /// Reads the facts about a process; returns `None` if the process does not exist.
    pub fn read(pid: u32) -> Option<ProcessInfo> {
        let process = Process::new(pid as i32).ok()?;
        let stat = process.stat().ok()?;
        let own_pid = process.status().ok().and_then(|status| status.nspid?.last().copied());
        let pid_ns = std::fs::metadata(format!("/proc/{pid}/ns/pid")).map_or(0, |about| about.ino());
        let environment = process.environ().unwrap_or_default();
        let mut ranks = Ranks::default();
        let world =
            rank::SIZE.iter().find_map(|name| environment.get(std::ffi::OsStr::new(name))?.to_str()?.parse().ok());
        environment.iter().for_each(|(name, value)| ranks.add_variable(name.as_bytes(), value.as_bytes()));
        let out = environment.get(env::OUT.as_ref() as &std::ffi::OsStr);
        let out = out.filter(|out| !out.is_empty()).map(|out| PathBuf::from(path_prefix(pid) + &out.to_string_lossy()));
        Some(ProcessInfo {
            pid,
            own_pid: own_pid.map_or(pid, |own| own as u32),
            pid_ns,
            started: stat.starttime,
            parent: stat.ppid as u32,
            rank: ranks.rank_in_job(),
            program: process.exe().map_or_else(|_| stat.comm.clone(), |path| path.to_string_lossy().into_owned()),
            arguments: process.cmdline().unwrap_or_default(),
            out,
            has_ended: matches!(stat.state, 'Z' | 'X') || stat.flags & EXITING != 0,
            exit: stat.exit_code.filter(|_| stat.state == 'Z'),
            comm: stat.comm,
            world,
        })
    }
}

impl ProcessInfo {
    /// Returns the nanoseconds since the process was started, plus a small tolerance.
    fn age_ns(&self) -> u64 {
        const MOMENT: u64 = 50_000_000;
        let uptime = procfs::Uptime::current().map_or(u64::MAX, |uptime| (uptime.uptime * 1e9) as u64);
        let started = self.started.saturating_mul(1_000_000_000 / procfs::ticks_per_second());
        uptime.saturating_sub(started).saturating_add(MOMENT)
    }
}

/// Returns the prefix of a process's paths, if it has another root than this process.
fn path_prefix(pid: u32) -> String {
    let space = |process: &str| std::fs::metadata(format!("/proc/{process}/ns/mnt")).ok().map(|about| about.ino());
    let is_other = space("self") != space(&pid.to_string());
    let is_rooted = std::fs::read_link(format!("/proc/{pid}/root")).is_ok_and(|path| path.as_os_str() != "/");
    if is_other || is_rooted { format!("/proc/{pid}/root") } else { String::new() }
}

/// Caches that reading several processes shares.
#[derive(Default)]
pub struct ProcessReader {
    files: ParsedElfCache,
    since: LastRunReader,
}

/// A process whose waiting threads are read. Its running threads are left for later, because they must be stopped first.
struct BegunReading {
    seen: ProcessReading,
    running: VecDeque<RunningThread>,
}

struct RunningThread {
    thread: ThreadReading,
    description: Option<usize>,
    matters: bool,
}

impl ProcessReader {
    /// Reads processes: first the threads that wait, then the running ones if `may_stop`. The time is divided among the
    /// processes. `is_called` returns true for a thread in a recorded call.
    pub fn read_all(
        &mut self,
        all: Vec<ProcessInfo>,
        may_stop: bool,
        time: Duration,
        is_called: impl Fn(&ProcessInfo, u32) -> bool,
    ) -> Vec<ProcessReading> {
        let end = Instant::now() + time;
        // Running threads have to be stopped, which takes longer, so half of the time is left for them.
        let waiting_end = Instant::now() + time / 2;
        let mut left = all.len() as u32;
        let mut begun: Vec<BegunReading> = Vec::new();
        for about in all {
            let share = waiting_end.saturating_duration_since(Instant::now()) / left.max(1);
            left -= 1;
            begun.push(self.begin_process(about, Instant::now() + share, &is_called));
        }
        while may_stop && Instant::now() < end && begun.iter().any(|begun| !begun.running.is_empty()) {
            for begun in &mut begun {
                if Instant::now() < end {
                    read_some_running(begun);
                }
            }
        }
        sample_polled_memory(&mut begun);
        begun.into_iter().map(|begun| finish_process(begun, may_stop)).collect()
    }

    fn begin_process(
        &mut self,
        about: ProcessInfo,
        end: Instant,
        is_called: impl Fn(&ProcessInfo, u32) -> bool,
    ) -> BegunReading {
        let has_ended = about.has_ended;
        let mut seen = ProcessReading {
            threads: Vec::new(),
            threads_more: 0,
            running_more: 0,
            files: Vec::new(),
            refused: None,
            has_ended,
            ended: None,
            stopped: Duration::ZERO,
            shared: Vec::new(),
            about,
        };
        let pid = seen.about.pid;
        let mut running = VecDeque::new();
        if has_ended {
            let stat = Process::new(pid as i32).and_then(|process| process.stat()).ok();
            seen.ended = stat.and_then(|stat| self.since.ns_since_run(pid as i32, pid as i32, stat.processor));
        } else {
            match RemoteMemory::open(pid as i32) {
                Ok(memory) => _ = self.read_threads(&mut seen, &mut running, &memory, end, is_called),
                Err(_) if std::fs::exists(format!("/proc/{pid}/mem")).unwrap_or(false) => {
                    seen.refused = Some(refused::explain_refusal(pid));
                }
                Err(_) => {}
            }
        }
        BegunReading { seen, running }
    }

    fn read_threads(
        &mut self,
        seen: &mut ProcessReading,
        running: &mut VecDeque<RunningThread>,
        memory: &RemoteMemory,
        end: Instant,
        is_called: impl Fn(&ProcessInfo, u32) -> bool,
    ) -> Option<()> {
        let pid = seen.about.pid;
        let process = Process::new(pid as i32).ok()?;
        let maps = process.maps().ok()?;
        seen.shared = SharedMapping::of(&maps);
        seen.files = self.files.mapped_files(pid, &path_prefix(pid), &maps, memory);
        if seen.about.rank.is_none() {
            // A program may set its own rank, as a worker of torch.multiprocessing does.
            let mut ranks = Ranks::default();
            for variable in MappedFile::read_environment(&seen.files, memory) {
                let (name, value) = variable.split_once('=').unwrap_or_default();
                ranks.add_variable(name.as_bytes(), value.as_bytes());
            }
            seen.about.rank = ranks.rank_in_job();
        }
        let tasks = sorted_tasks(&process, &seen.about, is_called)?;
        let own: HashSet<u32> = tasks.iter().map(|(_, own, _)| *own).collect();
        let reader = StackReader::new(memory, &seen.files);
        let descriptions: HashMap<u32, usize> =
            reader.thread_descriptions(|tid| own.contains(&tid)).into_iter().collect();
        for (index, (task, own_tid, matters)) in tasks.iter().enumerate() {
            if index >= MOST || !matters && Instant::now() >= end {
                seen.threads_more += 1;
                let runs = |stat: procfs::process::Stat| stat.state == 'R';
                seen.running_more += u64::from(task.stat().is_ok_and(runs));
                continue;
            }
            let Ok(stat) = task.stat() else { continue };
            let description = descriptions.get(own_tid).copied();
            let start = ThreadReading {
                tid: task.tid as u32,
                own_tid: *own_tid,
                name: stat.comm,
                state: stat.state,
                since: None,
                call: None,
                frames: Vec::new(),
                is_whole: false,
                polls: None,
            };
            let source = ThreadSource { task, processor: stat.processor, reader: &reader, memory, description };
            match self.read_waiting_thread(start, &source, &seen.about, &seen.shared) {
                (thread, false) => seen.threads.push(thread),
                (thread, true) => running.push_back(RunningThread { thread, description, matters: *matters }),
            }
        }
        Some(())
    }

    /// Reads a thread that waits in the kernel. Returns the thread, and true if it was running instead.
    fn read_waiting_thread(
        &mut self,
        mut thread: ThreadReading,
        source: &ThreadSource,
        about: &ProcessInfo,
        shared: &[SharedMapping],
    ) -> (ThreadReading, bool) {
        let ThreadSource { task, memory, .. } = *source;
        for _ in 0..ATTEMPTS {
            let Ok(before) = task.syscall() else { break };
            let Syscall::Blocked { syscall_number, argument_registers, stack_pointer, program_counter } = before else {
                (thread.state, thread.call, thread.since) = ('R', None, None);
                return (thread, true);
            };
            let since = self.since.ns_since_run(task.pid, task.tid, source.processor);
            // The scheduler clock of a processor that the thread has just left is meaningless.
            thread.since = since.filter(|since| *since <= about.age_ns());
            let call = WaitingCall::read(task.pid, syscall_number, argument_registers, memory);
            if call.is_nap() {
                thread.polls = find_polled_memory(shared, memory, stack_pointer, &[]);
            }
            thread.call = (syscall_number >= 0).then_some(call);
            let registers = stop::waiting_registers(stack_pointer, program_counter);
            (thread.frames, thread.is_whole) = source.reader.read_stack(registers, true, source.description);
            if task.syscall().is_ok_and(|after| after == before) {
                break;
            }
        }
        (thread, false)
    }
}

/// Files and memory from which one thread is read.
struct ThreadSource<'a> {
    task: &'a Task,
    /// Processor on which the thread last ran.
    processor: Option<i32>,
    reader: &'a StackReader<'a>,
    memory: &'a RemoteMemory,
    description: Option<usize>,
}

/// Returns the threads of a process, each with its tid in the process's own namespace, and with true if the thread is read first:
/// the main thread, and threads in recorded calls.
fn sorted_tasks(
    process: &Process,
    about: &ProcessInfo,
    is_called: impl Fn(&ProcessInfo, u32) -> bool,
) -> Option<Vec<(Task, u32, bool)>> {
    // A process in this pid namespace numbers its threads in the same way.
    let is_here = about.own_pid == about.pid;
    let tasks = process.tasks().ok()?.flatten().map(|task| {
        let own = if is_here { task.tid as u32 } else { own_tid(&task) };
        let matters = task.tid == process.pid || is_called(about, own);
        (task, own, matters)
    });
    let mut tasks: Vec<_> = tasks.collect();
    tasks.sort_by_key(|(task, _, matters)| (!matters, task.tid));
    Some(tasks)
}

/// Stops some running threads of a process, and reads them.
fn read_some_running(begun: &mut BegunReading) {
    let BegunReading { seen, running } = begun;
    let count = running.len().min(AT_ONCE);
    let Ok(memory) = RemoteMemory::open(seen.about.pid as i32) else { return running.clear() };
    let some: Vec<RunningThread> = running.drain(..count).collect();
    let tids: Vec<i32> = some.iter().map(|running| running.thread.tid as i32).collect();
    let reader = StackReader::new(&memory, &seen.files);
    let shared = &seen.shared;
    let stacks = stop::with_stopped_threads(&tids, |index, registers| {
        let words: Vec<u64> = (0..PLACE).filter_map(|number| Some(registers.get(number)? as u64)).collect();
        let stack = registers.get(STACK).map_or(0, |stack| stack as u64);
        let polls =
            find_polled_memory(shared, &memory, stack, &words).filter(|polled| polled.value_as_number().is_some());
        (reader.read_stack(registers, true, some[index].description), polls)
    });
    for (RunningThread { mut thread, description, .. }, stack) in some.into_iter().zip(stacks) {
        match stack {
            Some(((stack, polls), length)) => {
                (thread.frames, thread.is_whole) = stack;
                thread.polls = polls;
                seen.stopped = seen.stopped.max(length);
            }
            // Python frames can be read without registers.
            None => {
                thread.frames = description.map_or_else(Vec::new, |description| reader.read_python_stack(description))
            }
        }
        seen.threads.push(thread);
    }
}

/// Returns the place in shared memory whose address a thread has in a register or near the end of its stack.
fn find_polled_memory(
    shared: &[SharedMapping],
    memory: &RemoteMemory,
    stack: u64,
    registers: &[u64],
) -> Option<PolledMemory> {
    const NEAR: usize = 1024;
    let mut bytes = [0; NEAR];
    if shared.is_empty() {
        return None;
    }
    let length = memory.copy(stack as usize, &mut bytes);
    let near = bytes[..length].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    SharedMapping::find_polled(shared, registers.iter().copied().chain(near))?.sample(memory)
}

/// Looks several more times at memory that threads seem to poll, and forgets memory that changes.
fn sample_polled_memory(all: &mut [BegunReading]) {
    const LOOKS: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(2);
    let polls = |begun: &BegunReading| begun.seen.threads.iter().any(|thread| thread.polls.is_some());
    let mut polling: Vec<(&mut BegunReading, RemoteMemory)> = all
        .iter_mut()
        .filter(|begun| polls(begun))
        .filter_map(|begun| RemoteMemory::open(begun.seen.about.pid as i32).ok().map(|memory| (begun, memory)))
        .collect();
    for _ in 1..if polling.is_empty() { 1 } else { LOOKS } {
        std::thread::sleep(PAUSE);
        for (begun, memory) in &mut polling {
            for thread in &mut begun.seen.threads {
                thread.polls = thread.polls.take().and_then(|polled| polled.sample(memory));
            }
        }
    }
}

/// Completes a process: of the threads that were not stopped, keeps those with Python frames and the most informative ones.
fn finish_process(BegunReading { mut seen, running }: BegunReading, may_stop: bool) -> ProcessReading {
    let pid = seen.about.pid;
    if let Ok(memory) = RemoteMemory::open(pid as i32) {
        let reader = StackReader::new(&memory, &seen.files);
        for RunningThread { mut thread, description, matters } in running {
            thread.frames = description.map_or_else(Vec::new, |description| reader.read_python_stack(description));
            if matters || !may_stop || !thread.frames.is_empty() {
                seen.threads.push(thread);
            } else {
                seen.threads_more += 1;
                seen.running_more += 1;
            }
        }
    }
    if !seen.has_ended {
        // A process that ended while it was read counts as ended.
        seen.has_ended = ProcessInfo::read(pid).is_none_or(|now| now.has_ended || now.started != seen.about.started);
    }
    seen
}

/// Returns the tid of a thread in the process's own pid namespace.
fn own_tid(task: &Task) -> u32 {
    let own = task.status().ok().and_then(|status| status.nspid?.last().copied());
    own.unwrap_or(task.tid) as u32
}
