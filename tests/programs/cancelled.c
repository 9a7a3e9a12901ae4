/* cancelled TIMES: cancels a thread TIMES times that can be cancelled at any instruction while it calls, and has something to
 * be cleaned up. Expects each to end as cancelled and cleaned up, and calls to leave the type as it was set. */
#include "calls.h"

static _Atomic int ready, cleaned;

static void clean(void *unused) {
    (void)unused;
    cleaned++;
}

static void *work(void *unused) {
    pthread_cleanup_push(clean, NULL);
    void *open = DRIVER_FUNCTION(cuIpcOpenMemHandle_v2), *can = DRIVER_FUNCTION(cuDeviceCanAccessPeer);
    int before = -1;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (unsigned i = 0;; i++) {
        call(F_cuDeviceCanAccessPeer, can, 1000 + i % 100);
        /* Opens, and fails. */
        if (i % 4 == 0) call(F_cuIpcOpenMemHandle_v2, open, i % 8 ? 1000 + i % 100 : FAILS + 201);
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
        CHECK(before == PTHREAD_CANCEL_ASYNCHRONOUS);
        ready = 1;
    }
    pthread_cleanup_pop(0);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int times = atoi(argv[1]);
    srand((unsigned)getpid());
    for (int i = 0; i < times; i++) {
        pthread_t thread;
        void *result = NULL;
        ready = 0;
        CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
        /* Now and then in the first call. */
        while (!ready && i % 8) sched_yield();
        for (int spins = rand() % 5000; spins > 0; spins--) __asm__ volatile("");
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    CHECK(cleaned == times);
    puts("done");
    return 0;
}
