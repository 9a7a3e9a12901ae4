//! The kernels of `cupeer doctor --p2p`, which are recognized by their text and carried out. `cupeer_spec::p2p` describes
//! each of them.
//!
//! Each runs on a thread of its own, because kernels of several streams wait for each other. Later work of its stream waits
//! in the queue.

use super::answer::{Answer, fail, fail_if};
use super::damage::{self, DamagedLink};
use super::driver::{Driver, Stream};
use super::late::with_signals_blocked;
use super::places::Storage;
use cupeer_spec::p2p::{Kernel, RESULTS, SUMS, data_word};
use cupeer_spec::results::Result as Code;
use cupeer_topology::DataCarrier;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// The most words that a kernel moves in one step.
const CHUNK: u64 = 1 << 17;
/// Pause between two reads of a word for which a kernel waits.
const PAUSE: Duration = Duration::from_micros(50);

/// Memory that a kernel reads and writes as 64-bit words.
struct KernelMemory {
    place: Storage,
    damaged: Option<DamagedLink>,
}

impl KernelMemory {
    fn read(&self, index: u64, count: u64) -> Answer<Vec<u64>> {
        let mut bytes = vec![0; 8 * count as usize];
        let place = self.place.at_distance(8 * index);
        damage::read_over_link(self.damaged, &place, &mut bytes)?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        Ok(bytes.chunks_exact(8).map(word).collect())
    }

    fn write(&self, index: u64, words: &[u64]) -> Answer {
        let mut bytes = Vec::with_capacity(8 * words.len());
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        let place = self.place.at_distance(8 * index);
        damage::write_over_link(self.damaged, &place, &bytes)
    }

    /// Reads the first word.
    fn read_first(&self) -> Answer<u64> {
        self.read(0, 1).map(|words| words[0])
    }

    /// Reads a word until it meets a condition. Returns false if the condition is not true before `end`.
    fn wait_for_word(&self, index: u64, end: Instant, is: impl Fn(u64) -> bool) -> Answer<bool> {
        while !is(self.read(index, 1)?[0]) {
            if Instant::now() >= end {
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(true)
    }

    /// Adds a value to each of the first `count` words. The addition is atomic for all processes.
    fn add_atomically(&self, count: u64, value: u64) -> Answer {
        static ONE: Mutex<()> = Mutex::new(());
        let add = || {
            let words = self.read(0, count)?;
            self.write(0, &words.iter().map(|word| word.wrapping_add(value)).collect::<Vec<u64>>())
        };
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.place {
            // The first byte is locked while another process has the allocation open, so this locks the
            // second.
            Storage::File(file, offset) => file.run_exclusively(offset + 1, add),
            _ => add(),
        }
    }
}

/// A launch of a kernel.
struct KernelLaunch {
    kernel: Kernel,
    arguments: Vec<u64>,
    /// The memory at the addresses in the first arguments, and in the last argument if it is an address for
    /// results.
    views: Vec<KernelMemory>,
    threads: u64,
    blocks: u64,
}

impl KernelLaunch {
    fn run(&self) -> Answer {
        let KernelLaunch { kernel, arguments, views, .. } = self;
        let argument = |index: usize| arguments[index];
        let end = |index: usize| Instant::now() + Duration::from_nanos(arguments[index]);
        match kernel {
            Kernel::Write => each_chunk(argument(1), |at, count| {
                let words: Vec<u64> = (at..at + count).map(|index| data_word(argument(2), index)).collect();
                views[0].write(at, &words)
            }),
            Kernel::Read => each_chunk(argument(2), |at, count| views[1].write(at, &views[0].read(at, count)?)),
            Kernel::Send => self.run_send(end(7)),
            Kernel::Receive => self.run_receive(end(7)),
            Kernel::Ping => self.run_ping(end(4)),
            Kernel::Pong => self.run_pong(end(4)),
            Kernel::Add => {
                if argument(4) == 0 {
                    views[1].add_atomically(1, self.blocks)?;
                } else {
                    views[1].wait_for_word(0, end(5), |there| there != 0)?;
                }
                let each = argument(2).wrapping_mul(self.threads / SUMS);
                (0..argument(1)).try_for_each(|_| views[0].add_atomically(SUMS, each))
            }
        }
    }

    /// Writes results to the host memory of the last argument, and then the mark that shows that they are
    /// complete.
    fn write_results(&self, results: &[u64], mark: u64) -> Answer {
        let Some(out) = self.views.last() else { return Ok(()) };
        out.write(0, results)?;
        out.write(RESULTS as u64 - 1, &[mark])
    }

    fn run_send(&self, end: Instant) -> Answer {
        let (data, flags, stop) = (&self.views[0], &self.views[1], &self.views[2]);
        let [_, _, count, slots, seed, mark, ..] = self.arguments[..] else { return Ok(()) };
        for slot in 0..slots {
            let at = slot * count;
            data.write(at, &(at..at + count).map(|index| data_word(seed, index)).collect::<Vec<u64>>())?;
            flags.write(slot, &[mark + slot])?;
        }
        stop.wait_for_word(0, end, |stop| stop == mark)?;
        self.write_results(&[slots, stop.read_first()?], mark)
    }

    fn run_receive(&self, end: Instant) -> Answer {
        let (data, flags) = (&self.views[0], &self.views[1]);
        let [_, _, count, slots, seed, before, mark, ..] = self.arguments[..] else { return Ok(()) };
        let (mut came, mut wrong, mut stale, mut first) = (0, 0, 0, u64::MAX);
        while came < slots && flags.wait_for_word(came, end, |flag| flag == mark + came)? {
            let at = came * count;
            for (index, found) in (at..).zip(data.read(at, count)?) {
                if found != data_word(seed, index) {
                    wrong += 1;
                    first = first.min(index);
                    stale += u64::from(found == data_word(before, index));
                }
            }
            came += 1;
        }
        self.write_results(&[came, wrong, stale, first], mark)
    }

    fn run_ping(&self, end: Instant) -> Answer {
        let (there, back) = (&self.views[0], &self.views[1]);
        let [_, _, rounds, mark, ..] = self.arguments[..] else { return Ok(()) };
        let (mut made, mut start) = (0, Instant::now());
        while made < rounds {
            there.write(0, &[mark + made])?;
            if !back.wait_for_word(0, end, |found| found == mark + made)? {
                break;
            }
            if made == 0 {
                start = Instant::now();
            }
            made += 1;
        }
        self.write_results(&[made, start.elapsed().as_nanos() as u64], mark)
    }

    fn run_pong(&self, end: Instant) -> Answer {
        let (there, back) = (&self.views[0], &self.views[1]);
        let [_, _, rounds, mark, ..] = self.arguments[..] else { return Ok(()) };
        let mut made = 0;
        while made < rounds && there.wait_for_word(0, end, |found| found == mark + made)? {
            back.write(0, &[mark + made])?;
            made += 1;
        }
        self.write_results(&[made], mark)
    }
}

/// Calls a function for each part of `count` words, with the index of its first word and its number of words.
fn each_chunk(count: u64, mut step: impl FnMut(u64, u64) -> Answer) -> Answer {
    (0..count).step_by(CHUNK as usize).try_for_each(|at| step(at, CHUNK.min(count - at)))
}

impl Driver {
    /// Returns the memory at an address, if the current context has access to these words.
    fn kernel_memory(&self, address: u64, words: u64) -> Answer<KernelMemory> {
        let bytes = words.checked_mul(8).ok_or(Code::ILLEGAL_ADDRESS)?;
        let (_, allocation) = self.memory.allocation_at(address).ok_or(Code::ILLEGAL_ADDRESS)?;
        fail_if(!self.can_reach(allocation), Code::ILLEGAL_ADDRESS)?;
        let place = self.place_of(address, bytes).or(fail(Code::ILLEGAL_ADDRESS))?;
        let damaged = self.damaged_link(self.current_device()?, address, DataCarrier::Kernels);
        Ok(KernelMemory { place, damaged })
    }

    /// Launches a kernel of `cupeer doctor --p2p` in a stream.
    pub(crate) fn launch_p2p_kernel(
        &mut self,
        stream: &Stream,
        kernel: Kernel,
        arguments: Vec<u64>,
        (blocks, threads): (u64, u64),
    ) -> Answer {
        let argument = |index: usize| arguments[index];
        // Each address, with the number of words that the kernel may use there.
        let memory = match kernel {
            Kernel::Write => vec![(argument(0), argument(1))],
            Kernel::Read => vec![(argument(0), argument(2)), (argument(1), argument(2))],
            Kernel::Send | Kernel::Receive => {
                let words = argument(2).checked_mul(argument(3)).ok_or(Code::ILLEGAL_ADDRESS)?;
                let ends = [(argument(0), words), (argument(1), argument(3))];
                let stop = (kernel == Kernel::Send).then_some((argument(6), 1));
                ends.into_iter().chain(stop).chain([(argument(8), RESULTS as u64)]).collect()
            }
            Kernel::Ping | Kernel::Pong => {
                vec![(argument(0), 1), (argument(1), 1), (argument(5), RESULTS as u64)]
            }
            Kernel::Add => vec![(argument(0), SUMS), (argument(3), 1)],
        };
        let views = memory.into_iter().map(|(address, words)| self.kernel_memory(address, words));
        let views = match views.collect::<Answer<Vec<KernelMemory>>>() {
            Err(failure) if failure.code == Code::ILLEGAL_ADDRESS => {
                self.mark_context_failed(stream.context, failure.code);
                return Ok(());
            }
            views => views?,
        };
        let launch = KernelLaunch { kernel, arguments, views, threads: blocks * threads, blocks };
        let run = move || drop(launch.run());
        if self.is_late() || !self.pending_of_stream(stream).is_empty() {
            return self.do_later(stream, run);
        }
        let (done, wait) = mpsc::channel::<()>();
        let thread = with_signals_blocked(|| {
            std::thread::Builder::new().spawn(move || {
                run();
                let _ = done.send(());
            })
        });
        thread.or(fail(Code::OPERATING_SYSTEM))?;
        // The thread closes the channel when it ends.
        self.hold_until(stream, move || wait.try_recv() != Err(mpsc::TryRecvError::Empty))
    }
}
