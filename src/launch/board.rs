//! The plans that are armed while a job is running, as the command arms, disarms, and lists them
//! (`cupeer_spec::record::armed`).

use anyhow::{Context, Result, bail, ensure};
use cupeer_console::startup::effective_user;
use cupeer_record::host;
use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_spec::fault::{CounterScope, PlannedFault};
use cupeer_spec::record::armed::{ArmedPlansBoard, BoardFileName, MAGIC, PREFIX, VERSION};
use cupeer_spec::record::faults::{self, FaultCounter, Header, LONGEST, PlanFileName, SCOPES, ScopeCounter, TEXT};
use cupeer_spec::record::{self, read_plain};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{SystemTime, UNIX_EPOCH};

/// The board of a job on this host: a shared file, mapped into memory, through which plans reach the processes.
pub struct PlanBoard {
    directory: PathBuf,
    boot_id: [u8; 16],
    /// User id of the owner of the processes that use the board.
    user: u32,
    board: NonNull<ArmedPlansBoard>,
}

/// A process that reads the board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoardReader {
    pub pid: u32,
    pub pid_ns: u64,
    pub started: u64,
    /// True if the process allows plans from outside.
    pub allows_plans: bool,
    /// Generation of the plans that the process has; `None` if the process has no plans yet.
    pub plan_generation: Option<u64>,
}

impl PlanBoard {
    /// Allows arming plans in a job from outside, before any process of the job does.
    pub fn allow_plans(directory: &Path) -> Result<()> {
        let failed = || format!("failed to allow faults in '{}'", directory.display());
        let boot_id = host::boot_id().context("the host has no boot id").with_context(failed)?;
        let path = directory.join(BoardFileName { boot_id, user: effective_user() }.to_string());
        let mut bytes = vec![0; size_of::<ArmedPlansBoard>()];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
        let at = offset_of!(ArmedPlansBoard, boot_id);
        bytes[at..at + 16].copy_from_slice(&boot_id);
        match publish_file(directory, &path, &bytes, 0o600, effective_user()) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error).with_context(failed),
            _ => {}
        }
        let plans = PlanBoard::open_board(directory, boot_id, effective_user()).with_context(failed)?;
        plans.board().is_open.store(1, Release);
        Ok(())
    }

    /// Returns the board of a job on this host; `None` if the processes of this user have no board. Root gets the board of
    /// the directory's owner.
    pub fn find(directory: &Path) -> Result<Option<PlanBoard>> {
        let Some(boot_id) = host::boot_id() else { return Ok(None) };
        let owner = fs::metadata(directory)?.uid();
        let user = if effective_user() == 0 { owner } else { effective_user() };
        let path = directory.join(BoardFileName { boot_id, user }.to_string());
        if path.symlink_metadata().is_ok() {
            return PlanBoard::open_board(directory, boot_id, user).map(Some);
        }
        let others = format!("{PREFIX}{}-", host::short_boot_id(boot_id));
        let is_others = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&others);
        ensure!(
            !fs::read_dir(directory)?.flatten().any(|entry| is_others(&entry)),
            "the processes belong to another user; only their own user arms faults in them"
        );
        Ok(None)
    }

    fn open_board(directory: &Path, boot_id: [u8; 16], user: u32) -> Result<PlanBoard> {
        let path = directory.join(BoardFileName { boot_id, user }.to_string());
        let shown = path.display();
        let file = plain::open_with(&path, SymbolicLinks::Refused, OpenOptions::new().read(true).write(true));
        let file = file.with_context(|| format!("'{shown}' cannot be used"))?;
        let about = file.metadata()?;
        ensure!(
            [user, 0].contains(&about.uid()) && about.mode() & 0o022 == 0,
            "'{shown}' cannot be used: it belongs to another user, or others can write to it"
        );
        let mut head = [0; 32];
        let is_whole = about.len() >= size_of::<ArmedPlansBoard>() as u64 && file.read_exact_at(&mut head, 0).is_ok();
        ensure!(is_whole, "'{shown}' is damaged: it is cut off");
        let board = map_board(&file).with_context(|| format!("'{shown}' cannot be mapped"))?;
        let plans = PlanBoard { directory: directory.to_owned(), boot_id, user, board };
        ensure!(plans.board().is_valid(&boot_id), "'{shown}' is damaged, or of another version of cupeer");
        Ok(plans)
    }

    fn board(&self) -> &ArmedPlansBoard {
        // SAFETY: mapped with this size until it is dropped; what others change are atomics, for which any bytes are valid.
        unsafe { self.board.as_ref() }
    }

    /// Returns true if a run or a process of the job allows plans from outside.
    pub fn allows_plans(&self) -> bool {
        self.board().is_open.load(Acquire) != 0
    }

    /// Returns a number that no other plan of the job has.
    pub fn take_plan_number(&self) -> u64 {
        self.board().take_plan_number()
    }

    /// Arms a plan in all processes that allow plans from outside, including processes that start later.
    pub fn arm(&self, number: u64, rules: &[PlannedFault], seed: u64) -> Result<()> {
        let text = faults::format_plan_lines(rules.iter().map(|rule| (&*rule.name, rule.self_contained_text(seed))));
        ensure!(text.len() <= LONGEST, "the plan is longer than {} KiB", LONGEST >> 10);
        let is_joint = rules.iter().any(|rule| matches!(rule.per, CounterScope::Job | CounterScope::Rank));
        let scope_count = if is_joint { SCOPES } else { 0 };
        let counters = (TEXT + text.len()).next_multiple_of(64);
        let scopes = (counters + rules.len() * size_of::<FaultCounter>()).next_multiple_of(64);
        let header = Header {
            magic: faults::MAGIC,
            version: faults::VERSION,
            rules: rules.len() as u32,
            boot_id: self.boot_id,
            text: text.len() as u32,
            counters: counters as u32,
            scopes: scopes as u32,
            scope_count: scope_count as u32,
            number,
            armed: unix_nanoseconds(),
            ..Header::default()
        };
        let mut bytes = vec![0; (scopes + scope_count * size_of::<ScopeCounter>()).next_multiple_of(4096)];
        bytes[..size_of::<Header>()].copy_from_slice(record::plain_bytes(&header));
        bytes[TEXT..TEXT + text.len()].copy_from_slice(text.as_bytes());
        let path = self.plan_path(number);
        // The directory's group may read what the plan did, but not arm plans.
        let is_shared = fs::metadata(&self.directory)?.mode() & 0o020 != 0;
        let mode = if is_shared { 0o640 } else { 0o600 };
        publish_file(&self.directory, &path, &bytes, mode, self.user)
            .with_context(|| format!("failed to write '{}'", path.display()))?;
        if !self.board().add_plan(number) {
            let _ = fs::remove_file(&path);
            bail!("too many plans are armed in this job; disarm some with --release");
        }
        Ok(())
    }

    /// Disarms a plan in all processes, and releases the calls that the plan holds. The plan's file stays for the report.
    pub fn disarm(&self, number: u64) -> Result<()> {
        let path = self.plan_path(number);
        let file = plain::open_with(&path, SymbolicLinks::Refused, OpenOptions::new().read(true).write(true));
        let file = file.with_context(|| format!("failed to open '{}'", path.display()))?;
        let mut head = [0; size_of::<Header>()];
        file.read_exact_at(&mut head, 0).with_context(|| format!("'{}' is cut off", path.display()))?;
        let is_it = read_plain::<Header>(&head).is_some_and(|header| header.number == number);
        ensure!(is_it, "'{}' is not the file of plan {number}", path.display());
        // This comes first, so that a call that sees the disarmed plan also finds the board changed.
        self.board().remove_plan(number);
        file.write_all_at(&unix_nanoseconds().to_ne_bytes(), offset_of!(Header, disarmed) as u64)
            .with_context(|| format!("failed to write '{}'", path.display()))
    }

    fn plan_path(&self, number: u64) -> PathBuf {
        self.directory.join(PlanFileName { boot_id: self.boot_id, number }.to_string())
    }

    /// Returns the number of times that plans of the job were armed or disarmed.
    pub fn generation(&self) -> u64 {
        self.board().generation.load(Acquire)
    }

    /// Returns the processes that read the board, including processes that have ended.
    pub fn list_readers(&self) -> Vec<BoardReader> {
        let taken = self.board().processes.iter().filter(|place| place.pid.load(Acquire) != 0);
        taken
            .map(|place| BoardReader {
                pid: place.pid.load(Acquire),
                pid_ns: place.pid_ns.load(Acquire),
                started: place.started.load(Acquire),
                allows_plans: place.is_open.load(Acquire) != 0,
                plan_generation: place.seen.load(Acquire).checked_sub(1),
            })
            .collect()
    }
}

impl Drop for PlanBoard {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and not used any more.
        unsafe { libc::munmap(self.board.as_ptr().cast(), size_of::<ArmedPlansBoard>()) };
    }
}

fn map_board(file: &File) -> io::Result<NonNull<ArmedPlansBoard>> {
    let (protection, place) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::null_mut());
    // SAFETY: a new shared mapping of a file that has this size, at an address of the kernel's choice.
    let memory =
        unsafe { libc::mmap(place, size_of::<ArmedPlansBoard>(), protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    NonNull::new(memory.cast()).filter(|_| memory != libc::MAP_FAILED).ok_or_else(io::Error::last_os_error)
}

/// Creates a file that is complete when it appears under its name. Returns an error if the name is taken.
fn publish_file(directory: &Path, path: &Path, bytes: &[u8], mode: u32, owner: u32) -> io::Result<()> {
    let permissions = fs::Permissions::from_mode(mode);
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix(".faults-").permissions(permissions.clone()).tempfile_in(directory)?;
    made.as_file().write_all_at(bytes, 0)?;
    // The umask may have removed permissions from the file.
    made.as_file().set_permissions(permissions)?;
    if effective_user() == 0 && owner != 0 {
        std::os::unix::fs::fchown(made.as_file(), Some(owner), None)?;
    }
    made.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

fn unix_nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}
