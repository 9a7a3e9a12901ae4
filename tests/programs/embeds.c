// A program that begins and ends an interpreter ROUNDS times while THREADS threads of its own make calls that fail. So does
// a thread of Python each round, which never returns to it, because no interpreter survives that which has ended: embeds
// LIBPYTHON ROUNDS THREADS. Prints how many rounds there were. To be linked with -rdynamic.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int (*call)(void *, unsigned long long);
static atomic_int is_over;
static void *calls(void *unused) {
    char handle[64];
    while (!is_over) call(handle, 4);
    return unused;
}
void calls_on(void) {
    char handle[64];
    for (;;) {
        call(handle, 4);
        usleep(50);
    }
}
static const char *source =
    "import ctypes, threading\n"
    "cuda = ctypes.CDLL('libcuda.so.1')\n"
    "handle = (ctypes.c_char * 64)()\n"
    "def one(): return cuda.cuIpcGetMemHandle(handle, ctypes.c_uint64(4))\n"
    "def many():\n"
    "    for _ in range(20): one()\n"
    "def on(): ctypes.CDLL(None).calls_on()\n"
    "threads = [threading.Thread(target=many) for _ in range(3)]\n"
    "[thread.start() for thread in threads]\n"
    "many()\n"
    "[thread.join() for thread in threads]\n"
    // Still at it when the interpreter ends.
    "import time\n"
    "threading.Thread(target=on, daemon=True).start()\n"
    "time.sleep(0.01)\n";
int main(int argc, char **argv) {
    if (argc != 4) return 2;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *python = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!driver || !python) return fprintf(stderr, "%s\n", dlerror()), 3;
    void (*begin)(int) = (void (*)(int))dlsym(python, "Py_InitializeEx");
    int (*end)(void) = (int (*)(void))dlsym(python, "Py_FinalizeEx");
    int (*run)(const char *, void *) = (int (*)(const char *, void *))dlsym(python, "PyRun_SimpleStringFlags");
    call = (int (*)(void *, unsigned long long))dlsym(driver, "cuIpcGetMemHandle");
    int rounds = atoi(argv[2]), threads = atoi(argv[3]);
    pthread_t own[16];
    if (threads > 16) return 2;
    for (int i = 0; i < threads; i++) pthread_create(&own[i], 0, calls, 0);
    for (int i = 0; i < rounds; i++) {
        begin(0);
        if (run(source, 0)) return 4;
        end();
    }
    is_over = 1;
    for (int i = 0; i < threads; i++) pthread_join(own[i], 0);
    printf("%d\n", rounds);
    fflush(stdout);
    _exit(0);
}
