//! Calls that cupeer does not see: the summary of `run`, the report, and the doctor name them, with the reason if it is known.
//! They say nothing about programs whose calls are all seen.

use crate::programs::{library, program};
use crate::support::{
    compile_text, copy_program, cupeer, done, plain, preload_library, sim_dir, stdout, temp_dir, with,
};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that links the driver, and does this.
fn linked(name: &str, body: &str) -> PathBuf {
    let text = format!(
        "#include <stdio.h>\nint cuInit(unsigned);\nint cuDeviceCanAccessPeer(int *, int, int);\n\
         int main(void) {{ int yes; (void)yes; {body} return 0; }}\n"
    );
    let driver = sim_dir().join("libcuda.so");
    compile_text(name, &text, &["-Wl,--no-as-needed", driver.to_str().unwrap()])
}

fn short_program() -> PathBuf {
    compile_text("short", "#include <unistd.h>\nint main(void) { _exit(3); }", &[])
}

/// Returns the lines of `run` after a program.
fn said(command: &mut Command) -> String {
    done(command).stderr
}

fn run(args: &[&str]) -> Command {
    let mut command = cupeer();
    command.arg("run").args(args);
    command
}

/// `run` with a record in `folder`.
fn recording(folder: &Path) -> Command {
    let mut command = run(&["--sim", "--record", "full", "-o"]);
    command.arg(folder.join("record"));
    command
}

const NONE_SEEN: &str = "but cupeer saw no call that it records";

#[test]
fn a_record_that_is_empty_although_the_driver_was_loaded_says_so() {
    let walker = program("walker.c", &[]);
    let folder = temp_dir();
    let ended = done(recording(folder.path()).arg(&walker));
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "they can: 1\n"));
    let said = &ended.stderr;
    assert!(said.contains("cupeer:   libcuda was loaded in process ") && said.contains(NONE_SEEN), "{said}");
    assert!(said.contains("it made none, or did not find the functions through the dynamic loader"), "{said}");
    let report = stdout(with(&["report"]).arg(folder.path().join("record")));
    assert!(report.contains("libcuda was loaded in") && !report.contains("was broken by "), "{report}");

    let doctor = done(with(&["doctor", "--sim", "--"]).arg(&walker));
    assert!(doctor.status.success(), "{}", doctor.stdout);
    let sentence = "\nUnclear:\n- libcuda was loaded, but cupeer saw no call that it records";
    assert!(doctor.stdout.contains(sentence), "{}", doctor.stdout);
    assert!(!doctor.stdout.contains("All checks"), "{}", doctor.stdout);
}

/// It cannot reach the page through which processes say that they called the driver.
#[test]
fn calls_in_another_pid_namespace_are_seen_in_a_directory_that_was_there() {
    let namespace = ["--pid", "--fork", "--mount-proc"];
    if !plain("unshare").args(namespace).arg("true").status().is_ok_and(|status| status.success()) {
        return left_out!("no pid namespace may be made");
    }
    let calls = linked("calls", "cuInit(0); cuDeviceCanAccessPeer(&yes, 0, 1);");
    let folder = temp_dir();
    std::fs::create_dir(folder.path().join("record")).unwrap();
    let said = said(recording(folder.path()).arg("unshare").args(namespace).arg(&calls));
    assert!(said.contains("1 process, 1 recorded call") && !said.contains(NONE_SEEN), "{said}");
}

#[test]
fn a_program_that_links_the_driver_and_does_not_call_is_said_where_nobody_calls() {
    let silent = linked("silent", "cuInit(0);");
    let folder = temp_dir();
    let said = said(recording(folder.path()).arg(&silent));
    assert!(said.contains("libcuda was loaded in 1 process") && said.contains(NONE_SEEN), "{said}");
    assert!(!folder.path().join("record").exists(), "a recording of nothing");
    // Beside one that calls it is a helper.
    let calls = linked("calls", "cuInit(0); cuDeviceCanAccessPeer(&yes, 0, 1);");
    let both = format!("'{}'; '{}'", silent.display(), calls.display());
    let said = self::said(recording(folder.path()).args(["sh", "-c", &both]));
    assert!(said.contains("1 process, 1 recorded call, 0 failed") && !said.contains(NONE_SEEN), "{said}");
    let said = self::said(
        run(&["--sim", "--log", "text", "--record", "off", "--log-file"])
            .arg(folder.path().join("log"))
            .args(["sh", "-c", &both]),
    );
    assert_eq!(said, "");
}

#[test]
fn a_tool_that_keeps_its_functions_for_itself_is_named_by_run_and_doctor() {
    let tool = library("wrapper.c", &["-DREPLACE_DLSYM", "-DSECRET"]);
    let asks = program("opened.c", &[]);
    let preload = format!("{}:{}", preload_library().display(), tool.display());
    let folder = temp_dir();
    let oracle = folder.path().join("oracle");
    let said = said(
        recording(folder.path())
            .arg(&asks)
            .args(["libcuda.so.1", "local"])
            .env("LD_PRELOAD", &preload)
            .env("FAKE_DRIVER_LOG", &oracle),
    );
    let sentence = format!(
        "the calls of {} escape cupeer: dlsym replaced (it gives functions of its own in place of the driver's)",
        tool.display()
    );
    assert!(said.contains(&sentence) && said.contains(NONE_SEEN), "{said}");
    let doctor = done(
        with(&["doctor", "--sim", "--"])
            .arg(&asks)
            .args(["libcuda.so.1", "local"])
            .env("LD_PRELOAD", &preload)
            .env("FAKE_DRIVER_LOG", &oracle),
    );
    assert!(doctor.stdout.contains(&format!("\nWrong:\n- {sentence}\n")), "{}", doctor.stdout);
    assert_eq!(doctor.status.code(), Some(1));
}

#[test]
fn a_driver_in_the_preload_stands_behind_us_and_elsewhere_is_named() {
    let calls = linked("calls", "cuInit(0); cuDeviceCanAccessPeer(&yes, 0, 1);");
    let driver = sim_dir().join("libcuda.so.1");
    let folder = temp_dir();
    let said = said(recording(folder.path()).arg(&calls).env("LD_PRELOAD", &driver));
    assert!(said.contains("1 process, 1 recorded call, 0 failed"), "{said}");
    // If the program itself sets another order, its calls are not seen.
    let other = format!("LD_PRELOAD='{}:{}' exec '{}'", driver.display(), preload_library().display(), calls.display());
    let doctor = done(with(&["doctor", "--sim", "--", "sh", "-c"]).arg(other));
    let sentence = format!(
        "the calls of {} escape cupeer: driver before cupeer (name libcupeer.so before it in LD_PRELOAD)",
        calls.display()
    );
    assert!(doctor.stdout.contains(&sentence), "{}", doctor.stdout);
}

/// The loader of another C library: it ends every program with 127, as musl's does that cannot load ours.
fn musl_program(directory: &Path) -> PathBuf {
    let loader = compile_text(
        "loader",
        "void _start(void) { __asm__ volatile(\"mov $60, %eax\\n mov $127, %edi\\n syscall\"); }",
        &["-static", "-nostdlib"],
    );
    let place = directory.join("ld-musl-x86_64.so.1");
    copy_program(&loader, &place);
    let built = compile_text(
        "of_musl",
        "int main(void) { return 0; }",
        &[&format!("-Wl,--dynamic-linker={}", place.display())],
    );
    let program = directory.join("of_musl");
    copy_program(&built, &program);
    program
}

#[test]
fn a_program_of_musl_is_said_not_to_have_run() {
    let directory = temp_dir();
    let program = musl_program(directory.path());
    let line = format!(
        "cupeer: {} uses musl's loader ({}), which cannot load libcupeer.so and ends the program because of it, so it does \
         not run under cupeer\n",
        program.display(),
        directory.path().join("ld-musl-x86_64.so.1").display()
    );
    let ended = done(run(&[]).arg(&program));
    assert_eq!((ended.stderr, ended.status.code()), (line.clone(), Some(127)));
    let below = format!("true; A=1 '{}'; true", program.display());
    let ended = done(run(&["sh", "-c"]).arg(below));
    assert_eq!((ended.stderr, ended.status.code()), (line, Some(0)));
    let ended = done(run(&["env"]).arg(&program));
    let lines = ended.stderr.lines().count();
    // A slow machine sees it while it runs.
    let words = ["was 'env' and then 'of_musl'", "(of_musl) ran without libcupeer.so, because musl's loader"];
    assert!(words.iter().any(|words| ended.stderr.contains(words)) && lines == 1, "{}", ended.stderr);
}

#[test]
fn a_short_program_that_lost_the_preload_is_said() {
    let short = short_program();
    let name = &short.file_name().unwrap().to_str().unwrap()[..15];
    for wrapper in [&["env", "-i"][..], &["env", "-u", "LD_PRELOAD"]] {
        let ended = done(run(wrapper).arg(&short));
        // A slow machine sees it while it runs.
        let afterwards = format!("was 'env' and then '{name}', which lost cupeer's LD_PRELOAD");
        let seen = format!("({name}) ran without libcupeer.so, because its environment has lost cupeer's LD_PRELOAD");
        let is_said = [afterwards, seen].iter().any(|words| ended.stderr.contains(words));
        assert!(is_said && ended.stderr.lines().count() == 1, "{}", ended.stderr);
        assert_eq!(ended.status.code(), Some(3));
    }
    // With the preload nothing is said, however they end.
    for with_us in [&[][..], &["env"], &["env", "A=1"]] {
        assert_eq!(said(run(with_us).arg(&short)), "");
    }
}

/// As heaptrack does it: before the program's first allocation is over, which is one of a library that the tool needs.
#[test]
fn programs_that_lose_the_preload_are_named() {
    let needed = compile_text(
        "needed",
        "#include <stdlib.h>\nstatic void *volatile kept;\n\
         __attribute__((constructor)) static void begin(void) { kept = malloc(16); }",
        &["-shared", "-fPIC"],
    );
    let tool = compile_text(
        "taker",
        "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <unistd.h>\nextern void *__libc_malloc(size_t);\n\
         void *malloc(size_t size) { static int done; if (!done && environ) { done = 1; unsetenv(\"LD_PRELOAD\"); }\n\
         return __libc_malloc(size); }",
        &["-shared", "-fPIC", "-Wl,--no-as-needed", needed.to_str().unwrap()],
    );
    let short = short_program();
    let name = &short.file_name().unwrap().to_str().unwrap()[..15];
    let below = format!("LD_PRELOAD='{}':$LD_PRELOAD exec '{}'", tool.display(), short.display());
    let said = said(run(&["sh", "-c"]).arg(below));
    let line = format!(
        "cupeer: another library removed LD_PRELOAD from the environment of '{name}' as it began: programs that it starts \
         run without libcupeer.so\n"
    );
    assert_eq!(said, line);
}

#[test]
fn a_program_that_the_loader_ends_for_want_of_a_driver_is_answered_with_the_simulated_one() {
    let program = linked("driverless", "cuInit(0);");
    let ended = done(run(&[]).arg(&program));
    if ended.status.success() {
        left_out!("this machine has a driver");
        return;
    }
    let line = format!(
        "cupeer: {} needs libcuda.so.1, which the loader did not find; --sim runs it on the simulated driver",
        program.display()
    );
    assert_eq!(ended.status.code(), Some(127), "{}", ended.stderr);
    assert!(ended.stderr.lines().any(|known| known == line), "{}", ended.stderr);
    assert_eq!(said(run(&["--sim"]).arg(&program)), "");
}

#[test]
fn the_runtime_on_the_simulated_driver_is_one_clear_line() {
    let asks = |name: &str, table: &str| {
        let body = format!(
            "extern int cuGetExportTable(const void **, const void *); const void *table = &table; \
             cuInit(0); if (!cuGetExportTable(&table, {table}) || table) return 9; cuDeviceCanAccessPeer(&yes, 0, 1);"
        );
        linked(name, &body)
    };
    // The table that libcudart asks for.
    let runtime = asks("runtime", r#""\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9""#);
    let twice = format!("'{0}'; '{0}'", runtime.display());
    let line = "cupeer: the CUDA runtime (libcudart, linked or within the program) asked the simulated driver";
    let said = done(run(&["--sim", "sh", "-c"]).arg(&twice));
    assert!(said.stderr.starts_with(line) && said.stderr.lines().count() == 1, "{}", said.stderr);
    assert!(said.status.success());
    let doctor = done(with(&["doctor", "--sim", "--"]).arg(&runtime));
    assert!(doctor.stdout.contains("\nWrong:\n- the CUDA runtime (libcudart"), "{}", doctor.stdout);
    // A program that asks for another table is not the runtime.
    for other in
        [asks("table", "\"0123456789abcdef\""), linked("calls", "cuInit(0); cuDeviceCanAccessPeer(&yes, 0, 1);")]
    {
        let ended = done(run(&["--sim"]).arg(other));
        assert_eq!((ended.stderr.as_str(), ended.status.code()), ("", Some(0)));
    }
}
