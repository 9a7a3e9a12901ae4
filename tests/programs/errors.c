/* What a program reads after a call: errno, and the message of an earlier dlsym that failed. Expects both to
 * be what they were, on the first call and on later ones, after success and after failure. */
#include "calls.h"

static void check(const char *when, unsigned mark) {
    errno = 1234;
    int r = CALL_MARKED(cuIpcOpenMemHandle_v2, mark);
    printf("%s: %d, errno %d\n", when, r, errno);
    CHECK(dlsym(RTLD_DEFAULT, "no_such_name") == NULL);
    void *function = DRIVER_FUNCTION(cuCtxEnablePeerAccess);
    CHECK(dlsym(RTLD_DEFAULT, "no_such_name") == NULL);
    errno = 4321;
    r = call(F_cuCtxEnablePeerAccess, function, mark + 1);
    printf("%s: %d, errno %d\n", when, r, errno);
    print_dlerror("message");
    print_dlerror("message, read");
}

static void *thread(void *unused) {
    check("thread's first call", 300);
    return unused;
}

int main(void) {
    check("first call", 100);
    check("later call", 200);
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    check("failing call", FAILS + 1);
    /* Every function, whatever of its arguments cannot be read, or is a descriptor that is none. */
#define X(name, ...)                                                                                          \
    errno = 99;                                                                                               \
    CALL_MARKED(name, 40000 + F_##name);                                                                      \
    CHECK(errno == 99);
    DRIVER_TABLE(X)
#undef X
    void *driver = must_open("libcuda.so.1", RTLD_NOW);
    errno = 55;
    CHECK(dlsym(driver, "cuIpcGetMemHandle") && errno == 55);
    CHECK(dlsym(driver, "cuDriverGetVersion") && errno == 55);
    /* A look-up that succeeds leaves an earlier message or clears it, as the C library does. */
    CHECK(dlsym(driver, "no_such_name") == NULL);
    CHECK(dlsym(driver, "cuIpcGetMemHandle") != NULL);
    print_dlerror("after a look-up that succeeded");
    CHECK(dlsym(driver, "no_such_name") == NULL);
    print_dlerror("handle");
    CHECK(dlsym(RTLD_DEFAULT, "no_such_name") == NULL);
    print_dlerror("RTLD_DEFAULT");
    CHECK(dlsym(RTLD_NEXT, "no_such_name") == NULL);
    print_dlerror("RTLD_NEXT");
    CHECK(dlsym(dlopen(NULL, RTLD_NOW), "no_such_name") == NULL);
    print_dlerror("dlopen(NULL)");
    CHECK(dlsym((void *)must_open("libcuda.so.1", RTLD_NOW), "") == NULL);
    print_dlerror("empty name");
    return 0;
}
