//! Gives the library the name under which programs load the driver, and binds its functions to itself: what
//! `cuGetProcAddress` hands out is ours, whatever else is loaded. It stays loaded, because it may have a thread.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
