//! Commands to copy: a dozen faults that real programs meet.

/// Recipes: the purpose, the command, and its effect or the thing to look at.
pub static RECIPES: &[(&str, &str, &str)] = &[
    (
        "Every attempt to open device memory fails",
        "cupeer run --inject cuIpcOpenMemHandle*:error=MAP_FAILED -- PROGRAM",
        "What does a program do if it cannot map the memory of another process? cupeer does not call the driver. A \
         program that uses the runtime gets cudaErrorMapBufferObjectFailed.",
    ),
    (
        "The third attempt fails, after the memory was opened and closed again",
        "cupeer run --inject cuIpcOpenMemHandle*:when=3:stage=undo:error=MAP_FAILED -- PROGRAM",
        "The driver does its work before the failure, so the call takes as long as a real one; nothing stays open.",
    ),
    (
        "A query says that devices cannot reach each other",
        "cupeer run --inject cuDeviceCanAccessPeer:dev=0:peer=1:out=canAccessPeer=0 -- PROGRAM",
        "This changes only one query, and only in one direction. To deny a pair in every query, use `--deny-peer`.",
    ),
    (
        "A device has too many peers",
        "cupeer run --inject cuCtxEnablePeerAccess:when=9+:per=ctx:error=TOO_MANY_PEERS -- PROGRAM",
        "Only eight calls per context reach the driver, as if the hardware allowed eight peers. Two calls for one peer \
         count twice; `--peer-limit` counts peers.",
    ),
    (
        "A handle arrives damaged",
        "cupeer run --inject cuIpcGetMemHandle:when=1:out=pHandle=flip/24 -- PROGRAM",
        "The exporter succeeds, but its handle has one wrong byte. Opening it fails, or opens something else. \
         `out=pHandle=other` returns the handle of another allocation, if there is one.",
    ),
    (
        "One rank is slow",
        "cupeer run --inject @ipc,@peer:rank=3:delay=20ms~5ms -- mpirun -np 8 PROGRAM",
        "Each of these calls on rank 3 waits 15 to 25 ms. The waits are the same in every run with the same `--seed`.",
    ),
    (
        "One rank is killed while the others wait for it",
        "cupeer run --inject cuIpcOpenMemHandle*:rank=1:when=2:signal=KILL -- mpirun -np 4 PROGRAM",
        "`exit=1` in place of the signal ends the process as `_exit` does. The recording contains the call at which it ended.",
    ),
    (
        "An importer does not close until you release it",
        "cupeer run -o r --inject cuIpcCloseMemHandle:process=2:hang=gate -- PROGRAM",
        "The second process that calls the driver hangs when it closes. `cupeer release r --list` shows the call, and \
         `cupeer release r gate` releases it.",
    ),
    (
        "Occasional failures",
        "cupeer run --seed 7 --inject @ipc,@peer,^@release:p=1%:error=any -- PROGRAM",
        "Each failure returns one of the results that are documented or were seen from real drivers. With the same seed, the same calls fail with the same \
         results in every run, if the program makes its calls in the same order. Without `--seed`, the seed is random, \
         and cupeer prints it.",
    ),
    (
        "The first three attempts fail",
        "cupeer run --inject cuIpcOpenMemHandle*:times=3:per=job/rule:error=MAP_FAILED -- PROGRAM",
        "Use this for programs that retry. All processes of the job together get three failures.",
    ),
    (
        "Each place that opens memory fails once",
        "cupeer run --inject cuIpcOpenMemHandle*:site=new:error=MAP_FAILED -- PROGRAM",
        "The first call from each call stack fails, in each process. `cupeer sweep` makes a separate run for each.",
    ),
    (
        "Only one library fails",
        "cupeer run --inject cuCtxEnablePeerAccess:caller=libnccl*:error=PEER_ACCESS_UNSUPPORTED -- PROGRAM",
        "All other libraries of the process get peer access as before.",
    ),
    (
        "Try a plan without changing anything",
        "cupeer run --dry-run --inject @ipc:when=3+:error=any:force -- PROGRAM",
        "The recording shows at which calls the fault would have fired.",
    ),
];
