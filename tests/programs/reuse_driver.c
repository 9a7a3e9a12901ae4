/* A driver that maps everything at one address, and returns from a close only when another thread has opened something
 * there: the address is free, for others, before the closer hears of it. */
#include <semaphore.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct { unsigned char bytes[64]; } Handle;

sem_t reuse_unmapped, reuse_opened;

CUresult cuInit(unsigned flags) {
    (void)flags;
    return sem_init(&reuse_unmapped, 0, 0) || sem_init(&reuse_opened, 0, 0);
}

CUresult cuCtxGetCurrent(void **context) {
    *context = 0;
    return 0;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, Handle handle, unsigned flags) {
    (void)handle, (void)flags;
    *pointer = 0x10000;
    return 0;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
    (void)pointer;
    sem_post(&reuse_unmapped);
    return sem_wait(&reuse_opened);
}
