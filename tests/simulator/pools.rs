//! Memory pools between processes: what a real driver was seen to answer, and whose bytes are where.

use super::{holds, holds_with};

#[test]
fn pools_and_pointers_go_to_other_processes_and_rights_hold() {
    holds("pools", "nvlink:2");
}

#[test]
fn in_any_order_each_allocation_has_its_own_bytes_and_no_more_is_in_use() {
    for seed in ["1", "2", "3", "4"] {
        holds_with("pooled", "nvlink:2", &[seed]);
    }
}
