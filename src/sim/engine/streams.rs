//! Streams. All work is done when the call that asks for it returns, in the order of the calls.

use super::answer::{Answer, fail};
use super::process::Driver;
use cupeer_spec::results::Result as Code;
use std::collections::HashMap;

/// The lowest and the highest priority; lower numbers go first.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);
/// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
pub(crate) const LEGACY: u64 = 1;
pub(crate) const PER_THREAD: u64 = 2;
/// The number of the first stream that a program creates: the default ones come before it.
const FIRST_ID: u64 = 16;

/// A stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stream {
    pub context: u64,
    pub flags: u32,
    pub priority: i32,
    /// Unique in the process.
    pub id: u64,
}

/// The streams that the program created.
#[derive(Default, Debug)]
pub(crate) struct Streams {
    map: HashMap<u64, Stream>,
    created: u64,
}

impl Streams {
    /// Ends the streams of a context.
    pub(crate) fn remove_of(&mut self, context: u64) {
        self.map.retain(|_, stream| stream.context != context);
    }
}

impl Driver {
    /// `cuStreamCreateWithPriority`: CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING.
    pub(crate) fn create_stream(&mut self, flags: u32, priority: i32) -> Answer<u64> {
        let context = self.current()?;
        if flags & !1 != 0 {
            return fail(Code::INVALID_VALUE);
        }
        let handle = self.space.handle().ok_or(Code::OUT_OF_MEMORY)?;
        let id = FIRST_ID + self.streams.created;
        self.streams.created += 1;
        let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
        self.streams.map.insert(handle, Stream { context, flags, priority, id });
        Ok(handle)
    }

    /// The stream behind a handle, which may be one of the default ones of the current context.
    pub(crate) fn stream(&self, handle: u64) -> Answer<Stream> {
        if handle <= PER_THREAD {
            let context = self.current()?;
            let id = if handle == PER_THREAD { PER_THREAD } else { LEGACY };
            return Ok(Stream { context, flags: 0, priority: 0, id });
        }
        match self.streams.map.get(&handle) {
            Some(stream) => Ok(*stream),
            None => fail(Code::INVALID_HANDLE),
        }
    }

    /// `cuStreamDestroy`, which the default streams do not take.
    pub(crate) fn destroy_stream(&mut self, handle: u64) -> Answer {
        match self.streams.map.remove(&handle) {
            Some(_) => Ok(()),
            None => fail(Code::INVALID_HANDLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_topology::Topology;

    #[test]
    fn streams_live_with_their_context() {
        let mut driver = Driver::new(Topology::default(), vec![0, 1]);
        assert_eq!(driver.stream(0).unwrap_err().code, Code::INVALID_CONTEXT);
        let context = driver.create_context(0, 0).unwrap();
        let stream = driver.create_stream(1, -99).unwrap();
        assert_eq!(driver.stream(stream).map(|s| (s.flags, s.priority, s.context)), Ok((1, -5, context)));
        assert_eq!(driver.create_stream(2, 0), fail(Code::INVALID_VALUE));
        assert_eq!(driver.destroy_stream(1), fail(Code::INVALID_HANDLE));
        driver.destroy_context(context).unwrap();
        assert_eq!(driver.stream(stream), fail(Code::INVALID_HANDLE));
    }
}
