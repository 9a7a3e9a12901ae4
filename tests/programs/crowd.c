/* crowd TOTAL AT_ONCE CALLS: so many threads, so many of them at once, each of which calls that often (marks from 1
 * on) and ends. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

static int calls;
static pthread_barrier_t barrier;

static void *work(void *unused) {
    int can;
    for (int i = 0; i < calls; i++) CHECK(cuDeviceCanAccessPeer(&can, 1 + i, 1) == 0);
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int total = atoi(argv[1]), at_once = atoi(argv[2]);
    calls = atoi(argv[3]);
    CHECK(at_once <= 200);
    pthread_barrier_init(&barrier, NULL, (unsigned)at_once);
    pthread_t thread[200];
    for (int i = 0; i < total; i += at_once) {
        for (int k = 0; k < at_once; k++) CHECK(pthread_create(&thread[k], NULL, work, NULL) == 0);
        for (int k = 0; k < at_once; k++) pthread_join(thread[k], NULL);
    }
    puts("done");
    return 0;
}
