//! Sets how the library is linked.

fn main() {
    // Our own references to our exports must not find another library's function of the same name.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    // Programs keep pointers into us that nobody counts.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcupeer.so");
    println!("cargo::rerun-if-changed=build.rs");
}
