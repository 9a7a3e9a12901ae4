//! The file in which processes count the calls of a plan together, mapped (`cupeer_spec::record::faults`).
//!
//! Other processes may change a file at any time. Its fixed fields are checked against its size before they are used.

use super::board::{directory, open_trusted_file};
use crate::job::directory::{self, Directory, Path, c_path};
use crate::recorder::file::Identity;
use crate::settings;
use crate::sys::clock;
use crate::sys::life;
use crate::sys::line::ShortText;
use crate::sys::process::boot_id;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};
use core::{ptr, slice};
use cupeer_spec::fault::{CounterScope, FaultPlan, fnv_hash};
use cupeer_spec::record::armed::ArmedPlansBoard;
use cupeer_spec::record::faults::{
    self, DAMAGED, DAMAGED_COUNT, FaultCounter, Header, LONGEST, MAGIC, PREFIX, SCOPES, ScopeCounter, TEXT, VERSION,
};
use cupeer_spec::record::read_plain;

/// Mapped file of a plan. It stays mapped until no thread uses the plan any more.
pub struct PlanFile {
    base: AtomicPtr<u8>,
    size: usize,
    /// Fixed fields of the file, as they were when the file was checked.
    header: Header,
}

impl PlanFile {
    /// Returns a file that is mapped at `base` with `size` bytes, and whose header was checked.
    pub fn new(base: *mut u8, size: usize, header: Header) -> PlanFile {
        PlanFile { base: AtomicPtr::new(base), size, header }
    }

    /// Opens the file of a plan that the board lists, by the number of the plan.
    pub fn open(number: u64) -> Result<PlanFile, c_int> {
        let directory = directory(settings::get(), false)?;
        let boot_id = boot_id();
        let file = open_trusted_file(&directory, &path(&directory, boot_id, number)?)?;
        let most =
            TEXT + LONGEST + LONGEST / 8 * size_of::<FaultCounter>() + SCOPES * size_of::<ScopeCounter>() + (1 << 16);
        let size = usize::try_from(file.info().size).ok().filter(|size| (TEXT..=most).contains(size));
        let size = size.ok_or(libc::EPROTO)?;
        let base = file.map(0, size)?;
        // SAFETY: mapped above with at least this size. Others may change it: what is copied is checked.
        let head = unsafe { base.cast::<[u8; size_of::<Header>()]>().read_volatile() };
        let header = read_plain::<Header>(&head).filter(|header| {
            let is_of_boot = header.boot_id == boot_id && header.number == number;
            is_of_boot && faults::is_header_within(header, size)
        });
        let file = PlanFile::new(base, size, header.unwrap_or_default());
        if header.is_some() { Ok(file) } else { Err(libc::EPROTO) }
    }

    /// Creates the file of a plan that this process arms. Returns the number of the plan.
    pub fn create_for_plan(board: &ArmedPlansBoard, plan: &FaultPlan) -> Result<u64, c_int> {
        let Identity { boot_id, pid, pid_ns, started, .. } = Identity::of_owner();
        let directory = directory(settings::get(), true)?;
        let number = board.take_plan_number();
        if number > i32::MAX as u64 {
            return Err(libc::EOVERFLOW);
        }
        let text =
            faults::format_plan_lines(plan.rules.iter().map(|rule| (&*rule.name, rule.self_contained_text(rule.seed))));
        let is_joint = plan.rules.iter().any(|rule| matches!(rule.per, CounterScope::Job | CounterScope::Rank));
        let scopes = if is_joint { SCOPES } else { 0 };
        let layout = Layout { text: &text, rules: plan.rules.len() as u32, boot_id, scopes };
        let (root_pid, root_pid_ns, root_started) = (pid, pid_ns, started);
        let armed = clock::realtime();
        let header = Header { number, armed, root_pid, root_pid_ns, root_started, ..layout.header() };
        // Other users may read the counts, but cannot write to the file, because no user arms plans for another user.
        let own = Directory { path: directory.path, mode: directory.mode & 0o640 };
        let path = path(&own, boot_id, number)?;
        // SAFETY: mapped with this size, all zero.
        let write = |base| unsafe { layout.write(base, header) };
        directory::create_mapped_file(&own, &path, ".faults", layout.size(), write)?;
        Ok(number)
    }

    /// Removes the file of a plan that this process disarmed.
    pub fn remove(&self) {
        let Ok(directory) = directory(settings::get(), false) else { return };
        if let Ok(path) = path(&directory, self.header.boot_id, self.header.number) {
            // SAFETY: the path ends in NUL.
            unsafe { libc::unlink(c_path(&path).as_ptr()) };
        }
    }

    fn base(&self) -> Option<*mut u8> {
        Some(self.base.load(Acquire)).filter(|base| !base.is_null())
    }

    /// Returns a field of the mapped header that processes change: see [`Header`]. `None` if the file is not mapped any more.
    fn changing_field(&self, field: impl FnOnce(*mut Header) -> *mut u64) -> Option<&AtomicU64> {
        // SAFETY: an aligned number of the mapped header, which is changed only in this way.
        self.base().map(|base| unsafe { AtomicU64::from_ptr(field(base.cast())) })
    }

    /// Returns the time at which the plan was disarmed, in nanoseconds; 0 while the plan is armed.
    fn disarm_time(&self) -> Option<&AtomicU64> {
        // SAFETY: a field of the header, of which only the address is taken.
        self.changing_field(|header| unsafe { &raw mut (*header).disarmed })
    }

    /// Returns true while the plan is armed: until any process disarms it.
    pub fn is_armed(&self) -> bool {
        self.disarm_time().is_some_and(|disarmed| disarmed.load(Acquire) == 0)
    }

    /// Disarms the plan in all processes.
    pub fn disarm(&self) {
        if let Some(disarmed) = self.disarm_time() {
            disarmed.store(clock::realtime(), Release);
        }
    }

    /// Returns true if this process must arm the plan: this process or an ancestor armed it, or `cupeer fault` armed it and
    /// `is_open`, so that this process allows plans from outside.
    pub fn is_for_us(&self, is_open: bool) -> bool {
        let Some((root, root_ns, root_started)) = self.header.arming_process() else { return is_open };
        let Identity { pid, pid_ns, .. } = Identity::of_owner();
        if root_ns != pid_ns {
            return false;
        }
        /// Maximum number of ancestors that are examined. A process has fewer.
        const MOST: usize = 64;
        let parent = |pid: &u32| life::read_state(*pid).map(|seen| seen.parent).filter(|parent| *parent != 0);
        let mut line = core::iter::successors(Some(pid), parent).take(MOST);
        line.any(|pid| pid == root && life::read_state(pid).is_some_and(|seen| seen.started == root_started))
    }

    /// Returns true if a process armed the plan for itself; false if `cupeer fault` did.
    pub fn is_armed_by_process(&self) -> bool {
        self.header.arming_process().is_some()
    }

    /// Returns true if this process armed the plan, perhaps before an exec.
    pub fn is_own(&self) -> bool {
        // SAFETY: getpid has no preconditions.
        self.header.root_pid == unsafe { libc::getpid() } as u32
    }

    /// Returns a copy of the text of the plan, because other processes may change the text in the file.
    pub fn text(&self) -> Vec<u8> {
        let Some(base) = self.base() else { return Vec::new() };
        let mut text = vec![0; self.header.text as usize];
        // SAFETY: the text is within the mapping, as was checked.
        unsafe { ptr::copy_nonoverlapping(base.add(TEXT), text.as_mut_ptr(), text.len()) };
        text
    }

    /// Returns the length of the plan's text in bytes.
    pub fn length(&self) -> usize {
        self.header.text as usize
    }

    /// Returns the counts of each fault of the plan.
    pub fn counters(&self) -> &[FaultCounter] {
        let Some(base) = self.base() else { return &[] };
        let (at, count) = (self.header.counters as usize, self.header.rules as usize);
        // SAFETY: within the mapping and aligned, as was checked; used only as atomics, until no thread uses the plan.
        unsafe { slice::from_raw_parts(base.add(at).cast(), count) }
    }

    /// Returns the scopes in which processes count together.
    pub fn scopes(&self) -> &[ScopeCounter] {
        let Some(base) = self.base() else { return &[] };
        let (at, count) = (self.header.scopes as usize, self.header.scope_count as usize);
        // SAFETY: as in `counters`.
        unsafe { slice::from_raw_parts(base.add(at).cast(), count) }
    }

    /// Counts one more process that has the plan. Returns the number of these processes.
    pub fn count_process(&self) -> u64 {
        // SAFETY: a field of the header, of which only the address is taken.
        let processes = self.changing_field(|header| unsafe { &raw mut (*header).processes });
        processes.map_or(1, |processes| processes.fetch_add(1, AcqRel) + 1)
    }

    /// Returns the fingerprints of the handles that faults damaged; 0 in free places.
    pub fn damaged_fingerprints(&self) -> &[AtomicU64] {
        let Some(base) = self.base() else { return &[] };
        // SAFETY: within the first page of the mapping, aligned, and used only in this way.
        unsafe { slice::from_raw_parts(base.add(DAMAGED).cast(), DAMAGED_COUNT) }
    }

    /// Counts one more damaged handle for whose fingerprint there is no free place.
    pub fn count_unlisted(&self) {
        // SAFETY: a field of the header, of which only the address is taken.
        if let Some(more) = self.changing_field(|header| unsafe { &raw mut (*header).damaged_more }) {
            more.fetch_add(1, AcqRel);
        }
    }

    /// Unmaps the file. No thread may use the plan any more.
    pub fn unmap(&self) {
        let base = self.base.swap(ptr::null_mut(), AcqRel);
        if !base.is_null() {
            // SAFETY: mapped with this size.
            unsafe { libc::munmap(base.cast::<c_void>(), self.size) };
        }
    }
}

impl Drop for PlanFile {
    fn drop(&mut self) {
        self.unmap();
    }
}

/// Returns the path of the file of a plan that the board lists.
fn path(directory: &Directory, boot_id: [u8; 16], number: u64) -> Result<Path, c_int> {
    let name = faults::PlanFileName { boot_id, number };
    directory.path_of(ShortText::<48>::new(format_args!("{name}")).text())
}

/// Contents of a new file of a plan, which determine its layout.
pub struct Layout<'a> {
    pub text: &'a str,
    pub rules: u32,
    pub boot_id: [u8; 16],
    pub scopes: usize,
}

impl Layout<'_> {
    fn counters_offset(&self) -> usize {
        (TEXT + self.text.len()).next_multiple_of(64)
    }

    fn scopes_at(&self) -> usize {
        (self.counters_offset() + self.rules as usize * size_of::<FaultCounter>()).next_multiple_of(64)
    }

    pub fn size(&self) -> usize {
        (self.scopes_at() + self.scopes * size_of::<ScopeCounter>()).next_multiple_of(4096)
    }

    /// Returns the name of the file for the plan of the environment.
    pub fn name(&self) -> ShortText<32> {
        let boot = u32::from_be_bytes([0, 1, 2, 3].map(|i| self.boot_id[i]));
        let hash = fnv_hash(self.text.as_bytes());
        ShortText::new(format_args!("{PREFIX}{boot:08x}-{:08x}", (hash ^ hash >> 32) as u32))
    }

    pub fn header(&self) -> Header {
        Header {
            magic: MAGIC,
            version: VERSION,
            rules: self.rules,
            boot_id: self.boot_id,
            text: self.text.len() as u32,
            counters: self.counters_offset() as u32,
            scopes: self.scopes_at() as u32,
            scope_count: self.scopes as u32,
            ..Header::default()
        }
    }

    /// # Safety
    ///
    /// `base` has [`Layout::size`] zeros that no other thread writes to.
    pub unsafe fn write(&self, base: *mut u8, header: Header) {
        // SAFETY: the caller's promise; the layout is within its size.
        unsafe {
            base.cast::<Header>().write(header);
            ptr::copy_nonoverlapping(self.text.as_ptr(), base.add(TEXT), self.text.len());
        }
    }
}
