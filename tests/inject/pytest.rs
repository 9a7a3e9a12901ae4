//! The plugin for pytest on the simulated driver. The tests that it runs stand in `python/tests`.

use super::python::{has, in_tests};
use crate::support::{Done, assert_lines, install, plain, sim_dir, temp_dir, with};
use std::path::{Path, PathBuf};
use std::process::Command;

const PYTEST: [&str; 6] = ["-m", "pytest", "-p", "cupeer.pytest_plugin", "-p", "no:cacheprovider"];

/// pytest without any options but those that it always has here, and with the command on PATH.
pub fn pytest(arguments: &[&str]) -> Command {
    let mut command = plain("python3");
    let path = std::env::var("PATH").expect("it is set");
    command.args(PYTEST).args(arguments);
    command.env("PATH", format!("{}:{path}", install().join("bin").display()));
    command
}

/// The last line of pytest, without the time that it took.
fn counts(done: &Done) -> &str {
    let last = done.stdout.lines().rfind(|line| line.starts_with("==") && line.contains(" in ")).unwrap_or_default();
    last.trim_matches(['=', ' ']).split(" in ").next().unwrap_or_default()
}

/// pytest by its path, in an environment where no command can be found.
fn without_command(arguments: &[&str]) -> Command {
    let found = plain("python3").args(["-c", "import sys; print(sys.executable)"]).output().expect("it runs");
    let mut command = plain(PathBuf::from(String::from_utf8(found.stdout).expect("UTF-8").trim()));
    // The tests need a driver.
    command.args(PYTEST).args(arguments).env("PATH", "/nowhere").env("LD_LIBRARY_PATH", sim_dir());
    command
}

fn sim_into(record: &Path, more: &str) -> String {
    format!("--cupeer=--sim -o {} {more}", record.display())
}

#[test]
fn the_option_runs_the_tests_under_the_command() {
    if !has("pytest") {
        return;
    }
    let folder = temp_dir();
    let ended = in_tests(&mut pytest(&["test_fixture.py", &sim_into(folder.path(), "")]));
    assert_eq!((ended.status.code(), counts(&ended)), (Some(0), "3 passed"), "{}{}", ended.stdout, ended.stderr);
    let version = env!("CARGO_PKG_VERSION");
    assert!(ended.stdout.contains(&format!("\ncupeer: libcupeer.so {version}\n")), "{}", ended.stdout);
    assert!(ended.stderr.starts_with("cupeer: 1 process, "), "{}", ended.stderr);
    // The command's own mistakes are told by the command.
    let ended = in_tests(&mut pytest(&["test_fixture.py", "--cupeer=--sim=nonsense"]));
    assert!(ended.stderr.starts_with("cupeer: --sim: there is no topology 'nonsense'"), "{}", ended.stderr);
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(125), ""));
}

#[test]
fn options_that_come_too_late_are_said_to_have_no_effect() {
    if !has("pytest") {
        return;
    }
    let tests = [&["run", "--sim", "--", "python3"], &PYTEST[..], &["test_fixture.py", "--cupeer=--seed 7"]];
    let ended = in_tests(&mut with(&tests.concat()));
    assert_eq!(counts(&ended), "3 passed", "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("it was loaded before pytest, so --seed 7 has no effect"), "{}", ended.stdout);
}

#[test]
fn marked_tests_fail_by_the_rules_that_they_break() {
    if !has("pytest") {
        return;
    }
    let expected = "15 failed, 4 passed, 1 xfailed, 2 errors";
    let mut ways = vec![vec!["test_marked.py"]];
    if has("xdist") {
        ways.push(vec!["test_marked.py", "-p", "xdist", "-n", "2"]);
    }
    for way in ways {
        let folder = temp_dir();
        let ended = in_tests(pytest(&way).arg(sim_into(folder.path(), "")));
        assert_eq!((ended.status.code(), counts(&ended)), (Some(1), expected), "{}{}", ended.stdout, ended.stderr);
        let broken = "error ipc-flags: cuIpcOpenMemHandle_v2: Flags must be 1 (is 0)";
        let told = format!("cupeer: the test broke rules that it must not break\n  {broken}\n");
        let without_place = |text: &str| {
            let lines = text.lines().map(|line| line.split_once(" [test_marked.py:").map_or(line, |(line, _)| line));
            lines.fold(String::new(), |text, line| text + line + "\n")
        };
        // With the line of the test, which has the file of the helper behind it.
        assert!(ended.stdout.contains(" in test_of_the_rule_fails (through driver.py:"), "{}", ended.stdout);
        let stdout = without_place(&ended.stdout);
        assert_eq!(stdout.matches(&told).count(), 17, "{stdout}");
        // The summary has those, too, that do not fail.
        let summary = stdout.split("cupeer: broken rules").nth(1).expect("a summary");
        assert_eq!(summary.matches(&format!(": {broken}\n")).count(), 20, "{summary}");
        assert!(summary.contains(&format!("test_marked.py::test_without_a_mark_passes: {broken}\n")), "{summary}");
    }
}

#[test]
fn plans_reach_the_processes_that_a_test_starts() {
    if !has("pytest") {
        return;
    }
    let folder = temp_dir();
    let record = folder.path().join("r").display().to_string();
    // Without a directory, only forked processes have a plan.
    let ways = [(["-o", &record], "5 passed, 2 skipped"), (["--record", "off"], "4 failed, 1 passed, 2 skipped")];
    for (options, expected) in ways {
        let words = [&["run", "--sim"], &options[..], &["--", "python3"], &PYTEST, &["test_reach.py"]].concat();
        let ended = in_tests(&mut with(&words));
        assert_eq!(counts(&ended), expected, "{}{}", ended.stdout, ended.stderr);
    }
    for options in [sim_into(&folder.path().join("own"), ""), "--cupeer=--sim --record off".into()] {
        let ended = in_tests(pytest(&["test_reach.py"]).arg(options));
        assert_eq!(counts(&ended), "5 passed, 2 skipped", "{}{}", ended.stdout, ended.stderr);
    }
}

#[test]
fn a_plan_of_one_worker_does_not_reach_another() {
    if !has("xdist") {
        return;
    }
    let folder = temp_dir();
    let tests = ["test_reach.py", "-k", "worker", "-p", "xdist", "-n", "2", "--dist", "loadgroup"];
    let mut both = pytest(&tests);
    both.arg(sim_into(&folder.path().join("r"), "")).env("PLACE_OF_BOTH", folder.path());
    let ended = in_tests(&mut both);
    assert_eq!(counts(&ended), "2 passed", "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn files_that_are_read_grow_with_the_number_of_tests() {
    if !has("pytest") {
        return;
    }
    let ended = in_tests(&mut pytest(&["test_linear.py"]));
    assert_eq!(counts(&ended), "2 passed", "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn tests_fail_by_the_rules_that_their_processes_break() {
    if !has("pytest") {
        return;
    }
    let mut ways = vec![vec!["test_started.py"]];
    if has("xdist") {
        ways.push(vec!["test_started.py", "-p", "xdist", "-n", "2"]);
    }
    for way in ways {
        let folder = temp_dir();
        let ended = in_tests(pytest(&way).arg(sim_into(folder.path(), "")));
        let shown = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!((ended.status.code(), counts(&ended)), (Some(1), "3 failed, 4 passed, 1 error"), "{shown}");
        let broken = "error ipc-flags: cuIpcOpenMemHandle_v2: Flags must be 1 (is 0) (in process ";
        let summary = ended.stdout.split("cupeer: broken rules").nth(1).expect("a summary");
        assert_eq!(summary.matches(&format!(": {broken}")).count(), 6, "{shown}");
    }
}

#[test]
fn pytest_says_why_nothing_ran() {
    if !has("pytest") {
        return;
    }
    let folder = temp_dir();
    let test = folder.path().join("test_nothing.py");
    std::fs::write(&test, "def test_nothing(): pass\n").expect("a test");
    let record = folder.path().join("record");
    let ended = in_tests(pytest(&[]).arg(&test).arg(sim_into(&record, "")));
    let said = "cupeer: no test called the CUDA driver, so cupeer checked nothing\n";
    assert!(ended.stdout.contains(said), "{}{}", ended.stdout, ended.stderr);
    let ended = in_tests(without_command(&["test_marked.py"]).env("PATH", "/nowhere"));
    let said = "cupeer: 20 tests were skipped: libcupeer.so is not loaded; run pytest with --cupeer";
    assert!(ended.stdout.contains(said), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn marked_tests_fail_without_checked_rules() {
    if !has("pytest") {
        return;
    }
    let folder = temp_dir();
    let mut unchecked = pytest(&["test_marked.py", "-k", "breaks_nothing or without_a_mark"]);
    let ended = in_tests(unchecked.arg(sim_into(folder.path(), "--check=off")));
    assert_eq!(counts(&ended), "1 passed, 19 deselected, 1 error", "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("so the test cannot fail by them"), "{}", ended.stdout);
}

#[test]
fn a_mark_that_no_rule_has_is_refused() {
    if !has("pytest") {
        return;
    }
    let folder = temp_dir();
    let file = folder.path().join("test_wrong.py");
    for (mark, said) in [
        ("error_on=['ipc-flag']", "error_on has 'ipc-flag', which matches no rule; see 'cupeer list rules'"),
        ("error_on='ipc-flags'", "write @pytest.mark.cupeer(error_on=[\"RULE\", ...])"),
        ("erroron=['ipc-flags']", "write @pytest.mark.cupeer(error_on=[\"RULE\", ...])"),
        ("'ipc-flags'", "write @pytest.mark.cupeer(error_on=[\"RULE\", ...])"),
    ] {
        let text = format!("import pytest\n@pytest.mark.cupeer({mark})\ndef test_it(): pass\n");
        std::fs::write(&file, text).expect("a test");
        let record = folder.path().join("record");
        let ended = in_tests(pytest(&[]).arg(&file).arg(sim_into(&record, "")));
        assert_eq!(ended.status.code(), Some(4), "{}{}", ended.stdout, ended.stderr);
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains(said), "{}{}", ended.stdout, ended.stderr);
    }
}

#[test]
fn without_the_command_nothing_passes() {
    if !has("pytest") {
        return;
    }
    let problem = "the command cupeer is neither installed with this module nor on PATH";
    let ended = in_tests(&mut without_command(&["test_fixture.py", "--cupeer"]));
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(4), ""), "{}", ended.stderr);
    let sentence = format!("ERROR: --cupeer: {problem}; --cupeer-skip-missing skips the tests that need it");
    assert_lines(ended.stderr.trim(), &sentence);
    for tests in ["test_fixture.py", "test_marked.py"] {
        let ended = in_tests(&mut without_command(&[tests, "--cupeer", "--cupeer-skip-missing"]));
        assert!(ended.stdout.contains("tests that need it are skipped"), "{}", ended.stdout);
        let expected = if tests == "test_marked.py" { "1 passed, 20 skipped" } else { "3 skipped" };
        assert_eq!((ended.status.code(), counts(&ended)), (Some(0), expected), "{}", ended.stdout);
    }
    // Without the option, as ever.
    let ended = in_tests(&mut without_command(&["test_marked.py"]));
    assert_eq!((ended.status.code(), counts(&ended)), (Some(0), "1 passed, 20 skipped"), "{}", ended.stdout);
}

#[test]
fn a_test_is_not_taken_for_options() {
    if !has("pytest") {
        return;
    }
    for (option, said) in [
        (
            "test_fixture.py",
            "'test_fixture.py' is not an option of 'cupeer run'; write a plain --cupeer after the tests",
        ),
        ("--seed '7", "No closing quotation"),
    ] {
        let ended = in_tests(&mut pytest(&[&format!("--cupeer={option}")]));
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(4), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains("argument --cupeer: "), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}

#[test]
fn the_module_is_the_command() {
    if !has("unittest") {
        return;
    }
    let mut command = plain("python3");
    let ended = in_tests(command.args(["-m", "cupeer", "--version"]).env("PATH", path_with_command()));
    assert_lines(&ended.stdout, &format!("cupeer {}\n", env!("CARGO_PKG_VERSION")));
}

fn path_with_command() -> String {
    format!("{}:{}", install().join("bin").display(), std::env::var("PATH").expect("it is set"))
}
