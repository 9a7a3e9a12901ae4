// Calls the driver from the destructors of pthread keys, when other storage of the thread is gone, and finds
// the thread's context current there.
#include "common.h"

static pthread_key_t keys[3];
static void *context;
static CUdeviceptr memory;
static int calls;

static void at_end(void *round) {
    void *current = NULL;
    char bytes[4] = "";
    IS(cuCtxGetCurrent(&current), 0);
    IS(current == context, 1);
    IS(cuMemcpyDtoH_v2(bytes, memory, 4), 0);
    IS(strcmp(bytes, "abc"), 0);
    IS(cuStreamQuery((void *)0x1234), 400); // an error that is logged
    calls++;
    // A key that is set again is destroyed again.
    if ((intptr_t)round < 3) pthread_setspecific(keys[0], (char *)round + 1);
}

static void *thread(void *ignored) {
    IS(cuCtxSetCurrent(context), 0);
    for (int i = 0; i < 3; i++)
        pthread_setspecific(keys[i], (void *)1);
    return ignored;
}

int main(void) {
    IS(cuInit(0), 0);
    IS(cuCtxCreate_v2(&context, 0, 0), 0);
    IS(cuMemAlloc_v2(&memory, 4), 0);
    IS(cuMemcpyHtoD_v2(memory, "abc", 4), 0);
    for (int i = 0; i < 3; i++)
        pthread_key_create(&keys[i], at_end);
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    IS(calls >= 5, 1);
    return 0;
}
