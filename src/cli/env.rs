//! `cupeer env`: the settings of `run` in the form that the program's launcher reads.
//!
//! Nothing here decides what is set: that is `settings`. Each format quotes what its reader unquotes.

use anyhow::{Context, Result, bail, ensure};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum, ValueHint};
use cupeer_console::args::shell_quoted;
use cupeer_console::output;
use cupeer_console::variables::{LD_LIBRARY_PATH, LD_PRELOAD, nonempty_variable};
use cupeer_launch::args::Options;
use cupeer_launch::settings::LaunchSettings;
use cupeer_launch::settings::deny::VllmCache;
use cupeer_p2p::settings as p2p;
use cupeer_spec::env;
use cupeer_spec::launchers::{LAUNCHERS, LauncherFormat, VariableNotation};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;

type VariablePair = (&'static str, String);

#[derive(Args)]
#[command(after_help = examples())]
pub struct EnvArgs {
    #[command(flatten)]
    pub options: Options,
    /// Print settings with which NCCL, vLLM, llama.cpp, UCX, and Open MPI avoid the links that 'cupeer doctor --p2p -o FILE' found to be bad
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "Options")]
    pub p2p: Option<PathBuf>,
    /// Program that will read the environment
    #[arg(long, value_name = "FORMAT", required_unless_present = "p2p")]
    pub format: Option<EnvFormat>,
}

/// Returns the help of the formats: an example for each.
fn examples() -> String {
    let examples = EnvFormat::value_variants().iter().filter_map(|format| format.0.example);
    let lines: String = examples.map(|example| format!("  {example}\n")).collect();
    let pod = "k8s prints the env list, volumes, and volumeMounts of a pod; the libraries must be on the node.";
    format!("Examples:\n{lines}\n{pod}")
}

/// A value of `--format`: the notation of a program that reads the environment.
#[derive(Clone, Copy)]
pub struct EnvFormat(&'static LauncherFormat);

impl ValueEnum for EnvFormat {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<EnvFormat>> = LazyLock::new(|| {
            let formats = LAUNCHERS.iter().filter_map(|launcher| launcher.format.as_ref());
            formats.map(EnvFormat).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name).help(self.0.help))
    }
}

/// Prints settings of other programs that avoid bad links, in a notation; for a shell, with the reasons.
fn print_link_settings(path: &Path, notation: VariableNotation) -> Result<ExitCode> {
    let settings = p2p::read_settings(path)?;
    let pairs: Vec<VariablePair> = settings.iter().filter_map(p2p::ProgramSetting::variable).collect();
    output::print_as_is(&match notation {
        VariableNotation::Exports => p2p::format_shell(path, &settings),
        other => format_environment(other, &pairs, &[])?,
    })
}

pub fn command(args: &EnvArgs) -> Result<ExitCode> {
    output::set_verbose(args.options.verbose);
    let notation = args.format.map_or(VariableNotation::Exports, |format| format.0.notation);
    if let Some(path) = &args.p2p {
        return print_link_settings(path, notation);
    }
    let mut settings = LaunchSettings::new(&args.options, None)?;
    settings.verdicts.iter_mut().for_each(VllmCache::keep_directory);
    settings.verdicts.iter().filter_map(VllmCache::chosen_cache_warning).for_each(|line| output::print_problem(&line));
    let mut pairs = Vec::new();
    for (name, value) in &settings.variables {
        let value = value.to_str().with_context(|| format!("{name}: the value is not UTF-8"))?;
        pairs.push((*name, value.to_owned()));
    }
    let printed = if notation == VariableNotation::Exports {
        let search = settings.driver.as_ref().map(|chosen| utf8_path(&chosen.directory)).transpose()?;
        format_shell(&pairs, utf8_path(&settings.preload)?, search)
    } else {
        let has_mounts = matches!(notation, VariableNotation::Container | VariableNotation::Pod);
        let before = |name: &str| match notation {
            // The container's image decides about the old contents of these variables.
            _ if has_mounts => None,
            // Ray replaces this text by the old value in its worker.
            VariableNotation::Json => Some(format!("${{{name}}}").into()),
            _ => nonempty_variable(name),
        };
        for (name, value) in settings.loader_variables(before)? {
            pairs.push((name, utf8_path(Path::new(&value))?.to_owned()));
        }
        format_environment(notation, &pairs, &if has_mounts { container_mounts(&settings)? } else { Vec::new() })?
    };
    settings.drawn_seed_note().iter().for_each(|line| output::print_problem(line));
    output::print_as_is(&printed)
}

/// Returns variables in a notation and, for a container, its mounts.
fn format_environment(notation: VariableNotation, pairs: &[VariablePair], mounts: &[ContainerMount]) -> Result<String> {
    Ok(match notation {
        VariableNotation::Exports => {
            pairs.iter().map(|(name, value)| format!("export {name}={}\n", shell_quoted(value))).collect()
        }
        VariableNotation::Container => format_docker(pairs, mounts)?,
        VariableNotation::Pod => format_kubernetes(pairs, mounts),
        VariableNotation::Prefix(prefix) => format_assignments(prefix, pairs).join(" ") + "\n",
        VariableNotation::CommaList => format_srun(pairs)?,
        VariableNotation::Json => format_ray(pairs),
    })
}

fn utf8_path(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("'{}' is not UTF-8", path.display()))
}

/// Returns the paths that a container must see at the same place: those that it reads (the libraries, links to a driver, and a
/// topology), and those that it writes (the recording and the log).
fn container_mounts(settings: &LaunchSettings) -> Result<Vec<ContainerMount>> {
    let mut paths = vec![settings.preload.parent().unwrap_or(Path::new("/"))];
    if let Some(chosen) = &settings.driver {
        paths.push(&chosen.directory);
        paths.push(chosen.library.parent().unwrap_or(Path::new("/")));
        paths.extend(chosen.file.as_deref());
    }
    let log = settings.variables.iter().find(|(name, _)| *name == env::LOG_FILE);
    let log = log.map(|(_, path)| log_directory(Path::new(path))).transpose()?.flatten();
    let written = settings.job.iter().map(|job| &*job.directory).chain(log);
    let mut all: BTreeMap<&str, bool> = BTreeMap::new();
    for (path, is_written) in paths.into_iter().map(|path| (path, false)).chain(written.map(|path| (path, true))) {
        *all.entry(utf8_path(path)?).or_default() |= is_written;
    }
    // A path below another mounted path needs no mount of its own.
    let within = |path: &str, is_written: bool| {
        all.iter().any(|(other, writes)| path != *other && Path::new(path).starts_with(other) && *writes >= is_written)
    };
    let mounts = all.iter().filter(|(path, is_written)| !within(path, **is_written));
    let mut mounts: Vec<ContainerMount> =
        mounts.map(|(path, is_written)| ContainerMount { path: (*path).to_owned(), is_written: *is_written }).collect();
    mounts.sort_by_key(|mount| mount.is_written);
    Ok(mounts)
}

/// Returns the directory of the processes' logs, as far as all processes have the same one; `None` if the log is a device,
/// because the container has its own devices.
fn log_directory(log: &Path) -> Result<Option<&Path>> {
    let is_own = |place: &str| log.starts_with(place);
    if is_own("/dev") || is_own("/proc") {
        return Ok(None);
    }
    let is_fixed = |path: &&Path| !path.as_os_str().as_encoded_bytes().contains(&b'%');
    match log.ancestors().skip(1).find(is_fixed) {
        Some(directory) if directory != Path::new("/") => Ok(Some(directory)),
        _ => bail!(
            "--log-file '{}': a container cannot see it, because / cannot be mounted; name a file in a directory",
            log.display()
        ),
    }
}

struct ContainerMount {
    path: String,
    is_written: bool,
}

fn format_shell(pairs: &[VariablePair], preload: &str, search: Option<&str>) -> String {
    let mut lines: String =
        pairs.iter().map(|(name, value)| format!("export {name}={}\n", shell_quoted(value))).collect();
    // Evaluating the output twice in one shell must not add the library twice.
    lines += &format!(
        "case \":${{{LD_PRELOAD}-}}:\" in *:{0}:*) ;; *) export {LD_PRELOAD}=\"${{{LD_PRELOAD}:+${LD_PRELOAD}:}}\"{0} ;; esac\n",
        shell_quoted(preload)
    );
    if let Some(directory) = search {
        lines += &format!(
            "case \":${{{LD_LIBRARY_PATH}-}}:\" in :{0}:*) ;; *) export {LD_LIBRARY_PATH}={0}\"${{{LD_LIBRARY_PATH}:+:${LD_LIBRARY_PATH}}}\" ;; esac\n",
            shell_quoted(directory)
        );
    }
    lines
}

fn format_docker(pairs: &[VariablePair], mounts: &[ContainerMount]) -> Result<String> {
    let mut words = format_assignments("-e ", pairs);
    for ContainerMount { path, is_written } in mounts {
        ensure!(!path.contains(':'), "docker's -v cannot mount '{path}': a colon ends a path there");
        let mode = if *is_written { "" } else { ":ro" };
        words.push(format!("-v {}", shell_quoted(&format!("{path}:{path}{mode}"))));
    }
    Ok(words.join(" ") + "\n")
}

/// Writes the variables as YAML for Kubernetes. JSON's strings are valid in YAML; `$(` is written as `$$(` to keep Kubernetes
/// from replacing it.
fn format_kubernetes(pairs: &[VariablePair], mounts: &[ContainerMount]) -> String {
    let mut text = String::from("env:\n");
    for (name, value) in pairs {
        text += &format!("- name: {name}\n  value: {}\n", json!(value.replace("$(", "$$(")));
    }
    text += "volumeMounts:\n";
    for (i, ContainerMount { path, is_written }) in mounts.iter().enumerate() {
        text += &format!("- name: cupeer-{i}\n  mountPath: {}\n  readOnly: {}\n", json!(path), !is_written);
    }
    text += "# These belong to the pod, not to the container:\nvolumes:\n";
    for (i, ContainerMount { path, .. }) in mounts.iter().enumerate() {
        text += &format!("- name: cupeer-{i}\n  hostPath:\n    path: {}\n", json!(path));
    }
    text
}

/// Returns the variables as NAME=VALUE, each after an option.
fn format_assignments(option: &str, pairs: &[VariablePair]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("{option}{}", shell_quoted(&format!("{name}={value}")))).collect()
}

/// Writes the variables for srun. Slurm separates them by commas, and removes quotes only around a whole element.
fn format_srun(pairs: &[VariablePair]) -> Result<String> {
    let mut elements = vec!["ALL".to_owned()];
    for (name, value) in pairs {
        let element = format!("{name}={value}");
        ensure!(!element.contains(['"', '\'']), "srun's --export cannot carry {name}: it contains quotes");
        elements.push(if element.contains(',') { format!("\"{element}\"") } else { element });
    }
    Ok(shell_quoted(&format!("--export={}", elements.join(","))) + "\n")
}

fn format_ray(pairs: &[VariablePair]) -> String {
    let variables: serde_json::Map<_, _> = pairs.iter().map(|(name, value)| ((*name).into(), json!(value))).collect();
    format!("{}\n", json!({ "env_vars": variables }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_change_is_quoted() {
        assert_eq!(shell_quoted("/a/b:c=@peer,^x"), "/a/b:c=@peer,^x");
        assert_eq!(shell_quoted("cuIpcOpen:when=1+:error=MAP_FAILED"), "cuIpcOpen:when=1+:error=MAP_FAILED");
        assert_eq!(shell_quoted("cuIpc*"), "'cuIpc*'");
        assert_eq!(shell_quoted("a b"), "'a b'");
        assert_eq!(shell_quoted("it's"), r"'it'\''s'");
        assert_eq!(shell_quoted(""), "''");
    }

    #[test]
    fn each_format_keeps_its_separators_apart() {
        let pairs = [("A", "@peer,@ipc".to_owned()), ("B", "$(x)".to_owned())];
        assert_eq!(format_srun(&pairs).unwrap(), "'--export=ALL,\"A=@peer,@ipc\",B=$(x)'\n");
        assert!(format_srun(&[("A", "'".to_owned())]).is_err());
        assert_eq!(
            format_environment(VariableNotation::Prefix("-x "), &pairs, &[]).unwrap(),
            "-x A=@peer,@ipc -x 'B=$(x)'\n"
        );
        assert_eq!(format_ray(&pairs), "{\"env_vars\":{\"A\":\"@peer,@ipc\",\"B\":\"$(x)\"}}\n");
        let mount = |path: &str, is_written| ContainerMount { path: path.to_owned(), is_written };
        let mounts = [mount("/l", false), mount("/r", true)];
        assert_eq!(format_docker(&pairs[..1], &mounts).unwrap(), "-e A=@peer,@ipc -v /l:/l:ro -v /r:/r\n");
        assert!(format_kubernetes(&pairs, &mounts).contains("- name: B\n  value: \"$$(x)\"\n"));
    }
}
