//! The entries of every function of the table, derived from it. They hold no logic.
//!
//! Each function has three: its export, for programs that are linked to the driver; the address that lookups return;
//! and the traced function behind both, which `call` runs. The export and the address for lookups differ because they
//! lead to different places: a linked call continues to the next library that defines the name, and a looked-up call
//! to the driver that was asked.

use super::arch::export_entry;
use crate::call;
use crate::fault::forward;
use crate::recorder;
use crate::resolve::entries;
use crate::sys::program_memory;
use crate::sys::shareable::{self, Known};
use core::fmt::{self, Write};
use cupeer_spec::abi::FunctionPointer;
use cupeer_spec::function::FnId;
use cupeer_spec::value::{self, Format};

/// Prints one argument, in the way that depends on its direction (in, out, and so on).
macro_rules! print_argument {
    (in $value:ident, $succeeded:ident, $out:ident, $format:ident, $known:ident) => {
        value::print_input($value, $out, $format)
    };
    (string $value:ident, $succeeded:ident, $out:ident, $format:ident, $known:ident) => {{
        // A driver may have refused the call without reading the text, so the pointer may be bad.
        let copy = (!$succeeded && !$value.is_null()).then(|| program_memory::copy_text($value));
        match &copy {
            Some(None) => write!($out, "{}", if $format.json { "null" } else { "unreadable" }),
            // SAFETY: our copy ends in NUL.
            Some(Some(text)) => unsafe { value::print_string(text.as_ptr(), $out, $format) },
            // SAFETY: the driver has read the caller's text, or it is null.
            None => unsafe { value::print_string($value, $out, $format) },
        }
    }};
    (out $value:ident, $succeeded:ident, $out:ident, $format:ident, $known:ident) => {
        // SAFETY: after success the driver has written there.
        unsafe { value::print_output($value, $succeeded, $out, $format) }
    };
    (in [$count:ident] $value:ident, $succeeded:ident, $out:ident, $format:ident, $known:ident) => {{
        let count = $count as usize;
        // A driver may have refused the call without reading the array, so the pointer may be bad.
        let readable = $succeeded || program_memory::is_readable($value, count.min(value::MOST_ELEMENTS));
        // SAFETY: the driver has read that many elements, or as many as are printed are readable.
        unsafe { value::print_array($value, count, readable, $out, $format) }
    }};
    (out [$count:ident] $value:ident, $succeeded:ident, $out:ident, $format:ident, $known:ident) => {
        // SAFETY: after success the driver has written that many elements.
        unsafe { value::print_array($value, $count as usize, $succeeded, $out, $format) }
    };
    (in_struct $value:ident, $succeeded:ident, $out:ident, $format:ident, $known:ident) => {{
        let pointer: *const _ = $value;
        let copy = program_memory::copy_value(pointer);
        let pointer = copy.as_ref().map_or(pointer, core::ptr::from_ref);
        // SAFETY: a copy of ours, null, or not looked at.
        unsafe { value::print_output(pointer, copy.is_some(), $out, $format) }
    }};
    (@handle $dir:ident [$kind:ident] $value:ident, $succeeded:ident, $out:ident, $format:ident, $known:ident) => {
        match shareable!($dir [$kind] $value, $succeeded, $known) {
            Some(handle) => value::print_input(handle, $out, $format),
            None => value::print_pointer($value.cast_const(), $out, $format),
        }
    };
    (in_handle $($rest:tt)*) => {
        print_argument!(@handle in_handle $($rest)*)
    };
    (out_handle $($rest:tt)*) => {
        print_argument!(@handle out_handle $($rest)*)
    };
    // The value from before the call is not read, because a library may have refused the call without reading it.
    (inout $($rest:tt)*) => {
        print_argument!(out $($rest)*)
    };
}

/// Reads a shareable handle, in the way that depends on the direction of the argument; `None` if it cannot be read.
macro_rules! shareable {
    (in_handle [$kind:ident] $value:ident, $succeeded:ident, $known:ident) => {
        shareable::from_program($value, $kind.0, $known)
    };
    (out_handle [$kind:ident] $value:ident, $succeeded:ident, $known:ident) => {
        // SAFETY: after success the driver has written there.
        $succeeded.then(|| unsafe { shareable::from_driver($value, $kind.0, $known) }).flatten()
    };
}

/// Stores one argument in the record, in the way that depends on its direction.
macro_rules! store_argument {
    (in $value:ident, $succeeded:ident, $arguments:ident, $known:ident) => {
        $arguments.input($value)
    };
    (out $value:ident, $succeeded:ident, $arguments:ident, $known:ident) => {
        // SAFETY: after success the driver has written there.
        unsafe { $arguments.output($value, $succeeded) }
    };
    (inout $value:ident, $succeeded:ident, $arguments:ident, $known:ident) => {
        store_argument!(out $value, $succeeded, $arguments, $known)
    };
    (in_struct $value:ident, $succeeded:ident, $arguments:ident, $known:ident) => {
        // SAFETY: after success the driver has read it.
        unsafe { $arguments.structure($value, $succeeded) }
    };
    (in_handle [$kind:ident] $value:ident, $succeeded:ident, $arguments:ident, $known:ident) => {
        $arguments.shareable(shareable!(in_handle [$kind] $value, $succeeded, $known))
    };
    (out_handle [$kind:ident] $value:ident, $succeeded:ident, $arguments:ident, $known:ident) => {
        $arguments.shareable(shareable!(out_handle [$kind] $value, $succeeded, $known))
    };
    (string $value:ident, $succeeded:ident, $arguments:ident, $known:ident) => {
        $arguments.elsewhere($value)
    };
    ($dir:ident [$count:ident] $value:ident, $succeeded:ident, $arguments:ident, $known:ident) => {
        $arguments.elsewhere($value)
    };
}

/// Adds the contents of a text or an array to the record. The slot of the call has only its address.
macro_rules! add_argument {
    (string $value:ident, $index:ident, $succeeded:ident, $detail:ident) => {
        $detail.text($index, $value)
    };
    (in [$count:ident] $value:ident, $index:ident, $succeeded:ident, $detail:ident) => {
        $detail.elements($index, $value, $count as usize)
    };
    (out [$count:ident] $value:ident, $index:ident, $succeeded:ident, $detail:ident) => {
        if $succeeded {
            $detail.elements($index, $value, $count as usize)
        }
    };
    (inout [$count:ident] $($rest:tt)*) => {
        add_argument!(out [$count] $($rest)*)
    };
    ($($others:tt)*) => {};
}

macro_rules! handed_out {
    (LooksUp Function($name:ident) as $found:ident) => {
        Some($found)
    };
    ($($other:tt)*) => {
        None
    };
}

/// Defines an entry that the loader finds by the function's name. Entries of the runtime's functions have no name for the loader:
/// see `resolve::entries`.
macro_rules! exported {
    (Cudart $entry:item) => {
        $entry
    };
    ($library:ident $entry:item) => {
        #[unsafe(no_mangle)]
        $entry
    };
}

macro_rules! entries {
    ($(
        #[doc = $doc:literal]
        fn $name:ident(
            $($dir:ident $([$count:ident])? $arg:ident: $type:ty,)*
        ) -> $ret:ty {
            library: $library:ident, since: $since:literal, simulated: $fidelity:ident,
            effects: [$($effect:tt)*],
            results: [$($result:ident),* $(,)?],
            $(seen: [$($seen:ident),* $(,)?],)?
        }
    )*) => {
        $(
            #[doc = $doc]
            #[allow(non_snake_case)]
            mod $name {
                use super::*;

                const INDEX: usize = FnId::$name as usize;

                exported! { $library
                    #[doc = $doc]
                    #[unsafe(naked)]
                    pub unsafe extern "C" fn $name() {
                        export_entry!(INDEX, traced::<true>, traced::<false>)
                    }
                }

                #[allow(dead_code)]
                struct Passed {
                    $($arg: $type,)*
                    known: Known,
                }

                #[allow(unused_variables)]
                impl recorder::Store for Passed {
                    #[inline(always)]
                    fn store(&self, arguments: &mut recorder::Arguments, succeeded: bool) {
                        let &Passed { $($arg,)* ref known } = self;
                        $(store_argument!($dir $([$count])? $arg, succeeded, arguments, known);)*
                    }
                }

                #[allow(unused_variables, unused_mut, unused_assignments)]
                impl call::Arguments for Passed {
                    #[inline(always)]
                    unsafe fn forward(&self, real: usize) -> i32 {
                        type Real = unsafe extern "C-unwind" fn($($type),*) -> $ret;
                        // SAFETY: the caller says that it is such a function, and the arguments are the program's own.
                        unsafe { core::mem::transmute::<usize, Real>(real)($(self.$arg),*).0 }
                    }

                    fn print(&self, succeeded: bool, out: &mut dyn Write, format: Format) -> fmt::Result {
                        let &Passed { $($arg,)* ref known } = self;
                        let mut separator = "";
                        $(
                            call::print_name(separator, stringify!($arg), out, format)?;
                            print_argument!($dir $([$count])? $arg, succeeded, out, format, known)?;
                            separator = if format.json { "," } else { ", " };
                        )*
                        Ok(())
                    }

                    fn more(&self, detail: &mut recorder::Detail, succeeded: bool) {
                        let &Passed { $($arg,)* .. } = self;
                        let mut index = 0;
                        $(
                            add_argument!($dir $([$count])? $arg, index, succeeded, detail);
                            index += 1;
                        )*
                    }

                    fn words(&self, words: &mut forward::ArgumentWords) {
                        let mut index = 0;
                        $(
                            words[index] = forward::word(&self.$arg);
                            index += 1;
                        )*
                    }

                    #[inline(always)]
                    fn handed_out(&self) -> Option<*mut FunctionPointer> {
                        let &Passed { $($arg,)* .. } = self;
                        handed_out!($($effect)*)
                    }
                }

                impl call::Function for Passed {
                    const ID: FnId = FnId::$name;
                    #[inline(always)]
                    fn word(&self, wanted: usize) -> u64 {
                        let words = [$(forward::word(&self.$arg)),*];
                        words.get(wanted).copied().unwrap_or(0)
                    }
                }

                unsafe extern "C-unwind" fn traced<const EXPORT: bool>($($arg: $type),*) -> $ret {
                    type Answer = $ret;
                    let passed = || Passed { $($arg,)* known: Known::default() };
                    // SAFETY: the entry of a function of this name leads here, with what it got.
                    Answer { 0: unsafe { call::run::<Passed, EXPORT>(passed) } }
                }
            }
        )*

        /// Sets the entries of the functions without exports.
        pub fn provide() {
            $(entries::set_entry(FnId::$name, $name::$name as *const () as usize);)*
        }
    };
}
cupeer_spec::intercepted_functions!(entries);
