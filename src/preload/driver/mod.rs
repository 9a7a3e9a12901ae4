//! Facts from the driver, and about its objects.
//!
//! - `queries`, `streams`: driver queries. `facts` makes the queries about one call, for its record.
//! - `log`: the driver's own messages about a call.
//! - `model`, `contexts`, `kernels`, `graphs`, `counted` (with its `chunks`): objects that only the program's calls show.
//! - `places`: remembered answers about addresses.
//! - `batches`, `parameters`: the memory that a call names in structures and kernel parameters.
//! - `nodes`: the GPUs that the kernel module lists.
//! - `shelf`: values that one thread at a time takes.
//!
//! `resolve` decides which function of the driver a call goes to.

pub mod batches;
pub mod chunks;
pub mod contexts;
pub mod counted;
pub mod facts;
pub mod graphs;
pub mod kernels;
pub mod log;
pub mod model;
pub mod nodes;
pub mod parameters;
pub mod places;
pub mod queries;
pub mod shelf;
pub mod streams;
