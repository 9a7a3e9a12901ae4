//! Recordings on disk, as commands find, name, follow, and remove them.
//!
//! Input: a directory, or a name that `cupeer ls` lists. Output: paths, the key of a job, samples of a running job, and files
//! that replace a recording. The crate `cupeer_record` reads the content of a recording. Begin with [`home`], then [`live`].
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `script`: the name of a recording.
//! - `home`: the directory for recordings without a name.
//! - `job`: the file `job` of a directory, and its key.
//! - `made`: output files that the user named.
//! - `suppressions`: suppression files that the user named.
//! - `sweeps`: directories of sweeps.
//! - `kept`: the entries of the default directory, and the removal of old entries.
//! - `live`: samples of running jobs.
//! - `hang`: what the processes of a hang wait for.
//! - `reduce`: a recording as one small file.

#![allow(missing_docs, reason = "only the commands of cupeer use this crate")]

pub mod hang;
pub mod home;
pub mod job;
pub mod kept;
pub mod live;
pub mod made;
pub mod reduce;
pub mod script;
pub mod suppressions;
pub mod sweeps;
