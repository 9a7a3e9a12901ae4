//! What `cupeer doctor --p2p` sends over a link: the words, and the kernels that write, read and await them.
//!
//! What belongs here: what the command, which launches the kernels, and the simulated driver, which recognises their text and
//! carries them out, must agree on. The text itself is `kernels.ptx`, written by hand: there is no compiler at hand
//! where it runs.

/// The text of the kernels, as `cuModuleLoadData` takes it. A driver compiles it for its devices.
pub const PTX: &str = concat!(include_str!("kernels.ptx"), "\0");

/// The odd number of splitmix64, by which an index becomes a step.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The word at an index of the data that a seed stands for: splitmix64, in which no two seeds or places look alike.
pub fn word(seed: u64, index: u64) -> u64 {
    let mut x = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// How many words the results of a kernel have: the last one is its mark, written when the others are there.
pub const RESULTS: usize = 8;

/// How many words [`Kernel::Add`] adds to.
pub const SUMS: u64 = 32;

/// A kernel of [`PTX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// `to`, `count`, `seed`: writes [`word`]s 0 to `count`, an even number.
    Write,
    /// `from`, `to`, `count`: copies words, an even number.
    Read,
    /// `data`, `flags`, `count`, `slots`, `seed`, `mark`, `stop`, `limit`, `out`: one block. Writes `slots` times `count`
    /// words, and behind each slot its flag, `mark` and the number of the slot. Stays until `stop` is `mark`, or as many
    /// nanoseconds have passed as `limit` says. Results: how many slots were sent, what `stop` was.
    Send,
    /// `data`, `flags`, `count`, `slots`, `seed`, `before`, `mark`, `limit`, `out`: one block. Waits for each flag, and then
    /// compares its words. Results: how many flags came, how many words are wrong, how many of them are those of
    /// the seed `before`, and the index of the first wrong one.
    Receive,
    /// `there`, `back`, `rounds`, `mark`, `limit`, `out`: one thread. Writes `mark` and the number of the round to `there`
    /// and waits until it is in `back`. Results: how many rounds were made, nanoseconds of all but the first.
    Ping,
    /// The other side of [`Kernel::Ping`], with the same parameters. Result: how many rounds were made.
    Pong,
    /// `to`, `times`, `value`, `there`, `waits`, `limit`: each thread adds `value` to one of [`SUMS`] words so many times,
    /// atomically for all devices. Each block adds 1 to `there` before, or waits until that is no longer 0.
    Add,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Kernel; 7] =
        [Kernel::Write, Kernel::Read, Kernel::Send, Kernel::Receive, Kernel::Ping, Kernel::Pong, Kernel::Add];

    /// Its name in the text.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Write => "cupeer_p2p_write",
            Kernel::Read => "cupeer_p2p_read",
            Kernel::Send => "cupeer_p2p_send",
            Kernel::Receive => "cupeer_p2p_receive",
            Kernel::Ping => "cupeer_p2p_ping",
            Kernel::Pong => "cupeer_p2p_pong",
            Kernel::Add => "cupeer_p2p_add",
        }
    }

    /// How many parameters it has, each a number of 64 bits.
    pub fn parameters(self) -> usize {
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
        assert_eq!([0, 1, 2].map(|index| word(1_234_567, index)), wanted);
    }

    #[test]
    fn the_text_has_the_kernels_and_their_parameters() {
        let entries: Vec<&str> = PTX.split(".visible .entry ").skip(1).collect();
        assert_eq!(entries.len(), Kernel::ALL.len());
        for (entry, kernel) in entries.iter().zip(Kernel::ALL) {
            let (name, rest) = entry.split_once('(').unwrap();
            let (parameters, _) = rest.split_once(')').unwrap();
            assert_eq!(name, kernel.name());
            assert_eq!(parameters.matches(".param .u64").count(), kernel.parameters(), "{name}");
        }
    }
}
