//! `cupeer demo`, on the simulated driver: what its steps show, the page and the browser, and that none of its processes stays.

use crate::support::{done, plain, refused, temp_dir, wait_for, with, write_program};
use cupeer_spec::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The command in a directory, which also has its recordings and an opener that notes the page.
fn demo(folder: &Path, words: &[&str]) -> Command {
    let opener = folder.join("bin/xdg-open");
    fs::create_dir_all(opener.parent().unwrap()).unwrap();
    write_program(&opener, "#!/bin/sh\necho \"$1\" >opened.part && mv opened.part opened\n");
    let mut command = with(&[&["demo"], words].concat());
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    command.current_dir(folder).env_remove(env::RECORD).env("XDG_STATE_HOME", folder).env("PATH", path);
    command.env("DISPLAY", ":0");
    command
}

#[test]
fn each_step_shows_a_command_that_can_be_copied_and_what_it_prints() {
    let folder = temp_dir();
    let ended = done(&mut demo(folder.path(), &["--no-open"]));
    assert!(ended.status.success(), "{}", ended.stderr);
    let page = folder.path().join("cupeer-demo.html");
    let last = format!("\nOpen this page in a browser: {}\nThe recordings are in ", page.display());
    for text in [
        "importer read \"hello from device 0\"\nexporter read \"hello from device 1\"\n",
        "No rule was broken by the 12 calls that were recorded.\n",
        "(exit status 1)\n",
        "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217: ",
        "0 findings in 12 runs, ",
        &last,
    ] {
        assert!(ended.stdout.contains(text), "{text}: {}", ended.stdout);
    }
    for text in [
        " cuIpcGetMemHandle(pHandle=[ipc:",
        " = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED <",
        "importer: cuIpcOpenMemHandle_v2 returned 205 (CUDA_ERROR_MAP_FAILED)\n",
        "cupeer: error ipc-freed-while-open: ",
        " was freed while open in process ",
        "in exporter\n",
    ] {
        assert!(ended.stderr.contains(text), "{text}: {}", ended.stderr);
    }
    assert!(fs::read_to_string(page).unwrap().contains("ipc-freed-while-open"));
    assert!(!folder.path().join("opened").exists());
    let commands: Vec<&str> = ended.stdout.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert_eq!(commands.len(), 8, "{commands:?}");
    let wrong = commands[6];
    let copied = done(plain("sh").args(["-c", wrong]).env_remove(env::RECORD).env("XDG_STATE_HOME", folder.path()));
    assert!(wrong.ends_with(" early") && copied.stderr.contains("error ipc-freed-while-open: "), "{copied:?}");
}

#[test]
fn the_page_opens_only_on_a_display_that_has_a_browser() {
    let folder = temp_dir();
    let opened = done(&mut demo(folder.path(), &["-o", "a page.html"])).stdout;
    let page = format!("{}\n", folder.path().join("a page.html").display());
    assert!(opened.contains(&format!("\nOpening in the browser: {page}")), "{opened}");
    assert!(opened.contains(" report --format html >'a page.html'\n"), "{opened}");
    let note = folder.path().join("opened");
    wait_for("the opener", || note.exists());
    assert_eq!(fs::read_to_string(&note).unwrap(), page);
    fs::remove_file(&note).unwrap();
    let without_display = done(demo(folder.path(), &[]).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY"));
    let without_opener = done(demo(folder.path(), &[]).env("PATH", "/nonexistent"));
    for ended in [without_display, without_opener] {
        assert!(ended.status.success() && ended.stdout.contains("\nOpen this page in a browser: /"), "{ended:?}");
    }
    assert!(!note.exists());
}

#[test]
fn wrong_options_are_refused_before_the_first_step() {
    refused(
        &["demo", "--output", "/no/such/page.html"],
        "failed to write to /no/such: No such file or directory (os error 2)",
    );
    refused(&["demo", "early"], "unexpected argument 'early' found; see --help");
}

/// Returns the processes whose environment names a directory.
fn processes(folder: &Path) -> Vec<String> {
    let variable = format!("XDG_STATE_HOME={}", folder.display());
    let has_it = |process: &fs::DirEntry| {
        let variables = fs::read(process.path().join("environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
    };
    let found = fs::read_dir("/proc").unwrap().flatten().filter(has_it);
    found.map(|process| process.file_name().into_string().unwrap()).collect()
}

#[test]
fn a_demo_that_is_interrupted_leaves_no_process() {
    // Ctrl-C reaches all processes of the terminal, SIGKILL only the demo.
    for (signal, to_group) in [(libc::SIGINT, true), (libc::SIGKILL, false)] {
        let folder = temp_dir();
        let mut command = demo(folder.path(), &["--no-open"]);
        // The first run hangs: the importer in its call, and the exporter because it waits for the importer.
        command.env(env::INJECT, "cuIpcOpenMemHandle*:hang").process_group(0);
        let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("five processes", || processes(folder.path()).len() == 5);
        let pid = running.id() as i32;
        // SAFETY: it is a child of this test, which has not waited for it yet, and leads a process group.
        assert_eq!(unsafe { libc::kill(if to_group { -pid } else { pid }, signal) }, 0);
        assert!(!running.wait().unwrap().success());
        wait_for("the end of its processes", || processes(folder.path()).is_empty());
    }
}
