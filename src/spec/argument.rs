//! The arguments of the functions of the table, as data.
//!
//! Each process of a job must relocate the pointers in this table before it starts. So an argument has none:
//! its name and its type are numbers.

use crate::effect::is_equal;
use crate::texts::{Lists, items_of};
use crate::value::{Argument, Format, Text, Value};
use core::fmt::{self, Write};

/// Direction of an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Read by the function.
    In,
    /// Written by the function.
    Out,
    /// Read and written.
    InOut,
    /// A NUL-terminated text that is read.
    String,
}

/// An argument.
#[derive(Clone, Copy, Debug)]
pub struct ArgSpec {
    /// Direction.
    pub direction: Direction,
    /// The first byte of its name among [`NAMES`], and how many it has.
    name: (u16, u8),
    /// Index in [`TYPES`].
    of: u8,
    count: Option<u8>,
    kind: Option<u8>,
    stored: u8,
    element: u16,
    size: u16,
}

/// The type of an argument: once for all arguments of a type.
#[derive(Clone, Copy, Debug)]
pub struct ArgType {
    /// Name in Rust.
    pub name: &'static str,
    /// The values that have a name in the header: [`Value::names`].
    pub names: fn() -> Vec<(u64, &'static str)>,
    /// Returns true if a number is one of these values. Does not allocate.
    pub is_named: fn(u64) -> bool,
    /// Prints the argument's bytes in a recording. For an array, prints one element.
    pub print_stored: fn(&[u8], &mut dyn Write, Format) -> fmt::Result,
}

impl ArgType {
    /// Returns true if the last word of the type's name ends in `word`. The spacing of rustc's tokens is not
    /// guaranteed.
    pub(crate) const fn ends_with(&self, word: &str) -> bool {
        let (name, word) = (self.name.as_bytes(), word.as_bytes());
        name.len() >= word.len() && is_equal(name.split_at(name.len() - word.len()).1, word)
    }
}

impl ArgSpec {
    /// Returns the name in the header.
    pub const fn name(&self) -> &'static str {
        let (start, length) = self.name;
        NAMES.split_at(start as usize).1.split_at(length as usize).0
    }

    /// Returns the type.
    pub const fn of(&self) -> &'static ArgType {
        &TYPES[self.of as usize]
    }

    /// The index of the argument that holds the number of elements, if this is an array.
    pub const fn count(&self) -> Option<usize> {
        match self.count {
            Some(index) => Some(index as usize),
            None => None,
        }
    }

    /// The index of the argument that says which kind of handle it is, if it is a shareable handle.
    pub fn kind(&self) -> Option<usize> {
        self.kind.map(usize::from)
    }

    /// Returns the number of bytes that the argument has in a call's slot. Arrays and texts are stored
    /// elsewhere.
    pub const fn stored(&self) -> usize {
        self.stored as usize
    }

    /// Returns the number of bytes that an element of an array has in a recording; 0 for a text.
    pub const fn element(&self) -> usize {
        self.element as usize
    }

    /// Returns the number of bytes that a value has in memory: the target of a pointer, or an element of an
    /// array; 0 for a text.
    pub const fn size(&self) -> usize {
        self.size as usize
    }

    /// The last word of its type: `CUdevice`, `i32`, `CUipcMemHandle`.
    pub fn type_word(&self) -> &'static str {
        // The spacing of rustc's tokens is not guaranteed.
        self.of().name.rsplit([' ', '*', ':']).find(|word| !word.is_empty()).unwrap_or("")
    }

    /// Returns true for an IPC handle, and for a pointer to one.
    pub fn is_handle(&self) -> bool {
        matches!(self.type_word(), "CUipcMemHandle" | "CUipcEventHandle")
    }

    /// Returns true for a memory pool, and for a pointer that receives one.
    pub fn is_pool(&self) -> bool {
        self.type_word() == "CUmemoryPool"
    }

    /// Returns true for a device.
    pub fn is_device(&self) -> bool {
        self.direction == Direction::In && self.type_word() == "CUdevice"
    }

    /// Returns true for a stream.
    pub const fn is_stream(&self) -> bool {
        self.of == STREAM
    }

    /// Returns the type in C.
    pub fn c_type(&self) -> String {
        // The spacing of rustc's tokens is not guaranteed.
        let words: Vec<&str> = self.of().name.split([' ', '*', ':']).filter(|w| !w.is_empty()).collect();
        let pointer = if self.of().name.starts_with('*') { " *" } else { "" };
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

macro_rules! direction {
    (in) => {
        Direction::In
    };
    (out) => {
        Direction::Out
    };
    (inout) => {
        Direction::InOut
    };
    (string) => {
        Direction::String
    };
    (in_struct) => {
        Direction::In
    };
    (in_handle) => {
        Direction::In
    };
    (out_handle) => {
        Direction::Out
    };
}

macro_rules! count {
    ($dir:ident []) => {
        None
    };
    (in_handle [$kind:ident]) => {
        None
    };
    (out_handle [$kind:ident]) => {
        None
    };
    ($dir:ident [$name:ident]) => {
        Some(stringify!($name))
    };
}

macro_rules! kind {
    (in_handle [$kind:ident]) => {
        Some(stringify!($kind))
    };
    (out_handle [$kind:ident]) => {
        Some(stringify!($kind))
    };
    ($dir:ident [$($count:ident)?]) => {
        None
    };
}

/// Expands to the part of an argument that a recording stores.
macro_rules! kept {
    (string $type:ty) => {
        Text
    };
    ($dir:ident $type:ty) => {
        <$type as Argument>::Stored
    };
}

macro_rules! stored {
    (in_handle [$kind:ident] $type:ty) => {
        <kept!(in_handle $type) as Value>::STORED
    };
    (out_handle [$kind:ident] $type:ty) => {
        <kept!(out_handle $type) as Value>::STORED
    };
    ($dir:ident [] $type:ty) => {
        <kept!($dir $type) as Value>::STORED
    };
    ($dir:ident [$count:ident] $type:ty) => {
        0
    };
}

macro_rules! value_size {
    // A descriptor, which is a number. Exports pass a pointer to it, imports pass the number.
    (out_handle $type:ty) => {
        4
    };
    (in_handle $type:ty) => {
        8
    };
    ($dir:ident $type:ty) => {
        size_of::<kept!($dir $type)>()
    };
}

/// An argument as the table declares it.
struct Declared {
    name: &'static str,
    direction: Direction,
    of: ArgType,
    count: Option<&'static str>,
    kind: Option<&'static str>,
    stored: usize,
    element: usize,
    size: usize,
}

macro_rules! derive_arguments {
    ($(
        #[doc = $doc:literal]
        fn $name:ident(
            $($dir:ident $([$count:ident])? $arg:ident: $type:ty,)*
        ) -> $ret:ty { $($rest:tt)* }
    )*) => {
        /// The arguments of each function.
        const DECLARED: &[&[Declared]] = &[$(&[$(Declared {
            name: stringify!($arg),
            direction: direction!($dir),
            of: ArgType {
                name: stringify!($type),
                names: <kept!($dir $type)>::names,
                is_named: <kept!($dir $type)>::is_named,
                print_stored: <kept!($dir $type)>::print_stored,
            },
            count: count!($dir [$($count)?]),
            kind: kind!($dir [$($count)?]),
            stored: stored!($dir [$($count)?] $type),
            element: <kept!($dir $type)>::STORED,
            size: value_size!($dir $type),
        },)*],)*];

        /// Names of all arguments, concatenated.
        static NAMES: &str = concat!($($(stringify!($arg),)*)*);
    };
}
crate::intercepted_functions!(derive_arguments);

/// The arguments of all functions, in the order of the table.
static ARGUMENTS: Lists<ArgSpec, { DECLARED.len() }, { items_of(DECLARED) }> =
    Lists::packed(packed(), DECLARED);

/// The types that arguments have, each once.
static TYPES: [ArgType; types().1] = {
    let (all, count) = types();
    let mut own = [all[0].of; types().1];
    let mut index = 0;
    while index < count {
        own[index] = all[index].of;
        index += 1;
    }
    own
};

/// The index of the type of streams.
const STREAM: u8 = {
    let mut index = 0;
    while !TYPES[index].ends_with("CUstream") {
        index += 1;
    }
    index as u8
};

/// The arguments of a function of the table.
#[inline(always)]
pub(crate) const fn all_of(function: usize) -> &'static [ArgSpec] {
    ARGUMENTS.get(function)
}

/// An argument of each type, and how many types there are.
const fn types() -> ([&'static Declared; 256], usize) {
    let mut all = [&DECLARED[0][0]; 256];
    let mut count = 0;
    let mut function = 0;
    while function < DECLARED.len() {
        let mut index = 0;
        while index < DECLARED[function].len() {
            let argument = &DECLARED[function][index];
            if place(argument, &all, count) == count {
                all[count] = argument;
                count += 1;
            }
            index += 1;
        }
        function += 1;
    }
    (all, count)
}

/// Returns the index of an argument's type among the first `count` types; `count` if it is not there.
const fn place(argument: &Declared, all: &[&Declared], count: usize) -> usize {
    let mut index = 0;
    while index < count && !has_type_of(argument, all[index]) {
        index += 1;
    }
    index
}

/// Returns true if two arguments have the same type. A text has the type of a pointer to a character, but is
/// more.
const fn has_type_of(argument: &Declared, other: &Declared) -> bool {
    matches!(argument.direction, Direction::String) == matches!(other.direction, Direction::String)
        && is_equal(argument.of.name.as_bytes(), other.of.name.as_bytes())
}

const fn packed<const N: usize>() -> [ArgSpec; N] {
    let (types, count) = types();
    let none = ArgSpec {
        direction: Direction::In,
        name: (0, 0),
        of: 0,
        count: None,
        kind: None,
        stored: 0,
        element: 0,
        size: 0,
    };
    let mut packed = [none; N];
    let (mut at, mut start, mut function) = (0, 0, 0);
    while function < DECLARED.len() {
        let all = DECLARED[function];
        let mut index = 0;
        while index < all.len() {
            let declared = &all[index];
            packed[at] = ArgSpec {
                direction: declared.direction,
                name: (
                    narrow(start, u16::MAX as usize) as u16,
                    narrow(declared.name.len(), u8::MAX as usize) as u8,
                ),
                of: narrow(place(declared, &types, count), u8::MAX as usize) as u8,
                count: related(all, declared.count),
                kind: related(all, declared.kind),
                stored: narrow(declared.stored, u8::MAX as usize) as u8,
                element: narrow(declared.element, u16::MAX as usize) as u16,
                size: narrow(declared.size, u16::MAX as usize) as u16,
            };
            start += declared.name.len();
            (at, index) = (at + 1, index + 1);
        }
        function += 1;
    }
    packed
}

/// The index of the argument of a name.
const fn related(all: &[Declared], name: Option<&str>) -> Option<u8> {
    let Some(name) = name else { return None };
    let mut index = 0;
    while !is_equal(all[index].name.as_bytes(), name.as_bytes()) {
        index += 1;
    }
    Some(narrow(index, u8::MAX as usize) as u8)
}

const fn narrow(number: usize, most: usize) -> usize {
    assert!(number <= most, "an argument has a larger number than there is room for");
    number
}
