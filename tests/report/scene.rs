//! Records to report about: processes that do what a test says, written as libcupeer.so writes them.

use crate::support;
use cupeer_record::writer::{self, About, Writer};
use cupeer_record::{Call, Details, Device, FaultCounts, Finding, FiredFault, Library, Outcome, host};
use cupeer_rules::Severity;
use cupeer_spec::function::FnId;
use cupeer_spec::record::live;
use cupeer_spec::record::slot::finding::Confidence;
use cupeer_spec::record::slot::{self, shape};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A directory with a record.
pub struct Scene {
    folder: tempfile::TempDir,
}

/// A process of it.
pub struct Actor {
    writer: Option<Writer>,
    pub stream: u32,
    pub about: About,
    tid: u32,
}

/// When all records begin, on the clocks that they have.
pub const BEGAN: u64 = 1_000_000;
/// The same in nanoseconds since 1970.
pub const BEGAN_NS: u64 = 1_700_000_000_000_000_000;
/// Address of the program in all processes.
pub const CODE: u64 = 0x55_0000;
/// Address of the runtime, in processes that have one.
pub const RUNTIME: u64 = 0x66_0000;

impl Scene {
    pub fn new() -> Self {
        let folder = support::temp_dir();
        let scene = Scene { folder };
        fs::create_dir(scene.dir()).expect("a directory");
        writer::write_job_file(&scene.dir()).expect("a job");
        scene
    }

    /// The record.
    pub fn dir(&self) -> std::path::PathBuf {
        self.folder.path().join("cupeer-run-1")
    }

    /// Writes what a plan did that all processes were under: the rules `inject/1` and so on, with how many calls each
    /// matched and at how many it fired, and the fingerprints of damaged handles.
    pub fn faults(&self, rules: &[(&str, u64, u64)], damaged: &[u64]) {
        let rule = |((text, matched, fired), number): (&(&str, u64, u64), u32)| {
            let name = format!("inject/{number}");
            let text = format!("{text}:name={name}");
            FaultCounts { name, text, matched: *matched, fired: *fired, processes: 0 }
        };
        let rules: Vec<FaultCounts> = rules.iter().zip(1..).map(rule).collect();
        writer::write_fault_counts(&self.dir(), (About::default().boot_id, 0xab), &rules, 4, damaged).expect("a file");
    }

    /// Returns its directory.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A process of another host that has a rank, and sees two devices.
    pub fn rank(&self, rank: u32) -> Actor {
        let actor = self.process(About { pid: 1000 + rank, ..About::default() });
        actor.ranked(rank)
    }

    /// The same of this host, that has ended.
    pub fn gone(&self, rank: u32) -> Actor {
        self.process(About { pid: 1000 + rank, started: u64::MAX - 1, ..here() }).ranked(rank)
    }

    /// The same of this host, that runs: it is the test.
    pub fn running(&self, rank: u32) -> Actor {
        let stat = fs::read_to_string("/proc/self/stat").expect("it is there");
        let started = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19));
        let started = started.and_then(|text| text.parse().ok()).expect("when this began");
        self.process(About { pid: std::process::id(), started, ..here() }).ranked(rank)
    }

    /// Any process.
    pub fn process(&self, about: About) -> Actor {
        self.process_in(&self.dir(), about)
    }

    /// The same in another directory of the record.
    pub fn process_in(&self, dir: &Path, about: About) -> Actor {
        fs::create_dir_all(dir).expect("a directory");
        let mut writer = Writer::create(dir, about.clone()).expect("a recording");
        writer.text("program", "/opt/app/bin/train").expect("a text");
        writer.argument("train").expect("an argument");
        let library = Library {
            base: CODE,
            range: CODE..CODE + 0x1_0000,
            since: 0,
            build_id: vec![0xab, 0xcd],
            path: "/opt/app/bin/train".into(),
        };
        writer.library(&library).expect("a library");
        let tid = about.pid;
        let stream = writer.stream(tid).expect("a stream");
        let mut actor = Actor { writer: Some(writer), stream, about, tid };
        actor.device(0);
        actor.device(1);
        actor
    }

    /// Writes the table of what is open on the host of a process.
    pub fn table(&self, about: &About, entries: &[live::Entry]) {
        writer::write_live_table(&self.dir(), about.boot_id, entries, 0).expect("a table");
    }
}

/// Returns the facts that processes of this host share.
fn here() -> About {
    let (boot_id, pid_ns) = (host::boot_id().expect("it is there"), host::pid_ns().expect("it is there"));
    About { boot_id, pid_ns, ..About::default() }
}

/// A moment, microseconds after the begin.
pub fn us(us: u64) -> u64 {
    BEGAN + us * 1000
}

/// The same as reports have it.
pub fn at(us: u64) -> Value {
    json!(BEGAN_NS + us * 1000)
}

/// The stored bytes of a handle: both of its fingerprints.
pub fn handle(whole: u64, checked: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&whole.to_le_bytes());
    bytes[8..].copy_from_slice(&checked.to_le_bytes());
    bytes
}

/// Returns a finding of a rule that is certain, and about no argument.
pub fn found(rule: &str, severity: Severity, message: &str) -> Finding {
    Finding {
        confidence: Confidence::Certain,
        severity,
        argument: None,
        rule: rule.into(),
        message: message.into(),
        hint: "Do it right.".into(),
        objects: Vec::new(),
    }
}

/// Returns the effect of a rule of a fault plan.
pub fn hit(did: u16, rule: &str) -> FiredFault {
    FiredFault {
        what: slot::hit::FiredFault { did, process: 1, count: 1, ..Default::default() },
        fault_name: rule.into(),
    }
}

/// The fingerprint of the checked bytes of a handle that was not damaged.
pub fn checked(whole: u64) -> u64 {
    whole ^ 0xffff
}

impl Actor {
    /// The record in the making.
    pub fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("it has not ended")
    }

    fn ranked(mut self, rank: u32) -> Self {
        self.writer().variable("RANK", &rank.to_string()).expect("a variable");
        self.on("alpha")
    }

    /// Names its host.
    pub fn on(mut self, host: &str) -> Self {
        self.writer().text("host", host).expect("a text");
        self
    }

    /// Has it load the CUDA runtime.
    pub fn runtime(&mut self) {
        let path = "/opt/cuda/lib/libcudart.so.12".into();
        let library =
            Library { base: RUNTIME, range: RUNTIME..RUNTIME + 0x1_0000, since: 0, build_id: vec![0xef], path };
        self.writer().library(&library).expect("a library");
    }

    /// A call that succeeds, so many microseconds after the begin, and takes 10.
    pub fn makes(&self, function: FnId, at: u64) -> Call {
        let mut call = writer::call(function, us(at), us(at + 10));
        call.tid = self.tid;
        call.caller = CODE + 0x100 + function as u64;
        let device = self.about.pid as i32 % 2;
        call.details = Details { devices: (Some(device), None), context: Some(0xc0), ..Details::default() }.into();
        call
    }

    /// Adds a call.
    pub fn add(&mut self, call: &Call) -> &mut Self {
        let stream = self.stream;
        self.writer().call(stream, call).expect("room");
        self
    }

    /// Adds a call that does not return.
    pub fn hang(&mut self, call: &Call) -> &mut Self {
        let stream = self.stream;
        self.writer().begin(stream, call).expect("room");
        self
    }

    /// Begins a call that returns much later, and says its number.
    pub fn begins(&mut self, call: &Call) -> u64 {
        let stream = self.stream;
        self.writer().begin(stream, call).expect("room")
    }

    /// Ends it.
    pub fn returns(&mut self, number: u64, call: &Call) {
        let stream = self.stream;
        self.writer().end(stream, number, call).expect("room");
    }

    /// Exports memory: the handle has a fingerprint, the allocation an address and 2 MiB.
    pub fn export(&mut self, at: u64, fingerprint: u64, base: u64) -> &mut Self {
        let call = self.exporting(at, fingerprint, base);
        self.add(&call)
    }

    /// A call that exports memory.
    pub fn exporting(&self, at: u64, fingerprint: u64, base: u64) -> Call {
        let mut call = self.makes(FnId::cuIpcGetMemHandle, at);
        writer::set(&mut call, "pHandle", &handle(fingerprint, checked(fingerprint)));
        writer::set(&mut call, "dptr", &base.to_le_bytes());
        call.details.memory = Some((base, 2 << 20));
        call.details.owner = Some((0xc0, self.about.pid as i32 % 2));
        call
    }

    /// Exports an event.
    pub fn export_event(&mut self, at: u64, fingerprint: u64, event: u64) -> &mut Self {
        let mut call = self.makes(FnId::cuIpcGetEventHandle, at);
        writer::set(&mut call, "pHandle", &handle(fingerprint, checked(fingerprint)));
        writer::set(&mut call, "event", &event.to_le_bytes());
        self.add(&call)
    }

    /// A call that opens memory.
    pub fn opening(&self, at: u64, fingerprints: (u64, u64), address: u64) -> Call {
        let mut call = self.makes(FnId::cuIpcOpenMemHandle_v2, at);
        writer::set(&mut call, "handle", &handle(fingerprints.0, fingerprints.1));
        writer::set(&mut call, "pdptr", &address.to_le_bytes());
        writer::set(&mut call, "Flags", &1u32.to_le_bytes());
        call.details.frames = vec![call.caller, CODE + 0x2000, CODE + 0x3000];
        call
    }

    /// Opens memory.
    pub fn open(&mut self, at: u64, fingerprint: u64, address: u64) -> &mut Self {
        let call = self.opening(at, (fingerprint, checked(fingerprint)), address);
        self.add(&call)
    }

    /// Fails to open memory.
    pub fn fail_to_open(&mut self, at: u64, fingerprints: (u64, u64), result: i32) -> &mut Self {
        let mut call = self.opening(at, fingerprints, 0);
        writer::set_shape(&mut call, "pdptr", shape::UNREAD);
        call.outcome = Outcome::Returned(result);
        self.add(&call)
    }

    /// Opens an event.
    pub fn open_event(&mut self, at: u64, fingerprint: u64, event: u64) -> &mut Self {
        let mut call = self.makes(FnId::cuIpcOpenEventHandle, at);
        writer::set(&mut call, "handle", &handle(fingerprint, checked(fingerprint)));
        writer::set(&mut call, "phEvent", &event.to_le_bytes());
        self.add(&call)
    }

    /// A call with one argument.
    pub fn simple(&mut self, at: u64, function: FnId, argument: &str, value: &[u8]) -> &mut Self {
        let mut call = self.makes(function, at);
        writer::set(&mut call, argument, value);
        self.add(&call)
    }

    /// Closes memory.
    pub fn close(&mut self, at: u64, address: u64) -> &mut Self {
        self.simple(at, FnId::cuIpcCloseMemHandle, "dptr", &address.to_le_bytes())
    }

    /// Frees memory.
    pub fn free(&mut self, at: u64, address: u64) -> &mut Self {
        self.simple(at, FnId::cuMemFree_v2, "dptr", &address.to_le_bytes())
    }

    /// Destroys an event.
    pub fn destroy(&mut self, at: u64, event: u64) -> &mut Self {
        self.simple(at, FnId::cuEventDestroy_v2, "hEvent", &event.to_le_bytes())
    }

    /// Sees a device.
    pub fn device(&mut self, ordinal: u8) -> &mut Self {
        let device = Device {
            ordinal: ordinal.into(),
            uuid: [0x10 * (ordinal + 1); 16],
            pci: format!("0000:0{ordinal}:00.0"),
            name: "NVIDIA H200".into(),
        };
        self.writer().device(&device).expect("a device");
        self
    }

    /// Its device, and the other one.
    fn pair(&self) -> (i32, i32) {
        let own = self.about.pid as i32 % 2;
        (own, 1 - own)
    }

    /// Asks whether its device can access the other one.
    pub fn ask(&mut self, at: u64, answer: i32) -> &mut Self {
        self.ask_about(at, self.pair(), answer)
    }

    /// Asks about two devices.
    pub fn ask_about(&mut self, at: u64, (from, to): (i32, i32), answer: i32) -> &mut Self {
        let mut call = self.makes(FnId::cuDeviceCanAccessPeer, at);
        writer::set(&mut call, "canAccessPeer", &answer.to_le_bytes());
        writer::set(&mut call, "dev", &from.to_le_bytes());
        writer::set(&mut call, "peerDev", &to.to_le_bytes());
        self.add(&call)
    }

    /// Switches access to the other device on.
    pub fn enable(&mut self, at: u64, result: i32) -> &mut Self {
        self.enable_between(at, self.pair(), result)
    }

    /// Switches access between two devices on.
    pub fn enable_between(&mut self, at: u64, (from, to): (i32, i32), result: i32) -> &mut Self {
        let mut call = self.makes(FnId::cuCtxEnablePeerAccess, at);
        call.details.devices = (Some(from), Some(to));
        call.outcome = Outcome::Returned(result);
        writer::set(&mut call, "peerContext", &0xc1u64.to_le_bytes());
        self.add(&call)
    }

    /// Writes the record.
    pub fn ends(&mut self) {
        self.writer.take().expect("it has not ended").finish().expect("a recording");
    }

    /// An entry of the table of what is open, that belongs to this process.
    pub fn entry(&self, kind: u32, at: u64, fingerprint: u64, address: u64) -> live::Entry {
        live::Entry {
            word: 0,
            key: 1,
            kind,
            device: 0,
            pid: self.about.pid,
            image: self.about.image,
            pid_ns: self.about.pid_ns,
            started: self.about.started,
            fingerprint,
            checked: checked(fingerprint),
            address,
            peer: 0,
            bytes: 2 << 20,
            since: us(at),
            monotonic: us(at),
            count: 1,
            ended: 0,
            tid: self.about.pid,
            frame_count: 2,
            uuid: [0x10; 16],
            peer_uuid: [0x20; 16],
            rank: u32::MAX,
            stack: 0,
            ended_at: 0,
            offset: 0,
            library: [0; slot::finding::LIBRARY],
            inside: 0,
            head: 0,
            frames: [CODE + 0x111, CODE + 0x222, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }
}
