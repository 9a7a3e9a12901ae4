//! Commands that people copy: a dozen faults that real programs meet.

/// A recipe.
pub struct Recipe {
    /// What for.
    pub title: &'static str,
    /// The command.
    pub command: &'static str,
    /// What it does, and what to look for.
    pub text: &'static str,
}

const fn recipe(title: &'static str, command: &'static str, text: &'static str) -> Recipe {
    Recipe { title, command, text }
}

/// All recipes.
pub static RECIPES: &[Recipe] = &[
    recipe(
        "Every opening of memory fails",
        "cupeer run --inject cuIpcOpenMemHandle*:error=MAP_FAILED -- PROGRAM",
        "What does a program do that cannot have the memory of another process? The driver is not called; a program of \
         the runtime sees cudaErrorMapBufferObjectFailed.",
    ),
    recipe(
        "The third opening fails, and what was opened is closed again",
        "cupeer run --inject cuIpcOpenMemHandle*:when=3:stage=undo:error=MAP_FAILED -- PROGRAM",
        "The driver did its work before the failure, so what takes time there takes it here, too; nothing stays open.",
    ),
    recipe(
        "Devices say that they cannot reach each other",
        "cupeer run --inject cuDeviceCanAccessPeer:dev=0:peer=1:out=canAccessPeer=0 -- PROGRAM",
        "One answer alone is changed, and in one direction. To deny a pair with all questions about it, there is \
         `--deny-peer`.",
    ),
    recipe(
        "A device has no room for another peer",
        "cupeer run --inject cuCtxEnablePeerAccess:when=9+:per=ctx:error=TOO_MANY_PEERS -- PROGRAM",
        "Eight calls of each context go to the driver, as where the hardware has room for eight peers, and no more. \
         Who calls twice for one peer is counted twice; `--peer-limit` counts peers.",
    ),
    recipe(
        "A handle arrives damaged",
        "cupeer run --inject cuIpcGetMemHandle:when=1:out=pHandle=flip/24 -- PROGRAM",
        "The exporter succeeds and hands on a handle of which one byte is wrong; whoever opens it fails, or gets \
         something else. `out=pHandle=other` gives it the handle of another allocation, where there is one.",
    ),
    recipe(
        "One rank is slow",
        "cupeer run --inject @ipc,@peer:rank=3:delay=20ms~5ms -- mpirun -np 8 PROGRAM",
        "Each of these calls of rank 3 waits 15 to 25 ms. The same waits in every run with the same `--seed`.",
    ),
    recipe(
        "One rank dies while the others wait for it",
        "cupeer run --inject cuIpcOpenMemHandle*:rank=1:when=2:signal=KILL -- mpirun -np 4 PROGRAM",
        "`exit=1` in place of the signal ends it as `_exit` does. The record has the call at which it ended.",
    ),
    recipe(
        "An importer does not close until you say so",
        "cupeer run -o r --inject cuIpcCloseMemHandle:process=2:hang=gate -- PROGRAM",
        "The second process that calls the driver hangs where it closes. `cupeer release r --list` says so, and `cupeer release r gate` lets it go on.",
    ),
    recipe(
        "Now and then something fails",
        "cupeer run --seed 7 --inject @ipc,@peer,^@release:p=1%:error=any -- PROGRAM",
        "One of the documented results each time. The same calls fail with the same results in every run with this \
         seed, as long as the program makes its calls in the same order; without `--seed` one is drawn, and said.",
    ),
    recipe(
        "It fails three times, and then it works",
        "cupeer run --inject cuIpcOpenMemHandle*:times=3:per=job/rule:error=MAP_FAILED -- PROGRAM",
        "For whatever tries again. The three are counted over all processes of the job.",
    ),
    recipe(
        "Each place that opens memory fails once",
        "cupeer run --inject cuIpcOpenMemHandle*:site=new:error=MAP_FAILED -- PROGRAM",
        "The first call of each call stack, in each process. For one run for each of them there is `cupeer sweep`.",
    ),
    recipe(
        "Only one library is refused",
        "cupeer run --inject cuCtxEnablePeerAccess:caller=libnccl*:error=PEER_ACCESS_UNSUPPORTED -- PROGRAM",
        "All other libraries of the process get peer access as before.",
    ),
    recipe(
        "What would happen?",
        "cupeer run --dry-run --inject @ipc:when=3+:error=any:force -- PROGRAM",
        "Nothing is changed; the record says at which calls the rule would have fired.",
    ),
];
