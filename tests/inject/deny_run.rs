//! `--deny-peer` and `--peer-limit`: which devices their words mean, and what is said.

use crate::programs::{nvml, program};
use crate::support::{self, assert_lines, done, refused, stdout, temp_dir};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::process::Command;

const FIRST: &str = "GPU-c09ee200-5130-4d0e-b00d-000000000000";
const SECOND: &str = "GPU-c09ee200-5130-4d0e-b00d-000000000001";
const FOURTH: &str = "GPU-c09ee200-5130-4d0e-b00d-000000000003";
const UNMASKED: &str = "cupeer: denied pairs: --deny-peer does not block copies between devices (cuMemcpyPeer; the driver \
stages them), imported memory pools when nothing is recorded, or what tools read from sysfs; links to a switch are hidden \
entirely\n";

/// Returns the value of `variable` in the output of `env`.
fn variable(command: &mut Command, variable: &str) -> Option<String> {
    let text = stdout(command.args(["--format", "sh"]));
    let prefix = format!("export {variable}=");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
}

fn denied(command: &mut Command) -> String {
    variable(command, "CUPEER_DENY_PEER").expect("pairs")
}

#[test]
fn devices_of_the_simulated_driver_are_those_of_its_topology() {
    let sim = |peers: &str| denied(&mut support::with(&["env", "--sim=nvlink:4", "--deny-peer", peers]));
    assert_eq!(sim("0/3"), format!("{FIRST}/{FOURTH}"));
    assert_eq!(sim("1/0:oneway,0/1e:00.0"), format!("{SECOND}/{FIRST}:oneway,{FIRST}/{SECOND}"));
    assert_eq!(sim(&format!("{FIRST}/{FOURTH}")), format!("{FIRST}/{FOURTH}"));
    assert_eq!(sim("all"), "all");
    let limit = |command: &mut Command| variable(command, "CUPEER_PEER_LIMIT");
    assert_eq!(limit(&mut support::with(&["env", "--peer-limit", "2"])), Some("2".into()));
}

#[test]
fn devices_of_a_machine_are_those_of_nvml() {
    let mut command = support::with(&["env", "--deny-peer", "0/3"]);
    command.env("LD_LIBRARY_PATH", nvml()).env("FAKE_NVML_GPUS", "4").env("CUDA_VISIBLE_DEVICES", "3,0");
    assert_eq!(denied(&mut command), format!("{FIRST}/{FOURTH}"));
    let mut command = support::with(&["run", "--deny-peer", "0/4", "true"]);
    let ended = done(command.env("LD_LIBRARY_PATH", nvml()).env("FAKE_NVML_GPUS", "2"));
    assert_lines(
        &ended.stderr,
        &format!(
            "cupeer: --deny-peer '0/4', column 3: there is no device '4'; there are 0 ({FIRST}, 0000:1b:00.0) and 1 ({SECOND}, \
             0000:1e:00.0)\n"
        ),
    );
    assert_eq!(ended.status.code(), Some(125));
}

/// Settings for another machine name devices by their UUIDs.
#[test]
fn devices_are_named_whole_without_nvml() {
    let pair = format!("{FIRST}/1e:00.0");
    assert_eq!(denied(&mut support::with(&["env", "--deny-peer", &pair])), format!("{FIRST}/00000000:1E:00.0"));
    let ended = done(&mut support::with(&["env", "--deny-peer", "0/1", "--format", "sh"]));
    assert!(
        ended.stderr.starts_with(
            "cupeer: --deny-peer '0/1', column 1: cannot find out which device '0' is (libnvidia-ml.so.1: "
        ) && ended.stderr.ends_with("); name devices by UUID, as 'nvidia-smi -L' prints them\n"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_topology_file_denies_the_pairs_without_access() {
    let directory = support::temp_dir();
    let file = directory.path().join("apart.toml");
    let path = file.to_str().unwrap();
    let links =
        "[[link]]\nfrom = 0\nto = 3\nkind = \"none\"\nboth = true\n[[link]]\nfrom = 1\nto = 0\ncan_access = false\n";
    fs::write(&file, format!("count = 4\n{links}")).unwrap();
    let wanted = format!("{FIRST}/{FOURTH},{SECOND}/{FIRST}:oneway");
    assert_eq!(denied(&mut support::with(&["env", "--sim=nvlink:4", "--deny-peer", path])), wanted);
    // On a machine with other UUIDs, the devices are those with the same indices.
    let mut command = support::with(&["env", "--deny-peer", path]);
    assert_eq!(denied(command.env("LD_LIBRARY_PATH", nvml()).env("FAKE_NVML_GPUS", "4")), wanted);
    fs::write(&file, "count = 4\n").unwrap();
    let sentence = format!(
        "--deny-peer '{path}': it denies nothing: all its devices reach each other, and 'cupeer doctor --p2p' has \
         found no link bad; a [[link]] of kind = \"none\" makes a pair that does not"
    );
    refused(&["run", "--sim=nvlink:4", "--deny-peer", path, "true"], &sentence);
    fs::write(&file, format!("count = 4\n{links}")).unwrap();
    let ended = done(&mut support::with(&["run", "--sim=nvlink:2", "--deny-peer", path, "true"]));
    assert!(ended.stderr.contains("': it has 4 devices, but here are 0 ("), "{}", ended.stderr);
}

#[test]
fn errors_name_their_column() {
    for (peers, sentence) in [
        ("0", "column 1: a pair is two devices with a '/' between them, such as 0/1"),
        ("0/1,", "column 5: a pair of devices is missing here, such as 0/1"),
        ("0/1,1/1", "column 7: a pair has two devices, but '1' is the first one again"),
        ("all,0/1", "column 1: 'all' means all pairs, and cannot be combined with others"),
    ] {
        refused(&["run", "--sim", "--deny-peer", peers, "true"], &format!("--deny-peer '{peers}', {sentence}"));
    }
}

/// From the option to the call, and what is said in the end.
#[test]
fn a_run_says_what_it_denied_and_what_it_cannot_mask() {
    let denied = program("denied.c", &["-ldl"]);
    let state = temp_dir();
    DirBuilder::new().mode(0o700).create(state.path().join("cupeer")).unwrap();
    let run = |peers: &str| {
        let mut command = support::with(&["run", "--sim=nvlink:3", "--record", "off", "--deny-peer", peers, "--"]);
        done(command.arg(&denied).arg("cuda").env("XDG_STATE_HOME", state.path()))
    };
    let ended = run("0/1:oneway");
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stdout.contains("\n0 1: can=0 ") && ended.stdout.contains("\n1 0: can=1 "), "{}", ended.stdout);
    let counted = format!("cupeer: deny-peer/1 ({FIRST}/{SECOND}:oneway): denied 7 calls\n");
    assert_lines(&ended.stderr, &format!("{counted}{UNMASKED}"));
    // It is the same for each run: once a day is enough.
    assert_lines(&run("0/1:oneway").stderr, &counted);
    let mut nothing =
        support::with(&["run", "--sim", "--record", "off", "--deny-peer", "all", "--unused-exitcode", "9"]);
    let ended = done(nothing.args(["--", "true"]).env("XDG_STATE_HOME", state.path()));
    assert_eq!(ended.status.code(), Some(9));
    let nothing = "cupeer: nothing was denied: no call asked about or tried any pair of devices\n";
    let why = "cupeer: exits with 9, because no pair of devices was asked about or tried (--unused-exitcode)\n";
    assert_lines(&ended.stderr, &[nothing, why].concat());
    // The way back of a pair is the pair.
    let mut twice = support::with(&["run", "--sim=nvlink:3", "--record", "off", "--deny-peer", "0/1,1/0"]);
    let ended = done(twice.args(["--unused-exitcode", "9", "--"]).arg(&denied).arg("cuda"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let again = format!("cupeer: deny-peer/2 ({SECOND}/{FIRST}): an earlier pair denies it already\n");
    assert!(ended.stderr.contains(&again), "{}", ended.stderr);
}

/// Its verdict would be read by later runs that deny nothing.
#[test]
fn vllm_keeps_its_verdict_in_the_job() {
    let record = support::temp_dir();
    let out = record.path().join("job");
    let mut command = support::with(&["run", "--sim", "--out"]);
    command.arg(&out).args(["--record", "full", "--deny-peer", "all"]);
    let ended = done(command.args(["--", "sh", "-c", "printf %s \"$VLLM_CACHE_ROOT\""]));
    assert_eq!(ended.stdout, out.join("vllm-cache").to_str().unwrap());
    let ended = done(support::with(&["run", "--sim", "--record", "off", "--deny-peer", "all", "--"]).args([
        "sh",
        "-c",
        "printf %s \"$VLLM_CACHE_ROOT\"; test -d \"$VLLM_CACHE_ROOT\"",
    ]));
    assert!(ended.status.success() && ended.stdout.contains("cupeer-vllm-"), "{}", ended.stdout);
    assert!(!fs::exists(&ended.stdout).unwrap(), "{}", ended.stdout);
    let mut plain = support::with(&["run", "--sim", "--record", "off", "--"]);
    assert_eq!(stdout(plain.args(["sh", "-c", "printf %s \"$VLLM_CACHE_ROOT\""])), "");
    let mut chosen = support::with(&["run", "--sim", "--record", "off", "--deny-peer", "all", "--"]);
    let ended = done(chosen.env("VLLM_CACHE_ROOT", "/mine").args(["sh", "-c", "printf %s \"$VLLM_CACHE_ROOT\""]));
    assert_eq!(ended.stdout, "/mine");
    assert!(
        ended.stderr.starts_with("cupeer: VLLM_CACHE_ROOT is set: vLLM caches what it finds out about peers in /mine (gpu_p2p_access_cache_for_*.json)"),
        "{}",
        ended.stderr
    );
}
