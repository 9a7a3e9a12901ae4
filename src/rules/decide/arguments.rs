//! Rules that depend on the arguments, the thread, and the process.

use super::{Judge, Verdict, World};
use crate::Confidence;
use crate::reason::Reason;
use cupeer_spec::abi::{CUatomicOperation, CUdevice_P2PAttribute};
use cupeer_spec::effect::{Object, Subject};
use cupeer_spec::results::Result;

impl<W: World> Judge<'_, W> {
    pub(super) fn used_after_fork(&mut self) -> Option<Verdict> {
        let Some((parent, confidence)) = self.world.initializer_before_fork() else {
            return Some(Verdict::Held);
        };
        let (pid, _) = self.world.pid_and_namespace();
        self.report_violation(Reason::UsedAfterFork { pid, parent }, confidence, None, &[])
    }

    pub(super) fn not_initialized(&mut self) -> Option<Verdict> {
        let is_so = self.world.current_context().is_some_and(|(result, _)| result == Result::NOT_INITIALIZED as i32);
        self.report_if(is_so, None, Reason::NotInitialized)
    }

    pub(super) fn driver_shutting_down(&mut self) -> Option<Verdict> {
        self.report_if(true, None, Reason::DriverShuttingDown)
    }

    pub(super) fn context_destroyed(&mut self) -> Option<Verdict> {
        let spec = self.call.function.spec();
        // If the call has no argument for another context, an invalid context must be the current one.
        let is_only = spec.enables().is_none() && spec.disables().is_none();
        match self.world.current_context()? {
            (0, context) if context != 0 => {
                let is_gone = is_only || self.world.is_current_destroyed()?;
                self.report_if(is_gone, None, Reason::ContextDestroyed { context })
            }
            _ => Some(Verdict::Held),
        }
    }

    pub(super) fn no_current_context(&mut self) -> Option<Verdict> {
        let current = self.world.current_context()?;
        if current != (0, 0) {
            return Some(Verdict::Held);
        }
        let (tid, had) = (self.world.thread_id(), self.world.had_context());
        self.report_violation(Reason::NoCurrentContext { tid, had }, Confidence::Certain, None, &[])
    }

    /// Checks for a process that has too many files open. If the call creates no file descriptor, only the
    /// driver knows which file it could not open.
    pub(super) fn descriptors_exhausted(&mut self) -> Option<Verdict> {
        let limit = self.world.reached_file_limit()?;
        let Some(limit) = limit else { return Some(Verdict::Held) };
        let creates = self.call.function.spec().exports().is_some_and(|shared| shared.object.needs_granted_access());
        let confidence = Confidence::certain_if(creates || self.call.has_returned(Result::OPERATING_SYSTEM));
        self.report_violation(Reason::DescriptorsExhausted { limit }, confidence, None, &[])
    }

    /// Checks for a pointer argument that is NULL. Another rule covers pointers to memory.
    pub(super) fn null_argument(&mut self) -> Option<Verdict> {
        let event = self.call.function.spec().exports().filter(|shared| shared.object == Object::Event);
        let event = event.map(|shared| shared.by).filter(|event| self.call.number_at(*event) == 0);
        match self.call.null_argument().or(event) {
            Some(null) => self.report_if(true, null, Reason::NullArgument { name: self.call.argument_name(null) }),
            None => Some(Verdict::Held),
        }
    }

    pub(super) fn device_out_of_range(&mut self) -> Option<Verdict> {
        let count = self.world.device_count()?;
        let Some((from, to)) = self.queried_devices() else { return Some(Verdict::Held) };
        for index in [from, to] {
            let (device, name) = (self.call.number_at(index) as i32, self.call.argument_name(index));
            if !(0..count).contains(&device) {
                let world = self.world;
                world.with_variable("CUDA_VISIBLE_DEVICES", &mut |visible| {
                    let reason = Reason::DeviceOutOfRange { name, device, count, visible };
                    self.report_violation(reason, Confidence::Certain, index, &[]);
                });
                return Some(Verdict::Broken);
            }
        }
        Some(Verdict::Held)
    }

    /// Returns the arguments that name the two devices, for a query about a pair of devices.
    pub(super) fn queried_devices(&self) -> Option<(usize, usize)> {
        let query = self.call.function.spec().device_query().filter(|asked| asked.subject != Subject::Device)?;
        Some((query.device, query.peer?))
    }

    pub(super) fn attribute_unknown(&mut self) -> Option<Verdict> {
        let choice = self.call.function.spec().device_query().and_then(|query| query.choice);
        let (choice, _) = self.expect_in_table(choice)?;
        let attribute = self.call.number_at(choice) as i32;
        let is_unknown = CUdevice_P2PAttribute(attribute).name().is_none();
        self.report_if(is_unknown, choice, Reason::PeerAttributeUnknown { attribute })
    }

    pub(super) fn atomic_operations(&mut self) -> Option<Verdict> {
        let (operations, all) = self.expect_in_table(self.call.function.spec().input_array())?;
        let numbers = self.call.elements.chunks_exact(4).filter_map(|bytes| bytes.first_chunk());
        let mut numbers = numbers.map(|bytes| i32::from_le_bytes(*bytes));
        let operation = numbers.find(|number| CUatomicOperation(*number).name().is_none());
        let count = self.call.number_at(all) as u32;
        let is_said = self.world.driver_message().contains("CUatomicOperation");
        let argument = if count == 0 { all } else { operations };
        let reason = Reason::AtomicOperations { count, operation };
        self.report_if(count == 0 || operation.is_some() || is_said, argument, reason)
    }
}
