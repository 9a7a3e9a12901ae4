//! From what was read to the document: names, places, peers, and what each process does.

use super::document::{self, Document, Ended, Frame, On, Polls, Process, SCHEMA, State, Thread};
use super::ledger::RecordedJob;
use super::names::ProcessNames;
use super::objects::MappedFile;
use super::peers::ConnectionEnds;
use super::process::{self, ProcessReading, ThreadReading};
use super::shared::SharedMapping;
use super::stacks::UnnamedFrame;
use super::syscall::{AwaitedEvent, WaitingCall};
use super::{does, locks, phrase, ranks};
use cupeer_record::Library;
use cupeer_report::names::signal_name;
use cupeer_report::symbols::{Symbol, Symbols};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Builds the document from everything that was read.
pub fn build_document(
    all: &[ProcessReading],
    ledger: Option<&RecordedJob>,
    record: Option<&Path>,
    began: Instant,
) -> Document {
    let named = AddressNames::of(all);
    let pids: Vec<u32> = all.iter().map(|seen| seen.about.pid).collect();
    let mut ends = ConnectionEnds::default();
    let mut processes: Vec<Process> = all
        .iter()
        .zip(&named.libraries)
        .map(|(seen, libraries)| build_process(seen, libraries, &named, ledger, &mut ends, &pids))
        .collect();
    ranks::add_recorded_ranks(&mut processes, all, ledger);
    let names = ProcessNames::of(&processes, all);
    does::choose_shown_frames(&mut processes);
    for process in &mut processes {
        does::describe_process(process, &names, ledger);
    }
    processes.sort_by_key(|process| (process.rank.is_none(), process.rank, process.pid));
    let mut unseen = Vec::new();
    if let Some(elsewhere @ 1..) = ledger.map(|ledger| ledger.elsewhere) {
        let counted = cupeer_report::names::counted(elsewhere, "process");
        unseen.push(format!("{counted} of the recording ran on other hosts; run 'cupeer why' there"));
    }
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let (answer, root) = phrase::build_answer(&processes, &names);
    Document {
        schema: SCHEMA.into(),
        cupeer: env!("CARGO_PKG_VERSION").into(),
        time_ns: time,
        took_ns: began.elapsed().as_nanos() as u64,
        record: record.map(|path| path.display().to_string()),
        answer,
        root,
        without_progress_ns: None,
        resumed_ns: None,
        ended_ns: None,
        processes,
        unseen,
    }
}

/// Names of all addresses in the stacks.
struct AddressNames {
    /// Libraries of the mapped files of each process, in the order of the processes.
    libraries: Vec<Vec<Library>>,
    symbols: HashMap<(Vec<u8>, String, u64), Option<Symbol>>,
}

impl AddressNames {
    fn of(all: &[ProcessReading]) -> AddressNames {
        let libraries: Vec<Vec<Library>> =
            all.iter().map(|seen| seen.files.iter().map(MappedFile::to_library).collect()).collect();
        let mut asked: HashMap<(&[u8], &str, u64), (&Library, u64)> = HashMap::new();
        for (seen, libraries) in all.iter().zip(&libraries) {
            let frames = seen.threads.iter().flat_map(|thread| &thread.frames);
            for frame in frames {
                let UnnamedFrame::Native(address) = frame else { continue };
                let Some(library) = library_at(libraries, *address) else { continue };
                let key = (&*library.build_id, &*library.path, address.wrapping_sub(library.base));
                asked.insert(key, (library, *address));
            }
        }
        let list: Vec<(&Library, u64)> = asked.values().copied().collect();
        let found = Symbols::of_running(SystemTime::now()).resolve(&list);
        let of = |((library, address), symbol): (&(&Library, u64), Option<Symbol>)| {
            ((library.build_id.clone(), library.path.clone(), address.wrapping_sub(library.base)), symbol)
        };
        let symbols = list.iter().zip(found).map(of).collect();
        AddressNames { libraries, symbols }
    }

    /// Returns the frames of one address: several if functions were inlined there.
    fn frames_of(&self, seen: &ProcessReading, libraries: &[Library], raw: &UnnamedFrame) -> Vec<Frame> {
        let empty = |language: &str| Frame {
            language: language.into(),
            function: None,
            file: None,
            line: None,
            library: None,
            offset: None,
        };
        let known = |line: u32| (line > 0).then_some(line);
        let address = match raw {
            UnnamedFrame::Python(file, function, line) => {
                let frame = empty("Python");
                return vec![Frame {
                    function: Some(function.clone()),
                    file: Some(file.clone()),
                    line: known(*line),
                    ..frame
                }];
            }
            UnnamedFrame::Native(address) => *address,
        };
        let Some(library) = library_at(libraries, address) else {
            return vec![Frame { offset: Some(format!("{address:#x}")), ..empty("C") }];
        };
        let place = address.wrapping_sub(library.base);
        let symbol = self.symbols.get(&(library.build_id.clone(), library.path.clone(), place)).cloned().flatten();
        let shown = MappedFile::containing(&seen.files, address - 1).map(|object| object.file.shown.clone());
        let plain = Frame {
            library: shown,
            offset: Some(format!("{place:#x}")),
            function: symbol.as_ref().map(|symbol| symbol.function.clone()),
            ..empty("C")
        };
        let lines = symbol.map(|symbol| symbol.lines).unwrap_or_default();
        let inlined = lines.into_iter().map(|line| Frame {
            function: line.function.or_else(|| plain.function.clone()),
            file: Some(line.file),
            line: known(line.line),
            ..plain.clone()
        });
        let all: Vec<Frame> = inlined.collect();
        if all.is_empty() { vec![plain] } else { all }
    }
}

fn library_at(libraries: &[Library], address: u64) -> Option<&Library> {
    let behind = libraries.partition_point(|library| library.range.start < address);
    libraries[..behind].last().filter(|library| address <= library.range.end)
}

/// Returns a process without the facts that depend on other processes.
fn build_process(
    seen: &ProcessReading,
    libraries: &[Library],
    named: &AddressNames,
    ledger: Option<&RecordedJob>,
    ends: &mut ConnectionEnds,
    pids: &[u32],
) -> Process {
    let about = &seen.about;
    let proc = ledger.and_then(|ledger| ledger.process_name(about)).map(str::to_owned);
    let call = |thread: &ThreadReading| ledger?.recorded_call(proc.as_deref()?, thread.own_tid);
    let threads = build_threads(seen, libraries, named, call, |thread| descriptors_of(about.pid, thread, ends, pids));
    let state = match (seen.has_ended, &seen.refused, threads.first()) {
        (true, ..) => State::Ended,
        (_, Some(_), _) => State::Refused,
        (_, _, Some(first)) => first.state,
        _ => State::Ended,
    };
    Process {
        pid: about.pid,
        own_pid: about.own_pid,
        rank: about.rank,
        proc,
        program: about.program.clone(),
        arguments: about.arguments.clone(),
        state,
        doing: seen.refused.as_ref().map(|(why, _)| why.clone()).unwrap_or_default(),
        since_ns: None,
        waits_for: Vec::new(),
        owes: Vec::new(),
        exported: Vec::new(),
        hint: seen.refused.as_ref().map(|(_, hint)| hint.clone()),
        stopped_ns: seen.stopped.as_nanos() as u64,
        threads,
        threads_more: seen.threads_more,
        running_more: seen.running_more,
        ended: seen.about.exit.map(|exit| end_from_wait_status(exit, seen.ended)),
        parent: about.parent,
        comm: Some(about.comm.clone()).filter(|comm| !is_named_after(comm, about)),
        shared: seen.shared.clone(),
    }
}

/// Returns the threads of a process, the most informative one first. Threads that do the same become one entry with a count.
/// `call` returns the recorded call of a thread, and `on` the descriptors and processes that a thread waits for.
fn build_threads(
    seen: &ProcessReading,
    libraries: &[Library],
    named: &AddressNames,
    call: impl Fn(&ThreadReading) -> Option<document::Call>,
    mut on: impl FnMut(&ThreadReading) -> Vec<On>,
) -> Vec<Thread> {
    let mut threads: Vec<Thread> = Vec::new();
    for thread in &seen.threads {
        let mut shown = self::build_thread(seen, thread, libraries, named);
        shown.call = call(thread);
        // If several threads do the same, the first one becomes the entry.
        let is_same = |known: &&mut Thread| {
            known.frames == shown.frames
                && known.syscall == shown.syscall
                && known.holder == shown.holder
                && known.call.is_none()
                && shown.call.is_none()
        };
        match threads.iter_mut().skip(1).find(is_same).filter(|_| !shown.frames.is_empty()) {
            Some(known) => {
                known.count += 1;
                known.own_tids.push(thread.own_tid);
            }
            None => {
                shown.on = on(thread);
                threads.push(shown);
            }
        }
    }
    threads.sort_by_key(|thread| (sort_position(thread, seen.about.pid), thread.tid));
    threads
}

/// Returns the position of a thread in the list of its process: the least is the most informative.
fn sort_position(thread: &Thread, pid: u32) -> u32 {
    let is_python = thread.frames.iter().any(|frame| frame.language == "Python");
    match thread {
        thread if thread.call.is_some() => 0,
        thread if thread.tid == pid => 1,
        _ if is_python => 2,
        thread if thread.state == State::Runs => 3,
        _ => 4,
    }
}

fn build_thread(seen: &ProcessReading, thread: &ThreadReading, libraries: &[Library], named: &AddressNames) -> Thread {
    let owner = match thread.call.as_ref().map(|call| &call.about) {
        Some(AwaitedEvent::Lock(futex)) if !futex.is_join => futex.owner,
        _ => None,
    };
    let holder = owner.and_then(|own| seen.threads.iter().find(|other| other.own_tid == own));
    Thread {
        tid: thread.tid,
        name: thread.name.clone(),
        count: 1,
        state: match thread.state {
            'R' => State::Runs,
            'T' | 't' => State::Stopped,
            'Z' | 'X' => State::Ended,
            _ => State::Waits,
        },
        // A thread that has just napped has waited for longer, in a loop, for an unknown time.
        since_ns: thread.since.filter(|_| !thread.call.as_ref().is_some_and(WaitingCall::is_short)),
        syscall: thread.call.as_ref().map(|call| call.name.clone()),
        on: Vec::new(),
        holder: holder.map(|other| other.tid),
        call: None,
        polls: thread.polls.as_ref().and_then(|polled| {
            let (shared, place) = SharedMapping::locate(&seen.shared, polled.address)?;
            let (value, looks) = (polled.value_as_number(), polled.samples);
            let offset = value.map(|_| place.offset);
            Some(Polls { name: shared.name.clone(), offset, value, looks, shared_address: Some(place) })
        }),
        frames: thread.frames.iter().flat_map(|raw| named.frames_of(seen, libraries, raw)).collect(),
        complete: thread.is_whole,
        own_tids: vec![thread.own_tid],
        awaited: thread.call.as_ref().map(|call| call.about.clone()),
        limit: thread.call.as_ref().and_then(|call| call.limit),
        shown_frame: None,
    }
}

/// Returns the end of a process from its wait status. `ago` is the time since then in nanoseconds.
fn end_from_wait_status(exit: i32, ago: Option<u64>) -> Ended {
    let signal = (exit & 127 != 0).then(|| signal_name(exit & 127));
    Ended { status: (exit & 127 == 0).then_some(exit >> 8 & 255), signal, ago_ns: ago }
}

/// Returns true if the name of a process adds nothing to its program and arguments.
fn is_named_after(comm: &str, about: &process::ProcessInfo) -> bool {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut words = about.arguments.iter().take(2).chain([&about.program]).map(|word| last(word));
    comm.is_empty() || about.has_ended || words.any(|word| word.starts_with(comm))
}

/// Returns the descriptors, and the processes at their other ends, that a thread waits for.
fn descriptors_of(pid: u32, thread: &ThreadReading, ends: &mut ConnectionEnds, pids: &[u32]) -> Vec<On> {
    let (descriptors, is_lock) = match thread.call.as_ref().map(|call| &call.about) {
        Some(AwaitedEvent::Descriptors(descriptors)) => (descriptors.as_slice(), false),
        Some(AwaitedEvent::FileLock(fd)) => (&[(*fd, false)][..], true),
        _ => return Vec::new(),
    };
    let of = |(fd, is_read): &(i32, bool)| {
        let end = ends.other_end_of(pid, *fd, *is_read, pids)?;
        Some(On {
            fd: *fd,
            kind: end.kind.into(),
            name: end.name,
            inode: end.inode,
            peers: if is_lock { locks::file_lock_holders(pid, *fd) } else { end.peers },
            unknown: end.unknown.map(str::to_owned),
            reads: *is_read,
            other_inode: end.other_inode,
        })
    };
    descriptors.iter().filter_map(of).collect()
}
