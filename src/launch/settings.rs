//! The settings of a run: options as the variables that `run` sets and `env` prints.
//!
//! An option wins over an inherited variable; a variable without an option stays as it is.

pub mod check;
pub mod deny;
pub mod inject;

use crate::args::{LogFormat, Options};
use crate::board::PlanBoard;
use crate::driver::{self, ChosenDriver};
use crate::job::{self, Job};
use crate::libraries;
use anyhow::{Context, Result, anyhow, bail};
use cupeer_console::args::value_word;
use cupeer_console::output;
use cupeer_console::variables::{Environment, LD_LIBRARY_PATH, LD_PRELOAD, nonempty_variable};
use cupeer_spec::env;
use cupeer_spec::placeholders::{self, AFTER, FileNamePart};
use cupeer_spec::selector::FunctionSet;
use deny::VllmCache;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Variable that names the NVTX tool: the library to which programs report their NVTX ranges.
const NVTX: &str = "NVTX_INJECTION64_PATH";

pub struct LaunchSettings {
    pub preload: PathBuf,
    pub variables: Vec<(&'static str, OsString)>,
    pub driver: Option<ChosenDriver>,
    pub job: Option<Job>,
    /// Random seed of the fault plans, if no option gave a seed.
    drawn_seed: Option<u64>,
    /// File of vLLM's verdict on peer access, if any peers are denied.
    pub verdicts: Option<VllmCache>,
}

/// Returns the variables for the log.
fn log_variables(options: &Options) -> Result<Vec<(&'static str, OsString)>> {
    let mut variables = Vec::new();
    // Any option about the log turns the log on.
    let implies_log = options.log_file.is_some() || options.trace.is_some() || options.failed;
    let implied = (implies_log && nonempty_variable(env::LOG).is_none()).then_some(LogFormat::Text);
    variables.extend(options.log.or(implied).map(|format| (env::LOG, value_word(format).into())));
    if let Some(file) = &options.log_file {
        variables.push((env::LOG_FILE, check_log_file(file)?.into_os_string()));
    }
    if let Some(set) = &options.trace {
        FunctionSet::parse(set).map_err(|error| anyhow!("--trace '{set}', {}", error.explain_in(set)))?;
        output::explain_runtime_names(set);
        variables.push((env::TRACE, set.into()));
    }
    if options.failed {
        variables.push((env::FAILED, "1".into()));
    }
    Ok(variables)
}

impl LaunchSettings {
    /// Reads the options, and refuses impossible ones before anything is started. A recording without a given name is named
    /// after `program`.
    pub fn new(options: &Options, program: Option<&OsStr>) -> Result<LaunchSettings> {
        let mut variables = log_variables(options)?;
        let is_recorded = options.record.as_deref() != Some(job::OFF);
        variables.extend(check::check_variables(&options.check, program.is_some() && is_recorded)?);
        let faults = inject::read_faults(&options.inject)?;
        variables.extend(faults.variables);
        variables.extend(deny::deny_variables(options, program.is_some())?);
        let preload = libraries::find_preload()?;
        if options.nvtx {
            variables.push(nvtx_variable(&preload)?);
        }
        let driver = driver::choose_driver(&options.driver)?;
        if let Some(chosen) = &driver {
            if chosen.directory.as_os_str().as_bytes().iter().any(|byte| b":;".contains(byte)) {
                let directory = chosen.directory.display();
                bail!("failed to use {directory}: a colon or semicolon ends a path in LD_LIBRARY_PATH");
            }
            variables.extend(chosen.setting.clone());
        }
        // This step comes last, because it creates a directory.
        let job = Job::choose(options, program)?;
        match &job {
            Some(job) => {
                variables.extend(job.recording_variables());
                variables.extend(program.and_then(|_| check::default_variable(&options.check)));
            }
            None => {
                variables.extend(check::unrecorded_variable(options)?);
                variables.push((env::RECORD, "off".into()));
                variables.push((env::JOB, job::inherited_or_new_key()?.into()));
            }
        }
        if options.inject.allow_faults {
            match &job {
                Some(job) if program.is_some() => PlanBoard::allow_plans(&job.directory)?,
                Some(_) => {}
                None => {
                    bail!("--allow-faults needs a recording, by which 'cupeer fault' finds the processes")
                }
            }
        }
        let verdicts = VllmCache::for_denied_pairs(&variables, job.as_ref())?;
        variables.extend(verdicts.as_ref().and_then(VllmCache::cache_variable));
        Ok(LaunchSettings { preload, variables, driver, job, drawn_seed: faults.drawn_seed, verdicts })
    }

    /// Returns a note about the random seed, which is needed to repeat the run.
    pub fn drawn_seed_note(&self) -> Option<String> {
        let seed = self.drawn_seed?;
        Some(format!("the fault plans leave something to chance; --seed {seed} repeats this run's decisions"))
    }

    /// Returns the variables of the dynamic loader, with their old contents included.
    pub fn loader_variables(&self, old: impl Fn(&str) -> Option<OsString>) -> Result<Vec<(&'static str, OsString)>> {
        let mut variables = vec![(LD_PRELOAD, add_to_ld_preload(old(LD_PRELOAD).as_ref(), &self.preload)?)];
        if let Some(chosen) = &self.driver {
            let old = old(LD_LIBRARY_PATH).filter(|old| !old.is_empty());
            variables.push((LD_LIBRARY_PATH, prepend_library_path(old.as_ref(), &chosen.directory)));
        }
        Ok(variables)
    }

    pub fn apply_to(&self, mut environment: Environment) -> Result<Environment> {
        for (name, value) in &self.variables {
            environment.set(name, value.clone());
        }
        let loader = self.loader_variables(|name| environment.get(name).cloned())?;
        loader.into_iter().for_each(|(name, value)| environment.set(name, value));
        if self.driver.is_some() && self.variables.iter().all(|(name, _)| *name != env::DRIVER) {
            // An inherited variable names another driver than the simulated one.
            environment.remove(env::DRIVER);
        }
        for (name, value) in environment.iter() {
            let ours = self.variables.iter().any(|(known, _)| name == known);
            if ours || name == LD_PRELOAD || name == LD_LIBRARY_PATH {
                tracing::debug!("{}={}", name.display(), value.display());
            }
        }
        Ok(environment)
    }
}

/// Makes the preload library the NVTX tool, unless another tool is set.
fn nvtx_variable(preload: &Path) -> Result<(&'static str, OsString)> {
    let other = nonempty_variable(NVTX).filter(|known| Path::new(known) != preload);
    if let Some(other) = other {
        bail!("--nvtx: {NVTX} already names {}; a program tells one tool: remove either", other.display());
    }
    Ok((NVTX, preload.into()))
}

/// Returns LD_PRELOAD with the preload library at its end, because other libraries, such as ASan's, may have to be first.
/// But it stands before a driver, because calls of linked functions go to the first library.
fn add_to_ld_preload(old: Option<&OsString>, library: &Path) -> Result<OsString> {
    let Some(old) = old.filter(|old| !old.is_empty()) else { return Ok(library.into()) };
    let is_own = |element: &Path| {
        element == library
            || element.canonicalize().is_ok_and(|real| library.canonicalize().is_ok_and(|own| own == real))
    };
    let mut before_driver = None;
    let mut is_there = false;
    for element in libraries::preload_elements(old) {
        if is_own(element) {
            is_there = true;
        } else if element.file_name() == library.file_name() {
            let other = element.display();
            bail!(
                "LD_PRELOAD already names another {}, {other}; remove it, because two cannot work together",
                libraries::PRELOAD
            );
        } else if !is_there && before_driver.is_none() && driver::is_driver(element) {
            before_driver = Some(element.as_os_str().as_bytes().as_ptr() as usize - old.as_bytes().as_ptr() as usize);
        }
    }
    if let Some(at) = before_driver {
        let (before, behind) = old.as_bytes().split_at(at);
        let others = libraries::preload_elements(OsStr::from_bytes(behind)).filter(|element| !is_own(element));
        let behind: Vec<&OsStr> = [library].into_iter().chain(others).map(Path::as_os_str).collect();
        return Ok(OsString::from_vec([before, behind.join(OsStr::new(":")).as_bytes()].concat()));
    }
    if is_there {
        tracing::debug!("LD_PRELOAD already has {}", library.display());
        return Ok(old.clone());
    }
    let mut new = old.clone().into_vec();
    if !new.ends_with(b":") && !new.ends_with(b" ") {
        new.push(b':');
    }
    new.extend(library.as_os_str().as_bytes());
    Ok(OsString::from_vec(new))
}

/// Returns LD_LIBRARY_PATH with a directory added at its start.
pub fn prepend_library_path(old: Option<&OsString>, directory: &Path) -> OsString {
    let directory = directory.as_os_str();
    match old {
        None => directory.to_owned(),
        Some(old) if old.as_bytes().split(|byte| *byte == b':').next() == Some(directory.as_bytes()) => old.clone(),
        Some(old) => [directory, old].join(OsStr::new(":")),
    }
}

/// Makes the path of the log absolute, and checks whether the log can be written. Placeholders stay: each process replaces
/// them by its own values.
fn check_log_file(path: &Path) -> Result<PathBuf> {
    let shown = path.display();
    let absolute = std::path::absolute(path).with_context(|| format!("--log-file '{shown}'"))?;
    let bytes = absolute.as_os_str().as_bytes();
    if placeholders::parse_file_name(bytes).any(|piece| piece == FileNamePart::Stray) {
        bail!("--log-file '{shown}': {AFTER}");
    }
    let is_pattern = |path: &Path| path.as_os_str().as_bytes().contains(&b'%');
    if let Some(folder) = absolute.parent().filter(|folder| is_pattern(&absolute) && !is_pattern(folder)) {
        check_access(folder, libc::W_OK | libc::X_OK)
            .with_context(|| format!("failed to write into the directory of the log file '{shown}'"))?;
    }
    output::check_output_owner(&absolute).with_context(|| format!("failed to open the log file '{shown}'"))?;
    if absolute.metadata().is_ok_and(|about| about.file_type().is_fifo()) {
        // The reader of a pipe would see the end of the log if this process opened and closed the pipe.
        check_access(&absolute, libc::W_OK).with_context(|| format!("failed to write to the log file '{shown}'"))?;
    } else if !bytes.contains(&b'%') {
        // Without O_NONBLOCK, opening a device might block.
        let mut options = OpenOptions::new();
        options.append(true).mode(0o600).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        // A missing log file is created here or never, unless the user's link leads there.
        let is_new = absolute.symlink_metadata().is_err();
        options
            .create(!is_new)
            .create_new(is_new)
            .open(&absolute)
            .with_context(|| format!("failed to open the log file '{shown}'"))?;
    }
    Ok(absolute)
}

pub fn check_access(path: &Path, mode: i32) -> std::io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends in NUL.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preload_is_appended_once() {
        let library = Path::new("/x/libcupeer.so");
        let with = |old: &str| add_to_ld_preload(Some(&old.into()), library).map(|new| new.into_string().unwrap());
        assert_eq!(add_to_ld_preload(None, library).unwrap(), "/x/libcupeer.so");
        assert_eq!(with("").unwrap(), "/x/libcupeer.so");
        assert_eq!(with("/a.so").unwrap(), "/a.so:/x/libcupeer.so");
        assert_eq!(with("/a.so /b.so").unwrap(), "/a.so /b.so:/x/libcupeer.so");
        assert_eq!(with("/a.so:").unwrap(), "/a.so:/x/libcupeer.so");
        assert_eq!(with("/x/libcupeer.so:/a.so").unwrap(), "/x/libcupeer.so:/a.so");
        assert_eq!(with("libcuda.so.1").unwrap(), "/x/libcupeer.so:libcuda.so.1");
        assert_eq!(with("/a.so /l/libcuda.so /b.so").unwrap(), "/a.so /x/libcupeer.so:/l/libcuda.so:/b.so");
        assert_eq!(with("libcuda.so.1:/x/libcupeer.so:/b.so").unwrap(), "/x/libcupeer.so:libcuda.so.1:/b.so");
        assert_eq!(with("/x/libcupeer.so:libcuda.so.1").unwrap(), "/x/libcupeer.so:libcuda.so.1");
        assert!(with("/y/libcupeer.so").unwrap_err().to_string().contains("/y/libcupeer.so"));
    }
}
