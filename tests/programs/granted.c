/* granted [EXPORTER [alone]]: gives devices access to virtual memory, and prints what came back.
 *   without arguments  memory of each device that it sees, for each of them; then for all at once, and wrong calls
 *   EXPORTER           memory of another process's first device; EXPORTER is that one's CUDA_VISIBLE_DEVICES, and with
 *                      `alone` it runs without what is preloaded
 * Nothing that it prints differs from run to run. */
#include "../conformance/programs/vmm.h"
#include <fcntl.h>

int cuDeviceGetCount(int *);
static int count;

static void begin(void) {
    start(0);
    IS(cuDeviceGetCount(&count), 0);
}

static CUdeviceptr mapped(Allocation h) {
    CUdeviceptr at;
    IS(cuMemAddressReserve(&at, 2 * GRANULE, 0, 0, 0), 0);
    IS(cuMemMap(at, GRANULE, 0, h, 0), 0);
    return at;
}

/* The answer for each device, and what it may do then. */
static void each(CUdeviceptr at) {
    for (int device = 0; device < count; device++) {
        Location location = {1, device};
        unsigned long long flags;
        int result = allow(at, GRANULE, device, 3);
        IS(cuMemGetAccess(&flags, &location, at), 0);
        printf(" %d:%d,%llu", device, result, flags);
    }
    printf("\n");
}

static void own(void) {
    begin();
    Allocation handles[2], h;
    for (int device = 0; device < count; device++) {
        IS(create(&h, device, GRANULE), 0);
        printf("of %d:", device);
        each(mapped(h));
        if (device < 2) handles[device] = h;
    }
    /* All or nothing. */
    CUdeviceptr at = mapped(handles[0]);
    Access both[2] = {{{1, 0}, 3}, {{1, 1}, 1}};
    Location first = {1, 0};
    unsigned long long flags;
    printf("both=%d", cuMemSetAccess(at, GRANULE, both, 2));
    IS(cuMemGetAccess(&flags, &first, at), 0);
    printf(" first=%llu", flags);
    both[1].flags = 0;
    printf(" taken=%d", cuMemSetAccess(at, GRANULE, both, 2));
    /* Memory of two devices side by side. */
    IS(cuMemMap(at + GRANULE, GRANULE, 0, handles[1], 0), 0);
    printf(" two=%d,%d", allow(at, 2 * GRANULE, 0, 3), allow(at, 2 * GRANULE, 1, 3));
    /* What is wrong is wrong as always. */
    printf(" half=%d null=%d flags=%d device=%d nowhere=%d\n", allow(at, GRANULE / 2, 1, 3), cuMemSetAccess(at, GRANULE, NULL, 1),
           allow(at, GRANULE, 1, 7), allow(at, GRANULE, 99, 3), allow(at + 64 * GRANULE, GRANULE, 1, 3));
}

static void exporter(int socket) {
    Allocation h;
    int fd;
    char byte;
    start(0);
    IS(create(&h, 0, GRANULE), 0);
    IS(cuMemExportToShareableHandle(&fd, h, 1, 0), 0);
    send_descriptor(socket, fd);
    IS(read(socket, &byte, 1), 0); /* its end */
}

static void import_from(const char *visible, int alone, const char *program) {
    int sockets[2], status;
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char number[8];
        sprintf(number, "%d", sockets[1]);
        close(sockets[0]);
        if (alone) unsetenv("LD_PRELOAD");
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
        execl(program, program, "export", number, NULL);
        _exit(6);
    }
    close(sockets[1]);
    begin();
    int fd = receive_descriptor(sockets[0]);
    Allocation h;
    printf("import=%d", import(&h, fd));
    each(mapped(h));
    close(sockets[0]);
    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
}

int main(int argc, char **argv) {
    alarm(60);
    if (argc == 1) own();
    else if (strcmp(argv[1], "export") == 0) exporter(atoi(argv[2]));
    else import_from(argv[1], argc > 2, argv[0]);
    return 0;
}
