//! `cupeer doctor --p2p`: proves with data what each link between devices carries.
//!
//! The way of a test: [`plan`] (which pair when) → [`link`] (opens a way between two devices) → [`checks`] (what is done over
//! it, and what is found) → [`process`], [`wire`] → [`agent`] in another process → [`cuda`]. What comes of it is a
//! [`verdict`]; [`text`] shows it.

pub mod agent;
mod checks;
mod cuda;
mod document;
mod hints;
mod link;
mod machine;
mod nvml;
mod plan;
mod process;
mod request;
pub mod settings;
mod text;
mod verdict;
mod wire;

use crate::args::{DoctorArgs, DoctorFormat};
use crate::driver;
use crate::output;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plan::{Count, Direction, Plan};
use process::{Broken, Environment, Process};
use request::{Device, Reply, Request};
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
    /// Whether something is bad, or all that could have been tested was not.
    fn is_bad(&self) -> bool {
        let Count { bad, good, untested } = Count::of(&self.pairs);
        bad > 0 || good == 0 && untested > 0
    }
}

pub fn command(args: &DoctorArgs) -> Result<ExitCode> {
    if let Some(path) = &args.output {
        machine::check(path)?;
    }
    let environment = Environment { chosen: driver::choose(&args.driver)? };
    let (devices, pairs) = examine(&environment, args.driver.sim.is_some())?;
    let limit = Duration::from_secs(args.p2p.limit);
    let plan = Plan { devices: &devices, pairs, limit, measures: !args.p2p.quick };
    let bar = bar(plan.steps());
    let pairs = plan.run(&environment, |verdict: &Verdict| {
        if verdict.is_bad() {
            bar.set_message("something is bad, ");
        }
        bar.inc(1);
    });
    bar.finish_and_clear();
    let findings = Findings { devices, pairs };
    if let Some(path) = &args.output {
        machine::write(&findings, path)?;
    }
    let status = ExitCode::from(u8::from(findings.is_bad()));
    if args.format == DoctorFormat::Json {
        return output::print_json(&document::Document::of(&findings)).map(|_| status);
    }
    let width = output::terminal_width();
    let text = text::show(&findings, output::stdout_style(), width)
        + "\n"
        + &text::devices(&findings.devices, width);
    output::print_marked(&text).map(|_| status)
}

fn bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} ways, {msg}{eta_precise} left");
    // Where there is no terminal, it is not drawn.
    ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// What the driver says of the devices and of the ways between them.
fn examine(environment: &Environment, is_simulated: bool) -> Result<(Vec<Device>, Vec<Direction>)> {
    let process = environment.start()?;
    let ask = |request: Request| ask(&process, &request);
    let Reply::Devices(count) = ask(Request::Start)? else { bail!(OTHER) };
    let mut devices: Vec<Device> = Vec::new();
    for device in 0..count {
        let Reply::Device(device) = ask(Request::Device { device })? else { bail!(OTHER) };
        devices.push(*device);
    }
    let mut pairs = Vec::new();
    for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))).filter(|(a, b)| a != b)
    {
        let Reply::Pair(about) = ask(Request::Pair { from, to })? else { bail!(OTHER) };
        let (from, to) = (from as usize, to as usize);
        let pci = |device: usize| devices[device].pci.clone();
        // NVML knows nothing of simulated devices, and may have others at the same addresses.
        let promise = match is_simulated {
            true => None,
            false => match ask(Request::Promise { from: pci(from), to: pci(to) })? {
                Reply::Promise(promise) => promise,
                _ => bail!(OTHER),
            },
        };
        pairs.push(Direction { from, to, about: *about, promise, ways: Vec::new() });
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
