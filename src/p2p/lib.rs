//! `cupeer doctor --p2p`: proves with data what each link between devices carries.
//!
//! The path of a test: `plan` (the order of the pairs) → `link` (opens a link between two devices) → `checks` (sends data
//! over it, and compares) → `process`, `wire` → [`agent`] in another process → `cuda`. The result is a `verdict`, which
//! [`format_findings()`] formats. The command owns its arguments, and prints.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `fact`: facts about the machine, which may explain a bad verdict.
//! - `nvml`: the nominal rate of a link, from NVIDIA's library.
//! - `request`, `wire`: the messages between the processes, and their socket.
//! - `cuda`, `agent`: the process that holds a device.
//! - `process`: that process as the command sees it.
//! - `verdict`: the result of a check.
//! - `link`, `checks`: a link between two devices, and its checks.
//! - `plan`: the order of the pairs.
//! - `findings`, `hints`: the findings, and possible fixes.
//! - `document`, `machine`, `settings`, `text`: the forms of the findings.

pub mod agent;
mod checks;
mod cuda;
mod document;
pub mod fact;
mod findings;
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

use anyhow::{Context, Result, bail};
use cupeer_report::style::Style;
pub use findings::Findings;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
pub use machine::{check_writable as check_file, topology_text as topology};
use plan::{Direction, TestPlan};
pub use process::ProcessCommand;
use process::{DeviceProcess, RequestFailure};
use request::{Device, Reply, Request};
use serde::Serialize;
use std::time::Duration;
use verdict::Verdict;

/// Timeout for the start of the driver.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of a test.
pub struct TestOptions {
    /// Timeout of a step of a test. A link whose step takes longer counts as stalled.
    pub limit: Duration,
    /// True if rates are measured.
    pub measures: bool,
    /// True if the driver is the simulated driver.
    pub is_simulated: bool,
}

/// Tests all links.
///
/// # Errors
///
/// The driver does not start, or does not tell its devices.
pub fn test_links(environment: &ProcessCommand, options: &TestOptions) -> Result<Findings> {
    let (devices, pairs) = query_devices_and_pairs(environment, options.is_simulated)?;
    let plan = TestPlan { devices: &devices, pairs, limit: options.limit, measures: options.measures };
    let bar = progress_bar(plan.method_count());
    let pairs = plan.test_directions(environment, |verdict: &Verdict| {
        if verdict.is_bad() {
            bar.set_message("something is bad, ");
        }
        bar.inc(1);
    });
    bar.finish_and_clear();
    Ok(Findings { devices, pairs, system: Vec::new() })
}

/// Returns the findings in the form of docs/doctor-p2p.schema.json.
pub fn json_document(findings: &Findings) -> impl Serialize {
    document::Document::from_findings(findings)
}

/// Returns the error of [`test`] in the same form, for tools that read it.
pub fn failed(error: &anyhow::Error) -> impl Serialize + use<> {
    document::Document::failed(error)
}

/// Returns the findings as a text for a terminal of this width.
pub fn format_findings(findings: &Findings, style: Style, width: usize) -> String {
    text::format_findings(findings, style, width) + "\n" + &text::devices_table(&findings.devices, width)
}

/// Returns a progress bar for this number of steps.
fn progress_bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} ways, {msg}{eta_precise} left");
    // Without a terminal, the bar is not drawn.
    ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Asks the driver about the devices and the directions between them.
fn query_devices_and_pairs(environment: &ProcessCommand, is_simulated: bool) -> Result<(Vec<Device>, Vec<Direction>)> {
    let process = environment.start_process()?;
    let ask = |request: Request| ask_process(&process, &request);
    let Reply::Devices(count) = ask(Request::Start)? else { bail!(WRONG_REPLY) };
    let mut devices: Vec<Device> = Vec::new();
    for device in 0..count {
        let Reply::Device(device) = ask(Request::Device { device })? else { bail!(WRONG_REPLY) };
        devices.push(*device);
    }
    let mut pairs = Vec::new();
    for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))).filter(|(a, b)| a != b) {
        let Reply::Pair(about) = ask(Request::Pair { from, to })? else { bail!(WRONG_REPLY) };
        let (from, to) = (from as usize, to as usize);
        let pci = |device: usize| devices[device].pci.clone();
        // NVML does not know simulated devices, and may know real devices at the same addresses.
        let promise = match is_simulated {
            true => None,
            false => match ask(Request::Promise { from: pci(from), to: pci(to) })? {
                Reply::Promise(promise) => promise,
                _ => bail!(WRONG_REPLY),
            },
        };
        pairs.push(Direction { from, to, about: *about, promise, ways: Vec::new() });
    }
    Ok((devices, pairs))
}

/// Error for a reply of the wrong kind.
const WRONG_REPLY: &str = "the process that examines the driver gave another answer than was asked for";

fn ask_process(process: &DeviceProcess, request: &Request) -> Result<Reply> {
    match process.ask(request, None, START_TIMEOUT) {
        Ok((reply, _)) => Ok(reply),
        Err(RequestFailure::Refused(refusal)) => {
            bail!("no link was tested: {}", Verdict::from(refusal).explanation())
        }
        Err(RequestFailure::Stalled) => bail!("no link was tested: the driver does not start"),
        Err(RequestFailure::Died(how)) => Err(anyhow::anyhow!(how)).context("the process that examines the driver"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fact::Fact;
    use plan::MethodResult;
    use verdict::{Check, SharingMethod};

    #[test]
    fn facts_about_the_system_are_listed_with_bad_verdicts() {
        let device = |pci: &str| Device {
            name: "made".into(),
            uuid: [0; 16],
            pci: pci.into(),
            memory: 1 << 30,
            capability: (9, 0),
            multiprocessors: 1,
            multicast: false,
        };
        let direction = |from, to, verdict: Verdict| Direction {
            from,
            to,
            about: request::Pair { can_access: true, attributes: [None; 5], atomics: Vec::new() },
            promise: None,
            ways: vec![MethodResult {
                way: SharingMethod::Peer,
                checks: vec![(Check::KernelWrite, verdict.clone())],
                verdict,
                measured: None,
            }],
        };
        let stalls = Verdict::Stalls { reason: "made".into() };
        let findings = Findings {
            devices: ["0000:1B:00.0", "0000:1C:00.0"].map(device).into(),
            pairs: vec![direction(0, 1, stalls), direction(1, 0, Verdict::Good)],
            system: vec![
                Fact::bad("acs", "redirected", "writes", "switch it off").with_devices(&["0000:1b:00.0"]),
                Fact::bad("acs", "elsewhere", "writes", "switch it off").with_devices(&["0000:3b:00.0"]),
                Fact::unknown("iommu", "withheld"),
                Fact::good("fabric manager", "registered"),
            ],
        };
        let text = text::format_findings(&findings, cupeer_report::style::Style::default(), 100);
        let said: Vec<&str> = text.lines().filter(|line| line.contains("the system:")).map(str::trim).collect();
        let acs = "the system: acs of 0000:1b:00.0, bad: redirected; switch it off";
        assert_eq!(said, [acs, "the system: iommu, unknown: withheld"], "{text}");
        let json = serde_json::to_value(document::Document::from_findings(&findings)).unwrap();
        let names = |pair: usize| json["pairs"][pair]["system"].as_array().expect("facts").len();
        assert_eq!((names(0), names(1)), (2, 0), "{json}");
    }
}
