// A pool goes to another process by a descriptor, and a pointer into it by 64 bytes. What a real driver was seen to
// answer there holds, rights hold, and memory lives as long as anybody has it.
#include "pools.h"
#include <fcntl.h>

enum { INVALID = 1, INVALID_DEVICE = 101, NOT_SUPPORTED = 801 };

static int sockets[2];
static void tell(int side, char what) { IS(write(sockets[side], &what, 1), 1); }
static void hear(int side, char what) {
    char got = 0;
    IS(read(sockets[side], &got, 1), 1);
    IS(got, what);
}

static void expect(CUdeviceptr at, const char *text) {
    char got[16] = "";
    IS(cuMemcpyDtoH_v2(got, at, strlen(text) + 1), 0);
    IS(strcmp(got, text), 0);
}
static CUdeviceptr allocate(Pool pool, size_t size, const char *text) {
    CUdeviceptr at;
    IS(cuMemAllocFromPoolAsync(&at, size, pool, NULL), 0);
    IS(cuMemcpyHtoD_v2(at, text, strlen(text) + 1), 0);
    return at;
}

static void one_process(int ignored) {
    PoolProperties wanted = {.type = 1, .handleTypes = 1, .location = {1, 99}};
    Pool pool, own, standard;
    Allocation h;
    PoolPointer pointer, same;
    CUdeviceptr got;
    int fd;
    (void)ignored;
    start(0);
    IS(cuMemPoolCreate(&pool, &wanted), INVALID);
    wanted.location = (Location){2, 0};
    IS(cuMemPoolCreate(&pool, &wanted), INVALID);
    wanted = (PoolProperties){.handleTypes = 1, .location = {1, 0}};
    IS(cuMemPoolCreate(&pool, &wanted), INVALID);
    // There is no channel, and that is no matter before it is used.
    IS(create_pool(&pool, 0, 8), 0);
    IS(cuMemPoolDestroy(pool), 0);

    IS(create_pool(&pool, 0, 1), 0);
    CUdeviceptr at = allocate(pool, 4096, "mine");
    IS(cuMemPoolExportPointer(&pointer, at), INVALID);
    IS(export_pool(&fd, pool), 0);
    IS(fcntl(fd, F_GETFD), 0);
    IS(cuMemPoolExportPointer(&pointer, at), 0);
    IS(cuMemPoolExportPointer(&same, at), 0);
    IS(memcmp(&pointer, &same, sizeof pointer), 0);
    IS(import(&h, fd), NOT_SUPPORTED);
    IS(import_pool(&own, fd), 0);
    IS(own != pool, 1);
    IS(cuMemPoolImportPointer(&got, own, &pointer), 0);
    expect(got, "mine");
    IS(cuMemPoolImportPointer(&got, pool, &pointer), INVALID);
    IS(cupeer_sim_ledger("pools"), 2);
    IS(cuMemPoolDestroy(own), INVALID);
    IS(cuMemFree_v2(got), 0);
    IS(cuMemPoolDestroy(own), 0);
    IS(close(fd), 0);

    // A pool in use is destroyed; what was allocated of it stays.
    IS(cuMemPoolDestroy(pool), 0);
    IS(cuMemAllocFromPoolAsync(&got, 4096, pool, NULL), INVALID);
    IS(export_pool(&fd, pool), INVALID);
    IS(cuMemPoolExportPointer(&pointer, at), 0);
    expect(at, "mine");
    IS(cuMemFree_v2(at), 0);
    IS(cuDeviceGetDefaultMemPool(&standard, 0), 0);
    IS(export_pool(&fd, standard), INVALID);
    IS(cupeer_sim_ledger("pools"), 0);
}

static void rights(int ignored) {
    Pool pool;
    void *second;
    char byte;
    (void)ignored;
    start(0);
    IS(create_pool(&pool, 0, 1), 0);
    CUdeviceptr at = allocate(pool, 4096, "guarded");
    IS(access_of(pool, 0), 3);
    IS(access_of(pool, 1), 0);
    IS(cuDevicePrimaryCtxRetain(&second, 1), 0);
    IS(cuCtxSetCurrent(second), 0);
    IS(cuMemcpyDtoH_v2(&byte, at, 1), INVALID);
    IS(cuMemcpyHtoD_v2(at, "x", 1), INVALID);
    IS(cuMemsetD8_v2(at, 1, 16), INVALID);
    IS(allow_pool(pool, 1, 1), NOT_SUPPORTED);
    IS(allow_pool(pool, 0, 0), INVALID_DEVICE);
    Access both[2] = {{{1, 0}, 3}, {{1, 1}, 3}};
    IS(cuMemPoolSetAccess(pool, both, 2), 0);
    IS(access_of(pool, 1), 3);
    expect(at, "guarded");
    IS(allow_pool(pool, 1, 0), 0);
    IS(cuMemcpyDtoH_v2(&byte, at, 1), INVALID);
}

// Started by exec, with the descriptor of a pool that it inherits, and a pointer on its standard input.
static int inherited(int fd) {
    Pool pool;
    PoolPointer pointer;
    CUdeviceptr at;
    start(0);
    IS(read(0, &pointer, sizeof pointer), sizeof pointer);
    IS(import_pool(&pool, fd), 0);
    IS(cuMemPoolImportPointer(&at, pool, &pointer), 0);
    expect(at, "inherited");
    return 0;
}
static void exec_with(const char *program, int fd, const PoolPointer *pointer) {
    int pipes[2], status = 0;
    IS(pipe(pipes), 0);
    IS(write(pipes[1], pointer, sizeof *pointer), sizeof *pointer);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        char text[16];
        snprintf(text, sizeof text, "%d", fd);
        dup2(pipes[0], 0);
        execl("/proc/self/exe", program, text, NULL);
        _exit(9);
    }
    waitpid(child, &status, 0);
    IS(status, 0);
    close(pipes[0]);
    close(pipes[1]);
}

static void importer(void) {
    Pool pool, again, other;
    PoolPointer first, second, of_other;
    CUdeviceptr at, same, there;
    Handle legacy;
    void *context;
    int fd = receive_descriptor(sockets[1]), other_fd = receive_descriptor(sockets[1]), mapped = 0;
    IS(read(sockets[1], &first, sizeof first), sizeof first);
    IS(read(sockets[1], &second, sizeof second), sizeof second);
    IS(read(sockets[1], &of_other, sizeof of_other), sizeof of_other);
    start(0);
    IS(import_pool(&pool, fd), 0);
    IS(import_pool(&again, dup(fd)), 0);
    IS(again == pool, 1);
    IS(import_pool(&other, other_fd), 0);
    IS(cuMemPoolImportPointer(&at, other, &first), INVALID);
    IS(cuMemPoolImportPointer(&at, pool, &of_other), INVALID);
    IS(cuMemPoolImportPointer(&at, pool, &first), 0);
    IS(cuMemPoolImportPointer(&same, pool, &first), 0);
    IS(same == at, 1);
    IS(cupeer_sim_ledger("pointers"), 1);
    IS(cuMemAllocFromPoolAsync(&same, 4096, pool, NULL), INVALID);
    IS(cuDeviceSetMemPool(0, pool), INVALID);
    IS(export_pool(&fd, pool), INVALID);
    IS(cuMemPoolExportPointer(&first, at), INVALID);
    IS(cuIpcGetMemHandle(&legacy, at), INVALID);
    IS(cuPointerGetAttribute(&mapped, 13, at), 0);
    IS(mapped, 1);
    IS(cuMemPoolDestroy(pool), INVALID);

    // Rights are each process's own: the exporter has given some to the second device.
    IS(access_of(pool, 0), 3);
    IS(access_of(pool, 1), 0);
    IS(cuDevicePrimaryCtxRetain(&context, 1), 0);
    IS(cuCtxSetCurrent(context), 0);
    IS(cuMemcpyDtoH_v2(&mapped, at, 4), INVALID);
    IS(allow_pool(pool, 1, 3), 0);
    expect(at, "first");
    IS(cuMemcpyHtoD_v2(at, "there", 6), 0);
    tell(1, 'w');
    hear(1, 'f');
    // It is freed there, and what was allocated since is other memory.
    expect(at, "there");
    IS(cuMemFree_v2(at), 0);
    IS(cuMemFree_v2(at), INVALID);
    IS(cuMemPoolImportPointer(&at, pool, &first), 0);
    expect(at, "there");
    IS(cuMemFree_v2(at), 0);
    IS(cuMemPoolImportPointer(&there, pool, &second), 0);
    IS(cuMemPoolDestroy(other), 0);
    tell(1, 'g');
    hear(1, 'k');
    expect(there, "second");
    IS(cuMemPoolImportPointer(&at, pool, &first), INVALID);
    tell(1, 's');
    pause();
}

int main(int argc, char **argv) {
    if (argc > 1) return inherited(atoi(argv[1]));
    in_child(one_process, 0);
    in_child(rights, 0);
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid_t child = fork();
    if (!child) {
        alarm(60);
        close(sockets[0]);
        importer();
        _exit(0);
    }
    close(sockets[1]);
    Pool pool, other;
    PoolPointer first, second, third, of_other;
    int fd, other_fd;
    start(0);
    size_t before = used();
    IS(create_pool(&pool, 0, 1), 0);
    IS(create_pool(&other, 0, 1), 0);
    CUdeviceptr a = allocate(pool, 4096, "first"), b = allocate(pool, 4 << 20, "second");
    CUdeviceptr c = allocate(other, 4096, "other"), d = allocate(pool, 4096, "inherited");
    IS(export_pool(&fd, pool), 0);
    IS(export_pool(&other_fd, other), 0);
    IS(cuMemPoolExportPointer(&first, a), 0);
    IS(cuMemPoolExportPointer(&second, b), 0);
    IS(cuMemPoolExportPointer(&third, d), 0);
    IS(cuMemPoolExportPointer(&of_other, c), 0);
    IS(allow_pool(pool, 1, 3), 0);
    exec_with(argv[0], fd, &third);
    send_descriptor(sockets[0], fd);
    send_descriptor(sockets[0], other_fd);
    IS(write(sockets[0], &first, sizeof first), sizeof first);
    IS(write(sockets[0], &second, sizeof second), sizeof second);
    IS(write(sockets[0], &of_other, sizeof of_other), sizeof of_other);
    IS(close(fd), 0);
    IS(close(other_fd), 0);
    hear(0, 'w');
    expect(a, "there");
    IS(cuMemFreeAsync(a, NULL), 0);
    // What the importer holds is nobody else's.
    CUdeviceptr others[8];
    for (int i = 0; i < 8; i++)
        others[i] = allocate(pool, 4096, "new");
    tell(0, 'f');
    hear(0, 'g');
    for (int i = 0; i < 8; i++)
        IS(cuMemFree_v2(others[i]), 0);
    IS(cuMemFree_v2(b), 0);
    IS(cuMemFree_v2(c), 0);
    IS(cuMemFree_v2(d), 0);
    IS(cuMemPoolDestroy(pool), 0);
    IS(cuMemPoolDestroy(other), 0);
    // The importer still has the pool, one pointer of it, and its descriptors.
    IS(used() - before, 2 * GRANULE + (4 << 20));
    tell(0, 'k');
    hear(0, 's');
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    IS(used(), before);
    return 0;
}
