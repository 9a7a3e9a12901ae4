//! include/cupeer.h is what cbindgen makes of our C functions, and a C and a C++ compiler take it.
//! `scripts/header` runs this with UPDATE_HEADER=1 to write it anew.

use crate::support::{compile_text, cupeer, done, sim_dir, temp_dir};
use std::path::Path;
use std::process::Command;

fn made() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is readable");
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(root.join("src/preload/check/c_types.rs"))
        .with_src(root.join("src/preload/entry/c_api.rs"))
        .generate()
        .expect("cbindgen reads our C functions");
    let mut header = Vec::new();
    bindings.write(&mut header);
    String::from_utf8(header).expect("a header is text")
}

#[test]
fn header_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/cupeer.h");
    let made = made();
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("include/cupeer.h is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "include/cupeer.h is stale: run scripts/header\n--- made\n{made}");
}

#[test]
fn compilers_take_the_header() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/cupeer.h");
    for (compiler, language) in [("cc", "c"), ("c++", "c++")] {
        let compiled = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", language])
            .arg(&header)
            .output();
        match compiled {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => assert!(compiler == "c++", "no C compiler: {error}"),
        }
    }
}

/// A program around the examples: it opens a handle that nobody exported, and passes wrong flags.
const BEFORE: &str = "#define _GNU_SOURCE\n#include <cupeer.h>\n#include <dlfcn.h>\n#include <stdio.h>\n\
    typedef struct { char bytes[64]; } Handle;\n\
    int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);\n\
    int cuIpcOpenMemHandle_v2(unsigned long long *, Handle, unsigned), cuCtxEnablePeerAccess(void *, unsigned);\n\
    static void share_a_buffer(void) {\n\
        void *context;\n\
        unsigned long long memory;\n\
        cuInit(0), cuDevicePrimaryCtxRetain(&context, 0), cuCtxSetCurrent(context);\n\
        printf(\"%d\\n\", cuIpcOpenMemHandle_v2(&memory, (Handle){{1}}, 1));\n\
    }\n\
    static void print(const cupeer_finding *finding, void *data) { fprintf(data, \"found %s\\n\", finding->rule); }\n\
    int main(void) {\n";
const AFTER: &str = "void *peer;\n\
        cuDevicePrimaryCtxRetain(&peer, 1), cuCtxEnablePeerAccess(peer, 7);\n\
        printf(\"matched %d, fired %d\\n\", (int)matched, (int)fired);\n\
        return 0;\n\
    }\n";

#[test]
fn the_examples_of_the_header_do_what_they_say() {
    let header = include_str!("../include/cupeer.h");
    let (comment, _) = header.split_once("*/").expect("the first comment");
    let examples: Vec<&str> = comment.lines().filter_map(|line| line.strip_prefix(" *     ")).collect();
    assert!(examples.len() > 15, "{examples:?}");
    let text = format!("{BEFORE}{}\n{AFTER}", examples.join("\n"));
    let driver = ["-lcuda", "-ldl", &format!("-L{}", sim_dir().display())];
    let program = compile_text("header-examples", &text, &driver);
    let record = temp_dir();
    let ended = done(cupeer().args(["run", "--sim", "-o"]).arg(record.path().join("r")).arg("--").arg(program));
    assert_eq!(ended.stdout, "205\nmatched 1, fired 1\n", "{}", ended.stderr);
    assert!(ended.stderr.contains("found peer-flags\n"), "{}", ended.stderr);
    let report = done(cupeer().arg("report").arg(record.path().join("r")));
    assert!(report.stdout.contains("epoch 1"), "{}", report.stdout);
}
