//! Common code of the tests: an installation of the command with fresh libraries, a compiler for C programs, and comparisons that
//! show differences.
//!
//! What belongs here: what two test modules need. Many test threads and, under nextest, many test
//! processes use it at once; everything is made under a name of its own and then renamed into place.

pub mod book;

use cupeer_spec::env;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{ErrorKind, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant, SystemTime};

/// Directory of everything that the tests create: below the target directory, or, if a space or colon there would end a path in
/// LD_PRELOAD, below the machine's directory for temporary files.
static SCRATCH: LazyLock<PathBuf> = LazyLock::new(|| {
    let target = env!("CARGO_TARGET_TMPDIR");
    if !target.contains([' ', ':', ';']) {
        return target.into();
    }
    let mut key = DefaultHasher::new();
    target.hash(&mut key);
    // SAFETY: this has no arguments.
    let user = unsafe { libc::geteuid() };
    let plain = std::env::temp_dir().join(format!("cupeer-tests-{user}-{:016x}", key.finish()));
    fs::create_dir_all(&plain).expect("a directory for the tests");
    plain
});

/// The directory of an installation: `bin/cupeer`, `lib/cupeer/libcupeer.so`, `lib/cupeer/libcupeer_sim.so`, and
/// `lib/cupeer/cupeer-sim` with the links that lead to the simulated driver.
pub fn install() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // Or that for another processor: see scripts/test-aarch64.
        let command = std::env::var_os("CUPEER_TEST_COMMAND")
            .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_cupeer")), PathBuf::from);
        // A test build leaves the libraries beside the test itself, and nowhere else.
        let test = std::env::current_exe().expect("the path of this test");
        let deps = test.parent().expect("the directory of this test");
        // Or where scripts/test has built those that are shipped.
        let libraries = std::env::var_os("CUPEER_TEST_LIBRARIES").map_or(deps.to_owned(), PathBuf::from);
        let parts = [
            (command, "bin/cupeer"),
            (libraries.join("libcupeer.so"), "lib/cupeer/libcupeer.so"),
            (libraries.join("libcupeer_sim.so"), "lib/cupeer/libcupeer_sim.so"),
        ];
        let mut key = DefaultHasher::new();
        for (part, name) in &parts {
            let found = fs::metadata(part)
                .unwrap_or_else(|error| panic!("{}: {error}; run `cargo test`, which builds it", part.display()));
            (name, found.ino(), found.len(), found.mtime(), found.mtime_nsec()).hash(&mut key);
        }
        let installed = SCRATCH.join(format!("install-{:016x}", key.finish()));
        if !installed.exists() {
            let fresh = fresh_name("fresh");
            for directory in ["bin", "lib/cupeer/cupeer-sim"] {
                fs::create_dir_all(fresh.join(directory)).expect("a directory to install to");
            }
            for (part, name) in &parts {
                let place = fresh.join(name);
                if fs::hard_link(part, &place).is_err() {
                    copy_program(part, &place);
                }
            }
            for name in ["libcuda.so.1", "libcuda.so"] {
                symlink("../libcupeer_sim.so", fresh.join("lib/cupeer/cupeer-sim").join(name)).expect("a link");
            }
            if fs::rename(&fresh, &installed).is_err() {
                // Another test process was faster.
                assert!(installed.exists(), "failed to install to {}", installed.display());
                let _ = fs::remove_dir_all(&fresh);
            }
            remove_old(&installed);
        }
        // For scripts/test: there may be one for another processor, too.
        fs::write(SCRATCH.join("installed"), installed.as_os_str().as_encoded_bytes())
            .expect("the path of the installation");
        installed
    })
}

/// Copies a program that a test will run. A child does it: while this process had the copy open for
/// writing, another test's thread could fork, and until that child has executed its own program, the
/// kernel refuses to run the copy ("Text file busy").
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").args(["-p", "--"]).args([from, to]).status().expect("cp");
    assert!(status.success(), "failed to copy {} to {}", from.display(), to.display());
}

/// A program with these bytes, which is removed with its directory.
pub fn write_program(path: &Path, bytes: impl AsRef<[u8]>) {
    let part = path.with_extension("part");
    fs::write(&part, bytes).expect("a program to write");
    fs::set_permissions(&part, fs::Permissions::from_mode(0o755)).expect("a right to run it");
    copy_program(&part, path);
    fs::remove_file(&part).expect("what was copied");
}

/// Removes installations of earlier builds, when no running test can use them any more.
fn remove_old(current: &Path) {
    let old = |entry: &fs::DirEntry| {
        let is_install = entry.file_name().as_encoded_bytes().starts_with(b"install-");
        let made = entry.metadata().and_then(|found| found.modified()).unwrap_or(SystemTime::now());
        is_install && entry.path() != current && made.elapsed().is_ok_and(|age| age > Duration::from_secs(3600))
    };
    for entry in fs::read_dir(&*SCRATCH).into_iter().flatten().flatten().filter(old) {
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// A path in the scratch directory that nobody else uses.
fn fresh_name(stem: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    SCRATCH.join(format!("{stem}-{}-{count}", std::process::id()))
}

/// Selects the amount of slow work: `all` by `scripts/test --all`, else a sample.
pub fn sample<T>(sample: T, all: T) -> T {
    if std::env::var_os("FULL_SIZE").is_some() { all } else { sample }
}

/// The command, in an environment that says nothing about drivers and preloading.
pub fn cupeer() -> Command {
    clean(Command::new(install().join("bin/cupeer")))
}

/// The command with arguments.
pub fn with(args: &[&str]) -> Command {
    let mut command = cupeer();
    command.args(args);
    command
}

/// Checks the output of a wrong command line: one line, 125, and nothing on stdout.
#[track_caller]
pub fn refused(args: &[&str], sentence: &str) {
    let ended = done(&mut with(args));
    assert_lines(&ended.stderr, &format!("cupeer: {sentence}\n"));
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(125), ""), "{args:?}");
}

/// A program without the command, in the same environment.
pub fn plain(program: impl AsRef<OsStr>) -> Command {
    clean(Command::new(program))
}

/// Restores signals that the tests' parent ignores or blocks, as `nohup` and `&` in scripts do. Programs would inherit that,
/// and wait forever for a signal.
extern "C" fn restore_signals() {
    for signal in 1..32 {
        // SAFETY: it runs before `main`, so it replaces no handler. SIGKILL and SIGSTOP are refused, which does no harm.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: a set of zeros is an empty set; null asks for no old mask.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &std::mem::zeroed(), std::ptr::null_mut()) };
}

/// Runs before `main`, because any test may start programs first.
#[used]
// SAFETY: the section holds pointers to functions that the loader calls once; this one needs nothing of what Rust sets up.
#[unsafe(link_section = ".init_array")]
static RESTORE_SIGNALS: extern "C" fn() = restore_signals;

fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_encoded_bytes();
        if [&b"CUPEER_"[..], b"CUDA_", b"LD_"].iter().any(|prefix| bytes.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    // Else each run would leave its record in the working directory.
    command.env(env::RECORD, "off");
    // Recordings of tests must not be in the default directory of the user who runs them.
    command.env("XDG_STATE_HOME", SCRATCH.join("state"));
    // Annotations are for a runner that reads them.
    command.env_remove("GITHUB_ACTIONS");
    // Links to drivers that the command makes for its user shall not outlive the build.
    command.env("XDG_RUNTIME_DIR", &*SCRATCH);
    // Only a terminal has an end of the line.
    command.env("COLUMNS", "80").stdin(Stdio::null());
    command
}

/// The library that is preloaded.
pub fn preload_library() -> PathBuf {
    install().join("lib/cupeer/libcupeer.so")
}

/// The simulated driver.
pub fn sim_library() -> PathBuf {
    install().join("lib/cupeer/libcupeer_sim.so")
}

/// A directory for LD_LIBRARY_PATH in which the simulated driver has the names of a driver.
pub fn sim_dir() -> PathBuf {
    install().join("lib/cupeer/cupeer-sim")
}

/// Compiles a program, named relative to `tests`. The arguments follow the source, so that libraries may
/// stand there.
#[track_caller]
pub fn compile_c(source: &str, args: &[&str]) -> PathBuf {
    compile(&tests().join(source), &[], args)
}

/// Compiles a shared library.
#[track_caller]
pub fn compile_shared(source: &str, args: &[&str]) -> PathBuf {
    compile(&tests().join(source), &["-shared", "-fPIC"], args)
}

/// Compiles a program that is short enough to stand in its test. `name` becomes part of its file name.
#[track_caller]
pub fn compile_text(name: &str, text: &str, args: &[&str]) -> PathBuf {
    let mut key = DefaultHasher::new();
    text.hash(&mut key);
    let source = SCRATCH.join(format!("{name}-{:08x}.c", key.finish() as u32));
    if !source.exists() {
        let fresh = fresh_name(name);
        fs::write(&fresh, text).expect("a source");
        fs::rename(&fresh, &source).expect("a source");
    }
    compile(&source, &[], args)
}

/// The same with the headers of the conformance programs, linked to the simulated driver.
#[track_caller]
pub fn compile_linked(name: &str, text: &str) -> PathBuf {
    let include = format!("-I{}", tests().join("conformance/programs").display());
    let search = format!("-L{}", sim_dir().display());
    compile_text(name, text, &[&include, &search, "-lcuda"])
}

fn tests() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"))
}

#[track_caller]
fn compile(source: &Path, before: &[&str], after: &[&str]) -> PathBuf {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut key = DefaultHasher::new();
    (&compiler, source, before, after).hash(&mut key);
    let read = |path: &Path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    read(source).hash(&mut key);
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    // Beside the source, and what several of such directories share.
    let directories = source.ancestors().skip(1).take(2).chain([Path::new(include)]);
    for directory in directories {
        let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut headers: Vec<PathBuf> = files.filter(|path| path.extension() == Some(OsStr::new("h"))).collect();
        headers.sort();
        headers.iter().for_each(|header| read(header).hash(&mut key));
    }
    let stem = source.file_stem().expect("a name").to_string_lossy();
    let suffix = if before.contains(&"-shared") { ".so" } else { "" };
    let directory = SCRATCH.join("compiled");
    let program = directory.join(format!("{stem}-{:016x}{suffix}", key.finish()));
    if !program.exists() {
        fs::create_dir_all(&directory).expect("a directory for programs");
        let fresh = fresh_name(&stem);
        let mut command = plain(&compiler);
        command.args(["-g", "-O1", "-Wall", "-Werror", "-pthread", "-I", include]).args(before);
        let output = command.arg(source).arg("-o").arg(&fresh).args(after).output();
        let output = output.unwrap_or_else(|error| panic!("{compiler}: {error}; a C compiler is needed"));
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?} failed:\n{words}");
        // The first of several tests that compile it wins: one that runs already keeps its file.
        match fs::hard_link(&fresh, &program) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                panic!("{}: {error}", program.display())
            }
            _ => fs::remove_file(&fresh).expect("a file of its own"),
        }
    }
    program
}

/// Reports what a test does not check on this machine, and why.
macro_rules! left_out {
    ($($what:tt)*) => { $crate::support::write_left_out(&format!($($what)*)) };
}

/// Writes a line that libtest does not capture, for the list at the end of `scripts/test`.
pub fn write_left_out(what: &str) {
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let test = std::thread::current().name().map_or(String::new(), |name| format!("{name}: "));
    let _ = std::io::stderr().write_all(format!("left out: {test}{what}\n").as_bytes());
}

/// Returns the number of rounds of a random test: `CUPEER_TEST_ROUNDS`, or few.
pub fn rounds(few: u32) -> u32 {
    std::env::var("CUPEER_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(few)
}

/// When something that must happen counts as a hang, however slow the machine is.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until something holds that nothing tells of.
#[track_caller]
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Both ends of a new terminal: that of the program that shows it, and that of the programs in it. No program that another
/// test starts meanwhile inherits them, which `openpty` would let it.
pub fn terminal() -> (fs::File, OwnedFd) {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the call makes a descriptor, which nobody else owns.
    let shows = unsafe { fs::File::from_raw_fd(libc::posix_openpt(flags)) };
    let fd = shows.as_raw_fd();
    // SAFETY: the calls take the descriptor, which is open, and the last makes another one, which nobody else owns.
    let within = unsafe {
        assert_eq!((libc::grantpt(fd), libc::unlockpt(fd)), (0, 0));
        OwnedFd::from_raw_fd(libc::ioctl(fd, libc::TIOCGPTPEER, flags))
    };
    (shows, within)
}

/// An empty directory that is removed with the value.
pub fn temp_dir() -> tempfile::TempDir {
    tempfile::tempdir_in(&*SCRATCH).expect("a directory")
}

/// Output of a command, and its end.
#[derive(Debug)]
pub struct Done {
    /// Its end.
    pub status: std::process::ExitStatus,
    /// Its stdout.
    pub stdout: String,
    /// Its stderr.
    pub stderr: String,
}

/// Runs a command to its end.
#[track_caller]
pub fn done(command: &mut Command) -> Done {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Done { status, stdout: text(stdout), stderr: text(stderr) }
}

/// Returns the data from which a page draws its pictures.
pub fn page_data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("data");
    serde_json::from_str(rest.split_once("</script>").expect("an end").0).expect("it is JSON")
}

/// Returns the number of calls that the timeline of a page shows as failed.
pub fn shown_as_failed(page: &str) -> u64 {
    let rows = page_data(page)["timeline"]["rows"].clone();
    let runs = rows.as_array().expect("rows").iter().flat_map(|row| row["failed"].as_array().expect("runs"));
    runs.flat_map(|run| &run.as_array().expect("a run")[1..]).filter_map(serde_json::Value::as_u64).sum()
}

/// Runs a command that must succeed and say nothing on stderr; returns its stdout.
#[track_caller]
pub fn stdout(command: &mut Command) -> String {
    let done = done(command);
    assert!(
        done.status.success() && done.stderr.is_empty(),
        "{command:?}: {}\nstdout:\n{}\nstderr:\n{}",
        done.status,
        done.stdout,
        done.stderr
    );
    done.stdout
}

/// The names in a directory, in their order.
pub fn names(at: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The bits of a file's mode that `chmod` sets.
pub fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Compares with what `tests/report/NAME` has, which was seen to be right; with UPDATE_REPORTS, it is written anew first.
#[track_caller]
pub fn assert_golden(got: &str, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report").join(name);
    if std::env::var_os("UPDATE_REPORTS").is_some() {
        fs::write(&path, got).expect("writable");
    }
    assert_lines(got, &fs::read_to_string(&path).expect("it is there"));
}

/// Compares two texts, and shows both with the first line that differs.
#[track_caller]
pub fn assert_lines(got: &str, expected: &str) {
    if got == expected {
        return;
    }
    let line = got.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
    let at = |text: &str| text.lines().nth(line).map_or("(nothing)".to_owned(), |text| format!("{text:?}"));
    panic!(
        "line {} differs\n got:      {}\n expected: {}\n=== got\n{got}\n=== expected\n{expected}\n===",
        line + 1,
        at(got),
        at(expected)
    );
}

/// Checks that a process has mapped a library from here and from nowhere else: `maps` is its
/// /proc/PID/maps. The first thing a test does that could be about another build's library.
#[track_caller]
pub fn assert_loaded_from(maps: &str, library: &Path) {
    let library = library.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", library.display()));
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let same_name: Vec<&Path> = paths.filter(|path| path.file_name() == library.file_name()).collect();
    assert!(
        !same_name.is_empty() && same_name.iter().all(|path| *path == library),
        "expected {}, loaded {same_name:?}",
        library.display()
    );
}
