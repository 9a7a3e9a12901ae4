//! What the table says about a function, as data: derived from [`crate::functions`], for everything that
//! walks the table at run time.

mod derived;
mod stream;

use crate::argument;
pub use crate::argument::{ArgSpec, ArgType, Direction};
use crate::effect::{
    Altered, Batch, Beside, Bound, Code, Copied, Demand, Effect, End, Followed, Gathered, Grant, Groups,
    HostCall, Joined, Launchable, Launched, LookedUp, Made, Named, NodeKind, Object, Posted, Question,
    Shared, Sides, Signal, Subject, Unbound, Used, Work, effects,
};
pub use crate::group::{Group, Library};
use core::ffi::CStr;

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

/// What the function that undoes a call is given: arguments of that call, by their indexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    /// The one that names what the call has opened, enabled or made.
    pub by: usize,
    /// The one that says how large it is, where both are asked for.
    pub size: Option<usize>,
}

/// So many arguments a function has at most.
pub const MOST_ARGUMENTS: usize = 11;

/// One entry of the table. Its texts and lists stand elsewhere, by its number: see [`mod@crate::texts`].
#[derive(Clone, Copy, Debug)]
pub struct FnSpec {
    /// Its number.
    pub id: FnId,
    /// Where it really lives.
    pub library: Library,
    /// The first version for which that finds it; 0 where there is none.
    pub since: u32,
    /// The groups that follow from that.
    pub(crate) groups: Groups,
    /// How far the simulated driver is known to answer as a real one.
    pub simulated: Fidelity,
}

/// The functions of which plans of faults may alter calls.
pub fn alterable() -> impl Iterator<Item = &'static FnSpec> + Clone {
    FUNCTIONS.iter().filter(|function| function.is_alterable())
}

/// Lists functions, in the order of the table.
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
    /// Those, and the functions that do it by a graph.
    USES_AND_GRAPHS: uses_memory_or_nodes;
    /// Those, and the functions that free it.
    USES_AND_FREES: uses_or_frees;
    /// Those that launch kernels, or prepare it in a graph.
    LAUNCHES: launches_or_uses_nodes;
    /// Those of graphs alone.
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
            library: Library::$library,
            since: $since,
            groups: Groups::of(effects!([$($arg)*] [$($effect)*])).and_of(Library::$library),
            simulated: Fidelity::$fidelity,
        },)*];

        const NAMED: &[&str] = &[$(concat!(stringify!($name), "\0")),*];
        const CAUSED: &[&[Effect]] = &[$(effects!([$($arg)*] [$($effect)*])),*];
        const DOCUMENTED: &[&[i32]] = &[$(results!($library $($result)*)),*];
        const SEEN_BY_US: &[&[i32]] = &[$(results!($library $($($seen)*)?)),*];

        /// By itself, so that the preload library is without it.
        static DOCS: &[&str] = &[$($doc.trim_ascii()),*];

        static ALL: &[FnId] = &[$(FnId::$name,)*];

        /// How many functions the table has.
        pub const FUNCTION_COUNT: usize = [$(stringify!($name)),*].len();
    };
}
crate::intercepted_functions!(derive_specs);

crate::texts!(static NAMES = NAMED);
crate::lists!(static EFFECTS: Effect = CAUSED);
crate::lists!(static RESULTS: i32 = DOCUMENTED);
crate::lists!(static SEEN: i32 = SEEN_BY_US);

impl FnSpec {
    /// The exported name.
    pub const fn name(&self) -> &'static str {
        let name = NAMES.get(self.id as usize);
        name.split_at(name.len() - 1).0
    }

    /// The same for C.
    pub const fn c_name(&self) -> &'static CStr {
        // SAFETY: each ends in a NUL and has no other, because it is that of an item of Rust.
        unsafe { CStr::from_bytes_with_nul_unchecked(NAMES.get(self.id as usize).as_bytes()) }
    }

    /// What a success does.
    pub const fn effects(&self) -> &'static [Effect] {
        EFFECTS.get(self.id as usize)
    }

    /// Its arguments in order.
    pub const fn args(&self) -> &'static [ArgSpec] {
        argument::all_of(self.id as usize)
    }

    /// Its documented results, as numbers of its library, success first.
    pub const fn results(&self) -> &'static [i32] {
        RESULTS.get(self.id as usize)
    }

    /// The memory that a success allocates, of a pool or not.
    pub const fn allocates(&self) -> Option<Made> {
        match *self.effects() {
            [Effect::Makes(made @ Made { object: Object::Memory | Object::Pointer, .. })] => Some(made),
            _ => None,
        }
    }

    /// Whether a failure may say that a device has no memory left for a context.
    pub const fn has_context(&self) -> bool {
        let retains = matches!(self.effects(), [Effect::Retains(Named { object: Object::Primary, .. })]);
        retains || self.creates_context().is_some()
    }

    /// Failures that its documentation does not list, and that real drivers were seen to return.
    pub const fn seen(&self) -> &'static [i32] {
        SEEN.get(self.id as usize)
    }
}

// The arguments of each function have room in a record: its outputs in the slot, what goes in also behind it.
const _: () = {
    let mut index = 0;
    while index < FUNCTION_COUNT {
        let args = FUNCTIONS[index].args();
        let (mut bytes, mut arg) = (0, 0);
        while arg < args.len() {
            bytes += args[arg].stored();
            assert!(
                bytes <= crate::record::slot::ARGS || matches!(args[arg].direction, Direction::In),
                "an output lies outside of the slot"
            );
            arg += 1;
        }
        let is_weighty = FUNCTIONS[index].is_weighty();
        assert!(
            bytes <= crate::record::slot::ARGS || is_weighty,
            "only weighty calls have arguments elsewhere"
        );
        assert!(
            bytes <= crate::record::slot::MOST_ARGS && args.len() <= MOST_ARGUMENTS,
            "a function has more arguments than a recording has room for"
        );
        // A record says of the first eight whether they are known, and of others what it says of the eighth.
        let mut arg = 7;
        while args.len() > 8 && arg < args.len() {
            assert!(matches!(args[arg].direction, Direction::In) && args[arg].stored() == args[arg].size());
            arg += 1;
        }
        index += 1;
    }
};

impl FnId {
    /// All functions of the table in order.
    pub fn all() -> impl Iterator<Item = FnId> {
        ALL.iter().copied()
    }

    /// The function of a name.
    pub fn named(name: &str) -> Option<FnId> {
        FnId::all().find(|id| id.spec().name() == name)
    }

    /// The function that does something, in its newest form.
    pub fn newest(does: impl Fn(&FnSpec) -> bool) -> Option<FnId> {
        FnId::all().filter(|id| does(id.spec())).max_by_key(|id| id.spec().since)
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
mod tests;
