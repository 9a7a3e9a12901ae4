/* followed FIRST SECOND: a thread makes FIRST calls and stays; then another makes SECOND calls. The marks of the first are
 * from 1 on, and those of the second from FIRST + 1 on. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

static pthread_barrier_t barrier;
static int first, second;

static void calls(int from, int to) {
    int can;
    for (int i = from; i < to; i++) CHECK(cuDeviceCanAccessPeer(&can, 1 + i, 1) == 0);
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
    CHECK(argc == 3);
    first = atoi(argv[1]);
    second = atoi(argv[2]);
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
