//! The rank of a process, as its launcher gave it in the environment.

use crate::launchers::column;

/// Variables with the rank in the job. The first one in the list that is a number counts.
pub const JOB: &[&str] = column!(ranks);
/// The variables with the rank on the host.
pub const HOST: &[&str] = column!(local_ranks);

/// Variables with the number of ranks in the job. The first one in the list that is a number counts.
pub const SIZE: &[&str] = column!(sizes);

/// Returns true if a variable gives a rank, or the number of ranks.
pub fn is_rank_variable(name: &[u8]) -> bool {
    [JOB, HOST, SIZE].into_iter().any(|variables| find_position(variables, name).is_some())
}

fn find_position(variables: &[&str], name: &[u8]) -> Option<usize> {
    variables.iter().position(|known| known.as_bytes() == name)
}

/// Ranks of a process in its job and on its host. If several variables are numbers, the first one in the list counts,
/// in whatever order they are added.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Ranks {
    job: Option<(usize, u32)>,
    host: Option<(usize, u32)>,
}

impl Ranks {
    /// Adds an environment variable, if it is one of those with ranks.
    pub fn add_variable(&mut self, name: &[u8], value: &[u8]) {
        let places = [JOB, HOST].map(|variables| find_position(variables, name));
        for (at, found) in places.into_iter().zip([&mut self.job, &mut self.host]) {
            let Some(at) = at else { continue };
            let rank = str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            let is_better = found.is_none_or(|(best, _)| at < best);
            // In the live table, the largest number stands for a process without a rank.
            if let Some(rank) = rank.filter(|rank| is_better && *rank != u32::MAX) {
                *found = Some((at, rank));
            }
        }
    }

    /// Returns the rank in the job; `None` if no variable has it.
    pub fn rank_in_job(&self) -> Option<u32> {
        self.job.map(|(_, rank)| rank)
    }

    /// Returns the rank among the processes on the host; `None` if no variable has it.
    pub fn rank_on_host(&self) -> Option<u32> {
        self.host.map(|(_, rank)| rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_a_number_counts_in_any_order() {
        let variables = [
            ("PATH", "7"),
            ("RANK", "worker"),
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("SLURM_PROCID", "5"),
            ("PMI_RANK", "4294967295"),
            ("SLURM_LOCALID", "1"),
            ("LOCAL_RANK", "0"),
        ];
        for from in 0..variables.len() {
            let mut ranks = Ranks::default();
            for (name, value) in variables[from..].iter().chain(&variables[..from]) {
                ranks.add_variable(name.as_bytes(), value.as_bytes());
            }
            assert_eq!((ranks.rank_in_job(), ranks.rank_on_host()), (Some(2), Some(0)), "from {from}");
        }
        assert_eq!((Ranks::default().rank_in_job(), Ranks::default().rank_on_host()), (None, None));
    }
}
