//! `cupeer reproduce`: opens the recording that [`cupeer_reproduce`] writes as a C program.

use crate::records::opened::OpenedRecording;
use crate::records::report::newest_recording;
use anyhow::Result;
use cupeer_recordings::home;
use cupeer_reproduce::args::ReproduceArgs;
use std::process::ExitCode;

pub fn command(args: &ReproduceArgs) -> Result<ExitCode> {
    let path = match &args.record {
        Some(record) => home::find_recording(record)?,
        None => newest_recording()?,
    };
    let OpenedRecording { job, .. } = &mut OpenedRecording::open_unreduced(&path)?;
    cupeer_reproduce::command(job, args)
}
