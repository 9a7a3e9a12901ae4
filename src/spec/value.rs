//! Formats arguments as text for people, or as JSON.
//!
//! There is one [`Value`] for each type that the table uses, and the code that reads pointers. Nothing here
//! allocates or locks, because it runs inside programs.

mod copies;
mod nvml;
mod sharing;

pub use sharing::Shareable;

use crate::abi::*;
use core::ffi::{CStr, c_char};
use core::fmt::{self, Write};

/// Largest number of elements of an array that are printed.
pub const MOST_ELEMENTS: usize = 16;
/// Largest number of bytes of a text that are printed.
pub const MOST_TEXT: usize = 128;

/// Output format.
#[derive(Clone, Copy)]
pub struct Format {
    /// True for JSON, false for text for people.
    pub json: bool,
    /// Computes the fingerprint that is printed in place of an IPC handle's bytes, because these give access
    /// to memory.
    pub fingerprint: Fingerprint,
}

/// Function that hashes the bytes of an IPC handle, or a part of them, with the key of the job.
pub type Fingerprint = fn(&[u8]) -> u64;

/// Range of the bytes of an IPC handle that the driver checks. The driver opens a handle even if its other
/// bytes are damaged.
pub const CHECKED: core::ops::Range<usize> = 24..64;

/// Offset of the exporter's pid in a memory handle.
pub const EXPORTER: usize = 8;

/// A value that can be printed, and stored in a recording.
pub trait Value: Copy {
    /// Number of bytes that the value has in a recording.
    const STORED: usize;

    /// Prints the value. In JSON, names and 64-bit numbers are strings, and all other numbers are numbers.
    fn print(self, out: &mut dyn Write, format: Format) -> fmt::Result;

    /// Writes the value to the [`Value::STORED`] bytes of a recording. An IPC handle becomes two
    /// fingerprints: of all its bytes, and of those that are [`CHECKED`].
    fn store(self, place: &mut [u8], fingerprint: Fingerprint);

    /// Returns the bytes of an IPC handle. In a memory handle, those at [`EXPORTER`] are the pid of its
    /// exporter in the exporter's own namespace (seen with driver 580).
    fn handle(self) -> Option<[u8; 64]> {
        None
    }

    /// Returns the values that have a name in cuda.h, as unsigned numbers.
    fn names() -> Vec<(u64, &'static str)> {
        Vec::new()
    }

    /// Returns true if a number is one of [`Value::names`].
    fn is_named(_: u64) -> bool {
        false
    }

    /// Prints the bytes of [`Value::store`] in the format of the value.
    fn print_stored(bytes: &[u8], out: &mut dyn Write, format: Format) -> fmt::Result;
}

/// An argument as the table declares it: a value, or a pointer to one.
pub trait Argument {
    /// Type of the stored value.
    type Stored: Value;
}

impl<T: Value> Argument for T {
    type Stored = T;
}

impl<T: Value> Argument for *mut T {
    type Stored = T;
}

impl<T: Value> Argument for *const T {
    type Stored = T;
}

/// Text argument, which is stored in a detail instead of the slot.
#[derive(Clone, Copy)]
pub struct Text;

impl Value for Text {
    const STORED: usize = 0;
    fn store(self, _: &mut [u8], _: Fingerprint) {}
    fn print(self, _: &mut dyn Write, _: Format) -> fmt::Result {
        Err(fmt::Error)
    }
    fn print_stored(_: &[u8], _: &mut dyn Write, _: Format) -> fmt::Result {
        Err(fmt::Error)
    }
}

/// Pointer whose target depends on another argument: see `in_handle` in the table.
impl Argument for *mut core::ffi::c_void {
    type Stored = Shareable;
}

/// Writes a word: as a string in JSON, without quotes as text.
fn word(out: &mut dyn Write, format: Format, word: fmt::Arguments) -> fmt::Result {
    if format.json { write!(out, "\"{word}\"") } else { out.write_fmt(word) }
}

/// Structure whose fields are being printed.
struct Fields<'a> {
    out: &'a mut dyn Write,
    format: Format,
    separator: &'static str,
}

impl<'a> Fields<'a> {
    fn begin(out: &'a mut dyn Write, format: Format) -> Result<Self, fmt::Error> {
        out.write_str("{")?;
        Ok(Fields { out, format, separator: "" })
    }

    fn field(&mut self, name: &str, print: impl FnOnce(&mut dyn Write) -> fmt::Result) -> fmt::Result {
        let (separator, format) = (self.separator, self.format);
        let out = &mut *self.out;
        if format.json {
            write!(out, "{separator}\"{name}\":")?
        } else {
            write!(out, "{separator}{name}=")?
        }
        self.separator = if format.json { "," } else { ", " };
        print(out)
    }

    fn end(self, rest: &[u8]) -> fmt::Result {
        if rest.is_empty() { self.out.write_str("}") } else { Err(fmt::Error) }
    }
}

/// Implements a value that is stored as one number: both conversions, and the rest.
macro_rules! number {
    ($type:ident: $int:ident, $number:expr, $make:expr, $($rest:tt)*) => {
        impl Value for $type {
            const STORED: usize = size_of::<$int>();
            fn store(self, place: &mut [u8], _: Fingerprint) {
                let number: fn(Self) -> $int = $number;
                place.copy_from_slice(&number(self).to_le_bytes());
            }
            fn print_stored(bytes: &[u8], out: &mut dyn Write, format: Format) -> fmt::Result {
                let make: fn($int) -> Self = $make;
                make($int::from_le_bytes(bytes.try_into().map_err(|_| fmt::Error)?)).print(out, format)
            }
            $($rest)*
        }
    };
}
macro_rules! values {
    (plain: $($plain:ident)*; devices: $($device:ident)*; wide: $($wide:ident)*; handles: $($handle:ident)*;
     names: $($named:ident: $int:ident)*; secrets: $($secret:ident)*;) => {
        $(number! { $plain: $plain, |value| value, |number| number,
            fn print(self, out: &mut dyn Write, _: Format) -> fmt::Result {
                write!(out, "{self}")
            }
        })*
        $(number! { $device: i32, |value| value.0, $device,
            fn print(self, out: &mut dyn Write, _: Format) -> fmt::Result {
                write!(out, "{}", self.0)
            }
        })*
        $(number! { $wide: $wide, |value| value, |number| number,
            fn print(self, out: &mut dyn Write, format: Format) -> fmt::Result {
                word(out, format, format_args!("{self:#x}"))
            }
        })*
        $(number! { $handle: u64, |value| value.0 as u64, |number| $handle(number as _),
            fn print(self, out: &mut dyn Write, format: Format) -> fmt::Result {
                word(out, format, format_args!("{:#x}", self.0 as usize))
            }
        })*
        $(number! { $named: $int, |value| value.0, $named,
            fn names() -> Vec<(u64, &'static str)> {
                // Convert the value to 64 bits without extending its sign.
                let mask = u64::MAX >> (64 - $int::BITS);
                Self::VALUES.iter().map(|(number, name)| (*number as u64 & mask, *name)).collect()
            }
            fn is_named(number: u64) -> bool {
                $named(number as $int).name().is_some()
            }
            fn print(self, out: &mut dyn Write, format: Format) -> fmt::Result {
                match self.name() {
                    Some(name) => word(out, format, format_args!("{name}")),
                    None => write!(out, "{}", self.0),
                }
            }
        })*
        $(impl Value for $secret {
            const STORED: usize = 16;
            fn handle(self) -> Option<[u8; 64]> {
                Some(self.reserved)
            }
            fn store(self, place: &mut [u8], fingerprint: Fingerprint) {
                let (whole, checked) = place.split_at_mut(8);
                whole.copy_from_slice(&fingerprint(&self.reserved).to_le_bytes());
                checked.copy_from_slice(&fingerprint(&self.reserved[CHECKED]).to_le_bytes());
            }
            fn print_stored(bytes: &[u8], out: &mut dyn Write, format: Format) -> fmt::Result {
                let whole = bytes.first_chunk().ok_or(fmt::Error)?;
                word(out, format, format_args!("ipc:{:016x}", u64::from_le_bytes(*whole)))
            }
            fn print(self, out: &mut dyn Write, format: Format) -> fmt::Result {
                word(out, format, format_args!("ipc:{:016x}", (format.fingerprint)(&self.reserved)))
            }
        })*
    };
}
values! {
    plain: i32 u32 u8 u16;
    devices: CUdevice;
    wide: u64 usize;
    handles: CUcontext CUevent CUstream FunctionPointer CUdeviceptr nvmlDevice_t
             CUmemGenericAllocationHandle CUmemoryPool HostAddress CUfunction CUkernel CUmodule CUlibrary
             CUgraph CUgraphExec CUgraphNode;
    names: CUdevice_P2PAttribute: i32 CUatomicOperation: i32 CUdriverProcAddressQueryResult: i32
           CUdevice_attribute: i32 IpcMemFlags: u32 ProcAddressFlags: u64
           nvmlGpuP2PCapsIndex_t: i32 nvmlGpuP2PStatus_t: i32 nvmlEnableState_t: i32 nvmlNvLinkCapability_t: i32
           nvmlIntNvLinkDeviceType_t: i32 nvmlGpuTopologyLevel_t: i32
           CUmemAllocationType: i32 CUmemLocationType: i32 CUmemAllocationHandleType: i32 CUmemAccess_flags: i32
           CUmemAllocationGranularity_flags: i32 CUmemRangeHandleType: i32
           CUmulticastGranularity_flags: i32;
    secrets: CUipcMemHandle CUipcEventHandle;
}

/// Prints an argument that a function reads. The code exists once for each type.
#[inline(never)]
pub fn print_input<T: Value>(value: T, out: &mut dyn Write, format: Format) -> fmt::Result {
    value.print(out, format)
}

/// Prints an output argument: `NULL` if the caller passed none; the target after success; otherwise the
/// address (JSON: `null`), because a function that fails leaves the target undefined.
///
/// # Safety
///
/// After success, `pointer` is null or points to a readable `T`.
#[inline(never)]
pub unsafe fn print_output<T: Value>(
    pointer: *const T,
    succeeded: bool,
    out: &mut dyn Write,
    format: Format,
) -> fmt::Result {
    if pointer.is_null() {
        return print_null(out, format);
    }
    if !succeeded {
        return print_address(pointer.cast(), out, format);
    }
    // SAFETY: not null, and the caller promises that it is readable after success.
    let value = unsafe { pointer.read_unaligned() };
    if format.json {
        return value.print(out, format);
    }
    out.write_str("[")?;
    value.print(out, format)?;
    out.write_str("]")
}

/// Prints an array argument, at most [`MOST_ELEMENTS`] of it. `readable` is true if its elements may be read:
/// always for an input, after success for an output.
///
/// # Safety
///
/// If `readable` is true, `pointer` is null or points to `count` readable elements.
#[inline(never)]
pub unsafe fn print_array<T: Value>(
    pointer: *const T,
    count: usize,
    readable: bool,
    out: &mut dyn Write,
    format: Format,
) -> fmt::Result {
    if pointer.is_null() {
        return print_null(out, format);
    }
    if !readable {
        return print_address(pointer.cast(), out, format);
    }
    out.write_str("[")?;
    for i in 0..count.min(MOST_ELEMENTS) {
        if i > 0 {
            out.write_str(if format.json { "," } else { ", " })?;
        }
        // SAFETY: `i` is below `count`, and the caller promises that many readable elements.
        unsafe { pointer.add(i).read_unaligned() }.print(out, format)?;
    }
    if count > MOST_ELEMENTS {
        out.write_str(if format.json { ",\"...\"" } else { ", ..." })?;
    }
    out.write_str("]")
}

/// Prints a text argument, quoted, at most [`MOST_TEXT`] bytes of it.
///
/// # Safety
///
/// `pointer` is null or points to a NUL-terminated text.
#[inline(never)]
pub unsafe fn print_string(pointer: *const c_char, out: &mut dyn Write, format: Format) -> fmt::Result {
    if pointer.is_null() {
        return print_null(out, format);
    }
    // SAFETY: not null, and the caller promises that it is NUL-terminated.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    write_quoted(bytes, MOST_TEXT, out)
}

/// Returns true if a terminal obeys the character, or reorders the text around it.
pub fn is_unsafe_for_terminal(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes bytes as a quoted string that is valid JSON and harmless on a terminal. Writes at most `most` bytes
/// between the quotes; a truncated string ends in dots.
pub fn write_quoted(bytes: &[u8], most: usize, out: &mut dyn Write) -> fmt::Result {
    out.write_str("\"")?;
    write_quoted_content(bytes, most, out)?;
    out.write_str("\"")
}

/// Formats a text as in `quoted`, without the quotes.
pub fn write_quoted_content(bytes: &[u8], most: usize, out: &mut dyn Write) -> fmt::Result {
    let mut written = 0;
    for chunk in bytes.utf8_chunks() {
        let replacement = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
        for c in chunk.valid().chars().chain(replacement) {
            let size = match c {
                '"' | '\\' => 2,
                c if is_unsafe_for_terminal(c) => 6,
                c => c.len_utf8(),
            };
            written += size;
            if written > most {
                return out.write_str("...");
            }
            match size {
                2 if c.is_ascii() => write!(out, "\\{c}")?,
                6 => write!(out, "\\u{:04x}", c as u32)?,
                _ => out.write_char(c)?,
            }
        }
    }
    Ok(())
}

fn print_null(out: &mut dyn Write, format: Format) -> fmt::Result {
    out.write_str(if format.json { "\"0x0\"" } else { "NULL" })
}

/// Prints the address in a pointer, not the pointer's target.
#[inline(never)]
pub fn print_pointer<T>(pointer: *const T, out: &mut dyn Write, format: Format) -> fmt::Result {
    if pointer.is_null() { print_null(out, format) } else { print_address(pointer.cast(), out, format) }
}

fn print_address(pointer: *const u8, out: &mut dyn Write, format: Format) -> fmt::Result {
    if format.json { out.write_str("null") } else { write!(out, "{:#x}", pointer as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Format = Format { json: false, fingerprint: |_| 0x12 };
    const JSON: Format = Format { json: true, fingerprint: |_| 0x12 };

    fn print<T: Value>(value: T, format: Format) -> String {
        let mut out = String::new();
        value.print(&mut out, format).unwrap();
        out
    }

    #[test]
    fn numbers_stay_numbers_and_wide_ones_become_strings() {
        assert_eq!(print(-1i32, JSON), "-1");
        assert_eq!(print(CUdeviceptr(0x7f00), JSON), "\"0x7f00\"");
        assert_eq!(print(CUdeviceptr(0x7f00), TEXT), "0x7f00");
    }

    #[test]
    fn enumerations_have_names_where_the_value_has_one() {
        assert_eq!(print(IpcMemFlags(1), TEXT), "CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS");
        assert_eq!(print(IpcMemFlags(3), JSON), "3");
    }

    #[test]
    fn handles_show_their_fingerprint_alone() {
        let handle = CUipcMemHandle { reserved: [7; 64] };
        assert_eq!(print(handle, TEXT), "ipc:0000000000000012");
    }

    fn output(pointer: *const i32, succeeded: bool, format: Format) -> String {
        let mut out = String::new();
        // SAFETY: the tests pass null, or a pointer that they may not read and say so.
        unsafe { print_output(pointer, succeeded, &mut out, format) }.unwrap();
        out
    }

    #[test]
    fn outputs_are_read_after_success_alone() {
        let value = 5;
        assert_eq!(output(&value, true, TEXT), "[5]");
        assert_eq!(output(&value, true, JSON), "5");
        let wild = 0x10 as *const i32;
        assert_eq!((output(wild, false, TEXT), output(wild, false, JSON)), ("0x10".into(), "null".into()));
        assert_eq!(output(core::ptr::null(), true, TEXT), "NULL");
        assert_eq!(output(core::ptr::null(), true, JSON), "\"0x0\"");
    }

    #[test]
    fn long_arrays_are_cut() {
        let many = [1i32; 20];
        for format in [TEXT, JSON] {
            let mut out = String::new();
            // SAFETY: `many` has 20 elements.
            unsafe { print_array(many.as_ptr(), 20, true, &mut out, format) }.unwrap();
            assert_eq!(out.matches('1').count(), MOST_ELEMENTS);
            assert!(out.contains("..."));
        }
    }

    #[test]
    fn texts_cannot_break_a_line_or_a_terminal() {
        let mut out = String::new();
        write_quoted(b"a\"\\\n\x1b[2J\xff\xc2\x9b\xe2\x80\xae", 99, &mut out).unwrap();
        assert_eq!(out, "\"a\\\"\\\\\\u000a\\u001b[2J\u{fffd}\\u009b\\u202e\"");
    }
}
