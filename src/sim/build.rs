//! Gives the library the name under which programs load the driver, and binds its functions to itself: what
//! `cuGetProcAddress` hands out is ours, whatever else is loaded.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo::rerun-if-changed=build.rs");
}
