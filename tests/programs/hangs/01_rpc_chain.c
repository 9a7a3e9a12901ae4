/* A client and four services on loopback; each service answers only after the next one has answered.
 * The last node never ends its computation, so that all sockets stay ESTABLISHED and silent.
 * After https://github.com/ggml-org/llama.cpp/issues/28487 (RPC: client blocked in recv_data,
 * all rpc-servers alive) and https://github.com/ggml-org/llama.cpp/issues/11552. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))

struct msg { int op, n; double v; };
volatile double sink;

static void guard(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(120); }

static int listen_any(int *port)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t l = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (void *)&a, sizeof a) || listen(fd, 4)) { perror("listen"); exit(1); }
    getsockname(fd, (void *)&a, &l);
    *port = ntohs(a.sin_port);
    return fd;
}

static int dial(int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (void *)&a, sizeof a)) { perror("connect"); exit(1); }
    return fd;
}

static NOINLINE void recv_data(int fd, struct msg *m)
{
    if (recv(fd, m, sizeof *m, MSG_WAITALL) != sizeof *m) exit(1);
}

static NOINLINE double send_rpc_cmd(int fd, int op, double v)
{
    struct msg m = { op, 1, v };
    if (send(fd, &m, sizeof m, MSG_NOSIGNAL) != sizeof m) exit(1);
    recv_data(fd, &m);
    return m.v;
}

static NOINLINE double graph_compute(double x)
{
    double r = 1;
    while (r > 1e-12) r = 0.5 * (r + x / (r + x)) + 0.25;
    return r;
}

static void serve(const char *name, int lfd, int next_port)
{
    guard();
    prctl(PR_SET_NAME, name);
    int next = next_port ? dial(next_port) : -1, c = accept(lfd, NULL, NULL);
    close(lfd);
    for (;;) {
        struct msg m;
        recv_data(c, &m);
        if (next >= 0) m.v = send_rpc_cmd(next, m.op, m.v);
        else m.v = graph_compute(m.v);
        send(c, &m, sizeof m, MSG_NOSIGNAL);
    }
}

int main(void)
{
    static const char *name[4] = { "router", "sched", "rpc-node-a", "rpc-node-b" };
    int port[5] = { 0 }, lfd[4];
    alarm(120);
    for (int i = 0; i < 4; i++) lfd[i] = listen_any(&port[i]);
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            for (int j = 0; j < 4; j++) if (j != i) close(lfd[j]);
            serve(name[i], lfd[i], port[i + 1]);
        }
    for (int i = 0; i < 4; i++) close(lfd[i]);
    int fd = dial(port[0]);
    printf("answer %g\n", send_rpc_cmd(fd, 7, 3.0));
    return 0;
}
