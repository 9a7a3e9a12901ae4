//! The commands that README and the pages show with their output print what is shown there. Ellipses stand for omitted text,
//! and numbers may differ.

use crate::support::book::{Block, Page, book, page};
use crate::support::{compile_c, compile_text, cupeer, preload_library, sim_dir, temp_dir, wait_for};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A command, and the lines that it is said to print.
struct Shown<'a> {
    command: &'a str,
    lines: Vec<&'a str>,
}

/// Commands that are not run, with the reason.
const LEFT_OUT: [(&str, &str); 1] = [("cupeer top", "it shows a job with 64 processes; tests/top has its screens")];

/// Leaves peer access enabled if a query fails, and returns 0.
const SWEPT: &str = "#include <stddef.h>\n\
    int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);\n\
    int cuCtxEnablePeerAccess(void *, unsigned), cuCtxDisablePeerAccess(void *), cuDeviceCanAccessPeer(int *, int, int);\n\
    int main(void) {\n\
        void *own, *peer;\n\
        int can;\n\
        if (cuInit(0) || cuDevicePrimaryCtxRetain(&own, 0) || cuDevicePrimaryCtxRetain(&peer, 1)) return 2;\n\
        if (cuCtxSetCurrent(own) || cuCtxEnablePeerAccess(peer, 0)) return 1;\n\
        if (cuDeviceCanAccessPeer(&can, 0, 1)) return 0;\n\
        return cuCtxDisablePeerAccess(peer);\n\
    }\n";

/// Exports six eighths of the device's memory, which nobody imports, and then needs a half.
const EXHAUSTS: &str = "#include <stddef.h>\n\
    int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);\n\
    int cuMemGetInfo_v2(size_t *, size_t *), cuMemAlloc_v2(unsigned long long *, size_t);\n\
    int cuMemCreate(unsigned long long *, size_t, const int *, unsigned long long);\n\
    int cuMemExportToShareableHandle(void *, unsigned long long, int, unsigned long long);\n\
    void workspace(size_t size) {\n\
        int wanted[8] = {1, 1, 1, 0}, fd;\n\
        unsigned long long handle;\n\
        cuMemCreate(&handle, size, wanted, 0);\n\
        cuMemExportToShareableHandle(&fd, handle, 1, 0);\n\
    }\n\
    int main(void) {\n\
        void *context;\n\
        size_t unused, total;\n\
        unsigned long long cache;\n\
        if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 2;\n\
        if (cuMemGetInfo_v2(&unused, &total)) return 2;\n\
        for (int i = 0; i < 6; i++) workspace(total / 8 >> 21 << 21);\n\
        return cuMemAlloc_v2(&cache, total / 2) != 0;\n\
    }\n";

/// Makes one recorded call, and crashes.
const CRASHES: &str = "#include <signal.h>\n\
    int cuInit(unsigned), cuDeviceCanAccessPeer(int *, int, int);\n\
    int main(void) {\n\
        int can;\n\
        return cuInit(0) || cuDeviceCanAccessPeer(&can, 0, 1) || raise(SIGSEGV);\n\
    }\n";

/// The commands of a block.
fn shown<'a>(block: &Block<'a>) -> Vec<Shown<'a>> {
    let mut all: Vec<Shown> = Vec::new();
    for line in &block.lines {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push(Shown { command, lines: Vec::new() }),
            (None, Some(last)) => last.lines.push(line),
            (None, None) => {}
        }
    }
    all
}

/// A line of a finding without the place of its call. On a slow machine the line of source comes too late for it, and the
/// offset stands there; the lines after the run always have it.
fn without_place(line: &str) -> &str {
    let is_finding = line.starts_with("cupeer: ") && line.ends_with(']') || line.starts_with("    by: ");
    let end = line.find(" [process ").or_else(|| line.find(", thread ")).filter(|_| is_finding);
    end.map_or(line, |end| &line[..end])
}

/// A text without what differs between runs and terminals: numbers are 0, and white space is one space.
fn shape(text: &str) -> String {
    let text = &text.lines().map(without_place).collect::<Vec<_>>().join("\n");
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit()) || word.len() > 7 && word.chars().all(|c| c.is_ascii_hexdigit())
    };
    let (mut shape, mut word) = (String::new(), String::new());
    for c in text.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        shape += if is_number(&word) { "0" } else { &word };
        word.clear();
        shape.push(c);
    }
    // 12.5ms and 3us have one shape, and so have 12 ms and 3 s.
    let shape = [" ms", " us", " min"].iter().fold(shape, |shape, unit| shape.replace(&format!("0{unit}"), "0 s"));
    shape.replace("0.0", "0").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The part of a shown text that a printed one lacks, where `...` stands for anything.
fn missing(printed: &str, shown: &str) -> Option<String> {
    let (printed, shown) = (shape(printed), shape(shown));
    let pieces: Vec<&str> = shown.split("...").collect();
    let (first, last) = (pieces[0].trim(), pieces[pieces.len() - 1].trim());
    let Some(mut rest) = printed.strip_prefix(first) else { return Some(first.to_owned()) };
    for piece in pieces[1..].iter().map(|piece| piece.trim()) {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return Some(piece.to_owned()),
        }
    }
    let is_open = pieces.len() > 1 && last.is_empty();
    (!is_open && !printed.ends_with(last)).then(|| format!("{last} at the end"))
}

/// Runs a command of a page in a folder with the demo, and returns what it prints.
fn run(folder: &Path, command: &str) -> String {
    let cupeer = cupeer();
    let bin = Path::new(cupeer.get_program()).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", &format!("{command} 2>&1")])
        .current_dir(folder)
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder.parent().expect("a home").join("home"))
        .output()
        .expect("bash");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A directory for the recordings, and one with the programs and files that the commands of a page name.
fn folder(page: &Page, demo: &Path, machine: &str) -> TempDir {
    let home = temp_dir();
    let folder = work(&home);
    fs::create_dir(home.path().join("home")).unwrap();
    fs::create_dir_all(folder.join("target")).unwrap();
    fs::create_dir(folder.join("docs")).unwrap();
    symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cases"), folder.join("docs/cases")).unwrap();
    fs::write(folder.join("machine.toml"), machine).unwrap();
    fs::copy(demo, folder.join("target/demo-share")).unwrap();
    let text = match page.name.file_name().and_then(|name| name.to_str()) {
        Some("fallbacks.md") => SWEPT,
        Some("memory.md") => EXHAUSTS,
        Some("simulator.md") => include_str!("../programs/sweep/late.c"),
        _ => CRASHES,
    };
    // Without lines of source, as most programs.
    let driver = ["-g0", "-lcuda", &format!("-L{}", sim_dir().display())];
    fs::copy(compile_text("program", text, &driver), folder.join("program")).unwrap();
    home
}

/// The directory in which the commands run, beside the one with the recordings.
fn work(home: &TempDir) -> PathBuf {
    home.path().join("work")
}

/// Returns the output of a command on a page, with the page's names for places of this machine.
fn printed(folder: &Path, command: &str) -> String {
    let (job, libraries) = (folder.join("job1"), preload_library());
    let libraries = libraries.parent().expect("a folder").display().to_string();
    let job = job.display().to_string();
    let printed = run(folder, &command.replace("/tmp/job1", &job));
    printed.replace(&job, "/tmp/job1").replace(&libraries, "/opt/cupeer/lib/cupeer")
}

fn demo() -> PathBuf {
    compile_c("../scripts/demo.d/share.c", &["-ldl"])
}

#[test]
fn commands_print_what_the_pages_show() {
    let demo = demo();
    let simulator = page("docs/guides/simulator.md");
    let is_machine = |block: &&Block| block.lines.iter().any(|line| line.starts_with("data = "));
    let machine = simulator.parts().0.iter().find(is_machine).expect("a link").lines.join("\n");
    let (mut count, mut wrong) = (0, Vec::new());
    for page in book() {
        for block in page.parts().0 {
            let all = shown(&block);
            let folder = folder(&page, &demo, &machine);
            if all.first().is_some_and(|first| first.command == "cupeer report") {
                // The recording is that of the block before.
                let before = if page.name.ends_with("hang.md") { "--sim=none:2" } else { "--sim" };
                let early = if page.name.ends_with("hang.md") { "" } else { "early" };
                run(&work(&folder), &format!("cupeer run {before} -- target/demo-share {early}"));
            }
            for shown in all.iter().filter(|shown| !LEFT_OUT.iter().any(|(name, _)| *name == shown.command)) {
                count += 1;
                let command = shown.command.split("  # ").next().unwrap();
                let printed = printed(&work(&folder), command);
                if let Some(part) = missing(&printed, &shown.lines.join("\n")) {
                    wrong.push(format!("{}: {command}\nlacks: {part}\nin:\n{printed}", page.name.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 17, "{count}");
}

/// The commands of the tutorial that hold a call, show it in a second terminal, and release it.
#[test]
fn the_tutorial_holds_a_call_and_releases_it() {
    let tutorial = page("docs/start/tutorial.md");
    let (_, text) = tutorial.text.split_once("\n## Look at a hang\n").expect("the section");
    let section = Page { name: tutorial.name.clone(), text: text.split("\n## ").next().unwrap().to_owned() };
    let blocks = section.parts().0;
    let lines: Vec<String> = blocks.iter().map(|block| block.lines.join("\n")).collect();
    let [hold, report, held, release] = &lines[..] else { panic!("{lines:?}") };
    let folder = folder(&tutorial, &demo(), "");
    std::thread::scope(|scope| {
        let program = scope.spawn(|| run(&work(&folder), hold));
        let mut last = String::new();
        wait_for("the held call is in the report", || {
            last = run(&work(&folder), report);
            missing(&last, &format!("...{held}...")).is_none()
        });
        let released = run(&work(&folder), release);
        let printed = program.join().expect("it ends");
        assert!(printed.contains("exporter read \"hello from device 1\""), "{released}{printed}");
    });
}

#[test]
fn texts_are_compared_up_to_numbers_and_ellipses() {
    let missing = |printed: &str, shown: &str| missing(printed, shown).is_some();
    assert!(!missing("took 12.5ms in\n  0x7f", "took 3us in 0x12\n"));
    assert!(!missing("took 12 ms", "took 3 min") && missing("took 12 ms", "took 3 runs"));
    assert!(!missing("hint: Close it first.\nend", "hint: Close ...\nend"));
    assert!(missing("hint: Free it first.", "hint: Close ..."));
    let late = "cupeer: error x: it broke [process 7, demo+0x1f]\n    by: process 7, thread 7, demo+0x1f\nat a.c:3";
    let known = "cupeer: error x: it broke [process 8, a.c:3 in f]\n    by: process 8, thread 8, a.c:3 in f\nat a.c:3";
    assert!(!missing(late, known) && missing(late, &known.replace("broke", "failed")));
    assert!(missing(late, &known.replace("at a.c", "at b.c")));
    assert!(missing("a b c", "a c") && missing("a b c", "a b") && missing("a b c", "... b"));
    assert!(!missing("a b c", "a ... c") && !missing("a b c", "a ...") && missing("a b c", "b ..."));
}
