//! The options of `doctor --p2p`.

use clap::Args;

#[derive(Args)]
pub struct P2pArgs {
    /// Send data over each link between devices, with each method that programs use, and check what arrives
    #[arg(long, conflicts_with = "program")]
    pub p2p: bool,
    /// With --p2p: do not measure the speed of the links
    #[arg(long, requires = "p2p")]
    pub quick: bool,
    /// With --p2p: report a link as stalled if a step takes longer than this
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600), requires = "p2p")]
    pub limit: u64,
}
