//! The checks of a link: send data over it, then compare the memory with what was sent.
//!
//! Data is random and new in each round, so data of an earlier round is never right. The owner of the memory compares it
//! on its own device.

use super::link::{FLAGS, GO, Link, PING, PONG, SUMS, Side, unexpected_reply};
use super::process::Broken;
use super::request::{Compared, Host, Reply, Request, Work};
use super::verdict::{Check, Method, Verdict};
use cupeer_spec::p2p;
use cupeer_spec::p2p::Kernel;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Result of a step of a check; an error means that the check could not continue.
type Done<T = Verdict> = Result<T, Broken>;

/// Number of times that a check sends new data.
const ROUNDS: usize = 3;
/// Number of words that a check sends each time: 128 KiB. A measurement sends more.
const WORDS: u64 = 16 << 10;
/// Number of times that a resident kernel sends data during its run.
const SLOTS: u64 = 16;
/// Number of words that a resident kernel sends each time.
const SLOT_WORDS: u64 = 512;
/// Timeout of kernels that wait for each other, in milliseconds.
const PATIENCE: u64 = 2000;
/// Time after the end of a call in which missing data may still arrive, and then counts as late.
const LATE_ARRIVAL: Duration = Duration::from_millis(100);
/// Number of times that each thread of a kernel adds to its word.
const ADDITIONS: u64 = 64;
/// Number of blocks, and number of threads per block, of a kernel that adds.
const ADDING_SHAPE: (u32, u32) = (8, 128);
/// Number that the kernel of the owner adds: its sum is in the high half of a word, and the sum of the other
/// kernel in the low half.
const HIGH_ONE: u64 = 1 << 32;
/// Number of threads per block of a kernel that writes or reads.
const THREADS: u32 = 256;

/// Returns an unpredictable number that is not 0.
fn random() -> u64 {
    // The keys of `RandomState` are random numbers from the system.
    RandomState::new().hash_one(0u8) | 1
}

/// Runs a check. `blocks` is the number of blocks for kernels that write or read.
pub fn perform(link: &Link, check: Check, blocks: u32) -> Done {
    match check {
        Check::CopyWrite => write(link, |link, seed| {
            fill(&link.writer, link.local, Some(seed))?;
            link.writer.work(copy(link, true)).map(drop)
        }),
        Check::KernelWrite => write(link, |link, seed| {
            let arguments = vec![link.remote, WORDS, seed];
            link.writer.work(kernel(Kernel::Write, arguments, (blocks, THREADS), 1)).map(drop)
        }),
        Check::CopyRead => read(link, |link| link.writer.work(copy(link, false)).map(drop)),
        Check::KernelRead => read(link, |link| {
            let arguments = vec![link.remote, link.local, WORDS];
            link.writer.work(kernel(Kernel::Read, arguments, (blocks, THREADS), 1)).map(drop)
        }),
        Check::Resident => resident(link),
        Check::Atomics => atomics(link),
    }
}

fn kernel(kernel: Kernel, arguments: Vec<u64>, (blocks, threads): (u32, u32), times: u32) -> Work {
    let kernel = Kernel::ALL.iter().position(|known| *known == kernel).unwrap_or_default();
    Work::Kernel { kernel, arguments, blocks, threads, times }
}

/// Returns a copy by the copy engine of the writer, to the memory of the owner, or from there.
fn copy(link: &Link, writes: bool) -> Work {
    let (from, to) = if writes { (link.local, link.remote) } else { (link.remote, link.local) };
    let (here, there) = (link.writer.device, link.owner.device);
    let (from_device, to_device) = if writes { (here, there) } else { (there, here) };
    let bytes = 8 * WORDS;
    match link.way {
        Method::Peer => Work::CopyPeer { from, from_device, to, to_device, bytes },
        Method::Ipc | Method::Vmm => Work::Copy { from, to, bytes, times: 1 },
    }
}

fn fill(side: &Side, address: u64, seed: Option<u64>) -> Done<()> {
    side.ask(&Request::Fill { device: side.device, address, words: WORDS, seed }).map(drop)
}

fn compare(side: &Side, address: u64, words: u64, seed: u64, before: &[u64]) -> Done<Compared> {
    let before = before.to_vec();
    match side.ask(&Request::Compare { device: side.device, address, words, seed, before })? {
        Reply::Compared(compared) => Ok(compared),
        _ => Err(unexpected_reply()),
    }
}

/// Checks writes: `send` sends the words of a seed from the writer, and the owner compares its memory with
/// them.
fn write(link: &Link, send: impl Fn(&Link, u64) -> Done<()>) -> Done {
    let own = random();
    fill(&link.owner, link.here, Some(own))?;
    let mut sent = Vec::new();
    let mut found = Verdict::Good;
    for _ in 0..ROUNDS {
        let seed = random();
        send(link, seed)?;
        let verdict = arrived(link, seed, &sent, own)?;
        sent.push(seed);
        // Data that seems lost in one round may arrive in the next round.
        if matches!(verdict, Verdict::Stale { .. }) {
            return Ok(verdict);
        }
        if found == Verdict::Good {
            found = verdict;
        }
    }
    Ok(found)
}

/// Returns the verdict on one write: compares the memory of the owner with the words of `seed`.
fn arrived(link: &Link, seed: u64, sent: &[u64], own: u64) -> Done {
    let owner_compares = |before: &[u64]| compare(&link.owner, link.here, WORDS, seed, before);
    let compared = owner_compares(sent)?;
    if compared.wrong == 0 {
        return Ok(Verdict::Good);
    }
    if compared.stale > 0 {
        return stale(format!("{} of {WORDS} words are still those of the write before", compared.stale));
    }
    std::thread::sleep(LATE_ARRIVAL);
    let later = owner_compares(&[own])?;
    if later.wrong == 0 {
        return stale(format!(
            "it was there only {} ms after the call had returned",
            LATE_ARRIVAL.as_millis()
        ));
    }
    let mut reason = match later.stale {
        0 => "something else is there".to_owned(),
        all if all == WORDS => "nothing arrived".to_owned(),
        some => format!("{some} words did not arrive"),
    };
    if compare(&link.writer, link.remote, WORDS, seed, &[])?.wrong == 0 {
        reason += ", and the writer reads its own data back, as if it had memory of its own there";
    }
    Ok(wrong(later, WORDS, reason))
}

fn stale(reason: String) -> Done {
    Ok(Verdict::Stale { reason })
}

fn stalls(reason: &str) -> Done {
    Ok(Verdict::Stalls { reason: reason.to_owned() })
}

fn wrong(compared: Compared, words: u64, reason: String) -> Verdict {
    Verdict::Wrong { wrong: compared.wrong, words, first_byte: 8 * compared.first, reason }
}

/// Checks reads: the owner writes into its own memory, and `fetch` lets the other device read the words.
fn read(link: &Link, fetch: impl Fn(&Link) -> Done<()>) -> Done {
    let mut before = vec![random()];
    fill(&link.owner, link.here, Some(before[0]))?;
    fetch(link)?;
    for _ in 0..ROUNDS {
        let seed = random();
        fill(&link.owner, link.here, Some(seed))?;
        fill(&link.writer, link.local, None)?;
        fetch(link)?;
        let compared = compare(&link.writer, link.local, WORDS, seed, &before)?;
        if compared.stale > 0 {
            return stale(format!("{} of {WORDS} words are those of an earlier read", compared.stale));
        }
        if compared.wrong > 0 {
            return Ok(wrong(compared, WORDS, "something else was read".to_owned()));
        }
        before.push(seed);
    }
    Ok(Verdict::Good)
}

fn begin(side: &Side, kernel_: Kernel, arguments: Vec<u64>, shape: (u32, u32)) -> Done<()> {
    side.ask(&Request::Begin { device: side.device, work: kernel(kernel_, arguments, shape, 1) }).map(drop)
}

/// Returns the results of a kernel; `None` if the kernel does not end in time.
fn results(side: &Side, mark: u64) -> Done<Option<Vec<u64>>> {
    let limit = PATIENCE + 1000;
    match side.ask_long(&Request::Results { device: side.device, mark, limit }, limit)? {
        Reply::Words(words) => Ok((words.len() == p2p::RESULTS).then_some(words)),
        _ => Err(unexpected_reply()),
    }
}

fn finish(side: &Side) -> Done<()> {
    side.ask(&Request::Finish { device: side.device }).map(drop)
}

fn words(side: &Side, address: u64, words: u64) -> Done<Vec<u64>> {
    match side.ask(&Request::Words { device: side.device, address, words })? {
        Reply::Words(words) => Ok(words),
        _ => Err(unexpected_reply()),
    }
}

fn resident(link: &Link) -> Done {
    let Link { writer, owner, .. } = link;
    let mut before = random();
    fill(owner, link.here, Some(before))?;
    for _ in 0..2 {
        let (seed, mark) = (random(), random() >> 1);
        let limit = PATIENCE * 1_000_000;
        let shape = (1, THREADS);
        let receive =
            vec![link.here, link.here + FLAGS, SLOT_WORDS, SLOTS, seed, before, mark, limit, owner.host];
        begin(owner, Kernel::Receive, receive, shape)?;
        let (flags, stop) = (link.remote + FLAGS, writer.host + Host::STOP);
        let send = vec![link.remote, flags, SLOT_WORDS, SLOTS, seed, mark, stop, 2 * limit, writer.host];
        begin(writer, Kernel::Send, send, shape)?;
        let Some(received) = results(owner, mark)? else {
            return stalls("the owner's kernel does not end");
        };
        writer.ask(&Request::Stop { device: writer.device, mark })?;
        if results(writer, mark)?.is_none() {
            return stalls("the writing kernel does not end");
        }
        finish(writer)?;
        finish(owner)?;
        let verdict = received_as(link, &received, mark)?;
        if verdict != Verdict::Good {
            return Ok(verdict);
        }
        before = seed;
    }
    Ok(Verdict::Good)
}

/// Returns the verdict for the results of [`Kernel::Receive`].
fn received_as(link: &Link, received: &[u64], mark: u64) -> Done {
    let total = SLOTS * SLOT_WORDS;
    let (came, compared) =
        (received[0], Compared { wrong: received[1], stale: received[2], first: received[3] });
    if came == SLOTS && compared.wrong == 0 {
        return Ok(Verdict::Good);
    }
    if came == SLOTS {
        return match compared.stale {
            0 => Ok(wrong(compared, total, "its flag came, and something else is there".to_owned())),
            late => stale(format!("{late} of {} wrong words came later than their flag", compared.wrong)),
        };
    }
    let now = words(&link.owner, link.here + FLAGS, SLOTS)?;
    let there = (0..SLOTS).zip(&now).filter(|(slot, flag)| **flag == mark + slot).count() as u64;
    if there > 0 {
        return stale(format!(
            "{came} of {SLOTS} flags arrived within {PATIENCE} ms while the writing kernel stayed, {there} after it"
        ));
    }
    let compared = Compared { wrong: total, ..Compared::default() };
    Ok(wrong(compared, total, format!("none of its {SLOTS} flags arrived")))
}

fn atomics(link: &Link) -> Done {
    let Link { writer, owner, .. } = link;
    for at in [SUMS, GO] {
        let (device, address) = (owner.device, link.here + at);
        owner.ask(&Request::Fill { device, address, words: p2p::SUMS, seed: None })?;
    }
    let add = |base: u64, value: u64, waits: u64| {
        vec![base + SUMS, ADDITIONS, value, base + GO, waits, PATIENCE * 1_000_000]
    };
    begin(owner, Kernel::Add, add(link.here, HIGH_ONE, 1), ADDING_SHAPE)?;
    begin(writer, Kernel::Add, add(link.remote, 1, 0), ADDING_SHAPE)?;
    finish(writer)?;
    owner.ask_long(&Request::Finish { device: owner.device }, PATIENCE)?;
    let wanted = ADDITIONS * u64::from(ADDING_SHAPE.0 * ADDING_SHAPE.1) / p2p::SUMS;
    let sums = words(owner, link.here + SUMS, p2p::SUMS)?;
    let bad: Vec<(usize, &u64)> =
        sums.iter().enumerate().filter(|(_, sum)| **sum != wanted * HIGH_ONE + wanted).collect();
    let Some((first, sum)) = bad.first() else { return Ok(Verdict::Good) };
    let (low, high) = (**sum % HIGH_ONE, **sum / HIGH_ONE);
    Ok(Verdict::Wrong {
        wrong: bad.len() as u64,
        words: p2p::SUMS,
        first_byte: 8 * *first as u64,
        reason: format!(
            "of {wanted} additions each, {low} of the writer's and {high} of the owner's have counted"
        ),
    })
}

/// Measured rates of a link.
#[derive(serde::Serialize, Clone, Copy, PartialEq, Eq, Debug, schemars::JsonSchema)]
pub struct Measured {
    /// Rate of the copy engine writing, in 10^6 bytes per second.
    pub copy_mb_s: u64,
    /// Rate of a kernel writing, in 10^6 bytes per second.
    pub kernel_mb_s: u64,
    /// Time in nanoseconds from a write by a resident kernel until it reads the owner's answer from the owner's
    /// memory.
    pub round_trip_ns: Option<u64>,
}

/// Intended duration of a measurement, in nanoseconds.
const MEASUREMENT_NS: u64 = 20_000_000;
/// The most bytes of a measurement, which must not reach the flags and sums after the data.
const MOST_BYTES: u64 = FLAGS / 2;

/// Measures the rates of a link that passed all checks. If some data of the measurement is wrong, returns the
/// check that should have failed, and the verdict for it.
pub fn measure(link: &Link, blocks: u32) -> Done<Result<Measured, (Check, Verdict)>> {
    let seed = random();
    let write =
        |to, seed, bytes, times| kernel(Kernel::Write, vec![to, bytes / 8, seed], (blocks, THREADS), times);
    let (kernel_mb_s, bytes) = rate(link, |bytes, times| write(link.remote, seed, bytes, times))?;
    if let Some(verdict) = compare_measured(link, bytes, seed)? {
        return Ok(Err((Check::KernelWrite, verdict)));
    }
    let (seed, most) = (random(), bytes);
    link.writer.work(write(link.local, seed, most, 1))?;
    let copy = |bytes, times| Work::Copy { from: link.local, to: link.remote, bytes, times };
    let (copy_mb_s, bytes) = rate(link, copy)?;
    if let Some(verdict) = compare_measured(link, bytes.min(most), seed)? {
        return Ok(Err((Check::CopyWrite, verdict)));
    }
    Ok(Ok(Measured { copy_mb_s, kernel_mb_s, round_trip_ns: round_trip(link)? }))
}

/// Compares the bytes of a measurement with the words of a seed. Returns a verdict if some bytes are wrong.
fn compare_measured(link: &Link, bytes: u64, seed: u64) -> Done<Option<Verdict>> {
    let compared = compare(&link.owner, link.here, bytes / 8, seed, &[])?;
    let reason = || format!("something else is there after a write of {bytes} bytes");
    Ok((compared.wrong > 0).then(|| wrong(compared, bytes / 8, reason())))
}

/// Measures how fast data moves. `work` returns the work for a number of bytes and a number of repetitions.
/// Returns the rate in 10^6 bytes per second, and the number of bytes that moved each time.
fn rate(link: &Link, work: impl Fn(u64, u32) -> Work) -> Done<(u64, u64)> {
    let small = 8 * WORDS;
    // The first run also includes one-time work of the driver, so its duration does not count.
    link.writer.work(work(small, 1))?;
    let took = link.writer.work(work(small, 1))?.max(1);
    let bytes = (small.saturating_mul(MEASUREMENT_NS) / took).clamp(small, MOST_BYTES) / 4096 * 4096;
    let took = link.writer.work(work(bytes, 1))?.max(1);
    let times = (MEASUREMENT_NS / took).clamp(1, 32) as u32;
    let took = link.writer.work(work(bytes, times))?.max(1);
    let moved = u128::from(bytes) * u128::from(times);
    Ok(((moved * 1000 / u128::from(took)) as u64, bytes))
}

/// Measures a round trip: the nanoseconds from a write by a resident kernel until it reads the answer of the
/// owner. Returns `None` if the kernels do not end in time.
fn round_trip(link: &Link) -> Done<Option<u64>> {
    const ROUNDS: u64 = 200;
    let (mark, limit) = (random() >> 1, PATIENCE * 1_000_000);
    let arguments = |base: u64, host| vec![base + PING, base + PONG, ROUNDS, mark, limit, host];
    begin(&link.owner, Kernel::Pong, arguments(link.here, link.owner.host), (1, 1))?;
    begin(&link.writer, Kernel::Ping, arguments(link.remote, link.writer.host), (1, 1))?;
    let made = results(&link.writer, mark)?;
    link.owner.ask_long(&Request::Finish { device: link.owner.device }, PATIENCE)?;
    finish(&link.writer)?;
    Ok(made.filter(|made| made[0] == ROUNDS).map(|made| made[1] / (ROUNDS - 1)))
}
