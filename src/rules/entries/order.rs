//! Rules about the order of work that different streams and processes do in shared memory.

macro_rules! order_rules {
    ($next:ident $($rest:ident)* ; $($before:tt)*) => { $next! { $($rest)* ; $($before)*

rule AccessNotOrdered "access-not-ordered" {
    says: "Work in shared memory must be complete, or be waited for by an event, before work of another stream or process uses the same bytes.",
    functions_of: ORDERED,
    reasons: [AccessNotOrdered { text: &'a str }: ("{text}")],
    severity: Warning, scope: Processes, found: InRecordings, tells: [],
    rests_on: Documented("cuStreamSynchronize", "Waits until the device has completed all operations in the stream specified by hStream."),
    costs: "No call fails. The later work reads old or partly written bytes, or its bytes are overwritten: rarely on one machine, often on another.",
    hint: "Before the first process tells the other one to go on, call cuStreamSynchronize. Or create an interprocess event, call cuEventRecord after the first call, and let the other process call cuStreamWaitEvent before the second one. If a kernel or a host function tells the other process, ignore this.",
    labels: [used: "first used"],
    seen: "ms-swift#10204, numba-cuda#859, LMCache#4640, mstar#66, vllm#39306",
}
rule OverwrittenUnread "overwritten-unread" {
    says: "A process should not overwrite what another process wrote before somebody has read it.",
    functions_of: WRITES,
    reasons: [OverwrittenUnread { text: &'a str }: ("{text}")],
    severity: Note, scope: Processes, found: InRecordings, tells: [],
    rests_on: Practice("A process that clears its own flag erases a signal that came before. Both processes then wait for each other."),
    costs: "The bytes are lost. If they are a signal, its receiver waits forever.",
    hint: "Clear a flag before the other process can signal: put a barrier between. Or count up in place of clearing. If several processes read a message, wait for each of them before the next one. If a kernel reads the bytes, ignore this.",
    labels: [used: "first written"],
    seen: "nvshmem#98, pytorch#196546, ms-swift#10204",
}
    } };
}
