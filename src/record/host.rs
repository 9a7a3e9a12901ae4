//! The identity of this host, as the headers of records contain it.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Returns the boot id of this host, /proc/sys/kernel/random/boot_id, as bytes.
pub fn boot_id() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|two| (two[0] << 4 | two[1]) as u8).collect();
    bytes.try_into().ok()
}

/// Returns the inode of this process's pid namespace.
pub fn pid_ns() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|file| file.ino())
}

/// Returns the first eight digits of a boot id, as they are in names of files.
pub fn short_boot_id(boot: [u8; 16]) -> String {
    format!("{:08x}", u32::from_be_bytes([boot[0], boot[1], boot[2], boot[3]]))
}
