/* whirl SEED THREADS AT_ONCE CALLS PERIOD: so many threads, at most so many at once, come and go. Each makes some number of
 * calls below CALLS, every eighth of them one of which the record says more; a timer of PERIOD microseconds (never where
 * that is 0) interrupts whichever thread, for three calls more. Call n of thread t has the mark t << 17 | n, call n of its
 * handlers 1 << 27 | t << 17 | n. Prints how many calls each thread and its handlers have made. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <stdatomic.h>
#include <sys/time.h>

enum { MOST = 1 << 17, HANDLER = 1 << 27 };
static __thread int self;
static __thread volatile int from_handlers;
static int threads, most, made[1024], handled[1024];
static atomic_int last;
static unsigned long long seed;

static void call_once(int mark) {
    int can;
    CHECK((mark % 8 ? cuDeviceCanAccessPeer(&can, mark, 1) : cuCtxEnablePeerAccess((CUcontext)(intptr_t)mark, 0)) == 0);
}

static void handler(int signal) {
    (void)signal;
    for (int i = 0; i < 3 && from_handlers < MOST; i++) call_once(HANDLER | self << 17 | from_handlers++);
}

static void *work(void *number) {
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    self = (int)(intptr_t)number;
    unsigned long long next = seed * 1000003 + (unsigned)self;
    for (int i = 0; i < 3; i++) next = next * 6364136223846793005u + 1442695040888963407u;
    int count = (int)((next >> 33) % (unsigned)most);
    /* Most make few. */
    if (next >> 62) count /= 50;
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    for (int i = 0; i < count; i++) call_once(self << 17 | i);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    made[self] = count;
    handled[self] = from_handlers;
    return NULL;
}

/* One thread after the other. */
static void *follow(void *unused) {
    for (int i; (i = ++last) <= threads;) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, work, (void *)(intptr_t)i) == 0);
        pthread_join(thread, NULL);
    }
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 6);
    seed = strtoull(argv[1], NULL, 0);
    threads = atoi(argv[2]);
    int at_once = atoi(argv[3]), period = atoi(argv[5]);
    most = atoi(argv[4]);
    CHECK(threads < 1024 && at_once <= 64 && most <= MOST);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    /* Threads inherit that, and are interrupted while they call. */
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    signal(SIGALRM, handler);
    struct itimerval timer = {{0, period}, {0, period}};
    setitimer(ITIMER_REAL, &timer, NULL);
    pthread_t followed[64];
    for (int i = 0; i < at_once; i++) CHECK(pthread_create(&followed[i], NULL, follow, NULL) == 0);
    for (int i = 0; i < at_once; i++) pthread_join(followed[i], NULL);
    for (int i = 1; i <= threads; i++) printf("%d %d\n", made[i], handled[i]);
    return 0;
}
