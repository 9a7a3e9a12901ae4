//! Legacy IPC: exports memory and events, and imports those of other processes.

use super::answer::{Answer, Failure, fail, fail_if, invalid, invalid_if, refuse_if};
use super::channel::{Export, SlotState};
use super::driver::{Allocation, AllocationKind as MemoryKind, Driver, StorePosition};
use super::handle::{self, ExportLocator, IpcHandleKind};
use super::space::Region;
use cupeer_spec::results::Result as Code;

/// Returns the failure of a call that cannot reach another process's memory.
fn unreachable_memory(code: Code) -> Failure {
    Failure { code, messages: vec!["Failed to allocate physical memory".into()] }
}

impl Driver {
    /// `cuIpcGetMemHandle`, after its null checks.
    pub(crate) fn export_memory(&mut self, address: u64) -> Answer<[u8; 64]> {
        self.current_context_handle()?;
        let Some((base, allocation)) = self.memory.allocation_at(address) else {
            return invalid("User passed invalid device pointer");
        };
        let (MemoryKind::Device { export, .. }, Some(stored)) = (&allocation.kind, &allocation.stored) else {
            return invalid("Cannot get mem handle because allocation not created from malloc API function");
        };
        let size = allocation.size;
        let pci = self.device(allocation.device).pci;
        let slot = match *export {
            Some(slot) => slot,
            None => {
                let content = Export {
                    state: SlotState::Memory,
                    token: 0,
                    descriptor: stored.backing.descriptor_number() as u32,
                    inode: stored.backing.inode(),
                    offset: stored.offset,
                    size,
                    uuid: self.device(allocation.device).uuid,
                };
                let (slot, _) = self.exports.publish(content)?;
                if let Some(allocation) = self.memory.get_mut(base)
                    && let MemoryKind::Device { export, .. } = &mut allocation.kind
                {
                    *export = Some(slot);
                }
                slot
            }
        };
        Ok(handle::encode_handle(IpcHandleKind::Memory, self.exports.locator(slot)?, size, Some(pci)))
    }

    /// `cuIpcGetEventHandle`, after its null checks.
    pub(crate) fn export_event(&mut self, handle: u64) -> Answer<[u8; 64]> {
        let event = self.events.get(handle)?;
        refuse_if(
            !event.is_interprocess() || event.imported,
            Code::INVALID_HANDLE,
            "Only local (non-imported) events created as interprocess may be exported.",
        )?;
        // If another context is current, a real driver crashes, so no program depends on the result.
        fail_if(self.current_context_handle()? != event.context, Code::INVALID_CONTEXT)?;
        let slot = match event.export {
            Some(slot) => slot,
            None => {
                let uuid = self.device(self.context(event.context)?.device).uuid;
                let content =
                    Export { state: SlotState::Event, token: 0, descriptor: 0, inode: 0, offset: 0, size: 0, uuid };
                let (slot, _) = self.exports.publish(content)?;
                self.events.get_mut(handle)?.export = Some(slot);
                self.share_records(handle, self.exports.event_page(slot), true);
                slot
            }
        };
        Ok(handle::encode_handle(IpcHandleKind::Event, self.exports.locator(slot)?, 0, None))
    }
    /// `cuIpcOpenMemHandle`, after its checks of pointers and flags.
    pub(crate) fn import_memory(&mut self, bytes: &[u8; 64]) -> Answer<u64> {
        let context = self.current_context_handle()?;
        let device = self.context(context)?.device;
        let Some(locator) = handle::decode_handle(IpcHandleKind::Memory, bytes) else {
            return fail(Code::INVALID_VALUE);
        };
        refuse_if(
            locator.pid == std::process::id(),
            Code::INVALID_CONTEXT,
            "Error opening locally created memHandle.",
        )?;
        if let Some((address, known)) = self.memory.find_import(&locator, device) {
            return if known.context == context {
                known.add_import_references(1);
                Ok(address)
            } else {
                fail(Code::INVALID_HANDLE)
            };
        }
        let at = self.imports.find_exporter(&locator).ok_or_else(|| unreachable_memory(Code::INVALID_HANDLE))?;
        let channel = self.imports.0[at].channel.inode();
        let result = self.import_from(at, &locator, context, device);
        if result.is_err() {
            self.imports.release_slot(channel, locator.slot);
        }
        result
    }

    fn import_from(&mut self, at: usize, locator: &ExportLocator, context: u64, device: usize) -> Answer<u64> {
        let exporter = &mut self.imports.0[at];
        let channel = exporter.channel.inode();
        let slot = exporter.hold_slot(locator.slot)?;
        if slot.state == SlotState::Ended && slot.token == locator.token {
            return Err(unreachable_memory(Code::INVALID_VALUE));
        }
        if slot.state != SlotState::Memory || slot.token != locator.token {
            return Err(unreachable_memory(Code::NOT_PERMITTED));
        }
        let backing = exporter.memory_file(&slot).ok_or_else(|| unreachable_memory(Code::INVALID_HANDLE))?;
        let home = self.machine.index_of_uuid(&slot.uuid).ok_or_else(|| unreachable_memory(Code::INVALID_HANDLE))?;
        let here = self.visible[device];
        fail_if(!self.has_path(here, home), Code::PEER_ACCESS_UNSUPPORTED)?;
        if home != here {
            self.check_peer_room(device, home)?;
        }
        let address = self.space.take_addresses(slot.size, Region::Common).ok_or(Code::OUT_OF_MEMORY)?;
        let kind = MemoryKind::Import { locator: *locator, channel, references: 1, home };
        let stored = StorePosition { backing, offset: slot.offset };
        self.memory.insert(address, Allocation::new(slot.size, kind, context, device).with_store(stored));
        Ok(address)
    }

    /// `cuIpcCloseMemHandle`.
    pub(crate) fn close_import(&mut self, address: u64) -> Answer {
        self.current_context_handle()?;
        let Some((base, allocation)) = self.memory.allocation_at_mut(address) else {
            return invalid("User passed invalid device pointer");
        };
        if !matches!(allocation.kind, MemoryKind::Import { .. }) {
            return invalid(
                "Can't close mem handle allocation was not opened with the cuIpcOpenMemHandle API function",
            );
        }
        invalid_if(base != address, "Attempt to free a non-base allocation device pointer")?;
        if allocation.add_import_references(-1) == 0 {
            self.remove_allocation(base);
        }
        Ok(())
    }

    /// `cuIpcOpenEventHandle`, after its checks of pointers.
    pub(crate) fn import_event(&mut self, bytes: &[u8; 64]) -> Answer<u64> {
        let context = self.current_context_handle()?;
        let unreachable = || Failure {
            code: Code::MAP_FAILED,
            messages: vec![
                "Failed to open/create interprocess memory file".into(),
                "Failed to open/find remote IPC semaphore pool.".into(),
            ],
        };
        let locator = handle::decode_handle(IpcHandleKind::Event, bytes).ok_or_else(unreachable)?;
        refuse_if(
            locator.pid == std::process::id(),
            Code::INVALID_CONTEXT,
            "Error opening locally created eventHandle.",
        )?;
        let at = self.imports.find_exporter(&locator).ok_or_else(unreachable)?;
        let slot = self.imports.0[at].channel.read_slot(locator.slot);
        let page = self.imports.0[at].channel.open_event_page(locator.slot);
        self.imports.drop_unused();
        let slot = slot?;
        fail_if(slot.state != SlotState::Event || slot.token != locator.token, Code::INVALID_HANDLE)?;
        let event = self.create_imported_event(context)?;
        self.share_records(event, page, false);
        Ok(event)
    }
}
