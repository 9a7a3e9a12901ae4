//! Reads one process from outside: what each of its threads waits in, and its stack. Nothing of it runs for that.

use super::memory::Outside;
use super::objects::{Files, Object};
use super::since::Since;
use super::stacks::{Raw, Reader};
use super::syscall::Call;
use super::{refused, stop};
use cupeer_spec::{env, rank::Ranks};
use procfs::process::{Process, Syscall, Task};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

/// The most threads of a process whose stacks are read.
const MOST: usize = 256;
/// How often a thread is read again that went on meanwhile.
const ATTEMPTS: usize = 3;

/// The flag of the kernel for a process that ends: soon afterwards, it has no memory any more (PF_EXITING).
const EXITING: u32 = 4;

/// What is known of a process without reading its memory.
#[derive(Clone, Debug)]
pub struct About {
    pub pid: u32,
    /// Its pid as it sees itself, and the namespace of that.
    pub own_pid: u32,
    pub pid_ns: u64,
    /// When it was started, in ticks of the system since boot.
    pub started: u64,
    pub parent: u32,
    pub rank: Option<u32>,
    pub program: String,
    pub arguments: Vec<String>,
    /// The directory that it records to, as this process reaches it.
    pub out: Option<PathBuf>,
    pub has_ended: bool,
}

/// What was read of a process.
pub struct Seen {
    pub about: About,
    pub threads: Vec<SeenThread>,
    pub threads_more: u64,
    pub objects: Vec<Object>,
    /// Why it was not read, and what would permit it.
    pub refused: Option<(String, String)>,
    pub has_ended: bool,
    pub stopped: Duration,
}

/// What was read of a thread.
pub struct SeenThread {
    pub tid: u32,
    /// Its tid as the process sees it.
    pub own_tid: u32,
    pub name: String,
    /// The letter of what it does.
    pub state: char,
    /// How long ago it ran, where it waits.
    pub since: Option<u64>,
    pub call: Option<Call>,
    pub frames: Vec<Raw>,
    pub is_whole: bool,
}

impl About {
    /// `None` where there is no such process.
    pub fn read(pid: u32) -> Option<About> {
        let process = Process::new(pid as i32).ok()?;
        let stat = process.stat().ok()?;
        let own_pid = process.status().ok().and_then(|status| status.nspid?.last().copied());
        let pid_ns = std::fs::metadata(format!("/proc/{pid}/ns/pid")).map_or(0, |about| about.ino());
        let environment = process.environ().unwrap_or_default();
        let mut ranks = Ranks::default();
        environment.iter().for_each(|(name, value)| ranks.see(name.as_bytes(), value.as_bytes()));
        let out = environment.get(env::OUT.as_ref() as &std::ffi::OsStr);
        let out =
            out.filter(|out| !out.is_empty()).map(|out| PathBuf::from(root(pid) + &out.to_string_lossy()));
        Some(About {
            pid,
            own_pid: own_pid.map_or(pid, |own| own as u32),
            pid_ns,
            started: stat.starttime,
            parent: stat.ppid as u32,
            rank: ranks.job(),
            program: process.exe().map_or(stat.comm, |path| path.to_string_lossy().into_owned()),
            arguments: process.cmdline().unwrap_or_default(),
            out,
            has_ended: matches!(stat.state, 'Z' | 'X') || stat.flags & EXITING != 0,
        })
    }
}

/// What comes before the paths of a process, where it has other files than this one.
fn root(pid: u32) -> String {
    let space =
        |process: &str| std::fs::metadata(format!("/proc/{process}/ns/mnt")).ok().map(|about| about.ino());
    let is_other = space("self") != space(&pid.to_string());
    let is_rooted = std::fs::read_link(format!("/proc/{pid}/root")).is_ok_and(|path| path.as_os_str() != "/");
    if is_other || is_rooted { format!("/proc/{pid}/root") } else { String::new() }
}

/// What reading several processes has in common.
#[derive(Default)]
pub struct Readers {
    files: Files,
    since: Since,
}

impl Readers {
    /// Reads a process; `may_stop` says whether threads that run may be stopped for that.
    pub fn read(&mut self, about: About, may_stop: bool) -> Seen {
        let mut seen = Seen {
            threads: Vec::new(),
            threads_more: 0,
            objects: Vec::new(),
            refused: None,
            has_ended: about.has_ended,
            stopped: Duration::ZERO,
            about,
        };
        let pid = seen.about.pid;
        if !seen.has_ended {
            match Outside::open(pid as i32) {
                Ok(memory) => _ = self.fill(&mut seen, &memory, may_stop),
                Err(_) if std::fs::exists(format!("/proc/{pid}/mem")).unwrap_or(false) => {
                    seen.refused = Some(refused::explained(pid));
                }
                Err(_) => {}
            }
            // Whatever was read of it meanwhile, it is no more.
            seen.has_ended =
                About::read(pid).is_none_or(|now| now.has_ended || now.started != seen.about.started);
        }
        seen
    }

    fn fill(&mut self, seen: &mut Seen, memory: &Outside, may_stop: bool) -> Option<()> {
        let pid = seen.about.pid;
        let process = Process::new(pid as i32).ok()?;
        seen.objects = self.files.objects(pid, &root(pid), &process.maps().ok()?, memory);
        let tasks: Vec<Task> = process.tasks().ok()?.flatten().collect();
        let own: Vec<u32> = tasks.iter().map(own_tid).collect();
        let reader = Reader::new(memory, &seen.objects);
        let descriptions: HashMap<u32, usize> =
            reader.descriptions(|tid| own.contains(&tid)).into_iter().collect();
        seen.threads_more = tasks.len().saturating_sub(MOST) as u64;
        for (task, own_tid) in tasks.iter().zip(own).take(MOST) {
            let Ok(stat) = task.stat() else { continue };
            let mut thread = SeenThread {
                tid: task.tid as u32,
                own_tid,
                name: stat.comm,
                state: stat.state,
                since: None,
                call: None,
                frames: Vec::new(),
                is_whole: false,
            };
            let description = descriptions.get(&own_tid).copied();
            for _ in 0..ATTEMPTS {
                let Ok(before) = task.syscall() else { break };
                if let Syscall::Blocked {
                    syscall_number,
                    argument_registers,
                    stack_pointer,
                    program_counter,
                } = before
                {
                    thread.since = self.since.ran(pid as i32, task.tid, stat.processor);
                    let call = Call::read(pid as i32, syscall_number, argument_registers, memory);
                    thread.call = (syscall_number >= 0).then_some(call);
                    let registers = stop::waiting(stack_pointer, program_counter);
                    (thread.frames, thread.is_whole) = reader.stack(registers, true, description);
                    if task.syscall().is_ok_and(|after| after == before) {
                        break;
                    }
                } else {
                    (thread.state, thread.call, thread.since) = ('R', None, None);
                    let work = |registers| reader.stack(registers, true, description);
                    let stopped = may_stop.then(|| stop::with(task.tid, work)).flatten();
                    let Some((stack, length)) = stopped else {
                        // Frames of Python need no registers.
                        thread.frames =
                            description.map_or_else(Vec::new, |description| reader.python_only(description));
                        continue;
                    };
                    (thread.frames, thread.is_whole) = stack;
                    seen.stopped = seen.stopped.max(length);
                    break;
                }
            }
            seen.threads.push(thread);
        }
        Some(())
    }
}

/// The tid of a thread as its process sees it.
fn own_tid(task: &Task) -> u32 {
    let own = task.status().ok().and_then(|status| status.nspid?.last().copied());
    own.unwrap_or(task.tid) as u32
}
