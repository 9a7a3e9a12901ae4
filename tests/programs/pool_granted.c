/* pool_granted [EXPORTER]: gives devices access to pools, and prints what came back.
 *   without arguments  a pool of each device that it sees, for each of them; then for all at once, and wrong calls
 *   EXPORTER           a pool of another process's first device; EXPORTER is that one's CUDA_VISIBLE_DEVICES
 * Nothing that it prints differs from run to run. */
#include "../conformance/programs/pools.h"

int cuDeviceGetCount(int *);
static int count;

static void begin(void) {
    start(0);
    IS(cuDeviceGetCount(&count), 0);
}

/* The answer for each device, and what it may do then. */
static void each(Pool pool) {
    for (int device = 0; device < count; device++) {
        int result = allow_pool(pool, device, 3);
        printf(" %d:%d,%d", device, result, access_of(pool, device));
    }
    printf("\n");
}

static void own(void) {
    begin();
    Pool pool;
    for (int device = 0; device < count; device++) {
        IS(create_pool(&pool, device, 0), 0);
        printf("of %d:", device);
        each(pool);
        IS(cuMemPoolDestroy(pool), 0);
    }
    /* The pool that each device has. */
    IS(cuDeviceGetDefaultMemPool(&pool, 0), 0);
    printf("default:");
    each(pool);
    IS(create_pool(&pool, 0, 0), 0);
    Access both[] = {{{1, 0}, 3}, {{1, 1}, 3}};
    printf("both=%d", cuMemPoolSetAccess(pool, both, 2));
    printf(" read=%d null=%d device=%d\n", allow_pool(pool, 1, 1), cuMemPoolSetAccess(pool, NULL, 1),
           allow_pool(pool, 99, 3));
}

static void exporter(int socket) {
    Pool pool;
    int fd;
    char byte;
    start(0);
    IS(create_pool(&pool, 0, 1), 0);
    IS(export_pool(&fd, pool), 0);
    send_descriptor(socket, fd);
    IS(read(socket, &byte, 1), 0); /* its end */
}

static void import_from(const char *visible, const char *program) {
    int sockets[2], status;
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char number[8];
        sprintf(number, "%d", sockets[1]);
        close(sockets[0]);
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
        execl(program, program, "export", number, NULL);
        _exit(6);
    }
    close(sockets[1]);
    begin();
    int fd = receive_descriptor(sockets[0]);
    Pool pool;
    printf("import=%d", import_pool(&pool, fd));
    each(pool);
    close(sockets[0]);
    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
}

int main(int argc, char **argv) {
    alarm(60);
    if (argc == 1) own();
    else if (strcmp(argv[1], "export") == 0) exporter(atoi(argv[2]));
    else import_from(argv[1], argv[0]);
    return 0;
}
