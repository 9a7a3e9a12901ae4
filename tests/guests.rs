//! Programs of other people, which never meet a driver, run under the preload as without it: same output, same
//! end, no line and no file of ours. And programs that are built with a sanitizer, which has hooks of its
//! own, run without a report.
//!
//! A program that is not installed is left out, and the test says so.

use crate::programs::{Cupeer, Scene, finish, library, linked, program};
use crate::support;
use cupeer_spec::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of a program.
fn installed(name: &str) -> Option<PathBuf> {
    let found = std::env::split_paths(&std::env::var_os("PATH")?).map(|d| d.join(name)).find(|p| p.is_file());
    if found.is_none() {
        left_out!("{name} is not installed");
    }
    found
}

/// Runs a command in a folder of its own without the preload, with it, and with its log, and compares.
fn compare(name: &str, args: &[&str]) {
    compare_in(name, args, |_| {});
}

fn compare_in(name: &str, args: &[&str], prepare: impl Fn(&Path)) {
    let Some(path) = installed(name) else { return };
    let run = |preloaded: bool, log: bool| {
        let folder = support::temp_dir();
        prepare(folder.path());
        let mut command = support::plain(&path);
        command.args(args).current_dir(folder.path()).env("LC_ALL", "C");
        if preloaded {
            command.env("LD_PRELOAD", support::preload_library());
        }
        let file = support::temp_dir();
        if log {
            command.env(env::LOG, "json").env(env::LOG_FILE, file.path().join("log"));
        }
        let (status, stdout, stderr) = finish(command);
        assert_eq!(fs::read_dir(file.path()).unwrap().count(), 0, "{name}: there is a log");
        // Folders differ from run to run.
        let folder = folder.path().to_str().unwrap().to_owned();
        (status.to_string(), stdout.replace(&folder, "FOLDER"), stderr.replace(&folder, "FOLDER"))
    };
    let without = run(false, false);
    assert!(without.0.contains(": 0"), "{name} itself fails: {without:?}");
    assert_eq!(run(true, false), without, "{name} {args:?} (left: with cupeer)");
    assert_eq!(run(true, true), without, "{name} {args:?} (left: with cupeer logging)");
}

#[test]
fn bash() {
    compare(
        "bash",
        &[
            "-c",
            "x=$(echo a | tr a b); (exit 3); echo $? $x; for i in 1 2 3; do (echo $i) & wait; done; ulimit -n >/dev/null; exec true",
        ],
    );
    compare("bash", &["-c", "kill -TERM $BASHPID & wait $!; echo $?; trap 'echo bye' EXIT; ls / | head -1 >/dev/null"]);
}

#[test]
fn git() {
    // Without maintenance in the background, which would go on beside the next commands.
    let script = "export GIT_CONFIG_GLOBAL=$PWD/.git/none; git init -q . && git config maintenance.auto false && \
        echo a > a && git add a && git -c user.name=n -c user.email=e commit -q --date=2000-01-01T00:00:00Z -m m && \
        git log --format=%s%ad && git gc -q && git fsck";
    compare("git", &["--version"]);
    if installed("git").is_some() {
        compare("bash", &["-c", script]);
    }
}

#[test]
fn cargo() {
    compare("cargo", &["--version"]);
    compare_in("cargo", &["check", "--offline", "--quiet"], |folder| {
        fs::write(folder.join("Cargo.toml"), "[package]\nname = \"guest\"\nedition = \"2024\"\n[workspace]\n").unwrap();
        fs::create_dir(folder.join("src")).unwrap();
        fs::write(folder.join("src/main.rs"), "fn main() { let unused = 1; }\n").unwrap();
    });
}

#[test]
fn python() {
    compare(
        "python3",
        &["-c", "import ssl, ctypes, sqlite3, decimal; print(ssl.OPENSSL_VERSION, ctypes.CDLL(None).abs(-3))"],
    );
    compare(
        "python3",
        &[
            "-c",
            "import multiprocessing as m\nwith m.get_context('fork').Pool(4) as p: print(sum(p.map(abs, range(1000))))",
        ],
    );
    compare(
        "python3",
        &[
            "-c",
            "import subprocess, threading\nt=[threading.Thread(target=subprocess.run, args=(['true'],)) for _ in range(8)]\n[x.start() for x in t]; [x.join() for x in t]; print('done')",
        ],
    );
    // A name of ours where there is no driver is missing, and says so as it would without us.
    compare(
        "python3",
        &["-c", "import ctypes\ntry: ctypes.CDLL(None).cuIpcGetMemHandle\nexcept AttributeError as e: print(e)"],
    );
    compare("python3", &["-c", "import ctypes\ntry: ctypes.CDLL('libcuda.so.1')\nexcept OSError as e: print(e)"]);
}

#[test]
fn node() {
    compare(
        "node",
        &[
            "-e",
            "const c=require('child_process'); console.log(c.execSync('echo hi').toString(), require('crypto').createHash('sha1').update('a').digest('hex'));",
        ],
    );
    compare("node", &["-e", "const {Worker}=require('worker_threads'); new Worker('console.log(40+2)',{eval:true})"]);
}

#[test]
fn java() {
    compare("java", &["-Xshare:auto", "-version"]);
    compare_in("java", &["Guest.java"], |folder| {
        let source = "public class Guest { public static void main(String[] a) throws Exception {
            Thread t = new Thread(() -> System.out.println(Math.sqrt(2))); t.start(); t.join();
            System.exit(new ProcessBuilder(\"true\").start().waitFor()); } }";
        fs::write(folder.join("Guest.java"), source).unwrap();
    });
}

#[test]
fn perl() {
    compare(
        "perl",
        &[
            "-MPOSIX",
            "-MSocket",
            "-e",
            "print POSIX::floor(2.5), `echo hi`; if (!fork) { exit 3 } wait; print $? >> 8, \"\\n\"",
        ],
    );
}

#[test]
fn gdb() {
    compare("gdb", &["--batch", "-nx", "-ex", "print 6*7", "-ex", "info line main", "-ex", "show version"]);
    // The debugger starts a program that is preloaded, stops in it and goes on.
    if installed("gdb").is_none() {
        return;
    }
    let debugged = linked("threads.c", &[]);
    let commands =
        ["-batch", "-nx", "-ex", "set startup-with-shell off", "-ex", "break main", "-ex", "run", "-ex", "continue"];
    let scene = Scene::new("/usr/bin/gdb".into()).args(&commands).arg(debugged);
    let (without, with) = (scene.run(Cupeer::Absent), scene.run(Cupeer::Logging));
    assert!(without.status.success() && with.status.success());
    if !without.stdout.contains("exited normally") {
        left_out!("gdb may not trace here: {}", without.stderr);
        return;
    }
    assert!(with.stdout.contains("done\n") && with.stdout.contains("exited normally"), "{with:#?}");
    assert!(with.stdout.contains("Breakpoint 1, main"), "{with:#?}");
    with.assert_log_complete();
}

// Sanitizers.

/// The runtime of a sanitizer, where this compiler has one.
fn runtime(name: &str) -> Option<PathBuf> {
    let asked = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    // It may be a script for the linker that names the real one.
    let found = path.is_absolute().then(|| fs::canonicalize(&path).ok()).flatten();
    if found.is_none() {
        left_out!("no {name}");
    }
    found
}

fn sanitized(flag: &str, name: &str, first: bool) {
    let Some(runtime) = runtime(name) else { return };
    for program in [linked("sanitized.c", &[flag]), program("sanitized.c", &[flag])] {
        let suppressions = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/tsan.supp");
        let scene = Scene::new(program)
            .env("TSAN_OPTIONS", format!("halt_on_error=1:suppressions={suppressions}"))
            .env("ASAN_OPTIONS", "detect_leaks=1")
            // Older sanitizers end at once at most of the addresses that newer kernels choose, but not at all of them.
            .fixed_addresses();
        let scene = if first { scene.preload_before(runtime.clone()) } else { scene };
        let runs = || (0..4).map(|_| scene.run(Cupeer::Absent));
        if let Some(failed) = runs().find(|run| !run.status.success()) {
            left_out!("{flag} does not run here: {}", failed.stderr);
            return;
        }
        let without = scene.run(Cupeer::Absent);
        assert_eq!(without.stderr, "", "{flag}");
        scene.compare_with(without);
    }
}

#[test]
fn address_sanitizer() {
    sanitized("-fsanitize=address", "libasan.so", false);
    sanitized("-fsanitize=address", "libasan.so", true);
}

#[test]
fn thread_sanitizer() {
    sanitized("-fsanitize=thread", "libtsan.so", false);
    sanitized("-fsanitize=thread", "libtsan.so", true);
}

#[test]
fn undefined_behaviour_sanitizer() {
    sanitized("-fsanitize=undefined", "libubsan.so", false);
}

/// Compiles `minded.c` with a compiler of the PATH. `None` where it, or what the flags need, is not installed.
fn minded(folder: &Path, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let compiler = installed(compiler)?;
    let program = folder.join("minded");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/minded.c");
    let mut command = support::plain(&compiler);
    command.args(["-g", "-Wall", "-Werror", source, "-o"]).arg(&program).args(flags).arg("-ldl");
    let (status, _, stderr) = finish(command);
    if !status.success() {
        left_out!("{} {}: {stderr}", compiler.display(), flags.join(" "));
        return None;
    }
    let alone = support::done(support::plain(&program).arg("well").env("LD_LIBRARY_PATH", support::sim_dir()));
    if alone.stdout != "well\n" || !alone.status.success() {
        left_out!("{} {} does not run here: {}", compiler.display(), flags.join(" "), alone.stderr);
        return None;
    }
    Some(program)
}

/// Runs a program under `cupeer run`.
fn under_the_command(command: &[&OsStr], options: Option<&str>) -> support::Done {
    let mut run = support::cupeer();
    run.args(["run", "--sim", "--record", "off", "--log", "text", "--"]).args(command);
    run.env_remove("ASAN_OPTIONS").envs(options.map(|options| ("ASAN_OPTIONS", options)));
    support::done(&mut run)
}

/// Expects a program with a sanitizer to start under the command, also if other programs start it.
fn starts(compiler: &str, flags: &[&str]) {
    let folder = support::temp_dir();
    let Some(program) = minded(folder.path(), compiler, flags) else { return };
    let script = folder.path().join("script");
    support::write_program(&script, format!("#!/bin/sh\n'{}' well\n", program.display()));
    let (program, well) = (program.as_os_str(), OsStr::new("well"));
    for command in [&[program, well][..], &[OsStr::new("env"), program, well], &[script.as_os_str()]] {
        let done = under_the_command(command, None);
        let is_well = done.status.success() && done.stdout == "well\n";
        assert!(is_well && done.stderr.contains("cuDeviceCanAccessPeer("), "{flags:?}: {command:?}: {done:?}");
    }
    if flags[0] == "-fsanitize=address" {
        let done = under_the_command(&[program, OsStr::new("overflow")], None);
        assert!(!done.status.success() && done.stderr.contains("heap-buffer-overflow"), "{flags:?}: {done:?}");
    }
}

#[test]
fn sanitizers_start_under_the_command() {
    starts("cc", &["-fsanitize=address"]);
    starts("cc", &["-fsanitize=thread"]);
    starts("cc", &["-fsanitize=leak"]);
    starts("cc", &["-fsanitize=undefined"]);
}

#[test]
fn sanitizers_inside_of_the_program_start_under_the_command() {
    starts("gcc", &["-fsanitize=address", "-static-libasan"]);
    for sanitizer in ["address", "memory", "thread", "leak", "undefined"] {
        starts("clang", &[&format!("-fsanitize={sanitizer}")]);
    }
}

#[test]
fn the_shared_sanitizer_of_clang_starts_under_the_command() {
    let Some(clang) = installed("clang") else { return };
    let asked = support::stdout(support::plain(clang).arg("-print-runtime-dir"));
    let asked = format!("-Wl,-rpath,{}", asked.trim());
    // Older ones print a directory that does not exist, and have the library in `lib/linux`.
    let older = asked.rsplit_once("/lib/").map_or(asked.clone(), |(front, _)| format!("{front}/lib/linux"));
    starts("clang", &["-fsanitize=address", "-shared-libasan", &asked, &older]);
}

/// The last line of what was printed, which is the only one that cupeer printed.
fn only_line(done: &support::Done) -> &str {
    let mut lines = done.stderr.lines().filter(|line| line.starts_with("cupeer: "));
    let line = lines.next().unwrap_or_else(|| panic!("{done:?}"));
    assert_eq!(lines.next(), None);
    line
}

/// Its own options come before those that our library has for it.
#[test]
fn a_program_that_configures_the_sanitizer_itself_gets_a_line() {
    let folder = support::temp_dir();
    let Some(program) = minded(folder.path(), "cc", &["-fsanitize=address", "-DOPTIONS"]) else { return };
    let command = [program.as_os_str(), OsStr::new("well")];
    let done = under_the_command(&command, None);
    assert!(done.stderr.contains("ASan runtime does not come first"), "{done:?}");
    let fix = "set ASAN_OPTIONS=verify_asan_link_order=0";
    assert!(!done.status.success() && only_line(&done).ends_with(fix), "{done:?}");
    let done = under_the_command(&command, Some("verify_asan_link_order=0"));
    assert!(done.status.success() && done.stdout == "well\n" && !done.stderr.contains(fix), "{done:?}");
}

#[test]
fn a_program_that_refuses_to_run_with_a_preloaded_library_gets_a_line() {
    let folder = support::temp_dir();
    let program = minded(folder.path(), "cc", &["-O1"]).expect("a C compiler");
    let done = under_the_command(&[program.as_os_str(), OsStr::new("refuse")], None);
    assert_eq!(done.status.code(), Some(3));
    let start = format!("cupeer: {} reads LD_PRELOAD, and returned 3; ", program.display());
    assert!(only_line(&done).starts_with(&start), "{done:?}");
    let done = under_the_command(&[program.as_os_str(), OsStr::new("well")], None);
    assert!(done.status.success() && !done.stderr.contains("reads LD_PRELOAD"), "{done:?}");
}

/// Runs programs that call from many threads and from small stacks under a tool of valgrind's, without cupeer and in its
/// modes. Expects the same end, and no report.
fn under_valgrind(options: &[&str]) {
    let Some(valgrind) = installed("valgrind") else { return };
    let programs = [
        (linked("sanitized.c", &[]), &[][..]),
        // Valgrind's own frame on an alternate stack takes some kilobytes.
        (linked("small_stack.c", &[]), &["threads", "16384", "16384"]),
        // Their stacks lie beside those that our work is done on.
        (linked("crowd.c", &[]), &["8", "8", "1", "32768"]),
    ];
    for (program, arguments) in programs {
        let run = |cupeer, check: bool| {
            let scene = Scene::new(valgrind.clone()).args(&["-q", "--error-exitcode=9"]).args(options);
            let scene = scene.arg(&program).args(arguments);
            let outcome = if check { scene.env(env::CHECK, "errors").run(cupeer) } else { scene.run(cupeer) };
            (outcome.status.to_string(), outcome.stdout, outcome.stderr)
        };
        let without = run(Cupeer::Absent, false);
        if !without.2.is_empty() {
            left_out!("{options:?} has reports without cupeer: {}", without.2);
            continue;
        }
        for cupeer in support::sample(&[Cupeer::Recording][..], &[Cupeer::Logging, Cupeer::Recording]) {
            assert_eq!(run(*cupeer, false), without, "{options:?}, {cupeer:?} (right: without cupeer)");
        }
        assert_eq!(run(Cupeer::Recording, true).0, without.0, "{options:?}, checking (right: without cupeer)");
    }
}

#[test]
fn memcheck() {
    under_valgrind(&["--tool=memcheck"]);
}

#[test]
fn helgrind_with_our_suppressions() {
    let suppressions = concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/scripts/valgrind.supp");
    under_valgrind(&["--tool=helgrind", suppressions]);
}

/// A preloaded library of someone else's that opens libraries and looks names up before we were there.
#[test]
fn beside_another_preloaded_library() {
    let wrapper = library("wrapper.c", &[]);
    let Some(path) = installed("bash") else { return };
    for order in [
        [wrapper.as_os_str(), support::preload_library().as_os_str()],
        [support::preload_library().as_os_str(), wrapper.as_os_str()],
    ] {
        let mut command = support::plain(&path);
        command.args(["-c", "echo hi; (echo there)"]).env("LD_PRELOAD", order.join(OsStr::new(":")));
        let (status, stdout, stderr) = finish(command);
        assert!(status.success() && stdout == "hi\nthere\n" && stderr.is_empty(), "{stdout}{stderr}");
    }
}
