// A process that may have few open files and only small ones: no signal, and what does not fit is an error. The
// memory that an importer still reads is not given to anybody else.
#include "common.h"

static void limited(int ignored) {
    (void)ignored;
    struct rlimit files = {16, 16}, length = {8 << 20, 8 << 20};
    IS(setrlimit(RLIMIT_NOFILE, &files), 0);
    IS(setrlimit(RLIMIT_FSIZE, &length), 0);
    void *context;
    CUdeviceptr p, q;
    Handle h;
    IS(cuInit(0), 0);
    IS(cuCtxCreate_v2(&context, 0, 0), 0);
    IS(cuMemAlloc_v2(&q, 64 << 20), 2);
    IS(cuMemAlloc_v2(&p, 1 << 20), 0);
    IS(cuMemsetD8_v2(p, 1, 1 << 20), 0);
    IS(cuIpcGetMemHandle(&h, p), 0);
    IS(cuMemFree_v2(p), 0);
}

static int to[2], from[2];
static void importer(void) {
    void *context;
    CUdeviceptr p[200];
    Handle h;
    char text[8], c = 0;
    IS(cuInit(0), 0);
    IS(cuCtxCreate_v2(&context, 0, 0), 0);
    for (int i = 0; i < 200; i++) {
        IS(read(to[0], &h, sizeof h), sizeof h);
        IS(cuIpcOpenMemHandle_v2(&p[i], h, 1), 0);
    }
    IS(write(from[1], &c, 1), 1);
    IS(read(to[0], &c, 1), 1); // the exporter has freed all and allocated anew
    for (int i = 0; i < 200; i++) {
        IS(cuMemcpyDtoH_v2(text, p[i], 8), 0);
        IS(atoi(text), i);
    }
    for (int i = 0; i < 200; i += 2)
        IS(cuIpcCloseMemHandle(p[i]), 0);
    IS(write(from[1], &c, 1), 1);
    IS(read(to[0], &c, 1), 1);
    for (int i = 1; i < 200; i += 2) {
        IS(cuMemcpyDtoH_v2(text, p[i], 8), 0);
        IS(atoi(text), i);
    }
}

// Allocates all there is of the memory, in pieces, and fills it.
static void fill(size_t wanted) {
    for (size_t got = 0; got < wanted; got += 4096) {
        CUdeviceptr p;
        IS(cuMemAlloc_v2(&p, 4096), 0);
        IS(cuMemsetD8_v2(p, 'x', 4096), 0);
    }
}

int main(void) {
    in_child(limited, 0);
    IS(pipe(to) || pipe(from), 0);
    pid_t child = fork();
    if (!child) {
        alarm(60);
        importer();
        fflush(stdout);
        _exit(0);
    }
    void *context;
    CUdeviceptr p[200];
    Handle h;
    char text[8], c;
    IS(cuInit(0), 0);
    IS(cuCtxCreate_v2(&context, 0, 0), 0);
    size_t before, between, after, total;
    IS(cuMemGetInfo_v2(&before, &total), 0);
    for (int i = 0; i < 200; i++) {
        IS(cuMemAlloc_v2(&p[i], 4096), 0);
        snprintf(text, sizeof text, "%d", i);
        IS(cuMemcpyHtoD_v2(p[i], text, 8), 0);
        IS(cuIpcGetMemHandle(&h, p[i]), 0);
        IS(write(to[1], &h, sizeof h), sizeof h);
    }
    IS(read(from[0], &c, 1), 1);
    for (int i = 0; i < 200; i++)
        IS(cuMemFree_v2(p[i]), 0);
    fill(400 * 4096);
    IS(cuMemGetInfo_v2(&between, &total), 0);
    IS(before - between, 600 * 4096);
    IS(write(to[1], &c, 1), 1);
    IS(read(from[0], &c, 1), 1);
    fill(400 * 4096); // may use the half that was closed
    IS(cuMemGetInfo_v2(&after, &total), 0);
    IS(before - after, 900 * 4096);
    IS(write(to[1], &c, 1), 1);
    int status = 0;
    waitpid(child, &status, 0);
    IS(status, 0);
    return 0;
}
