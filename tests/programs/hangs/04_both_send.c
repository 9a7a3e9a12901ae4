/* Two peers exchange halves of a tensor through two pipes; both write the whole of theirs first.
 * The tensor is larger than what a pipe takes, so both stay in write().
 * After https://github.com/NVIDIA/nccl/issues/479 (send then recv on both sides)
 * and https://github.com/hpc/libcircle/pull/45 (cycle of rendezvous sends). */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
#define HALF (1 << 20)

static char mine[HALF], theirs[HALF];
static void guard(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(120); }

static NOINLINE void put(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k <= 0) exit(1);
        p += k; n -= k;
    }
}

static NOINLINE void get(int fd, char *p, size_t n)
{
    while (n) {
        ssize_t k = read(fd, p, n);
        if (k <= 0) exit(1);
        p += k; n -= k;
    }
}

static NOINLINE void exchange_halo(int out, int in)
{
    put(out, mine, HALF);
    get(in, theirs, HALF);
}

int main(void)
{
    int up[2], down[2];
    alarm(120);
    if (pipe(up) || pipe(down)) return 1;
    pid_t left = fork();
    if (left == 0) {
        guard(); prctl(PR_SET_NAME, "left");
        close(up[0]); close(down[1]);
        memset(mine, 1, HALF);
        exchange_halo(up[1], down[0]);
        _exit(0);
    }
    pid_t right = fork();
    if (right == 0) {
        guard(); prctl(PR_SET_NAME, "right");
        close(up[1]); close(down[0]);
        memset(mine, 2, HALF);
        exchange_halo(down[1], up[0]);
        _exit(0);
    }
    close(up[0]); close(up[1]); close(down[0]); close(down[1]);
    waitpid(left, NULL, 0);
    waitpid(right, NULL, 0);
    return 0;
}
