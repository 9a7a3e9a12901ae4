/* closed [OTHER]: opens the driver, calls, closes it, opens it again and calls: three times, the last time with
 * OTHER in its place where one is given, and with the driver's old place taken by another mapping. Expects
 * every call to reach the driver that was opened. OTHER is a second driver to cupeer, which has the first
 * one held, because it handed out pointers that lead there. */
#include "common.h"
#include <sys/mman.h>

int main(int argc, char **argv) {
    for (unsigned round = 1; round <= 3; round++) {
        void *driver = must_open(round == 3 && argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW);
        void **get = (void **)dlsym(driver, "cuGetProcAddress");
        CHECK(get != NULL);
        unsigned base = round == 3 && argc > 1 ? ESCAPES : 100 * round;
        printf("round %u: %d\n", round, call_all(dlsym, driver, base));
        void *pfn = NULL;
        CHECK(((CUresult(*)(const char *, void **, int, uint64_t))get)("cuIpcGetMemHandle", &pfn, 11000, 0) == 0);
        printf("looked up: %d\n", call(F_cuIpcGetMemHandle, pfn, base + 50));
        print_home("cuDriverGetVersion", dlsym(driver, "cuDriverGetVersion"));
        printf("closed: %d\n", dlclose(driver));
        printf("missing now: %d\n", dlsym(RTLD_DEFAULT, "cuIpcGetMemHandle") == NULL);
        print_dlerror("message");
        if (round == 2) mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    return 0;
}
