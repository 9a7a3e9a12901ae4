//! Tracks the hangs that were noticed, and keeps each in the recording: with the time when the job made progress again, or when
//! cupeer began to end it.
//!
//! The processes of a job that fails or is ended may compute a moment longer, and make calls. So progress counts only if it lasts,
//! and if no process has failed since the hang.

use cupeer_console::output;
use cupeer_record::host;
use cupeer_recordings::hang::HangWaits;
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

/// Maximum number of hangs of a run that are reported; further hangs are neither printed nor kept.
const MOST_KEPT: usize = 100;
/// Time that progress must last to end a hang; or half the time after which a run counts as hung, if that is less.
const LASTING_PROGRESS: Duration = Duration::from_secs(10);

/// True after the launcher received a signal that ends programs.
pub static IS_SIGNAL_RECEIVED: AtomicBool = AtomicBool::new(false);

/// Thread of a recorded call: the name of its process, and its tid.
pub type CallThread = (String, u32);

/// A hang from which the job has not resumed.
struct OngoingHang {
    waits: Box<dyn HangWaits>,
    path: Option<PathBuf>,
    /// The calls that did not return; empty if the hang was noticed by the lack of progress.
    calls: Vec<CallThread>,
    /// Number of processes that had failed when the hang began.
    failed: u64,
    /// Time since which the job makes progress, also in nanoseconds since 1970; `None` if it makes none.
    progress: Option<(Instant, u64)>,
}

pub struct HangLog {
    record: Option<PathBuf>,
    needed_progress: Duration,
    count: usize,
    ongoing: Vec<OngoingHang>,
}

impl HangLog {
    pub fn new(record: Option<PathBuf>, limit: Duration) -> HangLog {
        HangLog { record, needed_progress: (limit / 2).min(LASTING_PROGRESS), count: 0, ongoing: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.ongoing.is_empty()
    }

    /// Prints a hang, and keeps it in the recording. `is_ended` is true if cupeer is going to end the job because of the hang.
    pub fn report_hang(&mut self, mut waits: Box<dyn HangWaits>, calls: Vec<CallThread>, failed: u64, is_ended: bool) {
        if waits.is_empty() || self.count == MOST_KEPT {
            return;
        }
        // There was some progress between two hangs, so the earlier one is over.
        self.end_after_progress(failed, Duration::ZERO);
        self.count += 1;
        if is_ended {
            waits.set_ended(unix_nanoseconds());
        }
        output::print_block(|style| waits.format_text(style));
        let path = self.record.as_ref().map(|record| {
            let path = record.join(format!("{}{}{HANG_SUFFIX}", file_prefix(), self.count));
            output::print_problem(&match write_waits(&path, &*waits) {
                Ok(()) => format!("all stacks are kept in {}", home::relative_path(&path)),
                Err(error) => format!("cannot keep the stacks in {}: {error}", record.display()),
            });
            path
        });
        self.ongoing.push(OngoingHang { waits, path, calls, failed, progress: None });
    }

    /// Notes progress of the job, for the hangs that were noticed by the lack of progress.
    pub fn note_progress(&mut self) {
        self.ongoing.iter_mut().filter(|hang| hang.calls.is_empty()).for_each(OngoingHang::note_progress);
    }

    /// Ends the hangs that are over. `is_in_flight` returns true for a call that has not returned; `failed` is the number of
    /// processes that have failed.
    pub fn end_finished(&mut self, is_in_flight: impl Fn(&CallThread) -> bool, failed: u64) {
        let of_calls = self.ongoing.iter_mut().filter(|hang| !hang.calls.is_empty());
        of_calls.filter(|hang| !hang.calls.iter().any(&is_in_flight)).for_each(OngoingHang::note_progress);
        self.end_after_progress(failed, self.needed_progress);
    }

    /// Ends all hangs, because the job ended well.
    pub fn end_all(&mut self, failed: u64) {
        self.ongoing.iter_mut().for_each(OngoingHang::note_progress);
        self.end_after_progress(failed, Duration::ZERO);
    }

    /// Ends the hangs after which the job has made progress for at least the time `least`.
    fn end_after_progress(&mut self, failed: u64, least: Duration) {
        let goes_on = |hang: &mut OngoingHang| {
            let has_failed = failed > hang.failed || IS_SIGNAL_RECEIVED.load(Relaxed);
            let progress = hang.progress.filter(|(since, _)| !has_failed && since.elapsed() >= least);
            progress.map(|(_, resumed)| hang.report_resumption(resumed)).is_some()
        };
        self.ongoing.retain_mut(|hang| !goes_on(hang));
    }
}

impl OngoingHang {
    fn note_progress(&mut self) {
        self.progress.get_or_insert_with(|| (Instant::now(), unix_nanoseconds()));
    }

    fn report_resumption(&mut self, resumed: u64) {
        let lasted = duration(self.waits.set_resumed(resumed));
        output::print_problem(&format!("the job makes progress again, after {lasted} in which it hung"));
        let kept = self.path.as_ref().map_or(Ok(()), |path| write_waits(path, &*self.waits));
        if let Err(error) = kept {
            output::print_problem(&format!("cannot keep that the job makes progress: {error}"));
        }
    }
}

fn unix_nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Writes the waits of a hang to a file of the recording, for those who may read the recording.
fn write_waits(path: &Path, waits: &dyn HangWaits) -> io::Result<()> {
    let record = path.parent().unwrap_or(path);
    let mut file = NamedTempFile::new_in(record)?;
    if record.metadata()?.permissions().mode() & 0o020 != 0 {
        file.as_file().set_permissions(Permissions::from_mode(0o660))?;
    }
    file.write_all(&waits.to_json()?)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Returns true if a file contains a hang of this run.
pub fn is_file_of_this_run(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&file_prefix()))
}

fn file_prefix() -> String {
    let boot = host::boot_id().map(host::short_boot_id).unwrap_or_default();
    format!("{HANG}{boot}-{}-", std::process::id())
}
