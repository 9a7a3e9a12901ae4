/* interrupted cancel|exit|jump|signal|nested: leaves a call by the back door, or enters one within another.
 * The fake driver calls back from within the call. Expects what there would be without cupeer, and every
 * later call to be seen as before. A call that never returns, or runs within another one, may be in the
 * log or not (its mark is above EITHER). */
#include "calls.h"
#include <setjmp.h>

static const char *how;
static jmp_buf back;
static volatile sig_atomic_t handled, reached;

static void within(const char *function, unsigned mark) {
    (void)function;
    if (mark != EITHER) return;
    if (strcmp(how, "cancel") == 0) {
        reached = 1;
        for (;;) pause();
    } else if (strcmp(how, "exit") == 0) {
        pthread_exit((void *)42);
    } else if (strcmp(how, "jump") == 0) {
        longjmp(back, 1);
    } else if (strcmp(how, "signal") == 0) {
        raise(SIGUSR1);
    } else {
        CHECK(CALL_MARKED(cuIpcOpenMemHandle_v2, EITHER + 1) == 0);
    }
}

static void handler(int signal) {
    (void)signal;
    int before = errno = 77;
    if (CALL_MARKED(cuIpcOpenMemHandle_v2, EITHER + 2) == 0 && errno == before) handled = 1;
}

static void *thread(void *unused) {
    (void)unused;
    CALL_MARKED(cuIpcOpenMemHandle_v2, EITHER);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    how = argv[1];
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    *(void (**)(const char *, unsigned))dlsym(driver, "fake_driver_callback") = within;
    signal(SIGUSR1, handler);
    printf("before: %d\n", CALL_MARKED(cuIpcOpenMemHandle_v2, 100));
    pthread_t t;
    void *result;
    if (strcmp(how, "cancel") == 0 || strcmp(how, "exit") == 0) {
        pthread_create(&t, NULL, thread, NULL);
        if (strcmp(how, "cancel") == 0) {
            while (!reached) usleep(1000);
            pthread_cancel(t);
        }
        pthread_join(t, &result);
        printf("thread ended with %ld\n", (long)result);
    } else if (setjmp(back) == 0) {
        printf("within: %d\n", CALL_MARKED(cuIpcOpenMemHandle_v2, EITHER));
    } else {
        puts("jumped");
    }
    printf("handled: %d\n", (int)handled);
    for (unsigned i = 0; i < 5; i++) printf("after: %d\n", CALL_MARKED(cuIpcOpenMemHandle_v2, 200 + i));
    printf("after: %d\n", CALL_MARKED(cuCtxEnablePeerAccess, 300));
    return 0;
}
