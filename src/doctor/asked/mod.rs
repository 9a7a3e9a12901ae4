//! What NVIDIA's libraries and the kernel answer, asked in a process of its own: a driver may crash or hang.
//!
//! What belongs here: the questions, and the answers as they came. What they mean is decided in `system`. The child writes
//! each answer on a line as soon as it has it, so that a crash takes nothing with it. It creates no context.

mod cuda;
mod descriptor;

use super::child::child;
use crate::args::ProbeSystemArgs;
use anyhow::{Context, Result};
use cupeer_console::output;
use cupeer_launch::driver::Chosen;
use cupeer_nvidia::nvml::machine::{self, Nvml};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

#[cfg(test)]
pub use cuda::CudaPair;
pub use cuda::{Cuda, CudaDevice};
pub use descriptor::Descriptor;

/// After how many seconds the child gives up.
const LIMIT: u32 = 60;

/// The answers; where there is none, why.
pub struct Asked {
    pub nvml: Result<Nvml, String>,
    pub cuda: Result<Cuda, String>,
    /// Whether a descriptor of another process could be taken.
    pub descriptor: Option<Descriptor>,
}

/// One answer, as the child writes it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Descriptor(Descriptor),
    Nvml(Nvml),
    NoNvml(String),
    Cuda(Cuda),
    NoCuda(String),
}

impl Asked {
    /// No answers, for this reason.
    pub fn nothing(why: &str) -> Asked {
        Asked { nvml: Err(why.to_owned()), cuda: Err(why.to_owned()), descriptor: None }
    }

    /// Asks, of this driver or of the machine's.
    pub fn ask(chosen: Option<&Chosen>) -> Result<Asked> {
        let ours = File::open("/dev/null").context("/dev/null")?;
        let mut command = child(chosen)?;
        command.args(["probe-system", "--descriptor", &ours.as_raw_fd().to_string()]);
        let found = command.output().context("failed to start the process that asks NVIDIA's libraries")?;
        let why = match found.status.signal() {
            Some(libc::SIGALRM) => format!("there was no answer for {LIMIT} seconds"),
            Some(signal) => format!("the process that asked was killed by signal {signal}"),
            None => format!("the process that asked ended with {}", found.status),
        };
        let mut asked = Asked::nothing(&why);
        for line in found.stdout.split(|byte| *byte == b'\n') {
            // A line that was cut by a crash is none.
            match serde_json::from_slice(line) {
                Ok(Answer::Descriptor(answer)) => asked.descriptor = Some(answer),
                Ok(Answer::Nvml(answer)) => asked.nvml = Ok(answer),
                Ok(Answer::NoNvml(why)) => asked.nvml = Err(why),
                Ok(Answer::Cuda(answer)) => asked.cuda = Ok(answer),
                Ok(Answer::NoCuda(why)) => asked.cuda = Err(why),
                Err(_) => {}
            }
        }
        Ok(asked)
    }
}

/// The child.
pub fn command(args: &ProbeSystemArgs) -> Result<ExitCode> {
    // SAFETY: it only sets a timer, which ends this process.
    unsafe { libc::alarm(LIMIT) };
    tell(&Answer::Descriptor(descriptor::take(args.descriptor)))?;
    tell(&machine::ask().map_or_else(Answer::NoNvml, Answer::Nvml))?;
    tell(&cuda::ask().map_or_else(Answer::NoCuda, Answer::Cuda))
}

fn tell(answer: &Answer) -> Result<ExitCode> {
    output::print_as_is(&format!("{}\n", serde_json::to_string(answer)?))
}
