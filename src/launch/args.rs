//! The options with which a program is launched, as several commands have them.

#![allow(rustdoc::broken_intra_doc_links, reason = "clap prints the documentation of a field as help")]

mod check;
mod deny;
mod inject;

use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

pub use check::{CheckArgs, Level};
pub use deny::DenyArgs;
pub use inject::InjectArgs;

/// Options that change the calls of a program, or record them: those that `run` and `env` share.
#[derive(Args, Default)]
pub struct Options {
    /// Record into DIR; all runs with the same DIR are one job. %p is the pid, %h the host, %q{VAR} a variable [default: a new one that 'cupeer ls' lists; with env, none]
    #[arg(short, long, value_name = "DIR", help_heading = "Recording")]
    pub out: Option<PathBuf>,
    /// Extent of the recording: full[:SIZE], ring[:SIZE] (the last calls and everything open), auto[:RANKS] (full:256M up to RANKS, ring:4M above), or off [default: auto:256]
    #[arg(long, value_name = "KEPT", help_heading = "Recording")]
    pub record: Option<String>,
    /// Let the group of DIR read the recording and add to it
    #[arg(long, value_name = "WITH", help_heading = "Recording")]
    pub share: Option<Share>,
    #[command(flatten)]
    pub check: CheckArgs,
    #[command(flatten)]
    pub inject: InjectArgs,
    #[command(flatten)]
    pub deny: DenyArgs,
    /// Write a line for each call, as text or as JSON
    #[arg(long, value_name = "FORMAT", help_heading = "Logging")]
    pub log: Option<LogFormat>,
    /// Append the log to FILE instead of stderr; %p is the pid, %h the host, %q{VAR} a variable
    #[arg(long, value_name = "FILE", help_heading = "Logging")]
    pub log_file: Option<PathBuf>,
    /// Log only these: names, patterns, @groups, ^negations, or all [default: ^@lookup,^@init,^@lifetime,^@query,^@vmm,^@alloc,^@copy,^@launch,^@graph,^@event,^@order,@export,@open]
    #[arg(long, value_name = "SET", help_heading = "Logging")]
    pub trace: Option<String>,
    /// Log only calls that did not return CUDA_SUCCESS
    #[arg(long, help_heading = "Logging")]
    pub failed: bool,
    /// Record NVTX marks, and the start and end of NVTX ranges, as marks
    #[arg(long, help_heading = "Recording")]
    pub nvtx: bool,
    #[command(flatten)]
    pub driver: DriverArgs,
    /// Print what cupeer decides, and why, to stderr
    #[arg(short, long)]
    pub verbose: bool,
}

/// Choice of a driver instead of that of the machine.
#[derive(Args, Clone, Default)]
pub struct DriverArgs {
    /// Run on the simulated driver: nvlink:N, pcie:N, none:N, or a TOML file [default: nvlink:2]
    #[arg(long, help_heading = "Driver", value_name = "TOPOLOGY", num_args = 0..=1, require_equals = true, conflicts_with = "driver")]
    pub sim: Option<Option<OsString>>,
    /// Run on this driver library instead of the machine's libcuda.so.1
    #[arg(long, help_heading = "Driver", value_name = "PATH")]
    pub driver: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The group of the directory.
    Group,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// `12:34:56.789012 [pid/tid] cuFn(a=1, out=[2]) = CUDA_SUCCESS <1.2us> /lib/x.so+0x12`
    Text,
    /// One object per line: ts_ns pid tid seq function args result duration_ns caller injected
    Json,
}
