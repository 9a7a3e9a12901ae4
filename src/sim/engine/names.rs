//! Names and texts of result codes.

use cupeer_spec::results;
use std::ffi::CStr;

/// Result codes that are newer than the simulated version of the driver.
const NEWER: [i32; 5] = [47, 227, 917, 918, 919];

/// Returns the name and the description of a result code as C strings; `None` for a number that the simulated
/// driver does not know.
pub(crate) fn result_texts(code: i32) -> Option<(&'static CStr, &'static CStr)> {
    if NEWER.contains(&code) {
        return None;
    }
    let (name, text) = results::find_spec(code)?.c_texts();
    let c = |text: &'static str| CStr::from_bytes_with_nul(text.as_bytes()).ok();
    Some((c(name)?, c(text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_texts() {
        for spec in results::RESULTS.iter().filter(|spec| !NEWER.contains(&spec.number)) {
            assert!(result_texts(spec.number).is_some(), "{}", spec.number);
        }
        assert_eq!(result_texts(217).unwrap().0, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED");
        assert_eq!(result_texts(12345), None);
    }
}
