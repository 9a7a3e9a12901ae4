// https://github.com/openucx/ucx/pull/10082 (pool pointers)
// Pool: the exporter allocates a second block but sends the export data of the first one again.
#include "../job.h"
#define N 65536
int main(void) {
  int sv[2]; char c;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) return 9;
  if (fork() == 0) {
    CUmemoryPool pool; CUmemPoolPtrExportData d; CUstream s; int bad = 0;
    start(0);
    CK(cuStreamCreate(&s, 0));
    int fd = recvfd(sv[1]);
    CK(cuMemPoolImportFromShareableHandle(&pool, (void *)(long)fd, FD, 0));
    close(fd);
    for (int i = 0; i < 2; i++) {
      CUdeviceptr p; unsigned char v;
      get(sv[1], &d, sizeof d);
      CK(cuMemPoolImportPointer(&p, pool, &d));
      CK(cuMemcpyDtoHAsync_v2(&v, p, 1, s));
      CK(cuStreamSynchronize(s));
      if (v != 0xA0 + i) fprintf(stderr, "batch %d holds 0x%x\n", i, v), bad = 1;
      CK(cuMemFreeAsync(p, s));
      CK(cuStreamSynchronize(s));
      put(sv[1], "k", 1);
    }
    CK(cuMemPoolDestroy(pool));
    return bad;
  }
  CUmemPoolProps props = {.type = 1, .handles = FD, .location = {1, 0}};
  CUmemoryPool pool; CUmemPoolPtrExportData d; CUstream s; CUdeviceptr b[2]; int fd;
  start(0);
  CK(cuStreamCreate(&s, 0));
  CK(cuMemPoolCreate(&pool, &props));
  CK(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
  sendfd(sv[0], fd);
  for (int i = 0; i < 2; i++) {
    CK(cuMemAllocFromPoolAsync(&b[i], N, pool, s));
    CK(cuMemsetD8Async(b[i], 0xA0 + i, N, s));
    CK(cuStreamSynchronize(s));
    if (i == 0) CK(cuMemPoolExportPointer(&d, b[i])); /* wrong: only once */
    put(sv[0], &d, sizeof d);
    get(sv[0], &c, 1);
  }
  int bad = reap();
  for (int i = 0; i < 2; i++) CK(cuMemFreeAsync(b[i], s));
  CK(cuStreamSynchronize(s));
  CK(cuMemPoolDestroy(pool));
  close(fd);
  return bad;
}
