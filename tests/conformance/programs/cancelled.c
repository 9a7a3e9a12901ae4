// Cancels threads before a call: the call runs to its end and returns, and the thread ends after it. Then the driver still works.
#include "vmm.h"

static void *context;
static CUdeviceptr legacy;
static Handle handle;
static Allocation memory, imported;
static int descriptor, returned;

static int call(int number) {
    CUdeviceptr opened;
    switch (number) {
    case 0: return cuInit(0);
    case 1: return cuDevicePrimaryCtxRetain(&context, 0);
    case 2: return cuCtxSetCurrent(context) || cuMemAlloc_v2(&legacy, 1 << 21);
    case 3: return cuIpcGetMemHandle(&handle, legacy);
    case 4: return !cuIpcOpenMemHandle_v2(&opened, handle, 1); // fails, and writes to the log
    case 5: return create(&memory, 0, GRANULE);
    case 6: return cuMemExportToShareableHandle(&descriptor, memory, 1, 0);
    case 7: return import(&imported, descriptor);
    case 8: return !import(&imported, 12345);
    default: return -1;
    }
}

#define CALLS 9

static void *cancelled(void *number) {
    if (context) IS(cuCtxSetCurrent(context), 0);
    IS(pthread_cancel(pthread_self()), 0);
    IS(call((int)(intptr_t)number), 0);
    returned++;
    pthread_testcancel();
    return NULL;
}

int main(void) {
    // Lines of the log are written to a file, and so within the call.
    IS(setenv("CUDA_LOG_FILE", "/dev/null", 1), 0);
    for (int number = 0; number < CALLS; number++) {
        pthread_t thread;
        void *result;
        IS(pthread_create(&thread, NULL, cancelled, (void *)(intptr_t)number), 0);
        IS(pthread_join(thread, &result), 0);
        IS(result == PTHREAD_CANCELED, 1);
        IS(returned, number + 1);
    }
    IS(cuCtxSetCurrent(context), 0);
    IS(cuMemRelease(imported), 0);
    IS(cuMemRelease(memory), 0);
    IS(cuMemFree_v2(legacy), 0);
    return 0;
}
