/* Allocates and frees device memory, as the first argument says, and prints what the driver answered: the same with and without
 * cupeer. What is counted and what is a call of the recording, tests/memory.rs compares. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long ptr;
#define FUNCTIONS(F)                                                                                                       \
    F(cuInit, (unsigned)) F(cuDeviceGet, (int *, int)) F(cuCtxCreate_v2, (void **, unsigned, int))                         \
    F(cuCtxDestroy_v2, (void *)) F(cuCtxSetCurrent, (void *)) F(cuMemAlloc_v2, (ptr *, size_t)) F(cuMemFree_v2, (ptr))      \
    F(cuMemAllocPitch_v2, (ptr *, size_t *, size_t, size_t, unsigned)) F(cuMemAllocManaged, (ptr *, size_t, unsigned))     \
    F(cuMemAllocAsync, (ptr *, size_t, void *)) F(cuMemFreeAsync, (ptr, void *)) F(cuCtxSynchronize, (void))               \
    F(cuIpcGetMemHandle, (void *, ptr)) F(cuMemCreate, (ptr *, size_t, const void *, ptr))                                 \
    F(cuDevicePrimaryCtxRetain, (void **, int)) F(cuMemGetInfo_v2, (size_t *, size_t *))
#define DECLARE(name, parameters) static int(*name) parameters;
FUNCTIONS(DECLARE)
#define OK(call)                                                                                                           \
    do {                                                                                                                   \
        int result_ = call;                                                                                                \
        if (result_) printf("line %d: %d\n", __LINE__, result_), exit(1);                                                  \
    } while (0)

static void *context;
__attribute__((noinline)) static ptr small(size_t size) {
    ptr p = 0;
    OK(cuMemAlloc_v2(&p, size));
    __asm__ volatile("" ::: "memory");
    return p;
}
__attribute__((noinline)) static ptr large(size_t size) {
    ptr p = 0;
    OK(cuMemAlloc_v2(&p, size));
    __asm__ volatile("" ::: "memory");
    return p;
}

enum { THREADS = 8, EACH = 500 };
static ptr made[THREADS][EACH];
static pthread_barrier_t all;
/* Each thread frees half of what its neighbor made, and makes as many again. */
static void *work(void *argument) {
    int own = (int)(long)argument, other = (own + 1) % THREADS;
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < EACH; i++) made[own][i] = small(1024);
    pthread_barrier_wait(&all);
    for (int i = 0; i < EACH; i += 2) OK(cuMemFree_v2(made[other][i]));
    pthread_barrier_wait(&all);
    for (int i = 0; i < EACH; i += 2) made[own][i] = small(1024);
    return NULL;
}

int main(int argc, char **argv) {
    const char *scene = argc > 1 ? argv[1] : "";
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(name, parameters) name = (int(*) parameters)dlsym(library, #name);
    FUNCTIONS(FIND)
    int child = !strcmp(scene, "apart") ? fork() : -1;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    if (!strcmp(scene, "large")) {
        ptr a = large(1 << 20), b = large(3 << 20), c = small((1 << 20) - 1);
        OK(cuMemFree_v2(b));
        (void)a, (void)c;
    } else if (!strcmp(scene, "small")) {
        ptr p[10];
        for (int i = 0; i < 10; i++) p[i] = small(1000);
        for (int i = 0; i < 7; i++) OK(cuMemFree_v2(p[i]));
        for (int i = 0; i < 100; i++) OK(cuMemFree_v2(small(500)));
    } else if (!strcmp(scene, "threads")) {
        pthread_t threads[THREADS];
        pthread_barrier_init(&all, NULL, THREADS);
        for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    } else if (!strcmp(scene, "apart")) {
        /* Both of two processes, of which one has forked the other before it used the driver. */
        for (int i = 0; i < (child ? 5 : 3); i++) small(1000);
        if (!child) return 0;
        wait(NULL);
    } else if (!strcmp(scene, "fork")) {
        small(1000);
        fflush(stdout);
        if (!fork()) {
            ptr p = 0;
            printf("child %d\n", cuMemAlloc_v2(&p, 1000));
            fflush(stdout);
            _exit(0);
        }
        wait(NULL);
        small(1000);
    } else if (!strcmp(scene, "context")) {
        void *second;
        small(1000);
        OK(cuCtxCreate_v2(&second, 0, 0));
        for (int i = 0; i < 20; i++) small(3000);
        OK(cuCtxDestroy_v2(second));
        OK(cuCtxSetCurrent(context));
    } else if (!strcmp(scene, "killed")) {
        for (int i = 0; i < 33; i++) small(2048);
        fflush(stdout);
        raise(SIGKILL);
    } else if (!strcmp(scene, "async")) {
        ptr p[6];
        for (int i = 0; i < 5; i++) OK(cuMemAllocAsync(&p[i], 4096, NULL));
        OK(cuMemAllocAsync(&p[5], 2 << 20, NULL));
        for (int i = 0; i < 2; i++) OK(cuMemFreeAsync(p[i], NULL));
        OK(cuMemFree_v2(p[2]));
        OK(cuMemFreeAsync(p[5], NULL));
        OK(cuCtxSynchronize());
    } else if (!strcmp(scene, "shared")) {
        /* Memory of a process that shares some is counted as before. */
        char handle[64];
        ptr p = small(5000), q = small(6000);
        OK(cuIpcGetMemHandle(handle, p));
        small(7000);
        OK(cuMemFree_v2(q));
        OK(cuMemFree_v2(p));
    } else if (!strcmp(scene, "odd")) {
        /* Pitched memory, managed memory, frees that fail, and rows without a place. */
        ptr p = small(100);
        size_t pitch;
        OK(cuMemAllocPitch_v2(&p, &pitch, 100, 10, 4));
        printf("pitch %zu\n", pitch);
        OK(cuMemAllocManaged(&p, 1000, 1));
        p = small(100);
        printf("free %d %d\n", cuMemFree_v2(p + 8), cuMemFree_v2(0x1234500));
        OK(cuMemFree_v2(p));
        printf("free again %d\n", cuMemFree_v2(p));
        printf("nothing %d %d\n", cuMemAlloc_v2(&p, 0), cuMemAlloc_v2(NULL, 8));
    } else if (!strcmp(scene, "exhausted")) {
        struct { int type, handles, place, id; void *other; unsigned char flags[8]; } wanted = {1, 0, 1, 0, NULL, {0}};
        ptr p;
        size_t free, total;
        small(1000), small(1000);
        OK(cuMemGetInfo_v2(&free, &total));
        printf("alloc %d\n", cuMemAlloc_v2(&p, total));
        printf("create %d\n", cuMemCreate(&p, ((total >> 21) + 1) << 21, &wanted, 0));
        printf("async %d\n", cuMemAllocAsync(&p, total, NULL));
        printf("probe");
        for (int i = 0, result; i < 200; i++) {
            result = cuMemAlloc_v2(&p, total - i);
            if (i % 50 == 0) printf(" %d", result);
        }
        printf("\n");
    }
    printf("done\n");
    return 0;
}
