//! Builds the two shared libraries into the command, in release builds: `cargo install` installs programs alone.
//!
//! A cargo of its own does so, with a target directory of its own, because the one that runs this holds the lock of
//! the other. `CUPEER_EMBED=0` leaves them out, for who keeps the command and its libraries together by himself; a debug
//! build never has them.

use std::collections::hash_map::DefaultHasher;
use std::env::{var, var_os};
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARIES: [(&str, &str); 2] = [("cupeer-preload", "libcupeer.so"), ("cupeer-sim", "libcupeer_sim.so")];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CUPEER_EMBED");
    let out = PathBuf::from(var_os("OUT_DIR").expect("cargo sets it"));
    let root = PathBuf::from(var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let is_release = var("PROFILE").is_ok_and(|profile| profile == "release");
    let is_left_out = var("CUPEER_EMBED").is_ok_and(|value| value == "0");
    let has_sources = root.join("src/preload/Cargo.toml").exists();
    if is_release && !is_left_out && !has_sources {
        println!("cargo::warning=this package has no sources of the libraries, and its command will look for them");
    }
    let is_wanted = is_release && !is_left_out && has_sources;
    let files = if is_wanted { build(&root, &out) } else { Vec::new() };
    let mut hasher = DefaultHasher::new();
    let mut carried = String::new();
    for (name, file) in &files {
        hasher.write(&fs::read(file).expect("it was built"));
        carried += &format!("({name:?}, include_bytes!({file:?})), ");
    }
    let checksum = hasher.finish();
    let text = format!(
        "const CARRIED: &[(&str, &[u8])] = &[{carried}];\nconst DIRECTORY: &str = \"libraries-{checksum:016x}\";\n"
    );
    fs::write(out.join("carried.rs"), text).expect("OUT_DIR can be written");
}

/// Builds the libraries, and returns them with their file names.
fn build(root: &Path, out: &Path) -> Vec<(&'static str, PathBuf)> {
    let target = var("TARGET").expect("cargo sets it");
    let place = out.join("libraries");
    let mut cargo = Command::new(var_os("CARGO").expect("cargo sets it"));
    cargo.args(["build", "--release", "--locked", "--target", &target]).arg("--target-dir").arg(&place);
    cargo.args(LIBRARIES.iter().flat_map(|(package, _)| ["--package", package])).current_dir(root);
    cargo.env("CARGO_BUILD_BUILD_DIR", &place).env_remove("RUSTC_WORKSPACE_WRAPPER");
    let ended = cargo.status().expect("cargo can be run");
    assert!(ended.success(), "cargo could not build the libraries; its message stands above");
    let built = place.join(target).join("release");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    println!("cargo::rerun-if-changed=../../Cargo.toml");
    for (_, name) in LIBRARIES {
        sources(&built.join(name).with_extension("d"))
            .iter()
            .for_each(|path| println!("cargo::rerun-if-changed={path}"));
    }
    LIBRARIES.map(|(_, name)| (name, built.join(name))).to_vec()
}

/// Returns the source files of a library, from the dependency file that cargo writes: `LIBRARY: SOURCE SOURCE ...`, with `\`
/// before a space in a path.
fn sources(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("cargo writes it beside the library");
    let (_, sources) = text.trim_end().split_once(": ").expect("a line of a makefile");
    let sources = sources.replace("\\ ", "\0");
    sources.split(' ').map(|path| path.replace('\0', " ")).collect()
}
