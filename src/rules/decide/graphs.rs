//! Rules about graphs: whether the memory is still there that their nodes use.

use super::{ClosedBy, Gone, Judge, NodeUse, Verdict, Went, World};
use crate::Confidence;
use crate::reason::Reason;

impl<W: World> Judge<'_, W> {
    /// A graph that was launched, made, or changed: the call succeeds, because a launch does not look at addresses.
    pub(super) fn graph_used(&mut self) -> Verdict {
        let copied = self.first_node(false, |node, gone| {
            let Gone { went, address, range, ago, ref by, .. } = *gone;
            let by = by.as_ref().map(ClosedBy::site);
            let is_there = went == Went::FreedByOwner;
            let told = Reason::UseInGraph { node: node.name, address, went, range, ago, by };
            // What is there is used as surely as by a copy.
            Some(match is_there {
                true => (gone.reason(node.name), Confidence::Certain),
                false => (told, Confidence::Inferred),
            })
        });
        if copied == Verdict::Broken {
            return copied;
        }
        self.first_node(true, |node, gone| {
            let Gone { went, address, range, ago, ref by, .. } = *gone;
            let ((kernel, parameter), by) = (node.kernel?, by.as_ref().map(ClosedBy::site));
            let node = node.name;
            let told = Reason::UseInKernel { kernel, node, parameter, address, went, range, ago, by };
            Some((told, Confidence::Inferred))
        })
    }

    /// Hands over the first node that uses memory that is gone, of kernels or of the others. One says it for all.
    fn first_node(
        &mut self,
        is_of_kernels: bool,
        tell: impl for<'a> Fn(&'a NodeUse<'a>, &'a Gone<W::Object>) -> Option<(Reason<'a>, Confidence)>,
    ) -> Verdict {
        let (world, call) = (self.world, self.call);
        let is_launched = call.function.spec().replays().is_some();
        let argument = call.function.spec().uses_graph();
        let mut verdict = Verdict::Held;
        world.each_node(&mut |node| {
            if verdict == Verdict::Broken || node.kernel.is_some() != is_of_kernels {
                return;
            }
            let gone = world.gone(node.address, node.bytes);
            let Some(gone) = gone.filter(|gone| is_launched || gone.went.is_lasting()) else { return };
            if let Some((reason, confidence)) = tell(node, &gone) {
                verdict = self.broken(reason, confidence, argument, &[(gone.role(), gone.object)]);
            }
        });
        verdict
    }
}
