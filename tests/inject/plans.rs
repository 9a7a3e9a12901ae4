//! Plans as they are given to the command, and as they reach a program.

use crate::support::{assert_lines, done, plain, refused, stdout, temp_dir, with};
use cupeer_spec::env;
use std::fs;
use std::process::Command;

const FAILED: &str = "cuIpcOpenMemHandle*:error=MAP_FAILED";

/// A program that prints the plan it was given.
const PRINTS: [&str; 3] = ["sh", "-c", "printf %s \"$CUPEER_INJECT\""];

fn run(options: &[&str]) -> Command {
    with(&[&["run"], options, &["--"], &PRINTS].concat())
}

/// Returns the output of a program under the command, without the note that no plan was reached.
#[track_caller]
fn printed(command: &mut Command) -> String {
    let ended = done(command);
    let is_said = |line: &str| line.starts_with("cupeer: fault ") && line.contains(" was never reached: ");
    assert!(ended.status.success() && ended.stderr.lines().all(is_said), "{}: {}", ended.status, ended.stderr);
    ended.stdout
}

#[test]
fn a_wrong_plan_is_refused_with_a_mark_under_the_place_before_anything_starts() {
    let directory = temp_dir();
    let begun = directory.path().join("begun");
    let plan = "cuIpcOpenMemHandle*:when=3..5:eror=MAP_FAILED";
    let ended = done(with(&["run", "--inject", plan, "touch"]).arg(&begun));
    assert_lines(
        &ended.stderr,
        "\
cupeer: --inject 'cuIpcOpenMemHandle*:when=3..5:eror=MAP_FAILED', column 31: there is no key 'eror'; did you mean 'error'?
  cuIpcOpenMemHandle*:when=3..5:eror=MAP_FAILED
                                ^
",
    );
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(125), ""));
    assert!(!begun.exists());
    // The same from `env`, and in the second line of the second plan.
    let ended = done(&mut with(&["env", "--format", "sh", "--inject", FAILED, "--inject", "@ipc:hang\n@ipc:delay=5"]));
    assert_lines(
        &ended.stderr,
        "\
cupeer: --inject '@ipc:hang\u{fffd}@ipc:delay=5', line 2, column 12: '5' has no unit; write a number and ns, us, ms, s, m or h: 5ms, 1.5s
  @ipc:delay=5
             ^
",
    );
}

#[test]
fn a_function_that_no_plan_reaches_is_refused_with_the_reason() {
    let reason = "because it does not intercept it: its calls go straight to the driver; \
                  'cupeer list functions' lists those that it intercepts";
    let directory = temp_dir();
    let file = directory.path().join("plan");
    fs::write(&file, "@ipc:delay=1ms\ncuMemAllocHost_v2:error=OUT_OF_MEMORY\n").unwrap();
    for (options, place) in [
        (
            ["--inject", "cuMemAllocHost_v2:error=OUT_OF_MEMORY"],
            "--inject 'cuMemAllocHost_v2:error=OUT_OF_MEMORY', column 1",
        ),
        (["--inject-file", file.to_str().unwrap()], &format!("{}:2:1", file.display())),
        (["--trace", "@ipc,cuMemAllocHost_v2"], "--trace '@ipc,cuMemAllocHost_v2', column 6"),
    ] {
        let ended = done(&mut run(&options));
        let said = format!("cupeer: {place}: cupeer cannot fail, log, or record 'cuMemAllocHost_v2', {reason}\n");
        assert!(ended.stderr.starts_with(&said), "{options:?}: {}", ended.stderr);
        assert_eq!(ended.status.code(), Some(125));
    }
}

#[test]
fn options_that_do_nothing_are_refused() {
    refused(
        &["run", "--dry-run", "true"],
        "--dry-run tries fault plans, but there is none; add --inject or --inject-file",
    );
    refused(
        &["run", "--seed", "7", "true"],
        "--seed is for fault plans, but there is none; add --inject or --inject-file",
    );
    refused(&["run", "--inject", " ; ", "true"], "--inject ' ; ': it contains no fault");
    refused(
        &["run", "--inject", FAILED, "--seed", "x", "true"],
        "invalid value 'x' for '--seed <N>': it takes a number; see --help",
    );
    let long = [FAILED; 3000].join(";");
    let ended = done(&mut run(&["--inject", &long]));
    let sentence =
        "KiB long with the names of their faults, but only 100 KiB can be handed to a program; leave some out\n";
    assert!(ended.stderr.ends_with(sentence), "{}", ended.stderr);
    assert_eq!((ended.status.code(), ended.stderr.lines().count()), (Some(125), 1));
}

#[test]
fn the_help_shows_how_a_plan_looks() {
    for command in ["run", "env"] {
        let help = stdout(with(&[command, "--help"]).env("COLUMNS", "400"));
        for example in [FAILED, "@ipc:dev=0:when=3+:delay=5ms"] {
            assert!(help.contains(example), "{help}");
            printed(&mut run(&["--inject", example]));
        }
    }
}

#[test]
fn a_program_gets_all_plans_with_the_names_of_their_rules() {
    let directory = temp_dir();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let slow = file("slow.plan", "# All of it takes longer.\n@ipc:delay=1ms:name=all  # for all\n\ninclude ends\n");
    file("ends", "plan the-end\n@peer:exit=3:when=9\n@open:hang");
    let got = printed(&mut run(&["--inject", FAILED, "--inject-file", &slow, "--inject", "@peer:hang=x;@ipc:hang"]));
    let wanted = [
        "cuIpcOpenMemHandle*:error=MAP_FAILED:name=inject/1",
        "@peer:hang=x:name=inject/2",
        "@ipc:hang:name=inject/3",
        "@ipc:delay=1ms:name=slow/all",
        "@peer:exit=3:when=9:name=the-end/1",
        "@open:hang:name=the-end/2",
    ];
    assert_eq!(got, wanted.join(";"));
    let wrong = file("wrong", "@ipc:hang\n  include ./slow.plan\n@ipc:signal=SEGFAULT\n");
    refused(
        &["run", "--inject-file", &wrong, "true"],
        &format!("{wrong}:3:13: there is no signal 'SEGFAULT'; write it as in 'kill -l', or a number from 1 to 64"),
    );
    let missing = directory.path().join("missing");
    let missing = missing.to_str().unwrap();
    refused(
        &["run", "--inject-file", missing, "true"],
        &format!("--inject-file '{missing}': No such file or directory (os error 2)"),
    );
}

#[test]
fn options_win_over_inherited_variables() {
    let inherited = "@peer:hang:name=outer/1";
    assert_eq!(printed(run(&[]).env(env::INJECT, inherited)), inherited);
    let own = printed(run(&["--inject", FAILED]).env(env::INJECT, inherited));
    assert_eq!(own, format!("{FAILED}:name=inject/1"));
    let prints = ["sh", "-c", "printf %s \"$CUPEER_DRY_RUN\""];
    let dry = |options: &[&str]| with(&[&["run"], options, &["--"], &prints].concat());
    assert_eq!(printed(&mut dry(&["--inject", FAILED, "--dry-run"])), "1");
    assert_eq!(printed(dry(&["--dry-run"]).env(env::INJECT, inherited)), "1");
    assert_eq!(printed(&mut dry(&["--inject", FAILED])), "");
}

#[test]
fn a_seed_that_was_drawn_is_said_and_can_be_given_again() {
    let plan = "@ipc:p=10%:delay=1ms";
    let drawn = done(&mut run(&["--inject", plan]));
    assert!(drawn.status.success(), "{}", drawn.stderr);
    let said = drawn.stderr.split_once("cupeer: the fault plans leave something to chance; --seed ");
    let seed = said.and_then(|(_, said)| said.split_once(' ')).map(|(seed, _)| seed).expect("a seed is said");
    assert_eq!(drawn.stdout, format!("{plan}:seed={seed}:name=inject/1"));
    assert_eq!(printed(&mut run(&["--inject", plan, "--seed", seed])), drawn.stdout);
    assert!(done(&mut run(&["--inject", plan])).stdout != drawn.stdout, "two draws are the same");
    // Nothing is said where there is nothing to say.
    printed(&mut run(&["--inject", &format!("{plan}:seed=3")]));
    let ended = done(&mut with(&["env", "--format", "sh", "--inject", plan]));
    assert!(ended.stderr.contains("; --seed ") && ended.status.success(), "{}", ended.stderr);
}

/// Returns the words that a shell reads in the output of `cupeer env`.
fn words(printed: &str) -> Vec<String> {
    let split = "eval \"set -- $1\"; printf '%s\\n' \"$@\"";
    stdout(plain("sh").args(["-c", split, "sh", printed.trim_end()])).lines().map(Into::into).collect()
}

#[test]
fn every_format_of_env_carries_the_plan_as_it_is() {
    let plan = "cuIpcOpenMemHandle*,@peer:dev=^0,2..3:delay=5ms~1ms;@ipc:p=50%:seed=1:when=3..9+2:hang";
    let wanted = "cuIpcOpenMemHandle*,@peer:dev=^0,2..3:delay=5ms~1ms:seed=7:name=inject/1;\
                  @ipc:p=50%:seed=1:when=3..9+2:hang:name=inject/2";
    let whole = format!("{}={wanted}", env::INJECT);
    let printed =
        |format: &str| stdout(&mut with(&["env", "--inject", plan, "--seed", "7", "--dry-run", "--format", format]));
    let script =
        format!("{}\nprintf %s \"$CUPEER_INJECT/$CUPEER_DRY_RUN\"", printed("sh").replace("export LD_PRELOAD", ": "));
    assert_eq!(stdout(plain("sh").args(["-c", &script])), format!("{wanted}/1"));
    for (format, option) in [("docker", "-e"), ("mpirun", "-x")] {
        let words = words(&printed(format));
        let at = words.iter().position(|word| *word == whole).unwrap_or_else(|| panic!("{format}: {words:?}"));
        assert_eq!(words[at - 1], option);
    }
    // Slurm takes the quotes away where an element has commas.
    let [export] = &words(&printed("srun"))[..] else { panic!("srun: one word") };
    assert!(export.starts_with("--export=ALL,") && export.contains(&format!(",\"{whole}\",")), "{export}");
    let ray: serde_json::Value = serde_json::from_str(&printed("ray")).unwrap();
    assert_eq!(ray["env_vars"][env::INJECT], wanted);
    let k8s = printed("k8s");
    let line = k8s.lines().skip_while(|line| !line.contains(env::INJECT)).nth(1).unwrap();
    let value: String = serde_json::from_str(line.trim().strip_prefix("value: ").unwrap()).unwrap();
    assert_eq!(value, wanted);
}
