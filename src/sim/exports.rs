//! The exported symbols, derived from the two lists of `cupeer-spec`.
//!
//! Each symbol is a function that only jumps to its implementation. Two names that share one, such as
//! `cuMemcpyDtoH_v2` and `cuMemcpyDtoH_v2_ptds`, thus have two addresses, as in the real driver: whoever
//! compares what `cuGetProcAddress` returned with what `dlsym` returned finds the name that he asked for.
//! The compiler would merge equal bodies; it leaves naked functions alone. Each begins with instructions that a patcher can
//! move, as those of the real driver do: UCX patches its allocation functions in place.

// The names and their case are cuda.h's.
#![allow(non_snake_case)]

use core::arch::naked_asm;
use cupeer_spec::others::OtherFn;

/// What stands behind a symbol.
#[derive(Clone, Copy)]
pub(crate) struct Address(unsafe extern "C" fn());

impl Address {
    /// As `cuGetProcAddress` hands it out.
    pub(crate) fn get(self) -> *mut core::ffi::c_void {
        self.0 as *mut core::ffi::c_void
    }
}

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

/// One entry of the table, where it is the driver's.
macro_rules! export_one {
    (Cuda Unsupported $name:ident $($rest:tt)*) => {
        jump!($name, crate::api::unsupported);
    };
    (Cuda $fidelity:ident $name:ident($($type:ty),*) -> $ret:ty) => {
        const _: unsafe extern "C" fn($($type),*) -> $ret = crate::api::$name;
        jump!($name, crate::api::$name);
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
        $(export_one!($library $fidelity $name($($type),*) -> $ret);)*
        /// The functions of the table, in its order; `None` for another library's.
        static TABLE: &[Option<Address>] = &[$(address_of!($library $name),)*];
    };
}
cupeer_spec::intercepted_functions!(export_table);

macro_rules! export_other {
    ($symbol:ident, Unsupported) => {
        jump!($symbol, crate::api::unsupported);
    };
    ($symbol:ident, $fidelity:ident) => {
        jump!($symbol, crate::api::$symbol);
    };
    ($symbol:ident, $fidelity:ident, $same:ident) => {
        jump!($symbol, crate::api::$same);
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

/// Every function that can be looked up, with its address.
pub(crate) fn all() -> impl Iterator<Item = (OtherFn, Address)> {
    let table = cupeer_spec::function::FUNCTIONS.iter().map(|f| OtherFn {
        symbol: f.name,
        lookup: f.lookup(),
        since: f.since,
        simulated: f.simulated,
    });
    table
        .zip(TABLE)
        .filter_map(|(function, address)| Some((function, (*address)?)))
        .chain(cupeer_spec::others::OTHERS.iter().copied().zip(OTHERS.iter().copied()))
}
