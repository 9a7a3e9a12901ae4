/* jobs RULE bad|good: rules that the whole record of a job tells. */
#include "rules.h"

/* A library whose open fails for no reason that anybody sees: it says nothing, and goes on without a mapping; or tries
 * again, and has one. */
static void goes_on(struct link parent) {
    CUdeviceptr p;
    CUevent event;
    Handle unused;
    start_on_another();
    Handle handle = get_handle(parent);
    if (bad) answer("cuIpcOpenMemHandle_v2", "205");
    CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
    answer("cuIpcOpenMemHandle_v2", NULL);
    if (!bad) OK(cuIpcCloseMemHandle(p));
    OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&unused, event));
    OK(cuEventDestroy_v2(event));
}
static void fallback(void) { export_for(goes_on); }

/* Three ranks that each open what another process exports; in the wrong job, the second one fails. */
static int rank;
static void open_in_rank(struct link parent) {
    CUdeviceptr p;
    start(0);
    Handle handle = get_handle(parent);
    if (bad && rank == 1) {
        answer("cuIpcOpenMemHandle_v2", "205");
        CALL(cuIpcOpenMemHandle_v2, (&p, handle, LAZY));
        return;
    }
    CUresult result = cuIpcOpenMemHandle_v2(&p, handle, LAZY);
    OK(rank == 1 ? printed("cuIpcOpenMemHandle_v2", result) : result);
    OK(cuIpcCloseMemHandle(p));
}

static void be_rank(struct link parent) {
    char text[2] = {(char)('0' + rank), 0};
    (void)parent;
    CHECK(setenv("RANK", text, 1) == 0);
    export_for(open_in_rank);
}

static void ranks_differ(void) {
    struct link ranks[3];
    for (rank = 0; rank < 3; rank++) ranks[rank] = employ(be_rank);
    for (int i = 0; i < 3; i++) ended(ranks[i]);
}

SCENES({"ipc-fallback", fallback}, {"ranks-differ", ranks_differ})
