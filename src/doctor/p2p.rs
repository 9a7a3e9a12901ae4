//! `cupeer doctor --p2p`: its options, and the output of the findings of [`cupeer_p2p`].

use super::child::child_command;
use super::system::ExaminedSystem;
use crate::args::{DoctorArgs, DoctorFormat};
use anyhow::{Context, Result};
use cupeer_console::output;
use cupeer_launch::driver;
use cupeer_p2p::{Findings, ProcessCommand, TestOptions};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

pub fn command(args: &DoctorArgs) -> Result<ExitCode> {
    if let Some(path) = &args.output {
        cupeer_p2p::check_file(path)?;
    }
    let chosen = driver::choose_driver(&args.driver)?;
    let options = TestOptions {
        limit: Duration::from_secs(args.p2p.limit),
        measures: !args.p2p.quick,
        is_simulated: args.driver.sim.is_some(),
    };
    let mut findings =
        match cupeer_p2p::test_links(&ProcessCommand { child: &|| child_command(chosen.as_ref()) }, &options) {
            Err(error) if args.format == DoctorFormat::Json => {
                output::print_json(&cupeer_p2p::failed(&error))?;
                return Err(error);
            }
            tested => tested?,
        };
    // Links of the simulated driver do not depend on the machine.
    if findings.is_bad() && !options.is_simulated {
        findings.system = ExaminedSystem::examine_machine(chosen.as_ref())?.facts();
    }
    let status = ExitCode::from(u8::from(findings.is_bad()));
    // The test takes long, so its result is printed even if the file cannot be written.
    let written = args.output.as_ref().map_or(Ok(()), |path| write_topology(&findings, path));
    if args.format == DoctorFormat::Json {
        output::print_json(&cupeer_p2p::json_document(&findings))?;
        return written.map(|()| status);
    }
    output::print_marked(&cupeer_p2p::format_findings(&findings, output::stdout_style(), output::line_width()))?;
    written.map(|()| status)
}

fn write_topology(findings: &Findings, path: &Path) -> Result<()> {
    let text = cupeer_p2p::topology(findings, path)?;
    output::write_file(path, text.as_bytes())
        .with_context(|| format!("{}: failed to write the topology", path.display()))
}
