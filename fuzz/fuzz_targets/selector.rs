//! Any text is a set of functions, or an error that points into the text.
#![no_main]

use cupeer_spec::selector::FunctionSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = FunctionSet::parse(text) {
        assert!(error.column >= 1 && error.column <= text.len() + 1, "{error}");
    }
});
