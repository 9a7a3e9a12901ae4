// ring FIRST RANKS [STEP:RANK]: ranks in a ring. In each round, a rank exports memory, opens that of the rank before it, copies from
// it, and closes it; then the exporter frees it. STEP is one rank's mistake in the third round:
//   stuck   it sleeps before it sends, as if its data loader were stuck, and the others wait for it
//   crash   it reads through a null pointer
//   twice   it closes the memory twice
//   early   it frees its memory before the next rank has closed it
// FIRST is the rank of the first process, for a job on several hosts. Uses only the driver, so it runs on the simulated one.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    char bytes[64];
} handle;
typedef unsigned long long pointer;
enum { ROUNDS = 4, WRONG = 2, MOST = 64 };

static void *driver;
static const char *mistake = "";
static int links[MOST][2];

static int check(int result, const char *what) {
    if (result) fprintf(stderr, "%s: %d\n", what, result), exit(1);
    return result;
}
#define CALL(name, types, ...) check(((int(*) types)dlsym(driver, #name))(__VA_ARGS__), #name)

static void send_to(int fd, const void *what, size_t size) {
    if (send(fd, what, size, MSG_NOSIGNAL) != (ssize_t)size) exit(1);
}

static void receive(int fd, void *what, size_t size) {
    if (recv(fd, what, size, MSG_WAITALL) != (ssize_t)size) exit(1);
}

static void load_batch(int is_wrong) {
    usleep(2000);
    if (is_wrong && !strcmp(mistake, "stuck")) sleep(1000);
    if (is_wrong && !strcmp(mistake, "crash")) raise(SIGSEGV);
}

static void exchange(int next, int last, int is_wrong) {
    int is_early = is_wrong && !strcmp(mistake, "early");
    pointer own, other;
    handle exported, opened;
    char done = 0, text[16];
    CALL(cuMemAlloc_v2, (pointer *, size_t), &own, 1 << 20);
    CALL(cuIpcGetMemHandle, (handle *, pointer), &exported, own);
    send_to(next, &exported, sizeof exported);
    receive(last, &opened, sizeof opened);
    CALL(cuIpcOpenMemHandle_v2, (pointer *, handle, unsigned), &other, opened, 1);
    if (is_early) usleep(5000), CALL(cuMemFree_v2, (pointer), own);
    else usleep(is_wrong ? 1000 : 20000);
    CALL(cuMemcpyDtoH_v2, (void *, pointer, size_t), text, other, sizeof text);
    CALL(cuIpcCloseMemHandle, (pointer), other);
    if (is_wrong && !strcmp(mistake, "twice")) ((int (*)(pointer))dlsym(driver, "cuIpcCloseMemHandle"))(other);
    send_to(last, &done, 1);
    receive(next, &done, 1);
    if (!is_early) CALL(cuMemFree_v2, (pointer), own);
}

static int rank(int place, int ranks, int is_wrong) {
    int next = links[place][0], last = links[(place + ranks - 1) % ranks][1], devices;
    void *context;
    // An end of the ring that only its rank holds tells the others when that rank is gone.
    for (int i = 0; i < 2 * ranks; i++)
        if (links[i / 2][i % 2] != next && links[i / 2][i % 2] != last) close(links[i / 2][i % 2]);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return fprintf(stderr, "%s\n", dlerror()), 1;
    CALL(cuInit, (unsigned), 0);
    CALL(cuDeviceGetCount, (int *), &devices);
    CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, place % devices);
    CALL(cuCtxSetCurrent, (void *), context);
    for (int round = 0; round < ROUNDS; round++) {
        load_batch(is_wrong && round == WRONG);
        exchange(next, last, is_wrong && round == WRONG);
    }
    return 0;
}

int main(int argc, char **argv) {
    int first = argc > 2 ? atoi(argv[1]) : 0, ranks = argc > 2 ? atoi(argv[2]) : 0, wrong = -1, status, worst = 0;
    if (ranks < 2 || ranks > MOST) return 2;
    if (argc > 3) mistake = strtok(argv[3], ":"), wrong = atoi(strtok(NULL, ":"));
    for (int i = 0; i < ranks; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, links[i])) return 2;
    for (int i = 0; i < ranks; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", first + i);
        setenv("RANK", text, 1);
        if (fork() == 0) return rank(i, ranks, first + i == wrong);
    }
    for (int i = 0; i < 2 * ranks; i++) close(links[i / 2][i % 2]);
    while (wait(&status) > 0) worst |= status != 0;
    return worst;
}
