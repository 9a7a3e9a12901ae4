//! The Python module on the simulated driver. Its tests stand in `python/tests`.

use crate::support::{Done, done, plain, temp_dir, with};
use std::process::Command;

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");

/// Returns true if there is a Python with a module, and reports it if not.
pub fn has(module: &str) -> bool {
    let found = plain("python3").args(["-c", &format!("import {module}")]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        left_out!("there is no python3 with {module} on this machine");
    }
    is_there
}

/// Finds the module and its tests, and leaves nothing behind.
pub fn in_tests(command: &mut Command) -> Done {
    let tests = format!("{PYTHON}/tests");
    command.env("PYTHONPATH", format!("{PYTHON}:{tests}")).env("PYTHONDONTWRITEBYTECODE", "1");
    done(command.current_dir(tests))
}

#[track_caller]
fn passed(done: &Done) {
    assert!(done.status.success(), "{}\n{}\n{}", done.status, done.stdout, done.stderr);
}

#[test]
fn the_module_arms_plans_for_a_block() {
    if !has("unittest") {
        return;
    }
    let record = temp_dir();
    let program = ["--", "python3", "-m", "unittest", "test_loaded"];
    for options in [&["--record", "off"][..], &["-o", record.path().to_str().unwrap()]] {
        let ended = in_tests(&mut with(&[&["run", "--sim"], options, &program].concat()));
        passed(&ended);
        assert!(ended.stderr.contains("Ran 12 tests"), "{}", ended.stderr);
    }
}

#[test]
fn without_the_library_the_module_does_no_harm() {
    if !has("unittest") {
        return;
    }
    let ended = in_tests(plain("python3").args(["-m", "unittest", "test_without"]));
    passed(&ended);
    assert!(ended.stderr.contains("Ran 3 tests"), "{}", ended.stderr);
}

#[test]
fn the_fixture_of_pytest_arms_and_skips() {
    if !has("pytest") {
        return;
    }
    let pytest =
        ["python3", "-m", "pytest", "-q", "-p", "cupeer.pytest_plugin", "-p", "no:cacheprovider", "test_fixture.py"];
    let ended = in_tests(&mut with(&[&["run", "--sim", "--"], &pytest[..]].concat()));
    passed(&ended);
    assert!(ended.stdout.contains("3 passed"), "{}", ended.stdout);
    // The tests need a driver, and cupeer's alone is left out.
    let sim = crate::support::sim_dir();
    let ended = in_tests(plain("python3").args(&pytest[1..]).env("LD_LIBRARY_PATH", sim));
    passed(&ended);
    assert!(ended.stdout.contains("3 skipped"), "{}", ended.stdout);
}

#[test]
fn the_module_has_the_version_of_the_library() {
    let version = env!("CARGO_PKG_VERSION");
    let text = std::fs::read_to_string(format!("{PYTHON}/cupeer/__init__.py")).unwrap();
    assert!(text.lines().any(|line| line == format!("__version__ = \"{version}\"")), "{version}");
}
