/* multicast FIRST SECOND: two processes make a multicast object together, and the first one prints what both got. FIRST and
 * SECOND are their CUDA_VISIBLE_DEVICES; each adds its device 0 and binds memory of it. Then the first one writes to the
 * object, and both look at what their own memory holds; bound memory is released, and unbound. */
#include "../conformance/programs/vmm.h"

typedef struct {
    unsigned devices;
    size_t size;
    unsigned long long types, flags;
} Team;

int cuMulticastCreate(Allocation *, const Team *);
int cuMulticastAddDevice(Allocation, int);
int cuMulticastBindMem(Allocation, size_t, Allocation, size_t, size_t, unsigned long long);
int cuMulticastUnbind(Allocation, int, size_t, size_t);
int cuMulticastGetGranularity(size_t *, const Team *, int);

static CUdeviceptr mapped(Allocation h) {
    CUdeviceptr at;
    IS(cuMemAddressReserve(&at, GRANULE, 0, 0, 0), 0);
    IS(cuMemMap(at, GRANULE, 0, h, 0), 0);
    IS(allow(at, GRANULE, 0, 3), 0);
    return at;
}

/* Tells the other one a number, and gets its. */
static int exchange(int socket, int own) {
    int other;
    IS(write(socket, &own, sizeof own), sizeof own);
    IS(read(socket, &other, sizeof other), sizeof other);
    return other;
}

/* Binds memory of its own: the results, and where that is mapped, and the multicast object. */
static int bind_own(Allocation team, Allocation *memory, CUdeviceptr *own, CUdeviceptr *all) {
    IS(create(memory, 0, GRANULE), 0);
    *own = mapped(*memory);
    int result = cuMulticastBindMem(team, 0, *memory, 0, GRANULE, 0);
    if (result == 0) *all = mapped(team);
    return result;
}

static unsigned char first_byte(CUdeviceptr at) {
    unsigned char byte = 0;
    IS(cuMemcpyDtoH_v2(&byte, at, 1), 0);
    return byte;
}

static void part(int rank, int socket) {
    Team wanted = {2, GRANULE, 1, 0};
    Allocation team, memory;
    CUdeviceptr own, all = 0;
    size_t least;
    int fd, created = 0;
    start(0);
    IS(cuMulticastGetGranularity(&least, &wanted, 0), 0);
    IS(GRANULE % least, 0);
    if (rank == 0) {
        created = cuMulticastCreate(&team, &wanted);
        printf("create=%d", created);
        if (exchange(socket, created) + created) return;
        IS(cuMemExportToShareableHandle(&fd, team, 1, 0), 0);
        send_descriptor(socket, fd);
        close(fd);
    } else {
        if (exchange(socket, 0)) return;
        fd = receive_descriptor(socket);
        IS(import(&team, fd), 0);
        close(fd);
    }
    int added = cuMulticastAddDevice(team, 0), again = cuMulticastAddDevice(team, 0);
    int others = exchange(socket, added);
    if (rank == 0) printf(" add=%d,%d again=%d", added, others, again);
    if (added || others) return;
    int bound = bind_own(team, &memory, &own, &all);
    others = exchange(socket, bound);
    if (rank == 0) printf(" bind=%d,%d", bound, others);
    if (bound || others) return;
    if (rank == 0) IS(cuMemsetD8_v2(all, 7, GRANULE), 0);
    exchange(socket, 0);
    int holds = first_byte(own);
    others = exchange(socket, holds);
    if (rank == 0) printf(" holds=%d,%d", holds, others);
    /* Bound memory lives on. */
    IS(cuMemRelease(memory), 0);
    IS(cuMulticastUnbind(team, 0, 0, GRANULE), 0);
    int unbound = cuMulticastUnbind(team, 0, 0, GRANULE);
    exchange(socket, 0);
    int write = cuMemsetD8_v2(all, 8, GRANULE);
    if (rank == 0) printf(" unbound=%d write=%d", unbound, write);
    IS(cuMemUnmap(all, GRANULE), 0);
    IS(cuMemRelease(team), 0);
}

int main(int argc, char **argv) {
    alarm(60);
    int sockets[2], status;
    IS(argc, 3);
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid_t pid = fork();
    setenv("CUDA_VISIBLE_DEVICES", argv[pid == 0 ? 2 : 1], 1);
    part(pid == 0, sockets[pid == 0]);
    if (pid == 0) return 0;
    printf("\n");
    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    return 0;
}
