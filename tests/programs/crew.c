/* crew COUNT NEXT [STEP:RANK...]: so many processes with ranks, on the devices by turns. Each exports (rank + 1) MiB, and opens what
 * the NEXT ranks behind it have exported. When all have, it does the steps that are for its rank, says so, and stays until stdin of the first
 * process ends.
 *   fail:R   closes what is not open         kill:R   SIGKILL         exit:R   returns 3
 *   close:R  closes one that it has opened   calls:N  all of them make so many calls a millisecond, while they stay */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    char bytes[64];
} handle;
enum { MOST = 512, SHARED = 100, OPENED = 64 };

struct member {
    handle exported;
    atomic_int is_exported, is_ready;
};
static struct board {
    struct member members[MOST];
    atomic_int is_over, opened;
} *board;

static void *driver;

#define CALL(name, types, ...) (((int(*) types)must(#name))(__VA_ARGS__))

static void *must(const char *name) {
    void *found = dlsym(driver, name);
    if (!found) fprintf(stderr, "%s is missing\n", name), exit(2);
    return found;
}

static void check(int result, const char *what) {
    if (result) fprintf(stderr, "%s: %d\n", what, result), exit(2);
}

static void wait_for(atomic_int *flag) {
    while (!atomic_load(flag) && !atomic_load(&board->is_over)) usleep(500);
}

static int member(int rank, int count, int next, char **steps) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) fprintf(stderr, "%s\n", dlerror()), exit(2);
    int devices, can, calls = 0;
    void *context;
    unsigned long long memory, opened[OPENED];
    check(CALL(cuInit, (unsigned), 0), "cuInit");
    check(CALL(cuDeviceGetCount, (int *), &devices), "cuDeviceGetCount");
    check(CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, rank % devices), "cuDevicePrimaryCtxRetain");
    check(CALL(cuCtxSetCurrent, (void *), context), "cuCtxSetCurrent");
    check(CALL(cuMemAlloc_v2, (unsigned long long *, size_t), &memory, (size_t)(rank + 1) << 20), "cuMemAlloc");
    struct member *own = &board->members[rank];
    check(CALL(cuIpcGetMemHandle, (handle *, unsigned long long), &own->exported, memory), "cuIpcGetMemHandle");
    atomic_store(&own->is_exported, 1);
    for (int i = 1; i <= next; i++) {
        struct member *other = &board->members[(rank + i) % count];
        wait_for(&other->is_exported);
        check(CALL(cuIpcOpenMemHandle_v2, (unsigned long long *, handle, unsigned), &opened[i - 1], other->exported, 1), "cuIpcOpenMemHandle");
    }
    atomic_fetch_add(&board->opened, 1);
    while (atomic_load(&board->opened) < count && !atomic_load(&board->is_over)) usleep(500);
    for (; *steps; steps++) {
        int number = atoi(strchr(*steps, ':') + 1);
        int is_ours = number == rank;
        if (!strncmp(*steps, "calls:", 6)) calls = number;
        else if (!is_ours) continue;
        else if (!strncmp(*steps, "fail:", 5)) CALL(cuIpcCloseMemHandle, (unsigned long long), 12345);
        else if (!strncmp(*steps, "close:", 6)) atomic_store(&own->is_ready, 1), CALL(cuIpcCloseMemHandle, (unsigned long long), opened[0]);
        else if (!strncmp(*steps, "exit:", 5)) return atomic_store(&own->is_ready, 1), 3;
        else if (!strncmp(*steps, "kill:", 5)) atomic_store(&own->is_ready, 1), raise(SIGKILL);
        else exit(2);
    }
    int (*can_access)(int *, int, int) = (int (*)(int *, int, int))must("cuDeviceCanAccessPeer");
    atomic_store(&own->is_ready, 1);
    while (!atomic_load(&board->is_over)) {
        for (int i = 0; i < calls; i++) can_access(&can, 0, devices - 1);
        usleep(1000);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int count = atoi(argv[1]), next = atoi(argv[2]);
    if (count < 1 || count > MOST || next >= count || next > OPENED) return 2;
    const char *rank = getenv("RANK");
    int fd = rank ? SHARED : memfd_create("board", 0);
    if (!rank && (ftruncate(fd, sizeof *board) || dup2(fd, SHARED) < 0)) return 2;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED) return 2;
    if (rank) return member(atoi(rank), count, next, argv + 3);
    for (int i = 0; i < count; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        setenv("RANK", text, 1);
        if (fork() == 0) execv("/proc/self/exe", argv), _exit(127);
    }
    for (int i = 0; i < count; i++) wait_for(&board->members[i].is_ready);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {}
    atomic_store(&board->is_over, 1);
    while (wait(NULL) > 0) {}
    return 0;
}
