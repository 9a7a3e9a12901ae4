//! The plan of a sweep: the program, and how it is run.

use crate::args::{Codes, SweepArgs, SweepStage, Verdict};
use anyhow::{Context, Result, anyhow};
use cupeer_launch::args::DriverArgs;
use cupeer_launch::driver;
use cupeer_spec::selector::FunctionSet;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// The program and the way to run it. Most fields are the options of the same name.
#[derive(Clone, Default, Debug)]
pub struct SweepPlan {
    pub program: Vec<String>,
    pub directory: PathBuf,
    pub sim: SimChoice,
    pub driver: Option<PathBuf>,
    pub codes: Codes,
    pub calls: Option<String>,
    pub stage: SweepStage,
    pub depth: u8,
    pub timeout: Option<Duration>,
    pub compare: Option<String>,
    pub accept: BTreeSet<Verdict>,
    pub is_checked: bool,
    /// True if several programs reach the driver, so that rules must name the program.
    pub names_programs: bool,
}

/// Choice of the simulated driver. In JSON, an option without a value needs a word of its own.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum SimChoice {
    #[default]
    No,
    /// The program runs on the simulated driver with the usual topology.
    Usual,
    Topology(String),
}

impl SweepPlan {
    pub fn new(args: &SweepArgs) -> Result<SweepPlan> {
        if let Some(set) = &args.calls {
            FunctionSet::parse(set).map_err(|error| anyhow!("--calls '{set}', {}", error.explain_in(set)))?;
            cupeer_console::output::explain_runtime_names(set);
        }
        let text = |text: &OsStr| {
            let text = text.to_str().map(str::to_owned);
            text.context("a sweep keeps the program's arguments as text, but one of them is not UTF-8")
        };
        let program: Result<Vec<String>> = args.program.iter().map(|word| text(word)).collect();
        let sim = match &args.driver.sim {
            Some(Some(topology)) => SimChoice::Topology(text(&driver::resolve_topology(topology).context("--sim")?.0)?),
            Some(None) => SimChoice::Usual,
            None => SimChoice::No,
        };
        Ok(SweepPlan {
            program: program?,
            directory: std::env::current_dir().context("failed to find the working directory")?,
            sim,
            driver: args.driver.driver.as_deref().map(std::path::absolute).transpose()?,
            codes: args.codes,
            calls: args.calls.clone(),
            stage: args.stage,
            depth: args.depth,
            timeout: args.timeout,
            compare: args.compare.clone(),
            accept: args.accept.iter().copied().collect(),
            is_checked: !args.no_check,
            names_programs: false,
        })
    }

    /// Returns the driver options for `run`.
    pub fn driver_args(&self) -> DriverArgs {
        DriverArgs {
            sim: match &self.sim {
                SimChoice::Topology(topology) => Some(Some(topology.into())),
                SimChoice::Usual => Some(None),
                SimChoice::No => None,
            },
            driver: self.driver.clone(),
        }
    }

    pub fn is_finding(&self, verdict: Verdict) -> bool {
        verdict.is_bad() && !self.accept.contains(&verdict)
    }
}
