/* small_stack FIRST STACK ALTERNATE: calls, among them the first ones of the process, on threads with stacks of STACK
 * bytes, and in a handler on an alternate stack of ALTERNATE bytes, of which FIRST (threads or handler) comes first. 0
 * leaves the threads out, and `PTHREAD_STACK_MIN` is as much as libc allows. Expects the driver to be reached, no crash, and
 * nothing written below the alternate stack. */
#include "calls.h"
#include <limits.h>

static void *work(void *unused) {
    unsigned base = (unsigned)(uintptr_t)unused;
    for (unsigned i = 0; i < 3; i++) {
        if (CALL_MARKED(cuIpcOpenMemHandle_v2, base + i) != 0 || CALL_MARKED(cuDeviceGetP2PAtomicCapabilities, base + 10 + i) != 0)
            abort();
        /* Calls that fail are looked at more closely. */
        if (CALL_MARKED(cuCtxEnablePeerAccess, FAILS + 709) == 0 || CALL_MARKED(cuIpcGetMemHandle, FAILS + 1) == 0) abort();
    }
    return NULL;
}

static void handler(int signal) { work((void *)(uintptr_t)(signal * 100)); }

static void in_threads(size_t size) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    /* On some processors no smaller one is allowed. */
    CHECK(pthread_attr_setstacksize(&attributes, size < (size_t)PTHREAD_STACK_MIN ? (size_t)PTHREAD_STACK_MIN : size) == 0);
    for (uintptr_t i = 1; i <= 2; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, &attributes, work, (void *)(i * 100)) == 0);
        pthread_join(t, NULL);
    }
}

static void in_handler(size_t size) {
    enum { BELOW = 1 << 14, MOST = 1 << 18 };
    static unsigned char memory[BELOW + MOST];
    CHECK(size <= MOST);
    memset(memory, 0x5a, sizeof memory);
    stack_t alternate = {.ss_sp = memory + BELOW, .ss_size = size};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    for (int i = 0; i < BELOW; i++)
        if (memory[i] != 0x5a) {
            printf("%d bytes below the alternate stack\n", BELOW - i);
            abort();
        }
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    size_t stack = strcmp(argv[2], "PTHREAD_STACK_MIN") ? strtoul(argv[2], NULL, 0) : PTHREAD_STACK_MIN;
    size_t alternate = strtoul(argv[3], NULL, 0);
    int handler_first = strcmp(argv[1], "handler") == 0;
    if (handler_first) in_handler(alternate);
    if (stack) in_threads(stack);
    if (!handler_first) in_handler(alternate);
    puts("done");
    return 0;
}
