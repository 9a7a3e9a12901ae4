//! Writes a large record to measure reading: `cargo run --release -p cupeer-record --features writer --example
//! generate EVENTS PROCESSES DIR [STREAMS [HOSTS]] [uneven]`.
//!
//! Each process has its share of the events, all successful calls, in the given number of streams. With several hosts,
//! each has its share of the processes, in a directory of its own: host-0, host-1, and so on. With `uneven`, the
//! durations, gaps, callers, and opened objects differ from call to call, as in real records, which affects
//! compression.

use cupeer_record::writer::{self, About, Writer};
use cupeer_spec::function::FnId;
use cupeer_spec::record::clock;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [events, processes, dir, ..] = &arguments[..] else {
        eprintln!("usage: generate EVENTS PROCESSES DIR [STREAMS [HOSTS]] [uneven]");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse::<u64>().map_err(io::Error::other);
    let (events, processes) = (number(events)?, number(processes)?.max(1));
    let is_uneven = arguments.last().is_some_and(|word| word == "uneven");
    let counts = &arguments[..arguments.len() - usize::from(is_uneven)];
    let streams = counts.get(3).map_or(Ok(1), number)?.max(1) as u32;
    let hosts = counts.get(4).map_or(Ok(1), number)?.max(1);
    let mut random = Random(1);
    let dir = Path::new(dir);
    for process in 0..processes {
        let host = process * hosts / processes;
        let name = if hosts == 1 { "localhost".to_owned() } else { format!("host-{host}") };
        let place = if hosts == 1 { dir.to_owned() } else { dir.join(&name) };
        if !place.exists() {
            fs::create_dir_all(&place)?;
            writer::write_job_file(&place)?;
        }
        let mut about = About { pid: 1000 + process as u32, clock: clock::COUNTER, speed: 0.4, ..About::default() };
        about.boot_id[4..8].copy_from_slice(&(host as u32).to_le_bytes());
        let first = about.first.ticks;
        let mut writer = Writer::create(&place, about)?;
        writer.text("program", "/usr/bin/generate")?;
        writer.text("host", &name)?;
        writer.variable("RANK", &process.to_string())?;
        let streams: Vec<u32> = (0..streams).map(|i| writer.stream(100 + i)).collect::<io::Result<_>>()?;
        calls(&mut writer, &streams, (first, events / processes), is_uneven.then_some(&mut random))?;
        writer.finish()?;
    }
    Ok(())
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Writes the calls of a process, from the time `first` on. They differ if there are random numbers.
fn calls(
    writer: &mut Writer,
    streams: &[u32],
    (first, count): (u64, u64),
    mut random: Option<&mut Random>,
) -> io::Result<()> {
    let mut open = writer::call(FnId::cuIpcOpenMemHandle_v2, 0, 0);
    // The documentation requires this value.
    writer::set(&mut open, "Flags", &1u32.to_le_bytes());
    let mut close = writer::call(FnId::cuIpcCloseMemHandle, 0, 0);
    for i in 0..count {
        let call = if i % 2 == 0 { &mut open } else { &mut close };
        let address = 0x7f00_0000_0000 + ((i / 2 % 1000) << 21);
        writer::set(call, if i % 2 == 0 { "pdptr" } else { "dptr" }, &address.to_le_bytes());
        (call.start, call.end) = (first + 1000 * i, first + 1000 * i + 700);
        if let Some(random) = &mut random {
            (call.start, call.end) = (call.start + random.below(400), call.end - random.below(300));
            call.caller = 0x55_0000 + 16 * random.below(40);
            let mut handle = [0; 16];
            handle[..8].copy_from_slice(&(1 + random.below(2000)).to_le_bytes());
            if i % 2 == 0 {
                writer::set(call, "handle", &handle);
            }
        }
        writer.call(streams[(i / 2 % streams.len() as u64) as usize], call)?;
    }
    Ok(())
}
