// A trainer and an engine on one device of 16 GiB: the engine keeps weights that the trainer has freed, and asks for more than is left.
#include "../../tests/programs/headlines/job.h"
enum { GIB = 1 << 30, PIECES = 4 };

static CUdeviceptr grow(int pieces) {
    CUdeviceptr made = 0;
    for (int i = 0; i < pieces; i++) {
        usleep(20000);
        CK(cuMemAlloc_v2(&made, GIB));
    }
    return made;
}

static void engine(int from, int to) {
    CUipcMemHandle weights;
    CUdeviceptr opened, cache;
    char done = 0;
    start(0);
    get(from, &weights, sizeof weights);
    CK(cuIpcOpenMemHandle_v2(&opened, weights, LAZY));
    put(to, &done, 1);
    grow(PIECES);
    get(from, &done, 1);
    usleep(50000);
    CK(cuMemAlloc_v2(&cache, 13ull * GIB));
}

int main(void) {
    int to[2], from[2];
    CUipcMemHandle handle;
    CUdeviceptr weights;
    char done;
    if (pipe(to) || pipe(from)) return 9;
    if (fork() == 0) return engine(to[0], from[1]), 0;
    start(0);
    CK(cuMemAlloc_v2(&weights, 3ull * GIB));
    CK(cuIpcGetMemHandle(&handle, weights));
    put(to[1], &handle, sizeof handle);
    get(from[0], &done, 1);
    grow(PIECES);
    CK(cuMemFree_v2(weights));
    put(to[1], &done, 1);
    usleep(200000);
    return reap();
}
