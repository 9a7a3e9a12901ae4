/* fork_storm FORKS: forks that often while four threads call; each child calls twice and ends, and an alarm
 * ends one that hangs. Expects none to. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"
#include <stdatomic.h>

static atomic_int stop;

static void *work(void *unused) {
    int can;
    while (!stop) cuDeviceCanAccessPeer(&can, 1, 2);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int forks = atoi(argv[1]), failed = 0;
    pthread_t thread[4];
    for (int t = 0; t < 4; t++) pthread_create(&thread[t], NULL, work, NULL);
    for (int i = 0; i < forks; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            int can;
            _exit(cuDeviceCanAccessPeer(&can, 7, 2) + cuDeviceCanAccessPeer(&can, 8, 2));
        }
        int status = -1;
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        failed += status != 0;
    }
    stop = 1;
    for (int t = 0; t < 4; t++) pthread_join(thread[t], NULL);
    printf("failed: %d\n", failed);
    return 0;
}
