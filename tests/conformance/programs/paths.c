// A device without a path to the memory cannot be given access to it; what else is asked for is not done either.
#include "vmm.h"

int main(void) {
    Allocation h;
    unsigned long long flags = 9;
    Location first = {1, 0};
    start(0);
    IS(create(&h, 0, GRANULE), 0);
    CUdeviceptr at = 0;
    IS(cuMemAddressReserve(&at, GRANULE, 0, 0, 0), 0);
    IS(cuMemMap(at, GRANULE, 0, h, 0), 0);
    Access both[2] = {{{1, 0}, 3}, {{1, 1}, 3}};
    IS(cuMemSetAccess(at, GRANULE, both, 2), 101);
    IS(cuMemGetAccess(&flags, &first, at), 0);
    IS(flags, 0);
    both[1].flags = 0; // to take what it has not is no error
    IS(cuMemSetAccess(at, GRANULE, both, 2), 0);
    IS(cuMemGetAccess(&flags, &first, at), 0);
    IS(flags, 3);
    return 0;
}
