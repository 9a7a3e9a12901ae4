//! The options of denied pairs, which `run` and `env` share.

use clap::Args;

#[derive(Args, Default)]
pub struct DenyArgs {
    /// Make pairs of devices unreachable: A/B,..., A/B:oneway, all, or pairs without access in FILE.toml. A device is an nvidia-smi index, a UUID or its start, or a PCI address
    #[arg(long, help_heading = "Faults", value_name = "PEERS")]
    pub deny_peer: Option<String>,
    /// Let each context access at most N peers; one more is CUDA_ERROR_TOO_MANY_PEERS
    #[arg(long, help_heading = "Faults", value_name = "N")]
    pub peer_limit: Option<u32>,
}
