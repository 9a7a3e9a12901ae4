//! Rules about calls that use memory: whether it is still there, and whether it ever was.

use super::{Call, ClosedBy, Judge, Mapping, Opening, Verdict, World};
use crate::reason::{Ago, Device, Handle, Process, Reason, Went};
use crate::{Confidence, Rule};
use cupeer_spec::effect::{Copied, Effect, End, Object, Used};
use cupeer_spec::record::slot::finding::role;

/// Memory that the process had and has no more.
#[derive(Clone, Copy)]
pub struct Gone<O> {
    /// How it ended.
    pub went: Went,
    /// The process that ended it, or exported what its owner freed.
    pub owner: Process,
    /// The first address of the call that was in it.
    pub address: u64,
    /// Where it began, and how many bytes it had.
    pub range: (u64, u64),
    /// The fingerprint of its handle; 0 where it has none.
    pub fingerprint: u64,
    /// How long before the call it ended.
    pub ago: Option<Ago>,
    /// Who ended it.
    pub by: Option<ClosedBy>,
    /// Whether it went with its context.
    pub with_context: bool,
    /// What the world calls the end.
    pub object: O,
}

impl<O> Gone<O> {
    /// What is said of a call that uses it by an argument of this name.
    pub(super) fn reason<'a>(&'a self, name: &'a str) -> Reason<'a> {
        let &Gone { went, owner, address, range, ago, ref by, with_context, .. } = self;
        let (by, handle) = (by.as_ref().map(ClosedBy::site), Handle(self.fingerprint));
        match went {
            Went::Closed => Reason::UseAfterClose { name, address, range, handle, ago, by, with_context },
            Went::Unmapped => Reason::UseAfterUnmap { name, address, range, ago, by },
            Went::Freed => Reason::UseAfterFree { name, address, range, ago, by, with_context },
            Went::FreedByOwner => Reason::UseAfterOwnerFreed { name, address, range, handle, owner, ago },
        }
    }

    /// As what the call counts that ended it.
    pub(super) fn role(&self) -> u32 {
        if self.with_context { role::ENDING } else { self.went.role() }
    }
}

/// Memory of another process that this process has.
struct Present<O> {
    /// Where it begins, and how many bytes it has.
    range: (u64, u64),
    /// Where it was opened; none if it is imported and mapped.
    opening: Option<Opening<O>>,
}

impl Call<'_> {
    /// The device memory that the call uses, or frees: for each range, the argument that names it, where it begins, and its bytes.
    pub fn used(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        self.function
            .spec()
            .effects
            .iter()
            .flat_map(|effect| match *effect {
                Effect::Copies(Copied { to, from, size, .. }) => {
                    let range = |by| (by, self.at(by), self.at(size));
                    [range(to), range(from)]
                }
                Effect::Uses(used) => self.used_by(used),
                Effect::Ends(End { object: Object::Pointer, by, .. }) => [(by, self.at(by), 1), (0, 0, 0)],
                _ => [(0, 0, 0); 2],
            })
            .filter(|(_, start, bytes)| *start != 0 && *bytes != 0)
    }

    fn used_by(&self, Used { by, size, element, rows, .. }: Used) -> [(usize, u64, u64); 2] {
        let Some(size) = size else {
            // As a copy of rows is kept.
            let word = |at: usize| {
                let bytes = self.bytes(by).get(at..).and_then(|bytes| bytes.first_chunk());
                bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
            };
            return [(by, word(0), word(8)), (by, word(16), word(24))];
        };
        let element = element.map_or(1, |element| self.function.spec().args[element].size() as u64);
        let row = self.at(size).wrapping_mul(element);
        let bytes = rows.map_or(row, |(height, pitch)| match self.at(height) {
            0 => 0,
            height => (height - 1).wrapping_mul(self.at(pitch)).wrapping_add(row),
        });
        [(by, self.at(by), bytes), (0, 0, 0)]
    }
}

impl<W: World> Judge<'_, W> {
    /// A launch, of which the parameters alone are known: what the kernel does with them is not.
    pub(super) fn launched(&mut self) -> Verdict {
        let (world, argument) = (self.world, self.call.function.spec().launches());
        let argument = argument.map_or("", |launched| self.call.name(launched.parameters));
        let mut verdict = Verdict::Held;
        world.each_parameter(&mut |kernel, parameter, address| {
            let Some(Gone { went, range, ago, ref by, object, .. }) = world.gone(address, 1) else { return };
            let by = by.as_ref().map(ClosedBy::site);
            let node = "";
            let reason = Reason::UseInKernel { kernel, node, parameter, address, went, range, ago, by };
            verdict = self.broken(reason, Confidence::Inferred, argument, &[(went.role(), object)]);
        });
        verdict
    }

    /// A call that succeeded. What its owner freed can be used. If anything else was gone, the call would have failed: so the
    /// driver has memory there again, or will have it when the call is carried out, as in a graph that allocates.
    pub(super) fn used(&mut self) -> Verdict {
        self.each_gone(|went| went == Went::FreedByOwner)
    }

    pub(super) fn used_what_is_gone(&mut self, rule: Rule) -> Verdict {
        self.each_gone(|went| went.rule() == rule)
    }

    fn each_gone(&mut self, is_meant: impl Fn(Went) -> bool) -> Verdict {
        let mut verdict = Verdict::Held;
        let (world, call) = (self.world, self.call);
        let mut look = |argument, start, bytes| {
            let gone = world.gone(start, bytes).filter(|gone| is_meant(gone.went));
            // Behind the end of what is open, anything may have been: the call must not go there. What went with its context need
            // not be freed, and that harms nobody.
            let is_other = |gone: &Gone<_>| {
                self.is_behind_opened(start, gone.address)
                    || gone.with_context && call.function.spec().frees().is_some()
            };
            let Some(gone) = gone.filter(|gone| !is_other(gone)) else { return false };
            let name = call.name(argument);
            let objects = [(gone.role(), gone.object)];
            verdict = self.broken(gone.reason(name), Confidence::Certain, name, &objects);
            true
        };
        call.used().for_each(|(argument, start, bytes)| {
            look(argument, start, bytes);
        });
        // Of a batch, the first one says it.
        let mut is_found = false;
        world.each_range(&mut |argument, start, bytes| is_found = is_found || look(argument, start, bytes));
        verdict
    }

    /// A call that failed, and begins in memory of another process.
    pub(super) fn used_what_is_there(&mut self, rule: Rule) -> Verdict {
        let (world, call) = (self.world, self.call);
        // The contexts of a copy between peers are its own.
        if rule == Rule::UseWithoutAccess && call.function.spec().name.contains("Peer") {
            return Verdict::Held;
        }
        let mut verdict = Verdict::Held;
        let mut look = |argument, start: u64, bytes: u64| {
            let Some(there) = self.present(start).filter(|_| verdict == Verdict::Held) else { return };
            let (name, end) = (call.name(argument), start.saturating_add(bytes));
            let handle = there.opening.map(|opening| Handle(opening.fingerprint));
            let reason = if rule == Rule::UseBeyondEnd {
                self.first_missing(&there, end).map(|missing| {
                    let (beyond, range) = (end - missing, there.range);
                    Reason::UseBeyondEnd { name, start, bytes, beyond, range, handle }
                })
            } else {
                self.denied(start, end).map(|(address, mapping)| {
                    let ordinal = world.device();
                    let device = Device { ordinal, uuid: world.uuid(ordinal) };
                    let (range, is_granted) = ((mapping.start, mapping.bytes), mapping.is_granted);
                    Reason::UseWithoutAccess { name, address, device, range, is_granted }
                })
            };
            if let Some(reason) = reason {
                let opening = there.opening.map(|opening| (role::OPENING, opening.object));
                verdict = self.broken(reason, Confidence::Certain, name, opening.as_slice());
            }
        };
        call.used().for_each(|(argument, start, bytes)| look(argument, start, bytes));
        world.each_range(&mut look);
        verdict
    }

    /// Whether an address is behind the memory that was opened and in which a range begins.
    fn is_behind_opened(&self, start: u64, address: u64) -> bool {
        let is_before = |there: Present<W::Object>| there.range.0.saturating_add(there.range.1) <= address;
        start != address
            && self.present(start).is_some_and(|there| there.opening.is_some() && is_before(there))
    }

    /// The memory of another process that this process has at an address.
    fn present(&self, address: u64) -> Option<Present<W::Object>> {
        let opened = |object| self.world.opening(object, address);
        if let Some(opening) = opened(Object::Memory).or_else(|| opened(Object::Pointer)) {
            return Some(Present { range: self.world.there(address)??, opening: Some(opening) });
        }
        let Mapping { start, bytes, handle, .. } = self.mapping((address, 1), |_| true)?;
        let is_imported = self.world.allocation(handle).is_some_and(|it| it.is_imported);
        is_imported.then_some(Present { range: (start, bytes), opening: None })
    }

    /// The first address behind some memory at which nothing is, before the end of a range. What was opened ends where the driver
    /// says, because no copy goes from one allocation into the next. Of mappings, one may follow the other.
    fn first_missing(&self, there: &Present<W::Object>, end: u64) -> Option<u64> {
        let mut at = there.range.0.saturating_add(there.range.1);
        while at < end {
            if there.opening.is_some() || self.world.there(at)?.is_none() {
                return Some(at);
            }
            let next = self.mapping((at, 1), |_| true)?;
            at = next.start.saturating_add(next.bytes);
        }
        None
    }

    /// The first address of a range, and its mapping, to which the device of the current context has no access.
    fn denied(&self, start: u64, end: u64) -> Option<(u64, Mapping)> {
        let mut at = start;
        while at < end {
            let mapping = self.mapping((at, 1), |_| true)?;
            if !self.world.may_access(at)? {
                return Some((at, mapping));
            }
            at = mapping.start.saturating_add(mapping.bytes);
        }
        None
    }
}
