//! The exported symbols, derived from the two lists of `cupeer-spec`.
//!
//! Each symbol is a function that only jumps to its implementation. Two names with equal bodies, such as `cuMemcpyDtoH_v2`
//! and `cuMemcpyDtoH_v2_ptds`, thus have two addresses, as in a real driver: a program that compares addresses of
//! `cuGetProcAddress` with those of `dlsym` finds the right name. The compiler would merge equal bodies, but not naked
//! functions. Each begins with instructions that a patcher can move, as in a real driver: UCX patches its allocation
//! functions in place.

// The names and their case are cuda.h's.
#![allow(non_snake_case)]

use super::boundary::{Argument, Signature, answer};
use core::arch::naked_asm;
use core::ffi::c_void;
use cupeer_spec::others::OtherFn;

/// The address of an exported function.
#[derive(Clone, Copy)]
struct Address(unsafe extern "C" fn());

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($symbol:ident, $target:path) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $symbol() {
            naked_asm!(".p2align 4", ".rept 4", "mov eax, 0", ".endr", "jmp {}", sym $target)
        }
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($symbol:ident, $target:path) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $symbol() {
            naked_asm!(".p2align 4", ".rept 4", "mov w9, 0", ".endr", "b {}", sym $target)
        }
    };
}

/// Exports an entry of the table, if it is a function of the driver.
macro_rules! export_one {
    (Cuda Unsupported $name:ident $($rest:tt)*) => {
        jump!($name, crate::api::unsupported);
    };
    (Cuda $fidelity:ident $name:ident() -> $ret:ty) => {
        jump!($name, crate::api::$name::call);
    };
    (Cuda $fidelity:ident $name:ident($($arg:ident: $type:ty),+) -> $ret:ty) => {
        impl Signature for crate::api::$name {
            type Arguments = ($(<$type as Argument>::Received,)+);
        }
        impl crate::api::$name {
            pub(crate) unsafe extern "C" fn call($($arg: $type),+) -> $ret {
                // SAFETY: the caller of the C function promises that each pointer is null, or valid for the use that
                // the function's documentation describes.
                let arguments = unsafe { ($(Argument::receive($arg),)+) };
                answer(stringify!($name), move || Self::body(arguments))
            }
        }
        jump!($name, crate::api::$name::call);
    };
    ($library:ident $fidelity:ident $name:ident $($rest:tt)*) => {};
}
macro_rules! address_of {
    (Cuda $name:ident) => {
        Some(Address($name))
    };
    ($library:ident $name:ident) => {
        None
    };
}
macro_rules! export_table {
    ($(
        #[doc = $doc:literal]
        fn $name:ident(
            $($dir:ident $([$count:ident])? $arg:ident: $type:ty,)*
        ) -> $ret:ty {
            library: $library:ident, since: $since:literal, simulated: $fidelity:ident, $($rest:tt)*
        }
    )*) => {
        $(export_one!($library $fidelity $name($($arg: $type),*) -> $ret);)*
        /// Addresses of our exports, in the order of `cupeer_spec`'s table of functions; `None` for a function of the runtime,
        /// which the simulated driver does not export.
        static TABLE: &[Option<Address>] = &[$(address_of!($library $name),)*];
    };
}
cupeer_spec::intercepted_functions!(export_table);

macro_rules! export_other {
    ($symbol:ident, Unsupported) => {
        jump!($symbol, crate::api::unsupported);
    };
    ($symbol:ident, $fidelity:ident) => {
        jump!($symbol, crate::api::$symbol::call);
    };
    ($symbol:ident, $fidelity:ident, $same:ident) => {
        jump!($symbol, crate::api::$same::call);
    };
}
macro_rules! export_others {
    ($($since:literal $fidelity:ident: $($symbol:ident $(= $same:ident)?),+;)+) => {
        $($(export_other!($symbol, $fidelity $(, $same)?);)+)+
        /// The functions of the list, in its order.
        static OTHERS: &[Address] = &[$($(Address($symbol),)+)+];
    };
}
cupeer_spec::driver_functions_beyond!(export_others);

/// Returns every function that can be looked up, with the address that `cuGetProcAddress` returns.
pub(crate) fn all_functions() -> impl Iterator<Item = (OtherFn, *mut c_void)> {
    let table = cupeer_spec::function::FUNCTIONS.iter().map(|f| OtherFn {
        symbol: f.name(),
        lookup: f.lookup(),
        since: f.since,
        simulated: f.simulated,
    });
    table
        .zip(TABLE)
        .filter_map(|(function, address)| Some((function, (*address)?)))
        .chain(cupeer_spec::others::OTHERS.iter().copied().zip(OTHERS.iter().copied()))
        .map(|(function, Address(address))| (function, address as *mut c_void))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::lookup::{DRIVER_VERSION, FOUND, find_function};
    use cupeer_spec::abi::ProcAddressFlags;

    fn symbol(name: &str, version: i32, flags: u64) -> String {
        match find_function(all_functions, name.as_bytes(), version, ProcAddressFlags(flags)) {
            Ok((FOUND, pointer)) => all_functions().find(|(_, a)| *a == pointer).unwrap().0.symbol.into(),
            Ok((status, _)) => status.0.to_string(),
            Err(failure) => format!("{:?}", failure.code),
        }
    }

    #[test]
    fn versions_and_forms() {
        for (name, version, flags, wanted) in [
            ("cuMemcpyDtoH", 3010, 0, "cuMemcpyDtoH"),
            ("cuMemcpyDtoH", 13000, 0, "cuMemcpyDtoH_v2"),
            ("cuMemcpyDtoH", 13000, 1, "cuMemcpyDtoH_v2"),
            ("cuMemcpyDtoH", 6050, 2, "2"),
            ("cuMemcpyDtoH", 7000, 2, "cuMemcpyDtoH_v2_ptds"),
            ("cuIpcOpenMemHandle", 10020, 0, "cuIpcOpenMemHandle"),
            ("cuIpcOpenMemHandle", 11000, 2, "cuIpcOpenMemHandle_v2"),
            ("cuIpcOpenMemHandle_v2", 13000, 0, "1"),
            ("cuCtxCreate", 12000, 0, "cuCtxCreate_v3"),
            ("", 13000, 0, "1"),
            ("cuMemAlloc", -1, 0, "cuMemAlloc_v2"),
            ("cuMulticastBindMem", -1, 0, "cuMulticastBindMem"),
            ("cuInit", 13010, 0, "INVALID_VALUE"),
            ("cuInit", 13000, 3, "INVALID_VALUE"),
        ] {
            assert_eq!(symbol(name, version, flags), wanted, "{name} {version} {flags}");
        }
    }

    #[test]
    fn every_name_leads_back_to_itself() {
        let is_known = |f: &OtherFn| !f.lookup.is_empty() && f.since <= DRIVER_VERSION as u32;
        for (f, address) in all_functions().filter(|(f, _)| is_known(f)) {
            let flags = if f.is_per_thread() { 2 } else { 0 };
            let found = find_function(all_functions, f.lookup.as_bytes(), f.since as i32, ProcAddressFlags(flags));
            assert_eq!(found, Ok((FOUND, address)), "{}", f.symbol);
        }
    }
}
