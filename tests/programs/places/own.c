/* Small static functions that -O2 makes part of their callers. */
#include "job.h"
#include <cuda.h>
#define CU(x) do { CUresult r = (x); if (r) fprintf(stderr, "%s:%d: error %d\n", __FILE__, __LINE__, (int)r); } while (0)
typedef struct { CUmemGenericAllocationHandle h; CUdeviceptr at; size_t n; int mapped; } segment;

static void seg_create(segment *s, size_t n) {
  CUmemAllocationProp p = {0};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  s->n = n;
  CU(cuMemCreate(&s->h, n, &p, 0));
}
static void seg_map(segment *s) {
  CUmemAccessDesc a = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CU(cuMemAddressReserve(&s->at, s->n, 0, 0, 0));
  CU(cuMemMap(s->at, s->n, 0, s->h, 0));
  CU(cuMemSetAccess(s->at, s->n, &a, 1));
  CU(cuMemRelease(s->h));
  s->mapped = 1;
}
static void seg_unmap(segment *s) {
  CU(cuMemUnmap(s->at, s->n));
  CU(cuMemAddressFree(s->at, s->n));
  s->mapped = 0;
}
static void seg_destroy(segment *s) {
  if (s->mapped) seg_unmap(s);
  CU(cuMemRelease(s->h)); /*@*/
}
int main(void) {
  segment s = {0};
  CUdevice d;
  CUcontext c;
  int fd;
  CU(cuInit(0));
  CU(cuDeviceGet(&d, 0));
  CU(cuDevicePrimaryCtxRetain(&c, d));
  CU(cuCtxSetCurrent(c));
  seg_create(&s, 2 << 20);
  CU(cuMemExportToShareableHandle(&fd, s.h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  seg_map(&s);
  CU(cuMemsetD8(s.at, 1, s.n));
  close(fd);
  seg_destroy(&s);
  return 0;
}
