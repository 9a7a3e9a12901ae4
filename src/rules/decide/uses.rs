//! Rules about calls that use memory: whether it is still there, and whether it ever was.

use super::{ClosedBy, EndedMemory, Judge, Opening, Verdict, World};
use crate::reason::{EndKind, Handle, Reason};
use crate::{Confidence, Rule};
use cupeer_model::{BareEntry, Mapping};
use cupeer_spec::effect::{AddressSpace, Object};
use cupeer_spec::record::slot::finding::role;

/// Value of CU_MEM_ACCESS_FLAGS_PROT_READ.
const READ: u64 = 1;
/// Value of CU_MEM_ACCESS_FLAGS_PROT_READWRITE.
const READ_WRITE: u64 = 3;

impl<O> EndedMemory<O> {
    /// Returns the reason for a finding about a call that uses the memory through an argument of this name.
    pub(super) fn reason<'a>(&'a self, name: &'a str) -> Reason<'a> {
        let &EndedMemory { end_kind: went, owner, address, range, ago, ref by, with_context, .. } = self;
        let (by, handle) = (by.as_ref().map(ClosedBy::site), Handle(self.fingerprint));
        match went {
            EndKind::Closed => Reason::UseAfterClose { name, address, range, handle, ago, by, with_context },
            EndKind::Unmapped => Reason::UseAfterUnmap { name, address, range, ago, by },
            EndKind::Unreserved => Reason::UseAfterUnreserve { name, address, range, ago, by },
            EndKind::Freed => Reason::UseAfterFree { name, address, range, ago, by, with_context },
            EndKind::FreedByOwner => Reason::UseAfterOwnerFreed { name, address, range, handle, owner, ago },
        }
    }

    /// Returns the role, in a finding, of the call that ended the memory.
    pub(super) fn ending_role(&self) -> u32 {
        if self.with_context { role::ENDING } else { self.end_kind.ending_role() }
    }
}

/// Memory that this process has opened or mapped.
struct PresentMemory<O> {
    /// Start address of the memory, and its size in bytes.
    range: (u64, u64),
    /// Open handle of the memory; `None` for a mapping.
    opening: Option<Opening<O>>,
    /// True if another process owns the memory.
    is_foreign: bool,
}

impl<O> PresentMemory<O> {
    /// Returns the address behind the last byte of the memory.
    fn end(&self) -> u64 {
        self.range.0.saturating_add(self.range.1)
    }

    fn handle(&self) -> Option<Handle> {
        self.opening.as_ref().map(|opening| Handle(opening.fingerprint))
    }
}

impl<W: World> Judge<'_, W> {
    /// Checks the parameters of a launch. It is unknown what memory the kernel itself accesses.
    pub(super) fn check_launch(&mut self) -> Option<Verdict> {
        let (world, argument) = (self.world, self.call.function.spec().launches());
        let argument = argument.map(|launched| launched.parameters);
        let mut verdict = Some(Verdict::Held);
        world.each_parameter(&mut |kernel, parameter, address| {
            let Some(EndedMemory { end_kind: went, range, ago, ref by, object, .. }) = world.ended_memory(address, 1)
            else {
                return;
            };
            let by = by.as_ref().map(ClosedBy::site);
            let node = "";
            let reason = Reason::UseInKernel { kernel, node, parameter, address, went, range, ago, by };
            verdict = self.report_violation(reason, Confidence::Inferred, argument, &[(went.ending_role(), object)]);
        });
        verdict
    }

    /// Checks a call that succeeded. Memory that its owner freed can still be used. With any other memory
    /// that is gone, the call would have failed. If it succeeded, the driver has new memory there, or will
    /// have it when the work runs, as in a graph that allocates.
    pub(super) fn check_uses(&mut self) -> Option<Verdict> {
        self.check_uses_of_ended(|went| went == EndKind::FreedByOwner)
    }

    pub(super) fn used_what_is_gone(&mut self, rule: Rule) -> Option<Verdict> {
        self.check_uses_of_ended(|went| went.rule() == rule)
    }

    fn check_uses_of_ended(&mut self, is_meant: impl Fn(EndKind) -> bool) -> Option<Verdict> {
        let mut verdict = Some(Verdict::Held);
        let (world, call) = (self.world, self.call);
        let mut look = |argument, start, bytes| {
            let gone = world.ended_memory(start, bytes).filter(|gone| is_meant(gone.end_kind));
            // An address behind the open memory may have held anything: the mistake is that the range is too
            // long. Memory that ended with its context need not be freed, and freeing it does no harm.
            let is_other = |gone: &EndedMemory<_>| {
                self.is_behind_open_memory(start, gone.address)
                    || gone.with_context && call.function.spec().freed_memory_argument().is_some()
            };
            let Some(gone) = gone.filter(|gone| !is_other(gone)) else { return false };
            let name = call.argument_name(argument);
            let objects = [(gone.ending_role(), gone.object)];
            verdict = self.report_violation(gone.reason(name), Confidence::Certain, argument, &objects);
            true
        };
        call.used_ranges().for_each(|(argument, start, bytes)| {
            look(argument, start, bytes);
        });
        // One finding per batch of copies is enough.
        let mut is_found = false;
        world.each_batch_range(&mut |argument, start, bytes| is_found = is_found || look(argument, start, bytes));
        verdict
    }

    /// Checks a failed call with an address in open or mapped memory, or shortly behind it.
    pub(super) fn used_what_is_there(&mut self, rule: Rule) -> Option<Verdict> {
        let (world, call) = (self.world, self.call);
        let mut verdict = Some(Verdict::Held);
        let mut look = |argument, start: u64, bytes: u64| {
            if verdict != Some(Verdict::Held) {
                return;
            }
            let Some(there) = self.memory_at(start) else {
                if rule == Rule::UseBeyondEnd {
                    verdict = self.check_use_behind(argument, start);
                }
                return;
            };
            let (name, end) = (call.argument_name(argument), start.saturating_add(bytes));
            let handle = there.handle();
            let reason = if rule == Rule::UseBeyondEnd {
                self.first_unmapped(&there, end).map(|missing| {
                    let (beyond, range, is_foreign) = (end - missing, there.range, there.is_foreign);
                    Reason::UseBeyondEnd { name, start, bytes, beyond, range, handle, is_foreign }
                })
            } else {
                self.accessing_device(argument).and_then(|(ordinal, context)| {
                    let wanted = if name.starts_with("dst") { READ_WRITE } else { READ };
                    let (address, mapping, access) = self.first_denied_access(start, end, ordinal, wanted)?;
                    let device = self.device_with_uuid(ordinal);
                    let home = self.allocation_of(&mapping).and_then(|known| known.device);
                    let home = home.filter(|home| *home != ordinal).map(|home| self.device_with_uuid(home));
                    let (range, is_granted) = ((mapping.name, mapping.bytes), mapping.is_granted);
                    Some(match access {
                        0 => Reason::UseWithoutAccess { name, address, device, context, range, is_granted, home },
                        _ => Reason::UseReadOnly { name, address, device, range },
                    })
                })
            };
            if let Some(reason) = reason {
                let opening = there.opening.map(|opening| (role::OPENING, opening.object));
                verdict = self.report_violation(reason, Confidence::Certain, argument, opening.as_slice());
            }
        };
        call.used_ranges().for_each(|(argument, start, bytes)| look(argument, start, bytes));
        world.each_batch_range(&mut look);
        verdict
    }

    /// Checks a failed call with an address in a reservation where nothing was ever mapped.
    pub(super) fn used_before_map(&mut self) -> Option<Verdict> {
        let (world, call) = (self.world, self.call);
        let mut found = None;
        let mut look = |argument, address, _| {
            let reserved = world.query_model(|model| model.reservation((address, 1)));
            let is_empty = || world.memory_range_at(address) == Some(None) && world.ended_memory(address, 1).is_none();
            found = found.or(reserved.filter(|_| is_empty()).map(|known| (argument, address, known)));
        };
        call.used_ranges().for_each(|(argument, start, bytes)| look(argument, start, bytes));
        world.each_batch_range(&mut look);
        let Some((argument, address, known)) = found else { return Some(Verdict::Held) };
        let (name, range) = (call.argument_name(argument), (known.name, known.bytes));
        self.report_violation(
            Reason::UseBeforeMap { name, address, range },
            self.virtual_memory_confidence(),
            argument,
            &[],
        )
    }

    /// Checks a use that begins in unmapped addresses, shortly behind another process's memory. Most likely,
    /// that memory is one of several allocations of a buffer. The address may be wrong for another reason.
    fn check_use_behind(&mut self, argument: usize, start: u64) -> Option<Verdict> {
        let Some(there) = self.foreign_memory_before(start) else { return Some(Verdict::Held) };
        let (name, range) = (self.call.argument_name(argument), there.range);
        let (behind, handle) = (start - there.end(), there.handle());
        let reason = Reason::UseBehindEnd { name, start, behind, range, handle };
        let opening = there.opening.map(|opening| (role::OPENING, opening.object));
        self.report_violation(reason, Confidence::Inferred, argument, opening.as_slice())
    }

    /// Returns the memory of another process that ends closest before an address at which the driver has no
    /// memory. `None` if the distance is larger than that memory.
    fn foreign_memory_before(&self, address: u64) -> Option<PresentMemory<W::Object>> {
        let world = self.world;
        if world.memory_range_at(address)?.is_some() {
            return None;
        }
        let mut last: Option<Opening<W::Object>> = None;
        for object in [Object::Memory, Object::Pointer] {
            world.each_opening(object, &mut |opening| {
                if opening.address < address && last.is_none_or(|last| last.address < opening.address) {
                    last = Some(*opening);
                }
            });
        }
        let opened = last.and_then(|opening| {
            Some(PresentMemory {
                range: world.memory_range_at(opening.address)??,
                opening: Some(opening),
                is_foreign: true,
            })
        });
        let mut before: Option<BareEntry<Mapping>> = None;
        world.query_model(|model| {
            model.each_mapping((0, address), &mut |known| {
                let is_imported = model.allocation_of(known).is_some_and(|it| it.is_imported());
                if is_imported && before.is_none_or(|before| before.name < known.name) {
                    before = Some(*known);
                }
            });
            Some(())
        });
        let mapped =
            before.map(|known| PresentMemory { range: (known.name, known.bytes), opening: None, is_foreign: true });
        let there = opened.into_iter().chain(mapped).max_by_key(|there| there.range.0)?;
        (address.checked_sub(there.end())? < there.range.1).then_some(there)
    }

    /// Returns true if a range begins in open memory, and the address is behind the end of that memory.
    fn is_behind_open_memory(&self, start: u64, address: u64) -> bool {
        let is_before = |there: PresentMemory<W::Object>| there.end() <= address;
        start != address && self.memory_at(start).is_some_and(|there| there.opening.is_some() && is_before(there))
    }

    /// Returns the open or mapped memory of this process at an address.
    fn memory_at(&self, address: u64) -> Option<PresentMemory<W::Object>> {
        let opened = |object| self.world.opening_at(object, address);
        if let Some(opening) = opened(Object::Memory).or_else(|| opened(Object::Pointer)) {
            let range = self.world.memory_range_at(address)??;
            return Some(PresentMemory { range, opening: Some(opening), is_foreign: true });
        }
        let mapping = self.first_mapping((address, 1), |_| true)?;
        let is_foreign = self.allocation_of(&mapping).is_some_and(|it| it.is_imported());
        Some(PresentMemory { range: (mapping.name, mapping.bytes), opening: None, is_foreign })
    }

    /// Returns the first unmapped address between the end of some memory and the end of a range. Open memory
    /// ends where the driver says, because no copy crosses from one allocation into the next. A mapping may
    /// continue in the next mapping.
    fn first_unmapped(&self, there: &PresentMemory<W::Object>, end: u64) -> Option<u64> {
        let mut at = there.end();
        while at < end {
            if there.opening.is_some() || self.world.memory_range_at(at)?.is_none() {
                return Some(at);
            }
            let next = self.first_mapping((at, 1), |_| true)?;
            at = next.name.saturating_add(next.bytes);
        }
        None
    }

    /// Returns the device that uses the memory of an argument: that of the current context or, in a peer
    /// copy, that of the context in the next argument. `None` if unknown.
    fn accessing_device(&self, argument: usize) -> Option<(i32, Option<&'static str>)> {
        let (call, spec) = (self.call, self.call.function.spec());
        match spec.copies() {
            Some(copied) if copied.sides == AddressSpace::Peers => {
                let device = self.world.device_of_known_context(call.number_at(argument + 1))?;
                Some((device, Some(call.argument_name(argument + 1))))
            }
            // A structure argument contains the contexts, so the device is unknown here.
            _ if spec.name().contains("Peer") => None,
            _ => Some((self.world.current_device(), None)),
        }
    }

    /// Returns the first address of a range to which a device lacks the wanted access, the mapping there, and
    /// the access that the device has.
    fn first_denied_access(
        &self,
        start: u64,
        end: u64,
        device: i32,
        wanted: u64,
    ) -> Option<(u64, BareEntry<Mapping>, u64)> {
        let mut at = start;
        while at < end {
            let mapping = self.first_mapping((at, 1), |_| true)?;
            let access = self.world.access_of_device(at, device)?;
            if access & wanted != wanted {
                return Some((at, mapping, access));
            }
            at = mapping.name.saturating_add(mapping.bytes);
        }
        None
    }
}
