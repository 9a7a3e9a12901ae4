/* repeats CALLS MODE [FILE]: makes the same call that fails, so often in each of two threads, where MODE is
 *   plain    nothing else happens
 *   signals  a timer's handler makes the same call, and one that succeeds; prints how often it did
 *   fork     a child makes half as many once the first thread is half done
 *   between  each hundredth call succeeds
 *   changes  half of the calls of the first thread fail with another result
 *   forever  it goes on until it is killed, and counts in FILE what has returned
 * Prints "done". */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

static int calls_of_each;
static const char *mode;
static _Atomic uint64_t *returned;
static volatile unsigned by_handler;

static int fail(int result) {
    int can;
    return cuDeviceCanAccessPeer(&can, (CUdevice)(FAILS + result), 1) == (CUresult)result;
}
static int succeed(void) {
    int can;
    return cuDeviceCanAccessPeer(&can, 5, 1) == 0;
}
/* Not more often than a ring has room for, however long the calls take. */
static void handler(int signal) {
    (void)signal;
    if (by_handler == 1000) return;
    if (!fail(1) || !succeed()) _exit(6);
    by_handler++;
}
static void calls(int first) {
    int is_forever = !strcmp(mode, "forever");
    for (int i = 0; is_forever || i < calls_of_each; i++) {
        if (!strcmp(mode, "between") && i % 100 == 99 && !succeed()) _exit(5);
        int other = !strcmp(mode, "changes") && first && i % 2;
        if (!fail(other ? 2 : 1)) _exit(5);
        if (is_forever) returned[first ? 0 : 512] = (uint64_t)i + 1;
        if (!strcmp(mode, "fork") && first && i == calls_of_each / 2) {
            pid_t child = fork();
            if (child == 0) {
                for (int j = 0; j < calls_of_each / 2; j++)
                    if (!fail(1)) _exit(5);
                _exit(0);
            }
            int status;
            if (waitpid(child, &status, 0) != child || status != 0) _exit(7);
        }
    }
}
static void *work(void *unused) {
    calls(0);
    return unused;
}
int main(int argc, char **argv) {
    CHECK(argc >= 3);
    calls_of_each = atoi(argv[1]);
    mode = argv[2];
    if (argc > 3) {
        int file = open(argv[3], O_RDWR | O_CREAT, 0600);
        CHECK(file >= 0 && ftruncate(file, 8192) == 0);
        returned = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        CHECK(returned != MAP_FAILED);
    }
    if (!strcmp(mode, "signals")) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
        struct itimerval often = {{0, 200}, {0, 200}};
        CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
        calls(1);
        struct itimerval never = {{0, 0}, {0, 0}};
        CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
        printf("%u\n", by_handler);
        return 0;
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
    calls(1);
    CHECK(pthread_join(thread, NULL) == 0);
    puts("done");
    return 0;
}
