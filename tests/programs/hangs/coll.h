/* coll.h - a small set of blocking collectives over TCP (full mesh on loopback).
 * Every rank is an own process with RANK/WORLD_SIZE in its environment. */
#ifndef COLL_H
#define COLL_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define COLL_MAX 8
#define NOINLINE __attribute__((noinline, unused))
enum { COLL_BARRIER = 1, COLL_ALLREDUCE, COLL_ALLGATHER, COLL_BCAST };

typedef struct { int id, n, me, seq, ranks[COLL_MAX]; } coll_group;
struct coll_hdr { int op, gid, seq, len; };
struct coll_msg { struct coll_hdr h; struct coll_msg *next; char data[]; };

static int coll_rank = -1, coll_size, coll_fd[COLL_MAX];
static struct coll_msg *coll_early[COLL_MAX];          /* came before they were asked for */
static coll_group coll_world;

static void coll_guard(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(120); }

static NOINLINE void coll_read_all(int fd, void *p, size_t n)
{
    char *c = p;
    while (n) {
        ssize_t k = recv(fd, c, n, 0);
        if (k <= 0) { if (k < 0 && errno == EINTR) continue; perror("coll: recv"); exit(1); }
        c += k; n -= k;
    }
}

static NOINLINE void coll_write_all(int fd, const void *p, size_t n)
{
    const char *c = p;
    while (n) {
        ssize_t k = send(fd, c, n, MSG_NOSIGNAL);
        if (k <= 0) { if (k < 0 && errno == EINTR) continue; perror("coll: send"); exit(1); }
        c += k; n -= k;
    }
}

static NOINLINE void coll_send(int peer, int op, coll_group *g, const void *p, int n)
{
    struct coll_hdr h = { op, g->id, g->seq, n };
    coll_write_all(coll_fd[peer], &h, sizeof h);
    coll_write_all(coll_fd[peer], p, n);
}

/* take the message (op, group, sequence number) of that peer; keep others for later */
static NOINLINE void coll_recv(int peer, int op, coll_group *g, void *p, int n)
{
    for (;;) {
        for (struct coll_msg **q = &coll_early[peer]; *q; q = &(*q)->next)
            if ((*q)->h.op == op && (*q)->h.gid == g->id && (*q)->h.seq == g->seq) {
                struct coll_msg *m = *q;
                memcpy(p, m->data, n < m->h.len ? n : m->h.len);
                *q = m->next; free(m);
                return;
            }
        struct coll_hdr h;
        coll_read_all(coll_fd[peer], &h, sizeof h);
        struct coll_msg *m = malloc(sizeof *m + h.len);
        m->h = h; m->next = coll_early[peer]; coll_early[peer] = m;
        coll_read_all(coll_fd[peer], m->data, h.len);
    }
}

static NOINLINE void coll_barrier(coll_group *g)
{
    char t = 0;
    g->seq++;
    if (g->me == 0) {
        for (int i = 1; i < g->n; i++) coll_recv(g->ranks[i], COLL_BARRIER, g, &t, 1);
        for (int i = 1; i < g->n; i++) coll_send(g->ranks[i], COLL_BARRIER, g, &t, 1);
    } else {
        coll_send(g->ranks[0], COLL_BARRIER, g, &t, 1);
        coll_recv(g->ranks[0], COLL_BARRIER, g, &t, 1);
    }
}

static NOINLINE double coll_allreduce_sum(coll_group *g, double x)
{
    int right = g->ranks[(g->me + 1) % g->n], left = g->ranks[(g->me + g->n - 1) % g->n];
    double sum = x, cur = x;
    g->seq++;
    for (int i = 1; i < g->n; i++) {
        coll_send(right, COLL_ALLREDUCE, g, &cur, sizeof cur);
        coll_recv(left, COLL_ALLREDUCE, g, &cur, sizeof cur);
        sum += cur;
    }
    return sum;
}

static NOINLINE void coll_allgather(coll_group *g, double x, double *out)
{
    int right = g->ranks[(g->me + 1) % g->n], left = g->ranks[(g->me + g->n - 1) % g->n];
    g->seq++;
    out[g->me] = x;
    for (int i = 1; i < g->n; i++) {
        int from = (g->me + g->n - i) % g->n;
        coll_send(right, COLL_ALLGATHER, g, &out[(from + 1) % g->n], sizeof(double));
        coll_recv(left, COLL_ALLGATHER, g, &out[from], sizeof(double));
    }
}

static coll_group coll_make_group(int id, int n, const int *ranks)
{
    coll_group g = { .id = id, .n = n, .me = -1 };
    for (int i = 0; i < n; i++) { g.ranks[i] = ranks[i]; if (ranks[i] == coll_rank) g.me = i; }
    return g;
}

static void coll_connect(void)
{
    char *s = strdup(getenv("COLL_PORTS")), *t = strtok(s, ",");
    int port[COLL_MAX], lfd = atoi(getenv("COLL_LISTEN_FD"));
    for (int i = 0; i < coll_size; i++, t = strtok(NULL, ",")) port[i] = atoi(t);
    for (int i = 0; i < coll_rank; i++) {
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port[i]) };
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        coll_fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(coll_fd[i], (void *)&a, sizeof a)) { perror("coll: connect"); exit(1); }
        coll_write_all(coll_fd[i], &coll_rank, sizeof coll_rank);
    }
    for (int i = coll_rank + 1; i < coll_size; i++) {
        int fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC), who;
        coll_read_all(fd, &who, sizeof who);
        coll_fd[who] = fd;
    }
    close(lfd);
    free(s);
}

/* In the launcher: start n ranks of this same program, wait for them, exit.
 * In a rank: connect to the others, return. */
static void coll_init(char **argv, int n)
{
    alarm(120);
    if (getenv("RANK")) {
        coll_guard();
        coll_rank = atoi(getenv("RANK"));
        coll_size = atoi(getenv("WORLD_SIZE"));
        int all[COLL_MAX];
        for (int i = 0; i < coll_size; i++) all[i] = i;
        coll_connect();
        coll_world = coll_make_group(0, coll_size, all);
        return;
    }
    int lfd[COLL_MAX];
    char ports[128] = "", b[16], self[512] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) exit(1);
    for (int i = 0; i < n; i++) {
        struct sockaddr_in a = { .sin_family = AF_INET };
        socklen_t l = sizeof a;
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        lfd[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(lfd[i], (void *)&a, sizeof a) || listen(lfd[i], 16)) { perror("coll: listen"); exit(1); }
        getsockname(lfd[i], (void *)&a, &l);
        sprintf(b, "%d,", ntohs(a.sin_port));
        strcat(ports, b);
    }
    setenv("COLL_PORTS", ports, 1);
    sprintf(b, "%d", n);
    setenv("WORLD_SIZE", b, 1);
    for (int i = 0; i < n; i++)
        if (fork() == 0) {
            for (int j = 0; j < n; j++) if (j != i) close(lfd[j]);
            sprintf(b, "%d", i); setenv("RANK", b, 1); setenv("LOCAL_RANK", b, 1);
            sprintf(b, "%d", lfd[i]); setenv("COLL_LISTEN_FD", b, 1);
            execv(self, argv);
            _exit(127);
        }
    for (int i = 0; i < n; i++) close(lfd[i]);
    while (wait(NULL) > 0 || errno == EINTR) ;
    exit(0);
}
#endif
