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

/// The most hangs of a run that are kept.
const MOST: usize = 100;
/// The longest time that progress must last; it is shorter if a process hangs after less than twice of it.
const LASTING: Duration = Duration::from_secs(10);

/// True if the launcher received a signal that ends programs.
pub static IS_ENDED: AtomicBool = AtomicBool::new(false);

/// A call by its process and thread.
pub type Call = (String, u32);

/// A hang from which the job has not resumed.
struct Hang {
    waits: Box<dyn Waits>,
    path: Option<PathBuf>,
    /// The calls that did not return, if it was not noticed by the lack of progress.
    calls: Vec<Call>,
    /// Number of processes that had failed before.
    failed: u64,
    /// Since when there is progress, and when that was since 1970.
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

    /// Prints a hang and keeps it. `is_ended` says that the job is going to be ended because of it.
    pub fn add(&mut self, mut waits: Box<dyn Waits>, calls: Vec<Call>, failed: u64, is_ended: bool) {
        if waits.is_empty() || self.count == MOST {
            return;
        }
        // There was progress between two hangs, as short as it was.
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

    /// Notes that the job makes progress, as far as no call hangs.
    pub fn progress(&mut self) {
        self.lasting_ones.iter_mut().filter(|hang| hang.calls.is_empty()).for_each(Hang::progresses);
    }

    /// Looks which hangs are over. `is_in_flight` knows the calls that have not returned, and `failed` counts processes.
    pub fn look(&mut self, is_in_flight: impl Fn(&Call) -> bool, failed: u64) {
        let of_calls = self.lasting_ones.iter_mut().filter(|hang| !hang.calls.is_empty());
        of_calls.filter(|hang| !hang.calls.iter().any(&is_in_flight)).for_each(Hang::progresses);
        self.settle(failed, self.lasting);
    }

    /// The job has ended well.
    pub fn end(&mut self, failed: u64) {
        self.lasting_ones.iter_mut().for_each(Hang::progresses);
        self.settle(failed, Duration::ZERO);
    }

    /// Lets go of hangs after which the job made progress for so long.
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
    fn progresses(&mut self) {
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

/// Keeps what was read in a recording, whole, for those who may read that.
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
