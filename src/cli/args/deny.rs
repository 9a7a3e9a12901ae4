//! The options of denied peers, which `run` and `env` share.

use clap::Args;

/// Which devices look as if they could not reach each other.
#[derive(Args, Default)]
pub struct DenyArgs {
    /// Let pairs of devices look as if they could not reach each other, to CUDA and to NVML: A/B,..., A/B:oneway for one direction, all, or a topology FILE.toml, of which those pairs are denied that have no access. A device is its index in nvidia-smi, its UUID or the begin of it, or its PCI address
    #[arg(long, value_name = "PEERS")]
    pub deny_peer: Option<String>,
    /// Let a context have no more than N peers: one more is CUDA_ERROR_TOO_MANY_PEERS
    #[arg(long, value_name = "N")]
    pub peer_limit: Option<u32>,
}
