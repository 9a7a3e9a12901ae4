/* stacks FIRST STACK ALTERNATE: calls that succeed and calls that fail, on threads with stacks of STACK bytes (0:
 * PTHREAD_STACK_MIN) and in a handler on an alternate stack of ALTERNATE bytes, whichever of `threads` and `handler` comes FIRST.
 * Aborts where a result is not the driver's, or where something lies below the alternate stack. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char bytes[64]; } handle;
static int (*init)(unsigned), (*can)(int *, int, int), (*enable)(void *, unsigned), (*get)(handle *, unsigned long long);
static int (*open_handle)(unsigned long long *, handle, unsigned), (*attribute)(int *, int, int, int);

static void calls(void) {
    handle h = {{0}};
    unsigned long long pointer = 0;
    int value = 0;
    for (int i = 0; i < 3; i++)
        if (can(&value, 0, 1) != 0 || can(&value, 0, 77) == 0 || attribute(&value, 1, 0, 1) != 0 || enable(NULL, 0) == 0 ||
            get(&h, 0x99) == 0 || open_handle(&pointer, h, 1) == 0)
            abort();
}

static void *work(void *unused) {
    calls();
    return unused;
}

static void handler(int signal) {
    (void)signal;
    calls();
}

static void in_threads(size_t size) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, size ? size : PTHREAD_STACK_MIN) != 0) abort();
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, work, NULL) != 0) abort();
        pthread_join(thread, NULL);
    }
}

static void in_handler(size_t size) {
    enum { BELOW = 1 << 14, MOST = 1 << 18 };
    static unsigned char memory[BELOW + MOST];
    memset(memory, 0x5a, sizeof memory);
    stack_t alternate = {.ss_sp = memory + BELOW, .ss_size = size};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    if (size > MOST || sigaltstack(&alternate, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0) abort();
    raise(SIGUSR1);
    for (int i = 0; i < BELOW; i++)
        if (memory[i] != 0x5a) {
            printf("%d bytes below the alternate stack\n", BELOW - i);
            fflush(stdout);
            abort();
        }
}

int main(int argc, char **argv) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (argc != 4 || !driver) return 2;
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&can = dlsym(driver, "cuDeviceCanAccessPeer");
    *(void **)&enable = dlsym(driver, "cuCtxEnablePeerAccess");
    *(void **)&get = dlsym(driver, "cuIpcGetMemHandle");
    *(void **)&open_handle = dlsym(driver, "cuIpcOpenMemHandle_v2");
    *(void **)&attribute = dlsym(driver, "cuDeviceGetP2PAttribute");
    /* The simulated driver reads its machine with as much stack as that takes. */
    if (init(0) != 0) return 3;
    int handler_first = strcmp(argv[1], "handler") == 0;
    if (handler_first) in_handler(strtoul(argv[3], NULL, 0));
    in_threads(strtoul(argv[2], NULL, 0));
    if (!handler_first) in_handler(strtoul(argv[3], NULL, 0));
    puts("done");
    return 0;
}
