/* A server forks a child for its snapshot while its log thread has the lock of the log. In the child there is no
 * such thread, the lock stays taken, and the first line that the child logs blocks it.
 * After https://github.com/logcabin/logcabin/issues/121 and https://github.com/greenbone/openvas-scanner/pull/491. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t rotating;
static int log_lines;
static void guard(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(120); }

static NOINLINE void log_line(const char *s)
{
    pthread_mutex_lock(&log_lock);
    log_lines += strlen(s);
    pthread_mutex_unlock(&log_lock);
}

static void *rotate_thread(void *arg)
{
    pthread_mutex_lock(&log_lock);
    sem_post(&rotating);
    usleep(200000);
    pthread_mutex_unlock(&log_lock);
    for (;;) { sleep(10); log_line("rotate\n"); }
    return NULL;
}

static NOINLINE void write_snapshot(void)
{
    log_line("snapshot: begin\n");
    usleep(1000);
    log_line("snapshot: end\n");
}

static NOINLINE void take_snapshot(void)
{
    int st;
    pid_t p = fork();
    if (p == 0) {
        guard();
        write_snapshot();
        _exit(0);
    }
    waitpid(p, &st, 0);
}

static NOINLINE void server(int fd)
{
    pthread_t t;
    char q;
    sem_init(&rotating, 0, 0);
    pthread_create(&t, NULL, rotate_thread, NULL);
    while (read(fd, &q, 1) == 1) {
        sem_wait(&rotating);
        take_snapshot();
        if (write(fd, &q, 1) != 1) break;
    }
}

static NOINLINE void request_snapshot(int fd)
{
    char q = 's';
    if (write(fd, &q, 1) != 1 || read(fd, &q, 1) != 1) exit(1);
}

int main(void)
{
    int sv[2];
    alarm(120);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv)) return 1;
    if (fork() == 0) { guard(); prctl(PR_SET_NAME, "raft-server"); close(sv[1]); server(sv[0]); _exit(0); }
    close(sv[0]);
    prctl(PR_SET_NAME, "raft-client");
    request_snapshot(sv[1]);
    return 0;
}
