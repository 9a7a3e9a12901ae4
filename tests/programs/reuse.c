/* Opens handle 2 at the address of handle 1 in the middle of the other thread's close of that. With reuse_driver.c. */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long CUdeviceptr;
typedef struct { unsigned char bytes[64]; } Handle;

static int (*open_memory)(CUdeviceptr *, Handle, unsigned);
static int (*close_memory)(CUdeviceptr);

static CUdeviceptr opened(int number) {
    Handle handle;
    CUdeviceptr pointer = 0;
    memset(&handle, number, sizeof handle);
    if (open_memory(&pointer, handle, 1)) printf("cannot open %d\n", number);
    return pointer;
}

static void *closes(void *pointer) {
    if (close_memory(*(CUdeviceptr *)pointer)) printf("cannot close\n");
    return NULL;
}

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = dlsym(driver, "cuInit");
    open_memory = dlsym(driver, "cuIpcOpenMemHandle_v2");
    close_memory = dlsym(driver, "cuIpcCloseMemHandle");
    sem_t *unmapped = dlsym(driver, "reuse_unmapped"), *others = dlsym(driver, "reuse_opened");
    init(0);
    CUdeviceptr first = opened(1);
    pthread_t thread;
    pthread_create(&thread, NULL, closes, &first);
    sem_wait(unmapped);
    if (opened(2) != first) printf("another address\n");
    sem_post(others);
    pthread_join(thread, NULL);
    printf("done\n");
    return 0;
}
