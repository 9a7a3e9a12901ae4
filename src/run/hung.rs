//! Tracks the hangs that were noticed, and keeps each in the recording: with the time when the job made progress again, or when
//! cupeer began to end it.
//!
//! The processes of a job that fails or is ended may compute a moment longer, and make calls. So progress counts only if it lasts,
//! and if no process has failed since the hang.

use cupeer_console::output;
use cupeer_record::host;
use cupeer_recordings::hang::Waits;
use cupeer_recordings::home;
use cupeer_report::moments::duration;
use cupeer_spec::record::job::{HANG, HANG_SUFFIX};
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::NamedTempFile;

/// Maximum number of hangs of a run that are kept in the recording.
const MOST: usize = 100;
/// Maximum time that progress must last to end a hang; the time is shorter if the limit of a hang is less than twice as long.
const LASTING: Duration = Duration::from_secs(10);

/// True after the launcher received a signal that ends programs.
pub static IS_ENDED: AtomicBool = AtomicBool::new(false);

/// Thread of a recorded call: the name of its process, and its tid.
pub type Call = (String, u32);

/// A hang from which the job has not resumed.
struct Hang {
    waits: Box<dyn Waits>,
    path: Option<PathBuf>,
    /// The calls that did not return; empty if the hang was noticed by the lack of progress.
    calls: Vec<Call>,
    /// Number of processes that had failed when the hang began.
    failed: u64,
    /// Time since which the job makes progress, also in nanoseconds since 1970; `None` if it makes none.
    progress: Option<(Instant, u64)>,
}

pub struct Hangs {
    record: Option<PathBuf>,
    lasting: Duration,
    count: usize,
    lasting_ones: Vec<Hang>,
}

impl Hangs {
    pub fn new(record: Option<PathBuf>, limit: Duration) -> Hangs {
        Hangs { record, lasting: (limit / 2).min(LASTING), count: 0, lasting_ones: Vec::new() }
    }

    pub fn are_over(&self) -> bool {
        self.lasting_ones.is_empty()
    }

    /// Prints a hang, and keeps it in the recording. `is_ended` is true if cupeer is going to end the job because of the hang.
    pub fn add(&mut self, mut waits: Box<dyn Waits>, calls: Vec<Call>, failed: u64, is_ended: bool) {
        if waits.is_empty() || self.count == MOST {
            return;
        }
        // There was some progress between two hangs, so the earlier one is over.
        self.settle(failed, Duration::ZERO);
        self.count += 1;
        if is_ended {
            waits.end(now());
        }
        output::explain(|style| waits.text(style));
        let path = self.record.as_ref().map(|record| {
            let path = record.join(format!("{}{}{HANG_SUFFIX}", prefix(), self.count));
            output::complain(&match keep(&path, &*waits) {
                Ok(()) => format!("all stacks are kept in {}", home::place(&path)),
                Err(error) => format!("cannot keep the stacks in {}: {error}", record.display()),
            });
            path
        });
        self.lasting_ones.push(Hang { waits, path, calls, failed, progress: None });
    }

    /// Notes progress of the job, for the hangs that were noticed by the lack of progress.
    pub fn progress(&mut self) {
        self.lasting_ones.iter_mut().filter(|hang| hang.calls.is_empty()).for_each(Hang::note_progress);
    }

    /// Ends the hangs that are over. `is_in_flight` returns true for a call that has not returned; `failed` is the number of
    /// processes that have failed.
    pub fn look(&mut self, is_in_flight: impl Fn(&Call) -> bool, failed: u64) {
        let of_calls = self.lasting_ones.iter_mut().filter(|hang| !hang.calls.is_empty());
        of_calls.filter(|hang| !hang.calls.iter().any(&is_in_flight)).for_each(Hang::note_progress);
        self.settle(failed, self.lasting);
    }

    /// Ends all hangs, because the job ended well.
    pub fn end(&mut self, failed: u64) {
        self.lasting_ones.iter_mut().for_each(Hang::note_progress);
        self.settle(failed, Duration::ZERO);
    }

    /// Ends the hangs after which the job has made progress for at least the time `least`.
    fn settle(&mut self, failed: u64, least: Duration) {
        let goes_on = |hang: &mut Hang| {
            let has_failed = failed > hang.failed || IS_ENDED.load(Relaxed);
            let progress = hang.progress.filter(|(since, _)| !has_failed && since.elapsed() >= least);
            progress.map(|(_, resumed)| hang.resume(resumed)).is_some()
        };
        self.lasting_ones.retain_mut(|hang| !goes_on(hang));
    }
}

impl Hang {
    fn note_progress(&mut self) {
        self.progress.get_or_insert_with(|| (Instant::now(), now()));
    }

    fn resume(&mut self, resumed: u64) {
        let lasted = duration(self.waits.resume(resumed));
        output::complain(&format!("the job makes progress again, after {lasted} in which it hung"));
        let kept = self.path.as_ref().map_or(Ok(()), |path| keep(path, &*self.waits));
        if let Err(error) = kept {
            output::complain(&format!("cannot keep that the job makes progress: {error}"));
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Writes the waits of a hang to a file of the recording, for those who may read the recording.
fn keep(path: &Path, waits: &dyn Waits) -> io::Result<()> {
    let record = path.parent().unwrap_or(path);
    let mut file = NamedTempFile::new_in(record)?;
    if record.metadata()?.permissions().mode() & 0o020 != 0 {
        file.as_file().set_permissions(Permissions::from_mode(0o660))?;
    }
    file.write_all(&waits.json()?)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Returns true if a file contains a hang of this run.
pub fn is_own(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix()))
}

fn prefix() -> String {
    let boot = host::boot_id().map(host::short).unwrap_or_default();
    format!("{HANG}{boot}-{}-", std::process::id())
}
