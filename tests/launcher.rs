//! `cupeer run`: how programs are started, watched and ended, and what is said when the preload library
//! did not take effect.

use crate::support::{
    self, assert_loaded_from, compile_text, copy_program, cupeer, done, install, plain, preload_library, sim_dir,
    sim_library, stdout, temp_dir, wait_for, with, write_program,
};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

// Stops of the program, and of the launcher with it.
mod stops;

/// Loads a driver, asks it something where it can, and lives for a while.
const DRIVER_USER: &str = r#"
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    int main(int argc, char **argv) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        if (!driver) { fprintf(stderr, "%s\n", dlerror()); return 9; }
        int (*can)(int *, int, int) = (int (*)(int *, int, int))dlsym(driver, "cuDeviceCanAccessPeer");
        int yes = 0;
        if (can) can(&yes, 0, 1);
        usleep(1000 * (argc > 1 ? atoi(argv[1]) : 0));
        return 0;
    }
"#;

fn driver_user() -> PathBuf {
    compile_text("driver-user", DRIVER_USER, &["-ldl"])
}

/// Runs something that lives for so many milliseconds, and longer until it is as wanted: the launcher looks at processes now and
/// then, and less often on a busy machine.
fn with_time<T>(run: impl Fn(u32) -> (bool, T)) -> T {
    let early = [500, 5_000].into_iter().map(&run).find(|(is_wanted, _)| *is_wanted);
    early.unwrap_or_else(|| run(50_000)).1
}

/// A program that ends with status 4, without a C library: not every machine has a static one.
fn static_program() -> PathBuf {
    const TEXT: &str = r#"
        void _start(void) {
        #if defined(__x86_64__)
            __asm__ volatile("mov $60, %eax\n mov $4, %edi\n syscall");
        #else
            __asm__ volatile("mov x8, #93\n mov x0, #4\n svc #0");
        #endif
        }
    "#;
    compile_text("static", TEXT, &["-static", "-nostdlib"])
}

fn run(args: &[&str]) -> Command {
    let mut command = cupeer();
    command.arg("run").args(args);
    command
}

/// A program in a directory of its own, found by its name.
fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    write_program(&path, text);
    path
}

/// Starts a command and waits until it has written a line; returns it.
fn start(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    (child, reader, line.trim_end().to_owned())
}

fn kill(pid: u32, signal: i32) {
    // SAFETY: the process is a child of this test, or a child of one, that nobody has waited for.
    assert_eq!(unsafe { libc::kill(pid as libc::pid_t, signal) }, 0);
}

#[test]
fn the_library_is_in_the_program_and_in_its_children() {
    assert_loaded_from(&stdout(&mut run(&["cat", "/proc/self/maps"])), &preload_library());
    let nested = stdout(&mut run(&["sh", "-c", "sh -c 'cat /proc/self/maps; true'; true"]));
    assert_loaded_from(&nested, &preload_library());
}

#[test]
fn ends_with_the_status_of_the_program() {
    for status in [0, 1, 7, 125, 126, 127, 255] {
        let ended = done(&mut run(&["sh", "-c", &format!("exit {status}")]));
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(status), ""));
    }
}

#[test]
fn ends_by_the_signal_of_the_program() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGKILL, libc::SIGSEGV, libc::SIGABRT, libc::SIGPIPE] {
        let ended = done(&mut run(&["sh", "-c", &format!("kill -{signal} $$")]));
        assert_eq!((ended.status.signal(), ended.stderr.as_str()), (Some(signal), ""));
        assert!(!ended.status.core_dumped());
    }
}

#[test]
fn programs_that_cannot_be_run_have_the_statuses_and_words_of_env() {
    let directory = temp_dir();
    let no_rights = script(directory.path(), "no-rights", "");
    fs::set_permissions(&no_rights, fs::Permissions::from_mode(0o644)).unwrap();
    let no_interpreter = script(directory.path(), "no-interpreter", "#!/no/such/interpreter\n");
    let cases = [
        ("no-such-program", 127, "No such file or directory".to_owned()),
        ("/no/such/program", 127, "No such file or directory".to_owned()),
        ("", 127, "No such file or directory".to_owned()),
        ("/tmp", 126, "it is a directory, not a program".to_owned()),
        (no_rights.to_str().unwrap(), 126, "Permission denied".to_owned()),
        (
            no_interpreter.to_str().unwrap(),
            127,
            "No such file or directory (its interpreter /no/such/interpreter is missing)".to_owned(),
        ),
    ];
    for (program, status, words) in cases {
        for exec in [&[][..], &["--exec"]] {
            let ended = done(run(exec).arg("--").arg(program));
            assert_eq!(ended.stderr, format!("cupeer: '{program}': {words}\n"));
            assert_eq!(ended.status.code(), Some(status), "{program}");
        }
        assert_eq!(done(plain("env").arg(program)).status.code(), Some(status), "env {program}");
    }
}

#[test]
fn a_file_without_an_interpreter_line_runs_as_execvp_runs_it() {
    let directory = temp_dir();
    let program = script(directory.path(), "program", "echo by the shell: $1\n");
    assert_eq!(stdout(run(&[]).arg(program).arg("x")), "by the shell: x\n");
}

#[test]
fn arguments_after_the_program_are_its_own() {
    let words = ["--log", "xml", "--", "-v", "--help", "--sim", ""];
    let expected = words.map(|word| format!("[{word}]\n")).concat();
    for before in [&[][..], &["--"], &["--exec"], &["--exec", "--"]] {
        assert_eq!(stdout(run(before).args(["printf", "[%s]\\n"]).args(words)), expected, "{before:?}");
    }
}

#[test]
fn streams_are_the_programs_own() {
    let bytes: Vec<u8> = (0..=255u8).cycle().take(300_000).collect();
    let mut child = run(&["cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let mut received = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut received).unwrap();
    writer.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success() && received == bytes);
    assert_eq!(done(&mut run(&["sh", "-c", "echo words >&2"])).stderr, "words\n");
}

/// The program inherits signal mask, ignored signals, and descriptors, just as `env` passes them on.
#[test]
fn the_program_inherits_what_it_would_without_us() {
    const SHOW: &str = "grep -E 'Sig(Blk|Ign)' /proc/self/status; for fd in 0 1 2 3 4 5 6; do \
                        test -e /proc/$$/fd/$fd && echo $fd open; done >\"$OUT\" 2>/dev/null; exit 0";
    for before in [":", "trap '' HUP CHLD PIPE USR1", "exec 5</dev/null", "exec 0<&-", "exec 2>&-", "exec 1>&-"] {
        let shown = |prefix: &str| {
            let directory = temp_dir();
            let out = directory.path().join("out");
            let line = format!("{before}; exec {prefix} \"$@\"");
            let mut command = plain("sh");
            command.args(["-c", &line, "sh", "sh", "-c", SHOW]).env("OUT", &out);
            command.env("CUPEER_BIN", install().join("bin/cupeer"));
            let ended = done(&mut command);
            (ended.stdout, fs::read_to_string(out).unwrap())
        };
        let expected = shown("env");
        assert_eq!(shown("\"$CUPEER_BIN\" run"), expected, "{before}");
        assert_eq!(shown("\"$CUPEER_BIN\" run --exec"), expected, "{before}");
    }
}

#[test]
fn signals_of_processes_are_passed_on() {
    for signal in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM", "RTMIN+3"] {
        let text = format!("trap 'echo got; exit 5' {signal}; echo ready; while :; do sleep 0.05; done");
        let (mut child, mut rest, line) = start(&mut run(&["bash", "-c", &text]));
        assert_eq!(line, "ready");
        let kill = format!("kill -{signal} {}", child.id());
        assert!(plain("bash").args(["-c", &kill]).status().unwrap().success());
        let mut more = String::new();
        rest.read_to_string(&mut more).unwrap();
        assert_eq!((child.wait().unwrap().code(), more.as_str()), (Some(5), "got\n"), "{signal}");
    }
}

#[test]
fn a_signal_that_kills_the_program_kills_the_launcher() {
    let (mut child, _rest, _) = start(&mut run(&["sh", "-c", "echo ready; exec sleep 100"]));
    kill(child.id(), libc::SIGTERM);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
}

#[test]
fn a_program_that_signals_its_group_gets_the_signal_once() {
    let program = compile_text(
        "count-usr1",
        r#"
        #include <signal.h>
        #include <stdio.h>
        #include <unistd.h>
        static volatile int count, is_last;
        static void on(int s) { s == SIGUSR2 ? (is_last = 1) : count++; }
        int main(void) {
            signal(SIGUSR1, on);
            signal(SIGUSR2, on);
            kill(0, SIGUSR1);
            puts("sent");
            fflush(stdout);
            while (!is_last) usleep(1000);
            printf("%d\n", count);
            return 0;
        }"#,
        &[],
    );
    assert_eq!(count_after_the_last(run(&[]).arg(program).process_group(0), "sent", |_| ()), "1\n");
}

/// Starts a program that prints `line`, and counts signals until it gets SIGUSR2. `send` causes a signal, after which the program
/// prints another line if it is to be caught. Returns the count.
///
/// The launcher passes SIGUSR2 on after the signals that it received before, because their numbers are lower. So no wrong second
/// signal can come later.
fn count_after_the_last(
    command: &mut Command,
    line: &str,
    send: impl FnOnce(&mut BufReader<std::process::ChildStdout>),
) -> String {
    let (mut child, mut rest, first) = start(command);
    assert_eq!(first, line);
    send(&mut rest);
    kill(child.id(), libc::SIGUSR2);
    let mut more = String::new();
    rest.read_to_string(&mut more).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    more
}

/// The terminal's interrupt reaches the whole foreground group: the program must not get it twice.
#[test]
fn a_signal_of_the_terminal_is_not_passed_on() {
    let program = compile_text(
        "count-int",
        r#"
        #include <signal.h>
        #include <stdio.h>
        #include <unistd.h>
        static volatile int count, is_last;
        static void on(int s) { s == SIGUSR2 ? (is_last = 1) : count++; }
        int main(void) {
            signal(SIGINT, on);
            signal(SIGUSR2, on);
            puts("ready");
            fflush(stdout);
            while (!count) usleep(1000);
            puts("interrupted");
            fflush(stdout);
            while (!is_last) usleep(1000);
            printf("%d\n", count);
            return 0;
        }"#,
        &[],
    );
    let (mut master, terminal) = support::terminal();
    let mut command = run(&[]);
    command.arg(program).stdin(Stdio::from(terminal)).stdout(Stdio::piped());
    // SAFETY: setsid and ioctl may be called between fork and exec; stdin is the terminal there.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    let count = count_after_the_last(&mut command, "ready", |rest| {
        master.write_all(b"\x03").unwrap();
        let mut line = String::new();
        rest.read_line(&mut line).unwrap();
        assert_eq!(line, "interrupted\n");
    });
    assert_eq!(count, "1\n");
}

#[test]
fn launcher_and_program_stop_and_continue_together() {
    let (mut child, mut rest, line) = start(&mut run(&["sh", "-c", "echo $$; kill -STOP $$; echo continued"]));
    let state = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    let launcher = child.id().to_string();
    wait_for("both to stop", || state(&launcher) == 'T' && state(&line) == 'T');
    kill(child.id(), libc::SIGCONT);
    let mut more = String::new();
    rest.read_to_string(&mut more).unwrap();
    assert_eq!((child.wait().unwrap().code(), more.as_str()), (Some(0), "continued\n"));
}

#[test]
fn a_program_that_waits_for_a_debugger_is_continued_alone() {
    let directory = temp_dir();
    // As the library stops it.
    let program = "trap 'echo passed on' 29; echo $$; kill -STOP $$; echo continued";
    let mut command = run(&["--check", "--stop-on", "*", "--out"]);
    command.arg(directory.path().join("record")).args(["sh", "-c", program]);
    let (mut launcher, mut rest, pid) = start(&mut command);
    let about = |what: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().find_map(|line| line.strip_prefix(what)).unwrap().trim().to_owned()
    };
    wait_for("the program to stop", || about("State:").starts_with('T'));
    // The launcher handles this signal after the news of the stop. A stopped launcher never would.
    kill(launcher.id(), libc::SIGIO);
    let pending = |what: &str| u64::from_str_radix(&about(what), 16).unwrap();
    wait_for("the signal to be passed on", || (pending("ShdPnd:") | pending("SigPnd:")) >> 28 & 1 == 1);
    kill(pid.parse().unwrap(), libc::SIGCONT);
    let mut more = String::new();
    rest.read_to_string(&mut more).unwrap();
    assert_eq!((launcher.wait().unwrap().code(), more.as_str()), (Some(0), "passed on\ncontinued\n"));
}

#[test]
fn the_program_does_not_outlive_a_killed_launcher() {
    let (mut child, _rest, pid) = start(&mut run(&["sh", "-c", "echo $$; exec sleep 100"]));
    kill(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    wait_for("the program's end", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
    });
}

#[test]
fn exec_becomes_the_program() {
    let mut command = run(&["--exec", "sh", "-c", "echo $$ ${CUPEER_STATUS-unset}"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{pid} unset\n"));
}

#[test]
fn the_page_is_there_while_the_program_runs_and_leaves_nothing() {
    let text = "od -An -N64 -w64 -tx4 \"$CUPEER_STATUS\"; echo \"$CUPEER_STATUS\"; ls -l /proc/self/fd | grep -c memfd";
    let output = stdout(&mut run(&["sh", "-c", &format!("{text}; true")]));
    let lines: Vec<&str> = output.lines().collect();
    let begin = format!("{:08x} 00000000 00000000 00000000", cupeer_spec::status::MAGIC);
    assert!(lines[0].trim_start().starts_with(&begin), "{output}");
    assert!(lines[1].starts_with("/proc/") && !Path::new(lines[1]).exists(), "{output}");
    assert_eq!(lines[2], "0", "the program holds a descriptor of ours");
}

#[test]
fn the_environment_is_what_the_options_say() {
    let show = "echo \"$CUPEER_LOG|$CUPEER_LOG_FILE|$CUPEER_TRACE|$CUPEER_FAILED|$CUPEER_SIM|$CUPEER_DRIVER\"";
    let directory = temp_dir();
    let at = directory.path().canonicalize().unwrap();
    std::fs::create_dir(at.join("a b")).unwrap();
    let all = ["--log", "json", "--log-file", "a b/%p.log", "--trace", "@ipc,^*Get*", "--failed", "--sim=pcie:3"];
    let shown = stdout(run(&all).args(["sh", "-c", show]).current_dir(&at));
    assert_eq!(shown, format!("json|{}/a b/%p.log|@ipc,^*Get*|1|pcie:3|\n", at.display()));
    // Variables without an option stay as they are, and options win.
    let inherited = [("CUPEER_LOG", "json"), ("CUPEER_TRACE", "@peer"), ("CUPEER_FAILED", "1")];
    let shown = stdout(run(&["--log", "text", "sh", "-c", show]).envs(inherited));
    assert_eq!(shown, "text||@peer|1||\n");
    assert_eq!(stdout(&mut run(&["sh", "-c", show])), "|||||\n");
}

/// Some programs show their environment; bash exports functions in it.
#[test]
fn the_rest_of_the_environment_stays_as_it_was_and_in_its_order() {
    let shown = |prefix: &[&str]| {
        let mut command = plain("env");
        command.args(["-i", "Z=1", "BASH_FUNC_f%%=() { :\n}", "A=2", "EMPTY=", "M==x="]).args(prefix);
        let shown = stdout(command.args(["/usr/bin/env", "-0"]));
        let ours = |line: &&str| !line.starts_with("CUPEER_") && !line.starts_with("LD_PRELOAD=");
        shown.split('\0').filter(ours).map(str::to_owned).collect::<Vec<_>>()
    };
    let command = install().join("bin/cupeer");
    assert_eq!(shown(&[command.to_str().unwrap(), "run", "-q"]), shown(&[]));
}

#[test]
fn a_job_has_one_key() {
    let key = |output: String| output.trim_end().to_owned();
    let first = key(stdout(&mut run(&["sh", "-c", "echo $CUPEER_JOB"])));
    let second = key(stdout(&mut run(&["sh", "-c", "echo $CUPEER_JOB"])));
    assert!(first.len() == 32 && first.bytes().all(|byte| byte.is_ascii_hexdigit()) && first != second);
    let inner = stdout(
        run(&[])
            .arg(install().join("bin/cupeer"))
            .args(["run", "sh", "-c", "echo $CUPEER_JOB"])
            .env("CUPEER_JOB", &first),
    );
    assert_eq!(key(inner), first);
}

#[test]
fn the_preload_is_appended_to_what_was_there() {
    let library = preload_library();
    let shown = |old: &str| {
        let mut command = run(&["sh", "-c", "echo \"$LD_PRELOAD\""]);
        stdout(command.env("LD_PRELOAD", old)).trim_end().to_owned()
    };
    let other = compile_text("nothing", "int nothing_at_all;", &["-shared", "-fPIC"]);
    let (library, other) = (library.to_str().unwrap(), other.to_str().unwrap());
    assert_eq!(shown(other), format!("{other}:{library}"));
    assert_eq!(shown(&format!("{other} {library}")), format!("{other} {library}"));
    assert_eq!(shown(""), library);
    let nested = stdout(run(&[]).arg(install().join("bin/cupeer")).args(["run", "sh", "-c", "echo $LD_PRELOAD"]));
    assert_eq!(nested.trim_end(), library);
}

#[test]
fn a_second_copy_of_the_library_is_refused() {
    let ended = done(run(&["true"]).env("LD_PRELOAD", "/elsewhere/libcupeer.so"));
    assert_eq!(ended.status.code(), Some(125));
    assert!(
        ended.stderr.contains("cupeer: LD_PRELOAD already names another libcupeer.so, /elsewhere/"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_path_that_the_loader_would_cut_leads_to_a_copy() {
    for name in ["with space", "with:colon"] {
        let directory = temp_dir();
        let place = directory.path().join(name);
        fs::create_dir(&place).unwrap();
        for (from, to) in [(install().join("bin/cupeer"), "cupeer"), (preload_library(), "libcupeer.so")] {
            copy_program(&from, &place.join(to));
        }
        let cache = directory.path().join("cache");
        let run = |cache: &Path| {
            let mut command = plain(place.join("cupeer"));
            command.args(["run", "--record", "off", "sh", "-c", "grep -m1 libcupeer.so /proc/self/maps"]);
            done(command.env("XDG_CACHE_HOME", cache).env("XDG_RUNTIME_DIR", cache))
        };
        let ended = run(&cache);
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
        let loaded = ended.stdout.split_whitespace().last().unwrap_or_default();
        assert!(Path::new(loaded).starts_with(&cache), "{}", ended.stdout);
    }
}

#[test]
fn missing_libraries_are_told_with_their_places() {
    let directory = temp_dir();
    let at = directory.path().canonicalize().unwrap();
    fs::create_dir(at.join("bin")).unwrap();
    copy_program(&install().join("bin/cupeer"), &at.join("bin/cupeer"));
    let ended = done(plain(at.join("bin/cupeer")).args(["run", "true"]));
    assert_eq!(ended.status.code(), Some(125));
    let shown = at.display();
    assert_eq!(
        ended.stderr,
        format!(
            "cupeer: libcupeer.so is neither in {shown}/bin nor in {shown}/lib/cupeer nor in {shown}/libexec/cupeer; keep the command and its libraries together\n"
        )
    );
    // Beside the command is as good as ../lib, also through a link to the command.
    let elsewhere = temp_dir();
    symlink(at.join("bin/cupeer"), elsewhere.path().join("cupeer")).unwrap();
    for place in ["libexec/cupeer", "lib/cupeer", "bin"] {
        fs::create_dir_all(at.join(place)).unwrap();
        fs::copy(preload_library(), at.join(place).join("libcupeer.so")).unwrap();
        let maps = stdout(plain(elsewhere.path().join("cupeer")).args(["run", "cat", "/proc/self/maps"]));
        assert_loaded_from(&maps, &at.join(place).join("libcupeer.so"));
    }
}

#[test]
fn libraries_of_another_version_are_refused() {
    let directory = temp_dir();
    let at = directory.path().canonicalize().unwrap();
    fs::create_dir_all(at.join("lib/cupeer")).unwrap();
    fs::create_dir(at.join("bin")).unwrap();
    copy_program(&install().join("bin/cupeer"), &at.join("bin/cupeer"));
    let own = env!("CARGO_PKG_VERSION");
    let place = |name: &str| at.join("lib/cupeer").join(name);
    let refused = |name: &str, of: &str| {
        let ended = done(plain(at.join("bin/cupeer")).args(["run", "--sim", "--record=off", "true"]));
        let expected =
            format!("'{}' {of}, and this command is of {own}; install both from one package", place(name).display());
        assert_eq!(ended.stderr, format!("cupeer: {expected}\n"));
        assert_eq!(ended.status.code(), Some(125));
        let doctor = done(plain(at.join("bin/cupeer")).arg("doctor"));
        assert!(doctor.stdout.contains(&expected), "{}", doctor.stdout);
    };
    for (name, library) in [("libcupeer.so", preload_library()), ("libcupeer_sim.so", sim_library())] {
        let whole = fs::read(&library).unwrap();
        let note = [b"cupeer\0\0", own.as_bytes(), b"\0"].concat();
        let at_text = whole.windows(note.len()).position(|bytes| bytes == note).expect("a note") + 8;
        for (text, of) in
            [("9.8.7-rc.1", "is of cupeer 9.8.7-rc.1"), ("\x1b[2J", "does not say of which version it is")]
        {
            let mut other = whole.clone();
            other[at_text..at_text + 32].fill(0);
            other[at_text..at_text + text.len()].copy_from_slice(text.as_bytes());
            fs::write(place(name), other).unwrap();
            refused(name, of);
        }
        // One from before versions were noted.
        fs::copy(compile_text("nothing", "int nothing;\n", &["-shared", "-fPIC"]), place(name)).unwrap();
        refused(name, "does not say of which version it is");
        // One of which a part arrived.
        fs::write(place(name), &whole[..whole.len() / 100]).unwrap();
        let ended = done(plain(at.join("bin/cupeer")).args(["run", "--sim", "--record=off", "true"]));
        let expected = format!("cupeer: '{}' is cut short; install the package again\n", place(name).display());
        assert_eq!((ended.stderr, ended.status.code()), (expected, Some(125)));
        fs::copy(library, place(name)).unwrap();
    }
    let ended = done(plain(at.join("bin/cupeer")).args(["run", "--sim", "--record=off", "true"]));
    assert!(ended.status.success(), "{}", ended.stderr);
}

#[test]
fn the_simulated_driver_is_what_programs_load() {
    let program = compile_text(
        "show-driver",
        r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            (void)argc;
            if (!dlopen(argv[1], RTLD_NOW)) { puts(dlerror()); return 1; }
            FILE *maps = fopen("/proc/self/maps", "r");
            for (int c; (c = getc(maps)) != EOF;) putchar(c);
            return 0;
        }"#,
        &["-ldl"],
    );
    for name in ["libcuda.so.1", "libcuda.so"] {
        for options in [&["--sim"][..], &["--sim=none:1"], &["--driver", sim_library().to_str().unwrap()]] {
            let maps = stdout(run(options).arg(&program).arg(name).env("LD_LIBRARY_PATH", "/nowhere"));
            assert_loaded_from(&maps, &sim_library());
            assert_loaded_from(&maps, &preload_library());
        }
    }
    let search = stdout(run(&["--sim", "sh", "-c", "echo $LD_LIBRARY_PATH"]).env("LD_LIBRARY_PATH", "/a:/b"));
    assert_eq!(search, format!("{}:/a:/b\n", sim_dir().display()));
    let nested = run(&["--sim"])
        .arg(install().join("bin/cupeer"))
        .args(["run", "--sim", "sh", "-c", "echo $LD_LIBRARY_PATH"])
        .output();
    assert_eq!(String::from_utf8(nested.unwrap().stdout).unwrap(), format!("{}\n", sim_dir().display()));
    // Another driver, inherited, would stand behind calls that have none.
    assert_eq!(stdout(run(&["--sim", "sh", "-c", "echo $CUPEER_DRIVER"]).env("CUPEER_DRIVER", "/other")), "\n");
}

/// Users who may write to the directory of the driver choose the code that programs load.
#[test]
fn directories_that_others_can_write_are_not_used() {
    let driver = sim_library();
    let mut show = run(&["--driver", driver.to_str().unwrap(), "sh", "-c", "echo $LD_LIBRARY_PATH"]);
    let runtime = temp_dir();
    let ours = runtime.path().join("cupeer");
    let search = stdout(show.env("XDG_RUNTIME_DIR", runtime.path()));
    assert!(search.starts_with(ours.to_str().unwrap()), "{search}");
    assert_eq!(fs::metadata(&ours).unwrap().permissions().mode() & 0o777, 0o700);
    fs::set_permissions(&ours, fs::Permissions::from_mode(0o777)).unwrap();
    let search = stdout(&mut show);
    assert!(search.starts_with("/tmp/cupeer-"), "{search}");
    fs::remove_dir_all(&ours).unwrap();
    symlink("/tmp", &ours).unwrap();
    let search = stdout(&mut show);
    assert!(search.starts_with("/tmp/cupeer-"), "{search}");
}

#[test]
fn a_static_program_is_named() {
    let program = static_program();
    let ended = done(run(&[]).arg(&program));
    let said = format!("cupeer: {} is statically linked, so libcupeer.so is not loaded\n", program.display());
    assert_eq!((ended.stderr, ended.status.code()), (said.clone(), Some(4)));
    let ended = done(run(&["--exec"]).arg(&program));
    assert_eq!((ended.stderr, ended.status.code()), (said, Some(4)));

    let directory = temp_dir();
    let of_it = script(directory.path(), "script", &format!("#!{} -x\n", program.display()));
    let ended = done(run(&[]).arg(&of_it));
    let said = format!("cupeer: {}, the interpreter of {}, is statically linked,", program.display(), of_it.display());
    assert!(ended.stderr.starts_with(&said), "{}", ended.stderr);
    assert_eq!(ended.status.code(), Some(4));
}

#[test]
fn the_loader_as_a_program_is_no_static_program() {
    // That of this process: another machine's may be installed beside it.
    let own = fs::read_to_string("/proc/self/maps").unwrap();
    let loader = own.split_whitespace().find(|word| word.contains("/ld-linux")).expect("a loader");
    let maps = stdout(run(&[loader]).args(["/bin/cat", "/proc/self/maps"]));
    assert_loaded_from(&maps, &preload_library());
}

#[test]
fn a_program_for_another_machine_is_named() {
    let directory = temp_dir();
    let mut elf = fs::read("/bin/true").unwrap();
    for (at, value, words) in [(18, 0xf3, "is a program for machine 243"), (4, 1, "is not a 64-bit program")] {
        let old = std::mem::replace(&mut elf[at], value);
        let program = directory.path().join("foreign");
        write_program(&program, &elf);
        let ended = done(run(&["-v"]).arg(&program));
        // With an emulator in the kernel, the program may even run.
        assert!(ended.stderr.contains(words) || ended.status.code() == Some(126), "{}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        elf[at] = old;
    }
}

#[test]
fn a_set_uid_program_is_named() {
    let directory = temp_dir();
    let program = directory.path().join("true");
    copy_program(Path::new("/bin/true"), &program);
    if chown(&program, Some(1), None).is_err() {
        left_out!("only root can make a set-uid program of another user");
        return;
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let ended = done(run(&[]).arg(&program));
    let said = format!("cupeer: {} is a set-uid program, so the dynamic loader ignores LD_PRELOAD", program.display());
    assert!(ended.stderr.starts_with(&said), "{}", ended.stderr);
    assert!(ended.status.success());
    // One's own set-uid program runs with the rights that one has.
    chown(&program, Some(0), None).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    stdout(run(&[]).arg(&program));
}

#[test]
fn a_program_that_reaches_the_driver_is_left_alone() {
    assert_eq!(stdout(run(&["--sim"]).arg(driver_user()).arg("100")), "");
    let shown = done(run(&["-v", "--sim"]).arg(driver_user()));
    assert!(shown.stderr.contains("processes that reached the driver: 1\n"), "{}", shown.stderr);
}

#[test]
fn a_wrapper_that_clears_the_preload_is_noticed() {
    let user = driver_user();
    let comm = &user.file_name().unwrap().to_str().unwrap()[..15];
    for wrapper in [&["env", "-u", "LD_PRELOAD"][..], &["sh", "-c", "unset LD_PRELOAD; \"$@\"; true", "sh"]] {
        let ended = with_time(|milliseconds| {
            let ended = done(run(&["--sim"]).args(wrapper).arg(&user).arg(milliseconds.to_string()));
            (!ended.stderr.is_empty(), ended)
        });
        let line = ended.stderr.strip_prefix("cupeer: process ").unwrap_or_else(|| panic!("{}", ended.stderr));
        let (pid, rest) = line.split_once(' ').unwrap();
        assert!(pid.parse::<u32>().is_ok(), "{line}");
        let said = format!(
            "({comm}) loaded {} without libcupeer.so, because its environment has lost cupeer's LD_PRELOAD\n",
            sim_library().canonicalize().unwrap().display()
        );
        assert_eq!(rest, said);
        assert!(ended.status.success());
    }
}

#[test]
fn programs_that_the_environment_does_not_cross_are_named() {
    let directory = temp_dir();
    for (name, format) in [("docker", "docker"), ("kubectl", "k8s"), ("ssh", "sh"), ("srun", "srun"), ("ray", "ray")] {
        let pause = directory.path().join("pause");
        let program = script(directory.path(), name, &format!("#!/bin/sh\nsleep $(cat '{}')\n", pause.display()));
        let said = format!(
            "cupeer: no process reached the driver under cupeer, and the environment may not cross {name}; for \
             what {name} starts, 'cupeer env --format {format}' prints the environment\n"
        );
        let below = format!("'{}'; true", program.display());
        for words in [&[program.to_str().unwrap()][..], &["sh", "-c", &below]] {
            let stderr = with_time(|milliseconds| {
                fs::write(&pause, format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)).unwrap();
                let stderr = done(&mut run(words)).stderr;
                (stderr == said, stderr)
            });
            assert_eq!(stderr, said);
        }
    }
    // One line where there are two reasons.
    let program = static_program();
    copy_program(&program, &directory.path().join("docker"));
    let ended = done(run(&[]).arg(directory.path().join("docker")));
    assert!(
        ended.stderr.contains("docker is statically linked") && ended.stderr.contains("'cupeer env --format docker'")
    );
    assert_eq!(ended.stderr.lines().count(), 1);
}

#[test]
fn a_program_without_a_driver_is_left_alone() {
    let ended = done(&mut run(&["sleep", "0.1"]));
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
}

#[test]
fn the_log_file_is_made_for_the_user_alone_and_appended_to() {
    let directory = temp_dir();
    let file = directory.path().join("log");
    let log = |program: &str| stdout(run(&["--log", "text", "--log-file"]).arg(&file).arg(program));
    log("true");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&file, "kept\n").unwrap();
    log("true");
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept\n");
}

#[test]
fn closed_streams_of_ours_stop_nothing() {
    let command = install().join("bin/cupeer");
    for closing in ["2>&-", ">&-", "0<&- >&- 2>&-", "2</dev/null", "2>/dev/full"] {
        let line = format!("\"$0\" run -v --sim -- sh -c 'exit 6' {closing}");
        let ended = plain("sh").arg("-c").arg(&line).arg(&command).output().unwrap();
        assert_eq!(ended.status.code(), Some(6), "{closing}");
        let line = format!("\"$0\" run --bogus {closing}");
        let ended = plain("sh").arg("-c").arg(&line).arg(&command).output().unwrap();
        assert_eq!(ended.status.code(), Some(125), "{closing}");
    }
}

/// A reader of a named pipe waits for our lines, and the program waits for nobody.
#[test]
fn the_log_goes_into_a_named_pipe() {
    let directory = temp_dir();
    let pipe = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let log = ["--sim", "--log", "text", "--log-file", pipe.to_str().unwrap()];
    let call = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuIpcCloseMemHandle(ctypes.c_uint64(1)))";
    // Nobody reads: one message, and the program goes on.
    let output = run(&log).args(["python3", "-c", call]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot write the log") && said.lines().count() == 1, "{said}");
    // Somebody reads.
    let reader = std::process::Command::new("cat").arg(&pipe).stdout(std::process::Stdio::piped()).spawn().unwrap();
    // Until the reader has opened it, there is nobody.
    while !run(&log).args(["python3", "-c", call]).output().unwrap().stderr.is_empty() {}
    let written = String::from_utf8_lossy(&reader.wait_with_output().unwrap().stdout).into_owned();
    assert!(written.contains("cuIpcCloseMemHandle(dptr=0x1) = CUDA_ERROR_NOT_INITIALIZED"), "{written}");
}

/// Programs close what they do not know, and stderr is still there.
#[test]
fn the_log_goes_on_where_its_descriptor_was_closed() {
    let calls = "import ctypes, os
call = lambda: ctypes.CDLL('libcuda.so.1').cuIpcCloseMemHandle(ctypes.c_uint64(1))
call(); os.closerange(3, 4096); call(); call()";
    let output = run(&["--sim", "--log", "text"]).args(["python3", "-c", calls]).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(log.matches("cuIpcCloseMemHandle").count(), 3, "{log}");
}

/// If the system allows no further thread, or limits the size of files, programs run as without cupeer, and reports are complete.
#[test]
fn limits_of_threads_and_files_end_neither_programs_nor_reports() {
    let folder = temp_dir();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = compile_text("limited-driver-user", DRIVER_USER, &["-ldl"]);
    let record = folder.path().join("record");
    // As a user of its own: the limit counts all threads of a user, and does not hold for root.
    let limited = |resource: libc::__rlimit_resource_t, limit: u64, args: &[&str]| {
        let mut command = with(args);
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        // SAFETY: the child makes system calls only.
        unsafe {
            command.pre_exec(move || {
                libc::setgroups(0, std::ptr::null());
                libc::setgid(54321);
                libc::setuid(54321);
                libc::setrlimit(resource, &limit);
                Ok(())
            })
        };
        command.env("XDG_STATE_HOME", folder.path()).env("XDG_RUNTIME_DIR", folder.path());
        command
    };
    // SAFETY: this has no arguments.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root || limited(libc::RLIMIT_NPROC, 2, &["--version"]).output().is_err() {
        left_out!("another user cannot run the command from {}", install().display());
        return;
    }
    let limited = |resource, limit, args: &[&str]| done(&mut limited(resource, limit, args));
    let (record, program) = (record.to_str().unwrap(), program.to_str().unwrap());
    // A process for the command, and one for the program.
    for (resource, limit) in [(libc::RLIMIT_NPROC, 2), (libc::RLIMIT_FSIZE, 64 << 10)] {
        let ended = limited(resource, limit, &["run", "--sim=nvlink:2", "-q", "-o", record, program]);
        let is_quiet = !ended.stderr.contains("panicked");
        assert!(ended.status.code() == Some(0) && is_quiet, "{resource}: {}", ended.stderr);
    }
    for format in ["text", "html", "json"] {
        let ended = limited(libc::RLIMIT_NPROC, 1, &["report", record, "--format", format]);
        assert!(ended.status.code() == Some(0) && !ended.stderr.contains("panicked"), "{format}: {}", ended.stderr);
    }
}
