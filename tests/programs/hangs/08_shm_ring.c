/* An engine broadcasts requests to three workers through a ring in POSIX shared memory: it may reuse a
 * block when all readers have marked it. One worker does not come back to the ring.
 * After https://github.com/vllm-project/vllm/issues/7454 and https://github.com/vllm-project/vllm/issues/27313
 * (shm_broadcast: "No available shared memory broadcast block found in 60 seconds"). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
#define BLOCKS 4
#define READERS 3

struct block { atomic_int written, read[READERS]; int seq; char payload[240]; };
static struct block *ring;
static void guard(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(120); }

static void relax(void) { struct timespec t = { 0, 500000 }; nanosleep(&t, NULL); }

static NOINLINE struct block *acquire_write(int seq)
{
    struct block *b = &ring[seq % BLOCKS];
    for (;;) {
        int n = 0;
        for (int r = 0; r < READERS; r++) n += atomic_load(&b->read[r]);
        if (!atomic_load(&b->written) || n == READERS) return b;
        relax();
    }
}

static NOINLINE void enqueue(int seq)
{
    struct block *b = acquire_write(seq);
    for (int r = 0; r < READERS; r++) atomic_store(&b->read[r], 0);
    b->seq = seq;
    atomic_store(&b->written, 1);
}

static NOINLINE struct block *acquire_read(int seq, int me)
{
    struct block *b = &ring[seq % BLOCKS];
    while (!atomic_load(&b->written) || b->seq != seq)
        relax();
    return b;
}

static NOINLINE void compile_graph(int batch)
{
    struct timespec t = { 20, 0 };
    for (int cfg = 0; cfg < 4096; cfg++)
        nanosleep(&t, NULL);
}

static NOINLINE void worker(int me)
{
    char name[16];
    guard();
    snprintf(name, sizeof name, "worker_%d", me);
    prctl(PR_SET_NAME, name);
    for (int seq = 0;; seq++) {
        struct block *b = acquire_read(seq, me);
        if (me == 2 && seq == 9) compile_graph(seq);
        atomic_store(&b->read[me], 1);
    }
}

int main(void)
{
    char path[32];
    alarm(120);
    snprintf(path, sizeof path, "/psm_hang_%d", getpid());
    int fd = shm_open(path, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct block) * BLOCKS)) return 1;
    ring = mmap(NULL, sizeof(struct block) * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    for (int i = 0; i < READERS; i++)
        if (fork() == 0) { worker(i); _exit(0); }
    shm_unlink(path);
    prctl(PR_SET_NAME, "engine");
    for (int seq = 0;; seq++)
        enqueue(seq);
}
