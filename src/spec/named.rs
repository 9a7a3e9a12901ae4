//! Enumerations with a word for each value.

/// Declares an enumeration, all of its values, and a function that returns the word for a value.
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$doc:meta])* $value:ident = $word:literal,)* }
        $(#[$about:meta])*
        pub fn $function:ident;
    ) => {
        $(#[$meta])*
        pub enum $name { $($(#[$doc])* $value,)* }

        impl $name {
            /// All values in order.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$value),*];

            $(#[$about])*
            pub const fn $function(self) -> &'static str {
                match self {
                    $($name::$value => $word,)*
                }
            }
        }
    };
}
