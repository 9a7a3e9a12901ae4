/* crowd TOTAL AT_ONCE CALLS [STACK]: so many threads, so many of them at once, each of which calls that often (marks from
 * 1 on) and ends; with stacks of so many bytes, where a call of each fails, too. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

static int calls;
static size_t stack;
static pthread_barrier_t barrier;

static void *work(void *unused) {
    int can;
    for (int i = 0; i < calls; i++) CHECK(cuDeviceCanAccessPeer(&can, 1 + i, 1) == 0);
    if (stack) CHECK(cuCtxEnablePeerAccess((CUcontext)(uintptr_t)(FAILS + 709), 0) != 0);
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 4 || argc == 5);
    int total = atoi(argv[1]), at_once = atoi(argv[2]);
    calls = atoi(argv[3]);
    CHECK(at_once <= 200);
    pthread_barrier_init(&barrier, NULL, (unsigned)at_once);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (argc == 5) CHECK(pthread_attr_setstacksize(&attributes, stack = strtoul(argv[4], NULL, 0)) == 0);
    pthread_t thread[200];
    for (int i = 0; i < total; i += at_once) {
        for (int k = 0; k < at_once; k++) CHECK(pthread_create(&thread[k], &attributes, work, NULL) == 0);
        for (int k = 0; k < at_once; k++) pthread_join(thread[k], NULL);
    }
    puts("done");
    return 0;
}
