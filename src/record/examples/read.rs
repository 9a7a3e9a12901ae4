//! Measures reading a record: `cargo run --release -p cupeer-record --example read DIR`.

use cupeer_record::{Event, Job};
use std::env;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = env::args().nth(1).ok_or("usage: read DIR")?;
    let begun = Instant::now();
    let job = Job::open(Path::new(&dir))?;
    job.problems.iter().for_each(|problem| eprintln!("{problem}"));
    let opened = begun.elapsed();
    let (mut events, mut failed, mut last) = (0u64, 0u64, 0);
    for process in &job.processes {
        let clock = job.clock(process);
        for event in process.events()? {
            events += 1;
            if let Event::Call(call) = &event {
                failed += u64::from(!call.succeeded());
            }
            last = clock.monotonic(event.start());
        }
    }
    let read = begun.elapsed() - opened;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!(
        "{events} events of {} processes, {failed} of them failed, until {last}: opened in {opened:.3?}, read in \
         {read:.3?}, {:.1} million events a second, {peak}",
        job.processes.len(),
        events as f64 / read.as_secs_f64() / 1e6,
    );
    Ok(())
}
