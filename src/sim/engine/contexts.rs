//! Creates contexts, and destroys them with all their objects.

use super::answer::{Answer, fail, fail_if};
use super::driver::{Driver, check_flags};
use super::space::HandleKind;
use super::stack;
use cupeer_spec::results::Result as Code;

impl Driver {
    /// Fails if work in any context of a device has failed. As recorded, such a process cannot create or
    /// retain another context on the device.
    fn check_device_not_failed(&self, device: usize) -> Answer {
        let failed = self.contexts.map.values().filter(|context| context.device == device);
        failed.filter_map(|context| context.failed).next().map_or(Ok(()), fail)
    }

    /// `cuCtxCreate`: the new context becomes current.
    pub(crate) fn create_context(&mut self, device: usize, flags: u32) -> Answer<u64> {
        check_flags(flags)?;
        self.check_device_not_failed(device)?;
        let handle = self.space.new_handle(HandleKind::Context)?;
        self.contexts.insert(handle, device, flags, false);
        stack::push_context(handle);
        Ok(handle)
    }

    /// `cuCtxDestroy`.
    pub(crate) fn destroy_context(&mut self, handle: u64) -> Answer {
        fail_if(self.context(handle)?.primary, Code::INVALID_CONTEXT)?;
        self.destroy_objects_of(handle);
        if stack::current_context() == handle {
            stack::pop_context();
        }
        // Only now can the next context get this handle. The handle of a primary context stays with its
        // device.
        self.space.recycle_handle(HandleKind::Context, handle);
        Ok(())
    }

    /// `cuCtxDetach`, for the current context only. The last detach destroys the context.
    pub(crate) fn detach_context(&mut self, handle: u64) -> Answer {
        fail_if(stack::current_context() != handle, Code::INVALID_CONTEXT)?;
        let context = self.context_mut(handle)?;
        if context.attached > 1 {
            context.attached -= 1;
            return Ok(());
        }
        self.destroy_context(handle)
    }

    /// Destroys a context together with its streams, memory, and all other objects.
    fn destroy_objects_of(&mut self, handle: u64) {
        self.remove_streams_of(handle);
        self.remove_events_of(handle);
        self.modules.unload_of_context(handle);
        self.graphs.remove_captures_of(handle);
        self.remove_arrays_of(handle);
        self.free_memory_of_context(handle);
        for context in self.contexts.all_mut() {
            context.peers.remove(&handle);
        }
        if let Some(context) = self.contexts.map.get_mut(&handle) {
            context.alive = false;
            context.peers.clear();
        }
    }

    /// `cuDevicePrimaryCtxRetain`.
    pub(crate) fn retain_primary(&mut self, device: usize) -> Answer<u64> {
        self.check_device_not_failed(device)?;
        if self.contexts.primary(device).handle == 0 {
            self.contexts.primary(device).handle = self.space.new_handle(HandleKind::Context)?;
        }
        let primary = self.contexts.primary(device);
        primary.retained += 1;
        let (handle, flags) = (primary.handle, primary.flags);
        if !self.is_primary_active(device) {
            self.contexts.insert(handle, device, flags, true);
        }
        Ok(handle)
    }

    /// Returns true if the primary context of a device exists.
    pub(crate) fn is_primary_active(&mut self, device: usize) -> bool {
        let handle = self.contexts.primary(device).handle;
        self.context(handle).is_ok()
    }

    /// `cuDevicePrimaryCtxRelease`.
    pub(crate) fn release_primary(&mut self, device: usize) -> Answer {
        let primary = self.contexts.primary(device);
        fail_if(primary.retained == 0, Code::INVALID_CONTEXT)?;
        primary.retained -= 1;
        if primary.retained == 0 {
            primary.flags = 0;
            let handle = primary.handle;
            self.destroy_objects_of(handle);
        }
        Ok(())
    }

    /// `cuDevicePrimaryCtxReset_v2`: the context's objects end, but a process that retained the context still
    /// has to release it.
    pub(crate) fn reset_primary(&mut self, device: usize) {
        let handle = self.contexts.primary(device).handle;
        if handle != 0 {
            self.destroy_objects_of(handle);
        }
    }

    /// `cuDevicePrimaryCtxReset` of old programs: as recorded, the function also releases the context once.
    pub(crate) fn reset_primary_once(&mut self, device: usize) {
        self.reset_primary(device);
        let primary = self.contexts.primary(device);
        primary.retained = primary.retained.saturating_sub(1);
    }

    /// `cuDevicePrimaryCtxSetFlags`: the flags apply to the next creation, and to a context that already
    /// exists.
    pub(crate) fn set_primary_flags(&mut self, device: usize, flags: u32) -> Answer {
        check_flags(flags)?;
        self.contexts.primary(device).flags = flags;
        let handle = self.contexts.primary(device).handle;
        if let Ok(context) = self.context_mut(handle) {
            context.flags = flags;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_topology::Topology;

    /// As recorded: `retained 1: reset 0 release 201`, and `retained 2: reset 0 release 0 release 201`.
    #[test]
    fn the_old_reset_releases_a_primary_context_once() {
        let mut driver = Driver::new(Topology::default(), vec![0]);
        for retained in 1..3 {
            for _ in 0..retained {
                driver.retain_primary(0).unwrap();
            }
            driver.reset_primary_once(0);
            (1..retained).for_each(|_| driver.release_primary(0).unwrap());
            assert_eq!(driver.release_primary(0).unwrap_err().code, Code::INVALID_CONTEXT);
        }
    }

    #[test]
    fn a_primary_context_keeps_its_handle() {
        let mut driver = Driver::new(Topology::default(), vec![0, 1]);
        let first = driver.retain_primary(0).unwrap();
        assert_eq!(driver.retain_primary(0), Ok(first));
        driver.release_primary(0).unwrap();
        assert!(driver.is_primary_active(0));
        driver.release_primary(0).unwrap();
        assert_eq!(driver.context(first).unwrap_err().code, Code::CONTEXT_IS_DESTROYED);
        assert_eq!(driver.release_primary(0), fail(Code::INVALID_CONTEXT));
        assert_eq!(driver.retain_primary(0), Ok(first));
    }

    impl Driver {
        /// One with two devices that reach each other, and with a context of the first one current.
        pub(crate) fn in_context() -> Driver {
            let mut driver = Driver::new(Topology::default(), vec![0, 1]);
            driver.create_context(0, 0).expect("a context");
            driver
        }
    }
}
