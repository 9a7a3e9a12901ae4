//! The options of `doctor --p2p`.

use clap::Args;

#[derive(Args)]
pub struct P2pArgs {
    /// Send data over each link between devices, in each way that programs use, and say what arrives
    #[arg(long, conflicts_with = "program")]
    pub p2p: bool,
    /// With --p2p: do not measure what the links carry
    #[arg(long, requires = "p2p")]
    pub quick: bool,
    /// With --p2p: call a link stalled when a step over it takes longer than this
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600), requires = "p2p")]
    pub limit: u64,
}
