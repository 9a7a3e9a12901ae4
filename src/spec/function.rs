//! The table's facts about a function, as data for code that walks the table at run time. Derived from
//! [`crate::functions`].

mod derived;
mod stream;

use crate::argument::arguments;
pub use crate::argument::{ArgSpec, ArgType, Direction};
use crate::effect::{
    AddedDevice, AddressSpace, Altered, Batch, Bound, Code, Copied, Demand, Effect, End, Followed, Gathered, Grant,
    Groups, HostCall, Launchable, Launched, LookedUp, Made, Named, NodeKind, Object, OtherArgs, Posted, Query, Shared,
    Signal, Subject, Unbound, Used, Work, effects,
};
pub use crate::group::{Group, Library};
use core::ffi::CStr;

named! {
    /// Evidence that the simulated driver answers a function as a real driver does.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Fidelity {
        /// Recorded on a real driver, and compared with the recording by the conformance cases.
        Recorded = "recorded",
        /// Documented; not compared with a real driver.
        Documented = "documented",
        /// Assumed behavior, because the documentation is silent.
        Inferred = "inferred",
        /// Not implemented: returns CUDA_ERROR_NOT_SUPPORTED.
        Unsupported = "unsupported",
        /// The library is not simulated.
        Absent = "absent",
    }
    /// Returns the word for the evidence in `cupeer list functions`.
    pub fn name;
}

/// Arguments that the function that undoes a call receives: indexes of the call's arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UndoArgs {
    /// Argument that names the object that the call opened, enabled, or created.
    pub by: usize,
    /// Argument with the size of the object, if the function needs it.
    pub size: Option<usize>,
}

/// Maximum number of arguments of a function.
pub const MOST_ARGUMENTS: usize = 11;

/// An entry of the table: the facts about one function.
#[derive(Clone, Copy, Debug)]
pub struct FnSpec {
    /// Number of the function in the table.
    pub id: FnId,
    /// Exported name of the function, with a NUL behind it.
    symbol: &'static str,
    /// Library of the real function.
    pub library: Library,
    /// First version of CUDA in which `cuGetProcAddress` finds the function; 0 if there is none.
    pub since: u32,
    /// Groups of the function, which follow from its effects and its library.
    pub(crate) groups: Groups,
    /// Evidence for the simulated driver's answers.
    pub simulated: Fidelity,
    args: &'static [ArgSpec],
    effects: &'static [Effect],
    results: &'static [i32],
    seen: &'static [i32],
}

/// Returns the functions whose calls fault plans may change.
pub fn alterable_functions() -> impl Iterator<Item = &'static FnSpec> + Clone {
    FUNCTIONS.iter().filter(|function| function.is_alterable())
}

/// Defines lists of functions: `NAME: test` lists those for which `FnSpec::test` is true, in the order of the table.
macro_rules! functions_that {
    ($(#[doc = $doc:literal] $name:ident: $test:ident;)*) => {$(
        #[doc = $doc]
        pub static $name: [FnId; {
            let (mut count, mut index) = (0, 0);
            while index < FUNCTION_COUNT {
                count += FUNCTIONS[index].$test() as usize;
                index += 1;
            }
            count
        }] = {
            let (mut count, mut index) = (0, 0);
            let mut all = [ALL[0]; $name.len()];
            while index < FUNCTION_COUNT {
                if FUNCTIONS[index].$test() {
                    all[count] = ALL[index];
                    count += 1;
                }
                index += 1;
            }
            all
        };
    )*};
}
functions_that! {
    /// The functions that read or write device memory.
    USES: uses_memory;
    /// Functions that use device memory, directly or by a graph.
    USES_AND_GRAPHS: uses_memory_or_nodes;
    /// Functions that use device memory, or free it.
    USES_AND_FREES: uses_or_frees;
    /// Functions that launch kernels, or prepare a launch in a graph.
    LAUNCHES: launches_or_uses_nodes;
    /// Functions that write to device memory.
    WRITES: writes_memory;
    /// Functions whose accesses to shared memory must be in order.
    ORDERED: needs_order;
    /// Functions of graphs.
    GRAPHS: uses_nodes;
}

/// The name under which `cuGetProcAddress` finds a symbol from version `since` on: without its own version and form.
pub const fn look_up_name(symbol: &str, since: u32) -> &str {
    let name = match symbol.as_bytes() {
        _ if since == 0 => &[],
        [name @ .., b'_', b'p', b't', b'd', b's'] | [name @ .., b'_', b'p', b't', b's', b'z'] => name,
        name => name,
    };
    let name = if let [name @ .., b'_', b'v', b'0'..=b'9'] = name { name } else { name };
    symbol.split_at(name.len()).0
}

macro_rules! results {
    (Cuda $($result:ident)*) => {
        &[$(crate::results::Result::$result as i32),*]
    };
    (Cudart $($result:ident)*) => {
        results!(Cuda $($result)*)
    };
    (Nvml $($result:ident)*) => {
        &[$(crate::results::nvml::Result::$result as i32),*]
    };
}

macro_rules! derive_specs {
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
        /// The number of a function of the table; an index into [`FUNCTIONS`].
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        pub enum FnId { $($name,)* }

        /// The table as data, in the order of [`FnId`].
        pub static FUNCTIONS: &[FnSpec] = &[$(FnSpec {
            id: FnId::$name,
            symbol: concat!(stringify!($name), "\0"),
            library: Library::$library,
            since: $since,
            groups: Groups::of(effects!([$($arg)*] [$($effect)*])).and_of(Library::$library),
            simulated: Fidelity::$fidelity,
            args: arguments!([$($arg)*] $($dir $([$count])? $arg: $type,)*),
            effects: effects!([$($arg)*] [$($effect)*]),
            results: results!($library $($result)*),
            seen: results!($library $($($seen)*)?),
        },)*];

        /// Sentences about the functions, in a table of their own, so that the preload library does not contain them.
        static DOCS: &[&str] = &[$($doc.trim_ascii()),*];

        static ALL: &[FnId] = &[$(FnId::$name,)*];

        /// Number of functions in the table.
        pub const FUNCTION_COUNT: usize = [$(stringify!($name)),*].len();
    };
}
crate::intercepted_functions!(derive_specs);

impl FnSpec {
    /// Returns the exported name.
    pub const fn name(&self) -> &'static str {
        self.symbol.split_at(self.symbol.len() - 1).0
    }

    /// Returns the exported name as a C string.
    pub const fn c_name(&self) -> &'static CStr {
        // SAFETY: each ends in a NUL and has no other, because it is that of an item of Rust.
        unsafe { CStr::from_bytes_with_nul_unchecked(self.symbol.as_bytes()) }
    }

    /// Returns the effects of a successful call.
    pub const fn effects(&self) -> &'static [Effect] {
        self.effects
    }

    /// Returns the arguments, in order.
    pub const fn args(&self) -> &'static [ArgSpec] {
        self.args
    }

    /// Returns the documented results, as numbers of the function's library, success first.
    pub const fn results(&self) -> &'static [i32] {
        self.results
    }

    /// Returns the memory that a successful call allocates, from a pool or not.
    pub const fn allocated_memory(&self) -> Option<Made> {
        match *self.effects() {
            [Effect::Makes(made @ Made { object: Object::Memory | Object::Pointer, .. })] => Some(made),
            _ => None,
        }
    }

    /// Returns true if a failure can mean that a device has no memory left for a context.
    pub const fn can_lack_context_memory(&self) -> bool {
        let retains = matches!(self.effects(), [Effect::Retains(Named { object: Object::Primary, .. })]);
        retains || self.created_context().is_some()
    }

    /// Returns the failures that real drivers were seen to return, and that the function's documentation does not
    /// list.
    pub const fn undocumented_results(&self) -> &'static [i32] {
        self.seen
    }
}

// The arguments of each function fit in a recording: outputs in the slot, inputs also in a detail.
const _: () = {
    let mut index = 0;
    while index < FUNCTION_COUNT {
        let args = FUNCTIONS[index].args();
        let (mut bytes, mut arg) = (0, 0);
        while arg < args.len() {
            bytes += args[arg].stored_size();
            assert!(
                bytes <= crate::record::slot::ARGS || matches!(args[arg].direction, Direction::In),
                "an output lies outside of the slot"
            );
            arg += 1;
        }
        let is_tracked = FUNCTIONS[index].is_tracked();
        assert!(bytes <= crate::record::slot::ARGS || is_tracked, "only weighty calls have arguments elsewhere");
        assert!(
            bytes <= crate::record::slot::MOST_ARGS && args.len() <= MOST_ARGUMENTS,
            "a function has more arguments than a recording has room for"
        );
        // A recording has a state for each of the first eight arguments. Later ones share that of the eighth.
        let mut arg = 7;
        while args.len() > 8 && arg < args.len() {
            assert!(matches!(args[arg].direction, Direction::In) && args[arg].stored_size() == args[arg].value_size());
            arg += 1;
        }
        index += 1;
    }
};

impl FnId {
    /// Returns all functions, in the order of the table.
    pub fn all() -> impl Iterator<Item = FnId> {
        ALL.iter().copied()
    }

    /// Returns the function with this name.
    pub fn by_name(name: &str) -> Option<FnId> {
        FnId::all().find(|id| id.spec().name() == name)
    }

    /// Returns the newest function that meets a condition.
    pub fn find_newest(does: impl Fn(&FnSpec) -> bool) -> Option<FnId> {
        FnId::all().filter(|id| does(id.spec())).max_by_key(|id| id.spec().since)
    }

    /// Returns the function at an index of [`FUNCTIONS`].
    ///
    /// # Panics
    ///
    /// The index is out of range.
    pub fn at(index: usize) -> FnId {
        ALL[index]
    }

    /// Returns the entry of this function in the table.
    pub fn spec(self) -> &'static FnSpec {
        &FUNCTIONS[self as usize]
    }
}

#[cfg(test)]
mod tests;
