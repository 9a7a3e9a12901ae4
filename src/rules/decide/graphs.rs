//! Rules about graphs: whether the memory is still there that their nodes use.

use super::{ClosedBy, Gone, Judge, NodeUse, Verdict, Went, World};
use crate::Confidence;
use crate::reason::Reason;

impl<W: World> Judge<'_, W> {
    /// A graph that the driver refused. Some look at addresses when a graph is made or changed: what its owner freed is still there.
    pub(super) fn graph_refused(&mut self) -> Verdict {
        self.first_node(false, |node, gone| {
            (gone.went != Went::FreedByOwner).then(|| (in_graph(node, gone), Confidence::Inferred))
        })
    }

    /// A graph that was launched, made, or changed: the call succeeds if it does not look at addresses, as a launch does not.
    pub(super) fn graph_used(&mut self) -> Verdict {
        let copied = self.first_node(false, |node, gone| {
            // What is there is used as surely as by a copy.
            Some(match gone.went == Went::FreedByOwner {
                true => (gone.reason(node.name), Confidence::Certain),
                false => (in_graph(node, gone), Confidence::Inferred),
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
        // A refusal is about what is there now, whatever comes back later.
        let is_now = call.function.spec().replays().is_some() || call.result != 0;
        let argument = call.function.spec().uses_graph();
        let mut verdict = Verdict::Held;
        world.each_node(&mut |node| {
            if verdict == Verdict::Broken || node.kernel.is_some() != is_of_kernels {
                return;
            }
            let gone = world.gone(node.address, node.bytes);
            let Some(gone) = gone.filter(|gone| is_now || gone.went.is_lasting()) else { return };
            if let Some((reason, confidence)) = tell(node, &gone) {
                verdict = self.broken(reason, confidence, argument, &[(gone.role(), gone.object)]);
            }
        });
        verdict
    }
}

/// A copy or a memset of memory that is gone.
fn in_graph<'a, O>(node: &'a NodeUse<'a>, gone: &'a Gone<O>) -> Reason<'a> {
    let Gone { went, address, range, ago, ref by, .. } = *gone;
    Reason::UseInGraph { node: node.name, address, went, range, ago, by: by.as_ref().map(ClosedBy::site) }
}
