// Eight threads allocate, copy, share contexts and create events at once, while children are forked; each finds
// its own bytes, and the children are told that they have no driver.
#include "common.h"

static void *contexts[2];
static volatile int over;

static void *worker(void *number) {
    unsigned seed = (unsigned)(intptr_t)number;
    unsigned char *mine = malloc(70000), *got = malloc(70000);
    for (int round = 0; round < 400; round++) {
        IS(cuCtxSetCurrent(contexts[rand_r(&seed) % 2]), 0);
        size_t size = 1 + rand_r(&seed) % 70000;
        memset(mine, rand_r(&seed) & 255, size);
        CUdeviceptr a, b;
        IS(cuMemAlloc_v2(&a, size), 0);
        IS(cuMemAlloc_v2(&b, size), 0);
        IS(cuMemcpyHtoD_v2(a, mine, size), 0);
        IS(cuMemcpyDtoD_v2(b, a, size), 0);
        IS(cuMemsetD8_v2(a, 0, size), 0);
        IS(cuMemFree_v2(a), 0);
        IS(cuMemcpyDtoH_v2(got, b, size), 0);
        IS(memcmp(mine, got, size), 0);
        IS(cuMemFree_v2(b), 0);
        void *event, *stream;
        IS(cuEventCreate(&event, 0), 0);
        IS(cuStreamCreate(&stream, 1), 0);
        IS(cuEventRecord(event, stream), 0);
        IS(cuEventQuery(event), 0);
        /* From here on, another thread may have the same handle for its own. */
        IS(cuEventDestroy_v2(event), 0);
        IS(cuStreamDestroy_v2(stream), 0);
    }
    free(mine);
    free(got);
    return NULL;
}

static void *forker(void *ignored) {
    while (!over) {
        pid_t child = fork();
        if (!child) {
            alarm(20);
            int v;
            _exit(cuDeviceCanAccessPeer(&v, 0, 1) != 3 || cuInit(0) != 3 || cuCtxSetCurrent(contexts[0]) != 3);
        }
        int status = 0;
        waitpid(child, &status, 0);
        IS(status, 0);
    }
    return ignored;
}

int main(void) {
    IS(cuInit(0), 0);
    IS(cuDevicePrimaryCtxRetain(&contexts[0], 0), 0);
    IS(cuDevicePrimaryCtxRetain(&contexts[1], 1), 0);
    size_t before, after, total;
    IS(cuCtxSetCurrent(contexts[0]), 0);
    IS(cuMemGetInfo_v2(&before, &total), 0);
    pthread_t threads[8], forks;
    pthread_create(&forks, NULL, forker, NULL);
    for (intptr_t i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, worker, (void *)(i + 1));
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    over = 1;
    pthread_join(forks, NULL);
    IS(cuMemGetInfo_v2(&after, &total), 0);
    IS(before == after, 1);
    return 0;
}
