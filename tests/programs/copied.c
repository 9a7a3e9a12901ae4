/* copied [local]: copies between two devices in all ways that there are, and what does not count beside them; `local` only
 * what stays on one device. Every way has its own number of bytes. */
#include "../conformance/programs/vmm.h"

int cuMemcpyPeer(CUdeviceptr, void *, CUdeviceptr, void *, size_t), cuCtxSynchronize(void), cuCtxDisablePeerAccess(void *);
int cuMemcpyPeerAsync(CUdeviceptr, void *, CUdeviceptr, void *, size_t, void *);
int cuMemcpyAsync(CUdeviceptr, CUdeviceptr, size_t, void *), cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, void *);

enum { SIZE = 1 << 20, HALF = SIZE / 2 };
static void *contexts[2];
static CUdeviceptr memory[2];

static void begin(int devices) {
    IS(cuInit(0), 0);
    for (int device = devices; device-- > 0;) {
        IS(cuDevicePrimaryCtxRetain(&contexts[device], device), 0);
        IS(cuCtxSetCurrent(contexts[device]), 0);
        IS(cuMemAlloc_v2(&memory[device], SIZE), 0);
    }
}

/* What does not leave the device, and what is copied by the host. */
static void local(void) {
    static char host[SIZE];
    IS(cuMemcpyDtoD_v2(memory[0] + HALF, memory[0], 7), 0);
    IS(cuMemcpyDtoDAsync_v2(memory[0] + HALF, memory[0], 7, NULL), 0);
    IS(cuMemcpy(memory[0] + HALF, memory[0], 7), 0);
    IS(cuMemcpy(memory[0], (CUdeviceptr)(uintptr_t)host, 7), 0);
    IS(cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, memory[0], 7, NULL), 0);
    IS(cuMemcpyPeer(memory[0] + HALF, contexts[0], memory[0], contexts[0], 7), 0);
}

/* In another process, which has the first device current: what it has opened lies on the second. */
static void importer(int from) {
    Handle handle;
    CUdeviceptr opened;
    begin(1);
    IS(read(from, &handle, sizeof handle), sizeof handle);
    IS(cuIpcOpenMemHandle_v2(&opened, handle, 1), 0);
    IS(cuMemcpyDtoD_v2(memory[0], opened, 1 << 10), 0);
    IS(cuMemcpyAsync(opened, memory[0], 1 << 11, NULL), 0);
    IS(cuCtxSynchronize(), 0);
    local();
    IS(cuIpcCloseMemHandle(opened), 0);
}

int main(int argc, char **argv) {
    int ends[2];
    Handle handle;
    Allocation allocation;
    if (argc > 1 && strcmp(argv[1], "local") == 0) {
        begin(1);
        local();
        IS(cuCtxSynchronize(), 0);
        return 0;
    }
    IS(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        /* It ends when this process does. */
        close(ends[1]);
        alarm(60);
        importer(ends[0]);
        return 0;
    }
    begin(2);
    local();
    IS(cuMemcpyPeer(memory[1], contexts[1], memory[0], contexts[0], 1 << 0), 0);
    IS(cuCtxEnablePeerAccess(contexts[1], 0), 0);
    IS(cuMemcpyDtoD_v2(memory[1], memory[0], 1 << 1), 0);
    IS(cuMemcpyDtoDAsync_v2(memory[1], memory[0], 1 << 2, NULL), 0);
    IS(cuMemcpy(memory[0], memory[1], 1 << 3), 0);
    IS(cuMemcpyAsync(memory[0], memory[1], 1 << 4, NULL), 0);
    IS(cuMemcpyPeerAsync(memory[0], contexts[0], memory[1], contexts[1], 1 << 5, NULL), 0);
    IS(cuMemcpyDtoD_v2(memory[1], memory[0], 2 * SIZE) != 0, 1);
    IS(create(&allocation, 1, GRANULE), 0);
    CUdeviceptr mapped = map(allocation, GRANULE, 0);
    IS(cuMemcpyDtoD_v2(mapped, memory[0], 1 << 6), 0);
    local();
    IS(cuCtxSynchronize(), 0);
    IS(cuCtxSetCurrent(contexts[1]), 0);
    IS(cuIpcGetMemHandle(&handle, memory[1]), 0);
    IS(write(ends[1], &handle, sizeof handle), sizeof handle);
    int status;
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
    return 0;
}
