// Pointers and handles that are none are errors; device memory cannot be touched by host code; a process that is
// killed in the middle leaves nothing behind; and addresses of 32 bits work.
#include "common.h"

static void touch(int ignored) {
    (void)ignored;
    void *context;
    CUdeviceptr p;
    IS(cuInit(0), 0);
    IS(cuCtxCreate_v2(&context, 0, 0), 0);
    IS(cuMemAlloc_v2(&p, 4096), 0);
    signal(SIGSEGV, _exit);
    *(volatile char *)(uintptr_t)p = 1;
}

static void busy(void) {
    void *context;
    CUdeviceptr p;
    Handle h;
    IS(cuInit(0), 0);
    IS(cuCtxCreate_v2(&context, 0, 0), 0);
    for (;;) {
        IS(cuMemAlloc_v2(&p, 1 << 20), 0);
        IS(cuMemsetD8_v2(p, 1, 1 << 20), 0);
        IS(cuIpcGetMemHandle(&h, p), 0);
        IS(cuMemFree_v2(p), 0);
    }
}

static int names_are_left(void) {
    return system("ls /dev/shm /tmp 2>/dev/null | grep -c cupeer-sim >/dev/null") == 0;
}

int main(void) {
    pid_t child = fork();
    int status = 0;
    if (!child) {
        touch(0);
        _exit(0);
    }
    waitpid(child, &status, 0);
    IS(WEXITSTATUS(status), SIGSEGV);

    child = fork();
    if (!child) busy();
    usleep(20000);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    IS(WTERMSIG(status), SIGKILL);
    IS(names_are_left(), 0);

    void *context, *memory = calloc(1, 4096);
    CUdeviceptr p, q;
    char bytes[64];
    IS(cuInit(0), 0);
    IS(cuCtxCreate_v2(&context, 0, 0), 0);
    IS(cuMemAlloc_v2(&p, 4096), 0);
    for (uintptr_t wild = 1; wild; wild <<= 1) {
        IS(cuCtxSetCurrent((void *)wild), 201);
        IS(cuEventQuery((void *)wild), 400);
        if (wild > 2) IS(cuStreamQuery((void *)wild), 400);
        IS(cuMemFree_v2(wild), 1);
        IS(cuIpcCloseMemHandle(wild), 1);
        IS(cuMemcpyDtoH_v2(bytes, wild, 8), 1);
        IS(cuPointerGetAttribute(bytes, 2, wild), 1);
        IS(cuMemcpyHtoD_v2(p, (void *)wild, 8), 1);
        IS(cuMemcpyDtoH_v2((void *)wild, p, 8), 1);
        IS(cuMemcpy(wild, wild, 8), 1);
    }
    IS(cuEventQuery(memory), 400);
    IS(cuCtxSetCurrent(memory), 201);
    // A page that is there and one that is not.
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    IS(cuMemcpyHtoD_v2(p, pages + 4090, 16), 1);
    IS(cuMemcpyDtoH_v2(pages + 4090, p, 16), 1);
    IS(cuMemHostRegister_v2(pages, 8192, 0), 1);
    // Programs close descriptors that are not theirs.
    for (int fd = 3; fd < 70000; fd++)
        close(fd);
    IS(cuMemcpyDtoH_v2(bytes, p, 8), 304);
    IS(cuMemAlloc_v2(&q, 4096), 0);
    IS(cuMemcpyHtoD_v2(q, bytes, 8), 304);

    unsigned low;
    IS(cuCtxCreate_v2(&context, 0, 1), 0);
    IS(cuMemAlloc(&low, 100), 0);
    IS(cuMemcpyHtoD(low, "below", 6), 0);
    IS(cuMemcpyDtoH(bytes, low, 6), 0);
    IS(strcmp(bytes, "below"), 0);
    IS(cuMemFree(low), 0);
    return 0;
}
