//! The entries of the rules, a file for each kind.

/// Passes all entries to the macro `$callback`, in the order in which causes of a failure are checked.
macro_rules! with_rules {
    // Each file adds its entries and passes the list on to the next file. The last file passes the list to
    // the callback.
    ($callback:ident) => {
        peer_rules! {
            ipc_rules vmm_rules multicast_rules pool_rules use_rules job_rules order_rules driver_rules unchecked_rules $callback
        }
    };
}

#[macro_use]
mod driver;
#[macro_use]
mod ipc;
#[macro_use]
mod jobs;
#[macro_use]
mod multicast;
#[macro_use]
mod order;
#[macro_use]
mod peer;
#[macro_use]
mod pools;
#[macro_use]
mod unchecked;
#[macro_use]
mod uses;
#[macro_use]
mod vmm;
