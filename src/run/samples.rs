//! Notes in the recording how much memory the devices and their processes have when a call fails for lack of it.
//!
//! The process of the call only counts the failure in the page, so it never waits. Its memory may be free again when NVML
//! is asked; that of other jobs is still there.

use super::page::{self, StatusPage};
use cupeer_nvidia::nvml::memory::LoadedNvml;
use cupeer_record::MemorySamples as File;
use cupeer_record::sample::{FIRST_LINE, LONGEST};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Minimum pause between two samples; and a divisor: the pause is at least this part of the time since the first
/// sample, because programs may fail for hours.
const PAUSE: (Duration, u32) = (Duration::from_millis(200), 16);
/// Maximum wait for a last sample at the end of the run, because NVML may hang.
const LAST_SAMPLE_WAIT: Duration = Duration::from_secs(2);

/// Handle of the thread that takes samples; dropping the handle ends the thread.
pub struct MemorySampler {
    page: Arc<StatusPage>,
    is_over: Arc<AtomicBool>,
    /// Dropping this ends the thread's pause.
    pause: Option<Sender<()>>,
    /// The channel is closed when the thread is done.
    done: Receiver<()>,
}

impl MemorySampler {
    /// Starts a thread that takes a sample when processes count a failure in the page.
    pub fn start(page: &Arc<StatusPage>, record: &Path) -> Option<MemorySampler> {
        let path = record.join(File::own_file_name()?);
        let ((pause, paused), (working, done)) = (channel(), channel::<()>());
        let samples = MemorySampler { page: page.clone(), is_over: Arc::default(), pause: Some(pause), done };
        let (page, is_over) = (page.clone(), samples.is_over.clone());
        let work = move || {
            sample_failures(&page, &is_over, &path, &paused);
            drop(working);
        };
        let thread = std::thread::Builder::new().name("cupeer-samples".into()).spawn(work);
        thread.inspect_err(|error| tracing::debug!("memory is not sampled: {error}")).ok()?;
        Some(samples)
    }
}

impl Drop for MemorySampler {
    /// Waits for the sample of a failure that happened just before the end.
    fn drop(&mut self) {
        self.is_over.store(true, Release);
        let bell = &self.page.status().bell;
        bell.fetch_add(1, Release);
        page::wake_waiters(bell);
        drop(self.pause.take());
        let _ = self.done.recv_timeout(LAST_SAMPLE_WAIT);
    }
}

fn sample_failures(page: &StatusPage, is_over: &AtomicBool, path: &Path, paused: &Receiver<()>) {
    let (mut seen, mut asked) = (0, None);
    loop {
        let heard = page.status().bell.load(Acquire);
        let ends = is_over.load(Acquire);
        let failed = page.status().exhausted.load(Acquire);
        if failed != seen {
            seen = failed;
            let (nvml, since) = asked.get_or_insert_with(|| (LoadedNvml::load(), Instant::now()));
            if let Err(error) = append_sample(nvml, path) {
                tracing::debug!("{}: {error}", path.display());
                return;
            }
            let pause = PAUSE.0.max(since.elapsed() / PAUSE.1);
            if paused.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        } else if ends {
            return;
        } else {
            page::wait_for_change(&page.status().bell, heard);
        }
    }
}

/// Appends a sample to the file. After an error, no more samples are taken.
fn append_sample(nvml: &Result<LoadedNvml, String>, path: &Path) -> io::Result<()> {
    let samples = nvml.as_ref().map_err(String::clone).and_then(LoadedNvml::take_samples);
    let text = match &samples {
        Ok(samples) => samples.iter().map(|sample| sample.to_line() + "\n").collect(),
        Err(reason) => File::line_without_sample(reason) + "\n",
    };
    let mut file =
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let begin = if file.metadata()?.len() == 0 { format!("{FIRST_LINE}\n") } else { String::new() };
    if file.metadata()?.len() + (begin.len() + text.len()) as u64 > LONGEST {
        return Err(io::Error::other("there is no room for more samples of memory"));
    }
    file.write_all((begin + &text).as_bytes())?;
    samples.map(|_| ()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    /// With NVML or without it: the file says the figures, or why there are none, and nobody waits for what nobody counted.
    #[test]
    fn a_failure_just_before_the_end_is_sampled_and_no_other_moment_is() {
        let folder = tempfile::tempdir().unwrap();
        let page = Arc::new(StatusPage::new().unwrap());
        let path = folder.path().join(File::own_file_name().unwrap());
        drop(MemorySampler::start(&page, folder.path()).expect("a thread"));
        assert!(!path.exists());
        let samples = MemorySampler::start(&page, folder.path()).expect("a thread");
        page.status().exhausted.fetch_add(1, Relaxed);
        drop(samples);
        let read = File::open(&path).unwrap();
        assert!(read.problem.is_some() == read.samples.is_empty(), "{read:?}");
    }
}
