/* Rank 0 accepts the connections of all workers before it lets anyone start. Ranks 1 and 2 are connected;
 * rank 3 opens its trace pipe first, a FIFO which nobody reads, and never connects.
 * After https://github.com/JuliaParallel/MPI.jl/issues/113 (the workers did not connect to the manager)
 * and https://github.com/golang/go/issues/33050 (open of a named pipe hangs). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))

static void guard(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(120); }

static NOINLINE int open_trace(const char *dir, int rank)
{
    char p[128];
    snprintf(p, sizeof p, "%s/trace.%d", dir, rank);
    return open(p, O_WRONLY | O_CREAT, 0600);
}

static NOINLINE void manager_wait_workers(int lfd, int n)
{
    int fd[16];
    char go = 1;
    for (int i = 0; i < n; i++)
        fd[i] = accept(lfd, NULL, NULL);
    for (int i = 0; i < n; i++)
        if (write(fd[i], &go, 1) != 1) exit(1);
}

static NOINLINE void worker_join(int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
    char go;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (void *)&a, sizeof a)) exit(1);
    if (read(fd, &go, 1) != 1) exit(1);
}

static int run_rank(int rank)
{
    int port = atoi(getenv("MASTER_PORT"));
    guard();
    if (rank == 0) {
        manager_wait_workers(atoi(getenv("LISTEN_FD")), atoi(getenv("WORLD_SIZE")) - 1);
    } else {
        int t = open_trace(getenv("TRACE_DIR"), rank);
        worker_join(port);
        close(t);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t l = sizeof a;
    char b[128], self[512] = "", dir[] = "/tmp/hang_trace_XXXXXX";
    if (getenv("RANK")) return run_rank(atoi(getenv("RANK")));
    alarm(120);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
    int lfd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(lfd, (void *)&a, sizeof a) || listen(lfd, 8)) return 1;
    getsockname(lfd, (void *)&a, &l);
    snprintf(b, sizeof b, "%d", ntohs(a.sin_port)); setenv("MASTER_PORT", b, 1);
    snprintf(b, sizeof b, "%d", lfd); setenv("LISTEN_FD", b, 1);
    setenv("WORLD_SIZE", "4", 1);
    if (!mkdtemp(dir)) return 1;
    setenv("TRACE_DIR", dir, 1);
    snprintf(b, sizeof b, "%s/trace.3", dir);
    if (mkfifo(b, 0600)) return 1;
    for (int r = 0; r < 4; r++)
        if (fork() == 0) {
            if (r) close(lfd);
            snprintf(b, sizeof b, "%d", r); setenv("RANK", b, 1);
            execv(self, argv);
            _exit(127);
        }
    close(lfd);
    while (wait(NULL) > 0) ;
    return 0;
}
