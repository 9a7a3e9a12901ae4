//! Virtual memory: what descriptors keep, whose bytes are where, and who may reach them.

use super::{holds, holds_with};

#[test]
fn descriptors_carry_memory_and_keep_it() {
    holds("descriptors", "nvlink:2");
}

#[test]
fn in_any_order_each_block_has_its_own_bytes() {
    for seed in ["1", "2", "3"] {
        holds_with("mapped", "nvlink:2", &[seed]);
    }
}

#[test]
fn four_processes_that_share_see_each_others_bytes() {
    for seed in ["1", "2", "3", "4"] {
        holds_with("relay", "nvlink:2", &[seed]);
    }
}

#[test]
fn a_device_without_a_path_gets_no_access() {
    holds("paths", "none:2");
}
