/* second FIRST SECOND: opens two drivers, one beside the other, and calls both by handle and by
 * cuGetProcAddress. Expects each call to reach the driver that it was found in; the second driver's are
 * not cupeer's to log. */
#include "common.h"

typedef CUresult (*five)(const char *, void **, int, uint64_t, int *);

int main(int argc, char **argv) {
    CHECK(argc == 3);
    static const unsigned bases[] = {100, ESCAPES};
    void *drivers[2];
    for (int round = 0; round < 2; round++)
        for (int d = 0; d < 2; d++) {
            unsigned base = bases[d] + 100 * round;
            drivers[d] = must_open(argv[d + 1], RTLD_NOW);
            printf("driver %d: %d\n", d, call_all(dlsym, drivers[d], base));
            five get = (five)dlsym(drivers[d], "cuGetProcAddress_v2");
            void *pfn = NULL;
            CHECK(get != NULL && get("cuIpcGetMemHandle", &pfn, 12000, 0, NULL) == 0);
            printf("looked up: %d, the same: %d\n", call(F_cuIpcGetMemHandle, pfn, base + 50),
                   pfn == dlsym(drivers[d], "cuIpcGetMemHandle"));
            print_home("cuDriverGetVersion", dlsym(drivers[d], "cuDriverGetVersion"));
        }
    printf("two: %d\n", drivers[0] != drivers[1]);
    return 0;
}
