//! The files of plans that are armed while the job is running, mapped: the board that lists them, and one for each plan
//! (`cupeer_spec::record::armed`).
//!
//! Only files of this user are used, and only those that nobody else can write to. Nothing in them is believed before it
//! was checked against the size of the file.

use super::shared::Layout;
use crate::job::directory::{self, Directory, Path, c_path};
use crate::recorder::file::Identity;
use crate::settings;
use crate::sys::clock;
use crate::sys::life;
use crate::sys::line::Short;
use crate::sys::opened::Opened;
use crate::sys::process::boot_id;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::slice;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};
use cupeer_spec::fault::{Per, Plan};
use cupeer_spec::record::armed::{Board, BoardFile, MAGIC, PROCESSES, Seen, VERSION};
use cupeer_spec::record::faults::{self, Counter, Header, LONGEST, SCOPES, Scope, TEXT};
use cupeer_spec::record::read;

/// The board, mapped for good; null before it is found.
static BOARD: AtomicPtr<Board> = AtomicPtr::new(ptr::null_mut());
/// The process that [`PLACE`] is of, by its pid, and the number of its place on the board and one.
static OWNER: AtomicU32 = AtomicU32::new(0);
static PLACE: AtomicU32 = AtomicU32::new(0);

/// The board, if it was found.
pub fn known() -> Option<&'static Board> {
    // SAFETY: mapped for good, with all of its bytes; its fields that change are atomics.
    unsafe { BOARD.load(Acquire).as_ref() }
}

/// The board, which is made if it is not there and `is_made`.
pub fn find(is_made: bool) -> Result<&'static Board, c_int> {
    if let Some(board) = known() {
        return Ok(board);
    }
    let directory = super::shared::directory(settings::get(), is_made)?;
    let boot_id = boot_id();
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    let path = directory.file(Short::<48>::new(format_args!("{}", BoardFile { boot_id, user })).text())?;
    let mapped = match open(&directory, &path, &boot_id) {
        Err(libc::ENOENT) if is_made => {
            let begin = |base: *mut u8| {
                let board = base.cast::<Board>();
                // SAFETY: mapped with the size of a board, all zero, and nobody else's yet.
                unsafe {
                    (&raw mut (*board).version).write(VERSION);
                    (&raw mut (*board).boot_id).write(boot_id);
                    (&raw mut (*board).magic).write(MAGIC);
                }
            };
            let own = Directory { path: directory.path, mode: 0o600 };
            directory::publish_mapped(&own, &path, ".armed", size_of::<Board>(), begin)?;
            open(&directory, &path, &boot_id)
        }
        found => found,
    }?;
    match BOARD.compare_exchange(ptr::null_mut(), mapped, AcqRel, Acquire) {
        // SAFETY: mapped for good.
        Ok(_) => Ok(unsafe { &*mapped }),
        Err(first) => {
            // SAFETY: mapped above and not published; the first one is never unmapped.
            unsafe {
                libc::munmap(mapped.cast(), size_of::<Board>());
                Ok(&*first)
            }
        }
    }
}

fn open(directory: &Directory, path: &Path, boot_id: &[u8; 16]) -> Result<*mut Board, c_int> {
    let file = trusted(directory, path)?;
    if file.about().size < size_of::<Board>() as u64 {
        return Err(libc::EPROTO);
    }
    let mapped = file.map(0, size_of::<Board>())?.cast::<Board>();
    // SAFETY: mapped above with this size; its fields that change are atomics.
    if unsafe { (*mapped).is_valid(boot_id) } {
        return Ok(mapped);
    }
    // SAFETY: mapped above with this size.
    unsafe { libc::munmap(mapped.cast(), size_of::<Board>()) };
    Err(libc::EPROTO)
}

/// A file of this user that nobody else can write to, whoever takes part in the job.
fn trusted(directory: &Directory, path: &Path) -> Result<Opened, c_int> {
    let file = Opened::open(c_path(path), libc::O_RDWR)?;
    let about = file.about().found;
    let is_ours = directory.is_of_user(about.owner) && about.mode & 0o022 == 0;
    if is_ours { Ok(file) } else { Err(libc::EPERM) }
}

/// Notes on the board that this process has the plans of a generation.
pub fn note(board: &'static Board, generation: u64, is_open: bool) {
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() } as u32;
    if OWNER.load(Acquire) != pid {
        PLACE.store(take(board, is_open).map_or(0, |place| place as u32 + 1), Release);
        OWNER.store(pid, Release);
    }
    let place = (PLACE.load(Acquire) as usize).checked_sub(1).and_then(|place| board.processes.get(place));
    if let Some(place) = place {
        place.seen.store(generation + 1, Release);
    }
}

/// Takes a place on the board: one that is free, or that of a process that has ended.
fn take(board: &'static Board, is_open: bool) -> Option<usize> {
    let Identity { pid, pid_ns, started, .. } = Identity::of_owner();
    let has_ended = |place: &Seen| {
        let there = place.pid.load(Acquire);
        let is_same_start = |seen: &life::ProcessState| seen.started == place.started.load(Acquire);
        place.pid_ns.load(Acquire) == pid_ns
            && !life::look(there).as_ref().is_some_and(is_same_start)
            && !(there != pid && life::exists(there) && life::look(there).is_none())
    };
    let free = |place: &Seen| place.pid.load(Acquire) == 0;
    let is_own = |place: &Seen| place.pid.load(Acquire) == pid && place.pid_ns.load(Acquire) == pid_ns;
    let choices: [&dyn Fn(&Seen) -> bool; 3] = [&is_own, &free, &has_ended];
    for is_chosen in choices {
        for place in (0..PROCESSES).filter(|place| is_chosen(&board.processes[*place])) {
            let seen = &board.processes[place];
            if seen.take(seen.pid.load(Acquire), pid, pid_ns, started, is_open) {
                return Some(place);
            }
        }
    }
    None
}

/// A file with a plan, mapped until nobody looks at the plan any more.
pub struct PlanFile {
    base: AtomicPtr<u8>,
    size: usize,
    /// The fixed fields, as they were when the file was checked.
    header: Header,
}

impl PlanFile {
    /// Opens the file of a plan of the board.
    pub fn open(number: u64) -> Result<PlanFile, c_int> {
        let directory = super::shared::directory(settings::get(), false)?;
        let boot_id = boot_id();
        let name = faults::PlanFile { boot_id, number };
        let file = trusted(&directory, &directory.file(Short::<48>::new(format_args!("{name}")).text())?)?;
        let most =
            TEXT + LONGEST + LONGEST / 8 * size_of::<Counter>() + SCOPES * size_of::<Scope>() + (1 << 16);
        let size = usize::try_from(file.about().size).ok().filter(|size| (TEXT..=most).contains(size));
        let size = size.ok_or(libc::EPROTO)?;
        let base = file.map(0, size)?;
        // SAFETY: mapped above with at least this size. Others may change it: what is copied is checked.
        let head = unsafe { base.cast::<[u8; size_of::<Header>()]>().read_volatile() };
        let header = read::<Header>(&head).filter(|header| {
            let is_of_boot = header.boot_id == boot_id && header.number == number;
            is_of_boot && faults::is_within(header, size)
        });
        let file = PlanFile { base: AtomicPtr::new(base), size, header: header.unwrap_or_default() };
        if header.is_some() { Ok(file) } else { Err(libc::EPROTO) }
    }

    /// Makes the file of a plan of this process. Gives its number.
    pub fn publish(board: &Board, plan: &Plan) -> Result<u64, c_int> {
        let Identity { boot_id, pid, pid_ns, started, .. } = Identity::of_owner();
        let directory = super::shared::directory(settings::get(), true)?;
        let number = board.next_number();
        if number > i32::MAX as u64 {
            return Err(libc::EOVERFLOW);
        }
        let text = faults::lines(plan.rules.iter().map(|rule| (&*rule.name, rule.whole_text(rule.seed))));
        let is_joint = plan.rules.iter().any(|rule| matches!(rule.per, Per::Job | Per::Rank));
        let scopes = if is_joint { SCOPES } else { 0 };
        let layout = Layout { text: &text, rules: plan.rules.len() as u32, boot_id, scopes };
        let (root_pid, root_pid_ns, root_started) = (pid, pid_ns, started);
        let armed = clock::realtime();
        let header = Header { number, armed, root_pid, root_pid_ns, root_started, ..layout.header() };
        // Others may read the counts, but nobody arms anything for another user.
        let own = Directory { path: directory.path, mode: directory.mode & 0o640 };
        let path =
            own.file(Short::<48>::new(format_args!("{}", faults::PlanFile { boot_id, number })).text())?;
        // SAFETY: mapped with this size, all zero.
        let write = |base| unsafe { layout.write(base, header) };
        directory::publish_mapped(&own, &path, ".faults", layout.size(), write)?;
        Ok(number)
    }

    /// Removes the file of a plan of this process, which it has disarmed.
    pub fn remove(&self) {
        let Ok(directory) = super::shared::directory(settings::get(), false) else { return };
        let (boot_id, number) = (self.header.boot_id, self.header.number);
        let name = faults::PlanFile { boot_id, number };
        if let Ok(path) = directory.file(Short::<48>::new(format_args!("{name}")).text()) {
            // SAFETY: the path ends in NUL.
            unsafe { libc::unlink(c_path(&path).as_ptr()) };
        }
    }

    fn base(&self) -> Option<*mut u8> {
        Some(self.base.load(Acquire)).filter(|base| !base.is_null())
    }

    /// When it was disarmed; 0 while it is armed.
    fn disarmed(&self) -> Option<&AtomicU64> {
        // SAFETY: an aligned number of the mapped header, which is changed only in this way.
        self.base().map(|base| unsafe { AtomicU64::from_ptr(&raw mut (*base.cast::<Header>()).disarmed) })
    }

    /// Whether nobody has disarmed it.
    pub fn is_armed(&self) -> bool {
        self.disarmed().is_some_and(|disarmed| disarmed.load(Acquire) == 0)
    }

    /// Disarms it in all processes.
    pub fn disarm(&self) {
        if let Some(disarmed) = self.disarmed() {
            disarmed.store(clock::realtime(), Release);
        }
    }

    /// Whether it is for this process: it is from outside and `is_open`, or of this process or one of its ancestors.
    pub fn is_for_us(&self, is_open: bool) -> bool {
        let Some((root, root_ns, root_started)) = self.header.root() else { return is_open };
        let Identity { pid, pid_ns, .. } = Identity::of_owner();
        if root_ns != pid_ns {
            return false;
        }
        /// A process has fewer ancestors.
        const MOST: usize = 64;
        let parent = |pid: &u32| life::look(*pid).map(|seen| seen.parent).filter(|parent| *parent != 0);
        let mut line = core::iter::successors(Some(pid), parent).take(MOST);
        line.any(|pid| pid == root && life::look(pid).is_some_and(|seen| seen.started == root_started))
    }

    /// Whether a process has armed it, and not `cupeer fault`.
    pub fn has_root(&self) -> bool {
        self.header.root().is_some()
    }

    /// Whether this process has armed it, or one of its older programs.
    pub fn is_own(&self) -> bool {
        // SAFETY: getpid has no preconditions.
        self.header.root_pid == unsafe { libc::getpid() } as u32
    }

    /// A copy of its text: others may change that in the file.
    pub fn text(&self) -> Vec<u8> {
        let Some(base) = self.base() else { return Vec::new() };
        let mut text = vec![0; self.header.text as usize];
        // SAFETY: the text is within the mapping, as was checked.
        unsafe { ptr::copy_nonoverlapping(base.add(TEXT), text.as_mut_ptr(), text.len()) };
        text
    }

    /// The bytes of its text.
    pub fn length(&self) -> usize {
        self.header.text as usize
    }

    /// What is counted of its rules.
    pub fn counters(&self) -> &[Counter] {
        let Some(base) = self.base() else { return &[] };
        let (at, count) = (self.header.counters as usize, self.header.rules as usize);
        // SAFETY: within the mapping and aligned, as was checked; used only as atomics, until nobody looks at it.
        unsafe { slice::from_raw_parts(base.add(at).cast(), count) }
    }

    /// What processes count together.
    pub fn scopes(&self) -> &[Scope] {
        let Some(base) = self.base() else { return &[] };
        let (at, count) = (self.header.scopes as usize, self.header.scope_count as usize);
        // SAFETY: as in `counters`.
        unsafe { slice::from_raw_parts(base.add(at).cast(), count) }
    }

    /// Counts one more process that has the plan.
    pub fn count_process(&self) {
        if let Some(base) = self.base() {
            // SAFETY: an aligned number of the mapped header, which is changed only in this way.
            unsafe { AtomicU64::from_ptr(&raw mut (*base.cast::<Header>()).processes) }.fetch_add(1, AcqRel);
        }
    }

    /// Unmaps it. Nobody may look at the plan any more.
    pub fn give_back(&self) {
        let base = self.base.swap(ptr::null_mut(), AcqRel);
        if !base.is_null() {
            // SAFETY: mapped with this size.
            unsafe { libc::munmap(base.cast::<c_void>(), self.size) };
        }
    }
}

impl Drop for PlanFile {
    fn drop(&mut self) {
        self.give_back();
    }
}
