//! Streams.

use std::collections::HashMap;

/// The lowest and the highest priority; lower numbers go first.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);
/// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
pub(crate) const LEGACY: u64 = 1;
pub(crate) const PER_THREAD: u64 = 2;
/// CU_STREAM_NON_BLOCKING.
pub(crate) const NON_BLOCKING: u32 = 1;
/// A stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stream {
    pub context: u64,
    pub flags: u32,
    pub priority: i32,
    /// Unique in the process.
    pub id: u64,
}

/// What a program says about a stream, as it lies in C: it changes nothing here.
pub(crate) type Attribute = [u8; 64];

impl Stream {
    /// Whether it is one with the default stream: it was not created with CU_STREAM_NON_BLOCKING.
    pub(crate) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }
}

/// The streams that the program created.
#[derive(Default, Debug)]
pub(crate) struct Streams {
    pub(in crate::engine) map: HashMap<u64, Stream>,
    /// By context and number of the stream, and attribute.
    pub(in crate::engine) attributes: HashMap<(u64, u64, i32), Attribute>,
    pub(in crate::engine) created: u64,
}

impl Streams {
    /// Ends the streams of a context.
    pub(crate) fn remove_of(&mut self, context: u64) {
        self.map.retain(|_, stream| stream.context != context);
        self.attributes.retain(|(of, ..), _| *of != context);
    }
}
