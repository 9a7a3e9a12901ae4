// VMM; both sides release the handle as soon as it is mapped and close the descriptor as soon as it is imported.
#include "../job.h"
int main(void) {
  int sv[2], fd; char c;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) return 9;
  pid_t child = fork();
  CUmemAllocationProp prop = {.type = 1, .handles = FD, .location = {1, 0}};
  CUmemAccessDesc acc = {{1, 0}, 3};
  size_t g; CUmemH m; CUdeviceptr p; unsigned char v;
  start(0);
  CK(cuMemGetAllocationGranularity(&g, &prop, 1));
  CK(cuMemAddressReserve(&p, g, 0, 0, 0));
  if (child) {
    CK(cuMemCreate(&m, g, &prop, 0));
    CK(cuMemExportToShareableHandle(&fd, m, FD, 0));
  } else {
    fd = recvfd(sv[1]);
    CK(cuMemImportFromShareableHandle(&m, (void *)(long)fd, FD));
    close(fd);
  }
  CK(cuMemMap(p, g, 0, m, 0));
  CK(cuMemRelease(m));
  CK(cuMemSetAccess(p, g, &acc, 1));
  if (child) {
    CK(cuMemsetD8_v2(p, 88, g));
    CK(cuCtxSynchronize());
    sendfd(sv[0], fd);
    close(fd);
    CK(cuMemUnmap(p, g)); /* the importer's mapping keeps the memory */
    CK(cuMemAddressFree(p, g));
    get(sv[0], &c, 1);
    return reap();
  }
  CK(cuMemcpyDtoH_v2(&v, p + g - 1, 1));
  CK(cuMemUnmap(p, g));
  CK(cuMemAddressFree(p, g));
  put(sv[1], "k", 1);
  return v != 88;
}
