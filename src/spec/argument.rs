//! The arguments of the functions of the table, as data.

use crate::effect::is_equal;
pub(crate) use crate::value::Text;
use crate::value::{Format, Value};
use core::fmt::{self, Write};

/// Direction of an argument: read or written by the function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The function reads the argument.
    In,
    /// The function writes the argument's target.
    Out,
    /// The function reads and writes the argument's target.
    InOut,
    /// The function reads a NUL-terminated text.
    String,
}

/// Argument of a function. Numbers are small, because each process relocates the table before it starts.
#[derive(Clone, Copy, Debug)]
pub struct ArgSpec {
    /// Direction in which the argument passes data.
    pub direction: Direction,
    pub(crate) name: &'static str,
    pub(crate) of: &'static ArgType,
    pub(crate) count: Option<u8>,
    pub(crate) kind: Option<u8>,
    pub(crate) stored: u16,
    pub(crate) element: u16,
    pub(crate) size: u16,
}

/// Type of an argument, with functions for its values.
#[derive(Clone, Copy, Debug)]
pub struct ArgType {
    /// Name of the type in Rust.
    pub name: &'static str,
    /// True if the type is a stream.
    pub is_stream: bool,
    /// Returns the values that have a name in cuda.h: [`Value::names`].
    pub names: fn() -> Vec<(u64, &'static str)>,
    /// Returns true if a number is one of the values that `names` returns. Does not allocate.
    pub is_named: fn(u64) -> bool,
    /// Prints the argument's bytes in a recording. For an array, prints one element.
    pub print_stored: fn(&[u8], &mut dyn Write, Format) -> fmt::Result,
}

impl ArgType {
    /// Returns the type of arguments that a recording stores as a `T`.
    pub(crate) const fn new<T: Value>(name: &'static str) -> ArgType {
        let is_stream = ends_with_word(name, "CUstream");
        ArgType { name, is_stream, names: T::names, is_named: T::is_named, print_stored: T::print_stored }
    }

    /// Returns true if the last word of the type's name ends in `word`.
    pub(crate) const fn ends_with(&self, word: &str) -> bool {
        ends_with_word(self.name, word)
    }
}

const fn ends_with_word(name: &str, word: &str) -> bool {
    let (name, word) = (name.as_bytes(), word.as_bytes());
    name.len() >= word.len() && is_equal(name.split_at(name.len() - word.len()).1, word)
}

impl ArgSpec {
    /// Returns the argument's name in the library's header.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the argument's type.
    pub const fn arg_type(&self) -> &'static ArgType {
        self.of
    }

    /// Returns the index of the argument that has the number of elements of this array; `None` if this argument is
    /// not an array.
    pub const fn count_argument(&self) -> Option<usize> {
        match self.count {
            Some(index) => Some(index as usize),
            None => None,
        }
    }

    /// Returns the index of the argument that has the kind of this shareable handle; `None` if this argument is not a
    /// shareable handle.
    pub fn handle_kind_argument(&self) -> Option<usize> {
        self.kind.map(usize::from)
    }

    /// Returns the number of bytes that the argument has in a call's slot. Arrays and texts are stored
    /// elsewhere.
    pub const fn stored_size(&self) -> usize {
        self.stored as usize
    }

    /// Returns the number of bytes that an element of an array has in a recording; 0 for a text.
    pub const fn stored_element_size(&self) -> usize {
        self.element as usize
    }

    /// Returns the number of bytes that a value has in memory: the target of a pointer, or an element of an
    /// array; 0 for a text.
    pub const fn value_size(&self) -> usize {
        self.size as usize
    }

    /// Returns the last word of the type's name: `CUdevice`, `i32`, `CUipcMemHandle`.
    pub fn type_word(&self) -> &'static str {
        // rustc does not guarantee the spaces between tokens.
        self.arg_type().name.rsplit([' ', '*', ':']).find(|word| !word.is_empty()).unwrap_or("")
    }

    /// Returns true if the argument is an IPC handle, or a pointer to one.
    pub fn is_ipc_handle(&self) -> bool {
        matches!(self.type_word(), "CUipcMemHandle" | "CUipcEventHandle")
    }

    /// Returns true if the argument is a memory pool, or a pointer that receives one.
    pub fn is_pool(&self) -> bool {
        self.type_word() == "CUmemoryPool"
    }

    /// Returns true if the argument is a device that the function reads.
    pub fn is_device(&self) -> bool {
        self.direction == Direction::In && self.type_word() == "CUdevice"
    }

    /// Returns true if the argument is a stream.
    pub const fn is_stream(&self) -> bool {
        self.of.is_stream
    }

    /// Returns the argument's type as C writes it.
    pub fn c_type(&self) -> String {
        // rustc does not guarantee the spaces between tokens.
        let words: Vec<&str> = self.arg_type().name.split([' ', '*', ':']).filter(|w| !w.is_empty()).collect();
        let pointer = if self.arg_type().name.starts_with('*') { " *" } else { "" };
        let constant = if words.first() == Some(&"const") { "const " } else { "" };
        let plain = match words.last().copied().unwrap_or_default() {
            "i32" => "int",
            "u8" => "unsigned char",
            "u16" => "unsigned short",
            "u32" | "IpcMemFlags" => "unsigned int",
            "u64" | "ProcAddressFlags" => "cuuint64_t",
            "usize" => "size_t",
            "c_char" => "char",
            "FunctionPointer" => "void *",
            "c_void" => "void",
            "HostAddress" => "void *",
            "CUDA_MEMCPY2D_v2" => "CUDA_MEMCPY2D",
            "CUDA_MEMCPY3D_v2" => "CUDA_MEMCPY3D",
            other => other,
        };
        format!("{constant}{plain}{pointer}").replace("* *", "**")
    }
}

/// Reads the arguments of an entry of the table, after their names.
macro_rules! arguments {
    ($names:tt $($dir:ident $([$other:ident])? $name:ident: $type:ty,)*) => {
        &[$($crate::argument::ArgSpec {
            direction: $crate::argument::direction!($dir),
            name: stringify!($name),
            of: &$crate::argument::ArgType::new::<$crate::argument::kept!($dir $type)>(stringify!($type)),
            count: $crate::argument::count!($dir $names $($other)?),
            kind: $crate::argument::kind!($dir $names $($other)?),
            stored: $crate::argument::stored!($dir $([$other])? $type) as u16,
            element: <$crate::argument::kept!($dir $type) as $crate::value::Value>::STORED as u16,
            size: $crate::argument::value_size!($dir $type) as u16,
        },)*]
    };
}

macro_rules! direction {
    (out) => {
        $crate::argument::Direction::Out
    };
    (out_handle) => {
        $crate::argument::Direction::Out
    };
    (inout) => {
        $crate::argument::Direction::InOut
    };
    (string) => {
        $crate::argument::Direction::String
    };
    ($in:ident) => {
        $crate::argument::Direction::In
    };
}

/// Expands to the index of the argument that counts the elements of an array.
macro_rules! count {
    (in_handle $names:tt $kind:ident) => { None };
    (out_handle $names:tt $kind:ident) => { None };
    ($dir:ident $names:tt $count:ident) => { Some($crate::effect::index!($names $count) as u8) };
    ($dir:ident $names:tt) => { None };
}

/// Expands to the index of the argument with the kind of a shareable handle.
macro_rules! kind {
    (in_handle $names:tt $kind:ident) => { Some($crate::effect::index!($names $kind) as u8) };
    (out_handle $names:tt $kind:ident) => { Some($crate::effect::index!($names $kind) as u8) };
    ($dir:ident $names:tt $($count:ident)?) => { None };
}

/// Expands to the part of an argument that a recording stores.
macro_rules! kept {
    (string $type:ty) => {
        $crate::argument::Text
    };
    ($dir:ident $type:ty) => {
        <$type as $crate::value::Argument>::Stored
    };
}

/// Expands to the bytes of an argument in a slot, which has no arrays.
macro_rules! stored {
    (in_handle [$kind:ident] $type:ty) => { <$crate::argument::kept!(in_handle $type) as $crate::value::Value>::STORED };
    (out_handle [$kind:ident] $type:ty) => { <$crate::argument::kept!(out_handle $type) as $crate::value::Value>::STORED };
    ($dir:ident [$count:ident] $type:ty) => { 0 };
    ($dir:ident $type:ty) => { <$crate::argument::kept!($dir $type) as $crate::value::Value>::STORED };
}

macro_rules! value_size {
    // A descriptor, which is a number. Exports pass a pointer to it, imports pass the number.
    (out_handle $type:ty) => { 4 };
    (in_handle $type:ty) => { 8 };
    ($dir:ident $type:ty) => { size_of::<$crate::argument::kept!($dir $type)>() };
}
pub(crate) use {arguments, count, direction, kept, kind, stored, value_size};
