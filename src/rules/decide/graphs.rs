//! Rules about graphs: whether the memory is still there that their nodes use.

use super::{ClosedBy, EndKind, EndedMemory, Judge, NodeUse, Verdict, World};
use crate::Confidence;
use crate::reason::Reason;

impl<W: World> Judge<'_, W> {
    /// Checks a graph that the driver refused. Some drivers check addresses when a graph is created or
    /// changed. Memory that its owner freed is still mapped then.
    pub(super) fn graph_refused(&mut self) -> Option<Verdict> {
        self.report_first_node(false, |node, gone| {
            (gone.end_kind != EndKind::FreedByOwner).then(|| (graph_reason(node, gone), Confidence::Inferred))
        })
    }

    /// Checks a graph that was launched, created, or changed. The call succeeds if it does not check
    /// addresses: a launch never does.
    pub(super) fn check_graph_use(&mut self) -> Option<Verdict> {
        let copied = self.report_first_node(false, |node, gone| {
            // A graph can still use memory that its owner freed, because that memory stays mapped, as a copy
            // can.
            Some(match gone.end_kind == EndKind::FreedByOwner {
                true => (gone.reason(node.name), Confidence::Certain),
                false => (graph_reason(node, gone), Confidence::Inferred),
            })
        });
        if copied == Some(Verdict::Broken) {
            return copied;
        }
        self.report_first_node(true, |node, gone| {
            let EndedMemory { end_kind: went, address, range, ago, ref by, .. } = *gone;
            let ((kernel, parameter), by) = (node.kernel?, by.as_ref().map(ClosedBy::site));
            let node = node.name;
            let told = Reason::UseInKernel { kernel, node, parameter, address, went, range, ago, by };
            Some((told, Confidence::Inferred))
        })
    }

    /// Reports the first node that uses freed or closed memory. `is_of_kernels` selects kernel nodes or all
    /// others. One finding covers all nodes of the graph.
    fn report_first_node(
        &mut self,
        is_of_kernels: bool,
        tell: impl for<'a> Fn(&'a NodeUse<'a>, &'a EndedMemory<W::Object>) -> Option<(Reason<'a>, Confidence)>,
    ) -> Option<Verdict> {
        let (world, call) = (self.world, self.call);
        // If the driver refused the graph, the memory of that moment is what matters, even if other memory is
        // at the address later.
        let is_now = call.function.spec().replays().is_some() || call.result != 0;
        let argument = call.function.spec().graph_argument();
        let mut verdict = Some(Verdict::Held);
        world.each_node(&mut |node| {
            if verdict == Some(Verdict::Broken) || node.kernel.is_some() != is_of_kernels {
                return;
            }
            let gone = world.ended_memory(node.address, node.bytes);
            let Some(gone) = gone.filter(|gone| is_now || gone.end_kind.is_lasting()) else { return };
            if let Some((reason, confidence)) = tell(node, &gone) {
                verdict = self.report_violation(reason, confidence, argument, &[(gone.ending_role(), gone.object)]);
            }
        });
        verdict
    }
}

/// Returns the reason for a finding about a copy node or a memset node that uses freed or closed memory.
fn graph_reason<'a, O>(node: &'a NodeUse<'a>, gone: &'a EndedMemory<O>) -> Reason<'a> {
    let EndedMemory { end_kind: went, address, range, ago, ref by, .. } = *gone;
    Reason::UseInGraph { node: node.name, address, went, range, ago, by: by.as_ref().map(ClosedBy::site) }
}
