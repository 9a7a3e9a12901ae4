// Pool with exported pointers; the importer frees its pointers first, then the exporter.
#include "../job.h"
#define N 70000
int main(void) {
  int sv[2]; char c; CUmemoryPool pool; CUmemPoolPtrExportData d; CUstream s; CUdeviceptr b[3]; unsigned char v;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) return 9;
  if (fork() == 0) {
    int bad = 0, fd;
    start(0);
    CK(cuStreamCreate(&s, 0));
    fd = recvfd(sv[1]);
    CK(cuMemPoolImportFromShareableHandle(&pool, (void *)(long)fd, FD, 0));
    close(fd);
    for (int i = 0; i < 3; i++) {
      get(sv[1], &d, sizeof d);
      CK(cuMemPoolImportPointer(&b[i], pool, &d));
      CK(cuMemcpyDtoHAsync_v2(&v, b[i] + N - 1, 1, s));
      CK(cuStreamSynchronize(s));
      bad |= v != i + 1;
    }
    for (int i = 2; i >= 0; i--) CK(cuMemFreeAsync(b[i], s));
    CK(cuStreamSynchronize(s));
    CK(cuMemPoolDestroy(pool));
    put(sv[1], "k", 1);
    return bad;
  }
  CUmemPoolProps props = {.type = 1, .handles = FD, .location = {1, 0}}; int fd;
  start(0);
  CK(cuStreamCreate(&s, 0));
  CK(cuMemPoolCreate(&pool, &props));
  CK(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
  sendfd(sv[0], fd);
  close(fd);
  for (int i = 0; i < 3; i++) {
    CK(cuMemAllocFromPoolAsync(&b[i], N, pool, s));
    CK(cuMemsetD8Async(b[i], i + 1, N, s));
    CK(cuStreamSynchronize(s));
    CK(cuMemPoolExportPointer(&d, b[i]));
    put(sv[0], &d, sizeof d);
  }
  get(sv[0], &c, 1);
  for (int i = 0; i < 3; i++) CK(cuMemFreeAsync(b[i], s));
  CK(cuStreamSynchronize(s));
  CK(cuMemPoolDestroy(pool));
  return reap();
}
