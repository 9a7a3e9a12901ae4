/* Calls, the first ones of the process among them, on a small stack of a thread (-DSTACK), and in a handler
 * on an alternate stack (-DALTERNATE). Expects the driver to be reached, and no crash. */
#include "calls.h"
#include <limits.h>

static void *work(void *unused) {
    unsigned base = (unsigned)(uintptr_t)unused;
    for (unsigned i = 0; i < 3; i++)
        if (CALL_MARKED(cuIpcOpenMemHandle_v2, base + i) != 0 || CALL_MARKED(cuDeviceGetP2PAtomicCapabilities, base + 10 + i) != 0)
            abort();
    return NULL;
}

static void handler(int signal) { work((void *)(uintptr_t)(signal * 100)); }

int main(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, STACK) == 0);
    for (uintptr_t i = 1; i <= 2; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, &attributes, work, (void *)(i * 100)) == 0);
        pthread_join(t, NULL);
    }
    static char stack[ALTERNATE];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    puts("done");
    return 0;
}
