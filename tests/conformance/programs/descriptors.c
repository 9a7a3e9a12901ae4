// Memory goes to other processes by its descriptors, on every way on which descriptors go, and lives as long as
// anybody has a descriptor, a handle or a mapping of it.
#define _GNU_SOURCE
#include "vmm.h"
#include <fcntl.h>
#include <sys/syscall.h>

static int sockets[2];

static void tell(int side, char what) { IS(write(sockets[side], &what, 1), 1); }
static void hear(int side, char what) {
    char got = 0;
    IS(read(sockets[side], &got, 1), 1);
    IS(got, what);
}

static void expect(Allocation h, const char *text) {
    char got[16] = "";
    CUdeviceptr at = map(h, GRANULE, 0);
    IS(cuMemcpyDtoH_v2(got, at, strlen(text) + 1), 0);
    IS(strcmp(got, text), 0);
    IS(cuMemUnmap(at, GRANULE), 0);
    IS(cuMemAddressFree(at, GRANULE), 0);
}

// Makes an allocation that begins with a text, and a descriptor of it; the handle is released.
static int descriptor_of(const char *text) {
    Allocation h;
    int fd;
    IS(create(&h, 0, GRANULE), 0);
    CUdeviceptr at = map(h, GRANULE, 0);
    IS(cuMemcpyHtoD_v2(at, text, strlen(text) + 1), 0);
    IS(cuMemUnmap(at, GRANULE), 0);
    IS(cuMemAddressFree(at, GRANULE), 0);
    IS(cuMemExportToShareableHandle(&fd, h, 1, 0), 0);
    IS(cuMemRelease(h), 0);
    return fd;
}

// Started by exec, with a descriptor that it inherits.
static int inherited(int fd) {
    Allocation h;
    start(0);
    IS(import(&h, fd), 0);
    expect(h, "inherited");
    return 0;
}

static void importer(int ignored) {
    Allocation h, again;
    (void)ignored;
    start(0);
    for (int i = 0; i < 2; i++) {
        int fd = receive_descriptor(sockets[1]);
        IS(import(&h, fd), 0);
        IS(import(&again, fd), 0);
        IS(h != again, 1);
        IS(close(fd), 0);
        expect(h, i ? "second" : "first");
        IS(cuMemRelease(h), 0);
        expect(again, i ? "second" : "first");
        if (i == 0) IS(cuMemRelease(again), 0);
        tell(1, 'i');
        hear(1, 'g');
    }
    // The second is still imported: killed with it.
    tell(1, 'r');
    pause();
}

int main(int argc, char **argv) {
    if (argc > 1) return inherited(atoi(argv[1]));
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid_t child = fork();
    if (!child) {
        importer(0);
        _exit(0);
    }
    start(0);
    size_t before = used();

    // A message.
    int fd = descriptor_of("first");
    IS(fcntl(fd, F_GETFD), FD_CLOEXEC);
    IS(used() - before, GRANULE);
    send_descriptor(sockets[0], fd);
    IS(close(fd), 0);
    hear(0, 'i');
    IS(used(), before);
    tell(0, 'g');
    fd = descriptor_of("second");
    send_descriptor(sockets[0], fd);
    IS(close(fd), 0);
    hear(0, 'i');
    IS(used() - before, GRANULE);
    tell(0, 'g');
    hear(0, 'r');
    // What it holds is nobody else's, and comes back when it is killed.
    Allocation h[8];
    for (int i = 0; i < 8; i++) {
        IS(create(&h[i], 0, GRANULE), 0);
        CUdeviceptr at = map(h[i], GRANULE, 0);
        IS(cuMemsetD8_v2(at, 0xee, GRANULE), 0);
        IS(cuCtxSynchronize(), 0);
        IS(cuMemUnmap(at, GRANULE), 0);
        IS(cuMemRelease(h[i]), 0);
    }
    IS(used() - before, GRANULE);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    IS(used(), before);

    // A copy, of which the number is another; the file at which it points is not opened anew by its name.
    fd = descriptor_of("copied");
    int copy = dup(fd);
    IS(close(fd), 0);
    IS(used() - before, GRANULE);
    IS(import(&h[0], copy), 0);
    IS(close(copy), 0);
    expect(h[0], "copied");
    IS(cuMemRelease(h[0]), 0);
    IS(used(), before);
    char path[64];
    fd = descriptor_of("reopened");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    IS(import(&h[0], open(path, O_RDWR)), 999);
    IS(close(fd), 0);

    // Another process takes it.
#ifdef SYS_pidfd_getfd
    int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
    fd = descriptor_of("taken");
    int taken = (int)syscall(SYS_pidfd_getfd, own, fd, 0);
    if (taken >= 0) {
        IS(close(fd), 0);
        IS(import(&h[0], taken), 0);
        expect(h[0], "taken");
        IS(cuMemRelease(h[0]), 0);
        IS(close(taken), 0);
    }
#endif

    // It is inherited.
    fd = descriptor_of("inherited");
    IS(fcntl(fd, F_SETFD, 0), 0);
    fflush(stdout);
    child = fork();
    if (!child) {
        char text[16];
        snprintf(text, sizeof text, "%d", fd);
        execl("/proc/self/exe", argv[0], text, NULL);
        _exit(9);
    }
    int status = 0;
    waitpid(child, &status, 0);
    IS(status, 0);

    // It takes one descriptor of the process for all, and one each for those that are exported.
    struct rlimit few = {64, 64};
    IS(setrlimit(RLIMIT_NOFILE, &few), 0);
    Allocation many[500];
    for (int i = 0; i < 500; i++)
        IS(create(&many[i], 0, GRANULE), 0);
    int fds[64], count = 0;
    while (count < 64 && cuMemExportToShareableHandle(&fds[count], many[count], 1, 0) == 0) count++;
    IS(count > 16 && count < 64, 1);
    for (int i = 0; i < 500; i++)
        IS(cuMemRelease(many[i]), 0);
    while (count > 0)
        close(fds[--count]);
    return 0;
}
