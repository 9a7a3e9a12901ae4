/* failing_forks FORKS: four threads fail calls, which the driver tells of in its log, while the first one forks that often; each
 * child fails a call as well, and an alarm ends one that hangs. Expects none to. */
#include "common.h"
#include <stdatomic.h>

CUresult cuInit(unsigned);

static atomic_int stop;

static CUresult fail(void) {
    CUipcMemHandle handle;
    CUdeviceptr pointer;
    memset(&handle, 7, sizeof handle);
    return cuIpcOpenMemHandle_v2(&pointer, handle, 0);
}

static void *work(void *unused) {
    while (!stop) fail();
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 2 && cuInit(0) == 0);
    int forks = atoi(argv[1]), hung = 0;
    pthread_t thread[4];
    for (int t = 0; t < 4; t++) pthread_create(&thread[t], NULL, work, NULL);
    for (int i = 0; i < forks; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            _exit(fail() == 0);
        }
        int status = -1;
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        hung += status != 0;
    }
    stop = 1;
    for (int t = 0; t < 4; t++) pthread_join(thread[t], NULL);
    printf("hung: %d\n", hung);
    return 0;
}
