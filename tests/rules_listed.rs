//! The rules as the command lists and explains them, their page, and the options that choose them. That they find what
//! they are for is tested elsewhere.

use crate::support::{assert_lines, done, plain, preload_library, refused, sim_dir, stdout, temp_dir, with};
use cupeer_rules::{RULES, Rule};
use cupeer_spec::env;
use cupeer_spec::status::Status;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// A text with single spaces in place of all white space.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_list_has_all_rules_and_says_which_are_not_checked() {
    for columns in ["80", "160"] {
        let list = stdout(with(&["list", "rules"]).env("COLUMNS", columns));
        assert!(list.lines().all(|line| line.len() <= columns.parse().unwrap()), "{list}");
        let words = flat(&list);
        for rule in RULES {
            let line = list.lines().find(|line| line.split(' ').next() == Some(rule.name()));
            let line = line.unwrap_or_else(|| panic!("{}", rule.name()));
            assert!(flat(line).starts_with(&format!("{} {}", rule.name(), rule.severity.word())), "{line}");
            assert!(words.contains(&flat(rule.page().says)), "{}", rule.name());
            if let Some(reason) = rule.reason_unchecked() {
                assert!(words.contains(&flat(&format!("Not checked: {reason}."))), "{}", rule.name());
            }
        }
        let unchecked = RULES.iter().filter(|rule| !rule.is_checked()).count();
        assert_eq!(words.matches("Not checked: ").count(), unchecked);
    }
}

#[test]
fn the_list_as_json_has_every_field_of_every_rule() {
    let list: Value = serde_json::from_str(&stdout(&mut with(&["list", "rules", "--format", "json"]))).unwrap();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), RULES.len());
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for (json, rule) in list.iter().zip(RULES) {
        assert_eq!(json["rule"], rule.name());
        assert_eq!(keys(json), keys(&list[0]));
        assert_eq!(json["checked"], rule.is_checked());
        assert_eq!(json["unchecked_because"].is_null(), rule.is_checked(), "{json}");
    }
    let named = |rule: Rule| &list[rule as usize];
    assert_eq!(named(Rule::IpcFlags)["functions"], json!(["cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"]));
    assert_eq!(named(Rule::IpcFlags)["results"], json!(["CUDA_ERROR_INVALID_VALUE"]));
    assert_eq!(named(Rule::IpcFlags)["source"], "cuIpcOpenMemHandle");
    assert_eq!(named(Rule::IpcEqualPids)["seen"], json!(["vllm#55906", "UCX#11512", "NCCL#360"]));
    assert_eq!(named(Rule::IpcInteriorPointer)["cause"], Value::Null);
    assert_eq!(named(Rule::IpcInteriorPointer)["usual"][1]["library"], "libnccl");
}

#[test]
fn explains_a_rule() {
    assert_lines(
        &stdout(&mut with(&["explain", "IPC-flags"])),
        "\
ipc-flags

The Flags of cuIpcOpenMemHandle must be CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS,
which is 1.

Fix           Pass CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
              (cudaIpcMemLazyEnablePeerAccess), even between processes on one
              device.
Source        documentation of cuIpcOpenMemHandle: \"Flags - Flags for this
              operation. Must be specified as
              CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS\"
Effect        An even number makes the call fail with CUDA_ERROR_INVALID_VALUE.
              Current drivers accept odd numbers other than 1.
Severity      error (the call fails because of it, or its effect is undefined)
Scope         call (decided from the call, and from driver queries about its
              arguments)
Functions     cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2
Results       CUDA_ERROR_INVALID_VALUE (1)
Cause         Flags is not 1
Ruled out if  Flags is 1
",
    );
    for rule in RULES {
        let text = stdout(&mut with(&["explain", rule.name()]));
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
    refused(
        &["explain", "ipc-flag"],
        "no function, result code, rule or key of fault plans is named 'ipc-flag'; did you mean 'ipc-flags'?",
    );
}

#[test]
fn explains_a_function_with_its_rules() {
    let text = stdout(&mut with(&["explain", "cuIpcGetEventHandle"]));
    let rules = text.split("\nRULE ").nth(1).expect("a table of rules");
    for rule in RULES {
        let is_listed = rules.lines().any(|line| line.split(' ').next() == Some(rule.name()));
        let is_its = rule.functions().iter().any(|id| id.spec().name() == "cuIpcGetEventHandle");
        assert_eq!(is_listed, is_its, "{}\n{text}", rule.name());
    }
    assert!(!stdout(&mut with(&["explain", "cuGetProcAddress"])).contains("\nRULE "));
    // Causes that no rule decides follow.
    let causes = text.split("\nRESULT ").nth(1).expect("a table of causes");
    assert!(flat(causes).contains("INVALID_HANDLE the event is not one of the driver's"), "{text}");
    assert!(!stdout(&mut with(&["explain", "cuDeviceCanAccessPeer"])).contains("\nRESULT "));
}

#[test]
fn explains_why_a_call_returns_a_result() {
    let text = stdout(&mut with(&["explain", "NOT_PERMITTED"]));
    assert!(flat(&text).contains("Documented for cuMemAddressReserve cuMemAddressFree cuMemCreate "), "{text}");
    let practice = "cuIpcOpenMemHandle and cuIpcOpenMemHandle_v2 return it, though the documentation does not list it, \
                    if RULE CAUSE ";
    assert!(flat(&text).contains(practice), "{text}");
    let row = |name: &str| text.lines().find(|line| line.split(' ').next() == Some(name)).map(flat);
    assert_eq!(row("ipc-exporter-gone").unwrap(), "ipc-exporter-gone the exporter has exited");
    assert!(row("-").unwrap().starts_with("- the exporter, which does not run under cupeer,"), "{text}");
}

#[test]
fn wrong_options_of_checks_are_refused() {
    let run = |args: &[&'static str]| [&["run", "--out", "/proc/no/such"], args, &["true"]].concat();
    for option in ["--ignore", "--only", "--abort-on", "--stop-on"] {
        refused(
            &run(&["--check", option, "peer-flags,ipc-flagz"]),
            &format!(
                "{option} 'peer-flags,ipc-flagz', column 12: no rule is named 'ipc-flagz'; did you mean 'ipc-flags'?"
            ),
        );
        refused(
            &run(&["--check=off", option, "ipc-flags"]),
            &format!("{option} chooses rules, but nothing is checked; add --check"),
        );
    }
    for (set, sentence) in [
        ("peer-flags,ipc-flagz", "column 12: no rule is named 'ipc-flagz'; did you mean 'ipc-flags'?"),
        ("error,", "column 7: a rule or a pattern of rules is missing here"),
        ("ipc-*@", "column 7: the name of a library is missing here, such as libnccl*"),
    ] {
        refused(&run(&["--error-on", set]), &format!("--error-on '{set}', {sentence}"));
    }
    for (option, value) in [("--error-on", "<RULES>"), ("--suppressions", "<FILE>")] {
        refused(
            &run(&[option, "peer-flags", "--exec"]),
            &format!("the argument '{option} {value}' cannot be used with '--exec'; see --help"),
        );
    }
    refused(
        &run(&["--error-on", "ipc-flags", "--record", "off"]),
        "--error-on and --record off contradict each other: findings go into the recording",
    );
    refused(
        &run(&["--check=all"]),
        "invalid value 'all' for '--check[=<LEVEL>]' [possible values: brief, full, errors, warnings, notes, off]; a similar value exists: 'full'; see --help",
    );
    for number in ["0", "256"] {
        let ended = done(&mut with(&run(&["--check", "--error-exitcode", number])));
        assert_eq!(ended.status.code(), Some(125), "{number}");
        assert!(ended.stderr.contains(&format!("{number} is not in 1..")), "{}", ended.stderr);
    }
    refused(
        &run(&["--check", "--error-exitcode", "3", "--exec"]),
        "the argument '--error-exitcode <N>' cannot be used with '--exec'; see --help",
    );
    refused(
        &["env", "--format", "sh", "--check", "--error-exitcode", "3"],
        "unexpected argument '--error-exitcode' found; see --help",
    );
}

#[test]
fn checks_need_a_record() {
    refused(
        &["run", "--check", "--record", "off", "true"],
        "--check and --record off contradict each other: findings go into the recording",
    );
    let none = "--check needs a recording, but nothing is recorded; add --out DIR";
    // The tests' environment has CUPEER_RECORD=off.
    refused(&["run", "--check", "true"], none);
    refused(&["env", "--check", "--format", "sh"], none);
}

/// The variables of the checks that a program gets.
fn variables(command: &mut Command) -> Vec<String> {
    let names = [env::CHECK, env::IGNORE, env::ONLY, env::ABORT_ON, env::STOP_ON];
    let is_one = |line: &&str| names.iter().any(|name| line.starts_with(&format!("{name}=")));
    let mut lines: Vec<String> = stdout(command).split('\0').filter(is_one).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn options_become_variables() {
    let directory = temp_dir();
    let run = |args: &[&str]| {
        let mut command = with(&["run", "-q", "--out"]);
        command.arg(directory.path().join("record")).args(args).args(["env", "-0"]);
        command
    };
    assert_eq!(variables(&mut run(&[])), ["CUPEER_CHECK=brief"]);
    assert_eq!(variables(run(&[]).env(env::CHECK, "notes")), ["CUPEER_CHECK=notes"]);
    assert_eq!(variables(run(&[]).env(env::CHECK, "off")), ["CUPEER_CHECK=off"]);
    assert_eq!(variables(&mut run(&["--check"])), ["CUPEER_CHECK=full"]);
    assert_eq!(variables(&mut run(&["--check=off"])), ["CUPEER_CHECK=off"]);
    let all = [
        "--check=notes",
        "--ignore",
        "peer-*@libnccl*",
        "--only",
        "ipc-*,peer-*",
        "--abort-on",
        "*",
        "--stop-on",
        "ipc-flags",
    ];
    let expected = [
        "CUPEER_ABORT_ON=*",
        "CUPEER_CHECK=notes",
        "CUPEER_IGNORE=peer-*@libnccl*",
        "CUPEER_ONLY=ipc-*,peer-*",
        "CUPEER_STOP_ON=ipc-flags",
    ];
    assert_eq!(variables(&mut run(&all)), expected);

    let shell = stdout(with(&["env", "--format", "sh", "--out"]).arg(directory.path().join("record")).args(all));
    assert_eq!(variables(plain("sh").arg("-c").arg(format!("{shell}exec env -0"))), expected);

    // Inherited options stay in effect, and an option can select from them.
    let inherited = variables(run(&["--ignore", "ipc-flags"]).env(env::CHECK, "errors"));
    assert_eq!(inherited, ["CUPEER_CHECK=errors", "CUPEER_IGNORE=ipc-flags"]);
    // Without a record there is nothing to complain of in every process.
    let off = variables(with(&["run", "--record", "off", "env", "-0"]).env(env::CHECK, "errors"));
    assert_eq!(off, ["CUPEER_CHECK="]);
}

#[test]
fn a_program_that_breaks_no_rule_keeps_its_status() {
    let directory = temp_dir();
    let mut command = with(&["run", "--error-exitcode", "9", "--out"]);
    let ended = done(command.arg(directory.path().join("record")).args(["sh", "-c", "exit 4"]));
    assert_eq!(ended.status.code(), Some(4));
    assert!(!ended.stderr.contains("exits with"), "{}", ended.stderr);
}

#[test]
fn findings_replace_the_status_but_not_a_signal() {
    let directory = temp_dir();
    // Effects of a broken rule on the library.
    let at = std::mem::offset_of!(Status, findings);
    let found = format!("printf '\\001' | dd of=\"$CUPEER_STATUS\" bs=1 seek={at} conv=notrunc 2>/dev/null; ");
    let run = |options: &[&str], end: &str| {
        let mut command = with(&["run", "--check", "--out"]);
        command.arg(directory.path().join("record")).args(options);
        let ended = done(command.args(["sh", "-c", &(found.clone() + end)]));
        (ended.status, ended.stderr)
    };
    let why = "cupeer: exits with 9, because 1 finding is a warning or an error (--error-exitcode)\n";
    for end in ["exit 0", "exit 4"] {
        let (status, said) = run(&["--error-exitcode", "9"], end);
        assert_eq!((status.code(), said.matches(why).count()), (Some(9), 1), "{end}: {said}");
    }
    for (options, end) in [(&[][..], "exit 4"), (&["--error-exitcode", "9"], "kill -TERM $$")] {
        let (status, said) = run(options, end);
        assert_eq!(
            (status.code(), status.signal()),
            if options.is_empty() { (Some(4), None) } else { (None, Some(15)) }
        );
        assert!(!said.contains("ends with"), "{said}");
    }
}

/// Returns the library's complaints about its variables when a program meets the simulated driver.
fn complaints(variables: &[(&str, &str)]) -> String {
    let program = crate::support::compile_text(
        "meets-driver",
        "int cuInit(unsigned); int cuDeviceCanAccessPeer(int *, int, int);\n\
         int main(void) { int yes; cuInit(0); return cuDeviceCanAccessPeer(&yes, 0, 1); }",
        &[&format!("-L{}", sim_dir().display()), "-lcuda"],
    );
    let mut command = plain(program);
    command.env_remove(env::RECORD).env("LD_PRELOAD", preload_library()).env("LD_LIBRARY_PATH", sim_dir());
    let ended = done(command.envs(variables.iter().copied()));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    ended.stderr
}

#[test]
fn the_library_complains_of_bad_values_and_goes_on() {
    let directory = temp_dir();
    let out = directory.path().join("record");
    let out = out.to_str().unwrap();
    assert_lines(
        &complaints(&[
            (env::OUT, out),
            (env::CHECK, "everything"),
            (env::IGNORE, "ipc-flagz"),
            (env::ONLY, "*,"),
            (env::ABORT_ON, "x"),
            (env::STOP_ON, "*@"),
        ]),
        "\
cupeer: CUPEER_CHECK=everything is not valid: must be brief, errors, warnings, notes, full or off; using warnings
cupeer: CUPEER_IGNORE=ipc-flagz is not valid: column 1: no rule is named 'ipc-flagz'; did you mean 'ipc-flags'?; nothing is ignored
cupeer: CUPEER_ONLY=*, is not valid: column 3: a rule or a pattern of rules is missing here; all rules are checked
cupeer: CUPEER_ABORT_ON=x is not valid: column 1: no rule is named 'x'; 'cupeer list rules' lists them all; nothing aborts the program
cupeer: CUPEER_STOP_ON=*@ is not valid: column 3: the name of a library is missing here, such as libnccl*; nothing stops the program
",
    );
    assert_lines(&complaints(&[(env::OUT, out), (env::CHECK, "notes"), (env::ONLY, "peer-*")]), "");
    assert_lines(
        &complaints(&[(env::CHECK, "notes")]),
        "cupeer: CUPEER_CHECK needs CUPEER_OUT: it names the recording that findings go into; nothing is checked\n",
    );
    assert_lines(
        &complaints(&[(env::CHECK, "notes"), (env::OUT, out), (env::RECORD, "off")]),
        "cupeer: CUPEER_CHECK needs CUPEER_OUT: CUPEER_RECORD=off leaves no recording; nothing is checked\n",
    );
}
