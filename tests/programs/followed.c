/* followed FIRST SECOND [BEFORE]: a thread makes FIRST calls and stays; then another makes SECOND calls. The marks of the first
 * are from BEFORE + 1 on, or from 1 on, and those of the second behind them. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

static pthread_barrier_t barrier;
static int first, second, before;

static void calls(int from, int to) {
    int can;
    for (int i = from; i < to; i++) CHECK(cuDeviceCanAccessPeer(&can, before + 1 + i, 1) == 0);
}

static void *stays(void *unused) {
    calls(0, first);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void *follows(void *unused) {
    calls(first, first + second);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 3 || argc == 4);
    first = atoi(argv[1]);
    second = atoi(argv[2]);
    if (argc == 4) before = atoi(argv[3]);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, stays, NULL) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_create(&threads[1], NULL, follows, NULL) == 0);
    CHECK(pthread_join(threads[1], NULL) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(threads[0], NULL) == 0);
    puts("done");
    return 0;
}
