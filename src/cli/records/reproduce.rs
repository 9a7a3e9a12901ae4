//! `cupeer reproduce` and `cupeer replay`: open the recording that [`cupeer_reproduce`] writes as a C program.

use crate::records::opened::OpenedRecording;
use crate::records::report::newest_recording;
use anyhow::Result;
use cupeer_recordings::home;
use cupeer_reproduce::args::{ReplayArgs, ReproduceArgs};
use std::path::PathBuf;
use std::process::ExitCode;

pub fn command(args: &ReproduceArgs) -> Result<ExitCode> {
    cupeer_reproduce::command(&open(args.record.as_ref())?.job, args)
}

pub fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    cupeer_reproduce::replay::command(&open(args.record.as_ref())?.job, args)
}

fn open(record: Option<&PathBuf>) -> Result<OpenedRecording> {
    let path = match record {
        Some(record) => home::find_recording(record)?,
        None => newest_recording()?,
    };
    OpenedRecording::open_unreduced(&path)
}
