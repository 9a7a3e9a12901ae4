// Allocates, exports, maps, and unmaps, and never releases the handle of the allocation.
#include "../job.h"
#define N 40
int main(void) {
  const size_t size = 2 << 20;
  start(0);
  CUmemAllocationProp prop = {.type = 1, .handles = FD, .location = {1, 0}};
  for (int i = 0; i < N; i++) {
    CUmemH m; CUdeviceptr a; int fd;
    CK(cuMemCreate(&m, size, &prop, 0));
    CK(cuMemExportToShareableHandle(&fd, m, FD, 0));
    CK(cuMemAddressReserve(&a, size, 0, 0, 0));
    CK(cuMemMap(a, size, 0, m, 0));
    CK(cuMemUnmap(a, size));
    CK(cuMemAddressFree(a, size));
    close(fd);
  }
  return 0;
}
