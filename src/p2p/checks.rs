//! The checks of a link: send data over it, then compare the memory with what was sent.
//!
//! Data is random and new in each round, so data of an earlier round is never right. The owner of the memory compares it
//! on its own device.

use super::link::{
    FLAGS_OFFSET, LinkSide, OpenLink, PING_OFFSET, PONG_OFFSET, START_OFFSET, SUMS_OFFSET, unexpected_reply,
};
use super::process::RequestFailure;
use super::request::{Comparison, HostMemory, Reply, Request, StreamWork};
use super::verdict::{Check, SharingMethod, Verdict};
use cupeer_spec::p2p;
use cupeer_spec::p2p::Kernel;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Result of a step of a check; an error means that a request failed, so that the check could not continue.
type StepResult<T = Verdict> = Result<T, RequestFailure>;

/// Number of times that a check sends new data.
const CHECK_ROUNDS: usize = 3;
/// Number of words that a check sends each time: 128 KiB. A measurement sends more.
const CHECK_WORDS: u64 = 16 << 10;
/// Number of times that a resident kernel sends data during its run.
const RESIDENT_SLOTS: u64 = 16;
/// Number of words that a resident kernel sends each time.
const SLOT_WORDS: u64 = 512;
/// Timeout of kernels that wait for each other, in milliseconds.
const KERNEL_TIMEOUT_MS: u64 = 2000;
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
const BLOCK_THREADS: u32 = 256;

/// Returns an unpredictable number that is not 0.
fn random_nonzero() -> u64 {
    // The keys of `RandomState` are random numbers from the system.
    RandomState::new().hash_one(0u8) | 1
}

/// Runs a check. `blocks` is the number of blocks for kernels that write or read.
pub fn run_check(link: &OpenLink, check: Check, blocks: u32) -> StepResult {
    match check {
        Check::CopyWrite => check_writes(link, |link, seed| {
            request_fill(&link.writer, link.local_address, Some(seed))?;
            link.writer.do_work(copy_work(link, true)).map(drop)
        }),
        Check::KernelWrite => check_writes(link, |link, seed| {
            let arguments = vec![link.remote_address, CHECK_WORDS, seed];
            link.writer.do_work(kernel_work(Kernel::Write, arguments, (blocks, BLOCK_THREADS), 1)).map(drop)
        }),
        Check::CopyRead => check_reads(link, |link| link.writer.do_work(copy_work(link, false)).map(drop)),
        Check::KernelRead => check_reads(link, |link| {
            let arguments = vec![link.remote_address, link.local_address, CHECK_WORDS];
            link.writer.do_work(kernel_work(Kernel::Read, arguments, (blocks, BLOCK_THREADS), 1)).map(drop)
        }),
        Check::Resident => check_resident_kernel(link),
        Check::Atomics => check_atomics(link),
    }
}

fn kernel_work(kernel: Kernel, arguments: Vec<u64>, (blocks, threads): (u32, u32), times: u32) -> StreamWork {
    let kernel = Kernel::ALL.iter().position(|known| *known == kernel).unwrap_or_default();
    StreamWork::Kernel { kernel, arguments, blocks, threads, times }
}

/// Returns the request for a copy by the writer's copy engine: to the memory of the owner if `writes`, else from it.
fn copy_work(link: &OpenLink, writes: bool) -> StreamWork {
    let (from, to) =
        if writes { (link.local_address, link.remote_address) } else { (link.remote_address, link.local_address) };
    let (here, there) = (link.writer.device, link.owner.device);
    let (from_device, to_device) = if writes { (here, there) } else { (there, here) };
    let bytes = 8 * CHECK_WORDS;
    match link.way {
        SharingMethod::Peer => StreamWork::CopyPeer { from, from_device, to, to_device, bytes },
        SharingMethod::Ipc | SharingMethod::Vmm => StreamWork::Copy { from, to, bytes, times: 1 },
    }
}

fn request_fill(side: &LinkSide, address: u64, seed: Option<u64>) -> StepResult<()> {
    side.ask(&Request::Fill { device: side.device, address, words: CHECK_WORDS, seed }).map(drop)
}

fn request_compare(side: &LinkSide, address: u64, words: u64, seed: u64, before: &[u64]) -> StepResult<Comparison> {
    let before = before.to_vec();
    match side.ask(&Request::Compare { device: side.device, address, words, seed, before })? {
        Reply::Compared(compared) => Ok(compared),
        _ => Err(unexpected_reply()),
    }
}

/// Checks writes: `send` sends the words of a seed from the writer, and the owner compares its memory with
/// them.
fn check_writes(link: &OpenLink, send: impl Fn(&OpenLink, u64) -> StepResult<()>) -> StepResult {
    let own = random_nonzero();
    request_fill(&link.owner, link.owner_address, Some(own))?;
    let mut sent = Vec::new();
    let mut found = Verdict::Good;
    for _ in 0..CHECK_ROUNDS {
        let seed = random_nonzero();
        send(link, seed)?;
        let verdict = judge_write(link, seed, &sent, own)?;
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
fn judge_write(link: &OpenLink, seed: u64, sent: &[u64], own: u64) -> StepResult {
    let owner_compares = |before: &[u64]| request_compare(&link.owner, link.owner_address, CHECK_WORDS, seed, before);
    let compared = owner_compares(sent)?;
    if compared.wrong == 0 {
        return Ok(Verdict::Good);
    }
    if compared.stale > 0 {
        return stale_verdict(format!("{} of {CHECK_WORDS} words are still those of the write before", compared.stale));
    }
    std::thread::sleep(LATE_ARRIVAL);
    let later = owner_compares(&[own])?;
    if later.wrong == 0 {
        return stale_verdict(format!("it was there only {} ms after the call had returned", LATE_ARRIVAL.as_millis()));
    }
    let mut reason = match later.stale {
        0 => "something else is there".to_owned(),
        all if all == CHECK_WORDS => "nothing arrived".to_owned(),
        some => format!("{some} words did not arrive"),
    };
    if request_compare(&link.writer, link.remote_address, CHECK_WORDS, seed, &[])?.wrong == 0 {
        reason += ", and the writer reads its own data back, as if it had memory of its own there";
    }
    Ok(wrong_verdict(later, CHECK_WORDS, reason))
}

fn stale_verdict(reason: String) -> StepResult {
    Ok(Verdict::Stale { reason })
}

fn stall_verdict(reason: &str) -> StepResult {
    Ok(Verdict::Stalls { reason: reason.to_owned() })
}

fn wrong_verdict(compared: Comparison, words: u64, reason: String) -> Verdict {
    Verdict::Wrong { wrong: compared.wrong, words, first_byte: 8 * compared.first, reason }
}

/// Checks reads: the owner writes into its own memory, and `fetch` lets the other device read the words.
fn check_reads(link: &OpenLink, fetch: impl Fn(&OpenLink) -> StepResult<()>) -> StepResult {
    let mut before = vec![random_nonzero()];
    request_fill(&link.owner, link.owner_address, Some(before[0]))?;
    fetch(link)?;
    for _ in 0..CHECK_ROUNDS {
        let seed = random_nonzero();
        request_fill(&link.owner, link.owner_address, Some(seed))?;
        request_fill(&link.writer, link.local_address, None)?;
        fetch(link)?;
        let compared = request_compare(&link.writer, link.local_address, CHECK_WORDS, seed, &before)?;
        if compared.stale > 0 {
            return stale_verdict(format!("{} of {CHECK_WORDS} words are those of an earlier read", compared.stale));
        }
        if compared.wrong > 0 {
            return Ok(wrong_verdict(compared, CHECK_WORDS, "something else was read".to_owned()));
        }
        before.push(seed);
    }
    Ok(Verdict::Good)
}

fn begin_kernel(side: &LinkSide, kernel_: Kernel, arguments: Vec<u64>, shape: (u32, u32)) -> StepResult<()> {
    side.ask(&Request::Begin { device: side.device, work: kernel_work(kernel_, arguments, shape, 1) }).map(drop)
}

/// Returns the results of a kernel; `None` if the kernel does not end in time.
fn wait_for_results(side: &LinkSide, mark: u64) -> StepResult<Option<Vec<u64>>> {
    let limit = KERNEL_TIMEOUT_MS + 1000;
    match side.ask_long(&Request::Results { device: side.device, mark, limit }, limit)? {
        Reply::Words(words) => Ok((words.len() == p2p::RESULTS).then_some(words)),
        _ => Err(unexpected_reply()),
    }
}

fn wait_until_finished(side: &LinkSide) -> StepResult<()> {
    side.ask(&Request::Finish { device: side.device }).map(drop)
}

fn request_words(side: &LinkSide, address: u64, words: u64) -> StepResult<Vec<u64>> {
    match side.ask(&Request::Words { device: side.device, address, words })? {
        Reply::Words(words) => Ok(words),
        _ => Err(unexpected_reply()),
    }
}

fn check_resident_kernel(link: &OpenLink) -> StepResult {
    let OpenLink { writer, owner, .. } = link;
    let mut before = random_nonzero();
    request_fill(owner, link.owner_address, Some(before))?;
    for _ in 0..2 {
        let (seed, mark) = (random_nonzero(), random_nonzero() >> 1);
        let limit = KERNEL_TIMEOUT_MS * 1_000_000;
        let shape = (1, BLOCK_THREADS);
        let receive = vec![
            link.owner_address,
            link.owner_address + FLAGS_OFFSET,
            SLOT_WORDS,
            RESIDENT_SLOTS,
            seed,
            before,
            mark,
            limit,
            owner.host,
        ];
        begin_kernel(owner, Kernel::Receive, receive, shape)?;
        let (flags, stop) = (link.remote_address + FLAGS_OFFSET, writer.host + HostMemory::STOP_OFFSET);
        let send =
            vec![link.remote_address, flags, SLOT_WORDS, RESIDENT_SLOTS, seed, mark, stop, 2 * limit, writer.host];
        begin_kernel(writer, Kernel::Send, send, shape)?;
        let Some(received) = wait_for_results(owner, mark)? else {
            return stall_verdict("the owner's kernel does not end");
        };
        writer.ask(&Request::Stop { device: writer.device, mark })?;
        if wait_for_results(writer, mark)?.is_none() {
            return stall_verdict("the writing kernel does not end");
        }
        wait_until_finished(writer)?;
        wait_until_finished(owner)?;
        let verdict = judge_received(link, &received, mark)?;
        if verdict != Verdict::Good {
            return Ok(verdict);
        }
        before = seed;
    }
    Ok(Verdict::Good)
}

/// Returns the verdict for the results of [`Kernel::Receive`].
fn judge_received(link: &OpenLink, received: &[u64], mark: u64) -> StepResult {
    let total = RESIDENT_SLOTS * SLOT_WORDS;
    let (came, compared) = (received[0], Comparison { wrong: received[1], stale: received[2], first: received[3] });
    if came == RESIDENT_SLOTS && compared.wrong == 0 {
        return Ok(Verdict::Good);
    }
    if came == RESIDENT_SLOTS {
        return match compared.stale {
            0 => Ok(wrong_verdict(compared, total, "its flag came, and something else is there".to_owned())),
            late => stale_verdict(format!("{late} of {} wrong words came later than their flag", compared.wrong)),
        };
    }
    let now = request_words(&link.owner, link.owner_address + FLAGS_OFFSET, RESIDENT_SLOTS)?;
    let there = (0..RESIDENT_SLOTS).zip(&now).filter(|(slot, flag)| **flag == mark + slot).count() as u64;
    if there > 0 {
        return stale_verdict(format!(
            "{came} of {RESIDENT_SLOTS} flags arrived within {KERNEL_TIMEOUT_MS} ms while the writing kernel stayed, {there} after it"
        ));
    }
    let compared = Comparison { wrong: total, ..Comparison::default() };
    Ok(wrong_verdict(compared, total, format!("none of its {RESIDENT_SLOTS} flags arrived")))
}

fn check_atomics(link: &OpenLink) -> StepResult {
    let OpenLink { writer, owner, .. } = link;
    for at in [SUMS_OFFSET, START_OFFSET] {
        let (device, address) = (owner.device, link.owner_address + at);
        owner.ask(&Request::Fill { device, address, words: p2p::SUMS, seed: None })?;
    }
    let add = |base: u64, value: u64, waits: u64| {
        vec![base + SUMS_OFFSET, ADDITIONS, value, base + START_OFFSET, waits, KERNEL_TIMEOUT_MS * 1_000_000]
    };
    begin_kernel(owner, Kernel::Add, add(link.owner_address, HIGH_ONE, 1), ADDING_SHAPE)?;
    begin_kernel(writer, Kernel::Add, add(link.remote_address, 1, 0), ADDING_SHAPE)?;
    wait_until_finished(writer)?;
    owner.ask_long(&Request::Finish { device: owner.device }, KERNEL_TIMEOUT_MS)?;
    let wanted = ADDITIONS * u64::from(ADDING_SHAPE.0 * ADDING_SHAPE.1) / p2p::SUMS;
    let sums = request_words(owner, link.owner_address + SUMS_OFFSET, p2p::SUMS)?;
    let bad: Vec<(usize, &u64)> =
        sums.iter().enumerate().filter(|(_, sum)| **sum != wanted * HIGH_ONE + wanted).collect();
    let Some((first, sum)) = bad.first() else { return Ok(Verdict::Good) };
    let (low, high) = (**sum % HIGH_ONE, **sum / HIGH_ONE);
    Ok(Verdict::Wrong {
        wrong: bad.len() as u64,
        words: p2p::SUMS,
        first_byte: 8 * *first as u64,
        reason: format!("of {wanted} additions each, {low} of the writer's and {high} of the owner's have counted"),
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
/// Maximum number of bytes of a measurement: the flags and sums follow in the same memory.
const MOST_MEASURED_BYTES: u64 = FLAGS_OFFSET / 2;

/// Measures the rates of a link that passed all checks. If some data of the measurement is wrong, returns the
/// check that should have failed, and the verdict for it.
pub fn measure_rates(link: &OpenLink, blocks: u32) -> StepResult<Result<Measured, (Check, Verdict)>> {
    let seed = random_nonzero();
    let write =
        |to, seed, bytes, times| kernel_work(Kernel::Write, vec![to, bytes / 8, seed], (blocks, BLOCK_THREADS), times);
    let (kernel_mb_s, bytes) = measure_rate(link, |bytes, times| write(link.remote_address, seed, bytes, times))?;
    if let Some(verdict) = compare_measured(link, bytes, seed)? {
        return Ok(Err((Check::KernelWrite, verdict)));
    }
    let (seed, most) = (random_nonzero(), bytes);
    link.writer.do_work(write(link.local_address, seed, most, 1))?;
    let copy = |bytes, times| StreamWork::Copy { from: link.local_address, to: link.remote_address, bytes, times };
    let (copy_mb_s, bytes) = measure_rate(link, copy)?;
    if let Some(verdict) = compare_measured(link, bytes.min(most), seed)? {
        return Ok(Err((Check::CopyWrite, verdict)));
    }
    Ok(Ok(Measured { copy_mb_s, kernel_mb_s, round_trip_ns: measure_round_trip(link)? }))
}

/// Compares the bytes of a measurement with the words of a seed. Returns a verdict if some bytes are wrong.
fn compare_measured(link: &OpenLink, bytes: u64, seed: u64) -> StepResult<Option<Verdict>> {
    let compared = request_compare(&link.owner, link.owner_address, bytes / 8, seed, &[])?;
    let reason = || format!("something else is there after a write of {bytes} bytes");
    Ok((compared.wrong > 0).then(|| wrong_verdict(compared, bytes / 8, reason())))
}

/// Measures how fast data moves. `work` returns the work for a number of bytes and a number of repetitions.
/// Returns the rate in 10^6 bytes per second, and the number of bytes that moved each time.
fn measure_rate(link: &OpenLink, work: impl Fn(u64, u32) -> StreamWork) -> StepResult<(u64, u64)> {
    let small = 8 * CHECK_WORDS;
    // The first run also includes one-time work of the driver, so its duration does not count.
    link.writer.do_work(work(small, 1))?;
    let took = link.writer.do_work(work(small, 1))?.max(1);
    let bytes = (small.saturating_mul(MEASUREMENT_NS) / took).clamp(small, MOST_MEASURED_BYTES) / 4096 * 4096;
    let took = link.writer.do_work(work(bytes, 1))?.max(1);
    let times = (MEASUREMENT_NS / took).clamp(1, 32) as u32;
    let took = link.writer.do_work(work(bytes, times))?.max(1);
    let moved = u128::from(bytes) * u128::from(times);
    Ok(((moved * 1000 / u128::from(took)) as u64, bytes))
}

/// Measures a round trip: the nanoseconds from a write by a resident kernel until it reads the answer of the
/// owner. Returns `None` if the kernels do not end in time.
fn measure_round_trip(link: &OpenLink) -> StepResult<Option<u64>> {
    const ROUNDS: u64 = 200;
    let (mark, limit) = (random_nonzero() >> 1, KERNEL_TIMEOUT_MS * 1_000_000);
    let arguments = |base: u64, host| vec![base + PING_OFFSET, base + PONG_OFFSET, ROUNDS, mark, limit, host];
    begin_kernel(&link.owner, Kernel::Pong, arguments(link.owner_address, link.owner.host), (1, 1))?;
    begin_kernel(&link.writer, Kernel::Ping, arguments(link.remote_address, link.writer.host), (1, 1))?;
    let made = wait_for_results(&link.writer, mark)?;
    link.owner.ask_long(&Request::Finish { device: link.owner.device }, KERNEL_TIMEOUT_MS)?;
    wait_until_finished(&link.writer)?;
    Ok(made.filter(|made| made[0] == ROUNDS).map(|made| made[1] / (ROUNDS - 1)))
}
