//! Rules about calls that use memory: whether it is still there, and whether it ever was.

use super::{Call, ClosedBy, Judge, Verdict, World};
use crate::reason::{Ago, Handle, Process, Reason};
use crate::{Confidence, Rule};
use cupeer_spec::effect::{Copied, Effect, Used};
use cupeer_spec::record::slot::finding::role;

/// How a range of addresses ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Went {
    /// What was opened there was closed.
    Closed,
    /// What was mapped there was unmapped.
    Unmapped,
    /// What was exported from there, or imported of a pool, was freed.
    Freed,
    /// What was opened there is still open, and its owner has freed it.
    FreedByOwner,
}

impl Went {
    fn rule(self) -> Rule {
        match self {
            Went::Closed => Rule::UseAfterClose,
            Went::Unmapped => Rule::UseAfterUnmap,
            Went::Freed => Rule::UseAfterFree,
            Went::FreedByOwner => Rule::UseAfterOwnerFreed,
        }
    }

    /// As what the call counts that ended it.
    fn role(self) -> u32 {
        match self {
            Went::Closed => role::CLOSING,
            Went::Unmapped => role::UNMAPPING,
            Went::Freed => role::FREEING,
            Went::FreedByOwner => role::EXPORT,
        }
    }

    /// Whether a graph that is not launched yet cannot be right: no other memory is there when it is, but by chance. A range that
    /// is still reserved gets other memory, and what its owner has freed is there.
    pub fn is_lasting(self) -> bool {
        matches!(self, Went::Closed | Went::Freed)
    }

    /// Who did what.
    pub(crate) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Went::Closed => ("this process", "closed"),
            Went::Unmapped => ("this process", "unmapped"),
            Went::Freed => ("this process", "freed"),
            Went::FreedByOwner => ("its owner", "freed"),
        }
    }
}

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

impl Call<'_> {
    /// The device memory that the call uses: for each range, the argument that names it, where it begins, and its bytes.
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
        match self.call.function.spec().uses_graph() {
            Some(_) => self.graph_used_what_is_gone(rule),
            None => self.each_gone(|went| went.rule() == rule),
        }
    }

    fn each_gone(&mut self, is_meant: impl Fn(Went) -> bool) -> Verdict {
        let mut verdict = Verdict::Held;
        let (world, call) = (self.world, self.call);
        let mut look = |argument, start, bytes| {
            let Some(gone) = world.gone(start, bytes).filter(|gone| is_meant(gone.went)) else {
                return false;
            };
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
}
