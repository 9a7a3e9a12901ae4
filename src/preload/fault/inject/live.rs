//! Follows the plans that are armed while the job is running: those of `cupeer fault`, and those that a process armed for
//! itself and its descendants.
//!
//! A process looks for the board of the job at its first call. It continues to poll the board at each call if it allows plans from outside,
//! or if it finds a plan of an ancestor. Then all driver calls come to us, including those that would bypass us.

use super::arming;
use super::board;
use super::loaded::LoadedPlan;
use super::plan_file::PlanFile;
use crate::log::message;
use crate::resolve::traced;
use crate::settings::{self, inject::memory_of};
use crate::sys::aside::run_blocked_with_stack;
use crate::sys::every_call::{EVERY_CALL, UNREAD, UNSEEN, follows_plans, has_unseen_plan_changes};
use crate::sys::lock::Lock;
use crate::sys::memory;
use core::ffi::c_int;
use core::fmt;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use cupeer_spec::fault::FaultPlan;
use cupeer_spec::record::armed::{ArmedPlansBoard, PLANS};
use cupeer_spec::record::faults;

/// Message for a plan that is not armed because there is no memory for it.
pub const NO_MEMORY: &str = "out of memory";

/// For each place of the board, the number of the last plan that was read from the place, even if the plan is not for this
/// process.
static LAST_READ: [AtomicU64; PLANS] = [const { AtomicU64::new(0) }; PLANS];

/// Arms the plan of the environment, once: in our constructor, or in a call before the constructor.
#[unsafe(link_section = ".text.startup")]
pub fn arm_environment_plan() {
    #[unsafe(link_section = ".data.start")]
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.swap(true, Relaxed) {
        return;
    }
    let settings = settings::get();
    if settings.inject.is_some() || settings.deny.is_some() {
        arming::arm_at_start(settings);
    }
    if settings.has_directory() {
        // The first call looks for the board. Most processes make no calls.
        EVERY_CALL.seen.store(UNSEEN, Release);
    } else {
        note_plans_known();
    }
}

/// Replaces [`UNREAD`] by null in the pointer to the armed plans, if no plan is armed.
fn note_plans_known() {
    let _ = EVERY_CALL.armed.compare_exchange(UNREAD, ptr::null_mut(), SeqCst, Acquire);
}

/// Arms and disarms the plans that were armed or disarmed in the job since the last poll.
pub fn poll() {
    static LOCK: Lock = Lock::new();
    if EVERY_CALL.armed.load(Acquire) == UNREAD {
        arm_environment_plan();
    }
    if !has_unseen_plan_changes() {
        return;
    }
    // Paths are long, and stacks may be small.
    run_blocked_with_stack(|| {
        if EVERY_CALL.armed.load(Acquire) == UNREAD {
            LOCK.with(|| {
                if has_unseen_plan_changes() {
                    follow_board_changes()
                }
            });
        } else {
            LOCK.try_with(&mut Some(follow_board_changes));
        }
    });
}

fn follow_board_changes() {
    let settings = settings::get();
    let is_open = settings.allows_faults;
    let found = if settings.has_directory() { board::find_or_create_board(is_open) } else { Err(libc::ENOENT) };
    match found {
        Ok(board) => {
            board.is_open.fetch_or(u32::from(is_open), Release);
            apply_board(board, is_open);
        }
        Err(error) => {
            // A missing board matters only to a process that allows plans.
            if error != libc::ENOENT && (is_open || matches!(error, libc::EPERM | libc::EPROTO)) {
                complain(format_args!("plans that are armed while the job is running"), error);
            }
            EVERY_CALL.seen.store(0, Release);
        }
    }
    note_plans_known();
}

fn complain(what: fmt::Arguments, error: c_int) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if SAID.swap(true, Relaxed) {
        return;
    }
    let why: &dyn fmt::Display = match error {
        libc::EPERM => &"their file belongs to another user, or others can write to it",
        libc::EPROTO => &"their file is damaged",
        _ => &message::ErrnoText(error),
    };
    message::print_line(format_args!("{what} cannot be used: {why}"));
}

/// Arms and disarms plans as the board says, and continues to poll it if they can concern this process.
fn apply_board(board: &'static ArmedPlansBoard, is_open: bool) {
    let generation = board.generation.load(Acquire);
    let mut is_concerned = is_open || follows_plans();
    for (place, dealt_with) in board.plans.iter().zip(&LAST_READ) {
        let (number, before) = (place.load(Acquire), dealt_with.load(Relaxed));
        if number == before {
            continue;
        }
        dealt_with.store(number, Relaxed);
        if let Some(plan) = u32::try_from(before).ok().and_then(arming::loaded)
            && arming::disarm_here(plan)
        {
            plan.unmap();
        }
        if number != 0 {
            is_concerned |= arm_from_board(number, is_open);
        }
    }
    if !is_concerned {
        EVERY_CALL.seen.store(0, Release);
        return;
    }
    if !follows_plans() {
        EVERY_CALL.generation.store(ptr::from_ref(&board.generation).cast_mut(), Release);
        arming::publish_anew();
        traced::route_anew();
    }
    EVERY_CALL.seen.store(generation, Release);
    board::note_followed_generation(board, generation, is_open);
}

/// Arms a plan that the board lists, if the plan is for this process. Returns false if it is not.
fn arm_from_board(number: u64, is_open: bool) -> bool {
    let Ok(id) = u32::try_from(number) else { return false };
    if arming::loaded(id).is_some() {
        return true;
    }
    let file = match PlanFile::open(number) {
        Ok(file) => file,
        // The plan was disarmed since the board was read.
        Err(libc::ENOENT) => return false,
        Err(error) => {
            complain(format_args!("plan {number}, which was armed while the job is running,"), error);
            return false;
        }
    };
    if !file.is_armed() || !file.is_for_us(is_open) {
        return false;
    }
    let mut file = Some(file);
    let bytes = file.as_ref().map_or(0, PlanFile::length);
    // Apart from the parsed plan, two copies of the text are in memory: the lines of the file, and the text of the plan.
    let armed = memory::run_with_reserved_memory(memory_of(bytes) + 4 * bytes, || {
        let text = file.as_ref().map(PlanFile::text).unwrap_or_default();
        let plan = faults::plan_without_names(&text).and_then(|text| FaultPlan::parse("armed", &text).ok());
        match plan.filter(|plan| !plan.rules.is_empty()) {
            None => (Err(libc::EPROTO), false),
            Some(plan) => (arm(id, plan, &mut file).ok_or(libc::ENOMEM), true),
        }
    });
    if let Err(error) = armed.unwrap_or(Err(libc::ENOMEM)) {
        complain(format_args!("plan {number}, which was armed while the job is running,"), error);
    }
    true
}

/// Arms a plan that the board lists in this process.
fn arm(id: u32, plan: FaultPlan, file: &mut Option<PlanFile>) -> Option<()> {
    let is_whole = file.as_ref().is_some_and(|file| file.counters().len() == plan.rules.len());
    let (file, plan) = (file.take().filter(|_| is_whole)?, Box::leak(Box::new(plan)));
    file.count_process();
    arming::arm_loaded(id, plan, Some(file), settings::get().is_dry)
}

/// Arms a plan of this process for the process itself and its descendants. Returns the number of the plan, or an error; `None` if
/// processes share no directory.
pub fn arm_for_descendants(plan: &'static FaultPlan) -> Option<Result<u32, String>> {
    if !settings::get().has_directory() {
        return None;
    }
    // The board is found first, because a plan that is counted in the memory of the process has another number.
    let board = board::find_or_create_board(true).ok()?;
    Some(publish(board, plan))
}

fn publish(board: &'static ArmedPlansBoard, plan: &'static FaultPlan) -> Result<u32, String> {
    let cannot = |error: c_int| format!("processes cannot share it: {}", message::ErrnoText(error));
    let number = PlanFile::create_for_plan(board, plan).map_err(cannot)?;
    let file = PlanFile::open(number).map_err(cannot)?;
    file.count_process();
    let id = number as u32;
    arming::arm_loaded(id, plan, Some(file), false).ok_or(NO_MEMORY)?;
    if board.add_plan(number) {
        return Ok(id);
    }
    if let Some(plan) = arming::loaded(id) {
        disarm(plan);
    }
    Err(format!("{PLANS} plans are armed in this job, and no more can be"))
}

/// Disarms a plan of this process, here and in its descendants. Returns the number of calls that faults of the plan matched, and
/// the number of calls at which they fired; `None` if the plan was disarmed already.
pub fn disarm(plan: &'static LoadedPlan) -> Option<(u64, u64)> {
    // A forked child disarms its parent's plan for itself only.
    if let Some(file) = plan.file.as_ref().filter(|file| file.is_own()) {
        // The plan leaves the board first, so that a call that sees the plan disarmed also finds the board changed.
        if let Some(board) = board::known() {
            board.remove_plan(u64::from(plan.id));
        }
        file.disarm();
        file.remove();
    }
    if !arming::disarm_here(plan) {
        return None;
    }
    let done = plan.total_counts();
    plan.unmap();
    Some(done)
}
