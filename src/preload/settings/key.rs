//! The key of the job's fingerprints: the environment's, or that of the job's directory.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The key of the fingerprints, where the job's directory has another than the environment.
static KEY: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Uses the key of the job's directory from here on.
pub fn adopt(key: [u8; 16]) {
    for (word, bytes) in KEY.iter().zip(key.chunks(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Relaxed);
    }
}

/// The key of the fingerprints.
pub fn get() -> [u8; 16] {
    let words = [KEY[0].load(Relaxed), KEY[1].load(Relaxed)];
    if words == [0, 0] {
        return super::get().job;
    }
    let mut key = [0; 16];
    key[..8].copy_from_slice(&words[0].to_le_bytes());
    key[8..].copy_from_slice(&words[1].to_le_bytes());
    key
}

/// Stands for the bytes of an IPC handle.
pub fn fingerprint(handle: &[u8]) -> u64 {
    siphasher::sip::SipHasher24::new_with_key(&get()).hash(handle)
}

/// Reads the key of a job.
pub fn parse(digits: &[u8]) -> Option<[u8; 16]> {
    let mut key = [0; 16];
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    if digits.len() != 2 * key.len() {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_32_hexadecimal_digits() {
        let key = parse(b"000102030405060708090a0b0c0d0eFf");
        assert_eq!(key.map(|k| (k[1], k[15])), Some((1, 0xff)));
        for digits in
            [&b""[..], b"00", b"000102030405060708090a0b0c0d0e0g", b"000102030405060708090a0b0c0d0e0f0"]
        {
            assert_eq!(parse(digits), None);
        }
    }
}
