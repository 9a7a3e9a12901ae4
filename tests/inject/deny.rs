//! Denied peers: the same to every question and every attempt, of CUDA and of NVML, and nothing else changes.

use crate::check::scenes::told_driver;
use crate::programs::{nvml, program};
use crate::support::{self, assert_lines, done, stdout};
use cupeer_spec::env;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// The UUID of a device of the simulated driver, and of the fake NVML.
fn uuid(index: usize) -> String {
    format!("GPU-c09ee200-5130-4d0e-b00d-0000000000{index:02x}")
}

/// Its PCI address.
fn pci(index: usize) -> String {
    format!("0000:{:02x}:00.0", 0x1b + 3 * index)
}

/// A machine of `gpus` devices, of which some pairs are denied.
struct Machine<'a> {
    gpus: usize,
    deny: &'a str,
    /// Returns true if one device cannot reach the other one.
    denied: &'a dyn Fn(usize, usize) -> bool,
}

impl Machine<'_> {
    /// The program, on the simulated driver and the fake NVML.
    fn command(&self, args: &[&str]) -> Command {
        let libraries = std::env::join_paths([support::sim_dir(), nvml()]).unwrap();
        let mut command = support::plain(program("denied.c", &["-ldl"]));
        command.args(args).env("LD_LIBRARY_PATH", libraries).env("LD_PRELOAD", support::preload_library());
        command.env(env::SIM, format!("nvlink:{}", self.gpus)).env("FAKE_NVML_GPUS", self.gpus.to_string());
        if !self.deny.is_empty() {
            command.env(env::DENY_PEER, self.deny);
        }
        command
    }

    fn touched(&self, device: usize) -> bool {
        (0..self.gpus).any(|other| device != other && ((self.denied)(device, other) || (self.denied)(other, device)))
    }

    /// Returns the program's output about CUDA's answers, for a process that sees these devices.
    fn cuda(&self, visible: &[usize]) -> String {
        let mut text = String::new();
        for (i, device) in visible.iter().enumerate() {
            writeln!(text, "device {i}: {device}").unwrap();
        }
        for (i, from) in visible.iter().enumerate() {
            let multicast = i32::from(self.gpus > 1 && !self.touched(*from));
            writeln!(text, "{i}: multicast={multicast} warp=32").unwrap();
            for (j, to) in visible.iter().enumerate().filter(|(j, _)| *j != i) {
                let answers = match (self.denied)(*from, *to) {
                    true => "can=0 attributes=0,0,0,0,0 atomics=0,0 enable=217 disable=705",
                    false => "can=1 attributes=0,1,1,1,0 atomics=0,0 enable=0 disable=0",
                };
                writeln!(text, "{i} {j}: {answers}").unwrap();
            }
        }
        let pair = if visible.len() > 1 { " flags=1 no-output=1 attribute=1" } else { "" };
        writeln!(text, "null=201 self=217{pair} device=101").unwrap();
        text
    }

    /// Returns true if a link of a device is hidden: it is behind a switch, or leads in turn to one of the other devices.
    fn hidden(&self, device: usize, link: usize, direct: bool) -> bool {
        let other = link % (self.gpus - 1);
        let other = if other < device { other } else { other + 1 };
        let pair = || (self.denied)(device, other) || (self.denied)(other, device);
        if direct { pair() } else { self.touched(device) }
    }

    /// Returns the program's output about NVML's answers.
    fn nvml(&self, direct: bool) -> String {
        let mut text = String::new();
        for i in 0..self.gpus {
            for j in 0..self.gpus {
                let answers = match (i == j, (self.denied)(i, j)) {
                    (true, _) => "p2p=0,0,0,0,5,0 ancestor=0",
                    (false, true) => "p2p=5,5,5,5,5,5 ancestor=50",
                    (false, false) => "p2p=0,0,0,0,5,0 ancestor=40",
                };
                writeln!(text, "{i} {j}: {answers}").unwrap();
            }
            let links = |there, not| {
                (0..18).map(|link| if self.hidden(i, link, direct) { not } else { there }).collect::<String>()
            };
            let (ones, zeros) = (links('1', '0'), links('0', '3'));
            writeln!(
                text,
                "{i}: state={ones} capability={ones} remote={zeros} older={zeros} type={zeros} field={ones} speed={ones}"
            )
            .unwrap();
            let left = ones.matches('1').count();
            let speed = if left == 0 { 0 } else { 26562 };
            let fabric = match self.touched(i) {
                true => "fabric=0,0,0 fabric-v=0,0,0,0,0 0,0,0,0",
                false => "fabric=3,9,1 fabric-v=3,9,1,0x1555,1 3,9,1,0x1555",
            };
            writeln!(text, "{i}: links={left} common-speed={speed} c2c=7 {fabric}").unwrap();
        }
        text + "no-output=2,2 link=2,2,2 field=-2 version=2\n"
    }

    #[track_caller]
    fn check(&self) {
        let all: Vec<usize> = (0..self.gpus).collect();
        assert_lines(&stdout(&mut self.command(&["cuda"])), &self.cuda(&all));
        for direct in [false, true] {
            let links = if direct { "direct" } else { "switch" };
            let mut command = self.command(&["nvml"]);
            assert_lines(&stdout(command.env("FAKE_NVML_LINKS", links)), &self.nvml(direct));
        }
    }
}

fn is_pair(a: usize, b: usize) -> impl Fn(usize, usize) -> bool {
    move |from, to| (from, to) == (a, b) || (from, to) == (b, a)
}

#[test]
fn nothing_is_changed_where_nothing_is_denied() {
    Machine { gpus: 4, deny: "", denied: &|_, _| false }.check();
}

#[test]
fn all_pairs() {
    Machine { gpus: 4, deny: "all", denied: &|from, to| from != to }.check();
    Machine { gpus: 2, deny: "all", denied: &|from, to| from != to }.check();
}

#[test]
fn one_pair_alone_by_uuid_and_by_address() {
    for deny in [
        format!("{}/{}", uuid(0), uuid(1)),
        format!("{}/{}", pci(1), pci(0)),
        format!("{}/{}", uuid(0).to_uppercase(), &pci(1)[5..]),
    ] {
        Machine { gpus: 4, deny: &deny, denied: &is_pair(0, 1) }.check();
    }
}

#[test]
fn several_pairs_and_one_direction() {
    let deny = format!("{}/{}:oneway,{}/{}", uuid(2), uuid(0), uuid(1), pci(3));
    let denied = |from, to| (from, to) == (2, 0) || is_pair(1, 3)(from, to);
    Machine { gpus: 4, deny: &deny, denied: &denied }.check();
}

#[test]
fn devices_stay_what_they_are_whatever_a_process_sees() {
    let deny = format!("{}/{}", uuid(1), uuid(3));
    let machine = Machine { gpus: 4, deny: &deny, denied: &is_pair(1, 3) };
    for (visible, order) in [("3,1,0,2", &[3, 1, 0, 2][..]), ("0,3", &[0, 3]), ("1,3", &[1, 3]), ("2", &[2])] {
        let mut command = machine.command(&["cuda"]);
        assert_lines(&stdout(command.env("CUDA_VISIBLE_DEVICES", visible)), &machine.cuda(order));
        // NVML has them all, in its own order.
        let mut command = machine.command(&["nvml"]);
        assert_lines(&stdout(command.env("CUDA_VISIBLE_DEVICES", visible)), &machine.nvml(false));
    }
}

#[test]
fn threads_and_children_are_answered_alike() {
    let machine = Machine { gpus: 3, deny: "all", denied: &|from, to| from != to };
    let text = stdout(&mut machine.command(&["threads"]));
    let pairs = text.matches("p2p=5,5,5,5,5,5 ancestor=50 can=0 attributes=0,0,0,0,0 atomics=0,0").count();
    assert_eq!((pairs, text.contains("child: p2p=5,5,5,5,5,5 ancestor=50\n")), (6, true), "{text}");
}

/// Output of `ipc` about an opening that is not denied, and about one that is.
const OPENED: &str = "memory=0 output=mapped again=0 close=0,0 event=0 output=opened flags=1 no-output=1";
const DENIED: &str = "memory=217 output=untouched event=217 output=untouched flags=1 no-output=1";
/// The same of memory alone.
const DENIED_MEMORY: &str = "memory=217 output=untouched event=0 output=opened flags=1 no-output=1";

#[track_caller]
fn opens(command: &mut Command, wanted: &str) {
    let text = stdout(command);
    assert_eq!(text.lines().last(), Some(wanted), "{text}");
}

/// Handles of the other device, opened by a process that sees both devices, or its own alone.
#[test]
fn handles_of_a_denied_device_cannot_be_opened() {
    let (pair, other) = (format!("{}/{}", uuid(0), uuid(1)), format!("{}/{}", uuid(1), uuid(0)));
    for (deny, visible, exporter, wanted) in [
        (pair.as_str(), "0,1,2", "1", DENIED),
        (&pair, "0", "1", DENIED),
        (&pair, "0", "2,1", OPENED),
        (&pair, "1", "1", OPENED),
        (&format!("{pair}:oneway"), "0", "1", DENIED),
        (&format!("{other}:oneway"), "0", "1", OPENED),
        (&format!("{}/{}", pci(0), pci(1)), "0,1", "1", DENIED),
        ("all", "2", "1", DENIED),
        ("all", "2", "2", OPENED),
        ("", "0", "1", OPENED),
    ] {
        let record = support::temp_dir();
        let machine = Machine { gpus: 3, deny, denied: &|_, _| false };
        let mut command = machine.command(&["ipc", "0", exporter]);
        command.env("CUDA_VISIBLE_DEVICES", visible).env(env::OUT, record.path()).env(env::RECORD, "full");
        println!("{deny} {visible} {exporter}");
        opens(&mut command, wanted);
    }
}

/// Returns the output of `granted` about access to memory of a device, for each device: 0 or 101, and the permitted access.
fn access(machine: &Machine, visible: &[usize], of: usize) -> String {
    let each = visible.iter().enumerate().map(|(i, device)| match (machine.denied)(*device, of) {
        true => format!(" {i}:101,0"),
        false => format!(" {i}:0,3"),
    });
    each.collect::<String>() + "\n"
}

fn granted(machine: &Machine, args: &[&str]) -> Command {
    linked(machine, "granted.c", args)
}

/// A program that is linked to the simulated driver.
fn linked(machine: &Machine, source: &str, args: &[&str]) -> Command {
    let driver = support::sim_dir().join("libcuda.so");
    let mut command = machine.command(args);
    let mut granted = support::plain(program(source, &[driver.to_str().unwrap()]));
    granted.args(args);
    for (name, value) in command.env("LD_LIBRARY_PATH", support::sim_dir()).get_envs() {
        granted.env(name, value.unwrap_or_default());
    }
    granted
}

#[test]
fn a_denied_device_gets_no_access_to_virtual_memory() {
    let all = |from, to| from != to;
    let oneway = |from, to| (from, to) == (1, 0);
    let pair = format!("{}/{}:oneway", uuid(1), uuid(0));
    for (deny, denied, last) in [
        ("", (&|_, _| false) as &dyn Fn(usize, usize) -> bool, "both=0 first=3 taken=0 two=0,0"),
        ("all", &all, "both=101 first=0 taken=0 two=101,101"),
        (&pair, &oneway, "both=101 first=0 taken=0 two=0,101"),
        (&format!("{}/{}", pci(0), pci(1)), &is_pair(0, 1), "both=101 first=0 taken=0 two=101,101"),
    ] {
        let machine = Machine { gpus: 3, deny, denied };
        let of = |device| format!("of {device}:{}", access(&machine, &[0, 1, 2], device));
        let wrong = " half=1 null=1 flags=1 device=1 nowhere=1\n";
        let wanted = (0..3).map(of).collect::<String>() + last + wrong;
        assert_lines(&stdout(&mut granted(&machine, &[])), &wanted);
    }
}

/// Imports succeed; whose memory they are, the driver says, or where this process does not see the device, the record.
#[test]
fn a_denied_device_gets_no_access_to_what_was_imported() {
    let pair = format!("{}/{}", uuid(0), uuid(1));
    for (deny, denied, visible, order, exporter, alone, record) in [
        ("", (&|_, _| false) as &dyn Fn(usize, usize) -> bool, "0,1", &[0, 1][..], 1, false, false),
        ("all", &|a, b| a != b, "0,1,2", &[0, 1, 2], 1, false, false),
        ("all", &|a, b| a != b, "2,1", &[2, 1], 1, true, false),
        (&pair, &is_pair(0, 1), "1,0,2", &[1, 0, 2], 0, false, false),
        (&format!("{pair}:oneway"), &|a, b| (a, b) == (0, 1), "0,1", &[0, 1], 1, false, false),
        (&format!("{pair}:oneway"), &|a, b| (a, b) == (0, 1), "0,1", &[0, 1], 0, false, false),
        (&pair, &is_pair(0, 1), "0", &[0], 1, false, true),
        (&pair, &is_pair(0, 1), "0", &[0], 2, false, true),
        ("all", &|a, b| a != b, "0", &[0], 1, false, true),
        // Nobody knows.
        (&pair, &|_, _| false, "0", &[0], 1, false, false),
        (&pair, &|_, _| false, "0", &[0], 1, true, true),
    ] {
        let machine = Machine { gpus: 3, deny, denied };
        let exporting = exporter.to_string();
        let args: &[&str] = if alone { &[&exporting, "alone"] } else { &[&exporting] };
        let directory = support::temp_dir();
        let mut command = granted(&machine, args);
        command.env("CUDA_VISIBLE_DEVICES", visible);
        if record {
            command.env(env::OUT, directory.path()).env(env::RECORD, "full");
        }
        println!("{deny} {visible} {exporter} {alone} {record}");
        assert_lines(&stdout(&mut command), &format!("import=0{}", access(&machine, order, exporter)));
    }
}

/// The owner of a pool decides, with and without a recording. For an imported pool, the recording knows it.
#[test]
fn a_denied_device_gets_no_access_to_pools() {
    let all = |from, to| from != to;
    let oneway = |from, to| (from, to) == (1, 0);
    let pair = format!("{}/{}:oneway", uuid(1), uuid(0));
    for (deny, denied, both) in [
        ("", (&|_, _| false) as &dyn Fn(usize, usize) -> bool, "both=0"),
        ("all", &all, "both=101"),
        (&pair, &oneway, "both=101"),
    ] {
        let machine = Machine { gpus: 2, deny, denied };
        let of = |device| format!("of {device}:{}", access(&machine, &[0, 1], device));
        let default = format!("default:{}", access(&machine, &[0, 1], 0));
        // The driver refuses what is wrong itself: 801 is CUDA_ERROR_NOT_SUPPORTED.
        let wrong = " read=801 null=1 device=101\n";
        let wanted = of(0) + &of(1) + &default + both + wrong;
        let directory = support::temp_dir();
        for record in [false, true] {
            let mut command = linked(&machine, "pool_granted.c", &[]);
            if record {
                command.env(env::OUT, directory.path()).env(env::RECORD, "full");
            }
            assert_lines(&stdout(&mut command), &wanted);
        }
        let mut command = linked(&machine, "pool_granted.c", &["1"]);
        command.env(env::OUT, directory.path()).env(env::RECORD, "full");
        assert_lines(&stdout(&mut command), &format!("import=0{}", access(&machine, &[0, 1], 1)));
    }
}

/// If the exporter is unknown, the handle of its memory says on which GPU it is. That of an event does not.
#[test]
fn memory_of_a_stranger_is_known_by_its_handle() {
    for (deny, visible, exporter, wanted) in [
        ("all", "0,1,2", "1", DENIED_MEMORY),
        ("all", "0,1,2", "0", OPENED),
        (&format!("{}/{}", uuid(0), uuid(1)), "0,1,2", "1", DENIED_MEMORY),
        (&format!("{}/{}", uuid(0), uuid(2)), "0,1,2", "1", OPENED),
        (&format!("{}/{}", pci(0), pci(1)), "1,0", "0", DENIED_MEMORY),
        // This process does not see the device, and there is no kernel module that lists it.
        ("all", "0", "1", OPENED),
    ] {
        let machine = Machine { gpus: 3, deny, denied: &|_, _| false };
        for record in [false, true] {
            let directory = support::temp_dir();
            let mut command = machine.command(&["ipc", "0", exporter, "alone"]);
            command.env("CUDA_VISIBLE_DEVICES", visible);
            if record {
                command.env(env::OUT, directory.path()).env(env::RECORD, "full");
            }
            println!("{deny} {visible} {exporter} {record}");
            opens(&mut command, wanted);
        }
    }
}

#[test]
fn multicast_goes_with_any_denied_pair() {
    for (deny, wanted) in [("", "111"), ("all", "000"), (&format!("{}/{}:oneway", uuid(0), uuid(2)), "010")] {
        let machine = Machine { gpus: 3, deny, denied: &|_, _| false };
        let mut command = machine.command(&["cuda"]);
        let text = stdout(command.env("LD_LIBRARY_PATH", told_driver()).env("MULTICAST", "1"));
        let words = text.split_whitespace().filter_map(|word| word.strip_prefix("multicast="));
        assert_eq!(words.collect::<String>(), wanted, "{deny}");
    }
}

/// A process joins an object of another process with a device that has no multicast.
#[test]
fn multicast_objects_go_with_any_denied_pair() {
    let done = "create=0 add=0,0 again=1 bind=0,0 holds=7,7 unbound=1 write=1\n";
    let pair = format!("{}/{}:oneway", uuid(0), uuid(2));
    for (deny, devices, wanted) in [
        ("", ["0", "1"], done),
        ("all", ["0", "1"], "create=801\n"),
        (&pair, ["1", "3"], done),
        (&pair, ["2", "1"], "create=801\n"),
        (&pair, ["1", "0"], "create=0 add=0,801 again=1\n"),
    ] {
        let machine = Machine { gpus: 4, deny, denied: &|_, _| false };
        println!("{deny} {devices:?}");
        assert_lines(&stdout(&mut linked(&machine, "multicast.c", &devices)), wanted);
    }
}

#[test]
fn a_context_has_no_more_peers_than_the_limit() {
    for (limit, wanted) in [
        (
            "0",
            "enable=711,711,711 again=711 disable=705 last=711 first=711\nanother context: 711\n\
             after reset=711,711,711\n",
        ),
        ("1", "enable=0,711,711 again=704 disable=0 last=0 first=711\nanother context: 0\nafter reset=0,711,711\n"),
        ("2", "enable=0,0,711 again=704 disable=0 last=0 first=711\nanother context: 0\nafter reset=0,0,711\n"),
        ("9", "enable=0,0,0 again=704 disable=0 last=704 first=0\nanother context: 0\nafter reset=0,0,0\n"),
    ] {
        let machine = Machine { gpus: 4, deny: "", denied: &|_, _| false };
        let text = stdout(machine.command(&["peers"]).env(env::PEER_LIMIT, limit));
        assert!(text.ends_with(wanted), "{limit}: {text}");
    }
    // A denied pair is denied all the same, and takes no place.
    let deny = format!("{}/{}", uuid(0), uuid(1));
    let machine = Machine { gpus: 4, deny: &deny, denied: &|_, _| false };
    let text = stdout(machine.command(&["peers"]).env(env::PEER_LIMIT, "1"));
    assert!(text.contains("enable=217,0,711 again=217 disable=705 last=711 first=217\n"), "{text}");
}

/// Opening a handle makes a device a peer.
#[test]
fn the_limit_holds_for_what_is_opened() {
    const TOO_MANY: &str = "memory=711 output=untouched event=0 output=opened flags=1 no-output=1";
    for (limit, exporter, wanted) in [("0", "1", TOO_MANY), ("1", "1", OPENED), ("0", "0", OPENED)] {
        let record = support::temp_dir();
        let machine = Machine { gpus: 2, deny: "", denied: &|_, _| false };
        let mut command = machine.command(&["ipc", "0", exporter]);
        command.env(env::PEER_LIMIT, limit).env(env::OUT, record.path()).env(env::RECORD, "full");
        opens(&mut command, wanted);
    }
}

/// One message, and nothing is denied.
#[test]
fn unknown_devices_deny_nothing() {
    let machine = Machine { gpus: 2, deny: "", denied: &|_, _| false };
    for (name, value, sentence) in [
        (
            env::DENY_PEER,
            "0/1",
            "CUPEER_DENY_PEER=0/1 is not valid: column 1: '0' is neither a UUID (GPU-...) nor a PCI address (0000:1b:00.0); nothing is denied",
        ),
        (
            env::DENY_PEER,
            "all,",
            "CUPEER_DENY_PEER=all, is not valid: column 1: 'all' means all pairs, and cannot be combined with others; nothing is denied",
        ),
        (env::PEER_LIMIT, "-1", "CUPEER_PEER_LIMIT=-1 is not valid: must be a number of peers; there is no limit"),
    ] {
        let ended = done(machine.command(&["cuda"]).env(name, value));
        assert_lines(&ended.stderr, &format!("cupeer: {sentence}\n"));
        assert_lines(&ended.stdout, &machine.cuda(&[0, 1]));
    }
}

/// Nothing is asked of an NVML that the program has not called, and of one that it has, each device once.
#[test]
fn devices_are_asked_for_once() {
    let asked = |args: &[&str], deny| {
        let directory = support::temp_dir();
        let file = directory.path().join("asked");
        let machine = Machine { gpus: 2, deny, denied: &|_, _| false };
        stdout(machine.command(args).env("FAKE_NVML_ASKED", &file));
        std::fs::read_to_string(&file).unwrap_or_default()
    };
    assert_eq!(asked(&["nvml"], ""), "");
    assert_eq!(asked(&["cuda"], "all"), "");
    assert_eq!(asked(&["nvml"], "all").matches("nvmlDeviceGetUUID\n").count(), 2);
}

/// An answer of NVML's that is changed makes no record: a directory that no command can read does not stay.
#[test]
fn programs_that_only_call_nvml_leave_no_recording() {
    let text = "#include <stdio.h>\nint nvmlInit_v2(void); int nvmlDeviceGetHandleByIndex_v2(unsigned, void **);\n\
        int nvmlDeviceGetP2PStatus(void *, void *, int, int *);\n\
        int main(void) { int status; void *a, *b; nvmlInit_v2(); nvmlDeviceGetHandleByIndex_v2(0, &a);\n\
        nvmlDeviceGetHandleByIndex_v2(1, &b); nvmlDeviceGetP2PStatus(a, b, 0, &status); printf(\"%d\\n\", status); }";
    let alone = support::compile_text("nvml-alone", text, &[nvml().join("libnvidia-ml.so").to_str().unwrap()]);
    let folder = support::temp_dir();
    let out = folder.path().join("record");
    let mut command = support::with(&["run", "--deny-peer", "all", "--out"]);
    command.arg(&out).arg("--").arg(alone);
    let ended = support::done(command.env("LD_LIBRARY_PATH", nvml()).env("FAKE_NVML_GPUS", "2"));
    assert!(ended.stderr.contains("deny-peer/1 (all): denied 1 call"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("cupeer report"), "{}", ended.stderr);
    assert!(ended.stdout == "5\n" && ended.status.success() && !out.exists(), "{}", ended.stderr);
}

/// Calls of a program that links its libraries are denied in the same way.
#[test]
fn linked_calls_are_denied_too() {
    let linked = |soname: &str, folder: &Path| folder.join(soname).to_str().unwrap().to_owned();
    let text = "#include <stdio.h>\nint cuInit(unsigned); int cuDeviceCanAccessPeer(int *, int, int); int nvmlInit_v2(void);\n\
        int nvmlDeviceGetHandleByIndex_v2(unsigned, void **); int nvmlDeviceGetP2PStatus(void *, void *, int, int *);\n\
        int main(void) { int can, status; void *a, *b; cuInit(0); cuDeviceCanAccessPeer(&can, 0, 1); nvmlInit_v2();\n\
        nvmlDeviceGetHandleByIndex_v2(0, &a); nvmlDeviceGetHandleByIndex_v2(1, &b); nvmlDeviceGetP2PStatus(a, b, 0, &status);\n\
        printf(\"%d %d\\n\", can, status); return 0; }";
    let libraries = [linked("libcuda.so", &support::sim_dir()), linked("libnvidia-ml.so", &nvml())];
    let program = support::compile_text("linked-peers", text, &[&libraries[0], &libraries[1]]);
    for (deny, wanted) in [("", "1 0\n"), ("all", "0 5\n")] {
        let machine = Machine { gpus: 2, deny, denied: &|_, _| false };
        let mut command = support::plain(&program);
        for (name, value) in machine.command(&[]).get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        assert_eq!(stdout(&mut command), wanted, "{deny}");
    }
}
