//! Recordings on disk, as commands find, name, follow, and remove them.
//!
//! In: a directory, or a name that `cupeer ls` lists. Out: paths, the key of a job, looks at a job while it runs, and files that
//! replace a recording. A recording's content is `cupeer_record`'s. Begin with [`home`], then [`live`].
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `script`: the name of a recording.
//! - `home`: the directory for recordings without a name.
//! - `job`: the file `job` of a directory, and its key.
//! - `made`, `suppressions`: files that the user named.
//! - `sweeps`: directories of sweeps.
//! - `kept`: the content of the default directory, and what is removed from it.
//! - `live`: looks at running jobs.
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
