//! `cupeer doctor --p2p`: proves with data what each link between devices carries.
//!
//! The way of a test: [`plan`] (which pair when) → [`link`] (opens a way between two devices) → [`checks`] (what is done over
//! it, and what is found) → [`process`], [`wire`] → [`agent`] in another process → [`cuda`]. What comes of it is a
//! [`verdict`]; [`text`] shows it.

pub mod agent;
mod checks;
mod cuda;
mod hints;
mod link;
mod plan;
mod process;
mod request;
mod text;
mod verdict;
mod wire;

use crate::args::DoctorArgs;
use crate::driver;
use crate::output;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plan::{Direction, Plan};
use process::{Broken, Environment, Process};
use request::{Device, Reply, Request};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;
use verdict::Verdict;

/// How long the driver may take to start.
const START: Duration = Duration::from_secs(60);

/// All that was found.
pub struct Findings {
    pub devices: Vec<Device>,
    pub pairs: Vec<Direction>,
}

impl Findings {
    fn is_bad(&self) -> bool {
        self.pairs.iter().flat_map(|pair| &pair.ways).any(|tested| tested.verdict.is_bad())
    }
}

/// `preload` is LD_PRELOAD without our library.
pub fn command(args: &DoctorArgs, preload: Option<OsString>) -> Result<ExitCode> {
    let chosen = driver::choose(&args.driver)?;
    let environment = Environment::of(chosen.as_ref(), preload);
    let (devices, pairs) = machine(&environment)?;
    let limit = Duration::from_secs(args.p2p.limit);
    let plan = Plan { devices: &devices, pairs, limit };
    let bar = bar(plan.steps());
    let pairs = plan.run(&environment, |verdict: &Verdict| {
        if verdict.is_bad() {
            bar.set_message("something is bad, ");
        }
        bar.inc(1);
    });
    bar.finish_and_clear();
    let findings = Findings { devices, pairs };
    let width = output::terminal_width();
    let text = text::show(&findings, output::stdout_style(), width)
        + "\n"
        + &text::devices(&findings.devices, width);
    output::print_marked(&text)?;
    Ok(ExitCode::from(u8::from(findings.is_bad())))
}

fn bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} ways, {msg}{eta_precise} left");
    // Where there is no terminal, it is not drawn.
    ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// What the driver says of the devices and of the ways between them.
fn machine(environment: &Environment) -> Result<(Vec<Device>, Vec<Direction>)> {
    let process = environment.start()?;
    let ask = |request: Request| ask(&process, &request);
    let Reply::Devices(count) = ask(Request::Start)? else { bail!(OTHER) };
    let mut devices = Vec::new();
    let mut pairs = Vec::new();
    for from in 0..count {
        let Reply::Device(device) = ask(Request::Device { device: from })? else { bail!(OTHER) };
        devices.push(*device);
        for to in (0..count).filter(|to| *to != from) {
            let Reply::Pair(about) = ask(Request::Pair { from, to })? else { bail!(OTHER) };
            pairs.push(Direction { from: from as usize, to: to as usize, about: *about, ways: Vec::new() });
        }
    }
    Ok((devices, pairs))
}

const OTHER: &str = "the process that examines the driver gave another answer than was asked for";

fn ask(process: &Process, request: &Request) -> Result<Reply> {
    match process.ask(request, None, START) {
        Ok((reply, _)) => Ok(reply),
        Err(Broken::Refused(refusal)) => bail!("no link was tested: {}", Verdict::from(refusal).detail()),
        Err(Broken::Stalled) => bail!("no link was tested: the driver does not start"),
        Err(Broken::Died(how)) => Err(anyhow::anyhow!(how)).context("the process that examines the driver"),
    }
}
