// Two processes of a job share the room of a device: one has more than half of it, so that as much is refused to the other,
// who has it once the first has ended. What is free need not be in one piece.
#include "common.h"

static size_t room(size_t *total) {
    size_t left;
    IS(cuMemGetInfo_v2(&left, total), 0);
    return left;
}

int main(void) {
    int up[2], down[2];
    char byte = 0;
    size_t total;
    IS(pipe(up) | pipe(down), 0);
    pid_t first = fork();
    void *context;
    IS(cuInit(0), 0);
    IS(cuCtxCreate_v2(&context, 0, 0), 0);
    CUdeviceptr memory;
    if (!first) {
        size_t all = room(&total);
        IS(cuMemAlloc_v2(&memory, all / 10 * 6), 0);
        IS(write(up[1], &byte, 1), 1);
        close(down[1]);
        IS(read(down[0], &byte, 1), 0);
        _exit(0);
    }
    IS(read(up[0], &byte, 1), 1);
    size_t left = room(&total);
    IS(left < total / 2, 1);
    IS(cuMemAlloc_v2(&memory, total / 2), 2);
    IS(cuMemAlloc_v2(&memory, left / 2), 0);
    IS(cuMemFree_v2(memory), 0);
    close(down[0]), close(down[1]);
    IS(waitpid(first, NULL, 0), first);
    IS(room(&total), total);
    CUdeviceptr parts[3];
    for (int part = 0; part < 3; part++) IS(cuMemAlloc_v2(&parts[part], total / 10 * 3), 0);
    IS(cuMemFree_v2(parts[0]) | cuMemFree_v2(parts[2]), 0);
    IS(cuMemAlloc_v2(&memory, total / 2), 0);
    return 0;
}
