//! The key of the job's fingerprints, from the environment or the job's directory.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_spec::value::Shareable;

/// Key in the job's directory, once it is read; 0 while the key in the environment applies.
static KEY: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Uses the key in the job's directory for all later fingerprints.
pub fn adopt(key: [u8; 16]) {
    KEY.iter().zip(words(key)).for_each(|(place, word)| place.store(word, Relaxed));
}

/// Returns the two words of a key.
pub fn words(key: [u8; 16]) -> [u64; 2] {
    let key = u128::from_le_bytes(key);
    [key as u64, (key >> 64) as u64]
}

/// Returns the key in the job's directory, if it was read, or else the key in the environment.
pub fn get() -> [u8; 16] {
    let [low, high] = KEY.each_ref().map(|word| word.load(Relaxed));
    if (low, high) == (0, 0) {
        super::get().fingerprint_key
    } else {
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }
}

/// Returns the number that stands for the bytes of an IPC handle in records and logs.
pub fn fingerprint(handle: &[u8]) -> u64 {
    Shareable::ipc_fingerprint(siphasher::sip::SipHasher24::new_with_key(&get()).hash(handle))
}
