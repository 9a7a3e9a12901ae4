// A process of a large job: it asks about peers, and then does what its argument says.
//   asks            no more
//   shares          exports memory
//   closed          closes all descriptors that it has not opened, and exports memory
//   threads         exports while eight threads ask
//   fork            a child asks, another one exports; it only asks itself
//   waits           waits until it reads the end of its stdin
//   killed          kills itself, without having shared anything
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASKED 2000

static void *driver;
static int (*can)(int *, int, int);

static void *function(const char *name) {
    void *found = dlsym(driver, name);
    if (!found) exit(9);
    return found;
}

static void ask(int times) {
    int answer;
    for (int i = 0; i < times; i++)
        if (can(&answer, 0, 1)) exit(8);
}

static void *asks(void *barrier) {
    ask(ASKED / 2);
    pthread_barrier_wait(barrier);
    ask(ASKED / 2);
    return NULL;
}

static void share(void) {
    int (*get)(int *, int) = function("cuDeviceGet");
    int (*retain)(void **, int) = function("cuDevicePrimaryCtxRetain");
    int (*current)(void *) = function("cuCtxSetCurrent");
    int (*allocate)(unsigned long long *, size_t) = function("cuMemAlloc_v2");
    int (*export)(void *, unsigned long long) = function("cuIpcGetMemHandle");
    int device;
    void *context;
    unsigned long long memory;
    char handle[64];
    if (get(&device, 0) || retain(&context, device) || current(context) || allocate(&memory, 4096)) exit(7);
    if (export(handle, memory)) exit(6);
}

static void in_child(void (*work)(void)) {
    pid_t child = fork();
    if (child == 0) {
        ((int (*)(unsigned))function("cuInit"))(0);
        ask(10);
        if (work) work();
        exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) exit(5);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return 9;
    can = function("cuDeviceCanAccessPeer");
    if (!strcmp(what, "fork")) {
        in_child(NULL);
        in_child(share);
    }
    if (((int (*)(unsigned))function("cuInit"))(0)) return 4;
    ask(10);
    if (!strcmp(what, "shares")) share();
    if (!strcmp(what, "closed")) {
        for (int i = 3; i < 4096; i++) close(i);
        share();
    }
    if (!strcmp(what, "threads")) {
        pthread_t threads[8];
        pthread_barrier_t barrier;
        pthread_barrier_init(&barrier, NULL, 9);
        for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, asks, &barrier);
        pthread_barrier_wait(&barrier);
        share();
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    }
    if (!strcmp(what, "waits")) getchar();
    if (!strcmp(what, "killed")) raise(SIGKILL);
    puts("done");
    return 0;
}
