//! The annotations of GitHub Actions.

use super::scene::{Scene, found};
use crate::support;
use cupeer_record::Outcome;
use cupeer_rules::Severity;
use cupeer_spec::function::FnId;
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::results::Result;

/// The lines of a report, where a runner of GitHub Actions reads them.
fn report(scene: &Scene, value: &str, options: &[&str]) -> String {
    let mut command = support::cupeer();
    support::stdout(command.arg("report").arg(scene.dir()).args(options).env("GITHUB_ACTIONS", value))
}

fn annotations(scene: &Scene) -> Vec<String> {
    report(scene, "true", &[]).lines().filter(|line| line.starts_with("::")).map(str::to_owned).collect()
}

/// A process with as many findings, each from a place of its own, that ends by a signal.
fn scene(errors: u64, warnings: u64) -> Scene {
    let scene = Scene::new();
    let mut actor = scene.gone(0);
    for i in 0..errors + warnings {
        let severity = if i < errors { Severity::Error } else { Severity::Warning };
        let mut call = actor.makes(FnId::cuIpcOpenMemHandle_v2, 100 + 20 * i);
        call.outcome = Outcome::Returned(Result::INVALID_VALUE as i32);
        call.caller += i;
        call.details.findings = vec![found("ipc-flags", severity, "50%\r\n::stop-commands::x, y")];
        actor.add(&call);
    }
    let mut call = actor.makes(FnId::cuIpcGetMemHandle, 90_000);
    call.details.findings = vec![found("ipc-interior-pointer", Severity::Note, "a note")];
    actor.add(&call);
    actor.writer().change_header(|header| header.end = RecordedEnd::Signal(11).to_word()).unwrap();
    actor.ends();
    scene
}

#[test]
fn findings_above_note_and_deaths_are_annotated() {
    let lines = annotations(&scene(1, 1));
    let [death, error, warning] = &lines[..] else { panic!("{lines:#?}") };
    let expected = "::error title=cupeer process-died::rank 0 was killed by SIGSEGV; its last recorded call was cuIpcGetMemHandle at 0.090000";
    assert_eq!(death, expected);
    let said = "::cuIpcOpenMemHandle_v2, once in rank 0, from train+0x";
    let text = ": 50%25\u{fffd}\u{fffd}::stop-commands::x, y";
    assert!(error.starts_with(&format!("::error title=cupeer ipc-flags{said}")) && error.ends_with(text), "{error}");
    assert!(warning.starts_with(&format!("::warning title=cupeer ipc-flags{said}")), "{warning}");
}

#[test]
fn there_are_ten_of_a_kind_at_most() {
    let lines = annotations(&scene(12, 30));
    let count = |kind: &str| lines.iter().filter(|line| line.starts_with(kind)).count();
    assert_eq!((count("::error "), count("::warning "), lines.len()), (10, 10, 20));
}

#[test]
fn only_the_text_is_annotated_and_only_where_a_runner_reads_it() {
    let scene = scene(1, 0);
    for value in ["false", "", "1"] {
        assert!(!report(&scene, value, &[]).contains("\n::"), "{value}");
    }
    for options in [&["--format", "json"][..], &["--format", "sarif"], &["--format", "junit"], &["--leaks"]] {
        assert!(!report(&scene, "true", options).contains("\n::"), "{options:?}");
    }
    let file = scene.folder().join("known.toml");
    std::fs::write(&file, "[[suppression]]\nrule = 'ipc-flags'\n").unwrap();
    let text = report(&scene, "true", &["--suppressions", file.to_str().unwrap()]);
    assert_eq!(text.matches("\n::").count(), 1, "the death is left: {text}");
}
