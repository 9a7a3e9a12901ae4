//! `cupeer pack`: what goes into a packed record, what comes out of it, and what never does.

use crate::support::{compile_text, cupeer, done, plain, stdout, temp_dir};
use cupeer_record::event::Outcome;
use cupeer_record::writer::{self, About, Writer, call};
use cupeer_record::{Event, FaultCounts, Finding, Job, Library};
use cupeer_rules::Severity;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding;
use cupeer_spec::record::{BLOCK, META_START, SLOTS, live, meta};
use flate2::read::GzDecoder;
use object::{Object, ObjectSymbol};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

mod running;

/// A library with a C++ function by its name, and one that is not exported.
const SOURCE: &str = r#"
    int open_pool(int x) __asm__("_ZN4acme4poolIiE4openEi");
    int open_pool(int x) { return x + 1; }
    __attribute__((noinline)) static int hidden(int x) { __asm__ volatile(""); return x * 3; }
    int plain(int x) { return hidden(x) + 1; }
"#;

/// Options of the compiler.
const SHARED: [&str; 3] = ["-shared", "-fPIC", "-Wl,--build-id=sha1"];

/// Address of the library in the processes.
const BASE: u64 = 0x7f12_3400_0000;

/// Words that must not be in a file in which they are redacted.
const HOSTS: [&str; 2] = ["node17", "gpu-farm-2"];
const DIRECTORIES: [&str; 3] = ["alice", "wonderland", "looking-glass"];
const ARGUMENTS: [&str; 2] = ["train-me", "cheshire"];
const VALUES: [&str; 2] = ["wonderband0", "rabbit"];
/// Words that must not be in any file.
const SECRETS: [&str; 3] = ["000102030405060708090a0b0c0d0e0f", "api-secret", "torn-off"];

fn with(args: &[&str]) -> Command {
    let mut command = cupeer();
    command.args(args);
    command
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A record of two processes on two hosts, whose library lies beside it, stripped or whole.
fn record(at: &Path, flags: &[&str]) -> (PathBuf, BTreeMap<String, u64>) {
    let folder = at.join("alice/looking-glass");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("libpool.so");
    fs::copy(compile_text("pool", SOURCE, &SHARED), &path).unwrap();
    let bytes = fs::read(&path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let functions = file.symbols().filter(ObjectSymbol::is_definition);
    let functions: BTreeMap<String, u64> =
        functions.map(|symbol| (symbol.name().unwrap().to_owned(), BASE + symbol.address())).collect();
    let library = Library {
        base: BASE,
        range: BASE..BASE + (1 << 20),
        since: 0,
        build_id: file.build_id().unwrap().unwrap().to_vec(),
        path: text(&path).to_owned(),
    };
    if flags.contains(&"stripped") {
        assert!(plain("strip").arg(&path).status().unwrap().success());
    }
    let directory = at.join("record");
    fs::create_dir(&directory).unwrap();
    writer::write_job_file(&directory).unwrap();
    let joined = fs::read_to_string(directory.join("job")).unwrap()
        + "joined=node17.example:1\ncommand=python3 '/home/alice/looking-glass/a b.py' --token=cheshire node17:29500\n";
    fs::write(directory.join("job"), joined).unwrap();
    for (i, host) in ["node17.example", "gpu-farm-2"].iter().enumerate() {
        let about = About { pid: 1000 + i as u32, ..About::default() };
        process(&directory, about, host, &library, &functions);
    }
    let entry = live::Entry {
        key: 1,
        kind: live::kind::OPENED_MEMORY,
        pid: 1000,
        pid_ns: About::default().pid_ns,
        started: About::default().started,
        frame_count: 1,
        // A place that no call of the record has.
        frames: std::array::from_fn(|i| if i == 0 { functions["plain"] + 4 } else { 0 }),
        ..cupeer_spec::record::read_plain(&[0; size_of::<live::Entry>()]).unwrap()
    };
    let boot = About::default().boot_id;
    writer::write_live_table(&directory, boot, &[entry], 0).unwrap();
    let rule = FaultCounts {
        name: "inject/1".into(),
        text: "cuInit:program=cheshire*:thread=node17:caller=/home/alice/wonderland/libx.so:error=999".into(),
        matched: 7,
        fired: 3,
        processes: 0,
    };
    writer::write_fault_counts(&directory, (boot, 0xab), &[rule], 2, &[0x5a]).unwrap();
    (directory, functions)
}

fn process(directory: &Path, about: About, host: &str, library: &Library, functions: &BTreeMap<String, u64>) {
    let mut writer = Writer::create(directory, about.clone()).unwrap();
    writer.text("cupeer", "0.1.0").unwrap();
    writer.text("program", "/home/alice/train-me").unwrap();
    writer.text("host", host).unwrap();
    writer.text("directory", "/home/alice/wonderland").unwrap();
    for argument in ["/home/alice/train-me", "--token=cheshire", "--master=node17:29500"] {
        writer.argument(argument).unwrap();
    }
    for (name, value) in [
        ("RANK", "1"),
        ("NCCL_SOCKET_IFNAME", "wonderband0"),
        ("NCCL_DEBUG_FILE", "/home/alice/rabbit.log"),
        ("CUPEER_JOB", SECRETS[0]),
        ("VLLM_API_KEY", "api-secret"),
    ] {
        writer.variable(name, value).unwrap();
    }
    writer.library(library).unwrap();
    writer.escaped("deepbind", "/home/alice/wonderland/libescape.so").unwrap();
    let stream = writer.stream(about.pid).unwrap();
    // Two blocks, and some more.
    for i in 0..2 * SLOTS as u64 + 100 {
        let start = 2_000_000 + i * 1000;
        let mut call = call(FnId::cuDeviceCanAccessPeer, start, start + 500);
        call.caller = functions["_ZN4acme4poolIiE4openEi"] + 3;
        if i % 1000 == 0 {
            call.outcome = Outcome::Returned(101);
            let hidden = functions.get("hidden").copied().unwrap_or(BASE);
            call.details.frames = vec![call.caller, functions["plain"] + 2, hidden + 1];
            call.details.findings = vec![finding(functions["plain"] + 6)];
        }
        writer.call(stream, &call).unwrap();
    }
    writer.begin(stream, &call(FnId::cuCtxEnablePeerAccess, 9_000_000, 0)).unwrap();
    let path = writer.finish().unwrap();
    // Entry of a process that ends while it writes.
    let mut bytes = fs::read(&path).unwrap();
    let end = meta::entries(&bytes[..BLOCK], META_START).map(|entry| entry.at + entry.bytes.len()).last().unwrap();
    let torn = end.next_multiple_of(meta::ALIGN) + 8;
    bytes[torn..torn + 8].copy_from_slice(b"torn-off");
    fs::write(path, bytes).unwrap();
}

/// Returns a finding of a rule, about a place of which the first process has no entry.
fn finding(frame: u64) -> Finding {
    let About { pid_ns, started, .. } = About::default();
    let what = finding::FindingObject { pid: 1000, pid_ns, started, role: finding::role::EXPORT, ..Default::default() };
    Finding {
        confidence: finding::Confidence::Certain,
        severity: Severity::Error,
        argument: None,
        rule: "device-out-of-range".into(),
        message: "dev is 7".into(),
        hint: "Look.".into(),
        objects: vec![cupeer_record::FindingObject { what, frames: vec![frame] }],
    }
}

/// Packs a record, and gives the file and what was said.
fn pack(directory: &Path, args: &[&str]) -> (PathBuf, String) {
    let file = directory.with_file_name(format!("packed{}.cupeer.tar.gz", args.concat().replace(['-', ','], "")));
    let said = stdout(with(&["pack", text(directory), "-o", text(&file)]).args(args));
    (file, said)
}

/// The report without where the record lies.
fn report(path: &Path) -> Value {
    let mut report: Value =
        serde_json::from_str(&stdout(&mut with(&["report", text(path), "--format", "json"]))).unwrap();
    assert_eq!(report["record"]["path"], text(path));
    report["record"]["path"] = Value::Null;
    report
}

/// All bytes of an archive, and the names in it.
fn contents(file: &Path) -> (Vec<u8>, Vec<String>) {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(file).unwrap()).read_to_end(&mut bytes).unwrap();
    let mut archive = tar::Archive::new(&*bytes);
    let names = archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string());
    let names = names.collect();
    (bytes, names)
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_packed_record_says_what_the_record_says_and_names_functions_elsewhere() {
    let at = temp_dir();
    let (directory, _) = record(at.path(), &[]);
    let there = report(&directory);
    let stack = |report: &Value| -> Vec<String> {
        let stack = report["failures"][0]["stack"].as_array().unwrap().iter();
        stack.map(|place| place["function"].as_str().unwrap_or("-").to_owned()).collect()
    };
    assert_eq!(stack(&there), ["acme::pool<int>::open(int)+0x3", "plain+0x2", "hidden+0x1"]);
    let object = &there["findings"][0]["objects"][0];
    assert_eq!((&object["pid"], &object["stack"][0]["function"]), (&json!(1000), &json!("plain+0x6")));
    let (file, said) = pack(&directory, &[]);
    let start = format!("{} has 2 processes in ", file.display());
    assert!(said.starts_with(&start) && said.lines().count() == 1, "{said}");
    let end = ", with 2 names of hosts, paths, arguments and values of variables; --redact leaves them out\n";
    assert!(said.ends_with(end), "{said}");
    // Both the recording and the library are moved away.
    fs::rename(at.path().join("alice"), at.path().join("elsewhere")).unwrap();
    fs::rename(&directory, at.path().join("gone")).unwrap();
    assert_eq!(report(&file), there);
    let (bytes, names) = contents(&file);
    let of = |pid: u32| format!("cupeer-record/{}.cupeer", About { pid, ..About::default() }.proc());
    let folder = |name: &str| format!("cupeer-record/{name}");
    let (live, faults) = (folder("live-6120626f"), folder("faults-6120626f-000000ab"));
    let ours = [folder("symbols.json"), folder("pack.json")];
    assert_eq!(names, [&[folder("job"), of(1000), of(1001), live, faults], &ours[..]].concat());
    assert_eq!(
        (&there["faults"][0]["fired"], Job::open(&at.path().join("gone")).unwrap().faults[0].damaged.len()),
        (&json!(3), 1)
    );
    for secret in SECRETS {
        assert!(!holds(&bytes, secret), "{secret}");
    }
    // The place that only the table of what is open has.
    assert!(holds(&bytes, "\"plain\",4"));
}

#[test]
fn redacted_words_are_gone_and_calls_are_unchanged() {
    let at = temp_dir();
    let (directory, _) = record(at.path(), &[]);
    let all = [&HOSTS[..], &DIRECTORIES, &ARGUMENTS, &VALUES].concat();
    let whole = contents(&pack(&directory, &[]).0).0;
    for secret in &all {
        assert!(holds(&whole, secret), "{secret}");
    }
    let program: &[&str] = &["train-me"];
    for (what, gone, stays) in [
        ("arguments", &["cheshire", "29500"][..], &["wonderband0", "alice", "gpu-farm-2"][..]),
        ("environment", &VALUES[..], &["cheshire", "alice", "gpu-farm-2"]),
        ("hosts", &HOSTS[..], &["cheshire", "wonderband0", "alice", "host-1", "host-2"]),
        ("paths", &DIRECTORIES[..], &["cheshire", "wonderband0", "gpu-farm-2", "libpool.so", "train-me"]),
        ("hosts,paths", &[HOSTS[0], HOSTS[1], "alice"], program),
        ("all", &["alice", "cheshire", "wonderband0", "rabbit", "node17", "gpu-farm-2", "wonderland"], program),
    ] {
        let (file, _) = pack(&directory, &["--redact", what]);
        let (bytes, _) = contents(&file);
        let raw = fs::read(&file).unwrap();
        for gone in gone.iter().chain(&SECRETS) {
            assert!(!holds(&bytes, gone) && !holds(&raw, gone), "{what}: {gone} is there");
        }
        for stays in stays {
            assert!(holds(&bytes, stays), "{what}: {stays} is not there");
        }
        // The calls and their names are unchanged.
        let (before, after) = (report(&directory), report(&file));
        for part in ["functions", "handles", "peers", "devices"] {
            assert_eq!(after[part], before[part], "{what}: {part}");
        }
        assert_eq!(after["failures"][0]["stack"][2]["function"], "hidden+0x1", "{what}");
        assert_eq!(after["processes"][0]["rank"], 1, "{what}");
        let command = after["record"]["commands"][0].as_str();
        let is_kept = command.is_some_and(|command| command.starts_with("python3 ") && command.contains("b.py"));
        assert_eq!(is_kept, !what.contains("arguments") && what != "all", "{what}: {command:?}");
        assert_eq!((&after["faults"][0]["name"], &after["faults"][0]["fired"]), (&json!("inject/1"), &json!(3)));
    }
}

#[test]
fn a_packed_record_can_be_redacted_later() {
    let at = temp_dir();
    let (directory, _) = record(at.path(), &[]);
    let (file, _) = pack(&directory, &[]);
    fs::remove_dir_all(at.path().join("alice")).unwrap();
    let (again, said) = pack(&file, &["--redact", "all"]);
    assert!(!said.contains("--redact"), "{said}");
    assert!(!holds(&contents(&again).0, "alice"));
    assert_eq!(report(&again)["failures"][0]["stack"][2]["function"], "hidden+0x1");
}

#[test]
fn a_library_that_was_stripped_or_replaced_is_not_misnamed() {
    let at = temp_dir();
    let (directory, _) = record(at.path(), &["stripped"]);
    let functions = |path: &Path| {
        let report = report(path);
        let stack = report["failures"][0]["stack"].as_array().unwrap().iter();
        stack.map(|place| place["function"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(functions(&directory), ["acme::pool<int>::open(int)+0x3".into(), "plain+0x2".into(), Value::Null]);
    let other = compile_text("pool", &SOURCE.replace("x * 3", "x * 5"), &SHARED);
    fs::copy(other, at.path().join("alice/looking-glass/libpool.so")).unwrap();
    assert_eq!(functions(&directory), [Value::Null, Value::Null, Value::Null]);
    let (file, _) = pack(&directory, &[]);
    assert_eq!(functions(&file), [Value::Null, Value::Null, Value::Null]);
    assert!(holds(&contents(&file).0, "the file has changed since"));
}

#[test]
fn other_files_stay_out_and_recordings_of_hosts_are_one() {
    let at = temp_dir();
    let (directory, _) = record(at.path(), &[]);
    let second = directory.join("gpu-farm-2");
    fs::create_dir(&second).unwrap();
    let name = format!("{}.cupeer", About { pid: 1001, ..About::default() }.proc());
    fs::rename(directory.join(&name), second.join(&name)).unwrap();
    for stranger in ["notes.txt", "x.cupeer.tar.gz", ".job-1", "release-gate", ".faults-7"] {
        fs::write(directory.join(stranger), "stranger").unwrap();
    }
    fs::write(at.path().join("outside"), "stranger").unwrap();
    symlink(at.path().join("outside"), directory.join("link.cupeer")).unwrap();
    symlink(at.path(), directory.join("linked")).unwrap();
    fs::write(directory.join("broken.cupeer"), "stranger").unwrap();
    let file = at.path().join("packed.tar.gz");
    let ended = done(&mut with(&["pack", text(&directory), "-o", text(&file), "--redact", "hosts"]));
    assert_eq!(ended.status.code(), Some(0));
    let problems: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(
        problems,
        ["cupeer: link.cupeer is a link, and is left out", "cupeer: broken.cupeer is not the recording of a process",]
    );
    let (bytes, names) = contents(&file);
    assert!(!holds(&bytes, "stranger") && !holds(&bytes, "gpu-farm"));
    assert!(names.contains(&format!("cupeer-record/1/{name}")), "{names:?}");
    let report = report(&file);
    assert_eq!(report["processes"].as_array().unwrap().len(), 2);
    let said = report["record"]["problems"].to_string();
    assert!(said.contains("broken.cupeer is not the recording of a process (when it was packed)"), "{said}");
}

/// Checks the output of a wrong command line: one line, 125, and nothing on stdout.
#[track_caller]
fn refused(args: &[&str], sentence: &str) {
    let ended = done(&mut with(args));
    assert!(ended.stderr.starts_with(&format!("cupeer: {sentence}")), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(125), ""), "{args:?}");
}

#[test]
fn files_that_cannot_be_packed_or_unpacked_are_one_sentence() {
    let at = temp_dir();
    let (directory, _) = record(at.path(), &[]);
    let (file, _) = pack(&directory, &[]);
    let (record, packed) = (text(&directory), text(&file));
    let path = |name: &str| at.path().join(name).display().to_string();
    refused(&["pack", &path("no")], &format!("failed to read {}: No such file", path("no")));
    refused(&["pack", record, "-o", packed], &format!("{packed} exists; --force overwrites it"));
    assert!(done(&mut with(&["pack", record, "-o", packed, "--force"])).status.success());
    refused(&["pack", record, "-o", "/no/such/x"], "failed to write to /no/such: No such file");
    refused(&["pack", record, "--redact", "names"], "invalid value 'names' for '--redact <WHAT>' [possible");
    fs::create_dir(at.path().join("empty")).unwrap();
    refused(&["pack", &path("empty"), "-o", &path("o")], &format!("{} holds no recording of a process", path("empty")));
    fs::write(at.path().join("text"), "text").unwrap();
    refused(&["pack", &path("text"), "-o", &path("o")], &format!("{} is neither a directory nor", path("text")));
    refused(&["pack", packed], &format!("{packed} is a file; -o FILE names the one to write"));
    fs::write(at.path().join("empty/x.cupeer"), "").unwrap();
    let sentence = format!("{} holds no recording of a process: x.cupeer is empty", path("empty"));
    refused(&["pack", &path("empty"), "-o", &path("o")], &sentence);
    let whole = fs::read(&file).unwrap();
    fs::write(at.path().join("half.cupeer.tar.gz"), &whole[..whole.len() / 2]).unwrap();
    let half = path("half.cupeer.tar.gz");
    refused(&["report", &half], &format!("failed to unpack {half}: "));
    let left: Vec<_> = fs::read_dir(at.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.as_encoded_bytes().starts_with(b".cupeer-pack")), "{left:?}");
    // The default name is that of the directory.
    stdout(with(&["pack", record]).current_dir(at.path()));
    assert!(at.path().join("record.cupeer.tar.gz").is_file());
}

#[test]
fn archives_that_reach_elsewhere_are_refused() {
    let at = temp_dir();
    let file = at.path().join("evil.cupeer.tar.gz");
    let temporary = at.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    for (name, kind) in [
        ("cupeer-record/../../evil.cupeer", tar::EntryType::Regular),
        ("../evil.cupeer", tar::EntryType::Regular),
        ("cupeer-record/evil.cupeer", tar::EntryType::Symlink),
        ("cupeer-record/evil.sh", tar::EntryType::Regular),
    ] {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_link_name("/etc/passwd").unwrap();
        header.set_cksum();
        let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        archive.append(&header, std::io::empty()).unwrap();
        fs::write(&file, archive.into_inner().unwrap().finish().unwrap()).unwrap();
        let ended = done(with(&["report", text(&file)]).env("TMPDIR", &temporary));
        let sentence =
            format!("cupeer: failed to unpack {}: \"{name}\" does not belong in a packed recording\n", file.display());
        assert_eq!((ended.status.code(), ended.stderr), (Some(125), sentence));
        assert_eq!((fs::read_dir(&temporary).unwrap().count(), fs::read_dir(at.path()).unwrap().count()), (0, 2));
    }
}

/// All events of a packed record, by process and stream: their numbers.
fn numbers(job: &Job) -> BTreeMap<(String, u32), Vec<u64>> {
    let mut numbers: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for process in &job.processes {
        for event in process.events().unwrap() {
            if let Event::Call(call) = event {
                numbers.entry((process.proc.clone(), call.stream)).or_default().push(call.seq);
            }
        }
    }
    numbers
}
