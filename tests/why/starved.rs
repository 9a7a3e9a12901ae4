//! Programs that could run, and that other programs on their processor keep from it.

use super::{Waits, functions, json, on_hang, process, waits_c};
use crate::support::{cupeer, plain, temp_dir, wait_for};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Programs that leave little of a processor to others, until this is dropped.
struct Crowd {
    processor: usize,
    hogs: Vec<Child>,
}

impl Crowd {
    fn start() -> Crowd {
        // SAFETY: asks for a number.
        let processor = unsafe { libc::sched_getcpu() }.max(0) as usize;
        let hog = |_| {
            let mut command = plain("sh");
            command.args(["-c", "while :; do :; done"]);
            on(&mut command, processor, 0).spawn().unwrap()
        };
        Crowd { processor, hogs: (0..2).map(hog).collect() }
    }

    /// A command that gets what they leave.
    fn beside<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        on(command, self.processor, 15)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for hog in &mut self.hogs {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// Keeps a command on a processor, with a priority.
fn on(command: &mut Command, processor: usize, nice: i32) -> &mut Command {
    // SAFETY: these calls take numbers and a set of the given size, and may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(processor, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &set);
            libc::setpriority(libc::PRIO_PROCESS, 0, nice);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    }
}

#[test]
fn a_thread_is_read_when_it_gets_to_its_stop() {
    let crowd = Crowd::start();
    let mut command = plain(waits_c());
    crowd.beside(&mut command).arg("spins");
    let waits = Waits::start(command, 1);
    for _ in 0..3 {
        let document = json(&[&waits.pid().to_string()]);
        let process = process(&document, waits.pid());
        assert!(process["stopped_ns"].as_u64().unwrap() > 0, "{document:#}");
        assert!(functions(&document, waits.pid()).contains(&"main".to_owned()), "{document:#}");
    }
}

#[test]
fn a_program_that_gets_no_processor_does_not_hang() {
    let crowd = Crowd::start();
    let folder = temp_dir();
    let mut command = cupeer();
    command.args(["run", "--on-hang", "100ms", "-o", "r", "--sim", "--"]).arg("sh");
    // The launcher itself gets its share.
    let line = format!("exec taskset -c {} nice -n 15 \"$0\" spins", crowd.processor);
    command.args(["-c", &line]).arg(waits_c()).current_dir(folder.path()).stderr(Stdio::null());
    let mut waits = Waits::start(command, 1);
    let spins = || {
        let children = procfs::process::all_processes().unwrap().flatten();
        let mut stats = children.filter_map(|child| child.stat().ok());
        stats.find(|stat| stat.ppid == waits.child.id() as i32)
    };
    let ticks = |stat: procfs::process::Stat| stat.utime + stat.stime;
    let began = spins().map(ticks).unwrap();
    wait_for("some time of the processor", || spins().is_some_and(|stat| ticks(stat) > began + 3));
    waits.end();
    let record = folder.path().join("r");
    let kept = on_hang::kept(&record);
    assert!(kept.is_empty(), "{}", fs::read_to_string(&kept[0]).unwrap());
}
