/* waits WHAT: waits for what never comes, until stdin ends. Prints "ready" before it waits.
 *   mutex    a thread holds the mutex that main waits for
 *   pipe     two processes: one reads from a pipe to which the other could write, but waits for stdin
 *   crew:N   N processes, each in poll on a pipe of the first one
 *   steps    for each byte of stdin, calculates for 300 ms and says once more that it is ready
 *   large    waits for stdin with much memory, which takes a while to free
 *   spins    calculates, and never waits
 *   polls    64 threads poll each millisecond, and another process waits for a socket
 *   asks     a thread asks the driver the same again and again
 *   held     a thread polls, and main makes a call
 *   loops    children that sleep come and go
 *   naps     a child sleeps again and again, and its parent waits for it
 *   oversleeps    sleeps for days
 *   stubborn two processes wait, and take no notice of SIGTERM
 *   crowd:N  N threads calculate
 *   computes, sleeps, calls, stores    go on for 2 s without waiting for anybody, and end
 *   busy:N   calculates for N rounds, with system calls of which Linux does not continue all, and prints what comes of it */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void ready(void) {
    puts("ready");
    fflush(stdout);
}

static void stay(void) {
    char byte;
    while (read(0, &byte, 1) > 0) {}
    _exit(0);
}

static void *hold(void *held) {
    pthread_mutex_lock(&mutex);
    *(volatile int *)held = 1;
    stay();
    return 0;
}

__attribute__((noinline)) void waits_for_mutex(void) {
    volatile int held = 0;
    pthread_t thread;
    pthread_create(&thread, 0, hold, (void *)&held);
    while (!held) usleep(100);
    ready();
    pthread_mutex_lock(&mutex);
    puts("not reached");
}

static int (*can_access)(int *, int, int);
static int (*allocate)(unsigned long long *, size_t), (*export)(void *, unsigned long long);

/* Meets a driver, if there is one. */
static void meet_driver(void) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cuda) return;
    can_access = (int (*)(int *, int, int))dlsym(cuda, "cuDeviceCanAccessPeer");
    allocate = (int (*)(unsigned long long *, size_t))dlsym(cuda, "cuMemAlloc_v2");
    export = (int (*)(void *, unsigned long long))dlsym(cuda, "cuIpcGetMemHandle");
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent");
    void *context;
    if (init(0) || retain(&context, 0) || set(context)) exit(2);
}

static void die_with_parent(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

__attribute__((noinline)) void waits_for_pipe(int fd) {
    char byte;
    if (read(fd, &byte, 1) >= 0) puts("not reached");
}

__attribute__((noinline)) void waits_in_poll(int fd) {
    struct pollfd one = {fd, POLLIN, 0};
    poll(&one, 1, -1);
    puts("not reached");
}

static void crew(int count) {
    int ends[2];
    if (pipe(ends)) exit(2);
    for (int i = 1; i < count; i++) {
        if (fork() == 0) {
            die_with_parent();
            close(ends[1]);
            close(0);
            waits_in_poll(ends[0]);
            _exit(1);
        }
    }
    close(ends[0]);
    ready();
    stay();
}

static unsigned long calls(int sockets, int events) {
    unsigned long interrupted = 0;
    char byte;
    struct epoll_event event;
    struct timespec time = {0, 20000};
    if (recv(sockets, &byte, 1, 0) < 0) interrupted += errno == EINTR;
    if (epoll_wait(events, &event, 1, 1) < 0) interrupted += errno == EINTR;
    if (nanosleep(&time, 0) < 0) interrupted++;
    if (poll(0, 0, 1) < 0) interrupted++;
    return interrupted;
}

/* A generator whose every number follows from the one before: one that is wrong makes all later ones wrong. */
__attribute__((noinline)) static unsigned long calculate(unsigned long rounds, unsigned long number) {
    double sum = 0;
    for (unsigned long i = 0; i < rounds; i++) {
        number ^= number << 13, number ^= number >> 7, number ^= number << 17;
        sum = sum * 0.5 + (double)(number & 0xffff);
    }
    return number ^ (unsigned long)(sum * 1e6);
}

static void busy(unsigned long rounds) {
    int ends[2], events = epoll_create1(0);
    struct timeval most = {0, 1000};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(2);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    unsigned long number = 88172645463325252ul, interrupted = 0;
    /* As long as it is read, and so long anyway. */
    struct pollfd over = {0, POLLIN, 0};
    ready();
    for (unsigned long round = 0; round < rounds || poll(&over, 1, 0) == 0; round++) {
        if (round < rounds) number = calculate(100000, number);
        else calculate(100000, round);
        interrupted += calls(ends[0], events);
    }
    printf("%lx, %lu calls interrupted\n", number, interrupted);
    exit(0);
}

static void large(void) {
    size_t size = 512ul << 20;
    char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(2);
    madvise(memory, size, MADV_NOHUGEPAGE);
    memset(memory, 1, size);
    ready();
    stay();
}

__attribute__((noinline)) static void spins(void) {
    struct pollfd over = {0, POLLIN, 0};
    ready();
    while (poll(&over, 1, 0) == 0) calculate(1000, 1);
    exit(0);
}

__attribute__((noinline)) static void steps(void) {
    char byte;
    for (;;) {
        ready();
        if (read(0, &byte, 1) <= 0) exit(0);
        for (clock_t end = clock() + CLOCKS_PER_SEC * 3 / 10; clock() < end;) calculate(1000, 1);
    }
}

static void *polls(void *of_driver) {
    int can;
    for (;;) {
        if (of_driver) can_access(&can, 0, 1);
        usleep(1000);
    }
    return 0;
}

static void hangs(const char *what) {
    pthread_t thread;
    int ends[2], can;
    meet_driver();
    int is_asking = !strcmp(what, "asks");
    for (int i = 0; i < (strcmp(what, "polls") ? 1 : 64); i++) pthread_create(&thread, 0, polls, is_asking ? ends : 0);
    if (!strcmp(what, "polls")) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(2);
        if (fork() == 0) {
            char byte;
            die_with_parent();
            recv(ends[1], &byte, 1, 0);
            _exit(0);
        }
    }
    ready();
    if (!strcmp(what, "held")) can_access(&can, 0, 1);
    stay();
}

static void *calculates(void *none) {
    for (unsigned long round = 1;; round++) calculate(100000, round);
    return none;
}

static void crowd(int count) {
    pthread_t thread;
    while (count--) pthread_create(&thread, 0, calculates, 0);
    ready();
    stay();
}

static void loops(void) {
    struct pollfd over = {0, POLLIN, 0};
    meet_driver();
    ready();
    while (poll(&over, 1, 0) == 0) {
        pid_t child = fork();
        if (child == 0) {
            usleep(20000);
            _exit(0);
        }
        waitpid(child, 0, 0);
    }
    exit(0);
}

static void naps(void) {
    meet_driver();
    ready();
    if (fork() == 0) {
        struct pollfd over = {0, POLLIN, 0};
        die_with_parent();
        while (poll(&over, 1, 0) == 0) usleep(50000);
        _exit(0);
    }
    wait(0);
    exit(0);
}

static void stubborn(void) {
    meet_driver();
    signal(SIGTERM, SIG_IGN);
    if (fork()) ready();
    for (;;) pause();
}

/* Writes to a file in the current directory, for which storage takes its time. */
static void stores(void) {
    static char block[1 << 18];
    FILE *file = fopen("stored", "w");
    for (int i = 0; i < 20; i++) {
        if (!file || fwrite(block, sizeof block, 1, file) != 1 || fflush(file) || fdatasync(fileno(file))) exit(2);
        usleep(100000);
    }
}

static void goes_on(const char *what) {
    unsigned long long memory;
    meet_driver();
    ready();
    if (!strcmp(what, "computes"))
        for (clock_t end = clock() + 2 * CLOCKS_PER_SEC; clock() < end;) calculate(1000, 1);
    if (!strcmp(what, "stores")) stores();
    if (!strcmp(what, "sleeps")) sleep(2);
    if (!strcmp(what, "calls")) {
        char handle[64];
        if (allocate(&memory, 1 << 20)) exit(2);
        for (int i = 0; i < 20; i++) {
            if (export(handle, memory)) exit(2);
            usleep(100000);
        }
    }
    puts("done");
    exit(0);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    int ends[2];
    if (!strcmp(what, "polls") || !strcmp(what, "asks") || !strcmp(what, "held")) hangs(what);
    if (!strcmp(what, "loops")) loops();
    const char *going_on[] = {"computes", "sleeps", "calls", "stores"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(what, going_on[i])) goes_on(what);
    if (!strcmp(what, "naps")) naps();
    if (!strcmp(what, "stubborn")) stubborn();
    if (!strcmp(what, "steps") || !strcmp(what, "spins") || !strcmp(what, "oversleeps")) meet_driver();
    if (!strcmp(what, "oversleeps")) {
        ready();
        sleep(1000000);
    }
    if (!strcmp(what, "mutex")) waits_for_mutex();
    if (!strcmp(what, "steps")) steps();
    if (!strcmp(what, "large")) large();
    if (!strcmp(what, "spins")) spins();
    if (!strncmp(what, "crowd:", 6)) crowd(atoi(what + 6));
    if (!strncmp(what, "crew:", 5)) crew(atoi(what + 5));
    if (!strncmp(what, "busy:", 5)) busy(strtoul(what + 5, 0, 10));
    if (!strcmp(what, "pipe")) {
        if (pipe(ends)) return 2;
        if (fork() == 0) {
            die_with_parent();
            close(ends[1]);
            close(0);
            waits_for_pipe(ends[0]);
            return 1;
        }
        close(ends[0]);
        ready();
        stay();
    }
    return 2;
}
