//! `cupeer env`: the settings of `run` in the form that the program's launcher reads.
//!
//! Nothing here decides what is set: that is `settings`. Each format quotes what its reader unquotes.

use crate::start::args::{EnvArgs, EnvFormat};
use anyhow::{Context, Result, bail, ensure};
use cupeer_console::args::quoted;
use cupeer_console::output;
use cupeer_console::variables::{LD_LIBRARY_PATH, LD_PRELOAD, inherited};
use cupeer_launch::settings::Settings;
use cupeer_launch::settings::deny::Verdicts;
use cupeer_p2p::settings as p2p;
use cupeer_spec::env;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

type Pair = (&'static str, String);

/// Settings of other programs than ours: lines for a shell with their reasons, or what another reader takes.
fn of_links(path: &Path, format: EnvFormat) -> Result<ExitCode> {
    let settings = p2p::of_file(path)?;
    let pairs: Vec<Pair> = settings.iter().filter_map(p2p::Setting::variable).collect();
    output::print_as_is(&match format {
        EnvFormat::Sh => p2p::sh(path, &settings),
        EnvFormat::Docker => docker(&pairs, &[])?,
        EnvFormat::K8s => k8s(&pairs, &[]),
        EnvFormat::Mpirun => mpirun(&pairs),
        EnvFormat::Srun => srun(&pairs)?,
        EnvFormat::Ray => ray(&pairs),
    })
}

pub fn command(args: &EnvArgs) -> Result<ExitCode> {
    output::be_verbose(args.options.verbose);
    let format = args.format.unwrap_or(EnvFormat::Sh);
    if let Some(path) = &args.p2p {
        return of_links(path, format);
    }
    let mut settings = Settings::new(&args.options, None)?;
    settings.verdicts.iter_mut().for_each(Verdicts::keep);
    settings.verdicts.iter().filter_map(Verdicts::warning).for_each(|line| output::complain(&line));
    let mut pairs = Vec::new();
    for (name, value) in &settings.variables {
        let value = value.to_str().with_context(|| format!("{name}: the value is not UTF-8"))?;
        pairs.push((*name, value.to_owned()));
    }
    // Adds the variables that the loader reads to what its reader has in them.
    let with_loader = |old: &dyn Fn(&str) -> Option<OsString>| -> Result<Vec<Pair>> {
        let mut all = pairs.clone();
        for (name, value) in settings.loader(old)? {
            all.push((name, text(Path::new(&value))?.to_owned()));
        }
        Ok(all)
    };
    // The image has these, and only it can say what is in them.
    let of_image = |_: &str| None;
    // Ray replaces this by the value that its worker has.
    let of_worker = |name: &str| Some(format!("${{{name}}}").into());
    let printed = match format {
        EnvFormat::Sh => {
            let search = settings.driver.as_ref().map(|chosen| text(&chosen.directory)).transpose()?;
            sh(&pairs, text(&settings.preload)?, search)
        }
        EnvFormat::Docker => docker(&with_loader(&of_image)?, &mounts(&settings)?)?,
        EnvFormat::K8s => k8s(&with_loader(&of_image)?, &mounts(&settings)?),
        EnvFormat::Mpirun => mpirun(&with_loader(&inherited)?),
        EnvFormat::Srun => srun(&with_loader(&inherited)?)?,
        EnvFormat::Ray => ray(&with_loader(&of_worker)?),
    };
    settings.seed_drawn().iter().for_each(|line| output::complain(line));
    output::print_as_is(&printed)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("'{}' is not UTF-8", path.display()))
}

/// What a container has to see at the same path: libraries, the links to a driver, a topology; and where it writes, the
/// record and the log.
fn mounts(settings: &Settings) -> Result<Vec<Mount>> {
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
    for (path, is_written) in
        paths.into_iter().map(|path| (path, false)).chain(written.map(|path| (path, true)))
    {
        *all.entry(text(path)?).or_default() |= is_written;
    }
    // What lies in another one is mounted with it.
    let within = |path: &str, is_written: bool| {
        all.iter().any(|(other, writes)| {
            path != *other && Path::new(path).starts_with(other) && *writes >= is_written
        })
    };
    let mounts = all.iter().filter(|(path, is_written)| !within(path, **is_written));
    let mut mounts: Vec<Mount> = mounts
        .map(|(path, is_written)| Mount { path: (*path).to_owned(), is_written: *is_written })
        .collect();
    mounts.sort_by_key(|mount| mount.is_written);
    Ok(mounts)
}

/// The directory in which processes make their logs: as far as it is the same for all of them. What is a device is the
/// container's own.
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

struct Mount {
    path: String,
    is_written: bool,
}

fn sh(pairs: &[Pair], preload: &str, search: Option<&str>) -> String {
    let mut lines: Vec<String> =
        pairs.iter().map(|(name, value)| format!("export {name}={}", quoted(value))).collect();
    // Once more in the same shell adds nothing.
    lines.push(format!(
        "case \":${{{LD_PRELOAD}-}}:\" in *:{0}:*) ;; *) export {LD_PRELOAD}=\"${{{LD_PRELOAD}:+${LD_PRELOAD}:}}\"{0} ;; esac",
        quoted(preload)
    ));
    if let Some(directory) = search {
        lines.push(format!(
            "case \":${{{LD_LIBRARY_PATH}-}}:\" in :{0}:*) ;; *) export {LD_LIBRARY_PATH}={0}\"${{{LD_LIBRARY_PATH}:+:${LD_LIBRARY_PATH}}}\" ;; esac",
            quoted(directory)
        ));
    }
    lines.join("\n") + "\n"
}

fn docker(pairs: &[Pair], mounts: &[Mount]) -> Result<String> {
    let mut words = assigned("-e", pairs);
    for Mount { path, is_written } in mounts {
        ensure!(!path.contains(':'), "docker's -v cannot mount '{path}': a colon ends a path there");
        let mode = if *is_written { "" } else { ":ro" };
        words.push(format!("-v {}", quoted(&format!("{path}:{path}{mode}"))));
    }
    Ok(words.join(" ") + "\n")
}

/// YAML takes JSON's strings as they are; a pod's own `$(VAR)` is written with two dollars.
fn k8s(pairs: &[Pair], mounts: &[Mount]) -> String {
    let mut text = String::from("env:\n");
    for (name, value) in pairs {
        text += &format!("- name: {name}\n  value: {}\n", json!(value.replace("$(", "$$(")));
    }
    text += "volumeMounts:\n";
    for (i, Mount { path, is_written }) in mounts.iter().enumerate() {
        text += &format!("- name: cupeer-{i}\n  mountPath: {}\n  readOnly: {}\n", json!(path), !is_written);
    }
    text += "# These belong to the pod, not to the container:\nvolumes:\n";
    for (i, Mount { path, .. }) in mounts.iter().enumerate() {
        text += &format!("- name: cupeer-{i}\n  hostPath:\n    path: {}\n", json!(path));
    }
    text
}

fn mpirun(pairs: &[Pair]) -> String {
    assigned("-x", pairs).join(" ") + "\n"
}

/// Each variable with its value, after an option.
fn assigned(option: &str, pairs: &[Pair]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("{option} {}", quoted(&format!("{name}={value}")))).collect()
}

/// Slurm separates by commas, and takes quotes away where they stand around the whole of an element.
fn srun(pairs: &[Pair]) -> Result<String> {
    let mut elements = vec!["ALL".to_owned()];
    for (name, value) in pairs {
        let element = format!("{name}={value}");
        ensure!(!element.contains(['"', '\'']), "srun's --export cannot carry {name}: it contains quotes");
        elements.push(if element.contains(',') { format!("\"{element}\"") } else { element });
    }
    Ok(quoted(&format!("--export={}", elements.join(","))) + "\n")
}

fn ray(pairs: &[Pair]) -> String {
    let variables: serde_json::Map<_, _> =
        pairs.iter().map(|(name, value)| ((*name).into(), json!(value))).collect();
    format!("{}\n", json!({ "env_vars": variables }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_change_is_quoted() {
        assert_eq!(quoted("/a/b:c=@peer,^x"), "/a/b:c=@peer,^x");
        assert_eq!(quoted("cuIpcOpen:when=1+:error=MAP_FAILED"), "cuIpcOpen:when=1+:error=MAP_FAILED");
        assert_eq!(quoted("cuIpc*"), "'cuIpc*'");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn each_format_keeps_its_separators_apart() {
        let pairs = [("A", "@peer,@ipc".to_owned()), ("B", "$(x)".to_owned())];
        assert_eq!(srun(&pairs).unwrap(), "'--export=ALL,\"A=@peer,@ipc\",B=$(x)'\n");
        assert!(srun(&[("A", "'".to_owned())]).is_err());
        assert_eq!(mpirun(&pairs), "-x A=@peer,@ipc -x 'B=$(x)'\n");
        assert_eq!(ray(&pairs), "{\"env_vars\":{\"A\":\"@peer,@ipc\",\"B\":\"$(x)\"}}\n");
        let mount = |path: &str, is_written| Mount { path: path.to_owned(), is_written };
        let mounts = [mount("/l", false), mount("/r", true)];
        assert_eq!(docker(&pairs[..1], &mounts).unwrap(), "-e A=@peer,@ipc -v /l:/l:ro -v /r:/r\n");
        assert!(k8s(&pairs, &mounts).contains("- name: B\n  value: \"$$(x)\"\n"));
    }
}
