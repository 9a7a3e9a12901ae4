//! The count of ways: [`WAYS`] lists the ways in which a program can reach the driver, and for each whether its call is
//! caught, named, or invisible. A call that is neither recorded nor named fails the test, and so does a way that is
//! invisible without being on the page of limits.

use crate::programs::{Log, driver, driver_named, library, linked, linked_library, program, second_driver};
use crate::support::{self, cupeer, done, temp_dir};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Expected fate of the call.
#[derive(Clone, Copy)]
enum Expected {
    /// The log and the recording have it, and nothing is named.
    Caught,
    /// They have it, and the log, the report, and the doctor name the library of this name, and this way.
    CaughtAndNamed(&'static str, &'static str),
    /// They do not have it, and name it.
    Named(&'static str, &'static str),
    /// No library in the process can see it: the launcher and the doctor name the process with these words.
    Outside(&'static str),
    /// Nothing can see it. The page of limits has these words.
    Invisible(&'static str),
}
use Expected::{Caught, CaughtAndNamed, Invisible, Named, Outside};

/// The program that takes the way: `ways.c`, built like this.
#[derive(Clone, Copy)]
enum Build {
    /// Without a driver.
    Plain,
    /// Linked to the driver, with these flags.
    Linked(&'static [&'static str]),
    /// Linked to a driver of another soname.
    Other,
    /// Linked to no shared library.
    Static,
}
use Build::{Linked, Other, Plain, Static};

struct Bypass {
    name: &'static str,
    build: Build,
    /// The words of `ways.c`: handle, look-up, when, and the end.
    how: &'static str,
    expected: Expected,
}

const fn way(name: &'static str, build: Build, how: &'static str, expected: Expected) -> Bypass {
    Bypass { name, build, how, expected }
}

const NONE_SEEN: &str = "no watched call";
const READS_TABLE: &str =
    "code that reads the symbol table of libcuda in memory, in a process that also makes calls that cupeer sees";
const LAZILY: &str = "libraries that bind lazily and bypass cupeer, if the process is killed";
const OWN_LOADER: &str = "a driver that the program maps itself, without the dynamic loader";

const WAYS: &[Bypass] = &[
    // Linked.
    way("linked, bound lazily", Linked(&["-Wl,-z,lazy"]), "- linked main return", Caught),
    way("linked, bound at once", Linked(&["-Wl,-z,now"]), "- linked main return", Caught),
    way("linked without PIE", Linked(&["-no-pie", "-fno-pie"]), "- linked main return", Caught),
    way("linked without PLT", Linked(&["-fno-plt"]), "- linked main return", Caught),
    way("linked with -Bsymbolic", Linked(&["-Wl,-Bsymbolic"]), "- linked main return", Caught),
    way("a pointer in data", Linked(&[]), "- data main return", Caught),
    way("an IFUNC", Linked(&["-DIFUNC", "-Wl,-z,now"]), "- ifunc main return", Caught),
    way("RTLD_DEFAULT where it is linked", Linked(&[]), "default dlsym main return", Caught),
    way("RTLD_NEXT where it is linked", Linked(&[]), "next dlsym main return", Caught),
    way("dlopen(NULL) where it is linked", Linked(&[]), "null dlsym main return", Caught),
    way("linked to a driver of another soname", Other, "- linked main return", Caught),
    // Opened.
    way("opened by its soname", Plain, "open:libcuda.so.1 dlsym main return", Caught),
    way("opened by its development name", Plain, "open:libcuda.so dlsym main return", Caught),
    way("opened by its path", Plain, "open:{driver} dlsym main return", Caught),
    way("opened by a link of another name", Plain, "open:{link} dlsym main return", Caught),
    way("opened as a copy of another name", Plain, "open:{copy} dlsym main return", Caught),
    way("opened from a memory file", Plain, "memory:{driver} dlsym main return", Caught),
    way("opened lazily", Plain, "lazy:libcuda.so.1 dlsym main return", Caught),
    way("opened for all", Plain, "global:libcuda.so.1 dlsym main return", Caught),
    way("opened with RTLD_NODELETE", Plain, "nodelete:libcuda.so.1 dlsym main return", Caught),
    way("opened with RTLD_DEEPBIND", Plain, "deepbind:libcuda.so.1 dlsym main return", Caught),
    way("opened with RTLD_NOLOAD", Plain, "again:libcuda.so.1 dlsym main return", Caught),
    way("dlopen(NULL) where it is opened for all", Plain, "self:libcuda.so.1 dlsym main return", Caught),
    way("RTLD_DEFAULT where it is opened for all", Plain, "default:libcuda.so.1 dlsym main return", Caught),
    way("the handle of dlinfo", Plain, "dlinfo:libcuda.so.1 dlsym main return", Caught),
    // Looked up.
    way("cuGetProcAddress of CUDA 11.3", Plain, "open:libcuda.so.1 gpa4 main return", Caught),
    way("cuGetProcAddress of CUDA 12", Plain, "open:libcuda.so.1 gpa5 main return", Caught),
    way("cuGetProcAddress through itself", Plain, "open:libcuda.so.1 gpa-gpa main return", Caught),
    way("libc's dlsym by its handle", Plain, "open:libcuda.so.1 dlsym-of:libc.so.6 main return", Caught),
    way("libdl's dlsym by its handle", Plain, "open:libcuda.so.1 dlsym-of:libdl.so.2 main return", Caught),
    way("dlsym by its version", Plain, "open:libcuda.so.1 dlsym-of-version main return", Caught),
    way("the next dlsym by its version", Plain, "open:libcuda.so.1 next-dlsym-of-version main return", Caught),
    way("the next dlsym", Plain, "open:libcuda.so.1 next-dlsym main return", Caught),
    way("dlvsym by dlsym", Plain, "open:libcuda.so.1 dlvsym-by-dlsym main return", Caught),
    way("the handle of the list of libraries", Plain, "list:libcuda.so.1 dlsym main return", Caught),
    // When.
    way("in a constructor", Plain, "open:libcuda.so.1 dlsym constructor return", Caught),
    way("linked, in a constructor", Linked(&[]), "- linked constructor return", Caught),
    way("in a thread", Plain, "open:libcuda.so.1 dlsym thread return", Caught),
    way("in a signal handler", Plain, "open:libcuda.so.1 dlsym signal return", Caught),
    way("at exit", Plain, "open:libcuda.so.1 dlsym at-exit return", Caught),
    way("in a forked child", Plain, "open:libcuda.so.1 dlsym fork _exit", Caught),
    way("in a child of the system call clone", Plain, "open:libcuda.so.1 dlsym raw-fork _exit", Caught),
    // The end.
    way("before _exit", Plain, "open:libcuda.so.1 dlsym main _exit", Caught),
    way("before quick_exit", Plain, "open:libcuda.so.1 dlsym main quick", Caught),
    way("before abort", Plain, "open:libcuda.so.1 dlsym main abort", Caught),
    way("before SIGKILL", Plain, "open:libcuda.so.1 dlsym main killed", Caught),
    way("before the system call exit_group", Plain, "open:libcuda.so.1 dlsym main system-call", Caught),
    way("before exec", Plain, "open:libcuda.so.1 dlsym main exec:/bin/true", Caught),
    // Past us.
    way("a deeply bound library", Plain, "deepbind:{now} plugin main return", Named("now", "RTLD_DEEPBIND")),
    way(
        "a deeply bound library that binds lazily",
        Plain,
        "deepbind-lazy:{lazy} plugin main return",
        Named("lazy", "RTLD_DEEPBIND"),
    ),
    way(
        "a deeply bound library, before _exit",
        Plain,
        "deepbind:{now} plugin main _exit",
        Named("now", "RTLD_DEEPBIND"),
    ),
    way(
        "a deeply bound library that binds lazily, before _exit",
        Plain,
        "deepbind-lazy:{lazy} plugin main _exit",
        Named("lazy", "RTLD_DEEPBIND"),
    ),
    way(
        "a deeply bound library that binds lazily, before exec",
        Plain,
        "deepbind-lazy:{lazy} plugin main exec:/bin/true",
        Named("lazy", "RTLD_DEEPBIND"),
    ),
    way(
        "a deeply bound library that binds lazily, before SIGKILL",
        Plain,
        "deepbind-lazy:{lazy} plugin main killed",
        Invisible(LAZILY),
    ),
    way(
        "a deeply bound library that binds lazily, before the system call exit_group",
        Plain,
        "deepbind-lazy:{lazy} plugin main system-call",
        Invisible(LAZILY),
    ),
    way(
        "a deeply bound library, before quick_exit",
        Plain,
        "deepbind:{now} plugin main quick",
        Named("now", "RTLD_DEEPBIND"),
    ),
    way(
        "a deeply bound library, before exec",
        Plain,
        "deepbind:{now} plugin main exec:/bin/true",
        Named("now", "RTLD_DEEPBIND"),
    ),
    way(
        "a deeply bound library, before SIGKILL",
        Plain,
        "deepbind:{now} plugin main killed",
        Named("now", "RTLD_DEEPBIND"),
    ),
    way(
        "a deeply bound library, before abort",
        Plain,
        "deepbind:{now} plugin main abort",
        Named("now", "RTLD_DEEPBIND"),
    ),
    way(
        "a deeply bound library in a forked child",
        Plain,
        "deepbind:{now} plugin fork _exit",
        Named("now", "RTLD_DEEPBIND"),
    ),
    way("a library in another namespace", Plain, "namespace:{now} plugin main return", Named("now", "dlmopen")),
    way(
        "a library in another namespace, before _exit",
        Plain,
        "namespace:{now} plugin main _exit",
        Named("now", "dlmopen"),
    ),
    way(
        "a library in another namespace, before SIGKILL",
        Plain,
        "namespace:{now} plugin main killed",
        Named("now", "dlmopen"),
    ),
    way(
        "a driver in another namespace",
        Plain,
        "namespace:libcuda.so.1 dlsym main return",
        CaughtAndNamed("libcuda.so.1", "dlmopen"),
    ),
    way(
        "a driver in another namespace, beside one",
        Plain,
        "also:namespace:libcuda.so.1 dlsym main return",
        Named("libcuda.so.1", "dlmopen"),
    ),
    way(
        "the next definition of an opened library",
        Plain,
        "open:{next} plugin main return",
        Named("next", "RTLD_NEXT"),
    ),
    way("a second driver", Plain, "also:open:{second} dlsym main return", Named("libcuda.so.1", "second driver")),
    way(
        "a driver of another soname",
        Plain,
        "open:{other} dlsym main return",
        Named("libother.so.1", "another soname"),
    ),
    way(
        "a driver of another soname, by cuGetProcAddress",
        Plain,
        "open:{other} gpa5 main return",
        Named("libother.so.1", "another soname"),
    ),
    way(
        "a driver of another soname, beside one",
        Plain,
        "also:open:{other} dlsym main return",
        Named("libother.so.1", "another soname"),
    ),
    way("the symbol table in memory", Plain, "open:libcuda.so.1 walk main return", Named("libcuda.so.1", NONE_SEEN)),
    way(
        "the symbol table in memory, before _exit",
        Plain,
        "open:libcuda.so.1 walk main _exit",
        Named("libcuda.so.1", NONE_SEEN),
    ),
    way(
        "the symbol table by dl_iterate_phdr",
        Plain,
        "open:libcuda.so.1 headers main return",
        Named("libcuda.so.1", NONE_SEEN),
    ),
    way(
        "libc's dlsym from its symbol table",
        Plain,
        "open:libcuda.so.1 walked-dlsym main return",
        Named("libcuda.so.1", NONE_SEEN),
    ),
    way(
        "a distance from another function",
        Plain,
        "open:libcuda.so.1 distance main return",
        Named("libcuda.so.1", NONE_SEEN),
    ),
    way(
        "the symbol table in memory, beside seen calls",
        Plain,
        "also:open:libcuda.so.1 walk main return",
        Invisible(READS_TABLE),
    ),
    way(
        "libc's dlsym from its symbol table, beside seen calls",
        Plain,
        "also:open:libcuda.so.1 walked-dlsym main return",
        Invisible(READS_TABLE),
    ),
    way(
        "a loader of the program's own",
        Plain,
        "- raw:{driver} main wait:{seen}",
        Outside("but cupeer saw no call that it records"),
    ),
    way(
        "a loader of the program's own, beside seen calls",
        Plain,
        "also:- raw:{driver} main return",
        Invisible(OWN_LOADER),
    ),
    way("a static program", Static, "open:libcuda.so.1 dlsym main wait:{seen}", Outside("without libcupeer.so")),
    way(
        "a program that becomes itself without an environment",
        Plain,
        "open:libcuda.so.1 dlsym exec return",
        Outside("lost cupeer's LD_PRELOAD"),
    ),
    way(
        "a child of posix_spawn without an environment",
        Plain,
        "open:libcuda.so.1 dlsym spawn wait:{seen}",
        Outside("lost cupeer's LD_PRELOAD"),
    ),
    way(
        "a child of vfork without an environment",
        Plain,
        "open:libcuda.so.1 dlsym vfork wait:{seen}",
        Outside("lost cupeer's LD_PRELOAD"),
    ),
    way(
        "such a child beside seen calls",
        Plain,
        "also:open:libcuda.so.1 dlsym spawn wait:{seen}",
        Outside("lost cupeer's LD_PRELOAD"),
    ),
    way(
        "a static program that is not running for long",
        Static,
        "open:libcuda.so.1 dlsym main return",
        Outside("is statically linked"),
    ),
];

/// A driver of another soname.
fn other_driver() -> PathBuf {
    driver_named("libother.so.1").join("libother.so.1")
}

/// The files that the words name.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Files {
        let files = Files { folder: temp_dir() };
        let real = driver().join("libcuda.so.1");
        symlink(&real, files.path("link")).unwrap();
        fs::copy(&real, files.path("copy")).unwrap();
        for (name, built) in [
            ("now", linked_library("plugin.c", &["-Wl,-z,now"])),
            ("lazy", linked_library("plugin.c", &["-Wl,-z,lazy"])),
            ("next", linked_library("plugin.c", &["-DBY_NEXT"])),
            ("opens", library("plugin.c", &["-DOPENS"])),
        ] {
            fs::copy(built, files.path(name)).unwrap();
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn words(&self, how: &str) -> Vec<String> {
        let mut words = how.replace("{driver}", driver().join("libcuda.so.1").to_str().unwrap());
        words = words.replace("{second}", second_driver().join("libcuda.so.1").to_str().unwrap());
        words = words.replace("{other}", other_driver().to_str().unwrap());
        for name in ["link", "copy", "now", "lazy", "next", "opens"] {
            words = words.replace(&format!("{{{name}}}"), self.path(name).to_str().unwrap());
        }
        words.split(' ').map(str::to_owned).collect()
    }
}

/// Observed fate of the calls of a way.
struct Seen {
    /// Number of calls that the driver saw, and that the log and the recording lack.
    missed: usize,
    /// Library and way, as the report has them.
    escaped: BTreeSet<(String, String)>,
    stderr: String,
}

impl Bypass {
    fn program(&self) -> PathBuf {
        match self.build {
            Plain => program("ways.c", &[]),
            Linked(flags) => linked("ways.c", flags),
            Other => {
                let other = other_driver();
                program("ways.c", &["-DLINKED", "-Wl,--no-as-needed", other.to_str().unwrap()])
            }
            Static => program("ways.c", &["-DSTATIC", "-static", "-w"]),
        }
    }

    /// The command, with the fake driver.
    fn under(&self, words: &[&str], folder: &Path) -> Command {
        let mut command = cupeer();
        // A library beside it, as packages have it, is found like the driver.
        let path = std::env::join_paths([driver(), driver_named("libother.so.1")]).unwrap();
        command.args(words).env("LD_LIBRARY_PATH", path).env("FAKE_DRIVER_LOG", folder.join("oracle"));
        command
    }

    /// Returns true if the doctor names it as well.
    fn is_known_to_doctor(&self, files: &Files, library: &str, way: &str) -> bool {
        let folder = temp_dir();
        let mut doctor = self.under(&["doctor", "--format", "json", "--"], folder.path());
        let text = done(doctor.arg(self.program()).args(files.words(self.how))).stdout;
        let document: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let sentences = ["wrong", "unclear"].map(|key| document[key].as_array().cloned().unwrap_or_default()).concat();
        let words = if way == NONE_SEEN {
            "cupeer saw no call that it records".to_owned()
        } else {
            format!("/{library} escape cupeer: {way}")
        };
        sentences.iter().any(|sentence| sentence.as_str().unwrap().contains(&words))
    }

    fn play(&self, files: &Files) -> Seen {
        let folder = temp_dir();
        let at = |name: &str| folder.path().join(name);
        let mut words = files.words(self.how);
        words.iter_mut().for_each(|word| *word = word.replace("{seen}", at("seen").to_str().unwrap()));
        let mut run = self.under(&["run", "-v", "--log", "json", "--trace", "all", "--log-file"], folder.path());
        run.arg(at("log")).arg("-o").arg(at("record")).arg("--").arg(self.program()).args(&words);
        let stderr = at("stderr");
        run.stdout(fs::File::create(at("stdout")).unwrap()).stderr(fs::File::create(&stderr).unwrap());
        let mut child = run.spawn().unwrap();
        if let (Outside(words), true) = (self.expected, self.how.contains("{seen}")) {
            let is_said = || fs::read_to_string(&stderr).unwrap().contains(words);
            support::wait_for(self.name, || is_said() || child.try_wait().unwrap().is_some());
            fs::write(at("seen"), "").unwrap();
        }
        child.wait().unwrap();
        let stderr = fs::read_to_string(stderr).unwrap();
        let stderr: String =
            stderr.lines().filter(|line| line.starts_with("cupeer: ")).map(|line| format!("{line}\n")).collect();
        assert_eq!(fs::read_to_string(at("stdout")).unwrap(), "", "{}: the program itself fails", self.name);
        let oracle = fs::read_to_string(at("oracle")).unwrap_or_default();
        let called = |line: &str| line.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" ");
        let called: Vec<String> = oracle.lines().map(called).filter(|call| !call.starts_with("cuGetProc")).collect();
        assert!(!called.is_empty(), "{}: the driver saw nothing; {stderr}", self.name);
        let log = Log::parse(&fs::read_to_string(at("log")).unwrap_or_default());
        let logged: Vec<String> = log.calls.iter().map(|call| format!("{} {}", call.function, call.mark)).collect();
        let missed = called.iter().filter(|call| !logged.contains(call)).count();
        let report = if at("record").exists() {
            let text = support::stdout(cupeer().arg("report").arg(at("record")).args(["--format", "json"]));
            serde_json::from_str(&text).unwrap()
        } else {
            Value::Null
        };
        let escaped = report["escaped"].as_array().into_iter().flatten().map(|one| {
            let word = |key: &str| one[key].as_str().unwrap().to_owned();
            (word("library"), word("way"))
        });
        Seen { missed, escaped: escaped.collect(), stderr }
    }

    /// Returns the mistake in this way.
    fn fault(&self, files: &Files, limits: &str) -> Option<String> {
        let seen = self.play(files);
        let said = || format!("{} missed; {:?}; {}", seen.missed, seen.escaped, seen.stderr);
        let is_right = match self.expected {
            Caught => seen.missed == 0 && seen.escaped.is_empty(),
            CaughtAndNamed(library, way) | Named(library, way) => {
                let is_it = |(found, how): &(String, String)| found.ends_with(&format!("/{library}")) && how == way;
                let is_caught = matches!(self.expected, CaughtAndNamed(..));
                let is_named = seen.escaped.iter().any(is_it);
                is_caught == (seen.missed == 0) && is_named && self.is_known_to_doctor(files, library, way)
            }
            Outside(words) => {
                let in_report = || seen.escaped.iter().any(|(_, way)| way == "libcupeer.so not loaded");
                let is_told = seen.missed > 0 && seen.stderr.contains(words);
                // A recording of nothing is not kept.
                is_told && (!self.how.starts_with("also:") || in_report())
            }
            Invisible(sentence) => {
                let has = limits.split_whitespace().collect::<Vec<_>>().join(" ").contains(sentence);
                seen.missed > 0 && seen.escaped.is_empty() && has
            }
        };
        (!is_right).then(said)
    }
}

#[test]
fn each_way_is_caught_or_named_or_on_the_page_of_limits() {
    let files = Files::new();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/help/troubleshooting.md");
    let limits = fs::read_to_string(page).unwrap();
    let faults = WAYS.iter().filter_map(|way| Some(format!("- {}: {}", way.name, way.fault(&files, &limits)?)));
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{} of {} ways are neither:\n{}", faults.len(), WAYS.len(), faults.join("\n"));
}
