//! Any bytes are printed as a JSON string of bounded length that holds no control characters.
#![no_main]

use cupeer_spec::value::write_quoted;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], u8)| {
    let (bytes, most) = input;
    let mut out = String::new();
    write_quoted(bytes, usize::from(most), &mut out).expect("a string takes everything");
    assert!(out.len() <= usize::from(most) + "\"...\"".len(), "{out}");
    assert!(!out.chars().any(char::is_control), "{out:?}");
    let inside = &out[1..out.len() - 1];
    let mut escaped = false;
    for c in inside.chars() {
        assert!(c != '"' || escaped, "{out}");
        escaped = c == '\\' && !escaped;
    }
    assert!(!escaped, "{out}");
});
