/* churn LIBRARY...: four threads open the libraries, call what they export as `plugin`, and close them again, at
 * the same time. Expects every call to reach the driver, or the library's own function, once. */
#include "common.h"

static char **libraries;
static int count;

static void *work(void *argument) {
    unsigned base = (unsigned)(uintptr_t)argument;
    for (int i = 0; i < 50; i++) {
        void *library = must_open(libraries[i % count], RTLD_NOW | RTLD_LOCAL);
        int (*plugin)(unsigned) = (int (*)(unsigned))dlsym(library, "plugin");
        CHECK(plugin && plugin(base + 20 * (unsigned)i) == FUNCTIONS);
        dlclose(library);
    }
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc > 2);
    libraries = argv + 2;
    count = argc - 2;
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, (void *)((uintptr_t)atoi(argv[1]) + 1000 * i));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
