// Memory of a device to which there is no link cannot be opened, and the exporter's own device can open it.
#include "common.h"

static void importer(int fd) {
    void *context;
    Handle h;
    CUdeviceptr p;
    char text[8];
    IS(read(fd, &h, sizeof h), sizeof h);
    IS(cuInit(0), 0);
    IS(cuCtxCreate_v2(&context, 0, 1), 0);
    IS(cuIpcOpenMemHandle_v2(&p, h, 1), 217);
    IS(cuCtxCreate_v2(&context, 0, 0), 0);
    IS(cuIpcOpenMemHandle_v2(&p, h, 1), 0);
    IS(cuMemcpyDtoH_v2(text, p, 7), 0);
    IS(strcmp(text, "opened"), 0);
    // What failed left no hold behind: it opens again once it is closed.
    IS(cuIpcCloseMemHandle(p), 0);
    IS(cuIpcOpenMemHandle_v2(&p, h, 1), 0);
}

int main(void) {
    int pipes[2];
    IS(pipe(pipes), 0);
    pid_t child = fork();
    if (!child) {
        importer(pipes[0]);
        _exit(0);
    }
    void *context;
    CUdeviceptr p;
    Handle h;
    IS(cuInit(0), 0);
    IS(cuCtxCreate_v2(&context, 0, 0), 0);
    IS(cuMemAlloc_v2(&p, 4096), 0);
    IS(cuMemcpyHtoD_v2(p, "opened", 7), 0);
    IS(cuIpcGetMemHandle(&h, p), 0);
    IS(write(pipes[1], &h, sizeof h), sizeof h);
    int status = 0;
    waitpid(child, &status, 0);
    IS(status, 0);
    return 0;
}
