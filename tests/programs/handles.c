/* handles PAIRS KEEP THREADS [stay]: in each of so many threads, opens and closes a handle that often; of the first KEEP
 * handles of a thread none is closed. Prints how many are open in the end, and with stay ends when told to. */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

static int pairs, keep;

static void *work(void *argument) {
    unsigned base = (unsigned)(uintptr_t)argument;
    CUdeviceptr pointer;
    for (int i = 0; i < pairs; i++) {
        /* Each thread has addresses of its own; those that stay open are not used again. */
        unsigned m = base + (unsigned)(i < keep ? i : keep + i % 100);
        CHECK(cuIpcOpenMemHandle_v2(&pointer, marked_handle(m), m) == 0);
        if (i >= keep) CHECK(cuIpcCloseMemHandle(m) == 0);
    }
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 4 || argc == 5);
    pairs = atoi(argv[1]), keep = atoi(argv[2]);
    int threads = atoi(argv[3]);
    CHECK(keep <= 9000 && threads <= 100);
    pthread_t thread[100];
    for (uintptr_t i = 0; i < (uintptr_t)threads; i++) CHECK(pthread_create(&thread[i], NULL, work, (void *)(70000 + 10000 * i)) == 0);
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    printf("open: %d\n", keep * threads);
    fflush(stdout);
    if (argc == 5) getchar();
    return 0;
}
