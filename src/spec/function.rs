//! What the table says about a function, as data: derived from [`crate::functions`], for everything that
//! walks the table at run time.

use crate::results::{Result, ResultSpec};
use crate::value::{Argument, Format, Value};
use core::fmt::{self, Write};

/// The library in which a function really lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    /// The driver.
    Cuda,
    /// The management library.
    Nvml,
    /// The runtime.
    Cudart,
}

impl Library {
    /// The name by which programs load it.
    pub fn soname(self) -> &'static str {
        match self {
            Library::Cuda => "libcuda.so.1",
            Library::Nvml => "libnvidia-ml.so.1",
            Library::Cudart => "libcudart.so",
        }
    }

    /// The type of its results in C.
    pub fn result_type(self) -> &'static str {
        match self {
            Library::Cuda => "CUresult",
            Library::Nvml => "nvmlReturn_t",
            Library::Cudart => "cudaError_t",
        }
    }
}

/// A family of functions: `@peer` in a trace set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Peer access between devices.
    Peer,
    /// Legacy IPC, memory and events.
    Ipc,
    /// Legacy IPC of memory.
    IpcMem,
    /// Legacy IPC of events.
    IpcEvent,
    /// Look-ups of functions.
    Lookup,
    /// Calls that give something away.
    Export,
    /// Calls that take in something of another process.
    Open,
    /// Calls that switch access on.
    Enable,
    /// Calls that give something back.
    Release,
    /// Calls after which what others may still use is gone.
    Lifetime,
    /// Questions that programs ask all the time.
    Query,
}

impl Group {
    /// All groups, with the name that follows the `@`.
    pub const ALL: &'static [(Group, &'static str, &'static str)] = &[
        (Group::Peer, "peer", "peer access between devices"),
        (Group::Ipc, "ipc", "legacy IPC, memory and events"),
        (Group::IpcMem, "ipc-mem", "legacy IPC of memory"),
        (Group::IpcEvent, "ipc-event", "legacy IPC of events"),
        (Group::Lookup, "lookup", "look-ups of functions"),
        (Group::Export, "export", "calls that export memory or an event"),
        (Group::Open, "open", "calls that open what another process exported"),
        (Group::Enable, "enable", "calls that switch access on"),
        (Group::Release, "release", "calls that close or disable"),
        (Group::Lifetime, "lifetime", "calls that end what others may still use: free, destroy, reset"),
        (Group::Query, "query", "questions that programs ask all the time: device attributes, NVML"),
    ];

    /// The name that follows the `@`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(group, ..)| *group == self).map_or("", |(_, name, _)| name)
    }
}

/// What a call that succeeds ends, although others may have it open. It is named by the first argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// Memory, by its address.
    Memory,
    /// An event; one that was opened is closed.
    Event,
    /// A context, with all that belongs to it. `cuCtxDetach` does so with the last reference alone.
    Context,
    /// The primary context of a device; to release it does so with the last reference alone.
    Primary,
}

/// How far the simulated driver's answers for a function are known to be a real driver's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fidelity {
    /// Recorded on a real driver, and compared with the recording by the conformance cases.
    Recorded,
    /// As the documentation says; nobody compared.
    Documented,
    /// What we think a driver does where the documentation is silent.
    Inferred,
    /// Not done: answers CUDA_ERROR_NOT_SUPPORTED.
    Unsupported,
    /// Of a library that is not simulated.
    Absent,
}

impl Fidelity {
    /// The word of `cupeer list functions`.
    pub fn name(self) -> &'static str {
        match self {
            Fidelity::Recorded => "recorded",
            Fidelity::Documented => "documented",
            Fidelity::Inferred => "inferred",
            Fidelity::Unsupported => "unsupported",
            Fidelity::Absent => "absent",
        }
    }
}

/// Which way an argument goes.
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

/// One argument.
#[derive(Clone, Copy, Debug)]
pub struct ArgSpec {
    /// Its name in the header.
    pub name: &'static str,
    /// Which way it goes.
    pub direction: Direction,
    /// Its type, as Rust spells it.
    pub type_name: &'static str,
    /// The argument that holds the number of elements, where this is an array.
    pub count: Option<&'static str>,
    /// How many bytes it has in the slot of a record; arrays and texts stand elsewhere.
    pub stored: usize,
    /// How many bytes one value has in memory: what a pointer points to, an element of an array; 0 of a text.
    pub size: usize,
    /// The values that have a name in the header: [`Value::names`].
    pub names: fn() -> Vec<(u64, &'static str)>,
    /// Prints those bytes; of an array, those of one element.
    pub print_stored: fn(&[u8], &mut dyn Write, Format) -> fmt::Result,
}

impl ArgSpec {
    /// The last word of its type: `CUdevice`, `i32`, `CUipcMemHandle`.
    pub fn type_word(&self) -> &'static str {
        // How rustc spaces the tokens of a type is not promised.
        self.type_name.rsplit([' ', '*', ':']).find(|word| !word.is_empty()).unwrap_or("")
    }

    /// Whether it is an IPC handle, or a pointer to one.
    pub fn is_handle(&self) -> bool {
        self.type_word().starts_with("CUipc")
    }

    /// The bytes of what it points to, where it is an output; of an array, those of an element.
    pub fn output_size(&self) -> usize {
        self.size
    }

    /// Its type as C spells it.
    pub fn c_type(&self) -> String {
        // How rustc spaces the tokens of a type is not promised.
        let words: Vec<&str> = self.type_name.split([' ', '*', ':']).filter(|w| !w.is_empty()).collect();
        let pointer = if self.type_name.starts_with('*') { " *" } else { "" };
        let constant = if words.first() == Some(&"const") { "const " } else { "" };
        let plain = match words.last().copied().unwrap_or_default() {
            "i32" => "int",
            "u32" | "IpcMemFlags" => "unsigned int",
            "u64" | "ProcAddressFlags" => "cuuint64_t",
            "usize" => "size_t",
            "c_char" => "char",
            "FunctionPointer" => "void *",
            other => other,
        };
        format!("{constant}{plain}{pointer}").replace("* *", "**")
    }
}

/// One entry of the table.
#[derive(Clone, Copy, Debug)]
pub struct FnSpec {
    /// The exported name.
    pub name: &'static str,
    /// One sentence: what it does.
    pub doc: &'static str,
    /// Where it really lives.
    pub library: Library,
    /// The name that `cuGetProcAddress` is asked for; empty for a function that is not the driver's.
    pub lookup: &'static str,
    /// The first version for which that finds it; 0 where there is none.
    pub since: u32,
    /// Its families.
    pub groups: &'static [Group],
    /// The output that holds a function pointer.
    pub hands_out: Option<&'static str>,
    /// What its success ends.
    pub ends: Option<Ends>,
    /// The function that undoes what it did, and the argument of this one that it is given: an output's value.
    pub undone_by: Option<(FnId, &'static str)>,
    /// Its arguments in order.
    pub args: &'static [ArgSpec],
    /// Its documented results, as numbers of its library, success first.
    pub results: &'static [i32],
    /// How far the simulated driver is known to answer as a real one.
    pub simulated: Fidelity,
}

impl FnSpec {
    /// Whether the function belongs to a family.
    pub fn is_in(&self, group: Group) -> bool {
        self.groups.contains(&group)
    }

    /// The numbers of its documented results, success first.
    pub fn documented(&self) -> impl Iterator<Item = i32> + use<> {
        self.results.iter().copied()
    }

    /// Whether a call with this result had nothing left to do: the driver has shut down, and so ended by itself what the
    /// function ends or gives back. The CUDA runtime releases primary contexts that late in every process that exits,
    /// so this is no failure.
    pub fn is_over(&self, result: i32) -> bool {
        let gives_back = self.ends.is_some() || self.is_in(Group::Release);
        gives_back && self.library == Library::Cuda && result == Result::DEINITIALIZED as i32
    }

    /// Whether this is the form whose stream 0 is the calling thread's own.
    pub fn is_per_thread(&self) -> bool {
        self.name.ends_with("_ptds") || self.name.ends_with("_ptsz")
    }

    /// What its library says of a result.
    pub fn result(&self, number: i32) -> Option<&'static ResultSpec> {
        self.library.result(number)
    }

    /// The name of a result in its library's header.
    pub fn result_name(&self, number: i32) -> Option<&'static str> {
        self.result(number).map(ResultSpec::name)
    }

    /// The number of a result of its library, as people type it: a number, or a name with or without its prefix.
    pub fn parse_result(&self, text: &str) -> Option<i32> {
        self.library.parse_result(text).map(|spec| spec.number)
    }

    /// The argument of this name, in whatever case, and its index.
    pub fn argument(&self, name: &str) -> Option<(usize, &'static ArgSpec)> {
        self.args.iter().enumerate().find(|(_, arg)| arg.name.eq_ignore_ascii_case(name))
    }

    /// How many bytes the arguments have in the slot of a record.
    pub fn stored(&self) -> usize {
        self.args.iter().map(|arg| arg.stored).sum()
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
}

macro_rules! optional {
    () => {
        None
    };
    ($name:ident) => {
        Some(stringify!($name))
    };
}

macro_rules! ends {
    () => {
        None
    };
    ($what:ident) => {
        Some(Ends::$what)
    };
}

macro_rules! undone_by {
    () => {
        None
    };
    ($function:ident $argument:ident) => {
        Some((FnId::$function, stringify!($argument)))
    };
}

macro_rules! results {
    (Cuda $($result:ident)*) => {
        &[$(crate::results::Result::$result as i32),*]
    };
    (Nvml $($result:ident)*) => {
        &[$(crate::results::nvml::Result::$result as i32),*]
    };
}

macro_rules! stored {
    (string [] $type:ty) => {
        0
    };
    ($dir:ident [] $type:ty) => {
        <<$type as Argument>::Kept as Value>::STORED
    };
    ($dir:ident [$count:ident] $type:ty) => {
        0
    };
}

macro_rules! value_size {
    (string $type:ty) => {
        0
    };
    ($dir:ident $type:ty) => {
        size_of::<<$type as Argument>::Kept>()
    };
}

macro_rules! names {
    (string $type:ty) => {
        Vec::new
    };
    ($dir:ident $type:ty) => {
        <<$type as Argument>::Kept as Value>::names
    };
}

macro_rules! print_stored {
    (string $type:ty) => {
        |_, _, _| Err(fmt::Error)
    };
    ($dir:ident $type:ty) => {
        <<$type as Argument>::Kept as Value>::print_stored
    };
}

macro_rules! derive_specs {
    ($(
        #[doc = $doc:literal]
        fn $name:ident(
            $($dir:ident $([$count:ident])? $arg:ident: $type:ty,)*
        ) -> $ret:ty {
            library: $library:ident, lookup: $lookup:literal since $since:literal, groups: [$($group:ident),*],
            $(hands_out: $handed:ident,)?
            $(ends: $ends:ident,)?
            $(undone_by: $undo:ident($undone:ident),)?
            results: [$($result:ident),* $(,)?],
            simulated: $fidelity:ident,
        }
    )*) => {
        /// The number of a function of the table; an index into [`FUNCTIONS`].
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        pub enum FnId { $($name,)* }

        /// The table as data, in the order of [`FnId`].
        pub static FUNCTIONS: &[FnSpec] = &[$(FnSpec {
            name: stringify!($name),
            doc: $doc.trim_ascii(),
            library: Library::$library,
            lookup: $lookup,
            since: $since,
            groups: &[$(Group::$group),*],
            hands_out: optional!($($handed)?),
            ends: ends!($($ends)?),
            undone_by: undone_by!($($undo $undone)?),
            args: &[$(ArgSpec {
                name: stringify!($arg),
                direction: direction!($dir),
                type_name: stringify!($type),
                count: optional!($($count)?),
                stored: stored!($dir [$($count)?] $type),
                size: value_size!($dir $type),
                names: names!($dir $type),
                print_stored: print_stored!($dir $type),
            },)*],
            results: results!($library $($result)*),
            simulated: Fidelity::$fidelity,
        },)*];

        static ALL: &[FnId] = &[$(FnId::$name,)*];

        /// How many functions the table has.
        pub const FUNCTION_COUNT: usize = [$(stringify!($name)),*].len();
    };
}
crate::intercepted_functions!(derive_specs);

impl FnId {
    /// All functions of the table in order.
    pub fn all() -> impl Iterator<Item = FnId> {
        ALL.iter().copied()
    }

    /// The function of an index into [`FUNCTIONS`].
    ///
    /// # Panics
    ///
    /// Where there is no such index.
    pub fn at(index: usize) -> FnId {
        ALL[index]
    }

    /// The entry of this function.
    pub fn spec(self) -> &'static FnSpec {
        &FUNCTIONS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (i, f) in FUNCTIONS.iter().enumerate() {
            assert!(FUNCTIONS[i + 1..].iter().all(|g| g.name != f.name), "{} stands twice", f.name);
        }
    }

    #[test]
    fn versions_of_one_name_differ_and_rise() {
        for (i, f) in FUNCTIONS.iter().enumerate() {
            let is_alike = |g: &&FnSpec| {
                g.lookup == f.lookup && g.is_per_thread() == f.is_per_thread() && !f.lookup.is_empty()
            };
            for g in FUNCTIONS[i + 1..].iter().filter(is_alike) {
                assert!(g.since > f.since, "{} and {} are looked up alike", f.name, g.name);
            }
        }
    }

    #[test]
    fn the_drivers_functions_alone_are_looked_up() {
        for f in FUNCTIONS {
            let is_drivers = f.library == Library::Cuda;
            assert_eq!((f.lookup.is_empty(), f.since == 0), (!is_drivers, !is_drivers), "{}", f.name);
            assert_eq!(f.simulated == Fidelity::Absent, !is_drivers, "{}", f.name);
        }
    }

    #[test]
    fn success_is_documented_first_and_no_result_twice() {
        for f in FUNCTIONS {
            assert_eq!(f.results[0], 0, "{}", f.name);
            for (i, r) in f.results.iter().enumerate() {
                assert!(!f.results[i + 1..].contains(r), "{}: {r} stands twice", f.name);
                assert!(f.result(*r).is_some(), "{}: {r} is none of its library", f.name);
            }
        }
    }

    #[test]
    fn types_read_as_in_c() {
        let types: Vec<String> = FnId::cuGetProcAddress.spec().args.iter().map(ArgSpec::c_type).collect();
        assert_eq!(types, ["const char *", "void **", "int", "cuuint64_t"]);
    }

    #[test]
    fn names_belong_to_arguments() {
        for f in FUNCTIONS {
            let is_arg = |name: &str| f.args.iter().any(|a| a.name == name);
            assert!(f.args.iter().filter_map(|a| a.count).all(is_arg), "{}", f.name);
            assert!(f.hands_out.iter().all(|name| is_arg(name)), "{}", f.name);
        }
    }

    /// The ledgers read it by that.
    #[test]
    fn what_ends_is_the_first_argument() {
        for f in FUNCTIONS {
            assert_eq!(f.ends.is_some(), f.is_in(Group::Lifetime), "{}", f.name);
            assert!(f.ends.is_none() || matches!(f.args[0].stored, 4 | 8), "{}", f.name);
        }
    }

    /// The library calls them with one word.
    #[test]
    fn what_undoes_a_call_takes_one_word_of_it() {
        for f in FUNCTIONS {
            let Some((inverse, argument)) = f.undone_by else { continue };
            let taken: Vec<usize> = inverse.spec().args.iter().map(|arg| arg.stored).collect();
            let given = f.argument(argument).map(|(_, arg)| arg.stored);
            assert_eq!((taken.as_slice(), given), (&[8][..], Some(8)), "{}", f.name);
            assert_eq!(inverse.spec().library, f.library, "{}", f.name);
        }
    }

    #[test]
    fn the_arguments_of_each_function_fit_into_a_slot() {
        for f in FUNCTIONS {
            assert!(f.stored() <= crate::record::slot::ARGS && f.args.len() <= 8, "{}", f.name);
        }
    }

    #[test]
    fn every_function_is_documented_and_in_a_group() {
        for f in FUNCTIONS {
            assert!(f.doc.ends_with('.') && !f.groups.is_empty(), "{}", f.name);
        }
    }
}
