/* headline HOW: ends in a way that no rule explains, or well. */
#include "rules/memory.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    start(0);
    OK(cuMemRelease(create(DESCRIPTOR)));
    if (strcmp(argv[1], "call") == 0) {
        CUdeviceptr range;
        CHECK(cuMemAddressReserve(&range, (size_t)1 << 50, 0, 0, 0) == 2);
    }
    if (strcmp(argv[1], "signal") == 0) abort();
    return strcmp(argv[1], "status") == 0 ? 3 : 0;
}
