//! Streams. Unless devices are late (`super::late`), work is done when its call returns, in the order of the calls. Work that
//! follows a function of the program, or a wait for a value in memory, waits (`super::queue`).

use super::answer::{Answer, fail, fail_if};
use super::driver::{Attribute, Driver, LEGACY, NON_BLOCKING, PER_THREAD, PRIORITIES, Stream, keys_of};
use super::space::HandleKind;
use cupeer_spec::results::Result as Code;

/// Number of the first stream that a program creates. The default streams have lower numbers.
const FIRST_ID: u64 = 16;
/// CU_STREAM_ATTRIBUTE_PRIORITY, which is set when a stream is created.
const PRIORITY: i32 = 8;
/// The numbers of the other attributes: access policy window, synchronization policy, memory synchronization
/// domain, and map of domains.
const ATTRIBUTES: [i32; 4] = [1, 3, 9, 10];

impl Driver {
    /// `cuStreamCreateWithPriority`: CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING.
    pub(crate) fn create_stream(&mut self, flags: u32, priority: i32) -> Answer<u64> {
        let context = self.current_context_handle()?;
        fail_if(flags & !NON_BLOCKING != 0, Code::INVALID_VALUE)?;
        let handle = self.space.new_handle(HandleKind::Stream)?;
        let id = FIRST_ID + self.streams.created;
        self.streams.created += 1;
        let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
        self.streams.map.insert(handle, Stream { context, flags, priority, id });
        Ok(handle)
    }

    /// Returns the stream of a handle, including the handles of the default streams of the current context.
    pub(crate) fn stream(&self, handle: u64) -> Answer<Stream> {
        if handle <= PER_THREAD {
            let context = self.current_context_handle()?;
            let id = if handle == PER_THREAD { PER_THREAD } else { LEGACY };
            return Ok(Stream { context, flags: 0, priority: 0, id });
        }
        match self.streams.map.get(&handle) {
            Some(stream) => {
                self.check_context_not_failed(stream.context)?;
                Ok(*stream)
            }
            None => fail(Code::INVALID_HANDLE),
        }
    }

    /// Returns the stream of a handle. If the stream is being captured, fails, and invalidates the capture.
    pub(crate) fn stream_unless_captured(&mut self, handle: u64) -> Answer<Stream> {
        let stream = self.stream(handle)?;
        self.graphs.check_stream_not_captured(&stream)?;
        Ok(stream)
    }

    /// `cuStreamDestroy`, which fails for default streams.
    pub(crate) fn destroy_stream(&mut self, handle: u64) -> Answer {
        let stream = self.streams.map.remove(&handle).ok_or(Code::INVALID_HANDLE)?;
        self.streams.attributes.retain(|(_, id, _), _| *id != stream.id);
        self.space.recycle_handle(HandleKind::Stream, handle);
        Ok(())
    }

    /// Destroys the streams of a context.
    pub(super) fn remove_streams_of(&mut self, context: u64) {
        for handle in keys_of(&self.streams.map, |stream| stream.context == context) {
            let _ = self.destroy_stream(handle);
        }
        // Default streams have no handles, so the loop above leaves their attributes.
        self.streams.attributes.retain(|(of, ..), _| *of != context);
    }

    /// `cuStreamGetAttribute`: returns zeros for an attribute that was never set.
    pub(crate) fn stream_attribute(&self, handle: u64, attribute: i32) -> Answer<Attribute> {
        let stream = self.stream(handle)?;
        let mut value = [0; 64];
        match attribute {
            PRIORITY => value[..4].copy_from_slice(&stream.priority.to_ne_bytes()),
            _ if ATTRIBUTES.contains(&attribute) => {
                let said = self.streams.attributes.get(&(stream.context, stream.id, attribute));
                value = said.copied().unwrap_or(value);
            }
            _ => return fail(Code::INVALID_VALUE),
        }
        Ok(value)
    }

    /// `cuStreamSetAttribute`.
    pub(crate) fn set_stream_attribute(&mut self, handle: u64, attribute: i32, value: Attribute) -> Answer {
        let stream = self.stream(handle)?;
        if attribute == PRIORITY {
            let wanted = i32::from_ne_bytes(value[..4].try_into().unwrap_or_default());
            let stream = self.streams.map.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
            stream.priority = wanted.clamp(PRIORITIES.1, PRIORITIES.0);
            return Ok(());
        }
        fail_if(!ATTRIBUTES.contains(&attribute), Code::INVALID_VALUE)?;
        self.streams.attributes.insert((stream.context, stream.id, attribute), value);
        Ok(())
    }

    /// `cuStreamCopyAttributes`, between streams of one context.
    pub(crate) fn copy_stream_attributes(&mut self, to: u64, from: u64) -> Answer {
        fail_if(self.stream(to)?.context != self.stream(from)?.context, Code::INVALID_VALUE)?;
        for attribute in ATTRIBUTES {
            let value = self.stream_attribute(from, attribute)?;
            self.set_stream_attribute(to, attribute, value)?;
        }
        Ok(())
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
