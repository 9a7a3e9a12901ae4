//! The options of denied pairs, which `run` and `env` share.

use clap::Args;

#[derive(Args, Default)]
pub struct DenyArgs {
    /// Make pairs of devices appear unreachable, to CUDA and NVML: A/B,..., A/B:oneway for one direction, all, or a topology FILE.toml (the pairs without access). A device is an index of nvidia-smi, a UUID or the start of one, or a PCI address
    #[arg(long, value_name = "PEERS")]
    pub deny_peer: Option<String>,
    /// Let each context access at most N peers: one more is CUDA_ERROR_TOO_MANY_PEERS
    #[arg(long, value_name = "N")]
    pub peer_limit: Option<u32>,
}
