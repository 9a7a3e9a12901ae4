/* 16 threads that use the driver for the first time at the same moment, and 100 times after. Expects each of
 * their calls to reach the driver once, with what the thread gave it. */
#include "calls.h"

static pthread_barrier_t start;

static void *work(void *argument) {
    unsigned base = (unsigned)(uintptr_t)argument;
    pthread_barrier_wait(&start);
    for (unsigned i = 0; i < 100; i++)
        if (CALL_MARKED(cuDeviceCanAccessPeer, base + 2 * i) != 0 || CALL_MARKED(cuIpcOpenMemHandle_v2, base + 2 * i + 1) != 0)
            return (void *)1;
    return NULL;
}

int main(void) {
    pthread_t threads[16];
    pthread_barrier_init(&start, NULL, 16);
    for (uintptr_t i = 0; i < 16; i++) pthread_create(&threads[i], NULL, work, (void *)(1000 * (i + 1)));
    for (int i = 0; i < 16; i++) {
        void *result;
        pthread_join(threads[i], &result);
        CHECK(result == NULL);
    }
    puts("done");
    return 0;
}
