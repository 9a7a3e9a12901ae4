//! The words for access flags and for types of handles.

use cupeer_report::model::{Access, Uuid};
use cupeer_spec::abi::{CUmemAccess_flags, CUmemAllocationHandleType};

/// The rows of those devices that may do anything, by what each may do.
pub fn access(all: impl Iterator<Item = (Uuid, i32)>) -> Vec<Access> {
    let row = |(device, flags): (Uuid, i32)| {
        let word = CUmemAccess_flags(flags).name();
        Access { device, flags: word.map_or_else(|| flags.to_string(), str::to_owned) }
    };
    all.filter(|(_, flags)| *flags != 0).map(row).collect()
}

/// The types of which a number is the sum.
pub fn handle_types(types: i32) -> Vec<&'static str> {
    let known = CUmemAllocationHandleType::VALUES.iter();
    known.filter(|(bit, _)| *bit != 0 && types & bit == *bit).map(|(_, name)| *name).collect()
}
