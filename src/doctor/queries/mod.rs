//! Queries NVIDIA's libraries and the kernel in a child process, because a driver may crash or hang.
//!
//! Returns the results unchanged; `system` interprets them. The child writes each result as a line as soon as it is
//! known, so that a crash loses none. It creates no context.

mod cuda;
mod descriptor;

use super::child::{child_command, print_json_line};
use crate::args::ProbeSystemArgs;
use anyhow::{Context, Result};
use cupeer_launch::driver::ChosenDriver;
use cupeer_nvidia::nvml::machine::{self, NvmlMachine};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

#[cfg(test)]
pub use cuda::CudaPair;
pub use cuda::{CudaAnswers, CudaDevice};
pub use descriptor::Descriptor;

/// Number of seconds after which SIGALRM ends the child process.
const CHILD_SECONDS: u32 = 60;

/// Results of all queries; where a result is missing, the reason.
pub struct QueryResults {
    pub nvml: Result<NvmlMachine, String>,
    pub cuda: Result<CudaAnswers, String>,
    /// Result of taking a file descriptor from another process; `None` if the child could not try.
    pub descriptor: Option<Descriptor>,
}

/// Result of one query, which the child process prints as a line of JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum QueryResult {
    Descriptor(Descriptor),
    Nvml(NvmlMachine),
    NoNvml(String),
    Cuda(CudaAnswers),
    NoCuda(String),
}

impl QueryResults {
    /// Returns a value without results, for this reason.
    pub fn without_results(why: &str) -> QueryResults {
        QueryResults { nvml: Err(why.to_owned()), cuda: Err(why.to_owned()), descriptor: None }
    }

    /// Runs the queries in a child process, with the chosen driver or the machine's driver.
    pub fn run_queries(chosen: Option<&ChosenDriver>) -> Result<QueryResults> {
        let ours = File::open("/dev/null").context("/dev/null")?;
        let mut command = child_command(chosen)?;
        command.args(["probe-system", "--descriptor", &ours.as_raw_fd().to_string()]);
        let found = command.output().context("failed to start the process that asks NVIDIA's libraries")?;
        let why = match found.status.signal() {
            Some(libc::SIGALRM) => format!("there was no answer for {CHILD_SECONDS} seconds"),
            Some(signal) => format!("the process that asked was killed by signal {signal}"),
            None => format!("the process that asked ended with {}", found.status),
        };
        let mut results = QueryResults::without_results(&why);
        for line in found.stdout.split(|byte| *byte == b'\n') {
            // If the child crashed, its last line may be incomplete.
            match serde_json::from_slice(line) {
                Ok(QueryResult::Descriptor(result)) => results.descriptor = Some(result),
                Ok(QueryResult::Nvml(result)) => results.nvml = Ok(result),
                Ok(QueryResult::NoNvml(why)) => results.nvml = Err(why),
                Ok(QueryResult::Cuda(result)) => results.cuda = Ok(result),
                Ok(QueryResult::NoCuda(why)) => results.cuda = Err(why),
                Err(_) => {}
            }
        }
        Ok(results)
    }
}

/// Runs the queries in this process: the command of the child.
pub fn command(args: &ProbeSystemArgs) -> Result<ExitCode> {
    // SAFETY: it only sets a timer, which ends this process.
    unsafe { libc::alarm(CHILD_SECONDS) };
    print_json_line(&QueryResult::Descriptor(descriptor::take_descriptor(args.descriptor)))?;
    print_json_line(&machine::query_machine().map_or_else(QueryResult::NoNvml, QueryResult::Nvml))?;
    print_json_line(&cuda::query_cuda().map_or_else(QueryResult::NoCuda, QueryResult::Cuda))
}
