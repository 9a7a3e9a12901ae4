//! The sentence of a finding with its values, shared by the process that finds it and by the report.
//!
//! The decisions are in [`crate::decide`], and the sources of the rules in [`crate::RuleSpec`]. Nothing here
//! allocates, because it runs inside other people's programs.

mod hints;
mod parts;
mod sentences;
mod states;
mod values;

pub use states::{EndKind, HadContext, Ptrace};
pub use values::{
    Ago, Bytes, Device, Growth, Handle, HandleFlaw, MemoryKind, Piled, PointerFault, PoolFault, Process, Site, Size,
};

use crate::rule::Rule;
use core::fmt::{self, Display, Formatter};
use cupeer_spec::effect::Object;
use parts::*;
use values::{Count, HandleTypes, Part, Times};

/// Generates the enumeration of reasons, and their sentences, which are in the entries of the rules. A
/// sentence is a text with values, several texts with conditions, or a function of the reason's fields in
/// [`sentences`].
macro_rules! declare_reasons {
    (; $(
        rule $rule:ident $name:literal {
            says: $says:literal,
            $(functions: $functions:tt,)?
            $(functions_of: $table:ident,)?
            $(results: $results:tt,
            decided_by: $decider:ident $(($decided:expr))?,)?
            $(reasons: [$($id:ident $({ $($field:ident: $type:ty),* })?: ($($sentence:tt)*)),* $(,)?],)?
            severity: $($rest:tt)*
        }
    )*) => {
        /// Reason why a rule is broken.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "the fields are what the sentences say")]
        pub enum Reason<'a> {
            $($($($id $({ $($field: $type),* })?,)*)?)*
        }

        impl Reason<'_> {
            /// The rule that is broken.
            pub fn rule(&self) -> Rule {
                match self {
                    $($($(Reason::$id { .. } => Rule::$rule,)*)?)*
                }
            }
        }

        impl Display for Reason<'_> {
            #[allow(unused_variables, reason = "a sentence need not have all values")]
            fn fmt(&self, f: &mut Formatter) -> fmt::Result {
                match *self {
                    $($($(Reason::$id $({ $($field),* })? =>
                        declare_reasons!(@say f [$($($field),*)?] $($sentence)*),)*)?)*
                }
            }
        }
    };
    (@say $f:ident [$($field:ident),*] in $function:ident) => { sentences::$function($($field,)* $f) };
    (@say $f:ident $fields:tt if let $pattern:pat = $value:expr => $text:literal $(, $part:expr)*; $($others:tt)+) => {
        if let $pattern = $value { write!($f, $text $(, $part)*) } else { declare_reasons!(@say $f $fields $($others)+) }
    };
    (@say $f:ident $fields:tt if $condition:expr => $text:literal $(, $part:expr)*; $($others:tt)+) => {
        if $condition { write!($f, $text $(, $part)*) } else { declare_reasons!(@say $f $fields $($others)+) }
    };
    (@say $f:ident [$($field:ident),*] $text:literal $(, $value:expr)*) => { write!($f, $text $(, $value)*) };
}
with_rules!(declare_reasons);

/// Smallest value of Flags that is probably the lower half of a pointer. Flags have few bits, and addresses
/// have more.
const POINTERS: u32 = 1 << 16;

#[cfg(test)]
mod tests;
