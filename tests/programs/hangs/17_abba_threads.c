/* Two threads of a provider take the locks of an endpoint and of its completion queue in opposite order.
 * A client process waits for the reply of the provider, a logger for the client.
 * After https://github.com/ofiwg/libfabric/pull/6199 (prov/tcp: deadlock due to AB-BA lock ordering). */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))

struct endpoint { pthread_mutex_t lock; int sent; };
struct cq { pthread_mutex_t lock; int entries; };
static struct endpoint ep = { PTHREAD_MUTEX_INITIALIZER, 0 };
static struct cq cq = { PTHREAD_MUTEX_INITIALIZER, 0 };
static void guard(const char *n) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(120); prctl(PR_SET_NAME, n); }

static NOINLINE void cq_report(struct cq *q)
{
    pthread_mutex_lock(&q->lock);
    q->entries++;
    pthread_mutex_unlock(&q->lock);
}

static NOINLINE void ep_send(struct endpoint *e)
{
    pthread_mutex_lock(&e->lock);
    usleep(150000);
    e->sent++;
    cq_report(&cq);
    pthread_mutex_unlock(&e->lock);
}

static NOINLINE void ep_progress(struct endpoint *e)
{
    pthread_mutex_lock(&e->lock);
    e->sent--;
    pthread_mutex_unlock(&e->lock);
}

static NOINLINE void cq_read(struct cq *q)
{
    pthread_mutex_lock(&q->lock);
    usleep(150000);
    ep_progress(&ep);
    q->entries--;
    pthread_mutex_unlock(&q->lock);
}

static void *progress_thread(void *arg)
{
    prctl(PR_SET_NAME, "progress");
    for (;;) cq_read(&cq);
    return NULL;
}

static NOINLINE void provider(int fd)
{
    pthread_t t;
    char q;
    pthread_create(&t, NULL, progress_thread, NULL);
    while (read(fd, &q, 1) == 1) {
        ep_send(&ep);
        if (write(fd, &q, 1) != 1) break;
    }
}

static NOINLINE void rma_put(int fd)
{
    char q = 'p';
    if (write(fd, &q, 1) != 1 || read(fd, &q, 1) != 1) exit(1);
}

int main(void)
{
    int sv[2], lp[2];
    alarm(120);
    prctl(PR_SET_NAME, "main");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) || pipe(lp)) return 1;
    if (fork() == 0) { guard("provider"); close(sv[1]); close(lp[0]); close(lp[1]); provider(sv[0]); _exit(0); }
    if (fork() == 0) {
        guard("client"); close(sv[0]); close(lp[0]);
        for (;;) { rma_put(sv[1]); dprintf(lp[1], "put done\n"); }
    }
    close(sv[0]); close(sv[1]); close(lp[1]);
    FILE *f = fdopen(lp[0], "r");
    char line[128];
    int n = 0;
    while (fgets(line, sizeof line, f)) n++;
    return n > 0;
}
