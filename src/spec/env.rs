//! The environment variables that the preload library and the simulated driver read, with what they
//! mean. `cupeer env` prints them, `cupeer list environment` documents them; nobody else may name one.

/// One variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub value: &'static str,
    /// What it does, and what holds where it is not set.
    pub doc: &'static str,
}

macro_rules! variables {
    ($($constant:ident $name:literal $value:literal $doc:literal)*) => {
        $(#[doc = $doc] pub const $constant: &str = $name;)*
        /// All variables.
        pub static VARIABLES: &[Variable] = &[$(Variable { name: $name, value: $value, doc: $doc },)*];
    };
}
variables! {
    LOG "CUPEER_LOG" "text|json"
        "Writes a line for each call. Not set: no log."
    LOG_FILE "CUPEER_LOG_FILE" "PATH"
        "Where the log goes; lines are appended. %p becomes the pid, %h the host, %q{VAR} a variable. Not set: stderr."
    TRACE "CUPEER_TRACE" "SET"
        "Which functions are logged: names, patterns, @groups, ^negations, separated by commas. Not set: ^@lookup,^@lifetime."
    FAILED "CUPEER_FAILED" "0|1"
        "1 logs only calls that did not return CUDA_SUCCESS. Not set: 0."
    DRIVER "CUPEER_DRIVER" "PATH"
        "The driver for calls behind which there is none: of a program that neither links libcuda nor opened it. Not set: such calls return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED."
    JOB "CUPEER_JOB" "32 hexadecimal digits"
        "The key of the fingerprints that stand for IPC handles in the log; the same in all processes of a job. `cupeer run` draws one. Not set: all zero."
    STATUS "CUPEER_STATUS" "PATH"
        "A page that `cupeer run` shares with its processes, so that it can say whether any of them reached the driver. Not set: none."
    SIM "CUPEER_SIM" "TOPOLOGY"
        "The machine that the simulated driver shows: nvlink:N, pcie:N, none:N, or the path of a TOML file. Not set: nvlink:2."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_says_what_holds_without_it() {
        for v in VARIABLES {
            assert!(v.name.starts_with("CUPEER_") && v.doc.contains("Not set: "), "{}", v.name);
        }
    }
}
