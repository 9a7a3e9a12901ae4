// Asks for a fabric handle first; where that is not to be had it falls back to a file descriptor (as NCCL does).
#include "../job.h"
enum { FABRIC = 8 };
int main(void) {
  int sv[2]; char c;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) return 9;
  pid_t child = fork();
  CUmemAllocationProp prop = {.type = 1, .handles = FABRIC, .location = {1, 0}};
  CUmemAccessDesc acc = {{1, 0}, 3};
  size_t g = 2 << 20; CUmemH m; CUdeviceptr p; unsigned char v; int fd, type = FABRIC; char fabric[64];
  start(0);
  CK(cuMemAddressReserve(&p, g, 0, 0, 0));
  if (child) {
    int e = cuMemCreate(&m, g, &prop, 0);
    if (!e && (e = cuMemExportToShareableHandle(fabric, m, FABRIC, 0))) CK(cuMemRelease(m));
    if (e) { type = prop.handles = FD; CK(cuMemCreate(&m, g, &prop, 0)); CK(cuMemExportToShareableHandle(&fd, m, FD, 0)); }
    CK(cuMemMap(p, g, 0, m, 0));
    CK(cuMemSetAccess(p, g, &acc, 1));
    CK(cuMemsetD8_v2(p, 13, g));
    CK(cuCtxSynchronize());
    put(sv[0], &type, sizeof type);
    if (type == FD) { sendfd(sv[0], fd); close(fd); } else put(sv[0], fabric, sizeof fabric);
    get(sv[0], &c, 1);
  } else {
    get(sv[1], &type, sizeof type);
    if (type == FD) { fd = recvfd(sv[1]); CK(cuMemImportFromShareableHandle(&m, (void *)(long)fd, FD)); close(fd); }
    else { get(sv[1], fabric, sizeof fabric); CK(cuMemImportFromShareableHandle(&m, fabric, FABRIC)); }
    CK(cuMemMap(p, g, 0, m, 0));
    CK(cuMemSetAccess(p, g, &acc, 1));
    CK(cuMemcpyDtoH_v2(&v, p, 1));
  }
  CK(cuMemUnmap(p, g));
  CK(cuMemRelease(m));
  CK(cuMemAddressFree(p, g));
  if (child) return reap();
  put(sv[1], "k", 1);
  return v != 13;
}
