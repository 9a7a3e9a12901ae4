//! The input of all findings that only the whole recording shows.

use crate::follow::collect::Collected;
use cupeer_record::Job;
use cupeer_report::filter::Filter;

/// What findings follow from.
pub struct Context<'a> {
    pub job: &'a Job,
    pub all: &'a Collected,
    /// What is asked for.
    pub filter: &'a Filter,
    /// Whether others will be put together with it.
    pub is_part: bool,
}
