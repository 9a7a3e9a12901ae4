//! include/cupeer.h is what cbindgen makes of our C functions, and a C and a C++ compiler take it.
//! `scripts/header` runs this with UPDATE_HEADER=1 to write it anew.

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
