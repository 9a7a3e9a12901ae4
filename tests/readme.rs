//! The README promises what there is, and forgets nothing that scripts rely on.

use crate::support;
use cupeer_spec::env::{TRACE, VARIABLES};
use cupeer_spec::function::Group;
use cupeer_spec::selector::FunctionSet;
use std::path::Path;

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"))
        .expect("there is a README")
}

#[test]
fn every_variable_group_and_option_is_described() {
    let readme = readme();
    for variable in VARIABLES {
        assert!(readme.contains(&format!("`{}`", variable.name)), "{}", variable.name);
    }
    for (_, name, _) in Group::ALL {
        assert!(readme.contains(&format!("`@{name}`")), "@{name}");
    }
    let help = support::cupeer().args(["run", "-h"]).output().expect("it runs");
    let help = String::from_utf8(help.stdout).expect("help is text");
    let options: Vec<&str> = help.split_whitespace().filter(|word| word.starts_with("--")).collect();
    assert!(options.len() > 5, "{help}");
    for option in options {
        let name = option.trim_end_matches([']', ',', '.']).split(['=', '[']).next().unwrap_or_default();
        assert!(name == "--help" || readme.contains(name), "{name}");
    }
}

#[test]
fn the_default_set_is_the_same_everywhere() {
    let set = FunctionSet::DEFAULT;
    assert!(readme().contains(&format!("default `{set}`")), "{set}");
    let trace = VARIABLES.iter().find(|variable| variable.name == TRACE).expect("it is one");
    assert!(trace.doc.ends_with(&format!("Not set: {set}.")), "{}", trace.doc);
    for command in ["run", "env"] {
        let help = support::cupeer().args([command, "-h"]).output().expect("it runs");
        let help = String::from_utf8(help.stdout).expect("help is text");
        // Its lines are wrapped.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(&format!("[default: {set}]")), "{help}");
    }
}

#[test]
fn what_it_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = readme();
    for target in readme.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(target.starts_with("https://") || root.join(target).exists(), "{target}");
    }
    for word in readme.split(|c: char| c.is_whitespace() || "`()".contains(c)) {
        if let Some(script) = word.strip_prefix("scripts/") {
            let script = script.trim_end_matches(['.', ',', ':', ';']);
            assert!(root.join("scripts").join(script).exists(), "scripts/{script}");
        }
    }
}

/// A run with an option that names a file, which is the example with a text in it.
fn run_with(option: &str, text: &str) -> (bool, String) {
    let readme = readme();
    let files = readme.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let file = files.into_iter().find(|file| file.contains(text)).expect("an example");
    let folder = support::temp_dir();
    let path = folder.path().join("example.toml");
    std::fs::write(&path, file).expect("a file");
    let run = support::cupeer()
        .arg("run")
        .arg(format!("{option}={}", path.display()))
        .args(["--", "true"])
        .output();
    let run = run.expect("it runs");
    (run.status.success(), String::from_utf8_lossy(&run.stderr).into_owned())
}

#[test]
fn its_files_are_read() {
    for (option, text) in [("--sim", "[[device]]"), ("--suppressions", "[[suppression]]")] {
        let (is_read, said) = run_with(option, text);
        assert!(is_read, "{said}");
    }
    assert!(!run_with("--suppressions", "[[device]]").0, "a machine is no suppression");
}
