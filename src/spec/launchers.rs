//! The launchers of jobs, and other programs that start processes with an environment of their own.
//!
//! All that cupeer knows of a launcher is in its entry. `cupeer env`, the ranks of processes, the notes of `cupeer run`, the names of
//! recordings, the waits that `cupeer why` follows, and the variables in recordings and packed files are read from here. The order
//! of the entries is that of the formats in the help, and that in which variables for the same number count.

/// Launcher of jobs, or another program that starts processes.
#[derive(Clone, Copy, Debug)]
pub struct Launcher {
    /// Format of `cupeer env` for this launcher; `None` if it needs none.
    pub format: Option<LauncherFormat>,
    /// Programs that may start other programs without passing on the environment.
    pub barriers: Names,
    /// Programs and Python modules whose arguments name the script or program that they run.
    pub runners: Names,
    /// Programs that start others and wait for them.
    pub waiters: Names,
    /// Words in the command lines of processes that serve a job, and run nothing of the user's.
    pub servants: Names,
    /// Paths of the Python files in which a launcher without a name of its own waits.
    pub agent_files: Names,
    /// Variables with the rank in the job.
    pub ranks: Names,
    /// Variables with the rank on the host.
    pub local_ranks: Names,
    /// Variables with the number of ranks in the job.
    pub sizes: Names,
    /// Variables with other numbers, which a redacted recording keeps.
    pub numbers: Names,
    /// Prefixes of the names of other variables that are recorded. These variables must not contain secrets.
    pub recorded: Names,
}

/// List of names of programs, files, or variables.
pub type Names = &'static [&'static str];

/// Output format of `cupeer env`.
#[derive(Clone, Copy, Debug)]
pub struct LauncherFormat {
    /// Name of the format, as the value of `--format`.
    pub name: &'static str,
    /// Help for the format.
    pub help: &'static str,
    /// Example of a command with the format, for the help.
    pub example: Option<&'static str>,
    /// Notation of the variables.
    pub notation: VariableNotation,
}

/// Notation of variables and their values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VariableNotation {
    /// Export lines for a shell.
    Exports,
    /// Options of docker, including mounts.
    Container,
    /// YAML for a Kubernetes pod, including mounts.
    Pod,
    /// NAME=VALUE after this text, for each variable.
    Prefix(&'static str),
    /// Single option with all variables, separated by commas.
    CommaList,
    /// JSON of a Ray runtime environment.
    Json,
}

/// All launchers.
pub const LAUNCHERS: &[Launcher] = &[
    Launcher {
        format: Some(LauncherFormat {
            name: "sh",
            help: "Export lines for a POSIX shell, for eval",
            example: Some("eval \"$(cupeer env --log text --format sh)\""),
            notation: VariableNotation::Exports,
        }),
        barriers: &["ssh", "sudo", "su", "doas"],
        ..NONE
    },
    Launcher {
        format: Some(LauncherFormat {
            name: "docker",
            help: "Arguments of docker run",
            example: Some("eval \"docker run $(cupeer env --log text --format docker) IMAGE PROGRAM\""),
            notation: VariableNotation::Container,
        }),
        barriers: &["docker", "podman", "nerdctl"],
        ..NONE
    },
    Launcher {
        format: Some(LauncherFormat {
            name: "k8s",
            help: "YAML for a container of a pod",
            example: None,
            notation: VariableNotation::Pod,
        }),
        barriers: &["kubectl"],
        ..NONE
    },
    // torchrun sets the first three for each worker; `accelerate` and `deepspeed` start its workers.
    Launcher {
        runners: &["accelerate", "deepspeed", "torch.distributed.launch", "torch.distributed.run", "torchrun"],
        agent_files: &["torch/distributed/elastic/", "torch/distributed/launcher/", "torch/distributed/run.py"],
        ranks: &["RANK"],
        local_ranks: &["LOCAL_RANK"],
        sizes: &["WORLD_SIZE"],
        numbers: &["LOCAL_WORLD_SIZE", "GROUP_RANK"],
        ..NONE
    },
    // Open MPI and PRRTE.
    Launcher {
        format: Some(LauncherFormat {
            name: "mpirun",
            help: "Arguments of Open MPI's mpirun",
            example: Some("eval \"mpirun -np 2 $(cupeer env --log text --format mpirun) PROGRAM\""),
            notation: VariableNotation::Prefix("-x "),
        }),
        barriers: &["mpirun", "mpiexec", "orterun", "prterun"],
        runners: &["mpirun", "mpiexec", "orterun", "prterun"],
        waiters: &["mpirun", "mpiexec", "orterun", "prterun", "prted", "orted"],
        ranks: &["OMPI_COMM_WORLD_RANK", "PMIX_RANK"],
        local_ranks: &["OMPI_COMM_WORLD_LOCAL_RANK"],
        sizes: &["OMPI_COMM_WORLD_SIZE"],
        numbers: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
        recorded: &["OMPI_COMM_WORLD_"],
        ..NONE
    },
    // Hydra, of MPICH and Intel MPI, passes the environment on.
    Launcher {
        waiters: &["hydra_pmi_proxy", "mpiexec.hydra"],
        ranks: &["PMI_RANK"],
        local_ranks: &["MPI_LOCALRANKID"],
        sizes: &["PMI_SIZE"],
        ..NONE
    },
    Launcher {
        format: Some(LauncherFormat {
            name: "srun",
            help: "Argument of Slurm's srun",
            example: Some("eval \"srun $(cupeer env --log text --format srun) PROGRAM\""),
            notation: VariableNotation::CommaList,
        }),
        barriers: &["srun", "sbatch"],
        runners: &["srun"],
        waiters: &["srun", "slurmstepd"],
        ranks: &["SLURM_PROCID"],
        local_ranks: &["SLURM_LOCALID"],
        sizes: &["SLURM_NTASKS"],
        recorded: &["SLURM_JOB_ID"],
        ..NONE
    },
    Launcher {
        format: Some(LauncherFormat {
            name: "ray",
            help: "JSON runtime environment of Ray",
            example: Some("ray job submit --runtime-env-json=\"$(cupeer env --log text --format ray)\" -- PROGRAM"),
            notation: VariableNotation::Json,
        }),
        barriers: &["ray", "raylet"],
        servants: &["ray::IDLE", "raylet", "gcs_server", "ray/dashboard", "ray/_private"],
        ..NONE
    },
];

/// Entry with empty lists.
const NONE: Launcher = Launcher {
    format: None,
    barriers: &[],
    runners: &[],
    waiters: &[],
    servants: &[],
    agent_files: &[],
    ranks: &[],
    local_ranks: &[],
    sizes: &[],
    numbers: &[],
    recorded: &[],
};

/// Returns the names in one kind of list, over all launchers.
pub fn collect_names(list: impl Fn(&Launcher) -> Names) -> impl Iterator<Item = &'static str> {
    LAUNCHERS.iter().flat_map(move |launcher| list(launcher).iter().copied())
}

/// Expands to the names in one kind of list, over all launchers, as a constant. The library cannot link
/// [`LAUNCHERS`], because its pointers need relocations.
macro_rules! column {
    ($field:ident) => {{
        use crate::launchers::LAUNCHERS;
        const COUNT: usize = {
            let (mut count, mut at) = (0, 0);
            while at < LAUNCHERS.len() {
                count += LAUNCHERS[at].$field.len();
                at += 1;
            }
            count
        };
        const NAMES: [&str; COUNT] = {
            let (mut names, mut count, mut at) = ([""; COUNT], 0, 0);
            while at < LAUNCHERS.len() {
                let mut item = 0;
                while item < LAUNCHERS[at].$field.len() {
                    names[count] = LAUNCHERS[at].$field[item];
                    (count, item) = (count + 1, item + 1);
                }
                at += 1;
            }
            names
        };
        &NAMES
    }};
}
pub(crate) use column;
