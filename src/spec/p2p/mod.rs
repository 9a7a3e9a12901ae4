//! Data that `cupeer doctor --p2p` sends over a link, and the kernels that write, read, and wait for it.
//!
//! The command launches the kernels, and the simulated driver recognizes their text and executes them: both
//! use these definitions. The text is `kernels.ptx`, written by hand, because the machines that run it have
//! no compiler.

/// The text of the kernels for `cuModuleLoadData`. A driver compiles it for its devices.
pub const PTX: &str = concat!(include_str!("kernels.ptx"), "\0");

/// Odd constant of splitmix64, by which an index is multiplied.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the word at an index of the data of a seed: splitmix64, which differs between all seeds and
/// indexes.
pub fn data_word(seed: u64, index: u64) -> u64 {
    let mut x = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Number of words in the results of a kernel. The kernel writes the last word after the others, to show that they
/// are complete.
pub const RESULTS: usize = 8;

/// Number of words that [`Kernel::Add`] adds to.
pub const SUMS: u64 = 32;

named! {
    /// A kernel of [`PTX`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Kernel {
        /// `to`, `count`, `seed`: writes [`data_word`]s 0 to `count`, an even number.
        Write = "cupeer_p2p_write",
        /// `from`, `to`, `count`: copies words, an even number.
        Read = "cupeer_p2p_read",
        /// `data`, `flags`, `count`, `slots`, `seed`, `mark`, `stop`, `limit`, `out`: one block. Writes `slots`
        /// times `count` words, and a flag after each slot: `mark` and the number of the slot. Returns when
        /// `stop` is `mark`, or after `limit` nanoseconds. Results: the number of slots that were sent, and the
        /// last value of `stop`.
        Send = "cupeer_p2p_send",
        /// `data`, `flags`, `count`, `slots`, `seed`, `before`, `mark`, `limit`, `out`: one block. Waits for each
        /// flag, and then compares its words. Results: the number of flags that arrived, the number of wrong
        /// words, the number of these that belong to the seed `before`, and the index of the first wrong word.
        Receive = "cupeer_p2p_receive",
        /// `there`, `back`, `rounds`, `mark`, `limit`, `out`: one thread. Writes `mark` and the number of the
        /// round to `there`, and waits until it is in `back`. Results: the number of rounds, and the nanoseconds
        /// of all but the first.
        Ping = "cupeer_p2p_ping",
        /// The other side of [`Kernel::Ping`], with the same parameters. Result: the number of rounds.
        Pong = "cupeer_p2p_pong",
        /// `to`, `times`, `value`, `there`, `waits`, `limit`: each thread adds `value` to one of [`SUMS`] words
        /// `times` times, atomically for all devices. Before that, each block adds 1 to `there`, or waits until
        /// it is not 0.
        Add = "cupeer_p2p_add",
    }
    /// Returns the name of the kernel in [`PTX`].
    pub fn name;
}

impl Kernel {
    /// Returns the number of parameters, each a 64-bit number.
    pub fn parameter_count(self) -> usize {
        match self {
            Kernel::Write | Kernel::Read => 3,
            Kernel::Send | Kernel::Receive => 9,
            Kernel::Ping | Kernel::Pong | Kernel::Add => 6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_splitmix64() {
        // The first outputs of the reference for the seed 1234567, as Rosetta Code has them.
        let wanted: [u64; 3] = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!([0, 1, 2].map(|index| data_word(1_234_567, index)), wanted);
    }

    #[test]
    fn the_text_has_the_kernels_and_their_parameters() {
        let entries: Vec<&str> = PTX.split(".visible .entry ").skip(1).collect();
        assert_eq!(entries.len(), Kernel::ALL.len());
        for (entry, kernel) in entries.iter().zip(Kernel::ALL) {
            let (name, rest) = entry.split_once('(').unwrap();
            let (parameters, _) = rest.split_once(')').unwrap();
            assert_eq!(name, kernel.name());
            assert_eq!(parameters.matches(".param .u64").count(), kernel.parameter_count(), "{name}");
        }
    }
}
