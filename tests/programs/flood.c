/* flood PROCESSES THREADS CALLS: as many processes, each with as many threads, each with as many calls, at the
 * same time. Keeps no account: the driver is told nothing ($FAKE_DRIVER_LOG is not set). */
#ifndef LINKED
#define LINKED
#endif
#include "common.h"

static int calls;

static void *work(void *unused) {
    CUdeviceptr pointer;
    CUipcMemHandle handle = marked_handle(1);
    for (int i = 0; i < calls; i++)
        if (cuIpcOpenMemHandle_v2(&pointer, handle, 1) != 0) abort();
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int processes = atoi(argv[1]), threads = atoi(argv[2]);
    calls = atoi(argv[3]);
    for (int p = 0; p < processes; p++) {
        if (fork() != 0) continue;
        pthread_t thread[64];
        for (int t = 0; t < threads; t++) pthread_create(&thread[t], NULL, work, NULL);
        for (int t = 0; t < threads; t++) pthread_join(thread[t], NULL);
        return 0;
    }
    int status, failed = 0;
    while (wait(&status) > 0) failed += status != 0;
    printf("failed: %d\n", failed);
    return failed;
}
