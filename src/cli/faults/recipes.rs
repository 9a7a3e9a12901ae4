//! Commands to copy: a dozen faults that real programs meet.

/// What for, the command, and what it does or what to look for.
pub static RECIPES: &[(&str, &str, &str)] = &[
    (
        "Every opening of device memory fails",
        "cupeer run --inject cuIpcOpenMemHandle*:error=MAP_FAILED -- PROGRAM",
        "What does a program do when it cannot map the memory of another process? The driver is not called; a program \
         of the runtime sees cudaErrorMapBufferObjectFailed.",
    ),
    (
        "The third opening fails, and what was opened is closed again",
        "cupeer run --inject cuIpcOpenMemHandle*:when=3:stage=undo:error=MAP_FAILED -- PROGRAM",
        "The driver does its work before the failure, so the call takes as long as a real one; nothing stays open.",
    ),
    (
        "Devices say that they cannot reach each other",
        "cupeer run --inject cuDeviceCanAccessPeer:dev=0:peer=1:out=canAccessPeer=0 -- PROGRAM",
        "Only this answer is changed, and only in one direction. To deny a pair in answer to every question about it, \
         use `--deny-peer`.",
    ),
    (
        "A device has no room for another peer",
        "cupeer run --inject cuCtxEnablePeerAccess:when=9+:per=ctx:error=TOO_MANY_PEERS -- PROGRAM",
        "Eight calls per context go to the driver and no more, as if the hardware had room for eight peers. \
         Two calls for one peer count twice; `--peer-limit` counts peers.",
    ),
    (
        "A handle arrives damaged",
        "cupeer run --inject cuIpcGetMemHandle:when=1:out=pHandle=flip/24 -- PROGRAM",
        "The exporter succeeds and hands on a handle with one wrong byte; opening it fails, or yields something else. \
         `out=pHandle=other` hands out the handle of another allocation, if there is one.",
    ),
    (
        "One rank is slow",
        "cupeer run --inject @ipc,@peer:rank=3:delay=20ms~5ms -- mpirun -np 8 PROGRAM",
        "Each of these calls on rank 3 waits 15 to 25 ms. The waits are the same in every run with the same `--seed`.",
    ),
    (
        "One rank dies while the others wait for it",
        "cupeer run --inject cuIpcOpenMemHandle*:rank=1:when=2:signal=KILL -- mpirun -np 4 PROGRAM",
        "`exit=1` in place of the signal ends the process as `_exit` does. The record has the call at which it ended.",
    ),
    (
        "An importer does not close until you say so",
        "cupeer run -o r --inject cuIpcCloseMemHandle:process=2:hang=gate -- PROGRAM",
        "The second process that calls the driver hangs when it closes. `cupeer release r --list` shows the call, and \
         `cupeer release r gate` releases it.",
    ),
    (
        "Now and then something fails",
        "cupeer run --seed 7 --inject @ipc,@peer,^@release:p=1%:error=any -- PROGRAM",
        "Each failure returns one of the documented results. The same calls fail with the same results in every run \
         with this seed, as long as the program makes its calls in the same order; without `--seed` the seed is random, \
         and printed.",
    ),
    (
        "It fails three times, and then it works",
        "cupeer run --inject cuIpcOpenMemHandle*:times=3:per=job/rule:error=MAP_FAILED -- PROGRAM",
        "For programs that retry. The three failures are counted across all processes of the job.",
    ),
    (
        "Each place that opens memory fails once",
        "cupeer run --inject cuIpcOpenMemHandle*:site=new:error=MAP_FAILED -- PROGRAM",
        "The first call from each call stack fails, in each process. `cupeer sweep` makes a separate run for each.",
    ),
    (
        "Only one library is refused",
        "cupeer run --inject cuCtxEnablePeerAccess:caller=libnccl*:error=PEER_ACCESS_UNSUPPORTED -- PROGRAM",
        "All other libraries of the process get peer access as before.",
    ),
    (
        "What would happen?",
        "cupeer run --dry-run --inject @ipc:when=3+:error=any:force -- PROGRAM",
        "Nothing is changed; the record says at which calls the rule would have fired.",
    ),
];
